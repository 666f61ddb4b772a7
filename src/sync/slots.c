/* Assigns slots of objects to threads, takes them back when threads end, and quiesces all slots of an object. */
#include <stdlib.h>
#include <string.h>

#include "src/sync/barrier.h"
#include "src/sync/fork.h"
#include "src/sync/lock.h"
#include "src/sync/slots.h"

/* Alignment of slots: two cache lines, since processors fetch them in pairs. */
#define SLOT_ALIGNMENT ((size_t)128)
/* A thread with fewer slots does not search for links to destroyed objects. */
#define LINKS_LEAST 16

/* One slot of this thread; its object may have been destroyed. */
struct tidei_slot_link {
    uint64_t serial;
    struct tidei_slot *slot; /* borrowed; valid while the object exists */
    struct tidei_slot_link *next;
};

/* All objects, newest first. `mutex` is taken before that of an object where both are held. */
static struct {
    pthread_mutex_t mutex;
    struct tidei_slots *newest;
    uint64_t serials; /* the last one assigned */
} registry = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* After the barrier: return once no thread is inside. */
static void
slots_wait(struct tidei_slots *slots)
{
    for (struct tidei_slot *slot = slots->first; slot != NULL; slot = slot->next) {
        unsigned looks = 0;

        /* Acquire: pairs with the release in tidei_slot_leave. */
        while (atomic_load_explicit(&slot->busy, memory_order_acquire) != 0)
            tidei_lock_pause(&looks);
    }
}

/* Relaxed: written with the mutex. */
static bool
slots_need_fence(const struct tidei_slots *slots)
{
    return (atomic_load_explicit(&slots->closed, memory_order_relaxed) & TIDEI_SLOTS_FENCE) != 0;
}

/* Relaxed: a thread that enters without a fence still sees `closed`, since the barrier or its pause has just ended. */
static void
slots_note_fence(struct tidei_slots *slots)
{
    if (!tidei_barrier_possible())
        atomic_fetch_or_explicit(&slots->closed, TIDEI_SLOTS_FENCE, memory_order_relaxed);
}

void
tidei_slots_quiesce(struct tidei_slots *slots)
{
    pthread_mutex_lock(&slots->mutex);
    /* Relaxed: the barrier or fence below orders it before the reads of `busy`. */
    atomic_fetch_or_explicit(&slots->closed, TIDEI_SLOTS_CLOSED, memory_order_relaxed);
    TIDEI_TEST_POINT("slots.shut");
    if (slots_need_fence(slots))
        atomic_thread_fence(memory_order_seq_cst); /* pairs with the one in tidei_slot_enter_slowly */
    else
        (void)tidei_barrier_run();
    slots_note_fence(slots);
    slots_wait(slots);
}

void
tidei_slots_resume(struct tidei_slots *slots)
{
    /* Release: pairs with the acquire in tidei_slot_enter_quickly. */
    atomic_fetch_and_explicit(&slots->closed, ~TIDEI_SLOTS_CLOSED, memory_order_release);
    pthread_mutex_unlock(&slots->mutex);
}

/* The object of that serial; NULL if it was destroyed. The registry's mutex is held. */
static struct tidei_slots *
registry_find(uint64_t serial)
{
    struct tidei_slots *slots = registry.newest;

    while (slots != NULL && slots->serial != serial)
        slots = slots->older;
    return slots;
}

/* Give up the slot of a thread that is gone. The mutex of the slots is held. */
static void
slot_abandon(struct tidei_slots *slots, struct tidei_slot *slot)
{
    if (slots->leave != NULL)
        slots->leave(slots, slot);
    slot->taken = false;
}

static void
slots_thread_ends(struct tidei_thread *thread)
{
    struct tidei_slot_index *index = tidei_slot_index(thread);
    struct tidei_slot_link *link = index->links;

    memset(index, 0, sizeof(*index));
    while (link != NULL) {
        struct tidei_slot_link *next = link->next;
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
        /* as in tidei_slots_quiesce */
        atomic_fetch_or_explicit(&slots->closed, TIDEI_SLOTS_CLOSED, memory_order_relaxed);
    }
    atomic_thread_fence(memory_order_seq_cst); /* for threads that pay a fence when they enter */
    (void)tidei_barrier_run();
    for (struct tidei_slots *slots = registry.newest; slots != NULL; slots = slots->older)
        slots_wait(slots);
}

static void
slots_after_fork_parent(void)
{
    for (struct tidei_slots *slots = registry.newest; slots != NULL; slots = slots->older)
        tidei_slots_resume(slots);
    pthread_mutex_unlock(&registry.mutex);
}

/* Compares the serial, too: a destroyed object's link may name memory that is now another thread's slot. */
static bool
slot_is_own(const struct tidei_slots *slots, const struct tidei_slot *slot)
{
    const struct tidei_slot_link *link = tidei_slot_index(tidei_thread)->links;

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
            /* Relaxed: the only thread. The slot's own thread was about to read `closed`, and leave. */
            atomic_store_explicit(&slot->busy, 0, memory_order_relaxed);
            slot_abandon(slots, slot);
        }
    }
    slots_after_fork_parent();
}

