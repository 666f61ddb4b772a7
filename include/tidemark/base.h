/* The bases: where a stack's memory comes from. */
#ifndef TIDEMARK_BASE_H
#define TIDEMARK_BASE_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* host: aligned host memory from the C library. */
struct tide_host_options {
    size_t struct_size;
    uint64_t capacity_bytes; /* the most requested bytes outstanding; 0: no bound */
};

/*
 * Create a base over the C library's aligned allocation.
 *
 * Errors: TIDE_ENOMEM. Its allocations: TIDE_ECAPACITY (past the capacity, or the C library has none),
 * TIDE_EOVERFLOW. It does not know its pointers: a wrong size given back is not noticed.
 * Thread safety: any thread; the capacity is one atomic counter. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_host_create(const struct tide_host_options *options, struct tide_resource **out);

/* sim: addresses only, no memory behind them. */
struct tide_sim_options {
    size_t struct_size;
    uint64_t capacity_bytes;    /* the most bytes outstanding, rounded up to the granularity; 0: no bound */
    uint64_t granularity_bytes; /* power of two that each request counts rounded up to; 0: 1 */
};

/*
 * Create a base that hands out addresses with no memory behind them, for replays and planning on any machine.
 *
 * Live addresses never overlap, freed ones come back. It knows what it gave out.
 * Errors: TIDE_EINVAL (granularity), TIDE_ENOMEM. Its allocations: TIDE_ECAPACITY, TIDE_EOVERFLOW, TIDE_ENOMEM; its
 * deallocations: TIDE_EPOINTER, TIDE_EMISMATCH.
 * Thread safety: any thread; a short lock for each size class. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_sim_create(const struct tide_sim_options *options, struct tide_resource **out);

/* driver: a CUmemoryPool. */
struct tide_driver_options {
    size_t struct_size;
    int device;                       /* CUDA ordinal */
    bool use_default_pool;            /* the device's default pool instead of one of our own */
    bool set_release_threshold;       /* else the driver's own: 0 for a new pool */
    uint64_t release_threshold_bytes; /* what a synchronize lets the pool keep; UINT64_MAX: all */
    uint64_t maximum_bytes;           /* the most the pool may grow to; 0: no bound; not for the default pool */
};

/*
 * Create a base over the stream-ordered memory pool of a CUDA device. Retains the device's primary context, and
 * works with no current context, with the application's own, and from threads that never touched CUDA.
 *
 * TIDE_QUERY_BYTES_USED and TIDE_QUERY_BYTES_RESERVED are the pool's: for the default pool they count everybody who
 * uses it, in this process also those who know nothing of Tidemark. An order behind TIDE_STREAM_ALL waits, on the
 * host, for the device's primary context and for the context that is current: streams of the application's other
 * contexts are the application's to wait for. It fails while a stream there is captured into a graph.
 *
 * Errors: TIDE_EUNSUPPORTED (the build has no CUDA, the machine no driver, the device no pools; the text says
 * which), TIDE_EINVAL (no such device, a maximum for the default pool), TIDE_EDRIVER, TIDE_ENOMEM. Its allocations:
 * TIDE_ECAPACITY (CUDA_ERROR_OUT_OF_MEMORY), TIDE_EINVAL (alignment over 256 bytes), TIDE_EDRIVER.
 * Thread safety: any thread; the driver takes its own lock. Source: CUDA Driver API, stream ordered memory
 * allocator. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_create(const struct tide_driver_options *options, struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
