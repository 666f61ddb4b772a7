/* prefetch: move managed memory to where it is to be used when it is allocated. */
#ifndef TIDEMARK_PREFETCH_H
#define TIDEMARK_PREFETCH_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_prefetch_options {
    size_t struct_size;
    uint64_t above_bytes; /* requests of no more than that are left where they are; 0: none are */
    bool to_host;         /* to the host, instead of the device of the memory below */
    uint8_t reserved[7];  /* 0 */
};

/*
 * Have what `upstream`, over `managed`, allocates moved to its device, or to the host, in the order of the allocation's
 * stream (cuMemPrefetchAsync), so that the first kernel that uses it meets no page faults. `options` may be NULL.
 *
 * An allocation whose prefetch fails is given back, and fails. The thread's current context must be one of the device,
 * or none.
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL), TIDE_EUNSUPPORTED (no managed memory below, a device without concurrent managed access, a
 * driver without cuMemPrefetchAsync), TIDE_ENOMEM, TIDE_EDRIVER. Its allocations: TIDE_EDRIVER.
 * Thread safety: any thread. Source: CUDA Driver API, unified addressing. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_prefetch_create(struct tide_resource *upstream,
                                                  const struct tide_prefetch_options *options,
                                                  struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
