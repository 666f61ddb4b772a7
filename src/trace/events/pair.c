/*
 * Finds for each free the allocation that it ends.
 *
 * Records come in the order in which calls returned. So one thread may be allocated an address before another thread's
 * free of it has returned; the table then has two allocations at that address. A free belongs to the latest allocation
 * that existed when the free's call began. For by contract a layer forgets an address before it calls upstream, and so
 * an address goes through these events in order: allocation (its call returned), free (its call began), next
 * allocation (its call returned).
 *
 * With a coarse clock these events may have the same tick, and records of one tick come in the order of the rings. Then
 * the earlier of two allocations is freed first, and a free may come before the allocation that it ends.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "src/trace/events/merge.h"
#include "src/trace/events/pair.h"
#include "src/trace/events/timeline.h"

#define PAIR_LIVE 0x80000000u

/*
 * What was seen of the difference between clocks is the least that it can be: only readings that the writer happened
 * to see just then show it.
 */
#define PAIR_APART 4

/* How many records ahead the table is prefetched. */
#define PAIR_AHEAD 12

struct tidei_pair *
tidei_pair_new(struct tidei_ringfile *file)
{
    struct tidei_pair *pair = calloc(1, sizeof(*pair));

    if (pair == NULL)
        return NULL;
    pair->file = file;
    pair->next_id = 1;
    pair->begun_id = UINT64_MAX;
    pair->live_free = UINT32_MAX;
    pair->early.unused = TIDEI_NO_EARLY;
    return pair;
}

void
tidei_pair_free(struct tidei_pair *pair)
{
    if (pair == NULL)
        return;
    tidei_lives_free(&pair->lives);
    tidei_earlies_free(&pair->early);
    free(pair->live);
    free(pair->rows);
    free(pair->closings);
    free(pair->unmatched.items);
    free(pair->revoked.items);
    free(pair->succeeded.items);
    free(pair->odd.items);
    free(pair->other.items);
    free(pair->failed.items);
    free(pair->unfinished);
    free(pair->more_calls);
    free(pair);
}

static void
pair_list(struct tidei_pair *pair, struct tidei_index_list *list, uint32_t index)
{
    if (!tidei_grow(&list->items, &list->capacity, list->count, 1)) {
        pair->no_memory = true;
        return;
    }
    list->items[list->count++] = index;
}

static struct tidei_record *
pair_record(const struct tidei_pair *pair, uint32_t index)
{
    return tidei_buffer_record(pair->file, pair->buffer, index);
}

/* The tick of a table entry's allocation. */
static uint64_t
pair_ticks(const struct tidei_pair *pair, uint32_t value)
{
    return value & PAIR_LIVE ? pair->live[value & ~PAIR_LIVE].ticks : tidei_pair_row_ticks(pair, value - 1);
}

/* The latest row's free came before it, and its driver calls may not have come yet. */
static void
pair_finish_free(struct tidei_pair *pair, uint32_t index)
{
    for (size_t i = 0; i < pair->unfinished_count; i++) {
        if (pair->unfinished[i].is_free && pair->unfinished[i].index == index)
            pair->unfinished[i].id = pair->first_id + pair->row_count - 1;
    }
}

/*
 * Pair the latest row with an early free, if there is one that may be its own. Returns whether that is sure: the free
 * has the same tick, and its ring came first, or the clocks differ. Else it is assumed, and the row stays live. With a
 * doubtful free, it stays live in the trace, too.
 */
static bool
pair_freed_before(struct tidei_pair *pair, const struct tidei_record *record)
{
    uint32_t slot = tidei_earlies_take(&pair->early, record, pair->window_ticks);
    struct tidei_row *row = &pair->rows[pair->row_count - 1];
    struct tidei_early *early;
    uint64_t gap;

    if (slot == TIDEI_NO_EARLY)
        return false;
    early = &pair->early.items[slot];
    if (early->doubtful) {
        early->state = TIDEI_EARLY_DOUBTED;
        row->early = slot + 1;
        return false;
    }
    gap = record->ticks - (early->record.ticks - tidei_record_duration(&early->record));
    row->free = early->index != UINT32_MAX ? early->index : slot | TIDEI_FREE_EARLY;
    if (early->place != UINT32_MAX)
        pair->unmatched.items[early->place] = TIDEI_NO_FREE;
    else
        pair_list(pair, &pair->revoked, slot);
    if (early->index != UINT32_MAX)
        pair_finish_free(pair, early->index);
    early->state = TIDEI_EARLY_DONE;
    if (early->record.ticks == record->ticks || gap <= PAIR_APART * pair->apart_ticks)
        return true;
    early->state = TIDEI_EARLY_ASSUMED;
    row->early = slot + 1;
    return false;
}

