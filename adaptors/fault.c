/*
 * fault: make chosen allocations fail, so that tests can prove what a program does then.
 *
 * Usage: fault(nth=N, every=N, probability=P, seed=N, above=SIZE, after_bytes=SIZE, status=STATUS)
 *     above, after_bytes  count requests of more than that size alone, and only once so much was handed out in all
 *     nth, every          of those counted, from 1: fail that one, and each of so many
 *     probability, seed   fail each with that chance, 0.01 or 1%; the same ones each time that the seed is the same
 *     status              what they return: capacity (unless given), limit, nomem or driver
 *
 * Example: one in a thousand requests of more than a megabyte fails:
 *     fault(probability=0.1%, seed=7, above=1MiB) | driver
 *
 * Without nth, every and probability all that are counted fail. The chance is a hash of seed and number: it does not
 * depend on who asks, or when.
 *
 * LIMITATIONS
 *  - Which request has which number depends on the order in which threads come; that so many of them fail does not,
 *    but for after_bytes, which counts what upstream has served by then.
 *  - Deallocations never fail.
 *  - Threads share its counters: it is a layer for tests, not for measurements.
 */
#include <stdlib.h>

#include <tidemark/fault.h>

#include "src/resource/kind.h"
#include "src/resource/resource.h"

#define FAULT_BILLION UINT64_C(1000000000)

struct fault {
    struct tide_resource base;
    _Atomic uint64_t nth;
    _Atomic uint64_t counted; /* requests that could be chosen */
    _Atomic uint64_t planted;
    _Atomic uint64_t served_bytes; /* of all successful requests, where after_bytes asks for them */
    uint64_t every;
    uint64_t billionths; /* of the probability */
    uint64_t seed;
    uint64_t above_bytes;
    uint64_t after_bytes;
    size_t status; /* index into the statuses */
};

static const char *const fault_status_names[] = { "capacity", "limit", "nomem", "driver", NULL };
static const enum tide_status fault_statuses[] = { TIDE_ECAPACITY, TIDE_ELIMIT, TIDE_ENOMEM, TIDE_EDRIVER };

/* CUDA_ERROR_UNKNOWN, what a planted TIDE_EDRIVER says that the driver has returned. */
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
    return (uint64_t)((unsigned __int128)fault_hash(fault->seed, number) * FAULT_BILLION >> 64) < fault->billionths;
}

/* Which argument has chosen the request; NULL where none has. All atomics relaxed: counters, which order nothing. */
static const char *
fault_chosen_by(const struct fault *fault, uint64_t number)
{
    uint64_t nth = atomic_load_explicit(&fault->nth, memory_order_relaxed);

    if (nth == number)
        return "nth";
    if (fault->every != 0 && number % fault->every == 0)
        return "every";
    if (fault_by_chance(fault, number))
        return "probability";
    if (nth != 0 || fault->every != 0 || fault->billionths != 0)
        return NULL;
    return fault->above_bytes != 0 ? "above" : fault->after_bytes != 0 ? "after_bytes" : NULL;
}

static enum tide_status
fault_plant(struct fault *fault, uint64_t number, size_t bytes, const char *argument)
{
    enum tide_status status = fault_statuses[fault->status];

    atomic_fetch_add_explicit(&fault->planted, 1, memory_order_relaxed);
    tide_error_set(status, "fault: planted failure of request %llu (%s): chosen by %s", (unsigned long long)number,
                   tidei_size_text(bytes), argument);
    if (status == TIDE_EDRIVER)
        tidei_error_driver_set(FAULT_DRIVER_RESULT);
    return status;
}

static enum tide_status
fault_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct fault *fault = (struct fault *)self;
    const char *argument = NULL;
    enum tide_status status;
    uint64_t number = 0;

    *out = NULL;
    if ((fault->above_bytes == 0 || bytes > fault->above_bytes) &&
        (fault->after_bytes == 0 ||
         atomic_load_explicit(&fault->served_bytes, memory_order_relaxed) >= fault->after_bytes)) {
        number = atomic_fetch_add_explicit(&fault->counted, 1, memory_order_relaxed) + 1;
        argument = fault_chosen_by(fault, number);
    }
    if (argument != NULL)
        return fault_plant(fault, number, bytes, argument);
    status = tidei_allocate(self->upstream, bytes, alignment, stream, out);
    if (status == TIDE_OK && fault->after_bytes != 0)
        atomic_fetch_add_explicit(&fault->served_bytes, bytes, memory_order_relaxed);
    return status;
}

