/* Memory of the fake driver outside pools (device, managed), and the lookup of addresses. Pinned: see pinned.c. */
#include "tests/fake-cuda/graph.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/fake-cuda/capture.h"

#define MEMORY_STEP_BYTES (2 * FAKE_MIB) /* steps in which cuMemAlloc takes memory from the device */

struct memory_range {
    struct memory_range *next;
    uint64_t address, bytes, mapped_bytes, id;
    enum fake_memory_kind kind;
    int device;
    bool borrowed; /* the program's own memory, or another process' */
    CUcontext context;
    int fd; /* of its memory, once another process may open it; else -1 */
};

static struct memory_range *memory_ranges;
static uint64_t memory_ids;

uint64_t
fake_memory_id(void)
{
    return ++memory_ids;
}

int
fake_memory_number(enum fake_memory_kind kind)
{
    return kind == FAKE_DEVICE ? 3 : kind == FAKE_MANAGED ? 5 : 2;
}

unsigned
fake_memory_count(void)
{
    unsigned count = 0;

    for (const struct memory_range *range = memory_ranges; range != NULL; range = range->next)
        count++;
    return count;
}

/* The longest that a call waits for memory that is cleared, as an H200 does it. */
#define MEMORY_CLEAR_MOST_NS 1050000

static uint64_t
memory_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* FAKE_CUDA_CLEAR: memory that went back is cleared, and what takes memory waits for that. */
static void
memory_await_clear(struct fake_device *entry)
{
    uint64_t now = memory_now_ns(), end = entry->clear_ns;

    entry->clear_draws = entry->clear_draws * UINT64_C(6364136223846793005) + 1442695040888963407;
    if (entry->clear_misses != 0 && (entry->clear_draws >> 33) % entry->clear_misses == 0)
        return;
    if (end > now + MEMORY_CLEAR_MOST_NS)
        end = now + MEMORY_CLEAR_MOST_NS;
    while (memory_now_ns() < end)
        ;
}

static void
memory_clear(struct fake_device *entry, uint64_t bytes)
{
    uint64_t now = memory_now_ns();

    if (entry->clear_ns < now)
        entry->clear_ns = now;
    entry->clear_ns += bytes / FAKE_MIB * entry->clear_ns_per_mib;
}

bool
fake_device_take(int device, uint64_t bytes)
{
    struct fake_device *entry;

    if (device < 0)
        return true;
    entry = &fake.devices[device];
    if (bytes > entry->total_bytes - FAKE_OWN_BYTES - entry->others_bytes - entry->used_bytes)
        return false;
    entry->used_bytes += bytes;
    if (entry->clear_ns_per_mib != 0)
        memory_await_clear(entry);
    return true;
}

void
fake_device_give(int device, uint64_t bytes)
{
    if (device < 0)
        return;
    fake.devices[device].used_bytes -= bytes;
    if (fake.devices[device].clear_ns_per_mib != 0)
        memory_clear(&fake.devices[device], bytes);
}

static bool
memory_find_block(uint64_t address, struct fake_place *out)
{
    for (CUmemoryPool pool = fake_pools(); pool != NULL; pool = pool->next) {
        uint64_t base = (uint64_t)(uintptr_t)pool->base;
        struct fake_block *block;

        if (base == 0 || address < base || address - base >= pool->span_bytes)
            continue;
        block = fake_pool_block(pool, address);
        if (block == NULL)
            return false;
        *out = (struct fake_place){ .start = base + block->offset,
                                    .bytes = block->requested_bytes,
                                    .id = block->id,
                                    .kind = pool->kind,
                                    .device = pool->device,
                                    .context = block->context,
                                    .pool = pool,
                                    .block = block };
        return true;
    }
    return false;
}

bool
fake_place_find(uint64_t address, struct fake_place *out)
{
    memset(out, 0, sizeof(*out));
    for (struct memory_range *range = memory_ranges; range != NULL; range = range->next) {
        if (range->address <= address && address - range->address < range->bytes) {
            *out = (struct fake_place){ .start = range->address,
                                        .bytes = range->bytes,
                                        .id = range->id,
                                        .kind = range->kind,
                                        .device = range->device,
                                        .borrowed = range->borrowed,
                                        .context = range->context };
            return true;
        }
    }
    return memory_find_block(address, out) || fake_virtual_place(address, out) || fake_graph_place(address, out);
}

