/*
 * Tests what a recording does when its mapped files are cut off: the program lives, what is lost is counted, and all
 * other faults go to the program's handler, or end it, as without this library. Each part is a process of its own.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tap.h"
#include "trace.h"

extern char **environ;

#define THREADS     3
#define AFTER       1000 /* pairs after the recording has ended */
#define HANDLER_FOR 4000 /* milliseconds, within which a handler that was installed later is noticed */

/* Have another process set the size of a file. */
static void
cut(const char *path, const char *size)
{
    char *const arguments[] = { "truncate", "-c", "-s", (char *)size, (char *)path, NULL };
    pid_t child;
    int status;

    if (posix_spawnp(&child, "truncate", NULL, NULL, arguments, environ) != 0 || waitpid(child, &status, 0) != child ||
        status != 0)
        _exit(90);
}

/* A program that allocates and frees all the time. */
static _Atomic bool stop;

static void *
work(void *stack)
{
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        for (int i = 0; i < 16; i++)
            give(stack, take(stack, 64), 64);
        usleep(20);
    }
    return NULL;
}

static void
work_begin(pthread_t threads[THREADS], struct tide_resource *stack)
{
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, stack);
    usleep(30000);
}

static void
work_end(const pthread_t threads[THREADS])
{
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void
silence(void *context, enum tide_severity severity, const char *text)
{
    (void)severity, (void)text, (void)context;
}

/* What a part does with its files, and how its stack says it. */
struct part {
    const char *trace;
    const char *options;
    const char *size; /* of the ring file */
    bool long_again;  /* and then as long as it was */
};

/* Record, cut the ring file off, wait for the end of the recording, and make a known number of events more. */
static int
record_and_cut(void *argument)
{
    const struct part *part = argument;
    char rings[512], size[32];
    struct stat info = { 0 };
    pthread_t threads[THREADS];
    struct tide_resource *stack;

    tide_message_sink_set(silence, NULL);
    snprintf(rings, sizeof(rings), "%s-rings", part->trace);
    stack = stack_of("log(%s, ring=64KiB, backlog=2MiB%s) | sim", part->trace, part->options);
    work_begin(threads, stack);
    stat(rings, &info);
    cut(rings, part->size);
    snprintf(size, sizeof(size), "%jd", (intmax_t)info.st_size);
    if (part->long_again)
        cut(rings, size);
    for (int i = 0; i < 2000 && tide_log_flush(stack) == TIDE_OK; i++)
        usleep(1000);
    work_end(threads);
    for (int i = 0; i < AFTER; i++)
        give(stack, take(stack, 64), 64);
    tide_resource_release(stack);
    return access(rings, F_OK) == 0 ? 3 : 0;
}

static bool
exited_well(int status)
{
    if (WIFSIGNALED(status))
        diag("ended by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        diag("exit status %d", WEXITSTATUS(status));
    return status == 0;
}

/* The trace is readable, and says that it is incomplete and why. */
static bool
says_loss(const char *trace)
{
    return all_of(
        trace_is_sound(trace), sql_number(trace, "SELECT value FROM meta WHERE key = 'complete'") == 0,
        sql_number(trace, "SELECT count(*) FROM meta WHERE key = 'failure' AND value LIKE '%%cut it off%%'") == 1,
        sql_number(trace, "SELECT min(events) FROM loss WHERE reason = 'record lost with the ring file'") >= 1,
        sql_number(trace, "SELECT sum(events) FROM loss WHERE reason = 'allocation after the recording"
                          " ended'") >= AFTER,
        sql_number(trace, "SELECT count(*) FROM meta WHERE key = 'ended'") == 1);
}

#define RING_TESTS 10

static void
test_rings(void)
{
    static const struct {
        struct part part;
        const char *what;
    } parts[] = {
        { { "empty.db", "", "0", false }, "is emptied" },
        { { "header.db", "", "4096", false }, "keeps its header page alone" },
        { { "half.db", "", "50%", false }, "is cut off in its middle" },
        { { "again.db", "", "0", true }, "is emptied and made long again" },
        { { "drop.db", ", overflow=drop", "0", false }, "is emptied where threads do not wait" },
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct part part = parts[i].part;
        char trace[256], half[32];

        snprintf(trace, sizeof(trace), "%s", scratch("%s", part.trace));
        snprintf(half, sizeof(half), "%d", 131072 + 1000000);
        part.trace = trace;
        part.size = strchr(part.size, '%') != NULL ? half : part.size;
        ok(exited_well(in_child(record_and_cut, &part)), "the program lives when the ring file of its recording %s",
           parts[i].what);
        ok(says_loss(trace), "the trace says that records are lost with the ring file that %s", parts[i].what);
    }
}

static int
record_and_cut_index(void *argument)
{
    const char *trace = argument;
    char index[512];
    pthread_t threads[THREADS];
    struct tide_resource *stack;
    enum tide_status status = TIDE_OK;

    snprintf(index, sizeof(index), "%s-shm", trace);
    stack = stack_of("log(%s, ring=64KiB, backlog=2MiB) | sim", trace);
    work_begin(threads, stack);
    for (int i = 0; i < 10 && status == TIDE_OK; i++) {
        cut(index, "0");
        usleep(5000);
        status = tide_log_flush(stack);
    }
    work_end(threads);
    tide_resource_release(stack);
    return status != TIDE_OK;
}

/* Have another process count the rows of the trace: this program, by its second argument. */
static int64_t
rows_elsewhere(const char *trace)
{
    char answer[64] = "";
    ssize_t bytes;
    int ends[2];
    pid_t child;

    if (pipe(ends) != 0)
        _exit(90);
    child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "bus-t", trace, (char *)NULL);
        _exit(90);
    }
    close(ends[1]);
    bytes = read(ends[0], answer, sizeof(answer) - 1);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return bytes > 0 ? strtoll(answer, NULL, 10) : -1;
}

