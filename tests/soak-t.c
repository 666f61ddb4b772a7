/*
 * Runs millions of events through a small ring: the trace has every one, the peak is exact, and the process does not
 * grow. SOAK_EVENTS sets the number of events; `make soak` runs 100 million.
 */
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "sanitized.h"
#include "tap.h"
#include "trace.h"

#define THREADS 2
#define KEPT    1000 /* live allocations of each thread */
#define LAPS    20
#define BIG     (UINT64_C(1) << 40) /* more than all other allocations together, so that the peak of a lap is known */

/* SQLite's page cache may grow to 32 MiB. The rest is for the live allocations and one slice. */
#define MOST_BYTES (UINT64_C(56) << 20)

struct soak {
    struct tide_resource *stack;
    pthread_barrier_t barrier;
    uint64_t pairs; /* of each thread in a lap */
    uint64_t anonymous[LAPS];
};

struct worker {
    struct soak *soak;
    unsigned index;
    uint64_t random;
    void *kept[KEPT];
    size_t sizes[KEPT];
};

/* The bytes of the process's own memory, without the mapped rings. */
static uint64_t
anonymous_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    uint64_t kilobytes = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "RssAnon: %" SCNu64, &kilobytes) == 1)
            break;
    }
    if (file != NULL)
        fclose(file);
    return kilobytes * 1024;
}

static void
lap(struct worker *worker)
{
    for (uint64_t i = 0; i < worker->soak->pairs; i++) {
        unsigned at = (unsigned)(next_random(&worker->random) % KEPT);

        if (worker->kept[at] != NULL)
            give(worker->soak->stack, worker->kept[at], worker->sizes[at]);
        worker->sizes[at] = (size_t)(next_random(&worker->random) % 65536) + 1;
        worker->kept[at] = take(worker->soak->stack, worker->sizes[at]);
    }
}

static void
give_all(struct worker *worker)
{
    for (unsigned at = 0; at < KEPT; at++) {
        if (worker->kept[at] != NULL)
            give(worker->soak->stack, worker->kept[at], worker->sizes[at]);
        worker->kept[at] = NULL;
    }
}

/*
 * Laps of random traffic. Each ends with one big allocation of every thread at once; those of the last lap are the
 * largest.
 */
static void *
work(void *argument)
{
    struct worker *worker = argument;
    struct soak *soak = worker->soak;

    for (unsigned number = 0; number < LAPS; number++) {
        size_t big = BIG + number * 1000 + worker->index;
        void *pointer;

        lap(worker);
        give_all(worker);
        pthread_barrier_wait(&soak->barrier);
        pointer = take(soak->stack, big);
        pthread_barrier_wait(&soak->barrier);
        if (worker->index == 0)
            soak->anonymous[number] = anonymous_bytes();
        give(soak->stack, pointer, big);
        pthread_barrier_wait(&soak->barrier);
    }
    return NULL;
}

/* A heap of the frees to come, the earliest first. */
struct pending {
    int64_t ns;
    int64_t bytes;
};

static struct pending heap[4 * THREADS * KEPT];
static size_t heap_count;

static void
heap_push(struct pending one)
{
    size_t i = heap_count++;

    if (heap_count == sizeof(heap) / sizeof(heap[0]))
        abort();
    for (; i > 0 && heap[(i - 1) / 2].ns > one.ns; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = one;
}

static struct pending
heap_pop(void)
{
    struct pending first = heap[0], last = heap[--heap_count];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < heap_count) {
        if (child + 1 < heap_count && heap[child + 1].ns < heap[child].ns)
            child++;
        if (heap[child].ns >= last.ns)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return first;
}

/* Replay the trace in the order of time, as doc/trace.md says. */
static int64_t
peak_of(const char *path, int64_t *rows, int64_t *frees)
{
    int64_t live = 0, peak = 0;
    sqlite3_stmt *query;
    sqlite3 *db;

    *rows = *frees = 0;
    sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL);
    sqlite3_prepare_v2(db, "SELECT alloc_ns, free_ns, size FROM allocation ORDER BY allocation_id", -1, &query, NULL);
    while (sqlite3_step(query) == SQLITE_ROW) {
        int64_t ns = sqlite3_column_int64(query, 0), bytes = sqlite3_column_int64(query, 2);

        while (heap_count > 0 && heap[0].ns < ns)
            live -= heap_pop().bytes;
        live += bytes;
        peak = live > peak ? live : peak;
        (*rows)++;
        if (sqlite3_column_type(query, 1) != SQLITE_NULL) {
            heap_push((struct pending){ sqlite3_column_int64(query, 1), bytes });
            (*frees)++;
        }
    }
    sqlite3_finalize(query);
    sqlite3_close(db);
    return peak;
}

static void
check_memory(const struct soak *soak)
{
    uint64_t early = soak->anonymous[LAPS / 4], late = soak->anonymous[LAPS - 1];

    diag("%" PRIu64 " KiB of its own after a quarter, %" PRIu64 " KiB at the end", early / 1024, late / 1024);
    if (SANITIZED)
        skip(1, "a sanitizer keeps memory of its own");
    else
        ok(late < MOST_BYTES, "the process stays below %d MiB, however many events there were",
           (int)(MOST_BYTES >> 20));
}

int
main(void)
{
    const char *text = getenv("SOAK_EVENTS"), *path = scratch("soak.db"), *rings = scratch("soak.db-rings");
    uint64_t events = text != NULL ? strtoull(text, NULL, 10) : 2000000;
    struct soak soak = { .pairs = events / 2 / THREADS / LAPS };
    static struct worker workers[THREADS];
    int64_t pairs = (int64_t)(soak.pairs + 1) * THREADS * LAPS, rows, frees;
    pthread_t threads[THREADS];
    struct stat info = { 0 };
    time_t begin = time(NULL);

    plan(7);
    soak.stack = stack_of("log(%s, ring=64KiB, backlog=8MiB) | sim", path);
    pthread_barrier_init(&soak.barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .soak = &soak, .index = i, .random = 88172645463325252 + i };
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    stat(rings, &info);
    ok(info.st_size < 16 << 20, "the ring file stays within its rings and its backlog");
    tide_resource_release(soak.stack);
    stat(path, &info);
    diag("%" PRId64 " allocations in %jd s, %.1f bytes of trace each", pairs, (intmax_t)(time(NULL) - begin),
         (double)info.st_size / (double)pairs);
    check_memory(&soak);
    ok(peak_of(path, &rows, &frees) == (int64_t)(THREADS * (BIG + (LAPS - 1) * 1000) + THREADS * (THREADS - 1) / 2),
       "the peak is exact to the byte");
    is_i64(rows, pairs, "the trace of the soak has every allocation");
    is_i64(frees, pairs, "the trace of the soak has every free");
    is_i64(sql_number(path, "SELECT count(*) FROM unmatched_free") + sql_number(path, "SELECT count(*) FROM loss"), 0,
           "no free is without an allocation, and nothing is lost");
    is_string(sql_text(path, "PRAGMA integrity_check"), "ok", "the database passes SQLite's integrity check");
    return done();
}
