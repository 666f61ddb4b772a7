/*
 * limit: refuse requests that would take the bytes or the number of allocations outstanding past a bound.
 *
 * Usage: limit(BYTES [, alignment=256] [, count=N] [, soft=BYTES] [, budget=NAME | shared=NAME])
 *     BYTES      the bound: 4GiB, or a share of the device's memory such as 25%; optional where count is given
 *     alignment  power of two that each request counts rounded up to; 256 unless given, 1 counts the bytes
 *                requested
 *     count      the most allocations outstanding
 *     soft       a warning when the bytes outstanding pass this
 *     budget     limits with the same name share one account, whichever stack they are in
 *     shared     the same, whichever process of the machine they are in; a word, or a path from '/' on. It counts bytes
 *                alone: with neither count nor soft
 *
 * Example: the program never holds more than 4 GiB of the device at once, as if it ran on a smaller card:
 *     log(trace.db) | limit(4GiB) | driver
 *
 * A request reserves its bytes in one atomic step, which happens only where they fit. So a refused request never causes
 * the refusal of another one. Bytes are reserved before upstream is called and given back after upstream has taken the
 * memory back. So the bytes outstanding below never pass the bound at any moment. src/account/ledger.h keeps the
 * account; threads count apart from each other until the bound is near.
 *
 * LIMITATIONS
 *  - A deallocation gives its bytes back only after upstream's has returned. Until then another thread may be refused,
 *    though the memory is about to be free. The other order would let that thread reach upstream before the memory is
 *    free.
 *  - Order matters: over a pool the limit bounds the bytes requested, below a pool it bounds the pool's chunks.
 *  - Rounding affects only the count: upstream gets the size that was requested.
 *  - Above the soft limit threads share one counter, so that every crossing is seen, and are slower.
 *  - A shared budget knows the processes that use it, no others on the device. See shared.h for how it survives them.
 *    What a killed process had counts as free once it is gone; its driver may take a moment longer.
 *  - A child of fork() counts what it allocates itself. What it frees counts as inherited, until as much as it has
 *    inherited is freed: it may count more than it has, and never less.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/limit.h>

#include "adaptors/limit/shared.h"
#include "src/account/ledger.h"
#include "src/resource/kind.h"
#include "src/sync/inside.h"
#include "src/sync/lock.h"

/* The account of all limits with the same budget name, whichever stack they are in; or of one limit without a name. */
struct budget {
    struct tidei_ledger ledger;
    struct tidei_limit_shared *shared; /* owned; NULL: the budget is this process's, and the ledger counts */
    uint64_t limit_bytes;              /* UINT64_MAX: no bound */
    uint64_t limit_count;              /* UINT64_MAX: no bound */
    uint64_t soft_limit_bytes;         /* 0: none */
    char *name;                        /* owned; NULL for a single limit's account */
    size_t references;                 /* this and next: for named budgets, guarded by the lock of the list */
    struct budget *next;
};

/* All named budgets. */
static struct {
    struct tidei_lock lock;
    struct budget *first;
} budgets;

static void
budgets_prepare(void)
{
    tidei_lock_init(&budgets.lock);
}

static void
budget_free(struct budget *budget)
{
    if (budget->shared != NULL)
        tidei_limit_shared_detach(budget->shared);
    tidei_ledger_fini(&budget->ledger);
    free(budget->name);
    free(budget);
}

/* The name that a limit shares its account by; NULL: none. */
static const char *
budget_name(const struct tide_limit_options *options)
{
    return options->shared != NULL ? options->shared : options->budget;
}

/* Create a budget with one reference that no other thread knows yet. */
static enum tide_status
budget_new(const struct tide_limit_options *options, struct budget **out)
{
    struct budget *budget = aligned_alloc(_Alignof(struct budget), sizeof(*budget));
    struct tidei_amount mark = { options->limit_bytes, options->limit_count };
    char *name = budget_name(options) != NULL ? strdup(budget_name(options)) : NULL;
    struct tidei_limit_shared *shared = NULL;
    enum tide_status status = TIDE_OK;

    *out = NULL;
    if (budget == NULL || (name == NULL && budget_name(options) != NULL))
        status = tide_error_set(TIDE_ENOMEM, "limit: no host memory for %zu B", sizeof(*budget));
    else if (options->shared != NULL)
        status = tidei_limit_shared_attach(name, options->limit_bytes, &shared);
    if (status != TIDE_OK) {
        free(name);
        free(budget);
        return status;
    }
    tidei_ledger_init(&budget->ledger, false, mark,
                      options->soft_limit_bytes != 0 ? options->soft_limit_bytes : UINT64_MAX);
    budget->shared = shared;
    budget->limit_bytes = options->limit_bytes;
    budget->limit_count = options->limit_count;
    budget->soft_limit_bytes = options->soft_limit_bytes;
    budget->name = name;
    budget->references = 1;
    budget->next = NULL;
    *out = budget;
    return TIDE_OK;
}

