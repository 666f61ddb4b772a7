/*
 * limit: refuse what would take the bytes or the allocations outstanding past a bound.
 *
 * Usage: limit(BYTES [, alignment=256] [, count=N] [, soft=BYTES] [, budget=NAME])
 *     BYTES      the bound: 4GiB, or a share of the device's memory such as 25%; may be left out beside a count
 *     alignment  power of two that each request counts rounded up to; 256 unless said otherwise, 1 counts the bytes
 *                requested
 *     count      the most allocations outstanding
 *     soft       a warning when the bytes outstanding pass this
 *     budget     limits with the same name count together, whichever stack they are in
 *
 * Example: what runs below never holds more than 4 GiB of the device at once, as a program on a smaller card would:
 *     log(trace.db) | limit(4GiB) | driver
 *
 * A request reserves its bytes in one step that takes place only where they fit. So no request is refused because of
 * another one that was refused, and the bytes outstanding below never pass the bound at any moment: they are reserved
 * before upstream is called, and given back once upstream has taken the memory back. The account, which threads keep
 * apart from each other until the bound is near, is src/account/ledger.h's.
 *
 * LIMITATIONS
 *  - A deallocation gives its bytes back only when upstream's has returned. Until then another thread may be refused,
 *    though the memory is about to be free; the other order would let it reach upstream before the memory is back.
 *  - Order matters: over a pool the limit bounds what is requested, under one what the pool holds.
 *  - Rounding is a count, not a request: upstream gets the size that was asked for.
 *  - Above the soft limit threads share one counter, so that every crossing is seen: then they are slower.
 */
#include <stdlib.h>

#include <tidemark/limit.h>

#include "adaptors/limit/budget.h"
#include "src/resource/kind.h"
#include "src/account/ledger.h"
#include "src/resource/resource.h"

#define LIMIT_DEFAULT_ALIGNMENT 256

struct limit {
    struct tide_resource base;
    struct tidei_budget *budget; /* holds a reference */
    uint64_t alignment;
    tide_soft_limit_function soft_limit;
    void *soft_limit_context; /* borrowed */
};

/* What a request counts, into *counted. */
static enum tide_status
limit_count(const struct limit *limit, size_t bytes, uint64_t *counted)
{
    if (tidei_round_up(bytes, limit->alignment, counted))
        return TIDE_OK;
    return tide_error_set(TIDE_EOVERFLOW, "limit: %zu B request overflows when rounded up to %s", bytes,
                          tidei_size_text(limit->alignment));
}

static enum tide_status
limit_refuse(const struct tidei_budget *budget, uint64_t counted, const struct tidei_amount *used)
{
    if (counted > budget->limit_bytes)
        return tide_error_set(TIDE_ELIMIT, "limit: %s request exceeds %s limit", tidei_size_text(counted),
                              tidei_size_text(budget->limit_bytes));
    if (counted > budget->limit_bytes - used->bytes)
        return tide_error_set(TIDE_ELIMIT, "limit: %s request exceeds %s limit (%s in use)", tidei_size_text(counted),
                              tidei_size_text(budget->limit_bytes), tidei_size_text(used->bytes));
    return tide_error_set(TIDE_ELIMIT, "limit: one more allocation exceeds the limit of %llu",
                          (unsigned long long)budget->limit_count);
}

/* The bytes outstanding have passed the soft limit: nobody holds a lock. */
static void
limit_warn(const struct limit *limit, uint64_t used_bytes)
{
    uint64_t soft_limit_bytes = limit->budget->soft_limit_bytes;

    if (limit->soft_limit != NULL)
        limit->soft_limit(limit->soft_limit_context, used_bytes, soft_limit_bytes);
    else
        tidei_message(TIDE_WARNING, "limit: %s in use pass the soft limit of %s", tidei_size_text(used_bytes),
                      tidei_size_text(soft_limit_bytes));
}

/* What the account had to be asked for. */
static __attribute__((noinline)) enum tide_status
limit_answered(const struct limit *limit, uint64_t counted, const struct tidei_ledger_answer *answer)
{
    if (answer->refused)
        return limit_refuse(limit->budget, counted, &answer->used);
    if (answer->crossed)
        limit_warn(limit, answer->used.bytes);
    return TIDE_OK;
}

static enum tide_status
limit_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct limit *limit = (struct limit *)self;
    struct tidei_budget *budget = limit->budget;
    struct tidei_ledger_answer answer;
    enum tide_status status;
    uint64_t counted;

    *out = NULL;
    status = limit_count(limit, bytes, &counted);
    if (status != TIDE_OK)
        return status;
    /* By itself too large: the account, which would have to call in all leases to say no, is not asked. */
    if (counted > budget->limit_bytes)
        return limit_refuse(budget, counted, NULL);
    if (!tidei_ledger_add(&budget->ledger, counted, &answer)) {
        status = limit_answered(limit, counted, &answer);
        if (status != TIDE_OK)
            return status;
    }
    status = tidei_allocate(self->upstream, bytes, alignment, stream, out);
    if (status != TIDE_OK)
        tidei_ledger_take_off(&budget->ledger, counted);
    return status;
}

