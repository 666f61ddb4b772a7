/* Tests adaptors/limit/shared.c and what it stands on: a budget that processes share, and what kills leave of it. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "adaptors/limit/file.h"
#include "contract.h"
#include "point.h"
#include "sanitized.h"
#include "tap.h"

#define MIB       ((uint64_t)1 << 20)
#define PROCESSES 6
#define THREADS   3
#define LIVE      8

static char folder[64], path[96];

/* What the processes of a test tell each other. */
static struct board {
    _Atomic uint32_t ready, go, stop, faults;
    /* At most what the thread has at this moment, and above 32 bits how often that has changed. */
    _Atomic uint64_t held[PROCESSES][THREADS];
    _Atomic uint64_t doomed[PROCESSES]; /* odd: about to be killed, or gone */
    _Atomic uint64_t refused, served;
} * board;

static struct tide_resource *
sim(void)
{
    struct tide_resource *base = NULL;

    if (tide_sim_create(NULL, &base) != TIDE_OK)
        abort();
    return base;
}

static struct tide_resource *
shared_over(struct tide_resource *base, uint64_t limit_bytes)
{
    struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = limit_bytes, .alignment = 1,
                                          .shared = path };
    struct tide_resource *limit = NULL;

    tide_limit_create(base, &options, &limit);
    return limit;
}

static struct tide_resource *
shared(uint64_t limit_bytes)
{
    struct tide_resource *base = sim(), *limit = shared_over(base, limit_bytes);

    tide_resource_release(base);
    return limit;
}

static enum tide_status
take(struct tide_resource *resource, uint64_t bytes, void **out)
{
    return tide_allocate(resource, (size_t)bytes, TIDE_DEFAULT_ALIGNMENT, 0, out);
}

static enum tide_status
give(struct tide_resource *resource, void *pointer, uint64_t bytes)
{
    return tide_deallocate(resource, pointer, (size_t)bytes, TIDE_DEFAULT_ALIGNMENT, 0);
}

static struct tide_limit_figures
figures_of(struct tide_resource *limit)
{
    struct tide_limit_figures figures = { TIDE_FIGURES(figures) };

    tide_limit_read(limit, &figures);
    return figures;
}

static bool
await(_Atomic uint32_t *word, uint32_t least)
{
    for (int i = 0; i < 300000; i++) { /* an alarm ends a process before */
        if (atomic_load(word) >= least)
            return true;
        usleep(1000);
    }
    return false;
}

static void
board_clear(void)
{
    memset(board, 0, sizeof(*board));
}

/* A process that runs `function` and returns what it returns. */
static pid_t
start(int (*function)(void *), void *context)
{
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        alarm(getenv("ROUNDS") != NULL ? 3600 : 300);
        _exit(function(context));
    }
    return child;
}

static int
end_of(pid_t child)
{
    int status = -1;

    return waitpid(child, &status, 0) == child ? status : -1;
}

/* Whether all of the bound but `used` can be had now, and not a byte more. */
static bool
room_is(uint64_t limit_bytes, uint64_t used)
{
    struct tide_resource *limit = shared(limit_bytes);
    void *all = NULL, *more = NULL;
    bool right = limit != NULL && take(limit, limit_bytes - used, &all) == TIDE_OK &&
                 take(limit, 1, &more) == TIDE_ELIMIT && give(limit, all, limit_bytes - used) == TIDE_OK;

    if (!right)
        diag("used %llu: %s", (unsigned long long)(limit != NULL ? figures_of(limit).used_bytes : 0),
             tide_error_text());
    tide_resource_release(limit);
    return right;
}

/* Has 4 MiB, and leases of all that it has freed, until it is told to stop. */
static int
run_bystander(void *context)
{
    struct tide_resource *limit = shared(10 * MIB);
    void *kept = NULL, *freed = NULL;

    (void)context;
    if (limit == NULL || take(limit, 4 * MIB, &kept) != TIDE_OK || take(limit, 5 * MIB, &freed) != TIDE_OK ||
        give(limit, freed, 5 * MIB) != TIDE_OK)
        return 1;
    atomic_fetch_add(&board->ready, 1);
    await(&board->stop, 1);
    return give(limit, kept, 4 * MIB) == TIDE_OK ? 0 : 1;
}

