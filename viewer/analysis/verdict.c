/* What a summary comes to in words. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/analysis/verdict.h"

/* Sentences that are printed. */
#define VERDICT_SENTENCES 3

/* From these shares on something is worth a word. */
#define VERDICT_WASTE 0.1
#define VERDICT_NEAR  0.9
#define VERDICT_SHORT 0.5

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
    /* Samples are moments, and the lowest log sees all. */
    if (summary->has_lowest && total->held_peak_bytes >= out->reserved_peak_bytes) {
        out->source = VERDICT_LAYERS;
        out->reserved_peak_bytes = total->held_peak_bytes;
    }
    samples_free(&samples);
    out->rounding_bytes = (int64_t)(total->peak_rounded_bytes - total->peak_bytes);
    if (summary->has_lowest)
        out->pools_bytes = (int64_t)(total->peak_held_bytes - total->peak_rounded_bytes);
    if (out->source != VERDICT_NONE)
        out->base_bytes = (int64_t)(out->reserved_peak_bytes - below);
    return COMMAND_FINE;
}

static const char *
verdict_size(struct output_figure *figure, int64_t bytes)
{
    struct output_figure size;

    snprintf(figure->text, sizeof(figure->text), "%s%s", bytes < 0 ? "-" : "",
             output_size(&size, bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes));
    return figure->text;
}

