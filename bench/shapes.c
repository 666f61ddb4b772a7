/*
 * What a pool holds and how often it calls its base, over models of physical memory and without times: for recorded
 * traffic, and for generated shapes of it. For each the most that the base reserved beside the most that was live, and
 * in brackets the chunks that it was asked for; those of them that took the place of others, over pages; and those of
 * the last 27 of 35 equal parts of the traffic: a loop of equal steps has come to rest where they are 0.
 *
 * Usage: bench/shapes [CSV-FILE ...]: those, in RMM's log format, in the place of tests/data and the generated ones
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "bench.h"
#include "replayed.h"
#include "viewer/base/exit-status.h"
#include "viewer/replay/input.h"

#define KIB         UINT64_C(1024)
#define MIB         (1024 * KIB)
#define PARTS       35
#define PARTS_EARLY 8
#define LIVE_MOST   4096
#define ROUNDS      5

static const struct {
    const char *name;
    const char *text;
} stacks[] = {
    { "pool, pages", "pool | statistics | sim(model=vmm)" },
    { "pool, units", "pool | statistics | sim(model=driver)" },
    { "pool, plain", "pool | statistics | sim(granularity=2MiB)" },
};

#define STACKS (sizeof(stacks) / sizeof(stacks[0]))

/* Generated traffic: a source of random numbers, and the blocks that are live. */
struct shape {
    struct replay_input *input;
    uint64_t state;
    uint32_t live[LIVE_MOST];
    size_t count;
};

static uint64_t
shape_random(struct shape *shape, uint64_t below)
{
    shape->state ^= shape->state << 13;
    shape->state ^= shape->state >> 7;
    shape->state ^= shape->state << 17;
    return shape->state % below;
}

/* 1 to `most`, each order of magnitude as likely as the others. */
static uint64_t
shape_magnitude(struct shape *shape, uint64_t least, uint64_t most)
{
    uint64_t bytes = least;

    while (bytes < most / 2 && shape_random(shape, 8) != 0)
        bytes *= 2;
    return bytes + shape_random(shape, bytes);
}

static void
shape_free(struct shape *shape, size_t i)
{
    if (replay_input_free(shape->input, 1, 0, 8, shape->live[i]) != NULL)
        bench_fail("no memory for a shape");
    shape->live[i] = shape->live[--shape->count];
}

/* A block that is the last one of `live` from now on; its index. */
static size_t
shape_get(struct shape *shape, uint64_t bytes)
{
    if (shape->count == LIVE_MOST ||
        replay_input_alloc(shape->input, 1, 0, bytes, 8, &shape->live[shape->count]) != NULL)
        bench_fail("no memory for a shape");
    return shape->count++;
}

/* Sequences whose blocks grow by `step` bytes, or by up to twice that; `temporary`: beside blocks of one call each. */
static void
shape_growing(struct shape *shape, uint64_t step, bool unequal, bool temporary)
{
    uint64_t blocks[48], lengths[48] = { 0 };

    for (size_t i = 0; i < 48; i++)
        blocks[i] = shape_get(shape, MIB);
    for (size_t k = 0; k < 20000; k++) {
        size_t i = shape_random(shape, 48);
        uint64_t more = unequal ? 1 + shape_random(shape, 2 * step) : step;

        lengths[i] = lengths[i] > 64 * MIB ? MIB + shape_random(shape, 8) * step : lengths[i] + more;
        if (temporary)
            shape_get(shape, shape_magnitude(shape, 64 * KIB, 32 * MIB));
        shape_get(shape, lengths[i] + MIB);
        if (temporary)
            shape_free(shape, shape->count - 2);
        shape_free(shape, blocks[i]); /* the last block has its place now */
    }
}

static void
shape_growing_equal(struct shape *shape)
{
    shape_growing(shape, 2 * MIB, false, false);
}

static void
shape_growing_unequal(struct shape *shape)
{
    shape_growing(shape, 2 * MIB, true, true);
}

