/* Blocks of one size that threads share, in a table for each. */
#include "adaptors/fixed/block-shards.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/sync/lock.h"

#define SHARDS_MOST 64

struct shard {
    _Alignas(128) struct tidei_lock lock; /* guards what follows */
    uint64_t used_bytes;                  /* as asked for, outstanding */
    uint32_t moving;                      /* blocks on their way to another stream */
    uint32_t travelling;                  /* blocks on their way from and to upstream */
    struct tidei_blocks blocks;           /* all others, with room for those that travel */
    _Atomic uint32_t idle;                /* of those; written with the lock, without it a hint */
    _Atomic bool begun;                   /* a thread has come; never false again */
};

struct tidei_block_shards {
    struct tide_resource *upstream; /* borrowed */
    size_t block_bytes;
    uint32_t count;        /* a power of two: a division would cost as much as all the rest */
    struct shard shards[]; /* the oldest lock first */
};

/* One of each thread of the process; 0: it has none yet. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint32_t shards_self;
static _Atomic uint32_t shards_threads;

/* Where this thread last found a block of another's, of whichever shards: a hint. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint32_t shards_friend;

static struct shard *
shards_own(struct tidei_block_shards *shards)
{
    struct shard *shard;

    if (__builtin_expect(shards_self == 0, 0))
        shards_self = 1 + atomic_fetch_add_explicit(&shards_threads, 1, memory_order_relaxed) % SHARDS_MOST;
    shard = &shards->shards[(shards_self - 1) & (shards->count - 1)];
    /* Relaxed: whoever has a block of this shard, or has seen one go idle, was told by who took it. */
    if (__builtin_expect(!atomic_load_explicit(&shard->begun, memory_order_relaxed), 0))
        atomic_store_explicit(&shard->begun, true, memory_order_relaxed);
    return shard;
}

/* The shard at `index`; NULL where no thread has come to it, so that none but such a thread is the first to lock it. */
static struct shard *
shards_at(struct tidei_block_shards *shards, uint32_t index)
{
    struct shard *shard = &shards->shards[index];

    return atomic_load_explicit(&shard->begun, memory_order_relaxed) ? shard : NULL; /* relaxed: as in shards_own */
}

/* Relaxed, as every access to `idle`: with the lock it is a number of the table, without it a hint. */
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

/* With the lock, this and the next ones. */
static void
shard_put(struct shard *shard, uint32_t number, tide_stream stream)
{
    tidei_blocks_put(&shard->blocks, number, stream);
    shard_idle_set(shard, shard_idle(shard) + 1);
}

/* An idle block of that stream, or of any; TIDEI_BLOCK_NONE where there is none. */
static uint32_t
shard_take(struct shard *shard, tide_stream stream, bool any)
{
    uint32_t number = any ? tidei_blocks_take_any(&shard->blocks) : tidei_blocks_take(&shard->blocks, stream);

    if (number != TIDEI_BLOCK_NONE)
        shard_idle_set(shard, shard_idle(shard) - 1);
    return number;
}

/* Room for one more block, beside those that travel. */
static bool
shard_reserve(struct shard *shard)
{
    return tidei_blocks_reserve(&shard->blocks, (uint64_t)shard->blocks.count + shard->travelling + 1);
}

/* Note what the block is out for. */
static void *
shard_hand_out(struct shard *shard, uint32_t number, const struct tidei_block_request *request)
{
    struct tidei_block *block = &shard->blocks.blocks[number];

    block->bytes = request->bytes;
    block->alignment = request->alignment;
    block->stream = request->stream;
    shard->used_bytes += request->bytes;
    return (void *)block->address;
}

/* A block that is out to nobody for the request, behind where it was freed; else idle again. Not locked throughout. */
static bool
shard_move(struct tidei_block_shards *shards, struct shard *shard, uint32_t number,
           const struct tidei_block_request *request, void **out)
{
    tide_stream freed_on = shard->blocks.blocks[number].stream;
    enum tide_status status = TIDE_OK;

    if (freed_on != request->stream) {
        shard->moving++;
        tidei_lock_release(&shard->lock);
        /* The block is known to nobody: upstream may take its time. */
        status = shards->upstream->ops->order(shards->upstream, freed_on, request->stream);
        tidei_lock_acquire(&shard->lock);
        shard->moving--;
    }
    if (status == TIDE_OK)
        *out = shard_hand_out(shard, number, request);
    else
        shard_put(shard, number, freed_on);
    return status == TIDE_OK;
}