/* Describe one argument in the syntax of stack text: "with count=4", or "without count" where it is `none`. */
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

/* Check that an existing budget has the bounds of a limit that wants to share it. */
static enum tide_status
budget_check(const struct budget *budget, const struct tide_limit_options *options)
{
    if (budget->limit_bytes != options->limit_bytes)
        return budget_differs(budget->name, "limit", budget->limit_bytes, options->limit_bytes, UINT64_MAX);
    if (budget->limit_count != options->limit_count)
        return budget_differs(budget->name, "count", budget->limit_count, options->limit_count, UINT64_MAX);
    if (budget->soft_limit_bytes != options->soft_limit_bytes)
        return budget_differs(budget->name, "soft", budget->soft_limit_bytes, options->soft_limit_bytes, 0);
    return TIDE_OK;
}

/* Drop the reference. */
static void
budget_put(struct budget *budget)
{
    struct budget **place = &budgets.first;
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

/*
 * Find or create the budget that the options name; create an unnamed one where they name none. The other options are in
 * the form of struct budget. *out holds a reference; NULL on failure. Errors: TIDE_ENOMEM, TIDE_EINVAL (the existing
 * one has other bounds), those of tidei_limit_shared_attach; the text is set.
 */
static enum tide_status
budget_get(const struct tide_limit_options *options, struct budget **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    enum tide_status status;
    struct budget *made, *found;

    *out = NULL;
    pthread_once(&once, budgets_prepare);
    /* Created in any case, because nothing may be allocated under the lock. */
    status = budget_new(options, &made);
    if (status != TIDE_OK || budget_name(options) == NULL) {
        *out = made;
        return status;
    }
    tidei_lock_acquire(&budgets.lock);
    found = budgets.first;
    while (found != NULL && (strcmp(found->name, made->name) != 0 || (found->shared != NULL) != (made->shared != NULL)))
        found = found->next;
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
        budget_put(found);
        *out = NULL;
    }
    return status;
}

struct limit {
    struct tide_resource base;
    struct budget *budget;             /* holds a reference */
    struct tide_limit_options options; /* `budget` and `shared` are owned by the budget */
};

/* The bytes that a request counts, into *counted. */
static enum tide_status
limit_count(const struct limit *limit, size_t bytes, uint64_t *counted)
{
    if (tidei_round_up(bytes, limit->options.alignment, counted))
        return TIDE_OK;
    return tidei_refused(&limit->base,
                         tide_error_set(TIDE_EOVERFLOW, "limit: %zu B request overflows when rounded up to %s", bytes,
                                        tidei_size_text(limit->options.alignment)));
}

static enum tide_status
limit_refuse(const struct limit *limit, uint64_t counted, const struct tidei_amount *used)
{
    const struct budget *budget = limit->budget;

    if (counted > budget->limit_bytes)
        return tidei_refused(&limit->base,
                             tide_error_set(TIDE_ELIMIT, "limit: %s request exceeds %s limit", tidei_size_text(counted),
                                            tidei_size_text(budget->limit_bytes)));
    if (counted > budget->limit_bytes - used->bytes)
        return tidei_refused(&limit->base,
                             tide_error_set(TIDE_ELIMIT, "limit: %s request exceeds %s limit (%s in use)",
                                            tidei_size_text(counted), tidei_size_text(budget->limit_bytes),
                                            tidei_size_text(used->bytes)));
    return tidei_refused(&limit->base,
                         tide_error_set(TIDE_ELIMIT, "limit: one more allocation exceeds the limit of %llu",
                                        (unsigned long long)budget->limit_count));
}

/* Its own function, so that the request of another limit does not make room for the answer. */
static __attribute__((noinline)) enum tide_status
limit_refuse_shared(const struct limit *limit, uint64_t counted, const struct tidei_limit_shared_figures *used)
{
    const struct budget *budget = limit->budget;

    if (used->processes == 0) /* a child of fork() that gets no slot, or a file without locks; the text is set */
        return tidei_refused(&limit->base, used->failure);
    return tidei_refused(&limit->base,
                         tide_error_set(TIDE_ELIMIT,
                                        "limit: %s request exceeds the %s of shared budget '%s' (%s in use, %s "
                                        "of it in this process; processes: %u)",
                                        tidei_size_text(counted), tidei_size_text(budget->limit_bytes), budget->name,
                                        tidei_size_text(used->used_bytes), tidei_size_text(used->own_bytes),
                                        used->processes));
}

