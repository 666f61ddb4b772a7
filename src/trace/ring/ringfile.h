/*
 * The ring file beside a trace. It holds the records that are not yet in SQLite: the rings of the threads, and the
 * backlog.
 *
 * The file is memory-mapped, so that all records written survive the process. It begins with a header page and a
 * directory; segments follow in the order in which they were needed. A segment is a ring (a header page, then records)
 * or a chunk of the backlog (records). The file is not sparse: the blocks of a segment are allocated before its use, so
 * that a full disk is an error at that point and not a SIGBUS later. A file system that copies on write may need
 * a block for a page that was there, and another process may cut the file off: then the memory goes on without
 * the file (src/sync/fault.h), which loses its name, and the recording ends.
 *
 * The backlog is a double buffer. Merged records go into one buffer while the other is being written to SQLite. Each
 * filling of a buffer has a number, its epoch; meta.epoch in the trace names the last one committed.
 */
#ifndef TIDEI_TRACE_RING_RINGFILE_H
#define TIDEI_TRACE_RING_RINGFILE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "src/sync/fault.h"
#include "src/sync/testpoint.h"
#include "src/trace/ring/claim.h"
#include "src/trace/ring/clock.h"
#include "src/trace/ring/gauge.h"
#include "src/trace/ring/owner.h"
#include "src/trace/ring/record.h"

/* The suffix of the ring file beside a trace. */
#define TIDEI_RINGS_SUFFIX "-rings"

#define TIDEI_RING_MAGIC "TIDERING"
/*
 * 4 had no gauge page, 3 no records of the kind 18, 2 no correction of the clock and no checks, 1 no records of the
 * kinds 16 and 17: all are read.
 */
#define TIDEI_RING_FORMAT   5
#define TIDEI_RING_CHECKED  3 /* the first format in which records have checks */
#define TIDEI_MAX_RINGS     4096
#define TIDEI_MAX_CHUNKS    16384 /* of both buffers together: 16 GiB */
#define TIDEI_PAGE          4096
#define TIDEI_CHUNK_BYTES   ((uint64_t)1 << 20)
#define TIDEI_CHUNK_RECORDS (TIDEI_CHUNK_BYTES / sizeof(struct tidei_record))

enum tidei_ring_state {
    TIDEI_RING_FREE = 0,  /* without an owner, though it may hold records: set by a thread that ends */
    TIDEI_RING_TAKEN = 1, /* owned by a thread: set under the session's lock */
};

/* The header of a ring: one page, in three parts with one writer each. */
struct tidei_ring {
    /* Written by the ring's thread. */
    _Alignas(64) _Atomic uint64_t head; /* records published; released after they are written */
    _Atomic uint64_t open;              /* not 0: a record later than this tick is being written */
    _Atomic uint64_t waits;             /* times the thread found its ring full */
    _Atomic uint64_t longest_wait_ns;
    _Atomic uint64_t dropped_allocs;
    _Atomic uint64_t dropped_frees;
    _Atomic uint64_t dropped_marks;
    _Atomic uint64_t told; /* not 0: once `head` reaches it, a LOSS record has the dropped_ counts */

    /* Written by the writer; see merge.c for the order of the three. */
    _Alignas(64) _Atomic uint64_t tail; /* records moved to the backlog; released after they were read */
    uint64_t next_publish;
    uint64_t next_tail;

    /* Written under the session's lock by the thread that takes the ring. */
    _Alignas(64) _Atomic uint32_t state;
    uint32_t thread_id; /* whose drops this ring counts */
};

_Static_assert(sizeof(struct tidei_ring) <= TIDEI_PAGE, "a ring's header is one page");

struct tidei_buffer {
    uint64_t epoch; /* number of this filling; 0: never used */
    uint64_t count; /* records; set when the other buffer begins to fill */
};

/* `published`: publication number, filling buffer, records in it. In one word, so that a kill leaves no mixed state. */
#define TIDEI_PUBLISHED(number, buffer, count) ((uint64_t)(number) << 29 | (uint64_t)(buffer) << 28 | (uint64_t)(count))
#define TIDEI_PUBLISHED_NUMBER(word)           ((word) >> 29) /* 35 bits: a year at 1,000 a second */
#define TIDEI_PUBLISHED_BUFFER(word)           ((unsigned)((word) >> 28 & 1))
#define TIDEI_PUBLISHED_COUNT(word)            ((word)&0xfffffffu)

