/*
 * Tests the end of a program whose trace is open: what threads allocate after exit() has begun is recorded or counted,
 * and a program whose main thread ends with pthread_exit ends once its other threads have.
 */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "src/sync/testpoint.h"
#include "tap.h"
#include "trace.h"

#define THREADS 3

/* What the child's calls have returned, in memory that it shares with the parent: each thread writes its own. */
struct journal {
    _Atomic uint64_t allocs[THREADS + 1];
    _Atomic uint64_t frees[THREADS + 1];
    _Atomic uint64_t ended_by; /* handlers at exit that ran */
};

static struct journal *journal;
static struct tide_resource *stack;
static _Atomic bool go, begun_late;
static void (*last_act)(void); /* of a child: after the library's own end */

static void
nap(long ns)
{
    const struct timespec pause = { 0, ns };

    nanosleep(&pause, NULL);
}

static void
count(_Atomic uint64_t *counter)
{
    atomic_store(counter, atomic_load(counter) + 1);
}

static void
call(unsigned thread)
{
    void *pointer;

    if (tide_allocate(stack, 64, 256, 0, &pointer) != TIDE_OK)
        abort();
    count(&journal->allocs[thread]);
    if (tide_deallocate(stack, pointer, 64, 256, 0) != TIDE_OK)
        abort();
    count(&journal->frees[thread]);
}

static void *
busy(void *argument)
{
    for (;;)
        call((unsigned)(uintptr_t)argument);
    return NULL;
}

/* One pair, and then nothing. */
static void *
idle(void *argument)
{
    call((unsigned)(uintptr_t)argument);
    for (;;)
        pause();
    return NULL;
}

/* Nothing until the recording has ended. */
static void *
late(void *argument)
{
    while (!atomic_load(&go))
        nap(1000000);
    atomic_store(&begun_late, true);
    for (int i = 0; i < 100; i++)
        call((unsigned)(uintptr_t)argument);
    for (;;)
        pause();
    return NULL;
}

static void
start(void *(*function)(void *), unsigned thread)
{
    pthread_t id;

    if (pthread_create(&id, NULL, function, (void *)(uintptr_t)thread) != 0)
        abort();
}

/* After the destructors of the library, which have a later priority number and so run before. */
__attribute__((destructor(101))) static void
after_all(void)
{
    if (last_act != NULL)
        last_act();
}

static void
let_them_run(void)
{
    atomic_store(&go, true);
    nap(30000000);
}

static void
call_last(void)
{
    for (int i = 0; i < 50; i++)
        call(0);
}

static void
call_and_run(void)
{
    call_last();
    let_them_run();
}

/* Make the stack, start the threads, record a while; then the ways of ending. */
struct program {
    const char *text, *path;
    void *(*thread)(void *);
    void (*end)(void);
    void (*last_act)(void);
};

static int
program_child(void *argument)
{
    const struct program *program = argument;

    last_act = program->last_act;
    stack = stack_of(program->text, program->path);
    for (unsigned i = 1; program->thread != NULL && i <= THREADS; i++)
        start(program->thread, i);
    for (int i = 0; i < 1000; i++)
        call(0);
    nap(20000000);
    program->end();
    return 1;
}

static uint64_t
sum(_Atomic uint64_t *counters)
{
    uint64_t all = 0;

    for (unsigned i = 0; i <= THREADS; i++)
        all += atomic_load(&counters[i]);
    return all;
}

/* A child that does not end is killed after a minute: no other signal may reach it. */
static bool
run(const struct program *program)
{
    int status = -1;
    pid_t child;

    memset(journal, 0, sizeof(*journal));
    fflush(stdout);
    child = fork();
    if (child == 0)
        _exit(program_child((void *)program));
    for (int i = 0; i < 6000 && waitpid(child, &status, WNOHANG) == 0; i++) {
        nap(10000000);
        if (i == 5990)
            kill(child, SIGKILL);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    diag("the program ended with %#x", status);
    return false;
}

/*
 * Whether as many events are in the trace or in its table loss as calls have returned, or were under way. A life
 * without the thread of its free was ended by the next one at its address: its free is one of those that are lost.
 */
static bool
accounts(const char *path, bool is_free, uint64_t returned)
{
    const char *column = is_free ? "free_thread_id" : "alloc_ns";
    int64_t rows = sql_number(path, "SELECT count(%s) FROM allocation", column);
    int64_t lost = sql_number(path, "SELECT ifnull(sum(events), 0) FROM loss WHERE reason LIKE '%%%s%%'",
                              is_free ? "free" : "allocation");

    if (rows + lost >= (int64_t)returned && rows + lost <= (int64_t)returned + THREADS)
        return true;
    diag("%s: %lld rows and %lld lost for %llu calls that returned", column, (long long)rows, (long long)lost,
         (unsigned long long)returned);
    return false;
}

/* What a thread drops in the stack's own name leaves the trace complete. */
static bool
is_consistent(const char *path)
{
    int64_t complete = sql_number(path, "SELECT value FROM meta WHERE key = 'complete'");
    int64_t lost = sql_number(path, "SELECT ifnull(sum(events), 0) FROM loss WHERE reason LIKE '%%ended'");
    int64_t reasons = sql_number(path, "SELECT count(*) FROM meta WHERE key = 'failure'");

    if (complete == (lost == 0) && reasons == (lost != 0))
        return true;
    diag("complete %lld with %lld lost, %lld reasons", (long long)complete, (long long)lost, (long long)reasons);
    return false;
}

/* Where a free was lost, the address may come back. */
static bool
is_sound(const char *path)
{
    return sql_number(path, "SELECT count(*) FROM loss") != 0 || trace_is_sound(path);
}

static bool
recover(const char *path)
{
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };

    if (tide_trace_recover(path, &found) == TIDE_OK)
        return true;
    diag("%s", tide_error_text());
    return false;
}

