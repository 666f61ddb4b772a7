/* `tidemark summary`: a verdict on a trace on one screen, and the totals of each log layer. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/commands/account.h"
#include "viewer/commands/commands.h"
#include "viewer/commands/memory.h"
#include "viewer/base/output.h"
#include "viewer/analysis/summary.h"
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
    { "reserved_peak_is_exact", NULL, REPORT_FLAG },
    { NULL, "PEAK RESERVED", REPORT_FIGURE },
};

#define SUMMARY_SPARE "live_count peak_count frees peak_ns #15 total_bytes allocations failures reserved_bytes"

/* Labels come before the table. Fields for programs keep the order of earlier versions. */

static void
summary_report_meta(struct view *view, struct report *report, const char *key)
{
    char *text = trace_meta(&view->trace, key);

    if (text != NULL && text[0] != '\0')
        report_field(report, NULL, key, REPORT_TEXT, cell_text(text));
    free(text);
}

/* Add a label for each device that a layer is on. */
static void
summary_report_used_devices(struct view *view, struct report *report, const struct name_list *devices)
{
    bool known = trace_has(&view->trace, "layer", "device");
    struct output_figure total;
    int64_t found;

    for (size_t i = 0; known && i < devices->count; i++) {
        const struct name *device = &devices->names[i];

        if (trace_look_up(&view->trace, &found, "SELECT 1 FROM layer WHERE device = %lld LIMIT 1", device->id) !=
            SQLITE_ROW)
            continue;
        report_label(report, "GPU", "%lld: %s%s%s", (long long)device->id, device->text,
                     device->number != 0 ? ", " : "",
                     device->number != 0 ? output_size(&total, (uint64_t)device->number) : "");
    }
}

/* Add all devices that the trace lists, for programs. */
static void
summary_report_devices(struct report *report, const struct name_list *devices)
{
    static const struct report_column columns[] = {
        { "device", NULL, REPORT_COUNT },
        { "name", NULL, REPORT_TEXT },
        { "total_bytes", NULL, REPORT_SIZE },
    };

    REPORT_TABLE(report, "devices", NULL, columns);
    for (size_t i = 0; i < devices->count; i++) {
        const struct name *device = &devices->names[i];

        REPORT_ROW(report, cell_signed(device->id), cell_text(device->text),
                   device->number != 0 ? cell_unsigned(device->number) : cell_none());
    }
}

static void
summary_report_head(struct view *view, struct report *report, const struct summary *summary,
                    const struct name_list *devices)
{
    struct output_figure duration;
    char *failure;

    if (summary_is_part(view))
        command_subject(report, view);
    else
        report_field(report, "of", NULL, REPORT_TEXT, cell_none());
    summary_report_meta(view, report, "command");
    summary_report_meta(view, report, "stack");
    summary_report_used_devices(view, report, devices);
    failure = view->trace.end == TRACE_FAILED ? trace_failure(&view->trace) : NULL;
    report_label(report, "recorded", "%s, %s%s%s", output_time(&duration, summary->end_ns),
                 trace_state_word(&view->trace),
                 view->trace.end == TRACE_KILLED   ? "; the program was killed"
                 : view->trace.end == TRACE_FAILED ? "; the recording failed, the program went on: "
                                                   : "",
                 failure != NULL ? failure : "");
    free(failure);
    if (summary->unmatched_frees != 0)
        report_label(report, "unmatched", "%lld %s of pointers that were not live", (long long)summary->unmatched_frees,
                     summary->unmatched_frees == 1 ? "free" : "frees");
    if (summary->misuses != 0)
        report_label(report, "misused", "%lld %s that `track` refused, in the table misuse",
                     (long long)summary->misuses, summary->misuses == 1 ? "call" : "calls");
    if (view->trace.lost_events != 0)
        report_label(report, "lost", "%lld events were not recorded", (long long)view->trace.lost_events);
}

