/* Tests adaptors/limit/limit.c. */
#include <pthread.h>
#include <stdatomic.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "gate.h"
#include "limit-used.h"
#include "tap.h"
#include "upstream.h"

#define KIB     ((uint64_t)1 << 10)
#define MIB     ((uint64_t)1 << 20)
#define THREADS 8
#define STEPS   5000

/* A limit over `upstream`. Takes over the reference. */
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

/* The main example: of 10 MiB, 4 + 4 are allocated, 3 refused, 4 freed, and exactly 6 allocated. */
static void
check_bound(const struct base_maker *base)
{
    struct tide_resource *limit = over(base->create(0), 10 * MIB, 1);
    void *first = NULL, *second = NULL, *third = &third;

    diag("the bound over %s", base->name);
    ok(all_of(take(limit, 4 * MIB, &first) == TIDE_OK, take(limit, 4 * MIB, &second) == TIDE_OK),
       "4 + 4 of 10 MiB are allocated");
    is_u64(limit_used(limit), 8 * MIB, "8 MiB count as used");
    ok(all_of(take(limit, 3 * MIB, &third) == TIDE_ELIMIT, third == NULL), "3 MiB more are refused, with NULL");
    is_string(tide_error_text(), "limit: 3 MiB request exceeds 10 MiB limit (8 MiB in use)",
              "the refusal names request, limit and bytes in use in words");
    is_u64(limit_used(limit), 8 * MIB, "a refusal leaves the used bytes at 8 MiB");
    ok(all_of(take(limit, SIZE_MAX, &third) != TIDE_OK, third == NULL), "SIZE_MAX is refused");
    is_u64(limit_used(limit), 8 * MIB, "the refusal of SIZE_MAX leaves the used bytes at 8 MiB");
    ok(all_of(take(limit, SIZE_MAX - 256 * KIB, &third) != TIDE_OK, third == NULL), "SIZE_MAX - 256 KiB is refused");
    is_u64(limit_used(limit), 8 * MIB, "the refusal of SIZE_MAX - 256 KiB leaves the used bytes at 8 MiB");
    ok(give(limit, first, 4 * MIB) == TIDE_OK, "4 MiB are freed with their size");
    ok(take(limit, 6 * MIB + 1, &third) == TIDE_ELIMIT, "with 4 of 10 MiB in use, 6 MiB and a byte are refused");
    ok(take(limit, 6 * MIB, &first) == TIDE_OK, "with 4 of 10 MiB in use, exactly 6 MiB are allocated");
    is_u64(limit_used(limit), 10 * MIB, "the used bytes reach the limit of 10 MiB");
    ok(take(limit, 1, &third) == TIDE_ELIMIT, "at the limit one byte is refused");
    ok(all_of(take(limit, 0, &third) == TIDE_OK, give(limit, third, 0) == TIDE_OK),
       "at the limit 0 bytes are allocated and freed");
    give(limit, first, 6 * MIB);
    give(limit, second, 4 * MIB);
    is_u64(limit_used(limit), 0, "after all frees nothing is left in use");
    ok(all_of(take(limit, 10 * MIB, &first) == TIDE_OK, give(limit, first, 10 * MIB) == TIDE_OK),
       "the whole limit is allocated at once");
    ok(take(limit, 10 * MIB + 1, &first) == TIDE_ELIMIT, "the whole limit and a byte are refused");
    tide_resource_release(limit);
    limit = over(base->create(0), TIDE_NONE, 1);
    ok(all_of(take(limit, 1, &first) == TIDE_ELIMIT, take(limit, 0, &first) == TIDE_OK),
       "a limit of 0 refuses 1 byte and allows 0 bytes");
    tide_resource_release(limit);
    limit = over(base->create(0), TIDE_UNLIMITED, 1);
    ok(all_of(take(limit, 1, &first) == TIDE_OK, limit_used(limit) == 1, give(limit, first, 1) == TIDE_OK),
       "a limit of the largest number allows an allocation");
    tide_resource_release(limit);
}

#define ROUNDING_TESTS 9

