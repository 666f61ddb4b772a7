/* Asks the layers of a stack for their figures, and prints them with the result of a replay. */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/log.h>
#include <tidemark/stack.h>

#include "src/tables/grow.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/output/json.h"
#include "viewer/output/report-item.h"
#include "viewer/replay/report.h"

static bool
report_has(const struct replay_report *report, const struct tide_resource *resource)
{
    for (size_t i = 0; i < report->count; i++) {
        if (report->layers[i].resource == resource)
            return true;
    }
    return false;
}

/* Add all layers below `resource`, then `resource` itself: the final order in reverse. */
static bool
report_visit(struct replay_report *report, struct tide_resource *resource)
{
    struct tide_upstream upstream;
    size_t below = 0;

    if (report_has(report, resource))
        return true;
    while (resource->ops->upstream_at(resource, below, &upstream) == TIDE_OK)
        below++;
    /* Upstream 0 serves what no bin serves. Bins come from the largest down, so that they end up in their order. */
    for (size_t i = 0; i < below; i++) {
        size_t index = i == 0 ? 0 : below - i;

        if (resource->ops->upstream_at(resource, index, &upstream) == TIDE_OK &&
            !report_visit(report, upstream.resource))
            return false;
    }
    if (!tidei_grow(&report->layers, &report->capacity, report->count, 1))
        return false;
    report->layers[report->count++] = (struct report_layer){ .resource = resource };
    return true;
}

static void
report_ask(struct report_layer *layer, bool counted)
{
    struct tide_resource *resource = layer->resource;
    struct tide_resource *below = resource->upstream;
    char arguments[128] = "";
    struct tide_text text = { .data = arguments, .capacity = sizeof(arguments) };

    resource->ops->describe(resource, &text);
    snprintf(layer->text, sizeof(layer->text), text.length > 0 ? "%s(%s%s)" : "%s", tide_resource_name(resource),
             arguments, text.length >= sizeof(arguments) ? "..." : "");
    layer->has_used = tide_query(resource, TIDE_QUERY_BYTES_USED, &layer->used_bytes) == TIDE_OK;
    layer->has_reserved = tide_query(resource, TIDE_QUERY_BYTES_RESERVED, &layer->reserved_bytes) == TIDE_OK;
    layer->has_reserved_peak =
        tide_query(resource, TIDE_QUERY_BYTES_RESERVED_HIGH, &layer->reserved_peak_bytes) == TIDE_OK;
    layer->statistics.struct_size = sizeof(layer->statistics);
    layer->has_statistics = tide_statistics_read(resource, &layer->statistics) == TIDE_OK;
    layer->kind = tide_resource_name(resource);
    layer->is_counter = counted && layer->has_statistics && below != NULL && below->upstream == NULL;
}

/* Whether `name`, the beginning of a layer in stack text, is a base: a stack by itself. */
static bool
report_is_base(const char *name, size_t length)
{
    char word[64];

    if (length == 0 || length >= sizeof(word))
        return false;
    memcpy(word, name, length);
    word[length] = '\0';
    return tide_stack_check(word, NULL, 0, NULL) == TIDE_OK;
}

char *
replay_counted_text(const char *text)
{
    char *counted = NULL;
    size_t size;
    FILE *out = open_memstream(&counted, &size);
    bool begins = true; /* a layer may begin here */
    bool quoted = false;

    while (out != NULL && *text != '\0') {
        size_t name = begins && !quoted ? strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789") : 0;

        if (report_is_base(text, name))
            fputs("statistics | ", out);
        if (name == 0) {
            if (quoted && *text == '\\' && text[1] != '\0')
                putc(*text++, out);
            else if (*text == '"')
                quoted = !quoted;
            begins = !quoted && (*text == '|' || *text == '{' || (begins && strchr(" \t\r\n", *text) != NULL));
            putc(*text++, out);
            continue;
        }
        fwrite(text, 1, name, out);
        text += name;
        begins = false;
    }
    if (out != NULL && fclose(out) == 0)
        return counted;
    free(counted);
    return NULL;
}

