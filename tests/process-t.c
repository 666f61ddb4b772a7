/*
 * Tests traces across processes: fork, exec, spawn, crashes, two processes on one path, and recovery while others
 * record.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sanitized.h"
#include "tap.h"
#include "trace.h"

extern char **environ;

static bool
left_well(int status)
{
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        diag("the child ended with status 0x%x", status);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct fork_case {
    struct tide_resource *stack;
    void *block;
};

static int
fork_child(void *argument)
{
    struct fork_case *fork_case = argument;

    tide_tag_push("child");
    give(fork_case->stack, take(fork_case->stack, 100), 100);
    give(fork_case->stack, fork_case->block, 10);
    tide_mark("in the child");
    take(fork_case->stack, 101);
    if (tide_log_flush(fork_case->stack) == TIDE_OK)
        return 1;
    tide_resource_release(fork_case->stack);
    return 0;
}

static void
test_fork(void)
{
    const char *path = scratch("fork.db");
    struct fork_case fork_case = { .stack = stack_of("log(%s) | statistics | log | sim", path) };

    fork_case.block = take(fork_case.stack, 10);
    ok(left_well(in_child(fork_child, &fork_case)), "in a child the stack works without a trace");
    give(fork_case.stack, fork_case.block, 10);
    take(fork_case.stack, 20);
    tide_resource_release(fork_case.stack);
    is_string(sql_text(path, "SELECT group_concat(size || iif(free_ns IS NULL, '', ':1'), ' ') FROM allocation"
                             " WHERE layer_id = 1"),
              "10:1 20", "the parent's trace has none of the child's allocations");
    is_i64(sql_number(path, "SELECT count(*) FROM mark"), 0, "the parent's trace has no mark of the child");
    ok(trace_is_whole(path), "the parent's trace is whole after the fork");
}

static int
own_child(void *argument)
{
    struct fork_case *fork_case = argument;

    tide_tag_push("inner");
    give(fork_case->stack, take(fork_case->stack, 100), 100);
    tide_tag_pop();
    take(fork_case->stack, 200);
    give(fork_case->stack, fork_case->block, 10);
    if (tide_log_flush(fork_case->stack) != TIDE_OK)
        return 1;
    tide_resource_release(fork_case->stack);
    return 0;
}

static void
test_fork_own(void)
{
    char path[256], own[256];
    struct fork_case fork_case;
    int status;
    pid_t pid;

    snprintf(path, sizeof(path), "%s", scratch("own-%ld.db", (long)getpid()));
    tide_tag_push("outer");
    fork_case.stack = stack_of("log(%s) | statistics | log | host", scratch("own-%%p.db"));
    fork_case.block = take(fork_case.stack, 10);
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        _exit(own_child(&fork_case));
    waitpid(pid, &status, 0);
    ok(left_well(status), "a child with %%p in its path records");
    snprintf(own, sizeof(own), "%s", scratch("own-%ld.db", (long)pid));
    give(fork_case.stack, fork_case.block, 10);
    tide_tag_pop();
    tide_resource_release(fork_case.stack);
    is_string(sql_text(path, "SELECT group_concat(size) FROM allocation WHERE layer_id = 1"), "10",
              "with %p the parent's trace has the parent's allocations");
    is_string(sql_text(own, "SELECT group_concat(layer_id || ':' || size, ' ') FROM allocation"),
              "3:100 1:100 3:200 1:200", "with %p the child's trace has the child's allocations, at each log");
    is_string(sql_text(own, "SELECT group_concat(layer_id || kind || ifnull(upstream_layer_id, ''), ' ') FROM layer"),
              "1log2 2statistics3 3log4 4host", "the child's trace has the layers of the stack");
    is_string(sql_text(own, "SELECT value FROM meta WHERE key = 'stack'"),
              sql_text(path, "SELECT value FROM meta WHERE key = 'stack'"),
              "the child's trace has the text of the stack");
    is_string(sql_text(own, "SELECT group_concat(size || ':' || name, ' ') FROM allocation JOIN tag USING (tag_id)"
                            " WHERE layer_id = 1"),
              "100:inner 200:outer", "the child's trace has its tags, also those pushed before the fork");
    is_i64(sql_number(own, "SELECT count(*) FROM unmatched_free WHERE size = 10"), 2,
           "a free of the parent's allocation is an unmatched free at each log of the child");
    is_i64(sql_number(own, "SELECT value FROM meta WHERE key = 'pid'"), pid, "meta.pid is the child's");
    is_i64(sql_number(own, "SELECT os_tid FROM thread"), pid, "the thread of the child's trace is the child's");
    ok(sql_number(own, "SELECT max(used_bytes) FROM pool_sample") >= 200, "the child's trace has pool samples");
    is_i64(sql_number(own, "SELECT value FROM meta WHERE key = 'complete'"), 1, "the child's trace is complete");
    ok(all_of(trace_is_sound(own), trace_is_whole(path)), "the traces of parent and child are sound");
}

struct storm {
    struct tide_resource *stack;
    _Atomic bool stop;
    _Atomic uint64_t pairs;
};

static void *
storm_work(void *argument)
{
    struct storm *storm = argument;

    while (!atomic_load_explicit(&storm->stop, memory_order_relaxed)) {
        give(storm->stack, take(storm->stack, 64), 64);
        atomic_fetch_add_explicit(&storm->pairs, 1, memory_order_relaxed);
    }
    return NULL;
}

static int
storm_child(void *argument)
{
    struct storm *storm = argument;

    for (int i = 0; i < 500; i++)
        give(storm->stack, take(storm->stack, 77), 77);
    return 0;
}

/* Run a child. One that hangs is killed, with a diag. */
static int
in_child_for(unsigned seconds, int (*function)(void *), void *argument)
{
    int status = -1;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(seconds);
        _exit(function(argument));
    }
    waitpid(pid, &status, 0);
    return status;
}

