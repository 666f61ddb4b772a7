/* Lends and recalls leases, serves the requests of waiting threads, and reads the figures. */
#include "src/account/ledger.h"
#include "src/resource/resource.h"

/* Bounds of a lease, in allocations as large as the request it is lent with. Above the upper one it is cut to half. */
#define LEASE_LEAST 4
#define LEASE_MOST  16

/* Leases that lasted for fewer allocations were not worth their recall. */
#define EPOCH_LEAST 1024

/* Requests with the lock before lending resumes: from 32, doubled each time that the leases did not last. */
#define PATIENCE_FIRST 32
#define PATIENCE_MOST  16384

/* Upper bound of the passes in which the lock's holder serves all waiting requests. */
#define ROUNDS 4

enum ledger_request {
    REQUEST_NONE, /* none yet, or answered */
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

static struct tidei_amount
amount_smaller(struct tidei_amount a, struct tidei_amount b)
{
    return (struct tidei_amount){ smaller(a.bytes, b.bytes), smaller(a.count, b.count) };
}

/* Leases. All functions of this section are called with the lock held. */

/* Whether no slot but `mine` (may be NULL) has a lease, so that the sum is known without closing the slots. */
static bool
ledger_is_exact(const struct tidei_ledger *ledger, const struct tidei_ledger_slot *mine)
{
    return ledger->lessee_count == 0 || (ledger->lessee_count == 1 && ledger->lessee == mine);
}

/* Recall the lease of one slot. Its thread waits, is the caller, or is kept out. */
static void
ledger_recall_one(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot)
{
    ledger->headroom.bytes += slot->lease.bytes;
    ledger->headroom.count += slot->lease.count;
    ledger->total.bytes += slot->total.bytes;
    ledger->total.count += slot->total.count;
    slot->lease = slot->most = slot->total = (struct tidei_amount){ 0, 0 };
}

/* Keep a bounded account within its mark even if wrong calls took off more than was added. */
static void
ledger_keep_bound(struct tidei_ledger *ledger)
{
    if (!ledger->rises)
        ledger->headroom = amount_smaller(ledger->headroom, ledger->mark);
}

/* Recall all leases. All slots are closed, or the caller works for the only slot with a lease. */
static void
ledger_recall(struct tidei_ledger *ledger)
{
    if (ledger->lessee_count == 1) {
        ledger_recall_one(ledger, ledger->lessee);
    } else if (ledger->lessee_count > 1) {
        for (struct tidei_ledger_slot *slot = ledger->members; slot != NULL; slot = slot->next)
            ledger_recall_one(ledger, slot);
    }
    ledger_keep_bound(ledger);
    ledger->lessee_count = 0;
    ledger->lessee = NULL;
}

/* The part of the headroom that must not be lent: a request that uses it passes the warning. */
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

/* How much of the headroom a thread may be lent: all of it if it is the only thread, else half of an even share. */
static struct tidei_amount
ledger_share(const struct tidei_ledger *ledger)
{
    uint64_t floor = ledger_floor(ledger);
    uint64_t above = ledger->headroom.bytes > floor ? ledger->headroom.bytes - floor : 0;
    uint64_t slots = ledger->member_count == 1 ? 1 : 2 * (uint64_t)ledger->member_count;

    return (struct tidei_amount){ above / slots, ledger->headroom.count / slots };
}

/* Never lend above the warning: amounts taken off would go to leases, and the return below it would be missed. */
static bool
ledger_may_lend(const struct tidei_ledger *ledger)
{
    return (ledger->member_count == 1 || ledger->served >= ledger->patience) &&
           ledger->headroom.bytes >= ledger_floor(ledger);
}

/* Lend `amount` to `slot`, up to a lease of `most`. A single thread's lease may take the whole headroom. */
static void
ledger_lend(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot, struct tidei_amount amount,
            struct tidei_amount most)
{
    if (slot->most.count == 0) {
        ledger->lessee_count++;
        ledger->lessee = slot;
    }
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

/* Lend `slot` something for the requests after one of `bytes`. */
static void
ledger_lend_ahead(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot, uint64_t bytes)
{
    struct tidei_amount share = ledger_share(ledger);

    if (ledger_may_lend(ledger) &&
        (ledger->member_count == 1 || (share.bytes >= amount_of(bytes, LEASE_LEAST) && share.count >= LEASE_LEAST)))
        ledger_lend(ledger, slot, share, (struct tidei_amount){ amount_of(share.bytes, 2), share.count * 2 });
}

/* Add when the sum is known: the sum grows, the request is refused, or it sets a new mark. */
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

/* Serve `slot`, which waits or is the caller's (NULL: none). False if other leases must be recalled first. */
static bool
ledger_serve_add(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot, uint64_t bytes,
                 struct tidei_ledger_answer *answer)
{
    *answer = (struct tidei_ledger_answer){ .serial = ledger->serial };
    if (ledger_is_exact(ledger, slot)) {
        ledger_recall(ledger);
        ledger_add_exact(ledger, bytes, answer);
        ledger->served++;
    } else {
        /* Use its own lease, which is too small, and take the rest from the headroom that is not lent. */
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

/* Keep in the lease of `slot` what it has taken off and may add again, up to some allocations or its share. */
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
        ledger_recall(ledger);
        ledger->served++;
    }
    ledger->headroom.bytes += bytes;
    ledger->headroom.count++;
    ledger_keep_bound(ledger);
    if (slot != NULL && ledger_may_lend(ledger) && ledger->headroom.count > 0)
        ledger_keep(ledger, slot, bytes);
}

/* Requests, and serving them. */

/* This thread's slot, without entering it; NULL without host memory. */
static struct tidei_ledger_slot *
ledger_mine(struct tidei_ledger *ledger)
{
    return (struct tidei_ledger_slot *)tidei_slot_find(&ledger->slots);
}

/* Serve all requests of one kind; returns how many. Sets *short_of if one needs the leases of others. */
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

/* Serve all waiting threads; the lock is held. True if a request needs the leases of others. */
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

/* After a recall for a request: lend later next time if the leases did not last, else sooner. */
static void
ledger_learn(struct tidei_ledger *ledger, uint64_t total_before)
{
    if (ledger->total.count - total_before >= EPOCH_LEAST)
        ledger->patience /= 2;
    else
        ledger->patience = (uint32_t)smaller(larger(2 * ledger->patience, PATIENCE_FIRST), PATIENCE_MOST);
    ledger->served = 0;
}

/* Recall all leases. The caller does not hold the lock; it is held on return. */
static void
ledger_close(struct tidei_ledger *ledger)
{
    uint64_t total_before;

    tidei_slots_quiesce(&ledger->slots);
    tidei_lock_acquire(&ledger->lock);
    TIDEI_TEST_POINT("ledger.closed");
    total_before = ledger->total.count;
    ledger_recall(ledger);
    ledger_learn(ledger, total_before);
}

/* Release the lock, and open the slots if they were closed. */
static void
ledger_open(struct tidei_ledger *ledger, bool closed)
{
    tidei_lock_release(&ledger->lock);
    if (closed)
        tidei_slots_resume(&ledger->slots);
}

/* Recall all leases, and serve all waiting threads. */
static void
ledger_close_and_serve(struct tidei_ledger *ledger)
{
    ledger_close(ledger);
    ledger_serve_all(ledger);
    atomic_store_explicit(&ledger->closer, NULL,
                          memory_order_relaxed); /* relaxed: a hint to readers without the lock */
    ledger_open(ledger, true);
}

/* The lock is held. */
static void
ledger_join(struct tidei_ledger *ledger, struct tidei_ledger_slot *mine)
{
    mine->is_member = true;
    mine->next = ledger->members;
    ledger->members = mine;
    if (++ledger->member_count > 1)
        atomic_store_explicit(&ledger->shared, true, memory_order_relaxed); /* relaxed: as in tidei_ledger_covers */
}

/* Serve all requests, and recall the leases if that is needed and no thread has begun to. Releases the held lock. */
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

/* For a thread without a slot, as host memory is short: it serves its own request, without a lease. */
static void
ledger_do_without(struct tidei_ledger *ledger, enum ledger_request kind, uint64_t bytes,
                  struct tidei_ledger_answer *answer)
{
    bool served = true;

