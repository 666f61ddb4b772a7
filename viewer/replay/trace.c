/* Reads allocator traffic from a log layer of a trace. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/replay/input.h"
#include "viewer/read/names.h"
#include "viewer/read/scan.h"
#include "viewer/read/trace-layers.h"
#include "viewer/read/trace.h"

struct reader {
    const struct trace *trace;
    struct replay_input *input;
    int64_t layer_id;
    struct id_map live;       /* owns; allocations by allocation_id */
    struct name_list streams; /* owns */
};

static int
reader_added(const struct reader *reader, const struct scan_life *life, const char *error)
{
    if (error == NULL)
        return COMMAND_FINE;
    return trace_broken(reader->trace, "allocation %" PRId64 ": %s", life->allocation_id, error);
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
    const struct name *stream = names_find(&reader->streams, stream_id);

    return (uint64_t)(stream != NULL ? stream->number : stream_id);
}

static int
reader_alloc(void *context, const struct scan_life *life)
{
    struct reader *reader = context;
    const char *error;
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
    error =
        replay_input_alloc(reader->input, (uint64_t)life->alloc_thread_id, reader_stream(reader, life->alloc_stream_id),
                           life->size, (unsigned)__builtin_ctzll(life->alignment), &allocation);
    if (error == NULL && life->freed && !id_map_add(&reader->live, (uint64_t)life->allocation_id, allocation))
        error = replay_no_memory;
    return reader_added(reader, life, error);
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

static const struct scan_unit reader_unit = {
    .needs = SCAN_DETAILS,
    .begin = reader_begin,
    .alloc = reader_alloc,
    .free = reader_free,
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

/* Frees that the recording itself could not match. */
static int
reader_unmatched(struct reader *reader)
{
    int64_t count;
    int code = trace_look_up(reader->trace, &count, "SELECT count(*) FROM unmatched_free WHERE layer_id = %lld",
                             reader->layer_id);

    reader->input->unknown_frees += (uint64_t)count;
    reader->input->recorded_events += (uint64_t)count;
    return code == SQLITE_ROW ? COMMAND_FINE : trace_failed(reader->trace);
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
        status = names_read_streams(&trace, &reader.streams);
    if (status == COMMAND_FINE)
        status = scan_run(&trace, NULL, &pass, 1);
    if (status == COMMAND_FINE)
        status = reader_unmatched(&reader);
    if (status == COMMAND_FINE)
        input->incomplete = trace_verdict(&trace) != COMMAND_FINE;
    else
        replay_input_clear(input);
    id_map_free(&reader.live);
    names_free_list(&reader.streams);
    trace_close(&trace);
    return status;
}
