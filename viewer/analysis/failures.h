/* Why allocations failed: what was live and free when each did, and what stood in its way. */
#ifndef VIEWER_ANALYSIS_FAILURES_H
#define VIEWER_ANALYSIS_FAILURES_H

#include "viewer/read/samples.h"
#include "viewer/analysis/space.h"
#include "viewer/read/view.h"

enum failure_cause {
    FAILURE_LIMIT,         /* a limit refused it */
    FAILURE_CAPACITY,      /* there was not so much */
    FAILURE_FRAGMENTATION, /* there was, but in no one piece */
    FAILURE_UNUSED,        /* there was a hole for it that the pool did not take, as one of another stream's */
    FAILURE_REQUEST,       /* the request itself could not be met by any pool */
    FAILURE_OTHER,
    FAILURE_CAUSES,
};

struct failure {
    struct scan_life life;
    enum failure_cause cause;
    uint64_t live_bytes; /* requested, just before */
    uint64_t live_count;
    uint64_t reserved_bytes;
    uint64_t free_bytes;
    uint64_t largest_hole;
    bool has_space;  /* chunks, or at least a sample, say what was reserved and free; holes are from chunks alone */
    char *pinned_by; /* owns; NULL: nothing did */
};

/* At more failures than this the scan does not look in detail: of those only the status is judged. */
#define FAILURES_MAX 1000

struct failures {
    struct view *view; /* borrows */
    struct space_layers layers;
    struct samples samples;
    struct space space;     /* as it was at the last failure that was looked at */
    uint64_t looked_events; /* how many events there had been by then, and 1; 0: none was */
    const struct scan *scan;
    bool asked;           /* for its reading */
    struct failure *list; /* owns; in the order of time, FAILURES_MAX at most */
    size_t count;
    uint64_t total;
    uint64_t bytes;
    uint64_t by_cause[FAILURE_CAUSES];
    uint64_t unexplained; /* of those beyond `list`, that are in no cause */
    uint64_t live_bytes;
    uint64_t live_count;
    bool failed; /* no memory */
};

/* COMMAND_FINE, or there is nothing to free. */
int failures_make(struct view *view, struct failures *out);

/*
 * The same in turns (see viewer/read/turns.h): begin, and what to read next. It is to be freed also where a turn fails.
 */
int failures_begin(struct view *view, struct failures *out);
int failures_next(void *failures, struct scan_pass *pass);

void failures_free(struct failures *failures);

/* "limit", "capacity", ... */
const char *failures_word(enum failure_cause cause);

#endif
