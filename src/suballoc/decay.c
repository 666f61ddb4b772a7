/* Knows how much memory a heap has needed lately; see decay.h. */
#include "src/suballoc/decay.h"

#include <string.h>
#include <time.h>

/* Beside what was needed this share of it stays, as free memory is never all where it is needed. */
#define DECAY_SLACK_SHARE 16

static uint64_t
decay_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now); /* some nanoseconds; a tick of it is short beside a window */
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void
tidei_decay_init(struct tidei_decay *decay, uint64_t decay_ms)
{
    memset(decay, 0, sizeof(*decay));
    decay->window_ns = decay_ms * 1000000 / TIDEI_DECAY_WINDOWS;
    if (decay->window_ns != 0)
        decay->end_ns = decay_now_ns() + decay->window_ns;
}

/* End this window, and those that have passed since without a call, in which as much was in use as now. */
static void
decay_end_windows(struct tidei_decay *decay, uint64_t now_ns, uint64_t used_bytes)
{
    uint64_t passed = 1 + (now_ns - decay->end_ns) / decay->window_ns;

    decay->end_ns += passed * decay->window_ns;
    for (uint64_t i = 0; i < passed && i <= TIDEI_DECAY_WINDOWS; i++) {
        decay->at = (decay->at + 1) % (TIDEI_DECAY_WINDOWS + 1);
        decay->needed[decay->at] = used_bytes;
    }
}

uint64_t
tidei_decay_note(struct tidei_decay *decay, uint64_t used_bytes, uint64_t held_bytes)
{
    uint64_t now_ns = decay_now_ns(), needed = 0;

    decay->now_ns = now_ns;
    if (decay->needed[decay->at] < used_bytes)
        decay->needed[decay->at] = used_bytes;
    if (now_ns < decay->end_ns)
        return 0;
    decay_end_windows(decay, now_ns, used_bytes);
    for (unsigned i = 0; i <= TIDEI_DECAY_WINDOWS; i++)
        needed = needed > decay->needed[i] ? needed : decay->needed[i];
    needed += needed / DECAY_SLACK_SHARE;
    return held_bytes > needed ? held_bytes - needed : 0;
}
