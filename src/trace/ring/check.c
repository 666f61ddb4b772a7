/*
 * Checks whether a ring file that was left behind is valid. The file is not trusted, and its readers rely on these
 * checks.
 */
#include "config.h"

#include <stdlib.h>
#include <unistd.h>

#include "src/resource/resource.h"
#include "src/trace/ring/ringfile.h"

/* More than any counter of events or nanoseconds reaches. */
#define RINGCHECK_COUNTER_MOST ((uint64_t)1 << 56)

/* 146 years. A clock line adds to its begin no more than another 73, so that the sum fits below 2^63. */
#define RINGCHECK_NS_MOST ((uint64_t)1 << 62)
/* Records that may lie in holes of the file, beside as many as there are: 16 MiB. */
#define RINGCHECK_HOLES_MOST (((uint64_t)16 << 20) / sizeof(struct tidei_record))

static enum tide_status
ringcheck_damaged(const struct tidei_ringfile *file, const char *what)
{
    return tide_error_set(TIDE_EFORMAT, "%s: damaged ring file: %s", file->path, what);
}

static int
ringcheck_by_offset(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/*
 * Each segment begins where another ends, as they were allocated. So no two share a byte, and what is read from a ring
 * is never what is being written to the backlog.
 */
static enum tide_status
ringcheck_segments(const struct tidei_ringfile *file)
{
    uint32_t rings = atomic_load_explicit(&file->header->ring_count, memory_order_relaxed);
    uint32_t chunks = atomic_load_explicit(&file->header->chunk_count, memory_order_relaxed);
    size_t count = (size_t)rings + chunks;
    uint64_t *offsets = malloc((count + 1) * sizeof(*offsets));
    uint64_t end = tidei_ring_segments(file->header);
    bool follow = true;

    if (offsets == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    /* Bit 0 says that it is a ring: offsets are multiples of a page. */
    for (uint32_t i = 0; i < rings; i++)
        offsets[i] = file->directory->rings[i] | 1;
    for (uint32_t i = 0; i < chunks; i++)
        offsets[rings + i] = file->directory->chunks[i] & ~(uint64_t)1;
    qsort(offsets, count, sizeof(*offsets), ringcheck_by_offset);
    for (size_t i = 0; i < count; i++) {
        uint64_t offset = offsets[i] & ~(uint64_t)1;

        follow = follow && offset == end;
        end = offset + ((offsets[i] & 1) != 0 ? TIDEI_PAGE + file->header->ring_bytes : TIDEI_CHUNK_BYTES);
    }
    free(offsets);
    return follow ? TIDE_OK : ringcheck_damaged(file, "its segments do not follow each other");
}

static enum tide_status
ringcheck_clock(const struct tidei_ringfile *file)
{
    const struct tidei_ring_header *header = file->header;
    const struct tidei_clock_line *line = tidei_ring_line(header);
    double rate = line->ns_per_tick;

    /* From a counter of 10 THz to one of 1 MHz; not a number fails both. */
    if (!(rate >= 1e-4 && rate <= 1e3))
        return ringcheck_damaged(file, "the clock's rate is impossible");
    if (header->start_ns > RINGCHECK_NS_MOST || header->first.ns > RINGCHECK_NS_MOST ||
        line->base.ns > RINGCHECK_NS_MOST)
        return ringcheck_damaged(file, "the clock's time is impossible");
    return TIDE_OK;
}

static enum tide_status
ringcheck_ring(const struct tidei_ringfile *file, const struct tidei_ring *ring, uint64_t number)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    if (head - tidei_ring_left_tail(ring, number) > file->header->ring_bytes / sizeof(struct tidei_record))
        return ringcheck_damaged(file, "a ring holds more records than it has room for");
    if (atomic_load_explicit(&ring->state, memory_order_relaxed) > TIDEI_RING_TAKEN ||
        ring->waits > RINGCHECK_COUNTER_MOST || ring->longest_wait_ns > RINGCHECK_COUNTER_MOST ||
        ring->dropped_allocs > RINGCHECK_COUNTER_MOST || ring->dropped_frees > RINGCHECK_COUNTER_MOST ||
        ring->dropped_marks > RINGCHECK_COUNTER_MOST)
        return ringcheck_damaged(file, "a ring's header is impossible");
    return TIDE_OK;
}

uint64_t
tidei_ringfile_count(const struct tidei_ringfile *file, unsigned buffer)
{
    uint64_t published = atomic_load_explicit(&file->header->published, memory_order_relaxed);

    return buffer == TIDEI_PUBLISHED_BUFFER(published) ? TIDEI_PUBLISHED_COUNT(published)
                                                       : file->header->buffers[buffer].count;
}

/* Where the records of a ring begin that are not in the backlog, and how many there are. */
static uint64_t
ringcheck_left(const struct tidei_ringfile *file, const struct tidei_ring *ring, uint64_t *tail)
{
    uint64_t published = atomic_load_explicit(&file->header->published, memory_order_relaxed);

    *tail = tidei_ring_left_tail(ring, TIDEI_PUBLISHED_NUMBER(published));
    return atomic_load_explicit(&ring->head, memory_order_relaxed) - *tail;
}

uint64_t
tidei_ringfile_left(const struct tidei_ringfile *file)
{
    uint32_t rings = atomic_load_explicit(&file->header->ring_count, memory_order_relaxed);
    uint64_t left = 0, tail;

    for (uint32_t i = 0; i < rings; i++)
        left += ringcheck_left(file, file->rings[i], &tail);
    return left;
}

/* The records of a part of the file that lie where nothing was ever written. */
static uint64_t
ringcheck_holes(const struct tidei_ringfile *file, uint64_t offset, uint64_t records)
{
    uint64_t end = offset + records * sizeof(struct tidei_record), bytes = 0, at = offset;

    while (at < end) {
        off_t hole = lseek(file->fd, (off_t)at, SEEK_HOLE), data;

        if (hole < 0 || (uint64_t)hole >= end)
            break;
        data = lseek(file->fd, hole, SEEK_DATA);
        at = data < 0 || (uint64_t)data > end ? end : (uint64_t)data;
        bytes += at - (uint64_t)hole;
    }
    return bytes / sizeof(struct tidei_record);
}

/* The holes among the records of a ring, which go round its end. */
static uint64_t
ringcheck_ring_holes(const struct tidei_ringfile *file, uint32_t index)
{
    uint64_t room = file->header->ring_bytes / sizeof(struct tidei_record), tail;
    uint64_t left = ringcheck_left(file, file->rings[index], &tail), first;
    uint64_t offset = file->directory->rings[index] + TIDEI_PAGE;

    tail %= room;
    first = left < room - tail ? left : room - tail;
    return ringcheck_holes(file, offset + tail * sizeof(struct tidei_record), first) +
           ringcheck_holes(file, offset, left - first);
}

/*
 * Records that lie in holes of the file are none, however many the file says that there are: reading them would take as
 * long as it wishes. Where the machine has lost power, a few may be missing, which are counted.
 */
static enum tide_status
ringcheck_on_disk(const struct tidei_ringfile *file)
{
    uint32_t rings = atomic_load_explicit(&file->header->ring_count, memory_order_relaxed);
    uint32_t chunks = atomic_load_explicit(&file->header->chunk_count, memory_order_relaxed);
    uint64_t left[2] = { tidei_ringfile_count(file, 0), tidei_ringfile_count(file, 1) };
    uint64_t said = left[0] + left[1] + tidei_ringfile_left(file), missing = 0;

    for (uint32_t i = 0; i < rings; i++)
        missing += ringcheck_ring_holes(file, i);
    for (uint32_t i = 0; i < chunks; i++) {
        unsigned buffer = file->directory->chunks[i] & 1;
        uint64_t here = left[buffer] < TIDEI_CHUNK_RECORDS ? left[buffer] : TIDEI_CHUNK_RECORDS;

        missing += ringcheck_holes(file, file->directory->chunks[i] & ~(uint64_t)1, here);
        left[buffer] -= here;
    }
    if (missing <= RINGCHECK_HOLES_MOST + (said - missing))
        return TIDE_OK;
    return tide_error_set(TIDE_EFORMAT, "%s: damaged ring file: it says that it holds %llu records, and has %llu",
                          file->path, (unsigned long long)said, (unsigned long long)(said - missing));
}

enum tide_status
tidei_ringfile_check(const struct tidei_ringfile *file)
{
    const struct tidei_ring_header *header = file->header;
    uint64_t published = atomic_load_explicit(&header->published, memory_order_relaxed);
    uint32_t rings = atomic_load_explicit(&header->ring_count, memory_order_relaxed);
    unsigned buffer = TIDEI_PUBLISHED_BUFFER(published);
    enum tide_status status;

    if (TIDEI_PUBLISHED_COUNT(published) > file->buffer_chunks[buffer] * TIDEI_CHUNK_RECORDS)
        return ringcheck_damaged(file, "the half that fills is fuller than it can be");
    if (header->buffers[1 - buffer].count > file->buffer_chunks[1 - buffer] * TIDEI_CHUNK_RECORDS)
        return ringcheck_damaged(file, "the sealed half is fuller than it can be");
    for (unsigned cause = 0; cause < TIDEI_LOST_CAUSES; cause++) {
        const struct tidei_lost *lost = tidei_ring_lost(file->header, cause);

        if (lost->allocs > RINGCHECK_COUNTER_MOST || lost->frees > RINGCHECK_COUNTER_MOST)
            return ringcheck_damaged(file, "its counts of lost events are impossible");
    }
    if (header->failure_bytes >= TIDEI_RING_FAILURE_BYTES)
        return ringcheck_damaged(file, "the reason for its end is impossible");
    status = ringcheck_clock(file);
    if (status == TIDE_OK)
        status = ringcheck_segments(file);
    for (uint32_t i = 0; status == TIDE_OK && i < rings; i++)
        status = ringcheck_ring(file, file->rings[i], TIDEI_PUBLISHED_NUMBER(published));
    return status == TIDE_OK ? ringcheck_on_disk(file) : status;
}

enum tide_status
tidei_ringfile_check_epochs(const struct tidei_ringfile *file, uint64_t epoch, uint64_t records)
{
    uint64_t published = atomic_load_explicit(&file->header->published, memory_order_relaxed);
    const struct tidei_buffer *filling = &file->header->buffers[TIDEI_PUBLISHED_BUFFER(published)];
    const struct tidei_buffer *sealed = &file->header->buffers[1 - TIDEI_PUBLISHED_BUFFER(published)];
    /* A kill during sealing: the other buffer, which is committed, has the next number already, and a count of 0. */
    bool sealing = sealed->epoch == filling->epoch + 1 && sealed->count == 0;

    if (filling->epoch == 0 || filling->epoch > INT64_MAX || (sealed->epoch != filling->epoch - 1 && !sealing))
        return ringcheck_damaged(file, "its halves do not follow each other");
    if (epoch != filling->epoch - 1 && (epoch + 2 != filling->epoch || sealing))
        return tide_error_set(TIDE_EFORMAT, "%s: is of another moment than its trace: that is at %llu, this at %llu",
                              file->path, (unsigned long long)epoch, (unsigned long long)filling->epoch);
    if (epoch == sealed->epoch && records > sealed->count && sealed->count != 0)
        return ringcheck_damaged(file, "the trace has more of the sealed half than there is");
    return TIDE_OK;
}

bool
tidei_ringfile_has_lost(const struct tidei_ringfile *file, enum tidei_lost_cause cause)
{
    const struct tidei_lost *lost = tidei_ring_lost(file->header, cause);

    return atomic_load_explicit(&lost->allocs, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&lost->frees, memory_order_relaxed) != 0;
}

bool
tidei_ringfile_is_spent(const struct tidei_ringfile *file)
{
    const struct tidei_ring_header *header = file->header;
    uint64_t published = atomic_load_explicit(&header->published, memory_order_relaxed);

    if (TIDEI_PUBLISHED_COUNT(published) != 0)
        return false;
    for (unsigned cause = 0; cause < TIDEI_LOST_CAUSES; cause++) {
        if (tidei_ringfile_has_lost(file, cause))
            return false;
    }
    for (size_t i = 0; i < TIDEI_MAX_RINGS && file->rings[i] != NULL; i++) {
        const struct tidei_ring *ring = file->rings[i];

        if (atomic_load_explicit(&ring->head, memory_order_relaxed) !=
                tidei_ring_left_tail(ring, TIDEI_PUBLISHED_NUMBER(published)) ||
            ring->dropped_allocs != 0 || ring->dropped_frees != 0 || ring->dropped_marks != 0)
            return false;
    }
    return true;
}