static int
print_rows(const char *trace)
{
    sqlite3_stmt *select = NULL;
    sqlite3 *db = NULL;

    if (sqlite3_open_v2(trace, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "SELECT count(*) FROM allocation", -1, &select, NULL) == SQLITE_OK &&
        sqlite3_step(select) == SQLITE_ROW)
        printf("%lld\n", (long long)sqlite3_column_int64(select, 0));
    sqlite3_finalize(select);
    sqlite3_close(db);
    return 0;
}

/* The program reads its own trace, and keeps its connection. What SQLite maps is one for all of a process. */
static int
read_own_and_cut_index(void *argument)
{
    const char *trace = argument;
    char index[512];
    struct tide_resource *stack;
    enum tide_status status;
    sqlite3 *db = NULL;
    int64_t rows = 0;

    tide_message_sink_set(silence, NULL);
    snprintf(index, sizeof(index), "%s-shm", trace);
    stack = stack_of("log(%s) | sim", trace);
    give(stack, take(stack, 64), 64);
    if (tide_log_flush(stack) != TIDE_OK || sqlite3_open(trace, &db) != SQLITE_OK ||
        sqlite3_exec(db, "SELECT count(*) FROM allocation", NULL, NULL, NULL) != SQLITE_OK)
        return 4;
    cut(index, "0");
    for (int turn = 0; turn < 3; turn++) {
        give(stack, take(stack, 64), 64);
        status = tide_log_flush(stack);
        rows = rows_elsewhere(trace);
        if (status == TIDE_OK && rows < turn + 2) {
            diag("%d rows are written, others see %d", turn + 2, (int)rows);
            return 5;
        }
    }
    tide_resource_release(stack);
    sqlite3_close(db);
    return 0;
}

#define INDEX_TESTS 4

static void
test_index(void)
{
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    char trace[256];

    snprintf(trace, sizeof(trace), "%s", scratch("index.db"));
    ok(exited_well(in_child(record_and_cut_index, trace)),
       "a recording goes on when another process cuts off the index of the write-ahead log");
    ok(trace_is_whole(trace), "a recording loses nothing with the index of the write-ahead log");
    snprintf(trace, sizeof(trace), "%s", scratch("own.db"));
    ok(exited_well(in_child(read_own_and_cut_index, trace)),
       "where the program reads its own trace, too, others see what was written, or the recording ends");
    tide_trace_recover(trace, &found);
    ok(all_of(sql_number(trace, "SELECT count(*) FROM allocation") +
                      sql_number(trace, "SELECT total(events) FROM loss WHERE reason LIKE 'allocation%%'") ==
                  4,
              sql_number(trace, "SELECT value FROM meta WHERE key = 'complete'") ==
                  (sql_number(trace, "SELECT count(*) FROM loss") == 0)),
       "where the program reads its own trace, too, nothing is missing that is not counted");
}

