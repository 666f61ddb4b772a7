/* `tidemark layers`: the recorded stack, and the totals of each of its layers. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/analysis/summary.h"
#include "viewer/base/output.h"
#include "viewer/commands/commands.h"
#include "viewer/commands/memory.h"
#include "viewer/read/view.h"

static const struct report_column layers_columns[] = {
    { NULL, "LAYER", REPORT_TEXT },
    { "layer_id", NULL, REPORT_COUNT },
    { "upstream_layer_id", NULL, REPORT_COUNT },
    { "kind", NULL, REPORT_TEXT },
    { "config", NULL, REPORT_TEXT },
    { "depth", NULL, REPORT_COUNT },
    { "allocations", "ALLOCATIONS", REPORT_COUNT },
    { "frees", "FREES", REPORT_COUNT },
    { "failures", "FAILURES", REPORT_COUNT },
    { "total_bytes", "TOTAL", REPORT_SIZE },
    { "peak_bytes", "PEAK", REPORT_SIZE },
    { "live_bytes", "LIVE", REPORT_SIZE },
    { "passed_share", "PASSED ON", REPORT_SHARE },
    { "time_ns", NULL, REPORT_TIME },
    { NULL, "IN CALLS", REPORT_FIGURE },
    { "own_time_ns", "OWN", REPORT_TIME },
    { "used_peak_bytes", "USED", REPORT_SIZE },
    { "reserved_peak_bytes", NULL, REPORT_SIZE },
    { "reserved_peak_is_exact", NULL, REPORT_FLAG },
    { NULL, "PEAK RESERVED", REPORT_FIGURE },
};

#define LAYERS_SPARE "frees used_peak_bytes own_time_ns passed_share total_bytes #14 failures allocations #19"

static const struct report_column layers_count_columns[] = {
    { "layer_id", "LAYER", REPORT_COUNT },
    { "kind", "KIND", REPORT_TEXT },
    { "name", "COUNT", REPORT_TEXT },
    { "value", "VALUE", REPORT_COUNT },
};

/* The most characters of a layer's arguments in a table. */
#define LAYERS_CONFIG 40

/* The sums of a layer; NULL: it had no events. */
static const struct summary_layer *
layers_find(const struct summary *summary, int64_t layer_id)
{
    const uint32_t *found = id_map_find(&summary->numbers.by_key, (uint64_t)layer_id);

    return found != NULL && *found < summary->count ? &summary->found[*found] : NULL;
}

/* The layers that have rows, logs and pools that say their chunks themselves, and which of them are next below each. */
struct layers_recorded {
    struct trace_layer_set all;
    struct trace_layer_sets next;
    struct trace_layer_set open;    /* from which a way leads to a base past all of them */
    struct trace_layer_set covered; /* by the filter */
    uint32_t *askers;               /* owns; by the index of a layer: how many of them it is next below */
};

static void
layers_free_recorded(struct layers_recorded *recorded)
{
    trace_layer_sets_free(&recorded->next);
    free(recorded->askers);
}

/* Find them; false: no memory. */
static bool
layers_find_recorded(const struct summary *summary, struct layers_recorded *out)
{
    const struct trace_layers *layers = summary->layers;

    *out = (struct layers_recorded){ .askers = calloc(layers->count + 1, sizeof(*out->askers)) };
    view_covered(summary->view, &out->covered);
    for (size_t i = 0; i < layers->count; i++) {
        const struct reserved_role *role = &summary->reserved.roles[i];

        if (trace_layer_is_log(&layers->layers[i]) || (role->may_have_chunks && role->has_rows))
            trace_layer_set_add(&out->all, i);
    }
    if (!layer_graph_next(layers, &out->all, &out->next, &out->open) || out->askers == NULL)
        return false;
    for (size_t i = 0; i < layers->count; i++) {
        if (!trace_layer_set_has(&out->all, i))
            continue;
        TRACE_LAYER_SETS_EACH(below, &out->next, i)
        out->askers[below]++;
    }
    return true;
}

