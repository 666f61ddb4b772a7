/* The slow paths of ledgers: requests, who serves them, and figures. */
#include "src/account/leases.h"
#include "src/resource/resource.h"

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

/* This thread's slot, without coming in; NULL where there is none. */
static struct tidei_ledger_slot *
ledger_mine(struct tidei_ledger *ledger)
{
    const struct tidei_slot_entry *slot = &tidei_slot_index[ledger->slots.serial % TIDEI_SLOT_ENTRIES];

    if (slot->serial == ledger->slots.serial)
        return (struct tidei_ledger_slot *)slot->slot;
    return (struct tidei_ledger_slot *)tidei_slot_find(&ledger->slots);
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
            tidei_ledger_serve_take_off(ledger, slot, slot->bytes, &slot->answer);
        } else if (!tidei_ledger_serve_add(ledger, slot, slot->bytes, &slot->answer)) {
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
        ledger->patience =
            (uint32_t)tidei_ledger_smaller(tidei_ledger_larger(2 * ledger->patience, PATIENCE_FIRST), PATIENCE_MOST);
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
    tidei_ledger_call_in(ledger);
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
        tidei_ledger_serve_take_off(ledger, NULL, bytes, answer);
        tidei_lock_release(&ledger->lock);
    } else if (tidei_ledger_serve_add(ledger, NULL, bytes, answer)) {
        tidei_lock_release(&ledger->lock);
    } else {
        tidei_lock_release(&ledger->lock);
        ledger_close(ledger);
        tidei_ledger_serve_add(ledger, NULL, bytes, answer);
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
        headroom.bytes = tidei_ledger_smaller(headroom.bytes, out->mark.bytes);
        headroom.count = tidei_ledger_smaller(headroom.count, out->mark.count);
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
    if (tidei_ledger_is_exact(ledger, mine))
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
    tidei_ledger_call_in(ledger);
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

enum tide_status
tidei_ledger_init(struct tidei_ledger *ledger, bool rises, struct tidei_amount mark, uint64_t warning_bytes)
{
    enum tide_status status;

    *ledger = (struct tidei_ledger){ .rises = rises, .warning_bytes = warning_bytes, .mark = mark, .headroom = mark };
    /* The lock first, as it is taken with the slots closed. */
    status = tidei_lock_init(&ledger->lock);
    if (status != TIDE_OK)
        return status;
    status = tidei_slots_init(&ledger->slots, sizeof(struct tidei_ledger_slot), ledger_leave);
    if (status != TIDE_OK)
        tidei_lock_fini(&ledger->lock);
    return status;
}

void
tidei_ledger_fini(struct tidei_ledger *ledger)
{
    tidei_slots_fini(&ledger->slots);
    tidei_lock_fini(&ledger->lock);
}
