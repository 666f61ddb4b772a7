/* Gives threads their parts of objects, takes those back when threads end, and closes them for who needs all. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "src/sync/lock.h"
#include "src/resource/resource.h"
#include "src/sync/thread.h"

/* What a part is aligned to: two lines, as processors fetch them in pairs. */
#define PART_ALIGNMENT ((size_t)128)
/* A thread that has fewer parts does not look for those whose objects are gone. */
#define LINKS_LEAST 16
/* Looks at a thread that is inside before the processor is given away. */
#define PART_SPINS 256

/* One part of this thread, whose object may be gone. */
struct part_link {
    uint64_t serial;
    struct tidei_part *part; /* borrowed, where the object is there */
    struct part_link *next;
};

_Thread_local struct tidei_part_slot tidei_part_slots[TIDEI_PART_SLOTS];

/* All parts of this thread, those used last first; and how many there may be before it looks for objects gone. */
static _Thread_local struct part_link *part_links;
static _Thread_local size_t part_link_count, part_link_most;

/*
 * All objects, newest first. `mutex` comes before that of an object where both are held. `known` is a lock so that the
 * handlers of src/sync/lock.c are there first: they let go of locks only after these ones, and take them after.
 */
static struct {
    pthread_mutex_t mutex;
    struct tidei_parts *newest;
    uint64_t serials; /* the last one given out */
    struct tidei_lock known;
    pthread_key_t key;
    enum tide_status status;
} registry = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* Keep all out who are about to enter; who is inside may still be. With the mutex. */
static void
parts_shut(struct tidei_parts *parts)
{
    /* Relaxed: the barrier orders it before the looks at `busy`. */
    atomic_store_explicit(&parts->closed, 1, memory_order_relaxed);
}

/* Behind the barrier: return once nobody is inside. */
static void
parts_settle(struct tidei_parts *parts)
{
    for (struct tidei_part *part = parts->first; part != NULL; part = part->next) {
        /* Acquire: pairs with the release in tidei_part_leave. */
        for (unsigned looks = 0; atomic_load_explicit(&part->busy, memory_order_acquire) != 0; looks++) {
            if (looks >= PART_SPINS)
                sched_yield();
        }
    }
}

/*
 * Relaxed: who enters without a fence still sees `closed` behind the barrier that has just been passed, or waited for.
 */
static void
parts_note_fence(struct tidei_parts *parts)
{
    if (!tidei_lock_barrier_possible())
        atomic_store_explicit(&parts->fence, true, memory_order_relaxed);
}

void
tidei_parts_close(struct tidei_parts *parts)
{
    pthread_mutex_lock(&parts->mutex);
    parts_shut(parts);
    TIDEI_TEST_POINT("parts.shut");
    if (atomic_load_explicit(&parts->fence, memory_order_relaxed)) /* relaxed: written with the mutex */
        atomic_thread_fence(memory_order_seq_cst);                 /* pairs with that of who enters */
    else
        tidei_lock_barrier();
    parts_note_fence(parts);
    parts_settle(parts);
}

void
tidei_parts_open(struct tidei_parts *parts)
{
    /* Release: pairs with the acquire in tidei_part_enter. */
    atomic_store_explicit(&parts->closed, 0, memory_order_release);
    pthread_mutex_unlock(&parts->mutex);
}

/* The object of that serial, where it is there; with the registry's mutex. */
static struct tidei_parts *
registry_find(uint64_t serial)
{
    struct tidei_parts *parts = registry.newest;

    while (parts != NULL && parts->serial != serial)
        parts = parts->older;
    return parts;
}

/* The part's thread is gone; with the mutex of the parts. */
static void
part_abandon(struct tidei_parts *parts, struct tidei_part *part)
{
    if (parts->leave != NULL)
        parts->leave(parts, part);
    part->taken = false;
}

/* The thread ends. */
static void
thread_ends(void *unused)
{
    struct part_link *link = part_links;

    (void)unused;
    part_links = NULL;
    part_link_count = part_link_most = 0;
    memset(tidei_part_slots, 0, sizeof(tidei_part_slots));
    while (link != NULL) {
        struct part_link *next = link->next;
        struct tidei_parts *parts;

        pthread_mutex_lock(&registry.mutex);
        parts = registry_find(link->serial);
        if (parts != NULL) {
            pthread_mutex_lock(&parts->mutex);
            part_abandon(parts, link->part);
            pthread_mutex_unlock(&parts->mutex);
        }
        pthread_mutex_unlock(&registry.mutex);
        free(link);
        link = next;
    }
}

static void
parts_before_fork(void)
{
    pthread_mutex_lock(&registry.mutex);
    for (struct tidei_parts *parts = registry.newest; parts != NULL; parts = parts->older) {
        pthread_mutex_lock(&parts->mutex);
        parts_shut(parts);
    }
    atomic_thread_fence(memory_order_seq_cst); /* for those that pay a fence when they enter */
    tidei_lock_barrier();
    for (struct tidei_parts *parts = registry.newest; parts != NULL; parts = parts->older)
        parts_settle(parts);
}

static void
parts_after_fork_parent(void)
{
    for (struct tidei_parts *parts = registry.newest; parts != NULL; parts = parts->older)
        tidei_parts_open(parts);
    pthread_mutex_unlock(&registry.mutex);
}

