/* Exports a row for each allocation as JSON, an object to a line. */
#include "config.h"

#include "viewer/export/rows.h"

static void
jsonl_row(struct emit *out, const union rows_cell *cells, size_t filled)
{
    for (size_t i = 0; i < filled; i++) {
        if (rows_columns[i].kind == ROWS_TEXT && cells[i].text[0] == '\0')
            continue;
        emit_string(out, i > 0 ? ",\"" : "{\"");
        emit_string(out, rows_columns[i].name);
        emit_string(out, "\":");
        if (rows_columns[i].kind == ROWS_TEXT)
            emit_json(out, cells[i].text);
        else if (rows_columns[i].kind == ROWS_SIGNED)
            emit_signed(out, cells[i].integer);
        else
            emit_unsigned(out, cells[i].number);
    }
    emit_string(out, "}\n");
}

static int
jsonl_run(const struct export_job *export)
{
    static const struct rows_writer writer = { NULL, jsonl_row };

    return rows_write(export, &writer);
}

const struct export_format export_jsonl = {
    .name = "jsonl",
    .purpose = "the same as JSON, an object to a line",
    .run = jsonl_run,
};
