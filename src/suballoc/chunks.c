/* Requests chunks from upstream, knows those that are held, and lets a trace listen; see chunks.h. */
#include "src/suballoc/chunks.h"

#include "src/nvtx/blocks.h"
#include "src/sync/fork.h"
#include "src/sync/thread.h"

void
tidei_chunks_init(struct tidei_chunks *chunks, const char *name, struct tide_resource *upstream)
{
    *chunks = (struct tidei_chunks){ .name = name, .upstream = upstream, .forks = tidei_fork_generation() };
    tidei_lock_init(&chunks->lock);
    tidei_blocks_init(&chunks->held);
}

void
tidei_chunks_fini(struct tidei_chunks *chunks)
{
    if (chunks->tap != NULL)
        chunks->tap->end(chunks->tap);
    chunks->tap = NULL;
    tidei_blocks_fini(&chunks->held);
    tidei_lock_fini(&chunks->lock);
}

/* In the child of a fork() the threads that were calling upstream do not exist, and nobody waits for them. */
static void
chunks_note_fork(struct tidei_chunks *chunks)
{
    if (chunks->forks == tidei_fork_generation())
        return;
    chunks->forks = tidei_fork_generation();
    chunks->calls = 0;
    chunks->paused = false;
}

/* Take the lock, once the chunks are not paused. */
static void
chunks_enter(struct tidei_chunks *chunks)
{
    unsigned looks = 0;

    tidei_lock_acquire(&chunks->lock);
    chunks_note_fork(chunks);
    while (chunks->paused) {
        TIDEI_TEST_POINT("chunks.waits");
        tidei_lock_release(&chunks->lock);
        tidei_lock_pause(&looks);
        tidei_lock_acquire(&chunks->lock);
        chunks_note_fork(chunks);
    }
}

/* The layer or tap to call, and the trace of the tap. Read with the lock. */
struct chunks_way {
    struct tide_resource *through;
    const void *trace;
};

static struct chunks_way
chunks_way(const struct tidei_chunks *chunks)
{
    if (chunks->tap == NULL)
        return (struct chunks_way){ .through = chunks->upstream };
    return (struct chunks_way){ chunks->tap->through, chunks->tap->trace };
}

/* Request a chunk; *told: a log below the tap has recorded it. A thread without an object records nothing. */
static enum tide_status
chunks_request(struct chunks_way way, size_t bytes, size_t alignment, tide_stream stream, void **out, bool *told)
{
    struct tidei_thread *thread = tidei_thread_get();
    const void *outer = thread != NULL ? thread->untold : NULL;
    enum tide_status status;

    if (thread != NULL)
        thread->untold = way.trace;
    status = tidei_allocate(way.through, bytes, alignment, stream, out);
    *told = thread != NULL && thread->untold != way.trace;
    if (thread != NULL)
        thread->untold = outer;
    return status;
}

/* A call has ended; the thread may have forked within it. Takes the lock. */
static void
chunks_end_call(struct tidei_chunks *chunks)
{
    tidei_lock_acquire(&chunks->lock);
    chunks_note_fork(chunks);
    chunks->calls -= chunks->calls > 0;
}

/* Add to the bytes held; a negative number is subtracted. The caller holds the lock. */
static void
chunks_hold(struct tidei_chunks *chunks, uint64_t bytes)
{
    tidei_figure_add(&chunks->bytes, bytes);
    tidei_figure_raise(&chunks->high_bytes, tidei_figure_get(&chunks->bytes));
}

/* Note a chunk, for which there is room. The caller holds the lock. */
static void
chunks_note(struct tidei_chunks *chunks, void *pointer, const struct tidei_block *chunk)
{
    struct tidei_block *block;

    /* An address that upstream gave before is refused by the layer, and never returned. */
    if (tidei_blocks_find(&chunks->held, pointer) != TIDEI_BLOCK_NONE ||
        !tidei_blocks_reserve(&chunks->held, (uint64_t)chunks->held.count + 1))
        return;
    block = &chunks->held.blocks[tidei_blocks_add(&chunks->held, pointer, chunk->stream)];
    block->bytes = chunk->bytes;
    block->alignment = chunk->alignment;
    block->told = chunk->told;
    chunks_hold(chunks, chunk->bytes);
}

