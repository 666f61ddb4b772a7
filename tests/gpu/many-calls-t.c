/*
 * Tests events that make very many calls of the driver: a pool gives back all its free chunks for one request that they
 * have no room for. The base is the device's default pool, of which a pool takes small chunks. Every call is in the
 * trace, with its event, and nothing counts as lost.
 */
#include "tests/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"
#include "tests/trace.h"

#if defined(HAVE_CUDA_H) && defined(HAVE_CUPTI_H)

#define CHUNK ((size_t)2 << 20) /* the least that a pool requests at a time */

static const unsigned counts[] = { 1, 16, 17, 1000, 20000 };
static const char *const logs[] = { "", ", callstack=16", ", ring=4KiB", ", overflow=drop, ring=16KiB" };
static const char *const lower[] = { "", "log | " };

#define COUNTS (sizeof(counts) / sizeof(counts[0]))
#define LOGS   (sizeof(logs) / sizeof(logs[0]))
#define LOWER  (sizeof(lower) / sizeof(lower[0]))

/* On device 0, with a context that is current: without one the base calls the driver twice. */
static void
set_context(void)
{
    CUcontext context;

    if (gpu.primary_retain(&context, 0) != CUDA_SUCCESS || gpu.context_set(context) != CUDA_SUCCESS)
        abort();
}

/* As many chunks as a third of the device's memory has room for: the large block needs as much again. */
static unsigned
count_for(unsigned count)
{
    size_t free_bytes, total_bytes;

    if (gpu.mem_get_info(&free_bytes, &total_bytes) != CUDA_SUCCESS)
        abort();
    return count < free_bytes / 3 / CHUNK ? count : (unsigned)(free_bytes / 3 / CHUNK);
}

/*
 * Fill a pool with chunks of one block each, free them all, and ask for more than any of them has. Returns the calls
 * that this took; *calls are all.
 */
static uint64_t
work(struct tide_resource *stack, unsigned count, uint64_t *calls)
{
    struct tide_pool_figures before = { TIDE_FIGURES(before) }, after = { TIDE_FIGURES(after) };
    void **blocks = calloc(count, sizeof(*blocks));
    size_t large_bytes = count == 1 ? 2 * CHUNK : count * CHUNK;
    struct tide_resource *pool;
    void *large;

    if (blocks == NULL || tide_stack_find(stack, "pool", &pool) != TIDE_OK)
        abort();
    for (unsigned i = 0; i < count; i++)
        blocks[i] = take(stack, CHUNK);
    for (unsigned i = 0; i < count; i++)
        give(stack, blocks[i], CHUNK);
    tide_log_flush(stack);
    tide_pool_read(pool, &before);
    large = take(stack, large_bytes);
    tide_pool_read(pool, &after);
    give(stack, large, large_bytes);
    free(blocks);
    *calls = after.grown + after.returned;
    return after.grown + after.returned - before.grown - before.returned;
}

#define MANY_TESTS 4

static void
test_many(unsigned count, const char *log, const char *below)
{
    bool drops = strstr(log, "drop") != NULL, dropped;
    struct tide_resource *stack;
    uint64_t calls, large;
    char path[256];
    int64_t made, most;

    snprintf(path, sizeof(path), "%s", scratch("many-%u.db", count));
    stack = stack_of("log(%s, overwrite=true%s) | pool(cache=0) | %sdriver(default=true)", path, log, below);
    large = work(stack, count, &calls);
    tide_resource_release(stack);
    made = sql_number(path, "SELECT count(*) FROM driver_call WHERE allocation_id IN (SELECT allocation_id FROM"
                            " allocation WHERE layer_id = 1)");
    /* An event that is dropped takes its calls with it. */
    ok(all_of(large >= count, drops ? made <= (int64_t)calls : made == (below[0] == '\0' ? (int64_t)calls : 0)),
       "%u chunks, log(%s) | pool | %sdriver: each call belongs to the event that made it", count, log, below);
    most = sql_number(path, "SELECT max(calls) FROM (SELECT count(*) AS calls FROM driver_call"
                            " GROUP BY allocation_id, is_free)");
    /* Returned chunks are events, too: a ring that drops may have no place for the event behind them. */
    dropped = drops && sql_number(path, "SELECT max(size) FROM allocation WHERE layer_id = 1") == CHUNK;
    ok(dropped ? sql_number(path, "SELECT sum(events) FROM loss WHERE reason = 'dropped allocation'") > 0
               : most == (below[0] == '\0' ? (int64_t)large : 1),
       "%u chunks, log(%s) | pool | %sdriver: an event of %u calls has them all", count, log, below, (unsigned)large);
    ok(sql_number(path, "SELECT count(*) FROM driver_call AS c JOIN allocation AS a USING (allocation_id) WHERE"
                        " thread_id = iif(is_free, free_thread_id, alloc_thread_id) AND result = 0"
                        " AND start_ns + 1000 >= iif(is_free, free_ns, alloc_ns - alloc_duration_ns) AND"
                        " start_ns + duration_ns - 1000 <= iif(is_free, free_ns + free_duration_ns, alloc_ns)") ==
           sql_number(path, "SELECT count(*) FROM driver_call"),
       "%u chunks, log(%s) | pool | %sdriver: each call lies within its event, on the same thread", count, log, below);
    ok(all_of(sql_number(path, "SELECT count(*) FROM loss WHERE reason NOT LIKE 'dropped %%'") == 0,
              drops ? sql_number(path, "SELECT value FROM meta WHERE key = 'ring_waits'") == 0 : trace_is_whole(path)),
       "%u chunks, log(%s) | pool | %sdriver: nothing is lost, and a thread whose ring drops waits for nothing", count,
       log, below);
}

int
main(void)
{
    const char *reason;

    setenv("FAKE_CUDA_MEMORY", "160G", 1); /* which the host need not have: nothing is stored there */
    reason = gpu_open();
    if (reason != NULL)
        skip_all(reason);
    gpu_skip_sanitized("compute-sanitizer takes the place of CUPTI");
    plan((int)(((COUNTS - 1) * LOGS + 2) * LOWER) * MANY_TESTS);
    set_context();
    for (unsigned i = 0; i < COUNTS; i++) {
        for (unsigned j = 0; j < (counts[i] < 20000 ? LOGS : 2); j++) {
            for (unsigned k = 0; k < LOWER; k++)
                test_many(count_for(counts[i]), logs[j], lower[k]);
        }
    }
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA or no CUPTI");
}

#endif
