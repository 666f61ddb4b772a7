/* Asks the driver about devices, contexts and pools. */
#include "config.h"

#include "src/process/devices.h"

#ifdef HAVE_CUDA_H

#include <stdlib.h>

#include "src/process/call.h"
#include "src/sync/lock.h"
#include "src/tables/grow.h"

struct devices_pool {
    CUmemoryPool pool;                   /* NULL: none */
    int device;                          /* -1: of host memory */
    uint64_t reserved_bytes, used_bytes; /* as the driver said last */
};

static struct {
    const struct tidei_driver *cuda; /* NULL until the driver has started; written once */
    int count;
    CUdevice handles[TIDEI_PROCESS_DEVICES];
    uint64_t totals[TIDEI_PROCESS_DEVICES];
    _Atomic uint32_t generation;    /* of contexts: what threads have cached of an earlier one is void */
    struct tidei_lock context_lock; /* held while a context may end, and while one is used here; guards the next */
    CUcontext contexts[TIDEI_PROCESS_DEVICES]; /* in which the program has allocated last; NULL: that is over */
    struct tidei_lock pool_lock;               /* guards the rest, but for which pools are the devices' own */
    struct devices_pool default_pools[TIDEI_PROCESS_DEVICES];
    struct tidei_layer_figures graphs[TIDEI_PROCESS_DEVICES]; /* as the driver said last */
    struct devices_pool *pools;                               /* owned */
    size_t pool_count, pool_capacity;
} devices = { .generation = 1 };

__attribute__((constructor)) static void
devices_load(void)
{
    tidei_lock_init(&devices.context_lock);
    tidei_lock_init(&devices.pool_lock);
}

const struct tidei_driver *
tidei_process_driver(void)
{
    return devices.cuda;
}

enum tide_status
tidei_process_devices_start(void)
{
    const struct tidei_driver *cuda;
    enum tide_status status = tidei_driver_get("process", &cuda);
    int count = 0;

    if (status != TIDE_OK)
        return status;
    if (cuda->context_get_current == NULL)
        return tide_error_set(TIDE_EUNSUPPORTED, "process: the NVIDIA driver has no cuCtxGetCurrent");
    status = tidei_driver_error(cuda, "process", cuda->device_get_count(&count), "cuDeviceGetCount");
    for (int i = 0; status == TIDE_OK && i < count && i < TIDEI_PROCESS_DEVICES; i++) {
        size_t total = 0;

        status = tidei_driver_error(cuda, "process", cuda->device_get(&devices.handles[i], i), "cuDeviceGet");
        if (status == TIDE_OK)
            status = tidei_driver_error(cuda, "process", cuda->device_total_mem(&total, devices.handles[i]),
                                        "cuDeviceTotalMem");
        devices.totals[i] = total;
        devices.default_pools[i].device = i;
        if (cuda->device_get_default_mem_pool == NULL ||
            cuda->device_get_default_mem_pool(&devices.default_pools[i].pool, devices.handles[i]) != CUDA_SUCCESS)
            devices.default_pools[i].pool = NULL;
    }
    devices.count = count < TIDEI_PROCESS_DEVICES ? count : TIDEI_PROCESS_DEVICES;
    if (status == TIDE_OK)
        devices.cuda = cuda;
    return status;
}

/* Devices and contexts. */

int
tidei_process_ordinal(CUdevice handle)
{
    for (int i = 0; i < devices.count; i++) {
        if (devices.handles[i] == handle)
            return i;
    }
    return -1;
}

bool
tidei_process_has_device(int device)
{
    return device >= 0 && device < devices.count;
}

CUdevice
tidei_process_handle(int device)
{
    return devices.handles[device];
}

/*
 * Whether the context that is current is a green one, and the context whose memory is allocated then. The driver is
 * asked, as a program may have made the green context before the account began.
 */
static bool
current_is_green(CUcontext *home)
{
    CUcontext primary = NULL;
    void *green = NULL;

    if (devices.cuda->stream_get_green_ctx == NULL ||
        devices.cuda->stream_get_green_ctx(CU_STREAM_LEGACY, &primary, &green) != CUDA_SUCCESS || green == NULL)
        return false;
    *home = primary;
    return true;
}

/* The device of this thread's context; -1: it has ended, or its device is not known. What is there is remembered. */
static int
current_device(CUcontext context)
{
    CUdevice handle;
    int device = -1;

    tidei_lock_acquire(&devices.context_lock);
    if (devices.cuda->context_get_device(&handle) == CUDA_SUCCESS)
        device = tidei_process_ordinal(handle);
    if (device >= 0)
        devices.contexts[device] = context;
    tidei_lock_release(&devices.context_lock);
    return device;
}

