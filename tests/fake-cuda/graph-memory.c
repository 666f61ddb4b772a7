/*
 * Memory of graphs: each allocating node has an address of its own. The device keeps the most that all of them have
 * needed together, in steps of 32 MiB, until it is trimmed. As observed, all kept memory counts as used.
 */
#include "tests/fake-cuda/graph.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct fake_graph_memory *graph_memories;

static struct {
    uint64_t reserved_bytes, reserved_high_bytes, used_high_bytes;
    bool used;
} graph_devices[FAKE_MOST_DEVICES];

static uint64_t
graph_steps(uint64_t bytes)
{
    return (bytes + FAKE_SLAB_BYTES - 1) / FAKE_SLAB_BYTES * FAKE_SLAB_BYTES;
}

struct fake_graph_memory *
fake_graph_memory_new(CUcontext context, int device, size_t bytes)
{
    uint64_t mapped_bytes = (bytes + 4095) / 4096 * 4096;
    struct fake_graph_memory *memory;
    void *address;

    if (bytes > fake.devices[device].total_bytes - FAKE_OWN_BYTES)
        return NULL;
    address = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memory = calloc(1, sizeof(*memory));
    if (address == MAP_FAILED || memory == NULL)
        abort();
    *memory = (struct fake_graph_memory){ .next = graph_memories,
                                          .address = (uint64_t)(uintptr_t)address,
                                          .bytes = bytes,
                                          .mapped_bytes = mapped_bytes,
                                          .id = fake_memory_id(),
                                          .device = device,
                                          .context = context,
                                          .parameters = {
                                              .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                             .location = { CU_MEM_LOCATION_TYPE_DEVICE, device } },
                                              .bytesize = bytes,
                                              .dptr = (CUdeviceptr)(uintptr_t)address } };
    graph_memories = memory;
    if (!graph_devices[device].used) {
        struct fake_event event = { .kind = FAKE_POOL_CREATED,
                                    .pool_type = 1,
                                    .pool_address = memory->address,
                                    .pool_bytes = FAKE_SLAB_BYTES,
                                    .device = (uint32_t)device };

        graph_devices[device].used = true;
        fake_trace(&event);
    }
    return memory;
}

static struct fake_graph_memory *
graph_memory_around(uint64_t address)
{
    for (struct fake_graph_memory *memory = graph_memories; memory != NULL; memory = memory->next) {
        if (memory->address <= address && address - memory->address < memory->bytes)
            return memory;
    }
    return NULL;
}

struct fake_graph_memory *
fake_graph_memory_at(uint64_t address)
{
    struct fake_graph_memory *memory = graph_memory_around(address);

    return memory != NULL && memory->address == address ? memory : NULL;
}

bool
fake_graph_memory_is(uint64_t address)
{
    return graph_memory_around(address) != NULL;
}

bool
fake_graph_place(uint64_t address, struct fake_place *out)
{
    const struct fake_graph_memory *memory = graph_memory_around(address);

    if (memory == NULL || !memory->live)
        return false;
    *out = (struct fake_place){ .start = memory->address,
                                .bytes = memory->bytes,
                                .id = memory->id,
                                .kind = FAKE_DEVICE,
                                .device = memory->device,
                                .context = memory->context,
                                .of_graph = true };
    return true;
}

static uint64_t
graph_live_bytes(int device)
{
    uint64_t bytes = 0;

    for (const struct fake_graph_memory *memory = graph_memories; memory != NULL; memory = memory->next) {
        if (memory->device == device && memory->live)
            bytes += memory->bytes;
    }
    return bytes;
}

/* Reserve on the device what is live. */
static bool
graph_reserve(int device)
{
    uint64_t bytes = graph_steps(graph_live_bytes(device));
    uint64_t more_bytes;

    if (bytes <= graph_devices[device].reserved_bytes)
        return true;
    more_bytes = bytes - graph_devices[device].reserved_bytes;
    if (!fake_device_take(device, more_bytes))
        return false;
    graph_devices[device].reserved_bytes = bytes;
    if (graph_devices[device].reserved_high_bytes < bytes)
        graph_devices[device].reserved_high_bytes = bytes;
    if (graph_devices[device].used_high_bytes < bytes)
        graph_devices[device].used_high_bytes = bytes;
    fake_trace(&(struct fake_event){ .kind = FAKE_ALLOCATION,
                                     .memory_kind = 3,
                                     .bytes = more_bytes,
                                     .device = (uint32_t)device,
                                     .context = UINT32_MAX,
                                     .stream = UINT32_MAX });
    return true;
}

/* Allocate for a launch. Memory from the launch before must have been freed, unless this one frees it first. */
CUresult
fake_graph_memory_launch(CUgraph graph, bool frees_first)
{
    bool room = true;

    for (CUgraphNode node = graph->first; node != NULL && !frees_first; node = node->next) {
        if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node->memory->live)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (CUgraphNode node = graph->first; node != NULL && room; node = node->next) {
        if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
            node->memory->live = true;
            room = graph_reserve(node->memory->device);
        } else if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
            node->memory->live = false;
        }
    }
    return room ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool
fake_graph_memory_free(uint64_t address)
{
    struct fake_graph_memory *memory = fake_graph_memory_at(address);
    bool live = memory != NULL && memory->live;

    if (live)
        memory->live = false;
    return live;
}

static CUresult
do_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    cuuint64_t figure;

    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        figure = graph_devices[device].reserved_bytes;
        break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        figure = graph_devices[device].used_high_bytes;
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        figure = graph_devices[device].reserved_high_bytes;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(value, &figure, sizeof(figure));
    return CUDA_SUCCESS;
}

FAKE_API(11040, cuDeviceGetGraphMemAttribute, (CUdevice device, CUgraphMem_attribute attribute, void *value),
         (device, attribute, value))

static CUresult
do_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    cuuint64_t figure;

    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&figure, value, sizeof(figure));
    if (figure != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        graph_devices[device].used_high_bytes = graph_devices[device].reserved_bytes;
    else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        graph_devices[device].reserved_high_bytes = graph_devices[device].reserved_bytes;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

FAKE_API(11040, cuDeviceSetGraphMemAttribute, (CUdevice device, CUgraphMem_attribute attribute, void *value),
         (device, attribute, value))

static CUresult
do_cuDeviceGraphMemTrim(CUdevice device)
{
    uint64_t bytes;

    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    bytes = graph_steps(graph_live_bytes(device));
    fake_device_give(device, graph_devices[device].reserved_bytes - bytes);
    graph_devices[device].reserved_bytes = bytes;
    return CUDA_SUCCESS;
}

FAKE_API(11040, cuDeviceGraphMemTrim, (CUdevice device), (device))
