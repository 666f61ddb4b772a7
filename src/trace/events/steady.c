/* Corrects the counter where it jumps. */
#include "config.h"

#include "src/trace/events/steady.h"

/* Whether a reading is so far off that the counter was set. */
static bool
steady_is_step(const struct tidei_clock_line *line, int64_t off, uint64_t elapsed_ns)
{
    double off_ns = (double)off * line->ns_per_tick;
    double allowed_ns = (double)TIDEI_STEADY_STEP_NS + (double)elapsed_ns / 16;

    return off_ns > allowed_ns || off_ns < -allowed_ns;
}

/* The corrected time of a reading of both clocks. */
static uint64_t
steady_take(struct tidei_steady *steady, struct tidei_clock_sample sample)
{
    struct tidei_ring_header *header = steady->header;
    const struct tidei_clock_line *line = tidei_ring_line(header);
    uint64_t now = sample.ticks + header->shift;

    if (steady->now_ns != 0) {
        uint64_t elapsed_ns = sample.ns > steady->now_ns ? sample.ns - steady->now_ns : 0;
        uint64_t due = steady->now + (uint64_t)((double)elapsed_ns / line->ns_per_tick);

        if (steady_is_step(line, (int64_t)(now - due), elapsed_ns)) {
            header->shift_before = header->shift;
            header->shift += due - now;
            now = due;
        }
    }
    /* A smaller step back: the latest time stays until the counter has come to it again. */
    steady->now = now > steady->now ? now : steady->now;
    steady->now_ns = sample.ns;
    return now;
}

uint64_t
tidei_steady_now(struct tidei_steady *steady)
{
    const struct tidei_clock_sample sample = { .ticks = tidei_clock_ticks(steady->tsc), .ns = tidei_monotonic_ns() };

    return steady_take(steady, sample);
}

struct tidei_clock_sample
tidei_steady_sample(struct tidei_steady *steady)
{
    struct tidei_clock_sample sample = tidei_clock_sample_now(steady->tsc);

    sample.ticks = steady_take(steady, sample);
    if (!steady->tsc)
        sample.ns = sample.ticks;
    return sample;
}

void
tidei_steady_differs(struct tidei_steady *steady, uint64_t ticks)
{
    if (ticks > steady->header->apart_ticks)
        steady->header->apart_ticks = ticks;
}
