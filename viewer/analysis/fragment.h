/* Fragmentation at the peak, at other moments and over time: the bytes reserved but not requested, by cause. */
#ifndef VIEWER_ANALYSIS_FRAGMENT_H
#define VIEWER_ANALYSIS_FRAGMENT_H

#include "viewer/analysis/reserved.h"
#include "viewer/analysis/space.h"
#include "viewer/read/view.h"

/* The most moments that are examined. */
#define FRAGMENT_MOMENTS 1000

/* The figures of one moment. */
struct fragment_figures {
    int64_t ns;
    uint64_t requested_bytes;
    uint64_t rounded_bytes;
    uint64_t inside_bytes;
    uint64_t space_bytes; /* of the chunks, or of the runs of pages, that the holes are in */
    uint64_t free_bytes;
    uint64_t empty_bytes;
    uint64_t largest_hole;
    uint64_t holes;
    uint64_t unusable_bytes;
    uint64_t blocks;
    uint64_t chunks;
    uint64_t reserved_bytes; /* valid if has_reserved: the chunks, or the last sample */
    uint64_t device_bytes;   /* valid if has_device: what the bases held at the last sample */
    uint64_t in_use_bytes;   /* valid if has_in_use: of the whole device, at its last sample */
    bool has_reserved;
    bool has_device;
    bool has_in_use;
    int64_t sample_age_ns; /* of the sample in one of them; -1: none is */
};

struct fragment {
    const struct scan *scan; /* while one runs */
    struct view *view;       /* borrows */
    struct reserved reserved;
    const struct reserved_group *group; /* the one whose blocks and holes are examined */
    size_t wanted;                      /* its place in reserved.groups and 1; 0: the one with the most reserved */
    struct space_layers layers;         /* of that group */
    uint64_t page_bytes;
    unsigned turn; /* the number of readings asked for so far */
    /* Found by the first reading. */
    uint64_t peak_bytes; /* requested, of that group */
    int64_t peak_id;     /* 0: none */
    int64_t peak_ns;
    int64_t reserved_peak_id; /* the chunk with which the most was reserved; 0: none */
    int64_t begin_ns;
    int64_t end_ns;
    /* The examined moments. */
    uint64_t request_bytes; /* holes smaller than this count as unusable */
    struct moment at;
    int64_t at_ns;
    struct space space; /* at `at` */
    bool looked;
    struct fragment_figures figures;
    struct space passing;                     /* at the other moments */
    struct fragment_figures reserved_figures; /* at the peak of the reserved bytes, if there are chunks */
    struct fragment_figures *moments;         /* owns; evenly spaced in time */
    size_t moment_count;                      /* requested */
    size_t moments_done;
};

/* What to examine. */
struct fragment_options {
    struct moment at;
    uint64_t request_bytes; /* 0: the largest request */
    uint64_t page_bytes;
    uint64_t moments; /* besides `at` */
    size_t group;     /* the number of the group, from 1; 0: the one with the most reserved */
};

/* COMMAND_FINE, or another status and there is nothing to free. */
int fragment_make(struct view *view, const struct fragment_options *options, struct fragment *out);

/* The same as one of several analyses (viewer/read/view.h). Call fragment_free also if a turn fails. */
int fragment_begin(struct view *view, const struct fragment_options *options, struct fragment *out);
int fragment_next(void *fragment, struct scan_pass *pass);

void fragment_free(void *fragment);

#endif
