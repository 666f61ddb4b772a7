/* Reads the GPUs that a trace lists in meta.devices. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/devices.h"

static int
devices_row(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct trace_devices *devices = context;
    int64_t total_bytes = sqlite3_column_int64(row, 2);
    struct trace_device device = {
        .ordinal = sqlite3_column_int64(row, 0),
        .name = strdup((const char *)sqlite3_column_text(row, 1)),
        .total_bytes = total_bytes > 0 ? (uint64_t)total_bytes : 0,
    };

    if (device.name == NULL || !tidei_grow(&devices->list, &devices->capacity, devices->count, 1)) {
        free(device.name);
        return trace_broken(trace, "no memory for its devices");
    }
    devices->list[devices->count++] = device;
    return COMMAND_FINE;
}

bool
trace_devices_read(const struct trace *trace, struct trace_devices *out)
{
    /* CASE, because json_type refuses an element that is a plain text. */
    static const char sql[] = "SELECT json_extract(item.value, '$.device'), json_extract(item.value, '$.name'),"
                              " json_extract(item.value, '$.total_bytes')"
                              " FROM meta, json_each(meta.value) AS item WHERE meta.key = 'devices'"
                              " AND CASE item.type WHEN 'object' THEN json_type(item.value, '$.device') = 'integer'"
                              " AND json_type(item.value, '$.name') = 'text' END";
    int64_t count;

    *out = (struct trace_devices){ 0 };
    trace_look_up(trace, &count,
                  "SELECT iif(json_valid(value), json_array_length(value), 0) FROM meta"
                  " WHERE key = 'devices'");
    if (count > 0 && trace_each(trace, devices_row, out, sql) == COMMAND_FINE)
        return true;
    trace_devices_free(out);
    return false;
}

void
trace_devices_free(struct trace_devices *devices)
{
    for (size_t i = 0; i < devices->count; i++)
        free(devices->list[i].name);
    free(devices->list);
    *devices = (struct trace_devices){ 0 };
}

bool
trace_devices_is_used(const struct trace *trace, int64_t ordinal)
{
    int64_t found;

    return trace_look_up(trace, &found, "SELECT 1 FROM layer WHERE device = %lld LIMIT 1", ordinal) == SQLITE_ROW;
}