/* The number of sentences in a verdict. */
#define VERDICT_SENTENCES 3

/* The shares from which on a sentence is added. */
#define VERDICT_WASTE 0.1
#define VERDICT_NEAR  0.9
#define VERDICT_SHORT 0.5

static const char *
verdict_size(struct output_figure *figure, int64_t bytes)
{
    struct output_figure size;

    snprintf(figure->text, sizeof(figure->text), "%s%s", bytes < 0 ? "-" : "",
             output_size(&size, bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes));
    return figure->text;
}

/* "GPU 1: " where the trace has several kinds of memory, or stacks; else "". */
static const char *
verdict_prefix(const struct verdict *verdict, char *buffer, size_t size)
{
    buffer[0] = '\0';
    if (reserved_is_parted(&verdict->summary->reserved))
        snprintf(buffer, size, "%s: ", verdict->part->group != NULL ? verdict->part->group->name : "unknown");
    return buffer;
}

/* Which source the most reserved is of. */
static const char *
verdict_source(const struct verdict *verdict)
{
    switch (verdict->reserved->source) {
    case RESERVED_LAYERS:
        return ", by its chunks";
    case RESERVED_HIGHS:
        return ", by the pool's high-water mark";
    case RESERVED_SAMPLES:
        return verdict->reserved->is_live ? ": so much was live, and no sample was higher"
                                          : ", by samples of the pools";
    default:
        return "";
    }
}

static void
verdict_report_reserved(struct report *report, const struct verdict *verdict)
{
    struct output_figure figures[3];
    char prefix[128], words[MEMORY_WORDS];
    char pools[80] = "";

    if (verdict->reserved->source == RESERVED_UNKNOWN)
        return;
    verdict_prefix(verdict, prefix, sizeof(prefix));
    report_label(report, "peak reserved", "%s%s%s", prefix, memory_words(verdict->reserved, words, sizeof(words)),
                 verdict_source(verdict));
    if (verdict->base->source != RESERVED_UNKNOWN && verdict->base->peak_bytes != verdict->reserved->peak_bytes)
        report_label(report, "device", "%s%s held by the base at most", prefix,
                     memory_words(verdict->base, words, sizeof(words)));
    if (verdict->has_pools)
        snprintf(pools, sizeof(pools), ", %s free in pools", verdict_size(&figures[0], verdict->pools_bytes));
    if (verdict->base_bytes >= 0)
        report_label(report, "difference", "%s%s rounding%s, %s%s more %s", prefix,
                     verdict_size(&figures[1], verdict->rounding_bytes), pools, reserved_least(verdict->reserved),
                     verdict_size(&figures[2], verdict->base_bytes),
                     verdict->has_pools ? "at other times" : "below or at other times");
    else
        report_label(report, "difference", "%s%s rounding%s", prefix,
                     verdict_size(&figures[1], verdict->rounding_bytes), pools);
}

/* Whether the part is a kind of memory of an unmodified program: the driver's own, which nothing below reserves. */
static bool
verdict_is_process(const struct verdict *verdict)
{
    return verdict->part->group != NULL && verdict->part->group->is_process;
}

/* The lines of a part: its peak, what was reserved, and what is live. */
static void
verdict_report_part(struct report *report, const struct verdict *verdict)
{
    const struct tally *sums = &verdict->part->sums;
    struct output_figure one, other;
    enum trace_end end = verdict->summary->trace->end;
    const char *when = verdict->summary->view->filter.to_ns < INT64_MAX ? "at the end"
                       : end == TRACE_KILLED                            ? "when killed"
                       : end == TRACE_RUNNING                           ? "so far"
                       : end == TRACE_FAILED                            ? "at failure"
                                                                        : "at the end";
    char prefix[128];

    verdict_prefix(verdict, prefix, sizeof(prefix));
    report_label(report, "peak", "%s%s requested at %s, in %llu allocation%s", prefix,
                 output_size(&one, sums->peak_bytes), output_time(&other, sums->peak_ns),
                 (unsigned long long)sums->peak_count, sums->peak_count == 1 ? "" : "s");
    if (!verdict_is_process(verdict))
        verdict_report_reserved(report, verdict);
    if (sums->live_count > 0)
        report_label(report, when, "%s%s live in %llu allocation%s", prefix, output_size(&one, sums->live_bytes),
                     (unsigned long long)sums->live_count, sums->live_count == 1 ? "" : "s");
    else
        report_label(report, when, "%snothing live", prefix);
}

