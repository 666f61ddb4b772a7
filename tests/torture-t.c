/*
 * A child with several threads counts each call after it has returned, in shared memory, and is killed with SIGKILL at
 * a random moment; then the trace holds every counted event of every thread, each once, in order. Sometimes the
 * recovery is killed too, and run again.
 *
 * TORTURE_KILLS sets the number of kills, TORTURE_SEED the seed; TORTURE_FORM, from 1 to 4, has one form of them alone.
 */
#include <signal.h>
#include <stdatomic.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include <tidemark/tidemark.h>

#include "tap.h"

#define THREADS 4

/* What a child's threads count before they are killed. */
struct progress {
    _Atomic uint64_t allocs[THREADS]; /* calls that have returned */
    _Atomic uint64_t frees[THREADS];
    _Atomic int ready;
};

struct worker {
    struct progress *progress;
    struct tide_resource *stack;
    unsigned index;
    uint64_t random;
};

static uint64_t
next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The size of an allocation, which identifies it: number * THREADS + thread + 1. */
static uint64_t
size_of(uint64_t number, unsigned thread)
{
    return number * THREADS + thread + 1;
}

/* Keep up to 64 blocks, and free the oldest or the newest first. */
static void *
work(void *argument)
{
    struct worker *worker = argument;
    struct progress *progress = worker->progress;
    struct {
        void *pointer;
        uint64_t size;
    } held[64];
    unsigned count = 0;

    for (uint64_t number = 0;; number++) {
        uint64_t size = size_of(number, worker->index);

        if (tide_allocate(worker->stack, size, 256, worker->index, &held[count].pointer) != TIDE_OK)
            abort();
        held[count++].size = size;
        atomic_fetch_add_explicit(&progress->allocs[worker->index], 1, memory_order_release);
        while (count == 64 || (count > 0 && next_random(&worker->random) % 2 == 0)) {
            unsigned victim = (unsigned)(next_random(&worker->random) % count);

            if (tide_deallocate(worker->stack, held[victim].pointer, held[victim].size, 256, worker->index) != TIDE_OK)
                abort();
            held[victim] = held[--count];
            atomic_fetch_add_explicit(&progress->frees[worker->index], 1, memory_order_release);
        }
        if (next_random(&worker->random) % 4096 == 0)
            usleep(500);
    }
    return NULL;
}

static _Noreturn void
child(const char *path, const char *options, struct progress *progress, uint64_t seed)
{
    struct worker workers[THREADS];
    struct tide_resource *stack;
    pthread_t thread;
    char text[512];

    snprintf(text, sizeof(text), "log(%s, overwrite=true%s) | sim", path, options);
    if (tide_stack_parse(text, &stack) != TIDE_OK) {
        fprintf(stderr, "# %s\n", tide_error_text());
        _exit(9);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ progress, stack, i, seed * 2654435761u + i + 1 };
        pthread_create(&thread, NULL, work, &workers[i]);
    }
    atomic_store(&progress->ready, 1);
    for (;;)
        pause();
}

/* The single number that a query returns; -1 if it fails. */
static int64_t
number_of(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    int64_t value = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        diag("%s: %s", sql, sqlite3_errmsg(db));
        return -1;
    }
    if (sqlite3_step(statement) == SQLITE_ROW)
        value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

/* Check everything that must hold for one trace, and print what does not. */
static bool
check(const char *path, const struct progress *progress)
{
    bool good = true;
    sqlite3 *db;
    char sql[512];

    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        diag("%s", sqlite3_errmsg(db));
        return false;
    }
    for (unsigned i = 0; i < THREADS && good; i++) {
        int64_t allocs = (int64_t)atomic_load(&progress->allocs[i]), frees = (int64_t)atomic_load(&progress->frees[i]);
        int64_t seen, seen_frees, out_of_order;

        snprintf(sql, sizeof(sql), "SELECT count(*) FROM allocation WHERE (size - 1) %% %d = %u", THREADS, i);
        seen = number_of(db, sql);
        snprintf(sql, sizeof(sql), "SELECT count(free_ns) FROM allocation WHERE (size - 1) %% %d = %u", THREADS, i);
        seen_frees = number_of(db, sql);
        /* In order, each once: the nth row of a thread has the nth size. */
        snprintf(
            sql, sizeof(sql),
            "SELECT count(*) FROM (SELECT size, (row_number() OVER (ORDER BY allocation_id) - 1) * %d + %u + 1 AS due"
            " FROM allocation WHERE (size - 1) %% %d = %u) WHERE size <> due",
            THREADS, i, THREADS, i);
        out_of_order = number_of(db, sql);
        /* At most one call was under way at the kill. */
        if (seen < allocs || seen > allocs + 1 || seen_frees < frees || seen_frees > frees + 1 || out_of_order != 0) {
            diag("thread %u: %" PRId64 " allocations counted, %" PRId64 " in the trace; %" PRId64 " frees, %" PRId64
                 "; %" PRId64 " out of order",
                 i, allocs, seen, frees, seen_frees, out_of_order);
            good = false;
        }
    }
    good = good && number_of(db, "SELECT count(*) FROM unmatched_free") == 0;
    good = good && number_of(db, "SELECT count(*) FROM loss") == 0;
    good = good && number_of(db, "SELECT value FROM meta WHERE key = 'complete'") == 1;
    good = good && number_of(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'") == 1;
    good =
        good && number_of(db, "SELECT count(*) FROM (SELECT alloc_ns < lag(alloc_ns) OVER (ORDER BY allocation_id) AS"
                              " back FROM allocation) WHERE back") == 0;
    good = good && number_of(db, "SELECT count(*) FROM allocation WHERE free_ns < alloc_ns") == 0;
    sqlite3_close(db);
    return good;
}

