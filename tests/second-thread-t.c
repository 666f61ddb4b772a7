/* Tests that layers used by a single thread stay exact whenever a second thread arrives. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "limit-used.h"
#include "tap.h"

#define THREADS     8
#define STEPS       300
#define ROUNDS      100
#define SLOTS       4
#define LIMIT_BYTES 1000 /* less than what all threads request together */

/* One round, with a stack of its own, which the first thread uses alone for `from` steps. */
struct round {
    struct tide_resource *statistics, *limit, *below;
    int from;
    _Atomic int steps; /* of the first thread; relaxed: a hint when to begin */
    pthread_barrier_t *begin;
};

struct worker {
    pthread_t thread;
    struct round *round;
    bool first;
    uint64_t seed;
    void *pointers[SLOTS];
    struct tide_statistics_figures own; /* the bytes that this thread has and had; no peaks */
    uint64_t wrong;
};

static void
worker_step(struct worker *worker)
{
    struct tide_resource *stack = worker->round->statistics;
    unsigned slot = contract_random(&worker->seed) % SLOTS;
    size_t bytes = 100 + slot;

    if (worker->pointers[slot] != NULL) {
        worker->wrong += tide_deallocate(stack, worker->pointers[slot], bytes, 256, 0) != TIDE_OK;
        worker->pointers[slot] = NULL;
        worker->own.bytes.current -= (int64_t)bytes;
        worker->own.count.current--;
    } else if (tide_allocate(stack, bytes, 256, 0, &worker->pointers[slot]) == TIDE_OK) {
        worker->own.bytes.current += (int64_t)bytes;
        worker->own.bytes.total += (int64_t)bytes;
        worker->own.count.current++;
        worker->own.count.total++;
    }
    worker->wrong += limit_used(worker->round->limit) > LIMIT_BYTES;
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;
    struct round *round = worker->round;

    pthread_barrier_wait(round->begin);
    while (!worker->first && atomic_load_explicit(&round->steps, memory_order_relaxed) < round->from)
        sched_yield();
    for (int i = 0; i < STEPS; i++) {
        worker_step(worker);
        if (worker->first)
            atomic_store_explicit(&round->steps, i + 1, memory_order_relaxed);
    }
    return NULL;
}

/* Whether the layers' figures differ from what the threads know. */
static uint64_t
round_differs(const struct round *round, const struct tide_statistics_figures *own)
{
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    uint64_t used = limit_used(round->limit), below;

    if (tide_statistics_read(round->statistics, &figures) != TIDE_OK ||
        tide_query(round->below, TIDE_QUERY_BYTES_USED, &below) != TIDE_OK)
        return 1;
    return figures.bytes.current != own->bytes.current || figures.bytes.total != own->bytes.total ||
           figures.count.current != own->count.current || figures.count.total != own->count.total ||
           figures.bytes.peak > LIMIT_BYTES || used != (uint64_t)own->bytes.current || below != used;
}

/* Returns how many calls failed. *differ is increased if the figures are not those of the threads. */
static uint64_t
round_run(struct round *round, uint64_t *seed, uint64_t *differ)
{
    struct tide_statistics_figures own = { TIDE_FIGURES(own) };
    struct worker workers[THREADS];
    uint64_t wrong = 0;

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .round = round, .first = i == 0, .seed = contract_random(seed) };
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
        own.bytes.current += workers[i].own.bytes.current;
        own.bytes.total += workers[i].own.bytes.total;
        own.count.current += workers[i].own.count.current;
        own.count.total += workers[i].own.count.total;
    }
    *differ += round_differs(round, &own);
    for (int i = 0; i < THREADS * SLOTS; i++) {
        void *pointer = workers[i / SLOTS].pointers[i % SLOTS];

        if (pointer != NULL)
            wrong += tide_deallocate(round->statistics, pointer, (size_t)(100 + i % SLOTS), 256, 0) != TIDE_OK;
    }
    own.bytes.current = own.count.current = 0;
    *differ += round_differs(round, &own);
    return wrong;
}

/* Make statistics | limit | below. Takes over the reference to below. */
static void
round_open(struct round *round, struct tide_resource *below)
{
    const struct tide_limit_options bound = { TIDE_OPTIONS(bound), .limit_bytes = LIMIT_BYTES, .alignment = 1 };

    round->below = below;
    round->steps = 0;
    if (tide_limit_create(below, &bound, &round->limit) != TIDE_OK ||
        tide_statistics_create(round->limit, NULL, &round->statistics) != TIDE_OK)
        abort();
    tide_resource_release(below);
    tide_resource_release(round->limit);
}

static struct tide_resource *
fixed_create(uint64_t capacity_bytes)
{
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = 256 };
    struct tide_resource *base = base_sim(capacity_bytes), *fixed;

    if (tide_fixed_create(base, &options, &fixed) != TIDE_OK)
        abort();
    tide_resource_release(base);
    return fixed;
}

#define BELOW_TESTS 2

static void
check_below(const struct base_maker *below)
{
    uint64_t seed = 4711, wrong = 0, differ = 0;
    pthread_barrier_t begin;
    struct round round = { .begin = &begin };

    diag("over %s", below->name);
    pthread_barrier_init(&begin, NULL, THREADS);
    for (int i = 0; i < ROUNDS; i++) {
        round_open(&round, below->create(0));
        round.from = 1 + (int)(contract_random(&seed) % STEPS);
        wrong += round_run(&round, &seed, &differ);
        tide_resource_release(round.statistics);
    }
    pthread_barrier_destroy(&begin);
    is_u64(differ, 0, "all figures are exact whenever a second thread comes");
    is_u64(wrong, 0, "no deallocation fails, and the limit is never passed");
}

int
main(void)
{
    const struct base_maker fixed = { "fixed", fixed_create };

    plan((BASE_COUNT + 1) * BELOW_TESTS);
    for (size_t i = 0; i < BASE_COUNT; i++)
        check_below(&bases[i]);
    check_below(&fixed);
    return done();
}
