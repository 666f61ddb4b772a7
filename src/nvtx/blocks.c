/* Keeps the heaps and regions that a tool was told, by address; see blocks.h. */
#include "config.h"

#include "src/nvtx/blocks.h"

#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "src/context/tag.h"
#include "src/cuda/driver-table.h"
#include "src/nvtx/tool.h"
#include "src/sync/lock.h"

/* Of a heap or of a block. In a tree no two overlap. */
struct range {
    uintptr_t base;
    size_t bytes;
    void *heap; /* of a heap: its handle */
};

static pthread_once_t blocks_once = PTHREAD_ONCE_INIT;
static struct tidei_lock blocks_lock; /* guards the trees; a leaf */
static void *heaps, *blocks;          /* binary trees of search.h */

const char *const tidei_nvtx_choices[] = { "auto", "off", NULL };

static void
blocks_set_up(void)
{
    tidei_lock_init(&blocks_lock);
}

bool
tidei_nvtx_wanted(uint32_t nvtx)
{
    if (nvtx == TIDE_NVTX_OFF || !tidei_nvtx_tool_listens())
        return false;
    pthread_once(&blocks_once, blocks_set_up);
    return true;
}

/* Ranges that overlap are the same one. */
static int
compare(const void *left, const void *right)
{
    const struct range *one = left, *other = right;

    if (one->base + (one->bytes - 1) < other->base)
        return -1;
    return other->base + (other->bytes - 1) < one->base;
}

/* A range of the tree that overlaps the bytes (not 0) at `base`; NULL: there is none. The caller holds the lock. */
static struct range *
tree_find(void **tree, uintptr_t base, size_t bytes)
{
    const struct range wanted = { .base = base, .bytes = bytes };
    void *node = tfind(&wanted, tree, compare);

    return node != NULL ? *(struct range **)node : NULL;
}

/* Add a range that overlaps none. False without host memory. The caller holds the lock. */
static bool
tree_add(void **tree, const struct range *range)
{
    struct range *copy = malloc(sizeof(*copy));

    if (copy == NULL)
        return false;
    *copy = *range;
    if (tsearch(copy, tree, compare) != NULL)
        return true;
    free(copy);
    return false;
}

/* Take a range out into *out. The caller holds the lock. */
static void
tree_remove(void **tree, struct range *range, struct range *out)
{
    *out = *range;
    tdelete(range, tree, compare);
    free(range);
}

/* The same for any that overlaps; false where there is none. Takes the lock. */
static bool
tree_take(void **tree, uintptr_t base, size_t bytes, struct range *out)
{
    struct range *found;

    tidei_lock_acquire(&blocks_lock);
    found = tree_find(tree, base, bytes);
    if (found != NULL)
        tree_remove(tree, found, out);
    tidei_lock_release(&blocks_lock);
    return found != NULL;
}

/* The part of the block, from `offset` on, that lies in one heap; false at the end. Takes the lock. */
static bool
block_part(const struct range *block, size_t offset, struct range *part)
{
    const struct range *heap = NULL;

    if (offset < block->bytes) {
        tidei_lock_acquire(&blocks_lock);
        heap = tree_find(&heaps, block->base + offset, block->bytes - offset);
        /* Any that overlaps was found, wanted is the first: the one found may begin behind another. */
        for (const struct range *earlier = heap; earlier != NULL && heap->base > block->base + offset;) {
            earlier = tree_find(&heaps, block->base + offset, heap->base - (block->base + offset));
            heap = earlier != NULL ? earlier : heap;
        }
        if (heap != NULL)
            *part = *heap;
        tidei_lock_release(&blocks_lock);
    }
    if (heap == NULL)
        return false;
    if (part->base < block->base + offset) {
        part->bytes -= block->base + offset - part->base;
        part->base = block->base + offset;
    }
    if (part->bytes > block->base + block->bytes - part->base)
        part->bytes = block->base + block->bytes - part->base;
    return true;
}

static void
block_tell(const struct range *block)
{
    char *path = tidei_tag_path(tidei_tag_now());
    struct range part;

    for (size_t offset = 0; block_part(block, offset, &part); offset = part.base + part.bytes - block->base)
        tidei_nvtx_tool_region(part.heap, (const void *)part.base, part.bytes, path != NULL ? path : "");
    free(path);
}

static void
block_tell_end(const struct range *block)
{
    struct range part;

    for (size_t offset = 0; block_part(block, offset, &part); offset = part.base + part.bytes - block->base)
        tidei_nvtx_tool_region_end((const void *)part.base);
}

/* Whether exactly this block was told. */
static bool
block_is(uintptr_t base, size_t bytes)
{
    const struct range *found;
    bool is_it;

    tidei_lock_acquire(&blocks_lock);
    found = tree_find(&blocks, base, 1);
    is_it = found != NULL && found->base == base && found->bytes == bytes;
    tidei_lock_release(&blocks_lock);
    return is_it;
}

/*
 * Tell a block, unless the tool has accepted no heap for it. A block whose address still has one was handed out twice,
 * by a layer above another that tells nothing. False without host memory.
 */
static bool
block_begin(const struct range *block)
{
    bool in_heap, added;
    struct range stale;

    while (tree_take(&blocks, block->base, block->bytes, &stale))
        block_tell_end(&stale);
    tidei_lock_acquire(&blocks_lock);
    in_heap = tree_find(&heaps, block->base, block->bytes) != NULL;
    added = in_heap && tree_add(&blocks, block);
    tidei_lock_release(&blocks_lock);
    if (added)
        block_tell(block);
    return added || !in_heap;
}

