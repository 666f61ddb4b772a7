/*
 * fixed: serve requests of up to one size with blocks of just that size, and keep them for reuse.
 *
 * Usage: fixed(SIZE [, preallocate=COUNT, nvtx=auto|off])
 *     SIZE         of every block
 *     preallocate  number of blocks to take from upstream at creation, on stream 0; none unless given
 *     nvtx         auto: a tool that listens to NVTX, such as compute-sanitizer, is told the blocks; off: never
 *
 * Example: requests of 128 to 256 KiB reuse each other's blocks instead of calling the driver:
 *     binning(256KiB={fixed(256KiB, preallocate=8)}) | driver
 *
 * A request takes a block that was freed on its own stream; else one that was freed on another stream, ordered by
 * tide_order; else a new one from upstream. Among the idle blocks it prefers those that its own thread allocated
 * before. Where upstream refuses, the layer returns all its idle blocks and asks once more. It never touches the memory
 * of a block: its records lie on the host.
 *
 * Blocks are returned on stream 0, after that has waited for all streams, because the streams on which they were freed
 * may have been destroyed. The wait blocks the host until the device is done, but happens only where streams cannot be
 * ordered, and at the end.
 *
 * The layer knows its pointers. A deallocation returns TIDE_EPOINTER for a pointer that the layer did not hand out or
 * that was freed before, and TIDE_EMISMATCH for another size or alignment than the allocation's.
 *
 * LIMITATIONS
 *  - Only a refusal in this layer makes it return idle blocks. A request of another layer that the same upstream
 *    refuses does not.
 *  - A stream on which blocks were freed must live until they are taken again, because another stream that takes one is
 *    ordered behind it. Else the application calls tide_order(stack, TIDE_STREAM_ALL, 0) when it destroys streams.
 *  - Where the final order behind all streams fails, the blocks stay with upstream, and a warning says so.
 *  - Requests of 0 bytes get NULL and take no block.
 *  - TIDE_QUERY_BYTES_USED is the bytes requested, TIDE_QUERY_BYTES_RESERVED those of all blocks. Their peaks are not
 *    counted. Other figures are upstream's.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/fixed.h>

#include "src/nvtx/blocks.h"
#include "src/resource/kind.h"
#include "src/suballoc/chunks.h"
#include "src/sync/lock.h"
#include "src/sync/thread.h"
#include "src/tables/blocks.h"

#define SHARDS_MOST 64

/* The request that a block is taken for. */
struct block_request {
    size_t bytes; /* not 0 */
    size_t alignment;
    tide_stream stream;
};

struct shard {
    _Alignas(128) struct tidei_lock lock; /* guards the fields below */
    _Atomic uint64_t used_bytes;          /* as requested, outstanding */
    uint32_t moving;                      /* blocks being moved to another stream */
    uint32_t in_flight;                   /* blocks being taken from or returned to upstream */
    struct tidei_blocks blocks;           /* all other blocks, with room for those */
    _Atomic uint32_t idle;                /* idle blocks; written under the lock, only a hint without it */
    _Atomic bool begun;                   /* a thread has used it; never false again */
};

/*
 * Each thread has a table (shard) with a lock. A thread takes over idle blocks of other threads' shards before it
 * requests more from upstream. A block stays in one shard, whichever thread uses it: a free puts it back there, so that
 * the thread that took it finds it again.
 *
 * No lock is held over a call of upstream. A thread that holds two locks has taken the newer one first, as fork() does.
 * Shards keep room for blocks that are being taken or returned, so that none can be lost. Progress: all take locks; a
 * thread waits for upstream only in its own call to it.
 */
struct fixed {
    struct tide_resource base;
    struct tide_fixed_options options;
    uint32_t count;       /* of shards; a power of two: a division would cost as much as all the rest of the lookup */
    struct shard *shards; /* owns; the oldest lock first */
    struct tidei_chunks chunks; /* the blocks */
};

