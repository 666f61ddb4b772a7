/*
 * Moves records from the rings into the filling buffer of the backlog, in the order of their times.
 *
 * A kill between any two instructions must leave each record in exactly one place. The authority is `published`, one
 * word with the number of records in the filling buffer. For each ring that gave records, the merge first writes
 * next_publish (the number of the coming publication) and then next_tail (the tail after it). Then it writes
 * `published`, and last the tails. A recovery resumes at next_tail if that publication has happened, else at the tail.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/sync/barrier.h"
#include "src/sync/testpoint.h"
#include "src/trace/events/merge.h"

struct tidei_merge *
tidei_merge_new(struct tidei_ringfile *file, bool tsc)
{
    struct tidei_merge *merge = calloc(1, sizeof(*merge));

    if (merge == NULL)
        return NULL;
    merge->file = file;
    merge->tsc = tsc;
    return merge;
}

void
tidei_merge_free(struct tidei_merge *merge)
{
    free(merge);
}

/* Where to continue in a ring: at the tail, or after a kill at next_tail if its publication has happened. */
static uint64_t
merge_tail(const struct tidei_merge *merge, const struct tidei_ring *ring)
{
    uint64_t published = atomic_load_explicit(&merge->file->header->published, memory_order_relaxed);

    if (merge->post_mortem)
        return tidei_ring_left_tail(ring, TIDEI_PUBLISHED_NUMBER(published));
    return atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

/*
 * The earliest tick that the ring's next record can have, by `open`. A record that has been open for too long is not
 * waited for; it will count as late.
 */
static uint64_t
merge_bound(struct tidei_merge *merge, uint32_t index, uint64_t open, uint64_t now)
{
    uint64_t ns;

    if (open == 0) {
        merge->open_seen[index] = 0;
        return now;
    }
    ns = tidei_monotonic_ns();
    if (merge->open_seen[index] != open) {
        merge->open_seen[index] = open;
        merge->open_since_ns[index] = ns;
    }
    if (ns - merge->open_since_ns[index] > TIDEI_TEST_LIMIT(patience_ns, TIDEI_MERGE_PATIENCE_NS))
        return now;
    /* The record's tick may equal the one at which its call began; `open` is that tick | 1, so one more if even. */
    return open - 1 < now ? open - 1 : now;
}

static void
merge_barrier(struct tidei_merge *merge)
{
    if (merge->membarrier && tidei_barrier_run())
        return;
    merge->barrier_refused = merge->membarrier;
    tidei_clock_serialize();
    atomic_thread_fence(memory_order_seq_cst);
}

/* Find the rings that have records, and the tick before which they may be merged. Returns the number of rings. */
static uint32_t
merge_look(struct tidei_merge *merge)
{
    uint32_t found = 0, rings;
    uint64_t now;

    TIDEI_TEST_POINT("merge.look");
    now = merge->post_mortem ? UINT64_MAX : tidei_clock_ticks(merge->tsc);
    merge->watermark = now;
    /* See producer.h: a thread whose `open` is read as 0 after this barrier will read its clock after `now`. */
    merge_barrier(merge);
    /* After the barrier, too: a ring that is not counted yet gets its first record after `now`. */
    rings = atomic_load_explicit(&merge->file->header->ring_count, memory_order_acquire);
    for (uint32_t i = 0; i < rings; i++) {
        struct tidei_ring *ring = merge->file->rings[i];
        /* These pair with the releases in producer.h, in reverse order: first open, then head. */
        uint64_t open = merge->post_mortem ? 0 : atomic_load_explicit(&ring->open, memory_order_acquire);
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
        uint64_t tail = merge_tail(merge, ring);
        uint64_t bound = merge_bound(merge, i, open, now);
        struct tidei_merge_cursor *cursor = &merge->cursors[found];

        if (bound < merge->watermark)
            merge->watermark = bound;
        if (head == tail)
            continue;
        cursor->ring = ring;
        cursor->position = tail;
        cursor->head = head;
        found++;
    }
    return found;
}

static struct tidei_record *
merge_at_offset(const struct tidei_merge *merge, const struct tidei_merge_cursor *cursor, uint64_t offset)
{
    uint64_t mask = merge->file->ring_bytes / sizeof(struct tidei_record) - 1;

    return &tidei_ring_records(cursor->ring)[(cursor->position + offset) & mask];
}

static struct tidei_record *
merge_at(const struct tidei_merge *merge, const struct tidei_merge_cursor *cursor)
{
    return merge_at_offset(merge, cursor, 0);
}

/* The record's tick, clamped below the watermark of a recovery: else a damaged file could stop it from ending. */
static uint64_t
merge_ticks(const struct tidei_merge *merge, const struct tidei_merge_cursor *cursor)
{
    uint64_t ticks = merge_at(merge, cursor)->ticks;

    return ticks < INT64_MAX ? ticks : INT64_MAX;
}

/* Restore the heap below `i`: the cursor with the earliest record stands at 0. */
static void
merge_sift(struct tidei_merge *merge, uint32_t i, uint32_t count)
{
    struct tidei_merge_cursor *cursors = merge->cursors;
    struct tidei_merge_cursor moving = cursors[i];

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= count)
            break;
        if (child + 1 < count && cursors[child + 1].ticks < cursors[child].ticks)
            child++;
        if (cursors[child].ticks >= moving.ticks)
            break;
        cursors[i] = cursors[child];
        i = child;
    }
    cursors[i] = moving;
}