static void
check_rounding(const struct base_maker *base)
{
    struct tide_resource *limit = over(base->create(0), 512, 256);
    void *first = NULL, *second = NULL, *third = &third;

    diag("rounding over %s", base->name);
    ok(all_of(take(limit, 1, &first) == TIDE_OK, limit_used(limit) == 256),
       "with alignment 256 a request of 1 byte counts 256");
    ok(all_of(take(limit, 257, &second) == TIDE_ELIMIT, limit_used(limit) == 256),
       "with alignment 256 a request of 257 bytes counts 512, and is refused");
    ok(all_of(take(limit, 256, &second) == TIDE_OK, limit_used(limit) == 512),
       "with alignment 256 a request of 256 bytes counts 256");
    ok(all_of(take(limit, 0, &third) == TIDE_OK, limit_used(limit) == 512),
       "with alignment 256 a request of 0 bytes counts 0");
    ok(all_of(give(limit, first, 1) == TIDE_OK, limit_used(limit) == 256),
       "with alignment 256 the free of 1 byte gives 256 back");
    ok(all_of(take(limit, SIZE_MAX, &third) == TIDE_EOVERFLOW, third == NULL, limit_used(limit) == 256),
       "SIZE_MAX overflows when rounded, and is refused");
    ok(all_of(take(limit, SIZE_MAX - 254, &third) == TIDE_EOVERFLOW, limit_used(limit) == 256),
       "the smallest size that overflows when rounded is refused");
    ok(all_of(take(limit, SIZE_MAX - 255, &third) == TIDE_ELIMIT, limit_used(limit) == 256),
       "the largest size that does not overflow is refused at the limit");
    ok(all_of(give(limit, second, SIZE_MAX) == TIDE_EOVERFLOW, give(limit, second, 256) == TIDE_OK,
              limit_used(limit) == 0),
       "a free with a size that overflows is refused");
    tide_resource_release(limit);
}

static uint64_t visited_used;
static enum tide_status visited_status;

static void
visit_used(void *context)
{
    visited_used = limit_used(context);
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
    ok(all_of(take(limit, 101, &pointer) == TIDE_ELIMIT, upstream->allocate_calls == 0),
       "a refused request does not reach upstream");
    gate->before_allocate = visit_used;
    take(limit, 60, &pointer);
    is_u64(visited_used, 60, "bytes are reserved before upstream is called");
    is_u64(upstream->last_bytes, 60, "upstream gets the requested size");
    upstream->fail_allocate = 1;
    ok(all_of(take(limit, 40, &other) == TIDE_ECAPACITY, other == NULL), "upstream's refusal is passed on");
    is_u64(limit_used(limit), 60, "a refusal of upstream gives the reserved bytes back");
    upstream->fail_deallocate = 1;
    ok(all_of(give(limit, pointer, 60) == TIDE_EDRIVER, limit_used(limit) == 60),
       "a block whose free upstream has refused still counts");
    gate->before_deallocate = visit_used;
    gate->after_deallocate = visit_take;
    ok(give(limit, pointer, 60) == TIDE_OK, "a second free of a block that upstream had refused succeeds");
    is_u64(visited_used, 60, "during upstream's free the bytes still count");
    ok(visited_status == TIDE_ELIMIT, "another request does not get the bytes before upstream's free has returned");
    is_u64(limit_used(limit), 0, "after upstream's free the bytes do not count");
    gate->before_allocate = visit_take;
    ok(all_of(take(limit, 60, &pointer) == TIDE_OK, visited_status == TIDE_ELIMIT),
       "a request that exceeds the limit together with one in progress is refused");
    ok(all_of(give(limit, &other, 60) == TIDE_EPOINTER, limit_used(limit) == 60),
       "the free of an unknown pointer leaves the used bytes");
    ok(all_of(give(limit, pointer, 59) == TIDE_EMISMATCH, limit_used(limit) == 60),
       "a free with a wrong size leaves the used bytes");
    ok(all_of(give(limit, pointer, 61) == TIDE_EMISMATCH, limit_used(limit) == 60),
       "a free with more bytes than are in use leaves the used bytes");
    has_words(tide_error_text(), "61 B given back with 60 B outstanding",
              "the refusal of a free of too much names both sizes");
    give(limit, pointer, 60);
    ok(all_of(tide_order(limit, 3, 4) == TIDE_OK, upstream->last_earlier == 3, upstream->last_later == 4),
       "an order of two streams is passed to upstream");
    is_u64(upstream->peak_bytes, 60, "upstream never had more bytes than the limit");
    tide_resource_release(limit);
}

/*
 * One of eight threads. The modest ones hold up to an eighth of the limit, so that none of their requests may fail. The
 * greedy ones request far too much, in many sizes, up to sizes that overflow.
 */
