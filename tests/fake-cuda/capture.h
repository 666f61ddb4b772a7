/* Captures of the fake driver's streams: an operation submitted to a capturing stream becomes a node of its graph. */
#ifndef TESTS_FAKE_CUDA_CAPTURE_H
#define TESTS_FAKE_CUDA_CAPTURE_H

#include "tests/fake-cuda/fake.h"

/* For a call that no capture in its context allows: invalidates the captures. */
CUresult fake_capture_refuses(CUcontext context);

/* For a call that waits for one stream: invalidates the stream's capture. */
CUresult fake_capture_spoil(CUstream stream);

/*
 * For a call that allocates or frees outside of captures: if a global capture is under way, or a thread-local one of
 * this thread, invalidates it and returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
 */
CUresult fake_capture_unsafe(void);

CUresult fake_capture_add(CUstream stream, CUgraphNodeType type, fake_work work, const void *argument, size_t bytes);

/* Record an event in a capture; and wait for such an event, by which the stream joins the capture. */
void fake_capture_record(CUevent event, CUstream stream);
CUresult fake_capture_join(CUstream stream, CUevent event);

/* In a capture an allocation is a node, whose memory will be at *out; a free is a node as well. */
CUresult fake_capture_allocate(CUstream stream, size_t bytes, CUdeviceptr *out);
CUresult fake_capture_free(CUstream stream, CUdeviceptr address);

#endif
