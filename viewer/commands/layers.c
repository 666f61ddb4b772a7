/* `tidemark layers`: the recorded stack, and the totals of each of its layers. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/commands/commands.h"
#include "viewer/analysis/summary.h"
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
    { "time_ns", "IN CALLS", REPORT_TIME },
    { "own_time_ns", "OWN", REPORT_TIME },
    { "used_peak_bytes", "USED", REPORT_SIZE },
    { "reserved_peak_bytes", "RESERVED", REPORT_SIZE },
};

#define LAYERS_SPARE                                                                                                   \
    "frees used_peak_bytes own_time_ns failures total_bytes passed_share time_ns reserved_peak_bytes live_bytes"

/* The most characters of a layer's arguments in a table. */
#define LAYERS_CONFIG 40

/* The highest samples of a base; -1: there are none. */
struct layers_samples {
    int64_t used_peak_bytes;
    int64_t reserved_peak_bytes;
};

static const struct summary_layer *
layers_find(const struct summary *summary, int64_t layer_id)
{
    for (size_t i = 0; i < summary->count; i++) {
        if (summary->found[i].layer_id == layer_id)
            return &summary->found[i];
    }
    return NULL;
}

/* The sums over the logs next below a log. */
struct layers_below {
    bool known; /* there is such a log, and all requests of both are looked at */
    uint64_t requests;
    uint64_t time_ns;
};

/* A log that is below several others counts for each of them. */
static struct layers_below
layers_sum_below(const struct summary *summary, const struct trace_layer *layer)
{
    const struct view *view = summary->view;
    struct layers_below below = { .known = false };

    /* A filter by size or time selects other requests here than below. */
    for (size_t i = 0; !view->filter.active && i < view->layers.count; i++) {
        const struct trace_layer *next = &view->layers.layers[i];
        const struct summary_layer *log =
            trace_layers_is_next_log(&view->layers, layer, next) ? layers_find(summary, next->layer_id) : NULL;

        if (log == NULL)
            continue;
        below.known = true;
        below.requests += log->allocations + log->failures;
        below.time_ns += log->time_ns;
    }
    return below;
}

/* Read the highest samples of each base into `list`, by the place of its layer. */
static int
layers_read_samples(const struct view *view, struct layers_samples *list)
{
    static const char sql[] = "SELECT layer_id, max(used_bytes), max(reserved_bytes) FROM pool_sample"
                              " WHERE ns BETWEEN ? AND ? GROUP BY 1";
    sqlite3_stmt *statement = NULL;
    int code;

    for (size_t i = 0; i < view->layers.count; i++)
        list[i] = (struct layers_samples){ -1, -1 };
    if (filter_has_rows(&view->filter))
        return COMMAND_FINE; /* reserved bytes cannot be split by tag, thread and so on */
    code = sqlite3_prepare_v2(view->trace.db, sql, -1, &statement, NULL);
    sqlite3_bind_int64(statement, 1, view->filter.from_ns);
    sqlite3_bind_int64(statement, 2, view->filter.to_ns);
    while (code == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
        const struct trace_layer *layer = trace_layers_find(&view->layers, sqlite3_column_int64(statement, 0));

        if (layer != NULL && (view->options->layers.count == 0 || view_covers(view, layer->layer_id)))
            list[layer - view->layers.layers] =
                (struct layers_samples){ sqlite3_column_int64(statement, 1), sqlite3_column_int64(statement, 2) };
    }
    code = sqlite3_finalize(statement);
    return code == SQLITE_OK ? COMMAND_FINE : trace_failed(&view->trace);
}