/* The sums over the recorded layers next below a log: logs, and pools that say their chunks themselves. */
struct layers_below {
    bool known; /* there are such layers, all requests of both are looked at, and all that they have come from it */
    uint64_t requests;
    uint64_t time_ns;
};

/*
 * What a log in one bin has seen is not all that was passed on, and what reaches a log from two sides cannot be told
 * apart.
 */
static struct layers_below
layers_sum_below(const struct summary *summary, const struct layers_recorded *recorded, size_t at)
{
    struct layers_below below = { .known = false };
    bool is_known = !trace_layer_set_has(&recorded->open, at);

    /* A filter by size or time selects other requests here than below. */
    if (summary->view->filter.active || !trace_layer_set_has(&recorded->all, at))
        return below;
    TRACE_LAYER_SETS_EACH(i, &recorded->next, at)
    {
        const struct summary_layer *found = layers_find(summary, summary->layers->layers[i].layer_id);
        if (found == NULL || !is_known)
            continue;
        is_known = recorded->askers[i] == 1;
        below.known = true;
        below.requests += found->sums.allocations + found->sums.failures;
        below.time_ns += found->sums.time_ns;
    }
    below.known = below.known && is_known;
    return below;
}

/* How long the calls of a log took; "-" where that was not recorded. */
static const char *
layers_time(const struct summary_layer *log, char *buffer, size_t size)
{
    struct output_figure figure;

    snprintf(buffer, size, "%s", log->has_times ? output_time(&figure, (int64_t)log->sums.time_ns) : "-");
    return buffer;
}

static void
layers_report_row(struct report *report, const struct summary *summary, const struct layers_recorded *recorded,
                  size_t place)
{
    const struct view *view = summary->view;
    const struct trace_layer *layer = &view->layers.layers[place];
    const struct summary_layer *found = layers_find(summary, layer->layer_id);
    const struct summary_layer *log = found != NULL && found->asked ? found : NULL;
    const struct reserved_role *role = &summary->reserved.roles[place];
    bool covered = view->options->layers.count == 0 || trace_layer_set_has(&recorded->covered, place);
    struct reserved_figure reserved = reserved_of_layer(&summary->reserved, place);
    struct layers_below below = layers_sum_below(summary, recorded, place);
    bool passes = log != NULL && below.known;
    unsigned depth = layer->depth;
    const char *config = layer->config;
    char name[256], time[32], words[MEMORY_WORDS];

    if (!covered)
        reserved.source = RESERVED_UNKNOWN;
    snprintf(name, sizeof(name), "%*s%lld %s%s%.*s%s%s", 2 * (int)(depth < 32 ? depth : 32), "",
             (long long)layer->layer_id, layer->kind, config[0] != '\0' ? "(" : "", LAYERS_CONFIG, config,
             strlen(config) > LAYERS_CONFIG ? "..." : "", config[0] != '\0' ? ")" : "");
    REPORT_ROW(
        report, cell_text(name), cell_signed(layer->layer_id),
        layer->upstream_layer_id != 0 ? cell_signed(layer->upstream_layer_id) : cell_none(), cell_text(layer->kind),
        cell_text(layer->config), cell_unsigned(depth),
        log != NULL ? cell_unsigned(log->sums.allocations) : cell_none(),
        log != NULL ? cell_unsigned(log->sums.frees) : cell_none(),
        log != NULL ? cell_unsigned(log->sums.failures) : cell_none(),
        log != NULL ? cell_unsigned(log->sums.bytes) : cell_none(),
        log != NULL ? cell_unsigned(log->sums.peak_bytes) : cell_none(),
        log != NULL ? cell_unsigned(log->sums.live_bytes) : cell_none(),
        passes ? cell_share((double)below.requests, (double)(log->sums.allocations + log->sums.failures)) : cell_none(),
        log != NULL && log->has_times ? cell_unsigned(log->sums.time_ns) : cell_none(),
        log != NULL ? cell_text(layers_time(log, time, sizeof(time))) : cell_none(),
        passes && log->has_times && log->sums.time_ns >= below.time_ns
            ? cell_unsigned(log->sums.time_ns - below.time_ns)
            : cell_none(),
        covered && role->has_samples && !summary->reserved.is_off ? cell_unsigned(role->used_peak_bytes) : cell_none(),
        memory_peak(&reserved), memory_is_exact(&reserved),
        reserved.source != RESERVED_UNKNOWN ? cell_text(memory_words(&reserved, words, sizeof(words))) : cell_none());
}

