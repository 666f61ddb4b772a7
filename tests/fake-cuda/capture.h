/* Captures of the fake driver's streams: what is submitted to one becomes a node of its graph. */
#ifndef TESTS_FAKE_CUDA_CAPTURE_H
#define TESTS_FAKE_CUDA_CAPTURE_H

#include "tests/fake-cuda/fake.h"

/* For a call that no capture allows in its context: spoils those that there are. */
CUresult fake_capture_refuses(CUcontext context);

/* The same for one stream's, in a call that waits for it. */
CUresult fake_capture_spoil(CUstream stream);

/*
 * For a call that allocates or frees outside of captures: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is
 * spoilt, where one is under way that is global or, of this thread, thread-local.
 */
CUresult fake_capture_unsafe(void);

CUresult fake_capture_add(CUstream stream, CUgraphNodeType type, fake_work work, const void *argument, size_t bytes);

/* An event that is recorded in a capture, and a wait for such an event, by which the stream joins that. */
void fake_capture_record(CUevent event, CUstream stream);
CUresult fake_capture_join(CUstream stream, CUevent event);

/* In a capture an allocation is a node, whose memory will be at *out; so is its free. */
CUresult fake_capture_allocate(CUstream stream, size_t bytes, CUdeviceptr *out);
CUresult fake_capture_free(CUstream stream, CUdeviceptr address);

#endif
