/* Exports the CSV log that RMM's logging adaptor would have written. */
#include "config.h"

#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/export/export.h"

#define RMM_DAY_NS INT64_C(86400000000000)

struct rmm_export {
    const struct export_job *export;
    int64_t start_ns;        /* time of day at which the trace begins */
    sqlite3_stmt *unmatched; /* owns; frees that fit nothing, in the order of time */
    bool has_unmatched;      /* a row stands there */
};

/* HH:MM:SS:microseconds, UTC. */
static void
rmm_put_time(struct emit *out, int64_t ns)
{
    int64_t us = ns / 1000;
    int64_t seconds = us / 1000000;
    const int64_t parts[] = { seconds / 3600, seconds / 60 % 60, seconds % 60 };
    char text[15];
    size_t at = 0;

    for (size_t i = 0; i < 3; i++) {
        text[at++] = (char)('0' + parts[i] / 10);
        text[at++] = (char)('0' + parts[i] % 10);
        text[at++] = ':';
    }
    us %= 1000000;
    for (size_t i = 6; i-- > 0; us /= 10)
        text[at + i] = (char)('0' + us % 10);
    emit_bytes(out, text, sizeof(text));
}

static void
rmm_put(struct rmm_export *rmm, const char *action, int64_t ns, int64_t thread_id, int64_t stream_id, uint64_t address,
        uint64_t size)
{
    struct emit *out = rmm->export->out;
    int64_t since = ns % RMM_DAY_NS;

    emit_unsigned(out, export_thread(rmm->export, thread_id));
    emit_bytes(out, ",", 1);
    rmm_put_time(out, (rmm->start_ns + (since < 0 ? since + RMM_DAY_NS : since)) % RMM_DAY_NS);
    emit_bytes(out, ",", 1);
    emit_string(out, action);
    emit_bytes(out, ",", 1);
    emit_hexadecimal(out, address);
    emit_bytes(out, ",", 1);
    emit_unsigned(out, size);
    emit_bytes(out, ",", 1);
    emit_hexadecimal(out, export_stream(rmm->export, stream_id));
    emit_bytes(out, "\n", 1);
}

static int
rmm_next_unmatched(struct rmm_export *rmm)
{
    int code = sqlite3_step(rmm->unmatched);

    rmm->has_unmatched = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? COMMAND_FINE : trace_failed(&rmm->export->view->trace);
}

/* The frees that fit nothing, up to before `ns`. */
static int
rmm_unmatched_before(struct rmm_export *rmm, int64_t ns)
{
    sqlite3_stmt *row = rmm->unmatched;
    int status = COMMAND_FINE;

    while (status == COMMAND_FINE && rmm->has_unmatched && sqlite3_column_int64(row, 0) < ns) {
        const struct scan_life freed = {
            .alloc_ns = sqlite3_column_int64(row, 0),
            .layer_id = sqlite3_column_int64(row, 1),
            .address = (uint64_t)sqlite3_column_int64(row, 2),
            .size = (uint64_t)sqlite3_column_int64(row, 3),
            .alloc_thread_id = sqlite3_column_int64(row, 4),
            .alloc_stream_id = sqlite3_column_int64(row, 5),
        };

        if (export_takes(rmm->export, &freed))
            rmm_put(rmm, "free", freed.alloc_ns, freed.alloc_thread_id, freed.alloc_stream_id, freed.address,
                    freed.size);
        status = rmm_next_unmatched(rmm);
    }
    return status;
}

static int
rmm_begin(void *context)
{
    struct rmm_export *rmm = context;

    if (!emit_rewind(rmm->export->out))
        return COMMAND_WRONG;
    emit_string(rmm->export->out, "Thread,Time,Action,Pointer,Size,Stream\n");
    sqlite3_reset(rmm->unmatched);
    return rmm_next_unmatched(rmm);
}

static int
rmm_alloc(void *context, const struct scan_life *life)
{
    struct rmm_export *rmm = context;
    int status = rmm->has_unmatched ? rmm_unmatched_before(rmm, life->alloc_ns) : COMMAND_FINE;

    rmm_put(rmm, life->status == 0 ? "allocate" : "allocate failure", life->alloc_ns, life->alloc_thread_id,
            life->alloc_stream_id, life->address, life->size);
    return rmm->export->out->failed ? COMMAND_WRONG : status;
}

static int
rmm_free(void *context, const struct scan_life *life)
{
    struct rmm_export *rmm = context;
    int status = rmm->has_unmatched ? rmm_unmatched_before(rmm, life->free_ns) : COMMAND_FINE;

    rmm_put(rmm, "free", life->free_ns, life->free_thread_id, life->free_stream_id, life->address, life->size);
    return rmm->export->out->failed ? COMMAND_WRONG : status;
}

static int
rmm_end(void *context, int64_t last_ns)
{
    (void)last_ns;
    return rmm_unmatched_before(context, INT64_MAX);
}

static const struct scan_unit rmm_unit = {
    .needs = SCAN_PLACE | SCAN_CALLER | SCAN_FREER,
    .begin = rmm_begin,
    .alloc = rmm_alloc,
    .free = rmm_free,
    .end = rmm_end,
};

static int
rmm_run(const struct export_job *export)
{
    static const char sql[] =
        "SELECT ns, layer_id, address, size, thread_id, stream_id FROM unmatched_free ORDER BY ns, rowid";
    struct rmm_export rmm = { .export = export };
    struct scan_pass pass = { .unit = &rmm_unit, .context = &rmm };
    const struct trace *trace = &export->view->trace;
    int status = trace_integer(trace, "SELECT value FROM meta WHERE key = 'start_unix_ns'", &rmm.start_ns);

    if (status == COMMAND_FINE && sqlite3_prepare_v2(trace->db, sql, -1, &rmm.unmatched, NULL) != SQLITE_OK)
        status = trace_failed(trace);
    rmm.start_ns = rmm.start_ns > 0 ? rmm.start_ns % RMM_DAY_NS : 0;
    if (status == COMMAND_FINE)
        status = view_scan(export->view, &pass, 1);
    sqlite3_finalize(rmm.unmatched);
    return status;
}

const struct export_format export_rmm = {
    .name = "rmm",
    .purpose = "the log of RMM's logging adaptor, which `tidemark replay` and `import` read",
    .run = rmm_run,
};
