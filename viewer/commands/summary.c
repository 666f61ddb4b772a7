/* `tidemark summary`: the verdict on a trace on one screen, and what every log layer of it comes to. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "viewer/commands/commands.h"
#include "viewer/read/devices.h"
#include "viewer/base/output.h"
#include "viewer/analysis/summary.h"
#include "viewer/analysis/verdict.h"
#include "viewer/read/view.h"

static const struct report_column summary_columns[] = {
    { NULL, "LAYER", REPORT_TEXT },
    { "layer_id", NULL, REPORT_COUNT },
    { "kind", NULL, REPORT_TEXT },
    { "allocations", "ALLOCATIONS", REPORT_COUNT },
    { "frees", "FREES", REPORT_COUNT },
    { "failures", "FAILURES", REPORT_COUNT },
    { "total_bytes", "TOTAL", REPORT_SIZE },
    { "peak_bytes", "PEAK", REPORT_SIZE },
    { "peak_ns", "AT", REPORT_TIME },
    { "peak_count", "COUNT", REPORT_COUNT },
    { "live_bytes", "LIVE", REPORT_SIZE },
    { "live_count", "COUNT", REPORT_COUNT },
    { "reserved_bytes", "RESERVED", REPORT_SIZE },
    { "reserved_peak_bytes", NULL, REPORT_SIZE },
    { NULL, "HIGHEST", REPORT_SIZE },
};

/* What a narrow terminal does without, the first first. */
#define SUMMARY_SPARE "frees live_count peak_count failures total_bytes"

/* Fields for people stand before the table, those for programs where they have always been. */

static void
summary_report_meta(struct view *view, const char *key)
{
    char *text = trace_meta(&view->trace, key);

    if (text != NULL && text[0] != '\0')
        report_field(&view->report, NULL, key, REPORT_TEXT, cell_text(text));
    free(text);
}

/* For people: the devices that a layer is on. */
static void
summary_report_used_devices(struct view *view, const struct trace_devices *devices)
{
    bool known = trace_has(&view->trace, "layer", "device");
    struct output_figure total;
    char text[512];

    for (size_t i = 0; known && i < devices->count; i++) {
        const struct trace_device *device = &devices->list[i];

        if (!trace_devices_is_used(&view->trace, device->ordinal))
            continue;
        snprintf(text, sizeof(text), "%lld: %s%s%s", (long long)device->ordinal, device->name,
                 device->total_bytes != 0 ? ", " : "",
                 device->total_bytes != 0 ? output_size(&total, device->total_bytes) : "");
        report_field(&view->report, NULL, "GPU", REPORT_TEXT, cell_text(text));
    }
}

/* For programs: all that the trace says the machine had. */
static void
summary_report_devices(struct view *view, const struct trace_devices *devices)
{
    static const struct report_column columns[] = {
        { "device", NULL, REPORT_COUNT },
        { "name", NULL, REPORT_TEXT },
        { "total_bytes", NULL, REPORT_SIZE },
    };

    report_table(&view->report, "devices", NULL, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < devices->count; i++) {
        const struct trace_device *device = &devices->list[i];

        report_row(&view->report, (struct report_cell[]){ cell_signed(device->ordinal), cell_text(device->name),
                                                          device->total_bytes != 0 ? cell_unsigned(device->total_bytes)
                                                                                   : cell_none() });
    }
}

static void
summary_report_head(struct view *view, const struct summary *summary, const struct trace_devices *devices)
{
    struct output_figure duration;
    char *subject = summary_is_part(view) ? view_subject(view) : NULL;
    char text[128];

    if (subject != NULL)
        report_field(&view->report, "of", "of", REPORT_TEXT, cell_text(subject));
    free(subject);
    summary_report_meta(view, "command");
    summary_report_meta(view, "stack");
    summary_report_used_devices(view, devices);
    snprintf(text, sizeof(text), "%s, %s", output_time(&duration, summary->end_ns),
             view->trace.complete      ? "complete"
             : view->trace.in_progress ? "in progress"
                                       : "cut off");
    report_field(&view->report, NULL, "recorded", REPORT_TEXT, cell_text(text));
    if (summary->unmatched_frees != 0) {
        snprintf(text, sizeof(text), "%lld %s of pointers that were not live", (long long)summary->unmatched_frees,
                 summary->unmatched_frees == 1 ? "free" : "frees");
        report_field(&view->report, NULL, "unmatched", REPORT_TEXT, cell_text(text));
    }
    if (summary->misuses != 0) {
        snprintf(text, sizeof(text), "%lld %s that `track` refused, in the table misuse", (long long)summary->misuses,
                 summary->misuses == 1 ? "call" : "calls");
        report_field(&view->report, NULL, "misused", REPORT_TEXT, cell_text(text));
    }
    if (view->trace.lost_events != 0) {
        snprintf(text, sizeof(text), "%lld events were not recorded", (long long)view->trace.lost_events);
        report_field(&view->report, NULL, "lost", REPORT_TEXT, cell_text(text));
    }
}

