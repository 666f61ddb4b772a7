/* Tests adaptors/fixed.c, and src/tables/blocks.c through it. */
#include <pthread.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "gate.h"
#include "tap.h"
#include "upstream.h"

#define BLOCK   ((size_t)1024)
#define THREADS 8
#define STEPS   5000

/* Blocks of BLOCK bytes over `upstream`, whose reference it takes over. */
static struct tide_resource *
over(struct tide_resource *upstream, uint64_t preallocate)
{
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = BLOCK, .preallocate = preallocate };
    struct tide_resource *fixed;

    if (tide_fixed_create(upstream, &options, &fixed) != TIDE_OK)
        abort();
    tide_resource_release(upstream);
    return fixed;
}

static void *
take(struct tide_resource *fixed, size_t bytes, tide_stream stream)
{
    void *pointer = NULL;

    if (tide_allocate(fixed, bytes, TIDE_DEFAULT_ALIGNMENT, stream, &pointer) != TIDE_OK)
        return NULL;
    return pointer;
}

static enum tide_status
give(struct tide_resource *fixed, void *pointer, size_t bytes, tide_stream stream)
{
    return tide_deallocate(fixed, pointer, bytes, TIDE_DEFAULT_ALIGNMENT, stream);
}

static uint64_t
figure(struct tide_resource *fixed, enum tide_query what)
{
    uint64_t value;

    return tide_query(fixed, what, &value) == TIDE_OK ? value : UINT64_MAX;
}

#define BLOCKS_TESTS 13

static void
check_blocks(const struct base_maker *base)
{
    struct tide_resource *fixed = over(base->create(2 * BLOCK), 0);
    void *first, *second, *third = &third;

    diag("blocks over %s", base->name);
    is_u64(figure(fixed, TIDE_QUERY_BYTES_RESERVED), 0, "by default nothing is allocated at creation");
    first = take(fixed, 1, 0);
    second = take(fixed, BLOCK, 0);
    ok(all_of(first != NULL, second != NULL, first != second),
       "requests of one byte and of a whole block each take a block");
    is_u64(figure(fixed, TIDE_QUERY_BYTES_USED), BLOCK + 1, "the bytes used are those that were requested");
    is_u64(figure(fixed, TIDE_QUERY_BYTES_RESERVED), 2 * BLOCK, "the bytes reserved are those of the blocks");
    ok(all_of(tide_allocate(fixed, 1, 256, 0, &third) == TIDE_ECAPACITY, third == NULL),
       "a refusal of the base is passed on");
    ok(all_of(tide_allocate(fixed, BLOCK + 1, 256, 0, &third) == TIDE_EINVAL, third == NULL),
       "a request over the block size is refused");
    is_string(tide_error_text(), "fixed: 1025 B request exceeds 1024 B block",
              "the refusal of more than a block names both sizes");
    ok(tide_allocate(fixed, 1, 512, 0, &third) == TIDE_EINVAL, "an alignment of 512 is refused");
    ok(all_of(take(fixed, 0, 0) == NULL, give(fixed, NULL, 0, 0) == TIDE_OK), "0 bytes take no block");
    give(fixed, first, 1, 0);
    is_u64(figure(fixed, TIDE_QUERY_BYTES_RESERVED), 2 * BLOCK, "a block that is freed is kept");
    ok(take(fixed, 3, 0) == first, "a freed block is given out again");
    give(fixed, second, BLOCK, 0);
    give(fixed, first, 3, 0);
    is_u64(figure(fixed, TIDE_QUERY_BYTES_USED), 0, "after all frees nothing is left in use");
    is_u64(figure(fixed->upstream, TIDE_QUERY_BYTES_USED), 2 * BLOCK, "for the layer below the kept blocks are in use");
    tide_resource_release(fixed);
}

#define STREAM_TESTS 13

