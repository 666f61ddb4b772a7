/*
 * The slow paths of recording: assigns a ring to each thread, waits or drops events when it is full, takes it back when
 * the thread ends, and writes the records that are not a plain event.
 */
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
#include "src/sync/barrier.h"
#include "src/trace/ring/capture.h"
#include "src/trace/ring/drops.h"
#include "src/trace/ring/producer.h"

/*
 * Record how much this thread has dropped, since its ring may be reused. A kill at any point counts the drops once: by
 * the record if it was published, by the ring's counters if not. False if the recording has ended.
 */
static bool
producer_report_drops(struct tidei_producer *producer)
{
    struct tidei_ring *ring = producer->ring;
    struct tidei_record record = { .kind = TIDEI_RECORD_LOSS };

    record.address = atomic_load_explicit(&ring->dropped_allocs, memory_order_relaxed);
    record.size = atomic_load_explicit(&ring->dropped_frees, memory_order_relaxed);
    record.stream = atomic_load_explicit(&ring->dropped_marks, memory_order_relaxed);
    if (record.address + record.size + record.stream == 0)
        return true;
    /* The releases keep the order for a recovery after a kill; this process's writer reads the counters at the end. */
    atomic_store_explicit(&ring->told, producer->head + 1, memory_order_release);
    if (!tidei_producer_text(producer, &record, "", 0)) {
        atomic_store_explicit(&ring->told, 0, memory_order_release);
        return false;
    }
    TIDEI_TEST_POINT("producer.told");
    atomic_store_explicit(&ring->dropped_allocs, 0, memory_order_release);
    atomic_store_explicit(&ring->dropped_frees, 0, memory_order_release);
    atomic_store_explicit(&ring->dropped_marks, 0, memory_order_release);
    atomic_store_explicit(&ring->told, 0, memory_order_release);
    return true;
}

/* Leave the thread's ring to other threads, if its session still exists. */
static void
producer_leave_ring(struct tidei_producer *producer)
{
    if (tidei_session_lock_serial(producer->serial) == NULL)
        return;
    /* A thread that ended within an allocation may have left the ring open; it will record nothing more. */
    atomic_store_explicit(&producer->ring->open, 0, memory_order_release);
    /* Pairs with the acquire in producer_take_ring: the next owner continues after the last head. */
    if (producer_report_drops(producer)) {
        atomic_store_explicit(&producer->ring->state, TIDEI_RING_FREE, memory_order_release);
        /* Relaxed: it only says when to look again. */
        atomic_store_explicit(&producer->session->ring_refused_ns, 0, memory_order_relaxed);
    }
    pthread_mutex_unlock(&tidei_sessions.lock);
}

/* Free the thread's producers; `leave` may be NULL. */
static void
producer_free_all(struct tidei_thread *thread, void (*leave)(struct tidei_producer *producer))
{
    struct tidei_producers *mine = tidei_producers(thread);
    struct tidei_producer *producer = mine->list;

    mine->list = NULL;
    memset(mine->slots, 0, sizeof(mine->slots));
    tidei_call_capture_forget();
    while (producer != NULL) {
        struct tidei_producer *next = producer->next;

        if (leave != NULL)
            leave(producer);
        free(producer);
        producer = next;
    }
}

static void
producer_thread_ends(struct tidei_thread *thread)
{
    producer_free_all(thread, producer_leave_ring);
}

void
tidei_producer_forked(void)
{
    if (tidei_thread->number != 0)
        producer_free_all(tidei_thread, NULL);
}

/*
 * A ring that no thread has, with room for so many records: of the rings that threads have left, the one with the
 * fewest, else a new one. The session's lock is held.
 */
