/*
 * The file beside a trace that holds what SQLite does not have yet: the rings of the threads and the backlog.
 *
 * It is mapped, so that it outlives the process with all that was written to it. A header page and a directory are
 * followed by segments, in the order in which they were needed: rings (a page of header, then records) and chunks
 * of the backlog (records). Nothing is sparse: each segment's blocks are allocated before it is used, so that a
 * full disk is an error here and no SIGBUS later.
 *
 * The backlog has two halves. Merged records go into one half while the other one is being written to SQLite.
 * `epoch` numbers their fillings; the trace says in meta.epoch which was the last one committed.
 */
#ifndef TIDEI_TRACE_RING_RINGFILE_H
#define TIDEI_TRACE_RING_RINGFILE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "src/trace/ring/clock.h"
#include "src/trace/ring/record.h"

/* The suffix of the ring file beside a trace. */
#define TIDEI_RINGS_SUFFIX "-rings"

#define TIDEI_RING_MAGIC    "TIDERING"
#define TIDEI_RING_FORMAT   1
#define TIDEI_MAX_RINGS     4096
#define TIDEI_MAX_CHUNKS    16384 /* of both halves together: 16 GiB */
#define TIDEI_PAGE          4096
#define TIDEI_CHUNK_BYTES   ((uint64_t)1 << 20)
#define TIDEI_CHUNK_RECORDS (TIDEI_CHUNK_BYTES / sizeof(struct tidei_record))

enum tidei_ring_state {
    TIDEI_RING_FREE = 0,  /* to be had, what is in it or not: set by the thread that ends */
    TIDEI_RING_TAKEN = 1, /* a thread's: set under the session's lock */
};

/* The header of a ring: one page, in three parts that are each written by one side alone. */
struct tidei_ring {
    /* Written by the ring's thread. */
    _Alignas(64) _Atomic uint64_t head; /* records published; released after they are written */
    _Atomic uint64_t open;              /* not 0: a record later than this tick is being written */
    _Atomic uint64_t waits;             /* times the thread found its ring full */
    _Atomic uint64_t longest_wait_ns;
    _Atomic uint64_t dropped_allocs;
    _Atomic uint64_t dropped_frees;
    _Atomic uint64_t dropped_marks;
    _Atomic uint64_t told; /* not 0: once `head` is there, a record tells of what was dropped */

    /* Written by the writer; see merge.c for the order of the three. */
    _Alignas(64) _Atomic uint64_t tail; /* records taken over into the backlog; released after they were read */
    uint64_t next_publish;
    uint64_t next_tail;

    /* Written under the session's lock by the thread that takes the ring. */
    _Alignas(64) _Atomic uint32_t state;
    uint32_t thread_id; /* whose drops are counted here */
};

_Static_assert(sizeof(struct tidei_ring) <= TIDEI_PAGE, "a ring's header is one page");

struct tidei_half {
    uint64_t epoch; /* the number of this filling; 0: never used */
    uint64_t count; /* records, once the other half is the one that fills */
};

/* `published` in one word, so that a kill leaves the old or the new state: number, half, records in it. */
#define TIDEI_PUBLISHED(number, half, count) ((uint64_t)(number) << 29 | (uint64_t)(half) << 28 | (uint64_t)(count))
#define TIDEI_PUBLISHED_NUMBER(word)         ((word) >> 29) /* 35 bits: a year at 1,000 a second */
#define TIDEI_PUBLISHED_HALF(word)           ((unsigned)((word) >> 28 & 1))
#define TIDEI_PUBLISHED_COUNT(word)          ((word)&0xfffffffu)

struct tidei_ring_header {
    char magic[8];
    uint32_t format;
    uint32_t pid;
    uint64_t trace_id;                /* the same as meta.trace_id */
    uint64_t ring_bytes;              /* records of one ring */
    uint64_t start_ns;                /* CLOCK_MONOTONIC at meta.start_unix_ns */
    uint32_t tsc;                     /* 1: ticks are the TSC's; 0: nanoseconds */
    uint32_t ready;                   /* 1 once both files are complete; before, nothing is recorded */
    struct tidei_clock_sample first;  /* at creation */
    struct tidei_clock_line lines[2]; /* `line` says which: from the latest filling's seal on; the rate since `first` */
    struct tidei_half halves[2];
    _Atomic uint64_t published;
    _Atomic uint32_t ring_count;
    _Atomic uint32_t chunk_count; /* chunks alternate as they come: each names its half */
    _Atomic uint64_t lost_allocs; /* events after a failure, and of threads that got no ring */
    _Atomic uint64_t lost_frees;
    _Atomic uint32_t line; /* one word, so that a kill never pairs a tick with another moment's nanosecond */
};

