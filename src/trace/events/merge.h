/* Takes records from the rings, in the order of their times, into the filling half of the backlog. */
#ifndef TIDEI_TRACE_EVENTS_MERGE_H
#define TIDEI_TRACE_EVENTS_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "src/trace/ring/ringfile.h"

/* One ring that has records to be merged. */
struct tidei_merge_cursor {
    uint64_t ticks; /* of the record at `position` */
    uint64_t position;
    uint64_t head;
    struct tidei_ring *ring;
};

/* How long a record that was begun may hold up all others: its thread may be stopped by a debugger. */
#define TIDEI_MERGE_PATIENCE_NS 100000000u

struct tidei_merge {
    struct tidei_ringfile *file;
    bool tsc;
    bool membarrier;      /* threads have no fence of their own: the writer runs a barrier in them */
    bool barrier_refused; /* since some moment, by a sandbox: a pause takes its place */
    bool post_mortem;     /* the rings' process is gone: nothing is being written any more */
    unsigned half;        /* the one that fills */
    uint64_t count;       /* records in it */
    uint64_t number;      /* of the latest publication */
    bool full;            /* the half has no room for what the rings hold */
    uint64_t last_ticks;
    uint64_t watermark; /* of the latest drain: everything before it is in the backlog, unless `full` */
    uint64_t late;      /* records that came after others of a later time */
    struct tidei_merge_cursor cursors[TIDEI_MAX_RINGS];
    uint64_t open_seen[TIDEI_MAX_RINGS];
    uint64_t open_since_ns[TIDEI_MAX_RINGS];
};

/* NULL where host memory is short. */
struct tidei_merge *tidei_merge_new(struct tidei_ringfile *file, bool tsc);
void tidei_merge_free(struct tidei_merge *merge);

/* Go on where the process of a ring file that has been checked was killed. */
void tidei_merge_take_up(struct tidei_merge *merge);

/* Move what can be moved; returns the number of records. Nothing waits, and a kill at any moment loses nothing. */
uint64_t tidei_merge_drain(struct tidei_merge *merge);

/*
 * End the filling of this half and begin that of the other one, whose records are committed by now. Returns the
 * epoch of the half that is full.
 */
uint64_t tidei_merge_seal(struct tidei_merge *merge);

#endif
