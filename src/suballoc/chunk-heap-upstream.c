/* What a chunk heap asks of upstream, and gives back; see chunk-heap-inner.h. */
#include <sched.h>

#include "src/resource/await.h"
#include "src/resource/place.h"
#include "src/suballoc/chunk-heap-inner.h"
#include "src/suballoc/range.h"
#include "src/sync/fork.h"

enum tide_status
tidei_chunk_heap_no_memory(const struct tidei_chunk_heap *chunk_heap)
{
    return tidei_refused(
        chunk_heap->options.layer,
        tide_error_set(TIDE_ENOMEM, "%s: no host memory to note another block", chunk_heap->options.name));
}

enum tide_status
tidei_chunk_heap_reserve(struct tidei_chunk_heap *chunk_heap)
{
    bool reserved = tidei_chunk_heap_joins(chunk_heap) ? tidei_range_reserve(&chunk_heap->heap)
                                                       : tidei_heap_reserve(&chunk_heap->heap);

    return reserved ? TIDE_OK : tidei_chunk_heap_no_memory(chunk_heap);
}

/*
 * Add the bytes of a chunk that has arrived, or subtract (a negative number) those of one that was returned. The caller
 * holds the lock, so no atomic addition is needed.
 */
void
tidei_chunk_heap_hold(struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    bytes += atomic_load_explicit(&chunk_heap->held, memory_order_relaxed); /* relaxed: as above */
    atomic_store_explicit(&chunk_heap->held, bytes, memory_order_relaxed);
    if (chunk_heap->peak_bytes < bytes)
        chunk_heap->peak_bytes = bytes;
    if (chunk_heap->limit_bytes < bytes)
        chunk_heap->limit_bytes = bytes;
}

/*
 * In the child of a fork() the threads that were calling upstream do not exist, and nobody may wait for them. Chunks
 * that they were requesting never arrive, and chunks that they were about to return are lost. Keeps the lock.
 */
void
tidei_chunk_heap_note_fork(struct tidei_chunk_heap *chunk_heap)
{
    uint64_t bytes;

    if (chunk_heap->forks == tidei_fork_generation())
        return;
    chunk_heap->forks = tidei_fork_generation();
    chunk_heap->requesting = chunk_heap->returning = 0;
    chunk_heap->returning_bytes = 0;
    chunk_heap->growing = false;
    bytes = tidei_heap_free_bytes(&chunk_heap->heap) + chunk_heap->heap.out_bytes;
    /* Relaxed: as above. */
    atomic_store_explicit(&chunk_heap->held, bytes, memory_order_relaxed);
    atomic_store_explicit(&chunk_heap->reserved, bytes, memory_order_relaxed);
}

/* Those of other threads of the parent do not exist in the child of a fork(), and their stacks may be used again. */
struct tidei_chunk_heap_naming *
tidei_chunk_heap_named(struct tidei_chunk_heap *chunk_heap)
{
    if (chunk_heap->naming_forks != tidei_fork_generation())
        chunk_heap->naming = NULL;
    chunk_heap->naming_forks = tidei_fork_generation();
    return chunk_heap->naming;
}

