/* The rare cases of capturing driver calls: an event's second and later calls, and nested logs that wait. */
#include "config.h"

#include <stddef.h>
#include <stdlib.h>

#include "src/trace/ring/capture.h"

/* Upper bound of nested waiting logs: for each trace, the lowest log that a call passes through waits. */
#define CAPTURE_WAITS_MOST 8

/* A waiting log nested in others. */
struct capture_wait {
    const struct tidei_session *session; /* never dereferenced */
    unsigned first;                      /* of the calls that came after it began */
};

struct tidei_call_more {
    struct tidei_call_part calls[TIDEI_CALLS_MOST - 1]; /* behind the first */
    unsigned seen;                                      /* of all calls: they have their `taken` */
    uint8_t taken[TIDEI_CALLS_MOST];                    /* a bit for each wait that has one of its trace within it */
    struct capture_wait waits[CAPTURE_WAITS_MOST];      /* the outermost one is not here */
};

_Static_assert(offsetof(struct tidei_call_capture, entered) == 64, "what every event needs is one cache line");
_Static_assert(CAPTURE_WAITS_MOST <= 8, "each wait has a bit of `taken`");

/* NULL without host memory. */
static struct tidei_call_more *
capture_more(struct tidei_call_capture *slot)
{
    if (slot->more == NULL)
        slot->more = calloc(1, sizeof(*slot->more));
    return slot->more;
}

static unsigned
capture_levels(const struct tidei_call_capture *slot)
{
    return slot->armed & (TIDEI_CALL_WITHIN - 1);
}

/* A stored wait; level 0 is the outermost one. */
static struct capture_wait
capture_wait(const struct tidei_call_capture *slot, unsigned level)
{
    return level != 0 ? slot->more->waits[level] : (struct capture_wait){ slot->session, 0 };
}

/* How many waits are stored; the calls of deeper ones belong to no log. */
static unsigned
capture_known(const struct tidei_call_capture *slot)
{
    unsigned levels = capture_levels(slot);

    if (slot->more == NULL)
        return levels != 0;
    return levels < CAPTURE_WAITS_MOST ? levels : CAPTURE_WAITS_MOST;
}

void
tidei_call_capture_arm_within(struct tidei_call_capture *slot, const struct tidei_session *session)
{
    struct tidei_call_more *more = capture_more(slot);
    unsigned level = capture_levels(slot);

    if (more != NULL && (slot->armed & TIDEI_CALL_WITHIN) == 0)
        more->seen = 0;
    if (more != NULL && level < CAPTURE_WAITS_MOST)
        more->waits[level] = (struct capture_wait){ session, slot->count };
    slot->armed = (slot->armed | TIDEI_CALL_WITHIN) + 1;
    slot->depth = 0;
}

/* Leave the calls of the innermost wait to those around it, except to waits of the same trace. */
static void
capture_pass_on(struct tidei_call_capture *slot, unsigned level)
{
    struct tidei_call_more *more = slot->more;
    struct capture_wait wait = capture_wait(slot, level);
    uint8_t same = 0;

    for (unsigned i = 0; i < level; i++) {
        if (capture_wait(slot, i).session == wait.session)
            same |= (uint8_t)(1u << i);
    }
    if (same == (1u << level) - 1)
        slot->count = (uint16_t)wait.first; /* there is no other trace */
    if (more->seen > slot->count)
        more->seen = slot->count;
    for (; more->seen < slot->count; more->seen++)
        more->taken[more->seen] = 0;
    for (unsigned i = wait.first; i < slot->count; i++)
        more->taken[i] |= same;
}

void
tidei_call_capture_disarm_within(struct tidei_call_capture *slot)
{
    unsigned level = capture_levels(slot) - 1;

    if (capture_levels(slot) == 0)
        return; /* forgotten */
    if (level == 0) {
        slot->armed = 0;
        slot->count = 0;
        return;
    }
    if (level < capture_known(slot))
        capture_pass_on(slot, level);
    slot->armed--;
}

bool
tidei_call_capture_waits(const struct tidei_call_capture *slot, const struct tidei_session *session)
{
    unsigned known = capture_known(slot);

    for (unsigned i = 0; i < known; i++) {
        if (capture_wait(slot, i).session == session)
            return true;
    }
    return false;
}

bool
tidei_call_capture_add(struct tidei_call_capture *slot, const struct tidei_call_part *call)
{
    if (slot->count == 0) {
        slot->first = *call;
    } else {
        if (slot->count == TIDEI_CALLS_MOST || capture_more(slot) == NULL)
            return false;
        slot->more->calls[slot->count - 1] = *call;
    }
    slot->count++;
    return true;
}

unsigned
tidei_call_capture_take(const struct tidei_call_capture *slot, struct tidei_call_part out[TIDEI_CALLS_MOST])
{
    bool within = (slot->armed & TIDEI_CALL_WITHIN) != 0 && slot->more != NULL;
    unsigned level = capture_levels(slot) - 1, count = 0;

    if (level >= capture_known(slot))
        return 0;
    for (unsigned i = capture_wait(slot, level).first; i < slot->count; i++) {
        if (!within || i >= slot->more->seen || (slot->more->taken[i] & 1u << level) == 0)
            out[count++] = i == 0 ? slot->first : slot->more->calls[i - 1];
    }
    return count;
}

void
tidei_call_capture_forget(void)
{
    struct tidei_call_capture *slot = tidei_call_capture(tidei_thread);

    slot->armed = 0;
    slot->count = 0;
    free(slot->more);
    slot->more = NULL;
}
