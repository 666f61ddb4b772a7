/* Lays tables out on a screen, and writes a report in the table format: labelled fields, tables, sentences. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/callstack-text.h"
#include "viewer/base/output.h"
#include "viewer/base/shown.h"
#include "viewer/output/report-item.h"
#include "viewer/output/table.h"

/* A name longer than this is shown in the last column, so that it shifts no other column. */
#define LAYOUT_NAME 40

/* The characters that such a name should have of a terminal's line, and that a wrapped text has at least. */
#define LAYOUT_NAME_WANTED 52
#define LAYOUT_NAME_LEAST  12

/* Whether a column is shown: it has a title (one without is for JSON and CSV alone) and is not empty. */
static bool
layout_has_column(const struct report_item *item, size_t c)
{
    bool filled = false;

    for (size_t row = 0; row < item->row_count && !filled; row++)
        filled = item->cells[row * item->column_count + c].there;
    return filled && item->columns[c].title != NULL;
}

static bool
layout_has_any(const struct report_item *item)
{
    for (size_t c = 0; c < item->column_count; c++) {
        if (layout_has_column(item, c))
            return true;
    }
    return false;
}

static size_t
layout_column_width(const struct report_item *item, size_t c)
{
    size_t width = shown_width(item->columns[c].title);
    char buffer[64];

    for (size_t row = 0; row < item->row_count; row++) {
        const struct report_cell *cell = &item->cells[row * item->column_count + c];
        size_t own = cell->there ? shown_width(report_words(item->columns[c].kind, cell, buffer, sizeof(buffer))) : 0;

        width = own > width ? own : width;
    }
    return width;
}

/* The column called `name`, of `length` letters, or "#" and its place; column_count: there is none. */
static size_t
layout_find(const struct report_item *item, const char *name, size_t length)
{
    size_t c = 0;

    if (name[0] == '#')
        return (size_t)atoi(name + 1);
    while (c < item->column_count && (item->columns[c].name == NULL || strlen(item->columns[c].name) != length ||
                                      strncmp(item->columns[c].name, name, length) != 0))
        c++;
    return c;
}

/* Leave out spare columns until the table, of `total` characters, fits. Returns the width of what is left. */
static size_t
layout_spare(const struct report_item *item, size_t *widths, size_t total, size_t screen, bool *left_out)
{
    size_t kept = item->keep != NULL ? layout_find(item, item->keep, strlen(item->keep)) : item->column_count;

    for (const char *name = item->spare; name != NULL && *name != '\0' && total > screen;) {
        size_t length = strcspn(name, " ");
        size_t c = layout_find(item, name, length);

        if (c < item->column_count && widths[c] > 0 && c != kept) {
            total -= widths[c] + 1;
            widths[c] = 0;
            left_out[c] = true;
        }
        name += length + (name[length] == ' ');
    }
    return total;
}

/*
 * Set the widths of the columns that are shown, 0 for the others, and *last to the column of a long name (column_count:
 * none). Returns the width of the table.
 */
static size_t
layout_widths(const struct report_item *item, size_t *widths, size_t *last)
{
    size_t total = 0;

    *last = item->column_count;
    for (size_t c = 0; c < item->column_count; c++) {
        if (!layout_has_column(item, c))
            continue;
        widths[c] = layout_column_width(item, c);
        /* A column with an empty title and empty cells still takes a character. */
        widths[c] = widths[c] > 0 ? widths[c] : 1;
        if (report_is_name(item->columns[c].kind) && widths[c] > LAYOUT_NAME &&
            (*last == item->column_count || widths[c] > widths[*last]))
            *last = c;
        total += widths[c] + 1;
    }
    return total > 0 ? total - 1 : 0;
}

/* The widest column of text that is shown, to be wrapped at its place; column_count: there is none. */
static size_t
layout_widest_text(const struct report_item *item, const size_t *widths)
{
    size_t widest = item->column_count;

    for (size_t c = 0; c < item->column_count; c++) {
        if (report_is_left(item->columns[c].kind) && widths[c] > LAYOUT_NAME_LEAST &&
            (widest == item->column_count || widths[c] > widths[widest]))
            widest = c;
    }
    return widest;
}

struct report_layout
report_layout_make(const struct report_item *item, size_t screen)
{
    struct report_layout layout = { .count = 0 };
    size_t widths[REPORT_COLUMNS_MAX + 1] = { 0 };
    size_t last;
    size_t total = layout_widths(item, widths, &last);
    size_t name = widths[last] < LAYOUT_NAME_WANTED ? widths[last] : LAYOUT_NAME_WANTED;
    size_t wrapped = last;

    total -= widths[last] - name;
    if (screen > 0)
        total = layout_spare(item, widths, total, screen, layout.left_out);
    if (last < item->column_count && widths[last] == 0)
        wrapped = last = item->column_count;
    if (wrapped == item->column_count && screen > 0 && total > screen) {
        wrapped = layout_widest_text(item, widths);
        name = widths[wrapped];
    }
    for (size_t c = 0; c < item->column_count; c++) {
        if (widths[c] > 0 && c != last)
            layout.columns[layout.count++] = c;
    }
    if (last < item->column_count)
        layout.columns[layout.count++] = last;
    while (layout.name_at < layout.count && layout.columns[layout.name_at] != wrapped)
        layout.name_at++;
    if (screen > 0 && wrapped < item->column_count)
        layout.name_width = screen + name > total + LAYOUT_NAME_LEAST ? screen + name - total : LAYOUT_NAME_LEAST;
    return layout;
}

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

