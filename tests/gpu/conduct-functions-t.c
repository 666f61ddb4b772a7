/*
 * Tests the driver's functions that make memory in other ways than the library does, and how functions are found: what
 * wraps the functions of a program has to know them all. What was not observed on a GPU is as its manual has it.
 */
#include "tests/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/call.h"
#include "tests/gpu/lock.h"

#ifdef HAVE_CUDA_H

#define MIB ((size_t)1 << 20)

typedef CUresult(CUDAAPI *first_lookup)(const char *, void **, int, cuuint64_t);

static CUcontext primary;

static void *
found(const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult how;
    void *address = NULL;

    if (CU(cuGetProcAddress)(name, &address, version, flags, &how) != CUDA_SUCCESS)
        address = NULL;
    return address;
}

static void
test_lookup(void)
{
    first_lookup first = (first_lookup)call_symbol("cuGetProcAddress");
    CUdriverProcAddressQueryResult how = CU_GET_PROC_ADDRESS_SUCCESS;
    void *address = &how, *other = NULL;

    ok(found("cuMemAlloc", 13000, 0) == call_symbol("cuMemAlloc_v2"), "a name and a version have an exported address");
    ok(found("cuMemAlloc", 3020, 0) == call_symbol("cuMemAlloc_v2"), "the version of the signature is enough");
    ok(found("cuMemAlloc", 2000, 0) == call_symbol("cuMemAlloc"), "an older version has the older function");
    ok(found("cuMemAllocAsync", 13000, 0) == call_symbol("cuMemAllocAsync"), "flags 0 mean the legacy default stream");
    ok(found("cuMemAllocAsync", 13000, 1) == call_symbol("cuMemAllocAsync"),
       "the flag 1 means the legacy default stream");
    ok(found("cuMemAllocAsync", 13000, 2) == call_symbol("cuMemAllocAsync_ptsz"),
       "the flag 2 has the variant for the thread's default stream");
    ok(found("cuMemcpyDtoH", 13000, 2) == call_symbol("cuMemcpyDtoH_v2_ptds"),
       "the variant of a function without a stream in its parameters is _ptds");
    ok(found("cuMemAlloc", 13000, 2) == call_symbol("cuMemAlloc_v2"),
       "what has no variant for the thread's default stream is the function itself");
    ok(found("cuStreamBeginCapture", 10010, 2) == call_symbol("cuStreamBeginCapture_v2_ptsz"),
       "a version of a function has a variant, too");
    CU(cuGetProcAddress)("cuNoSuchFunction", &address, 13000, 0, &how);
    ok(all_of(address == NULL, how == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND), "an unknown name is said to be unknown");
    address = &how;
    CU(cuGetProcAddress)("cuMemAllocAsync", &address, 11000, 0, &how);
    ok(all_of(address == NULL, how == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT),
       "a version before the function is said to be insufficient");
    address = &how;
    CU(cuGetProcAddress)("", &address, 0, 0, NULL);
    ok(address == NULL, "an empty name is no function, and the answer needs no status");
    CU(cuGetProcAddress)("cuGetProcAddress", &address, 12000, 0, NULL);
    CU(cuGetProcAddress)("cuGetProcAddress", &other, 11030, 0, NULL);
    ok(all_of(address == call_symbol("cuGetProcAddress_v2"), other == call_symbol("cuGetProcAddress")),
       "the look-up finds itself in both versions");
    address = NULL;
    ok(all_of(first("cuMemAllocAsync", &address, 11030, 2) == CUDA_SUCCESS,
              address == call_symbol("cuMemAllocAsync_ptsz")),
       "the first version of the look-up knows versions and flags");
}

static void
test_default_stream(void)
{
    CUresult(CUDAAPI * allocate)(CUdeviceptr *, size_t, CUstream);
    CUresult(CUDAAPI * id_of)(CUstream, unsigned long long *);
    unsigned long long legacy = 0, own = 0, named = 1;
    CUdeviceptr address = 0;
    void *symbol = call_symbol("cuMemAllocAsync_ptsz");

    memcpy(&allocate, &symbol, sizeof(allocate));
    symbol = call_symbol("cuStreamGetId_ptsz");
    memcpy(&id_of, &symbol, sizeof(id_of));
    MUST(cuStreamGetId, NULL, &legacy);
    must(id_of(NULL, &own), "cuStreamGetId_ptsz");
    MUST(cuStreamGetId, CU_STREAM_PER_THREAD, &named);
    ok(all_of(own != legacy, own == named), "in a _ptsz function stream 0 is the thread's");
    must(allocate(&address, MIB, NULL), "cuMemAllocAsync_ptsz");
    MUST(cuStreamSynchronize, CU_STREAM_PER_THREAD);
    is_result(CU(cuMemFree)(address), CUDA_SUCCESS, "a _ptsz function allocates");
}

