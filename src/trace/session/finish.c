/* Ends a recording: writes the last transaction with meta and losses, and leaves a single file. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "src/resource/resource.h"
#include "src/sync/testpoint.h"
#include "src/trace/ring/filelimit.h"
#include "src/trace/ring/producer.h"
#include "src/trace/session/recorder.h"
#include "src/trace/session/writer.h"

/*
 * How long to wait for another process's lock that keeps the write-ahead log from being folded in. After that the
 * process that holds the lock, or the next one that opens the trace, folds it in.
 */
#define FINISH_LOCK_LIMIT_NS 100000000u

/* Whether the ring file has lost what this process recorded: nothing more is taken from it. Sets the error. */
static bool
finish_has_lost(const struct tidei_writer *writer)
{
    return writer->session != NULL && tidei_ringfile_check_sound(writer->file, false) != TIDE_OK;
}

/* The rings of the file, as many as there are in memory: what the header says may be gone. */
static uint32_t
finish_rings(const struct tidei_writer *writer)
{
    uint32_t rings = 0;

    while (rings < TIDEI_MAX_RINGS && writer->file->rings[rings] != NULL)
        rings++;
    return rings;
}

/*
 * How many records the ring file has lost, as far as that can still be seen: those in the backlog, and those in rings
 * whose heads and tails are still there. One at least.
 */
static uint64_t
finish_count_lost(const struct tidei_writer *writer)
{
    uint64_t lost = writer->merge->count, most = writer->file->ring_bytes / sizeof(struct tidei_record);
    uint32_t rings = finish_rings(writer);

    if (writer->sealed.pending)
        lost += writer->sealed.count - writer->sealed.done;
    for (uint32_t i = 0; i < rings; i++) {
        const struct tidei_ring *ring = writer->file->rings[i];
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
        uint64_t held = head - atomic_load_explicit(&ring->tail, memory_order_relaxed);

        lost += held <= most ? held : 0;
    }
    return lost != 0 ? lost : 1;
}

static const struct {
    const char *allocation;
    const char *free;
} finish_causes[TIDEI_LOST_CAUSES] = {
    [TIDEI_LOST_ENDED] = { "allocation after the recording ended", "free after the recording ended" },
    [TIDEI_LOST_NO_RING] = { "allocation of a thread without a ring", "free of a thread without a ring" },
    [TIDEI_LOST_PASSED] = { "allocation without an account", "free without an account" },
    [TIDEI_LOST_STALLED] = { "allocation that found no room for a minute", "free that found no room for a minute" },
};

/* Write the drops that threads have counted but not yet recorded. */
static void
finish_write_losses(struct tidei_writer *writer)
{
    struct tidei_database *database = writer->database;
    uint32_t rings = finish_rings(writer);

    tidei_database_loss(database, 0, "free before its allocation", tidei_pair_assumed(writer->pair));
    /* It counts them from here on, and a recovery of what came after exit() counts its own. */
    tidei_database_exec(database, "DELETE FROM meta WHERE key = 'assumed_frees'", "meta");
    if (writer->leaves)
        return; /* see finish_why_incomplete */
    if (finish_has_lost(writer))
        tidei_database_loss(database, 0, "record lost with the ring file", finish_count_lost(writer));
    for (uint32_t i = 0; i < rings; i++) {
        struct tidei_ring *ring = writer->file->rings[i];

        if (ring->told != 0 && ring->head >= ring->told)
            continue; /* the LOSS record has been written */
        tidei_database_loss(database, ring->thread_id, "dropped allocation", ring->dropped_allocs);
        tidei_database_loss(database, ring->thread_id, "dropped free", ring->dropped_frees);
        tidei_database_loss(database, ring->thread_id, "dropped mark", ring->dropped_marks);
    }
    for (unsigned cause = 0; cause < TIDEI_LOST_CAUSES; cause++) {
        const struct tidei_lost *lost = tidei_ring_lost(writer->file->header, cause);

        tidei_database_loss(database, 0, finish_causes[cause].allocation, lost->allocs);
        tidei_database_loss(database, 0, finish_causes[cause].free, lost->frees);
    }
}

