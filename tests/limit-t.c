/* Tests adaptors/limit.c. */
#include <pthread.h>
#include <stdatomic.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "gate.h"
#include "tap.h"
#include "upstream.h"

#define KIB     ((uint64_t)1 << 10)
#define MIB     ((uint64_t)1 << 20)
#define THREADS 8
#define STEPS   5000

/* A limit over `upstream`, whose reference it takes over. */
static struct tide_resource *
over(struct tide_resource *upstream, uint64_t limit_bytes, uint64_t alignment)
{
    struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = limit_bytes, .alignment = alignment };
    struct tide_resource *limit;

    if (tide_limit_create(upstream, &options, &limit) != TIDE_OK)
        abort();
    tide_resource_release(upstream);
    return limit;
}

static uint64_t
used(struct tide_resource *limit)
{
    uint64_t bytes;

    return tide_limit_used(limit, &bytes) == TIDE_OK ? bytes : UINT64_MAX;
}

static enum tide_status
take(struct tide_resource *resource, size_t bytes, void **out)
{
    return tide_allocate(resource, bytes, TIDE_DEFAULT_ALIGNMENT, 0, out);
}

static enum tide_status
give(struct tide_resource *resource, void *pointer, size_t bytes)
{
    return tide_deallocate(resource, pointer, bytes, TIDE_DEFAULT_ALIGNMENT, 0);
}

#define BOUND_TESTS 20

/* The main example: 4 + 4 of 10 MiB, 3 refused, 4 freed, exactly 6 left. */
static void
check_bound(const struct base_maker *base)
{
    struct tide_resource *limit = over(base->create(0), 10 * MIB, 1);
    void *first = NULL, *second = NULL, *third = &third;

    diag("the bound over %s", base->name);
    ok(take(limit, 4 * MIB, &first) == TIDE_OK && take(limit, 4 * MIB, &second) == TIDE_OK, "4 + 4 of 10 MiB pass");
    is_u64(used(limit), 8 * MIB, "and count");
    ok(take(limit, 3 * MIB, &third) == TIDE_ELIMIT && third == NULL, "3 MiB more are refused, with NULL");
    is_string(tide_error_text(), "limit: 3 MiB request exceeds 10 MiB limit (8 MiB in use)", "in words and numbers");
    is_u64(used(limit), 8 * MIB, "the counter stays at 8 MiB");
    ok(take(limit, SIZE_MAX, &third) != TIDE_OK && third == NULL, "SIZE_MAX is refused");
    is_u64(used(limit), 8 * MIB, "with the counter unchanged");
    ok(take(limit, SIZE_MAX - 256 * KIB, &third) != TIDE_OK && third == NULL, "SIZE_MAX - 256 KiB is refused");
    is_u64(used(limit), 8 * MIB, "with the counter unchanged");
    ok(give(limit, first, 4 * MIB) == TIDE_OK, "4 MiB are freed");
    ok(take(limit, 6 * MIB + 1, &third) == TIDE_ELIMIT, "then 6 MiB and a byte are refused");
    ok(take(limit, 6 * MIB, &first) == TIDE_OK, "and exactly 6 MiB pass");
    is_u64(used(limit), 10 * MIB, "which is all of it");
    ok(take(limit, 1, &third) == TIDE_ELIMIT, "not a byte more passes");
    ok(take(limit, 0, &third) == TIDE_OK && give(limit, third, 0) == TIDE_OK, "0 bytes pass and are freed");
    give(limit, first, 6 * MIB);
    give(limit, second, 4 * MIB);
    is_u64(used(limit), 0, "nothing is left in use");
    ok(take(limit, 10 * MIB, &first) == TIDE_OK && give(limit, first, 10 * MIB) == TIDE_OK, "all at once passes");
    ok(take(limit, 10 * MIB + 1, &first) == TIDE_ELIMIT, "all and a byte does not");
    tide_resource_release(limit);
    limit = over(base->create(0), 0, 1);
    ok(take(limit, 1, &first) == TIDE_ELIMIT && take(limit, 0, &first) == TIDE_OK, "a limit of 0 lets 0 bytes pass");
    tide_resource_release(limit);
    limit = over(base->create(0), UINT64_MAX, 1);
    ok(take(limit, 1, &first) == TIDE_OK && used(limit) == 1 && give(limit, first, 1) == TIDE_OK,
       "the largest limit there is lets all pass");
    tide_resource_release(limit);
}

#define ROUNDING_TESTS 9

