/*
 * Writes the backlog in slices. Each slice is paired, and then written in one transaction. A recovery writes the
 * records of a killed process in the same way.
 */
#include "config.h"

#include <time.h>

#include "src/resource/resource.h"
#include "src/sync/testpoint.h"
#include "src/trace/session/writer.h"

#define COMMIT_SLICE_MOST 1048576u

/* After so many times the patience a flush waits for no unfinished record: one may follow another. */
#define COMMIT_DRAIN_PATIENCES 20
/* How often a transaction is tried again that has lost the index of the write-ahead log. */
#define COMMIT_TRIES 3

/*
 * Set the number of records in the next transaction. A small number keeps them in the processor's cache until SQLite
 * copies the rows into its log: 32,768 were 20% faster than a million. If many allocations outlive their slice the
 * number grows, since each of those costs a second row.
 */
static void
commit_adapt(struct tidei_writer *writer)
{
    const struct tidei_pair *pair = writer->pair;

    if (pair->closing_count * 4 > pair->row_count && writer->slice < COMMIT_SLICE_MOST)
        writer->slice *= 2;
    else if (pair->closing_count * 16 < pair->row_count && writer->slice > TIDEI_SLICE_LEAST)
        writer->slice /= 2;
}

bool
tidei_writer_has_samples(struct tidei_writer *writer)
{
    return tidei_sampler_has(writer->sampler) || tidei_counts_wait(writer->counts);
}

/*
 * Write the slice in one transaction. Where another process has cut off the index of the write-ahead log meanwhile,
 * write it again by a new one: nothing is lost with an index.
 */
static enum tide_status
commit_transaction(struct tidei_writer *writer, const struct tidei_pool_sample *samples, size_t sample_count)
{
    const struct tidei_sealed *sealed = &writer->sealed;
    struct tidei_database *database = writer->database;
    enum tide_status status;
    unsigned before;
    int tries = 0;

    tidei_gate_enter(&writer->gate);
    do {
        before = database->reopened;
        status = tidei_database_write(database, sealed->epoch, sealed->paired, samples, sample_count);
    } while (status != TIDE_OK && database->reopened != before && ++tries < COMMIT_TRIES);
    tidei_gate_leave(&writer->gate);
    return status;
}

/* Write the slice that is paired. */
static enum tide_status
commit_write(struct tidei_writer *writer)
{
    struct tidei_sealed *sealed = &writer->sealed;
    struct tidei_pair *pair = writer->pair;
    const struct tidei_pool_sample *taken;
    enum tide_status status;
    size_t sample_count;

    TIDEI_TEST_POINT("writer.before-write");
    tidei_driver_calls_look(writer->calls, &writer->database->timeline, pair);
    if (tidei_driver_calls_state(writer->calls, writer->cupti, sizeof(writer->cupti)))
        writer->database->cupti = writer->cupti;
    if (tidei_driver_calls_watched(writer->calls))
        writer->database->has_calls = true;
    taken = tidei_sampler_take(writer->sampler, &sample_count);
    writer->database->device_samples =
        tidei_sampler_take_devices(writer->sampler, &writer->database->device_sample_count);
    writer->database->layer_counts = tidei_counts_take(writer->counts, &writer->database->layer_count_count);
    status = commit_transaction(writer, taken, sample_count);
    if (status != TIDE_OK)
        return status;
    TIDEI_TEST_POINT("writer.after-write");
    tidei_driver_calls_slice(writer->calls, pair);
    sealed->done = sealed->paired;
    tidei_sampler_written(writer->sampler);
    writer->database->device_sample_count = 0;
    tidei_counts_written(writer->counts);
    writer->database->layer_count_count = 0;
    commit_adapt(writer);
    tidei_pair_forget_closed(pair);
    pair->no_memory = !tidei_database_keep_live(writer->database);
    if (pair->no_memory)
        return tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", writer->database->path);
    if (pair->row_count != 0) {
        uint64_t last = tidei_pair_row_ticks(pair, pair->row_count - 1);
        uint64_t ns = tidei_timeline_ns(&writer->database->timeline, last);

        if (ns > writer->database->floor_ns)
            writer->database->floor_ns = ns;
    }
    return TIDE_OK;
}

/* The end of a slice that begins at `from`. Never separates a record from its text, or two records of one tick. */
static uint64_t
commit_slice_end(const struct tidei_writer *writer, uint64_t from)
{
    const struct tidei_sealed *sealed = &writer->sealed;
    uint64_t end = from + writer->slice;
    const struct tidei_record *last, *next;
    uint64_t index = end;

    if (end >= sealed->count)
        return sealed->count;
    do /* a text has no tick: that of its record counts */
        last = tidei_buffer_record(writer->file, sealed->buffer, --index);
    while (last->kind == TIDEI_RECORD_TEXT && index > from);
    for (; end < sealed->count; end++) {
        next = tidei_buffer_record(writer->file, sealed->buffer, end);
        if (next->kind != TIDEI_RECORD_TEXT && next->ticks != last->ticks)
            break;
    }
    return end;
}

/* Pair and write the rest of the sealed buffer; after a failure, continue where it happened. */
static enum tide_status
commit_sealed(struct tidei_writer *writer)
{
    struct tidei_sealed *sealed = &writer->sealed;
    enum tide_status status = TIDE_OK;

    do {
        if (sealed->paired == sealed->done) {
            sealed->paired = commit_slice_end(writer, sealed->done);
            if (!tidei_pair_run(writer->pair, sealed->buffer, sealed->done, sealed->paired))
                return tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", writer->database->path);
            tidei_gauges_paired(writer->gauges, writer->pair, sealed->done, sealed->paired,
                                sealed->paired == sealed->count);
        }
        status = commit_write(writer);
    } while (status == TIDE_OK && sealed->done < sealed->count);
    sealed->pending = status != TIDE_OK;
    return status;
}

