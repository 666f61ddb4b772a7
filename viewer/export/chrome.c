/*
 * Exports the trace event format that Perfetto and chrome://tracing read: a counter for each layer, the driver's calls
 * as slices of their threads, failures and marks as instants and, where they are wanted, lifetimes.
 *
 * The events of one kind stand in the order of time, one kind after the other: both readers sort.
 */
#include "config.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/export/export.h"
#include "viewer/output/json.h"

struct chrome_layer {
    char name[128]; /* of its counter */
    uint64_t live_bytes;
};

struct chrome {
    const struct export_job *export;
    struct emit *out;
    struct json json;
    char process[64];            /* the text of every event between its phase and its time */
    struct chrome_layer *layers; /* owns */
    size_t layer_count;
    size_t layer_capacity;
    struct id_map layer_numbers; /* owns */
    uint64_t other_calls;        /* driver calls of threads that the trace does not know */
};

#define chrome_number(chrome, key, value) json_put_unsigned(&(chrome)->json, key, (value))
#define chrome_signed(chrome, key, value) json_put_signed(&(chrome)->json, key, (value))
#define chrome_text(chrome, key, value)   json_put_text(&(chrome)->json, key, (value))

/* Begin an event with its phase and its time. The caller adds the name and the rest. */
static void
chrome_begin_event(struct chrome *chrome, char phase, int64_t ns)
{
    json_line(&chrome->json);
    emit_string(chrome->out, "{\"ph\":\"");
    emit_bytes(chrome->out, &phase, 1);
    emit_string(chrome->out, chrome->process);
    emit_microseconds(chrome->out, ns);
    chrome->json.comma = true;
}

static void
chrome_begin_arguments(struct chrome *chrome)
{
    json_key(&chrome->json, "args");
    json_begin(&chrome->json, '{');
}

static void
chrome_end_event(struct chrome *chrome, bool arguments)
{
    if (arguments)
        json_end(&chrome->json, '}');
    json_end(&chrome->json, '}');
}

/* A name for the process or a thread. */
static void
chrome_name_event(struct chrome *chrome, const char *kind, uint64_t thread, const char *name)
{
    chrome_begin_event(chrome, 'M', 0);
    chrome_number(chrome, "tid", thread);
    chrome_text(chrome, "name", kind);
    chrome_begin_arguments(chrome);
    chrome_text(chrome, "name", name);
    chrome_end_event(chrome, true);
}

/* A counter of what a pool has. */
static void
chrome_pool_event(struct chrome *chrome, int64_t ns, const char *name, int64_t used_bytes, int64_t reserved_bytes)
{
    chrome_begin_event(chrome, 'C', ns);
    chrome_text(chrome, "name", name);
    chrome_begin_arguments(chrome);
    chrome_signed(chrome, "used_bytes", used_bytes);
    chrome_signed(chrome, "reserved_bytes", reserved_bytes);
    chrome_end_event(chrome, true);
}

/* A moment of the process. */
static void
chrome_instant(struct chrome *chrome, int64_t ns, uint64_t thread, const char *category, const char *name)
{
    chrome_begin_event(chrome, 'i', ns);
    chrome_text(chrome, "s", "p");
    chrome_number(chrome, "tid", thread);
    chrome_text(chrome, "cat", category);
    chrome_text(chrome, "name", name);
    chrome_end_event(chrome, false);
}

static void
chrome_head(struct chrome *chrome)
{
    const struct names *names = &chrome->export->view->names;
    char *command = trace_meta(&chrome->export->view->trace, "command");

    chrome->json = (struct json){ .out = chrome->out };
    json_begin(&chrome->json, '{');
    chrome_text(chrome, "displayTimeUnit", "ns");
    json_key(&chrome->json, "traceEvents");
    json_begin(&chrome->json, '[');
    chrome_name_event(chrome, "process_name", 0, command != NULL && command[0] != '\0' ? command : "trace");
    for (size_t i = 0; i < names->threads.count; i++) {
        if (names->threads.names[i].text[0] != '\0')
            chrome_name_event(chrome, "thread_name", (uint64_t)names->threads.names[i].number,
                              names->threads.names[i].text);
    }
    free(command);
}

