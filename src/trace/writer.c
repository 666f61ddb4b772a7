/*
 * One thread that merges the rings, pairs frees, and writes to SQLite.
 *
 * A half of the backlog is written when it is full, when its oldest record has waited for half a second, or on
 * demand. While SQLite works, the rings are drained into the other half every few milliseconds (feed_poll), so that
 * a burst finds room without a second thread.
 */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "resource.h"
#include "testpoint.h"
#include "trace/filelimit.h"
#include "trace/recorder.h"
#include "trace/writer.h"

#define WRITER_COMMIT_NS     500000000u /* a quiet program's events are in the file within this and a little */
#define WRITER_BUSY_NS       1000000u   /* between two looks at rings that gave something */
#define WRITER_IDLE_NS       10000000u  /* and at rings that did not */
#define WRITER_SLICE_LEAST   32768u
#define WRITER_SLICE_MOST    1048576u
#define WRITER_LOCK_LIMIT_NS 10000000000u /* how long a lock that another holds on the trace is waited for */
/* And how long one that keeps the log from being folded in at the end: who holds it, or opens the trace next, does. */
#define WRITER_FINISH_LIMIT_NS 100000000u

static bool
writer_poll(void *context, uint64_t waited_ns)
{
    struct tidei_writer *writer = context;

    tidei_gate_open(writer->recorder != NULL ? &writer->gate : tidei_recorder_recovery_gate());
    if (!writer->merge->post_mortem)
        tidei_merge_drain(writer->merge);
    return waited_ns < writer->busy_limit_ns;
}

/* The line that the ring file has; in one that was left behind, behind the line of the half that was being written. */
static void
writer_first_line(struct tidei_store *store, const struct tidei_ring_header *header)
{
    const struct tidei_clock_line *line = tidei_ring_line(header);
    const struct tidei_clock_line *before = &header->lines[line == &header->lines[0]];

    store->line = *line;
    if (before->ns_per_tick > 0 && before->base.ticks < line->base.ticks && before->base.ns < line->base.ns) {
        store->line = tidei_clock_line_between(before->base, line->base, line->ns_per_tick);
        tidei_store_set_line(store, *line);
    }
}

