/* Asks the resources that a program brings, on a thread of its own, and waits for no answer without a bound. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "src/resource/kind.h"
#include "src/sync/testpoint.h"
#include "src/sync/thread.h"
#include "src/trace/events/asker.h"

#define ASKER_PATIENCE_NS 100000000u  /* how long anybody waits for a query */
#define ASKER_LOOK_NS     1000000000u /* between two looks for threads of the program */

struct tidei_asker {
    pthread_t thread;
    pthread_mutex_t lock; /* guards the rest; never held during a query */
    pthread_cond_t wake, answered;
    struct tide_resource *resource; /* whose query is wanted or under way; NULL: none. Borrowed, unless it is left */
    bool device;
    bool left;      /* its owner has given it up: the thread holds a reference */
    bool stop;      /* the sampler is gone */
    bool abandoned; /* then, in a query: the thread frees the asker */
    bool ended;     /* there is no thread */
    struct tidei_answer answer;
};

bool
tidei_asker_is_for(struct tide_resource *resource)
{
    return tidei_kind_of_any(resource) == NULL;
}

void
tidei_asker_query(struct tide_resource *resource, bool device, struct tidei_answer *out)
{
    struct tidei_error error;

    *out = (struct tidei_answer){ 0 };
    if (!device) {
        out->known = tidei_layer_figures(resource, &out->figures);
        return;
    }
    tidei_error_save(&error);
    out->known = tide_query(resource, TIDE_QUERY_DEVICE_TOTAL, &out->total_bytes) == TIDE_OK &&
                 tide_query(resource, TIDE_QUERY_DEVICE_FREE, &out->free_bytes) == TIDE_OK;
    tidei_error_restore(&error);
}

static struct timespec
asker_until(uint64_t ns)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    return until;
}

static void
asker_destroy(struct tidei_asker *asker)
{
    pthread_mutex_destroy(&asker->lock);
    pthread_cond_destroy(&asker->wake);
    pthread_cond_destroy(&asker->answered);
    free(asker);
}

/* Query the resource that is wanted. The lock is held, and not during the query. */
static void
asker_answer(struct tidei_asker *asker)
{
    struct tide_resource *resource = asker->resource;
    bool device = asker->device, left;
    struct tidei_answer answer;

    pthread_mutex_unlock(&asker->lock);
    tidei_asker_query(resource, device, &answer);
    pthread_mutex_lock(&asker->lock);
    asker->answer = answer;
    asker->resource = NULL;
    left = asker->left;
    asker->left = false;
    pthread_cond_broadcast(&asker->answered);
    if (!left)
        return;
    pthread_mutex_unlock(&asker->lock);
    tide_resource_release(resource);
    pthread_mutex_lock(&asker->lock);
}

static void
asker_main(void *argument)
{
    struct tidei_asker *asker = argument;
    bool abandoned;

    pthread_mutex_lock(&asker->lock);
    while (!asker->stop && !asker->ended) {
        struct timespec until = asker_until(ASKER_LOOK_NS);
        int error = 0;

        while (asker->resource == NULL && !asker->stop && error == 0)
            error = pthread_cond_timedwait(&asker->wake, &asker->lock, &until);
        if (asker->resource != NULL)
            asker_answer(asker);
        else if (error == ETIMEDOUT)
            asker->ended = tidei_thread_is_left();
    }
    abandoned = asker->abandoned;
    pthread_mutex_unlock(&asker->lock);
    if (abandoned)
        asker_destroy(asker);
}

struct tidei_asker *
tidei_asker_new(void)
{
    struct tidei_asker *asker = calloc(1, sizeof(*asker));
    pthread_condattr_t monotonic;

    if (asker == NULL)
        return NULL;
    pthread_mutex_init(&asker->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&asker->wake, &monotonic);
    pthread_cond_init(&asker->answered, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (tidei_thread_start(&asker->thread, "tidemark-query", asker_main, asker) != 0) {
        asker_destroy(asker);
        return NULL;
    }
    return asker;
}

/* Wait until no query of `resource` (NULL: of any) is wanted or under way. False if that takes too long. */
static bool
asker_wait(struct tidei_asker *asker, const struct tide_resource *resource)
{
    struct timespec until = asker_until(TIDEI_TEST_LIMIT(query_ns, ASKER_PATIENCE_NS));
    int error = 0;

    while (error == 0 && asker->resource != NULL && (resource == NULL || asker->resource == resource))
        error = pthread_cond_timedwait(&asker->answered, &asker->lock, &until);
    return asker->resource == NULL || (resource != NULL && asker->resource != resource);
}

void
tidei_asker_free(struct tidei_asker *asker)
{
    bool in_time;

    if (asker == NULL)
        return;
    pthread_mutex_lock(&asker->lock);
    asker->stop = true;
    pthread_cond_signal(&asker->wake);
    in_time = asker_wait(asker, NULL);
    asker->abandoned = !in_time;
    if (!in_time)
        pthread_detach(asker->thread);
    pthread_mutex_unlock(&asker->lock);
    if (!in_time)
        return;
    pthread_join(asker->thread, NULL);
    asker_destroy(asker);
}

bool
tidei_asker_ask(struct tidei_asker *asker, struct tide_resource *resource, bool device, struct tidei_answer *out)
{
    bool in_time = false;

    pthread_mutex_lock(&asker->lock);
    if (asker->resource == NULL && !asker->ended) {
        asker->resource = resource;
        asker->device = device;
        pthread_cond_signal(&asker->wake);
        in_time = asker_wait(asker, NULL);
        *out = asker->answer;
    }
    pthread_mutex_unlock(&asker->lock);
    return in_time;
}

bool
tidei_asker_leave(struct tidei_asker *asker, struct tide_resource *resource)
{
    bool in_time;

    pthread_mutex_lock(&asker->lock);
    in_time = asker_wait(asker, resource);
    if (!in_time && !asker->left) {
        asker->left = true;
        tide_resource_retain(resource);
    }
    pthread_mutex_unlock(&asker->lock);
    return in_time;
}

void
tidei_asker_hold(struct tidei_asker *asker)
{
    pthread_mutex_lock(&asker->lock);
    (void)asker_wait(asker, NULL);
}

void
tidei_asker_release(struct tidei_asker *asker)
{
    pthread_mutex_unlock(&asker->lock);
}

void
tidei_asker_forked(struct tidei_asker *asker)
{
    asker->resource = NULL;
    asker->ended = true;
}
