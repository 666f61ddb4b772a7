/* Makes the layers that bench/layers measures. */
#include "config.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "bench.h"
#include "layers.h"
#include "nothing.h"

/* Check the result of a constructor, and release `base`, to which the new layer has the only reference. */
static struct tide_resource *
over(struct tide_resource *base, enum tide_status status, struct tide_resource *const *top)
{
    if (status != TIDE_OK)
        bench_fail("a layer");
    tide_resource_release(base);
    return *top;
}

static struct tide_resource *
make_nothing(unsigned threads)
{
    (void)threads;
    return bench_nothing();
}

static struct tide_resource *
make_limit(unsigned threads)
{
    const struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = UINT64_C(80) << 30 };
    struct tide_resource *base = bench_nothing(), *limit;

    (void)threads;
    return over(base, tide_limit_create(base, &options, &limit), &limit);
}

/* The same with an account that other processes may share. */
static struct tide_resource *
make_shared_limit(unsigned threads)
{
    char name[64];
    const struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = UINT64_C(80) << 30,
                                                .shared = name };
    struct tide_resource *base = bench_nothing(), *limit;

    (void)threads;
    snprintf(name, sizeof(name), "bench-%d", (int)getpid());
    return over(base, tide_limit_create(base, &options, &limit), &limit);
}

/* A limit for the mean number of live blocks: about every second request is refused. */
static struct tide_resource *
make_full_limit(unsigned threads)
{
    const struct tide_limit_options options = { TIDE_OPTIONS(options),
                                                .limit_bytes = (uint64_t)threads * LAYERS_LIVE * LAYERS_LARGEST / 2 };
    struct tide_resource *base = bench_nothing(), *limit;

    return over(base, tide_limit_create(base, &options, &limit), &limit);
}

static struct tide_resource *
make_statistics(unsigned threads)
{
    struct tide_resource *base = bench_nothing(), *statistics;

    (void)threads;
    return over(base, tide_statistics_create(base, NULL, &statistics), &statistics);
}

static struct tide_resource *
make_track(unsigned threads)
{
    struct tide_resource *base = bench_reusing(), *track;

    (void)threads;
    return over(base, tide_track_create(base, NULL, &track), &track);
}

static struct tide_resource *
make_retry(unsigned threads)
{
    struct tide_resource *base = bench_nothing(), *retry;

    (void)threads;
    return over(base, tide_retry_create(base, NULL, &retry), &retry);
}

/* A fault layer that counts every request and fails none. */
static struct tide_resource *
make_fault(unsigned threads)
{
    const struct tide_fault_options options = { TIDE_OPTIONS(options), .nth = UINT64_MAX };
    struct tide_resource *base = bench_nothing(), *fault;

    (void)threads;
    return over(base, tide_fault_create(base, &options, &fault), &fault);
}

static enum tide_status
function_allocate(void *context, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    (void)context;
    (void)bytes;
    (void)alignment;
    *out = (void *)(uintptr_t)(0x100000 + (stream << 12));
    return TIDE_OK;
}

static enum tide_status
function_deallocate(void *context, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    (void)context;
    (void)pointer;
    (void)bytes;
    (void)alignment;
    (void)stream;
    return TIDE_OK;
}

/* A callback layer whose functions do nothing. */
static struct tide_resource *
make_callback(unsigned threads)
{
    const struct tide_callback_options options = { TIDE_OPTIONS(options), .allocate = function_allocate,
                                                   .deallocate = function_deallocate };
    struct tide_resource *callback;

    (void)threads;
    if (tide_callback_create(&options, &callback) != TIDE_OK)
        bench_fail("callback");
    return callback;
}

/* A fallback whose first resource serves every request. */
static struct tide_resource *
make_fallback(unsigned threads)
{
    struct tide_resource *first = bench_nothing(), *second = bench_nothing(), *fallback;
    enum tide_status status = tide_fallback_create(first, second, NULL, &fallback);

    (void)threads;
    tide_resource_release(second);
    return over(first, status, &fallback);
}

/* A fallback whose first resource is full, so that the second serves every request. */
static struct tide_resource *
make_full_fallback(unsigned threads)
{
    const struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = 1 };
    struct tide_resource *base = bench_nothing(), *second = bench_addresses(), *limit, *fallback;
    enum tide_status status = tide_limit_create(base, &options, &limit);

    (void)threads;
    limit = over(base, status, &limit);
    status = tide_fallback_create(limit, second, NULL, &fallback);
    tide_resource_release(second);
    return over(limit, status, &fallback);
}

static struct tide_resource *
make_addresses(unsigned threads)
{
    (void)threads;
    return bench_addresses();
}

/* An aligned layer that moves every request. */
static struct tide_resource *
make_aligned(unsigned threads)
{
    const struct tide_aligned_options options = { TIDE_OPTIONS(options), .alignment_bytes = 4096 };
    struct tide_resource *base = bench_addresses(), *aligned;

    (void)threads;
    return over(base, tide_aligned_create(base, &options, &aligned), &aligned);
}

static struct tide_resource *
make_fixed(unsigned threads)
{
    const struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = LAYERS_LARGEST };
    struct tide_resource *base = bench_addresses(), *fixed;

    (void)threads;
    return over(base, tide_fixed_create(base, &options, &fixed), &fixed);
}

static struct tide_resource *
make_binning(unsigned threads)
{
    const struct tide_binning_options options = { TIDE_OPTIONS(options), .smallest_bytes = 256,
                                                  .largest_bytes = LAYERS_LARGEST };
    struct tide_resource *base = bench_addresses(), *binning;

    (void)threads;
    return over(base, tide_binning_create(base, &options, &binning), &binning);
}

/* A monotonic layer with the largest chunks: nothing resets it, and most requests fit into the current chunk. */
static struct tide_resource *
make_monotonic(unsigned threads)
{
    const struct tide_monotonic_options options = { TIDE_OPTIONS(options), .chunk_bytes = (size_t)1 << 42 };
    struct tide_resource *base = bench_addresses(), *monotonic;

    (void)threads;
    return over(base, tide_monotonic_create(base, &options, &monotonic), &monotonic);
}

static struct tide_resource *
make_host(unsigned threads)
{
    struct tide_resource *host;

    (void)threads;
    if (tide_host_create(NULL, &host) != TIDE_OK)
        bench_fail("host");
    return host;
}

static struct tide_resource *
make_guard(unsigned threads)
{
    struct tide_resource *base = make_host(threads), *guard;

    return over(base, tide_guard_create(base, NULL, &guard), &guard);
}

const struct bench_layer bench_layers[] = {
    { "base that does nothing", make_nothing, 0 },
    { "limit", make_limit, 0 },
    { "limit, full", make_full_limit, 0 },
    { "limit, shared", make_shared_limit, 0 },
    { "statistics", make_statistics, 0 },
    { "track", make_track, 0 },
    { "retry", make_retry, 0 },
    { "fault", make_fault, 0 },
    { "callback", make_callback, 0 },
    { "fallback", make_fallback, 0 },
    { "fallback, the first full", make_full_fallback, 0 },
    { "base of addresses", make_addresses, 0 },
    { "aligned", make_aligned, 0 },
    { "fixed", make_fixed, 0 },
    { "binning", make_binning, 0 },
    { "monotonic", make_monotonic, 0 },
    { "host", make_host, 1000 },
    { "guard", make_guard, 100 },
    { NULL, NULL, 0 },
};
