/* The private declarations of the bases `driver` and `driver_import`. */
#ifndef TIDEI_BASES_DRIVER_POOL_H
#define TIDEI_BASES_DRIVER_POOL_H

#include "src/cuda/marks.h"

#ifdef HAVE_CUDA_H

#include <tidemark/driver.h>

/* Every address of a pool is a multiple of this: CUDA Programming Guide, device memory accesses. */
#define TIDEI_POOL_ALIGNMENT ((size_t)256)

/* As in enum CUmemAllocationHandleType; headers of older CUDA versions lack some. */
#define TIDEI_POOL_POSIX_FD 1
#define TIDEI_POOL_FABRIC   8 /* 12.4 */

/* The release threshold, set once as requested and once more for the initial size, and three reuse policies. */
#define TIDEI_POOL_SETTINGS 5

/* A pool attribute that was set, with its previous value. */
struct driver_setting {
    CUmemPool_attribute attribute;
    uint64_t before;
    uint64_t value;
};

struct driver {
    struct tide_resource base;
    struct tidei_device device;
    CUmemoryPool pool;       /* owned, unless it is the default pool */
    uint64_t capacity_bytes; /* larger requests never reach the driver */
    struct tide_driver_options options;
    struct driver_setting settings[TIDEI_POOL_SETTINGS]; /* written at creation */
    size_t setting_count;
    struct tidei_marks marks;      /* behind frees whose memory a layer above wants given back */
    struct tidei_lock access_lock; /* held from the query of an access to its change */
};

/* `resource` as a driver; NULL, with the text set, where it is another kind. */
struct driver *tidei_driver_of(struct tide_resource *resource);

/*
 * Create or adopt the pool that the options ask for; tidei_mempool_close undoes even a failed attempt. The device is
 * open and its context current. Errors: those of tide_driver_create.
 */
enum tide_status tidei_mempool_open(struct driver *self);
void tidei_mempool_close(struct driver *self);

/* Check that device and driver support pools; the text of TIDE_EUNSUPPORTED names an alternative. */
enum tide_status tidei_mempool_possible(const struct driver *self);

/* Read or set an attribute of the pool, also from a thread without a context; *out is 0 on failure. */
enum tide_status tidei_mempool_figure(struct driver *self, CUmemPool_attribute attribute, uint64_t *out);
enum tide_status tidei_mempool_figure_set(struct driver *self, CUmemPool_attribute attribute, uint64_t value);

/* Set the error text for a request that the pool has no room for. Returns TIDE_ECAPACITY. */
enum tide_status tidei_mempool_refuse(struct driver *self, uint64_t bytes);

#endif
#endif