static __attribute__((noinline)) enum tide_status
limit_allocate_shared(struct limit *limit, uint64_t counted, size_t bytes, size_t alignment, tide_stream stream,
                      void **out)
{
    struct tidei_limit_shared *shared = limit->budget->shared;
    struct tidei_limit_shared_figures used;
    enum tide_status status;

    if (!tidei_limit_shared_add(shared, counted, &used))
        return limit_refuse_shared(limit, counted, &used);
    status = tidei_allocate(limit->base.upstream, bytes, alignment, stream, out);
    if (status != TIDE_OK)
        tidei_limit_shared_take_off(shared, counted);
    return status;
}

/* The bytes outstanding have passed the soft limit. No lock is held here. */
static void
limit_warn(const struct limit *limit, uint64_t used_bytes)
{
    uint64_t soft_limit_bytes = limit->budget->soft_limit_bytes;

    if (limit->options.function != NULL)
        TIDEI_OUTSIDE(limit->options.function(limit->options.context, used_bytes, soft_limit_bytes));
    else
        tidei_message(TIDE_WARNING, "limit: %s in use pass the soft limit of %s", tidei_size_text(used_bytes),
                      tidei_size_text(soft_limit_bytes));
}

/* The slow path, which must ask the account. */
static __attribute__((noinline)) enum tide_status
limit_answered(const struct limit *limit, uint64_t counted, const struct tidei_ledger_answer *answer)
{
    if (answer->refused)
        return limit_refuse(limit, counted, &answer->used);
    if (answer->crossed)
        limit_warn(limit, answer->used.bytes);
    return TIDE_OK;
}

/* Upstream has refused: take off what was added. */
static __attribute__((noinline)) enum tide_status
limit_undo(struct limit *limit, uint64_t counted, enum tide_status status)
{
    tidei_ledger_take_off(&limit->budget->ledger, counted);
    return status;
}

static __attribute__((noinline)) enum tide_status
limit_allocate_otherwise(struct limit *limit, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct budget *budget = limit->budget;
    struct tidei_ledger_answer answer;
    enum tide_status status;
    uint64_t counted;

    *out = NULL;
    status = limit_count(limit, bytes, &counted);
    if (status != TIDE_OK)
        return status;
    /* The request alone exceeds the bound: spare the account, which would have to call in all leases to refuse. */
    if (counted > budget->limit_bytes)
        return limit_refuse(limit, counted, NULL);
    if (budget->shared != NULL)
        return limit_allocate_shared(limit, counted, bytes, alignment, stream, out);
    if (!tidei_ledger_add(&budget->ledger, counted, &answer)) {
        status = limit_answered(limit, counted, &answer);
        if (status != TIDE_OK)
            return status;
    }
    status = tidei_allocate(limit->base.upstream, bytes, alignment, stream, out);
    return status != TIDE_OK ? limit_undo(limit, counted, status) : TIDE_OK;
}

/* Apart from the above, which has more to keep over its calls, and would save more registers here. */
static enum tide_status
limit_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct limit *limit = (struct limit *)self;
    struct budget *budget = limit->budget;
    enum tide_status status;
    uint64_t counted;

    if (!tidei_round_up(bytes, limit->options.alignment, &counted) || counted > budget->limit_bytes ||
        budget->shared != NULL || !tidei_ledger_add_quickly(&budget->ledger, counted))
        return limit_allocate_otherwise(limit, bytes, alignment, stream, out);
    status = tidei_allocate(self->upstream, bytes, alignment, stream, out);
    if (__builtin_expect(status != TIDE_OK, 0))
        return limit_undo(limit, counted, status);
    return TIDE_OK;
}

static void
budget_read(struct budget *budget, struct tide_limit_figures *out)
{
    struct tidei_limit_shared_figures shared;
    struct tidei_ledger_figures counted;

    memset(out, 0, sizeof(*out));
    if (budget->shared != NULL) {
        tidei_limit_shared_read(budget->shared, &shared);
        out->used_bytes = shared.used_bytes;
        out->own_bytes = shared.own_bytes;
        out->processes = shared.processes;
        return;
    }
    tidei_ledger_read(&budget->ledger, &counted);
    out->used_bytes = out->own_bytes = counted.current.bytes;
    out->used_count = counted.current.count;
    out->processes = 1;
}

