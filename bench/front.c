/*
 * Measures what an event costs the allocating thread: `log` over a base that does nothing, compared with the floor of
 * the same run (two timestamps, one 64-byte record into a mapped file, one release store).
 *
 * Usage: bench/front [JSON-FILE]. Writes its traces into the current directory and removes them.
 */
#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "bench.h"
#include "nothing.h"
#include "src/trace/ring/clock.h"
#include "src/trace/ring/record.h"

/* Two rounds fit into a ring of 1 MiB: no thread waits, and the writer empties the ring before the next round. */
#define FRONT_PAIRS   4096
#define FRONT_ROUNDS  200
#define FRONT_PAUSE   2000000
#define FRONT_THREADS 16
#define FRONT_TRACE   "bench-front.db"

/* The ring of one thread in a mapped file, for measuring the floor. */
struct floor_ring {
    struct tidei_record *records;
    _Alignas(64) _Atomic uint64_t head;
};

static struct floor_ring floor_rings[FRONT_THREADS];
static bool floor_tsc;

static double
floor_round(void *context, unsigned thread)
{
    struct floor_ring *ring = &floor_rings[thread];
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t begin = bench_now_ns();

    (void)context;
    for (unsigned i = 0; i < 2 * FRONT_PAIRS; i++) {
        struct tidei_record *record = &ring->records[head & 16383];
        uint64_t before = tidei_clock_ticks(floor_tsc);
        uint64_t after;

        atomic_signal_fence(memory_order_seq_cst);
        after = tidei_clock_ticks(floor_tsc);
        *record = (struct tidei_record){ .ticks = after, .duration_check = after - before, .address = head };
        atomic_store_explicit(&ring->head, ++head, memory_order_release);
    }
    return (double)(bench_now_ns() - begin) / (2 * FRONT_PAIRS);
}

static void
floor_open(unsigned threads)
{
    FILE *file = tmpfile();
    size_t bytes = (size_t)threads << 20;
    char *memory;

    if (file == NULL || ftruncate(fileno(file), (off_t)bytes) != 0)
        bench_fail("floor");
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (memory == MAP_FAILED)
        bench_fail("floor");
    memset(memory, 1, bytes);
    for (unsigned i = 0; i < threads; i++)
        floor_rings[i].records = (struct tidei_record *)(memory + ((size_t)i << 20));
    fclose(file);
}

static double
stack_round(void *context, unsigned thread)
{
    struct tide_resource *stack = context;
    uint64_t begin = bench_now_ns();
    void *pointer;

    for (unsigned i = 0; i < FRONT_PAIRS; i++) {
        if (tide_allocate(stack, 4096, 256, thread, &pointer) != TIDE_OK ||
            tide_deallocate(stack, pointer, 4096, 256, thread) != TIDE_OK)
            bench_fail("stack");
    }
    return (double)(bench_now_ns() - begin) / FRONT_PAIRS;
}

/* Nanoseconds for a pair through the layers, over a base that does nothing. `log`: with a log on top. */
static double
measure_stack(unsigned threads, bool log, bool counters)
{
    struct tide_resource *base = bench_nothing(), *next;
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = FRONT_TRACE, .overwrite = true };
    struct tide_limit_options bound = { TIDE_OPTIONS(bound), .limit_bytes = UINT64_MAX / 2 };
    double figure;

    if (counters) {
        if (tide_limit_create(base, &bound, &next) != TIDE_OK)
            bench_fail("limit");
        tide_resource_release(base);
        base = next;
        if (tide_statistics_create(base, NULL, &next) != TIDE_OK)
            bench_fail("statistics");
        tide_resource_release(base);
        base = next;
    }
    if (log) {
        if (tide_log_create(base, &options, &next) != TIDE_OK)
            bench_fail("log");
        tide_resource_release(base);
        base = next;
    }
    figure = bench_threads(threads, FRONT_ROUNDS, log ? FRONT_PAUSE : 0, stack_round, base);
    tide_resource_release(base);
    unlink(FRONT_TRACE);
    return figure;
}

int
main(int argc, char **argv)
{
    bench_begin("front");
    floor_tsc = tidei_clock_tsc_is_invariant();
    floor_open(FRONT_THREADS);
    for (unsigned threads = 0; (threads = bench_next_threads(threads, FRONT_THREADS)) != 0;) {
        double floor = bench_threads(threads, FRONT_ROUNDS, FRONT_PAUSE, floor_round, NULL);
        double nothing = measure_stack(threads, false, false);
        double log = measure_stack(threads, true, false) / 2;
        double all = measure_stack(threads, true, true);

        bench_report("floor: 2 timestamps, 64 bytes, 1 release store", threads, floor, "ns/event", 0, NULL);
        bench_report("base that does nothing", threads, nothing, "ns/pair", 0, NULL);
        bench_report("log", threads, log, "ns/event", floor, "floor");
        bench_report("statistics | limit", threads, measure_stack(threads, false, true), "ns/pair", 0, NULL);
        bench_report("log | statistics | limit", threads, all, "ns/pair", 2 * floor, "floor of a pair");
    }
    bench_end(argc > 1 ? argv[1] : NULL);
    return 0;
}