static void
verdict_report_lines(struct report *report, const struct summary *summary, const struct account *account)
{
    const struct tally *total = &summary->total.sums;
    struct output_figure one, other;

    for (size_t i = 0; i < summary->part_count; i++) {
        struct verdict verdict;

        verdict_make(summary, &summary->parts[i], &verdict);
        if (!verdict_is_process(&verdict) || summary->parts[i].sums.allocations + summary->parts[i].sums.failures != 0)
            verdict_report_part(report, &verdict);
    }
    if (account->is_process)
        account_report(report, account);
    else
        memory_report_use(report, &summary->reserved.devices);
    report_label(report, "failed", "%llu of %llu allocations", (unsigned long long)total->failures,
                 (unsigned long long)(total->failures + total->allocations));
    if (!summary->has_times)
        report_label(report, "in calls", "-");
    else if (summary->has_driver)
        report_label(report, "in calls", "%s, of which %s in %llu calls of the driver",
                     output_time(&one, (int64_t)total->time_ns), output_time(&other, (int64_t)summary->driver_ns),
                     (unsigned long long)summary->driver_calls);
    else if (total->time_ns > 0)
        report_label(report, "in calls", "%s; calls of the driver are not recorded",
                     output_time(&one, (int64_t)total->time_ns));
}

/* Add a sentence about failures. */
static void
verdict_note_failures(struct report *report, const struct summary *summary)
{
    const struct summary_total *total = &summary->total;
    struct output_figure one, other;

    if (total->sums.failures > 0)
        report_note(report, "%llu allocation%s failed, the first one of %s at %s; `tidemark failures` says why.",
                    (unsigned long long)total->sums.failures, total->sums.failures == 1 ? "" : "s",
                    output_size(&one, total->first_failure.size), output_time(&other, total->first_failure.alloc_ns));
}

/* What is said of allocations that were not freed. */
static const char *
verdict_left(const struct summary *summary)
{
    if (summary->view->filter.to_ns < INT64_MAX)
        return "live at the end of that time";
    return trace_is_cut(summary->trace) ? trace_live_words(summary->trace) : "never freed";
}

/* Add a sentence about what is live at the end. */
static void
verdict_note_leaks(struct report *report, const struct verdict *verdict)
{
    const struct tally *sums = &verdict->part->sums;
    struct output_figure one;
    char prefix[128];

    if (sums->live_count > 0)
        report_note(report, "%s%s in %llu allocation%s %s %s, %.1f%% of the peak; `tidemark leaks` says whose.",
                    verdict_prefix(verdict, prefix, sizeof(prefix)), output_size(&one, sums->live_bytes),
                    (unsigned long long)sums->live_count, sums->live_count == 1 ? "" : "s",
                    sums->live_count == 1 ? "was" : "were", verdict_left(verdict->summary),
                    sums->peak_bytes > 0 ? 100 * (double)sums->live_bytes / (double)sums->peak_bytes : 0);
}

