/*
 * Tests that `pool | driver` waits for a stream rather than to hold more than ever, but for no longer than a bound, and
 * that what decays and what is trimmed leaves the driver. The driver keeps what a stream still uses, and gives back
 * only what the host has waited for.
 *
 * Runs on the fake driver alone, each scene in a child that has not loaded it yet. This process has one thread, so that
 * ThreadSanitizer follows the children, too.
 */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "src/sync/testpoint.h"
#include "tests/contract.h"
#include "tests/gpu/work.h"
#include "tests/point.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#include "tests/fake-cuda/tracer.h"

static void *library; /* the fake driver */

#define UNIT  (32 * MIB)
#define WORDS 1024u

/* A condition of a scene: if it is false, the scene ends with 1. */
#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            diag("line %d is false: %s (%s)", __LINE__, #condition, tide_error_text());                                \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

struct scene {
    struct tide_resource *pool;
    struct gpu_work work;
    struct gpu_hold hold;
    void *small, *large, *last;
};

static void *
have(const struct scene *scene, size_t bytes, CUstream stream)
{
    void *block = NULL;

    gpu_allocates(scene->pool, bytes, stream, &block);
    return block;
}

static uint64_t
driver_units(const struct scene *scene, enum tide_query what)
{
    struct tide_resource *driver;
    uint64_t bytes = 0;

    if (tide_stack_find(scene->pool, "driver", &driver) == TIDE_OK)
        tide_query(driver, what, &bytes);
    return bytes / UNIT;
}

/* The most that the driver had reserved, in units. */
static uint64_t
most_units(const struct scene *scene)
{
    return driver_units(scene, TIDE_QUERY_BYTES_RESERVED_HIGH);
}

static uint64_t
waits(const struct scene *scene)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };

    return tide_pool_read(scene->pool, &figures) == TIDE_OK ? figures.waits : UINT64_MAX;
}

/* A scene that hangs ends with the child. */
static void
have_most_s(unsigned seconds)
{
    alarm(seconds);
}

static int
open_scene(struct scene *scene, const char *stack)
{
    have_most_s(60);
    NEED(tide_stack_parse(stack, &scene->pool) == TIDE_OK);
    NEED(gpu_open() == NULL && gpu_work_open(&scene->work, 0) && gpu_hold_open(&scene->hold));
    return 0;
}

static int
close_scene(struct scene *scene)
{
    tide_resource_release(scene->pool);
    gpu_hold_close(&scene->hold);
    gpu_work_close(&scene->work);
    return 0;
}

/* A block of 8 units between others that is free, and that the first stream still uses. */
static int
begin(struct scene *scene, const char *stack)
{
    NEED(open_scene(scene, stack) == 0);
    NEED((scene->small = have(scene, UNIT, scene->work.first)) != NULL);
    NEED((scene->large = have(scene, 8 * UNIT, scene->work.first)) != NULL);
    NEED((scene->last = have(scene, 2 * UNIT, scene->work.first)) != NULL);
    NEED(gpu_hold_fill(&scene->hold, scene->work.first, scene->large, WORDS, 1));
    NEED(gpu_frees(scene->pool, scene->large, 8 * UNIT, scene->work.first));
    return 0;
}

/* Four blocks of 2 units that were freed on the stream, which still uses one where it is `held`, beside another one. */
static int
begin_with_four(struct scene *scene, CUstream stream, bool held)
{
    void *blocks[4];

    NEED((scene->small = have(scene, UNIT, scene->work.second)) != NULL);
    for (size_t i = 0; i < 4; i++)
        NEED((blocks[i] = have(scene, 2 * UNIT, stream)) != NULL);
    NEED(!held || gpu_hold_fill(&scene->hold, stream, blocks[0], WORDS, 1));
    for (size_t i = 0; i < 4; i++)
        NEED(gpu_frees(scene->pool, blocks[i], 2 * UNIT, stream));
    return 0;
}

