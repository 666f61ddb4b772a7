/* Which allocations count: the filters that every command takes, resolved to ids and applied to each row. */
#ifndef VIEWER_READ_FILTER_H
#define VIEWER_READ_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "viewer/base/id-map.h"
#include "viewer/base/parse.h"
#include "viewer/read/names.h"
#include "viewer/read/scan.h"

/* What is asked for; all zeros is nothing. */
struct filter_options {
    struct option_list layers, tags, threads, streams, devices;
    const char *callstack;
    struct moment from, to;
    uint64_t min_size;
};

/* Ids that pass; all do where it is not active. */
struct filter_set {
    bool active;
    struct id_map ids;
};

struct filter {
    struct filter_set layers, tags, threads, streams, callstacks;
    struct filter_set device_streams; /* those on the devices that were asked for */
    int64_t from_ns;                  /* INT64_MIN: from the start */
    int64_t to_ns;                    /* INT64_MAX: to the end */
    uint64_t min_size;
    unsigned needs; /* SCAN_*: what it looks at */
    bool active;    /* something beside the layers is left out */
};

/*
 * Resolve what was asked for. Where no layer was named, those of the outermost logs pass: what the program itself
 * asked for, once. COMMAND_FINE, or COMMAND_WRONG after a message and there is nothing to free.
 */
int filter_make(const struct names *names, const struct filter_options *options, struct filter *out);

void filter_free(struct filter *filter);

/* The time of a moment of the trace; MOMENT_PEAK is none. COMMAND_FINE, or COMMAND_WRONG after a message. */
int filter_moment(const struct trace *trace, const struct moment *moment, int64_t *out);

bool filter_set_has(const struct filter_set *set, int64_t id);
int filter_set_add(struct filter_set *set, int64_t id);

/* Whether a tag is `pattern` itself, below it, or fits it as a pattern. */
bool filter_tag_fits(const char *path, const char *pattern);

/* Whether a layer passes. */
bool filter_has_layer(const struct filter *filter, int64_t layer_id);

/* Whether some of the allocations of a layer and a time are left out, by what they are or whose. */
bool filter_has_rows(const struct filter *filter);

/*
 * Whether `life` counts. One that reaches over the edges of the time is cut off there: it begins at `from_ns` with
 * `clipped` set, or is not freed.
 */
bool filter_takes(const struct filter *filter, struct scan_life *life);

#endif
