/* The rows of driver_call and device_event, for the statements that write them in bulk. */
#include "config.h"

#include <string.h>

#include "src/trace/cupti/device-events.h"
#include "src/trace/database/bulk.h"
#include "src/trace/events/event-calls.h"
#include "src/trace/ring/function.h"

static bool
calls_load(struct tidei_bulk_cursor *cursor)
{
    const struct tidei_timeline *timeline = &cursor->database->timeline;
    struct tidei_event_call call;
    uint64_t start_ns;
    double ns;

    if (cursor->row == 0)
        memset(&cursor->walk, 0, sizeof(cursor->walk));
    if (!cursor->database->has_calls || !tidei_event_calls_next(&cursor->walk, cursor->database->pair, &call))
        return false;
    /* By the clock line of the event's own row, so that a call never lies outside of its event. */
    start_ns = (uint64_t)((double)(call.part.start - call.began) * timeline->line.ns_per_tick);
    ns = (double)(call.part.end - call.part.start) * timeline->line.ns_per_tick;
    TIDEI_SET(cursor, driver_call, allocation_id, TIDEI_NUMBER(call.allocation_id));
    TIDEI_SET(cursor, driver_call, is_free, TIDEI_NUMBER(call.is_free));
    TIDEI_SET(cursor, driver_call, function, TIDEI_TEXT(tidei_function_name(call.part.function)));
    TIDEI_SET(cursor, driver_call, start_ns, TIDEI_NUMBER(tidei_timeline_ns(timeline, call.began) + start_ns));
    TIDEI_SET(cursor, driver_call, duration_ns, TIDEI_NUMBER(ns));
    TIDEI_SET(cursor, driver_call, thread_id, TIDEI_NUMBER(call.thread));
    TIDEI_SET(cursor, driver_call, result, TIDEI_NUMBER(call.part.result));
    TIDEI_SET(cursor, driver_call, correlation, TIDEI_ID(call.part.correlation));
    return true;
}

const struct tidei_bulk_table tidei_bulk_calls = {
    .name = "tidei_calls",
    .verb = "INSERT",
    .into = TIDEI_TABLE_driver_call,
    .load = calls_load,
};

/* The calls outside of all logs. */
static bool
outside_load(struct tidei_bulk_cursor *cursor)
{
    size_t count;
    const struct tidei_outside_row *row = tidei_device_events_outside(cursor->database->devices, &count);

    if (cursor->row >= count)
        return false;
    row += cursor->row;
    TIDEI_SET(cursor, driver_call, allocation_id, TIDEI_NULL);
    TIDEI_SET(cursor, driver_call, is_free, TIDEI_NUMBER(tidei_function_is_free(row->part.function)));
    TIDEI_SET(cursor, driver_call, function, TIDEI_TEXT(tidei_function_name(row->part.function)));
    TIDEI_SET(cursor, driver_call, start_ns, TIDEI_NUMBER(row->start_ns));
    TIDEI_SET(cursor, driver_call, duration_ns, TIDEI_NUMBER(row->duration_ns));
    TIDEI_SET(cursor, driver_call, thread_id, TIDEI_ID(row->thread_id));
    TIDEI_SET(cursor, driver_call, result, TIDEI_NUMBER(row->part.result));
    TIDEI_SET(cursor, driver_call, correlation, TIDEI_ID(row->part.correlation));
    return true;
}

const struct tidei_bulk_table tidei_bulk_outside = {
    .name = "tidei_outside",
    .verb = "INSERT",
    .into = TIDEI_TABLE_driver_call,
    .load = outside_load,
};

static const char *const devices_kinds[] = { "allocation", "release", "pool_created", "pool_destroyed",
                                             "pool_trimmed" };
static const char *const devices_memory_kinds[] = { "unknown", "pageable", "pinned",        "device",
                                                    "array",   "managed",  "device_static", "managed_static" };
static const char *const devices_pool_kinds[] = { NULL, "local", "imported" };

