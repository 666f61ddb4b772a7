/*
 * The writer's thread: merges the rings, and writes their records to SQLite.
 *
 * A buffer of the backlog is written when it is full, when its oldest record has waited for half a second, or on
 * demand. While SQLite works, the rings are drained into the other buffer every few milliseconds (bulk_poll), so that
 * a burst finds room without a second thread.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/resource/resource.h"
#include "src/sync/fault.h"
#include "src/sync/testpoint.h"
#include "src/sync/thread.h"
#include "src/trace/ring/session.h"
#include "src/trace/session/recorder.h"
#include "src/trace/session/writer.h"

#define WRITER_COMMIT_NS     500000000u   /* age at which a quiet program's events are committed */
#define WRITER_BUSY_NS       1000000u     /* between two drains, if the last one moved records */
#define WRITER_RING_NS       1000u        /* and so much more for each ring: a look at one takes 10 to 35 ns */
#define WRITER_IDLE_NS       10000000u    /* and if it moved none */
#define WRITER_REST_NS       125000000u   /* and where nothing is recorded: 8 times a second */
#define WRITER_QUIET_NS      1000000000u  /* how long after the last event bases are sampled */
#define WRITER_LEFT_NS       250000000u   /* between two looks for threads of the program */
#define WRITER_FAULT_NS      1000000000u  /* between two looks at the handler for SIGBUS */
#define WRITER_LOCK_LIMIT_NS 10000000000u /* how long to wait for another process's lock on the trace */

pthread_mutex_t tidei_files_lock = PTHREAD_MUTEX_INITIALIZER;
struct tidei_gate tidei_recovery_gate = TIDEI_GATE_INITIALIZER;

static bool
writer_poll(void *context, uint64_t waited_ns)
{
    struct tidei_writer *writer = context;

    tidei_gate_yield(writer->session != NULL ? &writer->gate : &tidei_recovery_gate);
    /* A recovery drains when it has taken up what the dead process left: before, it would write over that. */
    if (writer->session != NULL) {
        tidei_merge_drain(writer->merge);
        /* Keep sampling: a transaction may take long. */
        tidei_sampler_sample(writer->sampler, tidei_monotonic_ns(), false);
    }
    return waited_ns < writer->busy_limit_ns;
}

/* Begin with the ring file's clock line. In a recovery, the line of the buffer that was being written precedes it. */
static void
writer_first_line(struct tidei_database *database, const struct tidei_ring_header *header)
{
    const struct tidei_clock_line *line = tidei_ring_line(header);
    const struct tidei_clock_line *before = &header->lines[line == &header->lines[0]];

    database->timeline.line = *line;
    if (before->ns_per_tick > 0 && before->base.ticks < line->base.ticks && before->base.ns < line->base.ns) {
        database->timeline.line = tidei_clock_line_between(before->base, line->base, line->ns_per_tick);
        tidei_timeline_add(&database->timeline, *line);
    }
}

struct tidei_writer *
tidei_writer_new(struct tidei_session *session, struct tidei_ringfile *file, struct tidei_database *database, bool tsc)
{
    struct tidei_writer *writer = calloc(1, sizeof(*writer));
    pthread_condattr_t monotonic;

    if (writer == NULL)
        return NULL;
    writer->merge = tidei_merge_new(file, tsc);
    writer->pair = tidei_pair_new(file);
    writer->sampler = tidei_sampler_new();
    writer->counts = tidei_counts_new();
    if (writer->merge != NULL)
        writer->calls = tidei_driver_calls_new(session, &writer->merge->clock);
    if (writer->merge == NULL || writer->pair == NULL || writer->sampler == NULL || writer->counts == NULL ||
        writer->calls == NULL) {
        tidei_merge_free(writer->merge);
        tidei_pair_free(writer->pair);
        tidei_sampler_free(writer->sampler);
        tidei_counts_free(writer->counts);
        tidei_driver_calls_free(writer->calls);
        free(writer);
        return NULL;
    }
    pthread_mutex_init(&writer->lock, NULL);
    pthread_mutex_init(&writer->gate.lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&writer->wake, &monotonic);
    pthread_cond_init(&writer->flushed, NULL);
    pthread_condattr_destroy(&monotonic);
    if (session != NULL)
        writer->merge->gauges = writer->gauges = tidei_gauges_new(file, writer->sampler, &database->timeline);
    writer->session = session;
    writer->file = file;
    writer->database = database;
    writer->tsc = tsc;
    writer->busy_limit_ns = TIDEI_TEST_LIMIT(busy_ns, WRITER_LOCK_LIMIT_NS);
    writer->slice = TIDEI_TEST_LIMIT(slice, TIDEI_SLICE_LEAST);
    database->pair = writer->pair;
    database->devices = session != NULL ? tidei_driver_calls_devices(writer->calls) : NULL;
    database->has_calls = session == NULL;
    database->timeline.start_ns = file->header->start_ns;
    writer_first_line(database, file->header);
    if (session == NULL) {
        /* Addresses and handles come from a file that this process has not written. */
        tidei_map_draw_key(&writer->pair->lives.by_address);
        tidei_map_draw_key(&database->stream_places);
    } else {
        file->trace_id = file->header->trace_id;
    }
    database->poll = writer_poll;
    database->poll_context = writer;
    return writer;
}

