/* What every base over a CUDA device has: the device, its primary context, and events to order streams with. */
#ifndef TIDEI_CUDA_DEVICE_H
#define TIDEI_CUDA_DEVICE_H

#include "src/cuda/driver-table.h"

#ifdef HAVE_CUDA_H

#include "src/cuda/stream-order.h"

struct tidei_device {
    const struct tidei_driver *cuda; /* static */
    const char *subject;             /* static; of messages: "driver", "cuda" */
    CUcontext context;               /* the device's primary; holds a reference */
    CUdevice handle;
    int ordinal;
    size_t total_bytes;
    struct tidei_driver_events events;
};

/*
 * Find the device `ordinal` in `cuda`. Errors: TIDE_EINVAL (there is none), TIDE_EDRIVER.
 */
enum tide_status tidei_device_find(const struct tidei_driver *cuda, const char *subject, int ordinal, CUdevice *out);

/*
 * Load the driver where that has not been, find the device and retain its primary context. On failure there is nothing
 * to close. Errors: TIDE_EUNSUPPORTED (no driver), TIDE_EINVAL (no such device), TIDE_EDRIVER, TIDE_ENOMEM.
 */
enum tide_status tidei_device_open(struct tidei_device *self, const char *subject, int ordinal);

/*
 * Undo it. No result is looked at: at exit the driver may have gone before us, and says so to every call; in a child
 * of fork() it is not called.
 */
void tidei_device_close(struct tidei_device *self);

/* tidei_driver_error with the subject of the device. */
enum tide_status tidei_device_error(const struct tidei_device *self, CUresult result, const char *function);

/* TIDE_EUNSUPPORTED for an entry point that the driver is too old for. */
enum tide_status tidei_device_lacks(const struct tidei_device *self, const char *function);

/*
 * Give memory of a pool back in the order of `stream`; pointer and bytes as deallocate gets them. Errors: TIDE_EPOINTER
 * (CUDA_ERROR_INVALID_VALUE: no allocation of a pool), TIDE_EDRIVER.
 */
enum tide_status tidei_device_free_async(struct tidei_device *self, void *pointer, size_t bytes, tide_stream stream);

/* What a failed deallocation came to; TIDE_OK where the driver, and all memory with it, has gone before us at exit. */
enum tide_status tidei_device_free_error(const struct tidei_device *self, CUresult result, const void *pointer,
                                         const char *function);

/* The order operation of a base. */
enum tide_status tidei_device_order(struct tidei_device *self, tide_stream earlier, tide_stream later);

/*
 * Figures and capabilities of the device: TIDE_QUERY_DEVICE_FREE to TIDE_QUERY_HOST_POOLS. False for any other; then
 * *status is untouched. *out is 0 on failure.
 */
bool tidei_device_query(struct tidei_device *self, enum tide_query what, uint64_t *out, enum tide_status *status);

/* A capability of a device; 0 where the driver does not know the attribute. */
int tidei_device_attribute(const struct tidei_driver *cuda, CUdevice device, int attribute);

#endif
#endif