/* Recover in a child that is killed as well, a few times at random moments. Returns how many kills hit. */
static int
killed_recovery(const char *path, uint64_t *random)
{
    int hits = 0;

    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };

            _exit(tide_trace_recover(path, &recovery) != TIDE_OK);
        }
        usleep((useconds_t)(next_random(random) % 15000));
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        hits += WIFSIGNALED(status);
    }
    return hits;
}

/* Run one child, and kill it. */
static bool
round_of(const char *path, const char *options, struct progress *progress, uint64_t *random, bool kill_recovery,
         uint64_t *events, int *recovery_kills)
{
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    pid_t pid;
    int status;

    memset(progress, 0, sizeof(*progress));
    pid = fork();
    if (pid == 0)
        child(path, options, progress, next_random(random));
    while (!atomic_load(&progress->ready) && waitpid(pid, &status, WNOHANG) == 0)
        usleep(200);
    usleep((useconds_t)(next_random(random) % 60000));
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status)) {
        diag("the child ended by itself");
        return false;
    }
    if (kill_recovery)
        *recovery_kills += killed_recovery(path, random);
    if (tide_trace_recover(path, &recovery) != TIDE_OK) {
        diag("recovery: %s", tide_error_text());
        return false;
    }
    *events += recovery.events;
    return check(path, progress);
}

#define FORMS 4

/* The form that TORTURE_FORM names; 0: all. */
static unsigned
form_wanted(void)
{
    const char *text = getenv("TORTURE_FORM");
    unsigned form = text != NULL ? (unsigned)atoi(text) : 0;

    if (text == NULL || (form >= 1 && form <= FORMS))
        return form;
    printf("Bail out! TORTURE_FORM is a number from 1 to %d, not \"%s\"\n", FORMS, text);
    exit(2);
}

int
main(void)
{
    const char *kills_text = getenv("TORTURE_KILLS"), *seed_text = getenv("TORTURE_SEED");
    int kills = kills_text != NULL ? atoi(kills_text) : 12;
    unsigned wanted = form_wanted();
    uint64_t seed = seed_text != NULL ? strtoull(seed_text, NULL, 10) : (uint64_t)time(NULL) * 1000 + 1;
    uint64_t random = seed | 1, events = 0;
    struct progress *progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct {
        const char *options, *name;
        bool kill_recovery;
    } forms[FORMS] = {
        { "", "after kills at random moments every counted event is in the trace, once and in order", false },
        { ", ring=4KiB, backlog=2MiB", "the same with rings of 64 records, which fill", false },
        { ", clock=monotonic", "the same with CLOCK_MONOTONIC", false },
        { "", "the same with the recovery killed", true },
    };
    char directory[] = "torture-XXXXXX", path[64];
    int recovery_kills = 0;

    plan(wanted == 0 ? FORMS : 1);
    diag("seed %" PRIu64 ", %d kills each", seed, kills);
    if (mkdtemp(directory) == NULL)
        return 2;
    snprintf(path, sizeof(path), "%s/t.db", directory);
    for (size_t form = 0; form < FORMS; form++) {
        int failed = 0, done_kills = 0;

        if (wanted != 0 && form + 1 != wanted)
            continue;
        for (; done_kills < kills && failed < 3; done_kills++) {
            failed += !round_of(path, forms[form].options, progress, &random, forms[form].kill_recovery, &events,
                                &recovery_kills);
            if (done_kills % 100 == 99)
                diag("form %zu: %d kills, %d failed, %" PRIu64 " events recovered", form + 1, done_kills + 1, failed,
                     events);
        }
        ok(failed == 0, "%s", forms[form].name);
    }
    diag("%" PRIu64 " events recovered, %d recoveries killed", events, recovery_kills);
    if (tap.failed == 0) {
        unlink(path);
        rmdir(directory);
    }
    return done();
}
