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
    merge->clock = (struct tidei_steady){ .header = file->header, .tsc = tsc };
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

uint64_t
tidei_merge_patience_ns(void)
{
    return TIDEI_TEST_LIMIT(patience_ns, TIDEI_MERGE_PATIENCE_NS);
}

/*
 * The earliest tick that the ring's next record can have, by `open`. A record that has been open for too long is not
 * waited for; it will count as late.
 */
static uint64_t
merge_bound(const struct tidei_merge *merge, struct tidei_merge_seen *seen, uint64_t open, uint64_t now)
{
    uint64_t ns, bound;

    if (open == 0) {
        seen->open = 0;
        return now;
    }
    ns = tidei_monotonic_ns();
    if (seen->open != open) {
        seen->open = open;
        seen->open_since_ns = ns;
    }
    if (merge->hurry || ns - seen->open_since_ns > tidei_merge_patience_ns())
        return now;
    /* The record's tick may equal the one at which its call began; `open` is that tick | 1, so one more if even. */
    bound = open - 1 + tidei_steady_shift(&merge->clock, open - 1);
    return bound < now ? bound : now;
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

/* The record's corrected tick, clamped below the watermark: else a damaged file could stop a recovery from ending. */
static uint64_t
merge_ticks(const struct tidei_merge *merge, const struct tidei_merge_cursor *cursor)
{
    uint64_t ticks = merge_at(merge, cursor)->ticks;

    ticks += tidei_steady_shift(&merge->clock, ticks);
    ticks = ticks < INT64_MAX ? ticks : INT64_MAX;
    return ticks < cursor->most ? ticks : cursor->most;
}

/* Note where the time of a ring's new record shows that its thread's counter is behind, or ahead of, the writer's. */
static void
merge_compare(struct tidei_merge *merge, const struct tidei_merge_cursor *cursor, const struct tidei_merge_seen *seen)
{
    const struct tidei_record *first = merge_at_offset(merge, cursor, seen->head - cursor->position);
    const struct tidei_record *last = merge_at_offset(merge, cursor, cursor->head - cursor->position - 1);
    uint64_t ticks;

    /* The ring was not open then, so that this record's clock was read later. */
    if (seen->head - cursor->position < cursor->head - cursor->position && first->kind != TIDEI_RECORD_TEXT) {
        ticks = first->ticks + tidei_steady_shift(&merge->clock, first->ticks);
        if ((int64_t)(seen->now - ticks) > 0)
            tidei_steady_differs(&merge->clock, seen->now - ticks);
    }
    if (last->kind == TIDEI_RECORD_TEXT)
        return;
    /* And this one's earlier than the writer's now. */
    ticks = tidei_clock_ticks_ordered(merge->clock.tsc) + merge->file->header->shift;
    if ((int64_t)(last->ticks + tidei_steady_shift(&merge->clock, last->ticks) - ticks) > 0)
        tidei_steady_differs(&merge->clock, last->ticks + tidei_steady_shift(&merge->clock, last->ticks) - ticks);
}

/*
 * Whether the ring's first record has waited long enough for its time to come: the counter of its processor is ahead,
 * or the writer's was set back. It then counts as late.
 */
static bool
merge_is_ahead(const struct tidei_merge *merge, const struct tidei_merge_cursor *cursor, struct tidei_merge_seen *seen,
               uint64_t now)
{
    uint64_t ns;

    if (merge->post_mortem || merge_ticks(merge, cursor) < now) {
        seen->ahead_since_ns = 0;
        return false;
    }
    ns = tidei_monotonic_ns();
    if (seen->ahead_since_ns == 0)
        seen->ahead_since_ns = ns;
    return merge->hurry || ns - seen->ahead_since_ns > tidei_merge_patience_ns();
}

/* Look at one ring. False if it has no records to merge. */
static bool
merge_look_at(struct tidei_merge *merge, uint32_t index, uint64_t now, struct tidei_merge_cursor *cursor)
{
    struct tidei_ring *ring = merge->file->rings[index];
    struct tidei_merge_seen *seen = &merge->seen[index];
    /* These pair with the releases in producer.h, in reverse order: first open, then head. */
    uint64_t open = merge->post_mortem ? 0 : atomic_load_explicit(&ring->open, memory_order_acquire);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t bound = merge_bound(merge, seen, open, now);

    if (bound < merge->watermark)
        merge->watermark = bound;
    *cursor = (struct tidei_merge_cursor){
        .ring = ring, .position = merge_tail(merge, ring), .head = head, .most = UINT64_MAX
    };
    if (head != cursor->position) {
        if (!merge->post_mortem && head != seen->head)
            merge_compare(merge, cursor, seen);
        cursor->ticks = merge_ticks(merge, cursor);
        if (merge_is_ahead(merge, cursor, seen, now))
            cursor->most = 0; /* for now: below the watermark, which is not known yet */
    }
    if (open == 0) {
        seen->head = head;
        seen->now = now;
    }
    return head != cursor->position;
}

/* Find the rings that have records, and the tick before which they may be merged. Returns the number of rings. */
static uint32_t
merge_look(struct tidei_merge *merge)
{
    uint32_t found = 0, rings;
    uint64_t now;

    TIDEI_TEST_POINT("merge.look");
    now = merge->post_mortem ? UINT64_MAX : tidei_steady_now(&merge->clock);
    merge->watermark = now;
    /* See producer.h: a thread whose `open` is read as 0 after this barrier will read its clock after `now`. */
    merge_barrier(merge);
    /* After the barrier, too: a ring that is not counted yet gets its first record after `now`. */
    rings = atomic_load_explicit(&merge->file->header->ring_count, memory_order_acquire);
    for (uint32_t i = 0; i < rings; i++)
        found += merge_look_at(merge, i, now, &merge->cursors[found]);
    for (uint32_t i = 0; i < found; i++) {
        struct tidei_merge_cursor *cursor = &merge->cursors[i];

        if (cursor->most == 0)
            cursor->most = merge->watermark - 1;
        if (cursor->ticks > cursor->most)
            cursor->ticks = cursor->most;
    }
    return found;
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

/* Correct the times of the driver's calls behind a record that was copied to the end of the buffer. */
static __attribute__((noinline)) void
merge_shift_calls(const struct tidei_merge *merge, struct tidei_record *to, uint64_t shift)
{
    bool more = to->kind == TIDEI_RECORD_CALLS;

    if (!more && to->kind != TIDEI_RECORD_ALLOC && to->kind != TIDEI_RECORD_FREE)
        return;
    if (more) {
        to->address += shift;
        to->size += shift;
        tidei_record_seal(to, tidei_record_duration(to));
    }
    for (uint64_t i = 1; i <= to->text_records; i++) {
        struct tidei_text_record *part =
            (struct tidei_text_record *)tidei_buffer_record(merge->file, merge->buffer, merge->count + i);
        struct tidei_call_part call;

        if (part->part == TIDEI_PART_REFUSAL || part->length != sizeof(call))
            continue;
        memcpy(&call, part->text, sizeof(call));
        call.start += shift;
        call.end += shift;
        memcpy(part->text, &call, sizeof(call));
        part->check = tidei_text_record_check(part);
    }
}

/* Make a record that is not what was written one that is counted and has no meaning. Its text goes with it. */
static void
merge_spoil(struct tidei_record *record, uint64_t ticks, uint16_t text_records)
{
    *record = (struct tidei_record){ .ticks = ticks, .kind = TIDEI_RECORD_BAD, .text_records = text_records };
    tidei_record_seal(record, 0);
}

/* Records of a buffer or a ring, from `position` to `end`. */
struct merge_walk {
    /* The record so many behind `position`; NULL behind the end. */
    struct tidei_record *(*at)(struct tidei_merge *merge, const struct merge_walk *walk, uint64_t ahead);
    struct tidei_ring *ring;
    unsigned buffer;
    uint64_t position;
    uint64_t end;
};

/* Whether a record, in a file that was left behind, is what was written. */
static bool
merge_is_sealed(const struct tidei_record *record)
{
    struct tidei_text_record text;

    if (record->kind != TIDEI_RECORD_TEXT)
        return tidei_record_is_sealed(record);
    memcpy(&text, record, sizeof(text));
    return text.check == tidei_text_record_check(&text);
}

/* Check a record of a file that was left behind. The texts behind one that is not what was written go with it. */
static void
merge_check_one(struct tidei_merge *merge, struct merge_walk walk, uint64_t *ticks)
{
    struct tidei_record *record = walk.at(merge, &walk, 0), *next;
    uint16_t texts = 0;

    if (merge_is_sealed(record)) {
        *ticks = record->kind != TIDEI_RECORD_TEXT ? record->ticks : *ticks;
        return;
    }
    while (texts < UINT16_MAX && (next = walk.at(merge, &walk, texts + 1u)) != NULL &&
           next->kind == TIDEI_RECORD_TEXT && merge_is_sealed(next))
        texts++;
    merge_spoil(record, *ticks, texts);
}

static struct tidei_record *
merge_walk_buffer(struct tidei_merge *merge, const struct merge_walk *walk, uint64_t ahead)
{
    return ahead < walk->end - walk->position ? tidei_buffer_record(merge->file, walk->buffer, walk->position + ahead)
                                              : NULL;
}

static struct tidei_record *
merge_walk_ring(struct tidei_merge *merge, const struct merge_walk *walk, uint64_t ahead)
{
    const struct tidei_merge_cursor cursor = { .ring = walk->ring, .position = walk->position };

    return ahead < walk->end - walk->position ? merge_at_offset(merge, &cursor, ahead) : NULL;
}

static void
merge_check_all(struct tidei_merge *merge, struct merge_walk walk, uint64_t ticks)
{
    if (merge->file->header->format < TIDEI_RING_CHECKED)
        return;
    for (; walk.position != walk.end; walk.position++)
        merge_check_one(merge, walk, &ticks);
}

void
tidei_merge_check(struct tidei_merge *merge, unsigned buffer, uint64_t from, uint64_t count)
{
    merge_check_all(
        merge, (struct merge_walk){ .at = merge_walk_buffer, .buffer = buffer, .position = from, .end = count }, 0);
}

/* Copy the record at the cursor, with its text. False if the buffer is full. */
static inline bool
merge_copy(struct tidei_merge *merge, struct tidei_merge_cursor *cursor)
{
    struct tidei_record *from = merge_at(merge, cursor);
    uint64_t shift = tidei_steady_shift(&merge->clock, from->ticks);
    uint64_t records = 1, duration;
    struct tidei_record *to;

    /* A damaged file may have fewer text records than text_records says. */
    while (records <= from->text_records && records < cursor->head - cursor->position &&
           merge_at_offset(merge, cursor, records)->kind == TIDEI_RECORD_TEXT)
        records++;
    if (!merge_reserve(merge, records))
        return false;
    to = tidei_buffer_record(merge->file, merge->buffer, merge->count);
    *to = *from;
    duration = tidei_record_duration(to);
    to->text_records = (uint16_t)(records - 1);
    to->ticks = cursor->ticks;
    if (to->ticks < merge->last_ticks) {
        /* Keep the time at which its call began: frees are paired by it. */
        duration += merge->last_ticks - to->ticks;
        to->ticks = merge->last_ticks;
        merge->late++;
    } else if (to->ticks == cursor->most && from->ticks + shift > to->ticks) {
        merge->late++;
    }
    if (to->ticks != from->ticks || to->text_records != from->text_records)
        tidei_record_seal(to, duration);
    merge->last_ticks = to->ticks;
    cursor->position++;
    for (uint64_t i = 1; i < records; i++) {
        *tidei_buffer_record(merge->file, merge->buffer, merge->count + i) = *merge_at(merge, cursor);
        cursor->position++;
    }
    if (__builtin_expect(shift != 0, 0))
        merge_shift_calls(merge, to, shift);
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
    tidei_merge_check(merge, merge->buffer, 0, merge->count);
    for (uint64_t i = merge->count; i-- > 0;) {
        const struct tidei_record *record = tidei_buffer_record(merge->file, merge->buffer, i);

        if (record->kind != TIDEI_RECORD_TEXT) {
            merge->clock.now = merge->last_ticks = record->ticks;
            break;
        }
    }
    for (uint32_t i = 0; i < header->ring_count; i++) {
        struct tidei_ring *ring = merge->file->rings[i];

        merge_check_all(merge,
                        (struct merge_walk){ .at = merge_walk_ring,
                                             .ring = ring,
                                             .position = merge_tail(merge, ring),
                                             .end = atomic_load_explicit(&ring->head, memory_order_relaxed) },
                        merge->last_ticks - header->shift);
    }
}

uint64_t
tidei_merge_drain(struct tidei_merge *merge)
{
    uint32_t rings = merge_look(merge);
    uint32_t active = rings;
    uint64_t before = merge->count;

    merge->full = false;
    if (rings == 0) {
        tidei_gauges_merged(merge->gauges, merge->buffer, before, before, merge->watermark, merge->late);
        return 0;
    }
    for (uint32_t i = rings / 2; i-- > 0;)
        merge_sift(merge, i, rings);
    while (merge_run(merge, &active))
        ;
    /* A page that has just become memory of this process alone is not published to the next recovery. */
    if (merge->post_mortem && tidei_ringfile_check_sound(merge->file, true) != TIDE_OK)
        merge->count = before;
    if (merge->count != before)
        merge_publish(merge, rings);
    tidei_gauges_merged(merge->gauges, merge->buffer, before, merge->count,
                        merge->full ? merge->last_ticks : merge->watermark, merge->late);
    return merge->count - before;
}

void
tidei_merge_mark(struct tidei_merge *merge)
{
    uint32_t rings = atomic_load_explicit(&merge->file->header->ring_count, memory_order_acquire);

    for (uint32_t i = 0; i < TIDEI_MAX_RINGS; i++)
        merge->seen[i].wanted =
            i < rings ? atomic_load_explicit(&merge->file->rings[i]->head, memory_order_acquire) : 0;
}

bool
tidei_merge_reached(const struct tidei_merge *merge)
{
    uint32_t rings = atomic_load_explicit(&merge->file->header->ring_count, memory_order_acquire);

    for (uint32_t i = 0; i < rings; i++) {
        if ((int64_t)(merge_tail(merge, merge->file->rings[i]) - merge->seen[i].wanted) < 0)
            return false;
    }
    return true;
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
