/* Samples resources, and keeps the figures that have changed. */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "src/sync/testpoint.h"
#include "src/tables/grow.h"
#include "src/tables/map.h"
#include "src/trace/ring/clock.h"
#include "src/trace/events/asker.h"
#include "src/trace/events/sampler.h"

#define SAMPLER_PERIOD_NS 1000000u
#define SAMPLER_MOST      65536u /* between two transactions */

/*
 * A device is asked no more often than this, and for no more than one part in so many of the time; after a slow answer
 * it is left alone for SAMPLER_DEVICE_KEEP_NS at the most. What makes an answer slow is a lock that another thread has,
 * as while the driver loads modules (28 ms under PyTorch). The writer waits for it, and then has it as shortly as ever.
 */
#define SAMPLER_DEVICE_NS    10000000u
#define SAMPLER_DEVICE_PARTS 100u

/* A device's figures are kept so often although they have not changed: what is in use is known to be so until then. */
#define SAMPLER_DEVICE_KEEP_NS 250000000u

/*
 * The first room of a list, made in the midst of a transaction: 8 KiB, more than malloc keeps of freed blocks for the
 * next request. A smaller list lay behind SQLite's pages in the writer's arena, and kept up to 8 MiB of them from being
 * returned to the system.
 */
#define SAMPLER_FIRST 256

struct sampler_watch {
    struct tide_resource *resource; /* borrowed */
    uint32_t layer_id;
    struct tidei_layer_figures last; /* as last sampled */
    struct tidei_high high;
};

struct sampler_device {
    struct tide_resource *resource;  /* borrowed; answers for the device */
    struct tidei_device_sample last; /* as last sampled */
    uint64_t next_ns;                /* not to be asked before */
    struct tidei_answer answer;      /* of this round */
    bool answered;                   /* there is one */
};

struct sampler_list {
    struct tidei_pool_sample *items;
    size_t count, capacity;
};

struct sampler_devices {
    struct tidei_device_sample *items;
    size_t count, capacity;
};

struct tidei_sampler {
    pthread_mutex_t lock; /* for the watches, `samples` and `device_samples` */
    struct sampler_watch *watches;
    size_t watch_count, watch_capacity;
    struct tidei_map places; /* of the watches of a resource in that list */
    struct sampler_device *devices;
    size_t device_count, device_capacity;
    struct sampler_list samples;                           /* taken since the last transaction */
    struct sampler_list written;                           /* in the transaction that is under way; the writer's */
    struct sampler_devices device_samples, device_written; /* likewise */
    uint64_t sampled_ns;                                   /* the writer's */
    struct tidei_asker *asker; /* of resources that the program brings; NULL: there was none yet, or it has no thread */
    _Atomic bool asks;         /* questions are under way */

    /* The last sample, at exit(). Its lock is held during nothing else. */
    pthread_mutex_t last_lock;
    pthread_cond_t last_taken;
    _Atomic int last; /* enum sampler_last, written under that lock */
};

enum sampler_last {
    SAMPLER_GOES_ON,
    SAMPLER_WANTED,  /* some thread waits for the last sample */
    SAMPLER_TAKEN,   /* devices are asked no more */
    SAMPLER_GIVEN_UP /* nor are they where there was no sample in time */
};