/* Add sentences about waste and a limit that was near. */
static void
verdict_note_waste(struct report *report, const struct verdict *verdict)
{
    const struct tally *sums = &verdict->part->sums;
    double more = (double)verdict->reserved->peak_bytes - (double)sums->peak_bytes;
    struct output_figure one, other;
    char prefix[128], words[MEMORY_WORDS];

    verdict_prefix(verdict, prefix, sizeof(prefix));
    if (verdict->reserved->source != RESERVED_UNKNOWN && sums->peak_bytes > 0 && !verdict_is_process(verdict) &&
        more > VERDICT_WASTE * (double)sums->peak_bytes)
        report_note(
            report, "%s%s reserved for %s requested is %s%.0f%% more; `tidemark fragmentation` says what holds it.",
            prefix, memory_words(verdict->reserved, words, sizeof(words)), output_size(&other, sums->peak_bytes),
            reserved_least(verdict->reserved), 100 * more / (double)sums->peak_bytes);
    /* More than the limit was live where that is of a bin, or of another branch: then it says nothing of the peak. */
    if (verdict->limit_bytes >= sums->peak_bytes &&
        (double)sums->peak_bytes > VERDICT_NEAR * (double)verdict->limit_bytes)
        report_note(report, "%sThe peak came within %s of the limit of %s.", prefix,
                    verdict_size(&one, (int64_t)(verdict->limit_bytes - sums->peak_bytes)),
                    output_size(&other, verdict->limit_bytes));
}

/* Add `left` sentences at most, which hold for any trace of one kind of memory. */
static void
verdict_note_rest(struct report *report, const struct summary *summary, size_t left)
{
    const struct tally *total = &summary->total.sums;
    const struct filter *filter = &summary->view->filter;
    double span_ns = (double)summary->span_ns;
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
    /* With --from or --to, some allocations have only one of their two calls in the time range. */
    if (filter->from_ns == INT64_MIN && filter->to_ns == INT64_MAX)
        snprintf(each, sizeof(each), "; an allocation with its free took %s on average",
                 output_time(&other, (int64_t)(total->time_ns / (total->allocations + total->failures))));
    if (left > 2 && summary->has_times)
        report_note(report, "The calls took %s, %.3g%% of the time%s.", output_time(&one, (int64_t)total->time_ns),
                    span_ns > 0 ? 100 * (double)total->time_ns / span_ns : 0, each);
}

static void
verdict_report_sentences(struct report *report, const struct summary *summary)
{
    size_t most = VERDICT_SENTENCES + summary->part_count - (summary->part_count > 0);
    size_t first = report->count;
    struct verdict verdict;

    if (summary->total.sums.allocations + summary->total.sums.failures == 0) {
        report_note(report,
                    summary_is_part(summary->view) ? "The filters take no allocation." : "No allocation was recorded.");
        return;
    }
    verdict_note_failures(report, summary);
    for (size_t i = 0; i < summary->part_count && report->count - first < most; i++) {
        verdict_make(summary, &summary->parts[i], &verdict);
        verdict_note_leaks(report, &verdict);
    }
    for (size_t i = 0; i < summary->part_count && report->count - first < most; i++) {
        verdict_make(summary, &summary->parts[i], &verdict);
        verdict_note_waste(report, &verdict);
    }
    if (report->count - first < most && summary->total.sums.peak_bytes > 0 && summary->part_count == 1)
        verdict_note_rest(report, summary, most - (report->count - first));
}

/* The fields of a part that are no fields of its memory, in the order of verdict_columns. */
static const struct report_column verdict_columns[] = {
    { "peak_count", NULL, REPORT_COUNT },   { "rounding_bytes", NULL, REPORT_CHANGE },
    { "pools_bytes", NULL, REPORT_CHANGE }, { "base_bytes", NULL, REPORT_CHANGE },
    { "limit_bytes", NULL, REPORT_SIZE },   { "mean_live_bytes", NULL, REPORT_SIZE },
    { "live_count", NULL, REPORT_COUNT },   { "allocations", NULL, REPORT_COUNT },
    { "failures", NULL, REPORT_COUNT },
};

#define VERDICT_COLUMNS (sizeof(verdict_columns) / sizeof(verdict_columns[0]))

