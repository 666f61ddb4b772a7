/* What a ledger lends, gets back and grants: all of it with the lock. */
#include "src/account/leases.h"

/* A lease is for so many allocations as the one that it was given with, at least; and what is given back keeps half. */
#define LEASE_LEAST 4
#define LEASE_MOST  16

bool
tidei_ledger_is_exact(const struct tidei_ledger *ledger, const struct tidei_ledger_slot *mine)
{
    return ledger->lessee_count == 0 || (ledger->lessee_count == 1 && ledger->lessee == mine);
}

/* Call the lease of one slot in. Its thread waits, is the caller, or is kept out. */
static void
ledger_call_in_one(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot)
{
    ledger->headroom.bytes += slot->lease.bytes;
    ledger->headroom.count += slot->lease.count;
    ledger->total.bytes += slot->total.bytes;
    ledger->total.count += slot->total.count;
    slot->lease = slot->most = slot->total = (struct tidei_amount){ 0, 0 };
}

/*
 * A bounded account of which more was taken off than was added, by wrong calls, must not let more pass than its mark.
 */
static void
ledger_keep_bound(struct tidei_ledger *ledger)
{
    if (ledger->rises)
        return;
    if (ledger->headroom.bytes > ledger->mark.bytes)
        ledger->headroom.bytes = ledger->mark.bytes;
    if (ledger->headroom.count > ledger->mark.count)
        ledger->headroom.count = ledger->mark.count;
}

void
tidei_ledger_call_in(struct tidei_ledger *ledger)
{
    if (ledger->lessee_count == 1) {
        ledger_call_in_one(ledger, ledger->lessee);
    } else if (ledger->lessee_count > 1) {
        for (struct tidei_ledger_slot *slot = ledger->members; slot != NULL; slot = slot->next)
            ledger_call_in_one(ledger, slot);
    }
    ledger_keep_bound(ledger);
    ledger->lessee_count = 0;
    ledger->lessee = NULL;
}

/* Headroom that must not be lent, as whoever goes into it is above the warning. */
static uint64_t
ledger_floor(const struct tidei_ledger *ledger)
{
    return ledger->mark.bytes > ledger->warning_bytes ? ledger->mark.bytes - ledger->warning_bytes : 0;
}

static uint64_t
amount_of(uint64_t bytes, uint64_t factor)
{
    return bytes > UINT64_MAX / factor ? UINT64_MAX : bytes * factor;
}

/* What a thread may be lent of what is left: all where it is the only one, else half of an even share. */
static struct tidei_amount
ledger_share(const struct tidei_ledger *ledger)
{
    uint64_t floor = ledger_floor(ledger);
    uint64_t above = ledger->headroom.bytes > floor ? ledger->headroom.bytes - floor : 0;
    uint64_t slots = ledger->member_count == 1 ? 1 : 2 * (uint64_t)ledger->member_count;

    return (struct tidei_amount){ above / slots, ledger->headroom.count / slots };
}

/* Not above the warning: what is taken off would go to a lease, and the way back below it be missed. */
static bool
ledger_may_lend(const struct tidei_ledger *ledger)
{
    return (ledger->member_count == 1 || ledger->served >= ledger->patience) &&
           ledger->headroom.bytes >= ledger_floor(ledger);
}

static void
ledger_note_lessee(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot)
{
    if (slot->most.count == 0) {
        ledger->lessee_count++;
        ledger->lessee = slot;
    }
}

/* Lend `slot`, which is to have at most `most`, the amount. The most of a single thread is all there is. */
static void
ledger_lend(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot, struct tidei_amount amount,
            struct tidei_amount most)
{
    ledger_note_lessee(ledger, slot);
    if (ledger->member_count == 1) {
        most.bytes = ledger->rises ? UINT64_MAX : ledger->mark.bytes - (ledger->headroom.bytes - amount.bytes);
        most.count = ledger->rises ? UINT64_MAX : ledger->mark.count - (ledger->headroom.count - amount.count);
    }
    ledger->headroom.bytes -= amount.bytes;
    ledger->headroom.count -= amount.count;
    slot->lease.bytes += amount.bytes;
    slot->lease.count += amount.count;
    slot->most.bytes = tidei_ledger_larger(slot->most.bytes, most.bytes);
    slot->most.count = tidei_ledger_larger(slot->most.count, most.count);
}