#define PROCESS_TESTS 9

static void
check_processes(void)
{
    struct tide_resource *limit;
    struct tide_limit_figures figures;
    void *own = NULL, *more = NULL;
    pid_t bystander;

    board_clear();
    bystander = start(run_bystander, NULL);
    await(&board->ready, 1);
    limit = shared(10 * MIB);
    figures = figures_of(limit);
    ok(all_of(figures.used_bytes == 4 * MIB, figures.own_bytes == 0, figures.processes == 2),
       "the figures tell what all processes use, what this one uses, and how many there are");
    ok(take(limit, 6 * MIB, &own) == TIDE_OK, "a process gets what another one has freed and not given back");
    ok(all_of(take(limit, 1, &more) == TIDE_ELIMIT, more == NULL), "one byte over the bound is refused");
    has_words(tide_error_text(), "limit: 1 B request exceeds the 10 MiB of shared budget '",
              "the refusal names request, bound and budget");
    has_words(tide_error_text(), "(10 MiB in use, 6 MiB of it in this process; processes: 2)",
              "the refusal tells what is in use, by whom");
    ok(take(limit, 10 * MIB + 1, &more) == TIDE_ELIMIT, "a request above the bound is refused");
    give(limit, own, 6 * MIB);
    kill(bystander, SIGKILL);
    end_of(bystander);
    ok(take(limit, 10 * MIB, &own) == TIDE_OK, "what a killed process had is there at the next request");
    give(limit, own, 10 * MIB);
    is_u64(figures_of(limit).used_bytes, 0, "after all frees nothing is in use");
    tide_resource_release(limit);
    ok(access(path, F_OK) != 0, "the last process removes the file");
}

#define SAME_TESTS 4

/* Limits of one process with one name are one participant. */
static void
check_same_process(void)
{
    struct tide_resource *one = shared(10 * MIB), *two = shared(10 * MIB);
    char text[256] = "";
    void *first = NULL, *second = NULL;

    ok(all_of(take(one, 6 * MIB, &first) == TIDE_OK, take(two, 5 * MIB, &second) == TIDE_ELIMIT,
              take(two, 4 * MIB, &second) == TIDE_OK),
       "limits of one process share the budget");
    is_u64(figures_of(two).processes, 1, "limits of one process count as one process");
    tide_describe(one, text, sizeof(text), NULL);
    has_words(text, "limit(10MiB, alignment=1, shared=", "a limit describes its shared budget");
    give(one, first, 6 * MIB);
    tide_resource_release(one);
    is_u64(figures_of(two).used_bytes, 4 * MIB, "the budget goes with the last limit");
    give(two, second, 4 * MIB);
    tide_resource_release(two);
}

#define ERROR_TESTS 19

static void
fails(const char *text, const char *words, const char *sentence)
{
    struct tide_resource *stack = NULL;
    bool refused = tide_stack_parse(text, &stack) != TIDE_OK;

    if (!ok(all_of(refused, strstr(tide_error_text(), words) != NULL), "%s", sentence))
        diag("seen \"%s\"", tide_error_text());
    tide_resource_release(stack);
}

static int
run_as_nobody(void *context)
{
    (void)context;
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 2;
    if (shared(10 * MIB) != NULL)
        return 1;
    return strstr(tide_error_text(), "belongs to another user, with the id 0") != NULL ? 0 : 1;
}

