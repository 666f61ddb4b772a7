/*
 * Tests that `pool | driver` waits for a stream rather than to hold more than ever. The driver keeps what a stream
 * still uses, and gives back only what the host has waited for.
 *
 * Runs on the fake driver alone, each scene in a child that has not loaded it yet.
 */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "tests/gpu/work.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#include "tests/fake-cuda/tracer.h"

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

/* The most that the driver had reserved, in units. */
static uint64_t
most_units(const struct scene *scene)
{
    struct tide_resource *driver;
    uint64_t bytes = 0;

    if (tide_stack_find(scene->pool, "driver", &driver) == TIDE_OK)
        tide_query(driver, TIDE_QUERY_BYTES_RESERVED_HIGH, &bytes);
    return bytes / UNIT;
}

/* A pool with a block of 8 units between others that is free, and that the first stream still uses. */
static int
begin(struct scene *scene)
{
    NEED(tide_stack_parse("pool | driver", &scene->pool) == TIDE_OK);
    NEED(gpu_open() == NULL && gpu_work_open(&scene->work, 0) && gpu_hold_open(&scene->hold));
    NEED((scene->small = have(scene, UNIT, scene->work.first)) != NULL);
    NEED((scene->large = have(scene, 8 * UNIT, scene->work.first)) != NULL && most_units(scene) == 9);
    NEED((scene->last = have(scene, 2 * UNIT, scene->work.first)) != NULL && most_units(scene) == 11);
    NEED(gpu_hold_fill(&scene->hold, scene->work.first, scene->large, WORDS, 1));
    NEED(gpu_frees(scene->pool, scene->large, 8 * UNIT, scene->work.first));
    return 0;
}

static int
end(struct scene *scene, CUstream stream, size_t bytes)
{
    NEED(gpu_frees(scene->pool, scene->large, bytes, stream));
    NEED(gpu_frees(scene->pool, scene->small, UNIT, scene->work.first));
    NEED(gpu_frees(scene->pool, scene->last, 2 * UNIT, scene->work.first));
    tide_resource_release(scene->pool);
    gpu_hold_close(&scene->hold);
    gpu_work_close(&scene->work);
    return 0;
}

static void *
go_later(void *hold)
{
    usleep(200000);
    gpu_hold_go(hold);
    return NULL;
}

/* The chunk is exchanged for one of 12 units, by a request on either stream: the host waits until it is there. */
static int
scene_exchange(void *on_other)
{
    struct scene scene = { 0 };
    CUstream stream;
    pthread_t thread;

    NEED(begin(&scene) == 0);
    stream = on_other != NULL ? scene.work.second : scene.work.first;
    NEED(pthread_create(&thread, NULL, go_later, &scene.hold) == 0);
    NEED((scene.large = have(&scene, 12 * UNIT, stream)) != NULL);
    pthread_join(thread, NULL);
    NEED(most_units(&scene) == 15);
    return end(&scene, stream, 12 * UNIT);
}

/* What fits into the free chunk is served, though its stream is held. */
static int
scene_fits(void *unused)
{
    struct scene scene = { 0 };

    (void)unused;
    NEED(begin(&scene) == 0);
    NEED((scene.large = have(&scene, 7 * UNIT, scene.work.first)) != NULL && most_units(&scene) == 11);
    gpu_hold_go(&scene.hold);
    return end(&scene, scene.work.first, 7 * UNIT);
}

/* A wait while another stream is captured does not spoil the capture. */
static int
scene_capture(void *unused)
{
    struct scene scene = { 0 };
    CUgraph graph = NULL;

    (void)unused;
    NEED(begin(&scene) == 0);
    gpu_hold_go(&scene.hold);
    NEED(gpu.stream_begin_capture(scene.work.second, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    NEED((scene.large = have(&scene, 12 * UNIT, scene.work.first)) != NULL && most_units(&scene) == 15);
    NEED(gpu.stream_end_capture(scene.work.second, &graph) == CUDA_SUCCESS && graph != NULL);
    return end(&scene, scene.work.first, 12 * UNIT);
}

int
main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL || dlsym(library, FAKE_CUDA_COUNT) == NULL)
        skip_all("this is not the fake driver: run it by tests/fake-cuda/run");
    if (!CHILDREN_MAY_RECORD)
        skip_all("ThreadSanitizer does not follow a child that starts threads");
    plan(4);
    is_i64(in_child(scene_exchange, NULL), 0, "a chunk is exchanged without having the memory of both");
    is_i64(in_child(scene_exchange, library), 0, "the same for a request on another stream");
    is_i64(in_child(scene_fits, NULL), 0, "nobody waits where free memory serves the request");
    is_i64(in_child(scene_capture, NULL), 0, "a chunk is exchanged while another stream is captured");
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
}

#endif
