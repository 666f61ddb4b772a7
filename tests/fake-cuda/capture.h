/* Captures of the fake driver's streams: what is submitted to one becomes a node of its graph. */
#ifndef TESTS_FAKE_CUDA_CAPTURE_H
#define TESTS_FAKE_CUDA_CAPTURE_H

#include "tests/fake-cuda/fake.h"

bool fake_context_captures(CUcontext context);

/* The stream's capture is no good any more, and the result of a call that spoils one. */
CUresult fake_capture_spoil(CUstream stream);
CUresult fake_capture_add(struct fake_capture *capture, fake_work work, const void *argument, size_t bytes);

/* In a capture: an allocation is a node that will be at *out; a free is a node, too. */
CUresult fake_capture_allocate(CUstream stream, size_t bytes, CUdeviceptr *out);
CUresult fake_capture_free(CUstream stream, CUdeviceptr address);

#endif
