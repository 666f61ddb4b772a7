/*
 * The clock as the merge sees it: a counter that jumps is put right, and what processors' counters differ by is noted.
 *
 * Threads record what the counter says. The ticks of the backlog are corrected: they go on where the counter was set
 * back or forward, by a suspended machine or a restored checkpoint, and CLOCK_MONOTONIC says by how much.
 */
#ifndef TIDEI_TRACE_EVENTS_STEADY_H
#define TIDEI_TRACE_EVENTS_STEADY_H

#include <stdbool.h>
#include <stdint.h>

#include "src/trace/ring/ringfile.h"

/* A counter that is off CLOCK_MONOTONIC by more than this, and a sixteenth of the time since, was set. */
#define TIDEI_STEADY_STEP_NS 1000000000u

struct tidei_steady {
    struct tidei_ring_header *header; /* borrowed; has the correction, which a recovery needs, too */
    bool tsc;
    uint64_t now;    /* the latest corrected reading; of a recovery the tick of the last merged record */
    uint64_t now_ns; /* and when that was; 0: no reading yet */
};

/* The corrected time now. Called by the writer alone. */
uint64_t tidei_steady_now(struct tidei_steady *steady);

/* Both clocks, the counter corrected. */
struct tidei_clock_sample tidei_steady_sample(struct tidei_steady *steady);

/* The correction of a tick that a thread has recorded. After a step, that of the time before it may be the nearer. */
static inline uint64_t
tidei_steady_shift(const struct tidei_steady *steady, uint64_t ticks)
{
    const struct tidei_ring_header *header = steady->header;
    uint64_t off, off_before;

    if (__builtin_expect(header->shift == header->shift_before, 1) || steady->now == 0)
        return header->shift;
    off = ticks + header->shift - steady->now;
    off_before = ticks + header->shift_before - steady->now;
    off = (int64_t)off < 0 ? -off : off;
    off_before = (int64_t)off_before < 0 ? -off_before : off_before;
    return off <= off_before ? header->shift : header->shift_before;
}

/* Two processors' counters differ by so many ticks: a reading was seen that cannot be otherwise. */
void tidei_steady_differs(struct tidei_steady *steady, uint64_t ticks);

#endif