/* A thread's part. */
struct fixed_thread {
    uint32_t self;  /* its number from 1, in the order in which threads come; 0: none yet */
    uint32_t other; /* the shard in which this thread last found another thread's block: a hint */
};

TIDEI_THREAD_PART(fixed_thread, fixed, struct fixed_thread);

static _Atomic uint32_t fixed_threads; /* numbers handed out; relaxed: a number */

/* This thread's number; 0 where the host has no memory for its part of the thread object. */
static __attribute__((noinline)) uint32_t
fixed_number(void)
{
    struct tidei_thread *thread = tidei_thread_get();

    if (thread == NULL)
        return 0;
    fixed_thread(thread)->self = 1 + atomic_fetch_add_explicit(&fixed_threads, 1, memory_order_relaxed) % SHARDS_MOST;
    return fixed_thread(thread)->self;
}

static struct shard *
fixed_own(struct fixed *fixed)
{
    uint32_t self = fixed_thread(tidei_thread)->self;
    struct shard *shard;

    if (__builtin_expect(self == 0, 0))
        self = fixed_number();
    shard = &fixed->shards[(self - 1) & (fixed->count - 1)];
    /* Relaxed: who has a block of this shard, or saw one go idle, is ordered behind the thread that took it. */
    if (__builtin_expect(!atomic_load_explicit(&shard->begun, memory_order_relaxed), 0))
        atomic_store_explicit(&shard->begun, true, memory_order_relaxed);
    return shard;
}

/* Whether a thread has used the shard. Else it is left alone, so that its own thread is the first to lock it. */
static bool
shard_begun(const struct shard *shard)
{
    return atomic_load_explicit(&shard->begun, memory_order_relaxed); /* relaxed: as in fixed_own */
}

/* A bit for each shard that a thread has used. */
static uint64_t
fixed_begun(const struct fixed *fixed)
{
    uint64_t begun = 0;

    for (uint32_t i = 0; i < fixed->count; i++)
        begun |= (uint64_t)shard_begun(&fixed->shards[i]) << i;
    return begun;
}

/* Relaxed, as every access to `idle`: under the lock it is exact, without it a hint. */
static uint32_t
shard_idle(const struct shard *shard)
{
    return atomic_load_explicit(&shard->idle, memory_order_relaxed);
}

static void
shard_idle_set(struct shard *shard, uint32_t idle)
{
    atomic_store_explicit(&shard->idle, idle, memory_order_relaxed);
}

/* The caller of this and the next functions holds the lock. */
static void
shard_put(struct shard *shard, uint32_t number, tide_stream stream)
{
    tidei_blocks_put(&shard->blocks, number, stream);
    shard_idle_set(shard, shard_idle(shard) + 1);
}

/* An idle block of the stream, or of any; TIDEI_BLOCK_NONE where there is none. */
static uint32_t
shard_take(struct shard *shard, tide_stream stream, bool any)
{
    uint32_t number = any ? tidei_blocks_take_any(&shard->blocks) : tidei_blocks_take(&shard->blocks, stream);

    if (number != TIDEI_BLOCK_NONE)
        shard_idle_set(shard, shard_idle(shard) - 1);
    return number;
}

/* Reserve room for one more block, beside those that are being taken or returned. */
static bool
shard_reserve(struct shard *shard)
{
    return tidei_blocks_reserve(&shard->blocks, (uint64_t)shard->blocks.count + shard->in_flight + 1);
}

/* Record the request that the block serves. */
static void *
shard_hand_out(struct shard *shard, uint32_t number, const struct block_request *request)
{
    struct tidei_block *block = &shard->blocks.blocks[number];

    block->bytes = request->bytes;
    block->alignment = request->alignment;
    block->stream = request->stream;
    tidei_figure_add(&shard->used_bytes, request->bytes);
    return (void *)block->address;
}

/*
 * Order a reserved block for the request, behind the stream on which it was freed; on failure it is idle again. The
 * lock is released meanwhile.
 */
