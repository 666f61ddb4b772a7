/*
 * The memory of one pool: reserved in slabs of 32 MiB, given out in blocks, taken back in stream order. A free block is
 * there for a stream that comes behind the free: the same one at once, another as the pool's three policies say.
 */
#include "tests/fake-cuda/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

bool
fake_pool_map(CUmemoryPool pool, int protection)
{
    int flags = pool->fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *base = mmap(NULL, pool->span_bytes, protection, flags | MAP_NORESERVE, pool->fd, 0);

    if (base == MAP_FAILED)
        return false;
    pool->base = base;
    return true;
}

static uint64_t
blocks_rounded(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

static struct fake_block **
blocks_bucket(CUmemoryPool pool, uint64_t offset)
{
    return &pool->buckets[offset / FAKE_GRANULE % FAKE_POOL_BUCKETS];
}

/* Put a block behind `before` (NULL: first). */
static struct fake_block *
blocks_insert(CUmemoryPool pool, struct fake_block *before, uint64_t offset, uint64_t bytes)
{
    struct fake_block *block = calloc(1, sizeof(*block));

    if (block == NULL)
        abort();
    block->offset = offset;
    block->bytes = bytes;
    block->before = before;
    block->after = before != NULL ? before->after : pool->first;
    if (block->after != NULL)
        block->after->before = block;
    if (before != NULL)
        before->after = block;
    else
        pool->first = block;
    return block;
}

static void
blocks_list_free(CUmemoryPool pool, struct fake_block *block)
{
    block->free_before = NULL;
    block->free_after = pool->first_free;
    if (pool->first_free != NULL)
        pool->first_free->free_before = block;
    pool->first_free = block;
}

static void
blocks_unlist_free(CUmemoryPool pool, struct fake_block *block)
{
    if (block->free_before != NULL)
        block->free_before->free_after = block->free_after;
    else
        pool->first_free = block->free_after;
    if (block->free_after != NULL)
        block->free_after->free_before = block->free_before;
}

/* Remove a free block from the lists. */
static void
blocks_remove(CUmemoryPool pool, struct fake_block *block)
{
    blocks_unlist_free(pool, block);
    if (block->before != NULL)
        block->before->after = block->after;
    else
        pool->first = block->after;
    if (block->after != NULL)
        block->after->before = block->before;
    free(block);
}

static bool
blocks_touch(const struct fake_block *block)
{
    return block->after != NULL && block->offset + block->bytes == block->after->offset;
}

static bool
blocks_join(CUmemoryPool pool, struct fake_block *block)
{
    struct fake_block *after = block->after;

    if (!blocks_touch(block) || after->live || block->retired != after->retired ||
        (!block->retired && block->freed.stream != after->freed.stream))
        return false;
    if (block->freed.seq < after->freed.seq)
        block->freed.seq = after->freed.seq;
    block->bytes += after->bytes;
    blocks_remove(pool, after);
    return true;
}

static void
blocks_join_both(CUmemoryPool pool, struct fake_block *block)
{
    while (blocks_join(pool, block))
        continue;
    block = block->before;
    while (block != NULL && !block->live && blocks_join(pool, block))
        block = block->before;
}

static bool
blocks_usable(CUmemoryPool pool, const struct fake_block *block, CUstream stream)
{
    if (block->retired || block->freed.stream == stream)
        return true;
    if (pool->follow_events && fake_stream_knows(stream, block->freed))
        return true;
    return pool->opportunistic && fake_point_is_done(block->freed);
}

/* Which blocks a search may take: the stream's own, those that the pool's policies allow, or all. */
enum blocks_whose { BLOCKS_OWN, BLOCKS_USABLE, BLOCKS_ALL };

static bool
blocks_taken(CUmemoryPool pool, const struct fake_block *block, CUstream stream, enum blocks_whose whose)
{
    switch (whose) {
    case BLOCKS_OWN:
        return block->retired || block->freed.stream == stream;
    case BLOCKS_USABLE:
        return blocks_usable(pool, block, stream);
    default:
        return true;
    }
}

/* The first block of the smallest run of free blocks that holds the bytes; among equal runs, the one freed last. */
static struct fake_block *
blocks_search(CUmemoryPool pool, uint64_t bytes, CUstream stream, enum blocks_whose whose)
{
    struct fake_block *best = NULL;
    uint64_t best_bytes = UINT64_MAX;

    for (struct fake_block *start = pool->first_free; start != NULL; start = start->free_after) {
        struct fake_block *last = start;
        uint64_t run_bytes = 0;

        for (;;) {
            if (!blocks_taken(pool, last, stream, whose))
                break;
            run_bytes += last->bytes;
            if (run_bytes >= bytes || !blocks_touch(last) || last->after->live)
                break;
            last = last->after;
        }
        if (run_bytes >= bytes && run_bytes < best_bytes) {
            best = start;
            best_bytes = run_bytes;
        }
    }
    return best;
}

/* The slabs from `first` on are reserved. */
static void
blocks_reserve(CUmemoryPool pool, size_t first, size_t count)
{
    struct fake_block *before = NULL;
    struct fake_block *block;

    for (struct fake_block *known = pool->first; known != NULL && known->offset < first * FAKE_SLAB_BYTES;
         known = known->after)
        before = known;
    mprotect(pool->base + first * FAKE_SLAB_BYTES, count * FAKE_SLAB_BYTES, PROT_READ | PROT_WRITE);
    for (size_t i = first; i < first + count; i++)
        pool->slabs[i] = true;
    pool->reserved_bytes += count * FAKE_SLAB_BYTES;
    if (pool->reserved_high_bytes < pool->reserved_bytes)
        pool->reserved_high_bytes = pool->reserved_bytes;
    block = blocks_insert(pool, before, first * FAKE_SLAB_BYTES, count * FAKE_SLAB_BYTES);
    block->retired = true;
    blocks_list_free(pool, block);
    blocks_join_both(pool, block);
}

/* The bytes before the slab that the stream may use. */
static uint64_t
blocks_tail(CUmemoryPool pool, size_t slab, CUstream stream)
{
    for (const struct fake_block *block = pool->first_free; block != NULL; block = block->free_after) {
        if (block->offset + block->bytes == slab * FAKE_SLAB_BYTES && blocks_usable(pool, block, stream))
            return block->bytes;
    }
    return 0;
}

/*
 * Reserve the fewest slabs that hold the request together with the free bytes before them. False if there is no room.
 */
static bool
blocks_grow(CUmemoryPool pool, uint64_t bytes, CUstream stream)
{
    size_t best = SIZE_MAX;
    size_t best_count = SIZE_MAX;

    for (size_t first = 0; first < pool->slab_count; first++) {
        uint64_t tail = pool->slabs[first] ? 0 : blocks_tail(pool, first, stream);
        size_t count = (size_t)(blocks_rounded(bytes - (tail < bytes ? tail : 0), FAKE_SLAB_BYTES) / FAKE_SLAB_BYTES);
        size_t room = first;

        while (room < pool->slab_count && room < first + count && !pool->slabs[room])
            room++;
        if (room == first + count && count < best_count) {
            best = first;
            best_count = count;
        }
    }
    if (best == SIZE_MAX || best_count * FAKE_SLAB_BYTES > pool->most_bytes - pool->reserved_bytes ||
        !fake_device_take(pool->device, best_count * FAKE_SLAB_BYTES))
        return false;
    blocks_reserve(pool, best, best_count);
    return true;
}

/* Enter a block as live. */
static void
blocks_enter(CUmemoryPool pool, struct fake_block *block)
{
    struct fake_block **bucket = blocks_bucket(pool, block->offset);

    block->live = true;
    block->chain = *bucket;
    *bucket = block;
    pool->live_count++;
}

/* Make one live block of the run that begins at `start`; the rest stays free. */
static struct fake_block *
blocks_take(CUmemoryPool pool, struct fake_block *start, uint64_t bytes)
{
    uint64_t offset = start->offset;
    struct fake_block *before = start->before;
    struct fake_block *block;
    uint64_t left = bytes;

    while (left > 0) {
        struct fake_block *after = start->after;

        if (start->bytes > left) {
            start->offset += left;
            start->bytes -= left;
            left = 0;
        } else {
            left -= start->bytes;
            blocks_remove(pool, start);
            start = after;
        }
    }
    block = blocks_insert(pool, before, offset, bytes);
    blocks_enter(pool, block);
    return block;
}

void
fake_pool_import_block(CUmemoryPool pool, uint64_t offset, uint64_t bytes)
{
    struct fake_block *before = NULL;
    struct fake_block *block;

    for (struct fake_block *known = pool->first; known != NULL && known->offset < offset; known = known->after)
        before = known;
    block = blocks_insert(pool, before, offset, bytes);
    block->requested_bytes = bytes;
    block->id = fake_memory_id();
    blocks_enter(pool, block);
}

/* Make the stream wait for the streams that have freed the run. */
static void
blocks_depend(CUmemoryPool pool, const struct fake_block *start, uint64_t bytes, CUstream stream)
{
    struct fake_clock waits = { 0 };

    for (uint64_t seen = 0; seen < bytes; start = start->after) {
        if (!blocks_usable(pool, start, stream))
            fake_clock_add(&waits, start->freed);
        seen += start->bytes;
    }
    fake_submit_wait(stream, &waits);
    fake_clock_free(&waits);
}

CUresult
fake_pool_allocate(CUmemoryPool pool, size_t bytes, CUstream stream, CUdeviceptr *out)
{
    uint64_t rounded = blocks_rounded(bytes, FAKE_GRANULE);
    struct fake_block *block;

    if (bytes > pool->most_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake_stream_order_legacy(stream);
    block = blocks_search(pool, rounded, stream, BLOCKS_OWN);
    if (block == NULL)
        block = blocks_search(pool, rounded, stream, BLOCKS_USABLE);
    if (block == NULL && blocks_grow(pool, rounded, stream))
        block = blocks_search(pool, rounded, stream, BLOCKS_USABLE);
    if (block == NULL && pool->internal_dependencies) {
        block = blocks_search(pool, rounded, stream, BLOCKS_ALL);
        if (block != NULL)
            blocks_depend(pool, block, rounded, stream);
    }
    if (block == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block = blocks_take(pool, block, rounded);
    block->requested_bytes = bytes;
    block->id = fake_memory_id();
    block->context = stream->context;
    pool->used_bytes += bytes;
    if (pool->used_high_bytes < pool->used_bytes)
        pool->used_high_bytes = pool->used_bytes;
    *out = (CUdeviceptr)(uintptr_t)(pool->base + block->offset);
    return CUDA_SUCCESS;
}

struct fake_block *
fake_pool_block(CUmemoryPool pool, uint64_t address)
{
    uint64_t offset = address - (uint64_t)(uintptr_t)pool->base;
    struct fake_block *block = *blocks_bucket(pool, offset);

    while (block != NULL && block->offset != offset)
        block = block->chain;
    if (block != NULL)
        return block;
    for (block = pool->first; block != NULL; block = block->after) {
        if (block->live && block->offset <= offset && offset - block->offset < block->bytes)
            return block;
    }
    return NULL;
}

void
fake_pool_free(CUmemoryPool pool, struct fake_block *block, struct fake_point point)
{
    struct fake_block **link = blocks_bucket(pool, block->offset);

    while (*link != block)
        link = &(*link)->chain;
    *link = block->chain;
    pool->live_count--;
    if (point.stream != NULL && !pool->imported) /* as observed, memory freed by cuMemFree goes on counting */
        pool->used_bytes -= block->requested_bytes;
    block->live = false;
    block->retired = point.stream == NULL;
    block->freed = point;
    blocks_list_free(pool, block);
    if (pool->imported)
        blocks_remove(pool, block);
    else
        blocks_join_both(pool, block);
    /* What is freed in the order of a stream is there until the stream has come that far; see pools_drop_done. */
    if (!pool->alive && pool->live_count == 0 && !fake_pool_waits(pool))
        fake_pool_drop(pool);
}

bool
fake_pool_waits(CUmemoryPool pool)
{
    for (const struct fake_block *block = pool->first_free; block != NULL; block = block->free_after) {
        if (!fake_point_is_done(block->freed))
            return true;
    }
    return false;
}

void
fake_pool_retire(CUmemoryPool pool)
{
    for (struct fake_block *block = pool->first; block != NULL; block = block->after) {
        if (!block->live && !block->retired && fake_point_is_done(block->freed)) {
            block->retired = true;
            block->freed = (struct fake_point){ 0 };
        }
    }
    for (struct fake_block *block = pool->first; block != NULL; block = block->after) {
        while (!block->live && blocks_join(pool, block))
            continue;
    }
}

/* Remove the slab's bytes from the free block that has them. */
static void
blocks_release(CUmemoryPool pool, struct fake_block *block, size_t slab)
{
    uint64_t start = slab * FAKE_SLAB_BYTES;
    uint64_t end = block->offset + block->bytes;

    if (end > start + FAKE_SLAB_BYTES) {
        struct fake_block *rest = blocks_insert(pool, block, start + FAKE_SLAB_BYTES, end - start - FAKE_SLAB_BYTES);

        rest->retired = true;
        blocks_list_free(pool, rest);
    }
    block->bytes = start - block->offset;
    if (block->bytes == 0)
        blocks_remove(pool, block);
    mprotect(pool->base + start, FAKE_SLAB_BYTES, PROT_NONE);
    if (pool->fd >= 0)
        (void)!fallocate(pool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start, (off_t)FAKE_SLAB_BYTES);
    else
        madvise(pool->base + start, FAKE_SLAB_BYTES, MADV_DONTNEED);
    pool->slabs[slab] = false;
    pool->reserved_bytes -= FAKE_SLAB_BYTES;
    fake_device_give(pool->device, FAKE_SLAB_BYTES);
}

static struct fake_block *
blocks_free_at(CUmemoryPool pool, uint64_t start)
{
    for (struct fake_block *block = pool->first_free; block != NULL; block = block->free_after) {
        if (block->retired && block->offset <= start && block->offset + block->bytes >= start + FAKE_SLAB_BYTES)
            return block;
    }
    return NULL;
}

uint64_t
fake_pool_trim(CUmemoryPool pool, uint64_t most_bytes)
{
    uint64_t before_bytes = pool->reserved_bytes;

    for (size_t slab = pool->slab_count; slab > 0 && pool->reserved_bytes > most_bytes; slab--) {
        struct fake_block *block = NULL;

        if (pool->slabs[slab - 1])
            block = blocks_free_at(pool, (slab - 1) * FAKE_SLAB_BYTES);
        if (block != NULL)
            blocks_release(pool, block, slab - 1);
    }
    return before_bytes - pool->reserved_bytes;
}
