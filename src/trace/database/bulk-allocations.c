/*
 * The rows of `allocation`, for the statements that write them in bulk. `tidei_new` has the allocations of this slice;
 * `tidei_closed` those of earlier slices that it ends, as complete rows again, since replacing a row at its place costs
 * SQLite less than reading it to change four columns.
 */
#include "config.h"

#include "src/trace/database/bulk.h"
#include "src/trace/database/common-rows.h"

/* The alloc_ns of a row of this slice. */
static uint64_t
allocations_ns(const struct tidei_database *database, size_t row)
{
    const struct tidei_pair *pair = database->pair;
    uint64_t ns = tidei_timeline_ns(&database->timeline, tidei_pair_row_ticks(pair, row));

    return ns < database->floor_ns ? database->floor_ns : ns;
}

/* When the address of an allocation was allocated again; UINT64_MAX: it was not, as far as is known. */
static uint64_t
allocations_until(const struct tidei_database *database, const struct tidei_live *live)
{
    if (live->until_ns != 0)
        return live->until_ns;
    return live->next_row != 0 ? allocations_ns(database, live->next_row - 1) : UINT64_MAX;
}

/* The row of an allocation in this slice. */
static void
allocations_live_of(struct tidei_database *database, size_t row, struct tidei_live *out)
{
    const struct tidei_pair *pair = database->pair;
    const struct tidei_record *record = tidei_buffer_record(pair->file, pair->buffer, pair->rows[row].alloc);

    *out = (struct tidei_live){ .id = pair->first_id + row, .ticks = tidei_pair_row_ticks(pair, row) };
    out->alloc_ns = allocations_ns(database, row);
    /* What was held before has a duration only where it was late. */
    if (record->kind != TIDEI_RECORD_HELD)
        out->alloc_duration_ns = tidei_timeline_duration_ns(&database->timeline, tidei_record_duration(record));
    out->address = record->address;
    out->size = record->size;
    out->alloc_stream_id = tidei_database_stream(database, record->stream, record->layer);
    out->alloc_thread_id = record->thread;
    out->tag = record->tag;
    out->callstack = record->callstack;
    out->layer = record->layer;
    out->alignment_log2 = record->alignment_log2;
    out->next_row = pair->rows[row].next;
    out->early = pair->rows[row].early;
}

/* How many rows ahead records are prefetched: frees lie anywhere in the slice, live allocations anywhere in memory. */
#define ALLOCATIONS_AHEAD 12

static void
allocations_prefetch_free(const struct tidei_pair *pair, uint32_t free)
{
    if (free != TIDEI_NO_FREE)
        __builtin_prefetch(tidei_pair_event_record(pair, free));
}

/*
 * The columns of the free, NULL without one. It ends the life when its call began, but never before the allocation, nor
 * after the address was allocated again. Where it was, and the free's record has not come yet, no thread is known.
 */
static void
allocations_set_free(struct tidei_bulk_cursor *cursor, const struct tidei_live *alloc, const struct tidei_record *free)
{
    struct tidei_database *database = cursor->database;
    uint64_t until = allocations_until(database, alloc);
    bool ended = free != NULL || (until != UINT64_MAX && alloc->address != 0);
    uint64_t duration_ticks = free != NULL ? tidei_record_duration(free) : 0;
    uint64_t ns = free != NULL ? tidei_timeline_ns(&database->timeline, free->ticks - duration_ticks) : until;
    uint32_t stream_id = alloc->alloc_stream_id, thread = 0;

    if (free != NULL) {
        stream_id = tidei_database_stream(database, free->stream, free->layer);
        thread = free->thread;
    }
    ns = ns < until ? ns : until;
    TIDEI_SET(cursor, allocation, free_ns, TIDEI_NUMBER_IF(ended, ns < alloc->alloc_ns ? alloc->alloc_ns : ns));
    TIDEI_SET(cursor, allocation, free_duration_ns,
              TIDEI_NUMBER_IF(ended, tidei_timeline_duration_ns(&database->timeline, duration_ticks)));
    TIDEI_SET(cursor, allocation, free_thread_id, TIDEI_NUMBER_IF(free != NULL, thread));
    TIDEI_SET(cursor, allocation, free_stream_id, TIDEI_NUMBER_IF(ended, stream_id));
}