static struct tidei_ring *
producer_find_ring(const struct tidei_session *session, uint64_t room)
{
    struct tidei_ringfile *file = session->file;
    uint32_t count = atomic_load_explicit(&file->header->ring_count, memory_order_acquire);
    struct tidei_ring *ring = NULL;
    uint64_t least = file->ring_bytes / sizeof(struct tidei_record) - room + 1;

    for (uint32_t i = 0; i < count && least != 0; i++) {
        struct tidei_ring *other = file->rings[i];
        uint64_t holds;

        /* Pairs with the release in producer_thread_ends. */
        if (atomic_load_explicit(&other->state, memory_order_acquire) != TIDEI_RING_FREE)
            continue;
        /* Acquire: pairs with the release in the merge, as in producer_has_space. */
        holds = atomic_load_explicit(&other->head, memory_order_relaxed) -
                atomic_load_explicit(&other->tail, memory_order_acquire);
        if (holds < least) {
            ring = other;
            least = holds;
        }
    }
    if (ring == NULL)
        tidei_ringfile_add_ring(file, &ring);
    return ring;
}

/* Take a ring for this thread. The session's lock is held. */
static struct tidei_ring *
producer_take_ring(struct tidei_session *session)
{
    struct tidei_ring *ring = producer_find_ring(session, 0);

    if (ring == NULL)
        return NULL;
    ring->thread_id = ++session->next_thread_id;
    atomic_store_explicit(&ring->state, TIDEI_RING_TAKEN, memory_order_relaxed); /* read only under the lock */
    return ring;
}

/* Record the thread's id and name, as its first record. */
static void
producer_introduce(struct tidei_producer *producer)
{
    struct tidei_record record = { .kind = TIDEI_RECORD_THREAD, .address = producer->thread_id };
    char name[17] = "";

    record.size = (uint64_t)syscall(SYS_gettid);
    prctl(PR_GET_NAME, name, 0, 0, 0);
    tidei_producer_text(producer, &record, name, strlen(name));
}

/* Free this thread's producers of sessions that are gone, if the list's lock is free. */
static void
producer_prune(struct tidei_producers *mine)
{
    struct tidei_producer **link = &mine->list;

    if (pthread_mutex_trylock(&tidei_sessions.lock) != 0)
        return;
    while (*link != NULL) {
        struct tidei_producer *producer = *link;

        if (tidei_session_is_open_locked(producer->session)) {
            link = &producer->next;
        } else {
            *link = producer->next;
            free(producer);
        }
    }
    pthread_mutex_unlock(&tidei_sessions.lock);
}

/*
 * Whether a thread has just found no ring, and none was left since: then each event would look for one in vain, among
 * thousands of rings and on a full disk. When it is time to look again, one thread does, and the others go on without.
 */
static bool
producer_lacks_ring(struct tidei_session *session)
{
    /* Relaxed: it only says when to look again. */
    uint64_t refused_ns = atomic_load_explicit(&session->ring_refused_ns, memory_order_relaxed), now;

    if (refused_ns == 0)
        return false;
    now = tidei_monotonic_ns();
    return now - refused_ns < TIDEI_RING_AGAIN_NS ||
           !atomic_compare_exchange_strong_explicit(&session->ring_refused_ns, &refused_ns, now, memory_order_relaxed,
                                                    memory_order_relaxed);
}

static void
producer_refuse_ring(struct tidei_session *session)
{
    atomic_store_explicit(&session->ring_refused_ns, tidei_monotonic_ns(), memory_order_relaxed);
}

/* A ring for this thread; NULL if there is none. */
static struct tidei_ring *
producer_ask_ring(struct tidei_session *session)
{
    uint64_t refused_ns = atomic_load_explicit(&session->ring_refused_ns, memory_order_relaxed);
    struct tidei_ring *ring = NULL;
    bool asked;

    pthread_mutex_lock(&session->lock);
    /*
     * Threads that waited for the lock need not ask in vain, too. Nor is there a ring any more after the end at exit(),
     * which looks with this lock whether another thread has one.
     */
    asked = tidei_session_records(session) &&
            atomic_load_explicit(&session->ring_refused_ns, memory_order_relaxed) == refused_ns;
    if (asked) {
        TIDEI_TEST_POINT("producer.ask-ring");
        ring = producer_take_ring(session);
        if (ring == NULL)
            producer_refuse_ring(session);
        else if (refused_ns != 0)
            atomic_store_explicit(&session->ring_refused_ns, 0, memory_order_relaxed); /* there is room again */
    }
    pthread_mutex_unlock(&session->lock);
    if (asked && ring == NULL)
        tidei_session_no_ring(session);
    return ring;
}