/*
 * The latest row has an address where other allocations live: their frees have begun, though their records are still to
 * come. So they end before it, whatever the clock says.
 */
static __attribute__((noinline)) void
pair_succeed(struct tidei_pair *pair, const struct tidei_record *record)
{
    const struct tidei_map *map = &pair->lives.by_address;

    for (size_t i = tidei_map_first(map, record->address, record->layer); i != TIDEI_MAP_NONE;
         i = tidei_map_next(map, i)) {
        uint32_t value = map->entries[i].number;
        struct tidei_live *live = value & PAIR_LIVE ? &pair->live[value & ~PAIR_LIVE] : NULL;

        if (live == NULL && pair->rows[value - 1].next == 0)
            pair->rows[value - 1].next = (uint32_t)pair->row_count;
        if (live == NULL || live->next_row != 0 || live->until_ns != 0)
            continue;
        live->next_row = (uint32_t)pair->row_count;
        pair_list(pair, &pair->succeeded, value & ~PAIR_LIVE);
    }
}

static void
pair_alloc(struct tidei_pair *pair, struct tidei_record *record, uint32_t index)
{
    if (!tidei_grow(&pair->rows, &pair->row_capacity, pair->row_count, 1)) {
        pair->no_memory = true;
        return;
    }
    pair->rows[pair->row_count] = (struct tidei_row){ .alloc = index, .free = TIDEI_NO_FREE };
    pair->latest_id = pair->first_id + pair->row_count++;
    if (record->status != TIDE_OK) {
        pair_list(pair, &pair->failed, (uint32_t)pair->row_count - 1);
        return;
    }
    if (record->address != 0 && tidei_lives_has(&pair->lives, record->address, record->layer))
        pair_succeed(pair, record);
    if (pair->early.used != 0 && pair_freed_before(pair, record))
        return;
    if (!tidei_lives_add(&pair->lives, record->address, record->layer, (uint32_t)pair->row_count))
        pair->no_memory = true;
    if (record->address == 0)
        record->call_span = pair->lives.last_null_id; /* free for this use: see tidei_call_capture_fits */
}

static uint64_t
pair_size(const struct tidei_pair *pair, uint32_t value)
{
    if (value & PAIR_LIVE)
        return pair->live[value & ~PAIR_LIVE].size;
    return pair_record(pair, pair->rows[value - 1].alloc)->size;
}

/* Ids are in the order of times, and they order allocations of the same tick, too. */
static uint64_t
pair_id(const struct tidei_pair *pair, uint32_t value)
{
    if (value & PAIR_LIVE)
        return pair->live[value & ~PAIR_LIVE].id;
    return pair->first_id + value - 1;
}

/* The context of pair_is_better. */
struct pair_free {
    const struct tidei_pair *pair;
    const struct tidei_record *record;
};

/*
 * Whether a free belongs to allocation `one` rather than `other` at the same address. If only one of them has the freed
 * size, it is that one. Else it is the later of those made before the free began, or the earlier if neither was. Where
 * clocks differ, an allocation counts as made before only if it is by more than that.
 */
static bool
pair_is_better(const void *context, uint32_t one, uint32_t other)
{
    const struct pair_free *free = context;
    const struct tidei_pair *pair = free->pair;
    uint64_t began = free->record->ticks - tidei_record_duration(free->record) - PAIR_APART * pair->apart_ticks;
    uint64_t one_ticks = pair_ticks(pair, one), other_ticks = pair_ticks(pair, other);
    bool one_fits = pair_size(pair, one) == free->record->size;
    bool other_fits = pair_size(pair, other) == free->record->size;

    if (one_fits != other_fits)
        return one_fits;
    if (one_ticks == other_ticks)
        return (pair_id(pair, one) > pair_id(pair, other)) == (one_ticks < began);
    if (one_ticks < began)
        return other_ticks >= began || one_ticks > other_ticks;
    return other_ticks >= began && one_ticks < other_ticks;
}

static void
pair_close_earlier(struct tidei_pair *pair, uint32_t live, uint32_t index)
{
    struct tidei_closing *closing;

    if (!tidei_grow(&pair->closings, &pair->closing_capacity, pair->closing_count, 1)) {
        pair->no_memory = true;
        return;
    }
    closing = &pair->closings[pair->closing_count++];
    closing->id = pair->live[live].id;
    closing->live = live;
    closing->free = index;
    pair->live[live].closed = true;
}

