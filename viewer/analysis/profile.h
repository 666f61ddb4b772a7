/*
 * A memory profile of a trace: bytes and counts in total, at the end and at the peak, for each call stack. Allocations
 * without a call stack go by tag, a frame for each level of it; a trace with neither goes by size class. Memory is
 * bounded by the number of stacks.
 */
#ifndef VIEWER_ANALYSIS_PROFILE_H
#define VIEWER_ANALYSIS_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "viewer/analysis/groups.h"
#include "viewer/read/view.h"

enum profile_weight {
    PROFILE_PEAK,      /* live at the peak of all selected allocations */
    PROFILE_LIVE,      /* live at the end */
    PROFILE_ALLOCATED, /* in total */
    PROFILE_WEIGHTS
};

/* A frame. All stacks share one copy of it. */
struct profile_frame {
    char *function; /* owns; or the name of a tag, a size class or a layer */
    char *file;     /* owns; "": unknown */
    int64_t line;   /* 0: unknown */
};

struct profile_group {
    int64_t layer_id;
    int64_t tag_id; /* at most one of tag_id, callstack_id and class is not 0 */
    int64_t callstack_id;
    uint64_t class;       /* groups_class plus 1 */
    uint64_t peak_number; /* the peak that `values[PROFILE_PEAK]` belongs to; for a later peak, the live values hold */
    struct amount values[PROFILE_WEIGHTS];
    uint32_t *frames; /* owns; indices of profile.frames, outermost first */
    size_t frame_count;
};

struct profile {
    struct profile_group *groups; /* owns */
    size_t group_count;
    struct profile_frame *frames; /* owns */
    size_t frame_count;
    int64_t end_ns;
    uint64_t peak_bytes;
    int64_t peak_ns;
};

/*
 * `by` is GROUPS_CALLSTACK, GROUPS_FUNCTION for frames without lines, GROUPS_FILE for the files of the frames, or
 * GROUPS_TAG for tags alone. COMMAND_FINE; or COMMAND_WRONG after a message, and there is nothing to free.
 */
int profile_make(struct view *view, enum groups_by by, struct profile *out);

void profile_free(struct profile *profile);

#endif
