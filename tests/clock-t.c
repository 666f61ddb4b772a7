/* Tests the conversion of ticks to nanoseconds: stable, ordered, and right to a microsecond over a day. */
#include <math.h>
#include <string.h>

#include "tap.h"
#include "trace.h"
#include "src/trace/ring/clock.h"
#include "src/trace/events/timeline.h"

/* A counter of about 2.4 GHz whose rate drifts over the day, in its own time. */
static uint64_t
true_ns(uint64_t ticks)
{
    double seconds = (double)ticks / 2.4e9;

    return (uint64_t)(seconds * 1e9 + 2000.0 * sin(seconds / 600.0) + 30.0 * seconds);
}

/* A reading of both clocks with a small error. */
static struct tidei_clock_sample
reading(uint64_t ticks, uint64_t *random)
{
    return (struct tidei_clock_sample){ .ticks = ticks, .ns = true_ns(ticks) + next_random(random) % 101 };
}

/* Add the line between two readings, as the writer does when it swaps the buffers. */
static void
go_on(struct tidei_timeline *timeline, struct tidei_clock_sample *last, struct tidei_clock_sample now)
{
    tidei_timeline_add(timeline, tidei_clock_line_between(*last, now, 1 / 2.4));
    *last = now;
}

static void
test_one_nanosecond(uint64_t *random)
{
    struct tidei_timeline timeline = { 0 };
    struct tidei_clock_sample last = { 0, 0 };
    uint64_t ticks[64], ns[64], out_of_order = 0, changed = 0;

    timeline.line = (struct tidei_clock_line){ .base = last, .ns_per_tick = 1 / 2.4 };
    for (int round = 0; round < 2000; round++) {
        uint64_t from = last.ticks;

        go_on(&timeline, &last, reading(from + 240000 + next_random(random) % 24000000, random));
        for (int i = 0; i < 64; i++) {
            ticks[i] = from + (last.ticks - from) / 64 * (uint64_t)i;
            ns[i] = tidei_timeline_ns(&timeline, ticks[i]);
            out_of_order += i > 0 && ns[i] < ns[i - 1];
        }
        /* The records of this time may be written with one of the next two buffers. */
        for (int later = 0; later < 2; later++) {
            struct tidei_timeline next = timeline;
            struct tidei_clock_sample then = last;

            for (int i = 0; i <= later; i++)
                go_on(&next, &then, reading(then.ticks + 2400000, random));
            for (int i = 0; i < 64; i++)
                changed += tidei_timeline_ns(&next, ticks[i]) != ns[i];
            out_of_order += tidei_timeline_ns(&next, last.ticks) < ns[63];
        }
    }
    is_u64(changed, 0, "a tick has the same nanosecond whichever buffer it is written with");
    is_u64(out_of_order, 0, "a later tick never has an earlier nanosecond");
}

/* A call that begins many transactions before it returns: its free has the nanosecond of the time at which it began. */
static void
test_long_call(uint64_t *random)
{
    struct tidei_timeline timeline = { 0 };
    struct tidei_clock_sample last = { 0, 0 };
    uint64_t ticks[64], ns[64], changed = 0, out_of_order = 0, worst = 0;

    timeline.line = (struct tidei_clock_line){ .base = last, .ns_per_tick = 1 / 2.4 };
    for (int i = 0; i < 64; i++) {
        ticks[i] = last.ticks + 1200000;
        go_on(&timeline, &last, reading(last.ticks + 2400000, random));
        ns[i] = tidei_timeline_ns(&timeline, ticks[i]);
    }
    for (int i = 0; i < 400; i++)
        go_on(&timeline, &last, reading(last.ticks + 2400000, random));
    for (int i = 0; i < 64; i++)
        changed += tidei_timeline_ns(&timeline, ticks[i]) != ns[i];
    is_u64(changed, 0, "four hundred transactions later a tick has the same nanosecond");
    for (int i = 0; i < 20000; i++)
        go_on(&timeline, &last, reading(last.ticks + 2400000, random));
    for (int i = 0; i < 64; i++) {
        uint64_t seen = tidei_timeline_ns(&timeline, ticks[i]);

        worst =
            (seen > ns[i] ? seen - ns[i] : ns[i] - seen) > worst ? (seen > ns[i] ? seen - ns[i] : ns[i] - seen) : worst;
        out_of_order += i > 0 && seen < tidei_timeline_ns(&timeline, ticks[i - 1]);
    }
    diag("at the worst %" PRIu64 " ns off", worst);
    ok(worst < 1000, "twenty thousand transactions later it is as near as over a day");
    is_u64(out_of_order, 0, "and ticks are in their order");
}

static void
test_a_day(uint64_t *random)
{
    struct tidei_timeline timeline = { 0 };
    struct tidei_clock_sample last = { 0, 0 };
    uint64_t worst = 0;

    timeline.line = (struct tidei_clock_line){ .base = last, .ns_per_tick = 1 / 2.4 };
    for (int round = 0; round < 2 * 86400; round++) {
        uint64_t from = last.ticks, at = from + next_random(random) % 1200000000, seen, due = true_ns(at);

        go_on(&timeline, &last, reading(from + 1200000000, random));
        seen = tidei_timeline_ns(&timeline, at);
        worst = (seen > due ? seen - due : due - seen) > worst ? (seen > due ? seen - due : due - seen) : worst;
    }
    diag("at the worst %" PRIu64 " ns off", worst);
    ok(worst < 1000, "over a day with a reading every half second, times are right to a microsecond");
}

static void
test_this_machine(void)
{
    struct tidei_clock_sample first, second;
    struct tidei_clock_line line;
    int64_t off;

    if (!tidei_clock_tsc_is_invariant()) {
        skip(2, "this machine has no invariant time stamp counter");
        return;
    }
    first = tidei_clock_sample_now(true);
    while (tidei_monotonic_ns() < first.ns + 50000000)
        ;
    second = tidei_clock_sample_now(true);
    line = tidei_clock_line_between(first, second, 1);
    ok(all_of(second.ticks > first.ticks, line.ns_per_tick > 0.1, line.ns_per_tick < 10), "a tick is %.4f ns here",
       line.ns_per_tick);
    off = (int64_t)(tidei_clock_ns(&line, second.ticks) - second.ns);
    ok(all_of(off >= -1, off <= 1), "a line goes through its two readings");
}

int
main(void)
{
    uint64_t random;

    plan(8);
    random = random_seed("CLOCK_SEED");
    test_one_nanosecond(&random);
    test_long_call(&random);
    test_a_day(&random);
    test_this_machine();
    return done();
}
