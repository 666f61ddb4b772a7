/* Tests adaptors/limit.c. */
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
    ok(all_of(take(limit, 4 * MIB, &first) == TIDE_OK, take(limit, 4 * MIB, &second) == TIDE_OK),
       "4 + 4 of 10 MiB pass");
    is_u64(limit_used(limit), 8 * MIB, "8 MiB count as used");
    ok(all_of(take(limit, 3 * MIB, &third) == TIDE_ELIMIT, third == NULL), "3 MiB more are refused, with NULL");
    is_string(tide_error_text(), "limit: 3 MiB request exceeds 10 MiB limit (8 MiB in use)", "in words and numbers");
    is_u64(limit_used(limit), 8 * MIB, "the counter stays at 8 MiB");
    ok(all_of(take(limit, SIZE_MAX, &third) != TIDE_OK, third == NULL), "SIZE_MAX is refused");
    is_u64(limit_used(limit), 8 * MIB, "with the counter unchanged");
    ok(all_of(take(limit, SIZE_MAX - 256 * KIB, &third) != TIDE_OK, third == NULL), "SIZE_MAX - 256 KiB is refused");
    is_u64(limit_used(limit), 8 * MIB, "with the counter unchanged");
    ok(give(limit, first, 4 * MIB) == TIDE_OK, "4 MiB are freed with their size");
    ok(take(limit, 6 * MIB + 1, &third) == TIDE_ELIMIT, "then 6 MiB and a byte are refused");
    ok(take(limit, 6 * MIB, &first) == TIDE_OK, "and exactly 6 MiB pass");
    is_u64(limit_used(limit), 10 * MIB, "which is all of it");
    ok(take(limit, 1, &third) == TIDE_ELIMIT, "not a byte more passes");
    ok(all_of(take(limit, 0, &third) == TIDE_OK, give(limit, third, 0) == TIDE_OK), "0 bytes pass and are freed");
    give(limit, first, 6 * MIB);
    give(limit, second, 4 * MIB);
    is_u64(limit_used(limit), 0, "nothing is left in use");
    ok(all_of(take(limit, 10 * MIB, &first) == TIDE_OK, give(limit, first, 10 * MIB) == TIDE_OK), "all at once passes");
    ok(take(limit, 10 * MIB + 1, &first) == TIDE_ELIMIT, "all and a byte does not");
    tide_resource_release(limit);
    limit = over(base->create(0), TIDE_NONE, 1);
    ok(all_of(take(limit, 1, &first) == TIDE_ELIMIT, take(limit, 0, &first) == TIDE_OK),
       "a limit of 0 lets 0 bytes pass");
    tide_resource_release(limit);
    limit = over(base->create(0), TIDE_UNLIMITED, 1);
    ok(all_of(take(limit, 1, &first) == TIDE_OK, limit_used(limit) == 1, give(limit, first, 1) == TIDE_OK),
       "the largest limit there is lets all pass");
    tide_resource_release(limit);
}

#define ROUNDING_TESTS 9

