/*
 * Tests that a trace takes what a long-lived program brings: 300 stacks at once, all layers that a record can number,
 * and thousands of threads one after another. SCALE_THREADS=20000 and SCALE_LAYERS=65535 are the whole (make scale).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "trace.h"

#define STACKS       300
#define STACK_LAYERS 5
#define OPENERS      8
#define AT_ONCE      50
#define LAYERS_MOST  65535

/* A number from the environment, or `usual`. */
static unsigned
scale_of(const char *variable, unsigned usual)
{
    const char *text = getenv(variable);

    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : usual;
}

static void
use(struct tide_resource *stack)
{
    give(stack, take(stack, 1000), 1000);
}

struct opener {
    pthread_t thread;
    struct tide_resource *stacks[STACKS];
    unsigned first;
};

static void *
open_stacks(void *context)
{
    struct opener *opener = context;

    for (unsigned i = opener->first; i < STACKS; i += OPENERS) {
        opener->stacks[i] = stack_of("log(%s) | limit(1GiB) | pool | log | sim", scratch("stacks.db"));
        use(opener->stacks[i]);
    }
    for (unsigned i = opener->first; i < STACKS; i += OPENERS)
        use(opener->stacks[i]);
    return NULL;
}

/* Stacks that threads open over one trace, all of them at once. */
static void
test_stacks(void)
{
    static struct opener openers[OPENERS];
    struct tide_resource *first = stack_of("log(%s) | sim", scratch("stacks.db"));
    const char *path = scratch("stacks.db");

    for (unsigned i = 0; i < OPENERS; i++) {
        openers[i].first = i;
        pthread_create(&openers[i].thread, NULL, open_stacks, &openers[i]);
    }
    for (unsigned i = 0; i < OPENERS; i++)
        pthread_join(openers[i].thread, NULL);
    for (unsigned i = 0; i < STACKS; i++)
        tide_resource_release(openers[i % OPENERS].stacks[i]);
    tide_resource_release(first);
    ok(trace_is_whole(path), "300 stacks that eight threads open over one trace leave it whole");
    is_i64(sql_number(path, "SELECT count(*) FROM layer"), STACK_LAYERS * STACKS + 2,
           "each layer of 300 stacks over one trace has a number of its own");
    is_i64(sql_number(path, "SELECT count(*) FROM (SELECT layer_id, count(*) AS rows FROM allocation WHERE layer_id IN"
                            " (SELECT layer_id FROM layer WHERE kind = 'log' AND upstream_layer_id IN"
                            " (SELECT layer_id FROM layer WHERE kind = 'limit')) GROUP BY layer_id) WHERE rows = 2"),
           STACKS, "each of 300 stacks over one trace has the allocations that passed through it");
}

/* Stacks that come and go, until the trace has all layers that it can number. */
static void
test_layers(unsigned most)
{
    const char *path = scratch("layers.db");
    char text[256];
    struct tide_resource *refused, *first = stack_of("log(%s) | limit(1GiB) | log | retry | sim", path);
    bool is_refused;

    for (unsigned layers = STACK_LAYERS; layers < most; layers += STACK_LAYERS) {
        struct tide_resource *stack = stack_of("log(%s) | limit(1GiB) | log | retry | sim", scratch("layers.db"));

        use(stack);
        tide_resource_release(stack);
    }
    snprintf(text, sizeof(text), "log(%s) | sim", scratch("layers.db"));
    is_refused = tide_stack_parse(text, &refused) != TIDE_OK;
    if (most == LAYERS_MOST)
        ok(is_refused && strstr(tide_error_text(), "no more than 65535 layers fit into the trace") != NULL,
           "a stack whose layers have no number left is refused in words");
    else
        skip(1, "all layers are in use in `make scale` alone");
    if (!is_refused)
        tide_resource_release(refused);
    use(first);
    tide_resource_release(first);
    ok(trace_is_whole(scratch("layers.db")), "a trace in which stacks came and went is whole");
    is_i64(sql_number(scratch("layers.db"), "SELECT count(DISTINCT layer_id) FROM allocation"), 2 * most / STACK_LAYERS,
           "each log of the stacks that came and went has its allocation");
}

static void *
work(void *context)
{
    use(context);
    return NULL;
}

/* Threads that come and go: a ring that its thread has left goes to the next one. */
static void
test_threads(unsigned most)
{
    struct tide_resource *stack = stack_of("log(%s, ring=4KiB) | sim", scratch("threads.db"));
    const char *path = scratch("threads.db");
    pthread_t threads[AT_ONCE];

    for (unsigned i = 0; i < most; i += AT_ONCE) {
        for (unsigned j = 0; j < AT_ONCE; j++)
            pthread_create(&threads[j], NULL, work, stack);
        for (unsigned j = 0; j < AT_ONCE; j++)
            pthread_join(threads[j], NULL);
    }
    tide_resource_release(stack);
    ok(trace_is_whole(path), "a trace of more threads over its life than rings is whole");
    is_i64(sql_number(path, "SELECT count(DISTINCT alloc_thread_id) FROM allocation JOIN thread"
                            " ON thread_id = alloc_thread_id"),
           most, "each of the threads that came and went has a number, a row and its allocation");
}

int
main(void)
{
    plan(8);
    test_stacks();
    test_layers(scale_of("SCALE_LAYERS", 5000));
    test_threads(scale_of("SCALE_THREADS", 5000));
    return done();
}
