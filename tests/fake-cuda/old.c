/*
 * Functions of earlier CUDA versions with the same parameters as their successors. Programs still ask for them, by name
 * or by version; cuda.h makes each name the newest one's.
 */
#include "tests/fake-cuda/fake.h"

#undef cuCtxDestroy
#undef cuCtxPopCurrent
#undef cuCtxPushCurrent
#undef cuDeviceGetUuid
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags
#undef cuEventDestroy
#undef cuEventElapsedTime
#undef cuIpcOpenMemHandle
#undef cuMemHostRegister
#undef cuStreamDestroy

/* `entry`, which came with CUDA `since`, calls its successor `now`. */
#define OLD_API(since, entry, now, parameters, arguments)                                                              \
    CUresult CUDAAPI entry parameters;                                                                                 \
    static struct fake_function of_##entry = {                                                                         \
        .name = #entry, .symbol = #entry, .version = (since), .address = (void (*)(void))(entry)                       \
    };                                                                                                                 \
    __attribute__((constructor)) static void add_##entry(void)                                                         \
    {                                                                                                                  \
        fake_function_add(&of_##entry);                                                                                \
    }                                                                                                                  \
    FAKE_EXPORT CUresult CUDAAPI entry parameters                                                                      \
    {                                                                                                                  \
        return now arguments;                                                                                          \
    }

OLD_API(2000, cuCtxDestroy, cuCtxDestroy_v2, (CUcontext context), (context))
OLD_API(2000, cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext * out), (out))
OLD_API(2000, cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context), (context))
OLD_API(9020, cuDeviceGetUuid, cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device), (uuid, device))
OLD_API(7000, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device))
OLD_API(7000, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (CUdevice device), (device))
OLD_API(7000, cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned int flags),
        (device, flags))
OLD_API(2000, cuEventDestroy, cuEventDestroy_v2, (CUevent event), (event))
OLD_API(2000, cuEventElapsedTime, cuEventElapsedTime_v2, (float *ms, CUevent first, CUevent last), (ms, first, last))
OLD_API(4010, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, (CUdeviceptr * out, CUipcMemHandle shared, unsigned int flags),
        (out, shared, flags))
OLD_API(4000, cuMemHostRegister, cuMemHostRegister_v2, (void *address, size_t bytes, unsigned int flags),
        (address, bytes, flags))
OLD_API(2000, cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream), (stream))
