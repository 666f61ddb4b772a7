/*
 * What the slow paths of a ledger (src/account/ledger.c) do with its lock held: lend headroom to threads, call leases
 * in, and grant or refuse one request.
 */
#ifndef TIDEI_ACCOUNT_LEASES_H
#define TIDEI_ACCOUNT_LEASES_H

#include "src/account/ledger.h"

static inline uint64_t
tidei_ledger_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t
tidei_ledger_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Nobody but `mine` (NULL: nobody at all) has a lease, so that the sum is known without closing anything. */
bool tidei_ledger_is_exact(const struct tidei_ledger *ledger, const struct tidei_ledger_slot *mine);

/* Call in all leases; with all slots closed, or where the caller works for the only one that has one. */
void tidei_ledger_call_in(struct tidei_ledger *ledger);

/* For `slot`, which waits or is the caller's (NULL: none). False where others' leases are to be called in first. */
bool tidei_ledger_serve_add(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot, uint64_t bytes,
                            struct tidei_ledger_answer *answer);

void tidei_ledger_serve_take_off(struct tidei_ledger *ledger, struct tidei_ledger_slot *slot, uint64_t bytes,
                                 struct tidei_ledger_answer *answer);

#endif
