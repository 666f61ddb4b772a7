/* Sums up each log layer of a trace: counts, bytes, the peak and what is live at the end. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/analysis/driver-calls.h"
#include "viewer/analysis/space.h"
#include "viewer/analysis/summary.h"

/* No program has more; a damaged trace may. */
#define SUMMARY_LAYERS_MAX 65536

/* No event of an outermost layer yet. */
#define SUMMARY_NO_PART SIZE_MAX

/* Whether --layer selects the layer; without --layer, every layer is selected. */
static bool
summary_asked(const struct summary *summary, int64_t layer_id)
{
    return summary->view->options->layers.count == 0 || filter_has_layer(&summary->view->filter, layer_id);
}

/* Find the layers that are not outermost: a selected log is above. */
static void
summary_find_inner(struct summary *summary)
{
    const struct trace_layers *layers = summary->layers;
    struct trace_layer_set asked = { { 0 } };

    for (size_t i = 0; i < layers->count; i++) {
        if (trace_layer_is_log(&layers->layers[i]) && summary_asked(summary, layers->layers[i].layer_id))
            trace_layer_set_add(&asked, i);
    }
    layer_graph_inner(layers, &asked, &summary->inner);
}

/* Set whether a layer is outermost among the selected layers. */
static void
summary_place(struct summary *summary, struct summary_layer *layer)
{
    const struct trace_layer *own = trace_layers_find(summary->layers, layer->layer_id);
    bool has_above = own != NULL && trace_layer_set_has(&summary->inner, (size_t)(own - summary->layers->layers));

    layer->outermost = layer->asked && !has_above;
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
    if ((layer != NULL && trace_layer_is_log(layer)) || (added->asked && summary->view->options->layers.count > 0))
        summary_place(summary, added);
    return added;
}

/* The place of the part for layers that the trace does not define: behind those of all groups that there can be. */
static size_t
summary_undefined(const struct summary *summary)
{
    return 2 * summary->layers->count + 1;
}

static int
summary_begin(void *context)
{
    struct summary *summary = context;

    summary->count = 0;
    groups_end(&summary->numbers);
    summary->total = (struct summary_total){ 0 };
    summary->sole = SUMMARY_NO_PART;
    summary->told_apart = false;
    reserved_begin(&summary->reserved);
    for (size_t i = 0; i <= summary_undefined(summary); i++)
        summary->parts[i] = (struct summary_total){ 0 };
    for (size_t i = 0; i < summary->layers->count; i++) {
        const struct trace_layer *layer = &summary->layers->layers[i];

        if (trace_layer_is_log(layer) && summary_layer(summary, layer->layer_id) == NULL)
            return trace_broken(summary->trace, "more layers than can be taken in");
    }
    return COMMAND_FINE;
}

/* From now on each part has sums of its own. */
static void
summary_tell_apart(struct summary *summary)
{
    if (!summary->told_apart && summary->sole != SUMMARY_NO_PART)
        summary->parts[summary->sole] = summary->total;
    summary->told_apart = true;
}

/*
 * The part that a life of an outermost layer belongs to, by its group. As long as all lives are of one part, its sums
 * are those of the total: then the result is NULL, and each event is added up once.
 */
static inline struct summary_total *
summary_part(struct summary *summary, const struct reserved_group *group)
{
    size_t part = group != NULL ? (size_t)(group - summary->reserved.groups) : summary_undefined(summary);

    if (summary->sole == SUMMARY_NO_PART)
        summary->sole = part;
    if (part != summary->sole)
        summary_tell_apart(summary);
    return summary->told_apart ? &summary->parts[part] : NULL;
}

/* An allocation of an outermost layer. */
static void
total_alloc(struct summary_total *total, const struct reserved_group *group, const struct scan_life *life)
{
    if (life->status != 0 && total->sums.failures == 0)
        total->first_failure = *life;
    if (life->status == 0)
        total->rounded_bytes += space_rounded(life);
    if (tally_alloc(&total->sums, life)) {
        total->peak_rounded_bytes = total->rounded_bytes;
        total->peak_reserved_bytes = group != NULL ? group->reserved.bytes : 0;
    }
}

