/* Groups of allocations: by tag, call stack, size, class of sizes, stream, thread, layer or device. */
#ifndef VIEWER_ANALYSIS_GROUPS_H
#define VIEWER_ANALYSIS_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"
#include "viewer/read/names.h"
#include "viewer/read/scan.h"

/* In the order of GROUPS_CHOICES. */
enum groups_by {
    GROUPS_TAG,
    GROUPS_CALLSTACK,
    GROUPS_SIZE,
    GROUPS_CLASS, /* powers of two */
    GROUPS_STREAM,
    GROUPS_THREAD,
    GROUPS_LAYER,
    GROUPS_DEVICE,
};

#define GROUPS_CHOICES "tag|callstack|size|class|stream|thread|layer|device"

/* A buffer that every name fits in that is not a tag's or a call stack's own. */
#define GROUPS_NAME 256

struct groups {
    const struct names *names; /* borrows */
    enum groups_by by;
    struct id_map by_key; /* to the number of the group */
    uint64_t *keys;       /* owns; by number */
    size_t count;
    size_t capacity;
    uint64_t last_key; /* of the event before, which is mostly that of this one */
    uint32_t last;
};

/* Where there are no more than this. */
#define GROUPS_FULL UINT32_MAX

void groups_begin(struct groups *groups, enum groups_by by, const struct names *names);
void groups_end(struct groups *groups);

/* What to group by where nothing was said: call stacks, tags or classes, the first that the trace has. */
enum groups_by groups_default(const struct names *names);

/* SCAN_*: what groups_of looks at. */
unsigned groups_needs(enum groups_by by);

/* The number of the group of `life`, from 0 in the order in which they come; GROUPS_FULL: no memory. */
uint32_t groups_of(struct groups *groups, const struct scan_life *life);

/* The same of a key, which is one of the `keys` of groups of the same kind. */
uint32_t groups_number(struct groups *groups, uint64_t key);

/*
 * Make room for `group` in an array with an item for each group; new items are zeros. `array` points to the array, and
 * `capacity` to how many it has. False: no memory, or the group is GROUPS_FULL.
 */
#define groups_reach(array, capacity, group) groups_reach_items((array), sizeof(**(array)), (capacity), (group))
bool groups_reach_items(void *array, size_t item_bytes, size_t *capacity, uint32_t group);

/* The class of a size: 0 is of 0 bytes, n of those from 2^(n-1) to 2^n - 1; and what it is called. */
uint64_t groups_class(uint64_t size);
const char *groups_class_name(uint64_t class, char *buffer, size_t size);

/* What a group is called, in `buffer` or elsewhere. */
const char *groups_name(const struct groups *groups, uint32_t group, char *buffer, size_t size);

/* The same for a sentence: of a call stack its two innermost frames alone. */
const char *groups_brief(const struct groups *groups, uint32_t group, char *buffer, size_t size);

/* "tag", "call stack", ... */
const char *groups_word(enum groups_by by);

#endif