static bool
shard_move(struct fixed *fixed, struct shard *shard, uint32_t number, const struct block_request *request, void **out)
{
    tide_stream freed_on = shard->blocks.blocks[number].stream;
    enum tide_status status = TIDE_OK;

    if (freed_on != request->stream) {
        shard->moving++;
        tidei_lock_release(&shard->lock);
        /* No other thread can get the block: upstream may take its time. */
        status = fixed->base.upstream->ops->order(fixed->base.upstream, freed_on, request->stream);
        tidei_lock_acquire(&shard->lock);
        shard->moving--;
    }
    if (status == TIDE_OK)
        *out = shard_hand_out(shard, number, request);
    else
        shard_put(shard, number, freed_on);
    return status == TIDE_OK;
}

/* Move an idle block of another shard to this thread's own shard, for the request. */
static bool
fixed_take_over(struct fixed *fixed, struct shard *own, struct shard *other, bool any,
                const struct block_request *request, void **out)
{
    struct shard *newer = own > other ? own : other, *older = own > other ? other : own;
    uint32_t number, mine = TIDEI_BLOCK_NONE;
    bool found = false;

    tidei_lock_acquire(&newer->lock);
    tidei_lock_acquire(&older->lock);
    number = shard_reserve(own) ? shard_take(other, request->stream, any) : TIDEI_BLOCK_NONE;
    if (number != TIDEI_BLOCK_NONE) {
        const struct tidei_block *block = &other->blocks.blocks[number];

        mine = tidei_blocks_add(&own->blocks, (void *)block->address, block->stream);
        tidei_blocks_remove(&other->blocks, number);
    }
    tidei_lock_release(&other->lock);
    if (mine != TIDEI_BLOCK_NONE)
        found = shard_move(fixed, own, mine, request, out);
    tidei_lock_release(&own->lock);
    return found;
}

/* The same from any shard that has one. */
static bool
fixed_take_over_any(struct fixed *fixed, struct shard *own, bool any, const struct block_request *request, void **out)
{
    for (uint32_t i = 0; i < fixed->count; i++) {
        struct shard *other = &fixed->shards[i];

        if (other != own && shard_idle(other) != 0 && fixed_take_over(fixed, own, other, any, request, out))
            return true;
    }
    return false;
}

/*
 * Put an idle block into *out: one that was freed on the request's stream, else another for which the stream is made to
 * wait. False where there is none, or ordering failed.
 */
static bool
fixed_reuse(struct fixed *fixed, const struct block_request *request, void **out)
{
    struct shard *own = fixed_own(fixed);
    uint32_t number;
    bool found;

    tidei_lock_acquire(&own->lock);
    number = shard_take(own, request->stream, false);
    found = number != TIDEI_BLOCK_NONE;
    if (found)
        *out = shard_hand_out(own, number, request);
    tidei_lock_release(&own->lock);
    if (found || fixed_take_over_any(fixed, own, false, request, out))
        return true;
    if (shard_idle(own) != 0) {
        tidei_lock_acquire(&own->lock);
        number = shard_take(own, request->stream, true);
        found = number != TIDEI_BLOCK_NONE && shard_move(fixed, own, number, request, out);
        tidei_lock_release(&own->lock);
    }
    return found || fixed_take_over_any(fixed, own, true, request, out);
}

/* Whether the shard has the address, at *number; then the shard stays locked. */
static bool
shard_has(struct shard *shard, const void *pointer, uint32_t *number)
{
    tidei_lock_acquire(&shard->lock);
    *number = tidei_blocks_find(&shard->blocks, pointer);
    if (*number == TIDEI_BLOCK_NONE)
        tidei_lock_release(&shard->lock);
    return *number != TIDEI_BLOCK_NONE;
}

/* The same in all shards but this thread's own; the shard of the last hit comes first. */
static __attribute__((noinline)) struct shard *
fixed_find_other(struct fixed *fixed, const struct shard *own, const void *pointer, uint32_t *number)
{
    for (uint32_t i = 0; i < fixed->count; i++) {
        uint32_t index = (fixed_thread(tidei_thread)->other + i) & (fixed->count - 1);
        struct shard *shard = &fixed->shards[index];

        if (shard == own || !shard_begun(shard) || !shard_has(shard, pointer, number))
            continue;
        if (tidei_thread->number != 0)
            fixed_thread(tidei_thread)->other = index;
        return shard;
    }
    return NULL;
}

