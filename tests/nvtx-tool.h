/* A tool of NVTX's memory extension for tests: it keeps the heaps and regions that it is told, and checks each call. */
#ifndef TESTS_NVTX_TOOL_H
#define TESTS_NVTX_TOOL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define NVTX_TOOL_HEAPS   1024
#define NVTX_TOOL_REGIONS 8192

enum nvtx_tool_answer { NVTX_TOOL_LISTENS, NVTX_TOOL_SAYS_NULL, NVTX_TOOL_SAYS_NO_TOOL };

struct nvtx_tool_range {
    uintptr_t base;
    size_t bytes;
    char name[64];
};

struct nvtx_tool {
    pthread_mutex_t lock;
    enum nvtx_tool_answer answer; /* to new heaps */
    struct nvtx_tool_range heaps[NVTX_TOOL_HEAPS];
    size_t heap_count;
    struct nvtx_tool_range regions[NVTX_TOOL_REGIONS];
    size_t region_count;
    uint64_t heaps_told, regions_told, resets;
    uint64_t faults; /* calls that a checker could not follow */
    char fault[160]; /* the first of them */
};

#endif
