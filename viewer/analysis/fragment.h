/* Fragmentation at the peak, at other moments and over time: the bytes reserved but not requested, by cause. */
#ifndef VIEWER_ANALYSIS_FRAGMENT_H
#define VIEWER_ANALYSIS_FRAGMENT_H

#include "viewer/read/samples.h"
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
    uint64_t reserved_bytes;
    uint64_t free_bytes;
    uint64_t empty_bytes;
    uint64_t largest_hole;
    uint64_t holes;
    uint64_t unusable_bytes;
    uint64_t blocks;
    uint64_t chunks;
    uint64_t device_bytes; /* valid if has_device: what the bases held at the last sample */
    bool has_device;
};

struct fragment {
    const struct scan *scan; /* while one runs */
    struct view *view;       /* borrows */
    struct space_layers layers;
    struct samples samples;
    unsigned turn; /* the number of readings asked for so far */
    /* Over the whole time. */
    uint64_t requested_bytes; /* live now */
    uint64_t rounded_bytes;
    uint64_t reserved_bytes; /* of the lower log */
    uint64_t peak_bytes;     /* requested */
    int64_t peak_id;         /* 0: none */
    int64_t peak_ns;
    uint64_t rounded_peak_bytes;
    uint64_t reserved_peak_bytes; /* of the lower log; 0 without one */
    int64_t reserved_peak_id;
    uint64_t largest_request;
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
    struct fragment_figures reserved_figures; /* at the peak of the reserved bytes, if there is a lower log */
    struct fragment_figures *moments;         /* owns; evenly spaced in time */
    size_t moment_count;                      /* requested */
    size_t moments_done;
};

/*
 * Examine the moment `at` and `moments` others. `request_bytes` 0: the largest request. COMMAND_FINE, or another status
 * and there is nothing to free.
 */
int fragment_make(struct view *view, const struct moment *at, uint64_t request_bytes, uint64_t page_bytes,
                  uint64_t moments, struct fragment *out);

/* The same as one of several analyses (viewer/read/view.h). Call fragment_free also if a turn fails. */
int fragment_begin(struct view *view, const struct moment *at, uint64_t request_bytes, uint64_t page_bytes,
                   uint64_t moments, struct fragment *out);
int fragment_next(void *fragment, struct scan_pass *pass);

void fragment_free(void *fragment);

/* The peaks of the reserved bytes and of the used bytes: from the lower log, or else from the samples. */
uint64_t fragment_reserved_peak(const struct fragment *fragment);
uint64_t fragment_used_peak(const struct fragment *fragment);

/* Peak used bytes over peak reserved bytes; -1: unknown. */
double fragment_utilisation(const struct fragment *fragment);

#endif
