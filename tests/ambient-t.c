/* Tests the ambient tag: threads without a tag of their own carry it, in traces and in reports. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "find.h"
#include "tap.h"
#include "trace.h"

static const char *trace;

/* The path of the tag of the only allocation of that size; "" for none. */
static const char *
tag_of(size_t bytes)
{
    return sql_text(
        trace,
        "WITH RECURSIVE path(id, name) AS (SELECT tag_id, name FROM tag WHERE parent_tag_id IS NULL UNION ALL "
        "SELECT t.tag_id, path.name || '/' || t.name FROM tag t JOIN path ON t.parent_tag_id = path.id) "
        "SELECT coalesce((SELECT name FROM path WHERE id = a.tag_id), '') FROM allocation a "
        "WHERE a.size = %zu",
        bytes);
}

struct turns {
    struct tide_resource *stack;
    pthread_barrier_t barrier;
};

/* A thread that lives through two phases, and has a tag of its own in between. */
static void *
other_thread(void *argument)
{
    struct turns *turns = argument;

    take(turns->stack, 201);
    pthread_barrier_wait(&turns->barrier);
    pthread_barrier_wait(&turns->barrier); /* the phase is another now */
    take(turns->stack, 202);
    tide_tag_push("own");
    take(turns->stack, 203);
    pthread_barrier_wait(&turns->barrier);
    pthread_barrier_wait(&turns->barrier); /* and none now */
    take(turns->stack, 204);
    tide_tag_pop();
    take(turns->stack, 205);
    return NULL;
}

static void
report(void *context, const char *path, const struct tide_statistics_figures *figures)
{
    if (strcmp(path, "late") == 0)
        *(int64_t *)context = figures->bytes.total;
}

int
main(void)
{
    struct tide_resource *counted;
    struct turns turns;
    pthread_t thread;
    int64_t late = 0;

    plan(14);
    trace = scratch("ambient.db");
    turns.stack = stack_of("log(%s) | sim", trace);
    counted = stack_of("statistics(tags) | sim");
    pthread_barrier_init(&turns.barrier, NULL, 2);
    take(turns.stack, 100);
    ok(tide_tag_ambient("forward") == TIDE_OK, "an ambient tag is set");
    take(turns.stack, 101);
    pthread_create(&thread, NULL, other_thread, &turns);
    pthread_barrier_wait(&turns.barrier);
    tide_tag_push("own");
    tide_tag_ambient("backward");
    take(turns.stack, 102);
    tide_tag_push("forward");
    take(turns.stack, 103);
    tide_tag_pop();
    tide_tag_pop();
    take(turns.stack, 104);
    pthread_barrier_wait(&turns.barrier);
    pthread_barrier_wait(&turns.barrier);
    tide_tag_ambient(NULL);
    take(turns.stack, 105);
    pthread_barrier_wait(&turns.barrier);
    pthread_join(thread, NULL);
    tide_tag_pop();
    tide_tag_ambient("late");
    take(counted, 106);
    tide_tag_ambient(NULL);
    tide_statistics_report(counted, report, &late);
    is_i64(late, 106, "the report of statistics has the ambient tag");
    tide_log_flush(find_layer(turns.stack, "log"));
    is_string(tag_of(100), "", "before it is set nothing has it");
    is_string(tag_of(101), "forward", "a thread without a tag carries the ambient tag");
    is_string(tag_of(201), "forward", "a new thread carries the ambient tag");
    is_string(tag_of(202), "backward", "a thread that records already carries the next ambient tag");
    is_string(tag_of(102), "own", "a tag of its own goes before the ambient one");
    is_string(tag_of(103), "own/forward", "tags of its own nest as ever");
    is_string(tag_of(104), "backward", "a thread that has popped its last tag carries the ambient tag");
    is_string(tag_of(203), "own", "a tag that is pushed under an ambient tag is not nested in it");
    ok(all_of(strcmp(tag_of(105), "") == 0, strcmp(tag_of(205), "") == 0),
       "without an ambient tag there is none, on all threads");
    is_string(tag_of(204), "own", "a thread keeps its own tag when the ambient one ends");
    ok(all_of(tide_tag_ambient("") == TIDE_EINVAL, strstr(tide_error_text(), "empty") != NULL),
       "an empty ambient tag is refused");
    tide_resource_release(turns.stack);
    tide_resource_release(counted);
    ok(trace_is_sound(trace), "the trace of ambient tags is sound");
    return done();
}
