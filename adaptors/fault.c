/*
 * fault: make chosen allocations fail, so that tests can show how a program copes.
 *
 * Usage: fault(nth=N, every=N, probability=P, seed=N, above=SIZE, after_bytes=SIZE, status=STATUS)
 *     above, after_bytes  count only requests of more than SIZE bytes, and only after SIZE bytes were handed out in all
 *     nth, every          fail the Nth counted request (from 1), and every Nth one
 *     probability, seed   fail each with that chance, 0.01 or 1%; the same seed fails the same requests
 *     status              the status that they return: capacity (unless given), limit, nomem or driver
 *
 * Example: one in a thousand requests of more than a megabyte fails:
 *     fault(probability=0.1%, seed=7, above=1MiB) | driver
 *
 * Without nth, every and probability, all counted requests fail. The chance is a hash of the seed and the request's
 * number, so it does not depend on the thread or on the time.
 *
 * LIMITATIONS
 *  - Threads race for the numbers of requests, so which request fails may differ between runs. How many fail does not,
 *    except with after_bytes, which counts the bytes that upstream has served so far.
 *  - Deallocations never fail.
 *  - Threads share the counters: the layer is for tests, not for measurements.
 */
#include <tidemark/fault.h>

#include "src/resource/kind.h"
#include "src/sync/inside.h"

#define FAULT_BILLION UINT64_C(1000000000)

struct fault {
    struct tide_resource base;
    _Atomic uint64_t nth;
    _Atomic uint64_t counted; /* requests that match above and after_bytes */
    _Atomic uint64_t planted;
    _Atomic uint64_t served_bytes; /* of all successful requests; counted only for after_bytes */
    uint64_t billionths;           /* the probability */
    struct tide_fault_options options;
};

/* CUDA_ERROR_UNKNOWN: the driver error of a planted TIDE_EDRIVER. */
#define FAULT_DRIVER_RESULT 999

/* The finalizer of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t
fault_hash(uint64_t seed, uint64_t number)
{
    uint64_t hash = seed + number * UINT64_C(0x9e3779b97f4a7c15);

    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

static bool
fault_by_chance(const struct fault *fault, uint64_t number)
{
    return (uint64_t)((unsigned __int128)fault_hash(fault->options.seed, number) * FAULT_BILLION >> 64) <
           fault->billionths;
}

/* The argument that has chosen the request; NULL for none. All atomics are relaxed: counters, which order nothing. */
static const char *
fault_chosen_by(const struct fault *fault, uint64_t number)
{
    uint64_t nth = atomic_load_explicit(&fault->nth, memory_order_relaxed);

    if (nth == number)
        return "nth";
    if (fault->options.every != 0 && number % fault->options.every == 0)
        return "every";
    if (fault_by_chance(fault, number))
        return "probability";
    if (nth != 0 || fault->options.every != 0 || fault->billionths != 0)
        return NULL;
    return fault->options.above_bytes != 0 ? "above" : fault->options.after_bytes != 0 ? "after_bytes" : NULL;
}

static enum tide_status
fault_plant(struct fault *fault, uint64_t number, size_t bytes, const char *argument)
{
    enum tide_status status = (enum tide_status)fault->options.status;

    atomic_fetch_add_explicit(&fault->planted, 1, memory_order_relaxed);
    tide_error_set(status, "fault: planted failure of request %llu (%s): chosen by %s", (unsigned long long)number,
                   tidei_size_text(bytes), argument);
    if (status == TIDE_EDRIVER)
        tidei_error_driver_set(FAULT_DRIVER_RESULT);
    return tidei_refused(&fault->base, status);
}

static enum tide_status
fault_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct fault *fault = (struct fault *)self;
    const char *argument = NULL;
    enum tide_status status;
    uint64_t number = 0;

    *out = NULL;
    if ((fault->options.above_bytes == 0 || bytes > fault->options.above_bytes) &&
        (fault->options.after_bytes == 0 ||
         atomic_load_explicit(&fault->served_bytes, memory_order_relaxed) >= fault->options.after_bytes)) {
        number = atomic_fetch_add_explicit(&fault->counted, 1, memory_order_relaxed) + 1;
        argument = fault_chosen_by(fault, number);
    }
    if (argument != NULL)
        return fault_plant(fault, number, bytes, argument);
    status = tidei_allocate(self->upstream, bytes, alignment, stream, out);
    if (status == TIDE_OK && fault->options.after_bytes != 0)
        atomic_fetch_add_explicit(&fault->served_bytes, bytes, memory_order_relaxed);
    return status;
}

enum { FAULT_NTH, FAULT_EVERY, FAULT_PROBABILITY, FAULT_SEED, FAULT_ABOVE, FAULT_AFTER, FAULT_STATUS, FAULT_NONE };