struct worker {
    pthread_t thread;
    struct tide_resource *limit;
    _Atomic uint64_t *highest; /* of limit_used, as seen by any thread */
    bool greedy;
    uint64_t seed;
    uint64_t part_bytes;
    uint64_t wrong;
};

static void
worker_look(struct worker *worker)
{
    uint64_t now = limit_used(worker->limit);
    uint64_t highest = atomic_load_explicit(worker->highest, memory_order_relaxed); /* relaxed: only a number */

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

/* Run eight threads over `limit`. Returns the highest sum that any of them saw. */
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
    is_u64(wrong, 0, "eight threads: no request that fits is refused, and no other is granted");
    ok(all_of(highest > 0, highest <= 10 * MIB), "no thread sees more bytes in use than the limit");
    is_u64(limit_used(limit), 0, "after the eight threads nothing is left in use");
    tide_query(limit, TIDE_QUERY_BYTES_USED, &highest);
    is_u64(highest, 0, "after the eight threads no thread sees bytes in use");
    tide_resource_release(limit);
}

struct crowd {
    pthread_t thread;
    pthread_barrier_t *full;
    struct tide_resource *limit;
    uint64_t seed;
    uint64_t wrong;
};

/*
 * Request more than there is room for, and keep it until every thread has done so, so that the sum reaches the limit.
 */
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

/* The upstream counts its own live bytes at any moment. */
static void
check_counted(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *limit = over(&upstream->base, 10 * MIB, 1);
    struct crowd crowds[THREADS];
    pthread_barrier_t full;
    uint64_t wrong, highest = run_workers(limit, 10 * MIB, &wrong);

    is_u64(wrong, 0, "eight threads over a counting upstream: no request that fits is refused");
    ok(all_of(upstream->peak_bytes <= 10 * MIB, highest <= 10 * MIB),
       "eight threads over a counting upstream: upstream never has more than the limit");
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
    is_u64(wrong, 0, "in a crowd at the limit every granted allocation is freed");
    is_u64(upstream->peak_bytes, 3200,
           "in a crowd at the limit upstream reaches the limit to the byte, and no further");
    ok(all_of(upstream->live_count == 0, limit_used(limit) == 0),
       "after the crowd nothing is left in use or with upstream");
    tide_resource_release(limit);
}

#define COUNT_TESTS 8

static void
check_count(void)
{
    struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_count = 2 };
    struct upstream *upstream = upstream_create();
    struct tide_resource *limit;
    void *first = NULL, *second = NULL, *third = &third;

    if (tide_limit_create(&upstream->base, &options, &limit) != TIDE_OK)
        abort();
    tide_resource_release(&upstream->base);
    ok(all_of(take(limit, 100, &first) == TIDE_OK, take(limit, 0, &second) == TIDE_OK),
       "with limit_count=2 two allocations are granted, one of them of 0 bytes");
    ok(limit_used_count(limit) == 2, "both allocations count");
    ok(all_of(take(limit, 0, &third) == TIDE_ELIMIT, third == NULL),
       "with limit_count=2 a third allocation is refused, with NULL");
    is_string(tide_error_text(), "limit: one more allocation exceeds the limit of 2",
              "the refusal of one allocation too many names the limit");
    ok(all_of(give(limit, second, 0) == TIDE_OK, take(limit, MIB, &third) == TIDE_OK),
       "with limit_count=2 a free allows one more allocation, however large");
    upstream->fail_deallocate = 1;
    ok(all_of(give(limit, first, 100) == TIDE_EDRIVER, take(limit, 1, &second) == TIDE_ELIMIT),
       "an allocation whose free upstream has refused still counts");
    ok(all_of(give(limit, first, 100) == TIDE_OK, give(limit, third, MIB) == TIDE_OK), "both allocations are freed");
    ok(limit_used_count(limit) == 0, "no allocation is left in the count");
    tide_resource_release(limit);
}

static uint64_t warned_used, warned_soft;
static unsigned warned;
static struct tide_resource *warned_gives; /* the callback frees 50 bytes of it, unless it is NULL */
static void *warned_pointer;

static void
warn(void *context, uint64_t used_bytes, uint64_t soft_limit_bytes)
{
    (void)context;
    warned++;
    warned_used = used_bytes;
    warned_soft = soft_limit_bytes;
    if (warned_gives != NULL)
        give(warned_gives, warned_pointer, 50);
}

