/* Exports a row for each allocation as JSON, an object to a line. */
#include "config.h"

#include "viewer/export/rows.h"
#include "viewer/output/json.h"

static void
jsonl_row(struct emit *out, const union rows_cell *cells, size_t filled)
{
    struct json json = { .out = out };

    json_begin(&json, '{');
    for (size_t i = 0; i < filled; i++) {
        if (rows_columns[i].kind == ROWS_TEXT && cells[i].text[0] == '\0')
            continue;
        json_put_key(&json, rows_columns[i].key, rows_columns[i].key_bytes);
        if (rows_columns[i].kind == ROWS_TEXT)
            json_text(&json, cells[i].text);
        else if (rows_columns[i].kind == ROWS_SIGNED)
            json_signed(&json, cells[i].integer);
        else
            json_unsigned(&json, cells[i].number);
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