static void
test_pitch(void)
{
    CUdeviceptr address = 0, start = 0;
    size_t pitch = 0, bytes = 0;

    is_result(CU(cuMemAllocPitch)(&address, &pitch, 1000, 10, 4), CUDA_SUCCESS, "rows are allocated");
    MUST(cuMemGetAddressRange, &start, &bytes, address);
    ok(all_of(pitch >= 1000, pitch % 4 == 0, start == address, bytes == pitch * 10),
       "the driver chooses the pitch, and the block has pitch times height bytes");
    is_result(CU(cuMemAllocPitch)(&start, &pitch, 1000, 10, 3), CUDA_ERROR_INVALID_VALUE,
              "the elements of rows have 4, 8 or 16 bytes");
    is_result(CU(cuMemAllocPitch)(&start, &pitch, 0, 10, 4), CUDA_ERROR_INVALID_VALUE,
              "rows without bytes are refused");
    MUST(cuMemFree, address);
}

static void
test_pinned(void)
{
    void *own = NULL, *page = aligned_alloc(4096, 4 * 4096);
    CUdeviceptr address = 0;

    MUST(cuMemAllocHost, &own, MIB);
    is_result(CU(cuMemHostUnregister)(own), CUDA_ERROR_INVALID_VALUE,
              "pinned memory of the driver cannot be unregistered");
    is_result(CU(cuMemHostRegister)(page, 2 * 4096, 0), CUDA_SUCCESS, "memory of the program is registered");
    is_result(CU(cuMemHostRegister)(page, 4096, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
              "memory that is registered is not registered again");
    MUST(cuMemHostGetDevicePointer, &address, page, 0);
    is_result(CU(cuMemFreeHost)(page), CUDA_ERROR_INVALID_VALUE,
              "registered memory is not freed as the driver's pinned memory is");
    is_result(CU(cuMemHostUnregister)(page), CUDA_SUCCESS, "registered memory is unregistered");
    is_result(CU(cuMemHostUnregister)(page), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "memory is unregistered once");
    MUST(cuMemFreeHost, own);
    free(page);
}

static size_t
device_free_bytes(void)
{
    size_t free_bytes = 0;

    MUST(cuMemGetInfo, &free_bytes, NULL);
    return free_bytes;
}

static void
test_arrays(void)
{
    CUDA_ARRAY_DESCRIPTOR flat = { .Width = 2048, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4 };
    CUDA_ARRAY3D_DESCRIPTOR deep = { .Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4 };
    CUDA_ARRAY3D_DESCRIPTOR seen = { 0 };
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs = { 0 };
    CUarray array = NULL, deferred = NULL, level = NULL;
    CUmipmappedArray mipmap = NULL;
    size_t before = device_free_bytes();

    MUST(cuArrayCreate, &array, &flat);
    MUST(cuArray3DGetDescriptor, &seen, array);
    ok(before - device_free_bytes() >= 128 * MIB, "an array takes at least the bytes of its elements from the device");
    ok(all_of(seen.Width == 2048, seen.Height == 4096, seen.Depth == 0, seen.NumChannels == 4),
       "an array is described as it was created");
    is_result(CU(cuArrayGetMemoryRequirements)(&needs, array, 0), CUDA_ERROR_INVALID_VALUE,
              "memory requirements are told of no array that has its memory");
    deep.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
    MUST(cuArray3DCreate, &deferred, &deep);
    is_result(CU(cuArrayGetMemoryRequirements)(&needs, deferred, 0), CUDA_SUCCESS,
              "memory requirements are told of an array with deferred mapping");
    ok(all_of(needs.size >= 16 * MIB, needs.alignment > 0),
       "the memory requirements are at least the bytes of the elements");
    deep.Flags = 0;
    MUST(cuMipmappedArrayCreate, &mipmap, &deep, 3);
    MUST(cuMipmappedArrayGetLevel, &level, mipmap, 2);
    MUST(cuArray3DGetDescriptor, &seen, level);
    ok(all_of(seen.Width == 256, seen.Height == 256),
       "each level of a mipmapped array has half the width of the one before");
    is_result(CU(cuMipmappedArrayGetLevel)(&level, mipmap, 3), CUDA_ERROR_INVALID_VALUE,
              "a mipmapped array has no more levels than it was created with");
    deep.NumChannels = 3;
    is_result(CU(cuArray3DCreate)(&level, &deep), CUDA_ERROR_INVALID_VALUE,
              "the elements of arrays have 1, 2 or 4 channels");
    MUST(cuMipmappedArrayDestroy, mipmap);
    MUST(cuArrayDestroy, deferred);
    MUST(cuArrayDestroy, array);
    ok(device_free_bytes() >= before - 4 * MIB, "destroyed arrays give their memory back");
}

/* The other process: opens the handle of its argument, twice, and writes. */
static int
opened(const char *text)
{
    CUipcMemHandle handle;
    CUdeviceptr address = 0, again = 0;

    for (size_t i = 0; i < sizeof(handle); i++) {
        unsigned byte = 0;

        sscanf(text + 2 * i, "%2x", &byte);
        handle.reserved[i] = (char)byte;
    }
    MUST(cuIpcOpenMemHandle, &address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    MUST(cuIpcOpenMemHandle, &again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (again != address || CU(cuMemFree)(address) != CUDA_ERROR_INVALID_VALUE)
        return 1;
    MUST(cuMemsetD32, address, 42, 4);
    MUST(cuCtxSynchronize);
    MUST(cuIpcCloseMemHandle, address);
    MUST(cuIpcCloseMemHandle, again);
    return CU(cuIpcCloseMemHandle)(address) == CUDA_SUCCESS;
}

static bool
other_opens(const CUipcMemHandle *handle)
{
    char text[2 * sizeof(*handle) + 1], self[4096] = "";
    int status = -1;
    pid_t child;

    for (size_t i = 0; i < sizeof(*handle); i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)handle->reserved[i]);
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return false;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl(self, self, text, (char *)NULL);
        _exit(99);
    }
    return waitpid(child, &status, 0) == child && status == 0;
}

static void
test_ipc(void)
{
    CUipcMemHandle handle;
    CUdeviceptr address = 0, pooled = 0, unused = 0;
    unsigned seen[4] = { 0 };

    MUST(cuMemAlloc, &address, MIB);
    MUST(cuMemAllocAsync, &pooled, MIB, NULL);
    is_result(CU(cuIpcGetMemHandle)(&handle, pooled), CUDA_ERROR_INVALID_VALUE, "memory of a pool has no handle");
    is_result(CU(cuIpcGetMemHandle)(&handle, address), CUDA_SUCCESS, "memory of cuMemAlloc has a handle");
    is_result(CU(cuIpcOpenMemHandle)(&unused, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT,
              "the process that made a handle of memory cannot open it");
    ok(other_opens(&handle), "another process opens the memory, closes it as often, and cannot free it");
    MUST(cuMemcpyDtoH, seen, address, sizeof(seen));
    ok(all_of(seen[0] == 42, seen[3] == 42), "what another process writes into the memory is there");
    MUST(cuMemFreeAsync, pooled, NULL);
    MUST(cuMemFree, address);
}

static void
test_pools(void)
{
    CUmemLocation device = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = device };
    CUmemoryPool pool = NULL, seen = NULL, standard = NULL;

    MUST(cuMemGetDefaultMemPool, &standard, &device, CU_MEM_ALLOCATION_TYPE_PINNED);
    MUST(cuDeviceGetDefaultMemPool, &seen, 0);
    ok(seen == standard, "the default pool of a device's location is the device's");
    MUST(cuMemPoolCreate, &pool, &properties);
    MUST(cuMemSetMemPool, &device, CU_MEM_ALLOCATION_TYPE_PINNED, pool);
    MUST(cuDeviceGetMemPool, &seen, 0);
    ok(seen == pool, "the pool set for the location is the device's");
    MUST(cuMemSetMemPool, &device, CU_MEM_ALLOCATION_TYPE_PINNED, standard);
    MUST(cuMemGetMemPool, &seen, &device, CU_MEM_ALLOCATION_TYPE_PINNED);
    ok(seen == standard, "the default pool can be set again");
    MUST(cuMemPoolDestroy, pool);
}

static void
test_graph_nodes(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                             .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } },
                                              .bytesize = MIB };
    CUDA_MEM_ALLOC_NODE_PARAMS seen = { 0 };
    CUgraphNode allocation = NULL, release = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    cuuint64_t reserved_bytes = 0;
    size_t count = 0;

    MUST(cuGraphCreate, &graph, 0);
    is_result(CU(cuGraphAddMemAllocNode)(&allocation, graph, NULL, 0, &parameters), CUDA_SUCCESS,
              "a node allocates memory");
    is_result(CU(cuGraphAddMemFreeNode)(&release, graph, &allocation, 1, parameters.dptr), CUDA_SUCCESS,
              "a node frees the memory of another one");
    is_result(CU(cuGraphAddMemFreeNode)(&release, graph, &allocation, 1, parameters.dptr), CUDA_ERROR_INVALID_VALUE,
              "the memory of a node is freed by one node alone");
    MUST(cuGraphMemAllocNodeGetParams, allocation, &seen);
    ok(all_of(seen.dptr == parameters.dptr, seen.bytesize == MIB), "an allocating node tells its address and bytes");
    MUST(cuGraphGetNodes, graph, NULL, &count);
    ok(count == 2, "the graph of an allocation and a free has two nodes");
    MUST(cuGraphInstantiate, &exec, graph, 0);
    is_result(CU(cuGraphLaunch)(exec, NULL), CUDA_SUCCESS, "a graph of nodes of memory is launched");
    MUST(cuCtxSynchronize);
    MUST(cuDeviceGetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved_bytes);
    ok(reserved_bytes >= MIB, "the device keeps the memory of graphs");
    is_result(CU(cuGraphLaunch)(exec, NULL), CUDA_SUCCESS, "a graph that frees its memory is launched again");
    MUST(cuCtxSynchronize);
    MUST(cuGraphExecDestroy, exec);
    MUST(cuGraphDestroy, graph);
    MUST(cuDeviceGraphMemTrim, 0);
}