/* The only base, where it knows the most that it had reserved; else NULL. */
static const struct report_layer *
report_only_base(const struct replay_report *report)
{
    const struct report_layer *found = NULL;
    struct tide_upstream below;
    size_t bases = 0;

    for (size_t i = 0; i < report->count; i++) {
        struct tide_resource *resource = report->layers[i].resource;

        if (resource->ops->upstream_at(resource, 0, &below) == TIDE_OK)
            continue;
        found = &report->layers[i];
        bases++;
    }
    return bases == 1 && found->has_reserved_peak ? found : NULL;
}

/* Add up the calls of the bases, and find what was reserved at the most. */
static void
report_totals(struct tide_resource *stack, bool counted, struct replay_report *report)
{
    const struct report_layer *base = report_only_base(report);
    uint64_t bases_bytes = 0;
    size_t bases = 0;

    report->has_chunks = counted;
    for (size_t i = 0; i < report->count; i++) {
        const struct report_layer *layer = &report->layers[i];

        if (!layer->is_counter)
            continue;
        report->chunks += (uint64_t)layer->statistics.count.total;
        report->calls += (uint64_t)(2 * layer->statistics.count.total - layer->statistics.count.current);
        bases_bytes += (uint64_t)layer->statistics.bytes.peak;
        bases += layer->statistics.bytes.peak > 0;
    }
    report->has_reserved_peak =
        tide_query(stack, TIDE_QUERY_BYTES_RESERVED_HIGH, &report->reserved_peak_bytes) == TIDE_OK;
    /* The most of several bases need not have been at the same time. */
    if (!report->has_reserved_peak && counted && bases < 2) {
        report->has_reserved_peak = true;
        report->reserved_peak_bytes = bases_bytes;
    }
    /* A pool above another one says what it has of that, not what that one has reserved. */
    if (base != NULL) {
        report->has_reserved_peak = true;
        report->reserved_peak_bytes = base->reserved_peak_bytes;
    }
}

static char *
report_stack_text(struct tide_resource *stack)
{
    size_t needed = 0;
    char *text;

    tide_describe(stack, NULL, 0, &needed);
    text = malloc(needed + 1);
    if (text != NULL && tide_describe(stack, text, needed + 1, NULL) != TIDE_OK)
        text[0] = '\0';
    return text;
}

int
replay_report_make(struct tide_resource *stack, const char *counted, struct replay_report *out)
{
    *out = (struct replay_report){ .stack = counted != NULL ? strdup(counted) : report_stack_text(stack) };
    if (out->stack == NULL || !report_visit(out, stack)) {
        message("tidemark: no memory for the layers of the stack");
        replay_report_free(out);
        return COMMAND_WRONG;
    }
    for (size_t i = 0; i < out->count / 2; i++) {
        struct report_layer layer = out->layers[i];

        out->layers[i] = out->layers[out->count - 1 - i];
        out->layers[out->count - 1 - i] = layer;
    }
    for (size_t i = 0; i < out->count; i++)
        report_ask(&out->layers[i], counted != NULL);
    report_totals(stack, counted != NULL, out);
    return COMMAND_FINE;
}

bool
replay_has_log(struct tide_resource *stack)
{
    struct replay_report layers = { 0 };
    bool found = false;

    report_visit(&layers, stack);
    for (size_t i = 0; i < layers.count; i++)
        found = found || strcmp(tide_resource_name(layers.layers[i].resource), "log") == 0;
    replay_report_free(&layers);
    return found;
}

bool
replay_find_device(struct tide_resource *stack, int *ordinal)
{
    struct replay_report layers = { 0 };
    bool found = false, on_device = false;
    uint64_t device;

    *ordinal = 0;
    report_visit(&layers, stack);
    for (size_t i = 0; i < layers.count && !on_device; i++) {
        struct tide_resource *resource = layers.layers[i].resource;

        if (resource->upstream != NULL)
            continue;
        on_device = tide_query(resource, TIDE_QUERY_DEVICE, &device) == TIDE_OK && device <= INT_MAX;
        if (on_device)
            *ordinal = (int)device;
        /* Pinned memory lies on no device, and yet its base knows one. */
        found = found || on_device || tide_query(resource, TIDE_QUERY_DEVICE_TOTAL, &device) == TIDE_OK;
    }
    replay_report_free(&layers);
    return found;
}

