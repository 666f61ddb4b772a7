/* What the account asks the driver about devices and contexts, besides the program's own calls. */
#ifndef TIDEI_PROCESS_DEVICES_H
#define TIDEI_PROCESS_DEVICES_H

#include "src/process/base.h"
#include "src/cuda/driver-table.h"

#ifdef HAVE_CUDA_H

#define TIDEI_PROCESS_DEVICES 64

/* The driver; NULL where it did not start. Before: tidei_process_devices_start. */
const struct tidei_driver *tidei_process_driver(void);

/* Load the driver; at the first allocation, so that the program has started it. */
enum tide_status tidei_process_devices_start(void);

/*
 * The context of which memory is that this thread allocates now, and its device; false where there is none, or not of a
 * known device. Where a green context is current that is the primary one: it has no memory of its own.
 */
bool tidei_process_current(CUcontext *context, int *device);

/* The device of a stream of the program's; `current` where that is the current context's, or not known. */
int tidei_process_stream_device(tide_stream stream, int current);

/* The ordinal of a device's handle; -1: unknown. */
int tidei_process_ordinal(CUdevice handle);

/* Whether the machine has a device of this ordinal. */
bool tidei_process_has_device(int device);

/* A context may be gone, and its handle may name another one. */
void tidei_process_contexts_changed(void);

/* A number that this changes. */
uint32_t tidei_process_contexts_generation(void);

/*
 * While contexts may end, nothing of ours uses them: these two embrace the program's call that may destroy one. No
 * other lock is taken in between.
 */
void tidei_process_contexts_lock(void);
void tidei_process_contexts_unlock(void);

/* The context is about to end, or has ended: it is not used any more. Between these two. */
void tidei_process_context_ends(CUcontext context);

/* The primary context of the device; NULL where it has none now. Between these two: it is held for a moment. */
CUcontext tidei_process_primary(CUdevice device);

/* The handle of a device that tidei_process_has_device knows. */
CUdevice tidei_process_handle(int device);

/* Make a context current for calls of ours; false where there is none such. */
bool tidei_process_context_enter(CUcontext context);
void tidei_process_context_leave(void);

/* Wait for the work of the context that is current. */
void tidei_process_context_wait(void);

/* Whether the context, which was current on this thread, is current still, and has not ended. */
bool tidei_process_context_stays(CUcontext context);

/* Whether this thread has a context that has not ended. */
bool tidei_process_context_lives(void);

/* Whether it is the primary context of any device. Takes the lock of contexts. */
bool tidei_process_is_primary(CUcontext context);

enum tide_status tidei_process_total(int device, uint64_t *out);

/*
 * What is free on the device, as the driver says. TIDE_EDRIVER while it has neither its primary context nor one in
 * which the program has allocated, TIDE_EUNSUPPORTED while contexts end.
 */
enum tide_status tidei_process_free_bytes(int device, uint64_t *out);

/* A base of the kind counts its bytes at `used` (borrowed); NULL: it is gone. */
void tidei_process_polls(enum tidei_process_kind kind, int device, const _Atomic uint64_t *used);

/* Add to the figures of a kind what is reserved for it, and replace those of graphs. */
void tidei_process_poll(enum tidei_process_kind kind, int device, struct tidei_layer_figures *out);

/*
 * The pools that the program has made, and their devices; -1: of host memory. The last two return false for one that is
 * not known; tidei_process_pool_device knows the devices' own, too.
 */
void tidei_process_pool_add(CUmemoryPool pool, int device);
bool tidei_process_pool_remove(CUmemoryPool pool, int *device);
bool tidei_process_pool_device(CUmemoryPool pool, int *device);

#endif
#endif