/* Why events were lost that found no ring, or no room in one. */
enum tidei_lost_cause {
    TIDEI_LOST_ENDED = 0,   /* the recording had ended, or the process exited */
    TIDEI_LOST_NO_RING = 1, /* their threads got no ring */
    TIDEI_LOST_STALLED = 2, /* the writer made no room in their ring for a minute */
    TIDEI_LOST_PASSED = 3,  /* under `tidemark run`: no stack could be made for them */
    TIDEI_LOST_CAUSES = 4,
};

struct tidei_lost {
    _Atomic uint64_t allocs;
    _Atomic uint64_t frees;
};

#define TIDEI_RING_FAILURE_BYTES 256

struct tidei_ring_header {
    char magic[8];
    uint32_t format;
    uint32_t pid;
    uint64_t trace_id;               /* the same as meta.trace_id */
    uint64_t ring_bytes;             /* records of one ring */
    uint64_t start_ns;               /* CLOCK_MONOTONIC at meta.start_unix_ns */
    uint32_t tsc;                    /* 1: ticks are the TSC's; 0: nanoseconds */
    uint32_t ready;                  /* 1 once both files are complete; before, nothing is recorded */
    struct tidei_clock_sample first; /* at creation */
    struct tidei_clock_line
        lines[2]; /* `line` is the index: valid since the latest seal; slope measured since `first` */
    struct tidei_buffer buffers[2];
    _Atomic uint64_t published;
    _Atomic uint32_t ring_count;
    _Atomic uint32_t chunk_count; /* of both buffers; the directory says which buffer has a chunk */
    struct tidei_lost lost;       /* TIDEI_LOST_ENDED; see tidei_ring_lost */
    _Atomic uint32_t line;        /* index into `lines`; one word, so that a kill never leaves a torn line */
    uint32_t exited;              /* 1: the process has ended the trace at exit(), and threads recorded on, or could */
    /* Since format 3, written by the writer alone: see steady.h. */
    uint64_t shift;           /* the backlog's ticks less those of the counter */
    uint64_t shift_before;    /* the same before the counter was last set */
    uint64_t apart_ticks;     /* what counters of two processors were seen to differ by; 0: nothing */
    struct tidei_owner owner; /* the process that records */
    /* Zeros in a file of an earlier version, which counted all in `lost`. */
    struct tidei_lost lost_more[2];         /* TIDEI_LOST_NO_RING, TIDEI_LOST_STALLED */
    _Atomic uint32_t failure_bytes;         /* set after the text */
    char failure[TIDEI_RING_FAILURE_BYTES]; /* why the recording has ended early: the trace may not have it */
    uint32_t gauge_bytes;                   /* of the gauge page, behind the directory; 0: there is none */
    struct tidei_lost lost_passed;          /* TIDEI_LOST_PASSED */
};

/* The offset of each segment, a multiple of the page size; bit 0 of a chunk's offset is its buffer. */
struct tidei_ring_directory {
    uint64_t rings[TIDEI_MAX_RINGS];
    uint64_t chunks[TIDEI_MAX_CHUNKS];
};

_Static_assert(sizeof(struct tidei_ring_header) <= TIDEI_PAGE, "the header of the file is one page");

#define TIDEI_RING_PREFIX_BYTES                                                                                        \
    ((TIDEI_PAGE + sizeof(struct tidei_ring_directory) + TIDEI_PAGE - 1) / TIDEI_PAGE * TIDEI_PAGE)

/* Where the segments of a file begin. */
static inline uint64_t
tidei_ring_segments(const struct tidei_ring_header *header)
{
    return TIDEI_RING_PREFIX_BYTES + header->gauge_bytes;
}

/* The process that has locked a ring file. */
struct tidei_ring_holder {
    uint32_t pid;  /* 0: not known */
    bool recovers; /* it does not record, but recovers another process's records */
};

