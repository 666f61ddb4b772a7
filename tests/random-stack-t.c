/*
 * Random stacks of all adaptors, random operations of several threads, and a model of the expected results: blocks that
 * do not overlap, their alignment and content, every figure that can be known from outside, every byte given back, and,
 * with a log, every row of the trace. TEST_SEED=N RANDOM_STACK_ROUNDS=1 repeats one round; RANDOM_STACK_ROUNDS=2000
 * RANDOM_STACK_STEPS=20000 is the long form (`make random`).
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "find.h"
#include "random-stack-model.h"
#include "sanitized.h"
#include "tap.h"
#include "trace.h"

#define BASES_MOST 64
#define SIZE_MOST  (UINT64_C(64) << 10)
#define ADDED_BINS 2
#define TAGS       3
#define ROUNDS     200
#define STEPS      FEWER(800, 250)

struct worker {
    pthread_t thread;
    struct round *round;
    uint64_t state;
    struct caller caller;
    struct block blocks[LIVE_MOST];
};

static size_t
random_size(uint64_t *state)
{
    static const uint64_t most[] = { 1, 64, 256, 1024, 4096, SIZE_MOST };

    return (size_t)(contract_random(state) % (most[contract_random(state) % 6] + 1));
}

static void
do_allocate(struct worker *worker, struct block *block)
{
    struct round *round = worker->round;
    enum tide_status status;
    void *pointer = &pointer;

    block->bytes = random_size(&worker->state);
    block->alignment = (size_t)1 << contract_random(&worker->state) % (round->random.any_alignment ? 14 : 9);
    worker->caller.stream = contract_random(&worker->state) % 3;
    status = tide_allocate(round->stack, block->bytes, block->alignment, worker->caller.stream, &pointer);
    block->pointer = pointer;
    if (status != TIDE_OK) {
        model_add(round, block, &worker->caller, status);
        if (!round->random.may_fail || (status != TIDE_ECAPACITY && status != TIDE_ELIMIT) || pointer != NULL)
            note_fault(round, "an allocation", status);
        return;
    }
    block->live = true;
    block->content = (unsigned char)contract_random(&worker->state);
    model_add(round, block, &worker->caller, status);
    if (round->random.host_memory)
        memset(block->pointer != NULL ? block->pointer : (void *)block, block->content, block->bytes);
}

static void
do_free(struct worker *worker, struct block *block)
{
    struct round *round = worker->round;
    enum tide_status status;
    size_t wrong = 0;

    for (size_t i = 0; round->random.host_memory && i < block->bytes; i++)
        wrong += block->pointer[i] != block->content;
    if (wrong != 0)
        note_fault(round, "others have written to a block", TIDE_OK);
    worker->caller.stream = contract_random(&worker->state) % 3;
    model_remove(round, block, &worker->caller);
    block->live = false;
    status = tide_deallocate(round->stack, block->pointer, block->bytes, block->alignment, worker->caller.stream);
    if (status != TIDE_OK)
        note_fault(round, "a deallocation", status);
}

/* Leave a block for another thread, and take one that was left. */
static void
do_exchange(struct worker *worker, struct block *block)
{
    struct block *mailbox = &worker->round->mailboxes[contract_random(&worker->state) % MAILBOXES];
    struct block other;

    pthread_mutex_lock(&worker->round->lock);
    other = *mailbox;
    *mailbox = *block;
    *block = other;
    pthread_mutex_unlock(&worker->round->lock);
}

static void
do_add_bin(struct round *round, uint64_t limit_bytes)
{
    struct tide_resource *binning = find_layer(round->stack, "binning"), *bin;
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = limit_bytes };
    bool add;

    pthread_mutex_lock(&round->lock);
    add = binning != NULL && round->added_bins < ADDED_BINS;
    round->added_bins += add;
    pthread_mutex_unlock(&round->lock);
    if (!add || tide_fixed_create(binning->upstream, &options, &bin) != TIDE_OK)
        return;
    tide_binning_add(binning, limit_bytes, bin); /* fails if there is a bin of that limit */
    tide_resource_release(bin);
}

