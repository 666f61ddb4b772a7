/*
 * Turns ticks into nanoseconds of a trace. Each half of the backlog has a straight line between two readings of both
 * clocks; the lines follow each other, so that a tick has one nanosecond whichever half it is written with.
 */
#ifndef TIDEI_TRACE_EVENTS_TIMELINE_H
#define TIDEI_TRACE_EVENTS_TIMELINE_H

#include <stdint.h>

#include "src/trace/ring/clock.h"

/* How many earlier lines are kept: a call may have begun some halves before it returned. */
#define TIDEI_TIMELINE_LINES 16

/* All zeros, but for `start_ns` and the first `line`, is a timeline. */
struct tidei_timeline {
    uint64_t start_ns;                                    /* of CLOCK_MONOTONIC: nanosecond 0 of the trace */
    struct tidei_clock_line line;                         /* of the half that is being written */
    struct tidei_clock_line before[TIDEI_TIMELINE_LINES]; /* the latest first */
    unsigned before_count;
};

/* From its base on, ticks have this line; before it, the line that they had. */
void tidei_timeline_add(struct tidei_timeline *timeline, struct tidei_clock_line line);

/* The trace's nanosecond of a tick, and of a moment of CLOCK_MONOTONIC; 0 for what was before the trace began. */
uint64_t tidei_timeline_ns(const struct tidei_timeline *timeline, uint64_t ticks);
uint64_t tidei_timeline_since_start(const struct tidei_timeline *timeline, uint64_t monotonic_ns);

/* The tick at a nanosecond of the trace, rounded down. */
uint64_t tidei_timeline_ticks(const struct tidei_timeline *timeline, uint64_t ns);

/* How long `ticks` take on the line of the half that is being written; 0 for what a damaged record makes negative. */
static inline uint64_t
tidei_timeline_duration_ns(const struct tidei_timeline *timeline, uint64_t ticks)
{
    int64_t ns = tidei_clock_duration_ns(&timeline->line, (int64_t)ticks);

    return ns > 0 ? (uint64_t)ns : 0;
}

#endif
