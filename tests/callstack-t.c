/*
 * Tests src/context/walk.c and src/context/callstack.c: this file and tests/callstack-chain.c in two of its three
 * builds keep frame pointers.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "callstack-chain.h"
#include "src/context/callstack.h"
#include "sanitized.h"
#include "src/context/walk.h"
#include "point.h"
#include "tap.h"

#define NOINLINE  __attribute__((noinline))
#define THREADS   8
#define STACKS    200
#define COROUTINE 65536

/* One call stack, taken at the end of a chain. */
struct taken {
    unsigned depth;
    enum tide_unwind unwind;
    uint32_t id;
    uint64_t leaf_returns; /* the address to which the function that takes it returns */
    struct tidei_walk walk;
};

static NOINLINE void
take(struct chain *chain)
{
    struct taken *taken = chain->context;

    taken->leaf_returns = (uint64_t)(uintptr_t)__builtin_return_address(0);
    taken->id = tidei_callstack_here(taken->depth, taken->unwind);
    tidei_walk_fp(__builtin_frame_address(0), taken->depth, true, &taken->walk);
}

typedef void (*run_function)(struct chain *chain);

/* Run a chain with `take` at its end. Returns the call stack, which stays valid. */
static NOINLINE const struct tidei_callstack *
run(run_function function, unsigned calls, unsigned depth, enum tide_unwind unwind, struct chain *chain,
    struct taken *taken)
{
    *taken = (struct taken){ .depth = depth, .unwind = unwind };
    *chain = (struct chain){ .leaf = take, .context = taken, .depth = calls };
    function(chain);
    return tidei_callstack_get(taken->id);
}

/* Whether frame 0 lies in `take`, frame 1 is its return address, and the frames of the chain follow. */
static bool
leads_through(const struct tidei_callstack *stack, const struct chain *chain, const struct taken *taken)
{
    bool good = stack != NULL && (stack->count < 2 ? taken->depth < 2 : stack->frames[1] == taken->leaf_returns);

    for (unsigned i = 0; good && i < chain->count && i + 2 < stack->count; i++)
        good = stack->frames[i + 2] == chain->returns[i];
    for (unsigned i = 0; !good && stack != NULL && i < stack->count; i++)
        diag("frame %u: %" PRIx64 ", wanted %" PRIx64, i, stack->frames[i],
             i == 0                 ? UINT64_C(0)
             : i == 1               ? taken->leaf_returns
             : i - 2 < chain->count ? chain->returns[i - 2]
                                    : UINT64_C(0));
    return good;
}

static void
check_one(run_function function, const char *what)
{
    struct chain chain;
    struct taken taken;
    uint32_t ids[3];
    const struct tidei_callstack *stack = run(function, 5, 64, TIDE_UNWIND_AUTO, &chain, &taken);

    ok(all_of(leads_through(stack, &chain, &taken), stack->count >= chain.count + 3),
       "%s: a call stack leads to the outermost function", what);
    for (volatile int i = 0; i < 3; i++) { /* volatile: the code has one call of it */
        run(function, 5, 64, i == 0 ? TIDE_UNWIND_DWARF : TIDE_UNWIND_AUTO, &chain, &taken);
        ids[i] = taken.id;
    }
    ok(all_of(ids[0] == ids[1], ids[1] == ids[2]),
       "the unwinder finds the same call stack as the walk by frame pointers");
    stack = run(function, 5, 4, TIDE_UNWIND_AUTO, &chain, &taken);
    ok(all_of(leads_through(stack, &chain, &taken), stack->count == 4),
       "a call stack is cut off at the requested depth");
    stack = run(function, 50, 16, TIDE_UNWIND_AUTO, &chain, &taken);
    ok(all_of(leads_through(stack, &chain, &taken), stack->count == 16, stack->frames[5] == stack->frames[15]),
       "a function that calls itself is a frame each time");
    for (volatile int i = 0; i < 2; i++) {
        run(function, 40 + (unsigned)i, 16, TIDE_UNWIND_AUTO, &chain, &taken);
        ids[i] = taken.id;
    }
    is_u64(ids[1], ids[0], "two call stacks that differ only beyond the depth have one id");
    for (volatile int i = 0; i < 2; i++) {
        run(function, 4 + (unsigned)i, 16, TIDE_UNWIND_AUTO, &chain, &taken);
        ids[i] = taken.id;
    }
    ok(ids[0] != ids[1], "two call stacks that differ within the depth have two ids");
}