/* Note in the trace why it ends, if that can still be written. Waits for no other process's lock. */
static void
writer_note_failure(struct tidei_writer *writer)
{
    writer->busy_limit_ns = 0;
    tidei_gate_enter(&writer->gate);
    tidei_database_begin(writer->database);
    tidei_database_meta_text(writer->database, "failure", writer->failure);
    tidei_database_end(writer->database);
    tidei_gate_leave(&writer->gate);
}

void
tidei_writer_fail(struct tidei_writer *writer)
{
    if (writer->failure[0] != '\0')
        return;
    snprintf(writer->failure, sizeof(writer->failure), "%s", tide_error_text());
    /* A failed recovery can be repeated: report it to the caller, and leave the trace as it is. */
    if (writer->session == NULL)
        return;
    tidei_ringfile_note_failure(writer->file, writer->failure);
    tidei_session_fail(writer->session);
    /* Detach from CUPTI, since its events are no longer written. */
    tidei_driver_calls_end(writer->calls, &writer->database->timeline);
    writer_note_failure(writer);
    pthread_mutex_lock(&writer->lock);
    writer->failed = true;
    writer->flush_done = writer->flush_wanted;
    pthread_cond_broadcast(&writer->flushed);
    pthread_mutex_unlock(&writer->lock);
    tidei_message(TIDE_ERROR, "%s; the recording has ended, the program goes on", writer->failure);
}

/* Sleep until there may be something to do. Returns whether to stop. */
static bool
writer_sleep(struct tidei_writer *writer, uint64_t ns, bool *flush)
{
    struct timespec until;
    bool stop;

    /* Longer than where there are few rings. Relaxed: see tidei_producer_reserve. */
    atomic_store_explicit(&writer->session->resting, ns > WRITER_BUSY_NS * 5 / 4, memory_order_relaxed);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)ns;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&writer->lock);
    while (!writer->awake && !writer->stop && writer->flush_wanted == writer->flush_done) {
        if (pthread_cond_timedwait(&writer->wake, &writer->lock, &until) == ETIMEDOUT)
            break;
    }
    writer->awake = false;
    stop = writer->stop;
    *flush = writer->flush_wanted != writer->flush_done;
    pthread_mutex_unlock(&writer->lock);
    return stop;
}

static enum tide_status
writer_flush_now(struct tidei_writer *writer)
{
    enum tide_status status;
    uint64_t wanted;

    pthread_mutex_lock(&writer->lock);
    wanted = writer->flush_wanted;
    pthread_mutex_unlock(&writer->lock);
    tidei_sampler_sample(writer->sampler, tidei_monotonic_ns(), true);
    status = tidei_writer_drain(writer);
    /* After the events, which say to which allocations the calls belong. */
    if (status == TIDE_OK && tidei_driver_calls_round(writer->calls, &writer->database->timeline, true))
        status = tidei_writer_commit(writer);
    pthread_mutex_lock(&writer->lock);
    if (status == TIDE_OK) {
        writer->flush_done = wanted;
        pthread_cond_broadcast(&writer->flushed);
    }
    pthread_mutex_unlock(&writer->lock);
    return status;
}

/* The program may have installed a handler of its own for SIGBUS. */
static void
writer_look_at_faults(struct tidei_writer *writer, uint64_t now)
{
    if (now - writer->faults_ns < WRITER_FAULT_NS)
        return;
    writer->faults_ns = now;
    tidei_fault_look();
}

/*
 * How long to sleep after a round that moved records: in proportion to the rings, so that looking at 4,096 of them
 * takes no more of a processor than at a few. A thread whose ring is full wakes the writer.
 */
static uint64_t
writer_busy_pause(const struct tidei_writer *writer)
{
    uint32_t rings = atomic_load_explicit(&writer->file->header->ring_count, memory_order_relaxed);

    return WRITER_BUSY_NS + (uint64_t)rings * WRITER_RING_NS;
}

