/*
 * Kills a process with SIGKILL at each labelled moment of the recorder and of the recovery. No call that had returned
 * is missing from the trace, and none is there twice.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "point.h"
#include "sanitized.h"
#include "tap.h"
#include "trace.h"

#define THREADS 2
#define CALLS   1500

#define RANDOM_KILLS FEWER(300, 60)

/* The calls that have returned, in memory that outlives the child. */
struct progress {
    _Atomic uint64_t allocs[THREADS], frees[THREADS];
};

static struct progress *progress;

struct child {
    const char *path;
    const char *label; /* the label at which the child is killed; NULL: nowhere */
    unsigned nth;
};

struct worker {
    struct tide_resource *stack;
    unsigned index;
};

/* The size of each allocation is its number. Each is freed but every tenth. */
static void *
work(void *argument)
{
    struct worker *worker = argument;

    for (uint64_t i = 0; i < CALLS; i++) {
        size_t size = i * THREADS + worker->index + 1;
        void *pointer = take(worker->stack, size);

        atomic_fetch_add(&progress->allocs[worker->index], 1);
        if (i % 10 == 0)
            continue;
        give(worker->stack, pointer, size);
        atomic_fetch_add(&progress->frees[worker->index], 1);
        if (i % 250 == 249 && worker->index == 0)
            tide_log_flush(worker->stack);
    }
    return NULL;
}

static int
record(void *argument)
{
    const struct child *child = argument;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    struct tide_resource *stack;

    if (child->label != NULL)
        point_kill(child->label, child->nth);
    stack = stack_of("log(%s, ring=8KiB, backlog=1MiB, overwrite=true) | sim", child->path);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ stack, i };
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tide_resource_release(stack);
    return 0;
}

static int
recover(void *argument)
{
    const struct child *child = argument;
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };

    if (child->label != NULL)
        point_kill(child->label, child->nth);
    return tide_trace_recover(child->path, &recovery) != TIDE_OK;
}

/* Whether the trace has every counted call, and at most one more of each thread, each once and in order. */
static bool
holds_all(const char *path)
{
    bool good = trace_is_whole(path);

    for (unsigned i = 0; i < THREADS && good; i++) {
        int64_t allocs = (int64_t)atomic_load(&progress->allocs[i]), frees = (int64_t)atomic_load(&progress->frees[i]);
        int64_t seen = sql_number(path, "SELECT count(*) FROM allocation WHERE (size - 1) %% %d = %u", THREADS, i);
        int64_t freed =
            sql_number(path, "SELECT count(free_ns) FROM allocation WHERE (size - 1) %% %d = %u", THREADS, i);
        int64_t odd = sql_number(path,
                                 "SELECT count(*) FROM (SELECT size, (row_number() OVER (ORDER BY allocation_id) - 1) *"
                                 " %d + %u + 1 AS due FROM allocation WHERE (size - 1) %% %d = %u) WHERE size <> due",
                                 THREADS, i, THREADS, i);

        if (seen < allocs || seen > allocs + 1 || freed < frees || freed > frees + 1 || odd != 0) {
            diag("thread %u: %" PRId64 " allocations, %" PRId64 " counted; %" PRId64 " frees, %" PRId64
                 " counted; %" PRId64 " out of order",
                 i, seen, allocs, freed, frees, odd);
            good = false;
        }
    }
    return good;
}

/* Allocations that all stay live, without an end. The size of each is its number. */
static int
record_live(void *argument)
{
    const struct child *child = argument;
    struct tide_resource *stack;

    point_kill(child->label, child->nth);
    stack = stack_of("log(%s, ring=64KiB, backlog=4MiB) | sim", child->path);
    for (uint64_t i = 1;; i++) {
        take(stack, i);
        atomic_store(&progress->allocs[0], i);
    }
    return 0;
}

static const char *
name_of(void)
{
    static unsigned number;

    return scratch("t%u.db", number++);
}

