/* The common part of the bases `cuda`, `managed` and `pinned`: one driver call for each allocation, and figures. */
#ifndef TIDEI_BASES_UNPOOLED_H
#define TIDEI_BASES_UNPOOLED_H

#include "src/tables/blocks.h"
#include "src/cuda/device.h"

#ifdef HAVE_CUDA_H

struct tidei_unpooled;

/* The two driver calls of a kind, made with the context current. *function is the name of the one that failed. */
struct tidei_unpooled_calls {
    CUresult (*allocate)(struct tidei_unpooled *self, size_t bytes, void **out, const char **function);
    CUresult (*deallocate)(struct tidei_unpooled *self, void *pointer, const char **function);
};

struct tidei_unpooled {
    struct tide_resource base;
    struct tidei_device device;
    const struct tidei_unpooled_calls *calls; /* static */
    size_t largest_bytes;                     /* larger requests never reach the driver */
    _Atomic uint64_t used;                    /* bytes outstanding */
    _Atomic uint64_t used_high;
    struct tidei_lock lock;     /* guards the fields below; nothing is called while it is held */
    struct tidei_blocks blocks; /* live blocks */
    uint32_t freeing;           /* removed from `blocks`, but may be put back: the driver has not answered */
};

/* Larger than any address space. The driver must not see sizes near SIZE_MAX, which it would round up. */
#define TIDEI_PLAIN_LARGEST ((size_t)1 << 47)

/*
 * Initialize *self, whose head is set and whose rest is zero, on the device `ordinal`. Where there is no such device,
 * *fault is the index of that argument, the first of its kind. On failure there is nothing to close. Errors: those of
 * tidei_device_open.
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

/* The query operation that all kinds share: bytes, stream order, alignment, and the device's figures. */
enum tide_status tidei_unpooled_query(struct tide_resource *self, enum tide_query what, uint64_t *out);

#endif
#endif