bool
tidei_process_current(CUcontext *context, int *device)
{
    struct tidei_process_thread *mine = tidei_process_thread(tidei_thread);
    /* Acquire: pairs with the release in tidei_process_contexts_changed, on whose thread a context has ended. */
    uint32_t generation = atomic_load_explicit(&devices.generation, memory_order_acquire);

    *context = NULL;
    *device = -1;
    if (devices.cuda->context_get_current(context) != CUDA_SUCCESS || *context == NULL)
        return false;
    if (__builtin_expect(mine->context != *context || mine->generation != generation, 0)) {
        mine->context = *context;
        mine->is_green = current_is_green(context);
        mine->device = (int16_t)current_device(*context);
        mine->generation = generation;
    } else if (__builtin_expect(mine->is_green, 0)) {
        (void)current_is_green(context);
    }
    *device = mine->device;
    return *device >= 0;
}

void
tidei_process_contexts_changed(void)
{
    atomic_fetch_add_explicit(&devices.generation, 1, memory_order_release);
}

uint32_t
tidei_process_contexts_generation(void)
{
    return atomic_load_explicit(&devices.generation, memory_order_acquire);
}

void
tidei_process_context_ends(CUcontext context)
{
    for (int i = 0; i < devices.count; i++) {
        if (devices.contexts[i] == context)
            devices.contexts[i] = NULL;
    }
}

bool
tidei_process_context_enter(CUcontext context)
{
    return context != NULL && devices.cuda->context_push(context) == CUDA_SUCCESS;
}

void
tidei_process_context_leave(void)
{
    tidei_driver_leave(devices.cuda);
}

void
tidei_process_context_wait(void)
{
    (void)devices.cuda->context_synchronize();
}

bool
tidei_process_context_stays(CUcontext context)
{
    CUcontext current = NULL;

    return devices.cuda->context_get_current(&current) == CUDA_SUCCESS && current == context &&
           tidei_process_context_lives();
}

bool
tidei_process_context_lives(void)
{
    CUdevice handle;

    return devices.cuda->context_get_device(&handle) == CUDA_SUCCESS;
}

void
tidei_process_contexts_lock(void)
{
    tidei_lock_acquire(&devices.context_lock);
}

void
tidei_process_contexts_unlock(void)
{
    tidei_lock_release(&devices.context_lock);
}

/* The device of a context that is not current. */
static int
context_device(CUcontext context)
{
    const struct tidei_driver *cuda = devices.cuda;
    CUdevice handle;
    int device = -1;

    if (context == NULL || cuda->context_push(context) != CUDA_SUCCESS)
        return -1;
    if (cuda->context_get_device(&handle) == CUDA_SUCCESS)
        device = tidei_process_ordinal(handle);
    tidei_driver_leave(cuda);
    return device;
}

int
tidei_process_stream_device(tide_stream stream, int current)
{
    CUcontext context = NULL;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    void *green = NULL;
    int device = -1;

    /* 0, 1 and 2 stand for the default streams, which are the current context's. */
    if (devices.count < 2 || stream <= 2)
        return current;
    /* Of a green context's stream the primary context: that may be current on any number of threads. */
    if (devices.cuda->stream_get_green_ctx != NULL)
        result = devices.cuda->stream_get_green_ctx((CUstream)stream, &context, &green);
    else if (devices.cuda->stream_get_ctx != NULL)
        result = devices.cuda->stream_get_ctx((CUstream)stream, &context);
    if (result == CUDA_SUCCESS)
        device = context_device(context);
    return device >= 0 ? device : current;
}

/* The primary context where there is one, with a reference: no call of ours is to make one. The lock is held. */
static CUcontext
primary_retain(CUdevice handle)
{
    const struct tidei_driver *cuda = devices.cuda;
    CUcontext context = NULL;
    unsigned flags;
    int active = 0;

    if (cuda->primary_context_get_state == NULL ||
        cuda->primary_context_get_state(handle, &flags, &active) != CUDA_SUCCESS || active == 0)
        return NULL;
    return cuda->primary_context_retain(&context, handle) == CUDA_SUCCESS ? context : NULL;
}

CUcontext
tidei_process_primary(CUdevice device)
{
    CUcontext context = primary_retain(device);

    if (context != NULL)
        devices.cuda->primary_context_release(device);
    return context;
}

