/*
 * An exact, scalable account of the bytes and the number of allocations outstanding in all threads.
 *
 * The sum stays at or below a mark. The headroom (mark minus sum) is lent to threads as leases. While each thread adds
 * no more than its lease, the sum cannot pass the mark, and no thread needs to know the sum. So the fast path is a few
 * plain loads and stores in the thread's own slot (src/sync/slots.h); an amount that a thread takes off goes back to
 * its lease. A thread that needs more than its lease takes the lock:
 *  - It gets what it needs from the headroom that is not lent, and some more for later requests.
 *  - If the headroom is too small, all slots are closed, so that no thread adds anything, and all leases are recalled.
 *    Now the sum is known. A bounded account refuses the request if it would pass the mark. A rising account sets a new
 *    mark, the peak. So the peak is the highest sum in the order in which the account saw the calls.
 *
 * At the mark there is nothing to lend, and all threads need the lock. A waiting thread then leaves its request in its
 * slot, and the thread that has the lock serves all requests (flat combining: Hendler, Incze, Shavit, Tzafrir, SPAA
 * 2010). A rising account serves requests that add before those that take off. All of them are concurrent, so either
 * order is valid, and this one reaches the peak at once instead of in several steps. A bounded account serves requests
 * that take off first.
 *
 * Recalling leases costs 5 to 30 us. So nothing is lent again until some requests were served with the lock; that
 * number grows each time that the leases lasted for only a few allocations. Linux's memory cgroups work alike: they
 * charge in batches, and take unused batches back before they refuse.
 *
 * Progress: wait-free within the lease, else blocking. No function outside the ledger is called with the lock held.
 */
#ifndef TIDEI_ACCOUNT_LEDGER_H
#define TIDEI_ACCOUNT_LEDGER_H

#include "src/sync/lock.h"
#include "src/sync/slots.h"

struct tidei_amount {
    uint64_t bytes;
    uint64_t count; /* of allocations */
};

/* The result of a request. */
struct tidei_ledger_answer {
    bool refused;             /* nothing was added, since the sum would have passed the mark */
    bool crossed;             /* this request took the bytes above the warning */
    struct tidei_amount used; /* if refused: the sum without it; if crossed: the sum with it */
    uint64_t serial;          /* the ledger's, when the request was served */
};

/* A thread's slot. The first cache line is the thread's alone; the second holds its request. */
struct tidei_ledger_slot {
    struct tidei_slot slot;
    struct tidei_amount lease; /* may still be added without the lock */
    struct tidei_amount most;  /* upper bound of the lease; 0 if nothing is lent */
    struct tidei_amount total; /* all that was added within the lease */

    _Alignas(64) _Atomic uint32_t request; /* enum in ledger.c; 0: none */
    bool is_member;                        /* this and the fields below: guarded by the lock, or by `request` */
    uint64_t bytes;
    struct tidei_ledger_answer answer;
    struct tidei_ledger_slot *next; /* among the members; borrowed */
};

struct tidei_ledger {
    /* Read by all threads, seldom written. */
    struct tidei_slots slots; /* first */
    uint64_t serial;          /* for the owner; written between tidei_ledger_begin and tidei_ledger_end */
    _Atomic bool shared;      /* several threads have used it; set with the lock, never cleared */
    bool rises;               /* constant; false: a bounded account */
    uint64_t warning_bytes;   /* constant; UINT64_MAX: none. Bytes above it are never lent */
    struct tidei_ledger_slot *_Atomic closer; /* its thread will recall the leases; written with the lock */

    /* Guarded by the lock. */
    _Alignas(128) struct tidei_lock lock;
    struct tidei_amount mark;
    struct tidei_amount headroom;      /* mark minus sum minus leases */
    struct tidei_amount total;         /* all that was added outside of current leases */
    struct tidei_ledger_slot *members; /* all slots that have ever left a request; borrowed */
    struct tidei_ledger_slot *lessee;  /* the slot with the only lease, if lessee_count is 1 */
    uint32_t member_count;
    uint32_t lessee_count;
    uint32_t served;   /* requests since the leases were recalled */
    uint32_t patience; /* value of `served` at which lending resumes */
    bool begun_closed; /* between begin and end: all slots are closed */
};

/*
 * Begin with a sum of 0 below `mark`; `rises` selects a rising account. A request that takes the sum above
 * `warning_bytes` gets `crossed` in its answer; UINT64_MAX: no warning.
 */
void tidei_ledger_init(struct tidei_ledger *ledger, bool rises, struct tidei_amount mark, uint64_t warning_bytes);
void tidei_ledger_fini(struct tidei_ledger *ledger);

/* What the functions below do in this thread's slot, which they leave. False: the lease does not allow it. */

static inline bool
tidei_ledger_use(struct tidei_ledger_slot *mine, uint64_t bytes)
{
    bool allowed = bytes <= mine->lease.bytes && mine->lease.count > 0;

    if (__builtin_expect(allowed, 1)) {
        mine->lease.bytes -= bytes;
        mine->lease.count--;
        mine->total.bytes += bytes;
        mine->total.count++;
    }
    tidei_slot_leave(&mine->slot);
    return __builtin_expect(allowed, 1);
}