/* Why events were lost that no ring has; NULL: none were. The first reason is that which lost the most for good. */
static const char *
finish_why_lost(const struct tidei_writer *writer, char *text, size_t bytes)
{
    struct tidei_ringfile *file = writer->file;
    uint32_t rings = finish_rings(writer);

    if (tidei_ringfile_has_lost(file, TIDEI_LOST_ENDED))
        return file->header->exited != 0 ? "threads went on after exit() until their rings were full"
                                         : "the recording ended early";
    if (tidei_ringfile_has_lost(file, TIDEI_LOST_STALLED))
        return "the rings of some threads had no room for a minute";
    if (!tidei_ringfile_has_lost(file, TIDEI_LOST_NO_RING))
        return tidei_ringfile_has_lost(file, TIDEI_LOST_PASSED)
                   ? "some memory passed without an account, as no stack could be made for it"
                   : NULL;
    if (rings < tidei_ringfile_rings_most())
        return "there was no room for the rings of some threads";
    snprintf(text, bytes, "more than %u threads recorded at once: the others had no ring", rings);
    return text;
}

/* Whether the trace counts frees that came before their allocations, from this process or an earlier end. */
static bool
finish_has_assumed(const struct tidei_writer *writer)
{
    sqlite3_stmt *select = NULL;
    bool has = tidei_pair_assumed(writer->pair) != 0;

    if (!has && writer->merge->post_mortem &&
        sqlite3_prepare_v2(writer->database->db, "SELECT 1 FROM loss WHERE reason = 'free before its allocation'", -1,
                           &select, NULL) == SQLITE_OK)
        has = sqlite3_step(select) == SQLITE_ROW;
    sqlite3_finalize(select);
    return has;
}

/* Why the trace is incomplete; NULL if it is complete, or already says why not. `text` is room for it. */
static const char *
finish_why_incomplete(const struct tidei_writer *writer, char *text, size_t bytes)
{
    const struct tidei_ring_header *header = writer->file->header;
    const char *lost;

    if (writer->failure[0] != '\0')
        return writer->failure;
    if (writer->had_failed)
        return NULL;
    /* The process could not write it into the trace itself. */
    if (header->failure_bytes != 0) {
        snprintf(text, bytes, "%.*s", (int)header->failure_bytes, header->failure);
        return text;
    }
    /* What is lost is counted once, by the recovery, which says then why the trace is incomplete. */
    lost = writer->leaves ? NULL : finish_why_lost(writer, text, bytes);
    if (lost != NULL)
        return lost;
    if (finish_has_assumed(writer))
        return "frees came before the allocations that they may be of";
    return writer->database->unreadable_all != 0 ? "records were unreadable" : NULL;
}

/* The end of the recording. A recovery adds to a trace that has one already what threads recorded after exit(). */
static void
finish_write_end(struct tidei_writer *writer)
{
    struct tidei_database *database = writer->database;
    uint64_t ns = writer->merge->post_mortem ? tidei_timeline_ns(&database->timeline, writer->merge->last_ticks)
                                             : tidei_timeline_since_start(&database->timeline, tidei_monotonic_ns());
    int64_t before;

    if (writer->merge->post_mortem && (!tidei_database_meta_read(database, "end_ns", &before) || (int64_t)ns < before))
        return;
    tidei_database_meta_number(database, "end_ns", (int64_t)ns);
}

/* Whether this is the recovery of what threads recorded after the end at exit(): the trace had an end before. */
static bool
finish_is_late(const struct tidei_writer *writer, const char *ended)
{
    return writer->merge->post_mortem && strcmp(ended, "exit") == 0;
}

/* How the recording ended, where its process could not say: it was killed, or the recorder had given up before. */
static const char *
finish_how(const struct tidei_writer *writer, const char *ended)
{
    return strcmp(ended, "recovered") == 0 && writer->file->header->failure_bytes != 0 ? "failed" : ended;
}

