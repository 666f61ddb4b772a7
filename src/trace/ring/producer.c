/* Gives a thread its ring, waits or drops when that is full, and takes the ring back when the thread ends. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "src/resource/resource.h"
#include "src/trace/ring/capture.h"
#include "src/trace/ring/drops.h"
#include "src/trace/ring/producer.h"
#include "src/trace/session/writer.h"

TIDEI_TLS struct tidei_front_slot tidei_front_slots[TIDEI_FRONT_SLOTS];
TIDEI_TLS uint32_t tidei_tag_current;

/* All fronts of this thread. */
static TIDEI_TLS struct tidei_front *front_list;

static pthread_key_t front_key;
static pthread_once_t front_once = PTHREAD_ONCE_INIT;

/*
 * Tell the trace what this thread has dropped; its ring is about to be somebody else's. A kill in between counts it
 * once: by the record where that was published, by the counters where it was not. False where the recording has ended.
 */
static bool
front_report_drops(struct tidei_front *front)
{
    struct tidei_ring *ring = front->ring;
    struct tidei_record record = { .kind = TIDEI_RECORD_LOSS };

    record.address = atomic_load_explicit(&ring->dropped_allocs, memory_order_relaxed);
    record.size = atomic_load_explicit(&ring->dropped_frees, memory_order_relaxed);
    record.stream = atomic_load_explicit(&ring->dropped_marks, memory_order_relaxed);
    if (record.address + record.size + record.stream == 0)
        return true;
    /* The releases keep the order for who comes after a kill; the writer of this process reads them at the end. */
    atomic_store_explicit(&ring->told, front->head + 1, memory_order_release);
    if (!tidei_front_text(front, &record, "", 0)) {
        atomic_store_explicit(&ring->told, 0, memory_order_release);
        return false;
    }
    TIDEI_TEST_POINT("front.told");
    atomic_store_explicit(&ring->dropped_allocs, 0, memory_order_release);
    atomic_store_explicit(&ring->dropped_frees, 0, memory_order_release);
    atomic_store_explicit(&ring->dropped_marks, 0, memory_order_release);
    atomic_store_explicit(&ring->told, 0, memory_order_release);
    return true;
}

/* The thread ends: its rings are the writer's, where their recorders are still there. */
static void
front_thread_ends(void *unused)
{
    struct tidei_front *front = front_list;

    (void)unused;
    front_list = NULL;
    memset(tidei_front_slots, 0, sizeof(tidei_front_slots));
    tidei_call_slot_forget();
    while (front != NULL) {
        struct tidei_front *next = front->next;
        struct tidei_recorder *recorder = tidei_recorder_lock_serial(front->serial);

        if (recorder != NULL) {
            /* A thread that ended within an allocation may have left it open: nothing will be recorded. */
            atomic_store_explicit(&front->ring->open, 0, memory_order_release);
            /* Pairs with the acquire in front_take_ring: who takes the ring goes on behind the last head. */
            if (front_report_drops(front))
                atomic_store_explicit(&front->ring->state, TIDEI_RING_FREE, memory_order_release);
            tidei_recorder_unlock(recorder);
        }
        free(front);
        front = next;
    }
}

static void
front_make_key(void)
{
    /* Without the key a thread's ring would be given back at the end of the trace only. */
    if (pthread_key_create(&front_key, front_thread_ends) != 0)
        abort();
}

/*
 * Take a ring for this thread: of those that others have left the one that holds the least, or a new one. The
 * recorder's lock is held.
 */
static struct tidei_ring *
front_take_ring(struct tidei_recorder *recorder)
{
    struct tidei_ringfile *file = recorder->file;
    uint32_t count = atomic_load_explicit(&file->header->ring_count, memory_order_acquire);
    struct tidei_ring *ring = NULL;
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < count && least != 0; i++) {
        struct tidei_ring *other = file->rings[i];
        uint64_t holds;

        /* Pairs with the release in front_thread_ends. */
        if (atomic_load_explicit(&other->state, memory_order_acquire) != TIDEI_RING_FREE)
            continue;
        holds = atomic_load_explicit(&other->head, memory_order_relaxed) -
                atomic_load_explicit(&other->tail, memory_order_relaxed);
        if (holds < least) {
            ring = other;
            least = holds;
        }
    }
    if (ring == NULL && tidei_ringfile_add_ring(file, &ring) != TIDE_OK)
        return NULL;
    ring->thread_id = ++recorder->next_thread_id;
    atomic_store_explicit(&ring->state, TIDEI_RING_TAKEN, memory_order_relaxed); /* read under the lock alone */
    return ring;
}