#define DEVICES_MEMORY_KINDS (sizeof(devices_memory_kinds) / sizeof(devices_memory_kinds[0]))

/* The columns of the memory, which are NULL for a pool's event. */
static void
devices_set_memory(struct tidei_bulk_cursor *cursor, const struct tidei_device_event *event)
{
    bool memory = event->kind <= TIDEI_DEVICE_RELEASE;
    unsigned kind = event->memory_kind < DEVICES_MEMORY_KINDS ? event->memory_kind : 0;

    TIDEI_SET(cursor, device_event, address, TIDEI_NUMBER_IF(memory, event->address));
    TIDEI_SET(cursor, device_event, bytes, TIDEI_NUMBER_IF(memory, event->bytes));
    TIDEI_SET(cursor, device_event, memory_kind, TIDEI_TEXT(memory ? devices_memory_kinds[kind] : NULL));
    TIDEI_SET(cursor, device_event, pool_pid, TIDEI_NUMBER_IF(memory && event->pool_pid != 0, event->pool_pid));
}

/* The columns of the pool, which are NULL without one. Only a pool of this process has figures. */
static void
devices_set_pool(struct tidei_bulk_cursor *cursor, const struct tidei_device_event *event)
{
    bool local = event->pool == TIDEI_DEVICE_POOL_LOCAL;
    bool used = local && event->pool_used_bytes != UINT64_MAX;

    TIDEI_SET(cursor, device_event, pool_kind, TIDEI_TEXT(devices_pool_kinds[event->pool]));
    TIDEI_SET(cursor, device_event, pool_address, TIDEI_ID(event->pool_address));
    TIDEI_SET(cursor, device_event, pool_bytes, TIDEI_NUMBER_IF(local, event->pool_bytes));
    TIDEI_SET(cursor, device_event, pool_used_bytes, TIDEI_NUMBER_IF(used, event->pool_used_bytes));
    TIDEI_SET(cursor, device_event, pool_release_threshold_bytes, TIDEI_NUMBER_IF(local, event->pool_threshold_bytes));
}

static bool
devices_load(struct tidei_bulk_cursor *cursor)
{
    size_t count;
    const struct tidei_device_row *row = tidei_device_events_rows(cursor->database->devices, &count);
    const struct tidei_device_event *event;

    if (cursor->row >= count)
        return false;
    row += cursor->row;
    event = &row->event;
    TIDEI_SET(cursor, device_event, ns, TIDEI_NUMBER(row->ns));
    TIDEI_SET(cursor, device_event, kind, TIDEI_TEXT(devices_kinds[event->kind]));
    devices_set_memory(cursor, event);
    TIDEI_SET(cursor, device_event, device, TIDEI_NUMBER(event->device));
    TIDEI_SET(cursor, device_event, context, TIDEI_NUMBER_IF(event->context != TIDEI_NO_NUMBER, event->context));
    TIDEI_SET(cursor, device_event, stream, TIDEI_NUMBER_IF(event->stream != TIDEI_NO_NUMBER, event->stream));
    devices_set_pool(cursor, event);
    TIDEI_SET(cursor, device_event, keep_bytes,
              TIDEI_NUMBER_IF(event->kind == TIDEI_DEVICE_POOL_TRIMMED, event->bytes));
    TIDEI_SET(cursor, device_event, pid, TIDEI_NUMBER(event->pid));
    TIDEI_SET(cursor, device_event, correlation, TIDEI_ID(row->function != NULL ? event->correlation : 0));
    TIDEI_SET(cursor, device_event, function, TIDEI_TEXT(row->function));
    TIDEI_SET(cursor, device_event, os_tid, TIDEI_ID(row->os_tid));
    TIDEI_SET(cursor, device_event, allocation_id, TIDEI_ID(row->allocation_id));
    return true;
}

const struct tidei_bulk_table tidei_bulk_devices = {
    .name = "tidei_device_events",
    .verb = "INSERT",
    .into = TIDEI_TABLE_device_event,
    .load = devices_load,
};
