/* Tests the pool's decay with a clock of its own: memory follows the load down, and stays where it comes again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "tap.h"

#define MIB    (UINT64_C(1) << 20)
#define BLOCKS 64

static uint64_t now_ms = 1000000;

/* The library's clock: its own symbol is found here first. */
__attribute__((visibility("default"))) int
clock_gettime(clockid_t clock, struct timespec *out)
{
    (void)clock;
    *out = (struct timespec){ .tv_sec = (time_t)(now_ms / 1000), .tv_nsec = (long)(now_ms % 1000) * 1000000 };
    return 0;
}

static struct tide_resource *pool;
static void *blocks[BLOCKS];

static struct tide_pool_figures
figures(void)
{
    struct tide_pool_figures out = { TIDE_FIGURES(out) };

    tide_pool_read(pool, &out);
    return out;
}

static void
create(const char *text)
{
    if (tide_stack_parse(text, &pool) != TIDE_OK)
        abort();
}

static void
fill(size_t count)
{
    for (size_t i = 0; i < count; i++)
        tide_allocate(pool, 8 * MIB, 256, 0, &blocks[i]);
}

static void
drain(size_t from)
{
    for (size_t i = from; i < BLOCKS; i++) {
        if (blocks[i] != NULL)
            tide_deallocate(pool, blocks[i], 8 * MIB, 256, 0);
        blocks[i] = NULL;
    }
}

/* Requests of 8 MiB, one each `step_ms`. */
static void
run(uint64_t ms, uint64_t step_ms)
{
    for (uint64_t end = now_ms + ms; now_ms < end; now_ms += step_ms) {
        void *pointer;

        tide_allocate(pool, 8 * MIB, 256, 0, &pointer);
        tide_deallocate(pool, pointer, 8 * MIB, 256, 0);
    }
}

/* A load of 512 MiB goes down to 64 MiB. */
static void
check_down(const char *text)
{
    char with[128];

    snprintf(with, sizeof(with), "pool(decay=1000) | %s", text);
    create(with);
    fill(BLOCKS);
    run(500, 10);
    drain(BLOCKS / 8);
    run(900, 10);
    ok(figures().reserved_bytes >= 512 * MIB, "%s: what was needed within the decay time stays", text);
    run(250, 10);
    ok(figures().reserved_bytes < 512 * MIB, "%s: behind the decay time chunks go back", text);
    ok(figures().reserved_bytes > 200 * MIB, "%s: chunks go back a half at a time", text);
    run(1000, 10);
    ok(figures().reserved_bytes < 84 * MIB, "%s: another decay time later little more is held than is in use", text);
    ok(all_of(figures().decayed > 0, figures().decayed == figures().returned), "%s: the chunks are counted", text);
    drain(0);
    tide_resource_release(pool);
}

/* A load that comes each 800 ms keeps its memory; nothing is asked for again. */
static void
check_steps(const char *text)
{
    char with[128];
    uint64_t grown;

    snprintf(with, sizeof(with), "pool(decay=1000) | %s", text);
    create(with);
    fill(BLOCKS);
    grown = figures().grown;
    for (int i = 0; i < 50; i++) {
        drain(0);
        run(800, 20);
        fill(BLOCKS);
    }
    ok(all_of(figures().grown <= grown + 1, figures().returned == 0),
       "%s: a load that comes again within the decay time costs no call of upstream", text);
    drain(0);
    tide_resource_release(pool);
}

#define SPREAD 1024

static void *spread[SPREAD];
static uint64_t spread_bytes[SPREAD];

static void
spread_get(size_t i, uint64_t *seed)
{
    spread_bytes[i] = 1 + contract_random(seed) % (12 * MIB);
    tide_allocate(pool, spread_bytes[i], 256, 0, &spread[i]);
}

static void
spread_put(size_t i)
{
    tide_deallocate(pool, spread[i], spread_bytes[i], 256, 0);
}

/*
 * Of many blocks a sixteenth is left, spread over all chunks, and each is replaced now and then: a chunk goes back only
 * as a whole, so new blocks must not lie in those that hold the fewest.
 */
static void
check_spread(const char *base)
{
    uint64_t seed = contract_seed(20261201), live = 0, most;
    char with[128];

    snprintf(with, sizeof(with), "pool(decay=1000) | %s", base);
    create(with);
    for (size_t i = 0; i < SPREAD; i++)
        spread_get(i, &seed);
    most = figures().reserved_bytes;
    for (size_t i = 0; i < SPREAD; i++) {
        if (i % 16 != 0)
            spread_put(i);
    }
    for (uint64_t i = 0; i < 200; i++, now_ms += 100) {
        size_t k = contract_random(&seed) % (SPREAD / 16) * 16;

        spread_put(k);
        spread_get(k, &seed);
    }
    for (size_t i = 0; i < SPREAD; i += 16)
        live += spread_bytes[i];
    diag("%s: %d MiB at most, %d MiB live, %d MiB reserved at the end", base, (int)(most / MIB), (int)(live / MIB),
         (int)(figures().reserved_bytes / MIB));
    ok(figures().reserved_bytes <= live + live * 2 / 3 + 160 * MIB,
       "%s: blocks that were spread over all chunks come together in few", base);
    for (size_t i = 0; i < SPREAD; i += 16)
        spread_put(i);
    tide_resource_release(pool);
}

int
main(void)
{
    struct tide_pool_options options = { TIDE_OPTIONS(options), .decay_ms = 7 };
    struct tide_resource *sim, *none;

    plan(2 * 5 + 2 + 2 + 2 + 3);
    check_down("sim");
    check_down("sim(model=vmm)");
    check_steps("sim");
    check_steps("sim(model=vmm)");
    check_spread("sim(model=driver)");
    check_spread("sim");

    create("pool(decay=1000) | sim(model=vmm)");
    fill(BLOCKS);
    drain(0);
    now_ms += 1000000;
    run(20, 10);
    ok(all_of(figures().decayed > 0, figures().decayed <= 32), "after a long rest one call returns at most 32 chunks");
    tide_resource_release(pool);
    create("pool | sim");
    fill(BLOCKS);
    drain(0);
    run(100000, 1000);
    is_u64(figures().returned, 0, "unless decay is given nothing goes back because of the time");
    tide_resource_release(pool);

    tide_sim_create(NULL, &sim);
    ok(tide_pool_create(sim, &options, &none) == TIDE_EINVAL, "a decay of 7 ms is refused");
    options.decay_ms = 8;
    ok(tide_pool_create(sim, &options, &none) == TIDE_OK, "a decay of 8 ms is the shortest");
    tide_resource_release(none);
    tide_resource_release(sim);
    ok(tide_stack_parse("pool(decay=0) | sim", &none) != TIDE_OK && strstr(tide_error_text(), "decay") != NULL,
       "a decay of 0 is refused in stack text, and the refusal names it");
    return done();
}
