/*
 * Tests that streams may be destroyed behind a wait for all (tide_order), whatever other threads have begun: a pool or
 * an arena names none of them to upstream then. A thread is stopped where it is about to name one, and another one
 * waits for all.
 */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "gate.h"
#include "point.h"
#include "pool.h"
#include "upstream.h"

struct scene {
    struct upstream *upstream;
    struct gate *gate;
    struct tide_resource *pool;
    size_t bytes; /* of the request */
    void *block;  /* that it got */
    tide_stream gone;
};

static void *
take_on(struct tide_resource *pool, size_t bytes, tide_stream stream)
{
    void *block = NULL;

    return tide_allocate(pool, bytes, TIDE_DEFAULT_ALIGNMENT, stream, &block) == TIDE_OK ? block : NULL;
}

static void
give_on(struct tide_resource *pool, void *block, size_t bytes, tide_stream stream)
{
    if (tide_deallocate(pool, block, bytes, TIDE_DEFAULT_ALIGNMENT, stream) != TIDE_OK)
        abort();
}

static void *
request_run(void *scene_pointer)
{
    struct scene *scene = scene_pointer;

    scene->block = take_on(scene->pool, scene->bytes, 2);
    return NULL;
}

static void *
destroy_run(void *scene_pointer)
{
    struct scene *scene = scene_pointer;

    if (tide_order(scene->pool, TIDE_STREAM_ALL, 0) != TIDE_OK)
        abort();
    pthread_mutex_lock(&scene->upstream->lock);
    scene->upstream->gone = scene->gone;
    pthread_mutex_unlock(&scene->upstream->lock);
    return NULL;
}

/* A chunk of 16 MiB is free, the first half of it since stream 1, and the second since `second`. */
static void
begin(struct scene *scene, tide_stream second)
{
    struct tide_pool_options options = { TIDE_OPTIONS(options), .growth_bytes = 16 * MIB };
    void *blocks[2];

    *scene = (struct scene){ .upstream = upstream_create() };
    scene->gate = gate_create(tide_resource_retain(&scene->upstream->base));
    scene->pool = over(&scene->gate->base, &options);
    blocks[0] = take_on(scene->pool, 8 * MIB, 1);
    blocks[1] = take_on(scene->pool, 8 * MIB, 1);
    give_on(scene->pool, blocks[0], 8 * MIB, 1);
    give_on(scene->pool, blocks[1], 8 * MIB, second);
}

/* A request on stream 2 is stopped at `point`. `gone` is destroyed behind a wait for all; then it goes on. */
static void
request(struct scene *scene, const char *point, size_t bytes, tide_stream gone)
{
    pthread_t requests, destroys;

    scene->bytes = bytes;
    scene->gone = gone;
    scene->upstream->delay_us = 20000; /* it is destroyed before the call of upstream after the first one */
    point_arm(point, NULL);
    pthread_create(&requests, NULL, request_run, scene);
    point_wait();
    pthread_create(&destroys, NULL, destroy_run, scene);
    usleep(50000); /* it is destroyed unless the wait for all waits for the request, too */
    point_release();
    pthread_join(requests, NULL);
    pthread_join(destroys, NULL);
}

static void
end(struct scene *scene)
{
    tide_resource_release(scene->pool);
    tide_resource_release(&scene->upstream->base);
}

#define TESTS 13

static void
check(const char *what, const char *point, size_t bytes, tide_stream second, tide_stream gone)
{
    struct scene scene;

    begin(&scene, second);
    request(&scene, point, bytes, gone);
    ok(all_of(scene.block != NULL, scene.upstream->gone_named == 0), "%s", what);
    end(&scene);
}

/* The order that the request needs fails, and its piece goes back to the heap. */
static void
check_failed(void)
{
    struct scene scene;
    void *block;

    begin(&scene, 1);
    scene.gate->order_status = TIDE_EDRIVER;
    request(&scene, "chunk-heap.moving", 16 * MIB, 1);
    scene.gate->order_status = TIDE_OK;
    block = take_on(scene.pool, 16 * MIB, 3);
    ok(all_of(scene.block != NULL, block != NULL, scene.upstream->order_calls > 0, scene.upstream->gone_named == 0),
       "memory that could not be taken over belongs to no stream that is gone");
    end(&scene);
}

