/* Sums up each log layer of a trace: counts, bytes, the peak and what is live at the end. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/analysis/driver-calls.h"
#include "viewer/read/samples.h"
#include "viewer/analysis/space.h"
#include "viewer/analysis/summary.h"

/* No program has more; a damaged trace may. */
#define SUMMARY_LAYERS_MAX 65536

/* Whether --layer selects the layer; without --layer, every layer is selected. */
static bool
summary_asked(const struct summary *summary, int64_t layer_id)
{
    return summary->view->options->layers.count == 0 || filter_has_layer(&summary->view->filter, layer_id);
}

/* Set whether a layer is outermost or lowest among the selected layers. */
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
    /* A lowest layer also holds memory for allocations that a filter of tags, threads ... leaves out. */
    summary->has_lowest = summary->has_lowest || (layer->lowest && !filter_has_rows(&summary->view->filter));
}

/* The layer of an event, mostly that of the event before. NULL: no memory, or too many layers. */
static struct summary_layer *
summary_layer(struct summary *summary, int64_t layer_id)
{
    const struct trace_layer *layer;
    struct summary_layer *added;

    if (summary->count > 0 && summary->found[summary->last].layer_id == layer_id)
        return &summary->found[summary->last];
    summary->last = groups_number(&summary->numbers, (uint64_t)layer_id);
    if (summary->last < summary->count)
        return &summary->found[summary->last];
    if (summary->last >= SUMMARY_LAYERS_MAX || !tidei_grow(&summary->found, &summary->capacity, summary->count, 1))
        return NULL;
    layer = trace_layers_find(summary->layers, layer_id);
    added = &summary->found[summary->count++];
    *added = (struct summary_layer){
        .layer_id = layer_id,
        .kind = layer != NULL ? layer->kind : "",
        .asked = summary_asked(summary, layer_id),
    };
    /* A layer that is no log is not part of the total, unless --layer names it. */
    if (strcmp(added->kind, "log") == 0 || (added->asked && summary->view->options->layers.count > 0))
        summary_place(summary, added);
    return added;
}

static int
summary_begin(void *context)
{
    struct summary *summary = context;

    summary->count = 0;
    groups_end(&summary->numbers);
    summary->has_lowest = false;
    summary->total = (struct summary_total){ 0 };
    for (size_t i = 0; i < summary->layers->count; i++) {
        const struct trace_layer *layer = &summary->layers->layers[i];

        if (strcmp(layer->kind, "log") == 0 && summary_layer(summary, layer->layer_id) == NULL)
            return trace_broken(summary->trace, "more layers than can be taken in");
    }
    return COMMAND_FINE;
}

/* An allocation of an outermost layer. */
static void
total_alloc(struct summary_total *total, const struct scan_life *life)
{
    if (life->status != 0 && total->sums.failures == 0)
        total->first_failure = *life;
    if (life->status == 0)
        total->rounded_bytes += space_rounded(life);
    if (tally_alloc(&total->sums, life)) {
        total->peak_rounded_bytes = total->rounded_bytes;
        total->peak_held_bytes = total->held_bytes;
    }
}

/* An allocation of a lowest layer. */
static void
total_hold(struct summary_total *total, const struct scan_life *life)
{
    total->held_bytes += life->size;
    if (total->held_bytes > total->held_peak_bytes)
        total->held_peak_bytes = total->held_bytes;
    /* All clipped lives begin at once, whatever their order, and nothing has been freed since. */
    if (life->clipped)
        total->peak_held_bytes = total->held_bytes;
}

static int
summary_alloc(void *context, const struct scan_life *life)
{
    struct summary *summary = context;
    struct summary_layer *layer = summary_layer(summary, life->layer_id);
    uint64_t most = (uint64_t)INT64_MAX - life->size;

    if (layer == NULL)
        return trace_broken(summary->trace, "more layers than can be taken in");
    /* The integers of JSON and SQLite end there. The live bytes are never more than the sum of all. */
    if (life->status == 0 && (layer->sums.bytes > most || summary->total.sums.bytes > most))
        return trace_broken(summary->trace, "allocation %" PRId64 ": the sizes add up to more than 2^63 bytes",
                            life->allocation_id);
    tally_alloc(&layer->sums, life);
    if (layer->outermost)
        total_alloc(&summary->total, life);
    else if (layer->lowest && life->status == 0)
        total_hold(&summary->total, life);
    return COMMAND_FINE;
}

