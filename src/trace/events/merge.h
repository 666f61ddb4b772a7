/* Moves records from the rings into the filling buffer of the backlog, in the order of their times. */
#ifndef TIDEI_TRACE_EVENTS_MERGE_H
#define TIDEI_TRACE_EVENTS_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "src/trace/ring/ringfile.h"

/* A ring with records to merge. */
struct tidei_merge_cursor {
    uint64_t ticks; /* of the record at `position` */
    uint64_t position;
    uint64_t head;
    struct tidei_ring *ring;
};

/* How long an open record may hold up all others: a debugger may have stopped its thread. */
#define TIDEI_MERGE_PATIENCE_NS 100000000u

struct tidei_merge {
    struct tidei_ringfile *file;
    bool tsc;
    bool membarrier;      /* producers have no fence: the writer runs a barrier in all threads */
    bool barrier_refused; /* the kernel has begun to refuse it (sandbox): a pause replaces it */
    bool post_mortem;     /* the recording process is gone: nothing writes to the rings */
    unsigned buffer;      /* the filling buffer */
    uint64_t count;       /* records in it */
    uint64_t number;      /* of the latest publication */
    bool full;            /* the buffer has no room for the records in the rings */
    uint64_t last_ticks;
    uint64_t watermark; /* of the latest drain: all records before it are in the backlog, unless `full` */
    uint64_t late;      /* records that arrived after a record with a later time was merged */
    struct tidei_merge_cursor cursors[TIDEI_MAX_RINGS];
    uint64_t open_seen[TIDEI_MAX_RINGS];
    uint64_t open_since_ns[TIDEI_MAX_RINGS];
};

/* NULL without host memory. */
struct tidei_merge *tidei_merge_new(struct tidei_ringfile *file, bool tsc);
void tidei_merge_free(struct tidei_merge *merge);

/* Resume where the process was killed. The ring file has been checked. */
void tidei_merge_resume(struct tidei_merge *merge);

/* Move all records that can be moved; returns how many. Does not block, and a kill at any time loses no record. */
uint64_t tidei_merge_drain(struct tidei_merge *merge);

/*
 * Seal the filling buffer, and begin to fill the other one, whose records must be committed. Returns the epoch of the
 * sealed buffer.
 */
uint64_t tidei_merge_seal(struct tidei_merge *merge);

#endif
