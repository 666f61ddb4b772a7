/* Exports a row for each allocation as CSV. */
#include "config.h"

#include <string.h>

#include "viewer/export/rows.h"

static void
csv_begin(struct emit *out)
{
    for (size_t i = 0; i < ROWS_COLUMNS; i++) {
        emit_bytes(out, ",", i > 0);
        emit_string(out, rows_columns[i].name);
    }
    emit_bytes(out, "\n", 1);
}

/* Blanks are quoted, too, and what is no plain text. */
static void
csv_text(struct emit *out, const char *text)
{
    size_t length = 0;

    while (text[length] > ' ' && text[length] <= '~' && text[length] != '"' && text[length] != ',')
        length++;
    if (text[length] == '\0')
        emit_bytes(out, text, length);
    else
        emit_csv(out, text, strlen(text), true, false);
}

static void
csv_row(struct emit *out, const union rows_cell *cells, size_t filled)
{
    for (size_t i = 0; i < ROWS_COLUMNS; i++) {
        emit_bytes(out, ",", i > 0);
        if (i >= filled)
            continue;
        if (rows_columns[i].kind == ROWS_TEXT)
            csv_text(out, cells[i].text);
        else if (rows_columns[i].kind == ROWS_SIGNED)
            emit_signed(out, cells[i].integer);
        else
            emit_unsigned(out, cells[i].number);
    }
    emit_bytes(out, "\n", 1);
}

static int
csv_run(const struct export_job *export)
{
    static const struct rows_writer writer = { csv_begin, csv_row };

    return rows_write(export, &writer);
}

const struct export_format export_csv = {
    .name = "csv",
    .purpose = "a row for each allocation, with its whole life",
    .run = csv_run,
};
