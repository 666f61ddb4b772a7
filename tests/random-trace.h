/*
 * Small random traces, and the same allocations in memory, for tests that compare an analysis with brute force: a log 1
 * over a pool 2 that takes chunks through a log 3 from a sim 4. There are few different times, so that many events have
 * the same one.
 */
#ifndef TESTS_RANDOM_TRACE_H
#define TESTS_RANDOM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANDOM_LIVES   400
#define RANDOM_TAGS    5 /* 1 to 5: a, a/b, a/b/c, d, d/e; 0 is none */
#define RANDOM_STREAMS 3
#define RANDOM_THREADS 2
#define RANDOM_CHUNK   16384
#define RANDOM_NEVER   (-1)

struct random_life {
    int64_t id;
    int64_t layer; /* 1 or 3 */
    int64_t address;
    int64_t size;
    int64_t alignment;
    int64_t status; /* 0, or 3: the pool was full */
    int64_t tag;
    int64_t stream;
    int64_t thread;
    int64_t alloc_ns;
    int64_t free_ns; /* RANDOM_NEVER: live at the end */
};

struct random_trace {
    struct random_life lives[RANDOM_LIVES];
    size_t count;
    int64_t end_ns;
    uint64_t seed; /* of this trace */
};

/* Make a trace of about `count` allocations of layer 1. The same seed makes the same trace. */
void random_trace_make(struct random_trace *trace, uint64_t seed, size_t count);

/* Write it to `path`, which is replaced. */
void random_trace_write(const struct random_trace *trace, const char *path);

/*
 * Whether an allocation is live right after the allocation or the free of another. A request
 * of 0 bytes never is. The order is that of scan.h.
 */
bool random_trace_is_live(const struct random_life *life, const struct random_life *event, bool is_free);

/* The figures of a moment, from a map of every 256 bytes of every chunk. */
struct random_map {
    int64_t requested, rounded, inside, reserved, largest, holes, blocks, chunks, empty;
    int64_t unusable; /* in holes smaller than the request */
};

/* `live` tells which allocations are live. */
void random_trace_map(const struct random_trace *trace, const bool *live, int64_t request, struct random_map *out);

/* The seed of a test: SEED, or the clock; it is printed. */
uint64_t random_trace_seed(void);

uint64_t random_draw(uint64_t *state, uint64_t below);

#endif
