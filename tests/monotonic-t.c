/* Tests adaptors/monotonic.c. */
#include <pthread.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "tap.h"
#include "upstream.h"

#define CHUNK   ((size_t)64 * 1024)
#define THREADS 4

/* Chunks of CHUNK bytes over `upstream`. Takes over the reference. */
static struct tide_resource *
over(struct tide_resource *upstream)
{
    struct tide_monotonic_options options = { TIDE_OPTIONS(options), .chunk_bytes = CHUNK };
    struct tide_resource *monotonic;

    if (tide_monotonic_create(upstream, &options, &monotonic) != TIDE_OK)
        abort();
    tide_resource_release(upstream);
    return monotonic;
}

static char *
take(struct tide_resource *monotonic, size_t bytes, size_t alignment, tide_stream stream)
{
    void *pointer = NULL;

    return tide_allocate(monotonic, bytes, alignment, stream, &pointer) == TIDE_OK ? pointer : NULL;
}

static uint64_t
figure(struct tide_resource *resource, enum tide_query what)
{
    uint64_t value;

    return tide_query(resource, what, &value) == TIDE_OK ? value : UINT64_MAX;
}

#define BUMP_TESTS 15

static void
check_bump(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *monotonic = over(tide_resource_retain(&upstream->base));
    char *first, *second, *third, *large, *next;

    is_u64(upstream->allocate_calls, 0, "nothing is allocated before the first request");
    first = take(monotonic, 100, 256, 1);
    second = take(monotonic, 1, 1, 1);
    third = take(monotonic, 256, 256, 1);
    ok(all_of(second == first + 100, third == first + 256), "blocks follow each other, aligned");
    is_u64(upstream->last_bytes, CHUNK, "all blocks lie in one chunk");
    is_u64(figure(monotonic, TIDE_QUERY_BYTES_USED), 357, "the bytes used are those that were requested");
    is_u64(figure(monotonic, TIDE_QUERY_BYTES_RESERVED), CHUNK, "one chunk is reserved");
    is_u64(figure(monotonic, TIDE_QUERY_LARGEST_FREE), CHUNK - 512, "the rest of the chunk is the largest free block");
    large = take(monotonic, 3 * CHUNK, 256, 1);
    ok(all_of(large != NULL, upstream->last_bytes == 3 * CHUNK), "a larger request gets a chunk of its own");
    next = take(monotonic, CHUNK - 512, 1, 1);
    ok(all_of(next == first + 512, upstream->allocate_calls == 2),
       "after a larger request the earlier chunk is filled to its last byte");
    next = take(monotonic, 1, 4096, 1);
    ok(all_of(next != NULL, (uintptr_t)next % 4096 == 0, upstream->allocate_calls == 3),
       "a request that does not fit into the rest of a chunk gets the next chunk");
    ok(all_of(tide_deallocate(monotonic, first, 100, 256, 1) == TIDE_OK,
              figure(monotonic, TIDE_QUERY_BYTES_USED) == 257 + 3 * CHUNK + CHUNK - 512 + 1),
       "a free reduces the bytes used");
    ok(take(monotonic, 100, 256, 1) != first, "a freed block is not given out again");
    ok(tide_deallocate(monotonic, &upstream, 8, 8, 1) == TIDE_EPOINTER, "the free of an unknown pointer is refused");
    ok(tide_deallocate(monotonic, third, CHUNK, 256, 1) == TIDE_EPOINTER,
       "the free of a block that would end behind its chunk is refused");
    is_u64(upstream->deallocate_calls, 0, "a free does not reach upstream");
    tide_resource_release(monotonic);
    ok(all_of(upstream->live_count == 0, upstream->wrong_frees == 0), "destroying the layer gives every chunk back");
    tide_resource_release(&upstream->base);
}

#define RESET_TESTS 11