/* The shard that has the address, locked, and the block's number; NULL where none has. Inline: every free is here. */
static inline __attribute__((always_inline)) struct shard *
fixed_find(struct fixed *fixed, const void *pointer, uint32_t *number)
{
    struct shard *own = fixed_own(fixed);

    return shard_has(own, pointer, number) ? own : fixed_find_other(fixed, own, pointer, number);
}

/* Check a block from upstream. An invalid one is returned, unless that would free memory in use; *out is then NULL. */
static enum tide_status
fixed_ask_upstream(struct fixed *fixed, tide_stream stream, void **out)
{
    struct tidei_chunks *chunks = &fixed->chunks;
    enum tide_status status =
        tidei_chunks_allocate(chunks, fixed->options.block_bytes, TIDE_DEFAULT_ALIGNMENT, stream, out);
    void *pointer = *out;
    struct shard *known;
    uint32_t number;

    if (status != TIDE_OK)
        return status;
    known = fixed_find(fixed, pointer, &number);
    if (known != NULL)
        tidei_lock_release(&known->lock);
    if (pointer != NULL && known == NULL && (uintptr_t)pointer % TIDE_DEFAULT_ALIGNMENT == 0)
        return TIDE_OK;
    *out = NULL;
    if (pointer != NULL && known == NULL)
        tidei_chunks_deallocate(chunks, pointer, fixed->options.block_bytes, TIDE_DEFAULT_ALIGNMENT, stream);
    return tidei_refused(&fixed->base, tide_error_set(TIDE_EUPSTREAM, "fixed: %s gave out %p%s",
                                                      tide_resource_name(chunks->upstream), pointer,
                                                      known != NULL     ? ", which it gave before"
                                                      : pointer != NULL ? ", which is no multiple of 256"
                                                                        : ""));
}

/*
 * Put a new block from upstream into *out. For a request of 0 bytes the block becomes idle on the stream instead. Room
 * for its record is reserved first. On failure *out is NULL. Errors: TIDE_ENOMEM, TIDE_EUPSTREAM, and upstream's.
 */
static enum tide_status
fixed_grow(struct fixed *fixed, const struct block_request *request, void **out)
{
    struct shard *own = fixed_own(fixed);
    enum tide_status status;
    uint32_t number;
    void *pointer;
    bool room;

    *out = NULL;
    tidei_lock_acquire(&own->lock);
    room = shard_reserve(own);
    own->in_flight += room;
    tidei_lock_release(&own->lock);
    if (!room)
        return tidei_refused(&fixed->base,
                             tide_error_set(TIDE_ENOMEM, "fixed: no host memory to note another block of %s",
                                            tidei_size_text(fixed->options.block_bytes)));
    status = fixed_ask_upstream(fixed, request->stream, &pointer);
    tidei_lock_acquire(&own->lock);
    own->in_flight--;
    if (status == TIDE_OK) {
        number = tidei_blocks_add(&own->blocks, pointer, request->stream);
        if (request->bytes != 0)
            *out = shard_hand_out(own, number, request);
        else
            shard_put(own, number, request->stream);
    }
    tidei_lock_release(&own->lock);
    return status;
}

