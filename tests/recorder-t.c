/* Tests the recorder end to end: the trace matches the calls. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "gate.h"
#include "tap.h"
#include "trace.h"
#include "upstream.h"

static int64_t
meta_number(const char *path, const char *key)
{
    return sql_number(path, "SELECT value FROM meta WHERE key = '%s'", key);
}

static const char *
meta_text(const char *path, const char *key)
{
    return sql_text(path, "SELECT value FROM meta WHERE key = '%s'", key);
}

static void
test_one_stack(void)
{
    const char *path = scratch("one.db");
    struct tide_resource *stack = stack_of("log(%s) | limit(1000) | log | sim", path);
    void *first = take(stack, 100), *second = take(stack, 200), *refused = stack;

    ok(all_of(tide_allocate(stack, 5000, 512, 7, &refused) == TIDE_ELIMIT, refused == NULL),
       "a refusal passes through the log");
    give(stack, first, 100);
    tide_resource_release(stack);
    is_u64(scratch_count("one.db"), 1, "closing a trace leaves one file");
    is_string(sql_text(path, "SELECT group_concat(layer_id || kind || '(' || config || ')' || ifnull(upstream_layer_id,"
                             " ''), ' ') FROM (SELECT * FROM layer ORDER BY layer_id)"),
              sql_text(path, "SELECT '1log(' || '%s' || ')2 2limit(1000)3 3log()4 4sim()'", path),
              "the layers are numbered from the top, each with its upstream");
    is_string(sql_text(path, "SELECT group_concat(layer_id || ':' || size || ':' || status || ':' || (free_ns IS NULL),"
                             " ' ') FROM (SELECT * FROM allocation ORDER BY layer_id, allocation_id)"),
              "1:100:0:0 1:200:0:1 1:5000:4:1 3:100:0:0 3:200:0:1",
              "each log layer has the same allocations, and a refusal where it was seen");
    is_string(sql_text(path, "SELECT status_name || alignment || ' ' || alloc_stream_id FROM failure"),
              sql_text(path, "SELECT 'TIDE_ELIMIT512 ' || stream_id FROM stream WHERE handle = 7"),
              "a failure keeps its status, alignment and stream");
    is_u64((uint64_t)sql_number(path, "SELECT count(*) FROM live"), 2,
           "blocks that were not freed are live at both layers");
    is_u64((uint64_t)sql_number(path, "SELECT address FROM live WHERE layer_id = 1"), (uintptr_t)second,
           "the live allocation has its address");
    ok(trace_is_whole(path), "the trace of two logs is whole");
}

static void
test_meta(void)
{
    const char *path = scratch("meta.db");
    uint64_t before = (uint64_t)time(NULL);
    struct tide_resource *stack = stack_of("log(%s) | sim", path);
    char host[256] = "";

    gethostname(host, sizeof(host) - 1);
    give(stack, take(stack, 1), 1);
    tide_resource_release(stack);
    is_u64((uint64_t)meta_number(path, "format_version"), 1, "meta.format_version");
    ok((uint64_t)meta_number(path, "start_unix_ns") / 1000000000 - before <= 60, "meta.start_unix_ns is now");
    is_u64((uint64_t)meta_number(path, "complete"), 1, "meta.complete is 1");
    is_u64((uint64_t)meta_number(path, "pid"), (uint64_t)getpid(), "meta.pid is this process");
    is_string(meta_text(path, "hostname"), host, "meta.hostname is this host");
    has_words(meta_text(path, "command"), "recorder-t", "meta.command is this command");
    is_string(meta_text(path, "stack"), sql_text(path, "SELECT 'log(%s) | sim'", path),
              "meta.stack is the stack's text");
    ok(strcmp(meta_text(path, "clock"), "tsc") == 0 || strcmp(meta_text(path, "clock"), "monotonic") == 0,
       "meta.clock is one of the two clocks");
    has_words(meta_text(path, "versions"), tide_version(), "meta.versions has the library's version");
    is_string(meta_text(path, "ended"), "closed", "meta.ended is closed");
    ok(meta_number(path, "end_ns") >= sql_number(path, "SELECT max(free_ns) FROM allocation"),
       "meta.end_ns lies behind the last event");
    is_u64((uint64_t)meta_number(path, "ring_waits"), 0, "meta.ring_waits is 0");
    is_u64((uint64_t)meta_number(path, "late_records"), 0, "meta.late_records");
    is_u64((uint64_t)sql_number(path, "SELECT count(*) FROM meta WHERE key = 'failure'"), 0,
           "a trace without a failure has no meta.failure");
}

static void
test_describe(void)
{
    const char *path = scratch("describe.db");
    struct tide_resource *stack =
        stack_of("log(%s, clock=monotonic, overflow=drop, ring=8KiB, backlog=2MiB) | log | sim", path);
    char text[512], again[512];

    tide_describe(stack, text, sizeof(text), NULL);
    is_string(
        text,
        sql_text(path, "SELECT 'log(%s, clock=monotonic, overflow=drop, ring=8KiB, backlog=2MiB) | log | sim'", path),
        "a stack describes itself");
    tide_resource_release(stack);
    unlink(path);
    stack = stack_of("%s", text);
    tide_describe(stack, again, sizeof(again), NULL);
    is_string(again, text, "the description makes the same stack again");
    tide_resource_release(stack);
}

static void
test_stacks_together(void)
{
    const char *path = scratch("together.db"), *apart = scratch("apart.db");
    struct tide_resource *one = stack_of("log(%s) | sim", path), *two = stack_of("log(%s) | statistics | sim", path),
                         *three = stack_of("log(%s) | sim", apart);
    void *pointer;

    give(one, take(one, 11), 11);
    give(two, take(two, 22), 22);
    pointer = take(three, 33);
    tide_resource_release(one);
    give(two, take(two, 44), 44);
    give(three, pointer, 33);
    tide_resource_release(two);
    tide_resource_release(three);
    is_string(sql_text(path, "SELECT group_concat(layer_id || ':' || size, ' ') FROM allocation"), "1:11 3:22 3:44",
              "two stacks record into one trace");
    is_string(sql_text(apart, "SELECT group_concat(layer_id || ':' || size, ' ') FROM allocation"), "1:33",
              "a third stack at the same time records into another trace");
    is_string(sql_text(path, "SELECT value FROM meta WHERE key = 'stack.2'"),
              sql_text(path, "SELECT 'log(%s) | statistics | sim'", path), "the second stack is in meta as stack.2");
    ok(all_of(trace_is_whole(path), trace_is_whole(apart)), "both traces are whole");
}

static void
test_stack_within(void)
{
    const char *path = scratch("within.db");
    struct tide_resource *stack = stack_of("log(%s) | statistics | log(%s) | sim", path, path);

    give(stack, take(stack, 11), 11);
    tide_resource_release(stack);
    is_string(sql_text(path, "SELECT group_concat(key || ': ' || value, ', ') FROM meta WHERE key LIKE 'stack%%'"),
              sql_text(path, "SELECT 'stack: log(%s) | statistics | log(%s) | sim'", path, path),
              "a stack with two logs of one path is in meta as one");
    is_string(sql_text(path, "SELECT group_concat(layer_id || ':' || size, ' ') FROM (SELECT * FROM allocation"
                             " ORDER BY layer_id)"),
              "1:11 3:11", "both logs record into its trace");
}

static void
test_shared_layers(void)
{
    const char *path = scratch("shared.db"), *other = scratch("shared-2.db");
    struct tide_resource *sim, *lower, *one, *two, *three;
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = path };
    struct tide_log_options others = { TIDE_OPTIONS(others), .path = other };

    if (tide_sim_create(NULL, &sim) != TIDE_OK || tide_log_create(sim, NULL, &lower) != TIDE_OK)
        abort();
    give(lower, take(lower, 1), 1);
    if (tide_log_create(lower, &options, &one) != TIDE_OK || tide_log_create(lower, &options, &two) != TIDE_OK ||
        tide_log_create(lower, &others, &three) != TIDE_OK)
        abort();
    give(one, take(one, 10), 10);
    give(two, take(two, 20), 20);
    give(three, take(three, 30), 30);
    tide_resource_release(one);
    tide_resource_release(two);
    tide_resource_release(three);
    give(lower, take(lower, 40), 40);
    tide_resource_release(lower);
    tide_resource_release(sim);
    is_string(sql_text(path, "SELECT group_concat(k || ':' || s, ' ') FROM (SELECT layer_id || kind AS k,"
                             " group_concat(size, '+') AS s FROM allocation JOIN layer USING (layer_id)"
                             " GROUP BY layer_id)"),
              "1log:10 2log:10+20+30+40 4log:20",
              "a log without a path joins the first trace above it, and stays with it to the end");
    is_u64((uint64_t)sql_number(path, "SELECT count(*) FROM layer"), 4, "a layer that two stacks share is listed once");
    is_u64((uint64_t)sql_number(path, "SELECT upstream_layer_id FROM layer WHERE layer_id = 4"), 2,
           "the shared layer is the upstream of both stacks");
    is_string(sql_text(other, "SELECT group_concat(size) FROM allocation"), "30",
              "the other trace has the allocations of its own layers");
    ok(all_of(trace_is_whole(path), trace_is_whole(other)), "both traces of the process are whole");
}

struct crowd {
    struct tide_resource *stack;
    unsigned index;
    unsigned rounds;
};

static void *
crowd_work(void *argument)
{
    struct crowd *crowd = argument;
    void *held[16] = { NULL };
    size_t sizes[16] = { 0 };

    for (unsigned i = 0; i < crowd->rounds; i++) {
        unsigned at = i % 16;

        if (held[at] != NULL)
            give(crowd->stack, held[at], sizes[at]);
        sizes[at] = (size_t)i * 8 + crowd->index + 1;
        held[at] = take(crowd->stack, sizes[at]);
    }
    for (unsigned at = 0; at < 16; at++) {
        if (held[at] != NULL)
            give(crowd->stack, held[at], sizes[at]);
    }
    return NULL;
}

static void
test_threads(void)
{
    const char *path = scratch("threads.db");
    struct tide_resource *stack = stack_of("log(%s) | statistics | sim", path);
    struct crowd crowds[8];
    pthread_t threads[8];

    for (unsigned i = 0; i < 8; i++) {
        crowds[i] = (struct crowd){ stack, i, 20000 };
        pthread_create(&threads[i], NULL, crowd_work, &crowds[i]);
    }
    for (unsigned i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    tide_resource_release(stack);
    is_u64((uint64_t)sql_number(path, "SELECT count(*) FROM allocation WHERE free_ns IS NOT NULL"), 160000,
           "eight threads: every allocation is there and freed");
    is_u64((uint64_t)sql_number(path, "SELECT count(*) FROM (SELECT size, lag(size) OVER (PARTITION BY alloc_thread_id"
                                      " ORDER BY allocation_id) AS before FROM allocation) WHERE size <> before + 8"),
           0, "each thread's events are in its order, and on one thread");
    is_u64((uint64_t)sql_number(path, "SELECT count(DISTINCT alloc_thread_id) FROM allocation"), 8,
           "the events of 8 threads are on 8 threads");
    ok(trace_is_whole(path), "the trace of eight threads is whole");
}

static void *
short_work(void *argument)
{
    give(argument, take(argument, 64), 64);
    return NULL;
}

static void
test_short_threads(void)
{
    const char *path = scratch("short.db"), *rings = scratch("short.db-rings");
    struct tide_resource *stack = stack_of("log(%s) | sim", path);
    struct stat info = { .st_size = INT64_MAX };
    pthread_t threads[4];

    for (unsigned i = 0; i < 1500; i++) {
        for (unsigned j = 0; j < 4; j++)
            pthread_create(&threads[j], NULL, short_work, stack);
        for (unsigned j = 0; j < 4; j++)
            pthread_join(threads[j], NULL);
    }
    stat(rings, &info);
    diag("ring file after 6000 threads: %jd bytes", (intmax_t)info.st_size);
    ok(info.st_size < 16 << 20, "the ring file holds a few rings after 6,000 threads, four at a time");
    tide_resource_release(stack);
    is_u64((uint64_t)sql_number(path, "SELECT count(*) FROM allocation WHERE free_thread_id = alloc_thread_id"), 6000,
           "each of 6,000 threads has its allocation");
    is_u64((uint64_t)sql_number(path, "SELECT count(*) FROM thread WHERE thread_id IN (SELECT alloc_thread_id FROM"
                                      " allocation) AND os_tid > 0 AND name <> ''"),
           6000, "each of 6,000 threads has its row in thread");
    ok(trace_is_whole(path), "the trace of 6,000 threads is whole");
}

/* Allocate on another thread when a free has given the address back but has not returned yet. */
static void *reused_pointer;

