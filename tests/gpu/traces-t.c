/*
 * Tests several traces in one process, each with its own CUPTI options: every call is in the log whose event made it.
 */
#include "tests/gpu/gpu.h"

#include <pthread.h>
#include <stdlib.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"
#include "tests/trace.h"

#if defined(HAVE_CUDA_H) && defined(HAVE_CUPTI_H)

#define PAIRS 50

/* On device 0, with a context that is current: without one the base calls the driver twice. */
static bool
open_device(void)
{
    CUcontext primary;

    return gpu.primary_retain(&primary, 0) == CUDA_SUCCESS && gpu.context_set(primary) == CUDA_SUCCESS;
}

static void
use(struct tide_resource *stack, size_t bytes, unsigned pairs)
{
    for (unsigned i = 0; i < pairs; i++)
        give(stack, take(stack, bytes), bytes);
}

/*
 * The number of allocations of a layer, of one size, that have the call that made them and the one that freed them, and
 * no other.
 */
static int64_t
followed(const char *path, unsigned layer_id, size_t bytes)
{
    return sql_number(path,
                      "SELECT count(*) FROM (SELECT allocation_id FROM driver_call JOIN allocation AS a"
                      " USING (allocation_id) WHERE layer_id = %u AND size = %zu AND"
                      " start_ns + 1000 >= iif(is_free, free_ns, alloc_ns - alloc_duration_ns) AND"
                      " start_ns + duration_ns <= 1000 + iif(is_free, free_ns + free_duration_ns, alloc_ns)"
                      " GROUP BY 1 HAVING count(*) = 2 AND sum(is_free) = 1)",
                      layer_id, bytes);
}

static int64_t
calls(const char *path)
{
    return sql_number(path, "SELECT count(*) FROM driver_call");
}

/* Two nested logs, each with a trace of its own. */
static void
nest(const char *name, const char *outer, const char *inner)
{
    struct tide_resource *stack = stack_of("log(%s%s) | statistics | log(%s%s) | driver", scratch("%s-outer.db", name),
                                           outer, scratch("%s-inner.db", name), inner);

    use(stack, 4096, PAIRS);
    tide_resource_release(stack);
}

#define NESTED_TESTS 12

static void
test_nested(void)
{
    nest("below", "", ", cupti=off");
    is_i64(followed(scratch("below-outer.db"), 1, 4096), PAIRS,
           "a trace above a log with cupti=off has the calls of its allocations");
    is_i64(calls(scratch("below-outer.db")), 2 * PAIRS, "a trace above a log with cupti=off has each call once");
    is_i64(calls(scratch("below-inner.db")), 0, "a trace with cupti=off below another log has no calls");
    nest("above", ", cupti=off", "");
    is_i64(calls(scratch("above-outer.db")), 0, "a trace with cupti=off above another log has no calls");
    is_i64(followed(scratch("above-inner.db"), 1, 4096), PAIRS,
           "a trace below a log with cupti=off has the calls of its allocations");
    nest("both", "", "");
    is_i64(followed(scratch("both-outer.db"), 1, 4096), PAIRS,
           "with cupti on in both logs the upper trace has the calls of its allocations");
    is_i64(calls(scratch("both-outer.db")), 2 * PAIRS, "with cupti on in both logs the upper trace has each call once");
    is_i64(followed(scratch("both-inner.db"), 1, 4096), PAIRS,
           "with cupti on in both logs the lower trace has the calls of its allocations");
    is_i64(calls(scratch("both-inner.db")), 2 * PAIRS, "with cupti on in both logs the lower trace has each call once");
    nest("samples", ", samples=every, cupti=off", ", samples=off");
    ok(sql_number(scratch("samples-outer.db"), "SELECT count(*) FROM pool_sample AS s JOIN layer USING (layer_id)"
                                               " WHERE kind = 'driver'") > 0,
       "an upper trace that alone has samples=every has the base's figures");
    is_i64(sql_number(scratch("samples-inner.db"), "SELECT count(*) FROM pool_sample"), 0,
           "a lower trace with samples=off has no samples");
    ok(all_of(trace_is_whole(scratch("below-outer.db")), trace_is_whole(scratch("below-inner.db")),
              trace_is_whole(scratch("above-outer.db")), trace_is_whole(scratch("above-inner.db")),
              trace_is_whole(scratch("both-outer.db")), trace_is_whole(scratch("both-inner.db")),
              trace_is_whole(scratch("samples-outer.db")), trace_is_whole(scratch("samples-inner.db"))),
       "all traces of logs over each other are whole");
}

