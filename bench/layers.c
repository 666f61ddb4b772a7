/*
 * What a layer costs the thread that allocates, over a base that does nothing: 1 to 16 threads, back to back and with
 * blocks of mixed sizes live, beside the floor of the same run (a relaxed add for each call, by each thread on a line of
 * its own).
 *
 * Usage: bench/layers [JSON-FILE]
 */
#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/tidemark.h>

#include "bench.h"
#include "nothing.h"

#define LAYERS_PAIRS   20000
#define LAYERS_ROUNDS  40
#define LAYERS_THREADS 16
#define LAYERS_LIVE    100
#define LAYERS_LARGEST 65536

struct layers_thread {
    _Alignas(128) _Atomic uint64_t count;
    uint64_t seed;
    void *pointers[LAYERS_LIVE];
    size_t sizes[LAYERS_LIVE]; /* 0: not live */
};

static struct layers_thread layers_threads[LAYERS_THREADS];

static double
floor_round(void *context, unsigned thread)
{
    uint64_t begin = bench_now_ns();

    (void)context;
    for (unsigned i = 0; i < 2 * LAYERS_PAIRS; i++)
        atomic_fetch_add_explicit(&layers_threads[thread].count, 1, memory_order_relaxed);
    return (double)(bench_now_ns() - begin) / LAYERS_PAIRS;
}

static double
back_to_back_round(void *context, unsigned thread)
{
    uint64_t begin = bench_now_ns();
    void *pointer;

    for (unsigned i = 0; i < LAYERS_PAIRS; i++) {
        if (tide_allocate(context, 4096, 256, thread, &pointer) != TIDE_OK ||
            tide_deallocate(context, pointer, 4096, 256, thread) != TIDE_OK)
            bench_fail("back to back");
    }
    return (double)(bench_now_ns() - begin) / LAYERS_PAIRS;
}

/* Knuth's MMIX generator. */
static uint64_t
layers_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Replaces blocks at random; they stay live from round to round. A limit may refuse some. */
static double
live_round(void *context, unsigned thread)
{
    struct layers_thread *mine = &layers_threads[thread];
    uint64_t begin = bench_now_ns();

    for (unsigned i = 0; i < LAYERS_PAIRS; i++) {
        unsigned slot = (unsigned)(layers_random(&mine->seed) % LAYERS_LIVE);

        if (mine->sizes[slot] != 0 &&
            tide_deallocate(context, mine->pointers[slot], mine->sizes[slot], 256, thread) != TIDE_OK)
            bench_fail("live: free");
        mine->sizes[slot] = 1 + layers_random(&mine->seed) % LAYERS_LARGEST;
        if (tide_allocate(context, mine->sizes[slot], 256, thread, &mine->pointers[slot]) != TIDE_OK)
            mine->sizes[slot] = 0;
    }
    return (double)(bench_now_ns() - begin) / LAYERS_PAIRS;
}

static void
live_begin(void)
{
    for (unsigned i = 0; i < LAYERS_THREADS; i++) {
        layers_threads[i].seed = 12345 + i;
        for (unsigned slot = 0; slot < LAYERS_LIVE; slot++)
            layers_threads[i].sizes[slot] = 0;
    }
}

static struct tide_resource *
make_nothing(struct tide_resource *base, unsigned threads)
{
    (void)threads;
    return tide_resource_retain(base);
}

static struct tide_resource *
make_limit(struct tide_resource *base, unsigned threads)
{
    const struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = UINT64_C(80) << 30 };
    struct tide_resource *limit;

    (void)threads;
    if (tide_limit_create(base, &options, &limit) != TIDE_OK)
        bench_fail("limit");
    return limit;
}

/* Room for what is live in the mean: every second request comes when there is too little. */
static struct tide_resource *
make_full_limit(struct tide_resource *base, unsigned threads)
{
    const struct tide_limit_options options = { TIDE_OPTIONS(options),
                                                .limit_bytes = (uint64_t)threads * LAYERS_LIVE * LAYERS_LARGEST / 2 };
    struct tide_resource *limit;

    if (tide_limit_create(base, &options, &limit) != TIDE_OK)
        bench_fail("limit");
    return limit;
}

static struct tide_resource *
make_statistics(struct tide_resource *base, unsigned threads)
{
    struct tide_resource *statistics;

    (void)threads;
    if (tide_statistics_create(base, NULL, &statistics) != TIDE_OK)
        bench_fail("statistics");
    return statistics;
}

static struct tide_resource *
make_track(struct tide_resource *base, unsigned threads)
{
    struct tide_resource *track;

    (void)threads;
    if (tide_track_create(base, NULL, &track) != TIDE_OK)
        bench_fail("track");
    return track;
}

/* One line for each layer. */
static const struct {
    const char *name;
    struct tide_resource *(*make)(struct tide_resource *base, unsigned threads);
} layers[] = {
    { "base that does nothing", make_nothing }, { "limit", make_limit }, { "limit, full", make_full_limit },
    { "statistics", make_statistics },          { "track", make_track },
};

static void
measure_layer(size_t index, unsigned threads, double floor)
{
    struct tide_resource *base = bench_nothing(), *top = layers[index].make(base, threads);
    char name[80];

    snprintf(name, sizeof(name), "%s, back to back", layers[index].name);
    bench_report(name, threads, bench_threads(threads, LAYERS_ROUNDS, 0, back_to_back_round, top), "ns/pair", floor,
                 "floor of a pair");
    tide_resource_release(top);

    top = layers[index].make(base, threads);
    live_begin();
    snprintf(name, sizeof(name), "%s, %d live, mixed sizes", layers[index].name, LAYERS_LIVE);
    bench_report(name, threads, bench_threads(threads, LAYERS_ROUNDS, 0, live_round, top), "ns/pair", floor,
                 "floor of a pair");
    tide_resource_release(top);
    tide_resource_release(base);
}

int
main(int argc, char **argv)
{
    unsigned processors = bench_processors();

    bench_begin("layers");
    for (unsigned threads = 1; threads <= processors && threads <= LAYERS_THREADS; threads *= 2) {
        double floor = bench_threads(threads, LAYERS_ROUNDS, 0, floor_round, NULL);

        bench_report("floor: 2 relaxed adds, each thread on its own line", threads, floor, "ns/pair", 0, NULL);
        for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++)
            measure_layer(i, threads, floor);
    }
    bench_end(argc > 1 ? argv[1] : NULL);
    return 0;
}