static void
storm_of(const char *pattern, const char *options, bool own, const char *sentence)
{
    struct storm storm = { 0 };
    pthread_t threads[3];
    char path[256];
    int bad = 0, children = 25, sound = 0;

    snprintf(path, sizeof(path), pattern, (long)getpid());
    if (own)
        storm.stack = stack_of("log(%s%%p%s) | statistics | sim", scratch("storm-"), options);
    else
        storm.stack = stack_of("log(%s%s) | statistics | sim", scratch("%s", path), options);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, storm_work, &storm);
    for (int i = 0; i < children; i++) {
        fflush(stdout);
        if (!left_well(in_child_for(60, storm_child, &storm)))
            bad++;
    }
    atomic_store(&storm.stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    tide_resource_release(storm.stack);
    ok(bad == 0, "%s: no child hangs or fails", sentence);
    snprintf(path, sizeof(path), "%s", own ? scratch("storm-%ld", (long)getpid()) : scratch("%s", path));
    is_i64(sql_number(path, "SELECT (SELECT count(*) FROM allocation) + (SELECT ifnull(sum(events), 0) FROM loss WHERE"
                            " reason = 'dropped allocation')"),
           (int64_t)atomic_load(&storm.pairs), "the parent's trace has all calls of the parent and no others");
    sound = trace_is_sound(path) && sql_number(path, "SELECT count(*) FROM allocation WHERE size <> 64") == 0;
    ok(sound, "the parent's trace of the storm is sound");
}

static int
child_of_storm(void *argument)
{
    struct storm *storm = argument;
    char path[256];
    bool good;

    storm_child(storm);
    snprintf(path, sizeof(path), "%s", scratch("exact-%ld", (long)getpid()));
    tide_log_flush(storm->stack);
    good = sql_number(path, "SELECT count(*) FROM allocation WHERE size = 77 AND free_ns IS NOT NULL") == 500 &&
           sql_number(path, "SELECT count(*) FROM allocation") == 500;
    _exit(good ? 0 : 3);
}

