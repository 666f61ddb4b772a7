/* `tidemark top`: the groups with the most allocations, bytes or time. */
#include "config.h"

#include <stdio.h>

#include "viewer/commands/commands.h"
#include "viewer/commands/tables.h"
#include "viewer/analysis/tallies.h"
#include "viewer/base/output.h"

/* In the order of TOP_SORTS. */
enum top_sort {
    TOP_CHURN,
    TOP_BYTES,
    TOP_PEAK,
    TOP_LIVE,
    TOP_BYTE_SECONDS,
    TOP_FAILURES,
    TOP_TIME,
    TOP_DRIVER,
};

#define TOP_SORTS "churn|bytes|peak|live|byte-seconds|failures|time|driver"

struct top_options {
    int by;   /* enum groups_by; -1: what the trace has */
    int sort; /* enum top_sort */
};

#define AT(field) offsetof(struct top_options, field)

static const struct option_def top_option_defs[] = {
    TABLES_OPTION_BY(AT(by)),
    { "sort", 's', OPTION_CHOICE, "FIGURE",
      "the most first of churn (allocations and frees), bytes, peak, live,\n"
      "byte-seconds, failures, time (in calls) or driver; churn",
      AT(sort), TOP_SORTS, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

struct top {
    const struct tallies *tallies;
    enum top_sort sort;
    uint64_t shown_allocations; /* of the groups that have a row */
    uint64_t shown_bytes;
};

static uint64_t
top_figure(const void *context, uint32_t number)
{
    const struct top *top = context;
    const struct tally *tally = &top->tallies->list[number];

    switch (top->sort) {
    case TOP_CHURN:
        return tally->allocations + tally->frees;
    case TOP_BYTES:
        return tally->bytes;
    case TOP_PEAK:
        return tally->peak_bytes;
    case TOP_LIVE:
        return tally->live_bytes;
    case TOP_BYTE_SECONDS:
        return tally_byte_order(tally);
    case TOP_FAILURES:
        return tally->failures;
    case TOP_TIME:
        return tally->time_ns;
    case TOP_DRIVER:
        return tally->driver_ns;
    }
    return 0;
}

static const struct report_column top_columns[] = {
    GROUP_COLUMNS,
    { "allocations", "ALLOCATIONS", REPORT_COUNT },
    { "frees", "FREES", REPORT_COUNT },
    { "failures", "FAILURES", REPORT_COUNT },
    { "churn_share", "CHURN", REPORT_SHARE },
    { "total_bytes", "TOTAL", REPORT_SIZE },
    { "total_share", "", REPORT_SHARE },
    { "peak_bytes", "PEAK", REPORT_SIZE },
    { "live_bytes", "LIVE", REPORT_SIZE },
    { "live_count", NULL, REPORT_COUNT },
    { "mean_life_ns", "MEAN LIFE", REPORT_TIME },
    { "byte_seconds", NULL, REPORT_REAL },
    { "time_ns", NULL, REPORT_TIME },
    { NULL, "IN CALLS", REPORT_FIGURE },
    { "time_share", "", REPORT_SHARE },
    { "driver_ns", "IN DRIVER", REPORT_TIME },
    { "driver_share", "", REPORT_SHARE },
    { "driver_calls", "CALLS", REPORT_COUNT },
};

/* The column of each figure, in the order of enum top_sort. Byte-seconds have none: bytes are next to them. */
static const char *const top_sorted[] = { "churn_share", "total_bytes", "peak_bytes", "live_bytes",
                                          "total_bytes", "failures",    "#18",        "driver_ns" };

static void
top_row(struct report *report, void *context, uint32_t number)
{
    struct top *top = context;
    const struct tally *tally = &top->tallies->list[number];
    const struct tally *all = &top->tallies->all;
    bool driver = all->driver_calls > 0;
    bool times = tally_has_times(&top->tallies->view->trace, all);
    struct output_figure time;
    struct group_cells group;

    group_cells_make(&top->tallies->groups, number, &group);
    REPORT_ROW(report, GROUP_CELLS(&group), cell_unsigned(tally->allocations), cell_unsigned(tally->frees),
               cell_unsigned(tally->failures),
               cell_share((double)(tally->allocations + tally->frees), (double)(all->allocations + all->frees)),
               cell_unsigned(tally->bytes), cell_share((double)tally->bytes, (double)all->bytes),
               cell_unsigned(tally->peak_bytes), cell_unsigned(tally->live_bytes), cell_unsigned(tally->live_count),
               tally->frees > 0 ? cell_signed(tally_mean_life(tally)) : cell_none(),
               cell_real(tally_byte_seconds(tally)), times ? cell_unsigned(tally->time_ns) : cell_none(),
               cell_text(times ? output_time(&time, (int64_t)tally->time_ns) : "-"),
               cell_share((double)tally->time_ns, (double)all->time_ns),
               driver ? cell_unsigned(tally->driver_ns) : cell_none(),
               driver ? cell_share((double)tally->driver_ns, (double)all->driver_ns) : cell_none(),
               driver ? cell_unsigned(tally->driver_calls) : cell_none());
    top->shown_allocations += tally->allocations;
    top->shown_bytes += tally->bytes;
}

static int
top_report(struct view *view, struct report *report, const struct tallies *tallies, enum top_sort sort)
{
    const struct ranking ranking = { tallies->groups.count, SIZE_MAX, report->options.limit, top_figure, top_row };
    struct top top = { .tallies = tallies, .sort = sort };
    struct ranking_rows rows;

    command_subject(report, view);
    report_field(report, "groups_count", NULL, REPORT_COUNT, cell_unsigned(tallies->groups.count));
    REPORT_TABLE(report, "groups", NULL, top_columns);
    report_group_title(report, tallies->groups.by);
    report_spare(report, "driver_share time_share total_share driver_calls mean_life_ns failures frees driver_ns #18"
                         " churn_share total_bytes allocations live_bytes peak_bytes");
    report_keep(report, top_sorted[sort]);
    if (ranking_report(view, report, &ranking, &top, &rows) != COMMAND_FINE)
        return COMMAND_WRONG;
    report_rest(report, rows.left, cell_unsigned(tallies->all.bytes - top.shown_bytes));
    if (rows.left > 0)
        report_note(report, "%llu more groups have %llu allocations.", (unsigned long long)rows.left,
                    (unsigned long long)(tallies->all.allocations - top.shown_allocations));
    if (sort == TOP_DRIVER && tallies->all.driver_calls == 0)
        report_note(report, "The trace has no driver calls.");
    if (sort == TOP_TIME && !tally_has_times(&view->trace, &tallies->all))
        report_note(report, "The trace does not say how long the calls took.");
    return COMMAND_FINE;
}

static int
top_analyse(struct view *view, struct report *report, const void *own)
{
    const struct top_options *options = own;
    enum groups_by by;
    struct tallies tallies;
    int status = tables_by(view, report, options->by, &by);

    if (status == COMMAND_FINE)
        status = tallies_make(view, by, &tallies);
    if (status != COMMAND_FINE)
        return status;
    status = top_report(view, report, &tallies, (enum top_sort)options->sort);
    tallies_free(&tallies);
    return status;
}

const struct command command_top = {
    .name = "top",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "Which allocations come and go most, take most, or cost most time",
    .help = "\n"
            "CHURN is the share of all allocations and frees. PEAK is the most that a group had live at\n"
            "a time, whenever that was. IN CALLS is the time that the program spent in allocating and\n"
            "freeing, IN DRIVER what of it went into the driver, as CUPTI timed it.\n",
    .options = top_option_defs,
    COMMAND_OWN(struct top_options, .by = -1),
    .common = OPTIONS_REPORT | OPTIONS_FILTER | OPTIONS_STACKS | OPTIONS_LIMIT,
    .run = command_answer,
    .analyse = top_analyse,
};