static void
check_reset(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *monotonic = over(tide_resource_retain(&upstream->base));
    char *first = take(monotonic, CHUNK, 256, 1);
    char *second = take(monotonic, CHUNK, 256, 1);

    ok(all_of(tide_monotonic_reset(monotonic, 1) == TIDE_OK, figure(monotonic, TIDE_QUERY_BYTES_USED) == 0),
       "after a reset no bytes are used");
    ok(all_of(take(monotonic, CHUNK, 256, 1) == first, take(monotonic, CHUNK, 256, 1) == second),
       "after a reset the chunks are filled again in their order");
    ok(all_of(upstream->allocate_calls == 2, upstream->order_calls == 0),
       "after a reset upstream is not called for the kept chunks");
    ok(all_of(tide_deallocate(monotonic, first, CHUNK, 256, 1) == TIDE_OK,
              tide_deallocate(monotonic, second, CHUNK, 256, 1) == TIDE_OK,
              tide_deallocate(monotonic, second, CHUNK, 256, 1) == TIDE_EMISMATCH),
       "a free of more bytes than are in use is refused");
    upstream->order_all_status = TIDE_EDRIVER;
    ok(all_of(tide_monotonic_reset(monotonic, TIDE_STREAM_ALL) == TIDE_EDRIVER,
              take(monotonic, CHUNK, 256, 1) != first),
       "a reset fails if all streams cannot be waited for");
    upstream->order_all_status = TIDE_OK;
    ok(all_of(tide_monotonic_reset(monotonic, TIDE_STREAM_ALL) == TIDE_OK, take(monotonic, 1, 1, 0) == first),
       "after a reset behind all streams the chunks are on stream 0");
    tide_trim(monotonic, 2 * CHUNK);
    is_u64(upstream->live_count, 2, "a trim gives back empty chunks down to the bytes to keep");
    tide_trim(monotonic, 0);
    is_u64(upstream->live_count, 1, "a trim to 0 gives back all empty chunks");
    ok(all_of(take(monotonic, CHUNK, 256, 0) != NULL, upstream->live_count == 2),
       "after a trim a request allocates a chunk again");
    ok(all_of(tide_monotonic_reset(&upstream->base, 0) == TIDE_EINVAL, tide_monotonic_reset(NULL, 0) == TIDE_EINVAL),
       "a reset of another kind of layer, or of NULL, is refused");
    tide_resource_release(monotonic);
    is_u64(upstream->live_count, 0, "destroying the layer gives all chunks back");
    tide_resource_release(&upstream->base);
}

#define STREAM_TESTS 6

static void
check_streams(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *monotonic = over(tide_resource_retain(&upstream->base));

    take(monotonic, 8, 8, 1);
    take(monotonic, 8, 8, 2);
    ok(all_of(upstream->order_calls == 1, upstream->last_earlier == 1, upstream->last_later == 2),
       "a request on another stream is ordered behind the chunk's stream");
    take(monotonic, 8, 8, 2);
    take(monotonic, 8, 8, 1);
    is_u64(upstream->order_calls, 1, "the other stream is ordered behind the chunk's once");
    for (tide_stream stream = 3; stream < 30; stream++)
        take(monotonic, 8, 8, stream);
    is_u64(upstream->order_calls, 28, "each of many streams is ordered behind the chunk's once");
    tide_monotonic_reset(monotonic, 5);
    take(monotonic, 8, 8, 5);
    is_u64(upstream->order_calls, 28, "the stream of a reset is not ordered");
    take(monotonic, 8, 8, 2);
    ok(all_of(upstream->order_calls == 29, upstream->last_earlier == 5),
       "other streams are ordered behind the stream of the reset");
    ok(upstream->allocate_calls == 1, "all threads allocate from one chunk");
    tide_resource_release(monotonic);
    tide_resource_release(&upstream->base);
}

#define FAILURE_TESTS 10

