/* Reads allocator traffic from a log layer of a trace. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/replay/input.h"
#include "viewer/read/scan.h"
#include "viewer/read/trace-layers.h"
#include "viewer/read/trace.h"

struct reader {
    const struct trace *trace;
    struct replay_input *input;
    int64_t layer_id;
    struct id_map live;           /* owns; allocations by allocation_id */
    struct id_map stream_indices; /* owns; indices of `handles` by stream_id */
    uint64_t *handles;            /* owns */
    size_t handle_count;
};

static int
reader_added(const struct reader *reader, const struct scan_life *life, enum replay_add added)
{
    if (added == REPLAY_ADD_FINE)
        return COMMAND_FINE;
    return trace_broken(reader->trace, "allocation %" PRId64 ": %s", life->allocation_id, replay_add_text(added));
}

static int
reader_begin(void *context)
{
    struct reader *reader = context;

    replay_input_clear(reader->input);
    id_map_free(&reader->live);
    return COMMAND_FINE;
}

/* The handle that was recorded; a stream that the trace does not know goes by its id. */
static uint64_t
reader_stream(const struct reader *reader, int64_t stream_id)
{
    const uint32_t *index = id_map_find(&reader->stream_indices, (uint64_t)stream_id);

    return index != NULL ? reader->handles[*index] : (uint64_t)stream_id;
}

static int
reader_alloc(void *context, const struct scan_life *life)
{
    struct reader *reader = context;
    enum replay_add added;
    uint32_t allocation;

    if (life->layer_id != reader->layer_id)
        return COMMAND_FINE;
    reader->input->recorded_events++;
    if (life->status != 0) {
        reader->input->recorded_failures++;
        return COMMAND_FINE;
    }
    if (life->alignment == 0 || (life->alignment & (life->alignment - 1)) != 0)
        return trace_broken(reader->trace, "allocation %" PRId64 ": alignment %" PRIu64 " is no power of two",
                            life->allocation_id, life->alignment);
    added =
        replay_input_alloc(reader->input, (uint64_t)life->alloc_thread_id, reader_stream(reader, life->alloc_stream_id),
                           life->size, (unsigned)__builtin_ctzll(life->alignment), &allocation);
    if (added == REPLAY_ADD_FINE && life->freed &&
        !id_map_add(&reader->live, (uint64_t)life->allocation_id, allocation))
        added = REPLAY_ADD_NO_MEMORY;
    return reader_added(reader, life, added);
}

static int
reader_free(void *context, const struct scan_life *life)
{
    struct reader *reader = context;
    uint32_t allocation;

    if (life->layer_id != reader->layer_id || !id_map_take(&reader->live, (uint64_t)life->allocation_id, &allocation))
        return COMMAND_FINE;
    reader->input->recorded_events++;
    return reader_added(reader, life,
                        replay_input_free(reader->input, (uint64_t)life->free_thread_id,
                                          reader_stream(reader, life->free_stream_id),
                                          (unsigned)__builtin_ctzll(life->alignment), allocation));
}

static int
reader_end(void *context, int64_t last_ns)
{
    (void)context;
    (void)last_ns;
    return COMMAND_FINE;
}

static const struct scan_unit reader_unit = {
    .needs = SCAN_DETAILS,
    .begin = reader_begin,
    .alloc = reader_alloc,
    .free = reader_free,
    .end = reader_end,
};

/* The layer that was asked for, or the outermost log layer. */
static int
reader_layer(const struct trace *trace, int64_t wanted, int64_t *out)
{
    struct trace_layers layers;
    const struct trace_layer *found = NULL;
    int status = trace_layers_read(trace, &layers);

    if (status != COMMAND_FINE)
        return status;
    for (size_t i = 0; i < layers.count && found == NULL; i++) {
        if (strcmp(layers.layers[i].kind, "log") == 0 && (wanted == 0 || layers.layers[i].layer_id == wanted))
            found = &layers.layers[i];
    }
    if (found != NULL)
        *out = found->layer_id;
    else if (wanted != 0)
        status = trace_broken(trace, "there is no log layer %" PRId64 "; `tidemark summary` lists them", wanted);
    else
        status = trace_broken(trace, "there is no log layer");
    trace_layers_free(&layers);
    return status;
}

static int
reader_streams(struct reader *reader)
{
    sqlite3_stmt *statement = NULL;
    int64_t count;
    int status = trace_integer(reader->trace, "SELECT count(*) FROM stream", &count);
    int code;

    if (status != COMMAND_FINE)
        return status;
    reader->handles = calloc((size_t)count + 1, sizeof(*reader->handles));
    if (reader->handles == NULL)
        return trace_broken(reader->trace, "%s", replay_add_text(REPLAY_ADD_NO_MEMORY));
    code = sqlite3_prepare_v2(reader->trace->db, "SELECT stream_id, handle FROM stream", -1, &statement, NULL);
    while (status == COMMAND_FINE && (code == SQLITE_OK || code == SQLITE_ROW)) {
        code = sqlite3_step(statement);
        if (code != SQLITE_ROW || reader->handle_count == (size_t)count)
            break;
        reader->handles[reader->handle_count] = (uint64_t)sqlite3_column_int64(statement, 1);
        if (!id_map_add(&reader->stream_indices, (uint64_t)sqlite3_column_int64(statement, 0),
                        (uint32_t)reader->handle_count++))
            status = trace_broken(reader->trace, "%s", replay_add_text(REPLAY_ADD_NO_MEMORY));
    }
    if (status == COMMAND_FINE && code != SQLITE_DONE && code != SQLITE_ROW)
        status = trace_failed(reader->trace);
    sqlite3_finalize(statement);
    return status;
}

/* Frees that the recording itself could not match. */
static int
reader_unmatched(struct reader *reader)
{
    char sql[128];
    int64_t count;
    int status;

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM unmatched_free WHERE layer_id = %" PRId64, reader->layer_id);
    status = trace_integer(reader->trace, sql, &count);
    reader->input->unknown_frees += (uint64_t)count;
    reader->input->recorded_events += (uint64_t)count;
    return status;
}

int
replay_read_trace(const char *path, int64_t layer_id, struct replay_input *input)
{
    struct trace trace;
    struct reader reader = { .trace = &trace, .input = input };
    struct scan_pass pass = { .unit = &reader_unit, .context = &reader };
    int status = trace_open(path, &trace);

    *input = (struct replay_input){ 0 };
    if (status != COMMAND_FINE)
        return status;
    status = reader_layer(&trace, layer_id, &reader.layer_id);
    if (status == COMMAND_FINE)
        status = reader_streams(&reader);
    if (status == COMMAND_FINE)
        status = scan_run(&trace, &pass, 1);
    if (status == COMMAND_FINE)
        status = reader_unmatched(&reader);
    if (status == COMMAND_FINE)
        input->incomplete = trace_verdict(&trace) != COMMAND_FINE;
    else
        replay_input_clear(input);
    id_map_free(&reader.live);
    id_map_free(&reader.stream_indices);
    free(reader.handles);
    trace_close(&trace);
    return status;
}