/* Return an idle block of stream 0 to upstream; where upstream refuses, it is idle again. *none: there was none. */
static bool
fixed_return_one(struct fixed *fixed, struct shard *shard, bool *none)
{
    uint32_t number;
    void *pointer = NULL;
    bool returned;

    tidei_lock_acquire(&shard->lock);
    number = shard_take(shard, 0, false);
    *none = number == TIDEI_BLOCK_NONE;
    if (!*none) {
        pointer = (void *)shard->blocks.blocks[number].address;
        /* Before upstream is called, because another thread may get the address at once. */
        tidei_blocks_remove(&shard->blocks, number);
        shard->in_flight++;
    }
    tidei_lock_release(&shard->lock);
    if (*none)
        return true;
    returned = tidei_chunks_deallocate(&fixed->chunks, pointer, fixed->options.block_bytes, TIDE_DEFAULT_ALIGNMENT,
                                       0) == TIDE_OK;
    tidei_lock_acquire(&shard->lock);
    shard->in_flight--;
    if (!returned)
        shard_put(shard, tidei_blocks_add(&shard->blocks, pointer, 0), 0);
    tidei_lock_release(&shard->lock);
    return returned;
}

/*
 * Make stream 0 wait for all work submitted so far, and move all idle blocks to stream 0: then no record names the
 * streams on which they were freed. Blocks can be taken meanwhile.
 */
static enum tide_status
fixed_order_all(struct fixed *fixed)
{
    struct tide_resource *upstream = fixed->base.upstream;
    uint64_t begun = fixed_begun(fixed);
    uint32_t epochs[SHARDS_MOST];
    enum tide_status status;

    for (uint32_t i = 0; i < fixed->count; i++) {
        struct shard *shard = &fixed->shards[i];

        if ((begun >> i & 1) == 0)
            continue;
        tidei_lock_acquire(&shard->lock);
        /* Before the order, which does not cover work submitted, and blocks freed behind it, meanwhile. */
        epochs[i] = tidei_blocks_epoch_end(&shard->blocks);
        tidei_lock_release(&shard->lock);
    }
    status = upstream->ops->order(upstream, TIDE_STREAM_ALL, 0);
    for (uint32_t i = 0; status == TIDE_OK && i < fixed->count; i++) {
        struct shard *shard = &fixed->shards[i];

        if ((begun >> i & 1) == 0)
            continue;
        tidei_lock_acquire(&shard->lock);
        tidei_blocks_move_idle(&shard->blocks, epochs[i], 0);
        tidei_lock_release(&shard->lock);
    }
    return status;
}

/* Figures of one moment: bytes outstanding as requested, and blocks. */
static void
fixed_read(struct fixed *fixed, uint64_t *used_bytes, uint64_t *count)
{
    uint64_t begun = fixed_begun(fixed);

    *used_bytes = *count = 0;
    for (uint32_t i = fixed->count; i-- > 0;) {
        struct shard *shard = &fixed->shards[i];

        if ((begun >> i & 1) == 0)
            continue;
        tidei_lock_acquire(&shard->lock);
        *used_bytes += tidei_figure_get(&shard->used_bytes);
        *count += shard->blocks.count;
    }
    for (uint32_t i = 0; i < fixed->count; i++) {
        if ((begun >> i & 1) != 0)
            tidei_lock_release(&fixed->shards[i].lock);
    }
}

/*
 * Return idle blocks until no more than `keep` blocks are here, but at most as many as there are now, so that threads
 * which go on freeing do not keep this one busy. False where waiting for the device fails, or upstream refuses a block.
 */
static bool
fixed_give_back(struct fixed *fixed, uint64_t keep)
{
    uint64_t used_bytes, count, most;
    bool returned = true;
    uint32_t idle = 0;

    fixed_read(fixed, &used_bytes, &count);
    for (uint32_t i = 0; i < fixed->count; i++)
        idle += shard_idle(&fixed->shards[i]);
    most = count > keep ? count - keep : 0;
    if (idle == 0 || most == 0)
        return true;
    returned = fixed_order_all(fixed) == TIDE_OK;
    for (uint32_t i = 0; i < fixed->count && returned; i++) {
        struct shard *shard = &fixed->shards[i];
        bool none = false;

        if (!shard_begun(shard))
            continue;
        for (; most > 0 && returned && !none; most--)
            returned = fixed_return_one(fixed, shard, &none);
        most += none; /* a block that was not there does not count */
    }
    return returned;
}

