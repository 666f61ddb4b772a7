/*
 * Tests the base `vmm` against a model of its blocks over many random steps: on several streams, which are destroyed
 * and made again, with kernels that still run, with calls of the driver that fail, and on several threads.
 *
 * VMM_SEED sets the seed, VMM_STEPS how many steps each run takes. Runs on the fake driver alone.
 */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "tests/gpu/work.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#include "src/resource/place.h"
#include "tests/fake-cuda/tracer.h"

#define PAGE    (2 * MIB)
#define BLOCKS  24u
#define STREAMS 4u
#define THREADS 4u
#define PAGES   6u /* of a block at most */

static void (*own_count)(struct fake_count *out);
static const char *(*own_function)(unsigned place, int *calls);
static struct gpu_work work;

struct model_block {
    char *address; /* NULL: none */
    size_t bytes;
    unsigned stream;
    uint32_t value; /* of the first word of each page; 0: not written */
};

/* What one thread does with the base, and what it knows of it. */
struct actor {
    struct tide_resource *vmm;
    uint64_t random;
    CUstream streams[STREAMS];
    CUevent event;
    CUdeviceptr wrong; /* counts words that are not as they were written */
    struct model_block blocks[BLOCKS];
    uint64_t used, mapped, mapped_high; /* of the model's blocks */
    uint32_t values;
    unsigned injected, failed;
    bool alone, injects;
    const char *finding; /* NULL: none */
};

static uint64_t
below(struct actor *actor, uint64_t bound)
{
    return next_random(&actor->random) % bound;
}

static void
need(struct actor *actor, bool condition, const char *finding)
{
    if (condition || actor->finding != NULL)
        return;
    actor->finding = finding;
    diag("%s (%s)", finding, tide_error_text());
}

/* A call of the base may fail where one of the driver was made to. */
static bool
succeeds(struct actor *actor, enum tide_status status, const char *what)
{
    if (status == TIDE_OK)
        return true;
    actor->failed++;
    need(actor, actor->failed <= actor->injected, what);
    return false;
}

static uint64_t
pages_of(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE;
}

/* Have one of the next calls of a function fail. */
static void
inject(struct actor *actor)
{
    static const char *const functions[] = { "cuMemCreate",         "cuMemMap",          "cuMemSetAccess",
                                             "cuMemUnmap",          "cuMemRelease",      "cuEventQuery",
                                             "cuEventRecord",       "cuEventCreate",     "cuStreamWaitEvent",
                                             "cuMemAddressReserve", "cuEventSynchronize" };
    const char *function = functions[below(actor, sizeof(functions) / sizeof(functions[0]))];
    const char *name;
    char text[64];
    int calls = 0;

    for (unsigned place = 0; (name = own_function(place, &calls)) != NULL && strcmp(name, function) != 0;)
        place++;
    snprintf(text, sizeof(text), "%s:%d:%d", function, below(actor, 2) != 0 ? CUDA_ERROR_OUT_OF_MEMORY : 999,
             calls + 1 + (int)below(actor, 4));
    setenv("FAKE_CUDA_FAIL", text, 1);
    actor->injected++;
}

/* Have a stream wait for what another one was given so far. A call that is made to fail is made again. */
static void
order(struct actor *actor, CUstream earlier, CUstream later)
{
    bool done = false;

    for (int i = 0; i < 4 && !done; i++)
        done = gpu.event_record(actor->event, earlier) == CUDA_SUCCESS;
    need(actor, done, "the test's own event is not recorded");
    done = false;
    for (int i = 0; i < 4 && !done; i++)
        done = gpu.stream_wait_event(later, actor->event, 0) == CUDA_SUCCESS;
    need(actor, done, "a stream does not wait for the test's own event");
}