static void
fault_describe_count(struct tide_text *text, const char **comma, const char *key, uint64_t number)
{
    if (number == 0)
        return;
    tide_text_format(text, "%s%s=%llu", *comma, key, (unsigned long long)number);
    *comma = ", ";
}

static void
fault_describe_size(struct tide_text *text, const char **comma, const char *key, uint64_t bytes)
{
    if (bytes == 0)
        return;
    tide_text_format(text, "%s%s=", *comma, key);
    tide_text_size(text, bytes);
    *comma = ", ";
}

static void
fault_describe(struct tide_resource *self, struct tide_text *text)
{
    const struct fault *fault = (const struct fault *)self;
    const char *comma = "";

    fault_describe_count(text, &comma, "nth", atomic_load_explicit(&fault->nth, memory_order_relaxed));
    fault_describe_count(text, &comma, "every", fault->every);
    if (fault->billionths != 0) {
        int digits = 9;
        uint64_t decimals = fault->billionths % FAULT_BILLION;

        for (; digits > 1 && decimals % 10 == 0; digits--)
            decimals /= 10;
        tide_text_format(text, "%sprobability=%llu.%0*llu", comma,
                         (unsigned long long)(fault->billionths / FAULT_BILLION), digits, (unsigned long long)decimals);
        comma = ", ";
    }
    fault_describe_count(text, &comma, "seed", fault->seed);
    fault_describe_size(text, &comma, "above", fault->above_bytes);
    fault_describe_size(text, &comma, "after_bytes", fault->after_bytes);
    if (fault->status != 0)
        tide_text_format(text, "%sstatus=%s", comma, fault_status_names[fault->status]);
}

static void
fault_destroy(struct tide_resource *self)
{
    tide_resource_fini(self);
    free(self);
}

static const struct tide_resource_ops fault_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "fault",
    .allocate = fault_allocate,
    .deallocate = tide_pass_deallocate,
    .order = tide_pass_order,
    .trim = tide_pass_trim,
    .query = tide_pass_query,
    .describe = fault_describe,
    .upstream_at = tide_pass_upstream_at,
    .destroy = fault_destroy,
};

/* The index of the status into *out. */
static enum tide_status
fault_status_find(enum tide_status status, size_t *out)
{
    *out = 0;
    if (status == TIDE_OK)
        return TIDE_OK;
    for (; *out < TIDEI_COUNT_OF(fault_statuses); ++*out) {
        if (fault_statuses[*out] == status)
            return TIDE_OK;
    }
    return tide_error_set(TIDE_EINVAL,
                          "fault: status %s, expected TIDE_ECAPACITY, TIDE_ELIMIT, TIDE_ENOMEM or "
                          "TIDE_EDRIVER",
                          tide_status_name(status));
}

/* Written so that a NaN is refused, too. */
static enum tide_status
fault_check(const struct tide_fault_options *options)
{
    if (!(options->probability >= 0 && options->probability <= 1))
        return tide_error_set(TIDE_EINVAL, "fault: probability %g, expected 0 to 1", options->probability);
    if (options->probability > 0 && options->probability * (double)FAULT_BILLION < 0.5)
        return tide_error_set(TIDE_EINVAL, "fault: probability %g is less than one in 10^9", options->probability);
    if (options->seed != 0 && options->probability == 0)
        return tide_error_set(TIDE_EINVAL, "fault: a seed without a probability");
    if (options->nth == 0 && options->every == 0 && options->probability == 0 && options->above_bytes == 0 &&
        options->after_bytes == 0)
        return tide_error_set(TIDE_EINVAL,
                              "fault: nothing chosen, expected nth, every, probability, above or after_bytes");
    return TIDE_OK;
}

enum tide_status
tide_fault_create(struct tide_resource *upstream, const struct tide_fault_options *options, struct tide_resource **out)
{
    struct tide_fault_options wanted;
    enum tide_status status;
    struct fault *fault;
    size_t index;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "fault: no place for the resource");
    *out = NULL;
    if (upstream == NULL)
        return tide_error_set(TIDE_EINVAL, "fault: no upstream");
    status = tidei_options_copy("fault", options, &wanted, sizeof(wanted));
    if (status == TIDE_OK)
        status = fault_check(&wanted);
    if (status == TIDE_OK)
        status = fault_status_find(wanted.status, &index);
    if (status != TIDE_OK)
        return status;
    fault = calloc(1, sizeof(*fault));
    if (fault == NULL)
        return tide_error_set(TIDE_ENOMEM, "fault: no host memory for %zu B", sizeof(*fault));
    atomic_init(&fault->nth, wanted.nth);
    fault->every = wanted.every;
    fault->billionths = (uint64_t)(wanted.probability * (double)FAULT_BILLION + 0.5);
    fault->seed = wanted.seed;
    fault->above_bytes = wanted.above_bytes;
    fault->after_bytes = wanted.after_bytes;
    fault->status = index;
    status = tide_resource_init(&fault->base, &fault_ops, upstream);
    if (status != TIDE_OK) {
        free(fault);
        return status;
    }
    *out = &fault->base;
    return TIDE_OK;
}