/* Make room for `records` more in the buffer. */
static bool
merge_reserve(struct tidei_merge *merge, uint64_t records)
{
    struct tidei_ringfile *file = merge->file;

    while (merge->count + records > file->buffer_chunks[merge->buffer] * TIDEI_CHUNK_RECORDS) {
        if (tidei_ringfile_add_chunk(file, merge->buffer) != TIDE_OK)
            return false;
    }
    return true;
}

/* Copy the record at the cursor, with its text. False if the buffer is full. */
static inline bool
merge_copy(struct tidei_merge *merge, struct tidei_merge_cursor *cursor)
{
    struct tidei_record *from = merge_at(merge, cursor);
    uint64_t records = 1;
    struct tidei_record *to;

    /* A damaged file may have fewer text records than text_records says. */
    while (records <= from->text_records && records < cursor->head - cursor->position &&
           merge_at_offset(merge, cursor, records)->kind == TIDEI_RECORD_TEXT)
        records++;
    if (!merge_reserve(merge, records))
        return false;
    to = tidei_buffer_record(merge->file, merge->buffer, merge->count);
    *to = *from;
    to->text_records = (uint16_t)(records - 1);
    to->ticks = cursor->ticks;
    if (to->ticks < merge->last_ticks) {
        /* Keep the time at which its call began: frees are paired by it. */
        to->duration_ticks += merge->last_ticks - to->ticks;
        to->ticks = merge->last_ticks;
        merge->late++;
    }
    merge->last_ticks = to->ticks;
    cursor->position++;
    for (uint64_t i = 1; i < records; i++) {
        *tidei_buffer_record(merge->file, merge->buffer, merge->count + i) = *merge_at(merge, cursor);
        cursor->position++;
    }
    merge->count += records;
    return true;
}

/*
 * Copy from the first cursor while it has the earliest record, and that is before the watermark. False if nothing more
 * can be merged.
 */
static bool
merge_run(struct tidei_merge *merge, uint32_t *count)
{
    struct tidei_merge_cursor *first = &merge->cursors[0];
    uint64_t until = merge->watermark;

    for (uint32_t i = 1; i < 3 && i < *count; i++) {
        if (merge->cursors[i].ticks < until)
            until = merge->cursors[i].ticks + 1;
    }
    if (first->ticks >= until)
        return false;
    while (first->ticks < until) {
        if (!merge_copy(merge, first)) {
            merge->full = true;
            return false;
        }
        if (first->position == first->head)
            break;
        first->ticks = merge_ticks(merge, first);
    }
    if (first->position == first->head) {
        struct tidei_merge_cursor spent = *first;

        *first = merge->cursors[--*count];
        merge->cursors[*count] = spent;
    }
    merge_sift(merge, 0, *count);
    return *count != 0;
}

