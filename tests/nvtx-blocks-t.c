/*
 * Tests src/nvtx/blocks.c: what pools tell a tool that listens to NVTX's memory extension, here that of nvtx-tool.c.
 * Whether a tool listens is settled once in a process, so what holds without one is tested in child processes.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "tests/nvtx-tool.h"
#include "pool.h"
#include "tap.h"
#include "upstream.h"

static struct nvtx_tool *tool;

static struct tide_resource *
stack_of_text(const char *text)
{
    struct tide_resource *stack;

    if (tide_stack_parse(text, &stack) != TIDE_OK) {
        diag("%s: %s", text, tide_error_text());
        exit(99);
    }
    return stack;
}

static void
tool_load(enum nvtx_tool_answer answer)
{
    void *library = dlopen(NVTX_TOOL, RTLD_NOW);
    struct nvtx_tool *(*get)(void);

    setenv("NVTX_INJECTION64_PATH", NVTX_TOOL, 1);
    if (library == NULL) {
        diag("%s", dlerror());
        exit(99);
    }
    *(void **)&get = dlsym(library, "nvtx_tool");
    tool = get();
    tool->answer = answer;
}

/* Whether the tool could follow all that it was told so far. */
static bool
followed(void)
{
    if (tool->faults != 0)
        diag("the tool: %s (%llu faults)", tool->fault, (unsigned long long)tool->faults);
    return tool->faults == 0;
}

/* The region at `pointer`; NULL where there is none. */
static const struct nvtx_tool_range *
region_at(const void *pointer)
{
    for (size_t i = 0; i < tool->region_count; i++) {
        if (tool->regions[i].base == (uintptr_t)pointer)
            return &tool->regions[i];
    }
    return NULL;
}

/* Without a tool that listens. */

/* Whether a pool works, and neither waits for the device nor tells anything. */
static bool
works_silently(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), NULL);
    bool works = true;

    for (int i = 0; i < 20; i++) {
        void *block = take(pool, 1000);

        works = works && block != NULL && give(pool, block, 1000) == TIDE_OK;
    }
    works = works && upstream->order_calls == 0;
    tide_resource_release(pool);
    works = works && upstream->live_count == 0;
    tide_resource_release(&upstream->base);
    return works && (tool == NULL || tool->regions_told == 0);
}

static bool
in_child(bool (*test)(void))
{
    pid_t child;
    int status;

    fflush(stdout);
    child = fork();
    if (child == 0)
        _exit(test() ? 0 : 1);
    return waitpid(child, &status, 0) == child && status == 0;
}

static bool
no_tool(void)
{
    unsetenv("NVTX_INJECTION64_PATH");
    return works_silently();
}

static bool
no_such_tool(void)
{
    setenv("NVTX_INJECTION64_PATH", "/nonexistent/tool.so", 1);
    return works_silently();
}

static bool
tool_says_null(void)
{
    tool_load(NVTX_TOOL_SAYS_NULL);
    return works_silently();
}

static bool
tool_says_no_tool(void)
{
    tool_load(NVTX_TOOL_SAYS_NO_TOOL);
    return works_silently();
}

#define SILENT_TESTS 4

static void
check_silent(void)
{
    ok(in_child(no_tool), "without a tool a pool works as ever");
    ok(in_child(no_such_tool), "where NVTX_INJECTION64_PATH names no file a pool works as ever");
    ok(in_child(tool_says_null), "a tool whose heaps are NULL is none");
    ok(in_child(tool_says_no_tool), "a tool whose heaps are -1 is none");
}

/* With one. */

#define POOL_TESTS 13

