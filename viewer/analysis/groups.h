/*
 * Groups allocations by tag, call stack, file, size, size class, stream, thread, layer, device or kind of memory. Call
 * stacks that read the same are one group, and so are tags.
 */
#ifndef VIEWER_ANALYSIS_GROUPS_H
#define VIEWER_ANALYSIS_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"
#include "viewer/read/names.h"
#include "viewer/read/scan.h"

/* The order is that of GROUPS_CHOICES. */
enum groups_by {
    GROUPS_TAG,
    GROUPS_CALLSTACK, /* by functions and lines */
    GROUPS_SIZE,
    GROUPS_CLASS, /* powers of two */
    GROUPS_STREAM,
    GROUPS_THREAD,
    GROUPS_LAYER,
    GROUPS_DEVICE,
    GROUPS_FUNCTION, /* call stacks without lines */
    GROUPS_FILE,     /* of the innermost frame that has one */
    GROUPS_KIND,     /* of memory: the base below, and its device */
    GROUPS_KINDS,
};

#define GROUPS_CHOICES "tag|callstack|size|class|stream|thread|layer|device|function|file|kind"

/* Whether the groups are of call stacks. */
static inline bool
groups_are_stacks(enum groups_by by)
{
    return by == GROUPS_CALLSTACK || by == GROUPS_FUNCTION;
}

/* The size of a buffer for any name other than a tag's or a call stack's. */
#define GROUPS_NAME 256

struct groups {
    const struct names *names; /* borrows */
    enum groups_by by;
    struct id_map by_key; /* to the group number */
    uint64_t *keys;       /* owns; by number */
    size_t count;
    size_t capacity;
    uint64_t last_key; /* of the previous event; the next one mostly has the same */
    uint32_t last;
};

/* A number of allocations and the sum of their sizes. */
struct amount {
    uint64_t bytes;
    uint64_t count;
};

/*
 * What a group has live, and what it had live at the last mark, such as the last peak of all groups. The owner of the
 * groups counts the marks. A mark costs nothing for the groups that do not change after it.
 */
struct marked_amount {
    struct amount live;
    struct amount marked; /* valid if `mark` is the last mark; else the group has not changed since, and `live` holds */
    uint64_t mark;
};

/* Call before the group changes: `mark` is the last mark. */
static inline void
marked_keep(struct marked_amount *group, uint64_t mark)
{
    if (group->mark != mark) {
        group->marked = group->live;
        group->mark = mark;
    }
}

/* An allocation of the group begins or ends. One of 0 bytes counts nowhere as live (scan_live_count). */
static inline void
marked_change(struct marked_amount *group, uint64_t mark, uint64_t size, bool is_free)
{
    marked_keep(group, mark);
    group->live.bytes += is_free ? -size : size;
    group->live.count += size == 0 ? 0 : is_free ? -UINT64_C(1) : 1;
}

/* Not a group: there is no memory for more groups. */
#define GROUPS_FULL UINT32_MAX

void groups_begin(struct groups *groups, enum groups_by by, const struct names *names);
void groups_end(struct groups *groups);

/* The default grouping: call stacks, tags or size classes, the first that the trace has. */
enum groups_by groups_default(const struct names *names);

/* SCAN_*: the columns that groups_of needs. */
unsigned groups_needs(enum groups_by by);

/* The group number of `life`, counted from 0 in the order of first appearance; GROUPS_FULL: no memory. */
uint32_t groups_of(struct groups *groups, const struct scan_life *life);

/* The same for a key from the `keys` of other groups of the same kind. */
uint32_t groups_number(struct groups *groups, uint64_t key);

/*
 * Grow an array with one item for each group so that it has an item for `group`. New items are zeros. `array` points to
 * the array and `capacity` to its number of items. False: no memory, or `group` is GROUPS_FULL.
 */
#define groups_reach(array, capacity, group) groups_reach_items((array), sizeof(**(array)), (capacity), (group))
bool groups_reach_items(void *array, size_t item_bytes, size_t *capacity, uint32_t group);

/* The class of a size, and its name. Class 0 is 0 bytes; class n is 2^(n-1) to 2^n - 1 bytes. */
uint64_t groups_class(uint64_t size);
const char *groups_class_name(uint64_t class, char *buffer, size_t size);

/* Whether the key of a group is an id: not of sizes, of none, nor of call stacks of which several read the same. */
bool groups_has_id(const struct groups *groups, uint32_t group);

/* The name of a group, in `buffer` or in the names. */
const char *groups_name(const struct groups *groups, uint32_t group, char *buffer, size_t size);

/* The same for use in a sentence: only the two innermost frames of a call stack. */
const char *groups_brief(const struct groups *groups, uint32_t group, char *buffer, size_t size);

/* "tag", "call stack", ... */
const char *groups_word(enum groups_by by);

#endif
