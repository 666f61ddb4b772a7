/*
 * The chosen instants of a trace, and the allocations that were live at them.
 *
 * An allocation is kept where an instant lies in its life. Where that would be too many, those are kept that are among
 * the 5,000 largest at an instant. Where these are too many still, there are by turns half as many instants, of which
 * those of the spread go first, and half as many of the largest of each.
 */
#ifndef VIEWER_REPORT_ANCHORS_H
#define VIEWER_REPORT_ANCHORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/scan.h"

/* Why an instant was chosen. */
enum {
    ANCHOR_PEAK = 1,
    ANCHOR_SUMMIT = 2,
    ANCHOR_PLATEAU = 4,
    ANCHOR_FAILURE = 8,
    ANCHOR_MARK = 16,
    ANCHOR_END = 32,
    ANCHOR_SPREAD = 64,
};

/* How large an allocation is among others; of those of one size some come first, at all instants the same. */
struct anchor_rank {
    uint64_t size;
    uint64_t sample;
};

struct anchor {
    int64_t ns;
    unsigned why;
    uint64_t event; /* the events before it; as the next four, valid once it was passed */
    uint64_t bytes;
    uint64_t count;
    uint64_t kept_bytes; /* valid after anchors_end, as the next two */
    uint64_t kept_count;
    uint64_t least_bytes;    /* all from this size on are kept; 0: all are */
    struct anchor_rank rank; /* what ranks lower need not be kept for this instant; 0: all must be */
};

/* An allocation that was live at an instant. */
struct kept_life {
    int64_t allocation_id;
    int64_t alloc_ns;
    uint64_t lived; /* free_ns - alloc_ns + 1; 0: never freed */
    uint64_t event; /* the events before it */
    uint64_t size;
    uint64_t address;
    int64_t tag_id, callstack_id, thread_id, stream_id, layer_id;
};

/* The place of an allocation among the others, and the instants in its life: [from, to) of those that are left. */
struct kept_rank {
    struct anchor_rank rank;
    uint32_t slot; /* of `lives` */
    uint32_t from, to;
};

struct anchors {
    struct anchor *list; /* owns; in the order of ns */
    size_t count, capacity;
    size_t chosen;       /* those that there were before some were left out */
    size_t passed;       /* those before the current event */
    uint64_t events;     /* in all; valid after anchors_end */
    uint64_t last_event; /* the events before the last one that was passed; 0: none was */
    size_t lives_most;
    struct kept_life *lives; /* owns; in slots; after anchors_end in the order of allocation */
    size_t life_count, life_capacity;
    struct kept_rank *order; /* owns; by slot that was ever used: the highest rank first, new ones, then free slots */
    size_t ordered;          /* so many are by rank; up to `life_count` are new ones, up to `slot_count` free slots */
    size_t slot_count, order_capacity;
    size_t largest;            /* so many of the largest are kept for each instant; 0: all are */
    struct anchor_rank *ranks; /* owns; a tree of the lowest ranks of the first `ranked` instants */
    size_t ranked;
    bool failed; /* no memory */
};

/* So many of the largest are kept for each instant where all would be too many. */
#define ANCHORS_LARGEST 5000

/* So many instants are left at least, if there were as many. */
#define ANCHORS_FEWEST 128

void anchors_begin(struct anchors *anchors, size_t lives_most);
void anchors_free(struct anchors *anchors);

/* Choose an instant. False: no memory. */
bool anchors_add(struct anchors *anchors, int64_t ns, unsigned why);

/* All are chosen: sort them, and make those of the same moment one. */
void anchors_sort(struct anchors *anchors);

/* Begin to read, again perhaps. */
void anchors_clear(struct anchors *anchors);

/*
 * Pass the instants before an event, which `events` events precede: those before an allocation at `ns`, or those not
 * behind a free at `ns`.
 */
void anchors_pass(struct anchors *anchors, int64_t ns, bool is_free, uint64_t events, uint64_t bytes, uint64_t count);

/* A life ends, or lives on at the end. The instants before its end are passed. */
void anchors_keep(struct anchors *anchors, const struct scan_life *life);

/* All events were read. */
void anchors_end(struct anchors *anchors);

/* After that: keep no more than `lives_most`, which is at least four times ANCHORS_FEWEST. */
void anchors_shrink(struct anchors *anchors, size_t lives_most);

#endif
