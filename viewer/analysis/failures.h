/* Explains failed allocations: what was live and free at each failure, and which blocks were in the way. */
#ifndef VIEWER_ANALYSIS_FAILURES_H
#define VIEWER_ANALYSIS_FAILURES_H

#include "viewer/read/samples.h"
#include "viewer/analysis/space.h"
#include "viewer/read/view.h"

enum failure_cause {
    FAILURE_LIMIT,         /* a limit refused it */
    FAILURE_CAPACITY,      /* fewer bytes were free than requested */
    FAILURE_FRAGMENTATION, /* enough bytes were free, but no hole was large enough */
    FAILURE_UNUSED,        /* a hole was large enough, but the pool did not use it (one of another stream, say) */
    FAILURE_REQUEST,       /* no pool could serve the request: it was invalid or unsupported */
    FAILURE_OTHER,
    FAILURE_CAUSES,
};

struct failure {
    struct scan_life life;
    enum failure_cause cause;
    uint64_t live_bytes; /* requested bytes live just before the failure */
    uint64_t live_count;
    uint64_t reserved_bytes;
    uint64_t free_bytes;
    uint64_t largest_hole;
    bool has_space;  /* reserved and free bytes are known, from chunks or a sample; holes only from chunks */
    char *pinned_by; /* owns; the blocks in the way; NULL: none */
};

/* Failures beyond this many are judged by their status alone. */
#define FAILURES_MAX 1000

struct failures {
    const struct scan *scan; /* while one runs */
    struct view *view;       /* borrows */
    struct space_layers layers;
    struct samples samples;
    struct space space;     /* at the last failure that was examined */
    uint64_t looked_events; /* 1 + the number of events before that failure; 0: no failure was examined */
    bool asked;             /* failures_next has asked for its reading */
    struct failure *list;   /* owns; in time order; at most FAILURES_MAX */
    size_t count;
    uint64_t total;
    uint64_t bytes;
    uint64_t by_cause[FAILURE_CAUSES];
    uint64_t unexplained; /* failures beyond `list` whose status does not tell the cause; not in by_cause */
    uint64_t live_bytes;
    uint64_t live_count;
    bool failed; /* no memory */
};

/* COMMAND_FINE, or another status and there is nothing to free. */
int failures_make(struct view *view, struct failures *out);

/* The same as one of several analyses (viewer/read/view.h). Call failures_free also if a turn fails. */
int failures_begin(struct view *view, struct failures *out);
int failures_next(void *failures, struct scan_pass *pass);

void failures_free(void *failures);

/* "limit", "capacity", ... */
const char *failures_word(enum failure_cause cause);

#endif
