/* Tables that several commands print. */
#ifndef VIEWER_COMMANDS_TABLES_H
#define VIEWER_COMMANDS_TABLES_H

#include "viewer/analysis/groups.h"
#include "viewer/analysis/top-lives.h"
#include "viewer/output/report.h"
#include "viewer/read/view.h"

/* The option --by of commands that print one table of groups; its value at `offset` is -1 for groups_default. */
#define TABLES_OPTION_BY(offset)                                                                                       \
    {                                                                                                                  \
        "by", 'b', OPTION_CHOICE, "WHAT",                                                                              \
            "group by tag, callstack, function (call stacks without lines), file (of\n"                                \
            "the innermost frame), size, class (of sizes, powers of two), stream,\n"                                   \
            "thread, layer, device or kind (of memory); else by what the trace has",                                   \
            (offset), GROUPS_CHOICES, 0                                                                                \
    }

/*
 * Set *by to the grouping that `option` names, -1: tags where --depth is given, else groups_default. COMMAND_FINE; or
 * COMMAND_WRONG after a message, if --frames, --skip or --depth are given and the groups are of something else.
 */
int tables_by(const struct view *view, const struct report *report, int option, enum groups_by *by);

/*
 * Refuse --frames, --skip and --depth where no table is of what they are for. `by` has a bit for each enum groups_by of
 * a table. COMMAND_FINE, or COMMAND_WRONG after a message.
 */
int tables_check_stacks(const struct view *view, const struct report *report, unsigned by);

/*
 * The first columns of a table with a row for each group: one for people, whose title is report_group_title, and those
 * for programs.
 */
#define GROUP_COLUMNS                                                                                                  \
    { NULL, "", REPORT_NAME }, { "name", NULL, REPORT_TEXT }, { "callstack", NULL, REPORT_STACK },                     \
        { "id", NULL, REPORT_COUNT },                                                                                  \
    {                                                                                                                  \
        "size", NULL, REPORT_SIZE                                                                                      \
    }

/* Give the first column of the last table its title. The texts are constants. */
void report_group_title(struct report *report, enum groups_by by);

/*
 * The cells of these columns: a call stack, or the name of anything else; what identifies it in the trace; an exact
 * size. The texts are borrowed from `buffer` and from the groups.
 */
struct group_cells {
    struct report_cell words, name, callstack, id, size;
    char buffer[GROUPS_NAME];
};

#define GROUP_CELLS(cells) (cells)->words, (cells)->name, (cells)->callstack, (cells)->id, (cells)->size

void group_cells_make(const struct groups *groups, uint32_t number, struct group_cells *out);

/* A table with a row for each number from 0 on, the largest figure first. */
struct ranking {
    size_t count;
    size_t always;  /* so many numbers have a row even if their figure is 0 */
    uint64_t limit; /* the most rows */
    uint64_t (*figure)(const void *context, uint32_t number);
    void (*row)(struct report *report, void *context, uint32_t number);
};

/* The number of rows, the number that the limit left out, and the sum of the figures of each. */
struct ranking_rows {
    uint64_t shown, left;
    uint64_t shown_figures, left_figures;
};

/* Call `row` for each number that has a row. COMMAND_FINE, or COMMAND_WRONG after a message. */
int ranking_report(struct view *view, struct report *report, const struct ranking *ranking, void *context,
                   struct ranking_rows *out);

/* The table "blocks" of single allocations, which need SCAN_ORIGIN, SCAN_CALLER and SCAN_PLACE. */
void report_lives(struct report *report, const struct names *names, const struct top_lives *lives);

#endif
