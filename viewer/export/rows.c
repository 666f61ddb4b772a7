/* Writes a row for each allocation with its whole life, for the formats that have such rows. */
#include "config.h"

#include "viewer/base/exit-status.h"
#include "viewer/export/rows.h"

struct rows {
    const struct export_job *export;
    void (*begin)(struct emit *out);
    void (*row)(struct emit *out, const struct row *row);
};

static int
rows_begin(void *context)
{
    const struct rows *rows = context;

    if (!emit_rewind(rows->export->out))
        return COMMAND_WRONG;
    if (rows->begin != NULL)
        rows->begin(rows->export->out);
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
    const struct row row = {
        .allocation_id = life->allocation_id,
        .layer_id = life->layer_id,
        .layer = layer != NULL ? layer->kind : "",
        .address = life->address,
        .size = life->size,
        .alignment = life->alignment,
        .status = export_status(life->status),
        .tag = rows_name(&names->tags, life->tag_id),
        .callstack = rows_name(&names->callstacks, life->callstack_id),
        .alloc_ns = life->alloc_ns,
        .alloc_duration_ns = life->alloc_duration_ns,
        .alloc_thread = export_thread(export, life->alloc_thread_id),
        .alloc_stream = export_stream(export, life->alloc_stream_id),
        .freed = life->freed,
        .free_ns = life->free_ns,
        .free_duration_ns = life->free_duration_ns,
        .free_thread = life->freed ? export_thread(export, life->free_thread_id) : 0,
        .free_stream = life->freed ? export_stream(export, life->free_stream_id) : 0,
    };

    rows->row(export->out, &row);
    return export->out->failed ? COMMAND_WRONG : COMMAND_FINE;
}

static const struct scan_unit rows_unit = {
    .needs = SCAN_PLACE | SCAN_ORIGIN | SCAN_CALLER | SCAN_FREER | SCAN_DURATION,
    .begin = rows_begin,
    .alloc = rows_alloc,
};

int
rows_write(const struct export_job *export, void (*begin)(struct emit *out),
           void (*row)(struct emit *out, const struct row *row))
{
    struct rows rows = { export, begin, row };
    struct scan_pass pass = { .unit = &rows_unit, .context = &rows };

    return view_scan(export->view, &pass, 1);
}
