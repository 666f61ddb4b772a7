/* Tests the table layer_count: what layers count themselves is in the trace as their own figures have it. */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "src/resource/kind.h"
#include "tests/tap.h"
#include "tests/trace.h"

/* A count in the trace; -1: it has no row. */
static int64_t
counted(const char *path, const char *kind, const char *name)
{
    char sql[256];

    snprintf(sql, sizeof(sql),
             "SELECT ifnull((SELECT value FROM layer_count JOIN layer USING (layer_id) WHERE kind = '%s' AND name = "
             "'%s'), -1)",
             kind, name);
    return sql_number(path, "%s", sql);
}

/* Blocks that need `count` chunks of 2 MiB. */
static void
fill(struct tide_resource *stack, size_t count)
{
    void *pointers[64];

    for (size_t i = 0; i < count; i++)
        tide_allocate(stack, 2 << 20, 256, 0, &pointers[i]);
    for (size_t i = 0; i < count; i++)
        tide_deallocate(stack, pointers[i], 2 << 20, 256, 0);
}

static void
test_pool(void)
{
    const char *path = scratch("pool.db");
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };
    struct tide_resource *stack, *pool = NULL;

    stack = stack_of("log(%s) | pool as chunks | sim", path);
    tide_stack_find(stack, "chunks", &pool);
    fill(stack, 3);
    tide_log_flush(stack);
    is_i64(counted(path, "pool", "grown"), 3, "a flush brings the count of a pool's chunks into the trace");
    is_i64(counted(path, "pool", "returned"), 0, "what has never happened has a row, too");
    fill(stack, 5);
    tide_pool_trim(pool, 0);
    tide_pool_read(pool, &figures);
    tide_resource_release(stack);
    ok(all_of(counted(path, "pool", "grown") == (int64_t)figures.grown,
              counted(path, "pool", "returned") == (int64_t)figures.returned, figures.grown >= 5,
              figures.returned >= 5),
       "at the end the counts are those of the pool's own figures");
    is_i64(sql_number(path, "SELECT count(*) FROM layer_count"), 7,
           "each count of the one layer that counts has one row");
}

static void
test_others(void)
{
    const char *path = scratch("others.db");
    struct tide_resource *stack;
    void *pointer = NULL;

    stack = stack_of("log(%s) | fallback({retry(2) | fault(every=2, status=capacity) | sim}) | host", path);
    for (int i = 0; i < 4; i++) {
        tide_allocate(stack, 256, 256, 0, &pointer);
        tide_deallocate(stack, pointer, 256, 256, 0);
    }
    tide_resource_release(stack);
    is_i64(counted(path, "fault", "planted"),
           sql_number(path, "SELECT sum(value) FROM layer_count WHERE name = 'failed'"),
           "each planted failure is a failed request of retry");
    ok(all_of(counted(path, "fault", "planted") > 0,
              counted(path, "retry", "served") == counted(path, "fault", "planted"),
              counted(path, "fallback", "served") == 0),
       "what retry has saved reaches no second resource");
}

static void
test_off(void)
{
    const char *path = scratch("off.db");
    struct tide_resource *stack;

    stack = stack_of("log(%s, samples=off) | pool | sim", path);
    fill(stack, 1);
    tide_resource_release(stack);
    is_i64(sql_number(path, "SELECT count(*) FROM layer_count"), 0, "samples=off leaves the counts out");
}

/* A layer that ends before the trace does. */
static void
test_ended(void)
{
    const char *path = scratch("ended.db");
    struct tide_resource *first, *second;

    first = stack_of("log(%s) | pool | sim", path);
    second = stack_of("log(%s) | arena | sim", path);
    fill(second, 4);
    tide_resource_release(second);
    fill(first, 2);
    tide_log_flush(first);
    ok(all_of(counted(path, "arena", "grown") > 0, counted(path, "pool", "grown") == 2),
       "the last counts of a stack that has ended are in the trace");
    tide_resource_release(first);
}

static void *
allocates(void *stack)
{
    for (int i = 0; i < 2000; i++)
        fill(stack, 4);
    return NULL;
}

/* The writer reads while threads count. */
static void
test_threads(void)
{
    const char *path = scratch("threads.db");
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };
    struct tide_resource *stack, *pool = NULL;
    pthread_t threads[4];

    stack = stack_of("log(%s) | pool(release_threshold=0) as chunks | sim", path);
    tide_stack_find(stack, "chunks", &pool);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, allocates, stack);
    for (int i = 0; i < 20; i++)
        tide_log_flush(stack);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    tide_pool_read(pool, &figures);
    tide_resource_release(stack);
    ok(all_of(counted(path, "pool", "grown") == (int64_t)figures.grown,
              counted(path, "pool", "taken_over") == (int64_t)figures.taken_over),
       "the counts of a pool that threads have used are those of its figures");
}

#define STACKS 200

/* Many stacks of one trace end in any order, in several transactions: each layer keeps its own counts and samples. */
static void
test_any_order(void)
{
    const char *path = scratch("order.db");
    struct tide_resource *first = stack_of("log(%s) | sim", path), *stacks[STACKS];
    uint64_t random = random_seed("COUNTS_SEED");
    char wanted[4 * STACKS] = "";

    for (unsigned i = 0; i < STACKS; i++) {
        stacks[i] = stack_of("log(%s) | pool | sim", path);
        fill(stacks[i], 1 + i % 7);
        snprintf(wanted + strlen(wanted), sizeof(wanted) - strlen(wanted), i == 0 ? "%u" : " %u", 1 + i % 7);
    }
    for (unsigned left = STACKS; left > 0; left--) {
        unsigned i = (unsigned)(next_random(&random) % left);

        if (next_random(&random) % 16 == 0)
            tide_log_flush(first);
        tide_resource_release(stacks[i]);
        stacks[i] = stacks[left - 1];
    }
    tide_resource_release(first);
    is_string(sql_text(path, "SELECT group_concat(value, ' ') FROM (SELECT value FROM layer_count JOIN layer USING"
                             " (layer_id) WHERE kind = 'pool' AND name = 'grown' ORDER BY layer_id)"),
              wanted, "the layers of stacks that end in any order have their own counts");
    is_i64(sql_number(path, "SELECT count(*) FROM (SELECT layer_id, reserved_bytes, max(rowid) FROM pool_sample"
                            " GROUP BY layer_id) JOIN layer USING (layer_id) WHERE kind = 'pool' AND reserved_bytes <>"
                            " (SELECT value FROM layer_count AS c WHERE c.layer_id = layer.layer_id AND name ="
                            " 'grown') * (2 << 20)"),
           0, "and their last samples have what their pools had");
}

int
main(void)
{
    plan(11);
    test_pool();
    test_others();
    test_off();
    test_ended();
    test_threads();
    test_any_order();
    return done();
}