static int
chrome_begin(void *context)
{
    struct chrome *chrome = context;

    if (!emit_rewind(chrome->out))
        return COMMAND_WRONG;
    id_map_free(&chrome->layer_numbers);
    chrome->layer_count = 0;
    chrome_head(chrome);
    return COMMAND_FINE;
}

static struct chrome_layer *
chrome_layer(struct chrome *chrome, int64_t layer_id)
{
    const uint32_t *number = id_map_find(&chrome->layer_numbers, (uint64_t)layer_id);
    struct chrome_layer *layer;
    char buffer[96];

    if (number != NULL)
        return &chrome->layers[*number];
    if (chrome->layer_count == UINT16_MAX ||
        !tidei_grow(&chrome->layers, &chrome->layer_capacity, chrome->layer_count, 1) ||
        !id_map_add(&chrome->layer_numbers, (uint64_t)layer_id, (uint32_t)chrome->layer_count)) {
        trace_broken(&chrome->export->view->trace, "more layers than can be taken in");
        return NULL;
    }
    layer = &chrome->layers[chrome->layer_count++];
    layer->live_bytes = 0;
    snprintf(layer->name, sizeof(layer->name), "layer %s",
             names_layer(&chrome->export->view->names, layer_id, buffer, sizeof(buffer)));
    return layer;
}

static void
chrome_counter(struct chrome *chrome, const struct chrome_layer *layer, int64_t ns)
{
    chrome_begin_event(chrome, 'C', ns);
    chrome_text(chrome, "name", layer->name);
    chrome_begin_arguments(chrome);
    chrome_number(chrome, "live_bytes", layer->live_bytes);
    chrome_end_event(chrome, true);
}

/* A slice of its own track: `phase` is b or e. */
static void
chrome_lifetime(struct chrome *chrome, const struct scan_life *life, char phase, int64_t ns)
{
    const struct names *names = &chrome->export->view->names;
    char buffer[96];
    char address[24];

    chrome_begin_event(chrome, phase, ns);
    chrome_text(chrome, "cat", "allocation");
    chrome_signed(chrome, "id", life->allocation_id);
    chrome_number(chrome, "tid", export_thread(chrome->export, life->alloc_thread_id));
    chrome_text(chrome, "name",
                life->tag_id != 0 ? names_tag(names, life->tag_id, buffer, sizeof(buffer)) : "allocation");
    if (phase == 'b') {
        snprintf(address, sizeof(address), "0x%" PRIx64, life->address);
        chrome_begin_arguments(chrome);
        chrome_number(chrome, "bytes", life->size);
        chrome_text(chrome, "address", address);
        chrome_signed(chrome, "layer_id", life->layer_id);
    }
    chrome_end_event(chrome, phase == 'b');
}

static void
chrome_failure(struct chrome *chrome, const struct scan_life *life)
{
    chrome_begin_event(chrome, 'i', life->alloc_ns);
    chrome_text(chrome, "s", "t");
    chrome_number(chrome, "tid", export_thread(chrome->export, life->alloc_thread_id));
    chrome_text(chrome, "name", export_status(life->status));
    chrome_begin_arguments(chrome);
    chrome_number(chrome, "bytes", life->size);
    chrome_end_event(chrome, true);
}

