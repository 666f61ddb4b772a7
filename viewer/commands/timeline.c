/* `tidemark timeline`: the live and reserved bytes over time, drawn in the terminal. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "viewer/commands/commands.h"
#include "viewer/commands/memory.h"
#include "viewer/analysis/timeline.h"
#include "viewer/base/output.h"
#include "viewer/base/shown.h"

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

/* The characters to the left of the drawing's columns. */
#define DRAWING_MARGIN 12

struct drawing_options {
    size_t height; /* rows */
    bool ascii;
    bool color;
};

/* The signs of a row. Each has a colour. */
enum drawing_sign {
    DRAWING_BLANK,
    DRAWING_LIVE, /* one eighth; the signs up to DRAWING_FULL have one more each */
    DRAWING_FULL = DRAWING_LIVE + 7,
    DRAWING_RESERVED,
    DRAWING_LIMIT,
    DRAWING_FAILURE,
    DRAWING_MARK,
    DRAWING_SIGNS,
};

static const char *const drawing_blocks[DRAWING_SIGNS] = { " ", "▁", "▂", "▃", "▄", "▅", "▆",
                                                           "▇", "█", "░", "╌", "×", "▴" };
static const char *const drawing_ascii[DRAWING_SIGNS] = { " ", ".", ".", ":", ":", ":", "#",
                                                          "#", "#", "`", "-", "x", "^" };

static const char *
drawing_color(enum drawing_sign sign)
{
    if (sign == DRAWING_BLANK)
        return "";
    if (sign <= DRAWING_FULL)
        return "\033[36m";
    if (sign == DRAWING_RESERVED)
        return "\033[2m";
    return sign == DRAWING_MARK ? "\033[33m" : "\033[31m";
}

static const char *
drawing_text(const struct drawing_options *options, enum drawing_sign sign)
{
    return (options->ascii ? drawing_ascii : drawing_blocks)[sign];
}

/* Write a line of signs without the blanks at its end. A colour is set where it changes. */
static void
drawing_line(const struct drawing_options *options, const unsigned char *signs, size_t count, FILE *out)
{
    const char *color = "";

    while (count > 0 && signs[count - 1] == DRAWING_BLANK)
        count--;
    for (size_t i = 0; i < count; i++) {
        const char *wanted = options->color ? drawing_color(signs[i]) : "";

        if (wanted != color)
            fprintf(out, "%s%s", color[0] != '\0' ? "\033[0m" : "", wanted);
        color = wanted;
        fputs(drawing_text(options, signs[i]), out);
    }
    fputs(color[0] != '\0' ? "\033[0m\n" : "\n", out);
}

/* Bytes in eighths of a row. A figure above 0 has at least one. */
static size_t
drawing_eighths(uint64_t bytes, uint64_t top, size_t height)
{
    size_t eighths = (size_t)((double)bytes / (double)top * (double)(8 * height) + 0.5);

    return eighths > 8 * height ? 8 * height : bytes > 0 && eighths == 0 ? 1 : eighths;
}

static enum drawing_sign
drawing_sign(const struct timeline_part *part, const struct timeline_column *column, uint64_t top, size_t height,
             size_t row)
{
    size_t live = drawing_eighths(column->most_bytes, top, height);
    size_t reserved = drawing_eighths(column->reserved_bytes, top, height);
    size_t limit = drawing_eighths(part->limit_bytes, top, height);

    if (live >= 8 * (row + 1))
        return DRAWING_FULL;
    if (live > 8 * row)
        return (enum drawing_sign)(DRAWING_LIVE + (live - 8 * row) - 1);
    if (part->limit_bytes > 0 && part->limit_bytes <= top && limit > 8 * row && limit <= 8 * (row + 1))
        return DRAWING_LIMIT;
    return reserved >= 8 * row + 4 ? DRAWING_RESERVED : DRAWING_BLANK;
}

static void
drawing_rows(const struct timeline *timeline, const struct timeline_part *part, const struct drawing_options *options,
             uint64_t top, FILE *out)
{
    unsigned char signs[TIMELINE_COLUMNS];

    for (size_t row = options->height; row-- > 0;) {
        struct output_figure figure;
        bool labelled = row + 1 == options->height || (row + 1) * 2 == options->height;

        fprintf(out, "%*s %s", DRAWING_MARGIN - 2,
                labelled ? output_size(&figure, row + 1 == options->height ? top : top / 2) : "",
                options->ascii ? "|"
                : labelled     ? "┤"
                               : "│");
        for (size_t i = 0; i < timeline->count; i++)
            signs[i] = (unsigned char)drawing_sign(part, &part->columns[i], top, options->height, row);
        drawing_line(options, signs, timeline->count, out);
    }
}

