/* The tool of nvtx-tool.h, as a library that NVTX_INJECTION64_PATH names. */
#include "tests/nvtx-tool.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExtMem.h>

static struct nvtx_tool tool = { .lock = PTHREAD_MUTEX_INITIALIZER };

__attribute__((visibility("default"))) struct nvtx_tool *nvtx_tool(void);
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table);
__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module);

struct nvtx_tool *
nvtx_tool(void)
{
    return &tool;
}

static void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void
fault(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    if (tool.faults++ == 0)
        vsnprintf(tool.fault, sizeof(tool.fault), format, arguments);
    va_end(arguments);
}

/* The first range that overlaps; `count` where none does. */
static size_t
overlap(const struct nvtx_tool_range *ranges, size_t count, uintptr_t base, size_t bytes)
{
    size_t i = 0;

    while (i < count && (ranges[i].base + ranges[i].bytes <= base || base + bytes <= ranges[i].base))
        i++;
    return i;
}

static struct nvtx_tool_range *
range_add(struct nvtx_tool_range *ranges, size_t *count, size_t most, const nvtxMemVirtualRangeDesc_t *desc)
{
    if (*count == most) {
        fault("too many ranges");
        return NULL;
    }
    ranges[*count] = (struct nvtx_tool_range){ .base = (uintptr_t)desc->ptr, .bytes = desc->size };
    return &ranges[(*count)++];
}

/* A handle is the heap's address, as the range may move in the table. */
static size_t
heap_of(nvtxMemHeapHandle_t handle)
{
    size_t i = overlap(tool.heaps, tool.heap_count, (uintptr_t)handle, 1);

    if (i == tool.heap_count || tool.heaps[i].base != (uintptr_t)handle) {
        fault("%p is no heap", (void *)handle);
        return tool.heap_count;
    }
    return i;
}

static nvtxMemHeapHandle_t
heap_register(nvtxDomainHandle_t domain, const nvtxMemHeapDesc_t *desc)
{
    const nvtxMemVirtualRangeDesc_t *range = desc->typeSpecificDesc;
    nvtxMemHeapHandle_t handle = (nvtxMemHeapHandle_t)range->ptr;
    struct nvtx_tool_range *heap;

    (void)domain;
    if (tool.answer != NVTX_TOOL_LISTENS)
        return tool.answer == NVTX_TOOL_SAYS_NULL ? NULL : NVTX_MEM_HEAP_HANDLE_NO_TOOL;
    pthread_mutex_lock(&tool.lock);
    if (desc->extCompatID != NVTX_EXT_COMPATID_MEM || desc->structSize != sizeof(*desc) ||
        desc->usage != NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR || desc->type != NVTX_MEM_TYPE_VIRTUAL_ADDRESS ||
        desc->typeSpecificDescSize != sizeof(*range))
        fault("a heap is described wrongly");
    if (overlap(tool.heaps, tool.heap_count, (uintptr_t)range->ptr, range->size) != tool.heap_count)
        fault("heap %p of %zu B overlaps another", range->ptr, range->size);
    heap = range_add(tool.heaps, &tool.heap_count, NVTX_TOOL_HEAPS, range);
    if (heap != NULL && desc->messageType == NVTX_MESSAGE_TYPE_ASCII)
        snprintf(heap->name, sizeof(heap->name), "%s", desc->message.ascii);
    tool.heaps_told++;
    pthread_mutex_unlock(&tool.lock);
    return handle;
}

static void
heap_unregister(nvtxDomainHandle_t domain, nvtxMemHeapHandle_t handle)
{
    size_t i;

    (void)domain;
    pthread_mutex_lock(&tool.lock);
    i = heap_of(handle);
    if (i < tool.heap_count) {
        struct nvtx_tool_range heap = tool.heaps[i];

        if (overlap(tool.regions, tool.region_count, heap.base, heap.bytes) != tool.region_count)
            fault("heap %p ends with regions in it", (void *)heap.base);
        tool.heaps[i] = tool.heaps[--tool.heap_count];
    }
    pthread_mutex_unlock(&tool.lock);
}

