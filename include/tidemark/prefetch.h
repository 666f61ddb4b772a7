/* prefetch: when managed memory is allocated, moves it to where it will be used. */
#ifndef TIDEMARK_PREFETCH_H
#define TIDEMARK_PREFETCH_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_prefetch_options {
    size_t struct_size;   /* TIDE_OPTIONS */
    uint64_t above_bytes; /* only requests of more than this are moved; 0: all */
    bool to_host;         /* move them to the host instead of to the device of `managed` below */
    uint8_t reserved[7];  /* 0 */
};

/*
 * Create a layer over `managed` that moves each allocation to its device, or to the host, in the order of the
 * allocation's stream (cuMemPrefetchAsync), so that the first kernel that uses it meets no page faults.
 *
 * If the prefetch fails, the memory is given back and the allocation fails. The thread's current context must be one of
 * the device, or none.
 *
 * Holds a reference to `upstream`. `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL), TIDE_EUNSUPPORTED (the memory below is not managed; the device has no concurrent managed
 * access; the driver has no cuMemPrefetchAsync), TIDE_ENOMEM, TIDE_EDRIVER. Errors of its allocations: TIDE_EDRIVER,
 * and what upstream returns.
 * Thread safety: any thread. Source: CUDA Driver API, unified addressing. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_prefetch_create(struct tide_resource *upstream,
                                                  const struct tide_prefetch_options *options,
                                                  struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