/* The trace that a log records; NULL: none, or no memory, which *failed then says. The caller frees it. */
static char *
report_trace(struct tide_resource *log, bool *failed)
{
    size_t needed;
    char *path;

    if (strcmp(tide_resource_name(log), "log") != 0 || tide_log_path(log, NULL, 0, &needed) != TIDE_OK)
        return NULL;
    path = malloc(needed + 1);
    *failed = path == NULL;
    if (path != NULL && tide_log_path(log, path, needed + 1, NULL) != TIDE_OK)
        path[0] = '\0';
    return path;
}

bool
replay_report_traces(const struct replay_report *report, char ***paths, size_t *count)
{
    bool failed = false;

    *count = 0;
    *paths = calloc(report->count + 1, sizeof(**paths));
    for (size_t i = 0; *paths != NULL && !failed && i < report->count; i++) {
        char *path = report_trace(report->layers[i].resource, &failed);
        bool known = path == NULL;

        for (size_t j = 0; !known && j < *count; j++)
            known = strcmp((*paths)[j], path) == 0;
        if (known)
            free(path);
        else
            (*paths)[(*count)++] = path;
    }
    return *paths != NULL && !failed;
}

void
replay_report_free(struct replay_report *report)
{
    free(report->layers);
    free(report->stack);
    *report = (struct replay_report){ 0 };
}

/* The time of a call, without what was waited for. */
static double
report_event_ns(const struct replay *replay)
{
    const struct replay_result *result = &replay->result;
    uint64_t calls = result->allocations + result->failures + result->frees + result->free_failures;

    return (double)(result->total_ns - result->waited_ns) / (calls > 0 ? (double)calls : 1);
}

static void
report_number(struct json *json, bool known, uint64_t value)
{
    if (known)
        json_unsigned(json, value);
    else
        json_word(json, "null");
}

/* A field with a literal key; null unless `known`. */
#define report_known(json, name, known, value) (json_key(json, name), report_number(json, known, value))

static void
report_counter(struct json *json, const struct tide_counter *counter)
{
    if (counter == NULL) {
        json_word(json, "null");
        return;
    }
    json_begin(json, '{');
    json_put_signed(json, "current", counter->current);
    json_put_signed(json, "peak", counter->peak);
    json_put_signed(json, "total", counter->total);
    json_end(json, '}');
}

static void
report_layer(struct json *json, const struct report_layer *layer)
{
    json_begin(json, '{');
    json_put_text(json, "kind", layer->kind);
    json_put_text(json, "layer", layer->text);
    report_known(json, "used_bytes", layer->has_used, layer->used_bytes);
    report_known(json, "reserved_bytes", layer->has_reserved, layer->reserved_bytes);
    report_known(json, "reserved_peak_bytes", layer->has_reserved_peak, layer->reserved_peak_bytes);
    json_key(json, "bytes");
    report_counter(json, layer->has_statistics ? &layer->statistics.bytes : NULL);
    json_key(json, "count");
    report_counter(json, layer->has_statistics ? &layer->statistics.count : NULL);
    json_end(json, '}');
}

/* null where the value is below 0. */
static void
report_mean(struct json *json, double value)
{
    if (value < 0)
        json_word(json, "null");
    else
        json_real(json, value);
}

/* The fields of a replay with a time scale; without one all are null. */
static void
report_pace(struct json *json, const struct replay *replay)
{
    const struct replay_result *result = &replay->result;
    bool paced = replay->options.time_scale > 0;

    json_key(json, "time_scale");
    report_mean(json, paced ? replay->options.time_scale : -1);
    report_known(json, "waited_ns", paced, (uint64_t)result->waited_ns);
    report_known(json, "late_median_ns", paced, (uint64_t)result->late.median_ns);
    report_known(json, "late_p99_ns", paced, (uint64_t)result->late.p99_ns);
    report_known(json, "late_most_ns", paced, (uint64_t)result->late.most_ns);
    json_key(json, "live_mean_bytes");
    report_mean(json, paced ? result->live_mean_bytes : -1);
    json_key(json, "reserved_mean_bytes");
    report_mean(json, paced ? result->reserved_mean_bytes : -1);
}