/* Read a trace that is being recorded, as the command does, and lose the index meanwhile. */
static int
read_and_cut_index(void *argument)
{
    const char *trace = argument;
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    char index[512];
    struct tide_resource *stack;
    sqlite3 *db = NULL;
    int code = SQLITE_ROW;
    pid_t child;

    snprintf(index, sizeof(index), "%s-shm", trace);
    child = fork();
    if (child == 0) {
        stack = stack_of("log(%s) | sim", trace);
        for (int i = 0; i < 30000; i++)
            give(stack, take(stack, 64), 64);
        tide_log_flush(stack);
        raise(SIGSTOP);
        _exit(0);
    }
    waitpid(child, &code, WUNTRACED);
    if (tide_trace_recover(trace, &found) != TIDE_OK || found.state != TIDE_TRACE_RECORDING)
        return 4;
    code = sqlite3_open_v2(trace, &db, SQLITE_OPEN_READONLY, sqlite3_vfs_find("tidemark") != NULL ? "tidemark" : NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, "BEGIN; SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    cut(index, "0");
    if (code == SQLITE_OK)
        code = (sqlite3_exec(db, "SELECT sum(address) FROM allocation", NULL, NULL, NULL) & 0xff) != SQLITE_IOERR;
    sqlite3_close(db);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return code;
}

#define READER_TESTS 1

static void
test_reader(void)
{
    char trace[256];

    snprintf(trace, sizeof(trace), "%s", scratch("read.db"));
    ok(exited_well(in_child(read_and_cut_index, trace)),
       "a reader whose index is cut off gets an error of SQLite, and lives");
}

/* A mapped file of the program's own that is cut off: an access to it is a fault that is not the library's. */
static volatile char *
own_mapping(const char *name)
{
    char path[256];
    volatile char *memory;
    int file;

    snprintf(path, sizeof(path), "%s", scratch("%s", name));
    file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0)
        _exit(91);
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED || ftruncate(file, 0) != 0)
        _exit(91);
    close(file);
    return memory;
}

static struct {
    sigjmp_buf back;
    volatile sig_atomic_t expected; /* a fault of the program's own */
    volatile sig_atomic_t calls;
    void *volatile address;
    volatile sig_atomic_t usr1_blocked;
    struct sigaction before;
} own;

static void
own_handler(int number, siginfo_t *info, void *context)
{
    sigset_t mask;

    (void)number, (void)context;
    if (!own.expected)
        _exit(92);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    own.calls++;
    own.address = info->si_addr;
    own.usr1_blocked = sigismember(&mask, SIGUSR1);
    siglongjmp(own.back, 1);
}

/* Gives what it does not know to the action that was there when it was installed. */
static void
polite_handler(int number, siginfo_t *info, void *context)
{
    own.calls++;
    if ((own.before.sa_flags & SA_SIGINFO) != 0)
        own.before.sa_sigaction(number, info, context);
    else if (own.before.sa_handler == SIG_DFL)
        signal(number, SIG_DFL);
}

static void
own_install(void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGBUS, &action, &own.before);
}

/* Whether the program's handler is called once for a fault of its own, with the address and the mask. */
static bool
own_fault_is_handled(volatile char *memory)
{
    int before = own.calls;

    own.address = NULL;
    own.expected = 1;
    if (sigsetjmp(own.back, 1) == 0)
        memory[8] = 1;
    own.expected = 0;
    return own.calls == before + 1 && own.address == (void *)(uintptr_t)(memory + 8) && own.usr1_blocked == 1;
}

