/*
 * Tests that device events lie within the calls that made them, whatever the clock does: it is set back and forward
 * while a program allocates. On the fake driver only.
 */
#include "config.h"

#include <stdatomic.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "src/sync/testpoint.h"
#include "src/trace/ring/clock.h"
#include "tests/tap.h"
#include "tests/trace.h"

#if defined(HAVE_CUPTI_H) && TIDEI_HAVE_TSC

#define HOUR_NS INT64_C(3600000000000)
#define PAIRS   50

static _Atomic int64_t off_ticks;
static double ticks_per_ns;

static uint64_t
faulty_clock(void)
{
    return __rdtsc() + (uint64_t)atomic_load(&off_ticks);
}

static void
calibrate(void)
{
    struct tidei_clock_sample first = tidei_clock_sample_now(true), second;

    usleep(20000);
    second = tidei_clock_sample_now(true);
    ticks_per_ns = (double)(second.ticks - first.ticks) / (double)(second.ns - first.ns);
}

static void
work(struct tide_resource *stack)
{
    for (int i = 0; i < PAIRS; i++)
        give(stack, take(stack, 4096), 4096);
}

#define STEP_TESTS 4

static void
test_step(int64_t step_ns, const char *what)
{
    const char *path = scratch("step%d.db", step_ns > 0);
    struct tide_resource *stack;

    atomic_store(&off_ticks, 0);
    atomic_store(&tidei_test_clock, faulty_clock);
    alarm(60);
    stack = stack_of("log(%s, cupti=memory, clock=tsc) | driver", path);
    work(stack);
    tide_log_flush(stack);
    atomic_store(&off_ticks, (int64_t)((double)step_ns * ticks_per_ns));
    tide_log_flush(stack); /* the writer sees the step before CUPTI hands over what comes now */
    work(stack);
    tide_log_flush(stack);
    work(stack);
    tide_resource_release(stack);
    alarm(0);
    atomic_store(&tidei_test_clock, NULL);
    ok(trace_is_whole(path), "the clock is set %s: the trace is whole", what);
    is_i64(sql_number(path, "SELECT count(*) FROM device_event JOIN allocation USING (allocation_id)"
                            " WHERE device_event.bytes = 4096"),
           2 * 3 * PAIRS, "each allocation and each release has its device event");
    is_i64(sql_number(path, "SELECT count(*) FROM device_event AS e JOIN driver_call AS c USING (correlation) WHERE"
                            " e.allocation_id IS NOT NULL AND e.ns NOT BETWEEN c.start_ns - 1000 AND"
                            " c.start_ns + c.duration_ns + 1000"),
           0, "device events lie within their calls");
    ok(sql_number(path, "SELECT max(ns) FROM device_event") <
           sql_number(path, "SELECT value FROM meta WHERE key = 'end_ns'") + 2000000000,
       "no device event is later than the end of the recording by more than two seconds");
}

int
main(void)
{
    if (!tidei_clock_tsc_is_trusted())
        skip_all("the time stamp counter cannot be used here, and no other clock is ever set");
    calibrate();
    plan(2 * STEP_TESTS);
    test_step(-HOUR_NS, "back by an hour");
    test_step(HOUR_NS, "forward by an hour");
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUPTI, or no time stamp counter");
}

#endif