static void
check_rounding(const struct base_maker *base)
{
    struct tide_resource *limit = over(base->create(0), 512, 256);
    void *first = NULL, *second = NULL, *third = &third;

    diag("rounding over %s", base->name);
    ok(all_of(take(limit, 1, &first) == TIDE_OK, limit_used(limit) == 256), "a byte counts 256");
    ok(all_of(take(limit, 257, &second) == TIDE_ELIMIT, limit_used(limit) == 256),
       "257 bytes count 512, and are refused");
    ok(all_of(take(limit, 256, &second) == TIDE_OK, limit_used(limit) == 512), "256 bytes count 256");
    ok(all_of(take(limit, 0, &third) == TIDE_OK, limit_used(limit) == 512), "0 bytes count as none");
    ok(all_of(give(limit, first, 1) == TIDE_OK, limit_used(limit) == 256), "a byte freed gives 256 back");
    ok(all_of(take(limit, SIZE_MAX, &third) == TIDE_EOVERFLOW, third == NULL, limit_used(limit) == 256),
       "SIZE_MAX overflows, and is refused");
    ok(all_of(take(limit, SIZE_MAX - 254, &third) == TIDE_EOVERFLOW, limit_used(limit) == 256),
       "as is the first that overflows");
    ok(all_of(take(limit, SIZE_MAX - 255, &third) == TIDE_ELIMIT, limit_used(limit) == 256),
       "the last that does not is refused");
    ok(all_of(give(limit, second, SIZE_MAX) == TIDE_EOVERFLOW, give(limit, second, 256) == TIDE_OK,
              limit_used(limit) == 0),
       "a size that overflows is no size to give back");
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
       "what is refused reaches nobody");
    gate->before_allocate = visit_used;
    take(limit, 60, &pointer);
    is_u64(visited_used, 60, "bytes are reserved before upstream is called");
    is_u64(upstream->last_bytes, 60, "upstream gets the size that was asked for");
    upstream->fail_allocate = 1;
    ok(all_of(take(limit, 40, &other) == TIDE_ECAPACITY, other == NULL), "upstream's refusal is passed on");
    is_u64(limit_used(limit), 60, "and the reservation given back");
    upstream->fail_deallocate = 1;
    ok(all_of(give(limit, pointer, 60) == TIDE_EDRIVER, limit_used(limit) == 60),
       "what upstream does not take back still counts");
    gate->before_deallocate = visit_used;
    gate->after_deallocate = visit_take;
    ok(give(limit, pointer, 60) == TIDE_OK, "a deallocation passes");
    is_u64(visited_used, 60, "upstream is asked before the bytes are given back");
    ok(visited_status == TIDE_ELIMIT, "nobody gets them before upstream has returned");
    is_u64(limit_used(limit), 0, "the bytes are free once upstream has returned");
    gate->before_allocate = visit_take;
    ok(all_of(take(limit, 60, &pointer) == TIDE_OK, visited_status == TIDE_ELIMIT),
       "a request that does not fit beside one on its way is refused");
    ok(all_of(give(limit, &other, 60) == TIDE_EPOINTER, limit_used(limit) == 60), "an unknown pointer changes nothing");
    ok(all_of(give(limit, pointer, 59) == TIDE_EMISMATCH, limit_used(limit) == 60), "a wrong size changes nothing");
    ok(all_of(give(limit, pointer, 61) == TIDE_EMISMATCH, limit_used(limit) == 60),
       "more than is outstanding even less");
    has_words(tide_error_text(), "61 B given back with 60 B outstanding",
              "the refusal of a free of too much names both sizes");
    give(limit, pointer, 60);
    ok(all_of(tide_order(limit, 3, 4) == TIDE_OK, upstream->last_earlier == 3, upstream->last_later == 4),
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
    _Atomic uint64_t *highest; /* of limit_used, as seen by all */
    bool greedy;
    uint64_t seed;
    uint64_t part_bytes;
    uint64_t wrong;
};

static void
worker_look(struct worker *worker)
{
    uint64_t now = limit_used(worker->limit);
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
    ok(all_of(highest > 0, highest <= 10 * MIB), "the sum that anybody sees never passes the limit");
    is_u64(limit_used(limit), 0, "nothing is left in use");
    tide_query(limit, TIDE_QUERY_BYTES_USED, &highest);
    is_u64(highest, 0, "no thread sees more than 0 bytes in use afterwards");
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
    ok(all_of(upstream->peak_bytes <= 10 * MIB, highest <= 10 * MIB), "and upstream never has more than the limit");
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
    ok(all_of(upstream->live_count == 0, limit_used(limit) == 0), "nothing is left in use or with upstream");
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
       "two allocations pass, one of 0 bytes");
    ok(limit_used_count(limit) == 2, "both allocations count");
    ok(all_of(take(limit, 0, &third) == TIDE_ELIMIT, third == NULL), "a third is refused, with NULL");
    is_string(tide_error_text(), "limit: one more allocation exceeds the limit of 2",
              "the refusal of one allocation too many names the limit");
    ok(all_of(give(limit, second, 0) == TIDE_OK, take(limit, MIB, &third) == TIDE_OK),
       "one back lets one pass, however large");
    upstream->fail_deallocate = 1;
    ok(all_of(give(limit, first, 100) == TIDE_EDRIVER, take(limit, 1, &second) == TIDE_ELIMIT),
       "what upstream does not take back still counts");
    ok(all_of(give(limit, first, 100) == TIDE_OK, give(limit, third, MIB) == TIDE_OK), "both allocations are freed");
    ok(limit_used_count(limit) == 0, "no allocation is left in the count");
    tide_resource_release(limit);
}

