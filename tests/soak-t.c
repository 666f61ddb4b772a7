/*
 * Millions of events through a small ring: counts and peak are exact, and resident memory stays flat.
 *
 * SOAK_EVENTS sets the number of events; `make soak` makes it 100 million.
 */
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include <tidemark/tidemark.h>

#include "tap.h"

#define THREADS 2
#define HELD    512 /* blocks that each thread keeps */

/* SQLite's page cache may grow to 32 MiB; the rest is what lives and one slice. */
#define MOST_KIB (56 * 1024)

struct worker {
    struct tide_resource *stack;
    uint64_t random;
    uint64_t allocations;
    bool failed;
};

static uint64_t
next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Replaces a random one of its blocks, again and again. */
static void *
work(void *argument)
{
    struct worker *worker = argument;
    struct {
        void *pointer;
        size_t bytes;
    } held[HELD] = { { NULL, 0 } };

    for (uint64_t i = 0; i < worker->allocations; i++) {
        unsigned k = (unsigned)(next_random(&worker->random) % HELD);

        if (held[k].pointer != NULL &&
            tide_deallocate(worker->stack, held[k].pointer, held[k].bytes, 256, 0) != TIDE_OK)
            worker->failed = true;
        held[k].bytes = 1 + (size_t)(next_random(&worker->random) % 100000);
        if (tide_allocate(worker->stack, held[k].bytes, 256, 0, &held[k].pointer) != TIDE_OK)
            worker->failed = true;
    }
    for (unsigned k = 0; k < HELD; k++) {
        if (held[k].pointer != NULL &&
            tide_deallocate(worker->stack, held[k].pointer, held[k].bytes, 256, 0) != TIDE_OK)
            worker->failed = true;
    }
    return NULL;
}

/* Anonymous memory of this process in KiB: the ring file is mapped and does not count. */
static uint64_t
anonymous_kib(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    unsigned long long kib = 0;
    char line[256];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        sscanf(line, "RssAnon: %llu kB", &kib);
    if (file != NULL)
        fclose(file);
    return kib;
}

static void
run(struct tide_resource *stack, uint64_t allocations, bool *failed)
{
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ stack, 88172645463325252u + i, allocations / THREADS, false };
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        *failed |= workers[i].failed;
    }
}

static int64_t
number_of(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    int64_t value = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

int
main(void)
{
    const char *events_text = getenv("SOAK_EVENTS");
    uint64_t allocations = (events_text != NULL ? strtoull(events_text, NULL, 10) : 1000000) / 2;
    char directory[] = "soak-XXXXXX", path[64], text[160];
    struct tide_resource *stack;
    struct tide_statistics figures;
    uint64_t before, after;
    bool failed = false;
    struct stat info;
    sqlite3 *db;

    plan(7);
    if (mkdtemp(directory) == NULL)
        return 2;
    snprintf(path, sizeof(path), "%s/t.db", directory);
    snprintf(text, sizeof(text), "statistics | log(%s, ring=64KiB, backlog=16MiB) | sim", path);
    if (tide_stack_parse(text, &stack) != TIDE_OK) {
        diag("%s", tide_error_text());
        return 2;
    }
    /* A tenth first: what grows to its size has grown then. */
    run(stack, allocations / 10, &failed);
    tide_log_flush(stack->upstream);
    before = anonymous_kib();
    run(stack, allocations - allocations / 10, &failed);
    tide_log_flush(stack->upstream);
    after = anonymous_kib();
    ok(!failed, "%" PRIu64 " events pass through a ring of 64 KiB", 2 * allocations);
    diag("anonymous memory: %" PRIu64 " KiB after a tenth, %" PRIu64 " KiB at the end", before, after);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(1, "a sanitizer keeps memory of its own");
#else
    ok(after < MOST_KIB, "resident memory stays below %d MiB, however many events there were", MOST_KIB / 1024);
#endif
    tide_statistics_read(stack, &figures);
    tide_resource_release(stack);
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        return 2;
    is_i64(number_of(db, "SELECT count(*) FROM allocation"), figures.count.total, "every allocation is in the trace");
    is_i64(number_of(db, "SELECT count(*) FROM allocation WHERE free_ns IS NULL"), 0, "with its end");
    is_i64(number_of(db, "SELECT sum(size) FROM allocation"), figures.bytes.total, "and its bytes");
    is_i64(number_of(db, "SELECT (SELECT count(*) FROM loss) + (SELECT count(*) FROM unmatched_free)"), 0,
           "nothing is lost, no free is unmatched");
    is_i64(number_of(db, "SELECT value FROM meta WHERE key = 'complete'"), 1, "it is complete");
    diag("%" PRId64 " waits for the ring, the longest %" PRId64 " us",
         number_of(db, "SELECT value FROM meta WHERE key = 'ring_waits'"),
         number_of(db, "SELECT value / 1000 FROM meta WHERE key = 'ring_longest_wait_ns'"));
    sqlite3_close(db);
    if (stat(path, &info) == 0)
        diag("%.1f bytes of trace for each allocation", (double)info.st_size / (double)figures.count.total);
    unlink(path);
    rmdir(directory);
    return done();
}
