/* Where the bytes between a request and the device go: fragmentation at the peak, at other moments, and over time. */
#ifndef VIEWER_ANALYSIS_FRAGMENT_H
#define VIEWER_ANALYSIS_FRAGMENT_H

#include "viewer/read/samples.h"
#include "viewer/analysis/space.h"
#include "viewer/read/view.h"

/* More moments are not looked at. */
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
    uint64_t device_bytes; /* where has_device: what the bases held at the sample before */
    bool has_device;
};

struct fragment {
    struct view *view; /* borrows */
    struct space_layers layers;
    struct samples samples;
    const struct scan *scan;
    unsigned turn; /* how many readings it has asked for */
    /* Over the whole time. */
    uint64_t requested_bytes; /* live now */
    uint64_t rounded_bytes;
    uint64_t reserved_bytes; /* of the lower log */
    uint64_t peak_bytes;     /* requested */
    int64_t peak_id;         /* 0: none */
    int64_t peak_ns;
    uint64_t rounded_peak_bytes;
    uint64_t reserved_peak_bytes; /* of the lower log, and so 0 without one */
    int64_t reserved_peak_id;
    uint64_t largest_request;
    int64_t begin_ns;
    int64_t end_ns;
    /* What is looked at. */
    uint64_t request_bytes; /* of the unusable index */
    struct moment at;
    int64_t at_ns;
    struct space space; /* at that moment */
    bool looked;
    struct fragment_figures figures;
    struct space passing;                     /* at the others */
    struct fragment_figures reserved_figures; /* at the highest reserved; where there is a lower log */
    struct fragment_figures *moments;         /* owns; evenly over the time */
    size_t moment_count;                      /* wanted */
    size_t moments_done;
};

/*
 * Look at `at` and at `moments` others. `request_bytes` 0: the largest request. COMMAND_FINE, or there is nothing to
 * free.
 */
int fragment_make(struct view *view, const struct moment *at, uint64_t request_bytes, uint64_t page_bytes,
                  uint64_t moments, struct fragment *out);

/*
 * The same in turns (see viewer/read/turns.h): begin, and what to read next. It is to be freed also where a turn fails.
 */
int fragment_begin(struct view *view, const struct moment *at, uint64_t request_bytes, uint64_t page_bytes,
                   uint64_t moments, struct fragment *out);
int fragment_next(void *fragment, struct scan_pass *pass);

void fragment_free(struct fragment *fragment);

/*
 * The most that was given out over the most that was held: from the lower log, or else from the samples; -1: unknown.
 */
double fragment_utilisation(const struct fragment *fragment);

#endif
