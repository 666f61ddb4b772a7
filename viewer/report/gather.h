/*
 * Gathers the data of a report in two readings of a trace. The first finds how far the axes reach, the buckets of the
 * live bytes, the largest groups, the pages and the failures; the second what needs to know these.
 */
#ifndef VIEWER_REPORT_GATHER_H
#define VIEWER_REPORT_GATHER_H

#include "viewer/analysis/peak.h"
#include "viewer/read/view.h"
#include "viewer/report/anchors.h"
#include "viewer/report/boards.h"
#include "viewer/report/buckets.h"
#include "viewer/report/matrix.h"
#include "viewer/report/pages.h"
#include "viewer/report/series.h"

/* How much there is of each, at most. */
struct gather_detail {
    const char *name;
    size_t buckets;
    size_t series_buckets;
    size_t map_rows, map_buckets;
    size_t anchors;
    size_t lives;
    size_t bytes; /* of the page, but for its code; 0: any number */
};

enum gather_details { GATHER_SMALL, GATHER_NORMAL, GATHER_FULL, GATHER_DETAILS };

#define GATHER_DETAIL_CHOICES "small|normal|full"

extern const struct gather_detail gather_details[GATHER_DETAILS];

/* The most failures, marks and summits that are listed, and those of them that are instants. */
#define GATHER_FAILURES 10000
#define GATHER_MARKS    2000
#define GATHER_SUMMITS  256
#define GATHER_INSTANTS 256

/* A failed allocation. */
struct gather_failure {
    int64_t ns;
    uint64_t event;
    int64_t allocation_id;
    uint64_t size;
    int64_t status;
    int64_t tag_id, callstack_id, thread_id, stream_id, layer_id;
};

/* A moment whose position among the events is wanted. */
struct gather_stamp {
    int64_t ns;
    uint64_t event;
};

/* A mark; its position is in the stamps. */
struct gather_mark {
    int64_t ns;
    uint64_t event;
    char *kind; /* owns, as the text; NULL: none */
    char *text;
};

struct gather_summit {
    int64_t ns;
    uint64_t event;
    uint64_t bytes;
    uint64_t prominence_bytes;
};

struct gather {
    const struct scan *scan; /* while one runs */
    struct view *view;       /* borrows */
    const struct gather_detail *detail;
    struct buckets time, by_event;
    struct pages pages;
    struct matrix matrix;
    struct series_set series;
    struct gather_failure *failures; /* owns */
    size_t failure_count, failure_capacity;
    uint64_t failures_count;   /* of all */
    struct gather_mark *marks; /* owns; in the order of ns */
    size_t mark_count, mark_capacity;
    uint64_t marks_count;
    struct peak peak;              /* of the first reading: its summits and plateaus */
    struct gather_summit *summits; /* owns; the most prominent first */
    size_t summit_count;
    size_t plateau_count; /* of those in `peak` */
    bool begun;           /* there was an event or a failure */
    int64_t begin_ns, end_ns;
    uint64_t events, allocations;
    uint64_t live_bytes, live_count; /* in the second reading, too */
    uint64_t peak_bytes, peak_count, peak_event;
    int64_t peak_ns, peak_id;
    bool has_peak;
    struct axis series_time, series_event, map_time, map_event; /* of the second reading */
    struct series_board boards[2];                              /* over time, and over events */
    struct map map;
    struct anchors anchors;
    struct gather_stamp *stamps; /* owns; in the order of ns */
    size_t stamp_count, stamped;
};

/* Gather the data of what `view` selects. COMMAND_FINE, or another status. Call gather_free in any case. */
int gather_make(struct gather *gather, struct view *view, const struct gather_detail *detail);
void gather_free(struct gather *gather);

#endif
