/* The tool that listens to NVTX's memory extension, as functions of plain types. All do nothing where there is none. */
#ifndef TIDEI_NVTX_TOOL_H
#define TIDEI_NVTX_TOOL_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a tool listens to heaps and regions. The first call loads what NVTX_INJECTION64_PATH names. Any thread. */
bool tidei_nvtx_tool_listens(void);

/*
 * Tell the tool a heap: memory that may be used only where it has regions. Its handle; NULL where the tool has refused
 * it, as one does that was not asked to look at NVTX. `name` is copied by the tool, if it wants it.
 */
void *tidei_nvtx_tool_heap(const char *name, const void *pointer, size_t bytes);
void tidei_nvtx_tool_heap_end(void *heap);

/* The heap has no regions any more. */
void tidei_nvtx_tool_heap_reset(void *heap);

/* Tell the tool a region of a heap, named unless `name` is empty, or the end of the one at `pointer`. */
void tidei_nvtx_tool_region(void *heap, const void *pointer, size_t bytes, const char *name);
void tidei_nvtx_tool_region_end(const void *pointer);

#endif