static void verdict_line(struct report *report, const char *title, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void
verdict_line(struct report *report, const char *title, const char *format, ...)
{
    char text[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    report_field(report, NULL, title, REPORT_TEXT, cell_text(text));
}

static void
verdict_report_difference(struct report *report, const struct verdict *verdict)
{
    struct output_figure figures[3];
    char pools[80] = "";

    if (verdict->source == VERDICT_NONE)
        return;
    /* Samples are moments: below what was live, the highest of them was not the highest. */
    verdict_line(report, "most reserved", "%s%s", output_size(&figures[0], verdict->reserved_peak_bytes),
                 verdict->source == VERDICT_LAYERS ? ", by the lowest log"
                 : verdict->base_bytes >= 0        ? ", by samples of the pools"
                                                   : " or more: no sample of the pools fell on the peak");
    if (verdict->summary->has_lowest)
        snprintf(pools, sizeof(pools), ", %s free in pools", verdict_size(&figures[0], verdict->pools_bytes));
    if (verdict->base_bytes >= 0)
        verdict_line(report, "difference", "%s rounding%s, %s more below or at other times",
                     verdict_size(&figures[1], verdict->rounding_bytes), pools,
                     verdict_size(&figures[2], verdict->base_bytes));
    else
        verdict_line(report, "difference", "%s rounding%s", verdict_size(&figures[1], verdict->rounding_bytes), pools);
}

void
verdict_report_lines(struct report *report, const struct verdict *verdict)
{
    const struct summary_total *total = &verdict->summary->total;
    struct output_figure one, other;

    verdict_line(report, "peak", "%s requested at %s, in %llu allocation%s", output_size(&one, total->peak_bytes),
                 output_time(&other, total->peak_ns), (unsigned long long)total->peak_count,
                 total->peak_count == 1 ? "" : "s");
    verdict_report_difference(report, verdict);
    if (total->live_count > 0)
        verdict_line(report, "at the end", "%s live in %llu allocation%s", output_size(&one, total->live_bytes),
                     (unsigned long long)total->live_count, total->live_count == 1 ? "" : "s");
    else
        verdict_line(report, "at the end", "nothing live");
    verdict_line(report, "failed", "%llu of %llu allocations", (unsigned long long)total->failures,
                 (unsigned long long)(total->failures + total->allocations));
    if (verdict->summary->has_driver)
        verdict_line(report, "in calls", "%s, of which %s in %llu calls of the driver",
                     output_time(&one, (int64_t)total->time_ns),
                     output_time(&other, (int64_t)verdict->summary->driver_ns),
                     (unsigned long long)verdict->summary->driver_calls);
    else if (total->time_ns > 0)
        verdict_line(report, "in calls", "%s; calls of the driver are not recorded",
                     output_time(&one, (int64_t)total->time_ns));
}

/* What went wrong. */
static unsigned
verdict_say_wrong(struct report *report, const struct verdict *verdict)
{
    const struct summary_total *total = &verdict->summary->total;
    struct output_figure one, other;
    unsigned said = 0;

    if (total->failures > 0) {
        report_note(report, "%llu allocation%s failed, the first one of %s at %s; `tidemark failures` says why.",
                    (unsigned long long)total->failures, total->failures == 1 ? "" : "s",
                    output_size(&one, total->first_failure.size), output_time(&other, total->first_failure.alloc_ns));
        said++;
    }
    if (total->live_count > 0) {
        report_note(report, "%s in %llu allocation%s %s %s, %.1f%% of the peak; `tidemark leaks` says whose.",
                    output_size(&one, total->live_bytes), (unsigned long long)total->live_count,
                    total->live_count == 1 ? "" : "s", total->live_count == 1 ? "was" : "were",
                    verdict->summary->view->filter.to_ns < INT64_MAX ? "live at the end of that time" : "never freed",
                    total->peak_bytes > 0 ? 100 * (double)total->live_bytes / (double)total->peak_bytes : 0);
        said++;
    }
    return said;
}

/* What was more than it had to be, or nearly too much. */
static unsigned
verdict_say_waste(struct report *report, const struct verdict *verdict)
{
    const struct summary_total *total = &verdict->summary->total;
    double more = (double)verdict->reserved_peak_bytes - (double)total->peak_bytes;
    struct output_figure one, other;
    unsigned said = 0;

    if (verdict->source != VERDICT_NONE && more > VERDICT_WASTE * (double)total->peak_bytes) {
        report_note(report, "%s reserved for %s requested is %.0f%% more; `tidemark fragmentation` says what holds it.",
                    output_size(&one, verdict->reserved_peak_bytes), output_size(&other, total->peak_bytes),
                    100 * more / (double)total->peak_bytes);
        said++;
    }
    if (verdict->limit_bytes > 0 && (double)total->peak_bytes > VERDICT_NEAR * (double)verdict->limit_bytes) {
        report_note(report, "The peak came within %s of the limit of %s.",
                    verdict_size(&one, (int64_t)(verdict->limit_bytes - total->peak_bytes)),
                    output_size(&other, verdict->limit_bytes));
        said++;
    }
    return said;
}

/* What is always there to say. */
static void
verdict_say_rest(struct report *report, const struct verdict *verdict, unsigned left)
{
    const struct summary_total *total = &verdict->summary->total;
    const struct filter *filter = &verdict->summary->view->filter;
    double span_ns = (double)verdict->summary->span_ns;
    double mean = span_ns > 0 ? (double)total->byte_ns / span_ns : 0;
    struct output_figure one, other;
    char each[96] = "";

    if (left > 0)
        report_note(report, "On average %s was live, %.0f%% of the peak%s; `tidemark peak` says what stood there.",
                    output_size(&one, (uint64_t)mean), 100 * mean / (double)total->peak_bytes,
                    mean < VERDICT_SHORT * (double)total->peak_bytes ? ", which was brief" : "");
    if (left > 1)
        report_note(report, "%s went through %llu allocations, %.3g times the peak; `tidemark top` says whose.",
                    output_size(&one, total->bytes), (unsigned long long)total->allocations,
                    (double)total->bytes / (double)total->peak_bytes);
    /* Of what reaches over an edge of the time, one of the calls is not in it. */
    if (filter->from_ns == INT64_MIN && filter->to_ns == INT64_MAX)
        snprintf(each, sizeof(each), "; an allocation with its free took %s on average",
                 output_time(&other, (int64_t)(total->time_ns / (total->allocations + total->failures))));
    if (left > 2)
        report_note(report, "The calls took %s, %.3g%% of the time%s.", output_time(&one, (int64_t)total->time_ns),
                    span_ns > 0 ? 100 * (double)total->time_ns / span_ns : 0, each);
}

void
verdict_report_sentences(struct report *report, const struct verdict *verdict)
{
    unsigned said;

    if (verdict->summary->total.allocations + verdict->summary->total.failures == 0) {
        report_note(report, summary_is_part(verdict->summary->view) ? "The filters take no allocation."
                                                                    : "No allocation was recorded.");
        return;
    }
    said = verdict_say_wrong(report, verdict);
    if (said < VERDICT_SENTENCES)
        said += verdict_say_waste(report, verdict);
    if (said < VERDICT_SENTENCES && verdict->summary->total.peak_bytes > 0)
        verdict_say_rest(report, verdict, VERDICT_SENTENCES - said);
}

void
verdict_report_fields(struct report *report, const struct verdict *verdict)
{
    static const struct report_column columns[] = {
        { "peak_bytes", NULL, REPORT_SIZE },      { "peak_ns", NULL, REPORT_TIME },
        { "peak_count", NULL, REPORT_COUNT },     { "reserved_peak_bytes", NULL, REPORT_SIZE },
        { "reserved_source", NULL, REPORT_TEXT }, { "rounding_bytes", NULL, REPORT_CHANGE },
        { "pools_bytes", NULL, REPORT_CHANGE },   { "base_bytes", NULL, REPORT_CHANGE },
        { "limit_bytes", NULL, REPORT_SIZE },     { "mean_live_bytes", NULL, REPORT_SIZE },
        { "live_bytes", NULL, REPORT_SIZE },      { "live_count", NULL, REPORT_COUNT },
        { "failures", NULL, REPORT_COUNT },       { "time_ns", NULL, REPORT_TIME },
        { "driver_ns", NULL, REPORT_TIME },       { "driver_calls", NULL, REPORT_COUNT },
    };
    const struct summary *summary = verdict->summary;
    const struct summary_total *total = &summary->total;
    bool reserved = verdict->source != VERDICT_NONE;
    bool driver = summary->has_driver;
    const struct report_cell cells[] = {
        cell_unsigned(total->peak_bytes),
        cell_signed(total->peak_ns),
        cell_unsigned(total->peak_count),
        reserved ? cell_unsigned(verdict->reserved_peak_bytes) : cell_none(),
        reserved ? cell_text(verdict->source == VERDICT_LAYERS ? "layers" : "samples") : cell_none(),
        cell_signed(verdict->rounding_bytes),
        summary->has_lowest ? cell_signed(verdict->pools_bytes) : cell_none(),
        reserved ? cell_signed(verdict->base_bytes) : cell_none(),
        verdict->limit_bytes > 0 ? cell_unsigned(verdict->limit_bytes) : cell_none(),
        cell_unsigned(summary->span_ns > 0 ? (uint64_t)(total->byte_ns / (uint64_t)summary->span_ns) : 0),
        cell_unsigned(total->live_bytes),
        cell_unsigned(total->live_count),
        cell_unsigned(total->failures),
        cell_unsigned(total->time_ns),
        driver ? cell_unsigned(summary->driver_ns) : cell_none(),
        driver ? cell_unsigned(summary->driver_calls) : cell_none(),
    };

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        report_field(report, columns[i].name, NULL, columns[i].kind, cells[i]);
}