static uint64_t warned_used, warned_soft;
static unsigned warned;
static struct tide_resource *warned_gives; /* 50 bytes of it, where it is not NULL */
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
    ok(warned == 0, "nothing is said up to the soft limit");
    ok(all_of(take(limit, 1, &third) == TIDE_OK, warned == 1), "a byte more, and it is");
    ok(all_of(warned_used == 61, warned_soft == 60), "with both figures");
    give(limit, third, 1);
    give(limit, second, 10);
    ok(all_of(take(limit, 10, &second) == TIDE_OK, warned == 1), "not again at the soft limit");
    ok(all_of(take(limit, 5, &third) == TIDE_OK, warned == 2, warned_used == 65), "but each time that it is passed");
    ok(all_of(take(limit, 36, &fourth) == TIDE_ELIMIT, take(limit, 1, &fourth) == TIDE_OK, warned == 2),
       "and once alone while it stays above");
    give(limit, fourth, 1);
    give(limit, third, 5);
    warned_gives = limit;
    warned_pointer = first;
    ok(all_of(take(limit, 40, &third) == TIDE_OK, warned == 3, limit_used(limit) == 50), "a callback may make room");
    warned_gives = NULL;
    give(limit, third, 40);
    upstream->fail_allocate = 1;
    ok(all_of(take(limit, 60, &third) != TIDE_OK, warned == 4, limit_used(limit) == 10),
       "it comes before upstream is asked, also where that refuses");
    tide_resource_release(limit);

    /* The first request of all is one that the account decides about with the sum known. */
    warned = 0;
    if (tide_limit_create(&upstream->base, &options, &limit) != TIDE_OK)
        abort();
    ok(take(limit, 60, &first) == TIDE_OK && warned == 0,
       "a first request that reaches the soft limit is not above it");
    ok(take(limit, 1, &second) == TIDE_OK && warned == 1 && warned_used == 61, "a byte after it is");
    tide_resource_release(limit);

    options.function = NULL;
    options.soft_limit_bytes = 101;
    ok(all_of(tide_limit_create(&upstream->base, &options, &limit) == TIDE_EINVAL, limit == NULL),
       "a soft limit over the limit is refused");
    options.soft_limit_bytes = 100;
    ok(tide_limit_create(&upstream->base, &options, &limit) == TIDE_OK, "one at the limit is not");
    tide_resource_release(limit);
    options.soft_limit_bytes = 60;
    ok(tide_limit_create(&upstream->base, &options, &limit) == TIDE_OK, "without a callback there are messages");
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

/* All go up together, and all come down: each round passes the soft limit once. */
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
    is_u64(crossings, 50, "of eight threads that pass it together one is told, each time");
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
       "two limits of one budget count together");
    ok(all_of(take(limits[1], 41, &other) == TIDE_ELIMIT, take(limits[1], 40, &other) == TIDE_OK,
              limit_used(limits[0]) == 100),
       "and refuse together");
    give(limits[0], pointer, 60);
    ok(take(limits[1], 60, &pointer) == TIDE_OK, "what one gives back the other may have");
    options.budget = "other";
    tide_resource_release(limits[0]);
    ok(all_of(tide_limit_create(&upstreams[0]->base, &options, &limits[0]) == TIDE_OK, limit_used(limits[0]) == 0),
       "another name is another budget");
    options.budget = "one";
    options.limit_bytes = 200;
    ok(all_of(tide_limit_create(&upstreams[0]->base, &options, &refused) == TIDE_EINVAL, refused == NULL),
       "a budget has one size");
    has_words(tide_error_text(), "budget 'one' was made with limit=100, and is wanted with limit=200 here",
              "the refusal of a budget of another size names both sizes");
    options.limit_bytes = 100;
    options.limit_count = 5;
    ok(tide_limit_create(&upstreams[0]->base, &options, &refused) == TIDE_EINVAL, "a budget has one count");
    options.budget = "";
    ok(tide_limit_create(&upstreams[0]->base, &options, &refused) == TIDE_EINVAL, "a budget without a name is refused");
    give(limits[1], pointer, 60);
    give(limits[1], other, 40);
    tide_resource_release(limits[1]);
    options.budget = "one";
    ok(tide_limit_create(&upstreams[0]->base, &options, &limits[1]) == TIDE_OK, "it goes with the last of its limits");
    for (int i = 0; i < 2; i++) {
        tide_resource_release(limits[i]);
        tide_resource_release(&upstreams[i]->base);
    }
}