static void
heap_reset(nvtxDomainHandle_t domain, nvtxMemHeapHandle_t handle)
{
    size_t i;

    (void)domain;
    pthread_mutex_lock(&tool.lock);
    i = heap_of(handle);
    for (size_t r = 0; i < tool.heap_count && r < tool.region_count;) {
        r = overlap(tool.regions, tool.region_count, tool.heaps[i].base, tool.heaps[i].bytes);
        if (r < tool.region_count)
            tool.regions[r] = tool.regions[--tool.region_count];
    }
    tool.resets++;
    pthread_mutex_unlock(&tool.lock);
}

static void
regions_register(nvtxDomainHandle_t domain, const nvtxMemRegionsRegisterBatch_t *desc)
{
    const nvtxMemVirtualRangeDesc_t *range = desc->regionDescElements;

    (void)domain;
    pthread_mutex_lock(&tool.lock);
    if (desc->extCompatID != NVTX_EXT_COMPATID_MEM || desc->structSize != sizeof(*desc) ||
        desc->regionType != NVTX_MEM_TYPE_VIRTUAL_ADDRESS || desc->regionDescElementSize != sizeof(*range))
        fault("regions are described wrongly");
    for (size_t n = 0; n < desc->regionCount; n++, range++) {
        size_t i = heap_of(desc->heap);

        if (i < tool.heap_count && ((uintptr_t)range->ptr < tool.heaps[i].base ||
                                    (uintptr_t)range->ptr + range->size > tool.heaps[i].base + tool.heaps[i].bytes))
            fault("region %p of %zu B leaves its heap", range->ptr, range->size);
        if (overlap(tool.regions, tool.region_count, (uintptr_t)range->ptr, range->size) != tool.region_count)
            fault("region %p of %zu B overlaps another", range->ptr, range->size);
        range_add(tool.regions, &tool.region_count, NVTX_TOOL_REGIONS, range);
        tool.regions_told++;
    }
    pthread_mutex_unlock(&tool.lock);
}

/* The region that begins there; region_count where there is none. */
static size_t
region_at(const void *pointer)
{
    size_t i = overlap(tool.regions, tool.region_count, (uintptr_t)pointer, 1);

    if (i < tool.region_count && tool.regions[i].base == (uintptr_t)pointer)
        return i;
    fault("%p is no region", pointer);
    return tool.region_count;
}

static void
regions_unregister(nvtxDomainHandle_t domain, const nvtxMemRegionsUnregisterBatch_t *desc)
{
    (void)domain;
    pthread_mutex_lock(&tool.lock);
    if (desc->structSize != sizeof(*desc) || desc->refType != NVTX_MEM_REGION_REF_TYPE_POINTER)
        fault("ends of regions are described wrongly");
    for (size_t n = 0; n < desc->refCount; n++) {
        size_t i = region_at(desc->refElements[n].pointer);

        if (i < tool.region_count)
            tool.regions[i] = tool.regions[--tool.region_count];
    }
    pthread_mutex_unlock(&tool.lock);
}

static void
regions_name(nvtxDomainHandle_t domain, const nvtxMemRegionsNameBatch_t *desc)
{
    (void)domain;
    pthread_mutex_lock(&tool.lock);
    for (size_t n = 0; n < desc->regionCount; n++) {
        size_t i = region_at(desc->regionElements[n].region.pointer);

        if (i < tool.region_count)
            snprintf(tool.regions[i].name, sizeof(tool.regions[i].name), "%s", desc->regionElements[n].name.ascii);
    }
    pthread_mutex_unlock(&tool.lock);
}

int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table)
{
    (void)get_export_table;
    return 1;
}

int
InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module)
{
    intptr_t *slots = module->segments[0].functionSlots;

    if (module->moduleId != NVTX_EXT_MODULEID_MEM)
        return 0;
    slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = (intptr_t)heap_register;
    slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = (intptr_t)heap_unregister;
    slots[NVTX3EXT_CBID_nvtxMemHeapReset] = (intptr_t)heap_reset;
    slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = (intptr_t)regions_register;
    slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = (intptr_t)regions_unregister;
    slots[NVTX3EXT_CBID_nvtxMemRegionsName] = (intptr_t)regions_name;
    return 1;
}