static int
summary_alloc(void *context, const struct scan_life *life)
{
    struct summary *summary = context;
    struct summary_layer *layer = summary_layer(summary, life->layer_id);
    uint64_t most = (uint64_t)INT64_MAX - life->size;
    int status = reserved_alloc(&summary->reserved, life);

    if (layer == NULL)
        return trace_broken(summary->trace, "more layers than can be taken in");
    /* The integers of JSON and SQLite end there. The live bytes are never more than the sum of all. */
    if (life->status == 0 && (layer->sums.bytes > most || summary->total.sums.bytes > most))
        return trace_broken(summary->trace, "allocation %" PRId64 ": the sizes add up to more than 2^63 bytes",
                            life->allocation_id);
    tally_alloc(&layer->sums, life);
    if (layer->outermost) {
        const struct reserved_group *group = reserved_upper(&summary->reserved, life->layer_id);

        struct summary_total *part = summary_part(summary, group);

        total_alloc(&summary->total, group, life);
        if (part != NULL)
            total_alloc(part, group, life);
    } else if (life->clipped) {
        summary_tell_apart(summary);
        /* All clipped lives begin at once, whatever their order, and nothing has been freed since. */
        for (size_t i = 0; i < summary->reserved.group_count; i++)
            summary->parts[i].peak_reserved_bytes = summary->reserved.groups[i].reserved.bytes;
    }
    return status;
}

static int
summary_free_event(void *context, const struct scan_life *life)
{
    struct summary *summary = context;
    struct summary_layer *layer = summary_layer(summary, life->layer_id);

    tally_free(&layer->sums, life);
    reserved_release(&summary->reserved, life);
    if (layer->outermost) {
        struct summary_total *part = summary_part(summary, reserved_upper(&summary->reserved, life->layer_id));

        tally_free(&summary->total.sums, life);
        summary->total.rounded_bytes -= space_rounded(life);
        if (part != NULL) {
            tally_free(&part->sums, life);
            part->rounded_bytes -= space_rounded(life);
        }
    }
    return COMMAND_FINE;
}

static int
summary_end(void *context, int64_t last_ns)
{
    struct summary *summary = context;

    summary->end_ns = last_ns;
    summary_tell_apart(summary);
    reserved_end(&summary->reserved);
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
    for (size_t i = 0; i <= summary_undefined(summary); i++) {
        struct summary_total *part = &summary->parts[summary->part_count];
        bool is_group = i < summary->reserved.group_count;

        if (is_group ? !summary->reserved.groups[i].has_upper
                     : summary->parts[i].sums.allocations + summary->parts[i].sums.failures == 0)
            continue;
        *part = summary->parts[i];
        part->group = is_group ? &summary->reserved.groups[i] : NULL;
        tally_end(&part->sums, to_ns);
        summary->part_count++;
    }
    for (size_t i = 0; i < summary->count; i++)
        summary->found[i].reserved = reserved_below(&summary->reserved, summary->found[i].layer_id);
}

static void
summary_find_times(struct summary *summary)
{
    summary->has_times = tally_has_times(summary->trace, &summary->total.sums);
    for (size_t i = 0; i < summary->count; i++)
        summary->found[i].has_times = tally_has_times(summary->trace, &summary->found[i].sums);
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
    groups_begin(&out->numbers, GROUPS_LAYER, &view->names);
    summary_find_inner(out);
    status = reserved_make(view, &out->reserved);
    if (status == COMMAND_FINE) {
        out->parts = calloc(2 * view->layers.count + 2, sizeof(*out->parts));
        status = out->parts != NULL ? summary_scan(out, view) : trace_broken(out->trace, "no memory for its layers");
    }
    if (status == COMMAND_FINE) {
        summary_finish(out);
        summary_find_times(out);
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
    free(summary->parts);
    groups_end(&summary->numbers);
    reserved_free(&summary->reserved);
    summary->parts = NULL;
    summary->found = NULL;
    summary->count = 0;
}

void
verdict_make(const struct summary *summary, const struct summary_total *part, struct verdict *out)
{
    static const struct reserved_figure unknown = { .source = RESERVED_UNKNOWN };
    const struct reserved_figure *reserved = part->group != NULL ? &part->group->reserved : &unknown;

    *out = (struct verdict){
        .summary = summary,
        .part = part,
        .reserved = reserved,
        .base = part->group != NULL ? &part->group->base : &unknown,
        .limit_bytes = part->group != NULL ? reserved_limit(&summary->reserved, part->group) : 0,
        .has_pools = reserved->source == RESERVED_LAYERS,
        .rounding_bytes = (int64_t)(part->peak_rounded_bytes - part->sums.peak_bytes),
    };
    if (out->has_pools)
        out->pools_bytes = (int64_t)(part->peak_reserved_bytes - part->peak_rounded_bytes);
    if (reserved->source != RESERVED_UNKNOWN)
        out->base_bytes =
            (int64_t)(reserved->peak_bytes - (out->has_pools ? part->peak_reserved_bytes : part->peak_rounded_bytes));
}
