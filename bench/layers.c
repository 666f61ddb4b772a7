/*
 * Measures what a layer costs the allocating thread, over a base that does almost nothing: 1 to 16 threads, with blocks
 * freed at once and with live blocks of mixed sizes, compared with the floor of the same run (a relaxed add for each
 * call, by each thread on a cache line of its own).
 *
 * Usage: bench/layers [JSON-FILE]
 */
#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/tidemark.h>

#include "bench.h"
#include "layers.h"

#define LAYERS_PAIRS   20000
#define LAYERS_ROUNDS  40
#define LAYERS_THREADS 16

struct layers_thread {
    _Alignas(128) _Atomic uint64_t count;
    uint64_t seed;
    void *pointers[LAYERS_LIVE];
    size_t sizes[LAYERS_LIVE]; /* 0: not live */
};

static struct layers_thread layers_threads[LAYERS_THREADS];
static unsigned layers_pairs; /* of the measured layer */

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

    for (unsigned i = 0; i < layers_pairs; i++) {
        if (tide_allocate(context, 4096, 256, thread, &pointer) != TIDE_OK ||
            tide_deallocate(context, pointer, 4096, 256, thread) != TIDE_OK)
            bench_fail("back to back");
    }
    return (double)(bench_now_ns() - begin) / layers_pairs;
}

/* Knuth's MMIX generator. */
static uint64_t
layers_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Replace random blocks, which stay live from round to round. A full limit refuses some. */
static double
live_round(void *context, unsigned thread)
{
    struct layers_thread *mine = &layers_threads[thread];
    uint64_t begin = bench_now_ns();

    for (unsigned i = 0; i < layers_pairs; i++) {
        unsigned slot = (unsigned)(layers_random(&mine->seed) % LAYERS_LIVE);

        if (mine->sizes[slot] != 0 &&
            tide_deallocate(context, mine->pointers[slot], mine->sizes[slot], 256, thread) != TIDE_OK)
            bench_fail("live: free");
        mine->sizes[slot] = 1 + layers_random(&mine->seed) % LAYERS_LARGEST;
        if (tide_allocate(context, mine->sizes[slot], 256, thread, &mine->pointers[slot]) != TIDE_OK)
            mine->sizes[slot] = 0;
    }
    return (double)(bench_now_ns() - begin) / layers_pairs;
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

static void
measure_layer(size_t index, unsigned threads, double floor)
{
    const struct bench_layer *layer = &bench_layers[index];
    struct tide_resource *top = layer->make(threads);
    char name[80];

    layers_pairs = layer->pairs != 0 ? layer->pairs : LAYERS_PAIRS;

    snprintf(name, sizeof(name), "%s, back to back", layer->name);
    bench_report(name, threads, bench_threads(threads, LAYERS_ROUNDS, 0, back_to_back_round, top), "ns/pair", floor,
                 "floor of a pair");
    tide_resource_release(top);

    top = layer->make(threads);
    live_begin();
    snprintf(name, sizeof(name), "%s, %d live, mixed sizes", layer->name, LAYERS_LIVE);
    bench_report(name, threads, bench_threads(threads, LAYERS_ROUNDS, 0, live_round, top), "ns/pair", floor,
                 "floor of a pair");
    tide_resource_release(top);
}

int
main(int argc, char **argv)
{
    bench_begin("layers");
    for (unsigned threads = 0; (threads = bench_next_threads(threads, LAYERS_THREADS)) != 0;) {
        double floor = bench_threads(threads, LAYERS_ROUNDS, 0, floor_round, NULL);

        bench_report("floor: 2 relaxed adds, each thread on its own line", threads, floor, "ns/pair", 0, NULL);
        for (size_t i = 0; bench_layers[i].name != NULL; i++)
            measure_layer(i, threads, floor);
    }
    bench_end(argc > 1 ? argv[1] : NULL);
    return 0;
}
