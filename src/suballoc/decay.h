/*
 * How much memory a heap has needed lately, so that what was not needed for some time can be returned.
 *
 * Time is cut into windows, each a share of the decay time. The most bytes in use in any of the latest windows are
 * needed: a load that comes again within the decay time loses nothing. Of the rest a half goes at the end of each
 * window, so a heap does not swing between returning and requesting. No locks: the caller holds one.
 */
#ifndef TIDEI_SUBALLOC_DECAY_H
#define TIDEI_SUBALLOC_DECAY_H

#include <stdbool.h>
#include <stdint.h>

#define TIDEI_DECAY_WINDOWS 8

/* How often in a window memory is looked at that went back, and that streams may still use. */
#define TIDEI_DECAY_LOOKS 16

struct tidei_decay {
    uint64_t window_ns;                       /* 0: nothing decays */
    uint64_t end_ns;                          /* of this window */
    uint64_t needed[TIDEI_DECAY_WINDOWS + 1]; /* the most bytes in use in each; this window's is `needed[at]` */
    unsigned at;
    uint64_t now_ns;  /* at the last tidei_decay_note */
    uint64_t look_ns; /* from when on it is looked at again */
};

/* Memory may be returned that was not needed for `decay_ms`; 0: never. */
void tidei_decay_init(struct tidei_decay *decay, uint64_t decay_ms);

/*
 * Note the bytes in use now, of `held_bytes`. The result is how many bytes are not needed, of which a half goes now: 0
 * but at the end of a window.
 */
uint64_t tidei_decay_note(struct tidei_decay *decay, uint64_t used_bytes, uint64_t held_bytes);

/* Whether, at the last tidei_decay_note, the last look was a share of a window ago. */
static inline bool
tidei_decay_looks(const struct tidei_decay *decay)
{
    return decay->now_ns >= decay->look_ns;
}

/* This is a look. */
static inline void
tidei_decay_looked(struct tidei_decay *decay)
{
    decay->look_ns = decay->now_ns + decay->window_ns / TIDEI_DECAY_LOOKS;
}

#endif