static void
people_put_row(struct table *table, const struct report_item *item, const struct report_layout *layout, size_t row)
{
    char buffer[64];

    table_row(table);
    for (size_t i = 0; i < layout->count; i++) {
        enum report_kind kind = item->columns[layout->columns[i]].kind;
        const struct report_cell *cell = &item->cells[row * item->column_count + layout->columns[i]];
        const char *words = cell->there ? report_words(kind, cell, buffer, sizeof(buffer)) : NULL;
        char *name = NULL;

        if (cell->there && (report_is_name(kind) || i == layout->name_at)) {
            name = people_name(kind, words, i == layout->name_at ? layout->name_width : 0);
            table->failed = table->failed || name == NULL;
            words = name;
        }
        table_cell(table, i, words);
        free(name);
    }
}

/* Write words, wrapped to `screen` characters and indented by `indent` from the second line on. */
static void
people_put_prose(struct emit *out, const char *words, size_t indent, size_t screen)
{
    bool narrow = screen < indent + PEOPLE_PROSE_LEAST;
    char *lines = narrow ? strdup(words) : stack_text_wrap(words, screen - indent, SIZE_MAX);
    char *line = lines;

    if (lines == NULL) {
        out->failed = true;
        return;
    }
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
}

/*
 * Write lines. Those that are longer than the screen are wrapped as sentences are, below their first word; a drawing is
 * no longer, but for its colours.
 */
static void
people_put_lines(struct emit *out, const char *text, size_t screen)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        size_t indent = strspn(text, " ");
        char *line = strndup(text, length);

        if (line == NULL) {
            out->failed = true;
            return;
        }
        if (screen > 0 && text[length] == '\n' && shown_width(line) > screen && strchr(line, '\033') == NULL) {
            emit_text(out, line, indent);
            people_put_prose(out, line + indent, indent, screen);
        } else {
            emit_string(out, line);
            emit_bytes(out, "\n", text[length] == '\n');
        }
        free(line);
        text += length + (text[length] == '\n');
    }
}

/* List the columns that the terminal is too narrow for. */
static void
people_put_left_out(const struct report_item *item, const struct report_layout *layout, struct emit *out, size_t screen)
{
    char words[512] = "";
    size_t length = 0;

    for (size_t c = 0; c < item->column_count && length < sizeof(words); c++) {
        if (!layout->left_out[c] || item->columns[c].title[0] == '\0')
            continue;
        length += (size_t)snprintf(words + length, sizeof(words) - length,
                                   length > 0 ? ", %s" : "A wider terminal also shows: %s", item->columns[c].title);
    }
    if (length > 0)
        people_put_prose(out, words, 0, screen);
}

static void
people_put_table(const struct report_item *item, struct emit *out, bool color, size_t screen)
{
    struct report_layout layout = report_layout_make(item, screen);
    struct table table;

    table_begin(&table, color);
    for (size_t i = 0; i < layout.count; i++) {
        const struct report_column *column = &item->columns[layout.columns[i]];
        bool wrapped = layout.name_width > 0 && i == layout.name_at;

        table_column(&table, column->title,
                     wrapped                        ? TABLE_LINES
                     : report_is_left(column->kind) ? TABLE_LEFT
                                                    : TABLE_RIGHT);
    }
    for (size_t row = 0; row < item->row_count; row++)
        people_put_row(&table, item, &layout, row);
    if (!table_end(&table, out, true))
        out->failed = true;
    people_put_left_out(item, &layout, out, screen);
}

static size_t
people_field_width(const struct report *report)
{
    size_t width = 0;

    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];

        if (item->kind == REPORT_ITEM_FIELD && item->columns[0].title != NULL && strlen(item->columns[0].title) > width)
            width = strlen(item->columns[0].title);
    }
    return width + 2;
}

static bool
people_see(const struct report *report, const struct report_item *item)
{
    if (item->kind == REPORT_ITEM_FIELD || item->kind == REPORT_ITEM_TABLE)
        return report_shows(report, item) && layout_has_any(item);
    return report_shows(report, item);
}

void
report_write_table(const struct report *report, struct emit *out)
{
    bool color = report_has_color(report);
    size_t width = people_field_width(report);
    size_t screen = output_screen();
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
            words = report_words(item->columns[0].kind, item->cells, buffer, sizeof(buffer));
            emit_format(out, "%-*s", (int)width, item->columns[0].title);
            people_put_prose(out, words, width, screen);
            break;
        case REPORT_ITEM_TABLE:
            if (item->title != NULL && color)
                emit_format(out, "\033[1m%s\033[0m\n", item->title);
            else if (item->title != NULL)
                people_put_prose(out, item->title, 0, screen);
            people_put_table(item, out, color, screen);
            break;
        case REPORT_ITEM_NOTE:
            people_put_prose(out, item->text, 0, screen);
            break;
        case REPORT_ITEM_LINES:
            people_put_lines(out, item->text, screen);
            break;
        }
    }
}
