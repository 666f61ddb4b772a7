/*
 * What groups of allocations had live: sizes, tags, threads, streams, innermost frames, layers. A first reading finds
 * the groups with the highest peaks of their own; in a second one each of these is a series, and all others are one.
 */
#ifndef VIEWER_REPORT_SERIES_H
#define VIEWER_REPORT_SERIES_H

#include "viewer/analysis/groups.h"

enum series_key {
    SERIES_SIZE,
    SERIES_TAG,
    SERIES_THREAD,
    SERIES_STREAM,
    SERIES_FRAME,
    SERIES_LAYER,
    SERIES_KEYS,
};

/* The most groups that are series of their own, and with the one of all others. */
#define SERIES_NAMED 15
#define SERIES_MOST  (SERIES_NAMED + 1)

/* "size", "tag", ... */
extern const char *const series_words[SERIES_KEYS];

struct series_group {
    uint64_t live_bytes;
    uint64_t peak_bytes;
    uint32_t series; /* valid after series_rank */
};

/* One grouping. */
struct series {
    struct groups groups;
    struct series_group *list; /* owns; by group number */
    size_t capacity;
    uint32_t named[SERIES_NAMED]; /* the groups of the series, the highest peak first */
    size_t count;                 /* of the series, with that of all others; valid after series_rank */
    uint64_t live[SERIES_MOST];   /* in the second reading */
};

/* All of them. */
struct series_set {
    const struct names *names; /* borrows */
    struct series of[SERIES_KEYS];
    struct name_list
        frames;         /* owns; for each call stack its innermost frame; `number`: the first stack with the same */
    int64_t last_stack; /* of the life before, and the key of its frame */
    uint64_t last_frame;
};

/* COMMAND_FINE, or another status after a message. Call series_free in any case. */
int series_begin(struct series_set *set, const struct names *names);
void series_free(struct series_set *set);

/* Begin the first reading, or the second, again: forget what was added, but not the groups. */
void series_clear(struct series_set *set);
void series_clear_sums(struct series_set *set);

/* The columns that it needs: SCAN_*. */
unsigned series_needs(void);

/* In the first reading: `life` begins or ends. False: no memory. */
bool series_add(struct series_set *set, const struct scan_life *life, bool is_free);

/* Choose the series. False: no memory. */
bool series_rank(struct series_set *set);

/* Whether the grouping tells anything: it has several groups, or is that of sizes. */
static inline bool
series_has(const struct series_set *set, enum series_key key)
{
    return set->of[key].groups.count > (key != SERIES_SIZE);
}

/* In the second reading: the same life again. */
void series_sum(struct series_set *set, const struct scan_life *life, bool is_free);

/*
 * The place of the series that takes in what has this id: of a tag, a thread, a stream, a layer, or, for SERIES_FRAME,
 * of a call stack. Valid after series_rank. -1: nothing of it was live, or there is no such grouping.
 */
int series_place(const struct series_set *set, enum series_key key, int64_t id);

/* The name of a series, in `buffer` (GROUPS_NAME bytes) or in the names. */
const char *series_name(const struct series_set *set, enum series_key key, size_t place, char *buffer, size_t size);

#endif