/* A free of no known allocation. It may be that of one that comes a little later. */
static void
pair_unmatched(struct tidei_pair *pair, const struct tidei_record *record, uint32_t index)
{
    uint32_t slot = TIDEI_NO_EARLY;

    if (record->status == TIDE_OK && record->address != 0)
        slot = tidei_earlies_add(&pair->early, record, index);
    if (slot != TIDEI_NO_EARLY)
        pair->early.items[slot].place = (uint32_t)pair->unmatched.count;
    pair_list(pair, &pair->unmatched, slot != TIDEI_NO_EARLY ? slot | TIDEI_FREE_EARLY : index);
}

/*
 * A free of an allocation that was assumed to be freed by an early one. So that one was of something else, unless the
 * clocks were seen to differ meanwhile, or only that one has the allocation's size. Returns whether the allocation is
 * this free's; it is, where it was only doubted.
 */
static bool
pair_is_own(struct tidei_pair *pair, const struct tidei_record *record, uint32_t value, uint32_t *early)
{
    struct tidei_early *assumed = &pair->early.items[*early - 1];
    uint64_t gap = pair_ticks(pair, value) - (assumed->record.ticks - tidei_record_duration(&assumed->record));
    bool own = assumed->doubtful || (gap > PAIR_APART * pair->apart_ticks && record->size == pair_size(pair, value));

    assumed->state = TIDEI_EARLY_DONE;
    if (own && !assumed->doubtful)
        pair_list(pair, &pair->unmatched, (*early - 1) | TIDEI_FREE_EARLY);
    *early = 0;
    return own;
}

/* Where the number of the early free of a table entry's allocation stands. */
static uint32_t *
pair_early(struct tidei_pair *pair, uint32_t value)
{
    return value & PAIR_LIVE ? &pair->live[value & ~PAIR_LIVE].early : &pair->rows[value - 1].early;
}

/*
 * A free ended an allocation that an early free may have ended. So it may be of the next one at that address, which may
 * be there already.
 */
static __attribute__((noinline)) void
pair_doubt(struct tidei_pair *pair, const struct tidei_record *record)
{
    const struct tidei_map *map = &pair->lives.by_address;
    uint32_t *next = NULL;

    for (size_t i = tidei_map_first(map, record->address, record->layer); i != TIDEI_MAP_NONE && next == NULL;
         i = tidei_map_next(map, i)) {
        uint32_t value = map->entries[i].number, *early = pair_early(pair, value);

        if (*early == 0 && pair_size(pair, value) == record->size)
            next = early;
    }
    tidei_earlies_doubt(&pair->early, record, next);
}

static void
pair_forget(struct tidei_pair *pair, uint32_t slot)
{
    pair->live[slot].closed = true;
    pair->live[slot].next_free = pair->live_free;
    pair->live_free = slot;
    pair->live_count--;
}

static void
pair_free(struct tidei_pair *pair, struct tidei_record *record, uint32_t index)
{
    const struct pair_free compared = { pair, record };
    uint32_t value, *early;
    bool doubtful;
    uint64_t size;

    if (record->status != TIDE_OK) {
        if (record->address == 0 || !tidei_lives_has(&pair->lives, record->address, record->layer))
            pair_unmatched(pair, record, index);
        pair_list(pair, &pair->odd, index);
        return;
    }
    value = tidei_lives_take(&pair->lives, record->address, record->layer, pair_is_better, &compared);
    if (value == 0) {
        pair_unmatched(pair, record, index);
        return;
    }
    early = pair_early(pair, value);
    doubtful = *early != 0;
    if (doubtful && !pair_is_own(pair, record, value, early)) {
        if (value & PAIR_LIVE)
            pair_forget(pair, value & ~PAIR_LIVE);
        pair_unmatched(pair, record, index);
        return;
    }
    pair->latest_id = pair_id(pair, value);
    size = pair_size(pair, value);
    if (value & PAIR_LIVE)
        pair_close_earlier(pair, value & ~PAIR_LIVE, index);
    else
        pair->rows[value - 1].free = index;
    if (doubtful)
        pair_doubt(pair, record);
    if (size != record->size)
        pair_list(pair, &pair->odd, index);
}

static int
pair_by_id(const void *left, const void *right)
{
    uint64_t a = ((const struct tidei_closing *)left)->id;
    uint64_t b = ((const struct tidei_closing *)right)->id;

    return (a > b) - (a < b);
}

/* The unfinished event of a thread; NULL if there is none. */
static struct tidei_unfinished *
pair_unfinished(struct tidei_pair *pair, uint32_t thread)
{
    for (size_t i = 0; i < pair->unfinished_count; i++) {
        if (pair->unfinished[i].thread == thread)
            return &pair->unfinished[i];
    }
    return NULL;
}