static void
check_files(void)
{
    char text[256], other[128];
    struct tide_resource *limit;
    int fd;

    snprintf(text, sizeof(text), "limit(1MiB, shared=\"%s\") | host", path);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    ok(fd >= 0 && write(fd, "something else", 14) == 14, "a file of something else is written");
    fails(text, "something else", "a file of another size is no budget");
    ok(ftruncate(fd, 0) == 0 && fchmod(fd, 0644) == 0, "the file is emptied, and others may read it");
    fails(text, "other users may open its file", "a file that others may open is no budget");
    close(fd);
    unlink(path);
    snprintf(other, sizeof(other), "%s/other", folder);
    ok(symlink(other, path) == 0, "a symbolic link stands in the place of the file");
    fails(text, "symbolic link", "a symbolic link is not followed");
    unlink(path);
    limit = shared(10 * MIB);
    fails(text, "was made with limit=10MiB, and is wanted with limit=1MiB here",
          "another bound than the first's is an error");
    if (geteuid() != 0)
        skip(1, "only root can become another user");
    else
        ok(end_of(start(run_as_nobody, NULL)) == 0, "another user's budget is an error that says so");
    tide_resource_release(limit);
}

/* A file of a budget, with one number of its header changed. */
static void
check_damaged(size_t offset, uint32_t number, const char *sentence)
{
    static struct tidei_limit_file file;
    struct tide_resource *limit = shared(10 * MIB);
    int fd = open(path, O_RDONLY);
    bool written = fd >= 0 && read(fd, &file, sizeof(file)) == (ssize_t)sizeof(file);

    close(fd);
    tide_resource_release(limit);
    memcpy((char *)&file + offset, &number, sizeof(number));
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    written = written && write(fd, &file, sizeof(file)) == (ssize_t)sizeof(file);
    close(fd);
    limit = shared(10 * MIB);
    ok(all_of(written, limit == NULL, strstr(tide_error_text(), "its file is damaged") != NULL), "%s", sentence);
    tide_resource_release(limit);
    unlink(path);
}

/* The file is removed by hand, and another one is made in its place. */
static void
check_replaced(void)
{
    struct tide_resource *limit = shared(10 * MIB);
    int fd;

    unlink(path);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    tide_resource_release(limit);
    ok(fd >= 0 && access(path, F_OK) == 0, "the last process leaves a file that has taken the place of the budget's");
    close(fd);
    unlink(path);
}

static void
check_errors(void)
{
    check_files();
    check_damaged(offsetof(struct tidei_limit_file, slots_end), TIDEI_LIMIT_SLOTS + 1,
                  "a file with more slots than there are is damaged");
    check_damaged(offsetof(struct tidei_limit_file, taking), TIDEI_LIMIT_SLOTS * TIDEI_LIMIT_LANES + 1,
                  "a file with the number of a lane that there is not is damaged");
    check_replaced();
    fails("limit(1MiB, shared=\"some/budget\") | host", "a path that begins with '/'", "a relative path is an error");
    fails("limit(1MiB, shared=\"a b\") | host", "expected up to 200 letters", "a name with a blank is an error");
    fails("limit(1MiB, shared=..) | host", "expected up to 200 letters", "a name that begins with a point is an error");
    fails("limit(1MiB, shared=/nonexistent/budget) | host", "No such file or directory",
          "a path without its folder is an error");
    fails("limit(count=3, shared=a) | host",
          "must have limit=", "a shared budget without a number of bytes is an error");
    fails("limit(1MiB, count=3, shared=a) | host", "has no count=", "a shared budget with a count is an error");
    fails("limit(1MiB, soft=1KiB, shared=a) | host", "has no soft=", "a shared budget with a soft limit is an error");
    fails("limit(1MiB, budget=a, shared=a) | host", "both budget= and shared=", "both kinds of budget are an error");
}

#define NAME_TESTS 10

static int
run_exit(void *text)
{
    struct tide_resource *stack;

    exit(tide_stack_parse(text, &stack) == TIDE_OK ? 0 : 1);
}

/* At the end of exit(): wait until the other process is there, too. */
static void
meet_at_exit(const char *label)
{
    if (strcmp(label, "shared.left") != 0)
        return;
    atomic_fetch_add(&board->ready, 1);
    await(&board->ready, 2);
}