#define BRANCHED_TESTS 7

/*
 * Small requests pass three logs that record calls, of which the first and the last share a trace; other requests pass
 * one.
 */
static void
test_branched(void)
{
    const char *outer = scratch("branched-outer.db"), *inner = scratch("branched-inner.db");
    struct tide_resource *stack = stack_of("log(%s) | binning(4KiB={log(%s) | log(%s)}) | driver", outer, inner, outer);
    unsigned lower = 1, upper; /* the lower one was made first */

    use(stack, 4096, PAIRS);
    use(stack, 8192, PAIRS);
    tide_resource_release(stack);
    upper = (unsigned)sql_number(outer, "SELECT max(layer_id) FROM allocation");
    ok(all_of(trace_is_whole(outer), trace_is_whole(inner)),
       "a trace over two branches and the trace of one of them are whole");
    is_i64(followed(inner, 1, 4096), PAIRS, "the trace of a branch has the calls of the branch");
    is_i64(calls(inner), 2 * PAIRS, "the trace of a branch has no calls of the other branch");
    is_i64(followed(outer, lower, 4096), PAIRS,
           "the trace over both branches has the branch's calls with its lower log");
    is_i64(followed(outer, upper, 4096), 0,
           "the trace over both branches has none of the branch's calls with its upper log");
    is_i64(followed(outer, upper, 8192), PAIRS,
           "the trace over both branches has the calls of the other branch with its upper log");
    is_i64(calls(outer), 4 * PAIRS, "the trace over both branches has each call once");
}

#define MEMORY_TESTS 9

/* One trace has all memory, and another one has the calls of its own stack. Either may be made first. */
static void
test_memory(bool first)
{
    const char *memory = scratch("memory-%d.db", first), *other = scratch("calls-%d.db", first);
    struct tide_resource *all, *own;

    if (first) {
        all = stack_of("log(%s, cupti=memory) | driver", memory);
        own = stack_of("log(%s) | driver", other);
    } else {
        own = stack_of("log(%s) | driver", other);
        all = stack_of("log(%s, cupti=memory) | driver", memory);
    }
    for (unsigned i = 0; i < PAIRS; i++) {
        void *small = take(all, 4096), *large = take(own, 8192);

        give(all, small, 4096);
        give(own, large, 8192);
    }
    tide_resource_release(first ? all : own);
    tide_resource_release(first ? own : all);
    ok(all_of(trace_is_whole(memory), trace_is_whole(other)), "a trace of all memory and one of calls are whole");
    is_string(sql_text(memory, "SELECT value FROM meta WHERE key = 'cupti'"), "memory",
              "the meta of the trace of all memory says memory");
    is_string(sql_text(other, "SELECT value FROM meta WHERE key = 'cupti'"), "calls",
              "the meta of the trace of calls says calls");
    is_i64(followed(memory, 1, 4096), PAIRS, "the trace of all memory has the calls of its own stack");
    is_i64(sql_number(memory, "SELECT count(*) FROM driver_call WHERE allocation_id IS NULL"), 2 * PAIRS,
           "the trace of all memory has the other stack's calls, without an allocation");
    is_i64(sql_number(memory, "SELECT count(*) FROM device_event WHERE bytes = 4096 AND allocation_id IS NOT NULL"),
           2 * PAIRS, "the trace of all memory has the device events of its own stack with their allocations");
    is_i64(sql_number(memory, "SELECT count(*) FROM device_event WHERE bytes = 8192 AND allocation_id IS NULL"
                              " AND function IS NOT NULL AND os_tid IS NOT NULL"),
           2 * PAIRS, "the trace of all memory has the other stack's device events without an allocation");
    is_i64(followed(other, 1, 8192), PAIRS, "the trace of calls has the calls of its own stack");
    is_i64(calls(other), 2 * PAIRS, "the trace of calls has no call of the other stack");
}