/* Whether blocks are idle, or may become idle because moving them to another stream can fail. */
static bool
fixed_have_more(struct fixed *fixed)
{
    bool more = false;

    for (uint32_t i = 0; i < fixed->count && !more; i++) {
        struct shard *shard = &fixed->shards[i];

        if (!shard_begun(shard))
            continue;
        tidei_lock_acquire(&shard->lock);
        more = shard_idle(shard) != 0 || shard->moving > 0;
        tidei_lock_release(&shard->lock);
    }
    return more;
}

static void
fixed_return_all(struct fixed *fixed, uint64_t count)
{
    struct tide_resource *upstream = fixed->base.upstream;

    if (upstream->ops->order(upstream, TIDE_STREAM_ALL, 0) != TIDE_OK) {
        tidei_message(TIDE_WARNING, "fixed: %llu blocks of %s stay with upstream, not ordered behind their use",
                      (unsigned long long)count, tidei_size_text(fixed->options.block_bytes));
        return;
    }
    for (uint32_t i = 0; i < fixed->count; i++) {
        const struct tidei_blocks *blocks = &fixed->shards[i].blocks;

        for (uint32_t number = 0; number < blocks->capacity; number++) {
            if (blocks->blocks[number].used)
                tidei_chunks_deallocate(&fixed->chunks, (void *)blocks->blocks[number].address,
                                        fixed->options.block_bytes, TIDE_DEFAULT_ALIGNMENT, 0);
        }
    }
}

/*
 * Upstream has refused: return idle blocks to it, and ask again. Blocks that other threads free meanwhile may come too
 * late to be returned, while others take the room. Then repeat; this ends, as each round leaves one block less here or
 * one more in use. Several threads may do so at once: a block being returned, which the others do not find, is room for
 * the thread that returns it, or for whichever is faster.
 */
static enum tide_status
fixed_allocate_pressed(struct fixed *fixed, const struct block_request *request, void **out)
{
    enum tide_status status;
    bool returned;

    do {
        if (fixed_reuse(fixed, request, out))
            return TIDE_OK;
        returned = fixed_give_back(fixed, 0);
        status = fixed_grow(fixed, request, out);
    } while (status != TIDE_OK && status != TIDE_EUPSTREAM && returned && fixed_have_more(fixed));
    return status;
}

static __attribute__((noinline)) enum tide_status
fixed_allocate_plain(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct fixed *fixed = (struct fixed *)self;
    const struct block_request request = { bytes, alignment, stream };
    enum tide_status status;

    *out = NULL;
    if (bytes > fixed->options.block_bytes)
        return tidei_refused(self, tide_error_set(TIDE_EINVAL, "fixed: %zu B request exceeds %zu B block", bytes,
                                                  fixed->options.block_bytes));
    if (alignment > TIDE_DEFAULT_ALIGNMENT)
        return tidei_refused(self, tide_error_set(TIDE_EINVAL, "fixed: alignment of %zu B exceeds %zu B of the blocks",
                                                  alignment, TIDE_DEFAULT_ALIGNMENT));
    if (bytes == 0 || fixed_reuse(fixed, &request, out))
        return TIDE_OK;
    status = fixed_grow(fixed, &request, out);
    if (status == TIDE_OK || status == TIDE_EUPSTREAM)
        return status;
    return fixed_allocate_pressed(fixed, &request, out);
}

static __attribute__((noinline)) enum tide_status
fixed_deallocate_plain(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    enum tide_status status = TIDE_OK;
    struct tidei_block *block;
    struct shard *shard;
    uint32_t number;

    if (pointer == NULL && bytes == 0)
        return TIDE_OK;
    shard = fixed_find((struct fixed *)self, pointer, &number);
    if (shard == NULL)
        return tide_error_set(TIDE_EPOINTER, "fixed: %p given back, which is none of its blocks", pointer);
    block = &shard->blocks.blocks[number];
    /* A block with 0 bytes is not held by the application: it is being moved to another stream. */
    if (!block->out || block->bytes == 0) {
        status = tide_error_set(TIDE_EPOINTER, "fixed: %p given back, which was given back before", pointer);
    } else if (block->bytes != bytes || block->alignment != alignment) {
        status = tide_error_set(TIDE_EMISMATCH,
                                "fixed: %p given back with %zu B at a multiple of %zu, allocated with %zu B at %zu",
                                pointer, bytes, alignment, block->bytes, block->alignment);
    } else {
        tidei_figure_add(&shard->used_bytes, 0 - (uint64_t)bytes);
        block->bytes = 0;
        shard_put(shard, number, stream);
    }
    tidei_lock_release(&shard->lock);
    return status;
}