/* The first record of a thread says which one it is. */
static void
front_introduce(struct tidei_front *front)
{
    struct tidei_record record = { .kind = TIDEI_RECORD_THREAD, .address = front->thread_id };
    char name[17] = "";

    record.size = (uint64_t)syscall(SYS_gettid);
    prctl(PR_GET_NAME, name, 0, 0, 0);
    tidei_front_text(front, &record, name, strlen(name));
}

/* Let go of what this thread has of recorders that are gone, where that can be known without waiting. */
static void
front_prune(void)
{
    struct tidei_front **link = &front_list;

    if (!tidei_recorder_try_lock())
        return;
    while (*link != NULL) {
        struct tidei_front *front = *link;

        if (tidei_recorder_is_open_locked(front->recorder)) {
            link = &front->next;
        } else {
            *link = front->next;
            free(front);
        }
    }
    tidei_recorder_unlock(NULL);
}

static struct tidei_front *
front_new(struct tidei_recorder *recorder, uint64_t serial)
{
    struct tidei_front *front = calloc(1, sizeof(*front));

    if (front == NULL)
        return NULL;
    front_prune();
    pthread_mutex_lock(&recorder->lock);
    front->ring = front_take_ring(recorder);
    pthread_mutex_unlock(&recorder->lock);
    if (front->ring == NULL) {
        free(front);
        tidei_recorder_no_ring(recorder);
        return NULL;
    }
    front->records = tidei_ring_records(front->ring);
    front->thread_id = front->ring->thread_id;
    front->head = atomic_load_explicit(&front->ring->head, memory_order_relaxed);
    front->tail = atomic_load_explicit(&front->ring->tail, memory_order_acquire);
    front->mask = recorder->file->header->ring_bytes / sizeof(struct tidei_record) - 1;
    front->tsc = recorder->tsc;
    front->fence = recorder->fence;
    front->drop = recorder->drop;
    front->plain = front->tsc && !front->fence && !front->drop;
    front->serial = serial;
    front->recorder = recorder;
    front->next = front_list;
    front_list = front;
    pthread_setspecific(front_key, front);
    front_introduce(front);
    return front;
}

/*
 * This thread's first event, as against what it has defined. With the second thread all read their clocks in order;
 * the barrier has the first one see that before this thread goes on. Where the kernel has none, they read in order
 * from the start.
 */
static void
front_share(struct tidei_recorder *recorder)
{
    pthread_mutex_lock(&recorder->lock);
    if (++recorder->event_threads == 2 && !atomic_load_explicit(&recorder->many, memory_order_relaxed)) {
        atomic_store_explicit(&recorder->many, true, memory_order_relaxed);
        tidei_merge_barrier();
    }
    pthread_mutex_unlock(&recorder->lock);
}

/* The caller's call may succeed without a front, and no thread ends while it makes one: that takes locks. */
static struct tidei_front *
front_make(struct tidei_recorder *recorder, uint64_t serial)
{
    struct tidei_error error;
    struct tidei_front *front;
    int cancel;

    tidei_error_save(&error);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_once(&front_once, front_make_key);
    front = front_new(recorder, serial);
    pthread_setcancelstate(cancel, NULL);
    tidei_error_restore(&error);
    return front;
}

struct tidei_front *
tidei_front_for_text(struct tidei_recorder *recorder)
{
    uint64_t serial = atomic_load_explicit(&recorder->serial, memory_order_acquire);
    struct tidei_front *front = front_list;

    if (atomic_load_explicit(&recorder->mode, memory_order_acquire) != TIDEI_RECORDING) {
        if (!tidei_recorder_revive(recorder))
            return NULL;
        serial = atomic_load_explicit(&recorder->serial, memory_order_acquire);
    }
    while (front != NULL && front->serial != serial)
        front = front->next;
    if (front == NULL)
        front = front_make(recorder, serial);
    return front;
}

struct tidei_front *
tidei_front_find(struct tidei_recorder *recorder)
{
    struct tidei_front *front = tidei_front_for_text(recorder);

    if (front == NULL)
        return NULL;
    if (!front->has_events)
        front_share(recorder);
    front->has_events = true;
    tidei_front_slots[recorder->slot].serial = front->serial;
    tidei_front_slots[recorder->slot].front = front;
    return front;
}

struct tidei_front *
tidei_front_get_recording(struct tidei_recorder *recorder)
{
    if (atomic_load_explicit(&recorder->mode, memory_order_acquire) != TIDEI_RECORDING)
        return NULL;
    return tidei_front_for_text(recorder);
}

/* Read the tail anew. */
static bool
front_has_room(struct tidei_front *front, uint64_t records)
{
    /* Pairs with the release in the merge: the writer has read the records that it gives back. */
    front->tail = atomic_load_explicit(&front->ring->tail, memory_order_acquire);
    return front->head + records - front->tail <= front->mask + 1;
}

