/* Tests adaptors/fixed.c: blocks that one thread frees and another takes, and frees by other threads. */
#include <pthread.h>
#include <stdatomic.h>

#include "tap.h"
#include "upstream.h"

#define BLOCK 1024
#define COUNT 3

static struct tide_resource *
over(struct upstream *upstream)
{
    const struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = BLOCK };
    struct tide_resource *fixed;

    if (tide_fixed_create(&upstream->base, &options, &fixed) != TIDE_OK)
        abort();
    return fixed;
}

static uint64_t
figure(struct tide_resource *fixed, enum tide_query what)
{
    uint64_t out;

    return tide_query(fixed, what, &out) == TIDE_OK ? out : UINT64_MAX;
}

/* What another thread is to do, and the result. */
struct task {
    struct tide_resource *fixed;
    tide_stream stream;
    unsigned count;
    void *pointers[COUNT];
    enum tide_status status; /* of the last call */
};

static void *
take_all(void *context)
{
    struct task *task = context;

    for (unsigned i = 0; i < task->count; i++)
        task->status = tide_allocate(task->fixed, 100, 256, task->stream, &task->pointers[i]);
    return NULL;
}

static void *
give_all(void *context)
{
    struct task *task = context;

    for (unsigned i = 0; i < task->count; i++)
        task->status = tide_deallocate(task->fixed, task->pointers[i], 100, 256, task->stream);
    return NULL;
}

/* Run the function on a new thread. */
static void
elsewhere(void *(*function)(void *), struct task *task)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, function, task) != 0)
        abort();
    pthread_join(thread, NULL);
}

#define TAKE_OVER_TESTS 9

static void
check_take_over(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(upstream);
    struct task mine = { .fixed = fixed, .count = COUNT }, other = { .fixed = fixed, .count = COUNT };

    take_all(&mine);
    give_all(&mine);
    for (int i = 0; i < 4; i++) { /* threads of all shards */
        elsewhere(take_all, &other);
        elsewhere(give_all, &other);
    }
    is_u64(upstream->allocate_calls, COUNT, "a thread takes what another has freed before upstream is asked");
    is_u64(upstream->order_calls, 0, "a block that another thread freed on the same stream is taken without an order");
    elsewhere(take_all, &other);
    is_u64(figure(fixed, TIDE_QUERY_BYTES_USED), 100 * COUNT, "the bytes in use are those of all threads");
    is_u64(figure(fixed, TIDE_QUERY_BYTES_RESERVED), BLOCK * COUNT, "the bytes reserved are those of all threads");
    give_all(&other);
    ok(all_of(other.status == TIDE_OK, figure(fixed, TIDE_QUERY_BYTES_USED) == 0),
       "a block may be freed by another thread than the one that took it");
    other.stream = 7;
    elsewhere(take_all, &other);
    ok(all_of(upstream->allocate_calls == COUNT, upstream->order_calls == COUNT, upstream->last_later == 7),
       "a request on another stream takes another thread's block, ordered behind its stream");
    give_all(&other);
    mine.count = 1;
    mine.stream = 9;
    take_all(&mine);
    ok(upstream->order_calls == COUNT + 1, "a block keeps its stream in another thread's shard");
    give_all(&mine);
    tide_trim(fixed, BLOCK);
    is_u64(upstream->live_count, 1, "a trim keeps as many blocks of all threads as its argument says");
    tide_trim(fixed, 0);
    ok(all_of(upstream->live_count == 0, upstream->wrong_frees == 0),
       "releasing the layer gives the blocks of all threads back");
    tide_resource_release(fixed);
    tide_resource_release(&upstream->base);
}

#define STREAM_TESTS 2

static void *
take_two(void *context)
{
    struct task *tasks = context;

    take_all(&tasks[0]);
    return take_all(&tasks[1]);
}

/*
 * A block of the same stream in another shard is preferred to one of another stream, here or there. Four times, since
 * threads get the shards in turn, and one of them is this thread's.
 */
