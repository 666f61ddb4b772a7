/*
 * Random stacks from all adaptors, random operations from several threads, and a model that knows what they should have
 * come to: overlap, alignment and content of blocks, every figure that can be told from outside, every byte given back.
 *
 * TEST_SEED=N RANDOM_STACK_ROUNDS=1 runs one round again; RANDOM_STACK_ROUNDS=2000 RANDOM_STACK_STEPS=20000 is the long
 * form (`make random`).
 */
#include <pthread.h>
#include <stdatomic.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "random-stack.h"
#include "tap.h"

#define THREADS_MOST 4
#define LIVE_MOST    48
#define MAILBOXES    8
#define BASES_MOST   64
#define SIZE_MOST    (UINT64_C(64) << 10)
#define ADDED_BINS   2
#define ROUNDS       200
#define STEPS        800

struct block {
    unsigned char *pointer;
    size_t bytes;
    size_t alignment;
    unsigned char content;
    bool live;
};

struct round {
    struct random_stack random;
    struct tide_resource *stack;
    unsigned threads;
    unsigned steps;
    pthread_mutex_t lock; /* guards what follows */
    struct block live[THREADS_MOST * LIVE_MOST + MAILBOXES];
    size_t live_count;
    uint64_t live_bytes;
    uint64_t peak_bytes, total_bytes, total_count; /* the peak is exact with one thread */
    unsigned added_bins;
    unsigned faults; /* what went wrong; the first is told */
    struct block mailboxes[MAILBOXES];
};

struct worker {
    pthread_t thread;
    struct round *round;
    uint64_t state;
    struct block blocks[LIVE_MOST];
};

static void fault(struct round *round, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* With the lock held, or alone. */
static void
fault(struct round *round, const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (round->faults++ < 3)
        diag("%s", text);
}

static void
note_fault(struct round *round, const char *what, enum tide_status status)
{
    pthread_mutex_lock(&round->lock);
    fault(round, "%s: %s: %s", what, tide_status_name(status), tide_error_text());
    pthread_mutex_unlock(&round->lock);
}

static void
model_add(struct round *round, const struct block *block)
{
    pthread_mutex_lock(&round->lock);
    for (size_t i = 0; i < round->live_count; i++) {
        const struct block *other = &round->live[i];

        if (block->bytes != 0 && block->pointer < other->pointer + other->bytes &&
            other->pointer < block->pointer + block->bytes)
            fault(round, "%p of %zu B overlaps %p of %zu B", (void *)block->pointer, block->bytes,
                  (void *)other->pointer, other->bytes);
    }
    if ((uintptr_t)block->pointer % block->alignment != 0)
        fault(round, "%p is no multiple of %zu", (void *)block->pointer, block->alignment);
    if ((block->pointer == NULL) != (block->bytes == 0))
        fault(round, "%p has %zu B", (void *)block->pointer, block->bytes);
    round->live[round->live_count++] = *block;
    round->live_bytes += block->bytes;
    round->total_bytes += block->bytes;
    round->total_count++;
    if (round->live_bytes > round->peak_bytes)
        round->peak_bytes = round->live_bytes;
    pthread_mutex_unlock(&round->lock);
}

/* Before it is freed: the address may come back at once. */
static void
model_remove(struct round *round, const struct block *block)
{
    size_t i = 0;

    pthread_mutex_lock(&round->lock);
    while (i < round->live_count && (round->live[i].pointer != block->pointer || round->live[i].bytes != block->bytes ||
                                     round->live[i].alignment != block->alignment))
        i++;
    if (i == round->live_count) {
        fault(round, "the model has lost %p", (void *)block->pointer);
    } else {
        round->live[i] = round->live[--round->live_count];
        round->live_bytes -= block->bytes;
    }
    pthread_mutex_unlock(&round->lock);
}

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
    status = tide_allocate(round->stack, block->bytes, block->alignment, contract_random(&worker->state) % 3, &pointer);
    if (status != TIDE_OK) {
        if (!round->random.may_fail || (status != TIDE_ECAPACITY && status != TIDE_ELIMIT) || pointer != NULL)
            note_fault(round, "an allocation", status);
        return;
    }
    block->live = true;
    block->pointer = pointer;
    block->content = (unsigned char)contract_random(&worker->state);
    model_add(round, block);
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
    model_remove(round, block);
    block->live = false;
    status = tide_deallocate(round->stack, block->pointer, block->bytes, block->alignment,
                             contract_random(&worker->state) % 3);
    if (status != TIDE_OK)
        note_fault(round, "a deallocation", status);
}