/* End the clock line of the buffer that is sealed now, and begin the next line at its end. */
static void
commit_set_line(struct tidei_writer *writer)
{
    struct tidei_ring_header *header = writer->file->header;
    struct tidei_clock_line before = *tidei_ring_line(header);
    struct tidei_clock_sample now = tidei_steady_sample(&writer->merge->clock);
    double rate = tidei_clock_line_between(header->first, now, before.ns_per_tick).ns_per_tick;

    /* The counter was set back a little, or stands still: the line goes on until it is later than before. */
    if (now.ticks <= before.base.ticks || now.ns <= before.base.ns)
        return;
    /* A rate like no other is the sign of a clock that was set: a recovery would not believe it. */
    if (rate > before.ns_per_tick * 2 || rate < before.ns_per_tick / 2)
        rate = before.ns_per_tick;
    tidei_timeline_add(&writer->database->timeline, tidei_clock_line_between(before.base, now, before.ns_per_tick));
    tidei_ring_set_line(header, (struct tidei_clock_line){ .base = now, .ns_per_tick = rate });
}

enum tide_status
tidei_writer_commit(struct tidei_writer *writer)
{
    if (writer->merge->full && writer->merge->count == 0)
        return TIDE_EIO; /* the buffer has no chunk and gets none; tidei_ringfile_add_chunk has set the error */
    if (!writer->merge->post_mortem)
        commit_set_line(writer);
    writer->sealed =
        (struct tidei_sealed){ .buffer = writer->merge->buffer, .count = writer->merge->count, .pending = true };
    writer->sealed.epoch = tidei_merge_seal(writer->merge);
    writer->first_ns = 0;
    return commit_sealed(writer);
}

enum tide_status
tidei_writer_drain(struct tidei_writer *writer)
{
    struct tidei_merge *merge = writer->merge;
    const struct timespec pause = { 0, 100000 };
    uint64_t began_ns = tidei_monotonic_ns();
    enum tide_status status = TIDE_OK;

    tidei_merge_mark(merge);
    do {
        if (tidei_merge_drain(merge) == 0 && !tidei_merge_reached(merge) && !merge->full) {
            if (merge->post_mortem)
                break; /* nothing moves there any more */
            nanosleep(&pause, NULL);
        }
        merge->hurry = tidei_monotonic_ns() - began_ns > COMMIT_DRAIN_PATIENCES * tidei_merge_patience_ns();
        if (merge->full)
            status = tidei_writer_commit(writer);
    } while (status == TIDE_OK && (merge->full || !tidei_merge_reached(merge)));
    merge->hurry = false;
    if (status == TIDE_OK && (merge->count != 0 || tidei_writer_has_samples(writer)))
        status = tidei_writer_commit(writer);
    return status;
}

enum tide_status
tidei_writer_write_rest(struct tidei_writer *writer)
{
    enum tide_status status = TIDE_OK;

    /* Without memory a buffer was not paired: the next process that opens the trace takes it from the ring file. */
    if (writer->pair->no_memory || writer->database->no_memory)
        return tide_error_set(TIDE_ENOMEM, "%s", writer->failure);
    if (writer->sealed.pending)
        status = commit_sealed(writer);
    if (status == TIDE_OK)
        status = tidei_writer_drain(writer);
    /* The samples that were taken while that was written. */
    if (status == TIDE_OK && tidei_writer_has_samples(writer))
        status = tidei_writer_commit(writer);
    return status;
}

/* Write what the trace lacks of the buffer that was being written when the process was killed. */
static enum tide_status
commit_resume_sealed(struct tidei_writer *writer, unsigned buffer, uint64_t epoch, uint64_t done, uint64_t *events)
{
    const struct tidei_buffer *written = &writer->file->header->buffers[buffer];
    struct tidei_sealed *sealed = &writer->sealed;

    if (written->epoch < epoch)
        return TIDE_OK;
    *sealed = (struct tidei_sealed){ .buffer = buffer, .epoch = written->epoch };
    sealed->count = written->count;
    sealed->done = sealed->paired = written->epoch == epoch && done <= sealed->count ? done : 0;
    *events += sealed->count - sealed->done;
    tidei_merge_check(writer->merge, buffer, sealed->done, sealed->count);
    /* An empty one too, so that epochs follow each other. */
    return sealed->done < sealed->count || sealed->epoch == epoch + 1 ? commit_sealed(writer) : TIDE_OK;
}

enum tide_status
tidei_writer_resume(struct tidei_writer *writer, uint64_t *events)
{
    struct tidei_merge *merge = writer->merge;
    int64_t epoch, done, ignored;
    enum tide_status status;

    *events = 0;
    tidei_merge_resume(merge);
    tidei_database_meta_read(writer->database, "epoch", &epoch);
    tidei_database_meta_read(writer->database, "epoch_records", &done);
    writer->had_failed = tidei_database_meta_read(writer->database, "failure", &ignored);
    status = writer->database->status;
    if (status == TIDE_OK)
        status = commit_resume_sealed(writer, 1 - merge->buffer, (uint64_t)epoch, (uint64_t)done, events);
    while (status == TIDE_OK) {
        tidei_merge_drain(merge);
        if (merge->count == 0 && !merge->full)
            break;
        *events += merge->count;
        status = tidei_writer_commit(writer);
    }
    return status;
}
