/* The CUDA driver for tests, and a kernel that holds a stream back. */
#include "tests/gpu/gpu.h"

#ifdef HAVE_CUDA_H

#include <dlfcn.h>
#include <stddef.h>

#include "tests/tap.h"

struct gpu gpu;

static const struct {
    const char *symbol;
    size_t slot;
} gpu_symbols[] = {
    { "cuInit", offsetof(struct gpu, init) },
    { "cuDriverGetVersion", offsetof(struct gpu, driver_get_version) },
    { "cuDeviceGetCount", offsetof(struct gpu, device_get_count) },
    { "cuDeviceGet", offsetof(struct gpu, device_get) },
    { "cuDeviceGetName", offsetof(struct gpu, device_get_name) },
    { "cuDeviceGetDefaultMemPool", offsetof(struct gpu, device_get_default_mem_pool) },
    { "cuDevicePrimaryCtxRetain", offsetof(struct gpu, primary_retain) },
    { "cuDevicePrimaryCtxRelease_v2", offsetof(struct gpu, primary_release) },
    { "cuDevicePrimaryCtxGetState", offsetof(struct gpu, primary_get_state) },
    { "cuCtxCreate_v2", offsetof(struct gpu, context_create) },
    { "cuCtxDestroy_v2", offsetof(struct gpu, context_destroy) },
    { "cuCtxSetCurrent", offsetof(struct gpu, context_set) },
    { "cuCtxGetCurrent", offsetof(struct gpu, context_get) },
    { "cuCtxSynchronize", offsetof(struct gpu, context_synchronize) },
    { "cuStreamCreate", offsetof(struct gpu, stream_create) },
    { "cuStreamDestroy_v2", offsetof(struct gpu, stream_destroy) },
    { "cuStreamQuery", offsetof(struct gpu, stream_query) },
    { "cuStreamSynchronize", offsetof(struct gpu, stream_synchronize) },
    { "cuMemsetD32Async", offsetof(struct gpu, memset_d32_async) },
    { "cuMemcpyDtoHAsync_v2", offsetof(struct gpu, memcpy_dtoh_async) },
    { "cuMemHostAlloc", offsetof(struct gpu, host_alloc) },
    { "cuMemFreeHost", offsetof(struct gpu, host_free) },
    { "cuMemHostGetDevicePointer_v2", offsetof(struct gpu, host_device_pointer) },
    { "cuPointerGetAttribute", offsetof(struct gpu, pointer_get_attribute) },
    { "cuModuleLoadData", offsetof(struct gpu, module_load_data) },
    { "cuModuleUnload", offsetof(struct gpu, module_unload) },
    { "cuModuleGetFunction", offsetof(struct gpu, module_get_function) },
    { "cuLaunchKernel", offsetof(struct gpu, launch_kernel) },
    { "cuMemPoolCreate", offsetof(struct gpu, mem_pool_create) },
    { "cuMemPoolDestroy", offsetof(struct gpu, mem_pool_destroy) },
    { "cuMemPoolGetAttribute", offsetof(struct gpu, mem_pool_get_attribute) },
    { "cuMemPoolSetAttribute", offsetof(struct gpu, mem_pool_set_attribute) },
    { "cuMemAllocFromPoolAsync", offsetof(struct gpu, mem_alloc_from_pool_async) },
    { "cuMemFreeAsync", offsetof(struct gpu, mem_free_async) },
};

const char *
gpu_open(void)
{
    static char reason[256];
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CUresult result;

    if (library == NULL) {
        snprintf(reason, sizeof(reason), "no GPU: %s", dlerror());
        return reason;
    }
    for (size_t i = 0; i < sizeof(gpu_symbols) / sizeof(gpu_symbols[0]); i++) {
        void *address = dlsym(library, gpu_symbols[i].symbol);

        if (address == NULL) {
            snprintf(reason, sizeof(reason), "no GPU: the driver has no %s", gpu_symbols[i].symbol);
            return reason;
        }
        memcpy((char *)&gpu + gpu_symbols[i].slot, &address, sizeof(address));
    }
    result = gpu.init(0);
    if (result == CUDA_SUCCESS)
        result = gpu.device_get_count(&gpu.devices);
    if (result != CUDA_SUCCESS || gpu.devices == 0) {
        snprintf(reason, sizeof(reason), "no GPU: the driver does not start (CUresult %d)", (int)result);
        return reason;
    }
    return NULL;
}