/* Cut the ring file off, and make events until the recording has ended. */
static bool
survives_cut(struct tide_resource *stack, const char *trace)
{
    char rings[512];

    snprintf(rings, sizeof(rings), "%s-rings", trace);
    cut(rings, "0");
    for (int i = 0; i < 1000; i++)
        give(stack, take(stack, 64), 64);
    return tide_log_flush(stack) != TIDE_OK;
}

static struct tide_resource *
quiet_stack(const char *trace)
{
    tide_message_sink_set(silence, NULL);
    return stack_of("log(%s, ring=64KiB, overwrite=true) | sim", trace);
}

static int
handler_before(void *argument)
{
    volatile char *memory = own_mapping("own-before");
    struct tide_resource *stack;
    bool good;

    own_install(own_handler, 0);
    stack = quiet_stack(argument);
    give(stack, take(stack, 64), 64);
    good = own_fault_is_handled(memory) && own_fault_is_handled(memory);
    good = good && survives_cut(stack, argument) && own_fault_is_handled(memory);
    tide_resource_release(stack);
    return !good;
}

/* Wait until the library has noticed that the program has installed a handler. */
static void
wait_for_look(void)
{
    struct sigaction first, now;

    sigaction(SIGBUS, NULL, &first);
    for (int i = 0; i < HANDLER_FOR; i++) {
        sigaction(SIGBUS, NULL, &now);
        if (now.sa_sigaction != first.sa_sigaction)
            return;
        usleep(1000);
    }
}

static int
handler_after(void *argument)
{
    volatile char *memory = own_mapping("own-after");
    struct tide_resource *stack = quiet_stack(argument);
    bool good;

    give(stack, take(stack, 64), 64);
    own_install(own_handler, 0);
    good = own_fault_is_handled(memory);
    wait_for_look();
    good = good && own_fault_is_handled(memory) && survives_cut(stack, argument) && own_fault_is_handled(memory);
    tide_resource_release(stack);
    return !good;
}

/* Ends by SIGBUS, through the handler, which is called once. */
static int
handler_polite(void *argument)
{
    const struct rlimit none = { 0, 0 };
    volatile char *memory = own_mapping("own-polite");
    struct tide_resource *stack = quiet_stack(argument);

    setrlimit(RLIMIT_CORE, &none);
    give(stack, take(stack, 64), 64);
    own_install(polite_handler, 0);
    wait_for_look();
    own_install(polite_handler, 0);
    wait_for_look();
    if (!survives_cut(stack, argument) || own.calls != 0)
        return 5;
    memory[0] = 1;
    return 6;
}

static int
handler_once(void *argument)
{
    const struct rlimit none = { 0, 0 };
    volatile char *memory = own_mapping("own-once");
    struct tide_resource *stack;

    setrlimit(RLIMIT_CORE, &none);
    own_install(own_handler, (int)SA_RESETHAND);
    stack = quiet_stack(argument);
    give(stack, take(stack, 64), 64);
    if (!own_fault_is_handled(memory))
        return 5;
    memory[0] = 1;
    return 6;
}

/* What a process without a handler does about signals: `action`, then a fault of its own or a signal from outside. */
struct plain {
    char trace[256];
    void (*action)(int);
    bool sent;
};

static int
handler_none(void *argument)
{
    const struct rlimit none = { 0, 0 };
    const struct plain *plain = argument;
    volatile char *memory = own_mapping("own-none");
    struct tide_resource *stack;

    setrlimit(RLIMIT_CORE, &none);
    signal(SIGBUS, plain->action);
    stack = quiet_stack(plain->trace);
    give(stack, take(stack, 64), 64);
    if (plain->sent)
        kill(getpid(), SIGBUS);
    else
        memory[0] = 1;
    tide_resource_release(stack);
    return 0;
}

/* Whether the process died of the fault: a sanitizer has a handler of its own, which prints and exits. */
static bool
died(int status)
{
    if (SANITIZED && WIFEXITED(status))
        return WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 5 && WEXITSTATUS(status) != 6;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
}