static void
check_streams(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(&upstream->base, 0);
    void *a = take(fixed, 10, 1), *b = take(fixed, 10, 2), *c = take(fixed, 10, 3);

    ok(all_of(upstream->last_bytes == BLOCK, upstream->last_alignment == 256, upstream->last_stream == 3),
       "upstream is asked for a block at a multiple of 256, on the stream of the request");
    give(fixed, a, 10, 1);
    give(fixed, b, 10, 2);
    give(fixed, c, 10, 2);
    ok(take(fixed, 10, 2) == c, "a stream gets the block that was freed last on it");
    ok(take(fixed, 10, 1) == a, "each stream gets its own freed block");
    is_u64(upstream->order_calls, 0, "a stream that gets its own freed block orders nothing");
    ok(take(fixed, 10, 7) == b, "a stream without freed blocks gets another stream's");
    ok(all_of(upstream->order_calls == 1, upstream->last_earlier == 2, upstream->last_later == 7),
       "a stream that gets another stream's block is ordered behind it");
    is_u64(upstream->allocate_calls, 3, "requests that idle blocks can serve do not reach upstream");
    take(fixed, 10, 7);
    is_u64(upstream->allocate_calls, 4, "a request without an idle block reaches upstream");
    give(fixed, b, 10, 5);
    ok(all_of(take(fixed, 10, 5) == b, upstream->order_calls == 1),
       "a block lies where it was freed, not where it was taken");
    is_u64(upstream->deallocate_calls, 0, "nothing has gone back to upstream");
    ok(all_of(tide_order(fixed, 3, 4) == TIDE_OK, upstream->last_earlier == 3, upstream->last_later == 4),
       "an order of two streams is passed to upstream");
    tide_resource_retain(&upstream->base);
    tide_resource_release(fixed);
    ok(all_of(upstream->live_count == 0, upstream->wrong_frees == 0),
       "releasing the layer gives all blocks back, those in use included");
    ok(all_of(upstream->last_stream == 0, upstream->order_all_calls == 1, upstream->last_earlier == TIDE_STREAM_ALL,
              upstream->last_later == 0),
       "blocks go back on stream 0, after one order behind all streams");
    tide_resource_release(&upstream->base);
}

#define MANY_STREAMS       1000
#define MANY_STREAMS_TESTS 4

static void
check_many_streams(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(&upstream->base, 0);
    static void *pointers[MANY_STREAMS];
    uint64_t same = 0;

    for (size_t i = 0; i < MANY_STREAMS; i++)
        pointers[i] = take(fixed, 1, i);
    for (size_t i = 0; i < MANY_STREAMS; i++)
        give(fixed, pointers[i], 1, (tide_stream)0x7f0000000000 + i * 4096);
    is_u64(figure(fixed, TIDE_QUERY_BYTES_RESERVED), MANY_STREAMS * BLOCK, "a thousand freed blocks are kept");
    for (size_t i = MANY_STREAMS; i-- > 0;)
        same += take(fixed, 1, (tide_stream)0x7f0000000000 + i * 4096) == pointers[i];
    is_u64(same, MANY_STREAMS, "each of a thousand streams finds its own again");
    is_u64(upstream->order_calls, 0, "a stream that finds its own block waits for none");
    is_u64(upstream->allocate_calls, MANY_STREAMS, "requests on a thousand streams take no new block");
    tide_resource_release(fixed);
}

#define MODEL_BLOCKS  64
#define MODEL_STREAMS 5
#define MODEL_TESTS   4

struct model_block {
    void *pointer;
    bool out;
    size_t bytes;
    tide_stream stream; /* of an idle block: freed on it */
};

struct model {
    struct upstream *upstream;
    struct tide_resource *fixed;
    struct model_block blocks[MODEL_BLOCKS];
    size_t count;
    uint64_t seed;
    uint64_t wrong_blocks, wrong_orders, wrong_calls;
};

static size_t
model_find(const struct model *model, const void *pointer)
{
    size_t i = 0;

    while (i < model->count && model->blocks[i].pointer != pointer)
        i++;
    return i;
}