static void *
reuse_take(void *stack)
{
    reused_pointer = take(stack, 4096);
    return NULL;
}

static void
reuse_visit(void *stack)
{
    pthread_t thread;

    pthread_create(&thread, NULL, reuse_take, stack);
    pthread_join(thread, NULL);
}

static void
test_reuse(void)
{
    const char *path = scratch("reuse.db");
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = path };
    struct upstream *upstream = upstream_create();
    struct gate *gate = gate_create(&upstream->base);
    struct tide_resource *log;
    void *pointer;
    bool same = true;

    upstream->reuse = true;
    if (tide_log_create(&gate->base, &options, &log) != TIDE_OK)
        abort();
    pointer = take(log, 4096);
    for (int i = 0; i < 100; i++) {
        gate->context = log;
        gate->after_deallocate = reuse_visit;
        give(log, pointer, 4096);
        same = same && reused_pointer == pointer;
        pointer = reused_pointer;
        if (i % 10 == 0)
            tide_log_flush(log);
    }
    ok(same, "the upstream gave the address out again before its free had returned");
    tide_resource_release(log);
    tide_resource_release(&gate->base);
    is_u64((uint64_t)sql_number(path, "SELECT count(*) FROM allocation"), 101, "one address has 101 allocations");
    is_u64((uint64_t)sql_number(path, "SELECT allocation_id FROM live"), 101,
           "the last of the 101 allocations is live");
    ok(trace_is_whole(path), "no allocation of the address overlaps another in time");
}