/* One round while the recording goes on. */
static enum tide_status
writer_round(struct tidei_writer *writer, bool flush, uint64_t *pause)
{
    enum tide_status status = tidei_ringfile_check_sound(writer->file, true);
    uint64_t moved, now;
    bool quiet;

    /* Memory goes on without the file, so that a kill would lose what is in it: the end, as on a full disk. */
    if (status != TIDE_OK)
        return status;
    moved = tidei_merge_drain(writer->merge);
    now = tidei_monotonic_ns();
    writer_look_at_faults(writer, now);
    if (moved != 0)
        writer->moved_ns = now;
    /* After the last event, too: a pool may release memory when a stream is synchronized. */
    quiet = now - writer->moved_ns < TIDEI_TEST_LIMIT(quiet_ns, WRITER_QUIET_NS);
    if (quiet || tidei_sampler_is_wanted(writer->sampler))
        tidei_sampler_sample(writer->sampler, now, false);
    if ((tidei_driver_calls_round(writer->calls, &writer->database->timeline, false) || writer->merge->count != 0 ||
         tidei_writer_has_samples(writer)) &&
        writer->first_ns == 0)
        writer->first_ns = now;
    *pause = moved != 0 ? writer_busy_pause(writer) : writer->first_ns != 0 || quiet ? WRITER_IDLE_NS : WRITER_REST_NS;
    if (flush)
        return writer_flush_now(writer);
    if (writer->merge->full || (writer->first_ns != 0 && now - writer->first_ns >= WRITER_COMMIT_NS)) {
        *pause = 0;
        return tidei_writer_commit(writer);
    }
    return TIDE_OK;
}

/* Report once, and with no lock held, since the sink may be any function. */
static void
writer_report_barrier(struct tidei_writer *writer)
{
    if (!writer->merge->barrier_refused || writer->reported_barrier)
        return;
    writer->reported_barrier = true;
    tidei_message(TIDE_WARNING, "log: %s: membarrier(2) is refused by now; each look at the rings takes 2 ms longer",
                  writer->database->path);
}

/* Whether the program's threads have ended without exit(): the process ends with the last of the library's. */
static bool
writer_is_left(struct tidei_writer *writer)
{
    uint64_t now = tidei_monotonic_ns();

    if (now - writer->looked_ns < WRITER_LEFT_NS)
        return false;
    writer->looked_ns = now;
    return tidei_thread_is_left();
}

static void
writer_main(void *argument)
{
    struct tidei_writer *writer = argument;
    uint64_t pause = WRITER_BUSY_NS;
    bool flush = false;

    while (!writer_sleep(writer, pause, &flush)) {
        if (writer_is_left(writer)) {
            /* Release: pairs with the acquire in exit.c, on whose thread the sampler's next question is. */
            atomic_store_explicit(&writer->left, true, memory_order_release);
            break;
        }
        if (writer->failure[0] != '\0') {
            pause = WRITER_COMMIT_NS;
            writer_look_at_faults(writer, tidei_monotonic_ns()); /* the counters of what is lost are in the file */
            continue;
        }
        if (writer_round(writer, flush, &pause) != TIDE_OK)
            tidei_writer_fail(writer);
        writer_report_barrier(writer);
    }
}

enum tide_status
tidei_writer_start(struct tidei_writer *writer)
{
    /* It blocks SIGXFSZ, too: a file size limit is an error to it and no signal. */
    int error = tidei_thread_start(&writer->thread, "tidemark-writer", writer_main, writer);

    if (error != 0)
        return tide_error_set(TIDE_ENOMEM, "log: %s: no thread: %s", writer->database->path, strerror(error));
    writer->running = true;
    return TIDE_OK;
}

void
tidei_writer_wake(struct tidei_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    if (!writer->awake) {
        writer->awake = true;
        pthread_cond_signal(&writer->wake);
    }
    pthread_mutex_unlock(&writer->lock);
}

enum tide_status
tidei_writer_flush(struct tidei_writer *writer)
{
    uint64_t mine;
    bool failed;

    pthread_mutex_lock(&writer->lock);
    mine = ++writer->flush_wanted;
    if (writer->failed)
        writer->flush_done = mine;
    pthread_cond_signal(&writer->wake);
    while (writer->flush_done < mine && !writer->failed && !writer->stopped)
        pthread_cond_wait(&writer->flushed, &writer->lock);
    failed = writer->failed;
    pthread_mutex_unlock(&writer->lock);
    return failed ? tide_error_set(TIDE_EIO, "log: %s: the recording has ended", writer->database->path) : TIDE_OK;
}

void
tidei_writer_join(struct tidei_writer *writer)
{
    if (!writer->running)
        return;
    pthread_mutex_lock(&writer->lock);
    writer->stop = true;
    pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
    /* The writer itself is the last thread where the program's have ended by pthread_exit: it then calls exit(). */
    if (!pthread_equal(writer->thread, pthread_self()))
        pthread_join(writer->thread, NULL);
    writer->running = false;
}

void
tidei_writer_free(struct tidei_writer *writer)
{
    tidei_database_close(writer->database);
    tidei_merge_free(writer->merge);
    tidei_gauges_free(writer->gauges);
    tidei_pair_free(writer->pair);
    tidei_sampler_free(writer->sampler);
    tidei_counts_free(writer->counts);
    tidei_driver_calls_free(writer->calls);
    tidei_ringfile_close(writer->file, false);
    pthread_mutex_destroy(&writer->lock);
    pthread_mutex_destroy(&writer->gate.lock);
    pthread_cond_destroy(&writer->wake);
    pthread_cond_destroy(&writer->flushed);
    free(writer);
}
