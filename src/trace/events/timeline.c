/* Converts ticks to nanoseconds of a trace. */
#include "config.h"

#include <string.h>

#include "src/trace/events/timeline.h"

/* 146 years: only a damaged record has a later time, and a sum of two such times fits below 2^63. */
#define TIMELINE_NS_MAX ((uint64_t)1 << 62)

void
tidei_timeline_add(struct tidei_timeline *timeline, struct tidei_clock_line line)
{
    if (timeline->line.base.ticks < line.base.ticks) {
        memmove(&timeline->before[1], &timeline->before[0], sizeof(timeline->before) - sizeof(timeline->before[0]));
        timeline->before[0] = timeline->line;
        if (timeline->before_count < TIDEI_TIMELINE_LINES)
            timeline->before_count++;
    }
    timeline->line = line;
}

uint64_t
tidei_timeline_since_start(const struct tidei_timeline *timeline, uint64_t monotonic_ns)
{
    return monotonic_ns > timeline->start_ns ? monotonic_ns - timeline->start_ns : 0;
}

uint64_t
tidei_timeline_ns(const struct tidei_timeline *timeline, uint64_t ticks)
{
    const struct tidei_clock_line *line = &timeline->line;
    uint64_t ns;

    /* A tick has the same nanosecond in every half: else lifetimes at one address might overlap. */
    for (unsigned i = 0; ticks < line->base.ticks && i < timeline->before_count; i++)
        line = &timeline->before[i];
    ns = tidei_timeline_since_start(timeline, tidei_clock_ns(line, ticks));
    return ns < TIMELINE_NS_MAX ? ns : TIMELINE_NS_MAX;
}

uint64_t
tidei_timeline_ticks(const struct tidei_timeline *timeline, uint64_t ns)
{
    const struct tidei_clock_line *line = &timeline->line;

    ns += timeline->start_ns;
    for (unsigned i = 0; ns < line->base.ns && i < timeline->before_count; i++)
        line = &timeline->before[i];
    return tidei_clock_ticks_at(line, ns);
}
