/* Stops a thread at a test point until the test releases it, or kills the process there. */
#include "point.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>

#include "src/sync/testpoint.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const char *label; /* NULL: no thread is to be stopped */
    const char *thread;
    bool stopped;
    const char *kill_label;
    unsigned kill_after;
    const char *count_label;
    unsigned count;
} point = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static bool
point_is_for_me(const char *thread)
{
    char name[17] = "";

    if (thread == NULL)
        return true;
    prctl(PR_GET_NAME, name, 0, 0, 0);
    return strcmp(name, thread) == 0;
}

static void
point_visit(const char *label)
{
    pthread_mutex_lock(&point.lock);
    if (point.count_label != NULL && strcmp(point.count_label, label) == 0)
        point.count++;
    if (point.kill_label != NULL && strcmp(point.kill_label, label) == 0 && --point.kill_after == 0)
        raise(SIGKILL);
    if (point.label != NULL && !point.stopped && strcmp(point.label, label) == 0 && point_is_for_me(point.thread)) {
        point.stopped = true;
        pthread_cond_broadcast(&point.changed);
        while (point.stopped)
            pthread_cond_wait(&point.changed, &point.lock);
    }
    pthread_mutex_unlock(&point.lock);
}

static void
point_install(void)
{
    /* Pairs with the acquire in TIDEI_TEST_POINT. */
    atomic_store_explicit(&tidei_test_point, point_visit, memory_order_release);
}

void
point_arm(const char *label, const char *thread)
{
    pthread_mutex_lock(&point.lock);
    point.label = label;
    point.thread = thread;
    pthread_mutex_unlock(&point.lock);
    point_install();
}

void
point_wait(void)
{
    pthread_mutex_lock(&point.lock);
    while (!point.stopped)
        pthread_cond_wait(&point.changed, &point.lock);
    pthread_mutex_unlock(&point.lock);
}

void
point_release(void)
{
    pthread_mutex_lock(&point.lock);
    point.label = NULL;
    point.stopped = false;
    pthread_cond_broadcast(&point.changed);
    pthread_mutex_unlock(&point.lock);
}

void
point_kill(const char *label, unsigned nth)
{
    pthread_mutex_lock(&point.lock);
    point.kill_label = label;
    point.kill_after = nth;
    pthread_mutex_unlock(&point.lock);
    point_install();
}

unsigned
point_count(const char *label)
{
    unsigned count;

    pthread_mutex_lock(&point.lock);
    count = point.count;
    point.count = 0;
    point.count_label = label;
    pthread_mutex_unlock(&point.lock);
    point_install();
    return count;
}