/* Written so that a NaN is refused, too. */
static enum tide_status
fault_check(void *given, size_t *fault)
{
    const struct tide_fault_options *options = given;

    if (!(options->probability >= 0 && options->probability <= 1))
        return tide_error_set(TIDE_EINVAL, "fault: probability %g, expected 0 to 1", options->probability);
    if (options->probability > 0 && options->probability * (double)FAULT_BILLION < 0.5)
        return tide_error_set(TIDE_EINVAL, "fault: probability %g is less than one in 10^9", options->probability);
    *fault = FAULT_SEED;
    if (options->seed != 0 && options->probability == 0)
        return tide_error_set(TIDE_EINVAL, "fault: a seed without a probability");
    *fault = FAULT_NONE;
    if (options->nth == 0 && options->every == 0 && options->probability == 0 && options->above_bytes == 0 &&
        options->after_bytes == 0)
        return tide_error_set(TIDE_EINVAL,
                              "fault: nothing chosen, expected nth, every, probability, above or after_bytes");
    return TIDE_OK;
}

static enum tide_status
fault_init(struct tide_resource *self, size_t *fault_of)
{
    struct fault *fault = (struct fault *)self;

    (void)fault_of;
    atomic_init(&fault->nth, fault->options.nth);
    fault->billionths = (uint64_t)(fault->options.probability * (double)FAULT_BILLION + 0.5);
    return TIDE_OK;
}

/* A restart may have changed nth. */
static void
fault_describe(struct tide_resource *self, struct tide_text *text)
{
    struct fault *fault = (struct fault *)self;
    struct tide_fault_options options = fault->options;

    options.nth = atomic_load_explicit(&fault->nth, memory_order_relaxed);
    tidei_kind_describe_options(tidei_kind_of(self), &options, "", text);
}

static const char *const fault_status_names[] = { "capacity", "limit", "nomem", "driver", NULL };
static const unsigned fault_statuses[] = { TIDE_ECAPACITY, TIDE_ELIMIT, TIDE_ENOMEM, TIDE_EDRIVER };

static const struct tidei_argument fault_arguments[] = {
    TIDEI_ARGUMENT("nth", COUNT, struct tide_fault_options, nth, "a number from 1", .least = 1),
    TIDEI_ARGUMENT("every", COUNT, struct tide_fault_options, every, "a number from 1", .least = 1),
    TIDEI_ARGUMENT("probability", FRACTION, struct tide_fault_options, probability,
                   "0.000000001 to 1, or as a percentage such as 5%", .least = 1),
    TIDEI_ARGUMENT("seed", COUNT, struct tide_fault_options, seed, "a number"),
    TIDEI_ARGUMENT("above", SIZE, struct tide_fault_options, above_bytes, "a size such as 1MiB", .least = 1),
    TIDEI_ARGUMENT("after_bytes", SIZE, struct tide_fault_options, after_bytes, "a size such as 1GiB", .least = 1),
    TIDEI_ARGUMENT("status", CHOICE, struct tide_fault_options, status, "capacity, limit, nomem or driver",
                   .choices = fault_status_names, .choice_values = fault_statuses, .default_value = TIDE_ECAPACITY),
};

static const struct tidei_count fault_counts[] = {
    TIDEI_COUNT("counted", struct fault, counted),
    TIDEI_COUNT("planted", struct fault, planted),
};

const struct tidei_kind tidei_fault_kind = {
    .ops = {
        TIDEI_KIND_OPS("fault"),
        .allocate = fault_allocate,
        .deallocate = tide_pass_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = tide_pass_query,
        .describe = fault_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(fault_arguments),
    .options_size = offsetof(struct tide_fault_options, reserved),
    TIDEI_KIND_STRUCT(struct fault),
    TIDEI_KIND_COUNTS(fault_counts),
    .check = fault_check,
    .init = fault_init,
};

enum tide_status
tide_fault_create(struct tide_resource *upstream, const struct tide_fault_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_fault_kind, upstream, options, out);
}

/* Restarts the counters with the same options, but for nth. */
enum tide_status
tide_fault_restart(struct tide_resource *resource, uint64_t nth)
{
    TIDEI_INSIDE(resource);
    struct fault *fault = (struct fault *)resource;

    if (tidei_kind_check(&tidei_fault_kind, resource) != TIDE_OK)
        return TIDE_EINVAL;
    atomic_store_explicit(&fault->nth, nth, memory_order_relaxed);
    atomic_store_explicit(&fault->counted, 0, memory_order_relaxed);
    atomic_store_explicit(&fault->planted, 0, memory_order_relaxed);
    atomic_store_explicit(&fault->served_bytes, 0, memory_order_relaxed);
    return TIDE_OK;
}

enum tide_status
tide_fault_read(struct tide_resource *resource, struct tide_fault_figures *out)
{
    TIDEI_INSIDE(resource);
    const struct fault *fault = (const struct fault *)resource;
    enum tide_status status = tidei_kind_check_figures(&tidei_fault_kind, resource, out);
    struct tide_fault_figures figures;

    if (status != TIDE_OK)
        return status;
    figures.counted = atomic_load_explicit(&fault->counted, memory_order_relaxed);
    figures.planted = atomic_load_explicit(&fault->planted, memory_order_relaxed);
    tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}