/* The layer may choose any block that the model allows. */
static void
model_take(struct model *model)
{
    tide_stream stream = 1 + contract_random(&model->seed) % MODEL_STREAMS;
    size_t bytes = 1 + contract_random(&model->seed) % BLOCK;
    uint64_t orders = model->upstream->order_calls, calls = model->upstream->allocate_calls;
    size_t own = 0, idle = 0, found;
    void *pointer;

    for (size_t i = 0; i < model->count; i++) {
        idle += !model->blocks[i].out;
        own += !model->blocks[i].out && model->blocks[i].stream == stream;
    }
    if (idle == 0 && model->count == MODEL_BLOCKS)
        return;
    pointer = take(model->fixed, bytes, stream);
    found = model_find(model, pointer);
    model->wrong_calls += model->upstream->allocate_calls != calls + (idle == 0);
    model->wrong_orders += model->upstream->order_calls != orders + (idle > 0 && own == 0);
    if (idle == 0) {
        model->wrong_blocks += pointer == NULL || found != model->count;
        model->count++;
    } else if (found == model->count || model->blocks[found].out) {
        model->wrong_blocks++;
        return;
    } else if (own > 0) {
        model->wrong_blocks += model->blocks[found].stream != stream;
    } else {
        model->wrong_orders += model->upstream->last_earlier != model->blocks[found].stream;
        model->wrong_orders += model->upstream->last_later != stream;
    }
    model->blocks[found] = (struct model_block){ .pointer = pointer, .out = true, .bytes = bytes };
}

static void
model_give(struct model *model)
{
    struct model_block *block = &model->blocks[contract_random(&model->seed) % model->count];

    if (!block->out)
        return;
    block->stream = 1 + contract_random(&model->seed) % MODEL_STREAMS;
    block->out = false;
    model->wrong_blocks += give(model->fixed, block->pointer, block->bytes, block->stream) != TIDE_OK;
}

static void
check_model(void)
{
    static struct model model;
    uint64_t used = 0;

    model.upstream = upstream_create();
    model.fixed = over(&model.upstream->base, 0);
    model.seed = contract_seed(4711);
    for (int i = 0; i < 40000; i++) {
        /* Phases of growing and of shrinking, so that at times all blocks are in use, and at times all are idle. */
        if (model.count == 0 || contract_random(&model.seed) % 4 < (i / 500 % 2 == 0 ? 3 : 1))
            model_take(&model);
        else
            model_give(&model);
    }
    for (size_t i = 0; i < model.count; i++)
        used += model.blocks[i].out ? model.blocks[i].bytes : 0;
    is_u64(model.wrong_blocks, 0, "in random traffic each request gets an idle block, one of its own stream first");
    is_u64(model.wrong_orders, 0, "in random traffic streams are ordered only for a block that changes its stream");
    is_u64(model.wrong_calls, 0, "in random traffic upstream is called only if no block is idle");
    is_u64(figure(model.fixed, TIDE_QUERY_BYTES_USED), used, "the bytes in use are exact");
    tide_resource_release(model.fixed);
}

#define PREALLOCATE_TESTS 9

static void
check_preallocate(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(tide_resource_retain(&upstream->base), 8);
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = BLOCK, .preallocate = 8 };

    is_u64(upstream->live_count, 8, "eight blocks are taken at creation");
    ok(all_of(figure(fixed, TIDE_QUERY_BYTES_RESERVED) == 8 * BLOCK, figure(fixed, TIDE_QUERY_BYTES_USED) == 0),
       "preallocated blocks are reserved, not in use");
    ok(all_of(take(fixed, 1, 0) != NULL, upstream->order_calls == 0), "preallocated blocks lie on stream 0");
    ok(all_of(take(fixed, 1, 9) != NULL, upstream->order_calls == 1, upstream->last_earlier == 0),
       "another stream is ordered behind stream 0 to take a preallocated block");
    is_u64(upstream->allocate_calls, 8, "preallocated blocks serve requests without upstream");
    tide_resource_release(fixed);

    upstream->fail_allocate = 5;
    ok(all_of(tide_fixed_create(&upstream->base, &options, &fixed) == TIDE_ECAPACITY, fixed == NULL),
       "creation fails if upstream cannot serve the preallocated blocks");
    is_u64(upstream->live_count, 0, "a failed creation gives back the blocks already allocated");
    options.preallocate = UINT64_MAX;
    ok(all_of(tide_fixed_create(&upstream->base, &options, &fixed) == TIDE_EOVERFLOW, fixed == NULL),
       "blocks whose sizes overflow are refused");
    options.block_bytes = 1;
    ok(all_of(tide_fixed_create(&upstream->base, &options, &fixed) == TIDE_ENOMEM, fixed == NULL),
       "more preallocated blocks than the host has memory for are refused");
    tide_resource_release(&upstream->base);
}

