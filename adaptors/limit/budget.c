/* Keeps the budgets that limits share by name. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "adaptors/limit/budget.h"
#include "src/sync/lock.h"
#include "src/resource/resource.h"

/* All budgets that have a name. */
static struct {
    struct tidei_lock lock;
    struct tidei_budget *first;
    enum tide_status status;
} budgets;

static void
budgets_prepare(void)
{
    budgets.status = tidei_lock_init(&budgets.lock);
}

/* With the lock of all. */
static struct tidei_budget *
budget_find(const char *name)
{
    struct tidei_budget *budget = budgets.first;

    while (budget != NULL && strcmp(budget->name, name) != 0)
        budget = budget->next;
    return budget;
}

static void
budget_free(struct tidei_budget *budget)
{
    tidei_ledger_fini(&budget->ledger);
    free(budget->name);
    free(budget);
}

/* One that nobody else knows yet, with one reference. */
static enum tide_status
budget_new(const struct tide_limit_options *options, struct tidei_budget **out)
{
    struct tidei_budget *budget = aligned_alloc(_Alignof(struct tidei_budget), sizeof(*budget));
    struct tidei_amount mark = { options->limit_bytes, options->limit_count };
    char *name = options->budget != NULL ? strdup(options->budget) : NULL;
    enum tide_status status;

    *out = NULL;
    if (budget == NULL || (name == NULL && options->budget != NULL)) {
        free(name);
        free(budget);
        return tide_error_set(TIDE_ENOMEM, "limit: no host memory for %zu B", sizeof(*budget));
    }
    status = tidei_ledger_init(&budget->ledger, false, mark,
                               options->soft_limit_bytes != 0 ? options->soft_limit_bytes : UINT64_MAX);
    if (status != TIDE_OK) {
        free(name);
        free(budget);
        return status;
    }
    budget->limit_bytes = options->limit_bytes;
    budget->limit_count = options->limit_count;
    budget->soft_limit_bytes = options->soft_limit_bytes;
    budget->name = name;
    budget->references = 1;
    budget->next = NULL;
    *out = budget;
    return TIDE_OK;
}

/* What one argument of stack text says: "with count=4", or "without count" where it is `none`. */
static void
budget_say(struct tide_text *text, const char *key, uint64_t value, uint64_t none)
{
    tide_text_format(text, value != none ? "with %s=" : "without %s", key);
    if (value != none && strcmp(key, "count") == 0)
        tide_text_format(text, "%llu", (unsigned long long)value);
    else if (value != none)
        tide_text_size(text, value);
}

static enum tide_status
budget_differs(const char *name, const char *key, uint64_t has, uint64_t wanted, uint64_t none)
{
    char made[64] = "", given[64] = "";

    budget_say(&(struct tide_text){ .data = made, .capacity = sizeof(made) }, key, has, none);
    budget_say(&(struct tide_text){ .data = given, .capacity = sizeof(given) }, key, wanted, none);
    return tide_error_set(TIDE_EINVAL, "limit: budget '%s' was made %s, and is wanted %s here", name, made, given);
}

/* One that is there has the bounds that a limit wants to share. */
static enum tide_status
budget_check(const struct tidei_budget *budget, const struct tide_limit_options *options)
{
    if (budget->limit_bytes != options->limit_bytes)
        return budget_differs(budget->name, "limit", budget->limit_bytes, options->limit_bytes, UINT64_MAX);
    if (budget->limit_count != options->limit_count)
        return budget_differs(budget->name, "count", budget->limit_count, options->limit_count, UINT64_MAX);
    if (budget->soft_limit_bytes != options->soft_limit_bytes)
        return budget_differs(budget->name, "soft", budget->soft_limit_bytes, options->soft_limit_bytes, 0);
    return TIDE_OK;
}

enum tide_status
tidei_budget_get(const struct tide_limit_options *options, struct tidei_budget **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    enum tide_status status;
    struct tidei_budget *made, *found;

    *out = NULL;
    pthread_once(&once, budgets_prepare);
    if (budgets.status != TIDE_OK)
        return tide_error_set(budgets.status, "limit: no host memory to list budgets");
    /* Made in any case, as nothing is allocated with the lock. */
    status = budget_new(options, &made);
    if (status != TIDE_OK || options->budget == NULL) {
        *out = made;
        return status;
    }
    tidei_lock_acquire(&budgets.lock);
    found = budget_find(options->budget);
    if (found == NULL) {
        made->next = budgets.first;
        budgets.first = made;
    } else {
        found->references++;
    }
    tidei_lock_release(&budgets.lock);
    *out = found != NULL ? found : made;
    if (found == NULL)
        return TIDE_OK;
    budget_free(made);
    status = budget_check(found, options);
    if (status != TIDE_OK) {
        tidei_budget_put(found);
        *out = NULL;
    }
    return status;
}

void
tidei_budget_put(struct tidei_budget *budget)
{
    struct tidei_budget **place = &budgets.first;
    bool last = true;

    if (budget->name != NULL) {
        tidei_lock_acquire(&budgets.lock);
        last = --budget->references == 0;
        while (last && *place != budget)
            place = &(*place)->next;
        if (last)
            *place = budget->next;
        tidei_lock_release(&budgets.lock);
    }
    if (last)
        budget_free(budget);
}