static void
drawing_axis(const struct timeline *timeline, const struct drawing_options *options, FILE *out)
{
    struct output_figure from, to;
    int width;

    fprintf(out, "%*s %s", DRAWING_MARGIN - 2, "0 B", options->ascii ? "+" : "└");
    for (size_t i = 0; i < timeline->count; i++)
        fputs(options->ascii ? "-" : "─", out);
    output_time(&from, timeline->begin_ns);
    output_time(&to, timeline->end_ns);
    width = (int)timeline->count - (int)strlen(from.text);
    if (width < (int)strlen(to.text) + 1)
        width = (int)strlen(to.text) + 1;
    fprintf(out, "\n%*s%s%*s\n", DRAWING_MARGIN, "", from.text, width, to.text);
}

/* Write a row of signs below the columns with failures or marks. False: there are none, and no row. */
static bool
drawing_events(const struct timeline *timeline, const struct timeline_part *part, const struct drawing_options *options,
               enum drawing_sign sign, FILE *out)
{
    unsigned char signs[TIMELINE_COLUMNS];
    bool any = false;

    for (size_t i = 0; i < timeline->count; i++) {
        const struct timeline_column *column = &part->columns[i];
        bool there = sign == DRAWING_MARK ? column->marks > 0 : column->failures > 0;

        signs[i] = (unsigned char)(there ? sign : DRAWING_BLANK);
        any = any || there;
    }
    if (any) {
        fprintf(out, "%*s", DRAWING_MARGIN, "");
        drawing_line(options, signs, timeline->count, out);
    }
    return any;
}

static void
drawing_legend(const struct timeline_part *part, const struct drawing_options *options, uint64_t top, bool failures,
               bool marks, FILE *out)
{
    struct output_figure figure;

    fprintf(out, "%*s%s live", DRAWING_MARGIN, "", drawing_text(options, DRAWING_FULL));
    if (part->group->reserved.source != RESERVED_UNKNOWN)
        fprintf(out, "  %s reserved%s", drawing_text(options, DRAWING_RESERVED),
                part->group->reserved.source == RESERVED_LAYERS ? "" : ", at samples");
    if (part->limit_bytes > 0)
        fprintf(out, "  %s limit %s%s", part->limit_bytes <= top ? drawing_text(options, DRAWING_LIMIT) : "-",
                output_size(&figure, part->limit_bytes), part->limit_bytes <= top ? "" : " (above)");
    if (failures)
        fprintf(out, "  %s failed", drawing_text(options, DRAWING_FAILURE));
    if (marks)
        fprintf(out, "  %s mark", drawing_text(options, DRAWING_MARK));
    putc('\n', out);
}

/* The bytes at the top of the drawing: the highest figure, or the limit if that is less than twice as high. */
static uint64_t
drawing_top(const struct timeline *timeline, const struct timeline_part *part)
{
    uint64_t top = part->group->live_peak_bytes;

    for (size_t i = 0; i < timeline->count; i++) {
        if (part->columns[i].reserved_bytes > top)
            top = part->columns[i].reserved_bytes;
    }
    if (part->limit_bytes > top && part->limit_bytes / 2 < top)
        top = part->limit_bytes;
    return top > 0 ? top : 1;
}

/* Write the drawing of a part, its axes and its legend. */
static void
drawing_write(const struct timeline *timeline, const struct timeline_part *part, const struct drawing_options *options,
              FILE *out)
{
    uint64_t top = drawing_top(timeline, part);
    bool failures, marks;

    if (timeline->part_count > 1) {
        fputs(part != timeline->parts ? "\n" : "", out);
        shown_put(out, part->group->name, strlen(part->group->name));
        fputs(":\n", out);
    }
    drawing_rows(timeline, part, options, top, out);
    drawing_axis(timeline, options, out);
    failures = drawing_events(timeline, part, options, DRAWING_FAILURE, out);
    marks = drawing_events(timeline, part, options, DRAWING_MARK, out);
    drawing_legend(part, options, top, failures, marks, out);
}