#define WRONG_TESTS 12

static void
check_wrong_frees(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(&upstream->base, 0);
    char *pointer;

    ok(give(fixed, &upstream, 1, 0) == TIDE_EPOINTER, "a free before the first allocation is refused");
    pointer = take(fixed, 100, 0);
    ok(give(fixed, &upstream, 100, 0) == TIDE_EPOINTER, "a pointer from elsewhere is refused");
    has_words(tide_error_text(), "none of its blocks",
              "the refusal of a pointer from elsewhere says that it is no block");
    ok(give(fixed, pointer + 256, 100, 0) == TIDE_EPOINTER, "a pointer into a block is refused");
    ok(give(fixed, NULL, 100, 0) == TIDE_EPOINTER, "NULL with a size is refused");
    ok(all_of(give(fixed, pointer, 101, 0) == TIDE_EMISMATCH, give(fixed, pointer, 0, 0) == TIDE_EMISMATCH),
       "a wrong size is refused");
    ok(tide_deallocate(fixed, pointer, 100, 128, 0) == TIDE_EMISMATCH, "a wrong alignment is refused");
    has_words(tide_error_text(), "100 B at a multiple of 128, allocated with 100 B at 256",
              "the refusal names the size and alignment of the free and of the allocation");
    is_u64(figure(fixed, TIDE_QUERY_BYTES_USED), 100, "refused frees leave the bytes used unchanged");
    ok(all_of(give(fixed, pointer, 100, 0) == TIDE_OK, give(fixed, pointer, 100, 0) == TIDE_EPOINTER),
       "a second free is refused");
    has_words(tide_error_text(), "given back before",
              "the refusal of a second free says that it was given back before");
    is_u64(upstream->deallocate_calls, 0, "refused frees do not reach upstream");
    tide_resource_release(fixed);
}

static void *visited;

static void
visit_take(void *context)
{
    visited = take(context, 1, 3);
}

static struct {
    struct tide_resource *fixed;
    struct gate *gate;
    void *out;   /* allocated on stream 1 */
    void *taken; /* allocated by the other thread */
} scene;

/* The room that was made is taken, and another block is idle. */
static void
visit_take_and_give(void *context)
{
    (void)context;
    scene.taken = take(scene.fixed, 1, 3);
    give(scene.fixed, scene.out, 1, 1);
}

static void
visit_arm(void *context)
{
    (void)context;
    scene.gate->before_allocate = visit_take_and_give;
}

#define UPSTREAM_TESTS 5

static void
check_bad_upstream(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(tide_resource_retain(&upstream->base), 0);
    void *block = take(fixed, 10, 1), *pointer = &pointer;
    void *const chosen[] = { block, (void *)0x10010, NULL };

    upstream->chosen = chosen;
    upstream->chosen_count = 3;
    ok(all_of(tide_allocate(fixed, 1, 1, 0, &pointer) == TIDE_EUPSTREAM, pointer == NULL,
              upstream->deallocate_calls == 0),
       "an address that upstream gives twice is refused, and does not go back");
    ok(all_of(tide_allocate(fixed, 1, 1, 0, &pointer) == TIDE_EUPSTREAM, upstream->deallocate_calls == 1),
       "a misaligned address from upstream is refused, and goes back");
    ok(all_of(tide_allocate(fixed, 1, 1, 0, &pointer) == TIDE_EUPSTREAM, upstream->deallocate_calls == 1),
       "NULL from upstream is refused");
    ok(all_of(take(fixed, 1, 0) != NULL, give(fixed, block, 10, 1) == TIDE_OK),
       "after refused addresses the other blocks are allocated and freed");
    is_u64(figure(fixed, TIDE_QUERY_BYTES_RESERVED), 2 * BLOCK, "refused addresses are not reserved");
    tide_resource_release(fixed);
    tide_resource_release(&upstream->base);
}

