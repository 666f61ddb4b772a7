/*
 * Pairs the records of a buffer of the backlog, which are in the order of time, into one row for each allocation. It
 * numbers the allocations, and finds for each free the allocation that it ends, in this buffer or an earlier one.
 */
#ifndef TIDEI_TRACE_EVENTS_PAIR_H
#define TIDEI_TRACE_EVENTS_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/tables/lives.h"
#include "src/trace/events/early.h"
#include "src/trace/events/timeline.h"
#include "src/trace/ring/ringfile.h"

#define TIDEI_NO_FREE UINT32_MAX

/* Set in the index of a free's record: it is not in the buffer, but an early one, whose number this is. */
#define TIDEI_FREE_EARLY 0x80000000u

/* A new row: the indices of its two records in the buffer. */
struct tidei_row {
    uint32_t alloc;
    uint32_t free; /* TIDEI_NO_FREE while it lives, and for a failed allocation */
    uint32_t next; /* 1 + the row of this slice that got the address next: its life ends there at the latest; 0: none */
    uint32_t early; /* 1 + the number of the early free that is assumed to end it, or a doubtful one; 0: none */
};

/* A live allocation of an earlier buffer, with the values of its row. */
struct tidei_live {
    uint64_t id;
    uint64_t ticks; /* in a recovery: converted back from alloc_ns */
    uint64_t alloc_ns;
    uint64_t alloc_duration_ns;
    uint64_t address;
    uint64_t size;
    uint32_t alloc_stream_id;
    uint32_t alloc_thread_id;
    uint32_t tag;
    uint32_t callstack;
    uint16_t layer;
    uint8_t alignment_log2;
    bool closed;        /* in this slice */
    uint32_t next_free; /* the next slot that is not in use */
    uint32_t next_row;  /* as in a row, of this slice */
    uint32_t early;     /* as in a row */
    uint64_t until_ns;  /* the alloc_ns of the allocation that got the address next, in an earlier slice; 0: none */
};

/*
 * A free in this buffer that ends an allocation of an earlier buffer. TIDEI_NO_FREE: its address was allocated again,
 * and the record of its free has not come yet; if the process is killed now, it never will.
 */
struct tidei_closing {
    uint64_t id;
    uint32_t live;
    uint32_t free;
};

/* An event whose driver calls did not fit behind it. Until the last has come, the event is known by its thread. */
struct tidei_unfinished {
    uint64_t id;    /* of its allocation; 0: none, a free of no known allocation */
    uint32_t index; /* of its record, UINT32_MAX if that is in an earlier slice */
    uint32_t thread;
    bool is_free;
};

/* Driver calls of an event in a record of their own, and the allocation that they were for. */
struct tidei_more_calls {
    uint64_t id;
    uint32_t index; /* of the CALLS record */
    bool is_free;
};

/* A growing list of record indices. */
struct tidei_index_list {
    uint32_t *items;
    size_t count;
    size_t capacity;
};

struct tidei_pair {
    struct tidei_ringfile *file;
    struct tidei_lives lives; /* numbers are row + 1, or PAIR_LIVE | index into `live` */
    struct tidei_live *live;
    size_t live_capacity;
    uint32_t live_free; /* first slot not in use; UINT32_MAX: none */
    uint64_t live_count;

    struct tidei_earlies early;
    uint64_t window_ticks; /* for so long an early free waits */
    uint64_t apart_ticks;  /* what counters of two processors were seen to differ by */

    uint64_t next_id;
    uint64_t begun_id; /* the first allocation of the trace that has a time of its own; UINT64_MAX: none has come */
    bool no_memory;
    struct tidei_unfinished *unfinished;
    size_t unfinished_count;
    size_t unfinished_capacity;
    /* Finds the allocation of a CALLS record whose event a recovery has not seen: see load.c. */
    uint64_t (*find_event)(void *context, const struct tidei_record *calls);
    void *find_context;
    uint32_t found; /* how often it was asked: at most once for each ring of a good file */

    /* The result of the latest tidei_pair_run. */
    unsigned buffer;
    uint64_t end; /* of the records that were paired */
    uint64_t first_id;
    struct tidei_row *rows;
    size_t row_count;
    size_t row_capacity;
    struct tidei_closing *closings; /* sorted by id */
    size_t closing_count;
    size_t closing_capacity;
    struct tidei_index_list unmatched; /* frees of no known allocation; TIDEI_NO_FREE: no longer */
    struct tidei_index_list revoked;   /* numbers of early frees whose rows in unmatched_free go */
    struct tidei_index_list succeeded; /* slots of live allocations whose address was allocated again */
    struct tidei_index_list odd;       /* frees that were refused, or gave another size */
    struct tidei_index_list other;     /* records that are neither allocations nor frees */
    struct tidei_index_list failed;    /* rows of failed allocations */
    struct tidei_more_calls *more_calls;
    size_t more_count;
    size_t more_capacity;
    uint32_t latest;    /* the event that was paired last */
    uint64_t latest_id; /* of its allocation; 0: none */
};

struct tidei_pair *tidei_pair_new(struct tidei_ringfile *file);
void tidei_pair_free(struct tidei_pair *pair);

/* Pair the records [from, end) of a buffer. False without host memory. */
bool tidei_pair_run(struct tidei_pair *pair, unsigned buffer, uint64_t from, uint64_t end);

/* The record of an event, by its index: that of a free may be early. */
static inline struct tidei_record *
tidei_pair_event_record(const struct tidei_pair *pair, uint32_t index)
{
    if (index & TIDEI_FREE_EARLY)
        return &pair->early.items[index & ~TIDEI_FREE_EARLY].record;
    return tidei_buffer_record(pair->file, pair->buffer, index);
}

/*
 * The tick of a row's allocation. Memory that was held before its layer was recorded (TIDEI_RECORD_HELD) belongs to the
 * trace's beginning where it comes before all events of the trace. Later ids would not be in the order of time, and it
 * belongs to the moment of the record. The record itself stays as it is, as after a kill it is looked at again.
 */
static inline uint64_t
tidei_pair_row_ticks(const struct tidei_pair *pair, size_t row)
{
    return pair->first_id + row < pair->begun_id
               ? TIDEI_TICKS_BEFORE
               : tidei_buffer_record(pair->file, pair->buffer, pair->rows[row].alloc)->ticks;
}

/*
 * The allocations that may be freed or not, though the clocks were not seen to differ by so much: the rows show some as
 * freed by early frees, and some as live whose frees may have been given to lives before. Those that a killed process
 * had, too.
 */
uint64_t tidei_pair_assumed(const struct tidei_pair *pair);

/* The doubtful frees that wait. After a kill nobody knows them: allocations that they may have ended could come. */
uint64_t tidei_pair_doubtful(const struct tidei_pair *pair);

/*
 * Keep a live allocation beyond its buffer. The caller sets all fields of `live` but next_free. `row` is the index of
 * its row, or SIZE_MAX if it was loaded from the trace. False without host memory.
 */
bool tidei_pair_keep(struct tidei_pair *pair, const struct tidei_live *live, size_t row);

/* After the commit: forget the earlier allocations that the frees have ended. */
void tidei_pair_forget_closed(struct tidei_pair *pair);

#endif