/* What is outstanding includes this allocation until it is given back, so a size over that is certainly wrong. */
static __attribute__((noinline)) enum tide_status
limit_mismatch(struct tidei_budget *budget, uint64_t counted)
{
    struct tidei_ledger_figures figures;

    tidei_ledger_read(&budget->ledger, &figures);
    return tide_error_set(TIDE_EMISMATCH, "limit: %s given back with %s outstanding", tidei_size_text(counted),
                          tidei_size_text(figures.current.bytes));
}

static enum tide_status
limit_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct limit *limit = (struct limit *)self;
    struct tidei_budget *budget = limit->budget;
    enum tide_status status;
    uint64_t counted;

    status = limit_count(limit, bytes, &counted);
    if (status != TIDE_OK)
        return status;
    if (!tidei_ledger_covers(&budget->ledger, counted))
        return limit_mismatch(budget, counted);
    status = tidei_deallocate(self->upstream, pointer, bytes, alignment, stream);
    if (status == TIDE_OK)
        tidei_ledger_take_off(&budget->ledger, counted);
    return status;
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

static void
limit_describe(struct tide_resource *self, struct tide_text *text)
{
    const struct limit *limit = (const struct limit *)self;
    const struct tidei_budget *budget = limit->budget;
    const char *comma = ", ";

    if (budget->limit_bytes != UINT64_MAX || budget->limit_count == UINT64_MAX)
        tide_text_size(text, budget->limit_bytes);
    else
        comma = "";
    if (budget->limit_count != UINT64_MAX) {
        tide_text_format(text, "%scount=%llu", comma, (unsigned long long)budget->limit_count);
        comma = ", ";
    }
    if (budget->soft_limit_bytes != 0) {
        tide_text_format(text, "%ssoft=", comma);
        tide_text_size(text, budget->soft_limit_bytes);
    }
    if (limit->alignment != LIMIT_DEFAULT_ALIGNMENT) {
        tide_text_format(text, "%salignment=", comma);
        tide_text_size(text, limit->alignment);
    }
    if (budget->name != NULL) {
        tide_text_format(text, "%sbudget=", comma);
        tide_text_word(text, budget->name);
    }
}

static void
limit_destroy(struct tide_resource *self)
{
    tidei_budget_put(((struct limit *)self)->budget);
    tide_resource_fini(self);
    free(self);
}

static const struct tide_resource_ops limit_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "limit",
    .allocate = limit_allocate,
    .deallocate = limit_deallocate,
    .order = tide_pass_order,
    .trim = tide_pass_trim,
    .query = limit_query,
    .describe = limit_describe,
    .upstream_at = tide_pass_upstream_at,
    .destroy = limit_destroy,
};

/* Options as they are meant, defaults filled in. */
static enum tide_status
limit_options(const struct tide_limit_options *options, struct tide_limit_options *out)
{
    enum tide_status status;

    if (options == NULL)
        return tide_error_set(TIDE_EINVAL, "limit: no options, which give the bound");
    status = tidei_options_copy("limit", options, out, sizeof(*out));
    if (status != TIDE_OK)
        return status;
    if (out->alignment == 0)
        out->alignment = LIMIT_DEFAULT_ALIGNMENT;
    if (out->limit_count == 0)
        out->limit_count = UINT64_MAX;
    if (!tidei_is_power_of_two(out->alignment))
        return tide_error_set(TIDE_EINVAL, "limit: alignment %llu is no power of two",
                              (unsigned long long)out->alignment);
    if (out->soft_limit_bytes > out->limit_bytes)
        return tide_error_set(TIDE_EINVAL, "limit: soft limit of %s over the limit of %s",
                              tidei_size_text(out->soft_limit_bytes), tidei_size_text(out->limit_bytes));
    if (out->budget != NULL && out->budget[0] == '\0')
        return tide_error_set(TIDE_EINVAL, "limit: the name of the budget is empty");
    return TIDE_OK;
}

