/* Calls NVTX's memory extension, whose functions come with its header; see tool.h. */
#include "config.h"

#include "src/nvtx/tool.h"

#ifdef HAVE_NVTX_MEM

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* A program with more rights than its user loads no tool of that user's choice. */
#define getenv secure_getenv
#include <nvtx3/nvToolsExtMem.h>
#undef getenv

static pthread_once_t tool_once = PTHREAD_ONCE_INIT;
static bool tool_listens;
static nvtxDomainHandle_t tool_domain;

static void
tool_load(void)
{
    NVTX_EXT_MEM_VERSIONED_ID(nvtxExtMemInitOnce)();
    tool_listens =
        NVTX_EXT_MEM_VERSIONED_ID(nvtxExtMemSlots)[NVTX3EXT_CBID_nvtxMemHeapRegister + 1] != NVTX_EXTENSION_DISABLED;
    if (tool_listens)
        tool_domain = nvtxDomainCreateA("tidemark");
}

bool
tidei_nvtx_tool_listens(void)
{
    pthread_once(&tool_once, tool_load);
    return tool_listens;
}

void *
tidei_nvtx_tool_heap(const char *name, const void *pointer, size_t bytes)
{
    const nvtxMemVirtualRangeDesc_t range = { .size = bytes, .ptr = pointer };
    const nvtxMemHeapDesc_t desc = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(desc),
        .usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR,
        .type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
        .typeSpecificDescSize = sizeof(range),
        .typeSpecificDesc = &range,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = name,
    };
    nvtxMemHeapHandle_t heap = nvtxMemHeapRegister(tool_domain, &desc);

    return heap != NVTX_MEM_HEAP_HANDLE_NO_TOOL ? heap : NULL;
}

void
tidei_nvtx_tool_heap_end(void *heap)
{
    nvtxMemHeapUnregister(tool_domain, heap);
}

void
tidei_nvtx_tool_heap_reset(void *heap)
{
    nvtxMemHeapReset(tool_domain, heap);
}

void
tidei_nvtx_tool_region(void *heap, const void *pointer, size_t bytes, const char *name)
{
    const nvtxMemVirtualRangeDesc_t range = { .size = bytes, .ptr = pointer };
    const nvtxMemRegionsRegisterBatch_t batch = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(batch),
        .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
        .heap = heap,
        .regionCount = 1,
        .regionDescElementSize = sizeof(range),
        .regionDescElements = &range,
    };
    const nvtxMemRegionNameDesc_t named = {
        .regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER,
        .nameType = NVTX_MESSAGE_TYPE_ASCII,
        .region.pointer = pointer,
        .name.ascii = name,
    };
    const nvtxMemRegionsNameBatch_t names = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(names),
        .regionCount = 1,
        .regionElementSize = sizeof(named),
        .regionElements = &named,
    };

    nvtxMemRegionsRegister(tool_domain, &batch);
    if (name[0] != '\0')
        nvtxMemRegionsName(tool_domain, &names);
}

void
tidei_nvtx_tool_region_end(const void *pointer)
{
    const nvtxMemRegionRef_t region = { .pointer = pointer };
    const nvtxMemRegionsUnregisterBatch_t batch = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(batch),
        .refType = NVTX_MEM_REGION_REF_TYPE_POINTER,
        .refCount = 1,
        .refElementSize = sizeof(region),
        .refElements = &region,
    };

    nvtxMemRegionsUnregister(tool_domain, &batch);
}

#else

bool
tidei_nvtx_tool_listens(void)
{
    return false;
}

void *
tidei_nvtx_tool_heap(const char *name, const void *pointer, size_t bytes)
{
    (void)name, (void)pointer, (void)bytes;
    return NULL;
}

void
tidei_nvtx_tool_heap_end(void *heap)
{
    (void)heap;
}

void
tidei_nvtx_tool_heap_reset(void *heap)
{
    (void)heap;
}

void
tidei_nvtx_tool_region(void *heap, const void *pointer, size_t bytes, const char *name)
{
    (void)heap, (void)pointer, (void)bytes, (void)name;
}

void
tidei_nvtx_tool_region_end(const void *pointer)
{
    (void)pointer;
}

#endif
