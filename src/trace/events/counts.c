/* Reads what layers count. A count is a number that anybody may read at any time: nothing of the layer is called. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>

#include "src/resource/kind.h"
#include "src/sync/testpoint.h"
#include "src/tables/grow.h"
#include "src/tables/map.h"
#include "src/trace/events/counts.h"

struct counts_watch {
    const struct tide_resource *resource; /* borrowed; NULL: it is watched no more, and `value` is its last */
    const struct tidei_count *count;
    uint32_t layer_id;
    bool is_written; /* the trace has `written`; else nothing of it */
    bool is_taken;   /* `value` is in the transaction that is under way */
    bool is_kept;    /* of those without a resource: it is written, and stays for one with its layer_id */
    uint64_t before; /* what the resources before have counted; part of `value` */
    uint64_t value, written;
};

struct tidei_counts {
    pthread_mutex_t lock; /* for the watches */
    struct counts_watch *watches;
    size_t watch_count, watch_capacity;
    struct tidei_map places;       /* of the watches of a resource in that list: a trace may have thousands of stacks */
    struct tidei_map ended_places; /* with `keeps`, of those without a resource, by their count and layer_id */
    struct tidei_layer_count *taken; /* the writer's */
    size_t taken_capacity;
    size_t ended; /* watches without a resource that are not written */
    bool keeps;   /* tidei_counts_keep was called */
};

struct tidei_counts *
tidei_counts_new(void)
{
    struct tidei_counts *counts = calloc(1, sizeof(*counts));

    if (counts != NULL)
        pthread_mutex_init(&counts->lock, NULL);
    return counts;
}

void
tidei_counts_free(struct tidei_counts *counts)
{
    if (counts == NULL)
        return;
    pthread_mutex_destroy(&counts->lock);
    free(counts->watches);
    tidei_map_free(&counts->places);
    tidei_map_free(&counts->ended_places);
    free(counts->taken);
    free(counts);
}

bool
tidei_counts_has(const struct tide_resource *resource)
{
    const struct tidei_kind *kind = tidei_kind_of_any(resource);

    return kind != NULL && kind->count_count != 0;
}

void
tidei_counts_keep(struct tidei_counts *counts)
{
    pthread_mutex_lock(&counts->lock);
    counts->keeps = true;
    pthread_mutex_unlock(&counts->lock);
}

/* The key of a watch without a resource. */
static inline uint64_t
counts_ended_id(const struct tidei_count *count)
{
    return (uint64_t)(uintptr_t)count;
}

/* Have a resource go on with a count that has ended. False where there is none. */
static bool
counts_go_on(struct tidei_counts *counts, const struct tide_resource *resource, const struct tidei_count *count,
             uint32_t layer_id)
{
    struct counts_watch *watch;
    uint32_t place;

    if (layer_id > UINT16_MAX ||
        !tidei_map_take(&counts->ended_places, counts_ended_id(count), (uint16_t)layer_id, &place))
        return false;
    TIDEI_TEST_POINT("counts.looks");
    if (!tidei_map_add(&counts->places, (uintptr_t)resource, 0, place)) {
        (void)tidei_map_add(&counts->ended_places, counts_ended_id(count), (uint16_t)layer_id, place);
        return false;
    }
    watch = &counts->watches[place];
    counts->ended -= !watch->is_kept;
    watch->is_kept = false;
    watch->before = watch->value;
    watch->resource = resource;
    return true;
}

void
tidei_counts_watch(struct tidei_counts *counts, struct tide_resource *resource, uint32_t layer_id)
{
    const struct tidei_kind *kind = tidei_kind_of_any(resource);

    pthread_mutex_lock(&counts->lock);
    if (kind != NULL && tidei_grow(&counts->watches, &counts->watch_capacity, counts->watch_count, kind->count_count)) {
        for (size_t i = 0; i < kind->count_count; i++) {
            if (counts_go_on(counts, resource, &kind->counts[i], layer_id))
                continue;
            if (!tidei_map_add(&counts->places, (uintptr_t)resource, 0, (uint32_t)counts->watch_count))
                break;
            counts->watches[counts->watch_count++] =
                (struct counts_watch){ .resource = resource, .count = &kind->counts[i], .layer_id = layer_id };
        }
    }
    pthread_mutex_unlock(&counts->lock);
}

void
tidei_counts_unwatch(struct tidei_counts *counts, const struct tide_resource *resource)
{
    uint32_t place;

    pthread_mutex_lock(&counts->lock);
    while (tidei_map_take(&counts->places, (uintptr_t)resource, 0, &place)) {
        struct counts_watch *watch = &counts->watches[place];

        watch->value = watch->before + tidei_count_get(resource, watch->count);
        watch->is_taken = false;
        watch->resource = NULL;
        counts->ended++;
        /* Without host memory for it, nobody goes on with it. */
        if (counts->keeps && watch->layer_id <= UINT16_MAX)
            (void)tidei_map_add(&counts->ended_places, counts_ended_id(watch->count), (uint16_t)watch->layer_id, place);
    }
    pthread_mutex_unlock(&counts->lock);
}

static bool
counts_has_changed(const struct counts_watch *watch)
{
    return !watch->is_written || watch->value != watch->written;
}

const struct tidei_layer_count *
tidei_counts_take(struct tidei_counts *counts, size_t *count)
{
    size_t taken = 0;

    pthread_mutex_lock(&counts->lock);
    if (tidei_grow(&counts->taken, &counts->taken_capacity, 0, counts->watch_count)) {
        for (size_t i = 0; i < counts->watch_count; i++) {
            struct counts_watch *watch = &counts->watches[i];

            if (watch->resource != NULL)
                watch->value = watch->before + tidei_count_get(watch->resource, watch->count);
            watch->is_taken = counts_has_changed(watch);
            if (watch->is_taken)
                counts->taken[taken++] =
                    (struct tidei_layer_count){ watch->layer_id, watch->count->name, watch->value };
        }
    }
    pthread_mutex_unlock(&counts->lock);
    *count = taken;
    return taken != 0 ? counts->taken : NULL;
}

/* A watch moves in the list. */
static void
counts_move(struct tidei_counts *counts, const struct counts_watch *watch, uint32_t from, uint32_t to)
{
    if (watch->resource != NULL)
        tidei_map_renumber(&counts->places, (uintptr_t)watch->resource, 0, from, to);
    else
        tidei_map_renumber(&counts->ended_places, counts_ended_id(watch->count), (uint16_t)watch->layer_id, from, to);
}

void
tidei_counts_written(struct tidei_counts *counts)
{
    size_t kept = 0;

    pthread_mutex_lock(&counts->lock);
    for (size_t i = 0; i < counts->watch_count; i++) {
        struct counts_watch *watch = &counts->watches[i];

        if (watch->is_taken) {
            watch->written = watch->value;
            watch->is_written = true;
            watch->is_taken = false;
        }
        if (watch->resource == NULL && !watch->is_kept && !counts_has_changed(watch)) {
            counts->ended--;
            watch->is_kept = counts->keeps;
            if (!counts->keeps)
                continue;
        }
        if (kept != i)
            counts_move(counts, watch, (uint32_t)i, (uint32_t)kept);
        counts->watches[kept++] = *watch;
    }
    counts->watch_count = kept;
    pthread_mutex_unlock(&counts->lock);
}

bool
tidei_counts_wait(struct tidei_counts *counts)
{
    bool wait;

    pthread_mutex_lock(&counts->lock);
    wait = counts->ended != 0;
    pthread_mutex_unlock(&counts->lock);
    return wait;
}