void
gpu_diag(void)
{
    char name[64] = "";
    int version = 0;
    CUdevice device;

    if (gpu.device_get(&device, 0) == CUDA_SUCCESS)
        gpu.device_get_name(name, sizeof(name), device);
    gpu.driver_get_version(&version);
    diag("%d x %s, driver of CUDA %d.%d", gpu.devices, name, version / 1000, version % 1000 / 10);
}

/* For all devices since Volta; 20,000,000,000 ns is the longest that it waits. */
static const char gpu_hold_ptx[] = ".version 7.0\n"
                                   ".target sm_70\n"
                                   ".address_size 64\n"
                                   ".visible .entry hold_then_fill(.param .u64 go, .param .u64 words,\n"
                                   "                               .param .u32 count, .param .u32 value)\n"
                                   "{\n"
                                   "    .reg .pred %p;\n"
                                   "    .reg .u32 %go, %count, %value, %i, %step;\n"
                                   "    .reg .u64 %address, %words, %now, %end, %offset;\n"
                                   "    ld.param.u64 %address, [go];\n"
                                   "    ld.param.u64 %words, [words];\n"
                                   "    ld.param.u32 %count, [count];\n"
                                   "    ld.param.u32 %value, [value];\n"
                                   "    mov.u64 %end, %globaltimer;\n"
                                   "    add.u64 %end, %end, 20000000000;\n"
                                   "hold:\n"
                                   "    ld.volatile.global.u32 %go, [%address];\n"
                                   "    setp.ne.u32 %p, %go, 0;\n"
                                   "    @%p bra fill;\n"
                                   "    mov.u64 %now, %globaltimer;\n"
                                   "    setp.lt.u64 %p, %now, %end;\n"
                                   "    @%p bra hold;\n"
                                   "fill:\n"
                                   "    mov.u32 %i, %tid.x;\n"
                                   "    mov.u32 %step, %ntid.x;\n"
                                   "next:\n"
                                   "    setp.ge.u32 %p, %i, %count;\n"
                                   "    @%p bra done;\n"
                                   "    mul.wide.u32 %offset, %i, 4;\n"
                                   "    add.u64 %offset, %offset, %words;\n"
                                   "    st.global.u32 [%offset], %value;\n"
                                   "    add.u32 %i, %i, %step;\n"
                                   "    bra next;\n"
                                   "done:\n"
                                   "    ret;\n"
                                   "}\n";

static bool
hold_step(CUresult result, const char *function)
{
    if (result != CUDA_SUCCESS)
        diag("%s: CUresult %d", function, (int)result);
    return result == CUDA_SUCCESS;
}

/* The first launch of a kernel may wait for the whole device: it is done here, where nothing is held. */
bool
gpu_hold_open(struct gpu_hold *hold)
{
    void *go = NULL;

    memset(hold, 0, sizeof(*hold));
    if (!hold_step(gpu.module_load_data(&hold->module, gpu_hold_ptx), "cuModuleLoadData") ||
        !hold_step(gpu.module_get_function(&hold->function, hold->module, "hold_then_fill"), "cuModuleGetFunction") ||
        !hold_step(gpu.host_alloc(&go, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP), "cuMemHostAlloc"))
        return false;
    hold->go = go;
    if (!hold_step(gpu.host_device_pointer(&hold->device_go, go, 0), "cuMemHostGetDevicePointer"))
        return false;
    if (!gpu_hold_fill(hold, NULL, NULL, 0, 0))
        return false;
    gpu_hold_go(hold);
    return hold_step(gpu.context_synchronize(), "cuCtxSynchronize");
}

void
gpu_hold_close(struct gpu_hold *hold)
{
    if (hold->go != NULL)
        gpu_hold_go(hold);
    gpu.context_synchronize();
    if (hold->go != NULL)
        gpu.host_free((void *)(uintptr_t)hold->go);
    if (hold->module != NULL)
        gpu.module_unload(hold->module);
}

bool
gpu_hold_fill(struct gpu_hold *hold, CUstream stream, void *words, uint32_t count, uint32_t value)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)words;
    void *arguments[] = { &hold->device_go, &address, &count, &value };

    *hold->go = 0;
    return hold_step(gpu.launch_kernel(hold->function, 1, 1, 1, 256, 1, 1, 0, stream, arguments, NULL),
                     "cuLaunchKernel");
}

void
gpu_hold_go(struct gpu_hold *hold)
{
    *hold->go = 1;
}

#endif