static void
check_rounding(const struct base_maker *base)
{
    struct tide_resource *limit = over(base->create(0), 512, 256);
    void *first, *second, *third = &third;

    diag("rounding over %s", base->name);
    ok(take(limit, 1, &first) == TIDE_OK && used(limit) == 256, "a byte counts 256");
    ok(take(limit, 257, &second) == TIDE_ELIMIT && used(limit) == 256, "257 bytes count 512, and are refused");
    ok(take(limit, 256, &second) == TIDE_OK && used(limit) == 512, "256 bytes count 256");
    ok(take(limit, 0, &third) == TIDE_OK && used(limit) == 512, "0 bytes count 0");
    ok(give(limit, first, 1) == TIDE_OK && used(limit) == 256, "a byte freed gives 256 back");
    ok(take(limit, SIZE_MAX, &third) == TIDE_EOVERFLOW && third == NULL && used(limit) == 256,
       "SIZE_MAX overflows, and is refused");
    ok(take(limit, SIZE_MAX - 254, &third) == TIDE_EOVERFLOW && used(limit) == 256, "as is the first that overflows");
    ok(take(limit, SIZE_MAX - 255, &third) == TIDE_ELIMIT && used(limit) == 256, "the last that does not is refused");
    ok(give(limit, second, SIZE_MAX) == TIDE_EOVERFLOW && give(limit, second, 256) == TIDE_OK && used(limit) == 0,
       "a size that overflows is no size to give back");
    tide_resource_release(limit);
}

static uint64_t visited_used;
static enum tide_status visited_status;

static void
visit_used(void *context)
{
    visited_used = used(context);
}

static void
visit_take(void *context)
{
    void *pointer;

    visited_status = take(context, 100, &pointer);
}

#define UPSTREAM_TESTS 17

static void
check_upstream(void)
{
    struct upstream *upstream = upstream_create();
    struct gate *gate = gate_create(&upstream->base);
    struct tide_resource *limit = over(&gate->base, 100, 1);
    void *pointer, *other;

    gate->context = limit;
    ok(take(limit, 101, &pointer) == TIDE_ELIMIT && upstream->allocate_calls == 0, "what is refused reaches nobody");
    gate->before_allocate = visit_used;
    take(limit, 60, &pointer);
    is_u64(visited_used, 60, "bytes are reserved before upstream is called");
    is_u64(upstream->last_bytes, 60, "upstream gets the size that was asked for");
    upstream->fail_allocate = 1;
    ok(take(limit, 40, &other) == TIDE_ECAPACITY && other == NULL, "upstream's refusal is passed on");
    is_u64(used(limit), 60, "and the reservation given back");
    upstream->fail_deallocate = 1;
    ok(give(limit, pointer, 60) == TIDE_EDRIVER && used(limit) == 60, "what upstream does not take back still counts");
    gate->before_deallocate = visit_used;
    gate->after_deallocate = visit_take;
    ok(give(limit, pointer, 60) == TIDE_OK, "a deallocation passes");
    is_u64(visited_used, 60, "upstream is asked before the bytes are given back");
    ok(visited_status == TIDE_ELIMIT, "nobody gets them before upstream has returned");
    is_u64(used(limit), 0, "then they are");
    gate->before_allocate = visit_take;
    ok(take(limit, 60, &pointer) == TIDE_OK && visited_status == TIDE_ELIMIT,
       "a request that does not fit beside one on its way is refused");
    ok(give(limit, &other, 60) == TIDE_EPOINTER && used(limit) == 60, "an unknown pointer changes nothing");
    ok(give(limit, pointer, 59) == TIDE_EMISMATCH && used(limit) == 60, "a wrong size changes nothing");
    ok(give(limit, pointer, 61) == TIDE_EMISMATCH && used(limit) == 60, "more than is outstanding even less");
    has_words(tide_error_text(), "61 B given back with 60 B outstanding", "and it says so");
    give(limit, pointer, 60);
    ok(tide_order(limit, 3, 4) == TIDE_OK && upstream->last_earlier == 3 && upstream->last_later == 4,
       "streams are ordered below");
    is_u64(upstream->peak_bytes, 60, "upstream never had more than was let through");
    tide_resource_release(limit);
}

/*
 * One thread of eight. The modest ones hold up to their eighth part of the limit, so that no request of theirs may ever
 * fail; the greedy ones ask for far too much, of many sizes, up to what wraps.
 */
struct worker {
    pthread_t thread;
    struct tide_resource *limit;
    _Atomic uint64_t *highest; /* of tide_limit_used, as seen by all */
    bool greedy;
    uint64_t seed;
    uint64_t part_bytes;
    uint64_t wrong;
};

