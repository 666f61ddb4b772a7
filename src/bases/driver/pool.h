/* The base `driver` as its own files know it. */
#ifndef TIDEI_BASES_DRIVER_POOL_H
#define TIDEI_BASES_DRIVER_POOL_H

#include "src/cuda/device.h"

#ifdef HAVE_CUDA_H

#include <tidemark/driver.h>

/* Every address of a pool is a multiple of this: CUDA Programming Guide, device memory accesses. */
#define TIDEI_POOL_ALIGNMENT ((size_t)256)

/* The threshold, once as asked for and once more for the initial size, and three policies. */
#define TIDEI_POOL_SETTINGS 5

/* An attribute that was set, and what it was before. */
struct driver_setting {
    CUmemPool_attribute attribute;
    uint64_t before;
    uint64_t value;
};

struct driver {
    struct tide_resource base;
    struct tidei_device device;
    CUmemoryPool pool;       /* owned, but for the default pool */
    uint64_t capacity_bytes; /* no request past it reaches the driver */
    struct tide_driver_options options;
    struct driver_setting settings[TIDEI_POOL_SETTINGS]; /* written at creation */
    size_t setting_count;
    struct tidei_lock access_lock; /* from asking for an access to setting it */
};

/* `resource` as a driver; NULL, and the text set, where it is none. */
struct driver *tidei_driver_of(struct tide_resource *resource);

/*
 * Make or take the pool that the options ask for, as far as it comes; tidei_mempool_close undoes it. The device is open
 * and its context current. Errors: those of tide_driver_create.
 */
enum tide_status tidei_mempool_open(struct driver *self);
void tidei_mempool_close(struct driver *self);

/* Whether device and driver have pools at all; TIDE_EUNSUPPORTED names the way out. */
enum tide_status tidei_mempool_possible(const struct driver *self);

/* An attribute of the pool, from a thread without a context too; *out is 0 on failure. */
enum tide_status tidei_mempool_figure(struct driver *self, CUmemPool_attribute attribute, uint64_t *out);
enum tide_status tidei_mempool_figure_set(struct driver *self, CUmemPool_attribute attribute, uint64_t value);

/* Set the text for a request that found no room. Returns TIDE_ECAPACITY. */
enum tide_status tidei_mempool_refuse(struct driver *self, uint64_t bytes);

#endif
#endif
