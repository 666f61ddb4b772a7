/* Devices of the fake driver and their attributes. */
#include "tests/fake-cuda/fake.h"

#include <stdio.h>
#include <string.h>

bool
fake_device_is(CUdevice device)
{
    return device >= 0 && device < fake.device_count;
}

static CUresult
do_cuDeviceGetCount(int *count)
{
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *count = fake.device_count;
    return CUDA_SUCCESS;
}

FAKE_API(2000, cuDeviceGetCount, (int *count), (count))

static CUresult
do_cuDeviceGet(CUdevice *device, int ordinal)
{
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

FAKE_API(2000, cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal))

static CUresult
do_cuDeviceGetName(char *name, int length, CUdevice device)
{
    if (name == NULL || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "Fake GPU");
    return CUDA_SUCCESS;
}

FAKE_API(2000, cuDeviceGetName, (char *name, int length, CUdevice device), (name, length, device))

static CUresult
do_cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    if (uuid == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    memset(uuid->bytes, 0x0f, sizeof(uuid->bytes));
    uuid->bytes[0] = (char)device;
    return CUDA_SUCCESS;
}

FAKE_API(11040, cuDeviceGetUuid, (CUuuid * uuid, CUdevice device), (uuid, device))

static CUresult
do_cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    if (text == NULL || length < 13)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(text, (size_t)length, "0000:%02X:00.0", (unsigned int)device + 1);
    return CUDA_SUCCESS;
}

FAKE_API(4010, cuDeviceGetPCIBusId, (char *text, int length, CUdevice device), (text, length, device))

static CUresult
do_cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    if (bytes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = fake.devices[device].total_bytes;
    return CUDA_SUCCESS;
}

FAKE_API(3020, cuDeviceTotalMem, (size_t * bytes, CUdevice device), (bytes, device))

/* Attributes that are not 0, with the values of an H200. */
static const struct {
    CUdevice_attribute attribute;
    int value;
} device_attributes[] = {
    { CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
    { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132 },
    { CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
    { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9 },
    { CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
    { CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1 },
    { CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1 },
    { CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC },
    { CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1 },
};

/* FAKE_CUDA_NO_POOLS=1: the device has no memory pools. FAKE_CUDA_NO_VMM=1: nor virtual memory. */
static CUresult
do_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    if (value == NULL || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *value = 0;
    for (size_t i = 0; i < sizeof(device_attributes) / sizeof(device_attributes[0]); i++) {
        if (device_attributes[i].attribute == attribute)
            *value = device_attributes[i].value;
    }
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        *value = device + 1;
    if (attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED &&
        fake_environment_bytes("FAKE_CUDA_NO_VMM", 0))
        *value = 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED && fake_environment_bytes("FAKE_CUDA_NO_POOLS", 0))
        *value = 0;
    return CUDA_SUCCESS;
}

FAKE_API(2000, cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device),
         (value, attribute, device))

/* FAKE_CUDA_NO_PEERS=1: devices do not reach each other. */
static CUresult
do_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    if (can == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device) || !fake_device_is(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer && !fake_environment_bytes("FAKE_CUDA_NO_PEERS", 0);
    return CUDA_SUCCESS;
}

FAKE_API(4000, cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer), (can, device, peer))

static CUresult
do_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer)
{
    if (value == NULL || device == peer)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device) || !fake_device_is(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *value =
        attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ? 0 : !fake_environment_bytes("FAKE_CUDA_NO_PEERS", 0);
    return CUDA_SUCCESS;
}

FAKE_API(8000, cuDeviceGetP2PAttribute, (int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer),
         (value, attribute, device, peer))
