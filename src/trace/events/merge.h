/* Moves records from the rings into the filling buffer of the backlog, in the order of their times. */
#ifndef TIDEI_TRACE_EVENTS_MERGE_H
#define TIDEI_TRACE_EVENTS_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "src/trace/events/gauges.h"
#include "src/trace/events/steady.h"
#include "src/trace/ring/ringfile.h"

/* A ring with records to merge. */
struct tidei_merge_cursor {
    uint64_t ticks; /* of the record at `position` */
    uint64_t position;
    uint64_t head;
    uint64_t most; /* a later tick counts as this one: the ring is not waited for any more */
    struct tidei_ring *ring;
};

/*
 * How long an open record may hold up all others: a debugger may have stopped its thread. And how long a record waits
 * whose time is yet to come, as another processor's counter may say.
 */
#define TIDEI_MERGE_PATIENCE_NS 100000000u
uint64_t tidei_merge_patience_ns(void); /* a test may have set another */

/* What the merge remembers of a ring from one look to the next. */
struct tidei_merge_seen {
    uint64_t open;           /* the record that is being written */
    uint64_t open_since_ns;  /* since when it has been seen */
    uint64_t ahead_since_ns; /* since when the ring's first record has been later than now; 0: it is not */
    uint64_t head;           /* of the latest look that found no open record */
    uint64_t now;            /* when that was: later records have later times */
    uint64_t wanted;         /* a head, see tidei_merge_mark */
};

struct tidei_merge {
    struct tidei_ringfile *file;
    struct tidei_steady clock;
    bool membarrier;      /* producers have no fence: the writer runs a barrier in all threads */
    bool barrier_refused; /* the kernel has begun to refuse it (sandbox): a pause replaces it */
    bool post_mortem;     /* the recording process is gone: nothing writes to the rings */
    unsigned buffer;      /* the filling buffer */
    uint64_t count;       /* records in it */
    uint64_t number;      /* of the latest publication */
    bool full;            /* the buffer has no room for the records in the rings */
    bool hurry;           /* wait for no record any more */
    uint64_t last_ticks;
    uint64_t watermark;          /* of the latest drain: all records before it are in the backlog, unless `full` */
    struct tidei_gauges *gauges; /* borrowed; told of each drain. NULL: none */
    uint64_t late; /* records that got another time: a later one was merged, or theirs was too far ahead */
    struct tidei_merge_cursor cursors[TIDEI_MAX_RINGS];
    struct tidei_merge_seen seen[TIDEI_MAX_RINGS];
};

/* NULL without host memory. */
struct tidei_merge *tidei_merge_new(struct tidei_ringfile *file, bool tsc);
void tidei_merge_free(struct tidei_merge *merge);

/* Resume where the process was killed. The ring file has been checked. */
void tidei_merge_resume(struct tidei_merge *merge);

/* Check the records [from, count) of a buffer that was left behind; those that were damaged are of kind BAD then. */
void tidei_merge_check(struct tidei_merge *merge, unsigned buffer, uint64_t from, uint64_t count);

/* Move all records that can be moved; returns how many. Does not block, and a kill at any time loses no record. */
uint64_t tidei_merge_drain(struct tidei_merge *merge);

/*
 * Mark what the rings hold now; and whether all of that has been moved. Whatever the clock does, it is after a while:
 * a drain moves it once it has held up others for as long as it may.
 */
void tidei_merge_mark(struct tidei_merge *merge);
bool tidei_merge_reached(const struct tidei_merge *merge);

/*
 * Seal the filling buffer, and begin to fill the other one, whose records must be committed. Returns the epoch of the
 * sealed buffer.
 */
uint64_t tidei_merge_seal(struct tidei_merge *merge);

#endif