/* Lend `slot` something for what is to come after a request of `bytes`. */
static void
ledger_lend_ahead(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot, uint64_t bytes)
{
    struct tidei_amount share = ledger_share(ledger);

    if (ledger_may_lend(ledger) &&
        (ledger->member_count == 1 || (share.bytes >= amount_of(bytes, LEASE_LEAST) && share.count >= LEASE_LEAST)))
        ledger_lend(ledger, slot, share, (struct tidei_amount){ amount_of(share.bytes, 2), share.count * 2 });
}

/* The sum is known: it grows, or is refused, or sets a new mark. */
static void
ledger_add_exact(struct tidei_ledger *ledger, uint64_t bytes, struct tidei_ledger_answer *answer)
{
    struct tidei_amount *headroom = &ledger->headroom;
    bool below = headroom->bytes >= ledger_floor(ledger);

    if (!ledger->rises && (bytes > headroom->bytes || headroom->count == 0)) {
        answer->refused = true;
    } else {
        if (bytes > headroom->bytes) {
            ledger->mark.bytes += bytes - headroom->bytes;
            headroom->bytes = bytes;
        }
        if (headroom->count == 0) {
            ledger->mark.count++;
            headroom->count = 1;
        }
        headroom->bytes -= bytes;
        headroom->count--;
        ledger->total.bytes += bytes;
        ledger->total.count++;
        answer->crossed = below && headroom->bytes < ledger_floor(ledger);
    }
    answer->used.bytes = ledger->mark.bytes - headroom->bytes;
    answer->used.count = ledger->mark.count - headroom->count;
}

bool
tidei_ledger_serve_add(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot, uint64_t bytes,
                       struct tidei_ledger_answer *answer)
{
    *answer = (struct tidei_ledger_answer){ .serial = ledger->serial };
    if (tidei_ledger_is_exact(ledger, slot)) {
        tidei_ledger_call_in(ledger);
        ledger_add_exact(ledger, bytes, answer);
        ledger->served++;
    } else {
        /* It may have a lease, which is too small, and what is left of the headroom is nobody's. */
        uint64_t lease = slot != NULL ? slot->lease.bytes : 0, floor = ledger_floor(ledger);
        uint64_t more = bytes > lease ? bytes - lease : 0;
        bool counts = slot != NULL && slot->lease.count > 0;

        if (ledger->headroom.bytes < floor || more > ledger->headroom.bytes - floor ||
            (!counts && ledger->headroom.count == 0))
            return false;
        if (slot != NULL)
            slot->lease.bytes -= bytes - more;
        ledger->headroom.bytes -= more;
        if (counts)
            slot->lease.count--;
        else
            ledger->headroom.count--;
        ledger->total.bytes += bytes;
        ledger->total.count++;
    }
    if (slot != NULL && !answer->refused)
        ledger_lend_ahead(ledger, slot, bytes);
    return true;
}

/* Keep in the lease of `slot` what it is likely to add again, up to some allocations or its share. */
static void
ledger_keep(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot, uint64_t bytes)
{
    struct tidei_amount share = ledger_share(ledger);
    struct tidei_amount most = { tidei_ledger_larger(amount_of(bytes, LEASE_MOST), share.bytes),
                                 tidei_ledger_larger(LEASE_MOST, share.count) };
    struct tidei_amount excess = { 0, 0 };
    uint64_t floor = ledger_floor(ledger);

    if (ledger->headroom.bytes < floor || bytes > ledger->headroom.bytes - floor)
        return;
    ledger_lend(ledger, slot, (struct tidei_amount){ bytes, 1 }, most);
    if (ledger->member_count == 1)
        return;
    if (slot->lease.bytes > most.bytes)
        excess.bytes = slot->lease.bytes - most.bytes / 2;
    if (slot->lease.count > most.count)
        excess.count = slot->lease.count - most.count / 2;
    slot->lease.bytes -= excess.bytes;
    slot->lease.count -= excess.count;
    ledger->headroom.bytes += excess.bytes;
    ledger->headroom.count += excess.count;
}

void
tidei_ledger_serve_take_off(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot, uint64_t bytes,
                            struct tidei_ledger_answer *answer)
{
    *answer = (struct tidei_ledger_answer){ .serial = ledger->serial };
    if (tidei_ledger_is_exact(ledger, slot)) {
        tidei_ledger_call_in(ledger);
        ledger->served++;
    }
    ledger->headroom.bytes += bytes;
    ledger->headroom.count++;
    ledger_keep_bound(ledger);
    if (slot != NULL && ledger_may_lend(ledger) && ledger->headroom.count > 0)
        ledger_keep(ledger, slot, bytes);
}