static void
producer_read_tail(struct tidei_producer *producer)
{
    /* Pairs with the release in the merge: the writer has read the records before the tail. */
    producer->tail = atomic_load_explicit(&producer->ring->tail, memory_order_acquire);
    producer->full = producer->plain ? producer->tail + producer->mask + 1 : 0;
}

static struct tidei_producer *
producer_new(struct tidei_session *session, uint64_t serial)
{
    struct tidei_thread *thread = tidei_thread_get();
    struct tidei_producers *mine;
    struct tidei_producer *producer;

    /* Without its object the thread could not return its ring when it ends. */
    if (thread == NULL || (producer = aligned_alloc(_Alignof(struct tidei_producer), sizeof(*producer))) == NULL) {
        producer_refuse_ring(session);
        return NULL;
    }
    memset(producer, 0, sizeof(*producer));
    mine = tidei_producers(thread);
    producer_prune(mine);
    producer->ring = producer_ask_ring(session);
    if (producer->ring == NULL) {
        free(producer);
        return NULL;
    }
    producer->records = tidei_ring_records(producer->ring);
    producer->thread_id = producer->ring->thread_id;
    producer->head = atomic_load_explicit(&producer->ring->head, memory_order_relaxed);
    producer->mask = session->file->ring_bytes / sizeof(struct tidei_record) - 1;
    producer->tsc = session->tsc;
    producer->fence = session->fence;
    producer->drop = session->drop;
    producer->plain = atomic_load_explicit(&session->plain, memory_order_relaxed);
    producer_read_tail(producer);
    producer->serial = serial;
    producer->session = session;
    producer->next = mine->list;
    mine->list = producer;
    producer_introduce(producer);
    return producer;
}

/*
 * Called before a thread's first event (definitions do not count). From the second such thread on, all threads read
 * their clocks in order; the barrier makes the first thread see that before this one continues. On a kernel without
 * membarrier they read in order from the start.
 */
static void
producer_share(struct tidei_session *session)
{
    pthread_mutex_lock(&session->lock);
    if (++session->event_threads == 2 && !atomic_load_explicit(&session->many, memory_order_relaxed)) {
        atomic_store_explicit(&session->many, true, memory_order_relaxed);
        (void)tidei_barrier_run();
    }
    pthread_mutex_unlock(&session->lock);
}

/* Keeps the thread's error, since the caller can do without a producer. Cancellation is off while locks are held. */
static struct tidei_producer *
producer_make(struct tidei_session *session, uint64_t serial)
{
    struct tidei_error error;
    struct tidei_producer *producer;
    int cancel;

    if (producer_lacks_ring(session))
        return NULL;
    tidei_error_save(&error);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    tidei_thread_at_end(TIDEI_THREAD_END_PRODUCERS, producer_thread_ends);
    producer = producer_new(session, serial);
    pthread_setcancelstate(cancel, NULL);
    tidei_error_restore(&error);
    return producer;
}

struct tidei_producer *
tidei_producer_for_text(struct tidei_session *session)
{
    uint64_t serial = atomic_load_explicit(&session->serial, memory_order_acquire);
    struct tidei_producer *producer = tidei_producers(tidei_thread)->list;

    if (!tidei_session_records(session)) {
        if (!session->hooks->revive(session))
            return NULL;
        serial = atomic_load_explicit(&session->serial, memory_order_acquire);
    }
    while (producer != NULL && producer->serial != serial)
        producer = producer->next;
    if (producer == NULL)
        producer = producer_make(session, serial);
    return producer;
}

struct tidei_producer *
tidei_producer_find(struct tidei_session *session)
{
    /* Before all that it stands for is looked at. Acquire: pairs with the release in session_touch. */
    uint64_t stamp = atomic_load_explicit(&session->stamp, memory_order_acquire);
    struct tidei_producer *producer = tidei_producer_for_text(session);
    struct tidei_producer_slot *slot;

    if (producer == NULL)
        return NULL;
    if (session->hooks->noticed != NULL)
        session->hooks->noticed();
    if (!producer->has_events)
        producer_share(session);
    producer->has_events = true;
    slot = &tidei_producers(tidei_thread)->slots[session->slot];
    slot->stamp = stamp;
    slot->producer = producer;
    return producer;
}