static int
chrome_alloc(void *context, const struct scan_life *life)
{
    struct chrome *chrome = context;
    struct chrome_layer *layer;

    if (life->status != 0) {
        chrome_failure(chrome, life);
        return chrome->out->failed ? COMMAND_WRONG : COMMAND_FINE;
    }
    layer = chrome_layer(chrome, life->layer_id);
    if (layer == NULL)
        return COMMAND_WRONG;
    if (layer->live_bytes > (uint64_t)INT64_MAX - life->size)
        return trace_broken(&chrome->export->view->trace,
                            "allocation %" PRId64 ": the sizes add up to more than 2^63 bytes", life->allocation_id);
    layer->live_bytes += life->size;
    chrome_counter(chrome, layer, life->alloc_ns);
    if (chrome->export->options->lifetimes && scan_live_count(life) != 0)
        chrome_lifetime(chrome, life, 'b', life->alloc_ns);
    return chrome->out->failed ? COMMAND_WRONG : COMMAND_FINE;
}

static int
chrome_free(void *context, const struct scan_life *life)
{
    struct chrome *chrome = context;
    struct chrome_layer *layer = chrome_layer(chrome, life->layer_id);

    if (layer == NULL)
        return COMMAND_WRONG;
    layer->live_bytes -= life->size;
    chrome_counter(chrome, layer, life->free_ns);
    if (chrome->export->options->lifetimes && scan_live_count(life) != 0)
        chrome_lifetime(chrome, life, 'e', life->free_ns);
    return chrome->out->failed ? COMMAND_WRONG : COMMAND_FINE;
}

static const struct scan_unit chrome_unit = {
    .needs = SCAN_PLACE | SCAN_ORIGIN | SCAN_CALLER,
    .begin = chrome_begin,
    .alloc = chrome_alloc,
    .free = chrome_free,
};

static bool
chrome_is_in_time(const struct chrome *chrome, int64_t ns)
{
    const struct filter *filter = &chrome->export->view->filter;

    return ns >= filter->from_ns && ns <= filter->to_ns;
}

/* Whether the filters take a call: its own time and thread, and the allocation on whose behalf it was made. */
static bool
chrome_takes_call(const struct chrome *chrome, sqlite3_stmt *row)
{
    const struct filter *filter = &chrome->export->view->filter;

    /* Calls are of the lowest log: one is left out for its layer only where a layer was asked for. */
    return chrome_is_in_time(chrome, sqlite3_column_int64(row, 0)) &&
           filter_set_has(&filter->threads, sqlite3_column_int64(row, 2)) &&
           (uint64_t)sqlite3_column_int64(row, 6) >= filter->min_size &&
           filter_set_has(&filter->tags, sqlite3_column_int64(row, 7)) &&
           filter_set_has(&filter->callstacks, sqlite3_column_int64(row, 8)) &&
           filter_set_has(&filter->streams, sqlite3_column_int64(row, 9)) &&
           filter_set_has(&filter->device_streams, sqlite3_column_int64(row, 9)) &&
           (chrome->export->view->options->layers.count == 0 ||
            filter_has_layer(filter, sqlite3_column_int64(row, 10)));
}

/* Begin an event of a driver's call. */
static void
chrome_begin_call(struct chrome *chrome, char phase, int64_t ns, sqlite3_stmt *row)
{
    const char *function = (const char *)sqlite3_column_text(row, 3);

    chrome_begin_event(chrome, phase, ns);
    chrome_text(chrome, "cat", "driver");
    chrome_number(chrome, "tid", export_thread(chrome->export, sqlite3_column_int64(row, 2)));
    chrome_text(chrome, "name", function != NULL ? function : "");
    if (phase != 'X')
        chrome_number(chrome, "id", chrome->other_calls);
}

/*
 * The columns of `calls` in chrome_tables. The slices of a thread have to nest; calls of threads that the trace does
 * not know may overlap, so that each of those has a track of its own.
 */