/* Take an idle block over from another shard for the request: from here on it is in the own table. */
static bool
shards_take_over(struct tidei_block_shards *shards, struct shard *own, struct shard *other, bool any,
                 const struct tidei_block_request *request, void **out)
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
        found = shard_move(shards, own, mine, request, out);
    tidei_lock_release(&own->lock);
    return found;
}

/* The same from whichever shard has one. */
static bool
shards_take_over_any(struct tidei_block_shards *shards, struct shard *own, bool any,
                     const struct tidei_block_request *request, void **out)
{
    for (uint32_t i = 0; i < shards->count; i++) {
        struct shard *other = &shards->shards[i];

        if (other != own && shard_idle(other) != 0 && shards_take_over(shards, own, other, any, request, out))
            return true;
    }
    return false;
}

bool
tidei_block_shards_reuse(struct tidei_block_shards *shards, const struct tidei_block_request *request, void **out)
{
    struct shard *own = shards_own(shards);
    uint32_t number;
    bool found;

    tidei_lock_acquire(&own->lock);
    number = shard_take(own, request->stream, false);
    found = number != TIDEI_BLOCK_NONE;
    if (found)
        *out = shard_hand_out(own, number, request);
    tidei_lock_release(&own->lock);
    if (found || shards_take_over_any(shards, own, false, request, out))
        return true;
    if (shard_idle(own) != 0) {
        tidei_lock_acquire(&own->lock);
        number = shard_take(own, request->stream, true);
        found = number != TIDEI_BLOCK_NONE && shard_move(shards, own, number, request, out);
        tidei_lock_release(&own->lock);
    }
    return found || shards_take_over_any(shards, own, true, request, out);
}

/* Whether the shard's table has the address, at *number; it is locked then. */
static bool
shard_has(struct shard *shard, const void *pointer, uint32_t *number)
{
    tidei_lock_acquire(&shard->lock);
    *number = tidei_blocks_find(&shard->blocks, pointer);
    if (*number == TIDEI_BLOCK_NONE)
        tidei_lock_release(&shard->lock);
    return *number != TIDEI_BLOCK_NONE;
}

/* The same in all shards but the own: first where the last one was. */
static __attribute__((noinline)) struct shard *
shards_find_other(struct tidei_block_shards *shards, const struct shard *own, const void *pointer, uint32_t *number)
{
    for (uint32_t i = 0; i < shards->count; i++) {
        uint32_t index = (shards_friend + i) & (shards->count - 1);
        struct shard *shard = shards_at(shards, index);

        if (shard == NULL || shard == own || !shard_has(shard, pointer, number))
            continue;
        shards_friend = index;
        return shard;
    }
    return NULL;
}

/* The shard whose table has the address, locked, and its number; NULL where none has. */
static struct shard *
shards_find(struct tidei_block_shards *shards, const void *pointer, uint32_t *number)
{
    struct shard *own = shards_own(shards);

    return shard_has(own, pointer, number) ? own : shards_find_other(shards, own, pointer, number);
}

/* What upstream cannot have meant goes back, unless that would give away what is here. *out is NULL then. */
static enum tide_status
shards_ask_upstream(struct tidei_block_shards *shards, tide_stream stream, void **out)
{
    struct tide_resource *upstream = shards->upstream;
    enum tide_status status = tidei_allocate(upstream, shards->block_bytes, TIDE_DEFAULT_ALIGNMENT, stream, out);
    void *pointer = *out;
    struct shard *known;
    uint32_t number;

    if (status != TIDE_OK)
        return status;
    known = shards_find(shards, pointer, &number);
    if (known != NULL)
        tidei_lock_release(&known->lock);
    if (pointer != NULL && known == NULL && (uintptr_t)pointer % TIDE_DEFAULT_ALIGNMENT == 0)
        return TIDE_OK;
    *out = NULL;
    if (pointer != NULL && known == NULL)
        tidei_deallocate(upstream, pointer, shards->block_bytes, TIDE_DEFAULT_ALIGNMENT, stream);
    return tide_error_set(TIDE_EUPSTREAM, "fixed: %s gave out %p%s", tide_resource_name(upstream), pointer,
                          known != NULL     ? ", which it gave before"
                          : pointer != NULL ? ", which is no multiple of 256"
                                            : "");
}