struct layers_counts {
    const struct view *view;
    struct report *report;
};

static int
layers_count_row(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    const struct layers_counts *counts = context;
    const struct trace_layer *layer = trace_layers_find(&counts->view->layers, sqlite3_column_int64(row, 0));
    const char *name = (const char *)sqlite3_column_text(row, 1);

    (void)trace;
    if (layer != NULL)
        REPORT_ROW(counts->report, cell_signed(layer->layer_id), cell_text(layer->kind), cell_text(name),
                   cell_signed(sqlite3_column_int64(row, 2)));
    return COMMAND_FINE;
}

/* What layers have counted themselves, over the whole trace: a filter cannot tell what of it to take. */
static int
layers_report_counts(struct view *view, struct report *report)
{
    struct layers_counts counts = { view, report };

    REPORT_TABLE(report, "counts", "Counted by the layers", layers_count_columns);
    if (!trace_has(&view->trace, "layer_count", "layer_id name value"))
        return COMMAND_FINE;
    return trace_each(&view->trace, layers_count_row, &counts,
                      "SELECT layer_id, name, value FROM layer_count ORDER BY layer_id, name");
}

/* Say which allocations the report covers, unless it covers all. Without --layer, those of all logs count. */
static void
layers_report_of(struct view *view, struct report *report)
{
    struct view all = *view; /* borrows */

    if (!summary_is_part(view)) {
        report_field(report, "of", NULL, REPORT_TEXT, cell_none());
        return;
    }
    all.filter.layers.active = view->options->layers.count > 0;
    command_subject(report, &all);
}

static int
layers_analyse(struct view *view, struct report *report, const void *own)
{
    char *text = trace_meta(&view->trace, "stack");
    struct layers_recorded recorded = { .askers = NULL };
    struct summary summary;
    int status = summary_make(view, &summary);

    (void)own;
    if (status == COMMAND_FINE && !layers_find_recorded(&summary, &recorded)) {
        status = trace_broken(&view->trace, "no memory for its layers");
        summary_free(&summary);
    }
    if (status == COMMAND_FINE) {
        layers_report_of(view, report);
        report_field(report, "stack", "stack", REPORT_TEXT, cell_text(text != NULL && text[0] != '\0' ? text : NULL));
        report_field(report, "ended", view->trace.end == TRACE_CLOSED ? NULL : "ended", REPORT_TEXT,
                     cell_text(trace_end_word(&view->trace)));
        REPORT_TABLE(report, "layers", NULL, layers_columns);
        report_spare(report, LAYERS_SPARE);
        for (size_t i = 0; i < view->layers.count; i++)
            layers_report_row(report, &summary, &recorded, i);
        status = layers_report_counts(view, report);
        summary_free(&summary);
    }
    layers_free_recorded(&recorded);
    free(text);
    return status;
}

const struct command command_layers = {
    .name = "layers",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "The stack, and what each of its layers saw, passed on and took",
    .help = "\n"
            "A layer stands under those above it. Figures are of log layers; PEAK RESERVED is the most\n"
            "that a pool or base held, by its chunks, its high-water mark, or at least, by samples.\n"
            "PASSED ON is the share of the requests that reached the next logs below. IN CALLS is the\n"
            "time in the calls that a log saw, OWN what of it was not in those of the next logs below.\n"
            "Both are left out where a log is in one bin alone, or below several others. Without\n"
            "--layer all logs have figures, not only the outermost ones; with any other filter there is\n"
            "no PASSED ON and no OWN, and PEAK RESERVED with --from and --to alone. What the layers\n"
            "have counted is of the whole recording.\n",
    .common = OPTIONS_REPORT | OPTIONS_FILTER,
    .run = command_answer,
    .analyse = layers_analyse,
};