/* From here on the thread's allocations have a tag, or none. */
static void
do_tag(struct worker *worker, uint64_t choice)
{
    char name[16];

    if (worker->caller.tag != 0) {
        tide_tag_pop();
        worker->caller.tag = 0;
        return;
    }
    snprintf(name, sizeof(name), "t%u", (unsigned)(1 + choice % TAGS));
    if (tide_tag_push(name) == TIDE_OK)
        worker->caller.tag = (int64_t)(1 + choice % TAGS);
}

/* Other operations that may come at any time. */
static void
do_other(struct worker *worker)
{
    struct round *round = worker->round;
    uint64_t choice = contract_random(&worker->state);
    enum tide_status status = TIDE_OK;
    struct tide_resource *guard;
    uint64_t figure;
    char text[64];

    switch (choice % 7) {
    case 0:
        status = tide_trim(round->stack, choice / 7 % 2 == 0 ? 0 : choice % 1000000);
        break;
    case 1:
        status = tide_order(round->stack, choice / 7 % 4 == 3 ? TIDE_STREAM_ALL : choice / 7 % 4, choice / 28 % 3);
        break;
    case 2:
        (void)tide_query(round->stack, (enum tide_query)(choice / 7 % 24), &figure);
        break;
    case 3:
        status = tide_describe(round->stack, text, sizeof(text), NULL);
        break;
    case 4:
        do_add_bin(round, 16 + choice / 7 % 10000);
        break;
    case 5:
        do_tag(worker, choice / 7);
        break;
    default:
        guard = find_layer(round->stack, "guard");
        if (guard != NULL && round->random.host_memory)
            status = tide_guard_check(guard, NULL);
        break;
    }
    if (status != TIDE_OK)
        note_fault(round, "a trim, an order, a description or a check", status);
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;

    worker->caller = (struct caller){ .thread = (int64_t)syscall(SYS_gettid) };
    for (unsigned i = 0; i < worker->round->steps; i++) {
        uint64_t choice = contract_random(&worker->state) % 200;
        struct block *block = &worker->blocks[contract_random(&worker->state) % LIVE_MOST];

        if (choice == 0)
            do_other(worker);
        else if (choice < 20)
            do_exchange(worker, block);
        else if (block->live)
            do_free(worker, block);
        else
            do_allocate(worker, block);
    }
    return NULL;
}

/* Hold a reference to every base, to query them after the stack. */
static void
keep_bases(struct tide_resource *layer, struct tide_resource **bases, size_t *count)
{
    struct tide_upstream edge;

    if (layer->upstream == NULL && *count < BASES_MOST)
        bases[(*count)++] = tide_resource_retain(layer);
    for (size_t i = 0; layer->ops->upstream_at(layer, i, &edge) == TIDE_OK; i++)
        keep_bases(edge.resource, bases, count);
}

/* Check that the stack's description makes the same stack again. */
static void
check_text(struct round *round)
{
    char first[2 * RANDOM_STACK_CAPACITY], second[2 * RANDOM_STACK_CAPACITY];
    struct tide_resource *again;

    tide_describe(round->stack, first, sizeof(first), NULL);
    if (tide_stack_parse(first, &again) != TIDE_OK) {
        fault(round, "%s: %s", first, tide_error_text());
        return;
    }
    tide_describe(again, second, sizeof(second), NULL);
    if (strcmp(first, second) != 0)
        fault(round, "%s makes %s", first, second);
    tide_resource_release(again);
}

static void
round_work(struct round *round, struct worker *workers)
{
    for (unsigned i = 0; i < round->threads; i++)
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    for (unsigned i = 0; i < round->threads; i++)
        pthread_join(workers[i].thread, NULL);
    check_figures(round);
}

static void
round_drain(struct round *round, struct worker *workers)
{
    workers[0].caller = (struct caller){ .thread = (int64_t)syscall(SYS_gettid) };
    for (unsigned i = 0; i < MAILBOXES; i++) {
        if (round->mailboxes[i].live)
            do_free(&workers[0], &round->mailboxes[i]);
    }
    for (unsigned i = 0; i < round->threads; i++) {
        for (size_t j = 0; j < LIVE_MOST; j++) {
            if (workers[i].blocks[j].live)
                do_free(&workers[0], &workers[i].blocks[j]);
        }
    }
    check_figures(round);
    if (round->random.state % 2 == 0)
        return; /* layers give back what they keep when they are destroyed */
    if (tide_trim(round->stack, 0) != TIDE_OK)
        fault(round, "the last trim: %s", tide_error_text());
    if (strstr(round->random.text, "monotonic") == NULL)
        check_empty(round, round->stack);
}

