/*
 * The rows of `allocation`, for the statements that write them in bulk. `tidei_new` has the allocations of this slice;
 * `tidei_closed` those of earlier slices that it ends, as complete rows again, since replacing a row at its place costs
 * SQLite less than reading it to change four columns.
 */
#include "config.h"

#include "src/trace/database/bulk.h"
#include "src/trace/database/common-rows.h"

struct allocation_cursor {
    struct tidei_bulk_cursor base; /* first */
    struct tidei_live alloc;
    const struct tidei_record *free; /* borrowed from the backlog; NULL: it lives, or failed */
    uint8_t status;
};

/* The row of an allocation in this slice. */
static void
allocations_live_of(struct tidei_database *database, size_t row, struct tidei_live *out)
{
    const struct tidei_pair *pair = database->pair;
    const struct tidei_record *record = tidei_half_record(pair->file, pair->half, pair->rows[row].alloc);
    uint64_t ns = tidei_timeline_ns(&database->timeline, record->ticks);

    out->id = pair->first_id + row;
    out->ticks = record->ticks;
    out->alloc_ns = ns < database->floor_ns ? database->floor_ns : ns;
    out->alloc_duration_ns = tidei_timeline_duration_ns(&database->timeline, record->duration_ticks);
    out->address = record->address;
    out->size = record->size;
    out->alloc_stream_id = tidei_database_stream(database, record->stream, record->layer);
    out->alloc_thread_id = record->thread;
    out->tag = record->tag;
    out->callstack = record->callstack;
    out->layer = record->layer;
    out->alignment_log2 = record->alignment_log2;
}

/* How many rows ahead memory is asked for: frees lie anywhere in the slice, live allocations anywhere at all. */
#define ALLOCATIONS_AHEAD 12

static void
allocations_prefetch_free(const struct tidei_pair *pair, uint32_t free)
{
    if (free != TIDEI_NO_FREE)
        __builtin_prefetch(tidei_half_record(pair->file, pair->half, free));
}

static bool
allocations_new_any(const struct tidei_database *database)
{
    return database->pair->row_count != 0;
}

static bool
allocations_new_load(struct tidei_bulk_cursor *base)
{
    struct allocation_cursor *cursor = (struct allocation_cursor *)base;
    const struct tidei_pair *pair = base->database->pair;
    const struct tidei_row *row;

    if (base->row >= pair->row_count)
        return false;
    if (base->row + ALLOCATIONS_AHEAD < pair->row_count)
        allocations_prefetch_free(pair, pair->rows[base->row + ALLOCATIONS_AHEAD].free);
    row = &pair->rows[base->row];
    allocations_live_of(base->database, base->row, &cursor->alloc);
    cursor->status = tidei_half_record(pair->file, pair->half, row->alloc)->status;
    cursor->free = row->free == TIDEI_NO_FREE ? NULL : tidei_half_record(pair->file, pair->half, row->free);
    return true;
}

static bool
allocations_closed_any(const struct tidei_database *database)
{
    return database->pair->closing_count != 0;
}

static bool
allocations_closed_load(struct tidei_bulk_cursor *base)
{
    struct allocation_cursor *cursor = (struct allocation_cursor *)base;
    const struct tidei_pair *pair = base->database->pair;
    const struct tidei_closing *closing;

    if (base->row >= pair->closing_count)
        return false;
    if (base->row + ALLOCATIONS_AHEAD < pair->closing_count) {
        closing = &pair->closings[base->row + ALLOCATIONS_AHEAD];
        __builtin_prefetch(&pair->live[closing->live]);
        __builtin_prefetch((const char *)&pair->live[closing->live] + 64);
        allocations_prefetch_free(pair, closing->free);
    }
    closing = &pair->closings[base->row];
    cursor->alloc = pair->live[closing->live];
    cursor->status = TIDE_OK;
    cursor->free = tidei_half_record(pair->file, pair->half, closing->free);
    return true;
}

/* When the free's call began; never before the allocation. */
static uint64_t
allocations_free_ns(const struct allocation_cursor *cursor)
{
    uint64_t began = cursor->free->ticks - cursor->free->duration_ticks;
    uint64_t ns = tidei_timeline_ns(&cursor->base.database->timeline, began);

    return ns < cursor->alloc.alloc_ns ? cursor->alloc.alloc_ns : ns;
}