static void
check_pool(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), NULL);
    const struct nvtx_tool_range *region;
    char error[TIDE_ERROR_TEXT_BYTES];
    uint64_t waits;
    void *block;

    is_u64(tool->heap_count, 0, "a pool that has no chunk tells no heap");
    tide_tag_push("train");
    tide_tag_push("forward");
    block = take(pool, 1000);
    tide_tag_pop();
    tide_tag_pop();
    region = region_at(block);
    ok(all_of(tool->heap_count == 1, tool->heaps[0].bytes == upstream->live_bytes,
              strcmp(tool->heaps[0].name, "pool") == 0),
       "a chunk is a heap of its size, named by the layer");
    ok(all_of(region != NULL, region != NULL && region->bytes == 1000), "a block is a region of the bytes requested");
    is_string(region != NULL ? region->name : "", "train/forward", "a region has the path of its tags");
    ok(all_of(give(pool, block, 999) == TIDE_EMISMATCH, tide_deallocate(pool, block, 1000, 512, 0) == TIDE_EMISMATCH,
              region_at(block) != NULL),
       "a free that is refused ends no region");
    waits = upstream->order_all_calls;
    ok(all_of(give(pool, block, 1000) == TIDE_OK, tool->region_count == 0, figures_of(pool).cached_bytes > 0),
       "a block that sits in a thread's cache is no region");
    is_u64(upstream->order_all_calls - waits, 1, "a region ends after the device has done what was submitted");
    ok(all_of(give(pool, block, 1000) == TIDE_EPOINTER, followed()), "a double free tells nothing");
    block = take(pool, 1000);
    upstream->order_all_status = TIDE_EUNSUPPORTED;
    snprintf(error, sizeof(error), "%s", tide_error_text());
    ok(all_of(give(pool, block, 1000) == TIDE_OK, tool->region_count == 0, strcmp(tide_error_text(), error) == 0),
       "where the device cannot be waited for a free succeeds, and keeps the error of before");
    upstream->order_all_status = TIDE_OK;
    upstream->fail_deallocate = 1;
    tide_trim(pool, 0);
    is_u64(tool->heap_count, 1, "a chunk that upstream does not take back stays a heap");
    tide_trim(pool, 0);
    is_u64(tool->heap_count, 0, "a chunk that goes back is no heap any more");
    tool->answer = NVTX_TOOL_SAYS_NULL;
    give(pool, take(pool, 1000), 1000);
    tide_trim(pool, 0);
    tool->answer = NVTX_TOOL_LISTENS;
    take(pool, 5000);
    ok(all_of(tool->heap_count == 1, tool->region_count == 1), "a tool that has refused one heap is told the next");
    tide_resource_release(pool);
    ok(all_of(tool->heap_count == 0, tool->region_count == 0, followed()),
       "a pool that is destroyed with blocks out ends their regions, then the heaps");
    tide_resource_release(&upstream->base);
}

/* A base that looks, when it gets memory back, whether the tool still has it as a heap. */
static bool heap_was_told;

static enum tide_status
base_allocate(void *context, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    (void)context, (void)stream;
    *out = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    return *out != NULL ? TIDE_OK : TIDE_ENOMEM;
}

static enum tide_status
base_deallocate(void *context, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    (void)context, (void)bytes, (void)alignment, (void)stream;
    for (size_t i = 0; i < tool->heap_count; i++)
        heap_was_told = heap_was_told || tool->heaps[i].base == (uintptr_t)pointer;
    free(pointer);
    return TIDE_OK;
}

#define ORDER_TESTS 1

static void
check_order(void)
{
    struct tide_callback_options options = { TIDE_OPTIONS(options), .allocate = base_allocate,
                                             .deallocate = base_deallocate };
    struct tide_pool_options none = { TIDE_OPTIONS(none), .release_threshold_bytes = TIDE_NONE,
                                      .cache_bytes = TIDE_NONE };
    struct tide_resource *base, *pool;

    if (tide_callback_create(&options, &base) != TIDE_OK)
        exit(99);
    pool = over(base, &none);
    for (size_t i = 1; i <= 8; i++)
        give(pool, take(pool, i * MIB), i * MIB);
    tide_resource_release(pool);
    ok(all_of(!heap_was_told, tool->heaps_told > 4), "the end of a heap is told before its memory goes upstream");
}

#define RESET_TESTS 3

static void
check_reset(void)
{
    struct tide_resource *stack = stack_of_text("monotonic(1MiB) | sim");
    uint64_t resets = tool->resets;

    for (int i = 0; i < 10; i++)
        take(stack, 300000);
    is_u64(tool->region_count, 10, "blocks of monotonic are regions");
    tide_monotonic_reset(stack, 0);
    ok(all_of(tool->region_count == 0, tool->heap_count == 4, tool->resets == resets + 4),
       "a reset of monotonic resets its heaps");
    take(stack, 300000);
    ok(all_of(tool->region_count == 1, followed()), "after a reset of monotonic its memory has new regions");
    tide_resource_release(stack);
}

#define NESTED_TESTS 4

