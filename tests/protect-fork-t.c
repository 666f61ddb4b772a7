/* Tests what fork() does to the list of the files that no trace may replace. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "src/sync/testpoint.h"
#include "sanitized.h"
#include "tap.h"

static pthread_t other;
static atomic_bool arrived;
static atomic_int forked; /* 1: fork() has begun; 2: it has returned */

/* Stop the other thread while it holds the lock, until fork() waits for it, or has not waited. */
static void
stop_other(const char *label)
{
    const struct timespec pause = { 0, 1000000 };

    if (strcmp(label, "protect.locked") != 0 || !pthread_equal(pthread_self(), other))
        return;
    atomic_store(&arrived, true);
    while (atomic_load(&forked) == 0)
        nanosleep(&pause, NULL);
    for (int i = 0; i < 300 && atomic_load(&forked) == 1; i++)
        nanosleep(&pause, NULL);
}

static void *
protect_other(void *path)
{
    other = pthread_self();
    atomic_store(&tidei_test_point, stop_other);
    return tide_trace_protect(path) == TIDE_OK ? path : NULL;
}

static int
status_of(pid_t child)
{
    int status = -1;

    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
check_child(const char *path, const char *second)
{
    pid_t child;

    atomic_store(&forked, 1);
    child = fork();
    if (child == 0) {
        alarm(10);
        _exit(tide_trace_protect(second) == TIDE_OK && tide_trace_protect(path) == TIDE_OK ? 0 : 1);
    }
    atomic_store(&forked, 2);
    is_i64(status_of(child), 0, "a child protects files, though another thread was just protecting one when it forked");
}

int
main(void)
{
    char path[] = "/tmp/protect-fork-t-XXXXXX", second[] = "/tmp/protect-fork-t-XXXXXX";
    const struct timespec pause = { 0, 1000000 };
    pthread_t thread;
    void *protected = NULL;

    plan(3);
    alarm(120);
    close(mkstemp(path));
    close(mkstemp(second));
    ok(tide_trace_protect(second) == TIDE_OK, "a file is protected");
    pthread_create(&thread, NULL, protect_other, path);
    while (!atomic_load(&arrived))
        nanosleep(&pause, NULL);
    if (SANITIZED_THREAD)
        skip(1, "ThreadSanitizer does not support such a child");
    else
        check_child(path, second);
    atomic_store(&forked, 2);
    pthread_join(thread, &protected);
    ok(protected == path && tide_trace_protect(path) == TIDE_OK, "the thread in the parent goes on");
    unlink(path);
    unlink(second);
    return done();
}