static void
layers_report_row(struct report *report, const struct summary *summary, size_t place,
                  const struct layers_samples *samples)
{
    const struct trace_layers *layers = &summary->view->layers;
    const struct trace_layer *layer = &layers->layers[place];
    const struct summary_layer *found = layers_find(summary, layer->layer_id);
    const struct summary_layer *log = found != NULL && found->asked ? found : NULL;
    struct layers_below below = layers_sum_below(summary, layer);
    bool passes = log != NULL && below.known;
    unsigned depth = layer->depth;
    const char *config = layer->config;
    char name[256];

    snprintf(name, sizeof(name), "%*s%lld %s%s%.*s%s%s", 2 * (int)(depth < 32 ? depth : 32), "",
             (long long)layer->layer_id, layer->kind, config[0] != '\0' ? "(" : "", LAYERS_CONFIG, config,
             strlen(config) > LAYERS_CONFIG ? "..." : "", config[0] != '\0' ? ")" : "");
    REPORT_ROW(
        report, cell_text(name), cell_signed(layer->layer_id),
        layer->upstream_layer_id != 0 ? cell_signed(layer->upstream_layer_id) : cell_none(), cell_text(layer->kind),
        cell_text(layer->config), cell_unsigned(depth), log != NULL ? cell_unsigned(log->allocations) : cell_none(),
        log != NULL ? cell_unsigned(log->frees) : cell_none(), log != NULL ? cell_unsigned(log->failures) : cell_none(),
        log != NULL ? cell_unsigned(log->total_bytes) : cell_none(),
        log != NULL ? cell_unsigned(log->peak_bytes) : cell_none(),
        log != NULL ? cell_unsigned(log->live_bytes) : cell_none(),
        passes ? cell_share((double)below.requests, (double)(log->allocations + log->failures)) : cell_none(),
        log != NULL ? cell_unsigned(log->time_ns) : cell_none(),
        passes ? cell_signed((int64_t)(log->time_ns - below.time_ns)) : cell_none(),
        samples->used_peak_bytes >= 0 ? cell_signed(samples->used_peak_bytes) : cell_none(),
        samples->reserved_peak_bytes >= 0 ? cell_signed(samples->reserved_peak_bytes) : cell_none());
}

/* Say which allocations the report covers, unless it covers all. Without --layer, those of all logs count. */
static void
layers_report_of(struct view *view, struct report *report)
{
    struct view all = *view; /* borrows */

    if (!summary_is_part(view))
        return;
    all.filter.layers.active = view->options->layers.count > 0;
    command_subject(report, &all);
}

static int
layers_analyse(struct view *view, struct report *report, const void *own)
{
    struct layers_samples *samples = calloc(view->layers.count + 1, sizeof(*samples));
    char *text = trace_meta(&view->trace, "stack");
    struct summary summary;
    int status =
        samples != NULL ? layers_read_samples(view, samples) : trace_broken(&view->trace, "no memory for its layers");

    (void)own;
    if (status == COMMAND_FINE)
        status = summary_make(view, &summary);
    if (status == COMMAND_FINE) {
        layers_report_of(view, report);
        report_field(report, "stack", "stack", REPORT_TEXT, cell_text(text != NULL && text[0] != '\0' ? text : NULL));
        report_field(report, "ended", view->trace.end == TRACE_CLOSED ? NULL : "ended", REPORT_TEXT,
                     cell_text(trace_end_word(&view->trace)));
        REPORT_TABLE(report, "layers", NULL, layers_columns);
        report_spare(report, LAYERS_SPARE);
        for (size_t i = 0; i < view->layers.count; i++)
            layers_report_row(report, &summary, i, &samples[i]);
        summary_free(&summary);
    }
    free(samples);
    free(text);
    return status;
}

const struct command command_layers = {
    .name = "layers",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "The stack, and what each of its layers saw, passed on and took",
    .help = "\n"
            "A layer stands under those above it. Figures are of log layers, and RESERVED of bases.\n"
            "PASSED ON is the share of the requests that reached the next logs below. IN CALLS is the\n"
            "time in the calls that a log saw, OWN what of it was not in those of the next logs below.\n"
            "Without --layer all logs have figures, not only the outermost ones; with any other filter\n"
            "there is no PASSED ON and no OWN, and RESERVED with --from and --to alone.\n",
    .common = OPTIONS_REPORT | OPTIONS_FILTER,
    .run = command_answer,
    .analyse = layers_analyse,
};
