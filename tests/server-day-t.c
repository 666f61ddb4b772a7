/*
 * Tests that the memory of a pool with decay follows a server's day down within a bounded time, and does not go back
 * and forth, over pages and over units. `bench/day` runs the same day with a million requests.
 */
#include <stdio.h>
#include <stdlib.h>

#include "contract.h"
#include "server-day.h"
#include "tap.h"

#define REQUESTS 60000
#define DECAY_MS (UINT64_C(10) * 60 * 1000)

/* The most that was live in each part of the last two decay times. */
#define PARTS   16
#define PART_MS (2 * DECAY_MS / PARTS)

/*
 * Decay has 8 steps in a decay time, and looks at what is late after a sixteenth of a step. What a pool returns stays
 * with a driver until the host has waited for its work, and decay only looks: so for such a moment the base has what
 * the pool had. What the base has is compared with the most that the pool had in this moment and the one before, as it
 * begins in the one and ends in the other.
 */
#define MOMENTS (8 * 16)

struct watch {
    struct tide_resource *stack, *base;
    uint64_t most_live[PARTS + 1];
    uint64_t held;         /* reserved by the pool after the last call */
    uint64_t most_held[2]; /* at most in this moment and in the one before */
    uint64_t part, moment;
    uint64_t worst;        /* reserved in parts per hundred of the most live lately */
    uint64_t worst_large;  /* the same, while that was 512 MiB or more: chunks over units are large beside less */
    uint64_t base_of_pool; /* what the base has in parts per hundred of most_held, of 1 GiB or more */
};

static void
watch_call(void *context, uint64_t live_bytes)
{
    struct watch *watch = context;
    uint64_t part = server_day_now_ms / PART_MS, moment = server_day_now_ms * MOMENTS / DECAY_MS;
    uint64_t most = 0, reserved = 0, of_base = 0, held;

    for (; watch->part < part; watch->part++)
        watch->most_live[(watch->part + 1) % (PARTS + 1)] = live_bytes;
    for (; watch->moment < moment; watch->moment++) {
        watch->most_held[1] = watch->most_held[0];
        watch->most_held[0] = watch->held;
    }
    if (watch->most_live[part % (PARTS + 1)] < live_bytes)
        watch->most_live[part % (PARTS + 1)] = live_bytes;
    for (size_t i = 0; i <= PARTS; i++)
        most = most < watch->most_live[i] ? watch->most_live[i] : most;
    tide_query(watch->stack, TIDE_QUERY_BYTES_RESERVED, &reserved);
    tide_query(watch->base, TIDE_QUERY_BYTES_RESERVED, &of_base);
    watch->held = reserved;
    if (watch->most_held[0] < reserved)
        watch->most_held[0] = reserved;
    held = watch->most_held[watch->most_held[0] < watch->most_held[1]];
    if (held >= UINT64_C(1) << 30 && watch->base_of_pool < of_base * 100 / held)
        watch->base_of_pool = of_base * 100 / held;
    if (live_bytes != 0 && most != 0 && watch->worst < reserved * 100 / most)
        watch->worst = reserved * 100 / most;
    if (most >= UINT64_C(512) << 20 && watch->worst_large < reserved * 100 / most)
        watch->worst_large = reserved * 100 / most;
}

struct outcome {
    uint64_t worst, worst_large, failures, asked_of_peak, base_of_pool;
};

static void
run(const char *text, uint64_t seed, struct outcome *out)
{
    struct server_day day = { .requests = REQUESTS, .seed = seed };
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    struct watch watch = { .part = server_day_now_ms / PART_MS, .moment = server_day_now_ms * MOMENTS / DECAY_MS };
    struct tide_resource *statistics;

    if (tide_stack_parse(text, &watch.stack) != TIDE_OK ||
        tide_stack_find(watch.stack, "statistics", &statistics) != TIDE_OK)
        abort();
    watch.base = statistics->upstream;
    day.stack = watch.stack;
    day.watch = watch_call;
    day.context = &watch;
    server_day_run(&day);
    tide_statistics_read(statistics, &figures);
    *out = (struct outcome){ .worst = watch.worst, .failures = day.failures, .base_of_pool = watch.base_of_pool };
    out->worst_large = watch.worst_large;
    out->asked_of_peak = (uint64_t)figures.bytes.total / day.peak_live_bytes;
    tide_resource_release(watch.stack);
}

static void
run_both(const char *base, struct outcome *decaying, struct outcome *keeping)
{
    uint64_t seed = contract_seed(20261129);
    char text[128];

    snprintf(text, sizeof(text), "pool(decay=%d) | statistics | %s", (int)DECAY_MS, base);
    run(text, seed, decaying);
    snprintf(text, sizeof(text), "pool | statistics | %s", base);
    run(text, seed, keeping);
    diag("%s: reserved at most %d%% of the most live in the last two decay times, %d%% without decay; the peak was "
         "asked for %d and %d times; the base had %d%% and %d%% of the pool's chunks",
         base, (int)decaying->worst, (int)keeping->worst, (int)decaying->asked_of_peak, (int)keeping->asked_of_peak,
         (int)decaying->base_of_pool, (int)keeping->base_of_pool);
    ok(decaying->failures + keeping->failures == 0, "%s: a server's day is served", base);
}

static void
check_pages(void)
{
    struct outcome decaying, keeping;

    run_both("sim(model=vmm)", &decaying, &keeping);
    ok(decaying.worst <= 160, "with decay, what is reserved follows what is live within two decay times");
    ok(keeping.worst > 300, "without decay, what the day needed is kept for the night");
    ok(decaying.asked_of_peak <= 40, "with decay, memory does not go back and forth");
}

/* A chunk over units goes back only as a whole; then the base must not keep it. */
static void
check_units(void)
{
    struct outcome decaying, keeping;

    run_both("sim(model=driver)", &decaying, &keeping);
    diag("while 512 MiB or more were live: %d%%, and %d%% without decay", (int)decaying.worst_large,
         (int)keeping.worst_large);
    ok(all_of(decaying.worst_large <= 200, keeping.worst_large > 300),
       "with decay, chunks of whole units follow what is live within two decay times, too");
    ok(decaying.asked_of_peak <= 60, "with decay, units do not go back and forth");
    ok(decaying.base_of_pool <= 125, "what decays in a pool over units does not stay with the base");
}

int
main(void)
{
    plan(8);
    check_pages();
    check_units();
    return done();
}
