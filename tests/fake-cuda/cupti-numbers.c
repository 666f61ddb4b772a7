/* The numbers of the fake driver's functions, as cupti_driver_cbid.h has them. */
#include "tests/fake-cuda/cupti.h"

#include <string.h>

#define NUMBER(symbol)                                                                                                 \
    {                                                                                                                  \
#symbol, CUPTI_DRIVER_TRACE_CBID_##symbol                                                                      \
    }

static const struct {
    const char *symbol;
    CUpti_CallbackId number;
} numbers[] = {
    NUMBER(cuCtxCreate_v2),
    NUMBER(cuCtxCreate_v4),
    NUMBER(cuCtxDestroy_v2),
    NUMBER(cuCtxDisablePeerAccess),
    NUMBER(cuCtxEnablePeerAccess),
    NUMBER(cuCtxGetCurrent),
    NUMBER(cuCtxGetDevice),
    NUMBER(cuCtxGetStreamPriorityRange),
    NUMBER(cuCtxPopCurrent_v2),
    NUMBER(cuCtxPushCurrent_v2),
    NUMBER(cuCtxSetCurrent),
    NUMBER(cuCtxSynchronize),
    NUMBER(cuDeviceCanAccessPeer),
    NUMBER(cuDeviceGet),
    NUMBER(cuDeviceGetAttribute),
    NUMBER(cuDeviceGetCount),
    NUMBER(cuDeviceGetDefaultMemPool),
    NUMBER(cuDeviceGetGraphMemAttribute),
    NUMBER(cuDeviceGetMemPool),
    NUMBER(cuDeviceGetName),
    NUMBER(cuDeviceGetP2PAttribute),
    NUMBER(cuDeviceGetPCIBusId),
    NUMBER(cuDeviceGetUuid_v2),
    NUMBER(cuDeviceGraphMemTrim),
    NUMBER(cuDevicePrimaryCtxGetState),
    NUMBER(cuDevicePrimaryCtxRelease_v2),
    NUMBER(cuDevicePrimaryCtxReset_v2),
    NUMBER(cuDevicePrimaryCtxRetain),
    NUMBER(cuDevicePrimaryCtxSetFlags_v2),
    NUMBER(cuDeviceSetGraphMemAttribute),
    NUMBER(cuDeviceSetMemPool),
    NUMBER(cuDeviceTotalMem_v2),
    NUMBER(cuDriverGetVersion),
    NUMBER(cuEventCreate),
    NUMBER(cuEventDestroy_v2),
    NUMBER(cuEventElapsedTime_v2),
    NUMBER(cuEventQuery),
    NUMBER(cuEventRecord),
    NUMBER(cuEventRecordWithFlags),
    NUMBER(cuEventSynchronize),
    NUMBER(cuGetErrorName),
    NUMBER(cuGetErrorString),
    NUMBER(cuGetProcAddress_v2),
    NUMBER(cuGraphDestroy),
    NUMBER(cuGraphExecDestroy),
    NUMBER(cuGraphGetNodes),
    NUMBER(cuGraphInstantiateWithFlags),
    NUMBER(cuGraphLaunch),
    NUMBER(cuGraphNodeGetType),
    NUMBER(cuInit),
    NUMBER(cuLaunchHostFunc),
    NUMBER(cuLaunchKernel),
    NUMBER(cuMemAdvise),
    NUMBER(cuMemAdvise_v2),
    NUMBER(cuMemAllocAsync),
    NUMBER(cuMemAllocFromPoolAsync),
    NUMBER(cuMemAllocHost_v2),
    NUMBER(cuMemAllocManaged),
    NUMBER(cuMemAlloc_v2),
    NUMBER(cuMemCreate),
    NUMBER(cuMemFreeAsync),
    NUMBER(cuMemFreeHost),
    NUMBER(cuMemFree_v2),
    NUMBER(cuMemGetAddressRange_v2),
    NUMBER(cuMemGetInfo_v2),
    NUMBER(cuMemHostAlloc),
    NUMBER(cuMemHostGetDevicePointer_v2),
    NUMBER(cuMemMap),
    NUMBER(cuMemPoolCreate),
    NUMBER(cuMemPoolDestroy),
    NUMBER(cuMemPoolExportPointer),
    NUMBER(cuMemPoolExportToShareableHandle),
    NUMBER(cuMemPoolGetAccess),
    NUMBER(cuMemPoolGetAttribute),
    NUMBER(cuMemPoolImportFromShareableHandle),
    NUMBER(cuMemPoolImportPointer),
    NUMBER(cuMemPoolSetAccess),
    NUMBER(cuMemPoolSetAttribute),
    NUMBER(cuMemPoolTrimTo),
    NUMBER(cuMemPrefetchAsync),
    NUMBER(cuMemPrefetchAsync_v2),
    NUMBER(cuMemRelease),
    NUMBER(cuMemSetAccess),
    NUMBER(cuMemUnmap),
    NUMBER(cuMemcpyAsync),
    NUMBER(cuMemcpyDtoDAsync_v2),
    NUMBER(cuMemcpyDtoD_v2),
    NUMBER(cuMemcpyDtoHAsync_v2),
    NUMBER(cuMemcpyDtoH_v2),
    NUMBER(cuMemcpyHtoDAsync_v2),
    NUMBER(cuMemcpyHtoD_v2),
    NUMBER(cuMemsetD16Async),
    NUMBER(cuMemsetD32Async),
    NUMBER(cuMemsetD32_v2),
    NUMBER(cuMemsetD8Async),
    NUMBER(cuMemsetD8_v2),
    NUMBER(cuModuleGetFunction),
    NUMBER(cuModuleLoadData),
    NUMBER(cuModuleUnload),
    NUMBER(cuPointerGetAttribute),
    NUMBER(cuPointerGetAttributes),
    NUMBER(cuStreamBeginCapture_v2),
    NUMBER(cuStreamCreate),
    NUMBER(cuStreamCreateWithPriority),
    NUMBER(cuStreamDestroy_v2),
    NUMBER(cuStreamEndCapture),
    NUMBER(cuStreamGetCaptureInfo_v3),
    NUMBER(cuStreamGetCtx),
    NUMBER(cuStreamGetFlags),
    NUMBER(cuStreamGetId),
    NUMBER(cuStreamIsCapturing),
    NUMBER(cuStreamQuery),
    NUMBER(cuStreamSynchronize),
    NUMBER(cuStreamWaitEvent),
    NUMBER(cuThreadExchangeStreamCaptureMode),
};

int
fake_cupti_number(const char *symbol)
{
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strcmp(numbers[i].symbol, symbol) == 0)
            return (int)numbers[i].number;
    }
    return -1;
}

const char *
fake_cupti_symbol(CUpti_CallbackId number)
{
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i].number == number)
            return numbers[i].symbol;
    }
    return NULL;
}
