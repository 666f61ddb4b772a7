/* What limits count together: those that name the same budget, whichever stack they are in; or one limit alone. */
#ifndef TIDEI_ADAPTORS_LIMIT_BUDGET_H
#define TIDEI_ADAPTORS_LIMIT_BUDGET_H

#include <tidemark/limit.h>

#include "src/account/ledger.h"

struct tidei_budget {
    struct tidei_ledger ledger;
    uint64_t limit_bytes;      /* UINT64_MAX: no bound */
    uint64_t limit_count;      /* UINT64_MAX: no bound */
    uint64_t soft_limit_bytes; /* 0: none */
    char *name;                /* owned; NULL where it is a single limit's */
    size_t references;         /* this and next: of those with a name, guarded by the lock of all */
    struct tidei_budget *next;
};

/*
 * The budget that options->budget names, made where there is none; a new one where that is NULL. The other options are
 * as struct tidei_budget has them. *out holds a reference; NULL on failure.
 * Errors: TIDE_ENOMEM, TIDE_EINVAL (there is one with other bounds); the text is set.
 */
enum tide_status tidei_budget_get(const struct tide_limit_options *options, struct tidei_budget **out);

/* Give the reference back. */
void tidei_budget_put(struct tidei_budget *budget);

#endif