static bool
all_counted(const char *path)
{
    bool taken = recover(path);

    return all_of(taken, accounts(path, false, sum(journal->allocs)), accounts(path, true, sum(journal->frees)),
                  is_consistent(path), is_sound(path));
}

static void
exit_now(void)
{
    exit(0);
}

static void
quick_exit_now(void)
{
    quick_exit(0);
}

static void
underscore_exit(void)
{
    _exit(0);
}

static void
at_exit(void)
{
    call_and_run();
    count(&journal->ended_by);
}

static void
exit_with_handler(void)
{
    atexit(at_exit);
    exit(0);
}

/* What it allocates last it keeps. */
static void
keep_and_exit(void)
{
    void *pointer;

    tide_allocate(stack, 12345, 256, 0, &pointer);
    exit(0);
}

static const char *
meta(const char *path, const char *key)
{
    return sql_text(path, "SELECT value FROM meta WHERE key = '%s'", key);
}

static void
test_busy(void)
{
    static const struct {
        const char *name, *text, *ended;
        void (*end)(void), (*last_act)(void);
    } ways[] = {
        { "exit()", "log(%s) | sim", "exit", exit_now, let_them_run },
        { "exit() with a handler that allocates", "log(%s) | sim", "exit", exit_with_handler, NULL },
        { "exit() and destructors that allocate after it", "log(%s) | sim", "exit", exit_with_handler, call_and_run },
        { "exit() with small rings", "log(%s, ring=4KiB) | sim", "exit", exit_now, let_them_run },
        { "exit() with rings that drop", "log(%s, ring=4KiB, overflow=drop) | sim", "exit", exit_now, let_them_run },
        { "quick_exit()", "log(%s) | sim", "recovered", quick_exit_now, NULL },
        { "_exit()", "log(%s) | sim", "recovered", underscore_exit, NULL },
    };

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const char *path = scratch("busy-%zu.db", i);
        const struct program program = { ways[i].text, path, busy, ways[i].end, ways[i].last_act };
        bool ran = run(&program);

        ok(all_of(ran, all_counted(path), strcmp(meta(path, "ended"), ways[i].ended) == 0,
                  scratch_count(strrchr(path, '/') + 1) == 1),
           "each call that returned before %s ended the program is in the trace or counted as lost", ways[i].name);
    }
}

/* Threads that have recorded, and do nothing while the process exits. */
static void
test_idle(void)
{
    const char *path = scratch("idle.db");
    const struct program program = { "log(%s, overwrite=true) | sim", path, idle, exit_now, NULL };

    ok(all_of(run(&program), strcmp(meta(path, "complete"), "1") == 0, strcmp(meta(path, "ended"), "exit") == 0,
              scratch_count("idle.db") == 2),
       "the trace of a program whose other threads do nothing at exit() is complete when it has ended");
    ok(all_of(run(&program), strcmp(meta(path, "complete"), "1") == 0),
       "a program that is run again replaces the trace that it left with other threads at exit()");
    ok(all_of(all_counted(path), strcmp(meta(path, "complete"), "1") == 0, scratch_count("idle.db") == 1),
       "the next command makes that trace one file, and it is still complete");
}

