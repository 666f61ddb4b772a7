/* `tidemark failures`: each allocation that failed, and why. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/status.h>

#include "viewer/commands/commands.h"
#include "viewer/analysis/failures.h"
#include "viewer/analysis/groups.h"
#include "viewer/base/output.h"

static const struct report_column failures_columns[] = {
    { "allocation_id", "ALLOCATION", REPORT_COUNT },
    { "ns", "AT", REPORT_TIME },
    { "size", "SIZE", REPORT_SIZE },
    { "status", NULL, REPORT_TEXT },
    { "cause", "CAUSE", REPORT_TEXT },
    { "live_bytes", "LIVE", REPORT_SIZE },
    { "live_count", NULL, REPORT_COUNT },
    { "reserved_bytes", "RESERVED", REPORT_SIZE },
    { "free_bytes", "FREE", REPORT_SIZE },
    { "largest_hole_bytes", "LARGEST HOLE", REPORT_SIZE },
    { "tag", "TAG", REPORT_NAME },
    { "callstack", "CALL STACK", REPORT_STACK },
    { "stream", NULL, REPORT_TEXT },
    { "thread", NULL, REPORT_TEXT },
    { "pinned_by", "PINNED BY", REPORT_NAME },
};

static void
failures_report_row(struct view *view, struct report *report, const struct failures *failures,
                    const struct failure *failure)
{
    const struct scan_life *life = &failure->life;
    const struct names *names = &view->names;
    char tag[GROUPS_NAME], stack[GROUPS_NAME], stream[GROUPS_NAME], thread[GROUPS_NAME];
    bool holes = failures->layers.lower.active;

    REPORT_ROW(report, cell_signed(life->allocation_id), cell_signed(life->alloc_ns), cell_unsigned(life->size),
               cell_text(tide_status_name((enum tide_status)life->status)), cell_text(failures_word(failure->cause)),
               cell_unsigned(failure->live_bytes), cell_unsigned(failure->live_count),
               failure->has_space ? cell_unsigned(failure->reserved_bytes) : cell_none(),
               failure->has_space ? cell_unsigned(failure->free_bytes) : cell_none(),
               holes ? cell_unsigned(failure->largest_hole) : cell_none(),
               life->tag_id != 0 ? cell_text(names_tag(names, life->tag_id, tag, sizeof(tag))) : cell_none(),
               life->callstack_id != 0 ? cell_text(names_callstack(names, life->callstack_id, stack, sizeof(stack)))
                                       : cell_none(),
               cell_text(names_stream(names, life->alloc_stream_id, stream, sizeof(stream))),
               cell_text(names_thread(names, life->alloc_thread_id, thread, sizeof(thread))),
               cell_text(failure->pinned_by));
}

/* Name the limits of the stack, as in stack text. */
static void
failures_note_limits(struct view *view, struct report *report)
{
    for (size_t i = 0; i < view->layers.count; i++) {
        const struct trace_layer *layer = &view->layers.layers[i];

        if (strcmp(layer->kind, "limit") == 0)
            report_note(report, "Layer %lld is limit(%s).", (long long)layer->layer_id, layer->config);
    }
}

static void
failures_report_causes(struct report *report, const struct failures *failures)
{
    static const struct report_column columns[] = {
        { "cause", "CAUSE", REPORT_TEXT },
        { "count", "COUNT", REPORT_COUNT },
    };

    report_field(report, "failures_count", "failures", REPORT_COUNT, cell_unsigned(failures->total));
    report_field(report, "failed_bytes", "requested", REPORT_SIZE, cell_unsigned(failures->bytes));
    REPORT_TABLE(report, "causes", NULL, columns);
    for (int cause = 0; cause < FAILURE_CAUSES; cause++) {
        if (failures->by_cause[cause] > 0)
            REPORT_ROW(report, cell_text(failures_word((enum failure_cause)cause)),
                       cell_unsigned(failures->by_cause[cause]));
    }
    if (failures->unexplained > 0)
        report_note(report, "Why %llu of the later ones failed was not looked at.",
                    (unsigned long long)failures->unexplained);
    if (failures->total == 0)
        report_note(report, "No allocation failed.");
}

/* Say where the reserved bytes, the free bytes and the holes come from. */
static void
failures_report_source(struct report *report, const struct failures *failures)
{
    report_field(report, "source", NULL, REPORT_TEXT,
                 cell_text(failures->layers.lower.active ? "layers"
                           : failures->samples.count > 0 ? "samples"
                                                         : "none"));
    report_field(report, NULL, "from", REPORT_TEXT,
                 cell_text(failures->layers.lower.active ? "two recorded layers: the chunks are what the log below has"
                           : failures->samples.count > 0 ? "pool samples, which do not say how large the holes are"
                                                         : "this layer alone: nothing says what was free"));
}

static void
failures_report_list(struct view *view, struct report *report, const struct failures *failures)
{
    size_t shown = failures->count < report->options.limit ? failures->count : (size_t)report->options.limit;

    REPORT_TABLE(report, "failures", NULL, failures_columns);
    report_spare(report, "ns reserved_bytes largest_hole_bytes free_bytes pinned_by callstack tag allocation_id");
    for (size_t i = 0; i < shown; i++)
        failures_report_row(view, report, failures, &failures->list[i]);
    if (shown < failures->total)
        report_note(report, "These are the first %zu of %llu.", shown, (unsigned long long)failures->total);
    if (failures->by_cause[FAILURE_LIMIT] > 0)
        failures_note_limits(view, report);
}

static int
failures_analyse(struct view *view, struct report *report, const void *own)
{
    struct failures failures;
    int status;

    (void)own;
    command_subject(report, view);
    status = failures_make(view, &failures);
    if (status != COMMAND_FINE)
        return status;
    failures_report_source(report, &failures);
    failures_report_causes(report, &failures);
    if (failures.total > 0)
        failures_report_list(view, report, &failures);
    failures_free(&failures);
    return COMMAND_FINE;
}

const struct command command_failures = {
    .name = "failures",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "Each allocation that failed: what was free then, and why it failed",
    .help = "\n"
            "CAUSE is limit (a limit refused it), capacity (less was free than was asked for),\n"
            "fragmentation (more was free, and no hole was large enough), unused hole (one was,\n"
            "and the pool did not take it), request (no pool could have met it) or other. FREE and\n"
            "LARGEST HOLE are those of the chunks that a log below the pool has recorded; without\n"
            "one, FREE is of the pool sample before. PINNED BY: the blocks of the chunk that has\n"
            "the least in use of those in which there would have been room.\n",
    .common = OPTIONS_REPORT | OPTIONS_WINDOW | OPTIONS_LIMIT,
    .run = command_answer,
    .analyse = failures_analyse,
};