enum tide_status
tidei_chunks_allocate(struct tidei_chunks *chunks, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tidei_block chunk = { .bytes = bytes, .alignment = alignment, .stream = stream };
    struct chunks_way way;
    enum tide_status status;
    bool room;

    *out = NULL;
    chunks_enter(chunks);
    room = tidei_blocks_reserve(&chunks->held, (uint64_t)chunks->held.count + chunks->calls + 1);
    chunks->calls += room;
    way = chunks_way(chunks);
    tidei_lock_release(&chunks->lock);
    if (!room)
        return tide_error_set(TIDE_ENOMEM, "%s: no host memory to note another chunk of %s", chunks->name,
                              tidei_size_text(bytes));
    TIDEI_TEST_POINT("chunks.asking");
    status = chunks_request(way, bytes, alignment, stream, out, &chunk.told);
    chunks_end_call(chunks);
    if (status == TIDE_OK && *out != NULL)
        chunks_note(chunks, *out, &chunk);
    tidei_lock_release(&chunks->lock);
    if (chunks->nvtx && status == TIDE_OK && *out != NULL)
        tidei_nvtx_chunk(chunks->name, *out, bytes);
    return status;
}

/* The chunk is forgotten before upstream is called, because another thread may get the address at once. */
enum tide_status
tidei_chunks_deallocate(struct tidei_chunks *chunks, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct tidei_block block = { 0 };
    struct tide_resource *through;
    enum tide_status status;
    uint32_t number;

    chunks_enter(chunks);
    number = tidei_blocks_find(&chunks->held, pointer);
    if (number != TIDEI_BLOCK_NONE) {
        block = chunks->held.blocks[number];
        tidei_blocks_remove(&chunks->held, number);
        chunks_hold(chunks, 0 - (uint64_t)block.bytes);
    }
    chunks->calls++;
    through = block.told ? chunks->upstream : chunks_way(chunks).through;
    tidei_lock_release(&chunks->lock);
    TIDEI_TEST_POINT("chunks.returning");
    if (chunks->nvtx)
        tidei_nvtx_chunk_end(pointer, bytes);
    status = tidei_deallocate(through, pointer, bytes, alignment, stream);
    chunks_end_call(chunks);
    if (status != TIDE_OK && number != TIDEI_BLOCK_NONE)
        chunks_note(chunks, pointer, &block);
    tidei_lock_release(&chunks->lock);
    if (chunks->nvtx && status != TIDE_OK)
        tidei_nvtx_chunk(chunks->name, pointer, bytes);
    return status;
}

void
tidei_chunks_pause(struct tidei_chunks *chunks)
{
    unsigned looks = 0;

    chunks_enter(chunks);
    chunks->paused = true;
    while (chunks->calls > 0) {
        tidei_lock_release(&chunks->lock);
        tidei_lock_pause(&looks);
        tidei_lock_acquire(&chunks->lock);
    }
    tidei_lock_release(&chunks->lock);
}

void
tidei_chunks_resume(struct tidei_chunks *chunks)
{
    tidei_lock_acquire(&chunks->lock);
    chunks->paused = false;
    tidei_lock_release(&chunks->lock);
}

void
tidei_chunks_figures(const struct tidei_chunks *chunks, uint64_t used_bytes, struct tidei_layer_figures *out)
{
    /* The high is read last: it is never below a figure that was read before. */
    out->reserved_bytes = tidei_figure_get(&chunks->bytes);
    out->used_bytes = used_bytes < out->reserved_bytes ? used_bytes : out->reserved_bytes;
    out->reserved_high_bytes = tidei_figure_get(&chunks->high_bytes);
}