/* Blocks of up to `most` bytes that replace each other. */
static void
shape_churn(struct shape *shape, size_t count, uint64_t most)
{
    for (size_t i = 0; i < count; i++)
        shape_get(shape, 1 + shape_random(shape, most));
    for (size_t k = 0; k < 20000; k++) {
        shape_free(shape, shape_random(shape, count));
        shape_get(shape, 1 + shape_random(shape, most));
    }
}

static void
shape_churn_8(struct shape *shape)
{
    shape_churn(shape, 8, 64 * MIB);
}

static void
shape_churn_40(struct shape *shape)
{
    shape_churn(shape, 40, 24 * MIB);
}

static void
shape_churn_200(struct shape *shape)
{
    for (size_t i = 0; i < 200; i++)
        shape_get(shape, shape_magnitude(shape, KIB, 64 * MIB));
    for (size_t k = 0; k < 20000; k++) {
        shape_free(shape, shape_random(shape, 200));
        shape_get(shape, shape_magnitude(shape, KIB, 64 * MIB));
    }
}

/* One step of training: weights stay, activations of `layers` layers come and go in reverse, each with a workspace. */
static void
shape_step(struct shape *shape, const uint64_t *bytes, size_t layers, uint64_t tokens)
{
    for (size_t i = 0; i < layers; i++) {
        shape_get(shape, bytes[i] / 2 * tokens + 4096);
        shape_get(shape, bytes[i] * tokens);
        shape_free(shape, shape->count - 2);
    }
    for (size_t i = layers; i-- > 0;) {
        shape_get(shape, bytes[i] / 3 * tokens + 4096);
        shape_free(shape, shape->count - 2);
        shape_free(shape, shape->count - 1);
    }
}

#define LAYERS 60

static void
shape_layers(struct shape *shape, uint64_t bytes[LAYERS])
{
    for (size_t i = 0; i < LAYERS; i++) {
        bytes[i] = shape_magnitude(shape, 8 * KIB, 128 * KIB);
        shape_get(shape, bytes[i] * 64);
    }
}

static void
shape_train_lengths(struct shape *shape)
{
    uint64_t bytes[LAYERS];

    shape_layers(shape, bytes);
    for (size_t k = 0; k < 105; k++)
        shape_step(shape, bytes, LAYERS, 64 + shape_random(shape, 1000));
}

static void
shape_train_equal(struct shape *shape)
{
    uint64_t bytes[LAYERS];

    shape_layers(shape, bytes);
    for (size_t k = 0; k < 105; k++)
        shape_step(shape, bytes, LAYERS, 512);
}

/* Equal steps, each of the same blocks of any sizes that live across each other. */
static void
shape_steps_crossing(struct shape *shape)
{
    struct shape step = { .state = shape->state };

    for (size_t k = 0; k < 105; k++) {
        size_t count = shape->count;

        step.state = 20261201;
        for (size_t i = 0; i < 300; i++) {
            shape_get(shape, shape_magnitude(&step, 256 * KIB, 96 * MIB));
            if (shape->count - count > 60)
                shape_free(shape, count + shape_random(&step, 60));
        }
        while (shape->count > count)
            shape_free(shape, count + shape_random(&step, shape->count - count));
        shape_get(shape, 4096); /* a result of each step stays */
    }
}

static const struct {
    const char *name;
    void (*generate)(struct shape *shape);
} shapes[] = {
    { "a cache of blocks that grow by equal steps", shape_growing_equal },
    { "the same, unequal steps and temporary blocks", shape_growing_unequal },
    { "8 blocks of up to 64 MiB that replace each other", shape_churn_8 },
    { "40 blocks of up to 24 MiB, likewise", shape_churn_40 },
    { "200 blocks of 1 KiB to 64 MiB, likewise", shape_churn_200 },
    { "training with random lengths", shape_train_lengths },
    { "training with equal steps", shape_train_equal },
    { "equal steps of blocks that live across each other", shape_steps_crossing },
};

