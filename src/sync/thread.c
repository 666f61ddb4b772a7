/* Gives threads their slots of objects, takes those back when threads end, and closes them for who needs all. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "src/sync/lock.h"
#include "src/resource/resource.h"
#include "src/sync/thread.h"

/* What a slot is aligned to: two lines, as processors fetch them in pairs. */
#define PART_ALIGNMENT ((size_t)128)
/* A thread that has fewer slots does not look for those whose objects are gone. */
#define LINKS_LEAST 16
/* Looks at a thread that is inside before the processor is given away. */
#define PART_SPINS 256

/* One part of this thread, whose object may be gone. */
struct slot_link {
    uint64_t serial;
    struct tidei_slot *slot; /* borrowed, where the object is there */
    struct slot_link *next;
};

_Thread_local struct tidei_slot_entry tidei_slot_index[TIDEI_SLOT_ENTRIES];

/* All slots of this thread, those used last first; and how many there may be before it looks for objects gone. */
static _Thread_local struct slot_link *slot_links;
static _Thread_local size_t slot_link_count, slot_link_most;

/*
 * All objects, newest first. `mutex` comes before that of an object where both are held. `known` is a lock so that the
 * handlers of src/sync/lock.c are there first: they let go of locks only after these ones, and take them after.
 */
static struct {
    pthread_mutex_t mutex;
    struct tidei_slots *newest;
    uint64_t serials; /* the last one given out */
    struct tidei_lock known;
    pthread_key_t key;
    enum tide_status status;
} registry = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* Keep all out who are about to enter; who is inside may still be. With the mutex. */
static void
slots_shut(struct tidei_slots *slots)
{
    /* Relaxed: the barrier orders it before the looks at `busy`. */
    atomic_store_explicit(&slots->closed, 1, memory_order_relaxed);
}

/* Behind the barrier: return once nobody is inside. */
static void
slots_settle(struct tidei_slots *slots)
{
    for (struct tidei_slot *slot = slots->first; slot != NULL; slot = slot->next) {
        /* Acquire: pairs with the release in tidei_slot_leave. */
        for (unsigned looks = 0; atomic_load_explicit(&slot->busy, memory_order_acquire) != 0; looks++) {
            if (looks >= PART_SPINS)
                sched_yield();
        }
    }
}

/*
 * Relaxed: who enters without a fence still sees `closed` behind the barrier that has just been passed, or waited for.
 */
static void
slots_note_fence(struct tidei_slots *slots)
{
    if (!tidei_lock_barrier_possible())
        atomic_store_explicit(&slots->fence, true, memory_order_relaxed);
}

void
tidei_slots_quiesce(struct tidei_slots *slots)
{
    pthread_mutex_lock(&slots->mutex);
    slots_shut(slots);
    TIDEI_TEST_POINT("slots.shut");
    if (atomic_load_explicit(&slots->fence, memory_order_relaxed)) /* relaxed: written with the mutex */
        atomic_thread_fence(memory_order_seq_cst);                 /* pairs with that of who enters */
    else
        tidei_lock_barrier();
    slots_note_fence(slots);
    slots_settle(slots);
}

void
tidei_slots_resume(struct tidei_slots *slots)
{
    /* Release: pairs with the acquire in tidei_slot_enter. */
    atomic_store_explicit(&slots->closed, 0, memory_order_release);
    pthread_mutex_unlock(&slots->mutex);
}

/* The object of that serial, where it is there; with the registry's mutex. */
static struct tidei_slots *
registry_find(uint64_t serial)
{
    struct tidei_slots *slots = registry.newest;

    while (slots != NULL && slots->serial != serial)
        slots = slots->older;
    return slots;
}

/* The slot's thread is gone; with the mutex of the slots. */
static void
slot_abandon(struct tidei_slots *slots, struct tidei_slot *slot)
{
    if (slots->leave != NULL)
        slots->leave(slots, slot);
    slot->taken = false;
}

/* The thread ends. */
static void
thread_ends(void *unused)
{
    struct slot_link *link = slot_links;

    (void)unused;
    slot_links = NULL;
    slot_link_count = slot_link_most = 0;
    memset(tidei_slot_index, 0, sizeof(tidei_slot_index));
    while (link != NULL) {
        struct slot_link *next = link->next;
        struct tidei_slots *slots;

        pthread_mutex_lock(&registry.mutex);
        slots = registry_find(link->serial);
        if (slots != NULL) {
            pthread_mutex_lock(&slots->mutex);
            slot_abandon(slots, link->slot);
            pthread_mutex_unlock(&slots->mutex);
        }
        pthread_mutex_unlock(&registry.mutex);
        free(link);
        link = next;
    }
}

static void
slots_before_fork(void)
{
    pthread_mutex_lock(&registry.mutex);
    for (struct tidei_slots *slots = registry.newest; slots != NULL; slots = slots->older) {
        pthread_mutex_lock(&slots->mutex);
        slots_shut(slots);
    }
    atomic_thread_fence(memory_order_seq_cst); /* for those that pay a fence when they enter */
    tidei_lock_barrier();
    for (struct tidei_slots *slots = registry.newest; slots != NULL; slots = slots->older)
        slots_settle(slots);
}

static void
slots_after_fork_parent(void)
{
    for (struct tidei_slots *slots = registry.newest; slots != NULL; slots = slots->older)
        tidei_slots_resume(slots);
    pthread_mutex_unlock(&registry.mutex);
}