struct tidei_sampler *
tidei_sampler_new(void)
{
    struct tidei_sampler *sampler = calloc(1, sizeof(*sampler));

    pthread_condattr_t monotonic;

    if (sampler == NULL)
        return NULL;
    pthread_mutex_init(&sampler->lock, NULL);
    pthread_mutex_init(&sampler->last_lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&sampler->last_taken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return sampler;
}

void
tidei_sampler_free(struct tidei_sampler *sampler)
{
    if (sampler == NULL)
        return;
    tidei_asker_free(sampler->asker);
    pthread_mutex_destroy(&sampler->lock);
    pthread_mutex_destroy(&sampler->last_lock);
    pthread_cond_destroy(&sampler->last_taken);
    free(sampler->watches);
    tidei_map_free(&sampler->places);
    free(sampler->devices);
    free(sampler->samples.items);
    free(sampler->written.items);
    free(sampler->device_samples.items);
    free(sampler->device_written.items);
    free(sampler);
}

void
tidei_high_begin(struct tidei_high *high, const struct tidei_layer_figures *figures)
{
    bool now = figures->reserved_high_bytes == figures->reserved_bytes;

    *high = (struct tidei_high){ .before_bytes = now ? 0 : figures->reserved_high_bytes };
}

void
tidei_high_next(struct tidei_high *high, struct tidei_layer_figures *figures)
{
    uint64_t most = figures->reserved_high_bytes;

    if (high->seen_bytes < figures->reserved_bytes)
        high->seen_bytes = figures->reserved_bytes;
    /* It was reset since: what it counts now was while the watch went on. */
    if (most != 0 && most < high->before_bytes) {
        high->before_bytes = 0;
        high->bytes = high->seen_bytes;
    }
    if (most > high->before_bytes || (most != 0 && most == figures->reserved_bytes))
        high->bytes = most > high->bytes ? most : high->bytes;
    /* A layer may have grown between the two questions. */
    if (high->bytes != 0 && high->bytes < high->seen_bytes)
        high->bytes = high->seen_bytes;
    figures->reserved_high_bytes = high->bytes;
}

/* Query a resource; one of the program's on the asker's thread. The lock is held. */
static bool
sampler_query(const struct tidei_sampler *sampler, struct tide_resource *resource, bool device,
              struct tidei_answer *answer)
{
    if (!tidei_asker_is_for(resource))
        tidei_asker_query(resource, device, answer);
    else if (sampler->asker == NULL || !tidei_asker_ask(sampler->asker, resource, device, answer))
        return false;
    return answer->known;
}

/* Keep the figures of a resource if they have changed. The lock is held. */
static void
sampler_keep(struct tidei_sampler *sampler, struct sampler_watch *watch, struct tidei_layer_figures figures,
             uint64_t now_ns)
{
    struct sampler_list *list = &sampler->samples;
    const struct tidei_layer_figures *last = &watch->last;

    tidei_high_next(&watch->high, &figures);
    if (figures.used_bytes == last->used_bytes && figures.reserved_bytes == last->reserved_bytes &&
        figures.reserved_high_bytes == last->reserved_high_bytes)
        return;
    if (list->count == SAMPLER_MOST ||
        !tidei_grow(&list->items, &list->capacity, list->count, list->capacity == 0 ? SAMPLER_FIRST : 1))
        return;
    watch->last = figures;
    list->items[list->count++] = (struct tidei_pool_sample){ .ns = now_ns,
                                                             .layer_id = watch->layer_id,
                                                             .used_bytes = figures.used_bytes,
                                                             .reserved_bytes = figures.reserved_bytes,
                                                             .reserved_high_bytes = figures.reserved_high_bytes };
}

/* Whether an earlier watch answers for the same device. */
static bool
sampler_is_asked(const struct tidei_sampler *sampler, const struct sampler_device *device)
{
    for (const struct sampler_device *other = sampler->devices; other < device; other++) {
        if (other->last.device == device->last.device)
            return true;
    }
    return false;
}

/* Keep the figures of a device if they have changed, or were kept long before. The lock is held. */
static void
sampler_keep_device(struct tidei_sampler *sampler, struct sampler_device *device, const struct tidei_answer *answer,
                    uint64_t now_ns)
{
    struct sampler_devices *list = &sampler->device_samples;
    struct tidei_device_sample *last = &device->last;

    if (answer->free_bytes == last->free_bytes && answer->total_bytes == last->total_bytes &&
        now_ns < last->ns + SAMPLER_DEVICE_KEEP_NS)
        return;
    if (list->count == SAMPLER_MOST ||
        !tidei_grow(&list->items, &list->capacity, list->count, list->capacity == 0 ? SAMPLER_FIRST : 1))
        return;
    *last = list->items[list->count++] = (struct tidei_device_sample){
        .ns = now_ns, .device = last->device, .free_bytes = answer->free_bytes, .total_bytes = answer->total_bytes
    };
}

/* Query one device. *now_ns becomes the time of the answer. The lock is held. */
static void
sampler_ask_device(struct tidei_sampler *sampler, struct sampler_device *device, uint64_t *now_ns)
{
    uint64_t begin_ns = tidei_monotonic_ns(), end_ns, pause_ns;

    device->answered = sampler_query(sampler, device->resource, true, &device->answer);
    end_ns = tidei_monotonic_ns();
    *now_ns += end_ns - begin_ns;
    pause_ns = SAMPLER_DEVICE_PARTS * (end_ns - begin_ns);
    device->next_ns = end_ns + TIDEI_TEST_LIMIT(device_ns, SAMPLER_DEVICE_NS) +
                      (pause_ns < SAMPLER_DEVICE_KEEP_NS ? pause_ns : SAMPLER_DEVICE_KEEP_NS);
}

/*
 * Query all devices, or without `at_once` the one that has been due the longest: a slow answer would make that of
 * another device old. *now_ns becomes the time of the last answer, which all that were asked get. The lock is held.
 */
static void
sampler_ask_devices(struct tidei_sampler *sampler, uint64_t *now_ns, bool at_once)
{
    struct sampler_device *due = NULL;

    for (size_t i = 0; i < sampler->device_count; i++) {
        struct sampler_device *device = &sampler->devices[i];

        device->answered = false;
        if (sampler_is_asked(sampler, device))
            continue;
        if (at_once)
            sampler_ask_device(sampler, device, now_ns);
        else if (*now_ns >= device->next_ns && (due == NULL || device->next_ns < due->next_ns))
            due = device;
    }
    if (due != NULL)
        sampler_ask_device(sampler, due, now_ns);
    for (size_t i = 0; i < sampler->device_count; i++) {
        if (sampler->devices[i].answered)
            sampler_keep_device(sampler, &sampler->devices[i], &sampler->devices[i].answer, *now_ns);
    }
}

/* The lock is held. */
static void
sampler_expect(struct tidei_sampler *sampler, struct tide_resource *resource)
{
    if (sampler->asker == NULL && tidei_asker_is_for(resource))
        sampler->asker = tidei_asker_new();
}

void
tidei_sampler_watch(struct tidei_sampler *sampler, struct tide_resource *resource, uint32_t layer_id,
                    struct tidei_high high)
{
    pthread_mutex_lock(&sampler->lock);
    if (tidei_grow(&sampler->watches, &sampler->watch_capacity, sampler->watch_count, 1) &&
        tidei_map_add(&sampler->places, (uintptr_t)resource, 0, (uint32_t)sampler->watch_count))
        sampler->watches[sampler->watch_count++] =
            (struct sampler_watch){ .resource = resource, .layer_id = layer_id, .high = high };
    sampler_expect(sampler, resource);
    pthread_mutex_unlock(&sampler->lock);
}

void
tidei_sampler_watch_device(struct tidei_sampler *sampler, struct tide_resource *resource, int32_t device)
{
    pthread_mutex_lock(&sampler->lock);
    if (tidei_grow(&sampler->devices, &sampler->device_capacity, sampler->device_count, 1))
        sampler->devices[sampler->device_count++] =
            (struct sampler_device){ .resource = resource, .last = { .device = device } };
    sampler_expect(sampler, resource);
    pthread_mutex_unlock(&sampler->lock);
}

/* Take a resource's watch out of the list; false if it has none. The lock is held. */
static bool
sampler_take_watch(struct tidei_sampler *sampler, const struct tide_resource *resource, struct sampler_watch *out)
{
    const struct sampler_watch *last;
    uint32_t place;

    if (!tidei_map_take(&sampler->places, (uintptr_t)resource, 0, &place))
        return false;
    *out = sampler->watches[place];
    last = &sampler->watches[--sampler->watch_count];
    if (place != sampler->watch_count) {
        sampler->watches[place] = *last;
        tidei_map_renumber(&sampler->places, (uintptr_t)last->resource, 0, (uint32_t)sampler->watch_count, place);
    }
    return true;
}

/*
 * Take a resource's devices out of the list, whose order stays: the first watch of a device is the one that answers.
 * False if there was none, or another one answers. The lock is held.
 */
static bool
sampler_take_device(struct tidei_sampler *sampler, const struct tide_resource *resource, struct sampler_device *out)
{
    size_t kept = 0;
    bool found = false;

    for (size_t i = 0; i < sampler->device_count; i++) {
        if (sampler->devices[i].resource != resource)
            continue;
        if (!found && !sampler_is_asked(sampler, &sampler->devices[i])) {
            *out = sampler->devices[i];
            found = true;
        }
    }
    for (size_t i = 0; i < sampler->device_count; i++) {
        if (sampler->devices[i].resource != resource)
            sampler->devices[kept++] = sampler->devices[i];
    }
    sampler->device_count = kept;
    return found;
}

/*
 * The last query is made by this thread, without the lock: the resource may be the program's, and wait for a lock that
 * another thread holds while it calls the library.
 */
void
tidei_sampler_unwatch(struct tidei_sampler *sampler, struct tide_resource *resource)
{
    struct tidei_answer answer, device_answer;
    struct sampler_device device;
    struct sampler_watch watch;
    bool watched, device_watched;

    pthread_mutex_lock(&sampler->lock);
    watched = sampler_take_watch(sampler, resource, &watch);
    device_watched = sampler_take_device(sampler, resource, &device);
    pthread_mutex_unlock(&sampler->lock);
    if (!watched && !device_watched)
        return;
    if (sampler->asker != NULL && !tidei_asker_leave(sampler->asker, resource))
        return;
    if (watched)
        tidei_asker_query(resource, false, &answer);
    if (device_watched)
        tidei_asker_query(resource, true, &device_answer);
    pthread_mutex_lock(&sampler->lock);
    if (watched && answer.known)
        sampler_keep(sampler, &watch, answer.figures, tidei_monotonic_ns());
    if (device_watched && device_answer.known)
        sampler_keep_device(sampler, &device, &device_answer, tidei_monotonic_ns());
    pthread_mutex_unlock(&sampler->lock);
}

/*
 * Devices first, then the layers: both get the time of the devices' answers, and what layers hold then is part of what
 * is in use. `last`: each device has a sample, changed or not.
 */
static void
sampler_round(struct tidei_sampler *sampler, uint64_t now_ns, bool at_once, bool last)
{
    /* Relaxed: it tells who looks at it that the driver ends, and nothing that was written before. */
    int state = atomic_load_explicit(&sampler->last, memory_order_relaxed);
    struct tidei_answer answer;

    /* Relaxed: where questions hang, this was long before somebody looks. */
    atomic_store_explicit(&sampler->asks, true, memory_order_relaxed);
    sampler->sampled_ns = now_ns;
    pthread_mutex_lock(&sampler->lock);
    for (size_t i = 0; last && i < sampler->device_count; i++)
        sampler->devices[i].last.ns = 0;
    if (state != SAMPLER_TAKEN && state != SAMPLER_GIVEN_UP)
        sampler_ask_devices(sampler, &now_ns, at_once);
    for (size_t i = 0; i < sampler->watch_count; i++) {
        if (sampler_query(sampler, sampler->watches[i].resource, false, &answer))
            sampler_keep(sampler, &sampler->watches[i], answer.figures, now_ns);
    }
    pthread_mutex_unlock(&sampler->lock);
    atomic_store_explicit(&sampler->asks, false, memory_order_relaxed);
}

bool
tidei_sampler_is_wanted(const struct tidei_sampler *sampler)
{
    /* Relaxed: it brings nothing with it but the wish. */
    return atomic_load_explicit(&sampler->last, memory_order_relaxed) == SAMPLER_WANTED;
}

void
tidei_sampler_sample(struct tidei_sampler *sampler, uint64_t now_ns, bool at_once)
{
    if (tidei_sampler_is_wanted(sampler))
        tidei_sampler_end(sampler, now_ns);
    else if (at_once || now_ns - sampler->sampled_ns >= TIDEI_TEST_LIMIT(sample_ns, SAMPLER_PERIOD_NS))
        sampler_round(sampler, now_ns, at_once, false);
}

void
tidei_sampler_end(struct tidei_sampler *sampler, uint64_t now_ns)
{
    sampler_round(sampler, now_ns, true, true);
    pthread_mutex_lock(&sampler->last_lock);
    if (tidei_sampler_is_wanted(sampler))
        atomic_store_explicit(&sampler->last, SAMPLER_TAKEN, memory_order_relaxed);
    pthread_cond_broadcast(&sampler->last_taken);
    pthread_mutex_unlock(&sampler->last_lock);
}

bool
tidei_sampler_want(struct tidei_sampler *sampler)
{
    bool wanted;

    pthread_mutex_lock(&sampler->last_lock);
    wanted = atomic_load_explicit(&sampler->last, memory_order_relaxed) == SAMPLER_GOES_ON;
    if (wanted)
        atomic_store_explicit(&sampler->last, SAMPLER_WANTED, memory_order_relaxed);
    pthread_mutex_unlock(&sampler->last_lock);
    return wanted;
}

void
tidei_sampler_wait(struct tidei_sampler *sampler, const struct timespec *until)
{
    int error = 0;

    pthread_mutex_lock(&sampler->last_lock);
    while (error == 0 && tidei_sampler_is_wanted(sampler))
        error = pthread_cond_timedwait(&sampler->last_taken, &sampler->last_lock, until);
    if (tidei_sampler_is_wanted(sampler))
        atomic_store_explicit(&sampler->last, SAMPLER_GIVEN_UP, memory_order_relaxed);
    pthread_mutex_unlock(&sampler->last_lock);
}

bool
tidei_sampler_hangs(const struct tidei_sampler *sampler)
{
    return atomic_load_explicit(&sampler->last, memory_order_relaxed) == SAMPLER_GIVEN_UP &&
           atomic_load_explicit(&sampler->asks, memory_order_relaxed);
}

uint32_t
tidei_sampler_latest(struct tidei_sampler *sampler, struct tidei_gauge_pool *pools, uint32_t most, uint32_t *left_out)
{
    uint32_t count;

    pthread_mutex_lock(&sampler->lock);
    count = sampler->watch_count < most ? (uint32_t)sampler->watch_count : most;
    for (uint32_t i = 0; i < count; i++) {
        const struct sampler_watch *watch = &sampler->watches[i];

        pools[i] = (struct tidei_gauge_pool){ .layer_id = watch->layer_id,
                                              .used_bytes = watch->last.used_bytes,
                                              .reserved_bytes = watch->last.reserved_bytes,
                                              .reserved_high_bytes = watch->last.reserved_high_bytes };
    }
    *left_out = (uint32_t)sampler->watch_count - count;
    pthread_mutex_unlock(&sampler->lock);
    return count;
}

void
tidei_sampler_hold(struct tidei_sampler *sampler)
{
    pthread_mutex_lock(&sampler->lock);
    if (sampler->asker != NULL)
        tidei_asker_hold(sampler->asker);
}

void
tidei_sampler_release(struct tidei_sampler *sampler)
{
    if (sampler->asker != NULL)
        tidei_asker_release(sampler->asker);
    pthread_mutex_unlock(&sampler->lock);
}

void
tidei_sampler_forked(struct tidei_sampler *sampler)
{
    if (sampler->asker != NULL)
        tidei_asker_forked(sampler->asker);
}

bool
tidei_sampler_has(struct tidei_sampler *sampler)
{
    bool has;

    pthread_mutex_lock(&sampler->lock);
    has = sampler->samples.count != 0 || sampler->device_samples.count != 0;
    pthread_mutex_unlock(&sampler->lock);
    return has || sampler->written.count != 0 || sampler->device_written.count != 0;
}

const struct tidei_pool_sample *
tidei_sampler_take(struct tidei_sampler *sampler, size_t *count)
{
    struct sampler_list taken;

    if (sampler->written.count == 0) {
        pthread_mutex_lock(&sampler->lock);
        taken = sampler->samples;
        sampler->samples = sampler->written;
        pthread_mutex_unlock(&sampler->lock);
        sampler->written = taken;
    }
    *count = sampler->written.count;
    return sampler->written.items;
}

const struct tidei_device_sample *
tidei_sampler_take_devices(struct tidei_sampler *sampler, size_t *count)
{
    struct sampler_devices taken;

    if (sampler->device_written.count == 0) {
        pthread_mutex_lock(&sampler->lock);
        taken = sampler->device_samples;
        sampler->device_samples = sampler->device_written;
        pthread_mutex_unlock(&sampler->lock);
        sampler->device_written = taken;
    }
    *count = sampler->device_written.count;
    return sampler->device_written.items;
}

void
tidei_sampler_written(struct tidei_sampler *sampler)
{
    sampler->written.count = 0;
    sampler->device_written.count = 0;
}
