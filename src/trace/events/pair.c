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
#include "src/trace/events/pair.h"
#include "src/trace/events/timeline.h"

#define PAIR_LIVE 0x80000000u

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
    pair->live_free = UINT32_MAX;
    return pair;
}

void
tidei_pair_free(struct tidei_pair *pair)
{
    if (pair == NULL)
        return;
    tidei_lives_free(&pair->lives);
    free(pair->live);
    free(pair->rows);
    free(pair->closings);
    free(pair->unmatched.items);
    free(pair->odd.items);
    free(pair->other.items);
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
    if (value & PAIR_LIVE)
        return pair->live[value & ~PAIR_LIVE].ticks;
    return pair_record(pair, pair->rows[value - 1].alloc)->ticks;
}

/*
 * Pair the latest row with an unmatched free of the same tick and size, if there is one: the free's ring came first.
 * Returns whether there was.
 */
static bool
pair_freed_before(struct tidei_pair *pair, const struct tidei_record *record)
{
    struct tidei_index_list *list = &pair->unmatched;
    struct tidei_row *row = &pair->rows[pair->row_count - 1];

    for (size_t i = list->count; i-- > 0;) {
        const struct tidei_record *free = pair_record(pair, list->items[i]);

        if (free->ticks != record->ticks)
            break;
        if (free->status != TIDE_OK || free->address != record->address || free->layer != record->layer ||
            free->size != record->size)
            continue;
        row->free = list->items[i];
        memmove(&list->items[i], &list->items[i + 1], (list->count - i - 1) * sizeof(*list->items));
        list->count--;
        return true;
    }
    return false;
}

static void
pair_alloc(struct tidei_pair *pair, struct tidei_record *record, uint32_t index)
{
    if (!tidei_grow(&pair->rows, &pair->row_capacity, pair->row_count, 1)) {
        pair->no_memory = true;
        return;
    }
    pair->rows[pair->row_count].alloc = index;
    pair->rows[pair->row_count].free = TIDEI_NO_FREE;
    pair->row_count++;
    if (record->status != TIDE_OK)
        return;
    if (pair->unmatched.count != 0 && pair_freed_before(pair, record))
        return;
    if (!tidei_lives_add(&pair->lives, record->address, record->layer, (uint32_t)pair->row_count))
        pair->no_memory = true;
    if (record->address == 0)
        record->call_span = pair->lives.last_null_id; /* free for this use: see tidei_call_capture_fits */
}

/*
 * Memory that was held before its layer was recorded. Before all events of the trace it belongs to the trace's
 * beginning; else ids would not be in the order of time, and it belongs to the moment of the record.
 */
static void
pair_held(struct tidei_pair *pair, struct tidei_record *record, uint32_t index)
{
    record->duration_ticks = 0;
    if (!pair->has_begun)
        record->ticks = TIDEI_TICKS_BEFORE;
    pair_alloc(pair, record, index);
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
 * size, it is that one. Else it is the later of those made before the free began, or the earlier if neither was.
 */
static bool
pair_is_better(const void *context, uint32_t one, uint32_t other)
{
    const struct pair_free *free = context;
    const struct tidei_pair *pair = free->pair;
    uint64_t began = free->record->ticks - free->record->duration_ticks;
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
}

static void
pair_free(struct tidei_pair *pair, struct tidei_record *record, uint32_t index)
{
    const struct pair_free compared = { pair, record };
    uint64_t size;
    uint32_t value;

    if (record->status != TIDE_OK) {
        if (record->address == 0 || !tidei_lives_has(&pair->lives, record->address, record->layer))
            pair_list(pair, &pair->unmatched, index);
        pair_list(pair, &pair->odd, index);
        return;
    }
    value = tidei_lives_take(&pair->lives, record->address, record->layer, pair_is_better, &compared);
    if (value == 0) {
        pair_list(pair, &pair->unmatched, index);
        return;
    }
    if (value & PAIR_LIVE) {
        size = pair->live[value & ~PAIR_LIVE].size;
        pair_close_earlier(pair, value & ~PAIR_LIVE, index);
    } else {
        size = pair_record(pair, pair->rows[value - 1].alloc)->size;
        pair->rows[value - 1].free = index;
    }
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

static inline void
pair_one(struct tidei_pair *pair, uint32_t index)
{
    struct tidei_record *record = pair_record(pair, index);

    if (record->kind == TIDEI_RECORD_ALLOC) {
        pair->has_begun = true;
        pair_alloc(pair, record, index);
    } else if (record->kind == TIDEI_RECORD_HELD) {
        pair_held(pair, record, index);
    } else if (record->kind == TIDEI_RECORD_FREE) {
        pair_free(pair, record, index);
    } else if (record->kind != TIDEI_RECORD_TEXT) {
        pair_list(pair, &pair->other, index);
    }
}

bool
tidei_pair_run(struct tidei_pair *pair, unsigned buffer, uint64_t from, uint64_t end)
{
    pair->buffer = buffer;
    pair->end = end;
    pair->first_id = pair->next_id;
    pair->row_count = pair->closing_count = 0;
    pair->unmatched.count = pair->odd.count = pair->other.count = 0;
    for (uint64_t i = from; i < end; i++) {
        if (i + PAIR_AHEAD < end) {
            const struct tidei_record *ahead = pair_record(pair, (uint32_t)(i + PAIR_AHEAD));

            /* With 100,000 live allocations the table does not stay in the cache. */
            tidei_map_prefetch(&pair->lives.by_address, ahead->address, ahead->layer);
        }
        pair_one(pair, (uint32_t)i);
    }
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
        uint32_t slot = pair->closings[i].live;

        pair->live[slot].next_free = pair->live_free;
        pair->live_free = slot;
        pair->live_count--;
    }
}