/*
 * After a segment found no space, one of that size or larger is asked for again only so much later. An attempt on a
 * full disk takes microseconds, up to 130 measured, and a thread without a ring would make one at each event.
 */
#define TIDEI_RING_AGAIN_NS 100000000u

struct tidei_ringfile {
    int fd;
    struct tidei_file_id id;        /* which file that is */
    struct tidei_claim claim;       /* its lock */
    bool posix;                     /* the lock is a POSIX lock */
    bool records;                   /* this process records into it */
    char *path;                     /* owned */
    struct tidei_fault_owner fault; /* of all segments */
    bool left;                      /* of a dead process; else this process has created it */
    uint64_t ring_bytes;            /* the header's */
    uint64_t trace_id;              /* the header's, set with the writer; 0 before */
    uint64_t size;
    pthread_mutex_t lock; /* guards adding segments; held for a few system calls */
    uint64_t refused_ns;  /* when there was no space for a segment; 0: never. Guarded by the lock, as the next two */
    uint64_t refused_bytes;
    int refused_error;
    struct tidei_ring_header *header;
    struct tidei_ring_directory *directory;
    struct tidei_gauge_pages *gauge; /* NULL: none, or not mapped, since another process has written it */
    struct tidei_ring *rings[TIDEI_MAX_RINGS];
    struct tidei_record *chunks[2][TIDEI_MAX_CHUNKS]; /* of each buffer */
    uint32_t buffer_chunks[2];
    uint32_t buffer_chunks_max;
};

static inline struct tidei_record *
tidei_ring_records(struct tidei_ring *ring)
{
    return (struct tidei_record *)((char *)ring + TIDEI_PAGE);
}

