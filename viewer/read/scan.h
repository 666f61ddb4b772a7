/*
 * Reads the allocations of a trace once and hands them to analyses as events in time order.
 *
 * A trace holds one row for each life, in the order of the allocations; the frees that are due wait in a queue, so
 * that memory is bounded by the allocations that are live at a time. At one and the same nanosecond allocations come
 * before frees: a row has the moment at which the allocating call returned and that at which the freeing one began, and
 * where a clock counts in steps of some nanoseconds, as the TSC does, a thread that does the one right after the other
 * leaves equal times. The other way round two whole calls would have to fit into one step. Among equal times the order
 * is that of allocation_id.
 */
#ifndef VIEWER_READ_SCAN_H
#define VIEWER_READ_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/trace-open.h"

/* One row of `allocation`. What stands after `event` is there where a unit needs it, else 0. */
struct scan_life {
    int64_t allocation_id;
    int64_t layer_id;
    uint64_t size;
    int64_t status; /* enum tide_status; where it is not 0 nothing was allocated and no free follows */
    int64_t alloc_ns;
    int64_t free_ns; /* where freed */
    bool freed;
    bool clipped;   /* it began before the time that is looked at */
    uint64_t event; /* how many allocations and frees succeeded before its own */
    int64_t tag_id; /* SCAN_ORIGIN; 0: none */
    int64_t callstack_id;
    int64_t alloc_thread_id; /* SCAN_CALLER */
    int64_t alloc_stream_id;
    int64_t alignment; /* SCAN_PLACE */
    uint64_t address;
    int64_t free_thread_id; /* SCAN_FREER */
    int64_t free_stream_id;
    int64_t alloc_duration_ns; /* SCAN_DURATION */
    int64_t free_duration_ns;
};

/* What a unit needs beside the first columns; each costs some time for every row. */
enum {
    SCAN_PLACE = 1,
    SCAN_ORIGIN = 2,
    SCAN_CALLER = 4,
    SCAN_FREER = 8,
    SCAN_DURATION = 16,
    SCAN_LIVE = 32,      /* scan_each_live: what is never freed is kept, too */
    SCAN_ALIGNMENT = 64, /* of SCAN_PLACE that alone */
    SCAN_DETAILS = SCAN_PLACE | SCAN_CALLER | SCAN_FREER,
};

struct scan;
struct filter;

/*
 * One analysis. Each callback returns COMMAND_FINE, or another exit status after a message, which ends the scan.
 * `begin` may come twice: what came before the second is void (see scan_run).
 */
struct scan_unit {
    unsigned needs;              /* SCAN_* */
    int (*begin)(void *context); /* NULL: there is nothing to do */
    int (*alloc)(void *context, const struct scan_life *life);
    int (*free)(void *context, const struct scan_life *life); /* NULL: it takes none; a scan without is faster */
    void (*attach)(void *context, const struct scan *scan);   /* NULL, or called once, before all others */
    int (*end)(void *context, int64_t last_ns);               /* NULL, or: the time of the last event, or 0 */
};

/* A unit and what it works on (borrowed). */
struct scan_pass {
    const struct scan_unit *unit;
    void *context;
};

/*
 * Run all `passes` over `trace` in one scan.
 *
 * Rows are read in the order of allocation_id, which is that of alloc_ns; a file in which it is not is read again,
 * sorted by SQLite, after every unit has begun anew. COMMAND_FINE, or another exit status after a message.
 */
int scan_run(const struct trace *trace, const struct scan_pass *passes, size_t pass_count);

/* The same of what `filter` takes (NULL: everything). */
int scan_run_filtered(const struct trace *trace, const struct filter *filter, const struct scan_pass *passes,
                      size_t pass_count);

/* Some of those that share a reading: passes over what a filter takes (both borrowed). */
struct scan_part {
    const struct filter *filter; /* NULL: everything */
    const struct scan_pass *passes;
    size_t pass_count;
};

/* Run all `parts` over one reading of `trace`: each sees its own events alone. */
int scan_run_parts(const struct trace *trace, const struct scan_part *parts, size_t part_count);

/*
 * Call `each` on every life that is live, in no order; a unit that needs SCAN_LIVE may do so from its callbacks. In
 * `alloc` the life that begins is not among them yet, in `free` the one that ends is not any more.
 */
void scan_each_live(const struct scan *scan, void (*each)(void *context, const struct scan_life *life), void *context);

/* How many allocations and frees have succeeded so far, with the one that is handed out now. */
uint64_t scan_events(const struct scan *scan);

#endif