/* For records that are not events, and that do not make a forked process begin its own trace. */
static struct tidei_producer *
producer_get_recording(struct tidei_session *session)
{
    if (!tidei_session_records(session))
        return NULL;
    return tidei_producer_for_text(session);
}

/* Reread the tail, and check for room. */
static bool
producer_has_space(struct tidei_producer *producer, uint64_t records)
{
    producer_read_tail(producer);
    if (producer->head + records - producer->tail > producer->mask + 1)
        return false;
    producer->stalled = false;
    return true;
}

/*
 * A writer that makes no room for so long hangs in the file system, or is gone: it waits for 10 s at the most itself.
 * From then on the thread waits no more until there is room, and its events are counted as lost.
 */
#define PRODUCER_WAIT_MOST_NS UINT64_C(60000000000)

/* Sleep until there is room; false if the writer has stopped. */
static bool
producer_sleep(struct tidei_producer *producer, uint64_t records, uint64_t begin)
{
    struct timespec pause = { 0, 20000 };

    do {
        if (atomic_load_explicit(&producer->session->mode, memory_order_acquire) != TIDEI_SESSION_RECORDING)
            return false;
        producer->stalled =
            producer->stalled || tidei_monotonic_ns() - begin > TIDEI_TEST_LIMIT(wait_ns, PRODUCER_WAIT_MOST_NS);
        if (producer->stalled)
            return false;
        producer->session->hooks->wake(producer->session);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 500000)
            pause.tv_nsec *= 2;
    } while (!producer_has_space(producer, records));
    return true;
}

/* Wait for the writer to make room; false if it has stopped. */
static bool
producer_wait(struct tidei_producer *producer, uint64_t records)
{
    uint64_t begin = tidei_monotonic_ns();
    uint64_t waited;
    int cancel;
    bool room;

    /* No cancellation here: locks of the session and of the layers above may be held. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    room = producer_sleep(producer, records, begin);
    pthread_setcancelstate(cancel, NULL);
    if (!room)
        return false;
    waited = tidei_monotonic_ns() - begin;
    /* Only this thread writes them; the writer reads them at the end. */
    atomic_store_explicit(&producer->ring->waits,
                          atomic_load_explicit(&producer->ring->waits, memory_order_relaxed) + 1, memory_order_relaxed);
    if (waited > atomic_load_explicit(&producer->ring->longest_wait_ns, memory_order_relaxed))
        atomic_store_explicit(&producer->ring->longest_wait_ns, waited, memory_order_relaxed);
    return true;
}

bool
tidei_producer_reserve(struct tidei_producer *producer, uint64_t records)
{
    int saved = errno;
    bool room = producer_has_space(producer, records);

    if (!room && !producer->drop)
        room = producer_wait(producer, records);
    /* Once for each rest. Relaxed: a writer that is about to rest looks at the rings again soon enough. */
    else if (!room && atomic_load_explicit(&producer->session->resting, memory_order_relaxed) &&
             atomic_exchange_explicit(&producer->session->resting, false, memory_order_relaxed))
        producer->session->hooks->wake(producer->session);
    errno = saved;
    return room;
}

static void
producer_count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

void
tidei_producer_dropped(struct tidei_producer *producer, uint64_t address, uint64_t word)
{
    struct tidei_record event;

    memcpy(&event.layer, &word, sizeof(word));
    if (!producer->drop) {
        tidei_session_lost(producer->session, event.kind, TIDEI_LOST_STALLED);
        return;
    }
    if (event.kind == TIDEI_RECORD_ALLOC) {
        producer_count(&producer->ring->dropped_allocs);
        if (event.status == TIDE_OK)
            tidei_drops_add(producer->session->drops, event.layer, address);
    } else {
        producer_count(&producer->ring->dropped_frees);
    }
}

/*
 * Drop the free of a dropped allocation; else it would be paired with an older allocation at the same address. Returns
 * whether it was dropped.
 */