/* Remember an event until its last calls have come. Whatever its thread had left unfinished never came. */
static void
pair_leave_unfinished(struct tidei_pair *pair, const struct tidei_unfinished *event)
{
    struct tidei_unfinished *known = pair_unfinished(pair, event->thread);

    if (known == NULL) {
        if (!tidei_grow(&pair->unfinished, &pair->unfinished_capacity, pair->unfinished_count, 1)) {
            pair->no_memory = true;
            return;
        }
        known = &pair->unfinished[pair->unfinished_count++];
    }
    *known = *event;
}

/* The latest event has more calls than fit behind it. */
static __attribute__((noinline)) void
pair_latest_unfinished(struct tidei_pair *pair)
{
    const struct tidei_record *event = pair_record(pair, pair->latest);
    const struct tidei_unfinished unfinished = { .id = pair->latest_id,
                                                 .index = pair->latest,
                                                 .thread = event->thread,
                                                 .is_free = event->kind == TIDEI_RECORD_FREE };

    pair_leave_unfinished(pair, &unfinished);
}

/* The unfinished event that a CALLS record belongs to; NULL if it is not known. */
static struct tidei_unfinished *
pair_event_of(struct tidei_pair *pair, const struct tidei_record *calls)
{
    struct tidei_unfinished found = { .index = UINT32_MAX, .thread = calls->thread, .is_free = calls->status != 0 };
    struct tidei_unfinished *known = pair_unfinished(pair, calls->thread);

    if (known != NULL || pair->find_event == NULL ||
        pair->found++ >= atomic_load_explicit(&pair->file->header->ring_count, memory_order_relaxed))
        return known;
    found.id = pair->find_event(pair->find_context, calls);
    pair_leave_unfinished(pair, &found);
    return pair_unfinished(pair, calls->thread);
}

/* More calls of an unfinished event. */
static __attribute__((noinline)) void
pair_calls(struct tidei_pair *pair, const struct tidei_record *record, uint32_t index)
{
    struct tidei_unfinished *known = pair_event_of(pair, record);
    struct tidei_more_calls more = { .index = index, .is_free = record->status != 0 };

    if (known == NULL)
        return;
    more.id = known->id;
    if (record->alignment_log2 == 0)
        *known = pair->unfinished[--pair->unfinished_count];
    if (more.id == 0)
        return;
    if (!tidei_grow(&pair->more_calls, &pair->more_capacity, pair->more_count, 1)) {
        pair->no_memory = true;
        return;
    }
    pair->more_calls[pair->more_count++] = more;
}

static inline void
pair_one(struct tidei_pair *pair, uint32_t index)
{
    struct tidei_record *record = pair_record(pair, index);

    if (record->kind == TIDEI_RECORD_ALLOC) {
        if (__builtin_expect(pair->begun_id == UINT64_MAX, 0))
            pair->begun_id = pair->first_id + pair->row_count;
        pair->latest = index;
        pair_alloc(pair, record, index);
    } else if (record->kind == TIDEI_RECORD_HELD) {
        pair_alloc(pair, record, index);
    } else if (record->kind == TIDEI_RECORD_FREE) {
        pair->latest = index;
        pair->latest_id = 0;
        pair_free(pair, record, index);
    } else if (record->kind == TIDEI_RECORD_TEXT) {
        /* Only an event has such a text, so that the latest event is its own. */
        if (((const struct tidei_text_record *)record)->part == TIDEI_PART_CALL_MORE && pair->latest != UINT32_MAX)
            pair_latest_unfinished(pair);
    } else if (record->kind == TIDEI_RECORD_CALLS) {
        pair_calls(pair, record, index);
    } else {
        if (record->kind == TIDEI_RECORD_BAD)
            pair->latest = UINT32_MAX; /* its calls are no other event's */
        pair_list(pair, &pair->other, index);
    }
}

/* Forget the results of the slice before. */
static void
pair_begin(struct tidei_pair *pair, unsigned buffer, uint64_t from, uint64_t end)
{
    const struct tidei_ring_header *header = pair->file->header;

    pair->buffer = buffer;
    pair->end = end;
    pair->first_id = pair->next_id;
    pair->row_count = pair->closing_count = 0;
    pair->unmatched.count = pair->odd.count = pair->other.count = pair->failed.count = 0;
    pair->revoked.count = pair->succeeded.count = 0;
    pair->more_count = 0;
    pair->latest = UINT32_MAX;
    for (size_t i = 0; i < pair->unfinished_count; i++)
        pair->unfinished[i].index = UINT32_MAX;
    if (header != NULL) {
        uint64_t patience_ns = tidei_merge_patience_ns();

        pair->window_ticks = (uint64_t)((double)patience_ns / tidei_ring_line(header)->ns_per_tick);
        pair->apart_ticks = header->apart_ticks < pair->window_ticks ? header->apart_ticks : pair->window_ticks;
    }
    if (pair->early.used != 0 && from < end)
        tidei_earlies_next_slice(&pair->early, pair_record(pair, (uint32_t)from)->ticks, pair->window_ticks);
}

