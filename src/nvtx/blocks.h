/*
 * What the layers that cut memory into blocks tell a tool by NVTX: their chunks as heaps, their blocks as regions.
 *
 * Layers may stand on each other. An address lies in one heap and in one region at most: the heap is that of the lowest
 * layer that tells anything, and the region that of the uppermost. So what a layer takes from one below it to cut it up
 * is no heap of its own, and the region that the layer below has just told ends with it. A chunk that touches another
 * may share a block with it (pools over pages); such a block has a region in each heap.
 *
 * The end of a region is told before its memory can serve another request, and after the device has done what was
 * submitted: work that was submitted before the free may use the block to its end. Work in order of the stream behind
 * the free may not, and the tool says so.
 *
 * A layer asks once, at its creation. Where no tool listens that is all: neither a lock nor a table is touched.
 */
#ifndef TIDEI_NVTX_BLOCKS_H
#define TIDEI_NVTX_BLOCKS_H

#include <tidemark/nvtx.h>

#include "src/resource/resource.h"

/* The row of the argument `nvtx` of a kind. */
#define TIDEI_NVTX_ARGUMENT(options)                                                                                   \
    TIDEI_ARGUMENT("nvtx", CHOICE, options, nvtx, "auto or off", .choices = tidei_nvtx_choices)
extern const char *const tidei_nvtx_choices[];

/* Whether a layer with the option `nvtx` (enum tide_nvtx) has to tell a tool; at its creation. */
bool tidei_nvtx_wanted(uint32_t nvtx);

/* The layer `name` has got a chunk to cut up, or is about to return one: what it has in it ends. Any thread. */
void tidei_nvtx_chunk(const char *name, const void *pointer, size_t bytes);
void tidei_nvtx_chunk_end(const void *pointer, size_t bytes);

/* What the layer had in the first `bytes` of a chunk ends, and it keeps the chunk. */
void tidei_nvtx_chunk_reset(const void *pointer, size_t bytes);

/* What a layer does with requests where nobody is to be told. */
struct tidei_nvtx_plain {
    enum tide_status (*allocate)(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream,
                                 void **out);
    enum tide_status (*deallocate)(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment,
                                   tide_stream stream);
};

/* The operations of a layer that tells a tool. Errors: those of `plain`, TIDE_ENOMEM. */
enum tide_status tidei_nvtx_allocate(struct tide_resource *self, const struct tidei_nvtx_plain *plain, size_t bytes,
                                     size_t alignment, tide_stream stream, void **out);
enum tide_status tidei_nvtx_deallocate(struct tide_resource *self, const struct tidei_nvtx_plain *plain, void *pointer,
                                       size_t bytes, size_t alignment, tide_stream stream);

/* Have the host wait until the device has done what was submitted, where that can be had of the layers below `self`. */
void tidei_nvtx_wait(struct tide_resource *self);

#endif