static bool
was_killed(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void
test_recorder(const char *label)
{
    static const unsigned nths[] = { 1, 2, 3, 7, 20 };
    unsigned hits = 0, bad = 0;

    for (size_t i = 0; i < sizeof(nths) / sizeof(nths[0]); i++) {
        struct child child = { name_of(), label, nths[i] };
        struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
        int status;

        memset(progress, 0, sizeof(*progress));
        status = in_child(record, &child);
        hits += was_killed(status);
        if (tide_trace_recover(child.path, &recovery) != TIDE_OK) {
            diag("%s", tide_error_text());
            bad++;
        }
        if (strcmp(label, "writer.before-unlink") == 0 && was_killed(status) &&
            strcmp(sql_text(child.path, "SELECT value FROM meta WHERE key = 'ended'"), "closed") != 0) {
            diag("what was closed was recovered");
            bad++;
        }
        if (!holds_all(child.path)) {
            diag("killed for the %uth time at %s", nths[i], label);
            bad++;
        }
    }
    ok(all_of(bad == 0, hits > 0), "killed at %s, %u times: every event is in the trace once", label, hits);
}

/* Whether there is no trace at `path`, or one that opens, and that has everything where it is recovered. */
static bool
is_nothing_or_opens(const char *path, bool *there)
{
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };

    *there = access(path, F_OK) == 0;
    if (*there && sql_number(path, "SELECT value FROM meta WHERE key = 'format_version'") != 1)
        return false;
    if (tide_trace_recover(path, &recovery) != TIDE_OK) {
        diag("%s", tide_error_text());
        return false;
    }
    return !*there || (trace_is_whole(path) && sql_text(path, "SELECT value FROM meta WHERE key = 'ended'")[0] != '\0');
}

/* The number of files of the trace: 1 where nothing is left beside it. */
static unsigned
files_of(const char *path)
{
    return scratch_count(strrchr(path, '/') + 1);
}

/*
 * A process killed while it makes the files leaves nothing to recover, and nothing that hinders the next process.
 * `before`: there is a trace that it was to replace; `look`: somebody recovers what it has left.
 */
static bool
test_creation_once(const char *label, bool before, bool look)
{
    struct child child = { name_of(), NULL, 1 };
    bool good = true, there = before;
    int status;

    if (before)
        good = in_child(record, &child) == 0;
    child.label = label;
    status = in_child(record, &child);
    good &= was_killed(status);
    if (look)
        good &= is_nothing_or_opens(child.path, &there);
    good &= there || !before;
    memset(progress, 0, sizeof(*progress));
    child.label = NULL;
    status = in_child(record, &child);
    good &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    good &= holds_all(child.path) && files_of(child.path) == 1;
    if (!good)
        diag("status 0x%x, a trace before: %d, recovered: %d, files: %u; %s", status, before, look,
             files_of(child.path), tide_error_text());
    return good;
}

static void
test_creation(const char *label)
{
    bool good = true;

    for (unsigned i = 0; i < 4; i++)
        good &= test_creation_once(label, i & 1, i & 2);
    ok(good, "killed at %s: there is no trace or a whole one, and the next recording leaves its trace alone", label);
}

static void
create_and_end(const char *path)
{
    struct tide_resource *stack = stack_of("log(%s, ring=4KiB, backlog=1MiB, overwrite=true) | sim", path);

    give(stack, take(stack, 100), 100);
    tide_resource_release(stack);
}

/* Make a trace of two events again and again, until this process is killed. */
static int
create_again(void *argument)
{
    for (;;)
        create_and_end(argument);
    return 0;
}

static void
test_random_moments(void)
{
    const char *path = name_of();
    uint64_t state = random_seed("KILL_SEED");
    unsigned bad = 0, lost = 0;

    for (unsigned i = 0; i < RANDOM_KILLS; i++) {
        const struct timespec pause = { 0, (long)(next_random(&state) % 20000000) };
        struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
        bool before = access(path, F_OK) == 0, there;
        pid_t pid = fork();

        if (pid == 0)
            _exit(create_again((void *)path));
        nanosleep(&pause, NULL);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        /* As each command does first: it may have been killed with a record, which is not replaced. */
        if (access(path, F_OK) == 0)
            tide_trace_recover(path, &recovery);
        if (!is_nothing_or_opens(path, &there)) {
            diag("killed after %ld ns", pause.tv_nsec);
            bad++;
        }
        lost += before && !there;
        if (next_random(&state) % 3 == 0)
            unlink(path);
    }
    is_u64(bad, 0, "killed at a random moment, a program leaves no trace, or a whole one");
    is_u64(lost, 0, "killed at a random moment while it replaces a trace, a program leaves one of both");
    unlink(path);
    create_and_end(path);
    is_u64(files_of(path), 1, "what killed programs have left of the creation goes with the next one");
}

