/* `tidemark leaks`: the allocations live at the end, and the groups that grew from step to step. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/commands/commands.h"
#include "viewer/commands/tables.h"
#include "viewer/analysis/leaks.h"
#include "viewer/base/output.h"

struct leaks_options {
    int by; /* enum groups_by; -1: what the trace has */
    const char *steps;
    const char *suppressions;
    uint64_t blocks;
};

#define AT(field) offsetof(struct leaks_options, field)

static const struct option_def leaks_option_defs[] = {
    TABLES_OPTION_BY(AT(by)),
    { "steps", 0, OPTION_TEXT, "TEXT",
      "the marks between steps, a pattern; rhythm: not by marks;\n"
      "none: do not look for growth",
      AT(steps), NULL, 0 },
    { "suppressions", 0, OPTION_TEXT, "FILE", "leave out what fits a pattern in FILE", AT(suppressions), NULL, 0 },
    { "blocks", 0, OPTION_COUNT, "N", "also the N largest allocations that are live", AT(blocks), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

/* Say why live allocations may be no leaks: the program may have had no chance to free them. */
static void
leaks_note_end(struct view *view, struct report *report)
{
    char *ended = trace_meta(&view->trace, "ended");

    if (view->trace.end == TRACE_FAILED)
        report_note(report, "The recording failed before the program ended: what is live was in use.");
    else if (!view->trace.complete)
        report_note(report, "The recording did not come to its end: what is live may be in use.");
    else if (view->trace.end == TRACE_KILLED)
        report_note(report, "The program was killed: what is live was in use.");
    else if (ended != NULL && strcmp(ended, "exit") == 0)
        report_note(report, "The program ended with its stack in use: what is live may have been meant to stay.");
    free(ended);
}

static void
leaks_report_head(struct view *view, struct report *report, const struct leaks *leaks)
{
    const char *live = view_live_words(view);

    command_subject(report, view);
    report_field(report, "live_bytes", live, REPORT_SIZE, cell_unsigned(leaks->live_bytes));
    report_field(report, "live_count", "allocations", REPORT_COUNT, cell_unsigned(leaks->live_count));
    report_field(report, "end_ns", "last event at", REPORT_TIME, cell_signed(leaks->end_ns));
    report_field(report, "suppressed_bytes", NULL, REPORT_SIZE, cell_unsigned(leaks->suppressed_bytes));
    report_field(report, "suppressed_count", NULL, REPORT_COUNT, cell_unsigned(leaks->suppressed_count));
    report_field(report, "ended", NULL, REPORT_TEXT, cell_text(trace_end_word(&view->trace)));
    if (leaks->live_count == 0)
        report_note(report, "%s %s.", leaks->suppressed_count > 0 ? "Nothing but what is suppressed is" : "Nothing is",
                    live);
    else if (view->options->to.kind == MOMENT_NONE)
        leaks_note_end(view, report);
}

/* 0: nothing is live. */
static uint64_t
leaks_live_figure(const void *context, uint32_t group)
{
    return ((const struct leaks *)context)->list[group].live_bytes;
}

static void
leaks_report_group(struct report *report, void *context, uint32_t number)
{
    const struct leaks *leaks = context;
    const struct leaks_group *group = &leaks->list[number];
    struct group_cells cells;

    group_cells_make(&leaks->groups, number, &cells);
    REPORT_ROW(report, GROUP_CELLS(&cells), cell_unsigned(group->live_bytes),
               cell_share((double)group->live_bytes, (double)leaks->live_bytes), cell_unsigned(group->live_count),
               cell_unsigned(group->allocations), cell_signed(group->oldest_ns));
}

static int
leaks_report_groups(struct view *view, struct report *report, struct leaks *leaks)
{
    static const struct report_column columns[] = {
        GROUP_COLUMNS,
        { "live_bytes", "BYTES", REPORT_SIZE },
        { "live_share", "SHARE", REPORT_SHARE },
        { "live_count", "LIVE", REPORT_COUNT },
        { "allocations", "OF", REPORT_COUNT },
        { "oldest_ns", "SINCE", REPORT_TIME },
    };
    const struct ranking ranking = { leaks->groups.count, 0, report->options.limit, leaks_live_figure,
                                     leaks_report_group };
    struct output_figure figure;
    struct ranking_rows rows;

    REPORT_TABLE(report, "groups", NULL, columns);
    report_spare(report, "oldest_ns live_share allocations");
    report_group_title(report, leaks->groups.by);
    if (ranking_report(view, report, &ranking, leaks, &rows) != COMMAND_FINE)
        return COMMAND_WRONG;
    report_rest(report, rows.left, cell_unsigned(rows.left_figures));
    if (rows.left > 0)
        report_note(report, "%llu more hold %s.", (unsigned long long)rows.left,
                    output_size(&figure, rows.left_figures));
    return COMMAND_FINE;
}

static uint64_t
leaks_grown_bytes(const void *context, uint32_t group)
{
    const struct leaks *leaks = context;

    return leaks_grows(leaks, &leaks->list[group]) ? (uint64_t)leaks_growth(&leaks->list[group]) : 0;
}

static void
leaks_report_grown(struct report *report, void *context, uint32_t number)
{
    const struct leaks *leaks = context;
    const struct leaks_group *group = &leaks->list[number];
    int64_t steps = (int64_t)leaks->steps.count - 1;
    struct group_cells cells;

    group_cells_make(&leaks->groups, number, &cells);
    REPORT_ROW(report, GROUP_CELLS(&cells), cell_signed(leaks_growth(group)), cell_signed(leaks_growth(group) / steps),
               cell_unsigned(group->first_bytes), cell_unsigned(group->last_bytes), cell_unsigned(group->rose),
               cell_unsigned(group->fell));
}

/* Add a sentence about a group that grew: in most steps, or in some. */
static void
leaks_note_grown(struct report *report, void *context, uint32_t number)
{
    const struct leaks *leaks = context;
    const struct leaks_group *group = &leaks->list[number];
    uint64_t growth = (uint64_t)leaks_growth(group);
    size_t steps = leaks->steps.count - 1;
    struct output_figure figure;
    char name[GROUPS_NAME];
    const char *brief = groups_brief(&leaks->groups, number, name, sizeof(name));

    if (group->rose * 4 >= steps * 3)
        report_note(report, "%s %s grew in %u of %zu steps, by %s a step.", groups_word(leaks->groups.by), brief,
                    group->rose, steps, output_size(&figure, growth / steps));
    else
        report_note(report, "%s %s grew in %u of %zu steps, in about one of %zu, by %s each time.",
                    groups_word(leaks->groups.by), brief, group->rose, steps, steps / group->rose,
                    output_size(&figure, growth / group->rose));
}

static int
leaks_report_growth(struct view *view, struct report *report, struct leaks *leaks)
{
    static const struct report_column columns[] = {
        GROUP_COLUMNS,
        { "growth_bytes", "GROWTH", REPORT_CHANGE },
        { "step_bytes", "PER STEP", REPORT_CHANGE },
        { "first_bytes", "AFTER THE FIRST", REPORT_SIZE },
        { "last_bytes", "AFTER THE LAST", REPORT_SIZE },
        { "rose", "ROSE IN", REPORT_COUNT },
        { "fell", "FELL IN", REPORT_COUNT },
    };
    const struct ranking table = { leaks->groups.count, 0, report->options.limit, leaks_grown_bytes,
                                   leaks_report_grown };
    const struct ranking notes = { leaks->groups.count, 0, 3, leaks_grown_bytes, leaks_note_grown };
    struct ranking_rows rows;

    REPORT_TABLE(report, "growth", "Growth from step to step", columns);
    report_group_title(report, leaks->groups.by);
    report_spare(report, "fell rose first_bytes last_bytes step_bytes");
    if (ranking_report(view, report, &table, leaks, &rows) != COMMAND_FINE)
        return COMMAND_WRONG;
    report_rest(report, rows.left, cell_unsigned(rows.left_figures));
    if (ranking_report(view, report, &notes, leaks, &rows) != COMMAND_FINE)
        return COMMAND_WRONG;
    if (rows.shown == 0)
        report_note(report, "Nothing grew from step to step.");
    return COMMAND_FINE;
}

static int
leaks_report_steps(struct view *view, struct report *report, struct leaks *leaks, const char *asked)
{
    static const char *const words[] = { "none", "marks", "rhythm" };
    const struct steps *steps = &leaks->steps;
    size_t number = steps->count > 0 ? steps->count - 1 : 0;
    struct output_figure figure;

    report_field(report, "steps_source", NULL, REPORT_TEXT, cell_text(words[steps->source]));
    report_field(report, "steps_text", NULL, REPORT_TEXT, cell_text(steps->text));
    report_field(report, "steps_count", NULL, REPORT_COUNT, cell_unsigned(number));
    if (steps->source == STEPS_NONE) {
        if (asked != NULL && strcmp(asked, STEPS_RHYTHM_ALONE) == 0)
            report_note(report, "No steps by rhythm: %s.", steps->lack);
        report_no_table(report, "growth");
        return COMMAND_FINE;
    }
    if (steps->source == STEPS_MARKS)
        report_label(report, "steps", "%zu, between marks \"%.100s\"", number, steps->text);
    else
        report_label(report, "steps", "%zu, by the rhythm of what is live: about %s each", number,
                     output_time(&figure, (steps->ends[number] - steps->ends[0]) / (int64_t)number));
    return leaks_report_growth(view, report, leaks);
}

static void
leaks_report_suppressions(struct report *report, const struct leaks *leaks)
{
    static const struct report_column columns[] = {
        { "line", "LINE", REPORT_COUNT },
        { "pattern", "PATTERN", REPORT_NAME },
        { "suppressed_bytes", "BYTES", REPORT_SIZE },
        { "suppressed_count", "LIVE", REPORT_COUNT },
    };

    REPORT_TABLE(report, "suppressions", "Suppressed", columns);
    report_spare(report, "line suppressed_bytes");
    for (size_t i = 0; i < leaks->suppress.count; i++) {
        const struct suppression *suppression = &leaks->suppress.list[i];

        REPORT_ROW(report, cell_unsigned(suppression->line), cell_text(suppression->text),
                   cell_unsigned(suppression->bytes), cell_unsigned(suppression->count));
    }
}

static int
leaks_analyse(struct view *view, struct report *report, const void *own)
{
    const struct leaks_options *options = own;
    enum groups_by by;
    struct leaks leaks;
    int status = tables_by(view, report, options->by, &by);

    if (status == COMMAND_FINE)
        status = leaks_make(view, by, options->steps, options->suppressions, options->blocks, &leaks);
    if (status != COMMAND_FINE)
        return status;
    leaks_report_head(view, report, &leaks);
    status = leaks_report_groups(view, report, &leaks);
    if (status == COMMAND_FINE)
        status = leaks_report_steps(view, report, &leaks, options->steps);
    if (options->suppressions != NULL)
        leaks_report_suppressions(report, &leaks);
    else
        report_no_table(report, "suppressions");
    if (options->blocks > 0)
        report_lives(report, &view->names, &leaks.lives);
    else
        report_no_table(report, "blocks");
    leaks_free(&leaks);
    return status;
}

const struct command command_leaks = {
    .name = "leaks",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "What is live at the end, and what grows from step to step",
    .help = "\n"
            "LIVE is how many allocations of a group are live at the end, or at --to; OF how many it\n"
            "made; SINCE when the oldest of those was made. Steps lie between marks that repeat, or\n"
            "else between the lows of what is live, where it rises and falls in a rhythm. What grows\n"
            "has more after the last step than after the first, rose twice as often as it fell, and\n"
            "rose in an eighth of the steps or, at least three times, in each third of them. A pattern\n"
            "to suppress is a line tag:PATTERN, thread:PATTERN, callstack:REGEX or size:SIZE.\n",
    .options = leaks_option_defs,
    COMMAND_OWN(struct leaks_options, .by = -1),
    .common = OPTIONS_REPORT | OPTIONS_FILTER | OPTIONS_STACKS | OPTIONS_LIMIT,
    .run = command_answer,
    .analyse = leaks_analyse,
};