#define LATE_TESTS 3

/*
 * After a block went back to upstream and before upstream is asked again, another thread takes the room and frees a
 * block.
 */
static void
check_late(void)
{
    struct upstream *upstream = upstream_create();
    void *idle;

    scene.gate = gate_create(&upstream->base);
    scene.fixed = over(&scene.gate->base, 0);
    scene.gate->order_status = TIDE_EDRIVER;
    upstream->capacity_bytes = 2 * BLOCK;
    idle = take(scene.fixed, 1, 1);
    scene.out = take(scene.fixed, 1, 1);
    give(scene.fixed, idle, 1, 1);
    scene.gate->before_deallocate = visit_arm;
    ok(take(scene.fixed, 1, 2) != NULL,
       "a request whose reserved place was taken gets the block that is freed meanwhile");
    ok(all_of(scene.taken != NULL, upstream->live_count == 2), "the other thread gets a block of its own");
    is_u64(upstream->deallocate_calls, 2, "the two blocks of a trim have gone back to upstream");
    tide_resource_release(scene.fixed);
}

#define PRESSURE_TESTS 12

/* A block whose stream cannot be ordered cannot be reused on another stream, but it can go back to upstream. */
static void
check_pressure(void)
{
    struct upstream *upstream = upstream_create();
    struct gate *gate = gate_create(&upstream->base);
    struct tide_resource *fixed = over(&gate->base, 2);
    void *a = take(fixed, 1, 0), *b = take(fixed, 1, 0), *pointer;

    gate->context = fixed;
    upstream->capacity_bytes = 2 * BLOCK;
    give(fixed, a, 1, 1);
    give(fixed, b, 1, 1);
    gate->order_status = TIDE_EDRIVER;
    ok((pointer = take(fixed, 1, 2)) != NULL, "if streams cannot be ordered and upstream is full, a request succeeds");
    ok(all_of(upstream->deallocate_calls == 2, upstream->last_stream == 2, upstream->order_all_calls == 1),
       "for that request all idle blocks go back to upstream, and one is allocated again");
    is_u64(figure(fixed, TIDE_QUERY_BYTES_RESERVED), BLOCK, "the block allocated again is the only one reserved");
    give(fixed, pointer, 1, 1);
    gate->deallocate_status = TIDE_EDRIVER;
    upstream->capacity_bytes = BLOCK;
    ok(take(fixed, 1, 2) == NULL, "a request fails if upstream is full and takes no block back");
    has_words(tide_error_text(), "upstream", "the error of that request is upstream's");
    ok(all_of(figure(fixed, TIDE_QUERY_BYTES_RESERVED) == BLOCK, figure(fixed, TIDE_QUERY_BYTES_USED) == 0),
       "a block that upstream did not take back is kept");
    ok(take(fixed, 1, 0) == pointer,
       "a block that upstream did not take back serves stream 0, on which it was to go back");
    ok(all_of(take(fixed, 1, 1) == NULL, take(fixed, 1, 2) == NULL), "without idle blocks the failure is upstream's");
    give(fixed, pointer, 1, 1);

    /* While the block is on its way to upstream, another thread allocates on a third stream. */
    upstream->capacity_bytes = 2 * BLOCK;
    gate->before_deallocate = visit_take;
    upstream->fail_allocate = 1;
    ok(take(fixed, 1, 2) != NULL, "a request succeeds while a block is on its way to upstream");
    ok(all_of(visited != NULL, visited != pointer),
       "another thread gets a new block while one is on its way to upstream");
    is_u64(figure(fixed, TIDE_QUERY_BYTES_RESERVED), 2 * BLOCK, "a block on its way to upstream is counted once");
    is_u64(upstream->wrong_frees, 0, "upstream gets back the blocks that it gave");
    tide_resource_release(fixed);
}