static void
check_failures(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *monotonic = over(tide_resource_retain(&upstream->base)), *other = monotonic;
    struct tide_monotonic_options unset = { .chunk_bytes = 1 };
    void *const misaligned[] = { (void *)0x10001 };
    void *pointer = &pointer;

    ok(all_of(tide_monotonic_create(NULL, NULL, &other) == TIDE_EINVAL, other == NULL),
       "NULL in place of upstream is refused");
    ok(tide_monotonic_create(&upstream->base, NULL, NULL) == TIDE_EINVAL, "NULL in place of the result is refused");
    ok(tide_monotonic_create(&upstream->base, &unset, &other) == TIDE_EINVAL,
       "options without a struct_size are refused");
    ok(all_of(tide_allocate(monotonic, SIZE_MAX, 256, 0, &pointer) == TIDE_EOVERFLOW, pointer == NULL),
       "a request that overflows is refused");
    upstream->fail_allocate = 1;
    ok(all_of(tide_allocate(monotonic, 1, 1, 0, &pointer) == TIDE_ECAPACITY, pointer == NULL),
       "a refusal of upstream is passed on");
    upstream->chosen = misaligned;
    upstream->chosen_count = 1;
    ok(all_of(tide_allocate(monotonic, 1, 1, 0, &pointer) == TIDE_EUPSTREAM, pointer == NULL),
       "a misaligned chunk is refused");
    is_u64(upstream->live_count, 0, "the misaligned chunk goes back");
    is_u64(figure(monotonic, TIDE_QUERY_BYTES_RESERVED), 0, "after refused requests nothing is reserved");
    pointer = take(monotonic, 1, 1, 0);
    ok(pointer != NULL, "the request after refused ones succeeds");
    upstream->chosen = &pointer;
    upstream->chosen_count = 1;
    ok(all_of(take(monotonic, (size_t)1 << 30, 1, 0) == NULL, upstream->deallocate_calls == 1),
       "a chunk address that upstream gives twice is refused, and does not go back");
    tide_resource_release(monotonic);
    tide_resource_release(&upstream->base);
}

/* Each thread fills its blocks with its own number, and checks them at the end. */
static void *
fill(void *context)
{
    struct tide_resource *monotonic = context;
    char *blocks[500];
    uint64_t seed = (uint64_t)(uintptr_t)&blocks | 1;
    size_t sizes[500];
    uintptr_t wrong = 0;
    char mark = (char)(seed >> 8);

    for (size_t i = 0; i < 500; i++) {
        sizes[i] = 1 + contract_random(&seed) % 2000;
        blocks[i] = take(monotonic, sizes[i], 16, 0);
        memset(blocks[i], mark + (char)i, sizes[i]);
    }
    for (size_t i = 0; i < 500; i++) {
        for (size_t at = 0; at < sizes[i]; at++)
            wrong += blocks[i][at] != (char)(mark + (char)i);
        wrong += tide_deallocate(monotonic, blocks[i], sizes[i], 16, 0) != TIDE_OK;
    }
    return (void *)wrong;
}

#define THREAD_TESTS 2

static void
check_threads(void)
{
    struct tide_resource *monotonic = over(base_host(0));
    pthread_t threads[THREADS];
    uintptr_t wrong = 0;
    void *result;

    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, fill, monotonic);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        wrong += (uintptr_t)result;
    }
    is_u64(wrong, 0, "no two threads get the same byte");
    is_u64(figure(monotonic, TIDE_QUERY_BYTES_USED), 0, "after the threads nothing is left in use");
    tide_resource_release(monotonic);
}

#define TEXT_TESTS 2

static void
check_text(void)
{
    struct tide_resource *stack;
    char text[64] = "";

    ok(all_of(tide_stack_parse("monotonic(1MiB) | sim", &stack) == TIDE_OK,
              tide_describe(stack, text, 64, NULL) == TIDE_OK),
       "stack text makes a monotonic layer");
    is_string(text, "monotonic(1MiB) | sim", "the layer describes itself as stack text");
    tide_resource_release(stack);
}

static struct tide_resource *
contract_create(void *context)
{
    const struct base_maker *base = context;

    return over(base->create(0));
}

int
main(void)
{
    plan(BASE_COUNT * CONTRACT_TESTS + BUMP_TESTS + RESET_TESTS + STREAM_TESTS + FAILURE_TESTS + THREAD_TESTS +
         TEXT_TESTS);
    for (size_t i = 0; i < BASE_COUNT; i++) {
        const struct contract contract = {
            .name = "monotonic", .create = contract_create, .context = (void *)&bases[i], .largest_bytes = 100000
        };

        contract_check(&contract);
    }
    check_bump();
    check_reset();
    check_streams();
    check_failures();
    check_threads();
    check_text();
    return done();
}