/* Where a segment lies: its offset, a multiple of a page; chunks carry their half in bit 0. */
struct tidei_ring_directory {
    uint64_t rings[TIDEI_MAX_RINGS];
    uint64_t chunks[TIDEI_MAX_CHUNKS];
};

#define TIDEI_RING_PREFIX_BYTES                                                                                        \
    ((TIDEI_PAGE + sizeof(struct tidei_ring_directory) + TIDEI_PAGE - 1) / TIDEI_PAGE * TIDEI_PAGE)

/* The process that holds the lock of a ring file. */
struct tidei_ring_holder {
    uint32_t pid;  /* 0: not known */
    bool recovers; /* it records nothing, it takes over what another has left */
};

struct tidei_ringfile {
    int fd;
    char *path; /* owned */
    uint64_t size;
    pthread_mutex_t lock; /* for the segments; held for a few system calls */
    struct tidei_ring_header *header;
    struct tidei_ring_directory *directory;
    struct tidei_ring *rings[TIDEI_MAX_RINGS];
    struct tidei_record *chunks[2][TIDEI_MAX_CHUNKS]; /* of each half */
    uint32_t half_chunks[2];
    uint32_t half_chunks_max;
};

static inline struct tidei_record *
tidei_ring_records(struct tidei_ring *ring)
{
    return (struct tidei_record *)((char *)ring + TIDEI_PAGE);
}

/*
 * Where a ring whose process is gone is read on: at its tail, or at the next one where the publication that makes that
 * good has happened.
 */
static inline uint64_t
tidei_ring_left_tail(const struct tidei_ring *ring, uint64_t latest_publication)
{
    if (ring->next_publish != 0 && ring->next_publish <= latest_publication)
        return ring->next_tail;
    return atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

/* The line that the latest filling ended with; 0 or 1 in what has been checked. */
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
    /* Pairs with the acquire in tidei_ring_line: the line is there before it is the latest. */
    atomic_store_explicit(&header->line, next, memory_order_release);
}

static inline struct tidei_record *
tidei_half_record(struct tidei_ringfile *file, unsigned half, uint64_t index)
{
    return &file->chunks[half][index / TIDEI_CHUNK_RECORDS][index % TIDEI_CHUNK_RECORDS];
}

/*
 * Create the file (mode 0600, never through a symbolic link) and lock it for this process. What a process that is gone
 * left there is renamed to `aside`, and comes back on failure; where that is NULL it is removed.
 * Errors: TIDE_EBUSY (another process has it), TIDE_EIO, TIDE_ENOMEM.
 */
enum tide_status tidei_ringfile_create(const char *path, const char *replaced, uint64_t ring_bytes,
                                       uint64_t backlog_bytes, struct tidei_ringfile **out);

/*
 * Open what a process left behind and lock it. Not for a file of this process: see ringfile_try_lock.
 * A file that was killed while it was being made has a header that is not ready, or none.
 * Errors: TIDE_EBUSY (another process has it: *holder), TIDE_EFORMAT (no ring file, a newer one, a damaged
 * one), TIDE_EIO, TIDE_ENOMEM.
 */
enum tide_status tidei_ringfile_open(const char *path, struct tidei_ringfile **out, struct tidei_ring_holder *holder);

/* The name still leads to this file: nobody has removed or replaced it. */
bool tidei_ringfile_is_at(const struct tidei_ringfile *file);

/* All that its reader relies on, the records themselves apart. Errors: TIDE_EFORMAT, TIDE_ENOMEM. */
enum tide_status tidei_ringfile_check(const struct tidei_ringfile *file);

/*
 * The trace has all epochs before `epoch`, and `records` of that: does the file go on from there? Errors: TIDE_EFORMAT.
 */
enum tide_status tidei_ringfile_check_epochs(const struct tidei_ringfile *file, uint64_t epoch, uint64_t records);

/* Remove the file's name, if it still leads to this file. */
void tidei_ringfile_unlink(struct tidei_ringfile *file);

/* Unmap and close; `unlink_it` removes the file first. */
void tidei_ringfile_close(struct tidei_ringfile *file, bool unlink_it);

/* Add a ring, not yet taken. Errors: TIDE_EIO (disk full), TIDE_ENOMEM (too many). */
enum tide_status tidei_ringfile_add_ring(struct tidei_ringfile *file, struct tidei_ring **out);

/* Add a chunk to a half. Errors: TIDE_EIO (disk full), TIDE_ENOMEM (the half is as large as it may be). */
enum tide_status tidei_ringfile_add_chunk(struct tidei_ringfile *file, unsigned half);

#endif