bool
tidei_process_is_primary(CUcontext context)
{
    int device = 0;

    tidei_lock_acquire(&devices.context_lock);
    while (context != NULL && device < devices.count && tidei_process_primary(devices.handles[device]) != context)
        device++;
    tidei_lock_release(&devices.context_lock);
    return context != NULL && device < devices.count;
}

enum tide_status
tidei_process_total(int device, uint64_t *out)
{
    *out = device < devices.count ? devices.totals[device] : 0;
    return device < devices.count ? TIDE_OK : tide_error_set(TIDE_EINVAL, "process: no device %d", device);
}

/*
 * cuMemGetInfo answers for the device of the current context. The recorder's thread has none, others may have ours. A
 * program without the primary context has one of its own, in which it has allocated.
 */
enum tide_status
tidei_process_free_bytes(int device, uint64_t *out)
{
    const struct tidei_driver *cuda = devices.cuda;
    size_t free_bytes = 0, total_bytes = 0;
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;
    CUcontext primary, context;

    *out = 0;
    if (device >= devices.count || cuda->mem_get_info == NULL || !tidei_lock_try(&devices.context_lock))
        return tide_error_set(TIDE_EUNSUPPORTED, "process: device %d does not say what is free", device);
    primary = primary_retain(devices.handles[device]);
    context = primary != NULL ? primary : devices.contexts[device];
    if (context != NULL && cuda->context_push(context) == CUDA_SUCCESS) {
        result = cuda->mem_get_info(&free_bytes, &total_bytes);
        tidei_driver_leave(cuda);
    }
    if (primary != NULL)
        cuda->primary_context_release(devices.handles[device]);
    tidei_lock_release(&devices.context_lock);
    *out = free_bytes;
    return tidei_driver_error(cuda, "process", result, "cuMemGetInfo");
}

/* Pools. */

void
tidei_process_pool_add(CUmemoryPool pool, int device)
{
    tidei_lock_acquire(&devices.pool_lock);
    if (tidei_grow(&devices.pools, &devices.pool_capacity, devices.pool_count, 1))
        devices.pools[devices.pool_count++] = (struct devices_pool){ .pool = pool, .device = device };
    tidei_lock_release(&devices.pool_lock);
}

bool
tidei_process_pool_remove(CUmemoryPool pool, int *device)
{
    bool found = false;

    tidei_lock_acquire(&devices.pool_lock);
    for (size_t i = 0; !found && i < devices.pool_count; i++) {
        found = devices.pools[i].pool == pool;
        if (found) {
            *device = devices.pools[i].device;
            devices.pools[i] = devices.pools[--devices.pool_count];
        }
    }
    tidei_lock_release(&devices.pool_lock);
    return found;
}

bool
tidei_process_pool_device(CUmemoryPool pool, int *device)
{
    bool found = false;

    for (int i = 0; !found && i < devices.count; i++) {
        found = devices.default_pools[i].pool == pool && pool != NULL;
        *device = i;
    }
    if (found)
        return true;
    tidei_lock_acquire(&devices.pool_lock);
    for (size_t i = 0; !found && i < devices.pool_count; i++) {
        found = devices.pools[i].pool == pool;
        *device = devices.pools[i].device;
    }
    tidei_lock_release(&devices.pool_lock);
    return found;
}

/*
 * Ask a pool for its figures. While the driver does not say, as at the end of the process, they are what they were. The
 * lock is held.
 */