static const struct tidei_nvtx_plain fixed_plain = { fixed_allocate_plain, fixed_deallocate_plain };

static enum tide_status
fixed_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    if (__builtin_expect(((struct fixed *)self)->chunks.nvtx, 0))
        return tidei_nvtx_allocate(self, &fixed_plain, bytes, alignment, stream, out);
    return fixed_allocate_plain(self, bytes, alignment, stream, out);
}

static enum tide_status
fixed_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    if (__builtin_expect(((struct fixed *)self)->chunks.nvtx, 0))
        return tidei_nvtx_deallocate(self, &fixed_plain, pointer, bytes, alignment, stream);
    return fixed_deallocate_plain(self, pointer, bytes, alignment, stream);
}

/* The application orders stream 0 behind all streams to say that streams may be destroyed. */
static enum tide_status
fixed_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    if (earlier != TIDE_STREAM_ALL || later != 0)
        return tide_pass_order(self, earlier, later);
    return fixed_order_all((struct fixed *)self);
}

/* A trim does not fail where blocks are kept because waiting for the device fails, or upstream refuses them. */
static enum tide_status
fixed_trim(struct tide_resource *self, uint64_t keep_bytes)
{
    struct fixed *fixed = (struct fixed *)self;
    uint64_t keep = keep_bytes / fixed->options.block_bytes + (keep_bytes % fixed->options.block_bytes != 0);
    struct tidei_error error;

    tidei_error_save(&error);
    if (!fixed_give_back(fixed, keep))
        tidei_error_restore(&error);
    return tide_pass_trim(self, keep_bytes);
}

static enum tide_status
fixed_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    struct fixed *fixed = (struct fixed *)self;
    uint64_t used_bytes, count;

    if (what == TIDE_QUERY_BYTES_USED_HIGH || what == TIDE_QUERY_BYTES_RESERVED_HIGH || tidei_query_is_of_blocks(what))
        return tide_base_query(self, what, out); /* upstream's figures are about other bytes */
    if (what == TIDE_QUERY_LARGEST_REQUEST) {
        *out = fixed->options.block_bytes;
        return TIDE_OK;
    }
    if (what != TIDE_QUERY_BYTES_USED && what != TIDE_QUERY_BYTES_RESERVED)
        return tide_pass_query(self, what, out);
    fixed_read(fixed, &used_bytes, &count);
    *out = what == TIDE_QUERY_BYTES_USED ? used_bytes : count * fixed->options.block_bytes;
    return TIDE_OK;
}

static struct tidei_chunks *
fixed_chunks(struct tide_resource *self)
{
    return &((struct fixed *)self)->chunks;
}

static void
fixed_figures(struct tide_resource *self, struct tidei_layer_figures *out)
{
    const struct fixed *fixed = (const struct fixed *)self;
    uint64_t used_bytes = 0;

    for (uint32_t i = 0; i < fixed->count; i++)
        used_bytes += tidei_figure_get(&fixed->shards[i].used_bytes);
    tidei_chunks_figures(&fixed->chunks, used_bytes, out);
}