/* Leave a block for others to free, and take one of theirs. */
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
    struct tide_resource *binning = tide_stack_find(round->stack, "binning"), *bin;
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = limit_bytes };
    bool add;

    pthread_mutex_lock(&round->lock);
    add = binning != NULL && round->added_bins < ADDED_BINS;
    round->added_bins += add;
    pthread_mutex_unlock(&round->lock);
    if (!add || tide_fixed_create(binning->upstream, &options, &bin) != TIDE_OK)
        return;
    tide_binning_add(binning, limit_bytes, bin); /* there may be one of that limit */
    tide_resource_release(bin);
}

/* What else may happen at any time. */
static void
do_other(struct worker *worker)
{
    struct round *round = worker->round;
    uint64_t choice = contract_random(&worker->state);
    enum tide_status status = TIDE_OK;
    struct tide_resource *guard;
    uint64_t figure;
    char text[64];

    switch (choice % 6) {
    case 0:
        status = tide_trim(round->stack, choice / 6 % 2 == 0 ? 0 : choice % 1000000);
        break;
    case 1:
        status = tide_order(round->stack, choice / 6 % 4 == 3 ? TIDE_STREAM_ALL : choice / 6 % 4, choice / 24 % 3);
        break;
    case 2:
        (void)tide_query(round->stack, (enum tide_query)(choice / 6 % 24), &figure);
        break;
    case 3:
        status = tide_describe(round->stack, text, sizeof(text), NULL);
        break;
    case 4:
        do_add_bin(round, 16 + choice / 6 % 10000);
        break;
    default:
        guard = tide_stack_find(round->stack, "guard");
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

static uint64_t
figure_of(struct tide_resource *resource, enum tide_query what)
{
    uint64_t figure;

    return tide_query(resource, what, &figure) == TIDE_OK ? figure : UINT64_MAX;
}

/* What a limit should count, from what is live. */
static uint64_t
limit_wanted(const struct round *round, struct tide_resource *limit)
{
    char text[256] = "";
    struct tide_text out = { .data = text, .capacity = sizeof(text) };
    const char *argument;
    uint64_t alignment = 256, wanted = 0;

    limit->ops->describe(limit, &out);
    argument = strstr(text, "alignment=");
    if (argument != NULL) {
        char *unit;

        alignment = strtoull(argument + strlen("alignment="), &unit, 10);
        alignment <<= strncmp(unit, "KiB", 3) == 0 ? 10 : 0;
    }
    for (size_t i = 0; i < round->live_count; i++)
        wanted += (round->live[i].bytes + alignment - 1) & ~(alignment - 1);
    return wanted;
}

static void
check_statistics(struct round *round, struct tide_resource *layer)
{
    struct tide_statistics seen;
    bool right;

    if (tide_statistics_read(layer, &seen) != TIDE_OK) {
        fault(round, "statistics cannot be read");
        return;
    }
    right = (uint64_t)seen.bytes.current == round->live_bytes && (uint64_t)seen.count.current == round->live_count;
    if (!right)
        fault(round, "statistics: %" PRId64 " bytes in %" PRId64 " blocks, expected %" PRIu64 " in %zu",
              seen.bytes.current, seen.count.current, round->live_bytes, round->live_count);
    if (layer == round->stack &&
        ((uint64_t)seen.bytes.total != round->total_bytes || (uint64_t)seen.count.total != round->total_count))
        fault(round, "statistics: %" PRId64 " bytes in all, expected %" PRIu64, seen.bytes.total, round->total_bytes);
    if (layer == round->stack && round->threads == 1 && (uint64_t)seen.bytes.peak != round->peak_bytes)
        fault(round, "statistics: a peak of %" PRId64 ", expected %" PRIu64, seen.bytes.peak, round->peak_bytes);
}

static void
add_tracked(void *context, const struct tide_track_block *block)
{
    *(uint64_t *)context += block->bytes;
}

static void
check_track(struct round *round, struct tide_resource *layer)
{
    uint64_t bytes = 0;

    if (tide_track_report(layer, add_tracked, &bytes) != TIDE_OK || bytes != round->live_bytes)
        fault(round, "track: %" PRIu64 " bytes outstanding, expected %" PRIu64, bytes, round->live_bytes);
}

/* Down from the top, as long as each layer hands on just what it gets: its figures are the model's. */
static void
check_figures(struct round *round)
{
    struct tide_resource *layer = round->stack;

    while (layer != NULL) {
        const char *name = tide_resource_name(layer);
        uint64_t used;

        if (strcmp(name, "statistics") == 0)
            check_statistics(round, layer);
        else if (strcmp(name, "track") == 0)
            check_track(round, layer);
        else if (strcmp(name, "limit") == 0 &&
                 (tide_limit_used(layer, &used) != TIDE_OK || used != limit_wanted(round, layer)))
            fault(round, "limit: %" PRIu64 " bytes in use, expected %" PRIu64, used, limit_wanted(round, layer));
        else if (strcmp(name, "aligned") == 0 || strcmp(name, "binning") == 0 || strcmp(name, "fallback") == 0)
            return;
        else if ((strcmp(name, "pool") == 0 || strcmp(name, "arena") == 0 || strcmp(name, "monotonic") == 0 ||
                  strcmp(name, "guard") == 0 || layer->upstream == NULL) &&
                 figure_of(layer, TIDE_QUERY_BYTES_USED) != round->live_bytes)
            fault(round, "%s: %" PRIu64 " bytes used, expected %" PRIu64, name, figure_of(layer, TIDE_QUERY_BYTES_USED),
                  round->live_bytes);
        if (strcmp(name, "pool") == 0 || strcmp(name, "arena") == 0 || strcmp(name, "monotonic") == 0 ||
            strcmp(name, "guard") == 0)
            return;
        layer = layer->upstream;
    }
}

/* Where all is freed and trimmed, no layer has anything out, unless one above keeps its chunks. */
static void
check_empty(struct round *round, struct tide_resource *layer)
{
    struct tide_upstream edge;
    struct tide_statistics seen;
    uint64_t used;

    if (tide_statistics_read(layer, &seen) == TIDE_OK && (seen.bytes.current != 0 || seen.count.current != 0))
        fault(round, "statistics: %" PRId64 " bytes in %" PRId64 " blocks where there are none", seen.bytes.current,
              seen.count.current);
    if (tide_limit_used(layer, &used) == TIDE_OK && used != 0)
        fault(round, "limit: %" PRIu64 " bytes in use where there are none", used);
    if (layer->upstream == NULL && figure_of(layer, TIDE_QUERY_BYTES_USED) != 0)
        fault(round, "%s: %" PRIu64 " bytes used where there are none", tide_resource_name(layer),
              figure_of(layer, TIDE_QUERY_BYTES_USED));
    for (size_t i = 0; layer->ops->upstream_at(layer, i, &edge) == TIDE_OK; i++)
        check_empty(round, edge.resource);
}

/* Hold on to every base, to ask them when the stack has gone. */
static void
keep_bases(struct tide_resource *layer, struct tide_resource **bases, size_t *count)
{
    struct tide_upstream edge;

    if (layer->upstream == NULL && *count < BASES_MOST)
        bases[(*count)++] = tide_resource_retain(layer);
    for (size_t i = 0; layer->ops->upstream_at(layer, i, &edge) == TIDE_OK; i++)
        keep_bases(edge.resource, bases, count);
}

/* Its description makes the same stack again. */
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
        return; /* what layers keep goes back when they go */
    if (tide_trim(round->stack, 0) != TIDE_OK)
        fault(round, "the last trim: %s", tide_error_text());
    if (strstr(round->random.text, "monotonic") == NULL)
        check_empty(round, round->stack);
}

/* The stack goes; the bases have nothing out. */
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

static void
run_round(uint64_t seed, unsigned steps)
{
    static struct round round;
    static struct worker workers[THREADS_MOST];
    enum tide_status status;

    memset(&round, 0, sizeof(round));
    memset(workers, 0, sizeof(workers));
    pthread_mutex_init(&round.lock, NULL);
    random_stack_make(&round.random, seed);
    round.steps = steps;
    round.threads = 1 + (unsigned)(seed % THREADS_MOST);
    for (unsigned i = 0; i < THREADS_MOST; i++)
        workers[i] = (struct worker){ .round = &round, .state = seed * 1000003 + i + 1 };
    status = tide_stack_parse(round.random.text, &round.stack);
    if (status == TIDE_OK) {
        check_text(&round);
        round_work(&round, workers);
        round_work(&round, workers);
        round_drain(&round, workers);
        round_end(&round);
    } else if (!round.random.may_fail || (status != TIDE_ECAPACITY && status != TIDE_ELIMIT)) {
        fault(&round, "%s", tide_error_text()); /* a limit may refuse what a pool takes at once */
    }
    pthread_mutex_destroy(&round.lock);
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