/* Exits together with another process that has the budget. */
static int
run_exit_together(void *text)
{
    struct tide_resource *stack;
    enum tide_status status = tide_stack_parse(text, &stack);

    atomic_fetch_add(&board->go, 1);
    await(&board->go, 2);
    atomic_store(&tidei_test_point, meet_at_exit);
    exit(status == TIDE_OK ? 0 : 1);
}

static bool
exit_together(char *text)
{
    pid_t first, second;
    bool well;

    board_clear();
    first = start(run_exit_together, text);
    second = start(run_exit_together, text);
    well = end_of(first) == 0;
    return end_of(second) == 0 && well;
}

/* Exits with memory in the budget. */
static int
run_exit_holding(void *text)
{
    struct tide_resource *stack;
    void *pointer;

    exit(tide_stack_parse(text, &stack) == TIDE_OK && tide_allocate(stack, 1000, 256, 0, &pointer) == TIDE_OK ? 0 : 1);
}

/* Has a child that no hook of fork() sees, and which exits. The file is to be there still. */
static int
run_unseen_child(void *text)
{
    struct tide_resource *stack;
    char file[96];
    int status;
    pid_t child;

    snprintf(file, sizeof(file), "/dev/shm/tidemark-budget-test-%d", (int)getppid());
    if (tide_stack_parse(text, &stack) != TIDE_OK)
        return 1;
    child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        exit(0);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0 || access(file, F_OK) != 0)
        return 1;
    tide_resource_release(stack);
    return 0;
}

static int
run_killed(void *text)
{
    struct tide_resource *stack;

    if (tide_stack_parse(text, &stack) == TIDE_OK)
        raise(SIGKILL);
    return 1;
}

/* A word is a file in /dev/shm. */
static void
check_name(void)
{
    char file[96], text[128];
    struct tide_resource *stack = NULL;

    snprintf(text, sizeof(text), "limit(1MiB, shared=test-%d) | host", (int)getpid());
    snprintf(file, sizeof(file), "/dev/shm/tidemark-budget-test-%d", (int)getpid());
    ok(all_of(tide_stack_check(text, NULL, 0, NULL) == TIDE_OK, access(file, F_OK) != 0),
       "stack text that is only checked makes no shared budget");
    if (tide_stack_parse(text, &stack) != TIDE_OK)
        diag("%s", tide_error_text());
    ok(access(file, F_OK) == 0, "a word names a file in /dev/shm");
    tide_resource_release(stack);
    ok(access(file, F_OK) != 0, "the file in /dev/shm is removed");
    ok(end_of(start(run_exit, text)) == 0 && access(file, F_OK) != 0,
       "a process that exits with a budget removes its file, if it was the last");
    ok(exit_together(text) && access(file, F_OK) != 0,
       "two processes that exit at the same moment remove the file of their budget");
    ok(end_of(start(run_exit_holding, text)) == 0 && access(file, F_OK) == 0,
       "it stays where the process exits with memory in it, which it has until it has ended");
    ok(end_of(start(run_unseen_child, text)) == 0 && access(file, F_OK) != 0,
       "a child that no hook of fork() sees does not remove it at its exit");
    stack = NULL;
    if (tide_stack_parse(text, &stack) != TIDE_OK)
        diag("%s", tide_error_text());
    ok(end_of(start(run_exit, text)) == 0 && access(file, F_OK) == 0,
       "it stays where another process has it, whichever exits");
    ok(WIFSIGNALED(end_of(start(run_killed, text))) && access(file, F_OK) == 0,
       "it stays where one of two processes is killed");
    tide_resource_release(stack);
    (void)end_of(start(run_killed, text));
    snprintf(text, sizeof(text), "limit(1MiB, shared=test-%d-other) | host", (int)getpid());
    if (tide_stack_parse(text, &stack) != TIDE_OK)
        diag("%s", tide_error_text());
    ok(access(file, F_OK) != 0, "what the last process has left that was killed, the next budget removes");
    tide_resource_release(stack);
}