static void
finish_write_figures(struct tidei_writer *writer, const char *ended)
{
    uint32_t rings = finish_rings(writer);
    struct tidei_database *database = writer->database;
    char text[TIDEI_RING_FAILURE_BYTES];
    const char *failure = finish_why_incomplete(writer, text, sizeof(text));
    uint64_t waits = 0, longest = 0;

    for (uint32_t i = 0; i < rings; i++) {
        uint64_t wait = atomic_load_explicit(&writer->file->rings[i]->longest_wait_ns, memory_order_relaxed);

        waits += atomic_load_explicit(&writer->file->rings[i]->waits, memory_order_relaxed);
        longest = wait > longest ? wait : longest;
    }
    tidei_database_meta_number(database, "ring_waits", (int64_t)waits);
    tidei_database_meta_number(database, "ring_longest_wait_ns", (int64_t)longest);
    tidei_database_meta_number(database, "late_records", (int64_t)writer->merge->late);
    finish_write_end(writer);
    tidei_database_meta_text(database, "ended", finish_how(writer, ended));
    if (finish_is_late(writer, ended))
        tidei_database_meta_number(database, "exit_recovered", 1);
    if (failure != NULL)
        tidei_database_meta_text(database, "failure", failure);
    tidei_database_meta_number(database, "complete", failure == NULL && !writer->had_failed && !writer->leaves_more);
}

/* Write the last rows from CUPTI, and meta.cupti. */
static void
finish_write_calls(struct tidei_writer *writer)
{
    tidei_database_write_devices(writer->database);
    if (tidei_driver_calls_state(writer->calls, writer->cupti, sizeof(writer->cupti)))
        writer->database->cupti = writer->cupti;
    if (writer->database->cupti != NULL)
        tidei_database_meta_text(writer->database, "cupti", writer->database->cupti);
    if (writer->merge->post_mortem)
        tidei_database_devices_cut_off(writer->database);
    tidei_database_loss(writer->database, 0, "record dropped by CUPTI", tidei_driver_calls_dropped(writer->calls));
}

/*
 * Whether to write the last transaction again: the connection has lost the index of the write-ahead log, and without
 * that index the trace has no end. Each turn needs somebody who cuts the index off.
 */
static bool
finish_is_undone(const struct tidei_writer *writer, const char *ended, enum tide_status *status)
{
    struct tidei_database *database = writer->database;
    int64_t ignored;

    if (*status == TIDE_OK || !tidei_database_is_torn(database) || tidei_database_reopen(database) != TIDE_OK)
        return false;
    if (!tidei_database_meta_read(database, finish_is_late(writer, ended) ? "exit_recovered" : "ended", &ignored))
        return database->status == TIDE_OK;
    *status = TIDE_OK;
    return false;
}

/* The last transaction. */
static enum tide_status
finish_complete(struct tidei_writer *writer, const char *ended)
{
    enum tide_status status;

    tidei_driver_calls_end(writer->calls, &writer->database->timeline);
    tidei_gate_enter(&writer->gate);
    do {
        tidei_database_begin(writer->database);
        finish_write_calls(writer);
        finish_write_losses(writer);
        finish_write_figures(writer, ended);
        TIDEI_TEST_POINT("writer.before-complete");
        status = tidei_database_end(writer->database);
    } while (finish_is_undone(writer, ended, &status));
    tidei_gate_leave(&writer->gate);
    return status;
}

/* Leaves the gate for the message: the sink has its own locks, which a forking thread may hold. */
static void
finish_report_log_stays(const struct tidei_writer *writer)
{
    if (writer->session == NULL)
        tidei_gate_leave(&tidei_recovery_gate);
    tidei_message(TIDE_WARNING, "%s; its write-ahead log stays beside it for now", tide_error_text());
    if (writer->session == NULL)
        tidei_gate_enter(&tidei_recovery_gate);
}

/* Whether a thread other than this one has a ring. The session's lock is held. */
static bool
finish_others(const struct tidei_writer *writer)
{
    uint32_t rings = atomic_load_explicit(&writer->file->header->ring_count, memory_order_acquire);
    const struct tidei_ring *own = NULL;

    for (const struct tidei_producer *mine = tidei_producers(tidei_thread)->list; mine != NULL; mine = mine->next) {
        if (mine->session == writer->session)
            own = mine->ring;
    }
    for (uint32_t i = 0; i < rings; i++) {
        const struct tidei_ring *ring = writer->file->rings[i];

        if (ring != own && atomic_load_explicit(&ring->state, memory_order_relaxed) == TIDEI_RING_TAKEN)
            return true;
    }
    return false;
}

