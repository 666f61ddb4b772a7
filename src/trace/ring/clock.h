/* The clock of a trace: threads record ticks, the trace file has nanoseconds. */
#ifndef TIDEI_TRACE_RING_CLOCK_H
#define TIDEI_TRACE_RING_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "src/sync/testpoint.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#define TIDEI_HAVE_TSC 1
#else
#define TIDEI_HAVE_TSC 0
#endif

/* One moment, read on both clocks. */
struct tidei_clock_sample {
    uint64_t ticks;
    uint64_t ns; /* CLOCK_MONOTONIC */
};

static inline uint64_t
tidei_monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The time now, in TSC ticks or, without `tsc`, in nanoseconds. */
static inline uint64_t
tidei_clock_ticks(bool tsc)
{
#ifdef TIDEI_TEST_POINTS
    tidei_test_clock_function clock = atomic_load_explicit(&tidei_test_clock, memory_order_relaxed);

    if (clock != NULL)
        return clock();
#endif
#if TIDEI_HAVE_TSC
    if (tsc)
        return __rdtsc();
#endif
    (void)tsc;
    return tidei_monotonic_ns();
}

/*
 * Wait until all earlier instructions have completed. Otherwise the processor may read the TSC out of order, before an
 * upstream took its lock or before a pointer arrived from another thread (Intel SDM vol. 2, RDTSC). Readings 40 cycles
 * too early were measured, with overlapping lifetimes at one address. Costs 6 to 10 ns on an EPYC.
 */
static inline void
tidei_clock_serialize(void)
{
#if TIDEI_HAVE_TSC
    _mm_lfence();
#endif
}

/* The time now, never earlier than times from other threads that this thread has seen. clock_gettime ensures that. */
static inline uint64_t
tidei_clock_ticks_ordered(bool tsc)
{
    if (tsc)
        tidei_clock_serialize();
    return tidei_clock_ticks(tsc);
}

/* Whether this machine's TSC runs at one rate on all cores, in sleep states, too. The processor says so. */
bool tidei_clock_tsc_is_invariant(void);

/*
 * Whether the kernel keeps its own time by the TSC. It does where its checks of rate and of the differences between
 * processors have passed, which the processor's word says nothing about. False where the kernel does not tell.
 */
bool tidei_clock_tsc_is_trusted(void);

/* Read both clocks as close together as possible: the best of a few tries. */
struct tidei_clock_sample tidei_clock_sample_now(bool tsc);

/*
 * A straight line through two samples: ns = base.ns + (ticks - base.ticks) * ns_per_tick. Lines from each sample to the
 * next make a clock that is continuous, monotone, and exact to the noise of one sample for any length of trace.
 */
struct tidei_clock_line {
    struct tidei_clock_sample base;
    double ns_per_tick;
};

/* The line from one sample to a later one; its slope is the fallback if both samples are the same moment. */
struct tidei_clock_line tidei_clock_line_between(struct tidei_clock_sample from, struct tidei_clock_sample to,
                                                 double fallback_ns_per_tick);

/* Convert a duration in ticks, possibly negative, to nanoseconds; clamped to 73 years for damaged records. */
static inline int64_t
tidei_clock_duration_ns(const struct tidei_clock_line *line, int64_t ticks)
{
    double ns = (double)ticks * line->ns_per_tick;

    return ns < 0x1p61 ? (int64_t)(ns > -0x1p61 ? ns : -0x1p61) : INT64_C(1) << 61;
}

/* The CLOCK_MONOTONIC time of a tick; 0 for a tick before that clock began. */
static inline uint64_t
tidei_clock_ns(const struct tidei_clock_line *line, uint64_t ticks)
{
    int64_t ns = (int64_t)line->base.ns + tidei_clock_duration_ns(line, (int64_t)(ticks - line->base.ticks));

    return ns > 0 ? (uint64_t)ns : 0;
}

/* The tick at a CLOCK_MONOTONIC time, rounded down; 0 for a time before tick 0. */
static inline uint64_t
tidei_clock_ticks_at(const struct tidei_clock_line *line, uint64_t ns)
{
    double ticks = (double)(int64_t)(ns - line->base.ns) / line->ns_per_tick;
    uint64_t back;

    if (ticks >= 0)
        return line->base.ticks + (ticks < 0x1p61 ? (uint64_t)ticks : UINT64_C(1) << 61);
    back = ticks > -0x1p61 ? (uint64_t)-ticks + 1 : UINT64_C(1) << 61;
    return back < line->base.ticks ? line->base.ticks - back : 0;
}

#endif