static int
summary_free_event(void *context, const struct scan_life *life)
{
    struct summary *summary = context;
    struct summary_layer *layer = summary_layer(summary, life->layer_id);

    tally_free(&layer->sums, life);
    if (layer->outermost) {
        tally_free(&summary->total.sums, life);
        summary->total.rounded_bytes -= space_rounded(life);
    } else if (layer->lowest) {
        summary->total.held_bytes -= life->size;
    }
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

/* With a filter, the end of the whole trace needs a unit of its own. */
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

/* Add the last and the highest reserved bytes of a layer with pool samples to every layer above it. */
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
        return COMMAND_FINE; /* pools also reserve for allocations that the filter leaves out */
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

/* The time in all driver calls. */
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

/* Scan the allocations that the filters take, of all layers, and the driver calls for them. */
static int
summary_scan_filtered(struct summary *summary, struct view *view)
{
    struct scan_pass pass = { &summary_unit, summary };
    int64_t end_ns = 0;
    struct scan_pass clock = { &summary_clock, &end_ns };
    struct filter filter = view->filter; /* borrows its sets */
    struct driver_calls calls;
    struct scan_part parts[3] = { { &filter, &pass, 1 }, { NULL, &clock, 1 }, { NULL, &calls.pass, 1 } };
    int status = driver_calls_open(view, GROUPS_LAYER, &calls);

    if (status != COMMAND_FINE)
        return status;
    filter.layers.active = false;
    summary->has_driver = calls.has_calls;
    status = scan_run_parts(&view->trace, parts, calls.has_calls ? 3 : 2);
    summary->end_ns = end_ns;
    for (size_t i = 0; i < calls.capacity; i++) {
        summary->driver_ns += calls.sums[i].ns;
        summary->driver_calls += calls.sums[i].calls;
    }
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

/* The live allocations count to the end of the selected time range. */
static void
summary_finish(struct summary *summary)
{
    const struct filter *filter = &summary->view->filter;
    int64_t from_ns = filter->from_ns > 0 ? filter->from_ns : 0;
    int64_t to_ns = filter->to_ns < summary->end_ns ? filter->to_ns : summary->end_ns;

    summary->span_ns = to_ns > from_ns ? to_ns - from_ns : 0;
    tally_end(&summary->total.sums, to_ns);
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
    groups_end(&summary->numbers);
    summary->found = NULL;
    summary->count = 0;
}

int
verdict_make(const struct view *view, const struct summary *summary, struct verdict *out)
{
    const struct summary_total *total = &summary->total;
    struct samples samples = { 0 };
    int status = filter_has_rows(&view->filter) ? COMMAND_FINE : samples_read(view, &samples);
    uint64_t below = summary->has_lowest ? total->peak_held_bytes : total->peak_rounded_bytes;

    if (status != COMMAND_FINE)
        return status;
    *out = (struct verdict){ .summary = summary, .limit_bytes = view_limit(view) };
    if (samples.count > 0) {
        out->source = VERDICT_SAMPLES;
        out->reserved_peak_bytes = samples.reserved_peak_bytes;
    }
    /* Samples can miss a peak; the lowest log sees every allocation. */
    if (summary->has_lowest && total->held_peak_bytes >= out->reserved_peak_bytes) {
        out->source = VERDICT_LAYERS;
        out->reserved_peak_bytes = total->held_peak_bytes;
    }
    samples_free(&samples);
    out->rounding_bytes = (int64_t)(total->peak_rounded_bytes - total->sums.peak_bytes);
    if (summary->has_lowest)
        out->pools_bytes = (int64_t)(total->peak_held_bytes - total->peak_rounded_bytes);
    if (out->source != VERDICT_NONE)
        out->base_bytes = (int64_t)(out->reserved_peak_bytes - below);
    return COMMAND_FINE;
}