/*
 * At exit(), from here on no thread waits for the writer. Where other threads have rings, each goes on in its own until
 * the process has ended, and the ring file stays: the next command that opens the trace adds what it holds, and counts
 * what found no room. Where none has, the trace is one file; a thread that comes later yet gets a ring file of its own.
 */
static void
finish_leave(struct tidei_writer *writer, enum tide_status written)
{
    struct tidei_session *session = writer->session;
    int recording = TIDEI_SESSION_RECORDING;

    pthread_mutex_lock(&session->lock);
    writer->leaves = written != TIDE_OK || finish_others(writer);
    if (writer->leaves) {
        writer->file->header->exited = written == TIDE_OK;
        atomic_compare_exchange_strong_explicit(&session->mode, &recording, TIDEI_SESSION_EXITED, memory_order_release,
                                                memory_order_relaxed);
    } else {
        atomic_store_explicit(&session->exited, true, memory_order_relaxed);
        tidei_session_set_mode(session, TIDEI_SESSION_CLOSED);
    }
    pthread_mutex_unlock(&session->lock);
    TIDEI_TEST_POINT("writer.left");
    writer->leaves_more = writer->leaves && (!tidei_ringfile_is_spent(writer->file) ||
                                             tidei_ringfile_check_sound(writer->file, true) != TIDE_OK);
}

/* Write the remaining records, unless the ring file has lost them. */
static enum tide_status
finish_write_rest(struct tidei_writer *writer)
{
    enum tide_status status = finish_has_lost(writer) ? TIDE_EIO : tidei_writer_write_rest(writer);

    if (status == TIDE_OK || !finish_has_lost(writer))
        return status;
    tidei_writer_fail(writer);
    return TIDE_OK;
}

/* Write the remaining records and the last transaction, and leave a single file. */
static enum tide_status
finish_all(struct tidei_writer *writer, const char *ended)
{
    enum tide_status status;

    /* What the program still holds has changed since the writer has asked last. */
    if (strcmp(ended, "exit") == 0 && writer->session != NULL && writer->failure[0] == '\0')
        tidei_sampler_end(writer->sampler, tidei_monotonic_ns());
    status = finish_write_rest(writer);
    if (strcmp(ended, "exit") == 0 && writer->session != NULL && !finish_has_lost(writer))
        finish_leave(writer, status);
    if (status == TIDE_OK)
        status = finish_complete(writer, ended);
    if (status != TIDE_OK) {
        tidei_writer_fail(writer);
        return status;
    }
    TIDEI_TEST_POINT("writer.before-finish");
    writer->busy_limit_ns = FINISH_LOCK_LIMIT_NS;
    tidei_gate_enter(&writer->gate);
    status = tidei_database_finish(writer->database);
    tidei_gate_leave(&writer->gate);
    if (status != TIDE_OK)
        finish_report_log_stays(writer);
    /* Last: while the ring file exists, every command that opens the trace checkpoints the write-ahead log. */
    TIDEI_TEST_POINT("writer.before-unlink");
    if (!writer->leaves)
        tidei_ringfile_unlink(writer->file);
    TIDEI_TEST_POINT("writer.after-unlink");
    return TIDE_OK;
}

static void
finish_close(struct tidei_writer *writer)
{
    tidei_gate_enter(&writer->gate);
    tidei_database_close(writer->database);
    writer->database = NULL;
    tidei_gate_leave(&writer->gate);
}

enum tide_status
tidei_writer_stop(struct tidei_writer *writer, const char *ended)
{
    enum tide_status status;
    sigset_t before;

    tidei_writer_join(writer);
    /* This is an application thread, which does not block SIGXFSZ. */
    tidei_filelimit_hold(&before);
    status = finish_all(writer, ended);
    finish_close(writer);
    pthread_mutex_lock(&writer->lock);
    writer->stopped = true;
    pthread_cond_broadcast(&writer->flushed);
    pthread_mutex_unlock(&writer->lock);
    tidei_filelimit_release(&before);
    return status;
}

void
tidei_writer_abandon(struct tidei_writer *writer)
{
    tidei_writer_join(writer);
    tidei_driver_calls_end(writer->calls, &writer->database->timeline);
    finish_close(writer);
}
