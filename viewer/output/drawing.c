/* Draws a timeline with block characters. */
#include "config.h"

#include <langinfo.h>
#include <string.h>

#include "viewer/output/drawing.h"
#include "viewer/base/output.h"

bool
drawing_is_ascii(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
}

const char *
drawing_bar(double share, size_t width, bool ascii, char *buffer)
{
    static const char *const parts[] = { "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };
    size_t eighths = (size_t)(share * 8 * (double)width + 0.5);
    char *end = buffer;

    if (eighths > 8 * width)
        eighths = 8 * width;
    if (share > 0 && eighths == 0)
        eighths = 1;
    for (; eighths > 0; eighths -= eighths < 8 ? eighths : 8)
        end = stpcpy(end, ascii ? "#" : parts[eighths < 8 ? eighths - 1 : 7]);
    *end = '\0';
    return buffer;
}

/* What a row is made of; each is a part of it that may have a colour. */
enum drawing_sign {
    DRAWING_BLANK,
    DRAWING_LIVE, /* and how many eighths: the signs up to DRAWING_FULL */
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

/* Signs of one kind share a colour. */
static void
drawing_put(const struct drawing_options *options, FILE *out, enum drawing_sign sign, const char **color)
{
    const char *wanted = options->color ? drawing_color(sign) : "";

    if (wanted != *color) {
        if ((*color)[0] != '\0')
            fputs("\033[0m", out);
        fputs(wanted, out);
        *color = wanted;
    }
    fputs(drawing_text(options, sign), out);
}

static void
drawing_stop(FILE *out, const char *color)
{
    if (color[0] != '\0')
        fputs("\033[0m", out);
    putc('\n', out);
}

/* Bytes in eighths of a row; what is there at all is one at least. */
static size_t
drawing_eighths(uint64_t bytes, uint64_t top, size_t height)
{
    size_t eighths = (size_t)((double)bytes / (double)top * (double)(8 * height) + 0.5);

    return eighths > 8 * height ? 8 * height : bytes > 0 && eighths == 0 ? 1 : eighths;
}

static enum drawing_sign
drawing_sign(const struct timeline *timeline, const struct timeline_column *column, uint64_t top, size_t height,
             size_t row)
{
    size_t live = drawing_eighths(column->most_bytes, top, height);
    size_t reserved = drawing_eighths(column->reserved_bytes, top, height);
    size_t limit = drawing_eighths(timeline->limit_bytes, top, height);

    if (live >= 8 * (row + 1))
        return DRAWING_FULL;
    if (live > 8 * row)
        return (enum drawing_sign)(DRAWING_LIVE + (live - 8 * row) - 1);
    if (timeline->limit_bytes > 0 && timeline->limit_bytes <= top && limit > 8 * row && limit <= 8 * (row + 1))
        return DRAWING_LIMIT;
    return reserved >= 8 * row + 4 ? DRAWING_RESERVED : DRAWING_BLANK;
}

static void
drawing_rows(const struct timeline *timeline, const struct drawing_options *options, uint64_t top, FILE *out)
{
    static unsigned char signs[TIMELINE_COLUMNS];

    for (size_t row = options->height; row-- > 0;) {
        struct output_figure figure;
        const char *color = "";
        size_t length;
        bool labelled = row + 1 == options->height || (row + 1) * 2 == options->height;

        fprintf(out, "%*s %s", DRAWING_MARGIN - 2,
                labelled ? output_size(&figure, row + 1 == options->height ? top : top / 2) : "",
                options->ascii ? "|"
                : labelled     ? "┤"
                               : "│");
        for (size_t i = 0; i < timeline->count; i++)
            signs[i] = (unsigned char)drawing_sign(timeline, &timeline->columns[i], top, options->height, row);
        for (length = timeline->count; length > 0 && signs[length - 1] == DRAWING_BLANK;)
            length--;
        for (size_t i = 0; i < length; i++)
            drawing_put(options, out, signs[i], &color);
        drawing_stop(out, color);
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

/* A row of signs below the drawing where columns have something; nothing where none has. */
static bool
drawing_events(const struct timeline *timeline, const struct drawing_options *options, enum drawing_sign sign,
               FILE *out)
{
    const char *color = "";
    size_t last = 0;

    for (size_t i = 0; i < timeline->count; i++) {
        if (sign == DRAWING_MARK ? timeline->columns[i].marks > 0 : timeline->columns[i].failures > 0)
            last = i + 1;
    }
    if (last == 0)
        return false;
    fprintf(out, "%*s", DRAWING_MARGIN, "");
    for (size_t i = 0; i < last; i++) {
        const struct timeline_column *column = &timeline->columns[i];
        bool there = sign == DRAWING_MARK ? column->marks > 0 : column->failures > 0;

        drawing_put(options, out, there ? sign : DRAWING_BLANK, &color);
    }
    drawing_stop(out, color);
    return true;
}

static void
drawing_legend(const struct timeline *timeline, const struct drawing_options *options, uint64_t top, bool failures,
               bool marks, FILE *out)
{
    struct output_figure figure;

    fprintf(out, "%*s%s live", DRAWING_MARGIN, "", drawing_text(options, DRAWING_FULL));
    if (timeline->reserved != TIMELINE_UNKNOWN)
        fprintf(out, "  %s reserved", drawing_text(options, DRAWING_RESERVED));
    if (timeline->limit_bytes > 0)
        fprintf(out, "  %s limit %s%s", timeline->limit_bytes <= top ? drawing_text(options, DRAWING_LIMIT) : "-",
                output_size(&figure, timeline->limit_bytes), timeline->limit_bytes <= top ? "" : " (above)");
    if (failures)
        fprintf(out, "  %s failed", drawing_text(options, DRAWING_FAILURE));
    if (marks)
        fprintf(out, "  %s mark", drawing_text(options, DRAWING_MARK));
    putc('\n', out);
}

/* The bytes at the top: the most of what is drawn, and the limit where that is not far above it. */
static uint64_t
drawing_top(const struct timeline *timeline)
{
    uint64_t top = timeline->peak_bytes;

    if (timeline->reserved_peak_bytes > top)
        top = timeline->reserved_peak_bytes;
    if (timeline->limit_bytes > top && timeline->limit_bytes / 2 < top)
        top = timeline->limit_bytes;
    return top > 0 ? top : 1;
}

void
drawing_write(const struct timeline *timeline, const struct drawing_options *options, FILE *out)
{
    uint64_t top = drawing_top(timeline);
    bool failures, marks;

    drawing_rows(timeline, options, top, out);
    drawing_axis(timeline, options, out);
    failures = drawing_events(timeline, options, DRAWING_FAILURE, out);
    marks = drawing_events(timeline, options, DRAWING_MARK, out);
    drawing_legend(timeline, options, top, failures, marks, out);
}
