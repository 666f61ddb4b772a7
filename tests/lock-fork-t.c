/* Tests what fork() does to the locks of src/sync/lock.c, and what the locks do if membarrier fails. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "guarded.h"
#include "tap.h"

#define FORKS 20

/*
 * In a child: the data under the lock is consistent, the lock is free and new, and a thread of the child may end its
 * bias.
 */
static void
leave_child(struct guarded *guarded, bool threads)
{
    uint64_t before = guarded->first;
    bool right = before == guarded->second && owner_of(guarded) == TIDEI_LOCK_NEW;

    alarm(60);
    count(guarded);
    right = right && owner_of(guarded) == tidei_thread->number;
    if (threads)
        elsewhere(run_count, guarded);
    count(guarded);
    right = right && guarded->first == before + 2 + threads && guarded->second == guarded->first;
    _exit(right ? 0 : 1);
}

/* ThreadSanitizer allows no new threads in a child whose parent had several. */
static int
fork_over(struct guarded *guarded, bool threads)
{
    pid_t child = fork();

    if (child == 0)
        leave_child(guarded, threads);
    return status_of(child);
}

static void *
run_loop(void *context)
{
    struct guarded *guarded = context;
    uint64_t steps = 0;

    while (!atomic_load_explicit(&guarded->stop, memory_order_relaxed)) {
        count(guarded);
        atomic_store_explicit(&guarded->steps, ++steps, memory_order_relaxed);
    }
    return NULL;
}

/* Fork while the owner takes and releases the lock. Returns how often parent and child were right. */
static int
fork_beside_owner(void)
{
    int right = 0;

    for (int i = 0; i < FORKS; i++) {
        struct guarded guarded;
        pthread_t owner;
        uint64_t steps;
        int status;

        guarded_init(&guarded);
        pthread_create(&owner, NULL, run_loop, &guarded);
        while (atomic_load_explicit(&guarded.steps, memory_order_relaxed) == 0)
            sched_yield();
        status = fork_over(&guarded, false);
        atomic_store_explicit(&guarded.stop, true, memory_order_relaxed);
        pthread_join(owner, NULL);
        steps = atomic_load_explicit(&guarded.steps, memory_order_relaxed);
        count(&guarded);
        right += status == 0 && guarded.first == steps + 1 && guarded.second == steps + 1;
        tidei_lock_fini(&guarded.lock);
    }
    return right;
}

static void *
run_let_go(void *context)
{
    (void)context;
    sem_wait(&other_stop.reached);
    sem_post(&owner_stop.go);
    sem_post(&other_stop.go);
    return NULL;
}

/* The child has a copy of the owner's `busy`, but not the owner. */
static int
fork_beside_look(void)
{
    struct guarded guarded;
    pthread_t owner, helper;
    int status;

    atomic_store_explicit(&tidei_test_point, stop_here, memory_order_release);
    guarded_init(&guarded);
    stop_init(&owner_stop, "lock.busy");
    stop_init(&other_stop, "lock.revoked");
    pthread_create(&owner, NULL, run_own_stopped, &guarded);
    sem_wait(&owner_stop.reached);
    pthread_create(&helper, NULL, run_let_go, NULL);
    my_stop = &other_stop;
    status = fork_over(&guarded, false);
    pthread_join(owner, NULL);
    pthread_join(helper, NULL);
    atomic_store_explicit(&tidei_test_point, NULL, memory_order_release);
    tidei_lock_fini(&guarded.lock);
    return status;
}

/* A lock that is held during fork() would stay held in the child for ever: its holder does not exist there. */
static int
fork_beside_holder(bool shared)
{
    struct pair pair;
    pthread_t thread = pair_start(&pair, shared);
    int status = fork_over(&pair.newer, false);

    pair_end(&pair, thread);
    return status;
}

#define FORK_TESTS 9