/* Where to resume reading a dead process's ring: at next_tail if its publication happened, else at the tail. */
static inline uint64_t
tidei_ring_left_tail(const struct tidei_ring *ring, uint64_t latest_publication)
{
    if (ring->next_publish != 0 && ring->next_publish <= latest_publication)
        return ring->next_tail;
    return atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

static inline struct tidei_lost *
tidei_ring_lost(struct tidei_ring_header *header, enum tidei_lost_cause cause)
{
    if (cause == TIDEI_LOST_PASSED)
        return &header->lost_passed;
    return cause == TIDEI_LOST_ENDED ? &header->lost : &header->lost_more[cause - 1];
}

/* The clock line in force since the latest seal. The mask keeps the index valid in a damaged file. */
static inline const struct tidei_clock_line *
tidei_ring_line(const struct tidei_ring_header *header)
{
    return &header->lines[atomic_load_explicit(&header->line, memory_order_acquire) & 1];
}

static inline void
tidei_ring_set_line(struct tidei_ring_header *header, struct tidei_clock_line line)
{
    uint32_t next = 1 - (atomic_load_explicit(&header->line, memory_order_relaxed) & 1);

    header->lines[next] = line;
    /* Pairs with the acquire in tidei_ring_line: the line is written before its index. */
    atomic_store_explicit(&header->line, next, memory_order_release);
}

static inline struct tidei_record *
tidei_buffer_record(struct tidei_ringfile *file, unsigned buffer, uint64_t index)
{
    return &file->chunks[buffer][index / TIDEI_CHUNK_RECORDS][index % TIDEI_CHUNK_RECORDS];
}

/*
 * Create the file (with `mode`, never through a symbolic link) and lock it for this process. A dead process's ring file
 * at `path` is renamed to `replaced`, and comes back on failure; if `replaced` is NULL, it is removed.
 * Errors: TIDE_EBUSY (another process has it), TIDE_EIO, TIDE_ENOMEM.
 */
enum tide_status tidei_ringfile_create(const char *path, const char *replaced, mode_t mode, uint64_t ring_bytes,
                                       uint64_t backlog_bytes, struct tidei_ringfile **out);

/*
 * Open and lock the ring file of a dead process. Never for a file that this process has open: where its lock is a POSIX
 * lock, closing the file would end it. A caller that might do so calls tidei_session_owns first.
 * If that process was killed while it created the file, the header is missing or not ready.
 * Errors: TIDE_EBUSY (another process has it: *holder), TIDE_EFORMAT (no ring file, a newer one, a damaged
 * one), TIDE_EIO, TIDE_ENOMEM.
 */
enum tide_status tidei_ringfile_open(const char *path, struct tidei_ringfile **out, struct tidei_ring_holder *holder);

/*
 * Keep the ring file of a dead process from being recovered or removed until *out is closed. It is opened, but not
 * mapped. On a read-only medium it is not locked: nobody can change it there. Not for a file that this process has
 * open, as above. *out is NULL where there is no ring file.
 * Errors: TIDE_EBUSY (another process has it: *holder), TIDE_EIO, TIDE_ENOMEM.
 */
enum tide_status tidei_ringfile_hold(const char *path, struct tidei_ringfile **out, struct tidei_ring_holder *holder);

/*
 * Whether the memory is still what has been recorded. Where the file was cut off, or a page of one that was left behind
 * has found no room, it is not: nothing is to be taken from it any more. With `exactly`, it also is the file's still;
 * if not, a kill from now on loses what is not in the trace. Any thread. Errors: TIDE_EIO.
 */
enum tide_status tidei_ringfile_check_sound(struct tidei_ringfile *file, bool exactly);

/* Whether a page of the file is copied when it is written again; and have a new, empty file written in place there. */
bool tidei_ringfile_copies_on_write(const char *path);
void tidei_ringfile_write_in_place(int fd);

/* Whether the path still names this file: nobody has removed or replaced it. */
bool tidei_ringfile_is_at(const struct tidei_ringfile *file);

/* Whether no thread has recorded anything into the file: its process was killed as soon as it had made the files. */
bool tidei_ringfile_is_blank(const struct tidei_ringfile *file);

/* Note why the recording has ended early, before events are counted as lost for it. Once. */
void tidei_ringfile_note_failure(struct tidei_ringfile *file, const char *why);

/* Whether events were lost by that cause. */
bool tidei_ringfile_has_lost(const struct tidei_ringfile *file, enum tidei_lost_cause cause);

/* Whether nothing has been recorded or lost since the last transaction of the process, which had written all. */
bool tidei_ringfile_is_spent(const struct tidei_ringfile *file);

/* Check everything that a reader of the file relies on, except the records. Errors: TIDE_EFORMAT, TIDE_ENOMEM. */
enum tide_status tidei_ringfile_check(const struct tidei_ringfile *file);

/* What the checked file holds: the records of a half of the backlog, and those in all rings. */
uint64_t tidei_ringfile_count(const struct tidei_ringfile *file, unsigned buffer);
uint64_t tidei_ringfile_left(const struct tidei_ringfile *file);

/*
 * Allocate what a recovery writes of the checked file: a copy of a ring file may have holes, and a store into one is a
 * signal where the disk is full. Errors: TIDE_EIO (disk full).
 */
enum tide_status tidei_ringfile_make_room(const struct tidei_ringfile *file);

/*
 * Check that the file continues a trace that has all epochs before `epoch`, and the first `records` records of `epoch`.
 * Errors: TIDE_EFORMAT.
 */
enum tide_status tidei_ringfile_check_epochs(const struct tidei_ringfile *file, uint64_t epoch, uint64_t records);

/* Remove the file's name, if it still names this file. */
void tidei_ringfile_unlink(struct tidei_ringfile *file);

/* Unmap and close; `unlink_it` removes the file first. */
void tidei_ringfile_close(struct tidei_ringfile *file, bool unlink_it);

/* How many rings a file has at most. */
static inline uint32_t
tidei_ringfile_rings_most(void)
{
    return (uint32_t)TIDEI_TEST_LIMIT(rings, TIDEI_MAX_RINGS);
}

/* Add a ring, not yet taken. Errors: TIDE_EIO (disk full), TIDE_ENOMEM (too many). */
enum tide_status tidei_ringfile_add_ring(struct tidei_ringfile *file, struct tidei_ring **out);

/* Add a chunk to a buffer. Errors: TIDE_EIO (disk full), TIDE_ENOMEM (the buffer has its largest size). */
enum tide_status tidei_ringfile_add_chunk(struct tidei_ringfile *file, unsigned buffer);

#endif
