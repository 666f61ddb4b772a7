/* Tests adaptors/retry.c. */
#include <pthread.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "tap.h"
#include "texts.h"
#include "upstream.h"

#define THREADS 4
#define STEPS   3000

static struct tide_resource *
over(struct tide_resource *upstream, struct tide_retry_options options)
{
    struct tide_resource *retry;

    options.struct_size = sizeof(options);
    if (tide_retry_create(upstream, &options, &retry) != TIDE_OK)
        abort();
    tide_resource_release(upstream);
    return retry;
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

#define TRIM_TESTS 12

static void
check_trim(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *retry = over(&upstream->base, (struct tide_retry_options){ 0 });
    struct tide_retry_figures counts = { TIDE_FIGURES(counts) };
    void *pointer;

    ok(all_of(take(retry, 10, &pointer) == TIDE_OK, give(retry, pointer, 10) == TIDE_OK, upstream->trim_calls == 0),
       "a request that succeeds is not retried");
    upstream->fail_allocate = 1;
    ok(all_of(take(retry, 10, &pointer) == TIDE_OK, upstream->allocate_calls == 3, upstream->trim_calls == 1,
              upstream->last_keep_bytes == 0, upstream->order_calls == 0),
       "a request that fails is retried after a trim of all layers below");
    give(retry, pointer, 10);
    upstream->fail_allocate = 1;
    upstream->fail_allocate_count = 2;
    ok(all_of(take(retry, 10, &pointer) == TIDE_OK, upstream->order_all_calls == 1, upstream->trim_calls == 3),
       "before the second retry all streams are waited for");
    give(retry, pointer, 10);
    upstream->fail_allocate = 1;
    upstream->fail_allocate_count = 2;
    upstream->order_all_status = TIDE_EDRIVER;
    ok(take(retry, 10, &pointer) == TIDE_OK, "the second retry is made although the streams cannot be waited for");
    give(retry, pointer, 10);
    upstream->fail_allocate = 1;
    upstream->fail_allocate_count = 3;
    upstream->fail_status = TIDE_ELIMIT;
    pointer = &pointer;
    ok(all_of(take(retry, 10, &pointer) == TIDE_ELIMIT, pointer == NULL),
       "a request that fails for the third time is refused, with NULL");
    is_string(tide_error_text(), "retry: upstream: told to fail (asked 3 times)",
              "the failure says how often upstream was asked");
    ok(all_of(tide_retry_read(retry, &counts) == TIDE_OK, counts.failed == 4, counts.served == 3),
       "the failed and the served retries are counted");
    upstream->fail_allocate = 1;
    upstream->fail_allocate_count = 1;
    upstream->fail_status = TIDE_EDRIVER;
    ok(all_of(take(retry, 10, &pointer) == TIDE_EDRIVER, upstream->trim_calls == 7),
       "a failure for another reason than memory is not retried");
    tide_resource_release(retry);

    upstream = upstream_create();
    retry = over(&upstream->base, (struct tide_retry_options){ .any = true, .retries = 1 });
    upstream->fail_allocate = 1;
    upstream->fail_status = TIDE_EDRIVER;
    ok(take(retry, 10, &pointer) == TIDE_OK, "with any=true a failure for another reason than memory is retried");
    give(retry, pointer, 10);
    upstream->fail_allocate = 1;
    upstream->fail_allocate_count = 2;
    ok(all_of(take(retry, 10, &pointer) == TIDE_EDRIVER, upstream->allocate_calls == 4),
       "with retries=1 a request is retried once");
    ok(all_of(upstream->live_count == 0, upstream->wrong_frees == 0), "after the retries no block is lost");
    tide_resource_release(retry);

    if (tide_stack_parse("retry | binning(1KiB={fixed(1KiB)}) | limit(4KiB) | host", &retry) != TIDE_OK)
        abort();
    take(retry, 1000, &pointer);
    give(retry, pointer, 1000);
    ok(all_of(take(retry, 4096, &pointer) == TIDE_OK, give(retry, pointer, 4096) == TIDE_OK),
       "idle blocks that a trim gives back make room");
    tide_resource_release(retry);
}

/* An application's cache of one block. */
struct cache {
    struct tide_resource *stack;
    void *block;
    unsigned last_retry;
    size_t last_bytes;
    enum tide_status last_status;
    unsigned most; /* the most retries that it accepts */
};

static bool
cache_empty(void *context, size_t bytes, unsigned retry, enum tide_status status)
{
    struct cache *cache = context;

    cache->last_retry = retry;
    cache->last_bytes = bytes;
    cache->last_status = status;
    if (cache->block != NULL)
        give(cache->stack, cache->block, 3000);
    cache->block = NULL;
    return retry <= cache->most;
}

#define FUNCTION_TESTS 7

static void
check_function(void)
{
    struct upstream *upstream = upstream_create();
    struct cache cache = { .most = 1 };
    struct tide_resource *retry =
        over(&upstream->base, (struct tide_retry_options){ .function = cache_empty, .context = &cache, .retries = 5 });
    void *pointer;

    upstream->capacity_bytes = 4000;
    cache.stack = retry;
    take(retry, 3000, &cache.block);
    ok(all_of(take(retry, 2000, &pointer) == TIDE_OK, cache.block == NULL),
       "the application's function may free memory of the stack");
    ok(all_of(cache.last_retry == 1, cache.last_bytes == 2000, cache.last_status == TIDE_ECAPACITY),
       "the application's function gets the number of the retry, the size and the status");
    ok(upstream->trim_calls == 0, "with the application's function the layers below are not trimmed");
    ok(all_of(take(retry, 3000, &cache.block) == TIDE_ECAPACITY, cache.last_retry == 2),
       "retries end when the application's function says so");
    has_words(tide_error_text(), "(asked 2 times)",
              "the failure after the function's end says how often upstream was asked");
    cache.most = 100;
    ok(all_of(take(retry, 3000, &cache.block) == TIDE_ECAPACITY, cache.last_retry == 5),
       "retries end after their maximum, although the application's function wants more");
    ok(all_of(give(retry, pointer, 2000) == TIDE_OK, upstream->live_count == 0),
       "after the application's retries no block is lost");
    tide_resource_release(retry);
}

static void *
run(void *context)
{
    uint64_t wrong = 0;

    for (int i = 0; i < STEPS; i++) {
        void *pointer;

        if (take(context, 10 + (size_t)i % 100, &pointer) != TIDE_OK)
            wrong++;
        else
            wrong += give(context, pointer, 10 + (size_t)i % 100) != TIDE_OK;
    }
    return (void *)(uintptr_t)wrong;
}

#define THREAD_TESTS 2

/* Every third request fails, so that no thread fails a thousand times in a row. */
static void
check_threads(void)
{
    struct tide_resource *stack;
    struct tide_retry_figures counts = { TIDE_FIGURES(counts) };
    pthread_t threads[THREADS];
    uint64_t wrong = 0;

    if (tide_stack_parse("retry(1000) | fault(every=3) | sim", &stack) != TIDE_OK)
        abort();
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, stack);
    for (size_t i = 0; i < THREADS; i++) {
        void *seen;

        pthread_join(threads[i], &seen);
        wrong += (uintptr_t)seen;
    }
    is_u64(wrong, 0, "every third failure of several threads is retried with success");
    ok(all_of(tide_retry_read(stack, &counts) == TIDE_OK, counts.failed == counts.served, counts.failed > 0),
       "the failures of the threads are all counted as failed and served");
    tide_resource_release(stack);
}