void
tidei_slots_init(struct tidei_slots *slots, size_t slot_bytes,
                 void (*leave)(struct tidei_slots *slots, struct tidei_slot *slot))
{
    static const struct tidei_fork_hook hook = { slots_before_fork, slots_after_fork_parent, slots_after_fork_child };
    bool possible = tidei_barrier_possible();

    tidei_fork_hook_set(TIDEI_FORK_SLOTS, &hook);
    tidei_thread_at_end(TIDEI_THREAD_END_SLOTS, slots_thread_ends);
    *slots = (struct tidei_slots){ .slot_bytes = slot_bytes, .leave = leave };
    atomic_init(&slots->closed, possible ? 0 : TIDEI_SLOTS_FENCE);
    pthread_mutex_init(&slots->mutex, NULL);
    pthread_mutex_lock(&registry.mutex);
    slots->serial = ++registry.serials;
    slots->place = (uint32_t)(slots->serial % TIDEI_SLOT_ENTRIES * sizeof(struct tidei_slot_entry));
    slots->older = registry.newest;
    if (slots->older != NULL)
        slots->older->newer = slots;
    registry.newest = slots;
    pthread_mutex_unlock(&registry.mutex);
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

/* Remove links to destroyed objects, once the links have doubled since the last time. The registry's mutex is held. */
static void
links_prune(struct tidei_slot_index *index)
{
    struct tidei_slot_link **place = &index->links;

    if (index->link_count < index->link_most)
        return;
    while (*place != NULL) {
        struct tidei_slot_link *link = *place;

        if (registry_find(link->serial) != NULL) {
            place = &link->next;
        } else {
            *place = link->next;
            free(link);
            index->link_count--;
        }
    }
    index->link_most = 2 * index->link_count + LINKS_LEAST;
}

/* A slot that a thread has left, else a new one. The mutex of the slots is held. */
static struct tidei_slot *
slot_new(struct tidei_slots *slots)
{
    size_t bytes = (slots->slot_bytes + SLOT_ALIGNMENT - 1) & ~(SLOT_ALIGNMENT - 1);
    struct tidei_slot *slot = slots->first;

    while (slot != NULL && slot->taken)
        slot = slot->next;
    if (slot == NULL) {
        slot = aligned_alloc(SLOT_ALIGNMENT, bytes);
        if (slot == NULL)
            return NULL;
        memset(slot, 0, bytes);
        slot->next = slots->first;
        slots->first = slot;
    }
    slot->taken = true;
    return slot;
}

/* This thread's first slot of the object. */
static struct tidei_slot_link *
link_new(struct tidei_slot_index *index, struct tidei_slots *slots)
{
    struct tidei_slot_link *link = malloc(sizeof(*link));

    if (link == NULL)
        return NULL;
    pthread_mutex_lock(&registry.mutex);
    links_prune(index);
    /* Assign the slot and its link under one lock, so that no fork() separates the two. */
    pthread_mutex_lock(&slots->mutex);
    link->serial = slots->serial;
    link->slot = slot_new(slots);
    link->next = index->links;
    if (link->slot != NULL) {
        index->links = link;
        index->link_count++;
    }
    pthread_mutex_unlock(&slots->mutex);
    pthread_mutex_unlock(&registry.mutex);
    if (link->slot != NULL)
        return link;
    free(link);
    return NULL;
}

struct tidei_slot *
tidei_slot_find(struct tidei_slots *slots)
{
    struct tidei_thread *thread = tidei_thread_get();
    struct tidei_slot_index *index;
    struct tidei_slot_entry *entry;
    struct tidei_slot_link **place;
    struct tidei_slot_link *link;

    if (thread == NULL)
        return NULL;
    index = tidei_slot_index(thread);
    entry = tidei_slot_entry(index, slots);
    if (entry->serial == slots->serial)
        return entry->slot;
    place = &index->links;
    while (*place != NULL && (*place)->serial != slots->serial)
        place = &(*place)->next;
    link = *place;
    if (link != NULL) {
        *place = link->next;
        link->next = index->links;
        index->links = link;
    } else {
        link = link_new(index, slots);
    }
    if (link == NULL)
        return NULL;
    *entry = (struct tidei_slot_entry){ link->serial, link->slot };
    return link->slot;
}

__attribute__((cold)) struct tidei_slot *
tidei_slot_enter_slowly(struct tidei_slots *slots)
{
    struct tidei_slot *slot = tidei_slot_find(slots);

    if (slot == NULL)
        return NULL;
    /* As in tidei_slot_enter_quickly, with a fence in place of the barrier of tidei_slots_quiesce. */
    atomic_store_explicit(&slot->busy, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    TIDEI_TEST_POINT("slot.busy-slowly");
    if ((atomic_load_explicit(&slots->closed, memory_order_acquire) & TIDEI_SLOTS_CLOSED) == 0)
        return slot;
    tidei_slot_leave(slot);
    return NULL;
}