/* The bytes outstanding include this allocation until it is given back, so a larger size is certainly wrong. */
static __attribute__((noinline)) enum tide_status
limit_mismatch(struct budget *budget, uint64_t counted)
{
    struct tide_limit_figures figures;

    budget_read(budget, &figures);
    return tide_error_set(TIDE_EMISMATCH, "limit: %s given back with %s outstanding", tidei_size_text(counted),
                          tidei_size_text(figures.own_bytes));
}

/* A shared budget knows only that no block is larger than all of it. */
static bool
limit_covers(struct budget *budget, uint64_t counted)
{
    return budget->shared != NULL ? counted <= budget->limit_bytes : tidei_ledger_covers(&budget->ledger, counted);
}

static __attribute__((noinline)) enum tide_status
limit_deallocate_otherwise(struct limit *limit, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct budget *budget = limit->budget;
    enum tide_status status;
    uint64_t counted;

    status = limit_count(limit, bytes, &counted);
    if (status != TIDE_OK)
        return status;
    if (!limit_covers(budget, counted))
        return limit_mismatch(budget, counted);
    status = tidei_deallocate(limit->base.upstream, pointer, bytes, alignment, stream);
    if (status == TIDE_OK && budget->shared != NULL)
        tidei_limit_shared_take_off(budget->shared, counted);
    else if (status == TIDE_OK)
        tidei_ledger_take_off(&budget->ledger, counted);
    return status;
}

static enum tide_status
limit_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct limit *limit = (struct limit *)self;
    struct budget *budget = limit->budget;
    enum tide_status status;
    uint64_t counted, serial = 0;

    if (!tidei_round_up(bytes, limit->options.alignment, &counted) || budget->shared != NULL ||
        !tidei_ledger_covers_quickly(&budget->ledger, counted))
        return limit_deallocate_otherwise(limit, pointer, bytes, alignment, stream);
    status = tidei_deallocate(self->upstream, pointer, bytes, alignment, stream);
    if (__builtin_expect(status != TIDE_OK, 0))
        return status;
    if (__builtin_expect(!tidei_ledger_take_off_quickly(&budget->ledger, counted, &serial), 0))
        return limit_undo(limit, counted, TIDE_OK);
    return TIDE_OK;
}

static enum tide_status
limit_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    const struct limit *limit = (const struct limit *)self;
    enum tide_status status = tide_pass_query(self, what, out);

    if ((what != TIDE_QUERY_CAPACITY && what != TIDE_QUERY_LARGEST_REQUEST) || limit->budget->limit_bytes == UINT64_MAX)
        return status;
    if (status != TIDE_OK || *out > limit->budget->limit_bytes)
        *out = limit->budget->limit_bytes;
    return TIDE_OK;
}

enum { LIMIT_BYTES, LIMIT_COUNT, LIMIT_SOFT, LIMIT_ALIGNMENT, LIMIT_BUDGET, LIMIT_SHARED };

/* Stack text always has a bound; a program may set neither. */
static void
limit_describe(struct tide_resource *self, struct tide_text *text)
{
    const struct tide_limit_options *options = &((const struct limit *)self)->options;
    bool unbounded = options->limit_bytes == UINT64_MAX && options->limit_count == UINT64_MAX;

    if (unbounded)
        tide_text_size(text, UINT64_MAX);
    tidei_kind_describe_options(tidei_kind_of(self), options, unbounded ? ", " : "", text);
}

/* What processes share is bytes. */
static enum tide_status
limit_check_shared(const struct tide_limit_options *wanted, size_t *fault)
{
    *fault = LIMIT_SHARED;
    if (wanted->limit_bytes == 0 || wanted->limit_bytes > INT64_MAX)
        return tide_error_set(TIDE_EINVAL, "limit: a shared budget must have limit=, a number of bytes");
    if (wanted->budget != NULL)
        return tide_error_set(TIDE_EINVAL, "limit: both budget= and shared= given, expected one of them");
    if (wanted->limit_count != 0)
        return tide_error_set(TIDE_EINVAL, "limit: a shared budget counts bytes alone, and has no count=");
    if (wanted->soft_limit_bytes != 0)
        return tide_error_set(TIDE_EINVAL, "limit: a shared budget has no soft=");
    return TIDE_OK;
}

