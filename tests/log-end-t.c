/* Tests tide_log_end: a recording ends while its stack lives and has blocks outstanding. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "find.h"
#include "tap.h"
#include "trace.h"

#define THREADS 4

struct busy {
    struct tide_resource *stack;
    _Atomic bool stop;
    _Atomic uint64_t pairs;
};

static void *
busy_main(void *argument)
{
    struct busy *busy = argument;

    while (!atomic_load(&busy->stop)) {
        give(busy->stack, take(busy->stack, 100), 100);
        atomic_fetch_add(&busy->pairs, 1);
    }
    return NULL;
}

static bool
is_closed(const char *trace)
{
    return trace_is_sound(trace) && sql_number(trace, "SELECT value FROM meta WHERE key = 'complete'") == 1 &&
           strcmp(sql_text(trace, "SELECT value FROM meta WHERE key = 'ended'"), "closed") == 0;
}

/* On each stack: a log above a pool, whose chunks are recorded by the log itself or by one below. */
static void
test_end(const char *name, const char *format)
{
    const char *trace = scratch("%s.db", name);
    struct tide_resource *stack = stack_of(format, trace);
    void *live = take(stack, 1000), *freed = take(stack, 500);

    give(stack, freed, 500);
    ok(all_of(tide_log_end(stack) == TIDE_OK, is_closed(trace), scratch_count(name) == 1),
       "%s: the trace is complete and alone when its recording has ended", name);
    ok(sql_number(trace, "SELECT count(*) FROM live WHERE size = 1000") == 1, "%s: it has what was outstanding", name);
    freed = take(stack, 700);
    give(stack, freed, 700);
    give(stack, live, 1000);
    ok(all_of(tide_log_end(stack) == TIDE_OK, tide_trim(stack, 0) == TIDE_OK,
              tide_log_flush(find_layer(stack, "log")) == TIDE_EIO),
       "%s: the stack goes on, a second end does nothing, and a flush says that the recording has ended", name);
    tide_resource_release(stack);
    ok(all_of(is_closed(trace), sql_number(trace, "SELECT count(*) FROM allocation WHERE size = 700") == 0),
       "%s: what came after the end is not in the trace", name);
}

/* Threads go on through the end. */
static void
test_busy(void)
{
    const char *trace = scratch("busy.db");
    struct busy busy = { .stack = stack_of("log(%s) | pool | host", trace) };
    pthread_t threads[THREADS];
    int64_t recorded;
    uint64_t pairs;

    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, busy_main, &busy);
    while (atomic_load(&busy.pairs) < 1000)
        usleep(1000);
    tide_log_end(busy.stack);
    pairs = atomic_load(&busy.pairs);
    recorded = sql_number(trace, "SELECT count(*) FROM allocation WHERE size = 100");
    ok(is_closed(trace), "a recording ends while threads allocate, and its trace is complete");
    ok(all_of(recorded >= 1000, (uint64_t)recorded <= pairs + THREADS), "it has what came before its end");
    while (atomic_load(&busy.pairs) < pairs + 1000)
        usleep(1000);
    atomic_store(&busy.stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tide_resource_release(busy.stack);
    is_i64(sql_number(trace, "SELECT count(*) FROM allocation WHERE size = 100"), recorded,
           "threads that go on after the end add nothing");
}

/* Two stacks record into one trace: it ends with the second of them, however that ends. */
static void
test_shared(bool released)
{
    const char *trace = scratch("shared-%d.db", released);
    struct tide_resource *first = stack_of("log(%s) | host", trace), *second = stack_of("log(%s) | pool | host", trace);
    void *block = take(first, 11), *other;

    tide_log_end(first);
    other = take(second, 22);
    give(second, other, 22);
    ok(all_of(scratch_count(released ? "shared-1" : "shared-0") > 1, !is_closed(trace)),
       "a trace that two stacks record into goes on when one of them ends");
    if (released)
        tide_resource_release(second);
    else
        tide_log_end(second);
    ok(all_of(is_closed(trace), sql_number(trace, "SELECT count(*) FROM allocation WHERE size IN (11, 22)") == 2),
       "it is complete when the other one %s", released ? "is released" : "ends, too");
    give(first, block, 11);
    tide_resource_release(first);
    if (!released)
        tide_resource_release(second);
}

static int
child_ends(void *stack)
{
    void *block = take(stack, 5);

    give(stack, block, 5);
    tide_log_end(stack);
    tide_resource_release(stack);
    return 0;
}

int
main(void)
{
    const char *trace;
    struct tide_resource *stack;

    plan(3 * 4 + 3 + 4 + 3);
    test_end("pool", "log(%s) | pool | host");
    test_end("below", "log(%s) | statistics | pool | log | host");
    test_end("samples", "log(%s, samples=every, callstack=4) | pool | log | guard | host");
    test_busy();
    test_shared(false);
    test_shared(true);
    trace = scratch("forked.db");
    stack = stack_of("log(%s) | pool | host", trace);
    tide_log_end(stack);
    if (CHILDREN_MAY_RECORD)
        ok(in_child(child_ends, stack) == 0, "a child of fork() uses and releases a stack whose recording had ended");
    else
        skip(1, "ThreadSanitizer follows no child");
    tide_resource_release(stack);
    ok(is_closed(trace), "the parent's trace stays as it was");
    ok(tide_log_end(NULL) == TIDE_EINVAL, "NULL in place of a stack is refused");
    return done();
}