/* The return of a chunk fails, and it goes back to the heap. */
static void
check_not_returned(void)
{
    struct scene scene;
    void *block;

    begin(&scene, 1);
    scene.gate->deallocate_status = TIDE_EDRIVER;
    request(&scene, "chunk-heap.returning", 64 * MIB, 1);
    block = take_on(scene.pool, 16 * MIB, 3);
    ok(all_of(scene.block != NULL, block != NULL, scene.upstream->order_calls > 0, scene.upstream->gone_named == 0),
       "a chunk that could not be returned belongs to no stream that is gone");
    end(&scene);
}

/*
 * A part of an arena keeps a free piece of 8 MiB, and returns it to what all parts share when upstream has refused a
 * request. The stream on which it was freed is destroyed meanwhile.
 */
static void
check_arena(void)
{
    struct scene scene = { .upstream = upstream_create() };
    void *blocks[4];

    scene.upstream->capacity_bytes = 64 * MIB;
    if (tide_arena_create(&scene.upstream->base, NULL, &scene.pool) != TIDE_OK)
        abort();
    for (int i = 0; i < 4; i++)
        blocks[i] = take_on(scene.pool, 2 * MIB, 1);
    for (int i = 0; i < 4; i++)
        give_on(scene.pool, blocks[i], 2 * MIB, 1);
    request(&scene, "chunk-heap.returning", 64 * MIB, 1);
    ok(all_of(scene.block != NULL, scene.upstream->deallocate_calls == 1, scene.upstream->gone_named == 0),
       "a stream is destroyed while a part of an arena returns what was freed on it");
    end(&scene);
}

#define CROSSED_BLOCKS 4

/* A trim of an arena, and an order behind all streams that begins and ends after the trim's own. */
struct crossed {
    struct scene scene;
    pthread_t trims, destroys;
    sem_t ordering, begun; /* the order has reached upstream; its thread is there */
    void *blocks[CROSSED_BLOCKS];
};

/* The order of the thread that destroys: the trim goes on up to its end. */
static void
crossed_orders(void *crossed_pointer)
{
    struct crossed *crossed = crossed_pointer;

    sem_post(&crossed->ordering);
    pthread_join(crossed->trims, NULL);
}

static void *
crossed_destroys(void *crossed_pointer)
{
    return destroy_run(&((struct crossed *)crossed_pointer)->scene);
}

/* The order of the trim: behind its beginning blocks are freed on stream 1, and the other order begins. */
static void
crossed_frees(void *crossed_pointer)
{
    struct crossed *crossed = crossed_pointer;

    for (size_t i = 0; i < CROSSED_BLOCKS; i++)
        give_on(crossed->scene.pool, crossed->blocks[i], 2 * MIB, 1);
    crossed->scene.gate->before_order_all = crossed_orders;
    pthread_create(&crossed->destroys, NULL, crossed_destroys, crossed);
    sem_post(&crossed->begun);
    while (sem_wait(&crossed->ordering) != 0)
        ;
}

/* It has the part of the arena return its chunk, and keeps that. */
static void *
crossed_trims(void *crossed_pointer)
{
    if (tide_trim(((struct crossed *)crossed_pointer)->scene.pool, 8 * MIB - 1) != TIDE_OK)
        abort();
    return NULL;
}

/*
 * A part of an arena returns its chunk within the wait of another thread for all streams: the call has not begun when
 * that begins, and has ended when the wait ends.
 */
