/*
 * What the fake driver reports to the fake CUPTI, which loads the driver and gives it a table of functions. A tool that
 * loads CUPTI late gets the events from then on, as with the real ones.
 */
#ifndef TESTS_FAKE_CUDA_TRACER_H
#define TESTS_FAKE_CUDA_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_event_kind {
    FAKE_ALLOCATION,
    FAKE_RELEASE,
    FAKE_POOL_CREATED,
    FAKE_POOL_DESTROYED,
    FAKE_POOL_TRIMMED,
};

/* The numbers of memory kinds and pool types are CUPTI's own. */
struct fake_event {
    enum fake_event_kind kind;
    int memory_kind;
    int pool_type; /* 0: not memory of a pool */
    uint64_t address, bytes;
    uint64_t pool_address, pool_bytes, pool_used_bytes, pool_threshold_bytes, pool_process;
    uint64_t least_bytes; /* FAKE_POOL_TRIMMED */
    uint32_t device, context, stream;
    bool asynchronous, managed;
};

/* A call that is recorded; `start` is 0 for one that is not. */
struct fake_traced_call {
    uint64_t start;
    uint32_t correlation;
};

/* Called without the driver's lock. */
struct fake_tracer {
    /* The tracer's own number for a function, asked for once; negative: it has none. */
    int (*number)(const char *symbol);
    void (*begin)(int number, struct fake_traced_call *call);
    void (*event)(const struct fake_traced_call *call, const struct fake_event *event);
    void (*end)(int number, const struct fake_traced_call *call, int result);
};

/* Functions of the fake driver, found by dlsym. */
void fake_cuda_trace(const struct fake_tracer *tracer);
bool fake_cuda_has_context(void);

/* Objects that were made and not destroyed, without default pools and streams 0. */
struct fake_count {
    unsigned pools, pool_blocks, references, streams, events, blocks;
    unsigned depth;                 /* contexts on this thread's stack */
    unsigned handles, ranges, maps; /* of virtual memory */
    unsigned faults;                /* mappings that were undone while work that names them was not done */
    uint64_t handle_bytes;
};
void fake_cuda_count(struct fake_count *out);

/* The function of that index, and how often it was called; NULL past the last. */
const char *fake_cuda_function(unsigned place, int *calls);

#define FAKE_CUDA_COUNT       "fake_cuda_count"
#define FAKE_CUDA_FUNCTION    "fake_cuda_function"
#define FAKE_CUDA_TRACE       "fake_cuda_trace"
#define FAKE_CUDA_HAS_CONTEXT "fake_cuda_has_context"

#endif
