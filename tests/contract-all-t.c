/*
 * Tests every adaptor of the table of kinds over an upstream that fails, delays and returns chosen addresses: the
 * contract holds, no failure loses anything, and no address does harm. Bases have their own tests; tests that need a
 * GPU are in tests/gpu.
 */
#include <pthread.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "src/resource/kind.h"
#include "tap.h"
#include "trace.h"
#include "upstream.h"

#define KIB         ((size_t)1 << 10)
#define MIB         ((size_t)1 << 20)
#define LARGEST     (4 * KIB)
#define THREADS     4
#define STEPS       150
#define CALLS_MOST  12 /* the number of upstream calls of which each fails once */
#define SWEEP_STEPS 24

typedef enum tide_status (*maker)(struct tide_resource *upstream, struct tide_resource **out);

static enum tide_status
make_aligned(struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_aligned_options options = { TIDE_OPTIONS(options), .alignment_bytes = 1024 };

    return tide_aligned_create(upstream, &options, out);
}

static enum tide_status
make_arena(struct tide_resource *upstream, struct tide_resource **out)
{
    return tide_arena_create(upstream, NULL, out);
}

static enum tide_status
make_binning(struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_binning_options options = { TIDE_OPTIONS(options), .smallest_bytes = 64, .largest_bytes = 2048 };

    return tide_binning_create(upstream, &options, out);
}

/* An application's functions over `upstream`, which is their context. */
static enum tide_status
call_allocate(void *context, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    return tide_allocate(context, bytes, alignment, stream, out);
}

static enum tide_status
call_deallocate(void *context, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    return tide_deallocate(context, pointer, bytes, alignment, stream);
}

static void
call_destroy(void *context)
{
    tide_resource_release(context);
}

static enum tide_status
make_callback(struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_callback_options options = { TIDE_OPTIONS(options), .allocate = call_allocate,
                                             .deallocate = call_deallocate, .destroy = call_destroy,
                                             .context = tide_resource_retain(upstream) };

    return tide_callback_create(&options, out);
}

/* A fallback whose first resource takes little and ends in the second. */
static enum tide_status
make_fallback(struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = LARGEST };
    struct tide_resource *first;
    enum tide_status status = tide_limit_create(upstream, &options, &first);

    if (status == TIDE_OK)
        status = tide_fallback_create(first, upstream, NULL, out);
    tide_resource_release(first);
    return status;
}

static enum tide_status
make_fault(struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_fault_options options = { TIDE_OPTIONS(options), .nth = UINT64_MAX };

    return tide_fault_create(upstream, &options, out);
}

static enum tide_status
make_fixed(struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = LARGEST };

    return tide_fixed_create(upstream, &options, out);
}

static enum tide_status
make_guard(struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_guard_options options = { TIDE_OPTIONS(options), .hold_bytes = 3 * LARGEST };

    return tide_guard_create(upstream, &options, out);
}

static enum tide_status
make_limit(struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = 64 * MIB, .limit_count = 100000 };

    return tide_limit_create(upstream, &options, out);
}

static enum tide_status
make_log(struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = scratch("all.db"), .overwrite = true };

    return tide_log_create(upstream, &options, out);
}

static enum tide_status
make_monotonic(struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_monotonic_options options = { TIDE_OPTIONS(options), .chunk_bytes = 2 * LARGEST };

    return tide_monotonic_create(upstream, &options, out);
}

static enum tide_status
make_pool(struct tide_resource *upstream, struct tide_resource **out)
{
    return tide_pool_create(upstream, NULL, out);
}

static enum tide_status
make_retry(struct tide_resource *upstream, struct tide_resource **out)
{
    return tide_retry_create(upstream, NULL, out);
}

static enum tide_status
make_statistics(struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_statistics_options options = { TIDE_OPTIONS(options), .by_tag = true };

    return tide_statistics_create(upstream, &options, out);
}

static enum tide_status
make_track(struct tide_resource *upstream, struct tide_resource **out)
{
    return tide_track_create(upstream, NULL, out);
}

static const struct kind {
    const char *name;
    maker make; /* NULL: with its defaults */
    const struct tidei_kind *made_of;
    bool keeps;       /* keeps freed blocks of upstream */
    bool counts_kept; /* as in tests/contract.h */
    bool forgets;     /* keeps no single blocks, so that a second free is not noticed */
    bool memory;      /* needs memory behind the addresses */
} kinds[] = {
    { .name = "aligned", .make = make_aligned },
    { .name = "arena", .make = make_arena, .keeps = true },
    { .name = "binning", .make = make_binning, .keeps = true, .counts_kept = true },
    { .name = "callback", .make = make_callback },
    { .name = "fallback", .make = make_fallback },
    { .name = "fault", .make = make_fault },
    { .name = "fixed", .make = make_fixed, .keeps = true },
    { .name = "guard", .make = make_guard, .keeps = true, .memory = true },
    { .name = "limit", .make = make_limit },
    { .name = "log", .make = make_log },
    { .name = "monotonic", .make = make_monotonic, .keeps = true, .forgets = true },
    { .name = "pool", .make = make_pool, .keeps = true },
    { .name = "retry", .make = make_retry },
    { .name = "statistics", .make = make_statistics },
    { .name = "track", .make = make_track },
};

