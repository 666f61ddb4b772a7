/*
 * What PyTorch's pluggable allocator calls: two C functions over a stack, what they have counted, and a thread that
 * looks at the device's memory.
 *
 * torch.cuda.memory.CUDAPluggableAllocator(shim, "bench_alloc", "bench_free") takes all memory of tensors through the
 * stack that bench_open has made. measure.py and child.py beside this file say how a run goes.
 *
 * LIMITATIONS: one device, that of the stack's base. No record_stream, so that a program uses a tensor on the stream on
 * which it made it, and no capture of CUDA graphs.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tidemark/tidemark.h>

/* child.py has the same fields in the same order, each of them 64 bits. */
struct bench_figures {
    uint64_t live_bytes;         /* requested and not freed */
    uint64_t peak_bytes;         /* the most of it */
    uint64_t allocations;        /* of more than 0 bytes */
    uint64_t empty;              /* requests of 0 bytes, which never reach the stack */
    uint64_t refused;            /* allocations that raised an error */
    uint64_t base_allocations;   /* what reached the layer named bench_base, both ways; 0 where there is none */
    uint64_t base_deallocations; /* likewise */
    uint64_t handles;            /* of a base `vmm`: handles created, released and given other addresses */
    uint64_t waits;              /* of such a base, and of a `pool`: how often the host waited */
    uint64_t base_reserved;      /* bytes that the base holds */
    uint64_t base_reserved_high; /* the most of it */
};

/* The functions of c10 and of the C++ library that throw. Neither returns. */
typedef void torch_fail_fn(const char *function, const char *file, uint32_t line, const char *message);
typedef void bad_alloc_fn(void);

static struct tide_resource *_Atomic stack;
static struct tide_resource *base, *counter; /* borrowed from `stack`; counter is NULL where the text has none */
static int stack_device;
static torch_fail_fn *torch_fail;
static bad_alloc_fn *bad_alloc;
static _Atomic uint64_t live_bytes, peak_bytes, allocations, empty, refused;

TIDE_EXPORT const char *bench_open(const char *text);
TIDE_EXPORT void bench_close(void);
TIDE_EXPORT void *bench_alloc(size_t size, int device, void *stream);
TIDE_EXPORT void bench_free(void *pointer, size_t size, int device, void *stream);
TIDE_EXPORT void bench_read(struct bench_figures *out);
TIDE_EXPORT const char *bench_sample(int device, unsigned interval_us);
TIDE_EXPORT uint64_t bench_sample_end(uint64_t *samples);

/* A function of a library that PyTorch has loaded, or NULL. */
static void *
loaded(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);

    return handle == NULL ? NULL : dlsym(handle, name);
}

/*
 * Make the stack of `text` the one that serves PyTorch. Returns NULL, or why that cannot be. A layer that the text
 * names bench_base is a `statistics` that counts what reaches the base.
 */
const char *
bench_open(const char *text)
{
    struct tide_resource *top;
    struct tide_upstream below;
    uint64_t device = 0;

    if (stack != NULL)
        return "there is a stack already";
    if (tide_stack_parse(text, &top) != TIDE_OK)
        return tide_error_text();
    for (base = top; base->ops->upstream_at(base, 0, &below) == TIDE_OK; base = below.resource)
        ;
    if (tide_query(base, TIDE_QUERY_DEVICE, &device) == TIDE_OK)
        stack_device = (int)device;
    if (tide_stack_find(top, "bench_base", &counter) != TIDE_OK)
        counter = NULL;
    torch_fail = (torch_fail_fn *)loaded("libc10.so", "_ZN3c106detail14torchCheckFailEPKcS2_jS2_");
    bad_alloc = (bad_alloc_fn *)loaded("libstdc++.so.6", "_ZSt17__throw_bad_allocv");
    stack = top;
    return NULL;
}

/* Release the stack, which completes its trace. What PyTorch frees afterwards is ignored. */
void
bench_close(void)
{
    tide_resource_release(atomic_exchange(&stack, NULL));
}

/* Raise an error in PyTorch: NULL would become a tensor at address 0, which ruins the context at its first use. */
static void
refuse(const char *why)
{
    static _Thread_local char text[512];

    atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
    snprintf(text, sizeof text, "CUDA out of memory. Tidemark: %s", why);
    if (torch_fail != NULL)
        torch_fail("bench_alloc", "bench/torch/shim.c", 0, text);
    fprintf(stderr, "%s\n", text);
    if (bad_alloc != NULL)
        bad_alloc();
    abort();
}