static void
chrome_call(struct chrome *chrome, sqlite3_stmt *row)
{
    int64_t start_ns = sqlite3_column_int64(row, 0);
    int64_t duration_ns = sqlite3_column_int64(row, 1);
    bool is_other = sqlite3_column_type(row, 2) == SQLITE_NULL;

    if (!chrome_takes_call(chrome, row) || duration_ns < 0)
        return;
    chrome->other_calls += is_other;
    chrome_begin_call(chrome, is_other ? 'b' : 'X', start_ns, row);
    if (!is_other) {
        json_key(&chrome->json, "dur");
        json_separate(&chrome->json);
        emit_microseconds(chrome->out, duration_ns);
    }
    chrome_begin_arguments(chrome);
    chrome_signed(chrome, "result", sqlite3_column_int64(row, 4));
    if (sqlite3_column_type(row, 5) != SQLITE_NULL)
        chrome_signed(chrome, "allocation_id", sqlite3_column_int64(row, 5));
    chrome_end_event(chrome, true);
    if (is_other && !__builtin_add_overflow(start_ns, duration_ns, &start_ns)) {
        chrome_begin_call(chrome, 'e', start_ns, row);
        chrome_end_event(chrome, false);
    }
}

/* ns, layer_id, used_bytes, reserved_bytes */
static void
chrome_sample(struct chrome *chrome, sqlite3_stmt *row)
{
    int64_t ns = sqlite3_column_int64(row, 0);
    char name[128];
    char buffer[96];

    if (!chrome_is_in_time(chrome, ns))
        return;
    snprintf(name, sizeof(name), "pool of layer %s",
             names_layer(&chrome->export->view->names, sqlite3_column_int64(row, 1), buffer, sizeof(buffer)));
    chrome_pool_event(chrome, ns, name, sqlite3_column_int64(row, 2), sqlite3_column_int64(row, 3));
}

/* ns, device, the bytes in use, total_bytes */
static void
chrome_device(struct chrome *chrome, sqlite3_stmt *row)
{
    int64_t ns = sqlite3_column_int64(row, 0);
    char name[64];

    if (!chrome_is_in_time(chrome, ns))
        return;
    snprintf(name, sizeof(name), "GPU %" PRId64 " in use", (int64_t)sqlite3_column_int64(row, 1));
    chrome_begin_event(chrome, 'C', ns);
    chrome_text(chrome, "name", name);
    chrome_begin_arguments(chrome);
    chrome_signed(chrome, "in_use_bytes", sqlite3_column_int64(row, 2));
    chrome_end_event(chrome, true);
}

/* ns, kind, device, pool_address, pool_used_bytes, pool_bytes: what CUPTI says of a pool of the driver's own. */
static void
chrome_pool(struct chrome *chrome, sqlite3_stmt *row)
{
    const char *kind = (const char *)sqlite3_column_text(row, 1);
    int64_t ns = sqlite3_column_int64(row, 0);
    char name[96];

    if (!chrome_is_in_time(chrome, ns))
        return;
    snprintf(name, sizeof(name), "pool 0x%" PRIx64 " of device %" PRId64, (uint64_t)sqlite3_column_int64(row, 3),
             (int64_t)sqlite3_column_int64(row, 2));
    if (sqlite3_column_type(row, 5) != SQLITE_NULL)
        chrome_pool_event(chrome, ns, name, sqlite3_column_int64(row, 4), sqlite3_column_int64(row, 5));
    if (kind != NULL && strncmp(kind, "pool_", 5) == 0)
        chrome_instant(chrome, ns, 0, kind, name);
}

/* ns, thread_id, kind, text */
static void
chrome_mark(struct chrome *chrome, sqlite3_stmt *row)
{
    const char *kind = (const char *)sqlite3_column_text(row, 2);
    const char *text = (const char *)sqlite3_column_text(row, 3);
    int64_t ns = sqlite3_column_int64(row, 0);

    if (kind == NULL)
        kind = "";
    if (chrome_is_in_time(chrome, ns))
        chrome_instant(chrome, ns, export_thread(chrome->export, sqlite3_column_int64(row, 1)), kind,
                       text != NULL ? text : kind);
}