static void
worker_look(struct worker *worker)
{
    uint64_t now = used(worker->limit);
    uint64_t highest = atomic_load_explicit(worker->highest, memory_order_relaxed); /* relaxed: a number alone */

    while (now > highest && !atomic_compare_exchange_weak_explicit(worker->highest, &highest, now, memory_order_relaxed,
                                                                   memory_order_relaxed))
        ;
}

static void
worker_be_greedy(struct worker *worker)
{
    static const uint64_t sizes[] = { 10 * MIB + 1, 11 * MIB, SIZE_MAX / 2, SIZE_MAX - 256 * KIB, SIZE_MAX };
    void *pointer;

    for (int i = 0; i < STEPS; i++)
        worker->wrong += take(worker->limit, sizes[contract_random(&worker->seed) % 5], &pointer) == TIDE_OK;
}

static void
worker_be_modest(struct worker *worker)
{
    void *pointers[4] = { 0 };
    uint64_t sizes[4];

    for (int i = 0; i < STEPS; i++) {
        unsigned slot = contract_random(&worker->seed) % 4;

        if (pointers[slot] != NULL) {
            worker->wrong += give(worker->limit, pointers[slot], sizes[slot]) != TIDE_OK;
            pointers[slot] = NULL;
        } else {
            sizes[slot] = 1 + contract_random(&worker->seed) % (worker->part_bytes / 4);
            worker->wrong += take(worker->limit, sizes[slot], &pointers[slot]) != TIDE_OK;
        }
        worker_look(worker);
    }
    for (int slot = 0; slot < 4; slot++) {
        if (pointers[slot] != NULL)
            worker->wrong += give(worker->limit, pointers[slot], sizes[slot]) != TIDE_OK;
    }
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;

    if (worker->greedy)
        worker_be_greedy(worker);
    else
        worker_be_modest(worker);
    return NULL;
}

/* Run the eight over `limit`; the highest sum that anybody saw. */
static uint64_t
run_workers(struct tide_resource *limit, uint64_t limit_bytes, uint64_t *wrong)
{
    struct worker workers[THREADS];
    _Atomic uint64_t highest = 0;

    *wrong = 0;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .limit = limit,
                                      .highest = &highest,
                                      .greedy = i % 3 == 2,
                                      .seed = 99 + (uint64_t)i,
                                      .part_bytes = limit_bytes / THREADS };
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        *wrong += workers[i].wrong;
    }
    return highest;
}

#define THREADS_TESTS 4

static void
check_threads(const struct base_maker *base)
{
    struct tide_resource *limit = over(base->create(10 * MIB), 10 * MIB, 1);
    uint64_t wrong, highest = run_workers(limit, 10 * MIB, &wrong);

    diag("threads over %s", base->name);
    is_u64(wrong, 0, "of eight threads nobody's request fails that fits, and none passes that does not");
    ok(highest > 0 && highest <= 10 * MIB, "the sum that anybody sees never passes the limit");
    is_u64(used(limit), 0, "nothing is left in use");
    tide_query(limit, TIDE_QUERY_BYTES_USED, &highest);
    is_u64(highest, 0, "nor below");
    tide_resource_release(limit);
}

struct crowd {
    pthread_t thread;
    pthread_barrier_t *full;
    struct tide_resource *limit;
    uint64_t seed;
    uint64_t wrong;
};

/* Ask for more than there is room for, and hold on to it until everybody has, so that the sum reaches the limit. */
static void *
crowd_run(void *context)
{
    struct crowd *crowd = context;
    void *pointers[16] = { 0 };

    for (int i = 0; i < STEPS; i++) {
        unsigned slot = contract_random(&crowd->seed) % 16;

        if (pointers[slot] != NULL) {
            crowd->wrong += give(crowd->limit, pointers[slot], 100) != TIDE_OK;
            pointers[slot] = NULL;
        } else if (take(crowd->limit, 100, &pointers[slot]) != TIDE_OK) {
            pointers[slot] = NULL;
        }
    }
    for (int slot = 0; slot < 16; slot++) {
        if (pointers[slot] == NULL && take(crowd->limit, 100, &pointers[slot]) != TIDE_OK)
            pointers[slot] = NULL;
    }
    pthread_barrier_wait(crowd->full);
    for (int slot = 0; slot < 16; slot++) {
        if (pointers[slot] != NULL)
            crowd->wrong += give(crowd->limit, pointers[slot], 100) != TIDE_OK;
    }
    return NULL;
}