static void
summary_report_layer(struct report *report, const struct summary_layer *layer)
{
    /* Samples are moments: below the peak, the highest of them was not the highest. */
    bool has_highest = layer->has_samples && layer->reserved_peak_bytes >= layer->peak_bytes;
    char name[64];
    const struct report_cell cells[] = {
        cell_text(name),
        cell_signed(layer->layer_id),
        cell_text(layer->kind),
        cell_unsigned(layer->allocations),
        cell_unsigned(layer->frees),
        cell_unsigned(layer->failures),
        cell_unsigned(layer->total_bytes),
        cell_unsigned(layer->peak_bytes),
        cell_signed(layer->peak_ns),
        cell_unsigned(layer->peak_count),
        cell_unsigned(layer->live_bytes),
        cell_unsigned(layer->live_count),
        layer->has_samples ? cell_unsigned(layer->reserved_bytes) : cell_none(),
        layer->has_samples ? cell_unsigned(layer->reserved_peak_bytes) : cell_none(),
        has_highest ? cell_unsigned(layer->reserved_peak_bytes) : cell_none(),
    };

    snprintf(name, sizeof(name), "%lld %s", (long long)layer->layer_id, layer->kind);
    report_row(report, cells);
}

static int
summary_analyse(struct view *view, const void *own)
{
    struct summary summary;
    struct verdict verdict;
    struct trace_devices devices;
    bool has_devices;
    struct report *report = &view->report;
    int status = summary_make(view, &summary);

    (void)own;
    if (status != COMMAND_FINE)
        return status;
    status = verdict_make(view, &summary, &verdict);
    if (status != COMMAND_FINE) {
        summary_free(&summary);
        return status;
    }
    has_devices = trace_devices_read(&view->trace, &devices);
    summary_report_head(view, &summary, &devices);
    verdict_report_lines(report, &verdict);
    verdict_report_sentences(report, &verdict);
    report_field(report, "complete", NULL, REPORT_FLAG, cell_flag(view->trace.complete));
    report_field(report, "unmatched_frees", NULL, REPORT_COUNT, cell_signed(summary.unmatched_frees));
    report_field(report, "lost_events", NULL, REPORT_COUNT, cell_signed(view->trace.lost_events));
    report_field(report, "misuses", NULL, REPORT_COUNT, cell_signed(summary.misuses));
    report_table(report, "layers", NULL, summary_columns, sizeof(summary_columns) / sizeof(summary_columns[0]));
    report_spare(report, SUMMARY_SPARE);
    for (size_t i = 0; i < summary.count; i++) {
        if (summary.found[i].asked)
            summary_report_layer(report, &summary.found[i]);
    }
    report_field(report, "in_progress", NULL, REPORT_FLAG, cell_flag(view->trace.in_progress));
    report_field(report, "duration_ns", NULL, REPORT_TIME, cell_signed(summary.end_ns));
    verdict_report_fields(report, &verdict);
    if (has_devices)
        summary_report_devices(view, &devices);
    trace_devices_free(&devices);
    summary_free(&summary);
    return COMMAND_FINE;
}

static int
summary_run(const struct command *self, int argc, char **argv)
{
    return view_run(self, argc, argv, NULL, summary_analyse);
}

const struct command command_summary = {
    .name = "summary",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "The verdict on a trace: peaks, waste, leaks, failures, time; and each log layer",
    .help = "\n"
            "The verdict is of the outermost logs, or of those that --layer names; the table has each of\n"
            "all logs, or of those. What pools reserve is not told apart by tag, thread and so on: with\n"
            "such filters it is left out. Lost events, unmatched frees and misuses are of the whole trace.\n",
    .common = OPTIONS_REPORT | OPTIONS_FILTER,
    .run = summary_run,
};
