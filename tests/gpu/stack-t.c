/* Stacks over the base `driver` on a real GPU: from text, through the contract of every adaptor, across streams. */
#include "tests/gpu/gpu.h"

#include <tidemark/tidemark.h>

#include "tests/contract.h"
#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#define MIB ((size_t)1 << 20)

static struct tide_resource *
stack_new(const char *text)
{
    struct tide_resource *stack = NULL;

    if (tide_stack_parse(text, &stack) != TIDE_OK)
        diag("%s", tide_error_text());
    return stack;
}

static void
test_text(void)
{
    const char *text = "statistics | limit(256MiB) | driver(release_threshold=64MiB, maximum=1GiB)";
    struct tide_resource *stack = stack_new(text);
    char described[256] = "";
    uint64_t capacity = 0;

    tide_describe(stack, described, sizeof(described), NULL);
    is_string(described, text, "a stack over a driver is described as it was written");
    ok(tide_query(stack, TIDE_QUERY_CAPACITY, &capacity) == TIDE_OK, "it knows its capacity");
    tide_resource_release(stack);
    ok(tide_stack_parse("statistics | driver(device=1000)", &stack) == TIDE_EINVAL && stack == NULL,
       "a device that is not there is refused");
    has_words(tide_error_text(), "device 1000", "the text names it");
    diag("%s", tide_error_text());
    ok(tide_stack_parse("driver(default=true, maximum=1GiB)", &stack) == TIDE_EINVAL && stack == NULL,
       "a maximum for the default pool is refused");
}

static void
test_figures(void)
{
    struct tide_resource *stack = stack_new("statistics | limit(64MiB) | driver");
    struct tide_statistics figures;
    void *first = NULL;
    void *second = &gpu;

    ok(tide_allocate(stack, 48 * MIB, 256, 0, &first) == TIDE_OK, "48 MiB of a limit of 64 are allocated");
    ok(tide_allocate(stack, 32 * MIB, 256, 0, &second) == TIDE_ELIMIT && second == NULL, "32 more are refused");
    ok(tide_allocate(stack, SIZE_MAX, 256, 0, &second) != TIDE_OK && second == NULL, "SIZE_MAX is refused");
    ok(tide_deallocate(stack, first, 48 * MIB, 256, 0) == TIDE_OK, "they are freed");
    ok(tide_statistics_read(stack, &figures) == TIDE_OK && figures.bytes.current == 0 &&
           figures.bytes.peak == (int64_t)(48 * MIB) && figures.count.total == 1,
       "what was refused is not counted");
    tide_resource_release(stack);
    stack = stack_new("statistics | driver(maximum=64MiB)");
    ok(tide_allocate(stack, 100 * MIB, 256, 0, &second) == TIDE_ECAPACITY && second == NULL,
       "what the driver refuses is told through the stack");
    ok(tide_statistics_read(stack, &figures) == TIDE_OK && figures.bytes.current == 0 && figures.count.total == 0,
       "and not counted");
    tide_resource_release(stack);
}

static struct tide_resource *
contract_create(void *context)
{
    return stack_new(context);
}

static void
check_contract(const char *name, const char *text)
{
    struct contract contract = {
        .name = name, .create = contract_create, .context = (void *)(uintptr_t)text, .largest_bytes = MIB
    };

    contract_check(&contract);
}

#define CONTRACTS 2

int
main(void)
{
    const char *reason = gpu_open();

    if (reason != NULL)
        skip_all(reason);
    plan(12 + CONTRACTS * CONTRACT_TESTS);
    gpu_diag();
    test_text();
    test_figures();
    check_contract("statistics", "statistics | driver");
    check_contract("limit", "limit(8GiB) | driver(release_threshold=1GiB)");
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
