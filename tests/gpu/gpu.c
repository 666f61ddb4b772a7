/* The CUDA driver for tests, and a kernel that holds a stream back. */
#include "tests/gpu/kernels.h"

#ifdef HAVE_CUDA_H

#include <dlfcn.h>
#include <stddef.h>

#include "tests/gpu/lock.h"
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
    { "cuDeviceGetAttribute", offsetof(struct gpu, device_get_attribute) },
    { "cuDeviceTotalMem_v2", offsetof(struct gpu, device_total_mem) },
    { "cuDeviceCanAccessPeer", offsetof(struct gpu, device_can_access_peer) },
    { "cuDeviceGraphMemTrim", offsetof(struct gpu, device_graph_mem_trim) },
    { "cuDeviceGetDefaultMemPool", offsetof(struct gpu, device_get_default_mem_pool) },
    { "cuDevicePrimaryCtxRetain", offsetof(struct gpu, primary_retain) },
    { "cuDevicePrimaryCtxRelease_v2", offsetof(struct gpu, primary_release) },
    { "cuDevicePrimaryCtxReset_v2", offsetof(struct gpu, primary_reset) },
    { "cuDevicePrimaryCtxGetState", offsetof(struct gpu, primary_get_state) },
    { "cuCtxCreate_v2", offsetof(struct gpu, context_create) },
    { "cuCtxDestroy_v2", offsetof(struct gpu, context_destroy) },
    { "cuCtxSetCurrent", offsetof(struct gpu, context_set) },
    { "cuCtxPushCurrent_v2", offsetof(struct gpu, context_push) },
    { "cuCtxPopCurrent_v2", offsetof(struct gpu, context_pop) },
    { "cuCtxGetCurrent", offsetof(struct gpu, context_get) },
    { "cuCtxSynchronize", offsetof(struct gpu, context_synchronize) },
    { "cuStreamCreate", offsetof(struct gpu, stream_create) },
    { "cuStreamDestroy_v2", offsetof(struct gpu, stream_destroy) },
    { "cuStreamQuery", offsetof(struct gpu, stream_query) },
    { "cuStreamSynchronize", offsetof(struct gpu, stream_synchronize) },
    { "cuStreamWaitEvent", offsetof(struct gpu, stream_wait_event) },
    { "cuStreamBeginCapture_v2", offsetof(struct gpu, stream_begin_capture) },
    { "cuStreamEndCapture", offsetof(struct gpu, stream_end_capture) },
    { "cuEventCreate", offsetof(struct gpu, event_create) },
    { "cuEventDestroy_v2", offsetof(struct gpu, event_destroy) },
    { "cuEventRecord", offsetof(struct gpu, event_record) },
    { "cuGraphInstantiateWithFlags", offsetof(struct gpu, graph_instantiate) },
    { "cuGraphLaunch", offsetof(struct gpu, graph_launch) },
    { "cuGraphExecDestroy", offsetof(struct gpu, graph_exec_destroy) },
    { "cuGraphDestroy", offsetof(struct gpu, graph_destroy) },
    { "cuMemGetInfo_v2", offsetof(struct gpu, mem_get_info) },
    { "cuMemAlloc_v2", offsetof(struct gpu, mem_alloc) },
    { "cuMemFree_v2", offsetof(struct gpu, mem_free) },
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
    { "cuMemPoolTrimTo", offsetof(struct gpu, mem_pool_trim_to) },
    { "cuMemPoolSetAccess", offsetof(struct gpu, mem_pool_set_access) },
    { "cuMemPoolGetAccess", offsetof(struct gpu, mem_pool_get_access) },
    { "cuMemAllocFromPoolAsync", offsetof(struct gpu, mem_alloc_from_pool_async) },
    { "cuMemFreeAsync", offsetof(struct gpu, mem_free_async) },
};

const char *
gpu_open(void)
{
    static char reason[256];
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CUresult result;

    gpu_lock(false);
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

bool
gpu_is_fake(void)
{
    char name[64] = "";
    CUdevice device;

    return gpu.device_get(&device, 0) == CUDA_SUCCESS &&
           gpu.device_get_name(name, sizeof(name), device) == CUDA_SUCCESS && strcmp(name, "Fake GPU") == 0;
}

bool
gpu_is_sanitized(void)
{
    const char *wrapper = getenv("CHECK_GPU_WRAPPER");

    return wrapper != NULL && strstr(wrapper, "sanitizer") != NULL;
}

void
gpu_skip_sanitized(const char *reason)
{
    if (!gpu_is_sanitized())
        return;
    (void)gpu_open();
    skip_all(reason);
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

static bool
hold_step(CUresult result, const char *function)
{
    if (result != CUDA_SUCCESS)
        diag("%s: CUresult %d", function, (int)result);
    return result == CUDA_SUCCESS;
}

/* The first launch of a kernel may wait for the whole device, so launch it here, where nothing is held. */
bool
gpu_hold_open(struct gpu_hold *hold)
{
    void *go = NULL;

    memset(hold, 0, sizeof(*hold));
    if (!hold_step(gpu.module_load_data(&hold->module, gpu_kernels_ptx), "cuModuleLoadData") ||
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