/* Takes what the bystander has freed and not given back, and kills itself at a point meanwhile. */
static int
run_point(void *context)
{
    struct tide_resource *limit = shared(10 * MIB);
    void *kept = NULL, *rest = NULL;

    if (limit == NULL || take(limit, MIB, &kept) != TIDE_OK)
        return 1;
    point_kill(context, 1);
    take(limit, 5 * MIB, &rest);
    return 2;
}

#define POINT_TESTS 6

/* Kill a process in the middle of a recall. The bystander goes on, and nothing is lost. */
static void
check_points(void)
{
    static const char *const labels[] = { "shared.closed", "shared.taken", "shared.taking" };

    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        pid_t bystander;
        int status;

        board_clear();
        bystander = start(run_bystander, NULL);
        await(&board->ready, 1);
        status = end_of(start(run_point, (void *)(uintptr_t)labels[i]));
        if (!ok(WIFSIGNALED(status) && room_is(10 * MIB, 4 * MIB), "killed at %s, a process leaves all but the other's",
                labels[i]))
            diag("status %d", status);
        atomic_store(&board->stop, 1);
        ok(end_of(bystander) == 0 && room_is(10 * MIB, 0), "after a kill at %s the other process frees what it has",
           labels[i]);
    }
}

/*
 * All that a process does with a budget, after which it says so. The base is there before and goes with the process: to
 * make it and end it were nine of ten instructions.
 */
static int
run_stepped(void *context)
{
    struct tide_resource *base = sim(), *limit;
    void *kept = NULL, *rest = NULL;

    (void)context;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    limit = shared_over(base, 10 * MIB);
    take(limit, MIB, &kept);
    take(limit, 5 * MIB, &rest); /* recalls the leases of the bystander */
    give(limit, rest, 5 * MIB);
    give(limit, kept, MIB);
    tide_resource_release(limit);
    return 0;
}

/* Kill a process after `most` instructions. Returns how many it has made; less where it has ended by itself. */
static unsigned
step_and_kill(unsigned most)
{
    pid_t child = start(run_stepped, NULL);
    unsigned made = 0;
    int status = 0;

    waitpid(child, &status, 0);
    while (made < most && !WIFEXITED(status)) {
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0 || waitpid(child, &status, 0) != child)
            break;
        made++;
    }
    if (!WIFEXITED(status)) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return made;
}

/* Keep this process and its children to one processor: a step is three times as fast there. */
static void
stay_here(cpu_set_t *before)
{
    cpu_set_t here;

    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    if (sched_getaffinity(0, sizeof(*before), before) == 0)
        (void)sched_setaffinity(0, sizeof(here), &here);
}

#define STEP_TESTS 2

static void
check_steps(uint64_t *state)
{
    unsigned trials = getenv("ROUNDS") != NULL ? 20 * (unsigned)atoi(getenv("ROUNDS")) : 20;
    unsigned all, wrong = 0;
    cpu_set_t before;
    pid_t bystander;

    if (SANITIZED) {
        skip(STEP_TESTS, "a sanitizer makes too many instructions");
        return;
    }
    board_clear();
    bystander = start(run_bystander, NULL);
    await(&board->ready, 1);
    stay_here(&before);
    all = step_and_kill(UINT32_MAX);
    for (unsigned i = 0; i < trials; i++) {
        unsigned most = (unsigned)(contract_random(state) % all);

        step_and_kill(most);
        if (!room_is(10 * MIB, 4 * MIB) && wrong++ == 0)
            diag("first wrong after %u instructions", most);
    }
    (void)sched_setaffinity(0, sizeof(before), &before);
    atomic_store(&board->stop, 1);
    diag("%u instructions, killed within them %u times", all, trials);
    ok(all_of(all > 1000, wrong == 0), "killed after any number of instructions, a process leaves all but the other's");
    ok(end_of(bystander) == 0, "the bystander of all the kills frees what it has");
}

struct worker {
    struct tide_resource *limit;
    uint64_t limit_bytes, most_bytes, state;
    unsigned process, thread;
};

#define HELD_STEP ((uint64_t)1 << 32)

