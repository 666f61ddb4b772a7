/*
 * What a trace comes to for each call stack, or tag where there is none: bytes and counts in all, at the end and at the
 * peak, as profilers show them. Of a trace that has neither it is the classes of sizes. Memory is bounded by how many
 * stacks there are.
 */
#ifndef VIEWER_ANALYSIS_PROFILE_H
#define VIEWER_ANALYSIS_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"
#include "viewer/read/view.h"

enum profile_weight {
    PROFILE_PEAK,      /* live at the peak of all that is looked at */
    PROFILE_LIVE,      /* at the end */
    PROFILE_ALLOCATED, /* in all */
    PROFILE_WEIGHTS
};

struct profile_value {
    uint64_t count;
    uint64_t bytes;
};

/* A frame: what stands once however many stacks have it. */
struct profile_frame {
    char *function; /* owns; or the name of a tag, a class of sizes or a layer */
    char *file;     /* owns; "" where it is not known */
    int64_t line;   /* 0: not known */
};

struct profile_group {
    int64_t layer_id;
    int64_t tag_id; /* of these three at most one is not 0 */
    int64_t callstack_id;
    uint64_t class;       /* of groups_class, and 1 */
    uint64_t peak_number; /* of the peak that `values[PROFILE_PEAK]` is of; of a later one it is what is live */
    struct profile_value values[PROFILE_WEIGHTS];
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

/* COMMAND_FINE; or COMMAND_WRONG after a message, and there is nothing to free. */
int profile_make(struct view *view, struct profile *out);

void profile_free(struct profile *profile);

#endif
