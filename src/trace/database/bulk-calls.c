/* The rows of driver_call and device_event, for the statements that write them in bulk. */
#include "config.h"

#include <string.h>

#include "src/trace/cupti/device-events.h"
#include "src/trace/database/bulk.h"
#include "src/trace/events/event-calls.h"
#include "src/trace/ring/function.h"

struct calls_cursor {
    struct tidei_bulk_cursor base; /* first */
    struct tidei_event_calls walk;
    struct tidei_event_call call;
};

/* Over an array of rows that CUPTI's part keeps until they are written. */
struct array_cursor {
    struct tidei_bulk_cursor base; /* first */
    const void *row;               /* borrowed */
};

static bool
calls_any(const struct tidei_database *database)
{
    return database->has_calls;
}

static bool
calls_load(struct tidei_bulk_cursor *base)
{
    struct calls_cursor *cursor = (struct calls_cursor *)base;

    if (base->row == 0)
        memset(&cursor->walk, 0, sizeof(cursor->walk));
    return tidei_event_calls_next(&cursor->walk, base->database->pair, &cursor->call);
}

/* On the line of the event's own row, so that a call never lies outside of it. */
static uint64_t
calls_start_ns(const struct calls_cursor *cursor)
{
    const struct tidei_timeline *timeline = &cursor->base.database->timeline;
    uint64_t begin = cursor->call.event->ticks - cursor->call.event->duration_ticks;

    return tidei_timeline_ns(timeline, begin) +
           (uint64_t)((double)(cursor->call.part.start - begin) * timeline->line.ns_per_tick);
}

static int
calls_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct calls_cursor *cursor = (const struct calls_cursor *)base;
    const struct tidei_event_call *call = &cursor->call;
    double ticks = (double)(call->part.end - call->part.start);

    switch (column) {
    case TIDEI_driver_call_allocation_id:
        sqlite3_result_int64(context, (sqlite3_int64)call->allocation_id);
        break;
    case TIDEI_driver_call_is_free:
        sqlite3_result_int(context, call->is_free);
        break;
    case TIDEI_driver_call_function:
        tidei_bulk_text(context, tidei_function_name(call->part.function));
        break;
    case TIDEI_driver_call_start_ns:
        sqlite3_result_int64(context, (sqlite3_int64)calls_start_ns(cursor));
        break;
    case TIDEI_driver_call_duration_ns:
        sqlite3_result_int64(context, (sqlite3_int64)(ticks * cursor->base.database->timeline.line.ns_per_tick));
        break;
    case TIDEI_driver_call_thread_id:
        sqlite3_result_int64(context, call->event->thread);
        break;
    case TIDEI_driver_call_result:
        sqlite3_result_int(context, call->part.result);
        break;
    case TIDEI_driver_call_correlation:
        tidei_bulk_number(context, call->part.correlation, 0);
        break;
    }
    return SQLITE_OK;
}

const struct tidei_bulk_table tidei_bulk_calls = {
    .name = "tidei_calls",
    .verb = "INSERT",
    .into = TIDEI_TABLE_driver_call,
    .cursor_bytes = sizeof(struct calls_cursor),
    .any = calls_any,
    .load = calls_load,
    .column = calls_column,
};

static size_t
outside_count(const struct tidei_database *database)
{
    size_t count = 0;

    if (database->devices != NULL)
        tidei_device_events_outside(database->devices, &count);
    return count;
}

static bool
outside_any(const struct tidei_database *database)
{
    return outside_count(database) != 0;
}

static bool
outside_load(struct tidei_bulk_cursor *base)
{
    size_t count;

    if (base->row >= outside_count(base->database))
        return false;
    ((struct array_cursor *)base)->row = tidei_device_events_outside(base->database->devices, &count) + base->row;
    return true;
}

static int
outside_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct tidei_outside_row *row = ((const struct array_cursor *)base)->row;

    switch (column) {
    case TIDEI_driver_call_is_free:
        sqlite3_result_int(context, tidei_function_is_free(row->part.function));
        break;
    case TIDEI_driver_call_function:
        tidei_bulk_text(context, tidei_function_name(row->part.function));
        break;
    case TIDEI_driver_call_start_ns:
        sqlite3_result_int64(context, (sqlite3_int64)row->start_ns);
        break;
    case TIDEI_driver_call_duration_ns:
        sqlite3_result_int64(context, (sqlite3_int64)row->duration_ns);
        break;
    case TIDEI_driver_call_thread_id:
        tidei_bulk_number(context, row->thread_id, 0);
        break;
    case TIDEI_driver_call_result:
        sqlite3_result_int(context, row->part.result);
        break;
    case TIDEI_driver_call_correlation:
        tidei_bulk_number(context, row->part.correlation, 0);
        break;
    }
    return SQLITE_OK;
}

const struct tidei_bulk_table tidei_bulk_outside = {
    .name = "tidei_outside",
    .verb = "INSERT",
    .into = TIDEI_TABLE_driver_call,
    .cursor_bytes = sizeof(struct array_cursor),
    .any = outside_any,
    .load = outside_load,
    .column = outside_column,
};