void
tidei_chunk_heap_name(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece,
                      struct tidei_chunk_heap_naming *out)
{
    *out = (struct tidei_chunk_heap_naming){ .piece = piece,
                                             .thread = pthread_self(),
                                             .next = tidei_chunk_heap_named(chunk_heap) };
    /* No cancellation until its end: it stands on this thread's stack. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &out->cancel);
    out->number = ++chunk_heap->named;
    chunk_heap->naming = out;
}

/* Where this thread has called fork() within the call, it is not listed any more. */
void
tidei_chunk_heap_name_end(struct tidei_chunk_heap *chunk_heap, struct tidei_chunk_heap_naming *naming)
{
    struct tidei_chunk_heap_naming **at = &chunk_heap->naming;

    (void)tidei_chunk_heap_named(chunk_heap);
    while (*at != NULL && *at != naming)
        at = &(*at)->next;
    if (*at != NULL)
        *at = naming->next;
    pthread_setcancelstate(naming->cancel, NULL);
}

enum tide_status
tidei_chunk_heap_order(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, uint32_t later, uint32_t earlier,
                       uint64_t epoch, bool *again)
{
    struct tidei_streams *streams = &chunk_heap->heap.streams;
    tide_stream from = streams->streams[earlier]->handle, to = streams->streams[later]->handle;
    uint64_t waited_all = streams->waited_all;
    struct tidei_chunk_heap_naming naming;
    enum tide_status status;

    tidei_chunk_heap_name(chunk_heap, piece, &naming);
    tidei_lock_release(&chunk_heap->lock);
    TIDEI_TEST_POINT("chunk-heap.moving");
    status = chunk_heap->upstream->ops->order(chunk_heap->upstream, from, to);
    tidei_lock_acquire(&chunk_heap->lock);
    tidei_chunk_heap_name_end(chunk_heap, &naming);
    *again = streams->waited_all != waited_all;
    tidei_figure_add(&chunk_heap->orders, status == TIDE_OK);
    if (status == TIDE_OK && !*again)
        tidei_heap_waited(&chunk_heap->heap, piece, later, earlier, epoch);
    return status;
}

/* Of chunks. */
static uint64_t
chunk_heap_alignment(const struct tidei_chunk_heap *chunk_heap)
{
    return tidei_chunk_heap_joins(chunk_heap) ? chunk_heap->heap.range.page_bytes : chunk_heap->options.granule;
}

static enum tide_status
chunk_heap_ask(struct tidei_chunk_heap *chunk_heap, uint64_t bytes, tide_stream stream, void **out)
{
    uint64_t alignment = chunk_heap_alignment(chunk_heap);

    if (chunk_heap->options.is_inner)
        return tidei_allocate(chunk_heap->upstream, bytes, alignment, stream, out);
    return tidei_chunks_allocate(&chunk_heap->chunks, bytes, alignment, stream, out);
}

enum tide_status
tidei_chunk_heap_give_back(struct tidei_chunk_heap *chunk_heap, void *pointer, uint64_t bytes, tide_stream stream)
{
    uint64_t alignment = chunk_heap_alignment(chunk_heap);

    if (chunk_heap->options.is_inner)
        return tidei_deallocate(chunk_heap->upstream, pointer, bytes, alignment, stream);
    return tidei_chunks_deallocate(&chunk_heap->chunks, pointer, bytes, alignment, stream);
}

/* A heap whose chunks are joined has them in its range. */

static bool
chunk_overlaps(const struct tidei_chunk_heap *chunk_heap, uintptr_t base, uint64_t bytes)
{
    if (tidei_chunk_heap_joins(chunk_heap))
        return !tidei_range_is_gap(&chunk_heap->heap, base, bytes);
    return tidei_heap_overlaps(&chunk_heap->heap, base, bytes);
}

/* Reject a chunk from upstream that is invalid or overlaps this heap's memory. The caller holds the lock. */
static enum tide_status
chunk_heap_check_chunk(struct tidei_chunk_heap *chunk_heap, void *pointer, uint64_t bytes)
{
    const char *name = chunk_heap->options.name, *below = tide_resource_name(chunk_heap->upstream);
    uintptr_t base = (uintptr_t)pointer;

    if (pointer == NULL)
        return tidei_refused(chunk_heap->options.layer, tide_error_set(TIDE_EUPSTREAM, "%s: %s gave NULL for %llu B",
                                                                       name, below, (unsigned long long)bytes));
    if (base % chunk_heap_alignment(chunk_heap) != 0)
        return tidei_refused(chunk_heap->options.layer,
                             tide_error_set(TIDE_EUPSTREAM, "%s: %s gave %p, which is no multiple of %llu", name, below,
                                            pointer, (unsigned long long)chunk_heap_alignment(chunk_heap)));
    if (base + (bytes - 1) < base || chunk_overlaps(chunk_heap, base, bytes))
        return tidei_refused(chunk_heap->options.layer,
                             tide_error_set(TIDE_EUPSTREAM, "%s: %s gave %llu B at %p, which it gave before", name,
                                            below, (unsigned long long)bytes, pointer));
    return TIDE_OK;
}

/*
 * Wait where upstream gave memory that another thread is returning: upstream had it back before that thread could note
 * that it is gone. A chunk on its way is in no table of chunks, and its place becomes a gap only when it has arrived.
 */
static void
chunk_heap_await_returned(struct tidei_chunk_heap *chunk_heap, void *pointer, uint64_t bytes)
{
    uintptr_t base = (uintptr_t)pointer;

    while (chunk_heap->returning > 0 && chunk_overlaps(chunk_heap, base, bytes) &&
           !tidei_heap_overlaps(&chunk_heap->heap, base, bytes)) {
        TIDEI_TEST_POINT("chunk-heap.awaits-returned");
        tidei_lock_release(&chunk_heap->lock);
        sched_yield();
        tidei_lock_acquire(&chunk_heap->lock);
    }
}

/* A share of what the heap may hold, above which upstream gives memory back first. */
#define UPSTREAM_SLACK_SHARE 128

/*
 * What an upstream that keeps what comes back may have reserved before this heap has another chunk of `bytes`, so that
 * there are `most_bytes` of this heap then: a little slack, and what its other users have, come on top. Not less than
 * it was told to keep. UINT64_MAX: it does not say what is in use.
 */
static uint64_t
chunk_heap_upstream_most(const struct tidei_chunk_heap *chunk_heap, uint64_t bytes, uint64_t most_bytes)
{
    uint64_t held = atomic_load_explicit(&chunk_heap->held, memory_order_relaxed), used; /* as above */

    if (tide_query(chunk_heap->upstream, TIDE_QUERY_BYTES_USED, &used) != TIDE_OK)
        return UINT64_MAX;
    most_bytes += most_bytes / UPSTREAM_SLACK_SHARE + (used > held ? used - held : 0) - bytes;
    return most_bytes < chunk_heap->kept_bytes ? chunk_heap->kept_bytes : most_bytes;
}

/* Whether upstream has more than `most_bytes` reserved, or does not say. */
static bool
chunk_heap_is_above(const struct tidei_chunk_heap *chunk_heap, uint64_t most_bytes)
{
    uint64_t reserved;

    return tide_query(chunk_heap->upstream, TIDE_QUERY_BYTES_RESERVED, &reserved) != TIDE_OK || reserved > most_bytes;
}

/*
 * A chunk went back on the stream. After a wait for all streams since the epoch `waited_all` nothing is owed, and the
 * stream may be gone. Where too many are known, what upstream has of this one goes back once the host has waited for it
 * on another account, or never.
 */
static void
chunk_owe(struct tidei_chunk_heap *chunk_heap, tide_stream stream, uint64_t waited_all)
{
    if (chunk_heap->heap.streams.waited_all != waited_all)
        return;
    for (uint32_t i = 0; i < chunk_heap->owed_count; i++) {
        if (chunk_heap->owed[i] == stream)
            return;
    }
    if (chunk_heap->unit_bytes != 0 && chunk_heap->owed_count < TIDEI_CHUNK_HEAP_OWED)
        chunk_heap->owed[chunk_heap->owed_count++] = stream;
}

/* What goes with a trim: streams on which chunks went back. */
struct upstream_wish {
    struct tidei_await await;
    tide_stream streams[TIDEI_CHUNK_HEAP_OWED + 1]; /* and stream 0 */
    uint64_t waited_all;                            /* the epoch of the last wait for all streams */
    bool used;                                      /* a trim went with it */
    bool looks;                                     /* what was late is looked at, even if there is nothing to trim */
};

/* Take over what is owed. Under the lock. */
static void
upstream_wish_init(struct tidei_chunk_heap *chunk_heap, uint64_t most_ns, struct upstream_wish *wish)
{
    wish->used = wish->looks = false;
    wish->waited_all = chunk_heap->heap.streams.waited_all;
    wish->await = (struct tidei_await){ .streams = wish->streams, .most_ns = most_ns };
    wish->await.count = chunk_heap->owed_count;
    for (uint32_t i = 0; i < chunk_heap->owed_count; i++)
        wish->streams[i] = chunk_heap->owed[i];
    chunk_heap->owed_count = 0;
}

/* What was not used is owed further on. Under the lock. */
static void
upstream_wish_end(struct tidei_chunk_heap *chunk_heap, const struct upstream_wish *wish)
{
    for (size_t i = 0; i < wish->await.count && !wish->used; i++)
        chunk_owe(chunk_heap, wish->streams[i], wish->waited_all);
}

/* Whether there is a wish among the calls. */
static bool
upstream_has_wish(const struct tidei_chunk_heap_naming *naming)
{
    while (naming != NULL && naming->piece != NULL)
        naming = naming->next;
    return naming != NULL;
}

/*
 * Trim upstream with the wish. Called without the lock. The application may destroy streams behind a wait for all of
 * them. Where one has ended since the wish was taken over, nothing is owed. One that ends meanwhile returns only when
 * the streams are not named any more. A wish that is alone has seen all that was late.
 */
static enum tide_status
upstream_wish_trim(struct tidei_chunk_heap *chunk_heap, struct upstream_wish *wish, uint64_t keep_bytes)
{
    struct tidei_chunk_heap_naming naming;
    enum tide_status status;
    uint64_t number;
    bool alone;

    TIDEI_TEST_POINT("chunk-heap.wishes");
    tidei_lock_acquire(&chunk_heap->lock);
    if (chunk_heap->heap.streams.waited_all != wish->waited_all)
        wish->await.count = 0;
    tidei_chunk_heap_name(chunk_heap, NULL, &naming);
    alone = !upstream_has_wish(naming.next);
    number = ++chunk_heap->wishes;
    tidei_lock_release(&chunk_heap->lock);
    tidei_await_wish(&wish->await);
    status = tide_trim(chunk_heap->upstream, keep_bytes);
    tidei_await_wish(NULL);
    tidei_lock_acquire(&chunk_heap->lock);
    tidei_chunk_heap_name_end(chunk_heap, &naming);
    alone = alone && chunk_heap->wishes == number;
    chunk_heap->late = wish->await.late || (chunk_heap->late && !alone);
    tidei_lock_release(&chunk_heap->lock);
    wish->used = true;
    return status;
}

/* Have upstream note the streams that are owed while they exist, or look. It gives nothing back, and nobody waits. */
static void
upstream_wish_note(struct tidei_chunk_heap *chunk_heap, struct upstream_wish *wish)
{
    struct tidei_error error;

    if (wish->used || (wish->await.count == 0 && !wish->looks))
        return;
    wish->await.most_ns = 0;
    tidei_error_save(&error);
    (void)upstream_wish_trim(chunk_heap, wish, TIDEI_CHUNK_HEAP_BYTES_MAX);
    tidei_error_restore(&error);
}

void
tidei_chunk_heap_note_owed(struct tidei_chunk_heap *chunk_heap)
{
    struct upstream_wish wish;

    if (chunk_heap->owed_count == 0)
        return;
    upstream_wish_init(chunk_heap, 0, &wish);
    tidei_lock_release(&chunk_heap->lock);
    upstream_wish_note(chunk_heap, &wish);
    tidei_lock_acquire(&chunk_heap->lock);
    upstream_wish_end(chunk_heap, &wish);
}

/*
 * Have an upstream that keeps what comes back give back free memory, where it would have more than `most_bytes` of this
 * heap with another chunk of `bytes`: first what it can at once, then, if it owes any, with the wish. Else it only
 * notes the streams of the wish. The result is whether it has more nevertheless. Called without the lock.
 */
static bool
chunk_heap_trim_upstream(struct tidei_chunk_heap *chunk_heap, uint64_t bytes, uint64_t most_bytes,
                         struct upstream_wish *wish, bool owes)
{
    struct tidei_error error;
    bool in_flight = false;

