/* `tidemark peak`: how high the peak was, what caused it, and what would have lowered it. */
#include "config.h"

#include <stdio.h>

#include "viewer/commands/commands.h"
#include "viewer/commands/tables.h"
#include "viewer/commands/training.h"
#include "viewer/base/output.h"
#include "viewer/analysis/peak.h"
#include "viewer/analysis/reserved.h"

struct peak_options {
    int by; /* enum groups_by; -1: what the trace has */
    struct moment at;
    struct peak_shares shares;
    uint64_t blocks;
};

#define AT(field) offsetof(struct peak_options, field)

static const struct option_def peak_option_defs[] = {
    TABLES_OPTION_BY(AT(by)),
    { "at", 'a', OPTION_MOMENT, "MOMENT", "look at 1.5s, 50%, #ALLOCATION or mark:TEXT instead of the peak", AT(at),
      NULL, 0 },
    { "within", 0, OPTION_SHARE, "SHARE", "how near to the peak a plateau is; 5%", AT(shares.within), NULL, 0 },
    { "prominence", 0, OPTION_SHARE, "SHARE", "the least prominence of a distinct peak, of the highest; 5%",
      AT(shares.prominence), NULL, 0 },
    { "blocks", 0, OPTION_COUNT, "N", "also the N largest allocations that were live", AT(blocks), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

static uint64_t
peak_figure(const void *context, uint32_t group)
{
    return ((const struct peak *)context)->at_groups[group].bytes;
}

static void
peak_report_group(struct report *report, void *context, uint32_t group)
{
    const struct peak *peak = context;
    const struct amount *at = &peak->at_groups[group];
    uint64_t without = counterfactual_without(&peak->rest, group);
    struct group_cells cells;

    group_cells_make(&peak->groups, group, &cells);
    REPORT_ROW(report, GROUP_CELLS(&cells), cell_unsigned(at->bytes),
               cell_share((double)at->bytes, (double)peak->at_bytes), cell_unsigned(at->count), cell_unsigned(without),
               cell_unsigned(peak->bytes - without), cell_share((double)(peak->bytes - without), (double)peak->bytes));
}

/* Name the group without which the peak would have been lowest. */
static void
peak_note_best(struct report *report, const struct peak *peak)
{
    struct output_figure without_figure;
    char buffer[GROUPS_NAME];
    uint64_t least = peak->bytes;
    uint32_t best = 0;

    for (uint32_t i = 0; i < peak->groups.count; i++) {
        uint64_t without = counterfactual_without(&peak->rest, i);

        if (without < least) {
            least = without;
            best = i;
        }
    }
    if (peak->groups.count > 1 && least < peak->bytes)
        report_note(report, "Without %s %s the peak would have been %s, %.1f%% lower.", groups_word(peak->groups.by),
                    groups_brief(&peak->groups, best, buffer, sizeof(buffer)), output_size(&without_figure, least),
                    100 * (double)(peak->bytes - least) / (double)peak->bytes);
}

static int
peak_report_groups(struct view *view, struct report *report, struct peak *peak)
{
    static const struct report_column columns[] = {
        GROUP_COLUMNS,
        { "at_bytes", "BYTES", REPORT_SIZE },
        { "at_share", "SHARE", REPORT_SHARE },
        { "at_count", "COUNT", REPORT_COUNT },
        { "peak_without_bytes", "PEAK WITHOUT", REPORT_SIZE },
        { "saved_bytes", "SAVES", REPORT_SIZE },
        { "saved_share", "", REPORT_SHARE },
    };
    const struct ranking ranking = { peak->groups.count, 1, report->options.limit, peak_figure, peak_report_group };
    struct output_figure figure;
    struct ranking_rows rows;

    REPORT_TABLE(report, "groups", NULL, columns);
    report_group_title(report, peak->groups.by);
    report_spare(report, "saved_share saved_bytes at_share at_count peak_without_bytes");
    if (ranking_report(view, report, &ranking, peak, &rows) != COMMAND_FINE)
        return COMMAND_WRONG;
    report_rest(report, rows.left, cell_unsigned(rows.left_figures));
    if (rows.left > 0)
        report_note(report, "%llu more hold %s.", (unsigned long long)rows.left,
                    output_size(&figure, rows.left_figures));
    if (peak->at_peak)
        peak_note_best(report, peak);
    return COMMAND_FINE;
}

static void
peak_report_summits(struct report *report, const struct peak *peak)
{
    static const struct report_column columns[] = {
        { "ns", "AT", REPORT_TIME },
        { "live_bytes", "BYTES", REPORT_SIZE },
        { "peak_share", "OF PEAK", REPORT_SHARE },
        { "prominence_bytes", "PROMINENCE", REPORT_SIZE },
    };

    size_t count = peak->summits.count, shown = report->options.limit < count ? report->options.limit : count;

    REPORT_TABLE(report, "peaks", "Distinct peaks", columns);
    report_spare(report, "prominence_bytes peak_share");
    for (size_t i = 0; i < shown; i++) {
        const struct summit *summit = &peak->summits.found[i];

        REPORT_ROW(report, cell_signed(summit->ns), cell_unsigned(summit->bytes),
                   cell_share((double)summit->bytes, (double)peak->bytes), cell_unsigned(summit->prominence_bytes));
    }
    report_rest(report, count - shown, cell_none());
}

static void
peak_report_plateaus(struct report *report, const struct peak *peak, double within)
{
    static const struct report_column columns[] = {
        { "begin_ns", "FROM", REPORT_TIME },
        { "end_ns", "TO", REPORT_TIME },
        { "duration_ns", "LASTED", REPORT_TIME },
        { "most_bytes", "MOST", REPORT_SIZE },
    };
    struct output_figure figure;
    size_t shown = peak->plateau_count < PEAK_PLATEAUS_MAX ? peak->plateau_count : PEAK_PLATEAUS_MAX;

    REPORT_TABLE(report, "plateaus", "Longest plateaus near the peak", columns);
    report_spare(report, "most_bytes end_ns");
    if (report->options.limit < shown)
        shown = (size_t)report->options.limit;
    for (size_t i = 0; i < shown; i++) {
        const struct peak_plateau *plateau = &peak->plateaus[i];

        REPORT_ROW(report, cell_signed(plateau->begin_ns), cell_signed(plateau->end_ns),
                   cell_signed(plateau->end_ns - plateau->begin_ns), cell_unsigned(plateau->most_bytes));
    }
    report_rest(report, peak->plateau_count - shown, cell_none());
    report_note(report, "Within %.3g%% of the peak %zu time%s, for %s in all.", 100 * within, peak->plateau_count,
                peak->plateau_count == 1 ? "" : "s", output_time(&figure, peak->near_ns));
}

static void
peak_report_head(struct view *view, struct report *report, const struct peak *peak)
{
    command_subject(report, view);
    report_field(report, "peak_bytes", "peak", REPORT_SIZE, cell_unsigned(peak->bytes));
    report_field(report, "peak_ns", "reached at", REPORT_TIME,
                 peak->allocation_id != 0 ? cell_signed(peak->ns) : cell_none());
    report_field(report, "peak_allocation_id", "by allocation", REPORT_COUNT,
                 peak->allocation_id != 0 ? cell_signed(peak->allocation_id) : cell_none());
    report_field(report, "at_ns", peak->at_peak ? NULL : "looked at", REPORT_TIME,
                 !peak->at_peak             ? cell_signed(peak->at_ns)
                 : peak->allocation_id != 0 ? cell_signed(peak->ns)
                                            : cell_none());
    report_field(report, "at_bytes", peak->at_peak ? NULL : "live there", REPORT_SIZE, cell_unsigned(peak->at_bytes));
    report_field(report, "at_count", "allocations", REPORT_COUNT, cell_unsigned(peak->at_count));
}

/* Say where the peak is of several kinds of memory, or stacks: none of them need have had its own peak then. */
static int
peak_note_memories(struct view *view, struct report *report)
{
    struct reserved reserved;
    int status = reserved_make(view, &reserved);

    if (status != COMMAND_FINE)
        return status;
    if (reserved_is_parted(&reserved))
        report_note(report,
                    "This is of %zu kinds of memory together: `tidemark summary` has the peak of each, and --layer"
                    " looks at those of one log.",
                    reserved.group_count);
    reserved_free(&reserved);
    return COMMAND_FINE;
}

static int
peak_report(struct view *view, struct report *report, struct peak *peak, const struct peak_options *options)
{
    int status;

    peak_report_head(view, report, peak);
    if (peak->groups.count == 0)
        report_note(report, "No allocation is taken in: there is no peak.");
    status = training_report(view, report, peak);
    if (status == COMMAND_FINE)
        status = peak_report_groups(view, report, peak);
    if (status == COMMAND_FINE)
        status = peak_note_memories(view, report);
    peak_report_summits(report, peak);
    report_field(report, "plateaus_count", NULL, REPORT_COUNT,
                 cell_unsigned(peak->bytes > 0 ? peak->plateau_count : 0));
    report_field(report, "near_peak_ns", NULL, REPORT_TIME, cell_signed(peak->bytes > 0 ? peak->near_ns : 0));
    if (peak->bytes > 0)
        peak_report_plateaus(report, peak, options->shares.within);
    else
        report_no_table(report, "plateaus");
    if (options->blocks > 0)
        report_lives(report, &view->names, &peak->at_lives);
    else
        report_no_table(report, "blocks");
    return status;
}

static int
peak_analyse(struct view *view, struct report *report, const void *own)
{
    const struct peak_options *options = own;
    enum groups_by by;
    struct peak peak;
    int status = tables_by(view, report, options->by, &by);

    if (status == COMMAND_FINE)
        status = peak_make(view, by, &options->at, &options->shares, options->blocks, &peak);
    if (status != COMMAND_FINE)
        return status;
    status = peak_report(view, report, &peak, options);
    peak_free(&peak);
    return status;
}

const struct command command_peak = {
    .name = "peak",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "What was live at the peak, and what the peak would have been without it",
    .help = "\n"
            "BYTES is what a group had live at the peak (or at --at). PEAK WITHOUT is exact: the\n"
            "most that all others together ever had live; SAVES is the difference. The prominence\n"
            "of a peak is how far the bytes fell on both its sides before they rose above it.\n",
    .options = peak_option_defs,
    COMMAND_OWN(struct peak_options, .by = -1, .at = { .kind = MOMENT_PEAK }, .shares = { 0.05, 0.05 }),
    .common = OPTIONS_REPORT | OPTIONS_FILTER | OPTIONS_STACKS | OPTIONS_LIMIT,
    .run = command_answer,
    .analyse = peak_analyse,
};