static void
board_read(uint64_t seen[PROCESSES][THREADS + 1])
{
    for (unsigned i = 0; i < PROCESSES; i++) {
        seen[i][THREADS] = atomic_load(&board->doomed[i]);
        for (unsigned j = 0; j < THREADS; j++)
            seen[i][j] = atomic_load(&board->held[i][j]);
    }
}

/* What all processes but the doomed ones have at one moment, at the least; 0 if there was no such moment. */
static uint64_t
board_sum(void)
{
    uint64_t one[PROCESSES][THREADS + 1], two[PROCESSES][THREADS + 1], sum = 0;

    board_read(one);
    board_read(two);
    if (memcmp(one, two, sizeof(one)) != 0)
        return 0;
    for (unsigned i = 0; i < PROCESSES; i++) {
        for (unsigned j = 0; j < THREADS; j++)
            sum += one[i][THREADS] % 2 != 0 ? 0 : one[i][j] % HELD_STEP;
    }
    return sum;
}

/*
 * Allocate and free at random, up to most_bytes. The sum of what all have is at most the bound at every moment: each
 * adds what it has got, and takes off what it is about to free.
 */
static void *
run_worker(void *context)
{
    struct worker *worker = context;
    _Atomic uint64_t *held = &board->held[worker->process][worker->thread];
    struct {
        void *pointer;
        uint64_t bytes;
    } live[LIVE] = { 0 };
    uint64_t sum = 0;

    while (!atomic_load(&board->stop)) {
        unsigned at = (unsigned)(contract_random(&worker->state) % LIVE);
        uint64_t bytes = contract_random(&worker->state) % (worker->most_bytes / 3 + 1);

        if (live[at].pointer != NULL) {
            atomic_fetch_add(held, HELD_STEP - live[at].bytes);
            if (give(worker->limit, live[at].pointer, live[at].bytes) != TIDE_OK)
                atomic_fetch_add(&board->faults, 1);
            sum -= live[at].bytes;
            live[at].pointer = NULL;
        } else if (bytes <= worker->most_bytes - sum) {
            enum tide_status status = take(worker->limit, bytes, &live[at].pointer);

            atomic_fetch_add(status == TIDE_OK ? &board->served : &board->refused, 1);
            if (status != TIDE_OK)
                continue;
            live[at].bytes = bytes;
            sum += bytes;
            atomic_fetch_add(held, HELD_STEP + bytes);
            if (board_sum() > worker->limit_bytes)
                atomic_fetch_add(&board->faults, 1);
        }
    }
    atomic_fetch_add(held, HELD_STEP - sum);
    for (unsigned i = 0; i < LIVE; i++) {
        if (live[i].pointer != NULL && give(worker->limit, live[i].pointer, live[i].bytes) != TIDE_OK)
            atomic_fetch_add(&board->faults, 1);
    }
    return NULL;
}

/* A process of THREADS workers. */
static int
run_workers(void *context)
{
    struct worker *first = context;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = *first;
        workers[i].limit = i == 0 ? shared(first->limit_bytes) : workers[0].limit;
        workers[i].thread = i;
        workers[i].state = first->state * 31 + i + 1;
        if (workers[i].limit == NULL)
            return 1;
    }
    atomic_fetch_add(&board->ready, 1);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run_worker, &workers[i]);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tide_resource_release(workers[0].limit);
    return 0;
}