struct tidei_writer *
tidei_writer_new(struct tidei_recorder *recorder, struct tidei_ringfile *file, struct tidei_store *store, bool tsc)
{
    struct tidei_writer *writer = calloc(1, sizeof(*writer));
    pthread_condattr_t monotonic;

    if (writer == NULL)
        return NULL;
    writer->merge = tidei_merge_new(file, tsc);
    writer->pair = tidei_pair_new(file);
    writer->sampler = tidei_sampler_new();
    writer->calls = tidei_driver_calls_new(tsc);
    if (writer->merge == NULL || writer->pair == NULL || writer->sampler == NULL || writer->calls == NULL) {
        tidei_merge_free(writer->merge);
        tidei_pair_free(writer->pair);
        tidei_sampler_free(writer->sampler);
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
    writer->recorder = recorder;
    writer->file = file;
    writer->store = store;
    writer->tsc = tsc;
    writer->busy_limit_ns = TIDEI_TEST_LIMIT(busy_ns, WRITER_LOCK_LIMIT_NS);
    writer->slice = WRITER_SLICE_LEAST;
    store->pair = writer->pair;
    store->join = tidei_driver_calls_join(writer->calls);
    store->start_ns = file->header->start_ns;
    writer_first_line(store, file->header);
    store->poll = writer_poll;
    store->poll_context = writer;
    return writer;
}

/* Say in the trace why it ends here, where that can still be written. Waits for nobody's lock. */
static void
writer_note_failure(struct tidei_writer *writer)
{
    writer->busy_limit_ns = 0;
    tidei_gate_enter(&writer->gate);
    if (tidei_store_begin(writer->store) == TIDE_OK)
        tidei_store_end(writer->store, tidei_store_meta_text(writer->store, "failure", writer->failure));
    tidei_gate_leave(&writer->gate);
}

/* The recording has ended: threads go on without it, and the message sink hears of it once. */
static void
writer_fail(struct tidei_writer *writer)
{
    if (writer->failure[0] != '\0')
        return;
    snprintf(writer->failure, sizeof(writer->failure), "%s", tide_error_text());
    /* A recovery that fails can be run again: its caller hears of it, and the trace stays as it is. */
    if (writer->recorder == NULL)
        return;
    tidei_recorder_fail(writer->recorder);
    writer_note_failure(writer);
    pthread_mutex_lock(&writer->lock);
    writer->failed = true;
    writer->flush_done = writer->flush_wanted;
    pthread_cond_broadcast(&writer->flushed);
    pthread_mutex_unlock(&writer->lock);
    tidei_message(TIDE_ERROR, "%s; the recording has ended, the program goes on", writer->failure);
}

/*
 * How many records the next transaction takes. Few, so that what is written is still in the processor's cache when
 * SQLite copies it into its log: 20% were measured between 32,768 and a million. More where many lives are longer
 * than a slice, since each of them costs a second row.
 */
static void
writer_adapt(struct tidei_writer *writer)
{
    const struct tidei_pair *pair = writer->pair;

    if (pair->closing_count * 4 > pair->row_count && writer->slice < WRITER_SLICE_MOST)
        writer->slice *= 2;
    else if (pair->closing_count * 16 < pair->row_count && writer->slice > WRITER_SLICE_LEAST)
        writer->slice /= 2;
}

static enum tide_status
writer_no_memory(struct tidei_writer *writer)
{
    writer->pair->no_memory = true;
    return tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", writer->store->path);
}

/* Write the slice that is paired. */
static enum tide_status
writer_write(struct tidei_writer *writer)
{
    struct tidei_sealed *sealed = &writer->sealed;
    struct tidei_pair *pair = writer->pair;
    const struct tidei_pool_sample *taken;
    enum tide_status status;
    size_t sample_count;

    TIDEI_TEST_POINT("writer.before-write");
    taken = tidei_sampler_take(writer->sampler, &sample_count);
    tidei_gate_enter(&writer->gate);
    status = tidei_store_write(writer->store, sealed->epoch, sealed->paired, taken, sample_count);
    tidei_gate_leave(&writer->gate);
    if (status != TIDE_OK)
        return status;
    TIDEI_TEST_POINT("writer.after-write");
    if (!tidei_join_add_events(writer->store->join, writer->store, sealed->done, sealed->paired))
        return writer_no_memory(writer);
    sealed->done = sealed->paired;
    tidei_sampler_written(writer->sampler);
    writer_adapt(writer);
    tidei_pair_forget_closed(pair);
    if (!tidei_feed_keep_live(writer->store))
        return writer_no_memory(writer);
    if (pair->row_count != 0) {
        const struct tidei_record *last =
            tidei_half_record(pair->file, pair->half, pair->rows[pair->row_count - 1].alloc);
        uint64_t ns = tidei_store_ns(writer->store, last->ticks);

        if (ns > writer->store->floor_ns)
            writer->store->floor_ns = ns;
    }
    return TIDE_OK;
}

static bool
writer_is_together(const struct tidei_record *record, const struct tidei_record *next)
{
    return next->kind == TIDEI_RECORD_TEXT || (record->kind != TIDEI_RECORD_TEXT && record->ticks == next->ticks);
}

/* Where a slice that begins at `from` ends: never between a record and its text, or two records of one tick. */
static uint64_t
writer_slice_end(const struct tidei_writer *writer, uint64_t from)
{
    const struct tidei_sealed *sealed = &writer->sealed;
    uint64_t end = from + writer->slice;

    if (end >= sealed->count)
        return sealed->count;
    while (end < sealed->count && writer_is_together(tidei_half_record(writer->file, sealed->half, end - 1),
                                                     tidei_half_record(writer->file, sealed->half, end)))
        end++;
    return end;
}

/* Pair and write what is left of the sealed half; after a failure this goes on where that was. */
static enum tide_status
writer_write_sealed(struct tidei_writer *writer)
{
    struct tidei_sealed *sealed = &writer->sealed;
    enum tide_status status = TIDE_OK;

    do {
        if (sealed->paired == sealed->done) {
            sealed->paired = writer_slice_end(writer, sealed->done);
            if (!tidei_pair_run(writer->pair, sealed->half, sealed->done, sealed->paired))
                return tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", writer->store->path);
        }
        status = writer_write(writer);
    } while (status == TIDE_OK && sealed->done < sealed->count);
    sealed->pending = status != TIDE_OK;
    if (status == TIDE_OK)
        tidei_driver_calls_round(writer->calls, sealed->until);
    return status;
}

/* Say in meta whether CUPTI is there, once that is known. Within a transaction. */
static enum tide_status
writer_write_cupti(struct tidei_writer *writer)
{
    char text[256];

    if (!tidei_driver_calls_state(writer->calls, text, sizeof(text)))
        return TIDE_OK;
    return tidei_store_meta_text(writer->store, "cupti", text);
}

/* The clock of the filling that ends now, from where that of before ended; the next one goes on from there. */
static void
writer_set_line(struct tidei_writer *writer)
{
    struct tidei_ring_header *header = writer->file->header;
    struct tidei_clock_line before = *tidei_ring_line(header);
    struct tidei_clock_sample now = tidei_clock_sample_now(writer->tsc);
    double rate = tidei_clock_line_between(header->first, now, before.ns_per_tick).ns_per_tick;

    tidei_store_set_line(writer->store, tidei_clock_line_between(before.base, now, before.ns_per_tick));
    tidei_ring_set_line(header, (struct tidei_clock_line){ .base = now, .ns_per_tick = rate });
}

/* Write the half that fills; the other one fills from now on. */
static enum tide_status
writer_commit(struct tidei_writer *writer)
{
    if (writer->merge->full && writer->merge->count == 0)
        return TIDE_EIO; /* not even one: the half has no chunk and gets none, as tidei_ringfile_add_chunk has said */
    if (!writer->merge->post_mortem)
        writer_set_line(writer);
    writer->sealed =
        (struct tidei_sealed){ .half = writer->merge->half, .count = writer->merge->count, .pending = true };
    writer->sealed.until = writer->merge->full ? writer->merge->last_ticks : writer->merge->watermark;
    writer->sealed.epoch = tidei_merge_seal(writer->merge);
    writer->first_ns = 0;
    return writer_write_sealed(writer);
}

/* Drain until everything that was recorded before now is in the backlog, and write that. */
static enum tide_status
writer_settle(struct tidei_writer *writer)
{
    /* Past now: a record may have the very tick that is read here. */
    uint64_t until = tidei_clock_ticks_settled(writer->tsc) + 1;
    const struct timespec pause = { 0, 100000 };
    enum tide_status status = TIDE_OK;

    do {
        if (tidei_merge_drain(writer->merge) == 0 && writer->merge->watermark < until)
            nanosleep(&pause, NULL);
        if (writer->merge->full)
            status = writer_commit(writer);
    } while (status == TIDE_OK && (writer->merge->full || writer->merge->watermark < until));
    if (status == TIDE_OK && (writer->merge->count != 0 || tidei_sampler_has(writer->sampler)))
        status = writer_commit(writer);
    return status;
}

/* Sleep until there may be something to do. Returns whether to stop. */
static bool
writer_sleep(struct tidei_writer *writer, uint64_t ns, bool *flush)
{
    struct timespec until;
    bool stop;

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
    status = writer_settle(writer);
    pthread_mutex_lock(&writer->lock);
    if (status == TIDE_OK) {
        writer->flush_done = wanted;
        pthread_cond_broadcast(&writer->flushed);
    }
    pthread_mutex_unlock(&writer->lock);
    return status;
}

/* One round while the recording goes on. */
static enum tide_status
writer_round(struct tidei_writer *writer, bool flush, uint64_t *pause)
{
    uint64_t moved = tidei_merge_drain(writer->merge);
    uint64_t now = tidei_monotonic_ns();

    if (moved != 0)
        tidei_sampler_sample(writer->sampler, now, false);
    if (writer->merge->count != 0 && writer->first_ns == 0)
        writer->first_ns = now;
    *pause = moved != 0 ? WRITER_BUSY_NS : WRITER_IDLE_NS;
    if (flush)
        return writer_flush_now(writer);
    if (writer->merge->full || (writer->first_ns != 0 && now - writer->first_ns >= WRITER_COMMIT_NS)) {
        *pause = 0;
        return writer_commit(writer);
    }
    return TIDE_OK;
}

/* Tell once, where no lock is held: the sink may be any function. */
static void
writer_tell_barrier(struct tidei_writer *writer)
{
    if (!writer->merge->barrier_refused || writer->told_barrier)
        return;
    writer->told_barrier = true;
    tidei_message(TIDE_WARNING, "log: %s: membarrier(2) is refused by now; each look at the rings takes 2 ms longer",
                  writer->store->path);
}

static void *
writer_main(void *argument)
{
    struct tidei_writer *writer = argument;
    uint64_t pause = WRITER_BUSY_NS;
    bool flush = false;

    while (!writer_sleep(writer, pause, &flush)) {
        if (writer->failure[0] != '\0') {
            pause = WRITER_COMMIT_NS;
            continue;
        }
        if (writer_round(writer, flush, &pause) != TIDE_OK)
            writer_fail(writer);
        writer_tell_barrier(writer);
    }
    return NULL;
}

enum tide_status
tidei_writer_start(struct tidei_writer *writer)
{
    sigset_t all, before;
    int error;

    /* The thread takes no signal of the application's, and a file size limit is an error to it and no signal. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&writer->thread, NULL, writer_main, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return tide_error_set(TIDE_ENOMEM, "log: %s: no thread: %s", writer->store->path, strerror(error));
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
    while (writer->flush_done < mine && !writer->failed)
        pthread_cond_wait(&writer->flushed, &writer->lock);
    failed = writer->failed;
    pthread_mutex_unlock(&writer->lock);
    return failed ? tide_error_set(TIDE_EIO, "log: %s: the recording has ended", writer->store->path) : TIDE_OK;
}

/* What the rings' threads have dropped and not yet told. */
static enum tide_status
writer_write_losses(struct tidei_writer *writer)
{
    struct tidei_ring_header *header = writer->file->header;
    uint32_t rings = atomic_load_explicit(&header->ring_count, memory_order_acquire);
    struct tidei_store *store = writer->store;
    enum tide_status status = TIDE_OK;

    for (uint32_t i = 0; status == TIDE_OK && i < rings; i++) {
        struct tidei_ring *ring = writer->file->rings[i];

        if (ring->told != 0 && ring->head >= ring->told)
            continue; /* the record is among those that were written */
        status = tidei_store_loss(store, ring->thread_id, "dropped allocation", ring->dropped_allocs);
        if (status == TIDE_OK)
            status = tidei_store_loss(store, ring->thread_id, "dropped free", ring->dropped_frees);
        if (status == TIDE_OK)
            status = tidei_store_loss(store, ring->thread_id, "dropped mark", ring->dropped_marks);
    }
    if (status == TIDE_OK)
        status = tidei_store_loss(store, 0, "allocation after the recording ended", header->lost_allocs);
    if (status == TIDE_OK)
        status = tidei_store_loss(store, 0, "free after the recording ended", header->lost_frees);
    return status;
}

/* NULL where the trace has everything, or where it says already what it has not. */
static const char *
writer_why_incomplete(const struct tidei_writer *writer)
{
    const struct tidei_ring_header *header = writer->file->header;

    if (writer->failure[0] != '\0')
        return writer->failure;
    if (!writer->had_failed && (header->lost_allocs != 0 || header->lost_frees != 0))
        return "there was no room for the rings of some threads";
    return NULL;
}

static enum tide_status
writer_write_figures(struct tidei_writer *writer, const char *ended)
{
    uint32_t rings = atomic_load_explicit(&writer->file->header->ring_count, memory_order_acquire);
    struct tidei_store *store = writer->store;
    uint64_t waits = 0, longest = 0;
    const char *failure;
    enum tide_status status;

    for (uint32_t i = 0; i < rings; i++) {
        uint64_t wait = atomic_load_explicit(&writer->file->rings[i]->longest_wait_ns, memory_order_relaxed);

        waits += atomic_load_explicit(&writer->file->rings[i]->waits, memory_order_relaxed);
        longest = wait > longest ? wait : longest;
    }
    status = tidei_store_meta_number(store, "ring_waits", (int64_t)waits);
    if (status == TIDE_OK)
        status = tidei_store_meta_number(store, "ring_longest_wait_ns", (int64_t)longest);
    if (status == TIDE_OK)
        status = tidei_store_meta_number(store, "late_records", (int64_t)writer->merge->late);
    if (status == TIDE_OK && !writer->merge->post_mortem)
        status =
            tidei_store_meta_number(store, "end_ns", (int64_t)tidei_store_since_start(store, tidei_monotonic_ns()));
    if (status == TIDE_OK)
        status = tidei_store_meta_text(store, "ended", ended);
    failure = writer_why_incomplete(writer);
    if (status == TIDE_OK && failure != NULL)
        status = tidei_store_meta_text(store, "failure", failure);
    if (status == TIDE_OK)
        status = tidei_store_meta_number(store, "complete", failure == NULL && !writer->had_failed);
    return status;
}

/* The last of the driver's calls, and what is to be said of them. Within a transaction. */
static enum tide_status
writer_write_calls(struct tidei_writer *writer)
{
    enum tide_status status = tidei_store_write_calls(writer->store);

    if (status == TIDE_OK)
        status = writer_write_cupti(writer);
    if (status == TIDE_OK && writer->merge->post_mortem)
        status = tidei_store_calls_cut_off(writer->store);
    if (status == TIDE_OK)
        status = tidei_store_loss(writer->store, 0, "driver call dropped by CUPTI",
                                  tidei_driver_calls_dropped(writer->calls));
    return status;
}

/* The last transaction. */
static enum tide_status
writer_complete(struct tidei_writer *writer, const char *ended)
{
    enum tide_status status;

    tidei_driver_calls_end(writer->calls);
    tidei_gate_enter(&writer->gate);
    status = tidei_store_begin(writer->store);
    if (status == TIDE_OK) {
        status = writer_write_calls(writer);
        if (status == TIDE_OK)
            status = writer_write_losses(writer);
        if (status == TIDE_OK)
            status = writer_write_figures(writer, ended);
        TIDEI_TEST_POINT("writer.before-complete");
        status = tidei_store_end(writer->store, status);
    }
    tidei_gate_leave(&writer->gate);
    return status;
}

/* Everything that is left goes to SQLite; after a failure too, since the disk may have room again. */
static enum tide_status
writer_write_rest(struct tidei_writer *writer)
{
    enum tide_status status = TIDE_OK;

    /* Without memory a half was not paired: whoever opens the trace takes it up from the ring file. */
    if (writer->pair->no_memory || writer->store->no_memory)
        return tide_error_set(TIDE_ENOMEM, "%s", writer->failure);
    if (writer->sealed.pending)
        status = writer_write_sealed(writer);
    if (status == TIDE_OK)
        status = writer_settle(writer);
    return status;
}

/* Without a gate: the sink has locks of its own, which a thread that forks may have. */
static void
writer_tell_log_stays(const struct tidei_writer *writer)
{
    if (writer->recorder == NULL)
        tidei_gate_leave(tidei_recorder_recovery_gate());
    tidei_message(TIDE_WARNING, "%s; its write-ahead log stays beside it for now", tide_error_text());
    if (writer->recorder == NULL)
        tidei_gate_enter(tidei_recorder_recovery_gate());
}

/* What is left, the last transaction, one file. */
static enum tide_status
writer_finish(struct tidei_writer *writer, const char *ended)
{
    enum tide_status status = writer_write_rest(writer);

    if (status == TIDE_OK)
        status = writer_complete(writer, ended);
    if (status != TIDE_OK) {
        writer_fail(writer);
        return status;
    }
    TIDEI_TEST_POINT("writer.before-finish");
    writer->busy_limit_ns = WRITER_FINISH_LIMIT_NS;
    tidei_gate_enter(&writer->gate);
    status = tidei_store_finish(writer->store);
    tidei_gate_leave(&writer->gate);
    if (status != TIDE_OK)
        writer_tell_log_stays(writer);
    /* Last: as long as the ring file is there, whoever opens the trace sees to the write-ahead log, too. */
    TIDEI_TEST_POINT("writer.before-unlink");
    tidei_ringfile_unlink(writer->file);
    TIDEI_TEST_POINT("writer.after-unlink");
    return TIDE_OK;
}

static void
writer_join(struct tidei_writer *writer)
{
    if (!writer->running)
        return;
    pthread_mutex_lock(&writer->lock);
    writer->stop = true;
    pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
    pthread_join(writer->thread, NULL);
    writer->running = false;
}

static void
writer_close(struct tidei_writer *writer)
{
    tidei_gate_enter(&writer->gate);
    tidei_store_close(writer->store);
    writer->store = NULL;
    tidei_gate_leave(&writer->gate);
}

enum tide_status
tidei_writer_stop(struct tidei_writer *writer, const char *ended)
{
    enum tide_status status;
    sigset_t before;

    writer_join(writer);
    /* This thread is the application's. */
    tidei_filelimit_hold(&before);
    status = writer_finish(writer, ended);
    writer_close(writer);
    tidei_filelimit_let_go(&before);
    return status;
}

void
tidei_writer_abandon(struct tidei_writer *writer)
{
    writer_join(writer);
    tidei_driver_calls_end(writer->calls);
    writer_close(writer);
}

void
tidei_writer_free(struct tidei_writer *writer)
{
    tidei_store_close(writer->store);
    tidei_merge_free(writer->merge);
    tidei_pair_free(writer->pair);
    tidei_sampler_free(writer->sampler);
    tidei_driver_calls_free(writer->calls);
    tidei_ringfile_close(writer->file, false);
    pthread_mutex_destroy(&writer->lock);
    pthread_mutex_destroy(&writer->gate.lock);
    pthread_cond_destroy(&writer->wake);
    pthread_cond_destroy(&writer->flushed);
    free(writer);
}

/* The half that was being written, where the trace does not have all of it. */
static enum tide_status
writer_take_up_sealed(struct tidei_writer *writer, unsigned half, uint64_t epoch, uint64_t done, uint64_t *events)
{
    const struct tidei_half *written = &writer->file->header->halves[half];
    struct tidei_sealed *sealed = &writer->sealed;

    if (written->epoch < epoch)
        return TIDE_OK;
    *sealed = (struct tidei_sealed){ .half = half, .epoch = written->epoch };
    sealed->count = written->count;
    sealed->done = sealed->paired = written->epoch == epoch && done <= sealed->count ? done : 0;
    *events += sealed->count - sealed->done;
    /* An empty one too, so that epochs follow each other. */
    return sealed->done < sealed->count || sealed->epoch == epoch + 1 ? writer_write_sealed(writer) : TIDE_OK;
}

enum tide_status
tidei_writer_take_up(struct tidei_writer *writer, uint64_t *events)
{
    struct tidei_merge *merge = writer->merge;
    enum tide_status status;
    int64_t epoch, done;

    *events = 0;
    tidei_merge_take_up(merge);
    status = tidei_store_meta_read(writer->store, "epoch", &epoch);
    if (status == TIDE_OK)
        status = tidei_store_meta_read(writer->store, "epoch_records", &done);
    if (status == TIDE_OK)
        status = tidei_store_meta_has(writer->store, "failure", &writer->had_failed);
    if (status == TIDE_OK)
        status = writer_take_up_sealed(writer, 1 - merge->half, (uint64_t)epoch, (uint64_t)done, events);
    while (status == TIDE_OK) {
        tidei_merge_drain(merge);
        if (merge->count == 0 && !merge->full)
            break;
        *events += merge->count;
        status = writer_commit(writer);
    }
    return status;
}