void *
bench_alloc(size_t size, int device, void *stream)
{
    uint64_t live, peak;
    void *pointer = NULL;

    /* PyTorch never frees what it got for 0 bytes. */
    if (size == 0) {
        atomic_fetch_add_explicit(&empty, 1, memory_order_relaxed);
        return NULL;
    }
    if (stack == NULL)
        refuse("no stack is open");
    if (device != stack_device)
        refuse("the stack is of another device");
    if (tide_allocate(stack, size, TIDE_DEFAULT_ALIGNMENT, (tide_stream)stream, &pointer) != TIDE_OK)
        refuse(tide_error_text());
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    live = atomic_fetch_add_explicit(&live_bytes, size, memory_order_relaxed) + size;
    peak = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
    while (live > peak &&
           !atomic_compare_exchange_weak_explicit(&peak_bytes, &peak, live, memory_order_relaxed, memory_order_relaxed))
        ;
    return pointer;
}

void
bench_free(void *pointer, size_t size, int device, void *stream)
{
    (void)device;
    if (pointer == NULL || stack == NULL)
        return;
    atomic_fetch_sub_explicit(&live_bytes, size, memory_order_relaxed);
    if (tide_deallocate(stack, pointer, size, TIDE_DEFAULT_ALIGNMENT, (tide_stream)stream) != TIDE_OK)
        fprintf(stderr, "bench_free: %s\n", tide_error_text());
}

void
bench_read(struct bench_figures *out)
{
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    struct tide_vmm_figures pages = { TIDE_FIGURES(pages) };
    struct tide_pool_figures chunks = { TIDE_FIGURES(chunks) };
    struct tide_resource *pool;

    *out = (struct bench_figures){
        .live_bytes = live_bytes,
        .peak_bytes = peak_bytes,
        .allocations = allocations,
        .empty = empty,
        .refused = refused,
    };
    if (stack == NULL)
        return;
    if (counter != NULL && tide_statistics_read(counter, &figures) == TIDE_OK) {
        out->base_allocations = (uint64_t)figures.count.total;
        out->base_deallocations = (uint64_t)(figures.count.total - figures.count.current);
    }
    if (tide_vmm_read(base, &pages) == TIDE_OK) {
        out->handles = pages.created + pages.released + pages.remapped;
        out->waits = pages.waits;
    }
    if (tide_stack_find(stack, "pool", &pool) == TIDE_OK && tide_pool_read(pool, &chunks) == TIDE_OK)
        out->waits += chunks.waits;
    tide_query(base, TIDE_QUERY_BYTES_RESERVED, &out->base_reserved);
    tide_query(base, TIDE_QUERY_BYTES_RESERVED_HIGH, &out->base_reserved_high);
}

/* The device's memory, looked at by a thread of its own: steps end with less than they take on the way. */
struct sampler {
    int (*init)(unsigned flags);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*memory)(size_t *free_bytes, size_t *total_bytes);
    pthread_t thread;
    struct timespec interval;
    int device;
    bool runs;
    _Atomic bool end;
    _Atomic uint64_t most_bytes, samples;
};

static struct sampler sampler;

static void *
sampler_main(void *argument)
{
    void *context;
    size_t free_bytes, total_bytes;

    (void)argument;
    if (sampler.init(0) != 0 || sampler.retain(&context, sampler.device) != 0 || sampler.set_current(context) != 0)
        return NULL;
    do {
        if (sampler.memory(&free_bytes, &total_bytes) == 0) {
            sampler.samples++;
            if (total_bytes - free_bytes > sampler.most_bytes)
                sampler.most_bytes = total_bytes - free_bytes;
        }
        nanosleep(&sampler.interval, NULL);
    } while (!sampler.end);
    return NULL;
}

/* Look at the memory of `device` every `interval_us`. Returns NULL, or why that cannot be. */
const char *
bench_sample(int device, unsigned interval_us)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);

    if (driver == NULL)
        return "the machine has no CUDA driver";
    if (sampler.runs)
        return "the sampler runs already";
    *(void **)&sampler.init = dlsym(driver, "cuInit");
    *(void **)&sampler.retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&sampler.set_current = dlsym(driver, "cuCtxSetCurrent");
    *(void **)&sampler.memory = dlsym(driver, "cuMemGetInfo_v2");
    if (sampler.init == NULL || sampler.retain == NULL || sampler.set_current == NULL || sampler.memory == NULL)
        return "the driver lacks what the sampler calls";
    sampler.device = device;
    sampler.interval = (struct timespec){ interval_us / 1000000, interval_us % 1000000 * 1000 };
    if (pthread_create(&sampler.thread, NULL, sampler_main, NULL) != 0)
        return "the sampler got no thread";
    sampler.runs = true;
    return NULL;
}

/* End the sampler: the most bytes in use that it has seen, and how often it looked. 0 where none ran. */
uint64_t
bench_sample_end(uint64_t *samples)
{
    if (sampler.runs) {
        sampler.end = true;
        pthread_join(sampler.thread, NULL);
        sampler.runs = false;
    }
    *samples = sampler.samples;
    return sampler.most_bytes;
}