/* Let processes run, and kill `kills` of them at random moments; each is replaced once it is gone. */
static bool
torture(uint64_t seed, unsigned kills, uint64_t limit_bytes, uint64_t most_bytes)
{
    struct worker worker = { .limit_bytes = limit_bytes, .most_bytes = most_bytes };
    uint64_t state = seed;
    pid_t pids[PROCESSES];
    bool ended = true;

    board_clear();
    for (unsigned i = 0; i < PROCESSES; i++) {
        worker.process = i;
        worker.state = contract_random(&state);
        pids[i] = start(run_workers, &worker);
    }
    await(&board->ready, PROCESSES);
    for (unsigned i = 0; i < kills; i++) {
        unsigned victim = (unsigned)(contract_random(&state) % PROCESSES);

        usleep((useconds_t)(contract_random(&state) % 4000));
        atomic_fetch_add(&board->doomed[victim], 1);
        kill(pids[victim], SIGKILL);
        end_of(pids[victim]);
        for (unsigned j = 0; j < THREADS; j++)
            atomic_store(&board->held[victim][j], (uint64_t)(i + 1) << 48);
        atomic_fetch_add(&board->doomed[victim], 1);
        worker.process = victim;
        worker.state = contract_random(&state);
        pids[victim] = start(run_workers, &worker);
    }
    if (kills == 0)
        usleep(300000);
    usleep(20000);
    atomic_store(&board->stop, 1);
    for (unsigned i = 0; i < PROCESSES; i++)
        ended = end_of(pids[i]) == 0 && ended;
    return ended;
}

#define TORTURE_TESTS 8

static void
check_torture(uint64_t seed)
{
    unsigned kills = getenv("ROUNDS") != NULL ? 10 * (unsigned)atoi(getenv("ROUNDS")) : 50;
    bool ended;

    diag("seed %llu, %u kills", (unsigned long long)seed, kills);
    ended = torture(seed, 0, MIB, MIB / 4);
    ok(all_of(ended, board->faults == 0), "processes that want more than there is never pass the bound");
    ok(all_of(board->refused > 0, board->served > 0), "some of their requests are refused, and some served");
    ended = torture(seed + 1, 0, MIB, MIB / (PROCESSES * THREADS));
    ok(all_of(ended, board->faults == 0, board->served > 0), "processes that fill the bound never pass it");
    if (!ok(board->refused == 0, "no process is refused that fits"))
        diag("%llu of %llu refused", (unsigned long long)board->refused, (unsigned long long)board->served);
    ended = torture(seed + 2, kills, MIB, MIB / 4);
    ok(all_of(ended, board->faults == 0), "killed at random, processes that want more never pass the bound");
    ended = torture(seed + 3, kills, MIB, MIB / (PROCESSES * THREADS));
    ok(all_of(ended, board->faults == 0), "killed at random, processes that fill the bound never pass it");
    if (!ok(board->refused == 0, "no process is refused that fits, whoever is killed"))
        diag("%llu of %llu refused", (unsigned long long)board->refused, (unsigned long long)board->served);
    ok(room_is(MIB, 0) && access(path, F_OK) != 0, "nothing is left of all these processes");
}

static int
run_exec(void *context)
{
    struct tide_resource *limit = shared(10 * MIB);
    void *kept = NULL;

    (void)context;
    if (limit == NULL || take(limit, 6 * MIB, &kept) != TIDE_OK)
        return 1;
    execl("/bin/sh", "sh", "-c", "kill -STOP $$", (char *)NULL);
    return 2;
}

struct inherited {
    struct tide_resource *limit;
    void *block;
};

/* A child of fork(), which has inherited a block of 4 MiB. */
static int
run_child(void *context)
{
    struct inherited *inherited = context;
    struct tide_limit_figures figures;
    void *own = NULL, *more = NULL;

    if (take(inherited->limit, 6 * MIB, &own) != TIDE_OK || take(inherited->limit, 1, &more) != TIDE_ELIMIT)
        return 1;
    figures = figures_of(inherited->limit);
    if (figures.own_bytes != 6 * MIB || figures.used_bytes != 10 * MIB || figures.processes != 2)
        return 2;
    if (give(inherited->limit, inherited->block, 4 * MIB) != TIDE_OK ||
        figures_of(inherited->limit).used_bytes != 10 * MIB)
        return 3; /* the parent still has it */
    if (give(inherited->limit, own, 6 * MIB) != TIDE_OK || figures_of(inherited->limit).used_bytes != 4 * MIB)
        return 4;
    return take(inherited->limit, 6 * MIB, &own) == TIDE_OK ? 0 : 5; /* its end gives this back */
}