#define COUNTED_TESTS 5

/* The upstream counts for itself what is outstanding there at any moment. */
static void
check_counted(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *limit = over(&upstream->base, 10 * MIB, 1);
    struct crowd crowds[THREADS];
    pthread_barrier_t full;
    uint64_t wrong, highest = run_workers(limit, 10 * MIB, &wrong);

    is_u64(wrong, 0, "over an upstream that counts, nobody's request fails that fits");
    ok(upstream->peak_bytes <= 10 * MIB && highest <= 10 * MIB, "and upstream never has more than the limit");
    tide_resource_release(limit);

    upstream = upstream_create();
    limit = over(&upstream->base, 3200, 1);
    wrong = 0;
    pthread_barrier_init(&full, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        crowds[i] = (struct crowd){ .full = &full, .limit = limit, .seed = 7 + (uint64_t)i };
        pthread_create(&crowds[i].thread, NULL, crowd_run, &crowds[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(crowds[i].thread, NULL);
        wrong += crowds[i].wrong;
    }
    pthread_barrier_destroy(&full);
    is_u64(wrong, 0, "in a crowd at the limit everything that was let through is taken back");
    is_u64(upstream->peak_bytes, 3200, "upstream reaches the limit to the byte, and no further");
    ok(upstream->live_count == 0 && used(limit) == 0, "nothing is left");
    tide_resource_release(limit);
}

#define USE_TESTS 11

static void
check_use(void)
{
    struct tide_resource *base = base_sim(MIB), *limit = (struct tide_resource *)&base;
    struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = 1, .alignment = 1 };
    char text[64] = "";
    struct tide_text description = { text, sizeof(text), 0 };
    uint64_t figure = 5;
    void *pointer;

    ok(tide_limit_create(NULL, &options, &limit) == TIDE_EINVAL && limit == NULL, "there is none without upstream");
    ok(tide_limit_create(base, &options, NULL) == TIDE_EINVAL, "there is none without a place for it");
    ok(tide_limit_create(base, NULL, &limit) == TIDE_EINVAL && limit == NULL, "nor without a bound");
    options.alignment = 3;
    ok(tide_limit_create(base, &options, &limit) == TIDE_EINVAL && limit == NULL, "an alignment is a power of two");
    options.struct_size = 3;
    ok(tide_limit_create(base, &options, &limit) == TIDE_EINVAL, "options have a size");
    limit = over(tide_resource_retain(base), 4096, 0);
    ok(take(limit, 1, &pointer) == TIDE_OK && used(limit) == 256 && give(limit, pointer, 1) == TIDE_OK,
       "256 is counted up to where no alignment is given");
    tide_resource_release(limit);
    ok(tide_limit_used(base, &figure) == TIDE_EINVAL && figure == 0, "what is no limit has no bytes in use");
    ok(tide_limit_used(NULL, &figure) == TIDE_EINVAL && tide_limit_used(NULL, NULL) == TIDE_EINVAL, "nor has NULL");
    limit = over(tide_resource_retain(base), 4096, 512);
    ok(tide_query(limit, TIDE_QUERY_CAPACITY, &figure) == TIDE_OK && figure == 4096,
       "its capacity is the limit where the base has more");
    limit->ops->describe(limit, &description);
    is_string(text, "4KiB, alignment=512", "it describes itself as stack text reads it");
    tide_resource_release(limit);
    limit = over(base, 2 * MIB, 256);
    ok(tide_query(limit, TIDE_QUERY_CAPACITY, &figure) == TIDE_OK && figure == MIB,
       "and the base's where that has less");
    tide_resource_release(limit);
}

static struct tide_resource *
contract_create(void *context)
{
    const struct base_maker *base = context;

    return over(base->create(0), 64 * MIB, 256);
}

int
main(void)
{
    plan(BASE_COUNT * (CONTRACT_TESTS + BOUND_TESTS + ROUNDING_TESTS + THREADS_TESTS) + UPSTREAM_TESTS + COUNTED_TESTS +
         USE_TESTS);
    for (size_t i = 0; i < BASE_COUNT; i++) {
        const struct contract contract = { .name = "limit",
                                           .create = contract_create,
                                           .context = (void *)&bases[i],
                                           .largest_bytes = 65536,
                                           .knows_pointers = strcmp(bases[i].name, "sim") == 0 };

        contract_check(&contract);
        check_bound(&bases[i]);
        check_rounding(&bases[i]);
        check_threads(&bases[i]);
    }
    check_upstream();
    check_counted();
    check_use();
    return done();
}
