/* Prints tables of text with libsmartcols. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libsmartcols.h>

#include "viewer/output/table.h"

void
table_begin(struct table *table, bool color)
{
    *table = (struct table){ .columns = scols_new_table(), .color = color };
    table->failed = table->columns == NULL;
    if (!table->failed)
        scols_table_enable_colors(table->columns, color);
}

void
table_column(struct table *table, const char *title, enum table_align align)
{
    struct libscols_column *made = NULL;
    int flags = align == TABLE_RIGHT ? SCOLS_FL_RIGHT : align == TABLE_LINES ? SCOLS_FL_WRAP : 0;

    if (!table->failed)
        made = scols_table_new_column(table->columns, title, 0, flags);
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