static void
pool_ask(struct devices_pool *pool)
{
    CUresult(CUDAAPI * ask)(CUmemoryPool, CUmemPool_attribute, void *) = devices.cuda->mem_pool_get_attribute;
    cuuint64_t reserved = 0, used = 0;

    if (pool->pool == NULL || ask == NULL ||
        ask(pool->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS ||
        ask(pool->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) != CUDA_SUCCESS)
        return;
    pool->reserved_bytes = reserved;
    pool->used_bytes = used;
}

static uint64_t
pool_idle(const struct devices_pool *pool)
{
    return pool->reserved_bytes > pool->used_bytes ? pool->reserved_bytes - pool->used_bytes : 0;
}

/* Where the bases of the two kinds of stream-ordered memory count their bytes; NULL: there is no base. */
static _Atomic(const _Atomic uint64_t *) poll_bases[TIDEI_PROCESS_DEVICES][TIDEI_PROCESS_KINDS];

void
tidei_process_polls(enum tidei_process_kind kind, int device, const _Atomic uint64_t *used)
{
    if (device >= 0 && device < TIDEI_PROCESS_DEVICES)
        /* Release: pairs with the acquire in poll_used, on whose thread the new base's figure is read. */
        atomic_store_explicit(&poll_bases[device][kind], used, memory_order_release);
}

/* What the account has of a kind; 0 where nothing of it was allocated. */
static uint64_t
poll_used(int device, enum tidei_process_kind kind)
{
    const _Atomic uint64_t *used = atomic_load_explicit(&poll_bases[device][kind], memory_order_acquire);

    return used != NULL ? tidei_figure_get(used) : 0;
}

/* What the driver says of the pools of a device. */
struct poll_answer {
    uint64_t own_idle;   /* reserved and not used, in the device's own pool */
    uint64_t other_idle; /* the same in the program's */
    uint64_t used;       /* in all of them */
};

/* A pool that is being destroyed is removed first, under the lock: what is in the list may be asked. */
static void
poll_ask(int device, struct poll_answer *out)
{
    struct devices_pool *own = &devices.default_pools[device];

    tidei_lock_acquire(&devices.pool_lock);
    pool_ask(own);
    *out = (struct poll_answer){ .own_idle = pool_idle(own), .used = own->used_bytes };
    for (size_t i = 0; i < devices.pool_count; i++) {
        struct devices_pool *pool = &devices.pools[i];

        if (pool->device != device)
            continue;
        pool_ask(pool);
        out->used += pool->used_bytes;
        out->other_idle += pool_idle(pool);
    }
    tidei_lock_release(&devices.pool_lock);
}

/*
 * What the pools of a device have: the account's blocks, and more. A program allocates from each pool by either
 * function, so that the kind of a block does not tell its pool. What a pool has reserved and not used counts once: that
 * of the device's own pool with `async`, that of the others with `pool`; and with `async`, too, what the driver counts
 * as used and the account does not, such as blocks whose free waits in a stream. Where there is one of the two kinds
 * alone, it has all.
 *
 * A block that the driver has freed and the account not yet, or the other way round, is both in the account's blocks
 * and in what the driver says is idle. It counts as used.
 */
static void
poll_pools(enum tidei_process_kind kind, int device, struct tidei_layer_figures *out)
{
    bool is_async = kind == TIDEI_PROCESS_ASYNC;
    enum tidei_process_kind other = is_async ? TIDEI_PROCESS_POOL : TIDEI_PROCESS_ASYNC;
    bool is_alone = atomic_load_explicit(&poll_bases[device][other], memory_order_relaxed) == NULL;
    uint64_t known, twice, part;
    struct poll_answer pools;

    poll_ask(device, &pools);
    out->used_bytes = poll_used(device, kind);
    known = out->used_bytes + poll_used(device, other);
    twice = known > pools.used ? known - pools.used : 0;
    part = twice < pools.own_idle ? twice : pools.own_idle;
    pools.own_idle -= part;
    twice -= part;
    pools.other_idle -= twice < pools.other_idle ? twice : pools.other_idle;
    out->reserved_bytes = out->used_bytes;
    if (is_async || is_alone)
        out->reserved_bytes += pools.own_idle + (pools.used > known ? pools.used - known : 0);
    if (!is_async || is_alone)
        out->reserved_bytes += pools.other_idle;
}

static void
poll_graphs(int device, struct tidei_layer_figures *out)
{
    CUresult(CUDAAPI * ask)(CUdevice, CUgraphMem_attribute, void *) = devices.cuda->device_get_graph_mem_attribute;
    CUdevice handle = devices.handles[device];
    cuuint64_t used = 0, reserved = 0, high = 0;

    tidei_lock_acquire(&devices.pool_lock);
    if (ask != NULL && ask(handle, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS &&
        ask(handle, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved) == CUDA_SUCCESS &&
        ask(handle, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &high) == CUDA_SUCCESS)
        devices.graphs[device] = (struct tidei_layer_figures){ used, reserved, high };
    *out = devices.graphs[device];
    tidei_lock_release(&devices.pool_lock);
}

void
tidei_process_poll(enum tidei_process_kind kind, int device, struct tidei_layer_figures *out)
{
    if (devices.cuda == NULL || device >= devices.count)
        return;
    if (kind == TIDEI_PROCESS_GRAPH) {
        poll_graphs(device, out);
    } else if (kind == TIDEI_PROCESS_ASYNC || kind == TIDEI_PROCESS_POOL) {
        out->reserved_high_bytes = 0; /* what the driver has reserved in between is not seen */
        poll_pools(kind, device, out);
    }
}

#endif