static char warned_text[200];

static void
hear(void *context, enum tide_severity severity, const char *text)
{
    (void)context;
    if (severity == TIDE_WARNING)
        snprintf(warned_text, sizeof(warned_text), "%s", text);
}

#define SOFT_TESTS 14

static void
check_soft(void)
{
    struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = 100, .alignment = 1,
                                          .soft_limit_bytes = 60, .function = warn };
    struct upstream *upstream = upstream_create();
    struct tide_resource *limit;
    void *first, *second, *third, *fourth;

    if (tide_limit_create(&upstream->base, &options, &limit) != TIDE_OK)
        abort();
    take(limit, 50, &first);
    take(limit, 10, &second);
    ok(warned == 0, "up to the soft limit the callback is not called");
    ok(all_of(take(limit, 1, &third) == TIDE_OK, warned == 1), "one byte over the soft limit the callback is called");
    ok(all_of(warned_used == 61, warned_soft == 60), "the callback gets the used bytes and the soft limit");
    give(limit, third, 1);
    give(limit, second, 10);
    ok(all_of(take(limit, 10, &second) == TIDE_OK, warned == 1),
       "after a free, a request up to the soft limit calls no callback");
    ok(all_of(take(limit, 5, &third) == TIDE_OK, warned == 2, warned_used == 65),
       "each time that the soft limit is exceeded anew the callback is called");
    ok(all_of(take(limit, 36, &fourth) == TIDE_ELIMIT, take(limit, 1, &fourth) == TIDE_OK, warned == 2),
       "while the used bytes stay over the soft limit the callback is not called again");
    give(limit, fourth, 1);
    give(limit, third, 5);
    warned_gives = limit;
    warned_pointer = first;
    ok(all_of(take(limit, 40, &third) == TIDE_OK, warned == 3, limit_used(limit) == 50), "a callback may free memory");
    warned_gives = NULL;
    give(limit, third, 40);
    upstream->fail_allocate = 1;
    ok(all_of(take(limit, 60, &third) != TIDE_OK, warned == 4, limit_used(limit) == 10),
       "the callback is called before upstream, also if upstream then refuses");
    tide_resource_release(limit);

    /* For the very first request the account knows the exact sum. */
    warned = 0;
    if (tide_limit_create(&upstream->base, &options, &limit) != TIDE_OK)
        abort();
    ok(take(limit, 60, &first) == TIDE_OK && warned == 0, "a first request up to the soft limit calls no callback");
    ok(take(limit, 1, &second) == TIDE_OK && warned == 1 && warned_used == 61,
       "a byte more after a first request up to the soft limit calls the callback");
    tide_resource_release(limit);

    options.function = NULL;
    options.soft_limit_bytes = 101;
    ok(all_of(tide_limit_create(&upstream->base, &options, &limit) == TIDE_EINVAL, limit == NULL),
       "a soft limit over the limit is refused");
    options.soft_limit_bytes = 100;
    ok(tide_limit_create(&upstream->base, &options, &limit) == TIDE_OK, "a soft limit equal to the limit is accepted");
    tide_resource_release(limit);
    options.soft_limit_bytes = 60;
    ok(tide_limit_create(&upstream->base, &options, &limit) == TIDE_OK, "a soft limit without a callback is accepted");
    tide_message_sink_set(hear, NULL);
    take(limit, 61, &third);
    tide_message_sink_set(NULL, NULL);
    is_string(warned_text, "limit: 61 B in use pass the soft limit of 60 B",
              "the message of a soft limit names both sizes");
    tide_resource_release(limit);
    tide_resource_release(&upstream->base);
}

struct crosser {
    pthread_t thread;
    struct tide_resource *limit;
    pthread_barrier_t *barrier;
};

static _Atomic unsigned crossings;

static void
count_crossing(void *context, uint64_t used_bytes, uint64_t soft_limit_bytes)
{
    (void)context;
    if (used_bytes > soft_limit_bytes)
        atomic_fetch_add_explicit(&crossings, 1, memory_order_relaxed); /* relaxed: read when all threads are done */
}

