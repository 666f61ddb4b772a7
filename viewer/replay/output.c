/* What a replay came to, for people and for programs. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>
#include <libsmartcols.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/replay/output.h"

/* Calls that were made; 1 where there were none, to divide by. */
static double
output_calls(const struct replay *replay)
{
    const struct replay_result *result = &replay->result;
    uint64_t calls = result->allocations + result->failures + result->frees + result->free_failures;

    return calls > 0 ? (double)calls : 1;
}

static void
output_set(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

static json_t *
output_counter_json(const struct tide_counter *counter)
{
    json_t *object = json_object();

    json_object_set_new(object, "current", json_integer(counter->current));
    json_object_set_new(object, "peak", json_integer(counter->peak));
    json_object_set_new(object, "total", json_integer(counter->total));
    return object;
}

static json_t *
output_layer_json(const struct stack_layer *layer)
{
    json_t *object = json_object();

    json_object_set_new(object, "kind", output_json_string(tide_resource_name(layer->resource)));
    json_object_set_new(object, "layer", output_json_string(layer->text));
    if (layer->has_used)
        output_set(object, "used_bytes", layer->used_bytes);
    if (layer->has_reserved)
        output_set(object, "reserved_bytes", layer->reserved_bytes);
    if (layer->has_statistics) {
        json_object_set_new(object, "bytes", output_counter_json(&layer->statistics.bytes));
        json_object_set_new(object, "count", output_counter_json(&layer->statistics.count));
    }
    return object;
}

int
replay_output_json(const struct replay *replay, const struct stack_report *report, const char *text)
{
    const struct replay_input *input = replay->input;
    const struct replay_result *result = &replay->result;
    json_t *object = json_object();
    json_t *layers = json_array();

    output_set(object, "events", input->recorded_events);
    output_set(object, "allocations", result->allocations);
    output_set(object, "frees", result->frees);
    output_set(object, "failures", result->failures);
    output_set(object, "free_failures", result->free_failures);
    output_set(object, "skipped_frees", input->unknown_frees + result->skipped_frees);
    output_set(object, "unknown_frees", input->unknown_frees);
    output_set(object, "failed_frees", result->skipped_frees);
    output_set(object, "recorded_failures", input->recorded_failures);
    output_set(object, "replaced", input->replaced);
    output_set(object, "size_differences", input->size_differences);
    output_set(object, "live_count", result->left_count);
    output_set(object, "live_bytes", result->left_bytes);
    output_set(object, "threads", input->thread_count);
    output_set(object, "streams", input->stream_count);
    json_object_set_new(object, "total_ns", json_integer(result->total_ns));
    json_object_set_new(object, "event_ns", json_real((double)result->total_ns / output_calls(replay)));
    json_object_set_new(object, "stack", output_json_string(text != NULL ? text : ""));
    for (size_t i = 0; i < report->count; i++)
        json_array_append_new(layers, output_layer_json(&report->layers[i]));
    json_object_set_new(object, "layers", layers);
    return output_json(object, COMMAND_FINE);
}

static const char *
output_signed_size(struct output_figure *figure, int64_t bytes)
{
    if (bytes >= 0)
        return output_size(figure, (uint64_t)bytes);
    snprintf(figure->text, sizeof(figure->text), "%" PRId64 " B", bytes);
    return figure->text;
}

static const char *
output_signed(struct output_figure *figure, int64_t count)
{
    snprintf(figure->text, sizeof(figure->text), "%" PRId64, count);
    return figure->text;
}

static int
output_layer_row(struct libscols_table *table, const struct stack_layer *layer)
{
    struct output_figure figures[8];
    const struct tide_statistics_figures *statistics = &layer->statistics;
    bool counts = layer->has_statistics;
    const char *cells[] = {
        layer->text,
        layer->has_used ? output_size(&figures[0], layer->used_bytes) : NULL,
        layer->has_reserved ? output_size(&figures[1], layer->reserved_bytes) : NULL,
        counts ? output_signed_size(&figures[2], statistics->bytes.current) : NULL,
        counts ? output_signed_size(&figures[3], statistics->bytes.peak) : NULL,
        counts ? output_signed_size(&figures[4], statistics->bytes.total) : NULL,
        counts ? output_signed(&figures[5], statistics->count.current) : NULL,
        counts ? output_signed(&figures[6], statistics->count.peak) : NULL,
        counts ? output_signed(&figures[7], statistics->count.total) : NULL,
    };

    return output_table_row(table, cells);
}

/* The columns of statistics layers stand last and are left out where the stack has none. */
static int
output_layers(const struct stack_report *report)
{
    bool counts = false;
    struct libscols_table *table;

    for (size_t i = 0; i < report->count; i++)
        counts = counts || report->layers[i].has_statistics;
    table = output_table_create(counts ? "LAYER >USED >RESERVED >LIVE >PEAK >TOTAL >COUNT >PEAK-COUNT >TOTAL-COUNT"
                                       : "LAYER >USED >RESERVED");
    for (size_t i = 0; table != NULL && i < report->count; i++) {
        if (output_layer_row(table, &report->layers[i]) != 0) {
            scols_unref_table(table);
            table = NULL;
        }
    }
    if (table == NULL) {
        fputs("tidemark replay: no memory for the table\n", stderr);
        return COMMAND_WRONG;
    }
    putchar('\n');
    output_table_print(table);
    return COMMAND_FINE;
}

/* A line that is left out where the count is 0. */
static void
output_line(const char *label, uint64_t count, const char *words)
{
    if (count > 0)
        printf("%-10s%" PRIu64 " %s\n", label, count, words);
}

int
replay_output_print(const struct replay *replay, const struct stack_report *report, const char *text)
{
    const struct replay_input *input = replay->input;
    const struct replay_result *result = &replay->result;
    struct output_figure figure;

    if (text != NULL)
        printf("%-10s%s\n", "stack", text);
    printf("%-10s%" PRIu64 ": %" PRIu64 " allocations, %" PRIu64 " frees, %" PRIu64 " failures\n", "events",
           input->recorded_events, result->allocations, result->frees, result->failures);
    output_line("skipped", input->unknown_frees, "frees of pointers never seen");
    output_line("skipped", result->skipped_frees, "frees of allocations that failed");
    output_line("skipped", input->recorded_failures, "allocations that failed when they were recorded");
    output_line("refused", result->free_failures, "frees, by the stack");
    output_line("replaced", input->replaced, "pointers allocated again while live; the earlier allocations stay live");
    output_line("differ", input->size_differences, "frees that name another size than their allocation");
    if (result->left_count > 0)
        printf("%-10s%" PRIu64 " allocations, %s, live after the last event\n", "left", result->left_count,
               output_size(&figure, result->left_bytes));
    printf("%-10s%s", "time", output_time(&figure, result->total_ns));
    printf(", %.1f ns an event, %zu thread%s, %zu stream%s\n", (double)result->total_ns / output_calls(replay),
           input->thread_count, input->thread_count == 1 ? "" : "s", input->stream_count,
           input->stream_count == 1 ? "" : "s");
    return output_finish(output_layers(report));
}