static void
step_allocate(struct actor *actor, struct model_block *block)
{
    uint64_t pages = 1 + below(actor, PAGES);
    const struct model_block *neighbour = &actor->blocks[below(actor, BLOCKS)];
    void *out = actor;
    CUstream stream;

    block->bytes = pages * PAGE - (actor->alone ? below(actor, PAGE / 2) : 0);
    block->stream = (unsigned)below(actor, STREAMS);
    block->value = 0;
    stream = actor->streams[block->stream];
    if (below(actor, 4) == 0 && neighbour->address != NULL)
        tidei_place_wish((uintptr_t)neighbour->address + pages_of(neighbour->bytes) * PAGE);
    if (!succeeds(actor, tide_allocate(actor->vmm, block->bytes, 256, (tide_stream)stream, &out), "no memory")) {
        need(actor, out == NULL, "a failed allocation returns an address");
        return;
    }
    need(actor, (uintptr_t)out % PAGE == 0, "a block does not begin with a page");
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct model_block *other = &actor->blocks[i];

        need(actor,
             other->address == NULL || (char *)out >= other->address + other->bytes ||
                 other->address >= (char *)out + block->bytes,
             "two live blocks overlap");
    }
    block->address = out;
    actor->used += block->bytes;
    actor->mapped += pages * PAGE;
    if (actor->mapped > actor->mapped_high)
        actor->mapped_high = actor->mapped;
    if (below(actor, 8) != 0)
        return;
    block->value = ++actor->values << 8 | 1;
    if (below(actor, 4) == 0)
        need(actor, gpu_delay(&work.kernels, stream, below(actor, 300000)), "no delay");
    for (uint64_t i = 0; i < pages; i++)
        need(actor, gpu_fill(&work.kernels, stream, block->address + i * PAGE, 1, block->value), "no fill");
}

/* On its own stream, or on another one that waits for it. */
static void
step_free(struct actor *actor, struct model_block *block)
{
    uint64_t pages = pages_of(block->bytes);
    unsigned stream = below(actor, 4) == 0 ? (unsigned)below(actor, STREAMS) : block->stream;

    for (uint64_t i = 0; i < pages && block->value != 0; i++)
        need(actor,
             gpu_verify(&work.kernels, actor->streams[block->stream], block->address + i * PAGE, 1, block->value,
                        actor->wrong),
             "no verification");
    block->value = 0;
    if (stream != block->stream)
        order(actor, actor->streams[block->stream], actor->streams[stream]);
    block->stream = stream;
    if (!succeeds(actor,
                  tide_deallocate(actor->vmm, block->address, block->bytes, 256, (tide_stream)actor->streams[stream]),
                  "a block is not freed"))
        return;
    actor->used -= block->bytes;
    actor->mapped -= pages * PAGE;
    block->address = NULL;
}