static bool
pair_is_assumed(const struct tidei_pair *pair, uint32_t slot)
{
    uint32_t early = pair->live[slot].early;

    return early != 0 && pair->early.items[early - 1].state == TIDEI_EARLY_ASSUMED;
}

/* Allocations whose addresses were allocated again, and that no free of this slice has ended. */
static void
pair_end_succeeded(struct tidei_pair *pair)
{
    for (size_t i = 0; i < pair->succeeded.count; i++) {
        uint32_t slot = pair->succeeded.items[i];

        if (!pair->live[slot].closed && !pair_is_assumed(pair, slot))
            pair_close_earlier(pair, slot, TIDEI_NO_FREE);
    }
}

bool
tidei_pair_run(struct tidei_pair *pair, unsigned buffer, uint64_t from, uint64_t end)
{
    pair_begin(pair, buffer, from, end);
    for (uint64_t i = from; i < end; i++) {
        if (i + PAIR_AHEAD < end) {
            const struct tidei_record *ahead = pair_record(pair, (uint32_t)(i + PAIR_AHEAD));

            /* With 100,000 live allocations the table does not stay in the cache. */
            tidei_map_prefetch(&pair->lives.by_address, ahead->address, ahead->layer);
        }
        pair_one(pair, (uint32_t)i);
    }
    pair_end_succeeded(pair);
    pair->next_id += pair->row_count;
    /* Sorted, neighbours in the file are written together: this takes a third of the time of random order. */
    if (pair->closing_count > 1)
        qsort(pair->closings, pair->closing_count, sizeof(*pair->closings), pair_by_id);
    return !pair->no_memory;
}

/* A slot for a live allocation; UINT32_MAX without host memory. */
static uint32_t
pair_live_slot(struct tidei_pair *pair)
{
    uint32_t slot = pair->live_free;

    if (slot == UINT32_MAX) {
        size_t before = pair->live_capacity;

        if (before == PAIR_LIVE || !tidei_grow(&pair->live, &pair->live_capacity, before, 1))
            return UINT32_MAX;
        for (size_t i = pair->live_capacity; i-- > before;) {
            pair->live[i].next_free = pair->live_free;
            pair->live_free = (uint32_t)i;
        }
        slot = pair->live_free;
    }
    pair->live_free = pair->live[slot].next_free;
    pair->live_count++;
    return slot;
}

bool
tidei_pair_keep(struct tidei_pair *pair, const struct tidei_live *live, size_t row)
{
    uint32_t slot = pair_live_slot(pair);

    if (slot == UINT32_MAX)
        return false;
    pair->live[slot] = *live;
    if (row == SIZE_MAX)
        return tidei_lives_add(&pair->lives, live->address, live->layer, PAIR_LIVE | slot);
    tidei_lives_renumber(&pair->lives, live->address, pair_record(pair, pair->rows[row].alloc)->call_span, live->layer,
                         (uint32_t)row + 1, PAIR_LIVE | slot);
    return true;
}

void
tidei_pair_forget_closed(struct tidei_pair *pair)
{
    for (size_t i = 0; i < pair->closing_count; i++) {
        if (pair->closings[i].free != TIDEI_NO_FREE)
            pair_forget(pair, pair->closings[i].live);
    }
}

uint64_t
tidei_pair_assumed(const struct tidei_pair *pair)
{
    uint64_t count = pair->early.assumed_before;

    for (size_t i = 0; pair->early.used != 0 && i < pair->early.capacity; i++)
        count += pair->early.items[i].state == TIDEI_EARLY_ASSUMED || pair->early.items[i].state == TIDEI_EARLY_DOUBTED;
    return count;
}

uint64_t
tidei_pair_doubtful(const struct tidei_pair *pair)
{
    uint64_t count = 0;

    for (size_t i = 0; pair->early.used != 0 && i < pair->early.capacity; i++)
        count += pair->early.items[i].state == TIDEI_EARLY_WAITING && pair->early.items[i].doubtful;
    return count;
}