/* Where no other thread has a ring the trace is complete at exit(), and what comes yet begins a new ring file. */
static void
test_late(void)
{
    const char *path = scratch("late.db");
    const struct program program = { "log(%s) | sim", path, late, exit_now, let_them_run };
    const char *alone = scratch("alone.db");
    const struct program lone = { "log(%s) | sim", alone, NULL, exit_now, call_last };
    const char *quiet = scratch("none.db");
    const struct program none = { "log(%s) | sim", quiet, NULL, exit_now, NULL };
    const char *kept = scratch("kept.db");
    const struct program keeps = { "log(%s) | sim", kept, NULL, keep_and_exit, NULL };

    ok(all_of(run(&program), all_counted(path), sum(journal->allocs) == 1000 + THREADS * 100,
              sql_number(path, "SELECT count(*) FROM allocation") == 1000 + THREADS * 100),
       "threads that allocate for the first time after the recording has ended at exit() are recorded");
    ok(all_of(run(&lone), all_counted(alone), sum(journal->allocs) == 1050,
              sql_number(alone, "SELECT count(*) FROM allocation") == 1050, strcmp(meta(alone, "ended"), "exit") == 0),
       "a destructor that allocates after the recording has ended at exit() is recorded");
    ok(all_of(run(&none), scratch_count("none.db") == 1, strcmp(meta(quiet, "complete"), "1") == 0),
       "a program with one thread leaves one file at exit()");
    ok(all_of(run(&keeps), sql_number(kept, "SELECT used_bytes FROM pool_sample ORDER BY rowid DESC LIMIT 1") == 12345),
       "the last figures of a base on no device are those at exit(), too");
}

static void
note_end(void)
{
    count(&journal->ended_by);
}

/* Begins to allocate when the main thread has ended, and ends. */
static void *
outlives(void *argument)
{
    nap(50000000);
    for (int i = 0; i < 100; i++)
        call((unsigned)(uintptr_t)argument);
    return NULL;
}

static void
leave_main(void)
{
    const char *second = scratch("main-2.db");

    atexit(note_end);
    if (stack_of("log(%s) | sim", second) == NULL)
        abort();
    pthread_exit(NULL);
}

static void
test_pthread_exit(void)
{
    const char *path = scratch("main.db");
    const struct program program = { "log(%s) | sim", path, outlives, leave_main, NULL };

    ok(run(&program), "a program whose main thread ends with pthread_exit ends once its other threads have");
    is_u64(atomic_load(&journal->ended_by), 1, "its handlers at exit run then");
    ok(all_of(scratch_count("main.db") == 1, all_counted(path), strcmp(meta(path, "ended"), "exit") == 0,
              strcmp(meta(path, "complete"), "1") == 0,
              sql_number(path, "SELECT count(*) FROM allocation") == 1000 + THREADS * 100),
       "the trace of a program that ends with pthread_exit is one file and has every event");
    is_u64(scratch_count("main-2.db"), 1, "so is its second trace");
}

/* The number behind `key` in the status of each thread of the library whose name is `name`; the sum. -1: no thread. */
static long
of_threads(const char *name, const char *key)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    long all = -1;

    while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
        char path[300], line[256], comm[64] = "";
        long value = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            sscanf(line, "Name: %63s", comm);
            if (strncmp(line, key, strlen(key)) == 0)
                value = strtol(line + strlen(key) + 1, NULL, 10);
        }
        if (file != NULL)
            fclose(file);
        if (strcmp(comm, name) == 0)
            all = (all < 0 ? 0 : all) + value;
    }
    if (tasks != NULL)
        closedir(tasks);
    return all;
}

static void
test_rest(void)
{
    long before, after;

    memset(journal, 0, sizeof(*journal));
    stack = stack_of("log(%s) | sim", scratch("rest.db"));
    call(0);
    for (int i = 0; i < 2000 && of_threads("tidemark-writer", "Pid:") < 0; i++)
        nap(1000000); /* it gives itself the name when it first runs */
    ok(of_threads("tidemark-writer", "Pid:") > 0, "the writer's thread has a name of its own");
    nap(999999999);
    nap(999999999);
    before = of_threads("tidemark-writer", "voluntary_ctxt_switches:");
    for (int i = 0; i < 3; i++)
        nap(999999999);
    after = of_threads("tidemark-writer", "voluntary_ctxt_switches:");
    diag("%ld wake-ups in 3 s", after - before);
    ok(all_of(before >= 0, after - before <= 40),
       "where nothing is recorded, the writer wakes about 10 times a second");
    tide_resource_release(stack);
}

static _Atomic int handled;

static void
handle(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
}

static void
test_signals(void)
{
    const struct timespec second = { 1, 0 };
    struct sigaction action = { .sa_handler = handle }, former;
    sigset_t mask, before;

    stack = stack_of("log(%s) | sim", scratch("signals.db"));
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    pthread_sigmask(SIG_BLOCK, &mask, &before);
    sigaction(SIGTERM, &action, &former);
    kill(getpid(), SIGTERM);
    nap(20000000);
    ok(all_of(atomic_load(&handled) == 0, sigtimedwait(&mask, NULL, &second) == SIGTERM),
       "a signal that the program's threads block waits for them, and no thread of the library takes it");
    sigaction(SIGTERM, &former, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    tide_resource_release(stack);
}

int
main(void)
{
    plan(7 + 3 + 4 + 4 + 2 + 1);
    journal = mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    test_busy();
    test_idle();
    test_late();
    test_pthread_exit();
    test_rest();
    test_signals();
    return done();
}