static const char *const recorded[] = { "gpt_train", "maskrcnn_infer", "multistream_sort", "torch_generate" };

struct outcome {
    double reserved; /* the most, of the most that was live */
    uint64_t asked, asked_later, moved;
};

/* Run the traffic in one thread, with its streams, and add the figures. What is left at the end goes with the stack. */
static void
run(const char *text, const struct replay_input *input, struct outcome *sums)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };
    void **pointers = calloc(input->allocation_count + 1, sizeof(*pointers));
    uint64_t live = 0, peak = 0, early = 0, reserved = 0;
    struct tide_resource *stack, *statistics;

    if (pointers == NULL || tide_stack_parse(text, &stack) != TIDE_OK ||
        tide_stack_find(stack, "statistics", &statistics) != TIDE_OK)
        bench_fail(tide_error_text());
    for (size_t i = 0; i < input->event_count; i++) {
        live += replayed_call(stack, input, &input->events[i], pointers);
        peak = live > peak ? live : peak;
        if (i == input->event_count / PARTS * PARTS_EARLY)
            early = replayed_asked(statistics);
    }
    tide_query(statistics->upstream, TIDE_QUERY_BYTES_RESERVED_HIGH, &reserved);
    tide_pool_read(stack, &figures);
    sums->reserved += (double)reserved / (double)peak;
    sums->asked += replayed_asked(statistics);
    sums->asked_later += replayed_asked(statistics) - early;
    sums->moved += figures.remapped;
    tide_resource_release(stack);
    free(pointers);
}

static void
print(const char *name, const struct outcome *sums, uint64_t rounds)
{
    printf("%-50s", name);
    for (size_t k = 0; k < STACKS; k++) {
        const struct outcome *sum = &sums[k];

        printf("  %.3f (%5" PRIu64 ", %5" PRIu64 ", %5" PRIu64 ")", sum->reserved / (double)rounds, sum->asked / rounds,
               sum->moved / rounds, sum->asked_later / rounds);
    }
    printf("\n");
}

static void
measure_recorded(const char *path)
{
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    struct outcome outcomes[STACKS] = { { 0 } };
    const struct replay_reading reading = { 0 };
    struct replay_input input;

    if (replay_read_csv(path, &reading, &input) != COMMAND_FINE)
        bench_fail(path);
    for (size_t k = 0; k < STACKS; k++)
        run(stacks[k].text, &input, &outcomes[k]);
    print(name, outcomes, 1);
    replay_input_clear(&input);
}

/* Small differences of a rule have other placements follow: so the mean of several seeds. */
static void
measure_shape(size_t i)
{
    struct outcome sums[STACKS] = { { 0 } };

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        struct replay_input input = { 0 };
        struct shape shape = { .input = &input, .state = round * 7919 };

        shapes[i].generate(&shape);
        for (size_t k = 0; k < STACKS; k++)
            run(stacks[k].text, &input, &sums[k]);
        replay_input_clear(&input);
    }
    print(shapes[i].name, sums, ROUNDS);
}

int
main(int argc, char **argv)
{
    printf("%-50s", "reserved of live (asked for, moved, later)");
    for (size_t k = 0; k < STACKS; k++)
        printf("  %-27s", stacks[k].name);
    printf("\n");
    for (int i = 1; i < argc; i++)
        measure_recorded(argv[i]);
    for (size_t i = 0; argc == 1 && i < sizeof(recorded) / sizeof(recorded[0]); i++) {
        char path[1024];

        snprintf(path, sizeof(path), "%s/%s.csv.gz", BENCH_DATA, recorded[i]);
        measure_recorded(path);
    }
    for (size_t i = 0; argc == 1 && i < sizeof(shapes) / sizeof(shapes[0]); i++)
        measure_shape(i);
    return 0;
}
