/*
 * An exact account of the bytes and allocations outstanding, which many threads keep without getting in each other's
 * way.
 *
 * The sum stays at or below a mark. The headroom, which is what is left up to the mark, is lent to threads. As long as
 * each thread adds no more than its lease, the sum cannot pass the mark, and no thread needs to know the sum. So the
 * fast path is a few plain loads and stores in the thread's own slot (src/sync/slots.h); what is taken off goes back
 * to the lease. A thread that needs more than its lease takes the lock:
 *  - It gets what it needs from the headroom that is not lent, and some more for the requests to come.
 *  - Where the headroom is too small, all slots are closed, so that no thread adds anything, and the leases are called
 *    in. Now the sum is known. A bounded account refuses the request. A rising account sets a new mark: the peak, which
 *    is therefore the highest sum in the order in which the account saw the calls.
 *
 * At the mark there is nothing to lend, and all threads need the lock. Then they work for each other: a thread that
 * waits leaves its request in its slot, and the thread that has the lock serves all requests (flat combining: Hendler,
 * Incze, Shavit, Tzafrir, SPAA 2010). A rising account serves the requests that add before those that take off: all of
 * them are under way, so either order is possible, and a peak that is reached at once need not be reached again. A
 * bounded account serves those that take off first.
 *
 * Calling leases in costs 5 to 30 us, so they are lent again only after some requests with the lock, more of them each
 * time that the leases lasted for few allocations. As Linux's memory cgroups charge in batches and take them back
 * before they refuse; as a limit on a peak, where there is no batch to waste.
 *
 * Progress: within the lease wait-free, else blocking. Nothing is called while the lock is held.
 */
#ifndef TIDEI_ACCOUNT_LEDGER_H
#define TIDEI_ACCOUNT_LEDGER_H

#include "src/sync/lock.h"
#include "src/sync/slots.h"

struct tidei_amount {
    uint64_t bytes;
    uint64_t count; /* of allocations */
};

/* What came of a request. */
struct tidei_ledger_answer {
    bool refused;             /* nothing was added: it would have passed the mark */
    bool crossed;             /* the bytes were at or below the warning before, and are above now */
    struct tidei_amount used; /* where refused or crossed: the sum before, or behind it */
    uint64_t serial;          /* that the ledger had at that moment */
};

/* What a thread has of the account. The first line is its own, the second where it leaves its request. */
struct tidei_ledger_slot {
    struct tidei_slot slot;
    struct tidei_amount lease; /* may be added without passing the mark */
    struct tidei_amount most;  /* the lease is not more; 0 where nothing is lent */
    struct tidei_amount total; /* all that was added within the leases */

    _Alignas(64) _Atomic uint32_t request; /* enum in ledger.c; 0: none */
    bool is_member;                        /* this and what follows: guarded by the lock, or by the request */
    uint64_t bytes;
    struct tidei_ledger_answer answer;
    struct tidei_ledger_slot *next; /* among the members; borrowed */
};

struct tidei_ledger {
    /* Read by all, seldom written. */
    struct tidei_slots slots;                 /* first */
    uint64_t serial;                          /* the owner's; written between tidei_ledger_begin and tidei_ledger_end */
    _Atomic bool shared;                      /* more than one thread has come; written with the lock, never back */
    bool rises;                               /* constant; else it is bounded */
    uint64_t warning_bytes;                   /* constant; UINT64_MAX: none. Bytes above it are never lent */
    struct tidei_ledger_slot *_Atomic closer; /* its thread is about to call the leases in; written with the lock */

    /* Guarded by the lock. */
    _Alignas(128) struct tidei_lock lock;
    struct tidei_amount mark;
    struct tidei_amount headroom;      /* up to the mark, but for what is lent */
    struct tidei_amount total;         /* all that was added otherwise */
    struct tidei_ledger_slot *members; /* all slots that have ever asked; borrowed */
    struct tidei_ledger_slot *lessee;  /* the only one with a lease, where lessee_count is 1 */
    uint32_t member_count;
    uint32_t lessee_count;
    uint32_t served;   /* requests since the leases were called in */
    uint32_t patience; /* so many of them before anything is lent again */
    bool begun_closed; /* between begin and end: all slots are closed */
};

