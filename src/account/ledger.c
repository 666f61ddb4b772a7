/* What a ledger lends to threads and calls in again, who serves the requests of others, and its figures. */
#include "src/account/ledger.h"
#include "src/resource/resource.h"

/* A lease is for so many allocations as the one that it was given with, at least; and what is given back keeps half. */
#define LEASE_LEAST 4
#define LEASE_MOST  16

/* Leases that lasted for fewer allocations were not worth calling in. */
#define EPOCH_LEAST 1024

/* Requests with the lock before something is lent again: from 32, doubled as often as it did not last. */
#define PATIENCE_FIRST 32
#define PATIENCE_MOST  16384

/* How often whoever has the lock goes round once more for those who have come meanwhile. */
#define ROUNDS 4

enum ledger_request {
    REQUEST_NONE, /* also once it is answered */
    REQUEST_ADD,
    REQUEST_TAKE_OFF,
};

static uint64_t
larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t
smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Leases: all of this with the lock. */

/* No slot but `mine` (NULL: no slot at all) has a lease, so that the sum is known without closing anything. */
static bool
ledger_is_exact(const struct tidei_ledger *ledger, const struct tidei_ledger_slot *mine)
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

/* Call in all leases; with all slots closed, or where the caller works for the only slot that has one. */
static void
ledger_call_in(struct tidei_ledger *ledger)
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
    slot->most.bytes = larger(slot->most.bytes, most.bytes);
    slot->most.count = larger(slot->most.count, most.count);
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