enum tide_status
tidei_block_shards_grow(struct tidei_block_shards *shards, const struct tidei_block_request *request, void **out)
{
    struct shard *own = shards_own(shards);
    enum tide_status status;
    uint32_t number;
    void *pointer;
    bool room;

    *out = NULL;
    tidei_lock_acquire(&own->lock);
    room = shard_reserve(own);
    own->travelling += room;
    tidei_lock_release(&own->lock);
    if (!room)
        return tide_error_set(TIDE_ENOMEM, "fixed: no host memory to note another block of %s",
                              tidei_size_text(shards->block_bytes));
    status = shards_ask_upstream(shards, request->stream, &pointer);
    tidei_lock_acquire(&own->lock);
    own->travelling--;
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

enum tide_status
tidei_block_shards_free(struct tidei_block_shards *shards, const void *pointer,
                        const struct tidei_block_request *request, struct tidei_block *was)
{
    enum tide_status status = TIDE_OK;
    uint32_t number;
    struct shard *shard = shards_find(shards, pointer, &number);
    struct tidei_block *block;

    if (shard == NULL) {
        *was = (struct tidei_block){ 0 };
        return TIDE_EPOINTER;
    }
    block = &shard->blocks.blocks[number];
    /* A block of 0 bytes is out, but to nobody: on its way to another stream. */
    if (!block->out || block->bytes == 0)
        status = TIDE_EPOINTER;
    else if (block->bytes != request->bytes || block->alignment != request->alignment)
        status = TIDE_EMISMATCH;
    if (status != TIDE_OK) {
        *was = *block;
    } else {
        shard->used_bytes -= request->bytes;
        block->bytes = 0;
        shard_put(shard, number, request->stream);
    }
    tidei_lock_release(&shard->lock);
    return status;
}

/* Give an idle block of stream 0 to upstream; where that does not want it, it is idle again. *none: there was none. */
static bool
shards_return_one(struct tidei_block_shards *shards, struct shard *shard, bool *none)
{
    uint32_t number;
    void *pointer = NULL;
    bool returned;

    tidei_lock_acquire(&shard->lock);
    number = shard_take(shard, 0, false);
    *none = number == TIDEI_BLOCK_NONE;
    if (!*none) {
        pointer = (void *)shard->blocks.blocks[number].address;
        /* Before upstream is called: the address may come back on another thread at once. */
        tidei_blocks_remove(&shard->blocks, number);
        shard->travelling++;
    }
    tidei_lock_release(&shard->lock);
    if (*none)
        return true;
    returned = tidei_deallocate(shards->upstream, pointer, shards->block_bytes, TIDE_DEFAULT_ALIGNMENT, 0) == TIDE_OK;
    tidei_lock_acquire(&shard->lock);
    shard->travelling--;
    if (!returned)
        shard_put(shard, tidei_blocks_add(&shard->blocks, pointer, 0), 0);
    tidei_lock_release(&shard->lock);
    return returned;
}

enum tide_status
tidei_block_shards_settle(struct tidei_block_shards *shards)
{
    struct tide_resource *upstream = shards->upstream;
    uint32_t epochs[SHARDS_MOST];
    uint64_t begun = 0; /* a bit for each shard */
    enum tide_status status;

    for (uint32_t i = 0; i < shards->count; i++) {
        struct shard *shard = shards_at(shards, i);

        if (shard == NULL)
            continue;
        begun |= UINT64_C(1) << i;
        tidei_lock_acquire(&shard->lock);
        /* Before the order, which says nothing of work that is submitted, and then freed behind, while it waits. */
        epochs[i] = tidei_blocks_epoch_end(&shard->blocks);
        tidei_lock_release(&shard->lock);
    }
    status = upstream->ops->order(upstream, TIDE_STREAM_ALL, 0);
    for (uint32_t i = 0; status == TIDE_OK && i < shards->count; i++) {
        struct shard *shard = &shards->shards[i];

        if ((begun >> i & 1) == 0)
            continue;
        tidei_lock_acquire(&shard->lock);
        tidei_blocks_settle(&shard->blocks, epochs[i], 0);
        tidei_lock_release(&shard->lock);
    }
    return status;
}

bool
tidei_block_shards_give_back(struct tidei_block_shards *shards, uint64_t keep)
{
    uint64_t used_bytes, count, most;
    bool returned = true;
    uint32_t idle = 0;

    tidei_block_shards_read(shards, &used_bytes, &count);
    for (uint32_t i = 0; i < shards->count; i++)
        idle += shard_idle(&shards->shards[i]);
    most = count > keep ? count - keep : 0;
    if (idle == 0 || most == 0)
        return true;
    returned = tidei_block_shards_settle(shards) == TIDE_OK;
    for (uint32_t i = 0; i < shards->count && returned; i++) {
        struct shard *shard = shards_at(shards, i);
        bool none = shard == NULL;

        for (; most > 0 && returned && !none; most--)
            returned = shards_return_one(shards, shard, &none);
        most += none && shard != NULL; /* what was not there does not count */
    }
    return returned;
}

bool
tidei_block_shards_have_more(struct tidei_block_shards *shards)
{
    bool more = false;

    for (uint32_t i = 0; i < shards->count && !more; i++) {
        struct shard *shard = shards_at(shards, i);

        if (shard == NULL)
            continue;
        tidei_lock_acquire(&shard->lock);
        more = shard_idle(shard) != 0 || shard->moving > 0;
        tidei_lock_release(&shard->lock);
    }
    return more;
}

void
tidei_block_shards_read(struct tidei_block_shards *shards, uint64_t *used_bytes, uint64_t *count)
{
    uint64_t begun = 0; /* a bit for each shard */

    *used_bytes = *count = 0;
    for (uint32_t i = shards->count; i-- > 0;) {
        struct shard *shard = shards_at(shards, i);

        if (shard == NULL)
            continue;
        begun |= UINT64_C(1) << i;
        tidei_lock_acquire(&shard->lock);
        *used_bytes += shard->used_bytes;
        *count += shard->blocks.count;
    }
    for (uint32_t i = 0; i < shards->count; i++) {
        if ((begun >> i & 1) != 0)
            tidei_lock_release(&shards->shards[i].lock);
    }
}

enum tide_status
tidei_block_shards_create(struct tide_resource *upstream, size_t block_bytes, struct tidei_block_shards **out)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    enum tide_status status = TIDE_OK;
    struct tidei_block_shards *shards;
    uint32_t count = 1, made = 0;
    size_t bytes;

    *out = NULL;
    while (count < SHARDS_MOST && (long)count < processors)
        count *= 2;
    bytes = sizeof(*shards) + count * sizeof(struct shard);
    shards = aligned_alloc(_Alignof(struct tidei_block_shards), bytes);
    if (shards == NULL)
        return tide_error_set(TIDE_ENOMEM, "fixed: no host memory for %zu B", bytes);
    memset(shards, 0, bytes);
    shards->upstream = upstream;
    shards->block_bytes = block_bytes;
    for (; status == TIDE_OK && made < count; made += status == TIDE_OK) {
        tidei_blocks_init(&shards->shards[made].blocks);
        status = tidei_lock_init(&shards->shards[made].lock);
    }
    shards->count = made;
    if (status == TIDE_OK)
        *out = shards;
    else
        tidei_block_shards_destroy(shards);
    return status;
}