/* Release the stack, and check that the bases have nothing allocated. */
static void
round_end(struct round *round)
{
    struct tide_resource *bases[BASES_MOST];
    size_t count = 0;

    keep_bases(round->stack, bases, &count);
    tide_resource_release(round->stack);
    for (size_t i = 0; i < count; i++) {
        if (figure_of(bases[i], TIDE_QUERY_BYTES_USED) != 0)
            fault(round, "%s: %" PRIu64 " bytes were not given back", tide_resource_name(bases[i]),
                  figure_of(bases[i], TIDE_QUERY_BYTES_USED));
        tide_resource_release(bases[i]);
    }
}

/* What runs between the creation of the stack and its end. */
static void
round_live(struct round *round, struct worker *workers, const char *path)
{
    static struct trace_layers layers;
    struct tide_resource *log = round->random.records ? find_layer(round->stack, "log") : NULL;
    const char *wrong = log != NULL ? trace_check_layers(path, log, &layers) : NULL;

    round->top_statistics = find_layer(round->stack, "statistics");
    check_text(round);
    round_work(round, workers);
    round_work(round, workers);
    round_drain(round, workers);
    if (log != NULL && wrong == NULL && tide_log_flush(log) != TIDE_OK)
        wrong = tide_error_text();
    if (log != NULL && wrong == NULL)
        wrong = trace_check_lives(path, &round->random, log, &layers, &round->lives);
    if (wrong != NULL)
        fault(round, "%s", wrong);
}

/* Check the closed trace, and remove it unless something was wrong. */
static void
round_trace_end(struct round *round, const char *path)
{
    const char *wrong = trace_check_end(path, &round->random);

    if (wrong != NULL)
        fault(round, "%s", wrong);
    if (round->threads == 1 && !round->random.drops &&
        sql_number(path, "SELECT coalesce(max(live_bytes), 0) FROM usage WHERE layer_id = 1") !=
            (int64_t)round->peak_bytes)
        fault(round, "the trace has a peak of %" PRId64 ", expected %" PRIu64,
              sql_number(path, "SELECT max(live_bytes) FROM usage WHERE layer_id = 1"), round->peak_bytes);
    if (round->faults == 0)
        unlink(path);
}

static void
run_round(uint64_t seed, unsigned steps)
{
    static struct round round;
    static struct worker workers[THREADS_MOST];
    const char *path = scratch("%" PRIu64 ".db", seed);
    enum tide_status status;

    memset(&round, 0, sizeof(round));
    memset(workers, 0, sizeof(workers));
    pthread_mutex_init(&round.lock, NULL);
    random_stack_make(&round.random, seed, path);
    round.steps = steps;
    round.threads = 1 + (unsigned)(seed % THREADS_MOST);
    for (unsigned i = 0; i < THREADS_MOST; i++)
        workers[i] = (struct worker){ .round = &round, .state = seed * 1000003 + i + 1 };
    status = tide_stack_parse(round.random.text, &round.stack);
    if (status == TIDE_OK) {
        round_live(&round, workers, path);
        round_end(&round);
        if (round.random.records)
            round_trace_end(&round, path);
    } else if (!round.random.may_fail || (status != TIDE_ECAPACITY && status != TIDE_ELIMIT)) {
        fault(&round, "%s", tide_error_text()); /* a limit may refuse the initial size of a pool */
    }
    pthread_mutex_destroy(&round.lock);
    lives_free(&round.lives);
    ok(round.faults == 0, "seed %" PRIu64 ", %u threads: %s", seed, round.threads, round.random.text);
}

static unsigned
environment(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

int
main(void)
{
    unsigned rounds = environment("RANDOM_STACK_ROUNDS", ROUNDS);
    unsigned steps = environment("RANDOM_STACK_STEPS", STEPS);
    uint64_t seed = contract_seed(20261121);

    plan((int)rounds);
    for (unsigned i = 0; i < rounds; i++)
        run_round(seed + i, steps);
    return done();
}
