/*
 * The memory of one stack at the moment at which an allocation failed: what was reserved and free, what could still be
 * reserved, and why that did not suffice.
 *
 * What a pool has free is in its chunks: rows of the next recorded layer below it, or its own. What it may still
 * reserve is what each bound below has left (its own maximum, a limit, the capacity of the base), and counts as free:
 * a pool that could hold the request if it had no holes is fragmented, not full.
 */
#ifndef VIEWER_ANALYSIS_DIAGNOSIS_H
#define VIEWER_ANALYSIS_DIAGNOSIS_H

#include "viewer/analysis/groups.h"
#include "viewer/analysis/space.h"
#include "viewer/read/routes.h"
#include "viewer/read/samples.h"
#include "viewer/read/view.h"

enum failure_cause {
    FAILURE_LIMIT,         /* a limit refused it */
    FAILURE_CAPACITY,      /* a pool was full: less was free and left of its bound than requested */
    FAILURE_DEVICE,        /* the base had no more memory: the device, or what stands for it, was full */
    FAILURE_FRAGMENTATION, /* enough was free, but not in one piece */
    FAILURE_UNUSED,        /* a hole was large enough, but the pool did not use it (one of another stream, say) */
    FAILURE_PLANTED,       /* by `fault` */
    FAILURE_REQUEST,       /* no pool could serve the request: it was invalid or unsupported */
    FAILURE_OTHER,
    FAILURE_CAUSES,
};

/* Where the free bytes come from. */
enum diagnosis_source {
    DIAGNOSIS_NONE,   /* nothing says */
    DIAGNOSIS_CHUNKS, /* recorded chunks */
    DIAGNOSIS_SAMPLE, /* a pool sample, which does not say how large the holes are */
};

struct diagnosis {
    enum diagnosis_source source;
    int64_t sample_ns;   /* of the sample, which may be older than the failure */
    size_t suballocator; /* the pool of the request; ROUTES_NONE: none on its way to the layer that refused */
    uint64_t live_bytes; /* requested bytes live on the log, just before the failure */
    uint64_t live_count; /* of those */
    uint64_t reserved_bytes;
    uint64_t free_bytes;
    uint64_t largest_hole;
    uint64_t wanted_bytes;     /* the request, rounded up as the pool does */
    bool has_left;             /* the next is known */
    uint64_t left_bytes;       /* what may still be reserved */
    bool has_room;             /* the next is known, which may be so without the chunks */
    uint64_t room_bytes;       /* what is free in the pool and what may still be reserved, together */
    bool has_in_use;           /* the next is known */
    uint64_t in_use_bytes;     /* what the layer that refused had in use, as it counts */
    uint64_t sufficient_bytes; /* the least bound of that layer that would have let the request pass; 0: unknown */
    uint64_t whole_bytes;      /* the same if the pool had no holes; 0: unknown, or no pool */
    size_t also;               /* a layer below whose bound must be raised as well; ROUTES_NONE: none */
    uint64_t also_bytes;       /* to this */
    uint64_t sufficient_count; /* the same of a limit of allocations; 0: not that */
};

/* A hole, with the blocks at its ends. */
struct diagnosis_hole {
    uint64_t address;
    uint64_t bytes;
    uint64_t chunk_bytes;
    struct space_block before; /* size 0: the chunk begins here */
    struct space_block behind; /* size 0: the chunk ends here */
};

#define DIAGNOSIS_HOLES  5
#define DIAGNOSIS_GROUPS 5

/* Who held memory at the failure. */
struct diagnosis_group {
    uint32_t group; /* in diagnoser.groups */
    uint64_t bytes;
    uint64_t count;
};

/* A failure that is looked at. */
struct diagnosis_question {
    const struct scan_life *life;
    size_t layer;
    size_t refuser; /* ROUTES_NONE: unknown */
    uint64_t asked_bytes;
};

/* The last figures of each layer, up to the failure. */
struct diagnosis_layer {
    uint64_t live_bytes; /* of its rows */
    uint64_t live_count;
    const struct sample_row *sample; /* the last one; NULL: none */
    uint64_t passed_bytes;           /* live bytes that pass it, as it counts; valid for bounds of the last look */
    size_t vague_by;                 /* some of them are in chunks of this one that nothing records; see diagnosis.c */
};

struct diagnoser {
    struct view *view;              /* borrows */
    struct routes *routes;          /* borrows */
    struct diagnosis_layer *layers; /* owns; by the index in the routes */
    struct samples samples;
    size_t sample_next;
    struct space_layers stack; /* of the last look */
    struct space space;        /* of the last look */
    struct route way;          /* of the last question, to the base */
    uint64_t looked_events;    /* 1 + the number of events before the last look; 0: there was none */
    size_t looked_layer;       /* its log, suballocator and layer that refused */
    size_t looked_suballocator;
    size_t looked_refuser;
    struct groups groups; /* of the failure that is explained */
    struct diagnosis_group largest[DIAGNOSIS_GROUPS];
    size_t largest_count;
    uint64_t held_bytes; /* of all groups */
    size_t group_total;
    struct diagnosis_hole holes[DIAGNOSIS_HOLES];
    size_t hole_count;
};

/* COMMAND_FINE, or another status after a message; call diagnoser_free in any case. Both are borrowed. */
int diagnoser_begin(struct view *view, struct routes *routes, struct diagnoser *out);
void diagnoser_free(struct diagnoser *diagnoser);

/* Forget what was live: a reading begins. */
void diagnoser_restart(struct diagnoser *diagnoser);

/* A row of any layer becomes live, or ends. */
void diagnoser_change(struct diagnoser *diagnoser, const struct scan_life *life, bool is_free);

/* Look at the memory at a failure, and judge. COMMAND_FINE, or another status after a message. */
int diagnoser_look(struct diagnoser *diagnoser, const struct scan *scan, const struct diagnosis_question *question,
                   struct diagnosis *out, enum failure_cause *cause);

/* After a look: who held the memory, and the largest holes. COMMAND_FINE, or another status after a message. */
int diagnoser_explain(struct diagnoser *diagnoser, const struct scan *scan, const struct diagnosis_question *question);

/* The cause where the status alone tells it, or the layer that refused; false: it takes a look. */
bool diagnosis_plain_cause(const struct routes *routes, int64_t status, size_t refuser, enum failure_cause *cause);

/* The chunk with the fewest bytes in use among those that would be large enough if they were empty; NULL: none. */
const struct space_chunk *diagnoser_pinned(const struct diagnoser *diagnoser, uint64_t wanted);

#endif
