/*
 * Converts ticks to nanoseconds of a trace. Each filling of a buffer of the backlog has a straight line between two
 * readings of both clocks. The lines are consecutive, so a tick has the same nanosecond whenever it is converted.
 */
#ifndef TIDEI_TRACE_EVENTS_TIMELINE_H
#define TIDEI_TRACE_EVENTS_TIMELINE_H

#include <stdint.h>

#include "src/trace/ring/clock.h"

/*
 * Number of earlier lines kept: a call may begin many transactions before it returns. Its thread may lose the processor
 * for 50 ms, in which a program that flushes all the time ends 50 transactions.
 */
#define TIDEI_TIMELINE_LINES 1024

/* The tick of what was there before the trace began; its nanosecond is 0. No clock reads it. */
#define TIDEI_TICKS_BEFORE 0

/* Initialize to zeros, but for `start_ns` and the first `line`. */
struct tidei_timeline {
    uint64_t start_ns;                                    /* of CLOCK_MONOTONIC: nanosecond 0 of the trace */
    struct tidei_clock_line line;                         /* of the buffer that is being written */
    struct tidei_clock_line before[TIDEI_TIMELINE_LINES]; /* the latest first */
    unsigned before_count;
};

/* Use `line` for ticks from its base on; earlier ticks keep their line. */
void tidei_timeline_add(struct tidei_timeline *timeline, struct tidei_clock_line line);

/* The nanosecond of the trace for a tick, or for a CLOCK_MONOTONIC time; 0 before the trace began. */
uint64_t tidei_timeline_ns(const struct tidei_timeline *timeline, uint64_t ticks);
uint64_t tidei_timeline_since_start(const struct tidei_timeline *timeline, uint64_t monotonic_ns);

/* The tick at a nanosecond of the trace, rounded down. */
uint64_t tidei_timeline_ticks(const struct tidei_timeline *timeline, uint64_t ns);

/* A duration in nanoseconds, by the line of the buffer being written; 0 if a damaged record makes it negative. */
static inline uint64_t
tidei_timeline_duration_ns(const struct tidei_timeline *timeline, uint64_t ticks)
{
    int64_t ns = tidei_clock_duration_ns(&timeline->line, (int64_t)ticks);

    return ns > 0 ? (uint64_t)ns : 0;
}

#endif
