/* Sums up each log layer of a trace: counts, bytes, the peak and what is live at the end. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/analysis/driver-calls.h"
#include "viewer/read/scan.h"
#include "viewer/analysis/space.h"
#include "viewer/analysis/summary.h"

/* A trace with more is no program's. */
#define SUMMARY_LAYERS_MAX 65536

/* Whether nothing was asked for by --layer, or this was. */
static bool
summary_asked(const struct summary *summary, int64_t layer_id)
{
    return summary->view->options->layers.count == 0 || filter_has_layer(&summary->view->filter, layer_id);
}

/* What stands where among the logs that were asked, or whatever has allocations and was. */
static void
summary_place(struct summary *summary, struct summary_layer *layer)
{
    const struct trace_layer *own = trace_layers_find(summary->layers, layer->layer_id);
    bool has_above = false;
    bool has_below = false;

    for (size_t i = 0; own != NULL && i < summary->layers->count; i++) {
        const struct trace_layer *other = &summary->layers->layers[i];

        if (other == own || strcmp(other->kind, "log") != 0)
            continue;
        has_above = has_above || (summary_asked(summary, other->layer_id) &&
                                  trace_layers_reaches(summary->layers, other->layer_id, own->layer_id));
        has_below = has_below || trace_layers_is_next_log(summary->layers, own, other);
    }
    layer->outermost = layer->asked && !has_above;
    layer->lowest = has_above && !has_below;
    /* What is held for others, too, is not that of a tag or a thread. */
    summary->has_lowest = summary->has_lowest || (layer->lowest && !filter_has_rows(&summary->view->filter));
}

static struct summary_layer *
summary_add(struct summary *summary, int64_t layer_id, const char *kind)
{
    struct summary_layer *added;

    if (summary->count >= SUMMARY_LAYERS_MAX || !tidei_grow(&summary->found, &summary->capacity, summary->count, 1))
        return NULL;
    if (!id_map_add(&summary->numbers, (uint64_t)layer_id, (uint32_t)summary->count))
        return NULL;
    summary->last = summary->count++;
    added = &summary->found[summary->last];
    *added = (struct summary_layer){ .layer_id = layer_id, .kind = kind, .asked = summary_asked(summary, layer_id) };
    /* What is no log is not among what the program asked for, unless it is named. */
    if (strcmp(kind, "log") == 0 || (added->asked && summary->view->options->layers.count > 0))
        summary_place(summary, added);
    return added;
}

/* The layer of an event, which is mostly that of the event before, or one of few. */
static struct summary_layer *
summary_layer(struct summary *summary, int64_t layer_id)
{
    const struct trace_layer *layer;
    const uint32_t *known;

    if (summary->count > 0 && summary->found[summary->last].layer_id == layer_id)
        return &summary->found[summary->last];
    known = id_map_find(&summary->numbers, (uint64_t)layer_id);
    if (known != NULL) {
        summary->last = *known;
        return &summary->found[summary->last];
    }
    layer = trace_layers_find(summary->layers, layer_id);
    return summary_add(summary, layer_id, layer != NULL ? layer->kind : "");
}

static int
summary_begin(void *context)
{
    struct summary *summary = context;

    summary->count = 0;
    id_map_free(&summary->numbers);
    summary->has_lowest = false;
    summary->total = (struct summary_total){ 0 };
    for (size_t i = 0; i < summary->layers->count; i++) {
        const struct trace_layer *layer = &summary->layers->layers[i];

        if (strcmp(layer->kind, "log") != 0)
            continue;
        if (summary_add(summary, layer->layer_id, layer->kind) == NULL)
            return trace_broken(summary->trace, "more layers than can be taken in");
    }
    return COMMAND_FINE;
}

/* An allocation of an outermost layer. */
static void
total_alloc(struct summary_total *total, const struct scan_life *life)
{
    if (!life->clipped) /* else it was called before the time that is looked at */
        total->time_ns += (uint64_t)life->alloc_duration_ns;
    if (life->status != 0) {
        if (total->failures++ == 0)
            total->first_failure = *life;
        return;
    }
    total->allocations++;
    total->bytes += life->size;
    total->live_bytes += life->size;
    total->live_count += scan_live_count(life);
    total->rounded_bytes += space_rounded(life);
    /* What is never freed is taken off for the time before it here, and counted to the end there: modulo 2^128. */
    total->byte_ns -= (unsigned __int128)life->size * (unsigned __int128)life->alloc_ns;
    if (total->live_bytes > total->peak_bytes) {
        total->peak_bytes = total->live_bytes;
        total->peak_ns = life->alloc_ns;
        total->peak_count = total->live_count;
        total->peak_rounded_bytes = total->rounded_bytes;
        total->peak_held_bytes = total->held_bytes;
    }
}