static void
verdict_cells(const struct verdict *verdict, struct report_cell *out)
{
    const struct summary *summary = verdict->summary;
    const struct tally *sums = &verdict->part->sums;
    bool is_known = verdict->reserved->source != RESERVED_UNKNOWN;
    uint64_t mean_bytes = summary->span_ns > 0 ? (uint64_t)(sums->byte_ns / (uint64_t)summary->span_ns) : 0;
    const struct report_cell cells[VERDICT_COLUMNS] = {
        cell_unsigned(sums->peak_count),
        cell_signed(verdict->rounding_bytes),
        verdict->has_pools ? cell_signed(verdict->pools_bytes) : cell_none(),
        is_known ? cell_signed(verdict->base_bytes) : cell_none(),
        verdict->limit_bytes > 0 ? cell_unsigned(verdict->limit_bytes) : cell_none(),
        cell_unsigned(mean_bytes),
        cell_unsigned(sums->live_count),
        cell_unsigned(sums->allocations),
        cell_unsigned(sums->failures),
    };

    memcpy(out, cells, sizeof(cells));
}

/* The cells of a row of the table of memory; none where its blocks cannot be told from those of other memory. */
static void
verdict_memory_cells(const void *context, const struct reserved_group *group, struct report_cell *out)
{
    const struct summary *summary = context;
    struct verdict verdict;

    for (size_t i = 0; i < summary->part_count; i++) {
        if (summary->parts[i].group != group)
            continue;
        verdict_make(summary, &summary->parts[i], &verdict);
        verdict_cells(&verdict, out);
    }
}

/* The fields of the only part; `verdict` is NULL where there are several, whose bytes are never added up: no values. */
static void
verdict_report_part_fields(struct report *report, const struct verdict *verdict)
{
    static const struct reserved_figure unknown = { .source = RESERVED_UNKNOWN };
    const struct reserved_figure *reserved = verdict != NULL ? verdict->reserved : &unknown;
    const struct reserved_figure *base = verdict != NULL ? verdict->base : &unknown;
    const struct tally *sums = verdict != NULL ? &verdict->part->sums : NULL;
    struct report_cell cells[VERDICT_COLUMNS] = { { 0 } };

    if (verdict != NULL)
        verdict_cells(verdict, cells);
    report_field(report, "peak_bytes", NULL, REPORT_SIZE, sums != NULL ? cell_unsigned(sums->peak_bytes) : cell_none());
    report_field(report, "peak_ns", NULL, REPORT_TIME, sums != NULL ? cell_signed(sums->peak_ns) : cell_none());
    report_field(report, "peak_count", NULL, REPORT_COUNT, cells[0]);
    memory_report_peak_fields(report, reserved);
    report_field(report, "device_peak_bytes", NULL, REPORT_SIZE, memory_peak(base));
    report_field(report, "device_peak_is_exact", NULL, REPORT_FLAG, memory_is_exact(base));
    for (size_t i = 1; i <= 5; i++)
        report_field(report, verdict_columns[i].name, NULL, verdict_columns[i].kind, cells[i]);
    report_field(report, "live_bytes", NULL, REPORT_SIZE, sums != NULL ? cell_unsigned(sums->live_bytes) : cell_none());
}

static void
verdict_report_fields(struct report *report, const struct summary *summary)
{
    const struct tally *total = &summary->total.sums;
    bool is_one = !reserved_is_parted(&summary->reserved) && summary->part_count < 2;
    struct verdict verdict;

    if (is_one)
        verdict_make(summary, summary->part_count > 0 ? &summary->parts[0] : &summary->total, &verdict);
    verdict_report_part_fields(report, is_one ? &verdict : NULL);
    report_field(report, "live_count", NULL, REPORT_COUNT, cell_unsigned(total->live_count));
    report_field(report, "failures", NULL, REPORT_COUNT, cell_unsigned(total->failures));
    report_field(report, "time_ns", NULL, REPORT_TIME,
                 summary->has_times ? cell_unsigned(total->time_ns) : cell_none());
    report_field(report, "driver_ns", NULL, REPORT_TIME,
                 summary->has_driver ? cell_unsigned(summary->driver_ns) : cell_none());
    report_field(report, "driver_calls", NULL, REPORT_COUNT,
                 summary->has_driver ? cell_unsigned(summary->driver_calls) : cell_none());
}