/* The number of columns of time. */
static size_t
timeline_columns(const struct report *report, uint64_t width)
{
    bool drawn = report->options.format == REPORT_TABLE;
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
timeline_draw(struct view *view, struct report *report, const struct timeline *timeline,
              const struct timeline_options *options)
{
    struct drawing_options how = {
        .height = options->height < TIMELINE_ROWS_MOST ? (size_t)options->height : TIMELINE_ROWS_MOST,
        .ascii = options->ascii || output_is_ascii(),
        .color = report_has_color(report),
    };
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (how.height == 0)
        how.height = 1;
    for (size_t i = 0; i < timeline->part_count && out != NULL; i++)
        drawing_write(timeline, &timeline->parts[i], &how, out);
    if (out == NULL || fclose(out) != 0) {
        free(text);
        return trace_broken(&view->trace, "no memory for its timeline");
    }
    report_lines(report, "%s", text);
    free(text);
    return COMMAND_FINE;
}

static void
timeline_report_part(struct report *report, const struct timeline *timeline, const struct timeline_part *part)
{
    bool known = part->group->reserved.source != RESERVED_UNKNOWN;

    for (size_t i = 0; i < timeline->count; i++) {
        const struct timeline_column *column = &part->columns[i];

        REPORT_ROW(report, cell_signed(column->ns), cell_unsigned(column->most_bytes),
                   cell_unsigned(column->least_bytes), cell_unsigned(column->end_bytes),
                   known ? cell_unsigned(column->reserved_bytes) : cell_none(), cell_unsigned(column->allocations),
                   cell_unsigned(column->frees), cell_unsigned(column->failures), cell_unsigned(column->marks),
                   timeline->part_count > 1 ? cell_text(part->group->name) : cell_none());
    }
}

/* Add the columns as a table for programs. */
static void
timeline_report_columns(struct report *report, const struct timeline *timeline)
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
        { "memory", NULL, REPORT_TEXT },
    };

    REPORT_TABLE(report, "columns", NULL, columns);
    for (size_t i = 0; i < timeline->part_count; i++)
        timeline_report_part(report, timeline, &timeline->parts[i]);
}

/* Figures of one part. Those of several are in the table of memory, and have no value here. */
static void
timeline_report_head(struct report *report, const struct timeline *timeline)
{
    static const struct reserved_figure unknown = { .source = RESERVED_UNKNOWN };
    const struct timeline_part *part = timeline->part_count == 1 ? &timeline->parts[0] : NULL;
    const struct reserved_figure *reserved = part != NULL ? &part->group->reserved : &unknown;

    report_field(report, "begin_ns", NULL, REPORT_TIME, cell_signed(timeline->begin_ns));
    report_field(report, "end_ns", NULL, REPORT_TIME, cell_signed(timeline->end_ns));
    report_field(report, "peak_bytes", part != NULL ? "peak" : NULL, REPORT_SIZE,
                 part != NULL ? cell_unsigned(part->group->live_peak_bytes) : cell_none());
    report_field(report, "peak_ns", part != NULL ? "reached at" : NULL, REPORT_TIME,
                 part != NULL && part->group->live_peak_bytes > 0 ? cell_signed(part->group->live_peak_ns)
                                                                  : cell_none());
    if (reserved->source != RESERVED_UNKNOWN)
        memory_report_peak(report, reserved);
    else
        memory_report_peak_fields(report, reserved);
    report_field(report, "limit_bytes", NULL, REPORT_SIZE,
                 part != NULL && part->limit_bytes > 0 ? cell_unsigned(part->limit_bytes) : cell_none());
    memory_report(report, &timeline->reserved);
}

static int
timeline_analyse(struct view *view, struct report *report, const void *own)
{
    const struct timeline_options *options = own;
    struct timeline timeline;
    int status;

    command_subject(report, view);
    status = timeline_make(view, timeline_columns(report, options->width), TIMELINE_ASK, &timeline);
    if (status == COMMAND_FINE) {
        timeline_report_head(report, &timeline);
        status = timeline_draw(view, report, &timeline, options);
        timeline_report_columns(report, &timeline);
        timeline_free(&timeline);
    }
    return status;
}

const struct command command_timeline = {
    .name = "timeline",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "Draw the live and the reserved bytes over time",
    .help = "\n"
            "A column of the drawing is as high as the most that was live, or reserved, at any moment\n"
            "in it. Reserved is what the log below, or the pool, has live in chunks, or else what samples\n"
            "say, which can miss a peak. Each stack and kind of memory has a drawing of its own.\n"
            "A limit is drawn where it is less than twice as high as all else.\n",
    .options = timeline_option_defs,
    COMMAND_OWN(struct timeline_options, .height = TIMELINE_HEIGHT),
    .common = OPTIONS_REPORT | OPTIONS_FILTER,
    .run = command_answer,
    .analyse = timeline_analyse,
};