struct worker {
    pthread_t thread;
    struct tide_resource *fixed;
    bool writes; /* writes into the blocks, which are host memory */
    uint64_t seed;
    uint64_t failures, overwritten;
    unsigned char *pointers[4];
    unsigned char marks[4];
};

static void
worker_give(struct worker *worker, unsigned slot)
{
    unsigned char *pointer = worker->pointers[slot];

    for (size_t i = 0; worker->writes && i < BLOCK; i += 128)
        worker->overwritten += pointer[i] != worker->marks[slot];
    worker->failures += give(worker->fixed, pointer, BLOCK, contract_random(&worker->seed) % 3) != TIDE_OK;
    worker->pointers[slot] = NULL;
}

/* Holds up to four blocks, each filled with its own mark. */
static void *
worker_run(void *context)
{
    struct worker *worker = context;

    for (int i = 0; i < STEPS; i++) {
        unsigned slot = contract_random(&worker->seed) % 4;

        if (worker->pointers[slot] != NULL) {
            worker_give(worker, slot);
            continue;
        }
        worker->marks[slot] = (unsigned char)contract_random(&worker->seed);
        worker->pointers[slot] = take(worker->fixed, BLOCK, contract_random(&worker->seed) % 3);
        worker->failures += worker->pointers[slot] == NULL;
        for (size_t j = 0; worker->writes && worker->pointers[slot] != NULL && j < BLOCK; j += 128)
            worker->pointers[slot][j] = worker->marks[slot];
    }
    for (unsigned slot = 0; slot < 4; slot++) {
        if (worker->pointers[slot] != NULL)
            worker_give(worker, slot);
    }
    return NULL;
}

static void
run_workers(struct tide_resource *fixed, bool writes, uint64_t *failures, uint64_t *overwritten)
{
    struct worker workers[THREADS];

    *failures = *overwritten = 0;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .fixed = fixed, .writes = writes, .seed = 31 + (uint64_t)i };
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        *failures += workers[i].failures;
        *overwritten += workers[i].overwritten;
    }
}

#define THREADS_TESTS 3

/* Room for exactly what the threads hold, so that no request may fail. */
static void
check_threads(const struct base_maker *base)
{
    struct tide_resource *fixed = over(base->create(4 * THREADS * BLOCK), 0);
    uint64_t failures, overwritten;

    diag("threads over %s", base->name);
    run_workers(fixed, figure(fixed, TIDE_QUERY_HOST_ACCESS) == 1, &failures, &overwritten);
    is_u64(failures, 0, "with room for just what eight threads hold, every call succeeds");
    is_u64(overwritten, 0, "no two threads have the same block");
    is_u64(figure(fixed, TIDE_QUERY_BYTES_USED), 0, "after eight threads nothing is left in use");
    tide_resource_release(fixed);
}

#define PRESSED_THREADS_TESTS 3

/* Like check_threads, but no stream can be ordered, so that blocks go to upstream and back all the time. */
static void
check_pressed_threads(void)
{
    struct upstream *upstream = upstream_create();
    struct gate *gate = gate_create(&upstream->base);
    struct tide_resource *fixed = over(&gate->base, 0);
    uint64_t failures, overwritten;

    gate->order_status = TIDE_EDRIVER;
    upstream->capacity_bytes = 4 * THREADS * BLOCK;
    run_workers(fixed, false, &failures, &overwritten);
    is_u64(failures, 0,
           "with streams that cannot be ordered, and room for just what eight threads hold, every call succeeds");
    is_u64(upstream->wrong_frees, 0, "after eight threads upstream gets back the blocks that it gave");
    is_u64(figure(fixed, TIDE_QUERY_BYTES_RESERVED), upstream->live_bytes,
           "the bytes reserved are those that upstream has allocated");
    tide_resource_release(fixed);
}

#define USE_TESTS 8

