/*
 * The pace of a replay: each event waits until its recorded time, scaled, so that what depends on time, as the decay of
 * a pool does, acts as it would.
 */
#ifndef VIEWER_REPLAY_PACE_H
#define VIEWER_REPLAY_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most that a second of the recording may take, in seconds. */
#define REPLAY_PACE_MOST 1000

struct replay_pace {
    double scale;      /* seconds for each recorded second; 0: nobody waits */
    int64_t begin_ns;  /* of the first event */
    int64_t first_ns;  /* its recorded time */
    int64_t latest_ns; /* the latest recorded time so far: that of an event after it counts as no earlier */
    int64_t waited_ns; /* in all */
    int64_t *late;     /* owns; by event that has begun: by how much after it was due, in ns */
    size_t count;
};

/* How late the events of a replay began, in ns. */
struct replay_lateness {
    int64_t median_ns;
    int64_t p99_ns; /* 99 of 100 began no later */
    int64_t most_ns;
};

/* Begin a replay of so many events, none of which has begun; `scale` is above 0. False: no memory. */
bool replay_pace_begin(struct replay_pace *pace, double scale, size_t event_count);

/*
 * Wait for the next event, which was recorded at `recorded_ns`, for a fifth of a second at most. False: it is not due
 * yet, and the caller calls again. *passed_ns is the recorded time that has passed.
 */
bool replay_pace_await(struct replay_pace *pace, int64_t recorded_ns, double *passed_ns);

/* The lateness of all events so far, which are sorted by it. */
void replay_pace_lateness(struct replay_pace *pace, struct replay_lateness *out);

void replay_pace_end(struct replay_pace *pace);

#endif
