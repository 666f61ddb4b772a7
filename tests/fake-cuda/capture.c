/* Captures of the fake driver's streams: each submitted operation becomes a node of the graph. */
#include "tests/fake-cuda/capture.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fake-cuda/graph.h"

struct fake_capture {
    struct fake_capture *next;
    CUstream origin;
    CUstreamCaptureMode mode;
    pthread_t thread;
    CUgraph graph;
    bool spoilt, ended;
    uint64_t id;
};

static struct fake_capture *captures;
static struct fake_capture *captures_ended; /* ended captures, which events may still name */
static uint64_t capture_ids;
static __thread CUstreamCaptureMode capture_thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult
fake_capture_refuses(CUcontext context)
{
    CUresult result = CUDA_SUCCESS;

    for (struct fake_capture *capture = captures; capture != NULL; capture = capture->next) {
        if (capture->origin->context == context) {
            capture->spoilt = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

CUresult
fake_capture_spoil(CUstream stream)
{
    stream->capture->spoilt = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult
fake_capture_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;

    if (capture_thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    for (struct fake_capture *capture = captures; capture != NULL; capture = capture->next) {
        bool own = pthread_equal(capture->thread, pthread_self()) != 0;

        if ((capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture_thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL) ||
            (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && own)) {
            capture->spoilt = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

CUresult
fake_capture_add(CUstream stream, CUgraphNodeType type, fake_work work, const void *argument, size_t bytes)
{
    struct fake_capture *capture = stream->capture;
    CUgraphNode node;

    if (capture->spoilt)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->captured++;
    node = fake_graph_add(capture->graph, type);
    node->work = work;
    node->bytes = bytes;
    node->argument = malloc(bytes + 1);
    if (node->argument == NULL)
        abort();
    if (bytes > 0)
        memcpy(node->argument, argument, bytes);
    return CUDA_SUCCESS;
}

void
fake_capture_record(CUevent event, CUstream stream)
{
    event->capture = stream->capture;
    event->captured_stream = stream;
    event->captured = stream->captured;
}

CUresult
fake_capture_join(CUstream stream, CUevent event)
{
    if (event->capture->ended)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != NULL && stream->capture != event->capture) {
        stream->capture->spoilt = event->capture->spoilt = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (stream->capture == NULL) {
        stream->capture = event->capture;
        stream->captured = 1; /* also set by an operation that does nothing, which has to be waited for as well */
        stream->joined = 0;
    }
    if (event->captured_stream != stream && event->captured_stream->joined < event->captured)
        event->captured_stream->joined = event->captured;
    return CUDA_SUCCESS;
}

CUresult
fake_capture_allocate(CUstream stream, size_t bytes, CUdeviceptr *out)
{
    struct fake_capture *capture = stream->capture;
    struct fake_graph_memory *memory;

    if (capture->spoilt)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    memory = fake_graph_memory_new(stream->context, stream->context->device, bytes);
    if (memory == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->captured++;
    fake_graph_add(capture->graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC)->memory = memory;
    *out = memory->address;
    return CUDA_SUCCESS;
}

/* A capture frees only memory that it has allocated itself. */
CUresult
fake_capture_free(CUstream stream, CUdeviceptr address)
{
    struct fake_capture *capture = stream->capture;

    if (capture->spoilt)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (fake_graph_add_free(capture->graph, address) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    stream->captured++;
    return CUDA_SUCCESS;
}

static CUresult
do_cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode)
{
    struct fake_capture *capture;
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture != NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    capture = calloc(1, sizeof(*capture));
    if (capture == NULL)
        abort();
    *capture = (struct fake_capture){ .next = captures,
                                      .origin = stream,
                                      .mode = mode,
                                      .thread = pthread_self(),
                                      .graph = fake_graph_new(),
                                      .id = ++capture_ids };
    captures = capture;
    stream->capture = capture;
    stream->captured = stream->joined = 0;
    return CUDA_SUCCESS;
}

FAKE_API_STREAM(10010, cuStreamBeginCapture, (CUstream handle, CUstreamCaptureMode mode), (handle, mode))

/* Whether the origin waits, through events, for everything that other streams have captured. */
static CUresult
capture_joined(const struct fake_capture *capture)
{
    for (CUstream stream = fake.streams; stream != NULL; stream = stream->next) {
        if (stream->capture == capture && stream != capture->origin && stream->joined < stream->captured)
            return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    return CUDA_SUCCESS;
}

/* End a capture: all its streams leave it. */
static void
capture_end(struct fake_capture *capture)
{
    struct fake_capture **link = &captures;

    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    for (CUstream stream = fake.streams; stream != NULL; stream = stream->next) {
        if (stream->capture == capture)
            stream->capture = NULL;
    }
    capture->ended = true;
    capture->next = captures_ended;
    captures_ended = capture;
}

static CUresult
do_cuStreamEndCapture(CUstream handle, CUgraph *out)
{
    struct fake_capture *capture;
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    capture = stream->capture;
    if (capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    result = capture->spoilt ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : capture_joined(capture);
    if (result != CUDA_SUCCESS)
        fake_graph_drop(capture->graph);
    else
        *out = capture->graph;
    capture_end(capture);
    return result;
}

FAKE_API_STREAM(10000, cuStreamEndCapture, (CUstream handle, CUgraph *out), (handle, out))

static CUstreamCaptureStatus
capture_status(CUstream stream)
{
    if (stream->capture == NULL)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->spoilt ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* Whether the legacy stream would have to wait for a stream that is being captured. */
static bool
capture_is_implicit(CUstream stream)
{
    bool implicit = false;

    for (CUstream other = fake.streams; stream->legacy && other != NULL; other = other->next)
        implicit = implicit || (other->capture != NULL && other->context == stream->context &&
                                (other->flags & CU_STREAM_NON_BLOCKING) == 0);
    return implicit;
}

static CUresult
do_cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result == CUDA_SUCCESS && capture_is_implicit(stream))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (result == CUDA_SUCCESS)
        *status = capture_status(stream);
    return result;
}

FAKE_API_STREAM(10000, cuStreamIsCapturing, (CUstream handle, CUstreamCaptureStatus *status), (handle, status))

/* The graph has no dependencies: a launch runs the nodes one after the other. */
static CUresult
do_cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                          const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count)
{
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    *status = capture_status(stream);
    if (stream->capture == NULL)
        return CUDA_SUCCESS;
    if (id != NULL)
        *id = stream->capture->id;
    if (graph != NULL)
        *graph = stream->capture->graph;
    if (dependencies != NULL)
        *dependencies = NULL;
    if (edges != NULL)
        *edges = NULL;
    if (count != NULL)
        *count = 0;
    return CUDA_SUCCESS;
}

FAKE_API_STREAM(12030, cuStreamGetCaptureInfo,
                (CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                 const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count),
                (handle, status, id, graph, dependencies, edges, count))

static CUresult
do_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode before = capture_thread_mode;

    if (mode == NULL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    capture_thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

FAKE_API(10010, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (mode))
