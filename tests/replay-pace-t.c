/*
 * Tests `replay --time-scale` with a clock of its own, in which only sleeping takes long: events begin when they are
 * due, on whichever thread, and a pool's decay acts as the recorded times make it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"
#include "viewer/base/exit-status.h"
#include "viewer/replay/report.h"
#include "viewer/replay/run.h"

#define SECOND INT64_C(1000000000)
#define MIB    (1 << 20)

static int64_t clock_ns;
static int64_t look_ns;      /* what each look at the clock takes */
static int64_t oversleep_ns; /* how much later than asked a sleep ends */
static uint64_t sleeps;

/* The clock of the library and of the replay: these symbols are found first. */
__attribute__((visibility("default"))) int
clock_gettime(clockid_t clock, struct timespec *out)
{
    (void)clock;
    clock_ns += look_ns;
    *out = (struct timespec){ .tv_sec = (time_t)(clock_ns / SECOND), .tv_nsec = (long)(clock_ns % SECOND) };
    return 0;
}

__attribute__((visibility("default"))) int
clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    int64_t end_ns = (int64_t)until->tv_sec * SECOND + until->tv_nsec;

    (void)clock, (void)flags, (void)left;
    sleeps++;
    if (end_ns > clock_ns)
        clock_ns = end_ns + oversleep_ns;
    return 0;
}

/* The allocations and frees of an input, which is freed by replay_input_clear. */
static struct replay_input input;
static uint32_t last;

static void
allocate(double seconds, uint64_t thread, uint64_t bytes)
{
    if (replay_input_alloc(&input, thread, 0, bytes, 8, &last) != NULL ||
        replay_input_time(&input, (int64_t)(seconds * 1e9)) != NULL)
        abort();
}

static void
release(double seconds, uint64_t thread, uint32_t allocation)
{
    if (replay_input_free(&input, thread, 0, 8, allocation) != NULL ||
        replay_input_time(&input, (int64_t)(seconds * 1e9)) != NULL)
        abort();
}

static struct replay replay;
static uint64_t reserved_bytes; /* after the last event */

static int64_t
run(const char *text, double scale)
{
    const struct replay_options options = { .time_scale = scale };
    int64_t begin_ns;
    struct tide_resource *stack;

    clock_ns = 1000 * SECOND;
    look_ns = 50;
    sleeps = 0;
    if (tide_stack_parse(text, &stack) != TIDE_OK)
        abort();
    begin_ns = clock_ns;
    if (replay_run(&replay, &input, stack, &options) != COMMAND_FINE ||
        tide_query(stack, TIDE_QUERY_BYTES_RESERVED, &reserved_bytes) != TIDE_OK)
        abort();
    begin_ns = clock_ns - begin_ns;
    replay_free_left(&replay);
    tide_resource_release(stack);
    replay_finish(&replay);
    return begin_ns;
}

/* Whether `ns` is `wanted`, or up to a millisecond more. */
static bool
is_about(int64_t ns, int64_t wanted)
{
    if (ns >= wanted && ns < wanted + SECOND / 1000)
        return true;
    diag("%" PRId64 " ns, wanted %" PRId64, ns, wanted);
    return false;
}

#define WAIT_TESTS 7

static void
check_waits(void)
{
    for (int i = 0; i < 100; i++)
        allocate(i, (uint64_t)(i % 3), 1000);
    ok(all_of(is_about(run("sim", 1), 99 * SECOND), replay.result.waited_ns > 98 * SECOND),
       "at 1 a replay takes as long as the recording");
    ok(is_about(run("sim", 0.1), 99 * SECOND / 10), "at 0.1 it takes a tenth of that");
    ok(is_about(run("sim", 10), 990 * SECOND), "at 10 it takes ten times as long");
    ok(all_of(is_about(run("sim", 0), 0), sleeps == 0), "at 0 it waits for nothing");
    run("sim", 1);
    ok(all_of(replay.result.late.median_ns < 1000, replay.result.late.most_ns < 1000),
       "events of three threads begin within a microsecond of when they are due");
    oversleep_ns = 300000;
    run("sim", 1);
    oversleep_ns = 0;
    ok(all_of(replay.result.late.median_ns / 1000 == 200, replay.result.late.p99_ns / 1000 == 200),
       "where each sleep takes 0.3 ms longer than asked, half of the events are 0.2 ms late, and so are 99 of 100");
    ok(all_of(replay.result.allocations == 100, replay.result.total_ns > 99 * SECOND), "all events have run");
    replay_input_clear(&input);
}

#define ORDER_TESTS 3

/* Times that go back, and events of one time. */
static void
check_order(void)
{
    allocate(10, 0, 1000);
    allocate(12, 0, 1000);
    allocate(11, 1, 1000); /* as some writers leave them */
    allocate(12, 0, 1000);
    allocate(15, 0, 1000);
    ok(is_about(run("sim", 1), 5 * SECOND), "a recorded time that goes back is no wait, and shifts no later event");
    ok(all_of(replay.result.late.p99_ns < 1000, replay.result.allocations == 5), "nor does it count as late");
    replay_input_clear(&input);
    allocate(10, 0, 1000);
    run("sim", 1);
    ok(all_of(replay.result.late.most_ns < 1000, replay.result.live_mean_bytes < 0),
       "a replay of one event has no mean over the time");
    replay_input_clear(&input);
}

#define DECAY_TESTS 6

/* 64 MiB come and go within a second; then small blocks for ten seconds. */
static void
check_decay(void)
{
    uint32_t first;
    uint64_t kept;

    for (int i = 0; i < 8; i++)
        allocate(0.1 * i, 0, 8 * MIB);
    first = last - 7;
    for (uint32_t i = 0; i < 8; i++)
        release(1, 0, first + i);
    for (int i = 0; i < 100; i++) {
        allocate(1 + 0.1 * i, 0, 100);
        release(1.05 + 0.1 * i, 0, last);
    }
    run("pool(cache=0) | sim", 1);
    kept = reserved_bytes;
    ok(kept >= 56 * MIB, "without decay a pool keeps what is free");
    run("pool(cache=0, decay=1000) | sim", 0);
    ok(reserved_bytes == kept, "at 0 nothing decays");
    run("pool(cache=0, decay=1000) | sim", 1);
    ok(all_of(reserved_bytes < kept / 4, replay.result.reserved_mean_bytes < (double)kept),
       "at 1 what is free for a second decays");
    ok(all_of(is_about((int64_t)(replay.result.live_mean_bytes / MIB * 1e6), 3799087),
              replay.result.reserved_mean_bytes > replay.result.live_mean_bytes),
       "the mean of what is live is that over the recorded time, and less than that of what is reserved");
    run("pool(cache=0, decay=1000) | sim", 0.01);
    ok(reserved_bytes == kept, "at 0.01 the ten seconds are 0.1, in which nothing decays");
    run("pool(cache=0, decay=10) | sim", 0.01);
    ok(reserved_bytes < kept / 4, "at 0.01 a decay of 10 ms acts as one of a second at 1");
    replay_input_clear(&input);
}

int
main(void)
{
    plan(WAIT_TESTS + ORDER_TESTS + DECAY_TESTS);
    check_waits();
    check_order();
    check_decay();
    return done();
}