/* A child of fork(), made while the parent's leases are half taken back; the parent has 4 MiB of 10. */
static int
run_child_of_closed(void *context)
{
    struct inherited *inherited = context;
    void *own = NULL, *more = NULL;

    if (give(inherited->limit, inherited->block, 4 * MIB) != TIDE_OK ||
        take(inherited->limit, 4 * MIB, &own) != TIDE_OK)
        return 1;
    return take(inherited->limit, 3 * MIB, &more) == TIDE_ELIMIT ? 0 : 2;
}

static void
check_fork_of_closed(void)
{
    struct inherited inherited = { .limit = shared(10 * MIB) };
    void *freed = NULL;
    int killed, status;

    take(inherited.limit, 4 * MIB, &inherited.block);
    take(inherited.limit, 5 * MIB, &freed);
    give(inherited.limit, freed, 5 * MIB);
    if (SANITIZED_THREAD) {
        skip(1, "ThreadSanitizer does not support a child that continues to use locks");
    } else {
        killed = end_of(start(run_point, (void *)(uintptr_t) "shared.taking"));
        status = end_of(start(run_child_of_closed, &inherited));
        if (!ok(all_of(WIFSIGNALED(killed), status == 0),
                "what a child of fork() inherits while a lease is taken back makes no room for it"))
            diag("killed %d, status %d", killed, status);
    }
    give(inherited.limit, inherited.block, 4 * MIB);
    tide_resource_release(inherited.limit);
}

/* A program that closes all descriptors, as daemons do, and then asks for more than it has leased. */
static int
run_closing(void *context)
{
    struct tide_resource *limit = shared(10 * MIB);
    void *kept = NULL, *more = NULL;

    (void)context;
    alarm(20);
    if (limit == NULL || take(limit, MIB, &kept) != TIDE_OK)
        return 1;
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    if (take(limit, 8 * MIB, &more) != TIDE_EIO || strstr(tide_error_text(), "cannot be locked any more") == NULL)
        return 2;
    give(limit, kept, MIB);
    tide_resource_release(limit);
    return 0;
}

#define FORK_TESTS 5

static void
check_fork(void)
{
    struct inherited inherited = { .limit = NULL };
    pid_t child = start(run_exec, NULL);
    int status = 0;

    ok(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && room_is(10 * MIB, 0),
       "what a process has before exec is given back by it");
    kill(child, SIGKILL);
    end_of(child);
    inherited.limit = shared(10 * MIB);
    take(inherited.limit, 4 * MIB, &inherited.block);
    if (SANITIZED_THREAD) {
        skip(1, "ThreadSanitizer does not support a child that continues to use locks");
    } else {
        status = end_of(start(run_child, &inherited));
        if (!ok(status == 0, "a child of fork() counts what it allocates, and not what it inherits"))
            diag("status %d", status);
    }
    is_u64(figures_of(inherited.limit).used_bytes, 4 * MIB, "what a child of fork() had goes with it");
    give(inherited.limit, inherited.block, 4 * MIB);
    tide_resource_release(inherited.limit);
    check_fork_of_closed();
    status = end_of(start(run_closing, NULL));
    if (!ok(status == 0, "a program that has closed all descriptors is refused, and does not wait for ever"))
        diag("status %d", status);
}

int
main(void)
{
    uint64_t seed = contract_seed(20261123), state = seed;

    plan(PROCESS_TESTS + SAME_TESTS + ERROR_TESTS + NAME_TESTS + POINT_TESTS + STEP_TESTS + TORTURE_TESTS + FORK_TESTS);
    snprintf(folder, sizeof(folder), "/tmp/tidemark-shared-XXXXXX");
    if (mkdtemp(folder) == NULL || chmod(folder, 0755) != 0)
        abort();
    snprintf(path, sizeof(path), "%s/budget", folder);
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check_processes();
    check_same_process();
    check_errors();
    check_name();
    check_points();
    if (getenv("NOSTEP") == NULL)
        check_steps(&state);
    check_torture(seed);
    check_fork();
    unlink(path);
    rmdir(folder);
    return done();
}