static void
test_recovery(const char *label)
{
    static const unsigned nths[] = { 1, 1, 2, 2, 3, 3 };
    unsigned hits = 0, bad = 0;

    for (size_t i = 0; i < sizeof(nths) / sizeof(nths[0]); i++) {
        /* One child leaves rings with records, the other a buffer that was not written. */
        struct child child = { name_of(), i % 2 == 0 ? "merge.before-publish" : "writer.before-write", 3 };
        struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };

        memset(progress, 0, sizeof(*progress));
        if (!was_killed(in_child(record, &child)))
            diag("the recorder was not killed");
        child.label = label;
        child.nth = nths[i];
        /* Recover twice, the second time with what the first recovery has left. */
        hits += was_killed(in_child(recover, &child));
        hits += was_killed(in_child(recover, &child));
        if (tide_trace_recover(child.path, &recovery) != TIDE_OK) {
            diag("%s", tide_error_text());
            bad++;
        }
        if (!holds_all(child.path)) {
            diag("recovery killed for the %uth time at %s", nths[i], label);
            bad++;
        }
    }
    ok(all_of(bad == 0, hits > 0), "recovery killed at %s, %u times: every event is in the trace once", label, hits);
}

/* A recovery loads what is live. That takes so long that a recorder would look after its rings meanwhile. */
static void
test_many_live(const char *label)
{
    static const unsigned nths[] = { 1, 2, 3, 5, 8, 13 };
    unsigned bad = 0, killed = 0;

    for (size_t i = 0; i < sizeof(nths) / sizeof(nths[0]); i++) {
        struct child child = { name_of(), label, nths[i] };
        struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
        int64_t allocs, seen;

        memset(progress, 0, sizeof(*progress));
        killed += was_killed(in_child(record_live, &child));
        if (tide_trace_recover(child.path, &recovery) != TIDE_OK)
            diag("%s", tide_error_text());
        allocs = (int64_t)atomic_load(&progress->allocs[0]);
        seen = sql_number(child.path, "SELECT count(*) FROM allocation");
        if (seen >= allocs && seen <= allocs + 1 && trace_is_whole(child.path) &&
            sql_number(child.path, "SELECT max(size) FROM allocation") == seen)
            continue;
        diag("killed for the %uth time: %" PRId64 " of %" PRId64 " allocations", nths[i], seen, allocs);
        bad++;
    }
    ok(all_of(bad == 0, killed == sizeof(nths) / sizeof(nths[0])),
       "killed at %s with many live allocations: every event is in the trace once", label);
}

int
main(void)
{
    static const char *const recorder[] = {
        "producer.open",          "producer.before-publish", "producer.before-close",  "merge.look",
        "merge.before-publish",   "merge.between",           "merge.after-publish",    "merge.before-seal",
        "merge.after-seal",       "writer.before-write",     "database.before-commit", "writer.after-write",
        "writer.before-complete", "writer.before-unlink",    "writer.after-unlink",    "writer.before-finish",
    };
    static const char *const creation[] = { "create.ring-file", "create.database", "create.meta", "create.born",
                                            "create.ready",     "create.taken",    "create.put",  "create.writer" };
    static const char *const recovery[] = {
        "recover.opened",         "recover.loaded",      "merge.before-publish", "merge.between",
        "merge.after-publish",    "merge.before-seal",   "merge.after-seal",     "writer.before-write",
        "database.before-commit", "writer.after-write",  "recover.before-stop",  "writer.before-complete",
        "writer.before-unlink",   "writer.after-unlink", "writer.before-finish",
    };

    plan(sizeof(recorder) / sizeof(recorder[0]) + sizeof(creation) / sizeof(creation[0]) +
         sizeof(recovery) / sizeof(recovery[0]) + 5);
    progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < sizeof(recorder) / sizeof(recorder[0]); i++)
        test_recorder(recorder[i]);
    for (size_t i = 0; i < sizeof(creation) / sizeof(creation[0]); i++)
        test_creation(creation[i]);
    test_random_moments();
    for (size_t i = 0; i < sizeof(recovery) / sizeof(recovery[0]); i++)
        test_recovery(recovery[i]);
    test_many_live("writer.before-write");
    test_many_live("writer.after-write");
    return done();
}