static void
test_odd_frees(void)
{
    const char *path = scratch("odd.db");
    struct tide_resource *stack = stack_of("log(%s) | sim", path), *host = stack_of("log(%s) | host", path);
    void *pointer = take(stack, 100), *loose = take(host, 64);
    int elsewhere;

    ok(tide_deallocate(stack, pointer, 99, 256, 0) == TIDE_EMISMATCH, "sim refuses a wrong size");
    ok(tide_deallocate(stack, &elsewhere, 8, 256, 3) == TIDE_EPOINTER, "sim refuses an unknown pointer");
    give(stack, pointer, 100);
    give(host, loose, 65);
    tide_resource_release(stack);
    tide_resource_release(host);
    is_string(sql_text(path, "SELECT group_concat(kind || ' ' || text, '; ') FROM mark"),
              "refused_free layer 1: TIDE_EMISMATCH: free of 99 bytes; refused_free layer 1: TIDE_EPOINTER: free of 8"
              " bytes; size_mismatch layer 3: freed as 65 bytes",
              "marks report refused frees and a free with a size that nobody checked");
    is_u64((uint64_t)sql_number(path, "SELECT address FROM unmatched_free"), (uintptr_t)&elsewhere,
           "the free of the unknown pointer is an unmatched free");
    is_u64((uint64_t)sql_number(path, "SELECT handle FROM unmatched_free JOIN stream USING (stream_id)"), 3,
           "the unmatched free has its stream");
    is_u64((uint64_t)sql_number(path, "SELECT count(*) FROM allocation WHERE free_ns IS NOT NULL"), 2,
           "of three frees the refused one ends no allocation, and the right and the wrongly sized one do");
}

