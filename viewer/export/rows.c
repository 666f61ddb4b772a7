/* Exports a row for each allocation with its whole life: CSV, and JSON lines. */
#include "config.h"

#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/export/export.h"

static const char rows_csv_header[] =
    "allocation_id,layer_id,layer,address,size,alignment,status,tag,callstack,alloc_ns,alloc_duration_ns,alloc_thread,"
    "alloc_stream,free_ns,free_duration_ns,free_thread,free_stream\n";

static int
rows_csv_begin(void *context)
{
    const struct export_job *export = context;

    if (!emit_rewind(export->out))
        return COMMAND_WRONG;
    emit_string(export->out, rows_csv_header);
    return COMMAND_FINE;
}

static int
rows_json_begin(void *context)
{
    return emit_rewind(((const struct export_job *)context)->out) ? COMMAND_FINE : COMMAND_WRONG;
}

static const char *
rows_layer(const struct export_job *export, int64_t layer_id)
{
    const struct trace_layer *layer = trace_layers_find(&export->view->layers, layer_id);

    return layer != NULL ? layer->kind : "";
}

/* The name of a tag or call stack; "" for none. */
static const char *
rows_name(const struct name_list *list, int64_t id)
{
    const struct name *name = id != 0 ? names_find(list, id) : NULL;

    return name != NULL ? name->text : "";
}

static void
rows_csv_number(struct emit *out, uint64_t value)
{
    emit_unsigned(out, value);
    emit_bytes(out, ",", 1);
}

static void
rows_csv_signed(struct emit *out, int64_t value)
{
    emit_signed(out, value);
    emit_bytes(out, ",", 1);
}

static void
rows_csv_text(struct emit *out, const char *value)
{
    emit_csv(out, value);
    emit_bytes(out, ",", 1);
}

static int
rows_csv_alloc(void *context, const struct scan_life *life)
{
    const struct export_job *export = context;
    const struct names *names = &export->view->names;
    struct emit *out = export->out;

    rows_csv_signed(out, life->allocation_id);
    rows_csv_signed(out, life->layer_id);
    rows_csv_text(out, rows_layer(export, life->layer_id));
    rows_csv_number(out, life->address);
    rows_csv_number(out, life->size);
    rows_csv_signed(out, life->alignment);
    rows_csv_text(out, export_status(life->status));
    rows_csv_text(out, rows_name(&names->tags, life->tag_id));
    rows_csv_text(out, rows_name(&names->callstacks, life->callstack_id));
    rows_csv_signed(out, life->alloc_ns);
    rows_csv_signed(out, life->alloc_duration_ns);
    rows_csv_number(out, export_thread(export, life->alloc_thread_id));
    emit_unsigned(out, export_stream(export, life->alloc_stream_id));
    if (life->freed) {
        emit_bytes(out, ",", 1);
        rows_csv_signed(out, life->free_ns);
        rows_csv_signed(out, life->free_duration_ns);
        rows_csv_number(out, export_thread(export, life->free_thread_id));
        emit_unsigned(out, export_stream(export, life->free_stream_id));
        emit_bytes(out, "\n", 1);
    } else {
        emit_string(out, ",,,,\n");
    }
    return out->failed ? COMMAND_WRONG : COMMAND_FINE;
}

static void
rows_json_number(struct emit *out, const char *key, uint64_t value)
{
    emit_string(out, key);
    emit_unsigned(out, value);
}

static void
rows_json_signed(struct emit *out, const char *key, int64_t value)
{
    emit_string(out, key);
    emit_signed(out, value);
}

static void
rows_json_text(struct emit *out, const char *key, const char *value)
{
    if (value[0] == '\0')
        return;
    emit_string(out, key);
    emit_json(out, value);
}

static int
rows_json_alloc(void *context, const struct scan_life *life)
{
    const struct export_job *export = context;
    const struct names *names = &export->view->names;
    struct emit *out = export->out;

    rows_json_signed(out, "{\"allocation_id\":", life->allocation_id);
    rows_json_signed(out, ",\"layer_id\":", life->layer_id);
    rows_json_text(out, ",\"layer\":", rows_layer(export, life->layer_id));
    rows_json_number(out, ",\"address\":", life->address);
    rows_json_number(out, ",\"size\":", life->size);
    rows_json_signed(out, ",\"alignment\":", life->alignment);
    rows_json_text(out, ",\"status\":", export_status(life->status));
    rows_json_text(out, ",\"tag\":", rows_name(&names->tags, life->tag_id));
    rows_json_text(out, ",\"callstack\":", rows_name(&names->callstacks, life->callstack_id));
    rows_json_signed(out, ",\"alloc_ns\":", life->alloc_ns);
    rows_json_signed(out, ",\"alloc_duration_ns\":", life->alloc_duration_ns);
    rows_json_number(out, ",\"alloc_thread\":", export_thread(export, life->alloc_thread_id));
    rows_json_number(out, ",\"alloc_stream\":", export_stream(export, life->alloc_stream_id));
    if (life->freed) {
        rows_json_signed(out, ",\"free_ns\":", life->free_ns);
        rows_json_signed(out, ",\"free_duration_ns\":", life->free_duration_ns);
        rows_json_number(out, ",\"free_thread\":", export_thread(export, life->free_thread_id));
        rows_json_number(out, ",\"free_stream\":", export_stream(export, life->free_stream_id));
    }
    emit_string(out, "}\n");
    return out->failed ? COMMAND_WRONG : COMMAND_FINE;
}

static int
rows_end(void *context, int64_t last_ns)
{
    (void)context;
    (void)last_ns;
    return COMMAND_FINE;
}

#define ROWS_NEEDS (SCAN_PLACE | SCAN_ORIGIN | SCAN_CALLER | SCAN_FREER | SCAN_DURATION)

static const struct scan_unit rows_csv_unit = {
    .needs = ROWS_NEEDS,
    .begin = rows_csv_begin,
    .alloc = rows_csv_alloc,
    .end = rows_end,
};

static const struct scan_unit rows_json_unit = {
    .needs = ROWS_NEEDS,
    .begin = rows_json_begin,
    .alloc = rows_json_alloc,
    .end = rows_end,
};

int
export_csv(const struct export_job *export)
{
    struct scan_pass pass = { .unit = &rows_csv_unit, .context = (void *)export };

    return view_scan(export->view, &pass, 1);
}

int
export_jsonl(const struct export_job *export)
{
    struct scan_pass pass = { .unit = &rows_json_unit, .context = (void *)export };

    return view_scan(export->view, &pass, 1);
}
