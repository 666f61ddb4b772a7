/* Prints the result of a replay as text or JSON. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/output/json.h"
#include "viewer/output/table.h"
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
output_counter(struct json *json, const struct tide_counter *counter)
{
    json_begin(json, '{');
    json_put_signed(json, "current", counter->current);
    json_put_signed(json, "peak", counter->peak);
    json_put_signed(json, "total", counter->total);
    json_end(json, '}');
}

static void
output_layer(struct json *json, const struct stack_layer *layer)
{
    json_begin(json, '{');
    json_put_text(json, "kind", tide_resource_name(layer->resource));
    json_put_text(json, "layer", layer->text);
    if (layer->has_used)
        json_put_unsigned(json, "used_bytes", layer->used_bytes);
    if (layer->has_reserved)
        json_put_unsigned(json, "reserved_bytes", layer->reserved_bytes);
    if (layer->has_statistics) {
        json_key(json, "bytes");
        output_counter(json, &layer->statistics.bytes);
        json_key(json, "count");
        output_counter(json, &layer->statistics.count);
    }
    json_end(json, '}');
}

static int
output_json(struct emit *out, const struct replay *replay, const struct stack_report *report, const char *text)
{
    const struct replay_input *input = replay->input;
    const struct replay_result *result = &replay->result;
    struct json json = { .out = out };

    json_begin(&json, '{');
    json_put_unsigned(&json, "events", input->recorded_events);
    json_put_unsigned(&json, "allocations", result->allocations);
    json_put_unsigned(&json, "frees", result->frees);
    json_put_unsigned(&json, "failures", result->failures);
    json_put_unsigned(&json, "free_failures", result->free_failures);
    json_put_unsigned(&json, "skipped_frees", input->unknown_frees + result->skipped_frees);
    json_put_unsigned(&json, "unknown_frees", input->unknown_frees);
    json_put_unsigned(&json, "failed_frees", result->skipped_frees);
    json_put_unsigned(&json, "recorded_failures", input->recorded_failures);
    json_put_unsigned(&json, "replaced", input->replaced);
    json_put_unsigned(&json, "size_differences", input->size_differences);
    json_put_unsigned(&json, "live_count", result->left_count);
    json_put_unsigned(&json, "live_bytes", result->left_bytes);
    json_put_unsigned(&json, "threads", input->thread_count);
    json_put_unsigned(&json, "streams", input->stream_count);
    json_put_signed(&json, "total_ns", result->total_ns);
    json_put_real(&json, "event_ns", (double)result->total_ns / output_calls(replay));
    json_put_text(&json, "stack", text != NULL ? text : "");
    json_key(&json, "layers");
    json_begin(&json, '[');
    for (size_t i = 0; i < report->count; i++)
        output_layer(&json, &report->layers[i]);
    emit_string(out, "]}\n");
    return COMMAND_FINE;
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

static void
output_layer_row(struct table *table, const struct stack_layer *layer)
{
    struct output_figure figure;
    const struct tide_counter *bytes = &layer->statistics.bytes;
    const struct tide_counter *count = &layer->statistics.count;

    table_row(table);
    table_cell(table, 0, layer->text);
    if (layer->has_used)
        table_cell(table, 1, output_size(&figure, layer->used_bytes));
    if (layer->has_reserved)
        table_cell(table, 2, output_size(&figure, layer->reserved_bytes));
    if (!layer->has_statistics)
        return;
    table_cell(table, 3, output_signed_size(&figure, bytes->current));
    table_cell(table, 4, output_signed_size(&figure, bytes->peak));
    table_cell(table, 5, output_signed_size(&figure, bytes->total));
    table_cell(table, 6, output_signed(&figure, count->current));
    table_cell(table, 7, output_signed(&figure, count->peak));
    table_cell(table, 8, output_signed(&figure, count->total));
}

/* The columns of statistics layers stand last and are left out where the stack has none. */
static int
output_layers(struct emit *out, const struct stack_report *report)
{
    bool counts = false;
    struct table table;

    for (size_t i = 0; i < report->count; i++)
        counts = counts || report->layers[i].has_statistics;
    table_begin(&table, false);
    table_columns(&table, counts ? "LAYER >USED >RESERVED >LIVE >PEAK >TOTAL >COUNT >PEAK-COUNT >TOTAL-COUNT"
                                 : "LAYER >USED >RESERVED");
    for (size_t i = 0; i < report->count; i++)
        output_layer_row(&table, &report->layers[i]);
    emit_string(out, "\n");
    if (table_end(&table, out, false))
        return COMMAND_FINE;
    fputs("tidemark replay: no memory for the table\n", stderr);
    return COMMAND_WRONG;
}

/* A line that is left out where the count is 0. */
static void
output_line(struct emit *out, const char *label, uint64_t count, const char *words)
{
    if (count > 0)
        emit_format(out, "%-10s%" PRIu64 " %s\n", label, count, words);
}

static int
output_people(struct emit *out, const struct replay *replay, const struct stack_report *report, const char *text)
{
    const struct replay_input *input = replay->input;
    const struct replay_result *result = &replay->result;
    struct output_figure figure;

    if (text != NULL)
        emit_format(out, "%-10s%s\n", "stack", text);
    emit_format(out, "%-10s%" PRIu64 ": %" PRIu64 " allocations, %" PRIu64 " frees, %" PRIu64 " failures\n", "events",
                input->recorded_events, result->allocations, result->frees, result->failures);
    output_line(out, "skipped", input->unknown_frees, "frees of pointers never seen");
    output_line(out, "skipped", result->skipped_frees, "frees of allocations that failed");
    output_line(out, "skipped", input->recorded_failures, "allocations that failed when they were recorded");
    output_line(out, "refused", result->free_failures, "frees, by the stack");
    output_line(out, "replaced", input->replaced,
                "pointers allocated again while live; the earlier allocations stay live");
    output_line(out, "differ", input->size_differences, "frees that name another size than their allocation");
    if (result->left_count > 0)
        emit_format(out, "%-10s%" PRIu64 " allocations, %s, live after the last event\n", "left", result->left_count,
                    output_size(&figure, result->left_bytes));
    emit_format(out, "%-10s%s", "time", output_time(&figure, result->total_ns));
    emit_format(out, ", %.1f ns an event, %zu thread%s, %zu stream%s\n",
                (double)result->total_ns / output_calls(replay), input->thread_count,
                input->thread_count == 1 ? "" : "s", input->stream_count, input->stream_count == 1 ? "" : "s");
    return output_layers(out, report);
}

int
replay_output(const struct replay *replay, const struct stack_report *report, const char *text, bool json)
{
    struct emit out;
    int status = emit_open(&out, NULL, false);

    if (status != COMMAND_FINE)
        return status;
    status = json ? output_json(&out, replay, report, text) : output_people(&out, replay, report, text);
    return emit_close(&out, status);
}