static void
report_json(struct json *json, const struct replay_outcome *outcome)
{
    const struct replay_report *report = &outcome->report;
    const struct replay *replay = &outcome->replay;
    const struct replay_input *input = replay->input;
    const struct replay_result *result = &replay->result;

    json_begin(json, '{');
    json_put_unsigned(json, "format_version", 1);
    json_put_unsigned(json, "events", input->recorded_events);
    json_put_unsigned(json, "allocations", result->allocations);
    json_put_unsigned(json, "frees", result->frees);
    json_put_unsigned(json, "failures", result->failures);
    json_put_unsigned(json, "free_failures", result->free_failures);
    json_put_unsigned(json, "skipped_frees", input->unknown_frees + result->skipped_frees);
    json_put_unsigned(json, "unknown_frees", input->unknown_frees);
    json_put_unsigned(json, "failed_frees", result->skipped_frees);
    json_put_unsigned(json, "recorded_failures", input->recorded_failures);
    json_put_unsigned(json, "replaced", input->replaced);
    json_put_unsigned(json, "size_differences", input->size_differences);
    json_put_unsigned(json, "live_count", result->left_count);
    json_put_unsigned(json, "live_bytes", result->left_bytes);
    json_put_unsigned(json, "peak_bytes", result->peak_bytes);
    report_known(json, "reserved_peak_bytes", report->has_reserved_peak, report->reserved_peak_bytes);
    report_known(json, "chunks", report->has_chunks, report->chunks);
    report_known(json, "calls", report->has_chunks, report->calls);
    report_known(json, "stopped_at", result->stopped_at != 0, result->stopped_at);
    json_key(json, "first_failure");
    if (result->first_failure[0] != '\0')
        json_text(json, result->first_failure);
    else
        json_word(json, "null");
    json_put_unsigned(json, "threads_count", input->thread_count);
    json_put_unsigned(json, "streams_count", input->stream_count);
    json_put_signed(json, "duration_ns", result->total_ns);
    json_put_real(json, "event_ns", report_event_ns(replay));
    report_pace(json, replay);
    json_put_text(json, "stack", report->stack);
    json_key(json, "layers");
    json_begin(json, '[');
    for (size_t i = 0; i < report->count; i++) {
        if (!report->layers[i].is_counter)
            report_layer(json, &report->layers[i]);
    }
    json_end(json, ']');
    json_end(json, '}');
}

static const char *
report_signed_size(struct output_figure *figure, int64_t bytes)
{
    if (bytes >= 0)
        return output_size(figure, (uint64_t)bytes);
    snprintf(figure->text, sizeof(figure->text), "%" PRId64 " B", bytes);
    return figure->text;
}

static const char *
report_signed(struct output_figure *figure, int64_t count)
{
    snprintf(figure->text, sizeof(figure->text), "%" PRId64, count);
    return figure->text;
}

static struct report_cell
report_size(struct output_figure *figure, bool known, uint64_t bytes)
{
    return known ? cell_text(output_size(figure, bytes)) : cell_none();
}

static void
report_layer_row(struct report *answer, const struct report_layer *layer)
{
    const struct tide_counter *bytes = &layer->statistics.bytes;
    const struct tide_counter *count = &layer->statistics.count;
    bool counts = layer->has_statistics;
    struct output_figure used, reserved, live, peak, total, now, most, all;
    char least[48];

    /* What a layer that does not know the most has reserved at the end is the least that the most was. */
    snprintf(least, sizeof(least), "%s%s", layer->has_reserved_peak ? "" : "at least ",
             output_size(&reserved, layer->has_reserved_peak ? layer->reserved_peak_bytes : layer->reserved_bytes));
    REPORT_ROW(answer, cell_text(layer->text), report_size(&used, layer->has_used, layer->used_bytes),
               layer->has_reserved_peak || layer->has_reserved ? cell_text(least) : cell_none(),
               counts ? cell_text(report_signed_size(&live, bytes->current)) : cell_none(),
               counts ? cell_text(report_signed_size(&peak, bytes->peak)) : cell_none(),
               counts ? cell_text(report_signed_size(&total, bytes->total)) : cell_none(),
               counts ? cell_text(report_signed(&now, count->current)) : cell_none(),
               counts ? cell_text(report_signed(&most, count->peak)) : cell_none(),
               counts ? cell_text(report_signed(&all, count->total)) : cell_none());
}

