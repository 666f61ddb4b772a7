/* Exports a row for each allocation as CSV. */
#include "config.h"

#include <string.h>

#include "viewer/export/rows.h"

/* Text with blanks, or with characters outside of printable ASCII, is quoted, too. */
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

#define CSV_NAME(name, kind) "," #name

static void
csv_begin(struct emit *out)
{
    emit_string(out, &ROWS_LIFE(CSV_NAME) ROWS_FREE(CSV_NAME) "\n"[1]);
}

#define csv_signed(out, value)   emit_signed(out, value)
#define csv_unsigned(out, value) emit_unsigned(out, value)
#define csv_stack(out, value)    csv_text(out, value)

/* A field, and the comma before it where it is not the first. */
#define CSV_FIELD(name, kind)                                                                                          \
    emit_bytes(out, ",", comma);                                                                                       \
    csv_##kind(out, row->name);                                                                                        \
    comma = true;

static void
csv_row(struct emit *out, const struct row *row)
{
    bool comma = false;

    ROWS_LIFE(CSV_FIELD)
    if (row->freed) {
        ROWS_FREE(CSV_FIELD)
        emit_bytes(out, "\n", 1);
    } else {
        emit_string(out, ",,,,\n");
    }
}

static int
csv_run(const struct export_job *export)
{
    return rows_write(export, csv_begin, csv_row);
}

const struct export_format export_csv = {
    .name = "csv",
    .purpose = "a row for each allocation, with its whole life",
    .run = csv_run,
};
