/* Keeps the pools of captured graphs, and what waits for the end of captures. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>

#include "src/bridge/capture.h"
#include "src/cuda/device.h"
#include "src/resource/resource.h"
#include "src/sync/lock.h"
#include "src/sync/thread.h"
#include "src/tables/grow.h"

struct tidei_bridge_pool {
    struct tidei_bridge_pool *next;
    struct tidei_bridge_device *device; /* borrowed */
    struct tide_torch_pool id;
    uint32_t begun;   /* less the times that it was released; 0: its blocks may go */
    uint32_t open;    /* captures into it that go on */
    pthread_t thread; /* that began the latest one */
    struct capture_idle {
        void *pointer;
        size_t bytes;
        tide_stream stream;
    } * idle; /* owned */
    size_t idle_count, idle_capacity;
};

/* What captures on one device need. */
struct capture_device {
    struct tidei_capture_free *queue; /* owned */
    size_t queue_count, queue_capacity;
    uint32_t open;
#ifdef HAVE_CUDA_H
    struct tidei_device cuda; /* whose context is used where a thread has none */
    CUstream stream;
    _Atomic bool has_cuda; /* set with release, read with acquire: the two above are there before */
#endif
};

/* Guards all of this file but has_cuda, cuda and stream, which are set once, before the first capture begins. */
static struct tidei_lock capture_lock;
static struct tidei_bridge_pool *capture_pools; /* the latest first */
static struct capture_device capture_devices[TIDE_BRIDGE_DEVICES];

__attribute__((constructor)) static void
capture_start(void)
{
    tidei_lock_init(&capture_lock);
}

#ifdef HAVE_CUDA_H

static pthread_mutex_t capture_mutex = PTHREAD_MUTEX_INITIALIZER; /* held while a device is opened */

static const struct tidei_driver *
capture_driver(void)
{
    for (int i = 0; i < TIDE_BRIDGE_DEVICES; i++)
        if (atomic_load_explicit(&capture_devices[i].has_cuda, memory_order_acquire))
            return capture_devices[i].cuda.cuda;
    return NULL;
}