/* The columns of statistics layers come last, and are empty if the stack has no such layer. */
static void
report_layers(struct report *answer, const struct replay_report *report)
{
    static const struct report_column columns[] = {
        { NULL, "LAYER", REPORT_NAME },           { NULL, "USED", REPORT_FIGURE },
        { NULL, "PEAK RESERVED", REPORT_FIGURE }, { NULL, "LIVE", REPORT_FIGURE },
        { NULL, "PEAK", REPORT_FIGURE },          { NULL, "TOTAL", REPORT_FIGURE },
        { NULL, "COUNT", REPORT_FIGURE },         { NULL, "PEAK COUNT", REPORT_FIGURE },
        { NULL, "TOTAL COUNT", REPORT_FIGURE },
    };

    REPORT_TABLE(answer, "layers", NULL, columns);
    report_spare(answer, "#8 #6 #7 #5 #3 #1");
    for (size_t i = 0; i < report->count; i++)
        report_layer_row(answer, &report->layers[i]);
}

/* Add a line unless the count is 0. */
static void
report_line(struct report *answer, const char *label, uint64_t count, const char *words)
{
    if (count > 0)
        report_label(answer, label, "%" PRIu64 " %s", count, words);
}

/* What a replay with a time scale has besides; `of` says which of several. */
static void
report_pace_lines(struct report *answer, const struct replay *replay, const char *of)
{
    const struct replay_result *result = &replay->result;
    struct output_figure one, other, third;

    if (replay->options.time_scale <= 0)
        return;
    if (result->live_mean_bytes >= 0 && result->reserved_mean_bytes >= 0)
        report_label(answer, "mean", "%s live, %s reserved over time%s",
                     output_size(&one, (uint64_t)result->live_mean_bytes),
                     output_size(&other, (uint64_t)result->reserved_mean_bytes), of);
    report_label(answer, "late", "events began %s after they were due in the median, %s at p99, %s at the most%s",
                 output_time(&one, result->late.median_ns), output_time(&other, result->late.p99_ns),
                 output_time(&third, result->late.most_ns), of);
}

static void
report_people(struct report *answer, const struct replay *replay, const struct replay_report *report)
{
    const struct replay_input *input = replay->input;
    const struct replay_result *result = &replay->result;
    struct output_figure one, other;

    report_field(answer, NULL, "stack", REPORT_TEXT, cell_text(report->stack));
    report_label(answer, "events", "%" PRIu64 ": %" PRIu64 " allocations, %" PRIu64 " frees, %" PRIu64 " failures",
                 input->recorded_events, result->allocations, result->frees, result->failures);
    report_line(answer, "skipped", input->unknown_frees, "frees of pointers never seen");
    report_line(answer, "skipped", result->skipped_frees, "frees of allocations that failed");
    report_line(answer, "skipped", input->recorded_failures, "allocations that failed when they were recorded");
    report_line(answer, "refused", result->free_failures, "frees, by the stack");
    report_line(answer, "replaced", input->replaced,
                "pointers allocated again while live; the earlier allocations stay live");
    report_line(answer, "differ", input->size_differences, "frees that name another size than their allocation");
    if (result->left_count > 0)
        report_label(answer, "left", "%" PRIu64 " allocations, %s, live after the last event", result->left_count,
                     output_size(&one, result->left_bytes));
    if (result->stopped_at > 0)
        report_label(answer, "stopped", "at event %zu, at the first failure", result->stopped_at);
    if (report->has_reserved_peak)
        report_label(answer, "peak", "%s live, %s reserved", output_size(&one, result->peak_bytes),
                     output_size(&other, report->reserved_peak_bytes));
    else
        report_label(answer, "peak", "%s live", output_size(&one, result->peak_bytes));
    report_label(answer, "time", "%s, %.1f ns an event, %zu thread%s, %zu stream%s",
                 output_time(&one, result->total_ns), report_event_ns(replay), input->thread_count,
                 input->thread_count == 1 ? "" : "s", input->stream_count, input->stream_count == 1 ? "" : "s");
    report_pace_lines(answer, replay, "");
    report_layers(answer, report);
}

