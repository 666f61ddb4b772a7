/* Tests src/lock.c. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock.h"
#include "tap.h"

#define THREADS 8
#define STEPS   20000

static struct tidei_lock older, newer;
static uint64_t counter; /* guarded by `newer` */
static pthread_barrier_t barrier;

static void *
count(void *context)
{
    (void)context;
    for (int i = 0; i < STEPS; i++) {
        tidei_lock_take(&newer);
        counter++;
        tidei_lock_give(&newer);
    }
    return NULL;
}

static void
check_exclusion(void)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    is_u64(counter, THREADS * STEPS, "eight threads add up, one at a time");
}

/* Holds the lock long enough that others come to yield and to sleep, and that fork() comes in between. */
static void *
hold(void *context)
{
    (void)context;
    tidei_lock_take(&newer);
    counter = 1;
    pthread_barrier_wait(&barrier);
    usleep(50000);
    tidei_lock_take(&older);
    counter = 2;
    tidei_lock_give(&older);
    tidei_lock_give(&newer);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void
check_waiting(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, hold, NULL);
    pthread_barrier_wait(&barrier);
    tidei_lock_take(&newer);
    is_u64(counter, 2, "who waits for long comes after the holder");
    tidei_lock_give(&newer);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
}

/* A lock that its holder has in the parent would be held by nobody in the child, for ever. */
static void
check_fork(void)
{
    pthread_t thread;
    int status = -1;
    pid_t child;

    pthread_create(&thread, NULL, hold, NULL);
    pthread_barrier_wait(&barrier);
    child = fork();
    if (child == 0) {
        alarm(20);
        tidei_lock_take(&older);
        tidei_lock_take(&newer);
        _exit(counter == 2 ? 0 : 1);
    }
    waitpid(child, &status, 0);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    is_i64(status, 0, "a child of fork() finds the locks free, and what they guard whole");
    tidei_lock_take(&newer);
    tidei_lock_give(&newer);
    ok(true, "and so does the parent");
}

/* Enough that the list of them grows, gone in an order that is neither first nor last. */
static void
check_many(void)
{
    static struct tidei_lock locks[200];
    int status = -1;
    pid_t child;

    for (int i = 0; i < 200; i++) {
        if (tidei_lock_init(&locks[i]) != TIDE_OK)
            diag("no lock %d", i);
    }
    for (int i = 0; i < 200; i++)
        tidei_lock_fini(&locks[i * 7 % 200]);
    tidei_lock_take(&locks[5]);
    child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, &status, 0);
    is_i64(status, 0, "fork() does not wait for a lock that is gone");
}

int
main(void)
{
    plan(5);
    alarm(100); /* where fork() takes them in the wrong order, nothing else ends this */
    pthread_barrier_init(&barrier, NULL, 2);
    if (tidei_lock_init(&older) != TIDE_OK || tidei_lock_init(&newer) != TIDE_OK)
        return 1;
    check_exclusion();
    check_waiting();
    check_fork();
    check_many();
    tidei_lock_fini(&older);
    tidei_lock_fini(&newer);
    pthread_barrier_destroy(&barrier);
    return done();
}
