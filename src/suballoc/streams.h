/*
 * The streams on which the free memory of a heap was freed, and which of them has waited for which.
 *
 * Time is counted in epochs. An epoch ends just before one stream is made to wait for another: all memory that was
 * freed in that epoch or before was submitted before that wait. A stream has a number while free memory that was freed
 * on it exists. No locks: the caller holds one.
 */
#ifndef TIDEI_SUBALLOC_STREAMS_H
#define TIDEI_SUBALLOC_STREAMS_H

#include "src/suballoc/fit.h"
#include "src/tables/map.h"

/* Waits are remembered between this many streams. Others wait once for each block that they take over. */
#define TIDEI_STREAMS_KNOWN 64

#define TIDEI_STREAM_NONE UINT32_MAX

/* Upper bound of streams at a time: a piece has 16 bits for the number. */
#define TIDEI_STREAMS_MOST UINT16_MAX

struct tidei_stream {
    tide_stream handle;
    uint64_t freed_runs;             /* of this stream, and pieces that are being freed on it */
    uint64_t blank;                  /* last epoch without freed runs: the handle may be another stream's since */
    struct tidei_classes classes[2]; /* free pieces that begin with its memory: small ones, and large ones */
};

struct tidei_streams {
    struct tidei_stream **streams; /* owns; index: the stream's number */
    uint32_t count;
    size_t capacity;
    struct tidei_map numbers; /* by handle */
    uint64_t epoch;
    uint64_t waited_all;                                       /* the epoch of the last wait for all streams */
    uint64_t waited[TIDEI_STREAMS_KNOWN][TIDEI_STREAMS_KNOWN]; /* [later][earlier]: the epoch of the last wait */
};

void tidei_streams_init(struct tidei_streams *streams);
void tidei_streams_fini(struct tidei_streams *streams);

/* The number of a stream; TIDEI_STREAM_NONE where the host has no memory for a new one, or there are too many. */
uint32_t tidei_streams_number(struct tidei_streams *streams, tide_stream handle);

/* Whether `later` has to wait before it takes memory that was freed on `earlier` in `epoch`. */
static inline bool
tidei_streams_wait(const struct tidei_streams *streams, uint32_t earlier, uint64_t epoch, uint32_t later)
{
    if (earlier == later)
        return false;
    if (earlier >= TIDEI_STREAMS_KNOWN || later >= TIDEI_STREAMS_KNOWN)
        return true;
    return streams->waited[later][earlier] < epoch || streams->waited[later][earlier] <= streams->streams[later]->blank;
}

static inline void
tidei_streams_hold(struct tidei_streams *streams, uint32_t number)
{
    streams->streams[number]->freed_runs++;
}

/* A stream without free memory may be destroyed, and a new one, which has not waited, may get its handle. */
static inline void
tidei_streams_release(struct tidei_streams *streams, uint32_t number)
{
    if (--streams->streams[number]->freed_runs == 0)
        streams->streams[number]->blank = streams->epoch - 1;
}

/* Note that `later` waits for all memory that was freed on `earlier` up to `epoch`, which has ended. */
void tidei_streams_note(struct tidei_streams *streams, uint32_t earlier, uint64_t epoch, uint32_t later);

/* Forget all waits: handles may be those of other streams from now on. */
void tidei_streams_forget(struct tidei_streams *streams, uint64_t epoch);

#endif
