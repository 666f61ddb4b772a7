/* `tidemark timeline`: the live and the reserved bytes over time, drawn in the terminal. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "viewer/cli/command.h"
#include "viewer/output/drawing.h"

#define TIMELINE_WIDTH     80 /* where there is no terminal */
#define TIMELINE_LEAST     8  /* columns, and rows of 100 at most */
#define TIMELINE_HEIGHT    12
#define TIMELINE_ROWS_MOST 100

struct timeline_options {
    uint64_t width;
    uint64_t height;
    bool ascii;
};

#define AT(field) offsetof(struct timeline_options, field)

static const struct option_def timeline_option_defs[] = {
    { "width", 'w', OPTION_COUNT, "N",
      "characters to a line, else those of the terminal, or 80; where it is\n"
      "not drawn, so many columns",
      AT(width), NULL, 0 },
    { "height", 0, OPTION_COUNT, "N", "rows of the drawing; 12", AT(height), NULL, 0 },
    { "ascii", 0, OPTION_FLAG, NULL, "draw with plain characters, as where the locale has no others", AT(ascii), NULL,
      0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

/* How many columns of time to make. */
static size_t
timeline_columns(const struct view *view, uint64_t width)
{
    bool drawn = view->options->report.format == REPORT_TABLE;
    struct winsize window;

    if (width == 0 && drawn && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0)
        width = window.ws_col;
    if (width == 0)
        width = TIMELINE_WIDTH;
    if (width > TIMELINE_COLUMNS)
        width = TIMELINE_COLUMNS;
    if (!drawn)
        return (size_t)width;
    return width > DRAWING_MARGIN + TIMELINE_LEAST ? (size_t)width - DRAWING_MARGIN : TIMELINE_LEAST;
}

static int
timeline_draw(struct view *view, const struct timeline *timeline, const struct timeline_options *options)
{
    struct drawing_options how = {
        .height = options->height < TIMELINE_ROWS_MOST ? (size_t)options->height : TIMELINE_ROWS_MOST,
        .ascii = options->ascii || drawing_is_ascii(),
        .color = report_has_color(&view->report),
    };
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (how.height == 0)
        how.height = 1;
    if (out != NULL)
        drawing_write(timeline, &how, out);
    if (out == NULL || fclose(out) != 0) {
        free(text);
        return trace_broken(&view->trace, "no memory for its timeline");
    }
    report_lines(&view->report, "%s", text);
    free(text);
    return COMMAND_FINE;
}

/* The same for programs. */
static void
timeline_report_columns(struct view *view, const struct timeline *timeline)
{
    static const struct report_column columns[] = {
        { "ns", NULL, REPORT_TIME },
        { "most_bytes", NULL, REPORT_SIZE },
        { "least_bytes", NULL, REPORT_SIZE },
        { "end_bytes", NULL, REPORT_SIZE },
        { "reserved_bytes", NULL, REPORT_SIZE },
        { "allocations", NULL, REPORT_COUNT },
        { "frees", NULL, REPORT_COUNT },
        { "failures", NULL, REPORT_COUNT },
        { "marks", NULL, REPORT_COUNT },
    };

    report_table(&view->report, "columns", NULL, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < timeline->count; i++) {
        const struct timeline_column *column = &timeline->columns[i];

        report_row(&view->report,
                   (struct report_cell[]){
                       cell_signed(column->ns), cell_unsigned(column->most_bytes), cell_unsigned(column->least_bytes),
                       cell_unsigned(column->end_bytes),
                       timeline->reserved != TIMELINE_UNKNOWN ? cell_unsigned(column->reserved_bytes) : cell_none(),
                       cell_unsigned(column->allocations), cell_unsigned(column->frees),
                       cell_unsigned(column->failures), cell_unsigned(column->marks) });
    }
}

static void
timeline_report_head(struct view *view, const struct timeline *timeline, const char *subject)
{
    static const struct report_column of = { "of", "of", REPORT_TEXT };
    static const struct report_column begin = { "begin_ns", NULL, REPORT_TIME };
    static const struct report_column end = { "end_ns", NULL, REPORT_TIME };
    static const struct report_column peak = { "peak_bytes", "peak", REPORT_SIZE };
    static const struct report_column peak_ns = { "peak_ns", "reached at", REPORT_TIME };
    static const struct report_column reserved = { "reserved_peak_bytes", "most reserved", REPORT_SIZE };
    static const struct report_column source = { "reserved_source", NULL, REPORT_TEXT };
    static const struct report_column limit = { "limit_bytes", NULL, REPORT_SIZE };
    bool known = timeline->reserved != TIMELINE_UNKNOWN;
    struct report *report = &view->report;

    report_field(report, &of, cell_text(subject));
    report_field(report, &begin, cell_signed(timeline->begin_ns));
    report_field(report, &end, cell_signed(timeline->end_ns));
    report_field(report, &peak, cell_unsigned(timeline->peak_bytes));
    report_field(report, &peak_ns, timeline->peak_bytes > 0 ? cell_signed(timeline->peak_ns) : cell_none());
    report_field(report, &reserved, known ? cell_unsigned(timeline->reserved_peak_bytes) : cell_none());
    report_field(report, &source,
                 known ? cell_text(timeline->reserved == TIMELINE_LAYERS ? "layers" : "samples") : cell_none());
    report_field(report, &limit, timeline->limit_bytes > 0 ? cell_unsigned(timeline->limit_bytes) : cell_none());
}

static int
timeline_analyse(struct view *view, const void *own)
{
    const struct timeline_options *options = own;
    char *subject = view_subject(view);
    struct timeline timeline;
    int status = timeline_make(view, timeline_columns(view, options->width), &timeline);

    if (status == COMMAND_FINE) {
        timeline_report_head(view, &timeline, subject);
        status = timeline_draw(view, &timeline, options);
        timeline_report_columns(view, &timeline);
        timeline_free(&timeline);
    }
    free(subject);
    return status;
}

static int
timeline_run(const struct command *self, int argc, char **argv)
{
    struct timeline_options options = { .height = TIMELINE_HEIGHT };

    return view_run(self, argc, argv, &options, timeline_analyse);
}

const struct command command_timeline = {
    .name = "timeline",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "Draw the live and the reserved bytes over time",
    .help = "\n"
            "A column of the drawing is as high as the most that was live, or reserved, at any moment\n"
            "in it. Reserved is what the log below has live, or else what samples of the pools say.\n"
            "A limit is drawn where it is less than twice as high as all else.\n",
    .options = timeline_option_defs,
    .common = OPTIONS_REPORT | OPTIONS_FILTER,
    .run = timeline_run,
};