static void
total_free(struct summary_total *total, const struct scan_life *life)
{
    total->time_ns += (uint64_t)life->free_duration_ns;
    total->live_bytes -= life->size;
    total->live_count -= scan_live_count(life);
    total->rounded_bytes -= space_rounded(life);
    total->byte_ns += (unsigned __int128)life->size * (unsigned __int128)life->free_ns;
}

static void
total_hold(struct summary_total *total, const struct scan_life *life)
{
    total->held_bytes += life->status == 0 ? life->size : 0;
    if (total->held_bytes > total->held_peak_bytes)
        total->held_peak_bytes = total->held_bytes;
    /* What was there as the time began came at once, whatever stands first; nothing has been freed since. */
    if (life->clipped)
        total->peak_held_bytes = total->held_bytes;
}

static int
summary_alloc(void *context, const struct scan_life *life)
{
    struct summary *summary = context;
    struct summary_layer *layer = summary_layer(summary, life->layer_id);

    if (layer == NULL)
        return trace_broken(summary->trace, "more layers than can be taken in");
    if (!life->clipped)
        layer->time_ns += (uint64_t)life->alloc_duration_ns;
    if (life->status != 0) {
        layer->failures++;
        if (layer->outermost)
            total_alloc(&summary->total, life);
        return COMMAND_FINE;
    }
    /* JSON's integers and SQLite's end there; total_bytes is never less than live_bytes. */
    if (layer->total_bytes > (uint64_t)INT64_MAX - life->size ||
        summary->total.bytes > (uint64_t)INT64_MAX - life->size)
        return trace_broken(summary->trace, "allocation %" PRId64 ": the sizes add up to more than 2^63 bytes",
                            life->allocation_id);
    layer->allocations++;
    layer->total_bytes += life->size;
    layer->live_bytes += life->size;
    layer->live_count += scan_live_count(life);
    if (layer->live_bytes > layer->peak_bytes) {
        layer->peak_bytes = layer->live_bytes;
        layer->peak_ns = life->alloc_ns;
        layer->peak_count = layer->live_count;
    }
    if (layer->outermost)
        total_alloc(&summary->total, life);
    else if (layer->lowest)
        total_hold(&summary->total, life);
    return COMMAND_FINE;
}

static int
summary_free_event(void *context, const struct scan_life *life)
{
    struct summary *summary = context;
    struct summary_layer *layer = summary_layer(summary, life->layer_id);

    layer->frees++;
    layer->live_bytes -= life->size;
    layer->live_count -= scan_live_count(life);
    layer->time_ns += (uint64_t)life->free_duration_ns;
    if (layer->outermost)
        total_free(&summary->total, life);
    else if (layer->lowest)
        summary->total.held_bytes -= life->size;
    return COMMAND_FINE;
}

static int
summary_end(void *context, int64_t last_ns)
{
    struct summary *summary = context;

    summary->end_ns = last_ns;
    return COMMAND_FINE;
}

static const struct scan_unit summary_unit = {
    .needs = SCAN_ALIGNMENT | SCAN_DURATION,
    .begin = summary_begin,
    .alloc = summary_alloc,
    .free = summary_free_event,
    .end = summary_end,
};

/* Beside a filter: when the whole trace ends. */
static int
summary_clock_begin(void *context)
{
    *(int64_t *)context = 0;
    return COMMAND_FINE;
}

static int
summary_clock_alloc(void *context, const struct scan_life *life)
{
    int64_t *end_ns = context;
    int64_t ns = life->freed && life->free_ns > life->alloc_ns ? life->free_ns : life->alloc_ns;

    if (ns > *end_ns)
        *end_ns = ns;
    return COMMAND_FINE;
}

static const struct scan_unit summary_clock = {
    .begin = summary_clock_begin,
    .alloc = summary_clock_alloc,
};

/* One layer that has pool samples: its last and its highest figure go to every layer above it. */
static void
summary_sampled(struct summary *summary, int64_t layer_id, int64_t last, int64_t highest)
{
    for (size_t i = 0; i < summary->count; i++) {
        struct summary_layer *layer = &summary->found[i];

        if (last < 0 || highest < 0 || !trace_layers_reaches(summary->layers, layer->layer_id, layer_id))
            continue;
        layer->has_samples = true;
        layer->reserved_bytes += (uint64_t)last;
        layer->reserved_peak_bytes += (uint64_t)highest;
    }
}

