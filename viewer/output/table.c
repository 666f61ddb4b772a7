/* Prints tables of text with libsmartcols. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libsmartcols.h>

#include "viewer/base/output.h"
#include "viewer/base/shown.h"
#include "viewer/output/table.h"

void
table_begin(struct table *table, bool color)
{
    *table = (struct table){ .columns = scols_new_table(), .color = color };
    table->failed = table->columns == NULL;
    if (!table->failed)
        scols_table_enable_colors(table->columns, color);
    /* Cells are escaped before; libsmartcols would escape the escapes. */
    if (!table->failed)
        scols_table_enable_noencoding(table->columns, 1);
}

void
table_column(struct table *table, const char *title, enum table_align align)
{
    struct libscols_column *made = NULL;
    char *clean = shown_copy(title); /* of a query it is a name in the trace */
    int flags = align == TABLE_RIGHT ? SCOLS_FL_RIGHT : align == TABLE_LINES ? SCOLS_FL_WRAP : 0;

    if (!table->failed && clean != NULL)
        made = scols_table_new_column(table->columns, clean, 0, flags);
    free(clean);
    if (made == NULL) {
        table->failed = true;
        return;
    }
    if (align == TABLE_LINES &&
        (scols_column_set_wrapfunc(made, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, NULL) != 0 ||
         scols_column_set_safechars(made, "\n") != 0))
        table->failed = true;
    if (table->color)
        scols_cell_set_color(scols_column_get_header(made), "bold");
}

void
table_columns(struct table *table, const char *words)
{
    while (*words != '\0') {
        bool right = *words == '>';
        size_t length = strcspn(words += right, " ");
        char title[64];

        snprintf(title, sizeof(title), "%.*s", (int)length, words);
        table_column(table, title, right ? TABLE_RIGHT : TABLE_LEFT);
        words += length + (words[length] == ' ');
    }
}

void
table_row(struct table *table)
{
    if (!table->failed)
        table->row = scols_table_new_line(table->columns, NULL);
    if (table->row == NULL)
        table->failed = true;
}

void
table_cell(struct table *table, size_t column, const char *text)
{
    if (!table->failed && text != NULL && scols_line_set_data(table->row, column, text) != 0)
        table->failed = true;
}

static void
table_put_trimmed(const char *text, struct emit *out)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        size_t rest = length;

        while (rest > 0 && text[rest - 1] == ' ')
            rest--;
        emit_bytes(out, text, rest);
        text += length;
        if (*text == '\n')
            emit_bytes(out, text++, 1);
    }
}

/* The width of the longest line. */
static size_t
table_width(const char *text)
{
    size_t most = 0;

    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        char *line = strndup(text, length);
        size_t width = line != NULL ? shown_width(line) : length;

        most = width > most ? width : most;
        text += length + (text[length] == '\n');
        free(line);
    }
    return most;
}

/* Write a cell behind its title, in lines of at most `width` characters that begin below each other. */
static void
table_put_field(const char *title, const char *text, size_t indent, size_t width, struct emit *out)
{
    emit_text(out, title, strlen(title));
    if (*text != '\0')
        emit_format(out, "%*s", (int)(indent - table_width(title)), "");
    while (*text != '\0') {
        size_t length = 0;

        for (size_t shown = 0; text[length] != '\0' && shown < width; shown++) {
            do
                length++;
            while (((unsigned char)text[length] & 0xc0) == 0x80);
        }
        emit_text(out, text, length);
        text += length;
        if (*text != '\0')
            emit_format(out, "\n%*s", (int)indent, "");
    }
    emit_string(out, "\n");
}

/* Write each row as lines of a title and a cell. */
static void
table_put_rows(const struct table *table, struct emit *out, size_t screen)
{
    size_t columns = scols_table_get_ncols(table->columns);
    struct libscols_iter *rows = scols_new_iter(SCOLS_ITER_FORWARD);
    struct libscols_line *row;
    size_t indent = 0;
    bool first = true;

    if (rows == NULL) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < columns; i++) {
        size_t width = table_width(scols_column_get_name(scols_table_get_column(table->columns, i)));

        indent = width > indent ? width : indent;
    }
    indent += 2;
    while (scols_table_next_line(table->columns, rows, &row) == 0) {
        emit_bytes(out, "\n", !first);
        first = false;
        for (size_t i = 0; i < columns; i++) {
            const char *text = scols_cell_get_data(scols_line_get_cell(row, i));

            table_put_field(scols_column_get_name(scols_table_get_column(table->columns, i)), text != NULL ? text : "",
                            indent, screen > indent + 8 ? screen - indent : 8, out);
        }
    }
    scols_free_iter(rows);
}

bool
table_end_whole(struct table *table, struct emit *out)
{
    size_t screen = output_screen();
    char *text = NULL;
    bool narrow;

    if (out == NULL || table->failed || screen == 0 || scols_print_table_to_string(table->columns, &text) != 0)
        return table_end(table, out, false);
    narrow = table_width(text) > screen;
    free(text);
    if (!narrow)
        return table_end(table, out, false);
    table_put_rows(table, out, screen);
    return table_end(table, NULL, false);
}

bool
table_end(struct table *table, struct emit *out, bool trim)
{
    char *text = NULL;

    if (out != NULL && !table->failed)
        table->failed = scols_print_table_to_string(table->columns, &text) != 0;
    if (out != NULL && !table->failed && trim)
        table_put_trimmed(text, out);
    else if (out != NULL && !table->failed)
        emit_string(out, text);
    /* libsmartcols leaves out the last line end. */
    if (out != NULL && !table->failed && *text != '\0')
        emit_bytes(out, "\n", 1);
    free(text);
    scols_unref_table(table->columns);
    return !table->failed;
}