/* Preallocate the first blocks. Those taken before a failure are returned when the resource is destroyed. */
static enum tide_status
fixed_preallocate(struct fixed *fixed)
{
    const struct block_request request = { .alignment = TIDE_DEFAULT_ALIGNMENT };
    enum tide_status status = TIDE_OK;
    void *none;

    if (fixed->options.preallocate > SIZE_MAX / fixed->options.block_bytes)
        return tide_error_set(TIDE_EOVERFLOW, "fixed: the sizes of %llu blocks of %s overflow",
                              (unsigned long long)fixed->options.preallocate,
                              tidei_size_text(fixed->options.block_bytes));
    if (fixed->options.preallocate > TIDEI_BLOCKS_MAX)
        return tide_error_set(TIDE_ENOMEM, "fixed: no host memory to note %llu blocks",
                              (unsigned long long)fixed->options.preallocate);
    for (uint64_t i = 0; i < fixed->options.preallocate && status == TIDE_OK; i++)
        status = fixed_grow(fixed, &request, &none);
    return status;
}

/*
 * Return all blocks, even live ones: they are upstream's, and nobody may use them from now on. Where waiting for the
 * device fails, all blocks are leaked, and a warning says so. A leak does less harm than giving a block to another user
 * while the device still works on it.
 */
static void
fixed_fini(struct tide_resource *self)
{
    struct fixed *fixed = (struct fixed *)self;
    uint64_t used_bytes, count;

    fixed_read(fixed, &used_bytes, &count);
    if (count > 0)
        fixed_return_all(fixed, count);
    while (fixed->count > 0) {
        struct shard *shard = &fixed->shards[--fixed->count];

        tidei_blocks_fini(&shard->blocks);
        tidei_lock_fini(&shard->lock);
    }
    free(fixed->shards);
    tidei_chunks_fini(&fixed->chunks);
}

enum { FIXED_BLOCK, FIXED_PREALLOCATE };

static enum tide_status
fixed_init(struct tide_resource *self, size_t *fault)
{
    struct fixed *fixed = (struct fixed *)self;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    enum tide_status status;
    uint32_t count = 1;

    while (count < SHARDS_MOST && (long)count < processors)
        count *= 2;
    fixed->shards = aligned_alloc(_Alignof(struct shard), count * sizeof(*fixed->shards));
    if (fixed->shards == NULL)
        return tide_error_set(TIDE_ENOMEM, "fixed: no host memory for %zu B", count * sizeof(*fixed->shards));
    memset(fixed->shards, 0, count * sizeof(*fixed->shards));
    tidei_chunks_init(&fixed->chunks, "fixed", self->upstream);
    fixed->chunks.nvtx = tidei_nvtx_wanted(fixed->options.nvtx);
    for (; fixed->count < count; fixed->count++) {
        tidei_blocks_init(&fixed->shards[fixed->count].blocks);
        tidei_lock_init(&fixed->shards[fixed->count].lock);
    }
    *fault = FIXED_PREALLOCATE; /* the argument at fault if there is no room */
    status = fixed_preallocate(fixed);
    if (status != TIDE_OK)
        fixed_fini(self);
    return status;
}

static const struct tidei_argument fixed_arguments[] = {
    TIDEI_ARGUMENT("block", SIZE, struct tide_fixed_options, block_bytes, "a size such as 256KiB", .positional = true,
                   .required = true, .least = 1),
    TIDEI_ARGUMENT("preallocate", COUNT, struct tide_fixed_options, preallocate, "a number of blocks"),
    TIDEI_NVTX_ARGUMENT(struct tide_fixed_options),
};

const struct tidei_kind tidei_fixed_kind = {
    .ops = {
        TIDEI_KIND_OPS("fixed"),
        .allocate = fixed_allocate,
        .deallocate = fixed_deallocate,
        .order = fixed_order,
        .trim = fixed_trim,
        .query = fixed_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(fixed_arguments),
    .options_size = offsetof(struct tide_fixed_options, reserved),
    TIDEI_KIND_STRUCT(struct fixed),
    .init = fixed_init,
    .fini = fixed_fini,
    .chunks = fixed_chunks,
    .figures = fixed_figures,
};

enum tide_status
tide_fixed_create(struct tide_resource *upstream, const struct tide_fixed_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_fixed_kind, upstream, options, out);
}