enum tide_status
tide_fault_restart(struct tide_resource *resource, uint64_t nth)
{
    struct fault *fault = (struct fault *)resource;

    if (resource == NULL || resource->ops != &fault_ops)
        return tide_error_set(TIDE_EINVAL, "fault: restart of what is no fault");
    atomic_store_explicit(&fault->nth, nth, memory_order_relaxed);
    atomic_store_explicit(&fault->counted, 0, memory_order_relaxed);
    atomic_store_explicit(&fault->planted, 0, memory_order_relaxed);
    atomic_store_explicit(&fault->served_bytes, 0, memory_order_relaxed);
    return TIDE_OK;
}

enum tide_status
tide_fault_read(struct tide_resource *resource, struct tide_fault_counts *out)
{
    const struct fault *fault = (const struct fault *)resource;

    if (out != NULL)
        *out = (struct tide_fault_counts){ 0 };
    if (resource == NULL || out == NULL || resource->ops != &fault_ops)
        return tide_error_set(TIDE_EINVAL, "fault: asked of what is no fault");
    out->counted = atomic_load_explicit(&fault->counted, memory_order_relaxed);
    out->planted = atomic_load_explicit(&fault->planted, memory_order_relaxed);
    return TIDE_OK;
}

enum { FAULT_NTH, FAULT_EVERY, FAULT_PROBABILITY, FAULT_SEED, FAULT_ABOVE, FAULT_AFTER, FAULT_STATUS };

static const struct tidei_argument fault_arguments[] = {
    [FAULT_NTH] = { .key = "nth", .type = TIDEI_ARGUMENT_COUNT, .least = 1, .expected = "a number from 1" },
    [FAULT_EVERY] = { .key = "every", .type = TIDEI_ARGUMENT_COUNT, .least = 1, .expected = "a number from 1" },
    [FAULT_PROBABILITY] = { .key = "probability",
                            .type = TIDEI_ARGUMENT_FRACTION,
                            .least = 1,
                            .expected = "0.000000001 to 1, or as a percentage such as 5%" },
    [FAULT_SEED] = { .key = "seed", .type = TIDEI_ARGUMENT_COUNT, .expected = "a number" },
    [FAULT_ABOVE] = { .key = "above", .type = TIDEI_ARGUMENT_SIZE, .least = 1, .expected = "a size such as 1MiB" },
    [FAULT_AFTER] = { .key = "after_bytes",
                      .type = TIDEI_ARGUMENT_SIZE,
                      .least = 1,
                      .expected = "a size such as 1GiB" },
    [FAULT_STATUS] = { .key = "status",
                       .type = TIDEI_ARGUMENT_CHOICE,
                       .choices = fault_status_names,
                       .expected = "capacity, limit, nomem or driver" },
};

static enum tide_status
fault_from_text(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    const struct tidei_value *values = arguments->values;
    const struct tide_fault_options options = {
        TIDE_OPTIONS(options),
        .nth = values[FAULT_NTH].number,
        .every = values[FAULT_EVERY].number,
        .probability = (double)values[FAULT_PROBABILITY].number / (double)FAULT_BILLION,
        .seed = values[FAULT_SEED].number,
        .above_bytes = values[FAULT_ABOVE].number,
        .after_bytes = values[FAULT_AFTER].number,
        .status = fault_statuses[values[FAULT_STATUS].number],
    };

    if (values[FAULT_SEED].given)
        *arguments->error_column = values[FAULT_SEED].column; /* should it stand without a probability */
    return tide_fault_create(upstream, &options, out);
}

const struct tidei_kind tidei_fault_kind = {
    .name = "fault",
    .arguments = fault_arguments,
    .argument_count = TIDEI_COUNT_OF(fault_arguments),
    .create = fault_from_text,
};