static void
test_handles(void)
{
    CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    CUmemAllocationProp seen = { 0 };
    CUmemGenericAllocationHandle handle = 0, again = 0;
    CUdeviceptr address = 0;
    size_t before = device_free_bytes();

    MUST(cuMemCreate, &handle, 2 * MIB, &properties, 0);
    MUST(cuMemAddressReserve, &address, 2 * MIB, 0, 0, 0);
    MUST(cuMemMap, address, 2 * MIB, 0, handle, 0);
    MUST(cuMemRelease, handle);
    ok(before - device_free_bytes() >= 2 * MIB, "a released handle has its memory while it is mapped");
    is_result(CU(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)address), CUDA_SUCCESS,
              "the handle of a mapping can be retained");
    MUST(cuMemGetAllocationPropertiesFromHandle, &seen, again);
    ok(all_of(seen.location.type == CU_MEM_LOCATION_TYPE_DEVICE, seen.location.id == 0),
       "a handle tells where it lies");
    MUST(cuMemUnmap, address, 2 * MIB);
    MUST(cuMemRelease, again);
    MUST(cuMemAddressFree, address, 2 * MIB);
    before = device_free_bytes();
    properties.location = (CUmemLocation){ CU_MEM_LOCATION_TYPE_HOST_NUMA, 0 };
    is_result(CU(cuMemCreate)(&handle, 64 * MIB, &properties, 0), CUDA_SUCCESS, "a handle may lie on the host");
    ok(before - device_free_bytes() < 64 * MIB, "a handle on the host takes nothing of the device");
    MUST(cuMemRelease, handle);
}

int
main(int argc, char **argv)
{
    const char *reason;

    if (argc == 1)
        gpu_lock(true);
    reason = gpu_open();
    if (argc == 1 && reason != NULL)
        skip_all(reason);
    MUST(cuDevicePrimaryCtxRetain, &primary, 0);
    MUST(cuCtxSetCurrent, primary);
    if (argc == 2)
        return opened(argv[1]);
    gpu_skip_sanitized("no test of ours, but of the driver, which conducts itself otherwise under compute-sanitizer");
    plan(56);
    gpu_diag();
    test_lookup();
    test_default_stream();
    test_pitch();
    test_pinned();
    test_arrays();
    test_ipc();
    test_pools();
    test_graph_nodes();
    test_handles();
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