/*
 * Whether a checker takes a chunk as a heap. compute-sanitizer (2025.3) takes memory of cuMemAlloc alone; of the
 * driver's pools and of virtual memory calls it says that the parameters are invalid, and counts an error. cuMemAlloc's
 * memory is what the driver's first way of sharing between processes knows.
 */
static bool
chunk_can_be_told(const void *pointer)
{
#ifdef HAVE_CUDA_H
    const struct tidei_driver *driver = tidei_driver_loaded();
    unsigned int plain = 0;

    return driver == NULL || driver->pointer_get_attribute == NULL ||
           driver->pointer_get_attribute(&plain, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                         (CUdeviceptr)(uintptr_t)pointer) != CUDA_SUCCESS ||
           plain != 0;
#else
    (void)pointer;
    return true;
#endif
}

static void
chunk_cannot_be_told(const char *name)
{
    static _Atomic bool said;

    if (!atomic_exchange_explicit(&said, true, memory_order_relaxed))
        tidei_message(
            TIDE_WARNING,
            "%s: a checker listens by NVTX, but it takes blocks only in memory of the base cuda: what kernels "
            "do outside of these blocks is not found; have the base cuda below while you check",
            name);
}

void
tidei_nvtx_chunk(const char *name, const void *pointer, size_t bytes)
{
    struct range heap = { .base = (uintptr_t)pointer, .bytes = bytes }, stale;
    bool nested, added;

    while (tree_take(&blocks, heap.base, heap.bytes, &stale))
        block_tell_end(&stale);
    tidei_lock_acquire(&blocks_lock);
    nested = tree_find(&heaps, heap.base, heap.bytes) != NULL;
    tidei_lock_release(&blocks_lock);
    if (nested)
        return;
    if (!chunk_can_be_told(pointer)) {
        chunk_cannot_be_told(name);
        return;
    }
    heap.heap = tidei_nvtx_tool_heap(name, pointer, bytes);
    if (heap.heap == NULL)
        return;
    tidei_lock_acquire(&blocks_lock);
    added = tree_add(&heaps, &heap);
    tidei_lock_release(&blocks_lock);
    if (!added) /* without host memory its blocks are none of the tool's either */
        tidei_nvtx_tool_heap_end(heap.heap);
}

/* End what lies in the bytes at `pointer`; true where they are a heap of their own, which is then *heap. */
static bool
chunk_empty(const void *pointer, size_t bytes, struct range *heap)
{
    struct range block;
    const struct range *found;
    bool own;

    while (tree_take(&blocks, (uintptr_t)pointer, bytes, &block))
        block_tell_end(&block);
    tidei_lock_acquire(&blocks_lock);
    found = tree_find(&heaps, (uintptr_t)pointer, bytes);
    own = found != NULL && found->base == (uintptr_t)pointer && found->bytes == bytes;
    if (own)
        *heap = *found;
    tidei_lock_release(&blocks_lock);
    return own;
}

void
tidei_nvtx_chunk_end(const void *pointer, size_t bytes)
{
    struct range heap;

    if (!chunk_empty(pointer, bytes, &heap) || !tree_take(&heaps, heap.base, heap.bytes, &heap))
        return;
    tidei_nvtx_tool_heap_end(heap.heap);
}

void
tidei_nvtx_chunk_reset(const void *pointer, size_t bytes)
{
    struct range heap;

    if (chunk_empty(pointer, bytes, &heap))
        tidei_nvtx_tool_heap_reset(heap.heap);
}

void
tidei_nvtx_wait(struct tide_resource *self)
{
    struct tidei_error error;

    /* A base that cannot wait now, as while a graph is captured, has no work of the block that is under way. */
    tidei_error_save(&error);
    if (self->upstream->ops->order(self->upstream, TIDE_STREAM_ALL, 0) != TIDE_OK)
        tidei_error_restore(&error);
}

enum tide_status
tidei_nvtx_allocate(struct tide_resource *self, const struct tidei_nvtx_plain *plain, size_t bytes, size_t alignment,
                    tide_stream stream, void **out)
{
    enum tide_status status = plain->allocate(self, bytes, alignment, stream, out);
    const struct range block = { .base = (uintptr_t)*out, .bytes = bytes };

    if (status != TIDE_OK || *out == NULL || bytes == 0 || block_begin(&block))
        return status;
    tidei_deallocate_quietly(self, *out, bytes, alignment, stream);
    *out = NULL;
    return tidei_refused(
        self, tide_error_set(TIDE_ENOMEM, "%s: no host memory to note a block for NVTX", tide_resource_name(self)));
}

enum tide_status
tidei_nvtx_deallocate(struct tide_resource *self, const struct tidei_nvtx_plain *plain, void *pointer, size_t bytes,
                      size_t alignment, tide_stream stream)
{
    struct range block = { .base = (uintptr_t)pointer, .bytes = bytes };
    enum tide_status status;
    bool told = pointer != NULL && bytes != 0 && block_is(block.base, bytes);

    if (told) {
        tidei_nvtx_wait(self);
        told = tree_take(&blocks, block.base, bytes, &block);
    }
    if (told)
        block_tell_end(&block);
    status = plain->deallocate(self, pointer, bytes, alignment, stream);
    if (status != TIDE_OK && told)
        block_begin(&block);
    return status;
}