/* A block of 4 units was freed on a stream that is destroyed since. */
static int
begin_with_gone(struct scene *scene)
{
    CUstream stream = NULL;
    void *block;

    NEED(open_scene(scene, "pool(release_threshold=0) | driver") == 0);
    NEED(gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    NEED((block = have(scene, 4 * UNIT, stream)) != NULL && gpu_frees(scene->pool, block, 4 * UNIT, stream));
    NEED(gpu.stream_destroy(stream) == CUDA_SUCCESS);
    return 0;
}

static int
end(struct scene *scene, CUstream stream, size_t bytes)
{
    NEED(gpu_frees(scene->pool, scene->large, bytes, stream));
    NEED(gpu_frees(scene->pool, scene->small, UNIT, scene->work.first));
    NEED(gpu_frees(scene->pool, scene->last, 2 * UNIT, scene->work.first));
    return close_scene(scene);
}

/* Waits in these scenes have no bound but this. */
static void
wait_long(void)
{
    atomic_store(&tidei_test_await_ns, UINT64_C(60) * 1000000000);
}

static void *
go_later(void *hold)
{
    usleep(200000);
    gpu_hold_go(hold);
    return NULL;
}

/* A request of another thread. */
struct request {
    struct scene *scene;
    size_t bytes;
    CUstream stream;
    void *block; /* out; NULL: it was refused */
    pthread_t thread;
};

static void *
request_run(void *request_pointer)
{
    struct request *request = request_pointer;

    request->block = have(request->scene, request->bytes, request->stream);
    return NULL;
}

/* Another thread asks for a block. With `waits`, it has been stopped in a wait for a stream on return. */
static int
request_begin(struct request *request, struct scene *scene, size_t bytes, CUstream stream, bool waits)
{
    *request = (struct request){ .scene = scene, .bytes = bytes, .stream = stream };
    if (waits)
        point_arm("marks.waits", NULL);
    NEED(pthread_create(&request->thread, NULL, request_run, request) == 0);
    if (waits)
        point_wait();
    return 0;
}

static void *
request_end(struct request *request)
{
    pthread_join(request->thread, NULL);
    return request->block;
}

/* A request and a free that take the lock, at which decay looks. */
static int
use(struct scene *scene)
{
    void *block = have(scene, MIB, scene->work.second);

    NEED(block != NULL && gpu_frees(scene->pool, block, MIB, scene->work.second));
    usleep(500);
    return 0;
}

static uint64_t
decayed(const struct scene *scene)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };

    return tide_pool_read(scene->pool, &figures) == TIDE_OK ? figures.decayed : UINT64_MAX;
}

/* The chunk is exchanged for one of 12 units, by a request on either stream: the host waits until it is there. */
static int
scene_exchange(void *on_other)
{
    struct scene scene = { 0 };
    CUstream stream;
    pthread_t thread;

    wait_long();
    NEED(begin(&scene, "pool | driver") == 0 && most_units(&scene) == 11);
    stream = on_other != NULL ? scene.work.second : scene.work.first;
    NEED(pthread_create(&thread, NULL, go_later, &scene.hold) == 0);
    NEED((scene.large = have(&scene, 12 * UNIT, stream)) != NULL);
    pthread_join(thread, NULL);
    NEED(most_units(&scene) == 15 && waits(&scene) == 1);
    return end(&scene, stream, 12 * UNIT);
}

/* The stream goes on only once this thread has its memory: it gets more than the pool ever had. */
static int
scene_own_hold(void *stack)
{
    struct scene scene = { 0 };

    NEED(begin(&scene, stack) == 0 && most_units(&scene) == 11);
    NEED((scene.large = have(&scene, 12 * UNIT, scene.work.first)) != NULL);
    gpu_hold_go(&scene.hold);
    NEED(most_units(&scene) == 23 && waits(&scene) == 1);
    return end(&scene, scene.work.first, 12 * UNIT);
}

static void
until_posted(void *posted)
{
    while (sem_wait(posted) != 0)
        ;
}

/* The same for a function of the host's that waits for this thread, in each of several exchanges. */
static int
scene_own_function(void *unused)
{
    CUresult(CUDAAPI * launch)(CUstream, CUhostFn, void *);
    struct scene scene = { 0 };
    uint64_t begin_ns;
    sem_t posted;

    (void)unused;
    *(void **)&launch = dlsym(library, "cuLaunchHostFunc");
    NEED(launch != NULL && sem_init(&posted, 0, 0) == 0 && begin(&scene, "pool | driver") == 0);
    gpu_hold_go(&scene.hold);
    NEED(gpu.stream_synchronize(scene.work.first) == CUDA_SUCCESS);
    NEED((scene.large = have(&scene, 8 * UNIT, scene.work.first)) != NULL);
    begin_ns = gpu_now_ns();
    for (size_t units = 9; units <= 12; units++) {
        NEED(launch(scene.work.first, until_posted, &posted) == CUDA_SUCCESS);
        NEED(gpu_frees(scene.pool, scene.large, (units - 1) * UNIT, scene.work.first));
        NEED((scene.large = have(&scene, units * UNIT, scene.work.first)) != NULL);
        NEED(sem_post(&posted) == 0);
        NEED(gpu.stream_synchronize(scene.work.first) == CUDA_SUCCESS);
    }
    diag("%d waits, %d ms", (int)waits(&scene), (int)((gpu_now_ns() - begin_ns) / 1000000));
    NEED(waits(&scene) >= 1);
    return end(&scene, scene.work.first, 12 * UNIT);
}