#define MEMORY_OVER_TESTS 8

/* Like test_memory, with both logs in one stack. */
static void
test_memory_over(bool above)
{
    const char *outer = scratch("over-%d-outer.db", above), *inner = scratch("over-%d-inner.db", above);
    const char *memory = above ? outer : inner;
    struct tide_resource *stack = stack_of("log(%s%s) | statistics | log(%s%s) | driver", outer,
                                           above ? ", cupti=memory" : "", inner, above ? "" : ", cupti=memory");

    use(stack, 4096, PAIRS);
    tide_resource_release(stack);
    ok(all_of(trace_is_whole(outer), trace_is_whole(inner)),
       "a trace of all memory %s a trace of calls: both are whole", above ? "over" : "below");
    is_i64(followed(outer, 1, 4096), PAIRS, "of two nested logs, the upper trace has the calls of its allocations");
    is_i64(calls(outer), 2 * PAIRS, "of two nested logs, the upper trace has each call once");
    is_i64(followed(inner, 1, 4096), PAIRS, "of two nested logs, the lower trace has the calls of its allocations");
    is_i64(calls(inner), 2 * PAIRS, "of two nested logs, the lower trace has each call once");
    is_i64(sql_number(memory, "SELECT count(*) FROM driver_call WHERE allocation_id IS NULL"), 0,
           "of two nested logs, the trace of all memory has no call without an allocation");
    is_i64(sql_number(memory, "SELECT count(*) FROM device_event WHERE bytes = 4096 AND allocation_id IS NOT NULL"
                              " AND os_tid IS NOT NULL"),
           2 * PAIRS, "of two nested logs, the trace of all memory has every device event with its allocation");
    is_i64(sql_number(above ? inner : outer, "SELECT count(*) FROM device_event"), 0,
           "of two nested logs, the trace of calls has no device events");
}

static struct tide_resource *thread_stacks[2];

/* Uses both stacks in turn. Each thread has its own size, so that an allocation shows which thread made it. */
static void *
thread_run(void *size)
{
    size_t bytes = (uintptr_t)size;

    if (!open_device())
        abort();
    for (unsigned i = 0; i < PAIRS; i++) {
        void *first = take(thread_stacks[0], bytes), *second = take(thread_stacks[1], bytes);

        give(thread_stacks[1], second, bytes);
        give(thread_stacks[0], first, bytes);
    }
    return NULL;
}

#define THREAD_TESTS 7

static void
test_threads(void)
{
    const char *paths[2] = { scratch("thread-0.db"), scratch("thread-1.db") };
    pthread_t threads[2];

    for (unsigned i = 0; i < 2; i++)
        thread_stacks[i] = stack_of("log(%s) | driver", paths[i]);
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, thread_run, (void *)((uintptr_t)4096 << i));
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < 2; i++)
        tide_resource_release(thread_stacks[i]);
    ok(all_of(trace_is_whole(paths[0]), trace_is_whole(paths[1])),
       "two threads in turn use the stacks of two traces, which are whole");
    for (unsigned i = 0; i < 2; i++) {
        is_i64(followed(paths[i], 1, 4096), PAIRS, "each of the two traces has the calls of the first thread");
        is_i64(followed(paths[i], 1, 8192), PAIRS, "each of the two traces has the calls of the second thread");
        is_i64(sql_number(paths[i], "SELECT count(*) FROM driver_call JOIN allocation USING (allocation_id)"
                                    " WHERE thread_id = iif(is_free, free_thread_id, alloc_thread_id)"),
               4 * PAIRS, "each call has the thread of its allocation or free");
    }
}

int
main(void)
{
    const char *reason = gpu_open();

    if (reason != NULL)
        skip_all(reason);
    gpu_skip_sanitized("compute-sanitizer takes the place of CUPTI");
    scratch("x");
    if (!open_device())
        skip_all("there is no context");
    plan(NESTED_TESTS + BRANCHED_TESTS + 2 * MEMORY_TESTS + 2 * MEMORY_OVER_TESTS + THREAD_TESTS);
    test_nested();
    test_branched();
    test_memory(true);
    test_memory(false);
    test_memory_over(true);
    test_memory_over(false);
    test_threads();
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA or no CUPTI");
}

#endif
