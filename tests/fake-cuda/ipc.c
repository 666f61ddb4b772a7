/*
 * Memory of cuMemAlloc in other processes. A handle names a descriptor of the process that made it; a process opens it
 * once for a context, and further opens of it count. As observed, a process cannot open a handle of its own.
 */
#include "tests/fake-cuda/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct ipc_handle {
    char magic[16];
    int process, fd, device;
    uint64_t id, bytes;
};

struct ipc_opened {
    struct ipc_opened *next;
    struct ipc_handle handle;
    CUcontext context;
    uint64_t address;
    unsigned references;
};

static const char ipc_magic[16] = "fake-cuda ipc";
static struct ipc_opened *ipc_all;

_Static_assert(sizeof(struct ipc_handle) <= sizeof(CUipcMemHandle), "a handle has room for it");

/* An address within a block stands for the block. */
static CUresult
do_cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr address)
{
    struct ipc_handle handle = { 0 };
    struct fake_place place;
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (out == NULL || !fake_place_find(address, &place) || place.kind != FAKE_DEVICE || place.pool != NULL ||
        place.mapping != NULL || place.of_graph || place.borrowed)
        return CUDA_ERROR_INVALID_VALUE;
    fake_wait_context(place.context);
    memcpy(handle.magic, ipc_magic, sizeof(handle.magic));
    handle.process = (int)getpid();
    handle.fd = fake_memory_share(place.start);
    handle.device = place.device;
    handle.id = place.id;
    handle.bytes = place.bytes;
    if (handle.fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    memset(out, 0, sizeof(*out));
    memcpy(out, &handle, sizeof(handle));
    return CUDA_SUCCESS;
}

FAKE_API(4010, cuIpcGetMemHandle, (CUipcMemHandle * out, CUdeviceptr address), (out, address))

static struct ipc_opened *
ipc_find(CUcontext context, const struct ipc_handle *handle)
{
    struct ipc_opened *opened = ipc_all;

    while (opened != NULL && (opened->context != context || memcmp(&opened->handle, handle, sizeof(*handle)) != 0))
        opened = opened->next;
    return opened;
}

static void *
ipc_map(const struct ipc_handle *handle)
{
    char path[64];
    void *address;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->process, handle->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return MAP_FAILED;
    address = mmap(NULL, handle->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return address;
}

static CUresult
do_cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle shared, unsigned int flags)
{
    struct ipc_handle handle;
    struct ipc_opened *opened;
    void *address;
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    memcpy(&handle, &shared, sizeof(handle));
    if (out == NULL || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
        memcmp(handle.magic, ipc_magic, sizeof(handle.magic)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.process == (int)getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    opened = ipc_find(context, &handle);
    if (opened == NULL) {
        address = ipc_map(&handle);
        if (address == MAP_FAILED)
            return CUDA_ERROR_INVALID_HANDLE;
        opened = calloc(1, sizeof(*opened));
        if (opened == NULL)
            abort();
        *opened = (struct ipc_opened){
            .next = ipc_all, .handle = handle, .context = context, .address = (uint64_t)(uintptr_t)address
        };
        ipc_all = opened;
        fake_memory_borrow(context, address, handle.bytes, FAKE_DEVICE);
    }
    opened->references++;
    *out = opened->address;
    return CUDA_SUCCESS;
}

FAKE_API(11000, cuIpcOpenMemHandle, (CUdeviceptr * out, CUipcMemHandle shared, unsigned int flags),
         (out, shared, flags))

static void
ipc_remove(struct ipc_opened **link)
{
    struct ipc_opened *opened = *link;

    *link = opened->next;
    fake_memory_forget(opened->address);
    munmap((void *)(uintptr_t)opened->address, opened->handle.bytes);
    free(opened);
}

static CUresult
do_cuIpcCloseMemHandle(CUdeviceptr address)
{
    struct ipc_opened **link = &ipc_all;

    while (*link != NULL && (*link)->address != address)
        link = &(*link)->next;
    if (*link == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (--(*link)->references == 0) {
        fake_wait_context((*link)->context);
        ipc_remove(link);
    }
    return CUDA_SUCCESS;
}

FAKE_API(4010, cuIpcCloseMemHandle, (CUdeviceptr address), (address))

void
fake_ipc_end(CUcontext context)
{
    struct ipc_opened **link = &ipc_all;

    while (*link != NULL) {
        if ((*link)->context == context)
            ipc_remove(link);
        else
            link = &(*link)->next;
    }
}