static size_t
devices_count(const struct tidei_database *database)
{
    size_t count = 0;

    if (database->devices != NULL)
        tidei_device_events_rows(database->devices, &count);
    return count;
}

static bool
devices_any(const struct tidei_database *database)
{
    return devices_count(database) != 0;
}

static bool
devices_load(struct tidei_bulk_cursor *base)
{
    size_t count;

    if (base->row >= devices_count(base->database))
        return false;
    ((struct array_cursor *)base)->row = tidei_device_events_rows(base->database->devices, &count) + base->row;
    return true;
}

static const char *const devices_kinds[] = { "allocation", "release", "pool_created", "pool_destroyed",
                                             "pool_trimmed" };
static const char *const devices_memory_kinds[] = { "unknown", "pageable", "pinned",        "device",
                                                    "array",   "managed",  "device_static", "managed_static" };
static const char *const devices_pool_kinds[] = { NULL, "local", "imported" };

#define DEVICES_MEMORY_KINDS (sizeof(devices_memory_kinds) / sizeof(devices_memory_kinds[0]))

/* The columns that describe the memory; NULL for a pool's event. */
static void
devices_memory_column(const struct tidei_device_event *event, sqlite3_context *context, int column)
{
    if (event->kind > TIDEI_DEVICE_RELEASE)
        return;
    if (column == TIDEI_device_event_address)
        sqlite3_result_int64(context, (sqlite3_int64)event->address);
    else if (column == TIDEI_device_event_bytes)
        sqlite3_result_int64(context, (sqlite3_int64)event->bytes);
    else
        tidei_bulk_text(context,
                        devices_memory_kinds[event->memory_kind < DEVICES_MEMORY_KINDS ? event->memory_kind : 0]);
}

/* The columns that describe the pool; NULL without one. Figures there are of a pool of this process alone. */
static void
devices_pool_column(const struct tidei_device_event *event, sqlite3_context *context, int column)
{
    bool local = event->pool == TIDEI_DEVICE_POOL_LOCAL;

    if (column == TIDEI_device_event_pool_kind)
        tidei_bulk_text(context, devices_pool_kinds[event->pool]);
    else if (column == TIDEI_device_event_pool_address)
        tidei_bulk_number(context, event->pool_address, 0);
    else if (column == TIDEI_device_event_pool_bytes && local)
        sqlite3_result_int64(context, (sqlite3_int64)event->pool_bytes);
    else if (column == TIDEI_device_event_pool_used_bytes && local)
        tidei_bulk_number(context, event->pool_used_bytes, UINT64_MAX);
    else if (column == TIDEI_device_event_pool_release_threshold_bytes && local)
        sqlite3_result_int64(context, (sqlite3_int64)event->pool_threshold_bytes);
    else if (column == TIDEI_device_event_pool_pid && event->kind <= TIDEI_DEVICE_RELEASE)
        tidei_bulk_number(context, event->pool_pid, 0);
    else if (column == TIDEI_device_event_keep_bytes && event->kind == TIDEI_DEVICE_POOL_TRIMMED)
        sqlite3_result_int64(context, (sqlite3_int64)event->bytes);
}

static int
devices_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct tidei_device_row *row = ((const struct array_cursor *)base)->row;
    const struct tidei_device_event *event = &row->event;

    switch (column) {
    case TIDEI_device_event_ns:
        sqlite3_result_int64(context, (sqlite3_int64)row->ns);
        break;
    case TIDEI_device_event_kind:
        tidei_bulk_text(context, devices_kinds[event->kind]);
        break;
    case TIDEI_device_event_address:
    case TIDEI_device_event_bytes:
    case TIDEI_device_event_memory_kind:
        devices_memory_column(event, context, column);
        break;
    case TIDEI_device_event_device:
        sqlite3_result_int64(context, event->device);
        break;
    case TIDEI_device_event_context:
        tidei_bulk_number(context, event->context, TIDEI_NO_NUMBER);
        break;
    case TIDEI_device_event_stream:
        tidei_bulk_number(context, event->stream, TIDEI_NO_NUMBER);
        break;
    case TIDEI_device_event_pid:
        sqlite3_result_int64(context, event->pid);
        break;
    case TIDEI_device_event_correlation:
        tidei_bulk_number(context, row->function != NULL ? event->correlation : 0, 0);
        break;
    case TIDEI_device_event_function:
        tidei_bulk_text(context, row->function);
        break;
    case TIDEI_device_event_os_tid:
        tidei_bulk_number(context, row->os_tid, 0);
        break;
    case TIDEI_device_event_allocation_id:
        tidei_bulk_number(context, row->allocation_id, 0);
        break;
    default:
        devices_pool_column(event, context, column);
        break;
    }
    return SQLITE_OK;
}

const struct tidei_bulk_table tidei_bulk_devices = {
    .name = "tidei_device_events",
    .verb = "INSERT",
    .into = TIDEI_TABLE_device_event,
    .cursor_bytes = sizeof(struct array_cursor),
    .any = devices_any,
    .load = devices_load,
    .column = devices_column,
};
