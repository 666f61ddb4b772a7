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
            "group by tag, callstack, function (call stacks without lines), size, class\n"                             \
            "(of sizes, powers of two), stream, thread, layer or device; else by what\n"                               \
            "the trace has",                                                                                           \
            (offset), GROUPS_CHOICES, 0                                                                                \
    }

/*
 * Set *by to the grouping that `option` names, -1: groups_default. COMMAND_FINE; or COMMAND_WRONG after a message, if
 * --frames or --skip are given and the groups are not of call stacks.
 */
int tables_by(const struct view *view, const struct report *report, int option, enum groups_by *by);

/* Refuse --frames and --skip where no table is of call stacks. COMMAND_FINE, or COMMAND_WRONG after a message. */
int tables_check_stacks(const struct view *view, const struct report *report, bool by_stacks);

/*
 * The columns of a table with a row for each group that say which: its name first, then its size for people, and last
 * its size for programs. Groups by size have the sizes, and no name for people. The texts are constants.
 */
void report_group_columns(struct report *report, enum groups_by by, size_t last);

/* The cell of the size of a group; missing unless the groups are by size. */
struct report_cell report_group_size(const struct groups *groups, uint32_t group);

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