/* A whole row; `free` is NULL if the allocation lives or has failed. */
static void
allocations_set(struct tidei_bulk_cursor *cursor, const struct tidei_live *alloc, uint8_t status,
                const struct tidei_record *free)
{
    TIDEI_SET(cursor, allocation, allocation_id, TIDEI_NUMBER(alloc->id));
    TIDEI_SET(cursor, allocation, layer_id, TIDEI_NUMBER(alloc->layer));
    TIDEI_SET(cursor, allocation, address, TIDEI_NUMBER(alloc->address));
    TIDEI_SET(cursor, allocation, size, TIDEI_NUMBER(alloc->size));
    /* No column has more than 63 bits; only a damaged record has more than 62. */
    TIDEI_SET(cursor, allocation, alignment,
              TIDEI_NUMBER((uint64_t)1 << (alloc->alignment_log2 < 62 ? alloc->alignment_log2 : 62)));
    TIDEI_SET(cursor, allocation, status, TIDEI_NUMBER(status));
    TIDEI_SET(cursor, allocation, tag_id, TIDEI_ID(alloc->tag));
    TIDEI_SET(cursor, allocation, callstack_id, TIDEI_ID(alloc->callstack));
    TIDEI_SET(cursor, allocation, alloc_ns, TIDEI_NUMBER(alloc->alloc_ns));
    TIDEI_SET(cursor, allocation, alloc_duration_ns, TIDEI_NUMBER(alloc->alloc_duration_ns));
    TIDEI_SET(cursor, allocation, alloc_thread_id, TIDEI_NUMBER(alloc->alloc_thread_id));
    TIDEI_SET(cursor, allocation, alloc_stream_id, TIDEI_NUMBER(alloc->alloc_stream_id));
    allocations_set_free(cursor, alloc, free);
}

static bool
allocations_new_load(struct tidei_bulk_cursor *cursor)
{
    const struct tidei_pair *pair = cursor->database->pair;
    const struct tidei_row *row;
    struct tidei_live alloc;

    if (cursor->row >= pair->row_count)
        return false;
    if (cursor->row + ALLOCATIONS_AHEAD < pair->row_count)
        allocations_prefetch_free(pair, pair->rows[cursor->row + ALLOCATIONS_AHEAD].free);
    row = &pair->rows[cursor->row];
    allocations_live_of(cursor->database, cursor->row, &alloc);
    allocations_set(cursor, &alloc, tidei_buffer_record(pair->file, pair->buffer, row->alloc)->status,
                    row->free == TIDEI_NO_FREE ? NULL : tidei_pair_event_record(pair, row->free));
    return true;
}

const struct tidei_bulk_table tidei_bulk_new = {
    .name = "tidei_new",
    .verb = "INSERT",
    .into = TIDEI_TABLE_allocation,
    .load = allocations_new_load,
};

static bool
allocations_closed_load(struct tidei_bulk_cursor *cursor)
{
    const struct tidei_pair *pair = cursor->database->pair;
    const struct tidei_closing *closing;

    if (cursor->row >= pair->closing_count)
        return false;
    if (cursor->row + ALLOCATIONS_AHEAD < pair->closing_count) {
        closing = &pair->closings[cursor->row + ALLOCATIONS_AHEAD];
        __builtin_prefetch(&pair->live[closing->live]);
        __builtin_prefetch((const char *)&pair->live[closing->live] + 64);
        allocations_prefetch_free(pair, closing->free);
    }
    closing = &pair->closings[cursor->row];
    allocations_set(cursor, &pair->live[closing->live], TIDE_OK,
                    closing->free == TIDEI_NO_FREE ? NULL : tidei_pair_event_record(pair, closing->free));
    return true;
}

const struct tidei_bulk_table tidei_bulk_closed = {
    .name = "tidei_closed",
    .verb = "INSERT OR REPLACE",
    .into = TIDEI_TABLE_allocation,
    .load = allocations_closed_load,
};

bool
tidei_database_keep_live(struct tidei_database *database)
{
    const struct tidei_pair *pair = database->pair;

    for (size_t i = 0; i < pair->succeeded.count; i++) {
        struct tidei_live *earlier = &pair->live[pair->succeeded.items[i]];

        earlier->until_ns = allocations_until(database, earlier);
        earlier->next_row = 0;
    }
    for (size_t row = 0; row < pair->row_count; row++) {
        struct tidei_live live;

        if (pair->rows[row].free != TIDEI_NO_FREE && pair->rows[row].early == 0)
            continue;
        if (tidei_buffer_record(pair->file, pair->buffer, pair->rows[row].alloc)->status != TIDE_OK)
            continue;
        allocations_live_of(database, row, &live);
        live.until_ns = live.next_row != 0 ? allocations_until(database, &live) : 0;
        live.next_row = 0;
        if (!tidei_pair_keep(database->pair, &live, row))
            return false;
    }
    return true;
}