/* What fits into the free chunk is served, though its stream is held. */
static int
scene_fits(void *unused)
{
    struct scene scene = { 0 };

    (void)unused;
    NEED(begin(&scene, "pool | driver") == 0);
    NEED((scene.large = have(&scene, 7 * UNIT, scene.work.first)) != NULL && most_units(&scene) == 11);
    gpu_hold_go(&scene.hold);
    return end(&scene, scene.work.first, 7 * UNIT);
}

/* A wait while this thread captures another stream does not spoil the capture. */
static int
scene_capture(void *unused)
{
    struct scene scene = { 0 };
    CUgraph graph = NULL;

    (void)unused;
    wait_long();
    NEED(begin(&scene, "pool | driver") == 0);
    gpu_hold_go(&scene.hold);
    NEED(gpu.stream_begin_capture(scene.work.second, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    NEED((scene.large = have(&scene, 12 * UNIT, scene.work.first)) != NULL && most_units(&scene) == 15);
    NEED(gpu.stream_end_capture(scene.work.second, &graph) == CUDA_SUCCESS && graph != NULL);
    return end(&scene, scene.work.first, 12 * UNIT);
}

/* A chunk went back on a stream that is captured since. The wait is for what was submitted before. */
static int
scene_captured(void *unused)
{
    struct scene scene = { 0 };
    CUgraph graph = NULL;
    pthread_t thread;

    (void)unused;
    wait_long();
    NEED(begin(&scene, "pool(release_threshold=0) | driver") == 0);
    NEED(gpu.stream_begin_capture(scene.work.first, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    NEED(pthread_create(&thread, NULL, go_later, &scene.hold) == 0);
    NEED((scene.large = have(&scene, 12 * UNIT, scene.work.second)) != NULL);
    pthread_join(thread, NULL);
    NEED(most_units(&scene) == 15 && waits(&scene) == 1);
    NEED(gpu.stream_end_capture(scene.work.first, &graph) == CUDA_SUCCESS && graph != NULL);
    return end(&scene, scene.work.second, 12 * UNIT);
}

/* A thread waits for its stream at the maximum. What is left below that serves another one, which does not wait. */
static int
scene_maximum(void *unused)
{
    struct scene scene = { 0 };
    struct request request;
    void *other;

    (void)unused;
    wait_long();
    NEED(begin(&scene, "pool(maximum=512MiB) | driver") == 0);
    NEED(request_begin(&request, &scene, 12 * UNIT, scene.work.first, true) == 0);
    NEED((other = have(&scene, 10 * UNIT, scene.work.second)) != NULL && waits(&scene) == 0);
    NEED(gpu_frees(scene.pool, other, 10 * UNIT, scene.work.second));
    point_release();
    gpu_hold_go(&scene.hold);
    NEED((scene.large = request_end(&request)) != NULL && waits(&scene) >= 1);
    return end(&scene, scene.work.first, 12 * UNIT);
}

/*
 * Upstream has refused, and a thread has returned what is free and waits for it. What another one frees meanwhile
 * serves its request: the driver gets no larger.
 */
static int
scene_press(void *unused)
{
    struct scene scene = { 0 };
    struct request request;

    (void)unused;
    wait_long();
    NEED(open_scene(&scene, "pool(initial=128MiB) | driver(maximum=512MiB)") == 0);
    NEED((scene.small = have(&scene, 4 * UNIT, scene.work.first)) != NULL && most_units(&scene) == 4);
    NEED((scene.large = have(&scene, 8 * UNIT, scene.work.second)) != NULL && most_units(&scene) == 12);
    NEED(gpu_hold_fill(&scene.hold, scene.work.first, scene.small, WORDS, 1));
    NEED(gpu_frees(scene.pool, scene.small, 4 * UNIT, scene.work.first));
    NEED(request_begin(&request, &scene, 6 * UNIT, scene.work.first, true) == 0);
    NEED(gpu_frees(scene.pool, scene.large, 8 * UNIT, scene.work.second));
    point_release();
    gpu_hold_go(&scene.hold);
    NEED(request_end(&request) != NULL && waits(&scene) == 1);
    NEED(most_units(&scene) == 12);
    NEED(driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 8);
    NEED(gpu_frees(scene.pool, request.block, 6 * UNIT, scene.work.first));
    return close_scene(&scene);
}

/* Wait without that the host waits for the stream: the driver must not know that it is done. */
static int
have_stream_done(CUstream stream)
{
    CUresult result;

    while ((result = gpu.stream_query(stream)) == CUDA_ERROR_NOT_READY)
        usleep(100);
    NEED(result == CUDA_SUCCESS);
    return 0;
}

/* Use the pool until the driver has no more than so many units. */
static int
until_units(struct scene *scene, uint64_t most)
{
    for (int i = 0; i < 20000 && driver_units(scene, TIDE_QUERY_BYTES_RESERVED) > most; i++)
        NEED(use(scene) == 0);
    NEED(driver_units(scene, TIDE_QUERY_BYTES_RESERVED) <= most);
    return 0;
}

/* How often the driver was called to look at what is free, or to give it back. */
static int
looks(void)
{
    const char *(*function)(unsigned place, int *calls);
    int calls, all = 0;
    const char *name;

    *(void **)&function = dlsym(library, FAKE_CUDA_FUNCTION);
    for (unsigned i = 0; function != NULL && (name = function(i, &calls)) != NULL; i++) {
        if (strcmp(name, "cuMemPoolTrimTo") == 0 || strcmp(name, "cuMemPoolGetAttribute") == 0 ||
            strcmp(name, "cuEventQuery") == 0)
            all += calls;
    }
    return all;
}

/* Use the pool until the driver is not looked at for so long as decay takes to look many times. */
static int
until_quiet(struct scene *scene)
{
    int before;

    do {
        before = looks();
        for (int i = 0; i < 200; i++)
            NEED(use(scene) == 0);
    } while (looks() != before);
    return 0;
}

/* What decays leaves the driver: not while a stream uses it, and nobody waits for that. Then it is not looked at. */
static int
scene_decay(void *unused)
{
    struct scene scene = { 0 };

    (void)unused;
    NEED(open_scene(&scene, "pool(decay=80) | driver") == 0);
    NEED(begin_with_four(&scene, scene.work.first, true) == 0);
    while (decayed(&scene) == 0)
        NEED(use(&scene) == 0);
    NEED(driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 9);
    gpu_hold_go(&scene.hold);
    NEED(have_stream_done(scene.work.first) == 0);
    NEED(until_units(&scene, 4) == 0 && waits(&scene) == 0);
    NEED(until_quiet(&scene) == 0 && waits(&scene) == 0);
    NEED(gpu_frees(scene.pool, scene.small, UNIT, scene.work.second));
    return close_scene(&scene);
}

/* What was late serves the pool again before decay could give it back. Once its work is done, it is not looked at. */
static int
scene_decay_used(void *unused)
{
    struct scene scene = { 0 };
    void *other;

    (void)unused;
    NEED(begin(&scene, "pool(decay=80) | driver") == 0);
    NEED((scene.large = have(&scene, 12 * UNIT, scene.work.first)) != NULL && most_units(&scene) == 23);
    NEED((other = have(&scene, 8 * UNIT, scene.work.first)) != NULL && most_units(&scene) == 23);
    gpu_hold_go(&scene.hold);
    NEED(have_stream_done(scene.work.first) == 0 && until_quiet(&scene) == 0);
    NEED(gpu_frees(scene.pool, other, 8 * UNIT, scene.work.first));
    return end(&scene, scene.work.first, 12 * UNIT);
}

/* All that can be given back leaves the driver. */
static int
scene_trim(void *stack)
{
    struct scene scene = { 0 };
    void *blocks[4];

    wait_long();
    NEED(open_scene(&scene, stack) == 0);
    for (size_t i = 0; i < 4; i++)
        NEED((blocks[i] = have(&scene, (i + 1) * UNIT, i % 2 != 0 ? scene.work.first : scene.work.second)) != NULL);
    for (size_t i = 0; i < 4; i++)
        NEED(gpu_frees(scene.pool, blocks[i], (i + 1) * UNIT, scene.work.first));
    NEED(most_units(&scene) >= 10 && tide_trim(scene.pool, 0) == TIDE_OK);
    NEED(driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 0);
    return close_scene(&scene);
}

/* A trim names no stream on which memory was freed: it may be gone. What went back on it leaves the driver. */
static int
scene_gone(void *unused)
{
    struct scene scene = { 0 };

    (void)unused;
    wait_long();
    NEED(begin_with_gone(&scene) == 0);
    NEED(tide_trim(scene.pool, 0) == TIDE_OK && driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 0);
    return close_scene(&scene);
}

/* Nothing is ever freed on the stream that is destroyed: only a chunk went back for a request on it. */
static int
scene_requester_gone(void *stack)
{
    struct scene scene = { 0 };
    CUstream stream = NULL, other;
    void *block, *kept;

    NEED(open_scene(&scene, stack) == 0);
    other = scene.work.first;
    NEED(gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    NEED((block = have(&scene, 4 * UNIT, other)) != NULL && gpu_frees(scene.pool, block, 4 * UNIT, other));
    NEED(gpu.stream_synchronize(other) == CUDA_SUCCESS);
    NEED((block = have(&scene, 6 * UNIT, stream)) != NULL);
    NEED(gpu.stream_synchronize(stream) == CUDA_SUCCESS);
    NEED(gpu_frees(scene.pool, block, 6 * UNIT, other) && (kept = have(&scene, 6 * UNIT, other)) != NULL);
    NEED(gpu.stream_synchronize(other) == CUDA_SUCCESS && gpu.stream_destroy(stream) == CUDA_SUCCESS);
    for (size_t units = 12; units < 20; units++) {
        NEED((block = have(&scene, units * UNIT, other)) != NULL);
        NEED(gpu_frees(scene.pool, block, units * UNIT, other));
    }
    NEED(gpu_frees(scene.pool, kept, 6 * UNIT, other));
    return close_scene(&scene);
}

/* A chunk went back at once when its block was freed. The stream may be gone when the pool grows. */
static int
scene_threshold_gone(void *unused)
{
    struct scene scene = { 0 };
    void *block;

    (void)unused;
    NEED(begin_with_gone(&scene) == 0);
    NEED((block = have(&scene, 6 * UNIT, scene.work.first)) != NULL);
    NEED(gpu_frees(scene.pool, block, 6 * UNIT, scene.work.first));
    return close_scene(&scene);
}

/*
 * A stream that is behind has returned more chunks than the base keeps marks. What another one has returned since
 * leaves the driver when that is done.
 */
static int
scene_many(void *unused)
{
    struct scene scene = { 0 };
    struct gpu_hold hold = { 0 };
    void *blocks[24], *other;

    (void)unused;
    NEED(setenv("FAKE_CUDA_MEMORY", "4G", 1) == 0);
    NEED(open_scene(&scene, "pool(release_threshold=0) | driver") == 0 && gpu_hold_open(&hold));
    for (size_t i = 0; i < 24; i++)
        NEED((blocks[i] = have(&scene, 2 * UNIT, scene.work.first)) != NULL);
    NEED((other = have(&scene, 2 * UNIT, scene.work.second)) != NULL);
    NEED(gpu_hold_fill(&scene.hold, scene.work.first, blocks[0], WORDS, 1));
    NEED(gpu_hold_fill(&hold, scene.work.second, other, WORDS, 1));
    for (size_t i = 0; i < 24; i++)
        NEED(gpu_frees(scene.pool, blocks[i], 2 * UNIT, scene.work.first));
    NEED(gpu_frees(scene.pool, other, 2 * UNIT, scene.work.second));
    NEED(driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 50);
    gpu_hold_go(&hold);
    NEED(have_stream_done(scene.work.second) == 0 && tide_trim(scene.pool, 0) == TIDE_OK);
    NEED(driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 48);
    gpu_hold_go(&scene.hold);
    NEED(have_stream_done(scene.work.first) == 0 && tide_trim(scene.pool, 0) == TIDE_OK);
    NEED(driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 0);
    gpu_hold_close(&hold);
    return close_scene(&scene);
}

static void *
use_until_decayed(void *scene)
{
    while (decayed(scene) == 0 && use(scene) == 0)
        ;
    return NULL;
}

/* A thread is about to name streams to the driver. Another one waits for all, and destroys them. */
static int
scene_ordered_gone(void *unused)
{
    struct scene scene = { 0 };
    CUstream stream = NULL;
    pthread_t thread;

    (void)unused;
    NEED(open_scene(&scene, "pool(decay=80) | driver") == 0);
    NEED(gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    NEED(begin_with_four(&scene, stream, false) == 0);
    point_arm("chunk-heap.wishes", NULL);
    NEED(pthread_create(&thread, NULL, use_until_decayed, &scene) == 0);
    point_wait();
    NEED(tide_order(scene.pool, TIDE_STREAM_ALL, 0) == TIDE_OK && gpu.stream_destroy(stream) == CUDA_SUCCESS);
    point_release();
    pthread_join(thread, NULL);
    NEED(gpu_frees(scene.pool, scene.small, UNIT, scene.work.second));
    return close_scene(&scene);
}

/* A thread that waits is cancelled: it ends its request before, and the pool serves others. */
static int
scene_cancel(void *stack)
{
    struct scene scene = { 0 };
    struct request request;

    wait_long();
    NEED(begin(&scene, stack) == 0);
    NEED(request_begin(&request, &scene, 12 * UNIT, scene.work.first, true) == 0);
    NEED(pthread_cancel(request.thread) == 0);
    point_release();
    usleep(20000);
    gpu_hold_go(&scene.hold);
    NEED((scene.large = request_end(&request)) != NULL);
    return end(&scene, scene.work.first, 12 * UNIT);
}

/* What was late leaves the driver in a trim to what the pool has. */
static int
scene_late(void *unused)
{
    struct scene scene = { 0 };

    (void)unused;
    NEED(begin(&scene, "pool | driver") == 0);
    NEED((scene.large = have(&scene, 12 * UNIT, scene.work.first)) != NULL);
    NEED(driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 23);
    gpu_hold_go(&scene.hold);
    NEED(have_stream_done(scene.work.first) == 0);
    NEED(tide_trim(scene.pool, 15 * UNIT) == TIDE_OK);
    NEED(driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 15);
    return end(&scene, scene.work.first, 12 * UNIT);
}

/* A thread waits in vain. Another one begins its wait before that ends, and nothing of its own is late. */
static int
scene_late_of_two(void *unused)
{
    struct scene scene = { 0 };
    struct gpu_hold hold = { 0 };
    struct request first, second;
    void *other;

    (void)unused;
    NEED(open_scene(&scene, "pool | driver") == 0 && gpu_hold_open(&hold));
    NEED((scene.large = have(&scene, 4 * UNIT, scene.work.first)) != NULL);
    NEED((other = have(&scene, 4 * UNIT, scene.work.second)) != NULL);
    NEED((scene.last = have(&scene, 2 * UNIT, scene.work.first)) != NULL);
    NEED(gpu_hold_fill(&scene.hold, scene.work.first, scene.large, WORDS, 1));
    NEED(gpu_hold_fill(&hold, scene.work.second, other, WORDS, 1));
    NEED(gpu_frees(scene.pool, scene.large, 4 * UNIT, scene.work.first));
    atomic_store(&tidei_test_await_ns, UINT64_C(300) * 1000000);
    NEED(request_begin(&first, &scene, 6 * UNIT, scene.work.first, true) == 0);
    wait_long();
    NEED(gpu_frees(scene.pool, other, 4 * UNIT, scene.work.second));
    NEED(request_begin(&second, &scene, 7 * UNIT, scene.work.second, false) == 0);
    usleep(50000);
    point_release();
    NEED(request_end(&first) != NULL);
    gpu_hold_go(&hold);
    NEED(request_end(&second) != NULL && waits(&scene) == 2);
    gpu_hold_go(&scene.hold);
    NEED(have_stream_done(scene.work.first) == 0 && tide_trim(scene.pool, 24 * UNIT) == TIDE_OK);
    NEED(driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 15);
    NEED(gpu_frees(scene.pool, first.block, 6 * UNIT, scene.work.first));
    NEED(gpu_frees(scene.pool, second.block, 7 * UNIT, scene.work.second));
    NEED(gpu_frees(scene.pool, scene.last, 2 * UNIT, scene.work.first));
    gpu_hold_close(&hold);
    return close_scene(&scene);
}

#define BEHIND_BOTH   8  /* streams of which two threads have marks */
#define BEHIND_FIRST  12 /* the same with those of which one has */
#define BEHIND_BLOCKS (BEHIND_FIRST + BEHIND_BOTH)

/* To what is live then, so that the pool itself has nothing to return and does not wait for all streams. */
static void *
trim_run(void *pool)
{
    return tide_trim(pool, 2 * BEHIND_BOTH * UNIT) == TIDE_OK ? pool : NULL;
}

/* Streams that are behind, with blocks of 2 units each: two of each of the first ones. */
struct behind {
    CUstream streams[BEHIND_FIRST];
    void *blocks[BEHIND_BLOCKS];
    struct gpu_hold hold; /* of those with one block; the scene's holds the others */
};

static int
behind_open(struct behind *behind, struct scene *scene)
{
    NEED(gpu_hold_open(&behind->hold));
    for (size_t i = 0; i < BEHIND_FIRST; i++)
        NEED(gpu.stream_create(&behind->streams[i], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    for (size_t i = 0; i < BEHIND_BLOCKS; i++)
        NEED((behind->blocks[i] = have(scene, 2 * UNIT, behind->streams[i % BEHIND_FIRST])) != NULL);
    for (size_t i = 0; i < BEHIND_FIRST; i++)
        NEED(gpu_hold_fill(i < BEHIND_BOTH ? &scene->hold : &behind->hold, behind->streams[i], behind->blocks[i], WORDS,
                           1));
    return 0;
}

/*
 * A thread waits with the marks of many streams, and another one marks some of them anew meanwhile. What went back on
 * the others leaves the driver when they are done.
 */
static int
scene_marks_of_two(void *unused)
{
    struct scene scene = { 0 };
    struct behind behind;
    pthread_t thread;
    void *trimmed;

    (void)unused;
    NEED(setenv("FAKE_CUDA_MEMORY", "4G", 1) == 0);
    NEED(open_scene(&scene, "pool(release_threshold=0) | driver") == 0 && behind_open(&behind, &scene) == 0);
    for (size_t i = 0; i < BEHIND_FIRST; i++)
        NEED(gpu_frees(scene.pool, behind.blocks[i], 2 * UNIT, behind.streams[i]));
    point_arm("marks.waits", NULL);
    NEED(pthread_create(&thread, NULL, trim_run, scene.pool) == 0);
    point_wait();
    for (size_t i = BEHIND_FIRST; i < BEHIND_BLOCKS; i++)
        NEED(gpu_frees(scene.pool, behind.blocks[i], 2 * UNIT, behind.streams[i % BEHIND_FIRST]));
    point_release();
    NEED(pthread_join(thread, &trimmed) == 0 && trimmed != NULL);
    NEED(driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 2 * BEHIND_BLOCKS);
    gpu_hold_go(&behind.hold);
    for (size_t i = BEHIND_BOTH; i < BEHIND_FIRST; i++)
        NEED(have_stream_done(behind.streams[i]) == 0);
    NEED(tide_trim(scene.pool, 0) == TIDE_OK);
    NEED(driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 4 * BEHIND_BOTH);
    gpu_hold_go(&scene.hold);
    for (size_t i = 0; i < BEHIND_BOTH; i++)
        NEED(have_stream_done(behind.streams[i]) == 0);
    NEED(tide_trim(scene.pool, 0) == TIDE_OK && driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 0);
    for (size_t i = 0; i < BEHIND_FIRST; i++)
        NEED(gpu.stream_destroy(behind.streams[i]) == CUDA_SUCCESS);
    gpu_hold_close(&behind.hold);
    return close_scene(&scene);
}

/* A trim that has nothing of the pool to give back does not wait for the device: a stream may be captured. */
static int
scene_trim_captured(void *unused)
{
    struct scene scene = { 0 };
    CUgraph graph = NULL;
    void *block;

    (void)unused;
    wait_long();
    NEED(open_scene(&scene, "pool(release_threshold=0) | driver") == 0);
    NEED((block = have(&scene, 4 * UNIT, scene.work.first)) != NULL);
    NEED(gpu_frees(scene.pool, block, 4 * UNIT, scene.work.first));
    NEED(gpu.stream_begin_capture(scene.work.second, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    NEED(tide_trim(scene.pool, 0) == TIDE_OK && driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 0);
    NEED(gpu.stream_end_capture(scene.work.second, &graph) == CUDA_SUCCESS && graph != NULL);
    return close_scene(&scene);
}

#define STRESS_THREADS 4
#define STRESS_STEPS   1500
#define STRESS_OWN     4

struct worker {
    pthread_t thread;
    struct scene *scene;
    uint64_t state;
    uint64_t failures;
};

static void *
stress_run(void *worker_pointer)
{
    struct worker *worker = worker_pointer;
    void *blocks[STRESS_OWN] = { NULL };
    size_t bytes[STRESS_OWN] = { 0 };

    for (int i = 0; i < STRESS_STEPS + STRESS_OWN; i++) {
        size_t k = i < STRESS_STEPS ? contract_random(&worker->state) % STRESS_OWN : (size_t)(i - STRESS_STEPS);
        tide_stream stream = (tide_stream)(contract_random(&worker->state) % 2 != 0 ? worker->scene->work.first
                                                                                    : worker->scene->work.second);

        if (blocks[k] != NULL)
            worker->failures += tide_deallocate(worker->scene->pool, blocks[k], bytes[k], 256, stream) != TIDE_OK;
        blocks[k] = NULL;
        bytes[k] = MIB + contract_random(&worker->state) % (3 * UNIT / 2);
        if (i < STRESS_STEPS && tide_allocate(worker->scene->pool, bytes[k], 256, stream, &blocks[k]) == TIDE_OK)
            *(volatile char *)blocks[k] = 1;
    }
    return NULL;
}

/* Threads exchange chunks on two streams, wait, decay and trim at a maximum; in the end all is back. */
static int
scene_stress(void *unused)
{
    struct worker workers[STRESS_THREADS];
    struct scene scene = { 0 };
    uint64_t seed = contract_seed(20261203), failures = 0;

    (void)unused;
    NEED(open_scene(&scene, "pool(maximum=512MiB, decay=8) | driver") == 0);
    have_most_s(300);
    for (size_t i = 0; i < STRESS_THREADS; i++) {
        workers[i] = (struct worker){ .scene = &scene, .state = seed + i };
        NEED(pthread_create(&workers[i].thread, NULL, stress_run, &workers[i]) == 0);
    }
    for (size_t i = 0; i < 20; i++) {
        usleep(5000);
        failures += tide_trim(scene.pool, 4 * UNIT) != TIDE_OK;
    }
    for (size_t i = 0; i < STRESS_THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        failures += workers[i].failures;
    }
    diag("%d waits", (int)waits(&scene));
    wait_long();
    NEED(failures == 0 && tide_trim(scene.pool, 0) == TIDE_OK);
    NEED(driver_units(&scene, TIDE_QUERY_BYTES_RESERVED) == 0);
    return close_scene(&scene);
}

static const struct {
    int (*run)(void *argument);
    const char *argument; /* of the scene: a stack, or any word */
    const char *description;
} scenes[] = {
    { scene_exchange, NULL, "a chunk is exchanged without having the memory of both" },
    { scene_exchange, "other",
      "a chunk is exchanged for a request on another stream without having the memory of both" },
    { scene_fits, NULL, "nobody waits where free memory serves the request" },
    { scene_own_hold, "pool | driver", "a wait for a stream that waits for the same thread ends, and the pool grows" },
    { scene_own_hold, "pool(release_threshold=0) | driver",
      "a wait for a stream that waits for the same thread ends where free chunks go back at once" },
    { scene_own_function, NULL, "each wait for a host function that waits for the same thread ends" },
    { scene_capture, NULL, "a chunk is exchanged while another stream is captured" },
    { scene_captured, NULL, "a chunk is exchanged while its stream is captured, and the capture is whole" },
    { scene_maximum, NULL, "while a thread waits at the maximum, another one is served with what is left below it" },
    { scene_press, NULL, "what another thread frees serves a request that was refused, and waits for its own chunks" },
    { scene_decay, NULL, "what decays leaves the driver once its stream is done, without a wait or further looks" },
    { scene_decay_used, NULL, "what was late and serves the pool again is not looked at without end" },
    { scene_trim, "pool | driver", "all of a pool leaves the driver in a trim" },
    { scene_trim, "arena | driver", "all of an arena leaves the driver in a trim" },
    { scene_gone, NULL, "what went back on a stream that is gone leaves the driver in a trim, which names it not" },
    { scene_ordered_gone, NULL,
      "a stream that is destroyed behind a wait for all is not named by a thread that was about to" },
    { scene_requester_gone, "pool | driver(release_threshold=320MiB)",
      "a stream on which nothing was freed may be destroyed, and the pool grows below the base's threshold" },
    { scene_requester_gone, "pool | driver(initial=320MiB)",
      "a stream on which nothing was freed may be destroyed, and the pool grows below what the base got at first" },
    { scene_threshold_gone, NULL,
      "the pool grows though a stream is gone on which a chunk went back at a release threshold" },
    { scene_many, NULL,
      "what a stream has returned leaves the driver, though another one that is behind has returned much" },
    { scene_cancel, "pool | driver", "a thread of a pool that is cancelled in its wait ends the request first" },
    { scene_cancel, "arena | driver", "a thread of an arena that is cancelled in its wait ends the request first" },
    { scene_late, NULL, "what was late leaves the driver in a trim to what the pool has" },
    { scene_late_of_two, NULL,
      "what was late of a thread while another one waited for what was not leaves the driver in a trim" },
    { scene_marks_of_two, NULL,
      "what many streams have returned leaves the driver, though two threads have marked some of them" },
    { scene_trim_captured, NULL,
      "a trim with nothing to return leaves the driver nothing, and another stream's capture whole" },
    { scene_stress, NULL, "threads that exchange chunks, wait, decay and trim leave nothing with the driver" },
};

int
main(void)
{
    size_t count = sizeof(scenes) / sizeof(scenes[0]);

    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || dlsym(library, FAKE_CUDA_COUNT) == NULL)
        skip_all("this is not the fake driver: run it by tests/fake-cuda/run");
    plan((int)count);
    for (size_t i = 0; i < count; i++)
        is_i64(in_child(scenes[i].run, (void *)(uintptr_t)scenes[i].argument), 0, scenes[i].description);
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
}

#endif
