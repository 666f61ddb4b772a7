/* Ends a recording: writes the last transaction with meta and losses, and leaves a single file. */
#include "config.h"

#include "src/resource/resource.h"
#include "src/sync/testpoint.h"
#include "src/trace/ring/filelimit.h"
#include "src/trace/session/recorder.h"
#include "src/trace/session/writer.h"

/*
 * How long to wait for another process's lock that keeps the write-ahead log from being folded in. After that the
 * process that holds the lock, or the next one that opens the trace, folds it in.
 */
#define FINISH_LOCK_LIMIT_NS 100000000u

/* Write the drops that threads have counted but not yet recorded. */
static void
finish_write_losses(struct tidei_writer *writer)
{
    struct tidei_ring_header *header = writer->file->header;
    uint32_t rings = atomic_load_explicit(&header->ring_count, memory_order_acquire);
    struct tidei_database *database = writer->database;

    for (uint32_t i = 0; i < rings; i++) {
        struct tidei_ring *ring = writer->file->rings[i];

        if (ring->told != 0 && ring->head >= ring->told)
            continue; /* the LOSS record has been written */
        tidei_database_loss(database, ring->thread_id, "dropped allocation", ring->dropped_allocs);
        tidei_database_loss(database, ring->thread_id, "dropped free", ring->dropped_frees);
        tidei_database_loss(database, ring->thread_id, "dropped mark", ring->dropped_marks);
    }
    tidei_database_loss(database, 0, "allocation after the recording ended", header->lost_allocs);
    tidei_database_loss(database, 0, "free after the recording ended", header->lost_frees);
    tidei_database_loss(database, 0, "free before its allocation", tidei_pair_assumed(writer->pair));
}

/* Why the trace is incomplete; NULL if it is complete, or already says why not. */
static const char *
finish_why_incomplete(const struct tidei_writer *writer)
{
    const struct tidei_ring_header *header = writer->file->header;

    if (writer->failure[0] != '\0')
        return writer->failure;
    if (!writer->had_failed && (header->lost_allocs != 0 || header->lost_frees != 0))
        return "there was no room for the rings of some threads";
    return NULL;
}

static void
finish_write_figures(struct tidei_writer *writer, const char *ended)
{
    uint32_t rings = atomic_load_explicit(&writer->file->header->ring_count, memory_order_acquire);
    struct tidei_database *database = writer->database;
    const char *failure = finish_why_incomplete(writer);
    uint64_t waits = 0, longest = 0;

    for (uint32_t i = 0; i < rings; i++) {
        uint64_t wait = atomic_load_explicit(&writer->file->rings[i]->longest_wait_ns, memory_order_relaxed);

        waits += atomic_load_explicit(&writer->file->rings[i]->waits, memory_order_relaxed);
        longest = wait > longest ? wait : longest;
    }
    tidei_database_meta_number(database, "ring_waits", (int64_t)waits);
    tidei_database_meta_number(database, "ring_longest_wait_ns", (int64_t)longest);
    tidei_database_meta_number(database, "late_records", (int64_t)writer->merge->late);
    if (!writer->merge->post_mortem)
        tidei_database_meta_number(database, "end_ns",
                                   (int64_t)tidei_timeline_since_start(&database->timeline, tidei_monotonic_ns()));
    tidei_database_meta_text(database, "ended", ended);
    if (failure != NULL)
        tidei_database_meta_text(database, "failure", failure);
    tidei_database_meta_number(database, "complete",
                               failure == NULL && !writer->had_failed && tidei_pair_assumed(writer->pair) == 0 &&
                                   database->unreadable_all == 0);
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

/* The last transaction. */
static enum tide_status
finish_complete(struct tidei_writer *writer, const char *ended)
{
    enum tide_status status;

    tidei_driver_calls_end(writer->calls, &writer->database->timeline);
    tidei_gate_enter(&writer->gate);
    tidei_database_begin(writer->database);
    finish_write_calls(writer);
    finish_write_losses(writer);
    finish_write_figures(writer, ended);
    TIDEI_TEST_POINT("writer.before-complete");
    status = tidei_database_end(writer->database);
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

/* Write the remaining records and the last transaction, and leave a single file. */
static enum tide_status
finish_all(struct tidei_writer *writer, const char *ended)
{
    enum tide_status status = tidei_writer_write_rest(writer);

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