static bool
none_ends(const char *name, void (*action)(int), bool sent, bool lives)
{
    struct plain plain = { .action = action, .sent = sent };
    int status;

    snprintf(plain.trace, sizeof(plain.trace), "%s", scratch("%s", name));
    status = in_child(handler_none, &plain);
    return lives ? exited_well(status) : died(status);
}

#define HANDLER_TESTS 8

static void
test_handlers(void)
{
    char trace[256];
    int status;

    snprintf(trace, sizeof(trace), "%s", scratch("handler.db"));
    ok(exited_well(in_child(handler_before, trace)),
       "a handler of the program gets its own faults, with its signal mask, and not those of the recording");
    ok(exited_well(in_child(handler_after, trace)), "so does a handler that the program installs while it records");
    status = in_child(handler_polite, trace);
    ok(died(status), "a handler that calls the one before it ends where it would without a recording");
    status = in_child(handler_once, trace);
    ok(died(status), "a handler for one signal is called for one");
    ok(none_ends("fault.db", SIG_DFL, false, false), "a program without a handler dies of a fault of its own");
    ok(none_ends("ignored.db", SIG_IGN, false, false), "a program that ignores the signal dies of a fault, too");
    ok(none_ends("sent.db", SIG_DFL, true, false), "a program without a handler dies of the signal that is sent");
    ok(none_ends("sent-ignored.db", SIG_IGN, true, true), "a program that ignores the signal lives when it is sent");
}

/* A thread that has a small stack for signals. */
static void *
on_small_stack(void *stack)
{
    stack_t small = { .ss_sp = malloc(32768), .ss_size = 32768 }, before;

    sigaltstack(&small, &before);
    for (int i = 0; i < 1000; i++)
        give(stack, take(stack, 64), 64);
    sigaltstack(&before, NULL); /* AddressSanitizer gives its own back */
    free(small.ss_sp);
    return NULL;
}

static int
small_stack(void *argument)
{
    struct tide_resource *stack = quiet_stack(argument);
    char rings[512];
    pthread_t thread;

    snprintf(rings, sizeof(rings), "%s-rings", (const char *)argument);
    cut(rings, "0");
    pthread_create(&thread, NULL, on_small_stack, stack);
    pthread_join(thread, NULL);
    tide_resource_release(stack);
    return 0;
}

/* The child of a program that records makes a trace of its own, which is cut off; the parent's is not affected. */
static int
forked(void *argument)
{
    char pattern[512], path[512];
    struct tide_resource *stack;
    int status = 1;
    pid_t child;

    tide_message_sink_set(silence, NULL);
    snprintf(pattern, sizeof(pattern), "%s-%%p", (const char *)argument);
    stack = stack_of("log(%s, ring=64KiB) | sim", pattern);
    give(stack, take(stack, 64), 64);
    child = fork();
    if (child == 0) {
        snprintf(path, sizeof(path), "%s-%ld", (const char *)argument, (long)getpid());
        give(stack, take(stack, 64), 64);
        _exit(survives_cut(stack, path) ? 0 : 7);
    }
    waitpid(child, &status, 0);
    give(stack, take(stack, 64), 64);
    tide_resource_release(stack);
    snprintf(path, sizeof(path), "%s-%ld", (const char *)argument, (long)getpid());
    return WIFSIGNALED(status) ? 8 : WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : !trace_is_whole(path);
}

#define THREAD_TESTS 2

static void
test_threads(void)
{
    char trace[256];

    snprintf(trace, sizeof(trace), "%s", scratch("stack.db"));
    ok(exited_well(in_child(small_stack, trace)), "a thread with a small stack for signals survives, too");
    snprintf(trace, sizeof(trace), "%s", scratch("forked"));
    if (CHILDREN_MAY_RECORD)
        ok(exited_well(in_child(forked, trace)),
           "a forked process survives in its own trace, and the parent's is whole");
    else
        skip(1, "ThreadSanitizer supports no such child");
}

int
main(int argc, char **argv)
{
    if (argc == 2)
        return print_rows(argv[1]);
    plan(RING_TESTS + INDEX_TESTS + READER_TESTS + HANDLER_TESTS + THREAD_TESTS);
    test_rings();
    test_index();
    test_reader();
    test_handlers();
    test_threads();
    return done();
}
