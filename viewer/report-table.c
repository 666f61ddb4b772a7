/* Writes a report for people: labels, tables with libsmartcols, sentences. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <libsmartcols.h>

#include "viewer/output.h"
#include "viewer/report-item.h"

/* Whether people see a column: one without a title is for programs, an empty one says nothing. */
static bool
table_has_column(const struct report_item *item, size_t c)
{
    bool filled = false;

    for (size_t row = 0; row < item->row_count && !filled; row++)
        filled = item->cells[row * item->column_count + c].there;
    return filled && item->columns[c].title != NULL;
}

static struct libscols_table *
table_create(const struct report_item *item, const bool *seen, bool color)
{
    struct libscols_table *table = scols_new_table();

    if (table == NULL)
        return NULL;
    scols_table_enable_colors(table, color);
    for (size_t c = 0; c < item->column_count; c++) {
        const struct report_column *column = &item->columns[c];
        struct libscols_column *made;

        if (!seen[c])
            continue;
        made = scols_table_new_column(table, column->title, 0,
                                      column->kind != REPORT_TEXT && column->kind != REPORT_FLAG ? SCOLS_FL_RIGHT : 0);
        if (made == NULL) {
            scols_unref_table(table);
            return NULL;
        }
        if (color)
            scols_cell_set_color(scols_column_get_header(made), "bold");
    }
    return table;
}

static int
table_add(struct libscols_table *table, const struct report_item *item, const bool *seen, size_t row)
{
    struct libscols_line *line = scols_table_new_line(table, NULL);
    size_t place = 0;
    char buffer[64];

    for (size_t c = 0; line != NULL && c < item->column_count; c++) {
        const struct report_cell *cell = &item->cells[row * item->column_count + c];

        if (!seen[c])
            continue;
        if (cell->there &&
            scols_line_set_data(line, place, report_words(&item->columns[c], cell, buffer, sizeof(buffer))) != 0)
            return -1;
        place++;
    }
    return line != NULL ? 0 : -1;
}

/* libsmartcols escapes what is no printable character. */
static int
table_write(const struct report_item *item, FILE *out, bool color)
{
    struct libscols_table *table = NULL;
    bool *seen = calloc(item->column_count, sizeof(*seen));
    int result = -1;

    for (size_t c = 0; seen != NULL && c < item->column_count; c++)
        seen[c] = table_has_column(item, c);
    if (seen != NULL)
        table = table_create(item, seen, color);
    if (table != NULL)
        result = 0;
    for (size_t row = 0; result == 0 && row < item->row_count; row++)
        result = table_add(table, item, seen, row);
    if (result == 0) {
        scols_table_set_stream(table, out);
        result = scols_print_table(table) == 0 ? 0 : -1;
    }
    scols_unref_table(table);
    free(seen);
    return result;
}

static size_t
field_width(const struct report *report)
{
    size_t width = 0;

    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];

        if (item->kind == REPORT_ITEM_FIELD && item->columns->title != NULL && strlen(item->columns->title) > width)
            width = strlen(item->columns->title);
    }
    return width + 2;
}

static bool
item_is_seen(const struct report *report, const struct report_item *item)
{
    if (!report_shows(report, item))
        return false;
    if (item->kind == REPORT_ITEM_FIELD)
        return item->columns->title != NULL && item->cells->there;
    if (item->kind != REPORT_ITEM_TABLE)
        return true;
    for (size_t c = 0; c < item->column_count; c++) {
        if (table_has_column(item, c))
            return true;
    }
    return false;
}

int
report_write_table(const struct report *report, FILE *out)
{
    bool color = report_has_color(report);
    size_t width = field_width(report);
    int before = -1; /* the kind of the item before; an empty line stands between two kinds and between two tables */
    char buffer[64];

    for (size_t i = 0; i < report->count; i++) {
        const struct report_item *item = &report->items[i];
        const char *words;

        if (!item_is_seen(report, item))
            continue;
        if (before >= 0 && (before != (int)item->kind || item->kind == REPORT_ITEM_TABLE))
            putc('\n', out);
        before = (int)item->kind;
        switch (item->kind) {
        case REPORT_ITEM_FIELD:
            words = report_words(item->columns, item->cells, buffer, sizeof(buffer));
            fprintf(out, "%-*s", (int)width, item->columns->title);
            output_text(out, words, strlen(words));
            putc('\n', out);
            break;
        case REPORT_ITEM_TABLE:
            if (item->title != NULL)
                fprintf(out, color ? "\033[1m%s\033[0m\n" : "%s\n", item->title);
            if (table_write(item, out, color) != 0)
                return -1;
            break;
        case REPORT_ITEM_NOTE:
            output_text(out, item->text, strlen(item->text));
            putc('\n', out);
            break;
        case REPORT_ITEM_LINES:
            fputs(item->text, out);
            break;
        }
    }
    return 0;
}