static void
check_learning(void)
{
    struct chain chain;
    struct taken taken;
    const struct tidei_callstack *stack;

    stack = run(chain_with_pointers, 7, 64, TIDE_UNWIND_AUTO, &chain, &taken);
    ok(all_of(!taken.walk.stopped, stack != NULL, (atomic_load(&stack->checked) & TIDEI_CALLSTACK_ENDED) != 0,
              taken.walk.count == stack->count - 1),
       "code with frame pointers is walked by them after the unwinder has found the same");
    stack = run(chain_with_pointers, 7, 64, TIDE_UNWIND_FP, &chain, &taken);
    ok(leads_through(stack, &chain, &taken), "a walk by frame pointers alone leads to the outermost function");
    if (SANITIZED) {
        skip(1, "sanitizers build all code with frame pointers");
        return;
    }
    run(chain_without_pointers, 7, 64, TIDE_UNWIND_AUTO, &chain, &taken);
    ok(taken.walk.stopped, "code without frame pointers stops the walk, so that the unwinder goes on");
}

/* How often the unwinder runs while a call stack is taken from one place `times` times. */
static unsigned
unwinds_of(run_function function, unsigned depth, unsigned times)
{
    struct chain chain;
    struct taken taken;

    point_count("unwind");
    for (volatile unsigned i = 0; i < times; i++)
        run(function, 6, depth, TIDE_UNWIND_AUTO, &chain, &taken);
    return point_count("unwind");
}

static void
check_no_tables(void)
{
    struct chain chain;
    struct taken taken;
    const struct tidei_callstack *stack = run(chain_without_tables, 6, 64, TIDE_UNWIND_AUTO, &chain, &taken);

    ok(leads_through(stack, &chain, &taken), "a call stack leads through code without unwind tables");
    is_u64(stack != NULL ? stack->count : 0, chain.count + 4,
           "a call stack leads to the outermost function behind code without unwind tables");
    is_u64(unwinds_of(chain_without_tables, 64, 1), 1, "the unwinder walks a stack without tables when it is new");
    is_u64(unwinds_of(chain_without_tables, 64, 100), 1,
           "of 100 stacks from a new place without tables the unwinder walks only the first");
    is_u64(unwinds_of(chain_without_tables, 5, 100), 1,
           "of 100 stacks without tables that the depth cuts off the unwinder walks only the first");
    is_u64(unwinds_of(chain_with_pointers, 64, 100), 1,
           "of 100 stacks with tables and frame pointers the unwinder walks only the first");
}

/* Values that the frame pointer register may have in code without frame pointers. */
static void
check_junk(void)
{
    static uintptr_t elsewhere[8];
    volatile uintptr_t fake[8] = { 0 };
    struct tidei_walk walk;

    fake[0] = (uintptr_t)fake;
    fake[1] = 0x7000;
    tidei_walk_fp((const void *)fake, 64, false, &walk);
    is_u64(walk.count, 1, "a frame that is its own caller ends a walk");
    fake[0] = (uintptr_t)&fake[2] + 1;
    tidei_walk_fp((const void *)fake, 64, false, &walk);
    is_u64(walk.count, 1, "a frame that is misaligned ends a walk");
    fake[0] = UINTPTR_MAX - 7;
    tidei_walk_fp((const void *)fake, 64, false, &walk);
    is_u64(walk.count, 1, "a frame beyond the stack ends a walk");
    fake[0] = (uintptr_t)&fake[4];
    fake[5] = 16;
    tidei_walk_fp((const void *)fake, 64, false, &walk);
    is_u64(walk.count, 1, "a return address in the first page ends a walk");
    tidei_walk_fp(elsewhere, 64, false, &walk);
    ok(all_of(walk.count == 0, walk.off_stack), "a frame pointer outside of the thread's stack is not walked");
}

static ucontext_t coroutine_back, coroutine;
static struct chain coroutine_chain;
static struct taken coroutine_taken;

static void
coroutine_run(void)
{
    run(chain_with_pointers, 3, 64, coroutine_taken.unwind, &coroutine_chain, &coroutine_taken);
}

static void
on_coroutine(enum tide_unwind unwind)
{
    static char stack[COROUTINE];

    coroutine_taken.unwind = unwind;
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = sizeof(stack);
    coroutine.uc_link = &coroutine_back;
    makecontext(&coroutine, coroutine_run, 0);
    swapcontext(&coroutine_back, &coroutine);
}

static void
check_coroutine(void)
{
    if (SANITIZED) {
        skip(2, "sanitizers follow no makecontext");
        return;
    }
    on_coroutine(TIDE_UNWIND_AUTO);
    ok(leads_through(tidei_callstack_get(coroutine_taken.id), &coroutine_chain, &coroutine_taken),
       "the unwinder takes a coroutine's call stack");
    on_coroutine(TIDE_UNWIND_FP);
    is_u64(coroutine_taken.id, 0, "a walk by frame pointers alone finds no call stack in a coroutine");
}

