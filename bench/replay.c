/*
 * Replays recorded traffic through pools over `sim`, compared with `sim` alone: the time for each event, and the
 * highest reserved bytes beside the highest live bytes, which no placement can go below, and the chunks asked for; over
 * pages also the chunks that were moved into other addresses, which is the rest of what a base is called for.
 *
 * Usage: bench/replay [JSON-FILE]
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "bench.h"
#include "viewer/base/exit-status.h"
#include "viewer/replay/input.h"
#include "viewer/replay/run.h"

#define REPLAY_ROUNDS 5
#define MIB           1048576.0

static const char *const inputs[] = { "gpt_train", "maskrcnn_infer", "multistream_sort", "torch_generate" };

/* The layers above `statistics`, and the base below it. */
static const struct {
    const char *layers;
    const char *base;
    const char *over; /* for the row */
} pools[] = {
    { "pool", "sim(capacity=4TiB)", "" },
    { "pool(cache=0)", "sim(capacity=4TiB)", "" },
    { "pool(growth=64MiB)", "sim(capacity=4TiB)", "" },
    { "arena", "sim(capacity=4TiB)", "" },
    { "binning(512..1MiB) | pool", "sim(capacity=4TiB)", "" },
    { "binning(512..64MiB)", "sim(capacity=4TiB)", "" },
    { "pool", "sim(capacity=4TiB, model=vmm)", " over pages" },
    { "arena", "sim(capacity=4TiB, model=vmm)", " over pages" },
};

struct outcome {
    double event_ns;
    uint64_t reserved_peak_bytes;
    uint64_t taken_over;
    uint64_t remapped;
    uint64_t upstream_count; /* allocations that reached the base */
};

static uint64_t
peak_live(const struct replay_input *input)
{
    uint64_t live = 0, peak = 0;

    for (size_t i = 0; i < input->event_count; i++) {
        uint64_t bytes = input->sizes[input->events[i].allocation];

        live = input->events[i].kind == REPLAY_FREE ? live - bytes : live + bytes;
        peak = live > peak ? live : peak;
    }
    return peak;
}

/* One replay. `counted`: a layer above the base counts the reserved bytes. */
static void
replay_once(const struct replay_input *input, const char *text, bool counted, struct outcome *out)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };
    struct tide_statistics_figures statistics = { TIDE_FIGURES(statistics) };
    struct tide_resource *stack, *layer;
    struct replay replay;

    if (tide_stack_parse(text, &stack) != TIDE_OK)
        bench_fail(text);
    if (replay_run(&replay, input, stack, &(const struct replay_options){ 0 }) != COMMAND_FINE ||
        replay.result.failures + replay.result.free_failures > 0)
        bench_fail(replay.result.first_failure);
    replay_free_left(&replay);
    if (tide_stack_find(stack, "pool", &layer) == TIDE_OK)
        tide_pool_read(layer, &figures);
    if (counted && tide_stack_find(stack, "statistics", &layer) == TIDE_OK)
        tide_statistics_read(layer, &statistics);
    out->event_ns = (double)replay.result.total_ns / (double)input->event_count;
    out->reserved_peak_bytes = (uint64_t)statistics.bytes.peak;
    out->upstream_count = (uint64_t)statistics.count.total;
    out->taken_over = figures.taken_over;
    out->remapped = figures.remapped;
    replay_finish(&replay);
    tide_resource_release(stack);
}

static double
replay_median(const struct replay_input *input, const char *text, bool counted, struct outcome *out)
{
    double rounds[REPLAY_ROUNDS];

    for (size_t i = 0; i < REPLAY_ROUNDS; i++) {
        replay_once(input, text, counted, out);
        rounds[i] = out->event_ns;
    }
    return bench_median(rounds, REPLAY_ROUNDS);
}

static void
measure_input(const char *name)
{
    const struct replay_reading reading = { 0 };
    struct replay_input input;
    struct outcome outcome;
    char path[1024], row[96];
    double floor, peak;

    snprintf(path, sizeof(path), "%s/%s.csv.gz", BENCH_DATA, name);
    if (replay_read_csv(path, &reading, &input) != COMMAND_FINE)
        bench_fail(path);
    peak = (double)peak_live(&input) / MIB;
    floor = replay_median(&input, "sim(capacity=4TiB)", false, &outcome);
    snprintf(row, sizeof(row), "%s, sim alone", name);
    bench_report(row, 1, floor, "ns/event", 0, NULL);
    snprintf(row, sizeof(row), "%s, peak live", name);
    bench_report(row, 1, peak, "MiB", 0, NULL);
    for (size_t i = 0; i < sizeof(pools) / sizeof(pools[0]); i++) {
        char text[256];
        double event_ns;

        snprintf(text, sizeof(text), "%s | statistics | %s", pools[i].layers, pools[i].base);
        event_ns = replay_median(&input, text, true, &outcome);
        snprintf(row, sizeof(row), "%s, %s%s", name, pools[i].layers, pools[i].over);
        bench_report(row, 1, event_ns, "ns/event", floor, "sim alone");
        snprintf(row, sizeof(row), "%s, %s%s, peak reserved", name, pools[i].layers, pools[i].over);
        bench_report(row, 1, (double)outcome.reserved_peak_bytes / MIB, "MiB", peak, "peak live");
        snprintf(row, sizeof(row), "%s, %s%s, asked for", name, pools[i].layers, pools[i].over);
        bench_report(row, 1, (double)outcome.upstream_count, "chunks", 0, NULL);
        if (strstr(pools[i].layers, "pool") == NULL)
            continue;
        snprintf(row, sizeof(row), "%s, %s%s, taken over", name, pools[i].layers, pools[i].over);
        bench_report(row, 1, (double)outcome.taken_over, "blocks", 0, NULL);
        if (pools[i].over[0] == '\0')
            continue;
        snprintf(row, sizeof(row), "%s, %s%s, moved", name, pools[i].layers, pools[i].over);
        bench_report(row, 1, (double)outcome.remapped, "chunks", 0, NULL);
    }
    replay_input_clear(&input);
}

int
main(int argc, char **argv)
{
    bench_begin("replay");
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++)
        measure_input(inputs[i]);
    bench_end(argc > 1 ? argv[1] : NULL);
    return 0;
}