/* All threads allocate together and free together: each round exceeds the soft limit once. */
static void *
crosser_run(void *context)
{
    struct crosser *crosser = context;
    void *pointers[10];

    for (int round = 0; round < 50; round++) {
        pthread_barrier_wait(crosser->barrier);
        for (int i = 0; i < 10; i++)
            take(crosser->limit, 1, &pointers[i]);
        pthread_barrier_wait(crosser->barrier);
        for (int i = 0; i < 10; i++)
            give(crosser->limit, pointers[i], 1);
    }
    return NULL;
}

#define CROSSING_TESTS 1

static void
check_crossings(void)
{
    struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = 1000, .alignment = 1,
                                          .soft_limit_bytes = 10 * THREADS - 1, .function = count_crossing };
    struct tide_resource *base = base_sim(0), *limit;
    struct crosser crossers[THREADS];
    pthread_barrier_t barrier;

    if (tide_limit_create(base, &options, &limit) != TIDE_OK)
        abort();
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        crossers[i] = (struct crosser){ .limit = limit, .barrier = &barrier };
        pthread_create(&crossers[i].thread, NULL, crosser_run, &crossers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(crossers[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    is_u64(crossings, 50, "of eight threads that exceed the soft limit together one calls the callback, each time");
    tide_resource_release(limit);
    tide_resource_release(base);
}

#define BUDGET_TESTS 9

static void
check_budget(void)
{
    struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = 100, .alignment = 1, .budget = "one" };
    struct upstream *upstreams[2] = { upstream_create(), upstream_create() };
    struct tide_resource *limits[2], *refused = (struct tide_resource *)&options;
    void *pointer, *other;

    for (int i = 0; i < 2; i++) {
        if (tide_limit_create(&upstreams[i]->base, &options, &limits[i]) != TIDE_OK)
            abort();
    }
    ok(all_of(take(limits[0], 60, &pointer) == TIDE_OK, limit_used(limits[1]) == 60),
       "two limits that share a budget count together");
    ok(all_of(take(limits[1], 41, &other) == TIDE_ELIMIT, take(limits[1], 40, &other) == TIDE_OK,
              limit_used(limits[0]) == 100),
       "two limits that share a budget refuse together");
    give(limits[0], pointer, 60);
    ok(take(limits[1], 60, &pointer) == TIDE_OK,
       "what is freed through one limit of a budget can be allocated through the other");
    options.budget = "other";
    tide_resource_release(limits[0]);
    ok(all_of(tide_limit_create(&upstreams[0]->base, &options, &limits[0]) == TIDE_OK, limit_used(limits[0]) == 0),
       "a limit with a budget of another name counts by itself");
    options.budget = "one";
    options.limit_bytes = 200;
    ok(all_of(tide_limit_create(&upstreams[0]->base, &options, &refused) == TIDE_EINVAL, refused == NULL),
       "a limit that gives an existing budget another size is refused");
    has_words(tide_error_text(), "budget 'one' was made with limit=100, and is wanted with limit=200 here",
              "the refusal of a budget of another size names both sizes");
    options.limit_bytes = 100;
    options.limit_count = 5;
    ok(tide_limit_create(&upstreams[0]->base, &options, &refused) == TIDE_EINVAL,
       "a limit that gives an existing budget another count is refused");
    options.budget = "";
    ok(tide_limit_create(&upstreams[0]->base, &options, &refused) == TIDE_EINVAL,
       "a budget with an empty name is refused");
    give(limits[1], pointer, 60);
    give(limits[1], other, 40);
    tide_resource_release(limits[1]);
    options.budget = "one";
    ok(tide_limit_create(&upstreams[0]->base, &options, &limits[1]) == TIDE_OK,
       "a budget ends with the last of its limits");
    for (int i = 0; i < 2; i++) {
        tide_resource_release(limits[i]);
        tide_resource_release(&upstreams[i]->base);
    }
}

/* The description of the stack that the text makes; or the error. */
static const char *
described(const char *text)
{
    static char description[512];
    struct tide_resource *stack;

    if (tide_stack_parse(text, &stack) != TIDE_OK)
        return tide_error_text();
    tide_describe(stack, description, sizeof(description), NULL);
    tide_resource_release(stack);
    return description;
}

#define TEXT_TESTS 6

static void
check_text(void)
{
    is_string(described("limit(4GiB, budget=gpu, soft=3GiB, count=1000, alignment=1) | sim"),
              "limit(4GiB, count=1000, soft=3GiB, alignment=1, budget=\"gpu\") | sim",
              "stack text has every option of a limit");
    is_string(described("limit(count=5, budget=\"a b\") | sim"), "limit(count=5, budget=\"a b\") | sim",
              "stack text may have a count and no size");
    is_string(described("limit(50%, soft=25%) | sim(capacity=4GiB)"), "limit(2GiB, soft=1GiB) | sim(capacity=4GiB)",
              "stack text may have a soft limit in percent");
    has_words(described("limit(alignment=1) | sim"), "argument 'limit' is missing, expected a size such as 4GiB",
              "stack text refuses a limit without bytes and count");
    has_words(described("limit(count=0) | sim"), "'0' is too small", "stack text refuses a count of 0");
    has_words(described("limit(1GiB, soft=2GiB) | sim"), "soft limit of 2 GiB over the limit of 1 GiB",
              "stack text refuses a soft limit over the limit");
}

#define USE_TESTS 16

static void
check_use(void)
{
    struct tide_resource *base = base_sim(MIB), *limit = (struct tide_resource *)&base;
    struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = 1, .alignment = 1 };
    char text[64] = "";
    struct tide_text description = { text, sizeof(text), 0 };
    struct tide_limit_figures figures = { TIDE_FIGURES(figures), .used_bytes = 5, .used_count = 5 };
    uint64_t figure;
    void *pointer;

    ok(all_of(tide_limit_create(NULL, &options, &limit) == TIDE_EINVAL, limit == NULL),
       "NULL in place of upstream is refused");
    ok(tide_limit_create(base, &options, NULL) == TIDE_EINVAL, "NULL in place of the result is refused");
    ok(all_of(tide_limit_create(base, NULL, &limit) == TIDE_EINVAL, limit == NULL), "NULL options are refused");
    is_string(tide_error_text(), "limit: no bound given, expected limit_bytes or limit_count",
              "the error for a limit without a bound names the options that give one");
    options.alignment = 3;
    ok(all_of(tide_limit_create(base, &options, &limit) == TIDE_EINVAL, limit == NULL),
       "an alignment that is no power of two is refused");
    options.struct_size = 3;
    ok(tide_limit_create(base, &options, &limit) == TIDE_EINVAL, "options without a struct_size are refused");
    limit = over(tide_resource_retain(base), 4096, 0);
    ok(all_of(take(limit, 1, &pointer) == TIDE_OK, limit_used(limit) == 256, give(limit, pointer, 1) == TIDE_OK),
       "options without an alignment count in multiples of 256");
    tide_resource_release(limit);
    ok(all_of(tide_limit_read(base, &figures) == TIDE_EINVAL, figures.used_bytes == 0, figures.used_count == 0),
       "the figures of a resource that is not a limit are zeros");
    is_string(tide_error_text(), "limit: not a limit resource",
              "the error for another kind of resource says that it is not a limit");
    ok(tide_limit_read(NULL, &figures) == TIDE_EINVAL, "NULL in place of the limit has no figures");
    limit = over(tide_resource_retain(base), 4096, 0);
    ok(tide_limit_read(limit, NULL) == TIDE_EINVAL, "NULL in place of the figures is refused");
    figures.struct_size = 0;
    ok(tide_limit_read(limit, &figures) == TIDE_EINVAL, "figures without a struct_size are refused");
    is_string(tide_error_text(), "limit: struct_size 0 in the figures, expected TIDE_FIGURES",
              "the error for figures without a struct_size names TIDE_FIGURES");
    tide_resource_release(limit);
    limit = over(tide_resource_retain(base), 4096, 512);
    ok(all_of(tide_query(limit, TIDE_QUERY_CAPACITY, &figure) == TIDE_OK, figure == 4096),
       "the capacity is the limit if the base has more");
    limit->ops->describe(limit, &description);
    is_string(text, "4KiB, alignment=512", "a limit describes itself as stack text");
    tide_resource_release(limit);
    limit = over(base, 2 * MIB, 256);
    ok(all_of(tide_query(limit, TIDE_QUERY_CAPACITY, &figure) == TIDE_OK, figure == MIB),
       "the capacity is the base's if the base has less");
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
         COUNT_TESTS + SOFT_TESTS + CROSSING_TESTS + BUDGET_TESTS + TEXT_TESTS + USE_TESTS);
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
    check_count();
    check_soft();
    check_crossings();
    check_budget();
    check_text();
    check_use();
    return done();
}
