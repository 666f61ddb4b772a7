/* What was reserved, for each stack and kind of memory, as several commands print it. */
#ifndef VIEWER_COMMANDS_MEMORY_H
#define VIEWER_COMMANDS_MEMORY_H

#include "viewer/analysis/reserved.h"
#include "viewer/output/report.h"

/* Longer than any text of memory_words. */
#define MEMORY_WORDS 48

/* What takes memory of a device beside the bases of a trace. */
#define MEMORY_BESIDE "not through this stack: contexts, kernels, other libraries and processes"

/* "4 GiB", "at least 4 GiB", or "unknown": the most of a figure. */
const char *memory_words(const struct reserved_figure *figure, char *buffer, size_t size);

/* The peak as a cell for programs; none where it is unknown. */
struct report_cell memory_peak(const struct reserved_figure *figure);

/* Whether the peak is exact; none where it is unknown. */
struct report_cell memory_is_exact(const struct reserved_figure *figure);

/* Add the fields reserved_peak_bytes, reserved_peak_is_exact and reserved_source. */
void memory_report_peak_fields(struct report *report, const struct reserved_figure *figure);

/* The same, and the line "peak reserved". */
void memory_report_peak(struct report *report, const struct reserved_figure *figure);

/* The most columns that a command adds to the table "memory". */
#define MEMORY_MORE 12

/* Columns behind those of the table, and what sets their cells, which are missing values before. */
struct memory_more {
    const struct report_column *columns;
    size_t count;
    void (*cells)(const void *context, const struct reserved_group *group, struct report_cell *out);
    const void *context;
};

/* Add the most that each device had in use, and how much of it was not through the trace's stacks, for people. */
void memory_report_use(struct report *report, const struct device_uses *uses);

/* Add the table "device_use", for programs. */
void memory_report_use_table(struct report *report, const struct device_uses *uses);

/* Add the table "memory", with a row for each group. People see it where there are several. */
void memory_report(struct report *report, const struct reserved *reserved);

/* The same with further columns (borrowed). */
void memory_report_more(struct report *report, const struct reserved *reserved, const struct memory_more *more);

#endif