/* What the text makes, described again; or the message. */
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
              "limit(4GiB, count=1000, soft=3GiB, alignment=1, budget=\"gpu\") | sim", "text may say all of it");
    is_string(described("limit(count=5, budget=\"a b\") | sim"), "limit(count=5, budget=\"a b\") | sim",
              "or a count without a size");
    is_string(described("limit(50%, soft=25%) | sim(capacity=4GiB)"), "limit(2GiB, soft=1GiB) | sim(capacity=4GiB)",
              "a soft limit may be a share");
    has_words(described("limit(alignment=1) | sim"), "argument 'limit' is missing, expected a size such as 4GiB",
              "a limit without bytes and count is refused");
    has_words(described("limit(count=0) | sim"), "'0' is too small", "a count of 0 is refused");
    has_words(described("limit(1GiB, soft=2GiB) | sim"), "soft limit of 2 GiB over the limit of 1 GiB",
              "nor a soft limit over the limit");
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
       "there is none without upstream");
    ok(tide_limit_create(base, &options, NULL) == TIDE_EINVAL, "there is none without a place for it");
    ok(all_of(tide_limit_create(base, NULL, &limit) == TIDE_EINVAL, limit == NULL), "nor without a bound");
    is_string(tide_error_text(), "limit: no bound given, expected limit_bytes or limit_count",
              "the error text names the options that give one");
    options.alignment = 3;
    ok(all_of(tide_limit_create(base, &options, &limit) == TIDE_EINVAL, limit == NULL),
       "an alignment is a power of two");
    options.struct_size = 3;
    ok(tide_limit_create(base, &options, &limit) == TIDE_EINVAL, "options have a size");
    limit = over(tide_resource_retain(base), 4096, 0);
    ok(all_of(take(limit, 1, &pointer) == TIDE_OK, limit_used(limit) == 256, give(limit, pointer, 1) == TIDE_OK),
       "256 is counted up to where no alignment is given");
    tide_resource_release(limit);
    ok(all_of(tide_limit_read(base, &figures) == TIDE_EINVAL, figures.used_bytes == 0, figures.used_count == 0),
       "the figures of a resource that is not a limit are zeros");
    is_string(tide_error_text(), "limit: not a limit resource", "the error text says that it is not a limit");
    ok(tide_limit_read(NULL, &figures) == TIDE_EINVAL, "NULL has no figures");
    limit = over(tide_resource_retain(base), 4096, 0);
    ok(tide_limit_read(limit, NULL) == TIDE_EINVAL, "figures need a place");
    figures.struct_size = 0;
    ok(tide_limit_read(limit, &figures) == TIDE_EINVAL, "figures have a size");
    is_string(tide_error_text(), "limit: struct_size 0 in the figures, expected TIDE_FIGURES",
              "the error text says how it is set");
    tide_resource_release(limit);
    limit = over(tide_resource_retain(base), 4096, 512);
    ok(all_of(tide_query(limit, TIDE_QUERY_CAPACITY, &figure) == TIDE_OK, figure == 4096),
       "its capacity is the limit where the base has more");
    limit->ops->describe(limit, &description);
    is_string(text, "4KiB, alignment=512", "it describes itself as stack text reads it");
    tide_resource_release(limit);
    limit = over(base, 2 * MIB, 256);
    ok(all_of(tide_query(limit, TIDE_QUERY_CAPACITY, &figure) == TIDE_OK, figure == MIB),
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