/* Destroy a stream, whose work goes on, and have a new one take its place, maybe with its handle. */
static void
step_stream(struct actor *actor)
{
    CUstream *stream = &actor->streams[below(actor, STREAMS)];
    CUstream helper = actor->streams[(size_t)(stream - actor->streams + 1) % STREAMS];

    order(actor, *stream, helper);
    need(actor, gpu.stream_destroy(*stream) == CUDA_SUCCESS, "a stream is not destroyed");
    need(actor, gpu.stream_create(stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS, "there is no new stream");
    order(actor, helper, *stream);
}

static void
step_check(struct actor *actor)
{
    struct tide_vmm_figures figures = { TIDE_FIGURES(figures) };
    struct fake_count real;

    tide_vmm_read(actor->vmm, &figures);
    own_count(&real);
    need(actor, figures.used_bytes == actor->used && figures.mapped_bytes == actor->mapped,
         "the base counts otherwise");
    need(actor, figures.handles == real.handles && figures.reserved_bytes == real.handle_bytes,
         "the driver counts otherwise");
    need(actor, figures.created - figures.released == figures.handles, "handles were lost");
    need(actor, figures.reserved_bytes >= figures.mapped_bytes, "less is reserved than is mapped");
    need(actor, actor->injected > 0 || figures.reserved_bytes <= actor->mapped_high, "more is held than was in use");
    need(actor, real.faults == 0, "memory was unmapped under its work");
}

static void
step(struct actor *actor, unsigned number)
{
    struct model_block *block = &actor->blocks[below(actor, BLOCKS)];

    if (actor->injects && number % 32 == 0)
        inject(actor);
    if (block->address == NULL)
        step_allocate(actor, block);
    else
        step_free(actor, block);
    if (below(actor, 64) == 0)
        (void)succeeds(actor, tide_trim(actor->vmm, below(actor, 64) * PAGE), "a trim fails");
    if (below(actor, 256) == 0)
        (void)succeeds(actor, tide_order(actor->vmm, TIDE_STREAM_ALL, 0), "an order fails");
    if (below(actor, 256) == 0)
        step_stream(actor);
    if (actor->alone && number % 8 == 0) /* the driver counts over all objects that it ever made */
        step_check(actor);
}

static unsigned
step_count(void)
{
    const char *text = getenv("VMM_STEPS");

    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : 3000;
}

static void
actor_open(struct actor *actor, struct tide_resource *vmm, uint64_t seed)
{
    *actor = (struct actor){ .vmm = vmm, .random = seed | 1 };
    for (size_t i = 0; i < STREAMS; i++)
        need(actor, gpu.stream_create(&actor->streams[i], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS, "no stream");
    need(actor,
         gpu.event_create(&actor->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
             gpu.mem_alloc(&actor->wrong, sizeof(uint32_t)) == CUDA_SUCCESS &&
             gpu.memset_d32_async(actor->wrong, 0, 1, actor->streams[0]) == CUDA_SUCCESS &&
             gpu.context_synchronize() == CUDA_SUCCESS,
         "no word");
}

/* Free what is live. The streams are destroyed before the base is released, which waits for no stream by its handle. */
static bool
actor_close(struct actor *actor)
{
    uint32_t wrong = 1;

    for (size_t i = 0; i < BLOCKS; i++) {
        while (actor->blocks[i].address != NULL && actor->finding == NULL)
            step_free(actor, &actor->blocks[i]);
    }
    for (size_t i = 0; i < STREAMS; i++)
        gpu.stream_synchronize(actor->streams[i]);
    gpu.memcpy_dtoh_async(&wrong, actor->wrong, sizeof(wrong), actor->streams[0]);
    gpu.stream_synchronize(actor->streams[0]);
    need(actor, wrong == 0, "a block does not hold what was written to it");
    for (size_t i = 0; i < STREAMS; i++)
        gpu.stream_destroy(actor->streams[i]);
    gpu.event_destroy(actor->event);
    gpu.mem_free(actor->wrong);
    return actor->finding == NULL;
}

/* Release the base; whether nothing of it is left. */
static bool
nothing_left(struct tide_resource *vmm)
{
    uint64_t reserved = 1;
    struct fake_count left;
    bool empty = tide_order(vmm, TIDE_STREAM_ALL, 0) == TIDE_OK && tide_trim(vmm, 0) == TIDE_OK &&
                 tide_query(vmm, TIDE_QUERY_BYTES_RESERVED, &reserved) == TIDE_OK && reserved == 0;

    tide_resource_release(vmm);
    own_count(&left);
    diag("left: %u handles, %u ranges, %u maps, %u events, %u faults", left.handles, left.ranges, left.maps,
         left.events, left.faults);
    return empty && left.handles + left.ranges + left.maps + left.events + left.faults == 0;
}

#define ALONE_TESTS 2

static void
test_alone(const char *text, bool injects, uint64_t seed)
{
    struct tide_resource *vmm = gpu_stack("%s", text);
    struct actor actor;

    actor_open(&actor, vmm, seed);
    actor.alone = true;
    actor.injects = injects;
    for (unsigned i = 0; i < step_count() && actor.finding == NULL; i++)
        step(&actor, i);
    unsetenv("FAKE_CUDA_FAIL");
    actor.injects = false;
    ok(actor_close(&actor), "%s%s: many random steps are as the model says", text,
       injects ? ", with calls that fail" : "");
    diag("%u calls were made to fail, %u calls of the base failed", actor.injected, actor.failed);
    ok(nothing_left(vmm), "%s%s: after many random steps nothing is left", text,
       injects ? ", with calls that fail" : "");
}

static unsigned thread_steps;

static void *
thread_run(void *context)
{
    struct actor *actor = context;

    gpu.context_set(work.context);
    for (unsigned i = 0; i < thread_steps && actor->finding == NULL; i++)
        step(actor, i);
    gpu.context_set(NULL);
    return NULL;
}

#define THREADS_TESTS 3

/* Each thread has a model of its own blocks. What fails for it is chosen before: the environment cannot change then. */
static void
test_threads(const char *text, bool injects, uint64_t seed)
{
    struct tide_resource *vmm = gpu_stack("%s", text);
    struct actor actors[THREADS];
    pthread_t threads[THREADS];
    char failures[2048] = "";
    bool right = true;

    for (unsigned i = 0; i < THREADS; i++)
        actor_open(&actors[i], vmm, seed * 31 + i);
    for (size_t i = 0, length = 0; i < 24 && injects; i++) {
        inject(&actors[0]);
        length += (size_t)snprintf(failures + length, sizeof(failures) - length, "%s%s", i > 0 ? "," : "",
                                   getenv("FAKE_CUDA_FAIL"));
        snprintf(strrchr(failures, ':'), 16, ":%u", (unsigned)(atoi(strrchr(failures, ':') + 1) + (int)i * 40));
        length = strlen(failures);
    }
    for (unsigned i = 0; i < THREADS; i++)
        actors[i].injected = injects ? 24 : 0;
    thread_steps = step_count() / THREADS;
    setenv("FAKE_CUDA_FAIL", failures, 1);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, thread_run, &actors[i]);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    unsetenv("FAKE_CUDA_FAIL");
    for (unsigned i = 0; i < THREADS; i++)
        right = actor_close(&actors[i]) && right;
    ok(right, "%s%s: no block of four threads holds what others wrote", text, injects ? ", with calls that fail" : "");
    ok(injects || gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED_HIGH) <= gpu_figure(vmm, TIDE_QUERY_BYTES_USED_HIGH),
       "%s%s: four threads hold no more than was in use", text, injects ? ", with calls that fail" : "");
    ok(nothing_left(vmm), "%s%s: after four threads nothing is left", text, injects ? ", with calls that fail" : "");
}

static const char *const texts[] = { "vmm", "vmm(stress=true)", "vmm(shareable=true)", "vmm(decay=1)" };

#define TEXTS (sizeof(texts) / sizeof(texts[0]))

int
main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *count_symbol = library != NULL ? dlsym(library, FAKE_CUDA_COUNT) : NULL;
    void *function_symbol = library != NULL ? dlsym(library, FAKE_CUDA_FUNCTION) : NULL;
    uint64_t seed;

    if (count_symbol == NULL)
        skip_all("this is not the fake driver: run it by tests/fake-cuda/run");
    memcpy(&own_count, &count_symbol, sizeof(own_count));
    memcpy(&own_function, &function_symbol, sizeof(own_function));
    setenv("FAKE_CUDA_MEMORY", "4G", 1);
    setenv("FAKE_CUDA_REUSE_STREAMS", "1", 1);
    plan((int)(2 * TEXTS * (ALONE_TESTS + THREADS_TESTS)));
    seed = random_seed("VMM_SEED");
    if (gpu_open() != NULL || !gpu_work_open(&work, 0))
        abort();
    for (size_t i = 0; i < TEXTS; i++) {
        for (int injects = 0; injects <= 1; injects++) {
            test_alone(texts[i], injects != 0, seed + i);
            test_threads(texts[i], injects != 0, seed + i);
        }
    }
    gpu_work_close(&work);
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
}

#endif