/* A thread that takes call stacks; all threads take the same ones. */
struct worker {
    pthread_t thread;
    uint32_t ids[STACKS];
    unsigned wrong;
};

static void *
worker_run(void *argument)
{
    struct worker *worker = argument;

    for (unsigned i = 0; i < STACKS; i++) {
        struct chain chain;
        struct taken taken;
        run_function function = i % 2 == 0 ? chain_with_pointers : chain_without_pointers;

        if (!leads_through(run(function, i % 30, 1 + i / 4, TIDE_UNWIND_AUTO, &chain, &taken), &chain, &taken))
            worker->wrong++;
        worker->ids[i] = taken.id;
    }
    return NULL;
}

static void
check_threads(void)
{
    static struct worker workers[THREADS];
    unsigned wrong = 0, differ = 0;
    const struct tidei_callstack *longest;

    for (int i = 0; i < THREADS; i++)
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
        for (int k = 0; k < STACKS; k++)
            differ += workers[i].ids[k] != workers[0].ids[k];
    }
    is_u64(wrong, 0, "each of many threads gets its own call stacks");
    is_u64(differ, 0, "a call stack has the same id in all threads");
    longest = tidei_callstack_get(workers[0].ids[STACKS - 1]);
    /* take, its return into the chain, the chain, and the functions of this file: worker_run is the outermost. */
    if (SANITIZED)
        skip(1, "sanitizers start threads with frames of their own");
    else
        is_u64(longest != NULL ? longest->count : 0, 2 + (STACKS - 1) % 30 + 2 + 1,
               "a thread's call stack ends where the thread was started");
}

static void
check_numbers(void)
{
    enum tide_unwind unwind = TIDE_UNWIND_AUTO;
    char text[64];

    ok(all_of(tidei_callstack_get(0) == NULL, tidei_callstack_get(UINT32_MAX) == NULL),
       "ids 0 and UINT32_MAX have no call stack");
    is_string(tidei_callstack_brief(0, text, sizeof(text)), "?", "the short text of call stack 0 is a question mark");
    ok(all_of(tidei_callstack_options("t", TIDE_CALLSTACK_PYTHON | TIDE_CALLSTACK_MIXED, &unwind) == TIDE_EINVAL,
              tidei_callstack_options("t", TIDE_CALLSTACK_MIXED + TIDE_CALLSTACK_MOST + 1, &unwind) == TIDE_EINVAL,
              tidei_callstack_options("t", 8 * TIDE_CALLSTACK_PYTHON, &unwind) == TIDE_EINVAL,
              tidei_callstack_options("t", TIDE_CALLSTACK_MIXED + TIDE_CALLSTACK_MOST, &unwind) == TIDE_OK),
       "call stacks of Python alone and mixed at once, of too many frames, and of unknown kinds are refused");
    ok(all_of(tidei_callstack_options("t", TIDE_CALLSTACK_MOST + 1, &(enum tide_unwind){ TIDE_UNWIND_AUTO }) ==
                  TIDE_EINVAL,
              tidei_callstack_options("t", 1, &(enum tide_unwind){ 7 }) == TIDE_EINVAL),
       "a depth over the maximum and an unknown unwinder are refused");
}

/* Take a call stack from one place, so that only the depth makes a difference. */
static NOINLINE uint32_t
take_here(unsigned depth)
{
    struct chain chain;
    struct taken taken;

    run(chain_with_pointers, 9, depth, TIDE_UNWIND_AUTO, &chain, &taken);
    return taken.id;
}

/* A forked child keeps the ids from before, and gives new ones. */
static void
check_fork(void)
{
    uint32_t before = take_here(8);
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(take_here(8) == before && take_here(9) > before ? 0 : 1);
    ok(all_of(waitpid(child, &status, 0) == child, WIFEXITED(status), WEXITSTATUS(status) == 0),
       "a forked child keeps the earlier call stacks and takes new ones");
}

int
main(void)
{
    plan(6 + 6 + 3 + 6 + 5 + 2 + 3 + 4 + 1);
    tidei_callstack_options("test", 1, &(enum tide_unwind){ TIDE_UNWIND_AUTO });
    check_one(chain_with_pointers, "with frame pointers");
    check_one(chain_without_pointers, "without");
    check_learning();
    check_no_tables();
    check_junk();
    check_coroutine();
    check_threads();
    check_numbers();
    check_fork();
    return done();
}