static void
allocations_free_column(struct allocation_cursor *cursor, sqlite3_context *context, int column)
{
    struct tidei_database *database = cursor->base.database;
    const struct tidei_record *free = cursor->free;

    if (free == NULL)
        return;
    switch (column) {
    case TIDEI_allocation_free_ns:
        sqlite3_result_int64(context, (int64_t)allocations_free_ns(cursor));
        break;
    case TIDEI_allocation_free_duration_ns:
        sqlite3_result_int64(context, (int64_t)tidei_timeline_duration_ns(&database->timeline, free->duration_ticks));
        break;
    case TIDEI_allocation_free_thread_id:
        sqlite3_result_int64(context, free->thread);
        break;
    case TIDEI_allocation_free_stream_id:
        sqlite3_result_int64(context, tidei_database_stream(database, free->stream, free->layer));
        break;
    }
}

static int
allocations_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    struct allocation_cursor *cursor = (struct allocation_cursor *)base;
    const struct tidei_live *alloc = &cursor->alloc;

    switch (column) {
    case TIDEI_allocation_allocation_id:
        sqlite3_result_int64(context, (int64_t)alloc->id);
        break;
    case TIDEI_allocation_layer_id:
        sqlite3_result_int64(context, alloc->layer);
        break;
    case TIDEI_allocation_address:
        sqlite3_result_int64(context, (int64_t)alloc->address);
        break;
    case TIDEI_allocation_size:
        sqlite3_result_int64(context, (int64_t)alloc->size);
        break;
    case TIDEI_allocation_alignment:
        sqlite3_result_int64(context, (int64_t)((uint64_t)1 << (alloc->alignment_log2 & 63)));
        break;
    case TIDEI_allocation_status:
        sqlite3_result_int64(context, cursor->status);
        break;
    case TIDEI_allocation_tag_id:
        tidei_bulk_number(context, alloc->tag, 0);
        break;
    case TIDEI_allocation_callstack_id:
        tidei_bulk_number(context, alloc->callstack, 0);
        break;
    case TIDEI_allocation_alloc_ns:
        sqlite3_result_int64(context, (int64_t)alloc->alloc_ns);
        break;
    case TIDEI_allocation_alloc_duration_ns:
        sqlite3_result_int64(context, (int64_t)alloc->alloc_duration_ns);
        break;
    case TIDEI_allocation_alloc_thread_id:
        sqlite3_result_int64(context, alloc->alloc_thread_id);
        break;
    case TIDEI_allocation_alloc_stream_id:
        sqlite3_result_int64(context, alloc->alloc_stream_id);
        break;
    default:
        allocations_free_column(cursor, context, column);
        break;
    }
    return SQLITE_OK;
}

const struct tidei_bulk_table tidei_bulk_new = {
    .name = "tidei_new",
    .verb = "INSERT",
    .into = TIDEI_TABLE_allocation,
    .cursor_bytes = sizeof(struct allocation_cursor),
    .any = allocations_new_any,
    .load = allocations_new_load,
    .column = allocations_column,
};

const struct tidei_bulk_table tidei_bulk_closed = {
    .name = "tidei_closed",
    .verb = "INSERT OR REPLACE",
    .into = TIDEI_TABLE_allocation,
    .cursor_bytes = sizeof(struct allocation_cursor),
    .any = allocations_closed_any,
    .load = allocations_closed_load,
    .column = allocations_column,
};

bool
tidei_database_keep_live(struct tidei_database *database)
{
    const struct tidei_pair *pair = database->pair;

    for (size_t row = 0; row < pair->row_count; row++) {
        struct tidei_live live = { 0 };

        if (pair->rows[row].free != TIDEI_NO_FREE)
            continue;
        if (tidei_half_record(pair->file, pair->half, pair->rows[row].alloc)->status != TIDE_OK)
            continue;
        allocations_live_of(database, row, &live);
        if (!tidei_pair_keep(database->pair, &live, row))
            return false;
    }
    return true;
}