/* The tables besides `allocation` whose rows become events. An older trace may lack their columns. */
static const struct chrome_table {
    const char *table;
    const char *columns;
    const char *sql;
    const char *filtered; /* the same with the columns of the allocation that the filters need; NULL: none */
    void (*put)(struct chrome *chrome, sqlite3_stmt *row);
} chrome_tables[] = {
    /* Two statements, because the join takes most of the time. */
    { "driver_call", "start_ns duration_ns thread_id function result allocation_id",
      "SELECT start_ns, duration_ns, thread_id, function, result, allocation_id, NULL, NULL, NULL, NULL, NULL"
      " FROM driver_call",
      "SELECT start_ns, duration_ns, thread_id, function, result, driver_call.allocation_id, size, tag_id,"
      " callstack_id, alloc_stream_id, layer_id FROM driver_call LEFT JOIN allocation USING (allocation_id)",
      chrome_call },
    { "pool_sample", "ns layer_id used_bytes reserved_bytes",
      "SELECT ns, layer_id, used_bytes, reserved_bytes FROM pool_sample", NULL, chrome_sample },
    { "device_sample", "ns device free_bytes total_bytes",
      "SELECT ns, device, total_bytes - free_bytes, total_bytes FROM device_sample", NULL, chrome_device },
    { "device_event", "ns kind device pool_address pool_used_bytes pool_bytes",
      "SELECT ns, kind, device, pool_address, pool_used_bytes, pool_bytes FROM device_event"
      " WHERE pool_address IS NOT NULL",
      NULL, chrome_pool },
    { "mark", "ns thread_id kind text", "SELECT ns, thread_id, kind, text FROM mark", NULL, chrome_mark },
};

/* Put an event for each row of a table. */
static int
chrome_rows(struct chrome *chrome, const struct chrome_table *table)
{
    const struct view *view = chrome->export->view;
    bool filtered = table->filtered != NULL && (view->filter.active || view->options->layers.count > 0);
    sqlite3_stmt *row = NULL;
    int code;

    if (!trace_has(&view->trace, table->table, table->columns))
        return COMMAND_FINE;
    code = sqlite3_prepare_v2(view->trace.db, filtered ? table->filtered : table->sql, -1, &row, NULL);
    while (code == SQLITE_OK && !chrome->out->failed && sqlite3_step(row) == SQLITE_ROW)
        table->put(chrome, row);
    code = sqlite3_finalize(row);
    if (code != SQLITE_OK)
        return trace_failed(&view->trace);
    return chrome->out->failed ? COMMAND_WRONG : COMMAND_FINE;
}

static int
chrome_run(const struct export_job *export)
{
    struct chrome chrome = { .export = export, .out = export->out };
    struct scan_pass pass = { .unit = &chrome_unit, .context = &chrome };
    int64_t pid = 0;
    int status = trace_integer(&export->view->trace, "SELECT value FROM meta WHERE key = 'pid'", &pid);

    snprintf(chrome.process, sizeof(chrome.process), "\",\"pid\":%" PRId64 ",\"ts\":", pid);
    if (status == COMMAND_FINE)
        status = view_scan(export->view, &pass, 1);
    for (size_t i = 0; status == COMMAND_FINE && i < sizeof(chrome_tables) / sizeof(chrome_tables[0]); i++)
        status = chrome_rows(&chrome, &chrome_tables[i]);
    emit_string(export->out, "\n]}\n");
    free(chrome.layers);
    id_map_free(&chrome.layer_numbers);
    return status;
}

static const struct option_def chrome_options[] = {
    { "lifetimes", 0, OPTION_FLAG, NULL, "of chrome: a slice for each allocation",
      offsetof(struct export_options, lifetimes), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

const struct export_format export_chrome = {
    .name = "chrome",
    .purpose = "for Perfetto and chrome://tracing: counters, driver calls, marks",
    .options = chrome_options,
    .run = chrome_run,
};