static void
check_nested(void)
{
    struct tide_resource *stack = stack_of_text("pool(growth=64MiB) | arena | sim");
    void *block = take(stack, 1000);

    ok(all_of(tool->heap_count == 1, tool->region_count == 1, region_at(block) != NULL),
       "of two pools over each other the lower one tells the heap, the upper one the regions");
    tide_resource_release(stack);
    stack = stack_of_text("pool(nvtx=off) | pool | sim");
    take(stack, 1000);
    ok(all_of(tool->heap_count == 1, tool->region_count == 1, tool->regions[0].bytes >= 2 * MIB),
       "where the upper pool tells nothing its chunk is a region of the lower one");
    tide_resource_release(stack);
    stack = stack_of_text("pool | pool(nvtx=off) | sim");
    block = take(stack, 1000);
    ok(all_of(tool->heap_count == 1, tool->region_count == 1, region_at(block) != NULL),
       "where the lower pool tells nothing the chunk of the upper one is the heap");
    tide_resource_release(stack);
    stack = stack_of_text("pool(nvtx=off) | sim");
    block = take(stack, 1000);
    ok(all_of(tool->heap_count == 0, tool->region_count == 0, followed()), "with nvtx=off nothing is told");
    give(stack, block, 1000);
    tide_resource_release(stack);
}

#define OPTION_TESTS 3

static void
check_option(void)
{
    struct tide_pool_options options = { TIDE_OPTIONS(options), .nvtx = 7 };
    struct tide_resource *base = stack_of_text("sim"), *made;

    ok(all_of(tide_stack_parse("pool(nvtx=maybe) | sim", &made) != TIDE_OK,
              strstr(tide_error_text(), "auto or off") != NULL),
       "another word for nvtx is refused with those that there are");
    ok(all_of(tide_stack_parse("fixed(64KiB, nvtx=) | sim", &made) != TIDE_OK,
              strstr(tide_error_text(), "auto or off") != NULL),
       "nvtx without a value is refused");
    is_u64(tide_pool_create(base, &options, &made), TIDE_EINVAL, "a number that is no enum tide_nvtx is refused");
    tide_resource_release(base);
}

/* Random traffic beside a model: what is live must be what the tool has. */

#define MODEL_BLOCKS 400
#define MODEL_STEPS  3000

struct model {
    struct tide_resource *stack, *monotonic;
    size_t largest;
    uint64_t seed;
    struct model_block {
        uintptr_t base;
        size_t bytes;
        tide_stream stream;
        char name[32];
    } blocks[MODEL_BLOCKS];
    size_t count, most;
};

/* Whether the regions cover exactly the block, from its begin to its end, all under its name. */
static bool
is_covered(const struct model_block *block)
{
    uintptr_t at = block->base;

    while (at < block->base + block->bytes) {
        const struct nvtx_tool_range *region = region_at((const void *)at);

        if (region == NULL || region->base + region->bytes > block->base + block->bytes ||
            strcmp(region->name, block->name) != 0)
            return false;
        at += region->bytes;
    }
    return true;
}

static bool
model_agrees(const struct model *model)
{
    size_t live = 0, told = 0;

    for (size_t i = 0; i < model->count; i++) {
        live += model->blocks[i].bytes;
        if (!is_covered(&model->blocks[i])) {
            diag("block %p of %zu B of %s is not covered", (void *)model->blocks[i].base, model->blocks[i].bytes,
                 model->blocks[i].name);
            return false;
        }
    }
    for (size_t i = 0; i < tool->region_count; i++)
        told += tool->regions[i].bytes;
    if (live != told)
        diag("%zu B are live, %zu B are told", live, told);
    return live == told && followed();
}

static void
model_take(struct model *model)
{
    static const char *const names[] = { "", "a", "b", "forward" };
    const char *name = names[contract_random(&model->seed) % 4];
    struct model_block *block = &model->blocks[model->count];
    size_t most = contract_random(&model->seed) % 8 == 0 ? model->largest : model->largest / 20;
    void *pointer;

    *block = (struct model_block){ .bytes = 1 + contract_random(&model->seed) % most,
                                   .stream = contract_random(&model->seed) % 3 };
    snprintf(block->name, sizeof(block->name), "%s", name);
    if (name[0] != '\0')
        tide_tag_push(name);
    if (tide_allocate(model->stack, block->bytes, 256, block->stream, &pointer) == TIDE_OK) {
        block->base = (uintptr_t)pointer;
        model->count++;
        model->most = model->most < model->count ? model->count : model->most;
    }
    if (name[0] != '\0')
        tide_tag_pop();
}