/* A pool's memory needs access, and another device's memory an enabled peer; an unknown address is refused. */
CUresult
fake_place_check(CUcontext context, uint64_t address, uint64_t bytes)
{
    struct fake_place place;

    if (!fake_place_find(address, &place))
        return CUDA_ERROR_INVALID_VALUE;
    if (place.mapping != NULL)
        return fake_virtual_check(context->device, address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (bytes > place.bytes - (address - place.start))
        return CUDA_ERROR_INVALID_VALUE;
    if (place.kind == FAKE_MANAGED)
        return CUDA_SUCCESS;
    if (place.pool != NULL)
        return place.pool->access[context->device] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CUDA_SUCCESS
                                                                                         : CUDA_ERROR_INVALID_VALUE;
    if (place.kind == FAKE_HOST || place.device == context->device)
        return CUDA_SUCCESS;
    return context->peers & 1u << place.device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct memory_range *
memory_add(CUcontext context, void *address, uint64_t bytes, enum fake_memory_kind kind)
{
    struct memory_range *range = calloc(1, sizeof(*range));

    if (range == NULL)
        abort();
    *range = (struct memory_range){ .next = memory_ranges,
                                    .address = (uint64_t)(uintptr_t)address,
                                    .bytes = bytes,
                                    .id = fake_memory_id(),
                                    .kind = kind,
                                    .device = context->device,
                                    .context = context,
                                    .fd = -1 };
    memory_ranges = range;
    return range;
}

void
fake_memory_borrow(CUcontext context, void *address, uint64_t bytes, enum fake_memory_kind kind)
{
    memory_add(context, address, bytes, kind)->borrowed = true;
}

static CUresult
memory_new(CUcontext context, size_t bytes, enum fake_memory_kind kind, uint64_t *out)
{
    uint64_t mapped_bytes = (bytes + MEMORY_STEP_BYTES - 1) / MEMORY_STEP_BYTES * MEMORY_STEP_BYTES;
    int device = kind == FAKE_DEVICE ? context->device : -1;
    void *address;

    if (bytes > (uint64_t)1 << (kind == FAKE_MANAGED ? 46 : 40) || !fake_device_take(device, mapped_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    address = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        fake_device_give(device, mapped_bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory_add(context, address, bytes, kind)->mapped_bytes = mapped_bytes;
    *out = (uint64_t)(uintptr_t)address;
    return CUDA_SUCCESS;
}

static void
memory_trace(const struct memory_range *range, enum fake_event_kind kind)
{
    struct fake_event event = { .kind = kind,
                                .memory_kind = fake_memory_number(range->kind),
                                .address = range->address,
                                .bytes = range->bytes,
                                .device = (uint32_t)range->device,
                                .stream = UINT32_MAX };

    /* Once for each context, as observed. */
    for (CUcontext context = fake.contexts; context != NULL; context = context->next) {
        event.context = context->id;
        if (context->alive)
            fake_trace(&event);
    }
}

static void
memory_remove(struct memory_range **link)
{
    struct memory_range *range = *link;

    *link = range->next;
    if (!range->borrowed)
        munmap((void *)(uintptr_t)range->address, range->mapped_bytes);
    if (range->kind == FAKE_DEVICE)
        fake_device_give(range->device, range->mapped_bytes);
    if (range->fd >= 0)
        close(range->fd);
    free(range);
}

bool
fake_memory_forget(uint64_t address)
{
    struct memory_range **link = &memory_ranges;

    while (*link != NULL && ((*link)->address != address || !(*link)->borrowed))
        link = &(*link)->next;
    if (*link == NULL)
        return false;
    memory_remove(link);
    return true;
}

/* Its pages are moved into a file in memory at the same address, once its context's work is done. */
int
fake_memory_share(uint64_t address)
{
    struct memory_range *range = memory_ranges;

    while (range != NULL && (range->address != address || range->borrowed || range->kind != FAKE_DEVICE))
        range = range->next;
    if (range == NULL)
        return -1;
    if (range->fd < 0) {
        range->fd = memfd_create("fake-cuda-memory", MFD_CLOEXEC);
        if (range->fd < 0 || ftruncate(range->fd, (off_t)range->mapped_bytes) != 0 ||
            pwrite(range->fd, (void *)(uintptr_t)address, range->bytes, 0) != (ssize_t)range->bytes ||
            mmap((void *)(uintptr_t)address, range->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 range->fd, 0) == MAP_FAILED)
            abort();
    }
    return range->fd;
}

void
fake_memory_end(CUcontext context)
{
    struct memory_range **link = &memory_ranges;

    while (*link != NULL) {
        if ((*link)->context == context)
            memory_remove(link);
        else
            link = &(*link)->next;
    }
}

static struct memory_range **
memory_link(uint64_t address)
{
    struct memory_range **link = &memory_ranges;

    while (*link != NULL && (*link)->address != address)
        link = &(*link)->next;
    return link;
}

CUresult
fake_memory_allocate(CUdeviceptr *out, size_t bytes, enum fake_memory_kind kind)
{
    uint64_t address = 0;
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result == CUDA_SUCCESS)
        result = fake_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    if (out == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = memory_new(context, bytes, kind, &address);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        fake_pools_trim(context->device, NULL);
        result = memory_new(context, bytes, kind, &address);
    }
    if (result != CUDA_SUCCESS)
        return result;
    *out = address;
    memory_trace(*memory_link(address), FAKE_ALLOCATION);
    return CUDA_SUCCESS;
}

/* Waits for all work of the context, as the real driver does. */
CUresult
fake_memory_release(uint64_t address)
{
    struct memory_range **link = memory_link(address);
    CUcontext context;

    if (*link == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    context = (*link)->context;
    fake_wait_context(context);
    link = memory_link(address); /* the list may have changed meanwhile */
    if (*link == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memory_trace(*link, FAKE_RELEASE);
    memory_remove(link);
    return CUDA_SUCCESS;
}

CUresult
fake_memory_free(uint64_t address, CUstream stream)
{
    if ((*memory_link(address))->kind == FAKE_MANAGED)
        return CUDA_ERROR_NOT_SUPPORTED;
    fake_wait_point((struct fake_point){ stream, stream->submitted });
    return fake_memory_release(address);
}

static CUresult
do_cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    return fake_memory_allocate(out, bytes, FAKE_DEVICE);
}

FAKE_API(3020, cuMemAlloc, (CUdeviceptr * out, size_t bytes), (out, bytes))

#define MEMORY_PITCH 512

static CUresult
do_cuMemAllocPitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned int element_bytes)
{
    size_t row_bytes = (width + MEMORY_PITCH - 1) / MEMORY_PITCH * MEMORY_PITCH;
    size_t bytes;
    CUresult result;

    if (out == NULL || pitch == NULL || width == 0 || height == 0 ||
        (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
    if (row_bytes < width || __builtin_mul_overflow(row_bytes, height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = fake_memory_allocate(out, bytes, FAKE_DEVICE);
    if (result == CUDA_SUCCESS)
        *pitch = row_bytes;
    return result;
}

FAKE_API(3020, cuMemAllocPitch,
         (CUdeviceptr * out, size_t *pitch, size_t width, size_t height, unsigned int element_bytes),
         (out, pitch, width, height, element_bytes))

static CUresult
do_cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return fake_memory_allocate(out, bytes, FAKE_MANAGED);
}

FAKE_API(6000, cuMemAllocManaged, (CUdeviceptr * out, size_t bytes, unsigned int flags), (out, bytes, flags))

static CUresult
do_cuMemFree(CUdeviceptr address)
{
    struct fake_place place;
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (address == 0)
        return CUDA_SUCCESS;
    if (!fake_place_find(address, &place) || place.start != address || place.mapping != NULL ||
        (place.kind == FAKE_HOST && place.pool == NULL) || place.borrowed)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = fake_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    if (place.of_graph)
        return fake_graph_memory_free(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (place.block == NULL)
        return fake_memory_release(address);
    fake_wait_context(context);
    fake_block_trace(place.pool, place.block, FAKE_RELEASE, NULL);
    fake_pool_free(place.pool, place.block, (struct fake_point){ 0 });
    if (place.pool->alive && !place.pool->imported)
        fake_pool_trim(place.pool, place.pool->threshold_bytes);
    return CUDA_SUCCESS;
}

FAKE_API(3020, cuMemFree, (CUdeviceptr address), (address))

static CUresult
do_cuMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    const struct fake_device *entry;
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    entry = &fake.devices[context->device];
    if (free_bytes != NULL)
        *free_bytes = entry->total_bytes - FAKE_OWN_BYTES - entry->used_bytes - entry->others_bytes;
    if (total_bytes != NULL)
        *total_bytes = entry->total_bytes;
    return CUDA_SUCCESS;
}

FAKE_API(3020, cuMemGetInfo, (size_t * free_bytes, size_t *total_bytes), (free_bytes, total_bytes))

static CUresult
do_cuMemGetAddressRange(CUdeviceptr *start, size_t *bytes, CUdeviceptr address)
{
    struct fake_place place;

    if (!fake_place_find(address, &place))
        return CUDA_ERROR_NOT_FOUND;
    if (start != NULL)
        *start = place.start;
    if (bytes != NULL)
        *bytes = place.bytes;
    return CUDA_SUCCESS;
}

FAKE_API(3020, cuMemGetAddressRange, (CUdeviceptr * start, size_t *bytes, CUdeviceptr address), (start, bytes, address))