static void
test_storm_exact(void)
{
    struct storm storm = { .stack = stack_of("log(%s%%p) | statistics | sim", scratch("exact-")) };
    pthread_t thread;
    int bad = 0;

    pthread_create(&thread, NULL, storm_work, &storm);
    for (int i = 0; i < 10; i++)
        bad += !left_well(in_child_for(60, child_of_storm, &storm));
    atomic_store(&storm.stop, true);
    pthread_join(thread, NULL);
    tide_resource_release(storm.stack);
    ok(bad == 0, "the traces of children forked in the storm have exactly their own calls");
}

static void
test_exec_and_spawn(void)
{
    const char *path = scratch("exec.db");
    struct tide_resource *stack = stack_of("log(%s) | sim", path);
    char *arguments[] = { (char *)"true", NULL };
    int status;
    pid_t pid;

    take(stack, 1);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        take(stack, 2);
        execv("/bin/true", arguments);
        _exit(1);
    }
    waitpid(pid, &status, 0);
    ok(left_well(status), "a child of fork and exec ends well");
    take(stack, 3);
    status = posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ);
    if (status == 0)
        waitpid(pid, &status, 0);
    ok(left_well(status), "a child of posix_spawn ends well");
    take(stack, 4);
    pid = vfork();
    if (pid == 0) {
        execv("/bin/true", arguments);
        _exit(1);
    }
    waitpid(pid, &status, 0);
    ok(left_well(status), "a child of vfork and exec ends well");
    take(stack, 5);
    tide_resource_release(stack);
    is_string(sql_text(path, "SELECT group_concat(size) FROM allocation"), "1,3,4,5",
              "children of exec, posix_spawn and vfork leave the trace alone");
    ok(trace_is_whole(path), "the trace is whole after children of all kinds");
}

struct end_case {
    const char *name;
    const char *path;
    void (*end)(void);
};

static void
end_by_fault(void)
{
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void
end_by_abort(void)
{
    signal(SIGABRT, SIG_DFL);
    abort();
}

static void
end_by_leaving(void)
{
    _exit(0);
}

static void
end_by_exec(void)
{
    execl("/bin/true", "true", (char *)NULL);
}

static void
end_by_kill(void)
{
    raise(SIGKILL);
}

static int
end_child(void *argument)
{
    struct end_case *end_case = argument;
    struct tide_resource *stack = stack_of("log(%s) | sim", end_case->path);

    for (int i = 0; i < 1000; i++)
        give(stack, take(stack, 32), 32);
    take(stack, 33);
    end_case->end();
    return 1;
}

static void
test_ends(void)
{
    struct end_case cases[] = {
        { "SIGSEGV", NULL, end_by_fault }, { "abort", NULL, end_by_abort },  { "_exit", NULL, end_by_leaving },
        { "execve", NULL, end_by_exec },   { "SIGKILL", NULL, end_by_kill },
    };
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *path = scratch("end-%zu.db", i);

        cases[i].path = path;
        in_child(end_child, &cases[i]);
        is_i64(tide_trace_recover(path, &recovery), TIDE_OK,
               "the trace of a process that exited without an end is recovered");
        ok(all_of(recovery.state == TIDE_TRACE_RECOVERED, recovery.pid != 0), "after %s", cases[i].name);
        ok(all_of(trace_is_whole(path), sql_number(path, "SELECT count(*) FROM allocation") == 1001,
                  sql_number(path, "SELECT count(*) FROM live") == 1, scratch_count("end-") == i + 1),
           "the recovered trace is whole, and the only file");
        ok(all_of(tide_trace_recover(path, &recovery) == TIDE_OK, recovery.state == TIDE_TRACE_CLOSED),
           "a second recovery finds the trace closed");
    }
}

