/* Converts ticks to nanoseconds of a trace. */
#include "config.h"

#include <string.h>

#include "src/trace/events/timeline.h"

/* 146 years: only a damaged record has a later time, and a sum of two such times fits below 2^63. */
#define TIMELINE_NS_MAX ((uint64_t)1 << 62)

/*
 * Replace every two lines of the older half by one, from where the earlier begins to where the later ends. A tick of
 * that time may get another nanosecond, by no more than the noise of a reading. Without the oldest line, a tick from
 * before all lines would get a nanosecond of another line's slope: the lives of an address then overlapped.
 */
static void
timeline_thin_out(struct tidei_timeline *timeline)
{
    struct tidei_clock_line *lines = timeline->before;
    unsigned kept = TIDEI_TIMELINE_LINES / 2;

    for (unsigned i = kept; i < TIDEI_TIMELINE_LINES; i += 2)
        lines[kept++] = tidei_clock_line_between(lines[i + 1].base, lines[i - 1].base, lines[i + 1].ns_per_tick);
    timeline->before_count = kept;
}

void
tidei_timeline_add(struct tidei_timeline *timeline, struct tidei_clock_line line)
{
    if (timeline->line.base.ticks < line.base.ticks) {
        if (timeline->before_count == TIDEI_TIMELINE_LINES)
            timeline_thin_out(timeline);
        memmove(&timeline->before[1], &timeline->before[0], timeline->before_count * sizeof(timeline->before[0]));
        timeline->before[0] = timeline->line;
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

    if (ticks == TIDEI_TICKS_BEFORE)
        return 0;
    /* A tick has the same nanosecond in every buffer: else lifetimes at one address might overlap. */
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