static void
check_streams(void)
{
    unsigned right = 0;
    uint64_t orders = 0;

    for (int i = 0; i < 4; i++) {
        struct upstream *upstream = upstream_create();
        struct tide_resource *fixed = over(upstream);
        struct task mine = { .fixed = fixed, .count = 1, .stream = 1 };
        struct task theirs[2] = { { .fixed = fixed, .count = 1, .stream = 3 },
                                  { .fixed = fixed, .count = 1, .stream = 2 } };

        take_all(&mine);
        elsewhere(take_two, theirs);
        give_all(&mine);
        give_all(&theirs[0]); /* to where it was taken */
        give_all(&theirs[1]);
        mine.stream = 2;
        take_all(&mine);
        right += mine.pointers[0] == theirs[1].pointers[0];
        orders += upstream->order_calls;
        tide_resource_release(fixed);
        tide_resource_release(&upstream->base);
    }
    is_u64(right, 4, "another thread's block of the same stream is taken before an own block of another stream");
    is_u64(orders, 0, "a block of the same stream is taken without an order");
}

#define WRONG_TESTS 5

static void
check_wrong_frees(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(upstream);
    struct task other = { .fixed = fixed, .count = 1 };
    void *pointer;

    elsewhere(take_all, &other);
    pointer = other.pointers[0];
    ok(tide_deallocate(fixed, pointer, 99, 256, 0) == TIDE_EMISMATCH,
       "a free of another thread's block with a wrong size is refused");
    ok(tide_deallocate(fixed, pointer, 100, 256, 0) == TIDE_OK,
       "a free of another thread's block with the right size succeeds");
    elsewhere(give_all, &other);
    ok(other.status == TIDE_EPOINTER, "another thread that frees the block again is refused");
    ok(tide_deallocate(fixed, pointer, 100, 256, 0) == TIDE_EPOINTER,
       "a second free is refused on the thread that freed the block first");
    ok(all_of(figure(fixed, TIDE_QUERY_BYTES_USED) == 0, figure(fixed, TIDE_QUERY_BYTES_RESERVED) == BLOCK),
       "refused frees change no figure");
    tide_resource_release(fixed);
    tide_resource_release(&upstream->base);
}

#define THREADS      8
#define STEPS        4000
#define SHARED_TESTS 3

struct sharer {
    pthread_t thread;
    struct tide_resource *fixed;
    tide_stream stream;
    _Atomic(void *) *mailbox; /* blocks left for others to free */
    unsigned refused;
    unsigned wrong;
};

static void *
sharer_run(void *context)
{
    struct sharer *sharer = context;
    void *pointer;

    for (unsigned i = 0; i < STEPS; i++) {
        if (tide_allocate(sharer->fixed, 100, 256, sharer->stream, &pointer) != TIDE_OK) {
            sharer->refused++;
            continue;
        }
        if (i % 4 == 0)
            pointer = atomic_exchange(&sharer->mailbox[i / 4 % THREADS], pointer);
        if (pointer != NULL)
            sharer->wrong += tide_deallocate(sharer->fixed, pointer, 100, 256, sharer->stream) != TIDE_OK;
    }
    return NULL;
}

/*
 * Exactly as many blocks as can be allocated at once: no request is refused, since idle blocks are found or given back.
 */
static void
check_shared(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(upstream);
    static _Atomic(void *) mailbox[THREADS];
    struct sharer sharers[THREADS];
    unsigned refused = 0, wrong = 0;

    upstream->capacity_bytes = 2 * THREADS * BLOCK;
    for (unsigned i = 0; i < THREADS; i++) {
        sharers[i] = (struct sharer){ .fixed = fixed, .stream = i % 3, .mailbox = mailbox };
        pthread_create(&sharers[i].thread, NULL, sharer_run, &sharers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(sharers[i].thread, NULL);
        refused += sharers[i].refused;
        wrong += sharers[i].wrong;
    }
    is_u64(refused, 0, "nothing is refused while there are blocks for all");
    is_u64(wrong, 0, "a block that many threads pass on is freed by the thread that has it");
    for (unsigned i = 0; i < THREADS; i++) {
        if (mailbox[i] != NULL)
            tide_deallocate(fixed, mailbox[i], 100, 256, 0);
    }
    tide_trim(fixed, 0);
    ok(all_of(figure(fixed, TIDE_QUERY_BYTES_USED) == 0, upstream->live_count == 0, upstream->wrong_frees == 0),
       "all blocks go back to upstream");
    tide_resource_release(fixed);
    tide_resource_release(&upstream->base);
}

int
main(void)
{
    plan(TAKE_OVER_TESTS + STREAM_TESTS + WRONG_TESTS + SHARED_TESTS);
    check_take_over();
    check_streams();
    check_wrong_frees();
    check_shared();
    return done();
}
