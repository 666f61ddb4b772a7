/*
 * Callers that read a trace in the middle of what they do, and share its readings.
 *
 * A command asks for a reading (scan_run_parts) where it needs one, and goes on behind it. Several of them run here as
 * threads that take turns: one at a time, each up to its next reading. When all wait for one, or have ended, the rows
 * are read once for all. So there are as many readings as the caller with the most of them needs. The units of callers
 * of different lanes run in parallel then.
 */
#ifndef VIEWER_READ_JOINT_H
#define VIEWER_READ_JOINT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "viewer/read/scan.h"
#include "viewer/read/trace.h"

enum joint_state {
    JOINT_RUNS,  /* it has the turn, or gets it next */
    JOINT_WAITS, /* for a reading */
    JOINT_ENDED,
};

/* One caller. `run`, `context` (borrowed) and `lane` are set before joint_run, the rest is joint_run's. */
struct joint_caller {
    int (*run)(void *context);
    void *context;
    unsigned lane; /* of its units (scan_run_lanes), unless one of those `asks`; 0: none */
    int status;    /* what `run` returned */
    struct joint *joint;
    pthread_t thread;
    enum joint_state state;
    bool has_thread;
    const struct scan_part *parts; /* borrows; of the reading that it waits for */
    size_t part_count;
    int answer; /* of that reading */
};

struct joint {
    struct scan_share share; /* first: the function that traces call instead of a reading */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct joint_caller *turn; /* NULL: joint_run has the turn */
    bool alone;                /* a reading was not possible in lanes: nor are others */
};

/* Prepare `joint`. Set `share` of the traces (struct trace) that callers use to &joint->share. */
void joint_begin(struct joint *joint);

/*
 * Run all callers to their ends. `trace` is read; its own `share` is ignored. COMMAND_FINE, or another status after a
 * message: there are no threads. What became of each caller is in its `status`.
 */
int joint_run(struct joint *joint, const struct trace *trace, struct joint_caller *callers, size_t count);

void joint_end(struct joint *joint);

#endif
