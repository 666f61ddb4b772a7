/* `tidemark summary`: what every log layer of a trace comes to. */
#include "config.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <libsmartcols.h>

#include "viewer/command.h"
#include "viewer/output.h"
#include "viewer/summary.h"

static json_t *
summary_layer_json(const struct summary_layer *layer)
{
    json_t *object = json_object();

    json_object_set_new(object, "layer_id", json_integer(layer->layer_id));
    json_object_set_new(object, "kind", output_json_string(layer->kind));
    json_object_set_new(object, "allocations", json_integer((json_int_t)layer->allocations));
    json_object_set_new(object, "frees", json_integer((json_int_t)layer->frees));
    json_object_set_new(object, "failures", json_integer((json_int_t)layer->failures));
    json_object_set_new(object, "total_bytes", json_integer((json_int_t)layer->total_bytes));
    json_object_set_new(object, "peak_bytes", json_integer((json_int_t)layer->peak_bytes));
    json_object_set_new(object, "peak_ns", json_integer(layer->peak_ns));
    json_object_set_new(object, "peak_count", json_integer((json_int_t)layer->peak_count));
    json_object_set_new(object, "live_bytes", json_integer((json_int_t)layer->live_bytes));
    json_object_set_new(object, "live_count", json_integer((json_int_t)layer->live_count));
    if (layer->has_samples) {
        json_object_set_new(object, "reserved_bytes", json_integer((json_int_t)layer->reserved_bytes));
        json_object_set_new(object, "reserved_peak_bytes", json_integer((json_int_t)layer->reserved_peak_bytes));
    }
    return object;
}

static json_t *
summary_json(const struct summary *summary)
{
    json_t *layers = json_array();
    json_t *object = json_object();

    for (size_t i = 0; i < summary->count; i++)
        json_array_append_new(layers, summary_layer_json(&summary->found[i]));
    json_object_set_new(object, "format_version", json_integer(1));
    json_object_set_new(object, "complete", json_boolean(summary->trace->complete));
    json_object_set_new(object, "unmatched_frees", json_integer(summary->unmatched_frees));
    json_object_set_new(object, "lost_events", json_integer(summary->trace->lost_events));
    json_object_set_new(object, "layers", layers);
    json_object_set_new(object, "in_progress", json_boolean(summary->trace->in_progress));
    json_object_set_new(object, "duration_ns", json_integer(summary->end_ns));
    return object;
}

static void
summary_print_meta(const struct summary *summary, const char *key, const char *label)
{
    char *text = trace_meta(summary->trace, key);

    if (text != NULL && text[0] != '\0') {
        printf("%-10s", label);
        output_text(stdout, text, strlen(text));
        putchar('\n');
    }
    free(text);
}

static void
summary_print_head(const struct summary *summary)
{
    struct output_figure duration;
    const char *state = summary->trace->complete ? "complete" : summary->trace->in_progress ? "in progress" : "cut off";

    summary_print_meta(summary, "command", "command");
    summary_print_meta(summary, "stack", "stack");
    printf("%-10s%s, %s\n", "recorded", output_time(&duration, summary->end_ns), state);
    if (summary->unmatched_frees != 0)
        printf("%-10s%lld frees of pointers that were never seen\n", "unmatched", (long long)summary->unmatched_frees);
    if (summary->trace->lost_events != 0)
        printf("%-10s%lld events were not recorded\n", "lost", (long long)summary->trace->lost_events);
    putchar('\n');
}

static int
summary_add_row(struct libscols_table *table, const struct summary_layer *layer, bool has_samples)
{
    /* Samples are moments: below the peak, the highest of them was not the highest. */
    bool has_highest = layer->has_samples && layer->reserved_peak_bytes >= layer->peak_bytes;
    struct output_figure figures[13];
    char name[64];
    const char *cells[] = {
        name,
        output_count(&figures[0], layer->allocations),
        output_count(&figures[1], layer->frees),
        output_count(&figures[2], layer->failures),
        output_size(&figures[3], layer->total_bytes),
        output_size(&figures[4], layer->peak_bytes),
        output_time(&figures[5], layer->peak_ns),
        output_count(&figures[6], layer->peak_count),
        output_size(&figures[7], layer->live_bytes),
        output_count(&figures[8], layer->live_count),
        has_samples ? output_size(&figures[9], layer->reserved_bytes) : NULL,
        has_highest ? output_size(&figures[10], layer->reserved_peak_bytes) : NULL,
    };

    snprintf(name, sizeof(name), "%lld %s", (long long)layer->layer_id, layer->kind);
    return output_table_row(table, cells);
}

static int
summary_print(const struct summary *summary, int status)
{
    bool has_samples = false;
    struct libscols_table *table;

    for (size_t i = 0; i < summary->count; i++)
        has_samples = has_samples || summary->found[i].has_samples;
    table =
        output_table_create(has_samples ? "LAYER >ALLOCATIONS >FREES >FAILURES >TOTAL >PEAK >AT >COUNT >LIVE >COUNT"
                                          " >RESERVED >HIGHEST"
                                        : "LAYER >ALLOCATIONS >FREES >FAILURES >TOTAL >PEAK >AT >COUNT >LIVE >COUNT");
    for (size_t i = 0; table != NULL && i < summary->count; i++) {
        if (summary_add_row(table, &summary->found[i], has_samples) != 0) {
            scols_unref_table(table);
            table = NULL;
        }
    }
    if (table == NULL) {
        fputs("tidemark summary: no memory for the table\n", stderr);
        return COMMAND_WRONG;
    }
    summary_print_head(summary);
    if (summary->count > 0)
        output_table_print(table);
    else
        scols_unref_table(table);
    return output_finish(status);
}

static int
summary_show(const char *path, bool json)
{
    struct trace trace;
    struct trace_layers layers;
    struct summary summary;
    int status = trace_open(path, &trace);

    if (status != COMMAND_FINE)
        return status;
    status = trace_layers_read(&trace, &layers);
    if (status == COMMAND_FINE) {
        status = summary_make(&trace, &layers, &summary);
        if (status == COMMAND_FINE) {
            status = trace_verdict(&trace);
            status = json ? output_json(summary_json(&summary), status) : summary_print(&summary, status);
            summary_free(&summary);
        }
        trace_layers_free(&layers);
    }
    trace_close(&trace);
    return status;
}

static int
summary_run(const struct command *self, int argc, char **argv)
{
    static const struct option options[] = {
        { "help", no_argument, NULL, 'h' },
        { "json", no_argument, NULL, 'j' },
        { NULL, 0, NULL, 0 },
    };
    bool json = false;
    int option;

    while ((option = getopt_long(argc, argv, "hj", options, NULL)) != -1) {
        switch (option) {
        case 'h':
            return command_help(self);
        case 'j':
            json = true;
            break;
        default:
            return COMMAND_WRONG;
        }
    }
    if (argc - optind != 1)
        return command_misused(self, "%s", argc == optind ? "which trace?" : "one trace at a time");
    return summary_show(argv[optind], json);
}

const struct command command_summary = {
    .name = "summary",
    .arguments = "[--json] TRACE",
    .purpose = "Sum up a trace: counts, bytes, peaks and what is left, for each log layer",
    .help = "  -j, --json  print one JSON object, in bytes and nanoseconds\n"
            "  -h, --help  print this\n",
    .run = summary_run,
};
