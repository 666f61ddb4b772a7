/* The rare cases of capturing driver calls: an event's second and later calls, and nested logs that wait. */
#include "config.h"

#include <stddef.h>
#include <stdlib.h>

#include "src/tables/grow.h"
#include "src/trace/ring/capture.h"

/* So many calls need no memory of their own; so many more keep it when the event ends. */
#define CAPTURE_FEW  16
#define CAPTURE_KEEP 256

/* Upper bound of nested waiting logs: for each trace, the lowest log that a call passes through waits. */
#define CAPTURE_WAITS_MOST 8

/* A waiting log nested in others. */
struct capture_wait {
    const struct tidei_session *session; /* never dereferenced */
    uint32_t first;                      /* of the calls that came after it began */
};

struct tidei_call_more {
    struct tidei_call_part few[CAPTURE_FEW - 1];   /* the calls behind the first */
    struct tidei_call_part *many;                  /* owned; those behind the few */
    size_t many_capacity, taken_capacity;          /* of `many`, `many_taken` */
    unsigned seen;                                 /* of all calls: they have their `taken` */
    uint8_t few_taken[CAPTURE_FEW];                /* a bit for each wait that has one of its trace within it */
    uint8_t *many_taken;                           /* owned */
    struct capture_wait waits[CAPTURE_WAITS_MOST]; /* the outermost one is not here */
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

static uint8_t *
capture_taken(struct tidei_call_more *more, uint32_t call)
{
    return call < CAPTURE_FEW ? &more->few_taken[call] : &more->many_taken[call - CAPTURE_FEW];
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
        slot->count = wait.first; /* there is no other trace */
    if (more->seen > slot->count)
        more->seen = slot->count;
    for (; more->seen < slot->count; more->seen++)
        *capture_taken(more, more->seen) = 0;
    for (uint32_t i = wait.first; i < slot->count; i++)
        *capture_taken(more, i) |= same;
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
        tidei_call_capture_shrink(slot);
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

/* Make room for one more call; NULL without host memory. */
static struct tidei_call_part *
capture_new(struct tidei_call_capture *slot)
{
    struct tidei_call_more *more = slot->count != 0 ? capture_more(slot) : NULL;
    size_t behind;

    if (slot->count == 0)
        return &slot->first;
    if (more == NULL || slot->count == UINT32_MAX)
        return NULL;
    if (slot->count < CAPTURE_FEW)
        return &more->few[slot->count - 1];
    behind = slot->count - CAPTURE_FEW;
    if (!tidei_grow(&more->many, &more->many_capacity, behind, 1) ||
        !tidei_grow(&more->many_taken, &more->taken_capacity, behind, 1))
        return NULL;
    return &more->many[behind];
}

bool
tidei_call_capture_add(struct tidei_call_capture *slot, const struct tidei_call_part *call)
{
    struct tidei_call_part *place = capture_new(slot);

    if (place == NULL)
        return false;
    *place = *call;
    slot->count++;
    return true;
}

bool
tidei_call_capture_next(const struct tidei_call_capture *slot, uint32_t *position, struct tidei_call_part *out)
{
    bool within = (slot->armed & TIDEI_CALL_WITHIN) != 0 && slot->more != NULL;
    unsigned level = capture_levels(slot) - 1;
    struct tidei_call_more *more = slot->more;
    uint32_t i;

    if (level >= capture_known(slot))
        return false;
    i = capture_wait(slot, level).first;
    for (i = *position > i ? *position : i; i < slot->count; i++) {
        if (within && i < more->seen && (*capture_taken(more, i) & 1u << level) != 0)
            continue;
        *out = i == 0 ? slot->first : i < CAPTURE_FEW ? more->few[i - 1] : more->many[i - CAPTURE_FEW];
        *position = i + 1;
        return true;
    }
    return false;
}

uint32_t
tidei_call_capture_count(const struct tidei_call_capture *slot)
{
    uint32_t position = 0, count = 0;
    struct tidei_call_part ignored;

    if (slot->armed == 1)
        return slot->count;
    while (tidei_call_capture_next(slot, &position, &ignored))
        count++;
    return count;
}

void
tidei_call_capture_shrink(struct tidei_call_capture *slot)
{
    struct tidei_call_more *more = slot->more;

    if (more == NULL || more->many_capacity <= CAPTURE_KEEP)
        return;
    free(more->many);
    free(more->many_taken);
    more->many = NULL;
    more->many_taken = NULL;
    more->many_capacity = more->taken_capacity = 0;
}

void
tidei_call_capture_forget(void)
{
    struct tidei_call_capture *slot = tidei_call_capture(tidei_thread);

    slot->armed = 0;
    slot->count = 0;
    if (slot->more != NULL) {
        free(slot->more->many);
        free(slot->more->many_taken);
    }
    free(slot->more);
    slot->more = NULL;
}