static void
summary_report_layer(struct report *report, const struct summary_layer *layer)
{
    const struct reserved_figure *reserved = layer->reserved;
    bool is_known = reserved != NULL && reserved->source != RESERVED_UNKNOWN;
    char name[64], words[MEMORY_WORDS];

    snprintf(name, sizeof(name), "%lld %s", (long long)layer->layer_id, layer->kind);
    REPORT_ROW(report, cell_text(name), cell_signed(layer->layer_id), cell_text(layer->kind),
               cell_unsigned(layer->sums.allocations), cell_unsigned(layer->sums.frees),
               cell_unsigned(layer->sums.failures), cell_unsigned(layer->sums.bytes),
               cell_unsigned(layer->sums.peak_bytes), cell_signed(layer->sums.peak_ns),
               cell_unsigned(layer->sums.peak_count), cell_unsigned(layer->sums.live_bytes),
               cell_unsigned(layer->sums.live_count), is_known ? cell_unsigned(reserved->bytes) : cell_none(),
               is_known ? memory_peak(reserved) : cell_none(), is_known ? memory_is_exact(reserved) : cell_none(),
               is_known ? cell_text(memory_words(reserved, words, sizeof(words))) : cell_none());
}

static int
summary_analyse(struct view *view, struct report *report, const void *own)
{
    struct summary summary;
    struct account account;
    struct name_list devices = { 0 };
    bool has_devices;
    int status = summary_make(view, &summary);

    (void)own;
    if (status != COMMAND_FINE)
        return status;
    status = summary.reserved.is_off ? account_none(&account) : account_read(view, summary.end_ns, &account);
    if (status != COMMAND_FINE) {
        summary_free(&summary);
        return status;
    }
    has_devices = names_read_devices(&view->trace, &devices);
    summary_report_head(view, report, &summary, &devices);
    verdict_report_lines(report, &summary, &account);
    verdict_report_sentences(report, &summary);
    report_field(report, "complete", NULL, REPORT_FLAG, cell_unsigned(view->trace.complete));
    report_field(report, "unmatched_frees", NULL, REPORT_COUNT, cell_signed(summary.unmatched_frees));
    report_field(report, "lost_events", NULL, REPORT_COUNT, cell_signed(view->trace.lost_events));
    report_field(report, "misuses", NULL, REPORT_COUNT, cell_signed(summary.misuses));
    REPORT_TABLE(report, "layers", NULL, summary_columns);
    report_spare(report, SUMMARY_SPARE);
    for (size_t i = 0; i < summary.count; i++) {
        if (summary.found[i].asked)
            summary_report_layer(report, &summary.found[i]);
    }
    report_field(report, "in_progress", NULL, REPORT_FLAG, cell_unsigned(view->trace.in_progress));
    report_field(report, "ended", NULL, REPORT_TEXT, cell_text(trace_end_word(&view->trace)));
    report_field(report, "duration_ns", NULL, REPORT_TIME, cell_signed(summary.end_ns));
    verdict_report_fields(report, &summary);
    memory_report_more(report, &summary.reserved,
                       &(struct memory_more){ verdict_columns, VERDICT_COLUMNS, verdict_memory_cells, &summary });
    memory_report_use_table(report, &summary.reserved.devices);
    if (has_devices)
        summary_report_devices(report, &devices);
    else
        report_no_table(report, "devices");
    account_report_tables(report, &account);
    account_free(&account);
    names_free_list(&devices);
    summary_free(&summary);
    return COMMAND_FINE;
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
    .run = command_answer,
    .analyse = summary_analyse,
};
