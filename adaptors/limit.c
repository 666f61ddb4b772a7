/*
 * limit: refuse what would take the bytes outstanding past a bound.
 *
 * Usage: limit(BYTES [, alignment=256])
 *     BYTES      the bound: 4GiB, or a share of the device's memory such as 25%
 *     alignment  power of two that each request counts rounded up to; 256 unless said otherwise, 1 counts the bytes
 *                requested
 *
 * Example: what runs below never holds more than 4 GiB of the device at once, as a program on a smaller card would:
 *     log(trace.db) | limit(4GiB) | driver
 *
 * A request reserves its bytes in one step that takes place only where they fit. So no request is refused because of
 * another one that was refused, and the bytes outstanding below never pass the bound at any moment: they are reserved
 * before upstream is called, and given back once upstream has taken the memory back. The step is a load and a store
 * while a single thread has come here, else a compare-exchange.
 *
 * LIMITATIONS
 *  - A deallocation gives its bytes back only when upstream's has returned. Until then another thread may be refused,
 *    though the memory is about to be free; the other order would let it reach upstream before the memory is back.
 *  - Order matters: over a pool the limit bounds what is requested, under one what the pool holds.
 *  - Rounding is a count, not a request: upstream gets the size that was asked for.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include <tidemark/limit.h>

#include "kind.h"
#include "lock.h"
#include "resource.h"

#define LIMIT_DEFAULT_ALIGNMENT 256

struct limit {
    struct tide_resource base;
    struct tidei_lock lock; /* for who is alone; never held in the common way */
    _Atomic uint64_t used;  /* bytes that count now, never over limit_bytes; written by every thread that passes */
    uint64_t limit_bytes;
    uint64_t alignment;
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

/* Where they fit; *used is what was found. */
static bool
limit_reserve_shared(struct limit *limit, uint64_t counted, uint64_t *used)
{
    *used = atomic_load_explicit(&limit->used, memory_order_relaxed); /* relaxed: a hint, the exchange decides */
    /*
     * Acquire: pairs with the release in limit_give_back, so that upstream has the memory back before it is asked
     * for what took its place.
     */
    do {
        if (counted > limit->limit_bytes - *used)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&limit->used, used, *used + counted, memory_order_acquire,
                                                    memory_order_relaxed));
    return true;
}

static enum tide_status
limit_reserve(struct limit *limit, uint64_t counted)
{
    uint64_t used;
    bool fits;

    if (tidei_lock_take_alone(&limit->lock)) {
        /* Relaxed: nobody else writes while this thread is inside, and the lock orders it before those who come. */
        used = atomic_load_explicit(&limit->used, memory_order_relaxed);
        fits = counted <= limit->limit_bytes - used;
        if (fits)
            atomic_store_explicit(&limit->used, used + counted, memory_order_relaxed);
        tidei_lock_give(&limit->lock);
    } else {
        fits = limit_reserve_shared(limit, counted, &used);
    }
    if (fits)
        return TIDE_OK;
    return tide_error_set(TIDE_ELIMIT, "limit: %s request exceeds %s limit (%s in use)", tidei_size_text(counted),
                          tidei_size_text(limit->limit_bytes), tidei_size_text(used));
}

/* Never below 0, which wrong frees of several threads at once could reach, and from where all would pass. */
static uint64_t
limit_left(uint64_t used, uint64_t counted)
{
    return used > counted ? used - counted : 0;
}

static void
limit_give_back(struct limit *limit, uint64_t counted)
{
    uint64_t used;

    if (tidei_lock_take_alone(&limit->lock)) {
        used = atomic_load_explicit(&limit->used, memory_order_relaxed); /* relaxed: as in limit_reserve */
        atomic_store_explicit(&limit->used, limit_left(used, counted), memory_order_relaxed);
        tidei_lock_give(&limit->lock);
        return;
    }
    used = atomic_load_explicit(&limit->used, memory_order_relaxed); /* relaxed: a hint, the exchange decides */
    /* Release: pairs with the acquire in limit_reserve_shared. */
    while (!atomic_compare_exchange_weak_explicit(&limit->used, &used, limit_left(used, counted), memory_order_release,
                                                  memory_order_relaxed))
        ;
}

static enum tide_status
limit_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct limit *limit = (struct limit *)self;
    enum tide_status status;
    uint64_t counted;

    *out = NULL;
    status = limit_count(limit, bytes, &counted);
    if (status != TIDE_OK)
        return status;
    status = limit_reserve(limit, counted);
    if (status != TIDE_OK)
        return status;
    status = tidei_allocate(self->upstream, bytes, alignment, stream, out);
    if (status != TIDE_OK)
        limit_give_back(limit, counted);
    return status;
}

/*
 * What is outstanding includes this allocation until it is given back, so a size over that is certainly wrong.
 */