static bool
model_give(struct model *model)
{
    size_t i = contract_random(&model->seed) % model->count;
    struct model_block block = model->blocks[i];

    model->blocks[i] = model->blocks[--model->count];
    return tide_deallocate(model->stack, (void *)block.base, block.bytes, 256, block.stream) == TIDE_OK;
}

static bool
model_run(struct model *model)
{
    bool right = true;

    for (int step = 0; step < MODEL_STEPS && right; step++) {
        uint64_t draw = contract_random(&model->seed) % 100;
        bool grows = step / 300 % 2 == 0;

        if (draw == 0)
            tide_trim(model->stack, 0);
        else if (draw == 1 && model->monotonic != NULL) {
            tide_monotonic_reset(model->monotonic, 0);
            model->count = 0;
        } else if (model->count < MODEL_BLOCKS && (model->count == 0 || draw < (grows ? 65 : 40)))
            model_take(model);
        else
            right = model_give(model);
        if (step % 25 == 0)
            right = right && model_agrees(model);
    }
    return right && model->most > 20 && model_agrees(model);
}

static const struct {
    const char *text;
    size_t largest;
} model_stacks[] = {
    { "pool | sim", 3000000 },
    { "pool(cache=0, release_threshold=0) | sim", 3000000 },
    { "pool(growth=4MiB, decay=8) | sim(model=vmm)", 9000000 },
    { "arena | sim", 3000000 },
    { "arena | sim(model=vmm)", 9000000 },
    { "fixed(64KiB) | sim", 65536 },
    { "monotonic(1MiB) | sim", 300000 },
    { "monotonic(256KiB) | pool | sim", 300000 },
    { "pool | arena | sim", 3000000 },
    { "binning(64KiB={fixed(64KiB)}) | pool | sim", 300000 },
};

#define MODEL_TESTS (sizeof(model_stacks) / sizeof(model_stacks[0]))

static void
check_model(uint64_t seed)
{
    for (size_t i = 0; i < MODEL_TESTS; i++) {
        struct model *model = calloc(1, sizeof(*model));

        model->stack = stack_of_text(model_stacks[i].text);
        model->monotonic = strncmp(model_stacks[i].text, "monotonic", 9) == 0 ? model->stack : NULL;
        model->largest = model_stacks[i].largest;
        model->seed = seed + i;
        ok(all_of(model_run(model), (tide_resource_release(model->stack), tool->heap_count == 0),
                  tool->region_count == 0, followed()),
           "under %s what is live is what the tool has, and nothing at the end", model_stacks[i].text);
        free(model);
    }
}

/* Threads. */

#define THREADS      4
#define THREAD_TESTS 2

static struct tide_resource *shared;

static void *
thread_run(void *argument)
{
    uint64_t seed = (uintptr_t)argument;
    size_t sizes[32] = { 0 };
    void *blocks[32];

    for (int i = 0; i < 3000; i++) {
        size_t n = contract_random(&seed) % 32;

        if (sizes[n] != 0)
            give(shared, blocks[n], sizes[n]);
        sizes[n] = contract_random(&seed) % 3 == 0 ? 0 : 1 + contract_random(&seed) % 100000;
        if (sizes[n] != 0)
            blocks[n] = take(shared, sizes[n]);
    }
    for (size_t n = 0; n < 32; n++) {
        if (sizes[n] != 0)
            give(shared, blocks[n], sizes[n]);
    }
    return NULL;
}

static void
check_threads(const char *text)
{
    pthread_t threads[THREADS];

    shared = stack_of_text(text);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, thread_run, (void *)(i + 1));
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ok(all_of(tool->region_count == 0, tool->heap_count > 0, followed()),
       "threads that share %s tell each block's begin and end", text);
    tide_resource_release(shared);
}

int
main(void)
{
    plan(SILENT_TESTS + POOL_TESTS + ORDER_TESTS + RESET_TESTS + NESTED_TESTS + OPTION_TESTS + (int)MODEL_TESTS +
         THREAD_TESTS);
    check_silent();
    tool_load(NVTX_TOOL_LISTENS);
    check_pool();
    check_order();
    check_reset();
    check_nested();
    check_option();
    check_model(contract_seed(16));
    check_threads("pool | sim");
    check_threads("arena | sim");
    return done();
}