static void
report_stack_row(struct report *answer, const struct replay_outcome *outcome)
{
    const struct replay_report *report = &outcome->report;
    const struct replay_result *result = &outcome->replay.result;
    struct output_figure live, reserved;
    char time[48];

    snprintf(time, sizeof(time), "%.1f ns", report_event_ns(&outcome->replay));
    REPORT_ROW(answer, cell_text(output_size(&live, result->peak_bytes)),
               report_size(&reserved, report->has_reserved_peak, report->reserved_peak_bytes),
               cell_unsigned(result->failures), cell_unsigned(report->chunks), cell_unsigned(report->calls),
               cell_text(time), cell_text(report->stack));
}

/* Several stacks side by side. */
static void
report_stacks(struct report *answer, const struct replay_outcome *outcomes, size_t count)
{
    static const struct report_column columns[] = {
        { NULL, "PEAK LIVE", REPORT_FIGURE }, { NULL, "PEAK RESERVED", REPORT_FIGURE },
        { NULL, "FAILURES", REPORT_COUNT },   { NULL, "CHUNKS", REPORT_COUNT },
        { NULL, "CALLS", REPORT_COUNT },      { NULL, "AN EVENT", REPORT_FIGURE },
        { NULL, "STACK", REPORT_NAME },
    };

    char of[200];

    report_label(answer, "events", "%" PRIu64, outcomes[0].replay.input->recorded_events);
    for (size_t i = 0; i < count; i++) {
        if (outcomes[i].replay.result.stopped_at > 0)
            report_label(answer, "stopped", "at event %zu, at the first failure: %s",
                         outcomes[i].replay.result.stopped_at, outcomes[i].report.stack);
    }
    for (size_t i = 0; i < count; i++) {
        snprintf(of, sizeof(of), ": %.180s", outcomes[i].report.stack);
        report_pace_lines(answer, &outcomes[i].replay, of);
    }
    REPORT_TABLE(answer, "stacks", NULL, columns);
    report_spare(answer, "#4 #3 #5 #0 #2");
    for (size_t i = 0; i < count; i++)
        report_stack_row(answer, &outcomes[i]);
}

/* For people: an answer as that of other commands, which fits the screen. */
static int
report_write_people(struct emit *out, const struct replay_outcome *outcomes, size_t count)
{
    static const struct report_options options = { .format = REPORT_TABLE, .color = REPORT_COLOR_NEVER };
    struct report answer;
    bool failed;

    report_begin(&answer, &options, "replay");
    if (count > 1)
        report_stacks(&answer, outcomes, count);
    else
        report_people(&answer, &outcomes->replay, &outcomes->report);
    failed = answer.failed;
    if (!failed)
        report_write_table(&answer, out);
    report_end(&answer);
    if (failed)
        message("tidemark replay: no memory for the answer");
    return failed ? COMMAND_WRONG : COMMAND_FINE;
}

int
replay_report_print(const struct replay_outcome *outcomes, size_t count, bool json)
{
    struct emit out;
    struct json writer = { .out = &out };
    int status = emit_open(&out, NULL, false);

    if (status != COMMAND_FINE)
        return status;
    if (json) {
        if (count > 1)
            json_begin(&writer, '[');
        for (size_t i = 0; i < count; i++)
            report_json(&writer, &outcomes[i]);
        emit_string(&out, count > 1 ? "]\n" : "\n");
    } else {
        status = report_write_people(&out, outcomes, count);
    }
    return emit_close(&out, status);
}
