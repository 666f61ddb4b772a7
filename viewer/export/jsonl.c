/* Exports a row for each allocation as JSON lines. */
#include "config.h"

#include "viewer/export/rows.h"
#include "viewer/output/json.h"

#define jsonl_signed(name, value)   json_put_signed(&json, name, value)
#define jsonl_unsigned(name, value) json_put_unsigned(&json, name, value)

/* A text that is not there has no field. */
#define jsonl_text(name, value)                                                                                        \
    if ((value)[0] != '\0')                                                                                            \
    json_put_text(&json, name, value)

/* A call stack is an array of its frames, as in the JSON of commands. */
#define jsonl_stack(name, value)                                                                                       \
    if ((value)[0] != '\0')                                                                                            \
    (json_key(&json, name), json_stack(&json, value))

#define JSONL_FIELD(name, kind) jsonl_##kind(#name, row->name);

static void
jsonl_row(struct emit *out, const struct row *row)
{
    struct json json = { .out = out };

    json_begin(&json, '{');
    ROWS_LIFE(JSONL_FIELD)
    if (row->freed) {
        ROWS_FREE(JSONL_FIELD)
    }
    emit_string(out, "}\n");
}

static int
jsonl_run(const struct export_job *export)
{
    return rows_write(export, NULL, jsonl_row);
}

const struct export_format export_jsonl = {
    .name = "jsonl",
    .purpose = "the same as JSON, an object to a line",
    .run = jsonl_run,
};
