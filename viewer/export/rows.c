/* A row for each allocation with its whole life, for the formats that write such rows. */
#include "config.h"

#include "viewer/base/exit-status.h"
#include "viewer/export/rows.h"

#define ROWS_COLUMN(name, kind)                                                                                        \
    {                                                                                                                  \
        name, ",\"" name "\":", sizeof(name) + 3, kind                                                                 \
    }

const struct rows_column rows_columns[ROWS_COLUMNS] = {
    ROWS_COLUMN("allocation_id", ROWS_SIGNED),
    ROWS_COLUMN("layer_id", ROWS_SIGNED),
    ROWS_COLUMN("layer", ROWS_TEXT),
    ROWS_COLUMN("address", ROWS_UNSIGNED),
    ROWS_COLUMN("size", ROWS_UNSIGNED),
    ROWS_COLUMN("alignment", ROWS_SIGNED),
    ROWS_COLUMN("status", ROWS_TEXT),
    ROWS_COLUMN("tag", ROWS_TEXT),
    ROWS_COLUMN("callstack", ROWS_TEXT),
    ROWS_COLUMN("alloc_ns", ROWS_SIGNED),
    ROWS_COLUMN("alloc_duration_ns", ROWS_SIGNED),
    ROWS_COLUMN("alloc_thread", ROWS_UNSIGNED),
    ROWS_COLUMN("alloc_stream", ROWS_UNSIGNED),
    ROWS_COLUMN("free_ns", ROWS_SIGNED),
    ROWS_COLUMN("free_duration_ns", ROWS_SIGNED),
    ROWS_COLUMN("free_thread", ROWS_UNSIGNED),
    ROWS_COLUMN("free_stream", ROWS_UNSIGNED),
};

struct rows {
    const struct export_job *export;
    const struct rows_writer *writer;
};

static int
rows_begin(void *context)
{
    const struct rows *rows = context;

    if (!emit_rewind(rows->export->out))
        return COMMAND_WRONG;
    if (rows->writer->begin != NULL)
        rows->writer->begin(rows->export->out);
    return COMMAND_FINE;
}

/* The name of a tag or call stack; "" for none. */
static const char *
rows_name(const struct name_list *list, int64_t id)
{
    const struct name *name = id != 0 ? names_find(list, id) : NULL;

    return name != NULL ? name->text : "";
}

static int
rows_alloc(void *context, const struct scan_life *life)
{
    const struct rows *rows = context;
    const struct export_job *export = rows->export;
    const struct trace_layer *layer = trace_layers_find(&export->view->layers, life->layer_id);
    const struct names *names = &export->view->names;
    const union rows_cell cells[ROWS_COLUMNS] = {
        { .integer = life->allocation_id },
        { .integer = life->layer_id },
        { .text = layer != NULL ? layer->kind : "" },
        { .number = life->address },
        { .number = life->size },
        { .integer = life->alignment },
        { .text = export_status(life->status) },
        { .text = rows_name(&names->tags, life->tag_id) },
        { .text = rows_name(&names->callstacks, life->callstack_id) },
        { .integer = life->alloc_ns },
        { .integer = life->alloc_duration_ns },
        { .number = export_thread(export, life->alloc_thread_id) },
        { .number = export_stream(export, life->alloc_stream_id) },
        { .integer = life->free_ns },
        { .integer = life->free_duration_ns },
        { .number = life->freed ? export_thread(export, life->free_thread_id) : 0 },
        { .number = life->freed ? export_stream(export, life->free_stream_id) : 0 },
    };

    rows->writer->row(export->out, cells, life->freed ? ROWS_COLUMNS : ROWS_FREE);
    return export->out->failed ? COMMAND_WRONG : COMMAND_FINE;
}

static const struct scan_unit rows_unit = {
    .needs = SCAN_PLACE | SCAN_ORIGIN | SCAN_CALLER | SCAN_FREER | SCAN_DURATION,
    .begin = rows_begin,
    .alloc = rows_alloc,
};

int
rows_write(const struct export_job *export, const struct rows_writer *writer)
{
    struct rows rows = { export, writer };
    struct scan_pass pass = { .unit = &rows_unit, .context = &rows };

    return view_scan(export->view, &pass, 1);
}