static void
check_crossed(void)
{
    struct crossed crossed = { .scene = { .upstream = upstream_create(), .gone = 1 } };
    struct scene *scene = &crossed.scene;
    uint64_t returned;
    void *block;

    scene->gate = gate_create(tide_resource_retain(&scene->upstream->base));
    if (sem_init(&crossed.ordering, 0, 0) != 0 || sem_init(&crossed.begun, 0, 0) != 0 ||
        tide_arena_create(&scene->gate->base, NULL, &scene->pool) != TIDE_OK)
        abort();
    tide_resource_release(&scene->gate->base);
    for (size_t i = 0; i < CROSSED_BLOCKS; i++)
        crossed.blocks[i] = take_on(scene->pool, 2 * MIB, 1);
    scene->gate->before_order_all = crossed_frees;
    scene->gate->context = &crossed;
    pthread_create(&crossed.trims, NULL, crossed_trims, &crossed);
    while (sem_wait(&crossed.begun) != 0)
        ;
    pthread_join(crossed.destroys, NULL);
    returned = scene->upstream->deallocate_calls;
    block = take_on(scene->pool, 2 * MIB, 2);
    ok(all_of(block != NULL, returned == 0, scene->upstream->gone_named == 0),
       "a part of an arena returns what was freed on a stream between the begin and the end of a wait for all");
    sem_destroy(&crossed.ordering);
    sem_destroy(&crossed.begun);
    end(scene);
}

/* Upstream, which gets a chunk back, waits for all streams of the pool itself. */
static void
within_order(void *scene_pointer)
{
    struct scene *scene = scene_pointer;

    if (tide_order(scene->pool, TIDE_STREAM_ALL, 0) == TIDE_OK)
        scene->gone = 1;
}

static void
check_within(void)
{
    struct scene scene;

    begin(&scene, 1);
    scene.gone = 0;
    scene.gate->before_deallocate = within_order;
    scene.gate->context = &scene;
    ok(all_of(tide_trim(scene.pool, 0) == TIDE_OK, scene.gone == 1, scene.upstream->deallocate_calls > 0),
       "upstream may wait for all streams of the pool while it gets a chunk back");
    end(&scene);
}

static void
cancelled_visit(void *unused)
{
    (void)unused;
    (void)pthread_cancel(pthread_self());
    pthread_testcancel();
}

static void *
cancelled_run(void *scene_pointer)
{
    struct scene *scene = scene_pointer;

    (void)tide_trim(scene->pool, 0);
    pthread_testcancel();
    return NULL;
}

static void
check_cancelled(void)
{
    struct scene scene;
    pthread_t thread;
    void *result = NULL;

    begin(&scene, 1);
    scene.gate->before_deallocate = cancelled_visit;
    if (pthread_create(&thread, NULL, cancelled_run, &scene) != 0 || pthread_join(thread, &result) != 0)
        abort();
    ok(all_of(result == PTHREAD_CANCELED, scene.upstream->deallocate_calls > 0,
              tide_order(scene.pool, TIDE_STREAM_ALL, 0) == TIDE_OK),
       "a thread that is cancelled while upstream gets a chunk back ends behind it, and nobody waits for it");
    end(&scene);
}

int
main(void)
{
    alarm(120);
    plan(TESTS);
    check("a stream is destroyed while a request takes its memory over", "chunk-heap.moving", 16 * MIB, 1, 1);
    check("the first of two streams is destroyed while a request takes their memory over", "chunk-heap.moving",
          16 * MIB, 3, 1);
    check("the second of two streams is destroyed while a request takes their memory over", "chunk-heap.moving",
          16 * MIB, 3, 3);
    check("a stream is destroyed while its chunk is returned", "chunk-heap.returning", 64 * MIB, 1, 1);
    check("the first of two streams is destroyed while their chunk is ordered", "chunk-heap.moving", 64 * MIB, 3, 1);
    check("the second of two streams is destroyed while their chunk is ordered", "chunk-heap.moving", 64 * MIB, 3, 3);
    check("the stream of a chunk that waits for another one is destroyed while it is returned", "chunk-heap.returning",
          64 * MIB, 3, 1);
    check_failed();
    check_not_returned();
    check_arena();
    check_crossed();
    check_within();
    check_cancelled();
    return done();
}
