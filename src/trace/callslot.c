/* Logs that wait for the driver's calls one within the other: each trace has a call once, with its lowest log. */
#include "config.h"

#include "trace/callslot.h"

TIDEI_TLS struct tidei_call_slot tidei_call_slot;

_Static_assert(TIDEI_CALL_WAITS_MOST <= 16, "each wait has a bit of `taken`");

/* How many waits the slot knows of. */
static unsigned
callslot_known(const struct tidei_call_slot *slot)
{
    return slot->armed < TIDEI_CALL_WAITS_MOST ? slot->armed : TIDEI_CALL_WAITS_MOST;
}

/* A wait, the outermost one as 0. */
static struct tidei_call_wait
callslot_wait(const struct tidei_call_slot *slot, unsigned level)
{
    return level != 0 ? slot->waits[level] : (struct tidei_call_wait){ slot->recorder, 0 };
}

void
tidei_call_slot_arm_within(struct tidei_call_slot *slot, const struct tidei_recorder *recorder)
{
    if (slot->within == 0)
        slot->seen = 0;
    slot->within = 1;
    if (slot->armed < TIDEI_CALL_WAITS_MOST)
        slot->waits[slot->armed] = (struct tidei_call_wait){ recorder, slot->count };
    slot->armed++;
    slot->depth = 0;
}

/* The calls stay for the logs around this one, but for those of the same trace. */
void
tidei_call_slot_disarm_within(struct tidei_call_slot *slot)
{
    unsigned level = --slot->armed;
    struct tidei_call_wait wait;
    uint16_t same = 0;

    if (level >= TIDEI_CALL_WAITS_MOST)
        return;
    wait = slot->waits[level];
    for (unsigned i = 0; i < level; i++) {
        if (callslot_wait(slot, i).recorder == wait.recorder)
            same |= (uint16_t)(1u << i);
    }
    if (same == (1u << level) - 1)
        slot->count = wait.first; /* there is no other trace */
    if (slot->seen > slot->count)
        slot->seen = slot->count;
    for (; slot->seen < slot->count; slot->seen++)
        slot->taken[slot->seen] = 0;
    for (unsigned i = wait.first; i < slot->count; i++)
        slot->taken[i] |= same;
}

bool
tidei_call_slot_waits(const struct tidei_call_slot *slot, const struct tidei_recorder *recorder)
{
    unsigned known = callslot_known(slot);

    for (unsigned i = 0; i < known; i++) {
        if (callslot_wait(slot, i).recorder == recorder)
            return true;
    }
    return false;
}

unsigned
tidei_call_slot_take(const struct tidei_call_slot *slot, struct tidei_call_part out[TIDEI_CALLS_MOST])
{
    unsigned level = slot->armed - 1, count = 0;

    if (level >= TIDEI_CALL_WAITS_MOST)
        return 0;
    for (unsigned i = callslot_wait(slot, level).first; i < slot->count; i++) {
        if (i >= slot->seen || (slot->taken[i] & 1u << level) == 0)
            out[count++] = slot->calls[i];
    }
    return count;
}