#define KINDS_MOST 64

/* The kinds above and every other adaptor, so that none is forgotten. */
static struct kind all[KINDS_MOST];
static size_t all_count;

static void
gather_kinds(void)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        all[all_count++] = kinds[i];
    for (const struct tidei_kind *const *kind = tidei_kinds; *kind != NULL; kind++) {
        size_t found = 0;

        while (found < all_count && strcmp(all[found].name, (*kind)->ops.name) != 0)
            found++;
        if (found == all_count && !(*kind)->is_base && strcmp((*kind)->ops.name, "prefetch") != 0)
            all[all_count++] = (struct kind){ .name = (*kind)->ops.name, .made_of = *kind };
    }
}

static enum tide_status
make_kind(const struct kind *kind, struct tide_resource *upstream, struct tide_resource **out)
{
    return kind->make != NULL ? kind->make(upstream, out) : tidei_kind_create(kind->made_of, upstream, NULL, out);
}

struct scene {
    const struct kind *kind;
    struct upstream *upstream; /* holds a reference */
    struct tide_resource *resource;
};

static struct scene
scene_open(const struct kind *kind)
{
    struct scene scene = { .kind = kind, .upstream = upstream_create() };

    scene.upstream->memory = kind->memory;
    if (make_kind(kind, &scene.upstream->base, &scene.resource) != TIDE_OK) {
        diag("%s: %s", kind->name, tide_error_text());
        abort();
    }
    return scene;
}

/* Release the stack. Returns whether upstream got everything back as it gave it. */
static bool
scene_close(struct scene *scene)
{
    bool whole;

    tide_resource_release(scene->resource);
    whole = scene->upstream->live_count == 0 && scene->upstream->wrong_frees == 0;
    if (!whole)
        diag("%" PRIu64 " blocks were not given back, %" PRIu64 " were given back wrong", scene->upstream->live_count,
             scene->upstream->wrong_frees);
    tide_resource_release(&scene->upstream->base);
    return whole;
}

static struct tide_resource *
contract_create(void *context)
{
    struct scene scene = scene_open(context);

    tide_resource_release(&scene.upstream->base);
    return scene.resource;
}

static uint64_t
used(struct tide_resource *resource)
{
    uint64_t bytes;

    return tide_query(resource, TIDE_QUERY_BYTES_USED, &bytes) == TIDE_OK ? bytes : 0;
}

/* Whether a layer that counts its requests has some outstanding. */
static bool
counts_some(struct tide_resource *resource)
{
    struct tide_statistics_figures statistics = { TIDE_FIGURES(statistics) };
    struct tide_limit_figures limit = { TIDE_FIGURES(limit) };

    if (tide_limit_read(resource, &limit) == TIDE_OK)
        return limit.used_bytes != 0 || limit.used_count != 0;
    return tide_statistics_read(resource, &statistics) == TIDE_OK &&
           (statistics.bytes.current != 0 || statistics.count.current != 0);
}

/* Random requests, with one failure among the calls of upstream. Returns what is wrong, or NULL. */
static const char *
sweep(struct scene *scene, uint64_t seed)
{
    void *blocks[8] = { 0 };
    size_t sizes[8];
    const char *wrong = NULL;

    for (int i = 0; i < SWEEP_STEPS && wrong == NULL; i++) {
        size_t place = contract_random(&seed) % 8;
        uint64_t before = used(scene->resource);
        enum tide_status status;

        if (blocks[place] != NULL) {
            status = tide_deallocate(scene->resource, blocks[place], sizes[place], 64, 0);
            if (status != TIDE_OK && tide_deallocate(scene->resource, blocks[place], sizes[place], 64, 0) != TIDE_OK)
                wrong = "a block whose free has failed cannot be freed again";
            blocks[place] = NULL;
            continue;
        }
        sizes[place] = 1 + contract_random(&seed) % LARGEST;
        blocks[place] = scene;
        status = tide_allocate(scene->resource, sizes[place], 64, 0, &blocks[place]);
        if ((status == TIDE_OK) != (blocks[place] != NULL))
            wrong = "a failed request has an address";
        else if (status != TIDE_OK && !scene->kind->keeps && used(scene->resource) != before)
            wrong = "a failed request has changed the bytes used";
    }
    for (size_t i = 0; i < 8; i++) {
        if (blocks[i] != NULL && tide_deallocate(scene->resource, blocks[i], sizes[i], 64, 0) != TIDE_OK &&
            tide_deallocate(scene->resource, blocks[i], sizes[i], 64, 0) != TIDE_OK)
            wrong = "a block whose free has failed cannot be freed again";
    }
    if ((used(scene->resource) != 0 && !scene->kind->keeps) || counts_some(scene->resource))
        wrong = "bytes are in use after all frees";
    return wrong;
}

#define FAILURE_TESTS 2