bool
tidei_producer_drops_free(struct tidei_producer *producer, uint16_t layer, uint64_t address)
{
    if (!tidei_drops_take(producer->session->drops, layer, address))
        return false;
    producer_count(&producer->ring->dropped_frees);
    return true;
}

/* The free was refused: the dropped allocation still lives. */
void
tidei_producer_drops_again(struct tidei_producer *producer, uint16_t layer, uint64_t address)
{
    tidei_drops_add(producer->session->drops, layer, address);
}

/* Write a record with its text, for which the ring has room. */
static void
producer_put_text(struct tidei_producer *producer, struct tidei_record *record, const char *text, size_t length)
{
    uint64_t records = record->text_records;

    tidei_producer_open(producer, producer->ring, tidei_producer_ticks(producer, false), false);
    record->ticks = tidei_producer_ticks(producer, false);
    tidei_record_seal(record, 0);
    producer->records[producer->head & producer->mask] = *record;
    for (uint64_t i = 0; i < records; i++) {
        struct tidei_text_record part = { .kind = TIDEI_RECORD_TEXT };

        part.length = (uint16_t)(length < TIDEI_TEXT_BYTES ? length : TIDEI_TEXT_BYTES);
        memcpy(part.text, text, part.length);
        part.check = tidei_text_record_check(&part);
        text += part.length;
        length -= part.length;
        memcpy(&producer->records[(producer->head + 1 + i) & producer->mask], &part, sizeof(part));
    }
    tidei_producer_publish(producer, producer->ring, records + 1);
}

/*
 * With overflow=drop nobody waits for room for a name, which cannot be dropped, since later events refer to it: it goes
 * into a ring that no thread has. The merge puts it before them by its time. False: there is no such ring.
 */
static bool
producer_text_elsewhere(const struct tidei_producer *producer, struct tidei_record *record, const char *text,
                        size_t length)
{
    struct tidei_session *session = producer->session;
    struct tidei_producer other = *producer;
    struct tidei_error error;
    int cancel;

    tidei_error_save(&error);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    TIDEI_TEST_POINT("producer.elsewhere");
    /* Its state stays as it is, since rings are taken with this lock. */
    pthread_mutex_lock(&session->lock);
    other.ring = tidei_session_records(session) ? producer_find_ring(session, record->text_records + 1u) : NULL;
    if (other.ring != NULL) {
        other.records = tidei_ring_records(other.ring);
        other.head = atomic_load_explicit(&other.ring->head, memory_order_relaxed);
        producer_put_text(&other, record, text, length);
    }
    pthread_mutex_unlock(&session->lock);
    pthread_setcancelstate(cancel, NULL);
    tidei_error_restore(&error);
    return other.ring != NULL;
}

bool
tidei_producer_text(struct tidei_producer *producer, struct tidei_record *record, const char *text, size_t length)
{
    uint64_t most = producer->mask; /* text records that the ring can hold after the first record */
    uint64_t records;

    most = most * TIDEI_TEXT_BYTES < TIDEI_TEXT_MAX ? most * TIDEI_TEXT_BYTES : TIDEI_TEXT_MAX;
    if (length > most)
        length = tidei_utf8_cut(text, most);
    records = (length + TIDEI_TEXT_BYTES - 1) / TIDEI_TEXT_BYTES;
    record->text_records = (uint16_t)records;
    record->thread = producer->thread_id;
    if (!producer_has_space(producer, records + 1)) {
        /* The counts of a ring are known by its own records: see producer_report_drops. */
        if (producer->drop && record->kind != TIDEI_RECORD_LOSS &&
            producer_text_elsewhere(producer, record, text, length))
            return true;
        if (!producer_wait(producer, records + 1)) {
            if (record->kind == TIDEI_RECORD_MARK)
                producer_count(&producer->ring->dropped_marks);
            return false;
        }
    }
    producer_put_text(producer, record, text, length);
    return true;
}

/* How many records of text fit behind one record, so that the ring need not be empty for it. */
static uint32_t
producer_room(const struct tidei_producer *producer)
{
    uint64_t most = (producer->mask + 1) / 4 - 1; /* of the smallest ring 15: a refusal, and calls */

    return most < TIDEI_CALLS_MOST ? (uint32_t)most : TIDEI_CALLS_MOST;
}