enum tide_status
tide_limit_create(struct tide_resource *upstream, const struct tide_limit_options *options, struct tide_resource **out)
{
    struct tide_limit_options wanted;
    struct tidei_budget *budget = NULL;
    struct limit *limit = NULL;
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "limit: no place for the resource");
    *out = NULL;
    if (upstream == NULL)
        return tide_error_set(TIDE_EINVAL, "limit: no upstream");
    status = limit_options(options, &wanted);
    if (status == TIDE_OK)
        status = tidei_budget_get(&wanted, &budget);
    if (status != TIDE_OK)
        goto out;
    limit = calloc(1, sizeof(*limit));
    if (limit == NULL) {
        status = tide_error_set(TIDE_ENOMEM, "limit: no host memory for %zu B", sizeof(*limit));
        goto out;
    }
    limit->alignment = wanted.alignment;
    limit->soft_limit = wanted.soft_limit;
    limit->soft_limit_context = wanted.soft_limit_context;
    status = tide_resource_init(&limit->base, &limit_ops, upstream);
    if (status != TIDE_OK)
        goto out;
    limit->budget = budget;
    if (budget->soft_limit_bytes == 0) /* an application's function may take its time, and call the driver */
        tidei_resource_set_quick(&limit->base);
    *out = &limit->base;
    return TIDE_OK;

out:
    if (budget != NULL)
        tidei_budget_put(budget);
    free(limit);
    return status;
}

/* The figures of a limit; what is none has zeros. */
static enum tide_status
limit_read(struct tide_resource *resource, const void *place, struct tidei_ledger_figures *out)
{
    *out = (struct tidei_ledger_figures){ 0 };
    if (resource == NULL || place == NULL || resource->ops != &limit_ops)
        return tide_error_set(TIDE_EINVAL, "limit: asked of what is no limit");
    tidei_ledger_read(&((struct limit *)resource)->budget->ledger, out);
    return TIDE_OK;
}

enum tide_status
tide_limit_used(struct tide_resource *resource, uint64_t *out)
{
    struct tidei_ledger_figures figures;
    enum tide_status status = limit_read(resource, out, &figures);

    if (out != NULL)
        *out = figures.current.bytes;
    return status;
}

enum tide_status
tide_limit_used_count(struct tide_resource *resource, uint64_t *out)
{
    struct tidei_ledger_figures figures;
    enum tide_status status = limit_read(resource, out, &figures);

    if (out != NULL)
        *out = figures.current.count;
    return status;
}

enum { LIMIT_BYTES, LIMIT_COUNT, LIMIT_SOFT, LIMIT_ALIGNMENT, LIMIT_BUDGET };

static const struct tidei_argument limit_arguments[] = {
    [LIMIT_BYTES] = { .key = "limit",
                      .type = TIDEI_ARGUMENT_SIZE,
                      .positional = true,
                      .share = true,
                      .expected = "a size such as 4GiB, or a share such as 25%" },
    [LIMIT_COUNT] = { .key = "count",
                      .type = TIDEI_ARGUMENT_COUNT,
                      .least = 1,
                      .expected = "a number of allocations such as 1000" },
    [LIMIT_SOFT] = { .key = "soft",
                     .type = TIDEI_ARGUMENT_SIZE,
                     .share = true,
                     .expected = "a size such as 3GiB, or a share such as 20%" },
    [LIMIT_ALIGNMENT] = { .key = "alignment",
                          .type = TIDEI_ARGUMENT_SIZE,
                          .power_of_two = true,
                          .expected = "a power of two such as 256" },
    [LIMIT_BUDGET] = { .key = "budget", .type = TIDEI_ARGUMENT_WORD, .least = 1, .expected = "a name such as gpu" },
};

static enum tide_status
limit_from_text(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    const struct tidei_value *values = arguments->values;
    const struct tide_limit_options options = {
        TIDE_OPTIONS(options),
        .limit_bytes = values[LIMIT_BYTES].given ? values[LIMIT_BYTES].number : UINT64_MAX,
        .alignment = values[LIMIT_ALIGNMENT].number,
        .limit_count = values[LIMIT_COUNT].number,
        .soft_limit_bytes = values[LIMIT_SOFT].number,
        .budget = values[LIMIT_BUDGET].word,
    };

    *out = NULL;
    if (!values[LIMIT_BYTES].given && !values[LIMIT_COUNT].given)
        return tide_error_set(TIDE_ESYNTAX, "limit: argument 'limit' is missing, expected %s, or count=",
                              limit_arguments[LIMIT_BYTES].expected);
    if (options.soft_limit_bytes > options.limit_bytes)
        *arguments->error_column = values[LIMIT_SOFT].column;
    else if (values[LIMIT_BUDGET].given)
        *arguments->error_column = values[LIMIT_BUDGET].column; /* should it be there with other bounds */
    return tide_limit_create(upstream, &options, out);
}

const struct tidei_kind tidei_limit_kind = {
    .name = "limit",
    .arguments = limit_arguments,
    .argument_count = TIDEI_COUNT_OF(limit_arguments),
    .create = limit_from_text,
};