/* What a second process at the path of the first gets. */
static int
second_child(void *path)
{
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    struct tide_resource *sim, *log;
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = path };
    char words[64];

    snprintf(words, sizeof(words), "process %ld records there", (long)getppid());
    if (tide_sim_create(NULL, &sim) != TIDE_OK)
        return 1;
    if (tide_log_create(sim, &options, &log) != TIDE_EBUSY || strstr(tide_error_text(), words) == NULL)
        return 2;
    options.overwrite = true;
    if (tide_log_create(sim, &options, &log) != TIDE_EBUSY || strstr(tide_error_text(), words) == NULL)
        return 3;
    if (tide_trace_recover(path, &recovery) != TIDE_OK || recovery.state != TIDE_TRACE_RECORDING ||
        recovery.pid != (uint32_t)getppid())
        return 4;
    return 0;
}

static void
test_two_processes(void)
{
    const char *path = scratch("two.db");
    struct tide_resource *stack = stack_of("log(%s) | sim", path);
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    int status = -1;
    pid_t pid;

    take(stack, 1);
    status = in_child(second_child, (void *)path);
    ok(left_well(status), "a second process that opens or recovers the trace gets TIDE_EBUSY and the first one's pid");
    is_i64(tide_trace_recover(path, &recovery), TIDE_OK, "a recovery by the recording process succeeds");
    ok(all_of(recovery.state == TIDE_TRACE_RECORDING, recovery.pid == (uint32_t)getpid()),
       "the recovery says that the trace is being recorded, and by which process");
    ok(left_well(in_child(second_child, (void *)path)), "the first process still holds the trace");
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        /* The child's child is no copy of the recording process, as far as that can tell. */
        status = in_child(second_child, (void *)path);
        _exit(WIFEXITED(status) && WEXITSTATUS(status) == 2 ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    ok(left_well(status), "no child's child holds the trace of the first process");
    take(stack, 2);
    tide_resource_release(stack);
    is_string(sql_text(path, "SELECT group_concat(size) FROM allocation"), "1,2",
              "the first process has recorded all of its allocations");
    ok(trace_is_whole(path), "the trace of the first process is whole");
}

struct recovering {
    const char *path;
    pthread_barrier_t *barrier;
    enum tide_status status;
    struct tide_trace_recovery recovery;
};

static void *
recover_work(void *argument)
{
    struct recovering *recovering = argument;

    pthread_barrier_wait(recovering->barrier);
    recovering->status = tide_trace_recover(recovering->path, &recovering->recovery);
    return NULL;
}

static int
big_child(void *path)
{
    struct tide_resource *stack = stack_of("log(%s) | sim", (const char *)path);

    for (int i = 0; i < 100000; i++)
        give(stack, take(stack, 32), 32);
    raise(SIGKILL);
    return 1;
}

static void
test_recover_at_once(void)
{
    const char *path = scratch("at-once.db");
    struct recovering threads[4];
    pthread_barrier_t barrier;
    pthread_t ids[4];
    int recovered = 0, failed = 0;

    in_child(big_child, (void *)path);
    pthread_barrier_init(&barrier, NULL, 4);
    for (int i = 0; i < 4; i++) {
        threads[i] =
            (struct recovering){ .path = path, .barrier = &barrier, .recovery = { TIDE_FIGURES(threads[i].recovery) } };
        pthread_create(&ids[i], NULL, recover_work, &threads[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(ids[i], NULL);
        recovered += threads[i].recovery.state == TIDE_TRACE_RECOVERED;
        failed += threads[i].status != TIDE_OK;
    }
    ok(all_of(recovered == 1, failed == 0), "of four threads that recover a trace at once, one does");
    is_i64(sql_number(path, "SELECT count(free_ns) FROM allocation"), 100000,
           "the recovered trace has every allocation once");
    ok(trace_is_whole(path), "the recovered trace is whole");
}

static void
test_recover_by_link(void)
{
    const char *path = scratch("linked.db"), *name = scratch("link-to.db");
    struct end_case end_case = { NULL, path, end_by_kill };
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };

    in_child(end_child, &end_case);
    if (symlink("linked.db", name) != 0)
        abort();
    ok(all_of(tide_trace_recover(name, &recovery) == TIDE_OK, recovery.state == TIDE_TRACE_RECOVERED),
       "a trace is recovered through a symbolic link to it");
    ok(all_of(trace_is_whole(path), scratch_count("linked.db") == 1),
       "the trace recovered through a symbolic link is whole, and the only file");
    ok(all_of(tide_trace_recover(scratch("none.db"), &recovery) == TIDE_OK, recovery.state == TIDE_TRACE_CLOSED),
       "the recovery of a missing trace has nothing to do");
}

/*
 * A base with one address. While it frees it, it allocates it again through the log above, as if another thread had got
 * it before the first one's call returned.
 */
struct quick {
    struct tide_resource base;
    struct tide_resource *log; /* borrowed; NULL: frees allocate nothing */
};

static enum tide_status
quick_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    (void)bytes;
    (void)alignment;
    (void)stream;
    *out = self;
    return TIDE_OK;
}

static enum tide_status
quick_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct quick *quick = (struct quick *)self;
    struct tide_resource *log = quick->log;
    enum tide_status status;

    (void)pointer;
    quick->log = NULL;
    if (log == NULL)
        return TIDE_OK;
    status = tide_allocate(log, bytes, alignment, stream, &pointer);
    return status == TIDE_OK ? tide_log_flush(log) : status;
}

