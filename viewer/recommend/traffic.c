/* Reads the traffic for which stacks are tried, and adds up what is live. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/file.h"
#include "viewer/base/message.h"
#include "viewer/read/trace.h"
#include "viewer/recommend/traffic.h"

/* What is live of all, and of each stream. */
struct traffic_live {
    uint64_t bytes;
    uint64_t *streams; /* owns */
    uint64_t *peaks;   /* owns; by stream */
    uint32_t *on;      /* owns; by allocation: its stream */
};

static void
traffic_add(struct traffic *traffic, struct traffic_live *live, const struct replay_event *event)
{
    uint64_t size = traffic->input.sizes[event->allocation];

    if (event->kind == REPLAY_ALLOCATE) {
        live->on[event->allocation] = event->stream;
        live->bytes += size;
        live->streams[event->stream] += size;
        traffic->allocations++;
        if (live->bytes > traffic->peak_bytes)
            traffic->peak_bytes = live->bytes;
        if (live->streams[event->stream] > live->peaks[event->stream])
            live->peaks[event->stream] = live->streams[event->stream];
    } else if (event->kind == REPLAY_FREE) {
        live->bytes -= size;
        live->streams[live->on[event->allocation]] -= size;
    }
}

static int
traffic_sum(struct traffic *traffic)
{
    const struct replay_input *input = &traffic->input;
    struct traffic_live live = { 0, calloc(input->stream_count + 1, sizeof(*live.streams)),
                                 calloc(input->stream_count + 1, sizeof(*live.peaks)),
                                 calloc(input->allocation_count + 1, sizeof(*live.on)) };
    bool room = live.streams != NULL && live.peaks != NULL && live.on != NULL;

    for (size_t i = 0; room && i < input->event_count; i++)
        traffic_add(traffic, &live, &input->events[i]);
    for (size_t i = 0; room && i < input->stream_count; i++)
        traffic->peaks_by_stream += live.peaks[i];
    free(live.streams);
    free(live.peaks);
    free(live.on);
    if (room)
        return COMMAND_FINE;
    message("%s: no memory for what is live", traffic->path);
    return COMMAND_WRONG;
}

static int
traffic_take_stack(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct traffic *traffic = context;
    const char *text = (const char *)sqlite3_column_text(row, 0);

    (void)trace;
    if (text != NULL && text[0] != '\0' && traffic->stack == NULL)
        traffic->stack = strdup(text);
    return COMMAND_FINE;
}

static int
traffic_read_stack(struct traffic *traffic)
{
    struct trace trace;
    int status = trace_open(traffic->path, true, &trace);

    if (status != COMMAND_FINE)
        return status;
    status = trace_each(&trace, traffic_take_stack, traffic, "SELECT value FROM meta WHERE key = 'stack'");
    trace_close(&trace);
    return status;
}

int
traffic_read(const char *path, int64_t layer_id, struct traffic *out)
{
    const struct replay_reading reading = { .layer_id = layer_id, .no_symbols = true };
    bool is_trace = strcmp(path, "-") != 0 && file_is_sqlite(path);
    int status;

    *out = (struct traffic){ .path = path };
    if (!is_trace && layer_id != 0) {
        message("%s: no trace, and --layer is for traces", path);
        return COMMAND_WRONG;
    }
    status = is_trace ? replay_read_trace(path, &reading, &out->input) : replay_read_csv(path, &reading, &out->input);
    if (status != COMMAND_FINE)
        return status;
    if (is_trace)
        status = traffic_read_stack(out);
    if (status == COMMAND_FINE)
        status = traffic_sum(out);
    if (status == COMMAND_FINE && out->allocations == 0) {
        message("%s: no allocation succeeded, so there is nothing to recommend a stack for", path);
        status = COMMAND_WRONG;
    }
    if (status != COMMAND_FINE)
        traffic_free(out);
    return status;
}

void
traffic_free(struct traffic *traffic)
{
    replay_input_clear(&traffic->input);
    free(traffic->stack);
    *traffic = (struct traffic){ 0 };
}
