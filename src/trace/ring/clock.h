/* The clock of a trace: ticks on the calling thread, nanoseconds in the file. */
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

/* One moment on both clocks. */
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

/* Now, in ticks: of the TSC, or nanoseconds. */
static inline uint64_t
tidei_clock_ticks(bool tsc)
{
#if TIDEI_HAVE_TSC
    if (tsc)
        return __rdtsc();
#endif
    (void)tsc;
#ifdef TIDEI_TEST_POINTS
    tidei_test_clock_function clock = atomic_load_explicit(&tidei_test_clock, memory_order_relaxed);

    if (clock != NULL)
        return clock();
#endif
    return tidei_monotonic_ns();
}

/*
 * Wait until all that stands before has been done, as far as this thread can see: the processor reads the TSC out of
 * order otherwise, before an upstream's lock was taken or a pointer was received from another thread (Intel SDM vol. 2,
 * RDTSC; 40 cycles too early were measured, and some lives of one address that overlapped). 6 to 10 ns on an EPYC.
 */
static inline void
tidei_clock_settle(void)
{
#if TIDEI_HAVE_TSC
    _mm_lfence();
#endif
}

/*
 * Now, in ticks, where no other thread may see it earlier than what this one has seen of others: clock_gettime is so.
 */
static inline uint64_t
tidei_clock_ticks_settled(bool tsc)
{
    if (tsc)
        tidei_clock_settle();
    return tidei_clock_ticks(tsc);
}

/* The TSC of this machine runs at one rate on all cores, through sleep states too. */
bool tidei_clock_tsc_is_invariant(void);

/* Read both clocks as close together as can be had: the best of a few tries. */
struct tidei_clock_sample tidei_clock_sample_now(bool tsc);

/*
 * A straight line through samples: ns = base.ns + (ticks - base.ticks) * ns_per_tick. Lines from one sample to the
 * next make a clock that is continuous, monotone, and right to the noise of a sample however long the trace.
 */
struct tidei_clock_line {
    struct tidei_clock_sample base;
    double ns_per_tick;
};

/* The line from one sample to a later one; that of `fallback` where they are one moment. */
struct tidei_clock_line tidei_clock_line_between(struct tidei_clock_sample from, struct tidei_clock_sample to,
                                                 double fallback_ns_per_tick);

/* A number of ticks, which may be negative, in nanoseconds; what a damaged record names stays within 73 years. */
static inline int64_t
tidei_clock_duration_ns(const struct tidei_clock_line *line, int64_t ticks)
{
    double ns = (double)ticks * line->ns_per_tick;

    return ns < 0x1p61 ? (int64_t)(ns > -0x1p61 ? ns : -0x1p61) : INT64_C(1) << 61;
}

/* The moment of a tick on CLOCK_MONOTONIC; 0 for one before that began. */
static inline uint64_t
tidei_clock_ns(const struct tidei_clock_line *line, uint64_t ticks)
{
    int64_t ns = (int64_t)line->base.ns + tidei_clock_duration_ns(line, (int64_t)(ticks - line->base.ticks));

    return ns > 0 ? (uint64_t)ns : 0;
}

/* The tick at a moment of CLOCK_MONOTONIC, rounded down; 0 for one before the first. */
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
