/* The common part of all bases over a CUDA device: the device, its primary context, and events that order streams. */
#ifndef TIDEI_CUDA_DEVICE_H
#define TIDEI_CUDA_DEVICE_H

#include <stddef.h>

#include "src/cuda/driver-table.h"

#ifdef HAVE_CUDA_H

#include "src/sync/lock.h"

#define TIDEI_DEVICE_EVENTS 64

struct tidei_device {
    const struct tidei_driver *cuda; /* static */
    const char *subject;             /* static; for messages: "driver", "cuda" */
    CUcontext context;               /* the device's primary context; holds a reference */
    CUdevice handle;
    int ordinal;
    size_t total_bytes;
    struct tidei_lock event_lock;
    size_t event_count;                  /* under event_lock */
    CUevent events[TIDEI_DEVICE_EVENTS]; /* under event_lock: idle ones of `context`, kept for reuse */
    CUstream bridge; /* under event_lock: a stream of `context` that waits for streams of others; NULL until needed */
};

/* Find the device `ordinal` in `cuda`. Errors: TIDE_EINVAL (no such device), TIDE_EDRIVER. */
enum tide_status tidei_device_find(const struct tidei_driver *cuda, const char *subject, int ordinal, CUdevice *out);

/*
 * Load the driver if needed, find the device and retain its primary context. On failure there is nothing to close.
 * Errors: TIDE_EUNSUPPORTED (no driver), TIDE_EINVAL (no such device), TIDE_EDRIVER, TIDE_ENOMEM.
 */
enum tide_status tidei_device_open(struct tidei_device *self, const char *subject, int ordinal);

/*
 * Undo tidei_device_open. Results are ignored, because at exit the driver may have shut down first, and then every call
 * fails. In a child of fork() the driver is not called.
 */
void tidei_device_close(struct tidei_device *self);

/* tidei_driver_error with the subject of the device. */
enum tide_status tidei_device_error(const struct tidei_device *self, CUresult result, const char *function);

/* TIDE_EUNSUPPORTED for an entry point that the driver is too old for. */
enum tide_status tidei_device_lacks(const struct tidei_device *self, const char *function);

/*
 * Free memory of a pool in the order of `stream`; `pointer` and `bytes` as in deallocate. Errors: TIDE_EPOINTER
 * (CUDA_ERROR_INVALID_VALUE: not an allocation of a pool), TIDE_EDRIVER.
 */
enum tide_status tidei_device_free_async(struct tidei_device *self, void *pointer, size_t bytes, tide_stream stream);

/* The status of a failed deallocation. TIDE_OK if the driver has shut down before us at exit, and freed all memory. */
enum tide_status tidei_device_free_error(const struct tidei_device *self, CUresult result, const void *pointer,
                                         const char *function);

/*
 * The stream on which to do what `stream` is named for. That is another one, of the device's own, where this thread is
 * `relaxed` (src/sync/thread.h) and `stream` is being captured, or would wait for one that is: whoever made the thread
 * relaxed has waited for all work of the device before the capture began, so that there is none to follow.
 */
tide_stream tidei_device_stream(struct tidei_device *self, tide_stream stream);

/*
 * The order operation of a base: make future work on `later` wait for all work submitted to `earlier` so far. A thread
 * without a context uses the device's. With TIDE_STREAM_ALL the host waits. Errors: TIDE_EUNSUPPORTED (a driver without
 * events, a child of fork()), TIDE_EDRIVER (also for work that failed). Thread safety: any thread; takes a short lock.
 */
enum tide_status tidei_device_order(struct tidei_device *self, tide_stream earlier, tide_stream later);

/*
 * Put an event behind all work submitted to `stream` so far, for a caller that asks later whether that work is done.
 * The event belongs to the device's own context, whichever context the stream belongs to, and is given back by
 * tidei_device_mark_end. On failure *out is NULL, and *function is the function of the driver that failed.
 */
CUresult tidei_device_mark(struct tidei_device *self, tide_stream stream, CUevent *out, const char **function);

/* Give an event back. It may be pending: what waits for it goes on waiting. */
void tidei_device_mark_end(struct tidei_device *self, CUevent event);

/* Whether what is done on the stream becomes a part of a graph, or would have to wait for one. */
bool tidei_device_is_captured(struct tidei_device *self, tide_stream stream);

/*
 * Answer figures and capabilities of the device: TIDE_QUERY_DEVICE_FREE to TIDE_QUERY_HOST_POOLS, and
 * TIDE_QUERY_VIRTUAL_MEMORY. For any other return
 * false and leave *status unchanged. *out is 0 on failure.
 */
bool tidei_device_query(struct tidei_device *self, enum tide_query what, uint64_t *out, enum tide_status *status);

/* A capability of a device; 0 where the driver does not know the attribute. */
int tidei_device_attribute(const struct tidei_driver *cuda, CUdevice device, int attribute);

#endif

/*
 * Write a NUL-terminated JSON array with an object for each device, [{"device":0,"name":"NVIDIA
 * H200","total_bytes":150109880320}], or "[]" without a driver. A value that the device does not report is null;
 * devices for which there is no room are left out. Starts the driver if needed. Sets the thread's error text.
 */
void tidei_device_list(char *text, size_t capacity);

#endif