    tidei_lock_acquire(&ledger->lock);
    atomic_store_explicit(&ledger->shared, true, memory_order_relaxed);
    if (kind == REQUEST_TAKE_OFF)
        ledger_serve_take_off(ledger, NULL, bytes, answer);
    else
        served = ledger_serve_add(ledger, NULL, bytes, answer);
    tidei_lock_release(&ledger->lock);
    if (served)
        return;
    ledger_close(ledger);
    ledger_serve_add(ledger, NULL, bytes, answer);
    ledger_open(ledger, true);
}

/* Leave a request, and wait until a thread with the lock (this one, if the lock is free) has served it. */
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
        /* Relaxed: a hint that a thread recalls the leases, and needs the lock. */
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

/* The figures, including those of current leases. The lock is held, and no other thread changes a lease. */
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
    if (!ledger->rises)
        headroom = amount_smaller(headroom, out->mark);
    out->current.bytes = out->mark.bytes - headroom.bytes;
    out->current.count = out->mark.count - headroom.count;
}

/* Take the lock, and close all slots if others have leases. Returns whether they were closed. */
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

void
tidei_ledger_read(struct tidei_ledger *ledger, struct tidei_ledger_figures *out)
{
    bool closed = ledger_hold(ledger);

    ledger_figures(ledger, out);
    ledger_open(ledger, closed);
}

void
tidei_ledger_begin(struct tidei_ledger *ledger, struct tidei_ledger_figures *out)
{
    bool closed = ledger_hold(ledger);

    ledger->begun_closed = closed;
    ledger_recall(ledger);
    ledger_figures(ledger, out);
}

void
tidei_ledger_end(struct tidei_ledger *ledger, const struct tidei_ledger_figures *set)
{
    ledger->mark = set->mark;
    ledger->total = set->total;
    ledger->headroom.bytes = set->mark.bytes - set->current.bytes;
    ledger->headroom.count = set->mark.count - set->current.count;
    ledger_open(ledger, ledger->begun_closed);
}

/* A thread has ended, or does not exist in a child of fork(): cancel its request, and its recall of leases. */
static void
ledger_leave(struct tidei_slots *slots, struct tidei_slot *slot)
{
    struct tidei_ledger *ledger = (struct tidei_ledger *)slots;
    struct tidei_ledger_slot *left = (struct tidei_ledger_slot *)slot;

    /* Relaxed: no thread waits for the answer. */
    atomic_store_explicit(&left->request, REQUEST_NONE, memory_order_relaxed);
    if (atomic_load_explicit(&ledger->closer, memory_order_relaxed) == left)
        atomic_store_explicit(&ledger->closer, NULL, memory_order_relaxed);
}

void
tidei_ledger_init(struct tidei_ledger *ledger, bool rises, struct tidei_amount mark, uint64_t warning_bytes)
{
    *ledger = (struct tidei_ledger){ .rises = rises, .warning_bytes = warning_bytes, .mark = mark, .headroom = mark };
    /* The lock first, since it is taken while the slots are closed (see slots.h). */
    tidei_lock_init(&ledger->lock);
    tidei_slots_init(&ledger->slots, sizeof(struct tidei_ledger_slot), ledger_leave);
}

void
tidei_ledger_fini(struct tidei_ledger *ledger)
{
    tidei_slots_fini(&ledger->slots);
    tidei_lock_fini(&ledger->lock);
}
