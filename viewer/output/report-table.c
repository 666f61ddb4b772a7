/* Writes a report in the table format: fields with labels, tables with libsmartcols, sentences. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "viewer/base/callstack-text.h"
#include "viewer/output/report-layout.h"
#include "viewer/output/report-table.h"
#include "viewer/output/table.h"

/* On a terminal a name takes at most this many lines. Elsewhere it is one line and complete. */
#define PEOPLE_NAME_LINES 4

/* Sentences are not wrapped if a line has fewer characters left than this. */
#define PEOPLE_PROSE_LEAST 20

/* A name, wrapped to `width` characters (0: not wrapped). The caller frees it; NULL: no memory. */
static char *
people_name(enum report_kind kind, const char *name, size_t width)
{
    char *brief = kind == REPORT_STACK ? stack_text_short(name, SIZE_MAX) : strdup(name);
    char *lines;

    if (brief == NULL || width == 0)
        return brief;
    lines = stack_text_wrap(brief, width, PEOPLE_NAME_LINES);
    free(brief);
    return lines;
}

/* False: no memory. */
static bool
people_put_row(struct table *table, const struct report_item *item, const struct report_layout *layout, size_t row)
{
    char buffer[64];

    table_row(table);
    for (size_t i = 0; i < layout->count; i++) {
        size_t c = layout->columns[i];
        const struct report_cell *cell = &item->cells[row * item->column_count + c];
        const char *words;
        char *name;

        if (!cell->there)
            continue;
        words = report_words(item->columns[c].kind, cell, buffer, sizeof(buffer));
        if (!report_is_name(item->columns[c].kind)) {
            table_cell(table, i, words);
            continue;
        }
        name = people_name(item->columns[c].kind, words, i + 1 == layout->count ? layout->name_width : 0);
        if (name == NULL)
            return false;
        table_cell(table, i, name);
        free(name);
    }
    return true;
}

/* List the columns that the terminal is too narrow for. */
static void
people_put_left_out(const struct report_item *item, const struct report_layout *layout, struct emit *out)
{
    bool any = false;

    for (size_t c = 0; c < item->column_count; c++) {
        if (!layout->left_out[c] || item->columns[c].title[0] == '\0')
            continue;
        emit_format(out, any ? ", %s" : "A wider terminal also shows: %s", item->columns[c].title);
        any = true;
    }
    if (any)
        emit_string(out, "\n");
}

/* False: no memory. */
static bool
people_put_table(const struct report_item *item, struct emit *out, bool color, size_t screen)
{
    struct report_layout layout;
    struct table table;
    bool fine = true;

    if (!report_layout_make(item, screen, &layout))
        return false;
    table_begin(&table, color);
    for (size_t i = 0; i < layout.count; i++) {
        const struct report_column *column = &item->columns[layout.columns[i]];
        bool wrapped = layout.name_width > 0 && i + 1 == layout.count;

        table_column(&table, column->title,
                     wrapped                        ? TABLE_LINES
                     : report_is_left(column->kind) ? TABLE_LEFT
                                                    : TABLE_RIGHT);
    }
    for (size_t row = 0; fine && row < item->row_count; row++)
        fine = people_put_row(&table, item, &layout, row);
    fine = table_end(&table, fine ? out : NULL, true) && fine;
    if (fine)
        people_put_left_out(item, &layout, out);
    report_layout_free(&layout);
    return fine;
}

/* The width of the terminal in characters; 0: standard output is not a terminal. */
static size_t
people_screen(void)
{
    struct winsize screen;

    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &screen) == 0 ? screen.ws_col : 0;
}

static size_t
people_field_width(const struct report *report)
{
    size_t width = 0;

    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];

        if (item->kind == REPORT_ITEM_FIELD && item->field.title != NULL && strlen(item->field.title) > width)
            width = strlen(item->field.title);
    }
    return width + 2;
}

static bool
people_see(const struct report *report, const struct report_item *item)
{
    if (!report_shows(report, item))
        return false;
    if (item->kind == REPORT_ITEM_FIELD)
        return item->field.title != NULL && item->cells->there;
    if (item->kind != REPORT_ITEM_TABLE)
        return true;
    return report_layout_has_any(item);
}

/* Write words, wrapped to `screen` characters and indented by `indent` from the second line on. False: no memory. */
static bool
people_put_prose(struct emit *out, const char *words, size_t indent, size_t screen)
{
    bool narrow = screen < indent + PEOPLE_PROSE_LEAST;
    char *lines = narrow ? strdup(words) : stack_text_wrap(words, screen - indent, SIZE_MAX);
    char *line = lines;

    if (lines == NULL)
        return false;
    for (;;) {
        size_t length = narrow ? strlen(line) : strcspn(line, "\n");

        emit_text(out, line, length);
        emit_string(out, "\n");
        if (line[length] == '\0')
            break;
        emit_format(out, "%*s", (int)indent, "");
        line += length + 1;
    }
    free(lines);
    return true;
}

bool
report_write_table(const struct report *report, struct emit *out)
{
    bool color = report_has_color(report);
    size_t width = people_field_width(report);
    size_t screen = people_screen();
    int before = -1; /* the kind of the previous item: an empty line separates two kinds, and two tables */
    char buffer[64];

    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];
        const char *words;

        if (!people_see(report, item))
            continue;
        if (before >= 0 && (before != (int)item->kind || item->kind == REPORT_ITEM_TABLE))
            emit_string(out, "\n");
        before = (int)item->kind;
        switch (item->kind) {
        case REPORT_ITEM_FIELD:
            words = report_words(item->field.kind, item->cells, buffer, sizeof(buffer));
            emit_format(out, "%-*s", (int)width, item->field.title);
            if (!people_put_prose(out, words, width, screen))
                return false;
            break;
        case REPORT_ITEM_TABLE:
            if (item->title != NULL)
                emit_format(out, color ? "\033[1m%s\033[0m\n" : "%s\n", item->title);
            if (!people_put_table(item, out, color, screen))
                return false;
            break;
        case REPORT_ITEM_NOTE:
            if (!people_put_prose(out, item->text, 0, screen))
                return false;
            break;
        case REPORT_ITEM_LINES:
            emit_string(out, item->text);
            break;
        }
    }
    return true;
}