/* With the device's context current. */
static enum tide_status
capture_make_stream(struct capture_device *mine)
{
    const struct tidei_driver *cuda = mine->cuda.cuda;
    enum tide_status status;

    if (cuda->stream_create == NULL || cuda->stream_is_capturing == NULL || cuda->thread_exchange_capture_mode == NULL)
        return tidei_device_lacks(&mine->cuda, "cuStreamIsCapturing");
    status = tidei_device_error(&mine->cuda, cuda->context_push(mine->cuda.context), "cuCtxPushCurrent");
    if (status != TIDE_OK)
        return status;
    status =
        tidei_device_error(&mine->cuda, cuda->stream_create(&mine->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    tidei_driver_leave(cuda);
    return status;
}

/* Open the device. Without a driver nothing can be captured, and nothing is needed. */
static enum tide_status
capture_open(struct tidei_bridge_device *device)
{
    struct capture_device *mine = &capture_devices[device->ordinal];
    enum tide_status status = TIDE_OK;
    struct tidei_error error;

    tidei_error_save(&error);
    pthread_mutex_lock(&capture_mutex);
    if (!atomic_load_explicit(&mine->has_cuda, memory_order_relaxed)) {
        if (tidei_device_open(&mine->cuda, "bridge", device->ordinal) != TIDE_OK) {
            tidei_error_restore(&error);
        } else {
            status = capture_make_stream(mine);
            if (status == TIDE_OK)
                atomic_store_explicit(&mine->has_cuda, true, memory_order_release);
            else
                tidei_device_close(&mine->cuda);
        }
    }
    pthread_mutex_unlock(&capture_mutex);
    return status;
}

/* The thread's mode before, and whether it was relaxed by the bridge already. */
#define CAPTURE_WAS_RELAXED 0x100

int
tidei_capture_relax(void)
{
    const struct tidei_driver *cuda = capture_driver();
    struct tidei_thread *thread = tidei_thread_get();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    int before;

    if (cuda == NULL || thread == NULL || cuda->thread_exchange_capture_mode(&mode) != CUDA_SUCCESS)
        return -1;
    before = (int)mode | (thread->relaxed ? CAPTURE_WAS_RELAXED : 0);
    thread->relaxed = true;
    return before;
}

void
tidei_capture_restore(int before)
{
    CUstreamCaptureMode mode = (CUstreamCaptureMode)(before & ~CAPTURE_WAS_RELAXED);

    if (before < 0)
        return;
    capture_driver()->thread_exchange_capture_mode(&mode);
    tidei_thread->relaxed = (before & CAPTURE_WAS_RELAXED) != 0;
}

/* See tidei_device_stream. While another graph is captured the driver refuses, and would end that capture. */
void
tidei_capture_synchronize(const struct tidei_bridge_device *device)
{
    struct capture_device *mine = &capture_devices[device->ordinal];
    uint32_t open;

    if (!atomic_load_explicit(&mine->has_cuda, memory_order_acquire))
        return;
    tidei_lock_acquire(&capture_lock);
    open = mine->open;
    tidei_lock_release(&capture_lock);
    if (open == 1 && mine->cuda.cuda->context_push(mine->cuda.context) == CUDA_SUCCESS) {
        (void)mine->cuda.cuda->context_synchronize(); /* what has failed is told to those who ask for it */
        tidei_driver_leave(mine->cuda.cuda);
    }
}

/* Whether and how the driver captures the stream. */
static enum tidei_capture_state
capture_ask(const struct capture_device *mine, tide_stream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = TIDEI_DRIVER_CALL(mine->cuda.cuda, mine->cuda.context,
                                        mine->cuda.cuda->stream_is_capturing((CUstream)stream, &status));

    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        return TIDEI_CAPTURE_BEHIND;
    return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE ? TIDEI_CAPTURE_ACTIVE
                                                                             : TIDEI_CAPTURE_NONE;
}

tide_stream
tidei_capture_stream(const struct tidei_bridge_device *device)
{
    return (tide_stream)capture_devices[device->ordinal].stream;
}

enum tide_status
tidei_capture_wait(const struct tidei_bridge_device *device)
{
    const struct capture_device *mine = &capture_devices[device->ordinal];

    if (!atomic_load_explicit(&mine->has_cuda, memory_order_acquire) || mine->cuda.cuda->stream_synchronize == NULL)
        return TIDE_OK;
    return tidei_device_error(
        &mine->cuda,
        TIDEI_DRIVER_CALL(mine->cuda.cuda, mine->cuda.context, mine->cuda.cuda->stream_synchronize(mine->stream)),
        "cuStreamSynchronize");
}

#else

static enum tide_status
capture_open(struct tidei_bridge_device *device)
{
    (void)device;
    return TIDE_OK;
}

void
tidei_capture_synchronize(const struct tidei_bridge_device *device)
{
    (void)device;
}

int
tidei_capture_relax(void)
{
    return -1;
}

void
tidei_capture_restore(int before)
{
    (void)before;
}

static enum tidei_capture_state
capture_ask(const struct capture_device *mine, tide_stream stream)
{
    (void)mine;
    (void)stream;
    return TIDEI_CAPTURE_NONE;
}

tide_stream
tidei_capture_stream(const struct tidei_bridge_device *device)
{
    (void)device;
    return 0;
}

enum tide_status
tidei_capture_wait(const struct tidei_bridge_device *device)
{
    (void)device;
    return TIDE_OK;
}

#endif

/* The pool that this thread captures into; else the latest that anybody does: autograd's threads begin none. */
static struct tidei_bridge_pool *
capture_pool_now(const struct tidei_bridge_device *device)
{
    struct tidei_bridge_pool *found = NULL;

    for (struct tidei_bridge_pool *pool = capture_pools; pool != NULL; pool = pool->next) {
        if (pool->device != device || pool->open == 0)
            continue;
        if (pthread_equal(pool->thread, pthread_self()))
            return pool;
        found = found != NULL ? found : pool;
    }
    return found;
}

enum tidei_capture_state
tidei_capture_state(struct tidei_bridge_device *device, tide_stream stream, struct tidei_bridge_pool **pool)
{
    const struct capture_device *mine = &capture_devices[device->ordinal];
    enum tidei_capture_state state = TIDEI_CAPTURE_NONE;

    *pool = NULL;
#ifdef HAVE_CUDA_H
    if (!atomic_load_explicit(&mine->has_cuda, memory_order_acquire))
        return state;
#endif
    state = capture_ask(mine, stream);
    if (state != TIDEI_CAPTURE_ACTIVE)
        return state;
    tidei_lock_acquire(&capture_lock);
    *pool = capture_pool_now(device);
    tidei_lock_release(&capture_lock);
    return state;
}

/* At most an eighth of a block is wasted, and what rounding to 512 bytes takes. */
static bool
idle_fits(const struct capture_idle *idle, size_t bytes, tide_stream stream)
{
    return idle->stream == stream && idle->bytes >= bytes && idle->bytes - bytes <= idle->bytes / 8 + 511;
}

void *
tidei_capture_reuse(struct tidei_bridge_pool *pool, size_t bytes, tide_stream stream)
{
    struct capture_idle *best = NULL;
    void *pointer = NULL;

    tidei_lock_acquire(&capture_lock);
    for (size_t i = 0; i < pool->idle_count; i++)
        if (idle_fits(&pool->idle[i], bytes, stream) && (best == NULL || pool->idle[i].bytes < best->bytes))
            best = &pool->idle[i];
    if (best != NULL) {
        pointer = best->pointer;
        *best = pool->idle[--pool->idle_count];
    }
    tidei_lock_release(&capture_lock);
    return pointer;
}

void
tidei_capture_offer(struct tidei_bridge_pool *pool, void *pointer, size_t bytes, tide_stream stream)
{
    tidei_lock_acquire(&capture_lock);
    if (tidei_grow(&pool->idle, &pool->idle_capacity, pool->idle_count, 1))
        pool->idle[pool->idle_count++] = (struct capture_idle){ pointer, bytes, stream };
    tidei_lock_release(&capture_lock);
}

/* How many reasons there are to look at captures in each call. The lock is held. */
static void
capture_count(struct tidei_bridge_device *device)
{
    const struct capture_device *mine = &capture_devices[device->ordinal];

    /* Release: pairs with the acquire in allocate.c, which then sees the pools. */
    atomic_store_explicit(&device->captures, mine->open + (mine->queue_count != 0), memory_order_release);
}

enum tide_status
tidei_capture_queue(struct tidei_bridge_device *device, void *pointer, tide_stream stream)
{
    struct capture_device *mine = &capture_devices[device->ordinal];
    bool room;

    tidei_lock_acquire(&capture_lock);
    room = tidei_grow(&mine->queue, &mine->queue_capacity, mine->queue_count, 1);
    if (room)
        mine->queue[mine->queue_count++] = (struct tidei_capture_free){ pointer, stream };
    capture_count(device);
    tidei_lock_release(&capture_lock);
    return room ? TIDE_OK : tide_error_set(TIDE_ENOMEM, "bridge: no host memory for a free during a capture");
}

bool
tidei_capture_is_over(const struct tidei_bridge_device *device)
{
    const struct capture_device *mine = &capture_devices[device->ordinal];
    bool over;

    tidei_lock_acquire(&capture_lock);
    over = mine->open == 0 && mine->queue_count != 0;
    tidei_lock_release(&capture_lock);
    return over;
}

size_t
tidei_capture_take_queue(struct tidei_bridge_device *device, struct tidei_capture_free **out)
{
    struct capture_device *mine = &capture_devices[device->ordinal];
    size_t count = 0;

    *out = NULL;
    tidei_lock_acquire(&capture_lock);
    if (mine->open == 0) {
        *out = mine->queue;
        count = mine->queue_count;
        mine->queue = NULL;
        mine->queue_count = mine->queue_capacity = 0;
        capture_count(device);
    }
    tidei_lock_release(&capture_lock);
    return count;
}

/* The lock is held. */
static struct tidei_bridge_pool *
capture_find(const struct tidei_bridge_device *device, struct tide_torch_pool id)
{
    struct tidei_bridge_pool *pool = capture_pools;

    while (pool != NULL && !(pool->device == device && pool->id.a == id.a && pool->id.b == id.b && pool->begun != 0))
        pool = pool->next;
    return pool;
}

enum tide_status
tidei_capture_begin(struct tidei_bridge_device *device, struct tide_torch_pool id)
{
    enum tide_status status = capture_open(device);
    struct tidei_bridge_pool *made, *pool;

    if (status != TIDE_OK)
        return status;
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return tide_error_set(TIDE_ENOMEM, "bridge: no host memory for the pool of a graph");
    *made = (struct tidei_bridge_pool){ .device = device, .id = id };
    tidei_lock_acquire(&capture_lock);
    pool = capture_find(device, id);
    if (pool == NULL) {
        pool = made;
        made = NULL;
        pool->next = capture_pools;
        capture_pools = pool;
    }
    pool->begun++;
    pool->open++;
    pool->thread = pthread_self();
    capture_devices[device->ordinal].open++;
    capture_count(device);
    tidei_lock_release(&capture_lock);
    free(made);
    return TIDE_OK;
}

void
tidei_capture_end(struct tidei_bridge_device *device, struct tide_torch_pool id)
{
    struct tidei_bridge_pool *pool;

    tidei_lock_acquire(&capture_lock);
    pool = capture_find(device, id);
    if (pool != NULL && pool->open > 0) {
        pool->open--;
        capture_devices[device->ordinal].open--;
        capture_count(device);
    }
    tidei_lock_release(&capture_lock);
}

bool
tidei_capture_release(struct tidei_bridge_device *device, struct tide_torch_pool id)
{
    struct tidei_bridge_pool *pool;
    bool last;

    tidei_lock_acquire(&capture_lock);
    pool = capture_find(device, id);
    last = pool != NULL && --pool->begun == 0;
    if (last) { /* a capture that was never ended has failed */
        capture_devices[device->ordinal].open -= pool->open;
        pool->open = 0;
        capture_count(device);
    }
    tidei_lock_release(&capture_lock);
    return last;
}

struct tidei_bridge_pool *
tidei_capture_take_released(struct tidei_bridge_device *device)
{
    struct tidei_bridge_pool **link = &capture_pools, *pool = NULL;

    tidei_lock_acquire(&capture_lock);
    if (capture_devices[device->ordinal].open == 0) {
        while (*link != NULL && !((*link)->device == device && (*link)->begun == 0))
            link = &(*link)->next;
        pool = *link;
        if (pool != NULL)
            *link = pool->next;
    }
    tidei_lock_release(&capture_lock);
    return pool;
}

void
tidei_capture_free_pool(struct tidei_bridge_pool *pool)
{
    free(pool->idle);
    free(pool);
}