/* Write a text record `offset` records behind the head. */
static void
producer_put(const struct tidei_producer *producer, uint64_t offset, struct tidei_text_record part, const void *text,
             size_t length)
{
    part.length = (uint16_t)length;
    part.kind = TIDEI_RECORD_TEXT;
    part.thread = producer->thread_id;
    memcpy(part.text, text, length);
    part.check = tidei_text_record_check(&part);
    memcpy(&producer->records[(producer->head + offset) & producer->mask], &part, sizeof(part));
}

static uint32_t
producer_refusal_records(const struct tidei_event_rest *rest)
{
    uint32_t records = (uint32_t)((rest->length + TIDEI_TEXT_BYTES - 1) / TIDEI_TEXT_BYTES);

    return records == 0 && rest->layer != 0 ? 1 : records;
}

/* Write the text of a refusal behind the event. */
static void
producer_put_refusal(const struct tidei_producer *producer, const struct tidei_event_rest *rest, uint32_t records)
{
    const struct tidei_text_record part = { .part = TIDEI_PART_REFUSAL, .layer = rest->layer };

    for (uint32_t i = 0; i < records; i++) {
        size_t done = (size_t)i * TIDEI_TEXT_BYTES, left = rest->length - done;

        producer_put(producer, 1 + i, part, rest->text != NULL ? rest->text + done : "",
                     left < TIDEI_TEXT_BYTES ? left : TIDEI_TEXT_BYTES);
    }
}

/* How many records an event needs with all that follows it: `calls` of them, `count` behind its own record. */
static uint64_t
producer_all_records(const struct tidei_producer *producer, uint32_t texts, uint32_t calls, uint32_t count)
{
    uint64_t left = calls - count, room = producer_room(producer);

    return 1 + texts + count + left + (left + room - 1) / room;
}

/* Write the next `count` calls of an event behind its record, or behind a CALLS record, from `offset` on. */
static void
producer_put_calls(const struct tidei_producer *producer, uint64_t offset, const struct tidei_call_capture *slot,
                   uint32_t *position, uint32_t count, bool more)
{
    struct tidei_call_part call;

    for (uint32_t i = 0; i < count && tidei_call_capture_next(slot, position, &call); i++) {
        struct tidei_text_record part = { .part = more && i + 1 == count ? TIDEI_PART_CALL_MORE : TIDEI_PART_TEXT };

        producer_put(producer, offset + i, part, &call, sizeof(call));
    }
}

/*
 * Record the rest of an event's calls, of which there are `left`, in records of their own. `calls` names the event. A
 * recording that ends meanwhile says so in the trace.
 */
static void
producer_more_calls(struct tidei_producer *producer, struct tidei_record calls, const struct tidei_call_capture *slot,
                    uint32_t position, uint32_t left)
{
    int saved = errno;

    while (left != 0) {
        uint32_t room = producer_room(producer), count = left < room ? left : room;

        if (!producer_has_space(producer, 1 + count) && !producer_wait(producer, 1 + count))
            break;
        left -= count;
        calls.alignment_log2 = left != 0;
        calls.text_records = (uint16_t)count;
        producer_put_calls(producer, 1, slot, &position, count, false);
        tidei_producer_open(producer, producer->ring, tidei_producer_ticks(producer, false), false);
        calls.ticks = tidei_producer_ticks(producer, false);
        tidei_record_seal(&calls, 0);
        producer->records[producer->head & producer->mask] = calls;
        tidei_producer_publish(producer, producer->ring, 1 + count);
        TIDEI_TEST_POINT("producer.more-calls");
    }
    errno = saved;
}