static void
check_use(void)
{
    struct tide_resource *base = base_sim(0), *fixed = (struct tide_resource *)&base;
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = 256 * 1024, .preallocate = 8 };
    struct tide_fixed_options none = { TIDE_OPTIONS(none) };
    struct tide_fixed_options unset = { .block_bytes = 256 };
    char text[64] = "";
    struct tide_text description = { text, sizeof(text), 0 };

    ok(all_of(tide_fixed_create(NULL, &options, &fixed) == TIDE_EINVAL, fixed == NULL),
       "NULL in place of upstream is refused");
    ok(tide_fixed_create(base, &options, NULL) == TIDE_EINVAL, "NULL in place of the result is refused");
    ok(tide_fixed_create(base, &none, &fixed) == TIDE_EINVAL, "a block size of 0 is refused");
    ok(tide_fixed_create(base, NULL, &fixed) == TIDE_EINVAL, "NULL options are refused");
    ok(tide_fixed_create(base, &unset, &fixed) == TIDE_EINVAL, "options without a block size are refused");
    ok(tide_fixed_create(base, &options, &fixed) == TIDE_OK, "a layer is created from options with a block size");
    fixed->ops->describe(fixed, &description);
    is_string(text, "256KiB, preallocate=8", "the layer describes itself as stack text");
    is_u64(figure(fixed, TIDE_QUERY_ALIGNMENT), 256, "a figure that the layer does not know is asked of upstream");
    tide_resource_release(fixed);
    tide_resource_release(base);
}

#define TRIM_TESTS 5

static void
check_trim(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(tide_resource_retain(&upstream->base), 0);
    void *pointers[4];

    for (int i = 0; i < 4; i++)
        tide_allocate(fixed, BLOCK, 256, 0, &pointers[i]);
    for (int i = 1; i < 4; i++)
        tide_deallocate(fixed, pointers[i], BLOCK, 256, 0);
    ok(tide_trim(fixed, 2 * BLOCK + 1) == TIDE_OK, "a trim gives idle blocks back");
    is_u64(upstream->live_count, 3, "a trim keeps whole blocks for the bytes it is to keep");
    ok(all_of(tide_trim(fixed, 0) == TIDE_OK, upstream->live_count == 1),
       "a trim to 0 bytes gives all idle blocks back");
    is_u64(upstream->trim_calls, 2, "each trim is passed to upstream");
    upstream->order_all_status = TIDE_EDRIVER;
    tide_deallocate(fixed, pointers[0], BLOCK, 256, 0);
    ok(all_of(tide_trim(fixed, 0) == TIDE_OK, upstream->live_count == 1),
       "a trim keeps idle blocks that cannot be ordered");
    upstream->order_all_status = TIDE_OK;
    tide_resource_release(fixed);
    tide_resource_release(&upstream->base);
}

static struct tide_resource *
contract_create(void *context)
{
    const struct base_maker *base = context;

    return over(base->create(0), 0);
}

int
main(void)
{
    plan(BASE_COUNT * (CONTRACT_TESTS + BLOCKS_TESTS + THREADS_TESTS) + STREAM_TESTS + MANY_STREAMS_TESTS +
         MODEL_TESTS + PREALLOCATE_TESTS + WRONG_TESTS + UPSTREAM_TESTS + PRESSURE_TESTS + LATE_TESTS +
         PRESSED_THREADS_TESTS + TRIM_TESTS + USE_TESTS);
    for (size_t i = 0; i < BASE_COUNT; i++) {
        const struct contract contract = { .name = "fixed",
                                           .create = contract_create,
                                           .context = (void *)&bases[i],
                                           .largest_bytes = BLOCK,
                                           .knows_pointers = true };

        contract_check(&contract);
        check_blocks(&bases[i]);
        check_threads(&bases[i]);
    }
    check_streams();
    check_many_streams();
    check_model();
    check_preallocate();
    check_wrong_frees();
    check_bad_upstream();
    check_pressure();
    check_late();
    check_pressed_threads();
    check_trim();
    check_use();
    return done();
}