/* For `slot`, which waits or is the caller's (NULL: none). False where others' leases are to be called in first. */
static bool
ledger_serve_add(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot, uint64_t bytes,
                 struct tidei_ledger_answer *answer)
{
    *answer = (struct tidei_ledger_answer){ .serial = ledger->serial };
    if (ledger_is_exact(ledger, slot)) {
        ledger_call_in(ledger);
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
    struct tidei_amount most = { larger(amount_of(bytes, LEASE_MOST), share.bytes), larger(LEASE_MOST, share.count) };
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

static void
ledger_serve_take_off(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot, uint64_t bytes,
                      struct tidei_ledger_answer *answer)
{
    *answer = (struct tidei_ledger_answer){ .serial = ledger->serial };
    if (ledger_is_exact(ledger, slot)) {
        ledger_call_in(ledger);
        ledger->served++;
    }
    ledger->headroom.bytes += bytes;
    ledger->headroom.count++;
    ledger_keep_bound(ledger);
    if (slot != NULL && ledger_may_lend(ledger) && ledger->headroom.count > 0)
        ledger_keep(ledger, slot, bytes);
}

/* Requests, and who serves them. */

/* This thread's slot, without coming in; NULL where there is none. */
static struct tidei_ledger_slot *
ledger_mine(struct tidei_ledger *ledger)
{
    struct tidei_slot *slot = tidei_slot_known(&ledger->slots);

    return (struct tidei_ledger_slot *)(slot != NULL ? slot : tidei_slot_find(&ledger->slots));
}

/* Serve all requests of one kind; how many. *short_of is set where one needs the leases of others. */
static unsigned
ledger_serve_kind(struct tidei_ledger *ledger, enum ledger_request kind, bool *short_of)
{
    unsigned served = 0;

    for (struct tidei_ledger_slot *slot = ledger->members; slot != NULL; slot = slot->next) {
        /* Acquire: pairs with the release in ledger_ask. */
        if (atomic_load_explicit(&slot->request, memory_order_acquire) != kind)
            continue;
        if (kind == REQUEST_TAKE_OFF) {
            ledger_serve_take_off(ledger, slot, slot->bytes, &slot->answer);
        } else if (!ledger_serve_add(ledger, slot, slot->bytes, &slot->answer)) {
            *short_of = true;
            continue;
        }
        served++;
        /* Release: pairs with the acquire in ledger_ask. */
        atomic_store_explicit(&slot->request, REQUEST_NONE, memory_order_release);
    }
    return served;
}

/* With the lock: serve whoever waits. True where somebody needs the leases of others. */
static bool
ledger_serve_all(struct tidei_ledger *ledger)
{
    bool short_of = false;

    for (int round = 0; round < ROUNDS; round++) {
        unsigned served;

        short_of = false;
        served = ledger_serve_kind(ledger, ledger->rises ? REQUEST_ADD : REQUEST_TAKE_OFF, &short_of);
        served += ledger_serve_kind(ledger, ledger->rises ? REQUEST_TAKE_OFF : REQUEST_ADD, &short_of);
        if (served < 2)
            break;
    }
    return short_of;
}

/* The leases were called in for somebody: have it happen more seldom where they did not last. */
static void
ledger_learn(struct tidei_ledger *ledger, uint64_t total_before)
{
    if (ledger->total.count - total_before >= EPOCH_LEAST)
        ledger->patience /= 2;
    else
        ledger->patience = (uint32_t)smaller(larger(2 * ledger->patience, PATIENCE_FIRST), PATIENCE_MOST);
    ledger->served = 0;
}

/* Call in the leases of all, without the lock; it is taken on return. */
static void
ledger_close(struct tidei_ledger *ledger)
{
    uint64_t total_before;

    tidei_slots_quiesce(&ledger->slots);
    tidei_lock_acquire(&ledger->lock);
    TIDEI_TEST_POINT("ledger.closed");
    total_before = ledger->total.count;
    ledger_call_in(ledger);
    ledger_learn(ledger, total_before);
}

/* As the first one that needs it, and for all who wait. */
static void
ledger_close_and_serve(struct tidei_ledger *ledger)
{
    ledger_close(ledger);
    ledger_serve_all(ledger);
    atomic_store_explicit(&ledger->closer, NULL, memory_order_relaxed); /* relaxed: with the lock, else a hint */
    tidei_lock_release(&ledger->lock);
    tidei_slots_resume(&ledger->slots);
}

/* With the lock. */
static void
ledger_join(struct tidei_ledger *ledger, struct tidei_ledger_slot *mine)
{
    mine->is_member = true;
    mine->next = ledger->members;
    ledger->members = mine;
    if (++ledger->member_count > 1)
        atomic_store_explicit(&ledger->shared, true, memory_order_relaxed); /* relaxed: as in tidei_ledger_covers */
}

/* With the lock, which is given back: serve everybody, and call leases in where `mine` is the first to need it. */
static void
ledger_work(struct tidei_ledger *ledger, struct tidei_ledger_slot *mine)
{
    bool close;

    if (!mine->is_member)
        ledger_join(ledger, mine);
    close = ledger_serve_all(ledger) && atomic_load_explicit(&ledger->closer, memory_order_relaxed) == NULL;
    if (close)
        atomic_store_explicit(&ledger->closer, mine, memory_order_relaxed);
    tidei_lock_release(&ledger->lock);
    if (close)
        ledger_close_and_serve(ledger);
}

/* A thread that host memory had no slot for: it works for itself, with what is not lent. */
static void
ledger_do_without(struct tidei_ledger *ledger, enum ledger_request kind, uint64_t bytes,
                  struct tidei_ledger_answer *answer)
{
    tidei_lock_acquire(&ledger->lock);
    atomic_store_explicit(&ledger->shared, true, memory_order_relaxed);
    if (kind == REQUEST_TAKE_OFF) {
        ledger_serve_take_off(ledger, NULL, bytes, answer);
        tidei_lock_release(&ledger->lock);
    } else if (ledger_serve_add(ledger, NULL, bytes, answer)) {
        tidei_lock_release(&ledger->lock);
    } else {
        tidei_lock_release(&ledger->lock);
        ledger_close(ledger);
        ledger_serve_add(ledger, NULL, bytes, answer);
        tidei_lock_release(&ledger->lock);
        tidei_slots_resume(&ledger->slots);
    }
}

/* Leave a request, and see to it that somebody serves it. */
static void
ledger_ask(struct tidei_ledger *ledger, enum ledger_request kind, uint64_t bytes, struct tidei_ledger_answer *answer)
{
    struct tidei_ledger_slot *mine = ledger_mine(ledger);
    unsigned looks = 0;

    if (mine == NULL) {
        ledger_do_without(ledger, kind, bytes, answer);
        return;
    }
    mine->bytes = bytes;
    /* Release: pairs with the acquire in ledger_serve_kind. */
    atomic_store_explicit(&mine->request, kind, memory_order_release);
    TIDEI_TEST_POINT("ledger.asked");
    /* Acquire: pairs with the release there. */
    while (atomic_load_explicit(&mine->request, memory_order_acquire) != REQUEST_NONE) {
        /* Relaxed: a hint that somebody calls leases in, and needs the lock. */
        if (atomic_load_explicit(&ledger->closer, memory_order_relaxed) == NULL && tidei_lock_try(&ledger->lock))
            ledger_work(ledger, mine);
        else
            tidei_lock_pause(&looks);
    }
    *answer = mine->answer;
}

void
tidei_ledger_ask_add(struct tidei_ledger *ledger, uint64_t bytes, struct tidei_ledger_answer *answer)
{
    ledger_ask(ledger, REQUEST_ADD, bytes, answer);
}

uint64_t
tidei_ledger_ask_take_off(struct tidei_ledger *ledger, uint64_t bytes)
{
    struct tidei_ledger_answer answer;

    ledger_ask(ledger, REQUEST_TAKE_OFF, bytes, &answer);
    return answer.serial;
}

bool
tidei_ledger_ask_covers(struct tidei_ledger *ledger, uint64_t bytes)
{
    struct tidei_ledger_figures figures;

    tidei_ledger_read(ledger, &figures);
    return bytes <= figures.current.bytes && figures.current.count > 0;
}

/* With the lock, and where the sum is known but for the leases: what stands there. */
static void
ledger_figures(const struct tidei_ledger *ledger, struct tidei_ledger_figures *out)
{
    struct tidei_amount headroom = ledger->headroom;

    out->mark = ledger->mark;
    out->total = ledger->total;
    for (const struct tidei_ledger_slot *slot = ledger->members; slot != NULL; slot = slot->next) {
        if (slot->most.count == 0)
            continue;
        headroom.bytes += slot->lease.bytes;
        headroom.count += slot->lease.count;
        out->total.bytes += slot->total.bytes;
        out->total.count += slot->total.count;
    }
    if (!ledger->rises) {
        headroom.bytes = smaller(headroom.bytes, out->mark.bytes);
        headroom.count = smaller(headroom.count, out->mark.count);
    }
    out->current.bytes = out->mark.bytes - headroom.bytes;
    out->current.count = out->mark.count - headroom.count;
}

/* Have the lock, and all slots closed where others have leases: then true. */
static bool
ledger_hold(struct tidei_ledger *ledger)
{
    struct tidei_ledger_slot *mine = ledger_mine(ledger);

    tidei_lock_acquire(&ledger->lock);
    if (ledger_is_exact(ledger, mine))
        return false;
    tidei_lock_release(&ledger->lock);
    tidei_slots_quiesce(&ledger->slots);
    tidei_lock_acquire(&ledger->lock);
    return true;
}

static void
ledger_let_go(struct tidei_ledger *ledger, bool closed)
{
    tidei_lock_release(&ledger->lock);
    if (closed)
        tidei_slots_resume(&ledger->slots);
}

void
tidei_ledger_read(struct tidei_ledger *ledger, struct tidei_ledger_figures *out)
{
    bool closed = ledger_hold(ledger);

    ledger_figures(ledger, out);
    ledger_let_go(ledger, closed);
}

void
tidei_ledger_begin(struct tidei_ledger *ledger, struct tidei_ledger_figures *out)
{
    bool closed = ledger_hold(ledger);

    ledger->begun_closed = closed;
    ledger_call_in(ledger);
    ledger_figures(ledger, out);
}

void
tidei_ledger_end(struct tidei_ledger *ledger, const struct tidei_ledger_figures *set)
{
    ledger->mark = set->mark;
    ledger->total = set->total;
    ledger->headroom.bytes = set->mark.bytes - set->current.bytes;
    ledger->headroom.count = set->mark.count - set->current.count;
    ledger_let_go(ledger, ledger->begun_closed);
}

/* A thread has ended, or is not there in the child of a fork: its request is nobody's, and it calls no leases in. */
static void
ledger_leave(struct tidei_slots *slots, struct tidei_slot *slot)
{
    struct tidei_ledger *ledger = (struct tidei_ledger *)slots;
    struct tidei_ledger_slot *left = (struct tidei_ledger_slot *)slot;

    /* Relaxed: nobody waits for the answer. */
    atomic_store_explicit(&left->request, REQUEST_NONE, memory_order_relaxed);
    if (atomic_load_explicit(&ledger->closer, memory_order_relaxed) == left)
        atomic_store_explicit(&ledger->closer, NULL, memory_order_relaxed);
}

void
tidei_ledger_init(struct tidei_ledger *ledger, bool rises, struct tidei_amount mark, uint64_t warning_bytes)
{
    *ledger = (struct tidei_ledger){ .rises = rises, .warning_bytes = warning_bytes, .mark = mark, .headroom = mark };
    /* The lock first, as it is taken with the slots closed. */
    tidei_lock_init(&ledger->lock);
    tidei_slots_init(&ledger->slots, sizeof(struct tidei_ledger_slot), ledger_leave);
}

void
tidei_ledger_fini(struct tidei_ledger *ledger)
{
    tidei_slots_fini(&ledger->slots);
    tidei_lock_fini(&ledger->lock);
}