static int
summary_samples(struct summary *summary)
{
    /* SQLite takes a bare column beside max() from the row of the maximum: here from the last sample. */
    static const char sql[] =
        "SELECT last.layer_id, last.reserved_bytes, highest.reserved_bytes"
        " FROM (SELECT layer_id, reserved_bytes, max(rowid) FROM pool_sample WHERE ns BETWEEN ?1 AND ?2 GROUP BY 1)"
        " AS last JOIN (SELECT layer_id, max(reserved_bytes) AS reserved_bytes FROM pool_sample"
        " WHERE ns BETWEEN ?1 AND ?2 GROUP BY 1) AS highest USING (layer_id)";
    sqlite3_stmt *statement = NULL;
    int code = SQLITE_OK;

    if (filter_has_rows(&summary->view->filter))
        return COMMAND_FINE; /* what pools reserve is for all */
    code = sqlite3_prepare_v2(summary->trace->db, sql, -1, &statement, NULL);
    sqlite3_bind_int64(statement, 1, summary->view->filter.from_ns);
    sqlite3_bind_int64(statement, 2, summary->view->filter.to_ns);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW)
            summary_sampled(summary, sqlite3_column_int64(statement, 0), sqlite3_column_int64(statement, 1),
                            sqlite3_column_int64(statement, 2));
    }
    code = sqlite3_finalize(statement);
    return code == SQLITE_OK ? COMMAND_FINE : trace_failed(summary->trace);
}

/* The time in the driver, of a trace that has its calls: in all of them. */
static int
summary_driver(struct summary *summary)
{
    static const char sql[] = "SELECT count(*), total(duration_ns) FROM driver_call WHERE allocation_id IS NOT NULL";
    sqlite3_stmt *statement = NULL;
    int code;

    if (!trace_has(summary->trace, "driver_call", "allocation_id duration_ns"))
        return COMMAND_FINE;
    code = sqlite3_prepare_v2(summary->trace->db, sql, -1, &statement, NULL);
    if (code == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
        double total_ns = sqlite3_column_double(statement, 1);

        summary->driver_calls = (uint64_t)sqlite3_column_int64(statement, 0);
        summary->has_driver = summary->driver_calls > 0;
        summary->driver_ns = total_ns > 0 && total_ns < 9e18 ? (uint64_t)total_ns : 0;
    }
    code = sqlite3_finalize(statement);
    return code == SQLITE_OK ? COMMAND_FINE : trace_failed(summary->trace);
}

/* Scan the allocations that the filters take, of all layers, and the calls of the driver for them. */
static int
summary_scan_filtered(struct summary *summary, struct view *view)
{
    struct scan_pass pass = { &summary_unit, summary };
    int64_t end_ns = 0;
    struct scan_pass clock = { &summary_clock, &end_ns };
    struct filter filter = view->filter; /* borrows its sets */
    struct scan_part parts[3] = { { &filter, &pass, 1 }, { NULL, &clock, 1 } };
    struct driver_calls calls;
    int status = driver_calls_open(view, GROUPS_LAYER, &calls, &summary->has_driver);

    if (status != COMMAND_FINE)
        return status;
    filter.layers.active = false;
    if (summary->has_driver)
        parts[2] = driver_calls_part(&calls);
    status = scan_run_parts(&view->trace, parts, summary->has_driver ? 3 : 2);
    summary->end_ns = end_ns;
    for (size_t i = 0; summary->has_driver && i < calls.capacity; i++) {
        summary->driver_ns += calls.sums[i].ns;
        summary->driver_calls += calls.sums[i].calls;
    }
    if (summary->has_driver)
        driver_calls_close(&calls);
    return status;
}

static int
summary_scan(struct summary *summary, struct view *view)
{
    struct scan_pass pass = { &summary_unit, summary };
    int status;

    if (summary_is_part(view))
        return summary_scan_filtered(summary, view);
    status = scan_run(&view->trace, NULL, &pass, 1);
    return status == COMMAND_FINE ? summary_driver(summary) : status;
}

/* What is live lived to the end of the time that is looked at. */
static void
summary_finish(struct summary *summary)
{
    const struct filter *filter = &summary->view->filter;
    int64_t from_ns = filter->from_ns > 0 ? filter->from_ns : 0;
    int64_t to_ns = filter->to_ns < summary->end_ns ? filter->to_ns : summary->end_ns;

    summary->span_ns = to_ns > from_ns ? to_ns - from_ns : 0;
    summary->total.byte_ns += (unsigned __int128)summary->total.live_bytes * (unsigned __int128)to_ns;
}

bool
summary_is_part(const struct view *view)
{
    return view->filter.active || view->options->layers.count > 0;
}

int
summary_make(struct view *view, struct summary *out)
{
    int status;

    *out = (struct summary){ .view = view, .trace = &view->trace, .layers = &view->layers };
    status = summary_scan(out, view);
    if (status == COMMAND_FINE) {
        summary_finish(out);
        status = summary_samples(out);
    }
    if (status == COMMAND_FINE)
        status = trace_integer(out->trace, "SELECT count(*) FROM unmatched_free", &out->unmatched_frees);
    if (status == COMMAND_FINE && trace_has(out->trace, "misuse", "kind"))
        status = trace_integer(out->trace, "SELECT count(*) FROM misuse", &out->misuses);
    if (status != COMMAND_FINE)
        summary_free(out);
    return status;
}

void
summary_free(struct summary *summary)
{
    free(summary->found);
    id_map_free(&summary->numbers);
    summary->found = NULL;
    summary->count = 0;
}