/* Each of the first calls of upstream fails once. */
static void
check_failures(const struct kind *kind)
{
    const char *wrong = NULL;
    bool whole = true;

    for (uint64_t nth = 1; nth <= CALLS_MOST; nth++) {
        struct scene scene = scene_open(kind);
        const char *now;

        scene.upstream->fail_allocate = nth;
        scene.upstream->fail_status = nth % 2 == 0 ? TIDE_ELIMIT : TIDE_EDRIVER;
        now = sweep(&scene, nth);
        wrong = now != NULL ? now : wrong;
        whole = scene_close(&scene) && whole;
        scene = scene_open(kind);
        scene.upstream->fail_deallocate = nth;
        now = sweep(&scene, nth);
        scene.upstream->fail_deallocate = 0;
        tide_trim(scene.resource, 0);
        wrong = now != NULL ? now : wrong;
        whole = scene_close(&scene) && whole;
    }
    ok(wrong == NULL, "%s: whichever call of upstream fails, %s", kind->name, wrong != NULL ? wrong : "nothing breaks");
    ok(whole, "%s: no memory is lost when calls of upstream fail", kind->name);
}

struct worker {
    pthread_t thread;
    struct tide_resource *resource;
    uint64_t seed;
    uint64_t failures;
};

static void *
worker_run(void *context)
{
    struct worker *worker = context;
    void *blocks[6] = { 0 };
    size_t sizes[6];

    for (int i = 0; i < STEPS; i++) {
        size_t place = contract_random(&worker->seed) % 6;

        if (blocks[place] != NULL) {
            worker->failures += tide_deallocate(worker->resource, blocks[place], sizes[place], 16, 0) != TIDE_OK;
            blocks[place] = NULL;
            continue;
        }
        sizes[place] = 1 + contract_random(&worker->seed) % LARGEST;
        worker->failures += tide_allocate(worker->resource, sizes[place], 16, 0, &blocks[place]) != TIDE_OK;
    }
    for (size_t i = 0; i < 6; i++)
        worker->failures +=
            blocks[i] != NULL && tide_deallocate(worker->resource, blocks[i], sizes[i], 16, 0) != TIDE_OK;
    return NULL;
}

#define DELAY_TESTS 2

/* Calls of upstream overlap, and freed addresses come back at once. */
static void
check_delays(const struct kind *kind)
{
    struct scene scene = scene_open(kind);
    struct worker workers[THREADS];
    uint64_t failures = 0;

    scene.upstream->delay_us = 5;
    scene.upstream->reuse = true;
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .resource = scene.resource, .seed = 77 + i };
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        failures += workers[i].failures;
    }
    ok(failures == 0, "%s: threads succeed over a slow upstream", kind->name);
    ok(scene_close(&scene), "%s: threads succeed over an upstream that reuses addresses at once", kind->name);
}

#define CHOSEN_TESTS 2

/* Upstream gives out the lowest and the highest addresses, and adjacent ones. */
static void
check_chosen(const struct kind *kind)
{
    static void *const chosen[] = {
        (void *)UINT64_C(0x100000000),    (void *)UINT64_C(0x7fffffc00000), (void *)UINT64_C(0x200000000),
        (void *)UINT64_C(0x200400000),    (void *)UINT64_C(0x200800000),    (void *)UINT64_C(0x700000000000),
        (void *)UINT64_C(0x7f0000000000), (void *)UINT64_C(0x300000000),
    };
    struct scene scene;
    void *blocks[6];
    bool right = true;

    if (kind->memory) {
        skip(CHOSEN_TESTS, "it needs memory behind the addresses");
        return;
    }
    scene = scene_open(kind);
    scene.upstream->chosen = chosen;
    scene.upstream->chosen_count = sizeof(chosen) / sizeof(chosen[0]);
    for (size_t i = 0; i < 6; i++)
        right = tide_allocate(scene.resource, LARGEST, 256, 0, &blocks[i]) == TIDE_OK && blocks[i] != NULL &&
                (uintptr_t)blocks[i] % 256 == 0 && right;
    for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < i; j++)
            right = right && (blocks[i] < blocks[j] ? (char *)blocks[i] + LARGEST <= (char *)blocks[j]
                                                    : (char *)blocks[j] + LARGEST <= (char *)blocks[i]);
    }
    for (size_t i = 6; i-- > 0;)
        right = tide_deallocate(scene.resource, blocks[i], LARGEST, 256, 0) == TIDE_OK && right;
    ok(right, "%s: it takes the addresses that upstream gives", kind->name);
    ok(scene_close(&scene), "%s: it gives back the addresses that upstream gave", kind->name);
}

int
main(void)
{
    gather_kinds();
    plan((int)all_count * (CONTRACT_TESTS + FAILURE_TESTS + DELAY_TESTS + CHOSEN_TESTS));
    for (size_t i = 0; i < all_count; i++) {
        const struct contract contract = { .name = all[i].name,
                                           .create = contract_create,
                                           .context = (void *)&all[i],
                                           .largest_bytes = LARGEST,
                                           .counts_kept = all[i].counts_kept,
                                           .knows_pointers = !all[i].forgets };

        contract_check(&contract);
        check_failures(&all[i]);
        check_delays(&all[i]);
        check_chosen(&all[i]);
    }
    return done();
}