/* Sleep until there is room; false where the writer has stopped. */
static bool
front_sleep(struct tidei_front *front, uint64_t records)
{
    struct timespec pause = { 0, 20000 };

    do {
        if (atomic_load_explicit(&front->recorder->mode, memory_order_acquire) != TIDEI_RECORDING)
            return false;
        tidei_writer_wake(front->recorder->writer);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 500000)
            pause.tv_nsec *= 2;
    } while (!front_has_room(front, records));
    return true;
}

/* Wait for the writer; false where it has stopped. */
static bool
front_wait(struct tidei_front *front, uint64_t records)
{
    uint64_t begin = tidei_monotonic_ns();
    uint64_t waited;
    int cancel;
    bool room;

    /* Locks may be held, of the recorder and of the layers above: no thread ends here. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    room = front_sleep(front, records);
    pthread_setcancelstate(cancel, NULL);
    if (!room)
        return false;
    waited = tidei_monotonic_ns() - begin;
    /* Only this thread writes them; the writer reads them at the end. */
    atomic_store_explicit(&front->ring->waits, atomic_load_explicit(&front->ring->waits, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (waited > atomic_load_explicit(&front->ring->longest_wait_ns, memory_order_relaxed))
        atomic_store_explicit(&front->ring->longest_wait_ns, waited, memory_order_relaxed);
    return true;
}

bool
tidei_front_room(struct tidei_front *front, uint64_t records)
{
    int saved = errno;
    bool room = front_has_room(front, records);

    if (!room && !front->drop)
        room = front_wait(front, records);
    errno = saved;
    return room;
}

static void
front_count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

void
tidei_front_dropped(struct tidei_front *front, uint64_t address, uint64_t word)
{
    struct tidei_record event;

    memcpy(&event.layer, &word, sizeof(word));
    if (!front->drop) {
        tidei_recorder_lost(front->recorder, event.kind);
        return;
    }
    if (event.kind == TIDEI_RECORD_ALLOC) {
        front_count(&front->ring->dropped_allocs);
        if (event.status == TIDE_OK)
            tidei_drops_add(front->recorder->drops, event.layer, address);
    } else {
        front_count(&front->ring->dropped_frees);
    }
}

/*
 * The allocation that this free ends was dropped: so is the free, or it would be taken for that of an older
 * allocation at the same address.
 */
bool
tidei_front_drops_free(struct tidei_front *front, uint16_t layer, uint64_t address)
{
    if (!tidei_drops_take(front->recorder->drops, layer, address))
        return false;
    front_count(&front->ring->dropped_frees);
    return true;
}

/* That free was refused: the allocation lives on. */
void
tidei_front_drops_again(struct tidei_front *front, uint16_t layer, uint64_t address)
{
    tidei_drops_add(front->recorder->drops, layer, address);
}

size_t
tidei_utf8_cut(const char *text, size_t most)
{
    size_t length = most;

    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    return most - length <= 3 ? length : most; /* else it is no UTF-8 */
}

bool
tidei_front_text(struct tidei_front *front, struct tidei_record *record, const char *text, size_t length)
{
    uint64_t most = front->mask; /* records of text that the ring can hold beside the first */
    uint64_t records;

    most = most * TIDEI_TEXT_BYTES < TIDEI_TEXT_MAX ? most * TIDEI_TEXT_BYTES : TIDEI_TEXT_MAX;
    if (length > most)
        length = tidei_utf8_cut(text, most);
    records = (length + TIDEI_TEXT_BYTES - 1) / TIDEI_TEXT_BYTES;
    if (!front_has_room(front, records + 1) && !front_wait(front, records + 1)) {
        if (record->kind == TIDEI_RECORD_MARK)
            front_count(&front->ring->dropped_marks);
        return false;
    }
    record->text_records = (uint16_t)records;
    record->thread = front->thread_id;
    tidei_front_open(front, front->ring, tidei_front_ticks(front, false), false);
    record->ticks = tidei_front_ticks(front, false);
    front->records[front->head & front->mask] = *record;
    for (uint64_t i = 0; i < records; i++) {
        struct tidei_text_record part = { .kind = TIDEI_RECORD_TEXT };

        part.length = (uint16_t)(length < TIDEI_TEXT_BYTES ? length : TIDEI_TEXT_BYTES);
        memcpy(part.text, text, part.length);
        text += part.length;
        length -= part.length;
        memcpy(&front->records[(front->head + 1 + i) & front->mask], &part, sizeof(part));
    }
    tidei_front_publish(front, front->ring, records + 1);
    return true;
}

void
tidei_front_forked(void)
{
    struct tidei_front *front = front_list;

    front_list = NULL;
    memset(tidei_front_slots, 0, sizeof(tidei_front_slots));
    tidei_call_slot_forget();
    while (front != NULL) {
        struct tidei_front *next = front->next;

        free(front);
        front = next;
    }
}