/* Publish the copied records; see the top of this file. */
static void
merge_publish(struct tidei_merge *merge, uint32_t rings)
{
    struct tidei_ring_header *header = merge->file->header;

    merge->number++;
    for (uint32_t i = 0; i < rings; i++) {
        struct tidei_merge_cursor *cursor = &merge->cursors[i];

        cursor->ring->next_publish = merge->number;
        atomic_signal_fence(memory_order_seq_cst); /* a kill sees this thread's stores in program order */
        TIDEI_TEST_POINT("merge.between");
        cursor->ring->next_tail = cursor->position;
    }
    TIDEI_TEST_POINT("merge.before-publish");
    atomic_store_explicit(&header->published, TIDEI_PUBLISHED(merge->number, merge->buffer, merge->count),
                          memory_order_release);
    TIDEI_TEST_POINT("merge.after-publish");
    for (uint32_t i = 0; i < rings; i++) {
        struct tidei_merge_cursor *cursor = &merge->cursors[i];

        /* Pairs with the acquire in producer_has_space. */
        atomic_store_explicit(&cursor->ring->tail, cursor->position, memory_order_release);
    }
}

void
tidei_merge_resume(struct tidei_merge *merge)
{
    const struct tidei_ring_header *header = merge->file->header;
    uint64_t published = atomic_load_explicit(&header->published, memory_order_acquire);

    merge->post_mortem = true;
    merge->buffer = TIDEI_PUBLISHED_BUFFER(published);
    merge->count = TIDEI_PUBLISHED_COUNT(published);
    merge->number = TIDEI_PUBLISHED_NUMBER(published);
    for (uint64_t i = merge->count; i-- > 0;) {
        const struct tidei_record *record = tidei_buffer_record(merge->file, merge->buffer, i);

        if (record->kind != TIDEI_RECORD_TEXT) {
            merge->last_ticks = record->ticks;
            break;
        }
    }
}

uint64_t
tidei_merge_drain(struct tidei_merge *merge)
{
    uint32_t rings = merge_look(merge);
    uint32_t active = rings;
    uint64_t before = merge->count;

    merge->full = false;
    if (rings == 0)
        return 0;
    for (uint32_t i = 0; i < rings; i++)
        merge->cursors[i].ticks = merge_ticks(merge, &merge->cursors[i]);
    for (uint32_t i = rings / 2; i-- > 0;)
        merge_sift(merge, i, rings);
    while (merge_run(merge, &active))
        ;
    /* A page that has just become memory of this process alone is not published to the next recovery. */
    if (merge->post_mortem && tidei_ringfile_check_sound(merge->file, true) != TIDE_OK)
        merge->count = before;
    if (merge->count != before)
        merge_publish(merge, rings);
    return merge->count - before;
}

uint64_t
tidei_merge_seal(struct tidei_merge *merge)
{
    struct tidei_ring_header *header = merge->file->header;
    unsigned full = merge->buffer;
    unsigned next = 1 - full;
    uint64_t epoch = header->buffers[full].epoch;

    /* In this order, so that after a kill old records never count as the new epoch's. */
    header->buffers[full].count = merge->count;
    header->buffers[next].count = 0;
    atomic_signal_fence(memory_order_seq_cst);
    header->buffers[next].epoch = epoch + 1;
    TIDEI_TEST_POINT("merge.before-seal");
    merge->buffer = next;
    merge->count = 0;
    merge->number++;
    atomic_store_explicit(&header->published, TIDEI_PUBLISHED(merge->number, next, 0), memory_order_release);
    TIDEI_TEST_POINT("merge.after-seal");
    return epoch;
}
