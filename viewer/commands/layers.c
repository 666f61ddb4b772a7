/* `tidemark layers`: the recorded stack, and the totals of each of its layers. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/cli/answer.h"
#include "viewer/commands/commands.h"
#include "viewer/read/samples.h"
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

/* What a narrow terminal does without, the first first. */
#define LAYERS_SPARE                                                                                                   \
    "frees used_peak_bytes own_time_ns failures total_bytes passed_share time_ns reserved_peak_bytes live_bytes"

/* Of a layer's arguments people see so many characters. */
#define LAYERS_CONFIG 40

#define LAYERS_COLUMNS (sizeof(layers_columns) / sizeof(layers_columns[0]))

/* Of a base; -1: none. */
struct layers_samples {
    int64_t used_peak_bytes;
    int64_t reserved_peak_bytes;
};

/* What is known of one layer. */
struct layers_row {
    const struct trace_layer *layer;
    const struct summary_layer *log; /* NULL: it is none, or was not asked */
    unsigned depth;
    uint64_t below_allocations; /* of the logs next below it */
    uint64_t below_time_ns;
    bool has_below; /* and all requests of both are looked at */
    struct layers_samples samples;
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

/* What the logs next below a log did. One that several are above of is counted for each. */
static void
layers_below(const struct view *view, const struct summary *summary, struct layers_row *row)
{
    /* A size or a time tells other requests from each other than it does below. */
    for (size_t i = 0; !view->filter.active && i < view->layers.count; i++) {
        const struct trace_layer *below = &view->layers.layers[i];
        const struct summary_layer *log;

        if (!trace_layers_is_next_log(&view->layers, row->layer, below))
            continue;
        log = layers_find(summary, below->layer_id);
        if (log == NULL)
            continue;
        row->has_below = true;
        row->below_allocations += log->sums.allocations + log->sums.failures;
        row->below_time_ns += log->sums.time_ns;
    }
}

/* The most of each base's samples, by the place of its layer. */
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
        return COMMAND_FINE; /* what pools reserve is for all */
    code = sqlite3_prepare_v2(view->trace.db, sql, -1, &statement, NULL);
    sqlite3_bind_int64(statement, 1, view->filter.from_ns);
    sqlite3_bind_int64(statement, 2, view->filter.to_ns);
    while (code == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
        const struct trace_layer *layer = trace_layers_find(&view->layers, sqlite3_column_int64(statement, 0));

        if (layer != NULL && (view->options->layers.count == 0 || samples_counts(view, layer->layer_id)))
            list[layer - view->layers.layers] =
                (struct layers_samples){ sqlite3_column_int64(statement, 1), sqlite3_column_int64(statement, 2) };
    }
    code = sqlite3_finalize(statement);
    return code == SQLITE_OK ? COMMAND_FINE : trace_failed(&view->trace);
}

static void
layers_report_row(struct report *report, const struct layers_row *row)
{
    const struct summary_layer *log = row->log;
    bool passes = log != NULL && row->has_below;
    const char *config = row->layer->config;
    char name[256];
    const struct report_cell cells[LAYERS_COLUMNS] = {
        cell_text(name),
        cell_signed(row->layer->layer_id),
        row->layer->upstream_layer_id != 0 ? cell_signed(row->layer->upstream_layer_id) : cell_none(),
        cell_text(row->layer->kind),
        cell_text(row->layer->config),
        cell_unsigned(row->depth),
        log != NULL ? cell_unsigned(log->sums.allocations) : cell_none(),
        log != NULL ? cell_unsigned(log->sums.frees) : cell_none(),
        log != NULL ? cell_unsigned(log->sums.failures) : cell_none(),
        log != NULL ? cell_unsigned(log->sums.bytes) : cell_none(),
        log != NULL ? cell_unsigned(log->sums.peak_bytes) : cell_none(),
        log != NULL ? cell_unsigned(log->sums.live_bytes) : cell_none(),
        passes ? cell_share((double)row->below_allocations, (double)(log->sums.allocations + log->sums.failures))
               : cell_none(),
        log != NULL ? cell_unsigned(log->sums.time_ns) : cell_none(),
        passes ? cell_signed((int64_t)(log->sums.time_ns - row->below_time_ns)) : cell_none(),
        row->samples.used_peak_bytes >= 0 ? cell_signed(row->samples.used_peak_bytes) : cell_none(),
        row->samples.reserved_peak_bytes >= 0 ? cell_signed(row->samples.reserved_peak_bytes) : cell_none(),
    };

    snprintf(name, sizeof(name), "%*s%lld %s%s%.*s%s%s", 2 * (int)(row->depth < 32 ? row->depth : 32), "",
             (long long)row->layer->layer_id, row->layer->kind, config[0] != '\0' ? "(" : "", LAYERS_CONFIG, config,
             strlen(config) > LAYERS_CONFIG ? "..." : "", config[0] != '\0' ? ")" : "");
    report_row(report, cells);
}

/* Say which allocations are looked at, where not all are: here of all logs, unless some are named. */
static void
layers_report_of(struct view *view, struct report *report)
{
    struct view all = *view; /* borrows */

    if (!summary_is_part(view))
        return;
    all.filter.layers.active = view->options->layers.count > 0;
    answer_subject(report, &all);
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
        report_table(report, "layers", NULL, layers_columns, LAYERS_COLUMNS);
        report_spare(report, LAYERS_SPARE);
        for (size_t i = 0; i < view->layers.count; i++) {
            const struct trace_layer *layer = &view->layers.layers[i];
            struct layers_row row = { .layer = layer, .depth = trace_layers_depth(&view->layers, i) };

            row.log = layers_find(&summary, layer->layer_id);
            if (row.log != NULL && !row.log->asked)
                row.log = NULL;
            row.samples = samples[i];
            layers_below(view, &summary, &row);
            layers_report_row(report, &row);
        }
        summary_free(&summary);
    }
    free(samples);
    free(text);
    return status;
}

static int
layers_run(const struct command *self, int argc, char **argv)
{
    return answer_run(self, argc, argv, NULL, layers_analyse);
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
    .run = layers_run,
};
