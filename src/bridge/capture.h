/*
 * What holds while a CUDA graph is captured.
 *
 * A graph names addresses, and may be launched until its pool is released. So what is allocated on a captured stream is
 * real memory, from the stack, which has to be ready at once: it is allocated on a stream of the bridge's own that no
 * capture knows, and the host waits for that. It goes back when the pool is released. A block that the program has
 * freed meanwhile serves later requests of its pool and stream, whose work follows in the same graphs.
 *
 * A free on a captured stream of a block from outside would become a part of the graph, or spoil the capture. It waits
 * until no capture is left.
 */
#ifndef TIDEI_BRIDGE_CAPTURE_H
#define TIDEI_BRIDGE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/bridge.h>

#include "src/bridge/device.h"

/* What a stream is while captures go on. */
enum tidei_capture_state {
    TIDEI_CAPTURE_NONE,   /* it may be used as ever, in the relaxed mode */
    TIDEI_CAPTURE_ACTIVE, /* what is submitted to it becomes a part of a graph */
    TIDEI_CAPTURE_BEHIND, /* the legacy stream: it would have to wait for one that is captured */
};

/* The state of `stream`; for an active one *pool is the pool that its graph is captured into. */
enum tidei_capture_state tidei_capture_state(struct tidei_bridge_device *device, tide_stream stream,
                                             struct tidei_bridge_pool **pool);

/* Wait for all work of the device, before the driver begins the capture that has been begun here. */
void tidei_capture_synchronize(const struct tidei_bridge_device *device);

/*
 * Have the driver allow this thread what could disturb a capture elsewhere, and the library keep off captured streams
 * (src/cuda/device.h, tidei_device_stream); and undo that.
 */
int tidei_capture_relax(void);
void tidei_capture_restore(int before);

/* The bridge's own stream of a device; 0 where there is no driver. Wait for it: false with the error set. */
tide_stream tidei_capture_stream(const struct tidei_bridge_device *device);
enum tide_status tidei_capture_wait(const struct tidei_bridge_device *device);

/* A freed block of the pool that has room for `bytes` and little more, on the same stream; NULL: none. */
void *tidei_capture_reuse(struct tidei_bridge_pool *pool, size_t bytes, tide_stream stream);

/* The block may be used again. Without host memory it is not. */
void tidei_capture_offer(struct tidei_bridge_pool *pool, void *pointer, size_t bytes, tide_stream stream);

/* A free that waits until no capture is left on the device. Errors: TIDE_ENOMEM. */
struct tidei_capture_free {
    void *pointer;
    tide_stream stream;
};
enum tide_status tidei_capture_queue(struct tidei_bridge_device *device, void *pointer, tide_stream stream);

/* Whether frees wait on the device while no capture is left there. */
bool tidei_capture_is_over(const struct tidei_bridge_device *device);

/* The frees that waited (owned by the caller), where no capture is left on the device; else none. */
size_t tidei_capture_take_queue(struct tidei_bridge_device *device, struct tidei_capture_free **out);

/* A capture begins or ends. Errors of begin: TIDE_ENOMEM, TIDE_EDRIVER. */
enum tide_status tidei_capture_begin(struct tidei_bridge_device *device, struct tide_torch_pool id);
void tidei_capture_end(struct tidei_bridge_device *device, struct tide_torch_pool id);

/* Release a pool as often as it was begun. True: the last time, so that its blocks may go. */
bool tidei_capture_release(struct tidei_bridge_device *device, struct tide_torch_pool id);

/* A pool that has been released for the last time, while no capture is left on the device; NULL: none. */
struct tidei_bridge_pool *tidei_capture_take_released(struct tidei_bridge_device *device);
void tidei_capture_free_pool(struct tidei_bridge_pool *pool);

#endif
