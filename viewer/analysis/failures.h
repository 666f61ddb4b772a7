/*
 * Explains failed allocations: which layer refused each, why, what was live, free and in the way then, and what would
 * have sufficed.
 *
 * The first reading of the trace finds the failures, the layers that refused them and those that a layer above made
 * good. If there are any, a second one looks at the memory at the moment of each (viewer/analysis/diagnosis.h).
 */
#ifndef VIEWER_ANALYSIS_FAILURES_H
#define VIEWER_ANALYSIS_FAILURES_H

#include "viewer/analysis/diagnosis.h"
#include "viewer/read/routes.h"
#include "viewer/read/view.h"

struct failure {
    struct scan_life life;
    size_t layer;         /* the log that recorded it: an index, as the next ones */
    size_t refuser;       /* ROUTES_NONE: unknown */
    size_t made_good_by;  /* the layer above that got the memory after all; ROUTES_NONE: none */
    size_t group;         /* its place in failures.groups */
    uint64_t asked_bytes; /* of the request that was refused: the pool's for a chunk, say */
    bool refuser_is_sure; /* the trace names the layer that refused, or only that one can have been it */
    char *words;          /* owns; of the refusal; NULL: the trace does not have them */
    enum failure_cause cause;
    struct diagnosis at; /* the memory at the failure */
    char *pinned_by;     /* owns; the blocks in the way; NULL: none */
};

/* Failures that follow from one another: of one log and one layer that refused them. */
struct failure_group {
    size_t layer;
    size_t refuser;
    size_t made_good_by; /* of failures below a log whose call succeeded; ROUTES_NONE: the program saw the failures */
    uint64_t count;
    uint64_t bytes; /* requested; saturates */
    int64_t first_ns;
    int64_t first_id;
    uint64_t by_cause[FAILURE_CAUSES];
    uint64_t unexplained; /* the others of `count` */
};

/* Failures beyond this many are counted, and judged by their status alone. */
#define FAILURES_MAX 1000

/* More groups than this are not told apart. */
#define FAILURES_GROUPS 256

/* Which layer refused, of a row of the table `refusal`. */
struct failures_refusal {
    int64_t allocation_id;
    uint32_t layer; /* its index; or of one of its kind, marked so */
};

struct failures {
    const struct scan *scan; /* while one runs */
    struct view *view;       /* borrows */
    struct filter_set upper; /* the selected layers: those of the view's filter, which lets all pass from then on */
    struct routes routes;
    struct failures_refusal *refusals; /* owns; in the order of allocation_id */
    size_t refusal_count;
    size_t refusal_capacity;
    size_t refusal_next;             /* behind the one that was found last: rows come in the same order, mostly */
    bool has_refusals;               /* the trace has that table */
    struct failures_thread *threads; /* owns */
    size_t thread_count;
    size_t thread_capacity;
    struct id_map thread_by_id;
    struct diagnoser diagnoser;
    unsigned turn;
    unsigned begun;       /* how often the first reading began: twice where rows are not in the order of time */
    struct failure *list; /* owns; in time order; at most FAILURES_MAX */
    size_t count;
    size_t next;     /* the next one to look at in the second reading */
    uint64_t total;  /* of the selected layers, without those made good */
    uint64_t bytes;  /* requested by them; saturates */
    uint64_t served; /* allocations of the selected layers that succeeded */
    uint64_t made_good;
    struct failure_group groups[FAILURES_GROUPS]; /* in the order of their first failure */
    size_t group_count;
    uint64_t by_cause[FAILURE_CAUSES];
    uint64_t unexplained;        /* failures beyond `list` whose status does not tell the cause; not in by_cause */
    const struct failure *first; /* the one to explain: the first that was not made good; NULL: none failed */
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