static enum tide_status
limit_check(void *options, size_t *fault)
{
    const struct tide_limit_options *wanted = options;
    uint64_t limit_bytes = tidei_none_to_zero(wanted->limit_bytes);

    if (wanted->shared != NULL)
        return limit_check_shared(wanted, fault);
    if (wanted->limit_bytes == 0 && wanted->limit_count == 0)
        return tide_error_set(TIDE_EINVAL, "limit: no bound given, expected limit_bytes or limit_count");
    *fault = LIMIT_SOFT;
    if (wanted->limit_bytes != 0 && wanted->soft_limit_bytes > limit_bytes)
        return tide_error_set(TIDE_EINVAL, "limit: soft limit of %s over the limit of %s",
                              tidei_size_text(wanted->soft_limit_bytes), tidei_size_text(limit_bytes));
    return TIDE_OK;
}

static enum tide_status
limit_init(struct tide_resource *self, size_t *fault)
{
    struct limit *limit = (struct limit *)self;
    enum tide_status status = budget_get(&limit->options, &limit->budget);

    /* The argument at fault if it exists with other bounds. */
    *fault = limit->options.shared != NULL ? LIMIT_SHARED : LIMIT_BUDGET;
    if (status != TIDE_OK)
        return status;
    if (limit->options.shared != NULL)
        limit->options.shared = limit->budget->name;
    else
        limit->options.budget = limit->budget->name;
    /* The application's function may take long, and call the driver. A shared budget may wait for other processes. */
    if (limit->options.soft_limit_bytes == 0 && limit->options.shared == NULL)
        tidei_resource_set_quick(self);
    return TIDE_OK;
}

static void
limit_fini(struct tide_resource *self)
{
    budget_put(((struct limit *)self)->budget);
}

extern const struct tidei_kind tidei_limit_kind;

static enum tide_status
limit_from_text(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_limit_options options;

    *out = NULL;
    if (!arguments->values[LIMIT_BYTES].given && !arguments->values[LIMIT_COUNT].given)
        return tide_error_set(TIDE_ESYNTAX, "limit: argument 'limit' is missing, expected %s, or count=",
                              tidei_limit_kind.arguments[LIMIT_BYTES].expected);
    tidei_kind_read_text(&tidei_limit_kind, arguments, &options);
    return tidei_kind_create_read(&tidei_limit_kind, arguments, &options, upstream, out);
}

static const struct tidei_argument limit_arguments[] = {
    TIDEI_ARGUMENT("limit", SIZE, struct tide_limit_options, limit_bytes, "a size such as 4GiB, or a share such as 25%",
                   .positional = true, .share = true, .default_value = TIDE_UNLIMITED, .zero_value = TIDE_NONE),
    TIDEI_ARGUMENT("count", COUNT, struct tide_limit_options, limit_count, "a number of allocations such as 1000",
                   .least = 1, .default_value = UINT64_MAX),
    TIDEI_ARGUMENT("soft", SIZE, struct tide_limit_options, soft_limit_bytes,
                   "a size such as 3GiB, or a share such as 20%", .share = true),
    TIDEI_ARGUMENT("alignment", SIZE, struct tide_limit_options, alignment, "a power of two such as 256",
                   .power_of_two = true, .default_value = 256),
    TIDEI_ARGUMENT("budget", WORD, struct tide_limit_options, budget, "a name such as gpu", .least = 1),
    TIDEI_ARGUMENT("shared", WORD, struct tide_limit_options, shared,
                   "a name such as gpu, or the path of a file from '/' on", .least = 1, .reaches_out = true),
};

const struct tidei_kind tidei_limit_kind = {
    .ops = {
        TIDEI_KIND_OPS("limit"),
        .allocate = limit_allocate,
        .deallocate = limit_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = limit_query,
        .describe = limit_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(limit_arguments),
    .options_size = sizeof(struct tide_limit_options),
    TIDEI_KIND_STRUCT(struct limit),
    .check = limit_check,
    .init = limit_init,
    .fini = limit_fini,
    .create_text = limit_from_text,
};

enum tide_status
tide_limit_create(struct tide_resource *upstream, const struct tide_limit_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_limit_kind, upstream, options, out);
}

enum tide_status
tide_limit_read(struct tide_resource *resource, struct tide_limit_figures *out)
{
    TIDEI_INSIDE(resource);
    enum tide_status status = tidei_kind_check_figures(&tidei_limit_kind, resource, out);
    struct tide_limit_figures figures;

    if (status != TIDE_OK)
        return status;
    budget_read(((struct limit *)resource)->budget, &figures);
    tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}