#define BAD_TESTS 3

static void
check_bad_input(void)
{
    struct tide_retry_options options = { TIDE_OPTIONS(options), .retries = 1001 };
    struct upstream *upstream = upstream_create();
    struct tide_resource *retry;
    struct tide_retry_figures counts = { TIDE_FIGURES(counts) };

    ok(all_of(tide_retry_create(&upstream->base, &options, &retry) == TIDE_EINVAL, retry == NULL),
       "more than 1000 retries are refused");
    ok(all_of(tide_retry_create(NULL, NULL, &retry) == TIDE_EINVAL,
              tide_retry_create(&upstream->base, NULL, NULL) == TIDE_EINVAL,
              tide_retry_read(NULL, &counts) == TIDE_EINVAL, tide_retry_read(&upstream->base, &counts) == TIDE_EINVAL),
       "NULL in place of a pointer, and another kind of layer, are refused");
    ok(tide_retry_create(&upstream->base, NULL, &retry) == TIDE_OK, "NULL options are accepted");
    tide_resource_release(retry);
    tide_resource_release(&upstream->base);
}

static const struct stack_text texts[] = {
    { "retry|sim", "retry | sim" },
    { "retry(2)|sim", "retry | sim" },
    { "retry(1000, any)|sim", "retry(1000, any=true) | sim" },
    { "retry(any)|sim", "retry(any=true) | sim" },
    { "retry(0)|sim",
      "stack text, column 7: retry: argument 'retries': '0' is too small, expected a number from 1 to 1000" },
    { "retry(1001)|sim",
      "stack text, column 7: retry: argument 'retries': '1001' is too large, expected a number from 1 to 1000" },
};

#define TEXT_TESTS ((int)(sizeof(texts) / sizeof(texts[0])))

static struct tide_resource *
create(void *context)
{
    (void)context;
    return over(&upstream_create()->base, (struct tide_retry_options){ 0 });
}

int
main(void)
{
    const struct contract contract = {
        .name = "retry", .create = create, .largest_bytes = 1 << 20, .knows_pointers = true
    };

    plan(CONTRACT_TESTS + TRIM_TESTS + FUNCTION_TESTS + THREAD_TESTS + BAD_TESTS + TEXT_TESTS);
    contract_check(&contract);
    check_trim();
    check_function();
    check_threads();
    check_bad_input();
    check_texts(texts, TEXT_TESTS);
    return done();
}