static void
shards_return_all(struct tidei_block_shards *shards, uint64_t count)
{
    struct tide_resource *upstream = shards->upstream;

    if (upstream->ops->order(upstream, TIDE_STREAM_ALL, 0) != TIDE_OK) {
        tidei_message(TIDE_WARNING, "fixed: %llu blocks of %s stay with upstream, not ordered behind their use",
                      (unsigned long long)count, tidei_size_text(shards->block_bytes));
        return;
    }
    for (uint32_t i = 0; i < shards->count; i++) {
        const struct tidei_blocks *blocks = &shards->shards[i].blocks;

        for (uint32_t number = 0; number < blocks->capacity; number++) {
            if (blocks->blocks[number].used)
                tidei_deallocate(upstream, (void *)blocks->blocks[number].address, shards->block_bytes,
                                 TIDE_DEFAULT_ALIGNMENT, 0);
        }
    }
}

void
tidei_block_shards_destroy(struct tidei_block_shards *shards)
{
    uint64_t used_bytes, count;

    if (shards == NULL)
        return;
    tidei_block_shards_read(shards, &used_bytes, &count);
    if (count > 0)
        shards_return_all(shards, count);
    while (shards->count > 0) {
        struct shard *shard = &shards->shards[--shards->count];

        tidei_blocks_fini(&shard->blocks);
        tidei_lock_fini(&shard->lock);
    }
    free(shards);
}