static void
quick_destroy(struct tide_resource *self)
{
    (void)self;
}

static const struct tide_resource_ops quick_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "quick",
    .allocate = quick_allocate,
    .deallocate = quick_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = tide_base_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = quick_destroy,
};

/* Two allocations of one address are in the trace, both live. The frees of both are only in the ring. */
static int
leave_two_lives(void *path)
{
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = path };
    struct quick quick = { .log = NULL };
    struct tide_resource *log;
    void *block;

    if (tide_resource_init(&quick.base, &quick_ops, NULL) != TIDE_OK ||
        tide_log_create(&quick.base, &options, &log) != TIDE_OK)
        return 1;
    block = take(log, 10);
    quick.log = log;
    give(log, block, 10);
    give(log, block, 10);
    return 0;
}

static void
test_two_lives(void)
{
    const char *path = scratch("lives.db");
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };

    ok(left_well(in_child(leave_two_lives, (void *)path)),
       "a process exits without an end after two allocations of one address");
    ok(all_of(tide_trace_recover(path, &found) == TIDE_OK, found.state == TIDE_TRACE_RECOVERED, found.events >= 2),
       "both allocations of the address and their frees are recovered");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation a JOIN allocation b ON b.allocation_id = 2"
                            " WHERE a.allocation_id = 1 AND a.free_ns < b.alloc_ns AND b.free_ns > b.alloc_ns"),
           1, "each of the two allocations is freed by its own free");
    ok(trace_is_whole(path), "the trace with two allocations of one address is whole");
}

#define LEFT_TRACES 12

static int
leave_many(void *path)
{
    struct tide_resource *stack = stack_of("log(%s) | sim", (const char *)path);

    for (int i = 0; i < 20000; i++)
        take(stack, 100);
    return 0;
}

struct recoveries {
    char path[256];
    _Atomic int good;
    _Atomic bool done;
};

static void *
recover_all(void *argument)
{
    struct recoveries *recoveries = argument;
    char path[300];

    for (int i = 0; i < LEFT_TRACES; i++) {
        struct tide_trace_recovery found = { TIDE_FIGURES(found) };

        snprintf(path, sizeof(path), "%s%d.db", recoveries->path, i);
        if (tide_trace_recover(path, &found) == TIDE_OK && found.state == TIDE_TRACE_RECOVERED)
            atomic_fetch_add_explicit(&recoveries->good, 1, memory_order_relaxed);
    }
    atomic_store_explicit(&recoveries->done, true, memory_order_release);
    return NULL;
}