static void
check_fork(void)
{
    struct guarded guarded;

    guarded_init(&guarded);
    is_i64(fork_over(&guarded, true), 0, "a child of fork() finds a new lock unowned");
    count(&guarded);
    is_i64(fork_over(&guarded, true), 0, "a child of fork() finds a lock unowned that the forking thread owns");
    count(&guarded);
    ok(owner_of(&guarded) == tidei_thread->number && guarded.lock.held == 0,
       "the forking thread keeps the lock in the parent");
    elsewhere(run_count, &guarded);
    is_i64(fork_over(&guarded, true), 0, "a child of fork() finds a shared lock unowned");
    count(&guarded);
    ok(owner_of(&guarded) == TIDEI_LOCK_SHARED && guarded.first == 4, "a shared lock stays shared in the parent");
    tidei_lock_fini(&guarded.lock);
    is_i64(fork_beside_holder(true), 0, "fork() waits for the holder of a lock");
    is_i64(fork_beside_holder(false), 0,
           "fork() waits for an owner that holds the lock and takes an older lock meanwhile");
    is_i64(fork_beside_owner(), FORKS,
           "child and parent find data consistent that the lock's owner changes all the time");
    is_i64(fork_beside_look(), 0, "fork() is safe while the owner is about to check its ownership");
}

/* Make the kernel refuse membarrier from now on. False if the kernel has no such filters. */
static bool
refuse_membarrier(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(rules) / sizeof(rules[0]), rules };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Exit statuses of the child of check_refused. */
enum { REFUSED_RIGHT, REFUSED_NO_FILTER, REFUSED_OWNED, REFUSED_NEW, REFUSED_FORK };

static int
refused_child(void)
{
    struct guarded owned, new;
    pid_t child;

    guarded_init(&owned);
    count(&owned);
    if (!refuse_membarrier())
        return REFUSED_NO_FILTER;
    elsewhere(run_count, &owned);
    count(&owned);
    if (owned.first != 3 || owner_of(&owned) != TIDEI_LOCK_SHARED)
        return REFUSED_OWNED;
    guarded_init(&new);
    count(&new);
    if (new.first != 1 || owner_of(&new) != TIDEI_LOCK_SHARED)
        return REFUSED_NEW;
    child = fork();
    if (child == 0) {
        count(&new);
        _exit(new.first == 2 && owner_of(&new) == TIDEI_LOCK_SHARED ? 0 : 1);
    }
    return status_of(child) == 0 ? REFUSED_RIGHT : REFUSED_FORK;
}

#define REFUSED_TESTS 1

/* A program may enter a sandbox at any time. */
static void
check_refused(void)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        alarm(60);
        _exit(refused_child());
    }
    status = status_of(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == REFUSED_NO_FILTER)
        skip(REFUSED_TESTS, "no system call filters here");
    else
        is_i64(status, 0, "if the kernel refuses membarrier from now on, locks are shared");
}

#define MANY_TESTS 1

/*
 * So many locks that the list of them grows; they are destroyed in an order that is neither that of the list nor its
 * reverse.
 */
static void
check_many(void)
{
    static struct tidei_lock locks[200];
    pid_t child;

    for (int i = 0; i < 200; i++)
        tidei_lock_init(&locks[i]);
    for (int i = 0; i < 200; i++)
        tidei_lock_fini(&locks[i * 7 % 200]);
    atomic_store_explicit(&locks[5].held, 1, memory_order_relaxed); /* relaxed: there is no other thread */
    child = fork();
    if (child == 0)
        _exit(0);
    is_i64(status_of(child), 0, "fork() does not wait for a destroyed lock");
}

int
main(void)
{
    struct guarded guarded;
    bool biased;

    plan(FORK_TESTS + REFUSED_TESTS + MANY_TESTS);
    alarm(200); /* ends the test if fork() waits for ever */
    guarded_init(&guarded);
    biased = owner_of(&guarded) == TIDEI_LOCK_NEW;
    tidei_lock_fini(&guarded.lock);
    if (biased) {
        check_fork();
        check_refused();
    } else {
        skip(FORK_TESTS + REFUSED_TESTS, "the kernel has no membarrier");
    }
    check_many();
    return done();
}