static inline bool
tidei_ledger_give_back(const struct tidei_ledger *ledger, struct tidei_ledger_slot *mine, uint64_t bytes,
                       uint64_t *serial)
{
    /* The difference cannot wrap, since lease <= most; a sum could. */
    bool allowed = bytes <= mine->most.bytes - mine->lease.bytes && mine->lease.count < mine->most.count;

    if (__builtin_expect(allowed, 1)) {
        *serial = ledger->serial; /* only here: without a lease, another thread may be changing it */
        mine->lease.bytes += bytes;
        mine->lease.count++;
    }
    tidei_slot_leave(&mine->slot);
    return __builtin_expect(allowed, 1);
}

/* With a single thread, most - lease is what is outstanding. */
static inline bool
tidei_ledger_has(struct tidei_ledger_slot *mine, uint64_t bytes)
{
    bool covers = bytes <= mine->most.bytes - mine->lease.bytes && mine->lease.count < mine->most.count;

    tidei_slot_leave(&mine->slot);
    return __builtin_expect(covers, 1);
}

/* The slow paths of the functions below. */
void tidei_ledger_ask_add(struct tidei_ledger *ledger, uint64_t bytes, struct tidei_ledger_answer *answer);
uint64_t tidei_ledger_ask_take_off(struct tidei_ledger *ledger, uint64_t bytes);
bool tidei_ledger_ask_covers(struct tidei_ledger *ledger, uint64_t bytes);

/*
 * The first half of each function below: false where it cannot be answered without a call of a function. For code that
 * would save registers for such a call; it then calls the whole.
 */

/* Add an allocation of `bytes` within the lease. */
static inline bool
tidei_ledger_add_quickly(struct tidei_ledger *ledger, uint64_t bytes)
{
    struct tidei_ledger_slot *mine = (struct tidei_ledger_slot *)tidei_slot_enter_quickly(&ledger->slots);

    return __builtin_expect(mine != NULL, 1) && tidei_ledger_use(mine, bytes);
}

/* Take an allocation of `bytes` off, into the lease; *serial is the ledger's serial at that time. */
static inline bool
tidei_ledger_take_off_quickly(struct tidei_ledger *ledger, uint64_t bytes, uint64_t *serial)
{
    struct tidei_ledger_slot *mine = (struct tidei_ledger_slot *)tidei_slot_enter_quickly(&ledger->slots);

    return __builtin_expect(mine != NULL, 1) && tidei_ledger_give_back(ledger, mine, bytes, serial);
}

/* Whether an allocation of `bytes` can be outstanding, or it is not to be checked. */
static inline bool
tidei_ledger_covers_quickly(struct tidei_ledger *ledger, uint64_t bytes)
{
    struct tidei_ledger_slot *mine;

    if (atomic_load_explicit(&ledger->shared, memory_order_relaxed)) /* relaxed: nothing behind it is read */
        return true;
    mine = (struct tidei_ledger_slot *)tidei_slot_enter_quickly(&ledger->slots);
    return __builtin_expect(mine != NULL, 1) && tidei_ledger_has(mine, bytes);
}

/* Add an allocation of `bytes`. True: it was added within the lease. False: *answer has the result. */
static inline bool
tidei_ledger_add(struct tidei_ledger *ledger, uint64_t bytes, struct tidei_ledger_answer *answer)
{
    struct tidei_ledger_slot *mine = (struct tidei_ledger_slot *)tidei_slot_enter(&ledger->slots);

    if (__builtin_expect(mine != NULL, 1) && tidei_ledger_use(mine, bytes))
        return true;
    tidei_ledger_ask_add(ledger, bytes, answer);
    return false;
}

/* Take an allocation of `bytes` off. Returns the ledger's serial at that time. */
static inline uint64_t
tidei_ledger_take_off(struct tidei_ledger *ledger, uint64_t bytes)
{
    struct tidei_ledger_slot *mine = (struct tidei_ledger_slot *)tidei_slot_enter(&ledger->slots);
    uint64_t serial = 0;

    if (__builtin_expect(mine != NULL, 1) && tidei_ledger_give_back(ledger, mine, bytes, &serial))
        return serial;
    return tidei_ledger_ask_take_off(ledger, bytes);
}

/*
 * For a bounded account: false if an allocation of `bytes` cannot be outstanding, since less is. Checks only while a
 * single thread uses the account; then true, since asking all threads at each call would cost too much.
 */
static inline bool
tidei_ledger_covers(struct tidei_ledger *ledger, uint64_t bytes)
{
    struct tidei_ledger_slot *mine;

    if (atomic_load_explicit(&ledger->shared, memory_order_relaxed)) /* relaxed: as above */
        return true;
    mine = (struct tidei_ledger_slot *)tidei_slot_enter(&ledger->slots);
    return (__builtin_expect(mine != NULL, 1) && tidei_ledger_has(mine, bytes)) ||
           tidei_ledger_ask_covers(ledger, bytes);
}

/* The account at one time. `current` is the mark minus the headroom, in wrapping arithmetic. */
struct tidei_ledger_figures {
    struct tidei_amount current;
    struct tidei_amount mark;
    struct tidei_amount total;
};

void tidei_ledger_read(struct tidei_ledger *ledger, struct tidei_ledger_figures *out);

/*
 * Between these two calls the caller has exclusive access: no other thread adds anything, and the caller may change
 * `current` and `mark`, with `current` at most `mark`.
 */
void tidei_ledger_begin(struct tidei_ledger *ledger, struct tidei_ledger_figures *out);
void tidei_ledger_end(struct tidei_ledger *ledger, const struct tidei_ledger_figures *set);

#endif