/* By the serial, too: a link of an object that is gone may name memory that is another thread's part by now. */
static bool
part_is_own(const struct tidei_parts *parts, const struct tidei_part *part)
{
    const struct part_link *link = part_links;

    while (link != NULL && (link->part != part || link->serial != parts->serial))
        link = link->next;
    return link != NULL;
}

static void
parts_after_fork_child(void)
{
    for (struct tidei_parts *parts = registry.newest; parts != NULL; parts = parts->older) {
        parts_note_fence(parts);
        for (struct tidei_part *part = parts->first; part != NULL; part = part->next) {
            if (!part->taken || part_is_own(parts, part))
                continue;
            /* Relaxed: alone. Its thread was about to see that it is closed. */
            atomic_store_explicit(&part->busy, 0, memory_order_relaxed);
            part_abandon(parts, part);
        }
    }
    parts_after_fork_parent();
}

static void
registry_prepare(void)
{
    registry.status = tidei_lock_init(&registry.known);
    if (registry.status == TIDE_OK && pthread_key_create(&registry.key, thread_ends) != 0)
        registry.status = TIDE_ENOMEM;
    if (registry.status == TIDE_OK &&
        pthread_atfork(parts_before_fork, parts_after_fork_parent, parts_after_fork_child) != 0)
        registry.status = TIDE_ENOMEM;
}

enum tide_status
tidei_parts_init(struct tidei_parts *parts, size_t part_bytes,
                 void (*leave)(struct tidei_parts *parts, struct tidei_part *part))
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, registry_prepare);
    if (registry.status != TIDE_OK)
        return tide_error_set(TIDE_ENOMEM, "threads: no room for what threads have to themselves");
    *parts = (struct tidei_parts){ .part_bytes = part_bytes, .leave = leave };
    atomic_init(&parts->fence, !tidei_lock_barrier_possible());
    pthread_mutex_init(&parts->mutex, NULL);
    pthread_mutex_lock(&registry.mutex);
    parts->serial = ++registry.serials;
    parts->older = registry.newest;
    if (parts->older != NULL)
        parts->older->newer = parts;
    registry.newest = parts;
    pthread_mutex_unlock(&registry.mutex);
    return TIDE_OK;
}

void
tidei_parts_fini(struct tidei_parts *parts)
{
    struct tidei_part *part = parts->first;

    pthread_mutex_lock(&registry.mutex);
    if (parts->older != NULL)
        parts->older->newer = parts->newer;
    if (parts->newer != NULL)
        parts->newer->older = parts->older;
    else
        registry.newest = parts->older;
    pthread_mutex_unlock(&registry.mutex);
    while (part != NULL) {
        struct tidei_part *next = part->next;

        free(part);
        part = next;
    }
    pthread_mutex_destroy(&parts->mutex);
}

/* Forget the parts of objects that are gone, once there are twice as many as then; with the registry's mutex. */
static void
links_prune(void)
{
    struct part_link **place = &part_links;

    if (part_link_count < part_link_most)
        return;
    while (*place != NULL) {
        struct part_link *link = *place;

        if (registry_find(link->serial) != NULL) {
            place = &link->next;
        } else {
            *place = link->next;
            free(link);
            part_link_count--;
        }
    }
    part_link_most = 2 * part_link_count + LINKS_LEAST;
}

/* One that a thread has left, else a new one. With the mutex of the parts. */
static struct tidei_part *
part_new(struct tidei_parts *parts)
{
    size_t bytes = (parts->part_bytes + PART_ALIGNMENT - 1) & ~(PART_ALIGNMENT - 1);
    struct tidei_part *part = parts->first;

    while (part != NULL && part->taken)
        part = part->next;
    if (part == NULL) {
        part = aligned_alloc(PART_ALIGNMENT, bytes);
        if (part == NULL)
            return NULL;
        memset(part, 0, bytes);
        part->next = parts->first;
        parts->first = part;
    }
    part->taken = true;
    return part;
}

/* This thread's first part of the object. */
static struct part_link *
link_new(struct tidei_parts *parts)
{
    struct part_link *link = malloc(sizeof(*link));

    if (link == NULL)
        return NULL;
    pthread_mutex_lock(&registry.mutex);
    links_prune();
    /* The part and the link together, so that no fork() comes in between. */
    pthread_mutex_lock(&parts->mutex);
    link->serial = parts->serial;
    link->part = part_new(parts);
    link->next = part_links;
    if (link->part != NULL) {
        part_links = link;
        part_link_count++;
    }
    pthread_mutex_unlock(&parts->mutex);
    pthread_mutex_unlock(&registry.mutex);
    if (link->part != NULL) {
        /* Where it fails, the part is left with the object only. */
        (void)pthread_setspecific(registry.key, &registry);
        return link;
    }
    free(link);
    return NULL;
}

struct tidei_part *
tidei_part_find(struct tidei_parts *parts)
{
    struct part_link **place = &part_links;
    struct part_link *link;

    while (*place != NULL && (*place)->serial != parts->serial)
        place = &(*place)->next;
    link = *place;
    if (link != NULL) {
        *place = link->next;
        link->next = part_links;
        part_links = link;
    } else {
        link = link_new(parts);
    }
    if (link == NULL)
        return NULL;
    tidei_part_slots[parts->serial % TIDEI_PART_SLOTS] = (struct tidei_part_slot){ link->serial, link->part };
    return link->part;
}
