/*
 * retry: where upstream has no memory, release idle memory and try again.
 *
 * Usage: retry([COUNT] [, any])
 *     COUNT  how often the request is repeated, from 1 to 1000; 2 unless given
 *     any    after any failure, not only for lack of memory
 *
 * Example: before a request fails, the pool returns its idle chunks, and the host waits for the device:
 *     retry | pool(maximum=8GiB) | driver
 *
 * From stack text, the layer trims the layers below it. With tide_retry_create it can call a function of the
 * application instead, which may empty the application's caches.
 *
 * LIMITATIONS
 *  - A trim returns idle memory. It moves nothing, and does not free blocks that the application holds.
 *  - From the second attempt on the layer waits for the device. That blocks the host until all work is done, and
 *    invalidates a capture that is under way: a program that captures should use COUNT 1.
 */
#include <tidemark/retry.h>

#include "src/resource/kind.h"
#include "src/sync/inside.h"

struct retry {
    struct tide_resource base;
    struct tide_retry_options options;
    _Atomic uint64_t failed;
    _Atomic uint64_t served;
};

static bool
retry_wanted(const struct retry *retry, enum tide_status status)
{
    return retry->options.any || status == TIDE_ECAPACITY || status == TIDE_ELIMIT;
}

/* Before attempt `number`: call the function, or trim the layers below, whose failure is ignored. */
static bool
retry_prepare(const struct retry *retry, size_t bytes, unsigned number, enum tide_status status)
{
    struct tide_resource *upstream = retry->base.upstream;

    bool again = true;

    if (retry->options.function != NULL) {
        TIDEI_OUTSIDE(again = retry->options.function(retry->options.context, bytes, number, status));
        return again;
    }
    if (number > 1)
        (void)upstream->ops->order(upstream, TIDE_STREAM_ALL, 0);
    (void)upstream->ops->trim(upstream, 0);
    return true;
}

/* Upstream has failed with `status`; the error text is set. */
static __attribute__((noinline)) enum tide_status
retry_again(struct retry *retry, size_t bytes, size_t alignment, tide_stream stream, enum tide_status status,
            void **out)
{
    struct tidei_error error;
    unsigned number = 1;

    /* relaxed: only figures, which order nothing */
    atomic_fetch_add_explicit(&retry->failed, 1, memory_order_relaxed);
    tidei_error_save(&error);
    for (; number <= retry->options.retries && retry_wanted(retry, status); number++) {
        if (!retry_prepare(retry, bytes, number, status))
            break;
        status = tidei_allocate(retry->base.upstream, bytes, alignment, stream, out);
        if (status == TIDE_OK) {
            atomic_fetch_add_explicit(&retry->served, 1, memory_order_relaxed);
            return TIDE_OK;
        }
        tidei_error_save(&error);
    }
    *out = NULL;
    return tidei_error_pass_on(&error, status, "retry: %s (asked %u times)", error.text, number);
}

static enum tide_status
retry_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct retry *retry = (struct retry *)self;
    enum tide_status status = tidei_allocate(self->upstream, bytes, alignment, stream, out);

    if (__builtin_expect(status == TIDE_OK, 1) || !retry_wanted(retry, status))
        return status;
    return retry_again(retry, bytes, alignment, stream, status, out);
}

static const struct tidei_argument retry_arguments[] = {
    TIDEI_ARGUMENT("retries", COUNT, struct tide_retry_options, retries, "a number from 1 to 1000", .positional = true,
                   .least = 1, .most = 1000, .default_value = 2),
    TIDEI_FLAG("any", struct tide_retry_options, any),
};

static const struct tidei_count retry_counts[] = {
    TIDEI_COUNT("failed", struct retry, failed),
    TIDEI_COUNT("served", struct retry, served),
};

const struct tidei_kind tidei_retry_kind = {
    .ops = {
        TIDEI_KIND_OPS("retry"),
        .allocate = retry_allocate,
        .deallocate = tide_pass_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = tide_pass_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(retry_arguments),
    .options_size = offsetof(struct tide_retry_options, reserved),
    TIDEI_KIND_STRUCT(struct retry),
    TIDEI_KIND_COUNTS(retry_counts),
};

enum tide_status
tide_retry_create(struct tide_resource *upstream, const struct tide_retry_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_retry_kind, upstream, options, out);
}

enum tide_status
tide_retry_read(struct tide_resource *resource, struct tide_retry_figures *out)
{
    TIDEI_INSIDE(resource);
    const struct retry *retry = (const struct retry *)resource;
    enum tide_status status = tidei_kind_check_figures(&tidei_retry_kind, resource, out);
    struct tide_retry_figures figures;

    if (status != TIDE_OK)
        return status;
    /* In this order, so that `served` never exceeds `failed`. */
    figures.served = atomic_load_explicit(&retry->served, memory_order_relaxed);
    figures.failed = atomic_load_explicit(&retry->failed, memory_order_relaxed);
    tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}