static void
test_zero_bytes(void)
{
    const char *path = scratch("zero.db");
    struct tide_resource *stack = stack_of("log(%s) | log | host", path);

    for (int i = 0; i < 3; i++)
        ok(take(stack, 0) == NULL, "an allocation of 0 bytes has no address");
    give(stack, NULL, 0);
    tide_log_flush(stack);
    give(stack, NULL, 0);
    tide_resource_release(stack);
    is_u64((uint64_t)sql_number(path, "SELECT count(*) FROM allocation WHERE size = 0 AND address = 0"), 6,
           "allocations of 0 bytes are rows");
    is_u64((uint64_t)sql_number(path, "SELECT count(*) FROM live"), 2,
           "each free of NULL ends one allocation of 0 bytes of its layer");
    ok(trace_is_whole(path), "the trace with refused frees is whole");
}

static void
test_visible(void)
{
    const char *path = scratch("visible.db");
    struct tide_resource *stack = stack_of("log(%s) | sim", path);
    struct timespec pause = { 0, 50000000 };
    struct timespec begin, now;
    int64_t count = 0, back, lives;
    sqlite3 *reader;
    sqlite3_stmt *query;
    void *pointers[50];

    for (size_t i = 0; i < 50; i++) {
        pointers[i] = take(stack, 1000);
        ok(tide_log_flush(stack) == TIDE_OK, "a flush succeeds");
        if (sql_number(path, "SELECT count(*) FROM allocation") != (int64_t)i + 1)
            count = -1;
        if (i == 10)
            break;
    }
    is_i64(count, 0, "after each flush another connection sees every event");
    give(stack, pointers[0], 1000);
    tide_log_flush(stack);
    is_i64(sql_number(path, "SELECT count(*) FROM live"), 10,
           "after a flush another connection sees frees of earlier transactions' allocations");
    sqlite3_open_v2(path, &reader, SQLITE_OPEN_READONLY, NULL);
    sqlite3_exec(reader, "BEGIN", NULL, NULL, NULL);
    sqlite3_prepare_v2(reader, "SELECT count(*), count(free_ns) FROM allocation", -1, &query, NULL);
    sqlite3_step(query);
    back = sqlite3_column_int64(query, 0);
    give(stack, take(stack, 7), 7);
    give(stack, pointers[1], 1000);
    tide_log_flush(stack);
    sqlite3_reset(query);
    sqlite3_step(query);
    lives = sqlite3_column_int64(query, 0) - sqlite3_column_int64(query, 1);
    ok(all_of(back == sqlite3_column_int64(query, 0), lives == 10),
       "a reader in a transaction sees one state throughout");
    sqlite3_finalize(query);
    sqlite3_close(reader);
    take(stack, 77);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        nanosleep(&pause, NULL);
        count = sql_number(path, "SELECT count(*) FROM allocation WHERE size = 77");
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (count == 0 && now.tv_sec - begin.tv_sec < 60);
    diag("a quiet program's event was in the file after about %.2f s",
         (double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9);
    is_i64(count, 1, "an event of an idle program gets into the file without a flush");
    is_i64(meta_number(path, "complete"), 0, "meta.complete is 0 during the recording");
    tide_resource_release(stack);
    ok(trace_is_whole(path), "the trace read during the recording is whole in the end");
}

static void
test_small_ring(void)
{
    const char *path = scratch("small.db");
    struct tide_resource *stack = stack_of("log(%s, ring=4KiB, backlog=1MiB) | sim", path);

    for (int i = 0; i < 50000; i++)
        give(stack, take(stack, 16), 16);
    tide_resource_release(stack);
    is_i64(sql_number(path, "SELECT count(free_ns) FROM allocation"), 50000, "a ring of 64 records loses nothing");
    ok(all_of(meta_number(path, "ring_waits") > 0, meta_number(path, "ring_longest_wait_ns") > 0),
       "the number of waits and the longest wait are in meta");
    ok(trace_is_whole(path), "the trace of a ring of 64 records is whole");
}

static void *
tag_work(void *stack)
{
    tide_tag_push("other");
    give(stack, take(stack, 5), 5);
    return NULL;
}

static void
test_tags_and_marks(void)
{
    const char *path = scratch("tags.db"), *later = scratch("tags-2.db");
    struct tide_resource *stack = stack_of("log(%s) | sim", path), *second;
    char name[300], mark[2000];
    pthread_t thread;

    ok(all_of(tide_tag_push(NULL) == TIDE_EINVAL, tide_tag_push("") == TIDE_EINVAL), "a tag without a name is refused");
    tide_tag_pop();
    tide_tag_push("step");
    take(stack, 1);
    tide_tag_push("forward");
    take(stack, 2);
    pthread_create(&thread, NULL, tag_work, stack);
    pthread_join(thread, NULL);
    tide_tag_pop();
    take(stack, 3);
    second = stack_of("log(%s) | sim", later);
    take(second, 30);
    tide_tag_pop();
    take(stack, 4);
    memset(name, 'x', 254);
    strcpy(name + 254, "\xc3\xa4\xc3\xa4"); /* two letters of two bytes each: the first would end at byte 256 */
    tide_tag_push(name);
    take(stack, 6);
    tide_tag_pop();
    memset(mark, 'm', 1022);
    strcpy(mark + 1022, "\xe2\x82\xac\xe2\x82\xac");
    ok(tide_mark(NULL) == TIDE_EINVAL, "a mark without a text is refused");
    tide_mark("epoch 1");
    tide_mark(mark);
    tide_resource_release(stack);
    tide_resource_release(second);
    tide_mark("nobody records");
    is_string(sql_text(path,
                       "SELECT group_concat(size || ':' || ifnull(parent.name || '/', '') ||"
                       " ifnull(tag.name, '-'), ' ') FROM (SELECT * FROM allocation ORDER BY size) LEFT JOIN tag"
                       " USING (tag_id) LEFT JOIN tag parent ON parent.tag_id = tag.parent_tag_id WHERE size < 6"),
              "1:step 2:step/forward 3:step 4:- 5:other", "allocations have the nested tags of their threads");
    is_i64(sql_number(path, "SELECT length(CAST(name AS BLOB)) FROM tag WHERE name LIKE 'xxx%%'"), 254,
           "a long name is cut where a character ends");
    is_string(sql_text(later, "SELECT tag.name FROM allocation JOIN tag USING (tag_id)"), "step",
              "a trace opened later knows tags that were pushed before");
    is_string(sql_text(path, "SELECT group_concat(text) FROM mark WHERE length(text) < 100 AND kind = 'mark'"),
              "epoch 1", "a mark is in the trace");
    is_string(sql_text(later, "SELECT text FROM mark WHERE length(text) < 100 AND thread_id IN (SELECT thread_id FROM"
                              " thread)"),
              "epoch 1", "a mark is in every other trace that is being recorded");
    is_i64(sql_number(path, "SELECT length(CAST(text AS BLOB)) FROM mark WHERE text LIKE 'mmm%%'"), 1022,
           "a mark's text is cut at 1023 bytes, where a character ends");
    ok(all_of(trace_is_whole(path), trace_is_whole(later)), "both traces with tags and marks are whole");
}

static int
exit_child(void *path)
{
    struct tide_resource *stack = stack_of("log(%s) | sim", (const char *)path);

    for (int i = 0; i < 1000; i++)
        give(stack, take(stack, 32), 32);
    take(stack, 33);
    fflush(stdout);
    exit(0);
}

static void
test_exit(void)
{
    const char *path = scratch("exit.db");
    int status = in_child(exit_child, (void *)path);

    ok(all_of(WIFEXITED(status), WEXITSTATUS(status) == 0), "a program exits without a release of its stack");
    is_u64(scratch_count("exit.db"), 1, "a program that exits without a release leaves one file");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation"), 1001, "the trace of that program has every event");
    is_string(meta_text(path, "ended"), "exit", "the meta.ended of that program's trace is exit");
    ok(trace_is_whole(path), "the trace of that program is whole");
}

static int
closed_output_child(void *path)
{
    static const char text[4096];
    struct tide_resource *stack;

    fflush(stdout);
    close(STDOUT_FILENO);
    stack = stack_of("log(%s) | sim", (const char *)path);
    take(stack, 77);
    (void)!write(STDOUT_FILENO, text, sizeof(text));
    tide_resource_release(stack);
    return 0;
}

static void
test_closed_output(void)
{
    const char *path = scratch("closed-output.db");
    int status = in_child(closed_output_child, (void *)path);

    ok(all_of(WIFEXITED(status), WEXITSTATUS(status) == 0), "a program without a standard output records and prints");
    ok(all_of(sql_number(path, "SELECT sum(size) FROM allocation") == 77, trace_is_whole(path)),
       "what the program without a standard output prints goes into no file of the trace");
}

/* Make stacks with many bins, which are layers, until the trace has as many layers as its records can number. */
static void
test_many_layers(void)
{
    enum { BINS = 4000, STACKS = 17 };
    const char *path = scratch("layers.db");
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = path };
    struct tide_resource *keep = stack_of("log(%s) | sim", path), *binning, *base, *log = keep;
    static struct tide_upstream bins[BINS];
    struct tide_binning_options binned = { TIDE_OPTIONS(binned), .bins = bins, .bin_count = BINS };
    enum tide_status status = TIDE_OK;
    int made = 0;

    tide_host_create(NULL, &base);
    for (size_t i = 0; i < BINS; i++) {
        tide_host_create(NULL, &bins[i].resource);
        bins[i].limit_bytes = i + 1;
    }
    tide_binning_create(base, &binned, &binning);
    while (status == TIDE_OK && made < STACKS) {
        status = tide_log_create(binning, &options, &log);
        if (status == TIDE_OK) {
            give(log, take(log, 5000), 5000);
            tide_resource_release(log);
            made++;
        }
    }
    ok(all_of(status == TIDE_EINVAL, log == NULL), "a trace refuses a stack if it has no layer numbers left");
    has_words(tide_error_text(), "no more than 65535 layers", "the refusal names the most layers");
    tide_resource_release(binning);
    tide_resource_release(base);
    for (size_t i = 0; i < BINS; i++)
        tide_resource_release(bins[i].resource);
    give(keep, take(keep, 1), 1);
    tide_resource_release(keep);
    is_i64(sql_number(path, "SELECT count(*) FROM allocation WHERE size = 5000"), made,
           "the stacks before the refused one are recorded");
    is_i64(sql_number(path, "SELECT count(DISTINCT layer_id) FROM allocation JOIN layer USING (layer_id)"
                            " WHERE kind = 'log'"),
           made + 1, "each of those stacks has layers of its own");
    ok(tide_log_create(NULL, NULL, NULL) == TIDE_EINVAL, "NULL in place of the result is refused");
}

int
main(void)
{
    plan(100);
    test_one_stack();
    test_meta();
    test_describe();
    test_stacks_together();
    test_stack_within();
    test_shared_layers();
    test_threads();
    test_short_threads();
    test_reuse();
    test_odd_frees();
    test_zero_bytes();
    test_visible();
    test_small_ring();
    test_tags_and_marks();
    test_many_layers();
    test_exit();
    test_closed_output();
    return done();
}