static int
record_and_recover(void *argument)
{
    struct recoveries *recoveries = argument;
    struct tide_resource *stack = stack_of("log(%s-%%p.db) | sim", recoveries->path);
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };

    give(stack, take(stack, 100), 100);
    tide_resource_release(stack);
    return tide_trace_recover(recoveries->path, &found) == TIDE_OK ? 0 : 1;
}

/* One thread recovers traces while another forks: in the child SQLite holds no lock. */
static void
test_fork_beside_recovery(void)
{
    struct recoveries recoveries = { .good = 0 };
    int bad = 0, children = 0;
    pthread_t thread;
    char path[300];

    snprintf(recoveries.path, sizeof(recoveries.path), "%s", scratch("beside"));
    for (int i = 0; i < LEFT_TRACES; i++) {
        snprintf(path, sizeof(path), "%s%d.db", recoveries.path, i);
        bad += !left_well(in_child(leave_many, path));
    }
    pthread_create(&thread, NULL, recover_all, &recoveries);
    do {
        bad += !left_well(in_child_for(60, record_and_recover, &recoveries));
        children++;
    } while (!atomic_load_explicit(&recoveries.done, memory_order_acquire));
    pthread_join(thread, NULL);
    diag("%d children beside %d recoveries", children, LEFT_TRACES);
    is_i64(bad, 0, "children forked while another thread recovers traces record and recover");
    is_i64(atomic_load(&recoveries.good), LEFT_TRACES, "the other thread recovers every trace");
}

/* Make the kernel refuse membarrier(2) to all threads from now on. */
static bool
refuse_membarrier(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { .len = sizeof(filter) / sizeof(filter[0]), .filter = filter };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

static int
record_in_sandbox(void *path)
{
    struct storm storm = { .stack = stack_of("log(%s, ring=64KiB) | statistics | sim", (const char *)path) };
    pthread_t threads[2];
    struct heard heard;

    hear(&heard);
    take(storm.stack, 1);
    if (!refuse_membarrier())
        return 77;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, storm_work, &storm);
    while (atomic_load(&storm.pairs) < 20000)
        sched_yield();
    atomic_store(&storm.stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    if (tide_log_flush(storm.stack) != TIDE_OK)
        return 1;
    tide_resource_release(storm.stack);
    hear(NULL);
    return heard.errors == 0 && heard.others <= 1 ? (int)heard.others : 2;
}

static void
test_sandbox(void)
{
    const char *path = scratch("sandbox.db");
    int status = in_child_for(60, record_in_sandbox, (void *)path);

    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        skip(2, "needs seccomp(2)");
        return;
    }
    ok(all_of(WIFEXITED(status), WEXITSTATUS(status) <= 1),
       "a program that enters a sandbox without membarrier(2) goes on recording, with at most one warning");
    ok(all_of(trace_is_whole(path), sql_number(path, "SELECT value FROM meta WHERE key = 'late_records'") == 0),
       "the trace of the sandboxed program is whole and in order");
}

int
main(void)
{
    if (SANITIZED_ADDRESS) /* the plain build and ThreadSanitizer run these tests */
        skip_all("AddressSanitizer's allocator is not safe to fork() beside other threads");
    plan(72);
    test_fork();
    test_fork_own();
    storm_of("storm-a-%ld", "", false, "fork in a storm");
    storm_of("storm-b-%ld", "", true, "fork in a storm, with %p");
    storm_of("storm-c-%ld", ", overflow=drop, ring=4KiB, overwrite=true", true, "fork in a storm, with %p and drops");
    test_storm_exact();
    test_exec_and_spawn();
    test_ends();
    test_two_processes();
    test_recover_at_once();
    test_recover_by_link();
    test_two_lives();
    test_fork_beside_recovery();
    test_sandbox();
    return done();
}