/* By the serial, too: a link of an object that is gone may name memory that is another thread's slot by now. */
static bool
slot_is_own(const struct tidei_slots *slots, const struct tidei_slot *slot)
{
    const struct slot_link *link = slot_links;

    while (link != NULL && (link->slot != slot || link->serial != slots->serial))
        link = link->next;
    return link != NULL;
}

static void
slots_after_fork_child(void)
{
    for (struct tidei_slots *slots = registry.newest; slots != NULL; slots = slots->older) {
        slots_note_fence(slots);
        for (struct tidei_slot *slot = slots->first; slot != NULL; slot = slot->next) {
            if (!slot->taken || slot_is_own(slots, slot))
                continue;
            /* Relaxed: alone. Its thread was about to see that it is closed. */
            atomic_store_explicit(&slot->busy, 0, memory_order_relaxed);
            slot_abandon(slots, slot);
        }
    }
    slots_after_fork_parent();
}

static void
registry_prepare(void)
{
    registry.status = tidei_lock_init(&registry.known);
    if (registry.status == TIDE_OK && pthread_key_create(&registry.key, thread_ends) != 0)
        registry.status = TIDE_ENOMEM;
    if (registry.status == TIDE_OK &&
        pthread_atfork(slots_before_fork, slots_after_fork_parent, slots_after_fork_child) != 0)
        registry.status = TIDE_ENOMEM;
}

enum tide_status
tidei_slots_init(struct tidei_slots *slots, size_t slot_bytes,
                 void (*leave)(struct tidei_slots *slots, struct tidei_slot *slot))
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, registry_prepare);
    if (registry.status != TIDE_OK)
        return tide_error_set(TIDE_ENOMEM, "threads: no room for what threads have to themselves");
    *slots = (struct tidei_slots){ .slot_bytes = slot_bytes, .leave = leave };
    atomic_init(&slots->fence, !tidei_lock_barrier_possible());
    pthread_mutex_init(&slots->mutex, NULL);
    pthread_mutex_lock(&registry.mutex);
    slots->serial = ++registry.serials;
    slots->older = registry.newest;
    if (slots->older != NULL)
        slots->older->newer = slots;
    registry.newest = slots;
    pthread_mutex_unlock(&registry.mutex);
    return TIDE_OK;
}

void
tidei_slots_fini(struct tidei_slots *slots)
{
    struct tidei_slot *slot = slots->first;

    pthread_mutex_lock(&registry.mutex);
    if (slots->older != NULL)
        slots->older->newer = slots->newer;
    if (slots->newer != NULL)
        slots->newer->older = slots->older;
    else
        registry.newest = slots->older;
    pthread_mutex_unlock(&registry.mutex);
    while (slot != NULL) {
        struct tidei_slot *next = slot->next;

        free(slot);
        slot = next;
    }
    pthread_mutex_destroy(&slots->mutex);
}

/* Forget the slots of objects that are gone, once there are twice as many as then; with the registry's mutex. */
static void
links_prune(void)
{
    struct slot_link **place = &slot_links;

    if (slot_link_count < slot_link_most)
        return;
    while (*place != NULL) {
        struct slot_link *link = *place;

        if (registry_find(link->serial) != NULL) {
            place = &link->next;
        } else {
            *place = link->next;
            free(link);
            slot_link_count--;
        }
    }
    slot_link_most = 2 * slot_link_count + LINKS_LEAST;
}

/* One that a thread has left, else a new one. With the mutex of the slots. */
static struct tidei_slot *
slot_new(struct tidei_slots *slots)
{
    size_t bytes = (slots->slot_bytes + PART_ALIGNMENT - 1) & ~(PART_ALIGNMENT - 1);
    struct tidei_slot *slot = slots->first;

    while (slot != NULL && slot->taken)
        slot = slot->next;
    if (slot == NULL) {
        slot = aligned_alloc(PART_ALIGNMENT, bytes);
        if (slot == NULL)
            return NULL;
        memset(slot, 0, bytes);
        slot->next = slots->first;
        slots->first = slot;
    }
    slot->taken = true;
    return slot;
}

/* This thread's first part of the object. */
static struct slot_link *
link_new(struct tidei_slots *slots)
{
    struct slot_link *link = malloc(sizeof(*link));

    if (link == NULL)
        return NULL;
    pthread_mutex_lock(&registry.mutex);
    links_prune();
    /* The slot and the link together, so that no fork() comes in between. */
    pthread_mutex_lock(&slots->mutex);
    link->serial = slots->serial;
    link->slot = slot_new(slots);
    link->next = slot_links;
    if (link->slot != NULL) {
        slot_links = link;
        slot_link_count++;
    }
    pthread_mutex_unlock(&slots->mutex);
    pthread_mutex_unlock(&registry.mutex);
    if (link->slot != NULL) {
        /* Where it fails, the slot is left with the object only. */
        (void)pthread_setspecific(registry.key, &registry);
        return link;
    }
    free(link);
    return NULL;
}

struct tidei_slot *
tidei_slot_find(struct tidei_slots *slots)
{
    struct slot_link **place = &slot_links;
    struct slot_link *link;

    while (*place != NULL && (*place)->serial != slots->serial)
        place = &(*place)->next;
    link = *place;
    if (link != NULL) {
        *place = link->next;
        link->next = slot_links;
        slot_links = link;
    } else {
        link = link_new(slots);
    }
    if (link == NULL)
        return NULL;
    tidei_slot_index[slots->serial % TIDEI_SLOT_ENTRIES] = (struct tidei_slot_entry){ link->serial, link->slot };
    return link->slot;
}
