/* The filters that commands share: resolved to ids once, then applied to each row. */
#ifndef VIEWER_READ_FILTER_H
#define VIEWER_READ_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "viewer/base/id-map.h"
#include "viewer/base/parse.h"
#include "viewer/read/names.h"
#include "viewer/read/scan.h"

/* What a command line says of its input: filters, and which frames of call stacks count. All zeros: none, and all. */
struct filter_options {
    struct option_list layers, tags, threads, streams, devices;
    const char *callstack;
    struct moment from, to;
    uint64_t min_size;
    struct callstack_options stacks;
    uint64_t depth;  /* of tags, in groups: so many levels; 0: all */
    bool no_symbols; /* no file is opened to look up names of call stacks */
};

/* The ids that pass. An inactive set passes every id. */
struct filter_set {
    bool active;
    struct id_map ids;
};

struct filter {
    struct filter_set layers, tags, threads, streams, callstacks;
    struct filter_set device_streams; /* the streams on the selected devices */
    int64_t from_ns;                  /* INT64_MIN: from the start */
    int64_t to_ns;                    /* INT64_MAX: to the end */
    uint64_t min_size;
    unsigned needs; /* SCAN_*: the columns that the filter reads */
    bool active;    /* a filter other than the layers is set */
};

/*
 * Resolve `options`. If they name no layer, the outermost logs pass, so that each request of the program counts once.
 * COMMAND_FINE, or COMMAND_WRONG after a message; then there is nothing to free.
 */
int filter_make(const struct names *names, const struct filter_options *options, struct filter *out);

void filter_free(struct filter *filter);

/* Resolve a moment to a time; not for MOMENT_PEAK. COMMAND_FINE, or COMMAND_WRONG after a message. */
int filter_moment(const struct trace *trace, const struct moment *moment, int64_t *out);

/* Refuse a time from which on nothing was recorded, as the value of `option`. COMMAND_FINE, or another status. */
int filter_check_begin(const struct trace *trace, const struct moment *moment, const char *option);

bool filter_set_has(const struct filter_set *set, int64_t id);
int filter_set_add(struct filter_set *set, int64_t id);

/* Whether the tag `path` is `pattern`, lies below it, or matches it as a glob. */
bool filter_tag_fits(const char *path, const char *pattern);

/* Whether the same allocations pass both. NULL: all. */
bool filter_same(const struct filter *a, const struct filter *b);

/* Whether a layer passes. */
bool filter_has_layer(const struct filter *filter, int64_t layer_id);

/* Whether the filter, besides layers and times, drops some allocations by their properties. */
bool filter_has_rows(const struct filter *filter);

/*
 * Whether `life` passes. A life that exceeds the time range is cut off: it begins at `from_ns` with `clipped` set, or
 * it counts as not freed.
 */
bool filter_takes(const struct filter *filter, struct scan_life *life);

#endif