static enum tide_status
limit_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct limit *limit = (struct limit *)self;
    enum tide_status status;
    uint64_t counted, used;

    status = limit_count(limit, bytes, &counted);
    if (status != TIDE_OK)
        return status;
    used = atomic_load_explicit(&limit->used, memory_order_relaxed); /* relaxed: a number, no data behind it */
    if (counted > used)
        return tide_error_set(TIDE_EMISMATCH, "limit: %s given back with %s outstanding", tidei_size_text(counted),
                              tidei_size_text(used));
    status = tidei_deallocate(self->upstream, pointer, bytes, alignment, stream);
    if (status == TIDE_OK)
        limit_give_back(limit, counted);
    return status;
}

static enum tide_status
limit_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    const struct limit *limit = (const struct limit *)self;
    enum tide_status status = tide_pass_query(self, what, out);

    if (what != TIDE_QUERY_CAPACITY)
        return status;
    if (status != TIDE_OK || *out > limit->limit_bytes)
        *out = limit->limit_bytes;
    return TIDE_OK;
}

static void
limit_describe(struct tide_resource *self, struct tide_text *text)
{
    const struct limit *limit = (const struct limit *)self;

    tide_text_size(text, limit->limit_bytes);
    if (limit->alignment != LIMIT_DEFAULT_ALIGNMENT) {
        tide_text_format(text, ", alignment=");
        tide_text_size(text, limit->alignment);
    }
}

static void
limit_destroy(struct tide_resource *self)
{
    tidei_lock_fini(&((struct limit *)self)->lock);
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

enum tide_status
tide_limit_create(struct tide_resource *upstream, const struct tide_limit_options *options, struct tide_resource **out)
{
    struct tide_limit_options wanted;
    enum tide_status status;
    struct limit *limit;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "limit: no place for the resource");
    *out = NULL;
    if (upstream == NULL)
        return tide_error_set(TIDE_EINVAL, "limit: no upstream");
    if (options == NULL)
        return tide_error_set(TIDE_EINVAL, "limit: no options, which give the bound");
    status = tidei_options_copy("limit", options, &wanted, sizeof(wanted));
    if (status != TIDE_OK)
        return status;
    if (wanted.alignment == 0)
        wanted.alignment = LIMIT_DEFAULT_ALIGNMENT;
    if (!tidei_is_power_of_two(wanted.alignment))
        return tide_error_set(TIDE_EINVAL, "limit: alignment %llu is no power of two",
                              (unsigned long long)wanted.alignment);
    limit = calloc(1, sizeof(*limit));
    if (limit == NULL)
        return tide_error_set(TIDE_ENOMEM, "limit: no host memory for %zu B", sizeof(*limit));
    atomic_init(&limit->used, 0);
    limit->limit_bytes = wanted.limit_bytes;
    limit->alignment = wanted.alignment;
    status = tidei_lock_init(&limit->lock);
    if (status != TIDE_OK)
        goto free_limit;
    status = tide_resource_init(&limit->base, &limit_ops, upstream);
    if (status != TIDE_OK)
        goto fini_lock;
    *out = &limit->base;
    return TIDE_OK;

fini_lock:
    tidei_lock_fini(&limit->lock);
free_limit:
    free(limit);
    return status;
}

enum tide_status
tide_limit_used(struct tide_resource *resource, uint64_t *out)
{
    if (out != NULL)
        *out = 0;
    if (resource == NULL || out == NULL || resource->ops != &limit_ops)
        return tide_error_set(TIDE_EINVAL, "limit: asked of what is no limit");
    /* Relaxed: a number, no data behind it. */
    *out = atomic_load_explicit(&((struct limit *)resource)->used, memory_order_relaxed);
    return TIDE_OK;
}

enum { LIMIT_BYTES, LIMIT_ALIGNMENT };

static const struct tidei_argument limit_arguments[] = {
    [LIMIT_BYTES] = { .key = "limit",
                      .type = TIDEI_ARGUMENT_SIZE,
                      .positional = true,
                      .required = true,
                      .share = true,
                      .expected = "a size such as 4GiB, or a share such as 25%" },
    [LIMIT_ALIGNMENT] = { .key = "alignment",
                          .type = TIDEI_ARGUMENT_SIZE,
                          .power_of_two = true,
                          .expected = "a power of two such as 256" },
};

static enum tide_status
limit_from_text(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    const struct tide_limit_options options = {
        TIDE_OPTIONS(options),
        .limit_bytes = arguments->values[LIMIT_BYTES].number,
        .alignment = arguments->values[LIMIT_ALIGNMENT].number,
    };

    return tide_limit_create(upstream, &options, out);
}

const struct tidei_kind tidei_limit_kind = {
    .name = "limit",
    .arguments = limit_arguments,
    .argument_count = TIDEI_COUNT_OF(limit_arguments),
    .create = limit_from_text,
};
