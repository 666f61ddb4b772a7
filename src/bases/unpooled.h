/* What the bases `cuda`, `managed` and `pinned` have in common: one driver call for each allocation, and figures. */
#ifndef TIDEI_BASES_UNPOOLED_H
#define TIDEI_BASES_UNPOOLED_H

#include "src/tables/blocks.h"
#include "src/cuda/device.h"

#ifdef HAVE_CUDA_H

struct tidei_unpooled;

/* The two calls that a kind makes; the context is current. *function is the one that failed. */
struct tidei_unpooled_calls {
    CUresult (*allocate)(struct tidei_unpooled *self, size_t bytes, void **out, const char **function);
    CUresult (*deallocate)(struct tidei_unpooled *self, void *pointer, const char **function);
};

struct tidei_unpooled {
    struct tide_resource base;
    struct tidei_device device;
    const struct tidei_unpooled_calls *calls; /* static */
    size_t largest_bytes;                     /* no request past it reaches the driver */
    _Atomic uint64_t used;                    /* bytes outstanding, of all threads */
    _Atomic uint64_t used_high;
    struct tidei_lock lock;     /* guards what follows; nothing is called while it is held */
    struct tidei_blocks blocks; /* what is out */
    uint32_t freeing;           /* taken out of `blocks`, but maybe put back: the driver has not answered */
};

/* More than any address space has: the driver must not get to round what is near SIZE_MAX. */
#define TIDEI_PLAIN_LARGEST ((size_t)1 << 47)

/*
 * Set up *self, whose head is initialized and whose rest is zero, on the device `ordinal`, the first argument of its
 * kind, which *fault says where there is no such device. On failure there is nothing to close.
 * Errors: those of tidei_device_open.
 */
enum tide_status tidei_unpooled_open(struct tidei_unpooled *self, const struct tidei_unpooled_calls *calls, int ordinal,
                                     size_t *fault);
void tidei_unpooled_close(struct tide_resource *self);

/* Operations. */
enum tide_status tidei_unpooled_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream,
                                         void **out);
enum tide_status tidei_unpooled_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment,
                                           tide_stream stream);
enum tide_status tidei_unpooled_order(struct tide_resource *self, tide_stream earlier, tide_stream later);

/* What all kinds answer alike: bytes, stream order, alignment, and the device's figures. */
enum tide_status tidei_unpooled_query(struct tide_resource *self, enum tide_query what, uint64_t *out);

#endif
#endif