/*
 * Begin at 0 below `mark`; `rises` as above. A request that takes the sum above `warning_bytes` is told so; UINT64_MAX:
 * none is.
 */
void tidei_ledger_init(struct tidei_ledger *ledger, bool rises, struct tidei_amount mark, uint64_t warning_bytes);
void tidei_ledger_fini(struct tidei_ledger *ledger);

/* The slow paths of the functions below. */
void tidei_ledger_ask_add(struct tidei_ledger *ledger, uint64_t bytes, struct tidei_ledger_answer *answer);
uint64_t tidei_ledger_ask_take_off(struct tidei_ledger *ledger, uint64_t bytes);
bool tidei_ledger_ask_covers(struct tidei_ledger *ledger, uint64_t bytes);

/* Add an allocation of `bytes`. True: it was added within the lease. False: *answer says what came of it. */
static inline bool
tidei_ledger_add(struct tidei_ledger *ledger, uint64_t bytes, struct tidei_ledger_answer *answer)
{
    struct tidei_ledger_slot *mine = (struct tidei_ledger_slot *)tidei_slot_enter(&ledger->slots);

    if (__builtin_expect(mine != NULL, 1)) {
        if (__builtin_expect(bytes <= mine->lease.bytes && mine->lease.count > 0, 1)) {
            mine->lease.bytes -= bytes;
            mine->lease.count--;
            mine->total.bytes += bytes;
            mine->total.count++;
            tidei_slot_leave(&mine->slot);
            return true;
        }
        tidei_slot_leave(&mine->slot);
    }
    tidei_ledger_ask_add(ledger, bytes, answer);
    return false;
}

/* Take an allocation of `bytes` off again. Returns the serial that the ledger had at that moment. */
static inline uint64_t
tidei_ledger_take_off(struct tidei_ledger *ledger, uint64_t bytes)
{
    struct tidei_ledger_slot *mine = (struct tidei_ledger_slot *)tidei_slot_enter(&ledger->slots);

    if (__builtin_expect(mine != NULL, 1)) {
        /* No sum that may wrap: the lease is not more than the most. */
        if (__builtin_expect(bytes <= mine->most.bytes - mine->lease.bytes && mine->lease.count < mine->most.count,
                             1)) {
            uint64_t serial = ledger->serial;

            mine->lease.bytes += bytes;
            mine->lease.count++;
            tidei_slot_leave(&mine->slot);
            return serial;
        }
        tidei_slot_leave(&mine->slot);
    }
    return tidei_ledger_ask_take_off(ledger, bytes);
}

/*
 * For a bounded account: false where an allocation of `bytes` cannot be outstanding, as less is. Asks only while a
 * single thread has come, else true: to ask all others each time would cost more than it can find.
 */
static inline bool
tidei_ledger_covers(struct tidei_ledger *ledger, uint64_t bytes)
{
    struct tidei_ledger_slot *mine;
    bool covers = false;

    if (atomic_load_explicit(&ledger->shared, memory_order_relaxed)) /* relaxed: nothing behind it is read */
        return true;
    mine = (struct tidei_ledger_slot *)tidei_slot_enter(&ledger->slots);
    if (__builtin_expect(mine != NULL, 1)) {
        /* The most of a single thread is the mark: no lease may grow beyond it. */
        covers = bytes <= mine->most.bytes - mine->lease.bytes && mine->lease.count < mine->most.count;
        tidei_slot_leave(&mine->slot);
    }
    return __builtin_expect(covers, 1) || tidei_ledger_ask_covers(ledger, bytes);
}

/* The account at one moment. `current` is the mark less the headroom, as wrapping numbers. */
struct tidei_ledger_figures {
    struct tidei_amount current;
    struct tidei_amount mark;
    struct tidei_amount total;
};

void tidei_ledger_read(struct tidei_ledger *ledger, struct tidei_ledger_figures *out);

/*
 * Between these two calls the caller has the account alone: nothing is added, and the caller may set `current` and
 * `mark`. `current` is at most `mark`.
 */
void tidei_ledger_begin(struct tidei_ledger *ledger, struct tidei_ledger_figures *out);
void tidei_ledger_end(struct tidei_ledger *ledger, const struct tidei_ledger_figures *set);

#endif