void
tidei_producer_event_behind(struct tidei_producer *producer, uint64_t begin, uint64_t address, uint64_t size,
                            uint64_t stream, uint64_t word, uint32_t callstack, bool ordered,
                            const struct tidei_event_rest *rest)
{
    uint32_t calls = rest->slot != NULL ? tidei_call_capture_count(rest->slot) : 0;
    uint32_t texts = producer_refusal_records(rest);
    uint32_t position = 0;
    uint32_t room = producer_room(producer) - texts, count = calls < room ? calls : room;
    /* A ring that drops has room for the whole event, or drops it: its thread waits for nothing. */
    uint64_t needed = producer->drop ? producer_all_records(producer, texts, calls, count) : 1 + texts + count;
    struct tidei_record *record;
    uint64_t now;

    /* The first call may have opened the ring; close it, so that a wait holds up no merge. Pairs with its acquire. */
    atomic_store_explicit(&producer->ring->open, 0, memory_order_release);
    if (producer->head + needed - producer->tail > producer->mask + 1 && !tidei_producer_reserve(producer, needed)) {
        tidei_producer_dropped(producer, address, word);
        return;
    }
    record = &producer->records[producer->head & producer->mask];
    tidei_producer_fill(producer, record, size, stream, word, callstack);
    record->address = address;
    record->text_records = (uint16_t)(texts + count);
    producer_put_refusal(producer, rest, texts);
    producer_put_calls(producer, 1 + texts, rest->slot, &position, count, calls > count);
    tidei_producer_open(producer, producer->ring, begin, false);
    now = ordered ? tidei_producer_ticks_ordered(producer, false) : tidei_producer_ticks(producer, false);
    record->ticks = now;
    tidei_record_seal(record, now - begin);
    tidei_producer_publish(producer, producer->ring, 1 + texts + count);
    if (calls > count) {
        const struct tidei_record more = { .address = begin,
                                           .size = now,
                                           .stream = address,
                                           .layer = record->layer,
                                           .kind = TIDEI_RECORD_CALLS,
                                           .status = record->kind == TIDEI_RECORD_FREE,
                                           .thread = producer->thread_id };

        producer_more_calls(producer, more, rest->slot, position, calls - count);
    }
    if (calls > 1 && rest->slot->armed == 1)
        tidei_call_capture_shrink(rest->slot);
}

void
tidei_producer_sample(struct tidei_producer *producer, uint32_t layer_id, const struct tidei_layer_figures *figures)
{
    struct tidei_record *record;

    /* A sample may be left out without counting as lost: the next one has the newer figures. */
    if (producer->head - producer->tail > producer->mask && !tidei_producer_reserve(producer, 1))
        return;
    record = &producer->records[producer->head & producer->mask];
    *record = (struct tidei_record){ .address = figures->used_bytes,
                                     .size = figures->reserved_bytes,
                                     .stream = figures->reserved_high_bytes,
                                     .tag = layer_id,
                                     .kind = TIDEI_RECORD_SAMPLE,
                                     .thread = producer->thread_id };
    tidei_producer_open(producer, producer->ring, tidei_producer_ticks(producer, false), false);
    record->ticks = tidei_producer_ticks(producer, false);
    tidei_record_seal(record, 0);
    tidei_producer_publish(producer, producer->ring, 1);
}

bool
tidei_producer_held(struct tidei_producer *producer, uint16_t layer_id, const struct tidei_place *place)
{
    struct tidei_record record = { .address = (uintptr_t)place->pointer,
                                   .size = place->bytes,
                                   .stream = place->stream,
                                   .layer = layer_id,
                                   .kind = TIDEI_RECORD_HELD,
                                   .alignment_log2 = (uint8_t)__builtin_ctzll(place->alignment) };

    return tidei_producer_text(producer, &record, "", 0);
}

static void
producer_tell_one(struct tidei_session *session, struct tidei_record record, const void *text, size_t length)
{
    struct tidei_producer *producer = producer_get_recording(session);

    if (producer != NULL)
        tidei_producer_text(producer, &record, text, length);
}

void
tidei_producer_tell(struct tidei_session *session, const struct tidei_record *record, const void *text, size_t length)
{
    if (session != NULL) {
        producer_tell_one(session, *record, text, length);
        return;
    }
    pthread_mutex_lock(&tidei_sessions.lock);
    for (session = tidei_sessions.first; session != NULL; session = session->next)
        producer_tell_one(session, *record, text, length);
    pthread_mutex_unlock(&tidei_sessions.lock);
}