    tidei_error_save(&error);
    most_bytes = chunk_heap_upstream_most(chunk_heap, bytes, most_bytes);
    if (most_bytes != UINT64_MAX && chunk_heap_is_above(chunk_heap, most_bytes)) {
        in_flight = tide_trim(chunk_heap->upstream, most_bytes) != TIDE_OK;
        if (!in_flight && owes && chunk_heap_is_above(chunk_heap, most_bytes))
            in_flight = upstream_wish_trim(chunk_heap, wish, most_bytes) != TIDE_OK;
        in_flight = in_flight || chunk_heap_is_above(chunk_heap, most_bytes + chunk_heap->unit_bytes);
    }
    tidei_error_restore(&error);
    upstream_wish_note(chunk_heap, wish);
    return in_flight;
}

void
tidei_chunk_heap_trim_upstream(struct tidei_chunk_heap *chunk_heap)
{
    bool owes = chunk_heap->owed_count != 0 || chunk_heap->late;
    uint64_t reserved = tidei_chunk_heap_reserved(chunk_heap);
    struct upstream_wish wish;

    upstream_wish_init(chunk_heap, 0, &wish);
    wish.looks = chunk_heap->late;
    tidei_lock_release(&chunk_heap->lock);
    chunk_heap_trim_upstream(chunk_heap, 0, reserved, &wish, owes);
    tidei_lock_acquire(&chunk_heap->lock);
    upstream_wish_end(chunk_heap, &wish);
}

/*
 * How long a request waits for work at most. In a training the host is ahead of the device by no more than a step of
 * some tens of milliseconds. GPT-2 comes to 7,488 MiB over sim(model=driver), to 8,064 where every second wait is in
 * vain, and to 8,448 where all are. After a wait in vain, for work that depends on the waiting thread or takes longer,
 * it is half as long.
 */
#define UPSTREAM_PATIENCE_NS       (UINT64_C(50) * 1000000)
#define UPSTREAM_PATIENCE_LEAST_NS (UINT64_C(1) * 1000000)

static uint64_t
upstream_patience(const struct tidei_chunk_heap *chunk_heap)
{
    return chunk_heap->patience_ns != 0 ? chunk_heap->patience_ns : TIDEI_TEST_LIMIT(await_ns, UPSTREAM_PATIENCE_NS);
}

/* Note how a wait has ended. */
static void
upstream_waited(struct tidei_chunk_heap *chunk_heap, const struct tidei_await *await)
{
    uint64_t patience = upstream_patience(chunk_heap), most = TIDEI_TEST_LIMIT(await_ns, UPSTREAM_PATIENCE_NS);

    tidei_figure_add(&chunk_heap->waits, 1);
    if (!await->vain)
        chunk_heap->patience_ns = patience < most / 2 ? 2 * patience : most;
    else if (patience / 2 >= UPSTREAM_PATIENCE_LEAST_NS)
        chunk_heap->patience_ns = patience / 2;
}

bool
tidei_chunk_heap_trim_for(struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    uint64_t most = tidei_chunk_heap_limit(chunk_heap), reserved = tidei_chunk_heap_reserved(chunk_heap);
    struct upstream_wish wish;
    bool in_flight, owes = chunk_heap->owed_count != 0 || chunk_heap->late;

    if (bytes > chunk_heap->options.maximum_bytes - reserved) {
        tidei_chunk_heap_note_owed(chunk_heap);
        return false;
    }
    upstream_wish_init(chunk_heap, upstream_patience(chunk_heap), &wish);
    tidei_lock_release(&chunk_heap->lock);
    TIDEI_TEST_POINT("chunk-heap.trimming");
    most = most > reserved + bytes ? most : reserved + bytes;
    in_flight = chunk_heap_trim_upstream(chunk_heap, bytes, most, &wish, owes);
    tidei_lock_acquire(&chunk_heap->lock);
    upstream_wish_end(chunk_heap, &wish);
    if (wish.await.waited)
        upstream_waited(chunk_heap, &wish.await);
    chunk_heap->restless = chunk_heap->restless || in_flight;
    return wish.await.waited;
}

/* Stream 0 always exists. */
enum tide_status
tidei_chunk_heap_pass_trim(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes, bool ordered)
{
    struct upstream_wish wish;
    enum tide_status status;
    bool owes;

    tidei_lock_acquire(&chunk_heap->lock);
    owes = ordered || chunk_heap->owed_count != 0 || chunk_heap->late;
    upstream_wish_init(chunk_heap, TIDEI_TEST_LIMIT(await_ns, UPSTREAM_PATIENCE_NS), &wish);
    tidei_lock_release(&chunk_heap->lock);
    if (ordered)
        wish.streams[wish.await.count++] = 0;
    if (!owes)
        return tide_trim(chunk_heap->upstream, keep_bytes);
    status = upstream_wish_trim(chunk_heap, &wish, keep_bytes);
    tidei_lock_acquire(&chunk_heap->lock);
    upstream_wish_end(chunk_heap, &wish);
    tidei_lock_release(&chunk_heap->lock);
    return status;
}

/* A chunk of upstream's that overlaps memory of this heap is not returned: that would free it. */
enum tide_status
tidei_chunk_heap_ask(struct tidei_chunk_heap *chunk_heap, uint64_t bytes, uint32_t stream, uintptr_t wish,
                     uintptr_t *out)
{
    tide_stream handle = chunk_heap->heap.streams.streams[stream]->handle;
    enum tide_status status;
    void *pointer;

    chunk_heap->requesting++;
    tidei_lock_release(&chunk_heap->lock);
    TIDEI_TEST_POINT("chunk-heap.asking");
    if (wish != 0)
        tidei_place_wish(wish);
    status = chunk_heap_ask(chunk_heap, bytes, handle, &pointer);
    if (wish != 0)
        tidei_place_wish(0);
    tidei_lock_acquire(&chunk_heap->lock);
    if (status == TIDE_OK && pointer != NULL)
        chunk_heap_await_returned(chunk_heap, pointer, bytes);
    chunk_heap->requesting--;
    chunk_heap->requests_ended++;
    *out = (uintptr_t)pointer;
    if (status != TIDE_OK)
        return status;
    status = chunk_heap_check_chunk(chunk_heap, pointer, bytes);
    if (status == TIDE_OK)
        status = tidei_chunk_heap_reserve(chunk_heap);
    if (status != TIDE_OK && pointer != NULL && !chunk_overlaps(chunk_heap, (uintptr_t)pointer, bytes)) {
        struct tidei_error error;

        tidei_lock_release(&chunk_heap->lock);
        tidei_error_save(&error);
        tidei_chunk_heap_give_back(chunk_heap, pointer, bytes, handle);
        tidei_error_restore(&error);
        tidei_lock_acquire(&chunk_heap->lock);
        chunk_heap->given_back++;
    }
    return status;
}

enum tide_status
tidei_chunk_heap_count(struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    uint64_t before;

    if (tidei_bounded_add(&chunk_heap->reserved, bytes, chunk_heap->options.maximum_bytes, &before))
        return TIDE_OK;
    return tidei_refused(chunk_heap->options.layer,
                         tide_error_set(TIDE_ECAPACITY, "%s: another %s exceed its maximum of %s (%s reserved)",
                                        chunk_heap->options.name, tidei_size_text(bytes),
                                        tidei_size_text(chunk_heap->options.maximum_bytes), tidei_size_text(before)));
}

static struct tidei_piece *
chunk_out(struct tidei_chunk_heap *chunk_heap, bool all, uint64_t most_bytes)
{
    if (tidei_chunk_heap_joins(chunk_heap))
        return tidei_range_chunk_take(&chunk_heap->heap, all, most_bytes);
    return tidei_heap_chunk_take(&chunk_heap->heap, all, most_bytes);
}

static void
chunk_back(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *chunk)
{
    if (tidei_chunk_heap_joins(chunk_heap))
        tidei_range_chunk_put_back(&chunk_heap->heap, chunk);
    else
        tidei_heap_chunk_put_back(&chunk_heap->heap, chunk);
}

static void
chunk_gone(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *chunk)
{
    if (tidei_chunk_heap_joins(chunk_heap))
        tidei_range_chunk_forget(&chunk_heap->heap, chunk);
    else
        tidei_heap_chunk_forget(&chunk_heap->heap, chunk);
}

/* The stream of the latest freed run: ordering all others before it needs the fewest waits. */
static uint32_t
chunk_stream(const struct tidei_piece *chunk)
{
    const struct tidei_freed_run *latest = chunk->freed_runs.first;

    for (const struct tidei_freed_run *freed_run = latest; freed_run != NULL; freed_run = freed_run->next) {
        if (freed_run->epoch > latest->epoch)
            latest = freed_run;
    }
    return latest->stream;
}

/*
 * Return a chunk that is out of the heap, ordered behind all streams on which it was freed, on `requester`, or, where
 * that is TIDEI_STREAM_NONE, on the one of them on which it was freed last.
 */
static enum tide_status
chunk_heap_return_chunk(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *chunk, uint32_t requester)
{
    struct tidei_chunk_heap_naming naming;
    enum tide_status status;
    uint64_t waited_all;
    tide_stream handle;
    uint32_t stream;
    bool again;

    do {
        stream = requester != TIDEI_STREAM_NONE ? requester : chunk_stream(chunk);
        status = tidei_chunk_heap_wait(chunk_heap, chunk, stream, &again);
    } while (status == TIDE_OK && again);
    if (status != TIDE_OK)
        return status;
    waited_all = chunk_heap->heap.streams.waited_all;
    handle = chunk_heap->heap.streams.streams[stream]->handle;
    tidei_heap_own(&chunk_heap->heap, chunk, stream);
    tidei_chunk_heap_name(chunk_heap, chunk, &naming);
    tidei_lock_release(&chunk_heap->lock);
    TIDEI_TEST_POINT("chunk-heap.returning");
    status = tidei_chunk_heap_give_back(chunk_heap, (void *)tidei_piece_address(chunk), chunk->bytes, handle);
    TIDEI_TEST_POINT("chunk-heap.returned");
    tidei_lock_acquire(&chunk_heap->lock);
    tidei_chunk_heap_name_end(chunk_heap, &naming);
    if (status == TIDE_OK) {
        chunk_heap->given_back++;
        chunk_owe(chunk_heap, handle, waited_all);
    }
    return status;
}

/* Return a chunk on `stream`; TIDEI_STREAM_NONE: as above. */
static uint64_t
chunk_heap_return_on(struct tidei_chunk_heap *chunk_heap, bool all, uint64_t most_bytes, uint32_t stream)
{
    enum tide_status status;
    struct tidei_piece *chunk;
    uint64_t bytes;

    tidei_chunk_heap_note_fork(chunk_heap);
    chunk = chunk_out(chunk_heap, all, most_bytes);
    if (chunk == NULL)
        return 0;
    bytes = chunk->bytes;
    chunk_heap->returning++;
    chunk_heap->returning_bytes += bytes;
    status = chunk_heap_return_chunk(chunk_heap, chunk, stream);
    chunk_heap->returning--;
    chunk_heap->returns_ended++;
    chunk_heap->returning_bytes -= bytes;
    if (status != TIDE_OK) {
        chunk_back(chunk_heap, chunk);
        return 0;
    }
    tidei_chunk_heap_hold(chunk_heap, 0 - bytes);
    atomic_fetch_sub_explicit(&chunk_heap->reserved, bytes, memory_order_relaxed); /* as tidei_bounded_add */
    tidei_figure_add(&chunk_heap->returned, 1);
    chunk_gone(chunk_heap, chunk);
    return bytes;
}

uint64_t
tidei_chunk_heap_return_one(struct tidei_chunk_heap *chunk_heap, bool all, uint64_t most_bytes)
{
    return chunk_heap_return_on(chunk_heap, all, most_bytes, TIDEI_STREAM_NONE);
}

uint64_t
tidei_chunk_heap_return_for(struct tidei_chunk_heap *chunk_heap, uint32_t stream)
{
    return chunk_heap_return_on(chunk_heap, false, UINT64_MAX,
                                chunk_heap->unit_bytes != 0 ? stream : TIDEI_STREAM_NONE);
}

uint64_t
tidei_chunk_heap_limit(const struct tidei_chunk_heap *chunk_heap)
{
    uint64_t most = chunk_heap->options.release_threshold_bytes;

    return most == UINT64_MAX || most < chunk_heap->limit_bytes ? chunk_heap->limit_bytes : most;
}

/*
 * Requests that pay for a chunk that goes back to have another in its place. Over units more, and a quarter of the
 * chunks may be unpaid: a device keeps what its streams still use, so an exchange waits for them, and a loop of equal
 * steps exchanged chunks in most. Over sim(model=driver), MiB reserved and chunks asked for by recorded programs, gpt2,
 * gpt2-lengths, resnet50, gpt2-generate, unet and ragged-encoder: 7,488 267, 17,408 157, 4,768 115, 1,600 27, 5,344 88,
 * 10,560 116 with 384 requests and as many unpaid as chunks; 7,488 123, 17,408 157, 4,960 105 with 384 and a quarter;
 * 7,488 105, 17,600 118, 4,960 105 with 1,536 and a quarter (the others the same).
 */
#define UPSTREAM_FREE_MOVE            64
#define UPSTREAM_FREE_MOVE_UNITS      1536
#define UPSTREAM_UNPAID_UNITS_DIVISOR 4

/*
 * Over bases without pages or units, cutting chunks up costs memory. So 32 times as many may be unpaid, and any number
 * where there are more than 24 chunks: recorded traffic exchanges one every 8 to 200 requests, and would take a fifth
 * more of memory without. But 8 live blocks of random sizes exchange one every 3 to 5 requests, and save a thirtieth.
 */
#define UPSTREAM_UNPAID_WHOLE 32
#define UPSTREAM_FEW_CHUNKS   24

/*
 * Over pages a quarter more than there are. A heap that grows moves chunks out of holes on the way to its size, which
 * comes to an end. With as many as there are, a program of encoders whose sizes vary had parts of twice the size for
 * the rest of its growth: at 24 scales of its sizes 1.030 of live in the mean and at most 1.053; now 1.025 and 1.034.
 * multistream_sort at 12 scales: 1.199, and now 1.192 in the mean. More moves bring nothing: half as many again 1.024
 * and 1.195.
 */
#define UPSTREAM_UNPAID_PAGES_QUARTERS 5

/* How many chunks may be unpaid. */
static int64_t
chunk_heap_unpaid_most(const struct tidei_chunk_heap *chunk_heap)
{
    int64_t chunks = (int64_t)chunk_heap->heap.chunk_count;

    if (tidei_chunk_heap_joins(chunk_heap))
        return chunks * UPSTREAM_UNPAID_PAGES_QUARTERS / 4;
    if (chunk_heap->unit_bytes != 0)
        return chunks / UPSTREAM_UNPAID_UNITS_DIVISOR;
    return chunks <= UPSTREAM_FEW_CHUNKS ? chunks * UPSTREAM_UNPAID_WHOLE : INT64_MAX;
}

void
tidei_chunk_heap_pay(struct tidei_chunk_heap *chunk_heap, uint64_t moved)
{
    uint64_t each = chunk_heap->unit_bytes != 0 ? UPSTREAM_FREE_MOVE_UNITS : UPSTREAM_FREE_MOVE;
    uint64_t paid = (tidei_chunk_heap_requests(chunk_heap) - chunk_heap->paid_requests) / each;
    int64_t most = chunk_heap_unpaid_most(chunk_heap), balance = chunk_heap->paid_moves + (int64_t)paid;

    chunk_heap->paid_requests += paid * each;
    if (balance > most || most == INT64_MAX)
        chunk_heap->restless = false;
    if (!chunk_heap->restless && balance > 0)
        balance = 0;
    balance -= (int64_t)moved;
    if (balance < -most) {
        chunk_heap->restless = true;
        balance = 0;
    }
    chunk_heap->paid_moves = most < INT64_MAX ? balance : 0;
}

enum tide_status
tidei_chunk_heap_take_hard(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                           struct tidei_piece **out)
{
    struct tidei_heap_request any = *request;

    any.last_resort = true;
    *out = NULL;
    if (!tidei_heap_reserve(&chunk_heap->heap))
        return tidei_chunk_heap_no_memory(chunk_heap);
    *out = tidei_chunk_heap_take(chunk_heap, &any);
    return TIDE_OK;
}
