/*
 * Reads the allocations of a trace once and passes them to analyses as events in time order.
 *
 * A trace has one row for each life (an allocation and its free), in the order of the allocations. Pending frees wait
 * in a queue, so memory is bounded by the allocations that are live at a time.
 *
 * At equal times allocations come before frees. A row has the time at which the allocating call returned and the time
 * at which the freeing call began. The clock (the TSC) advances in steps of some nanoseconds, so a thread that frees
 * right after it allocates leaves equal times. For the opposite order, two whole calls would have to fit into one step.
 * Further ties are in the order of allocation_id.
 */
#ifndef VIEWER_READ_SCAN_H
#define VIEWER_READ_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/trace.h"

/* One row of `allocation`. The fields after `event` are 0 unless a unit needs them (SCAN_*). */
struct scan_life {
    int64_t allocation_id;
    int64_t layer_id;
    uint64_t size;
    int64_t status; /* enum tide_status; if not 0, the allocation failed and no free follows */
    int64_t alloc_ns;
    int64_t free_ns; /* valid if freed */
    bool freed;
    bool clipped;   /* it began before the selected time range */
    uint64_t event; /* the number of successful allocations and frees before this allocation */
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

/*
 * How many live allocations this is: a request of 0 bytes succeeds with NULL, holds no memory and need not be freed, so
 * it never counts as one.
 */
static inline uint64_t
scan_live_count(const struct scan_life *life)
{
    return life->size != 0;
}

/* The further columns that a unit needs. Each costs some time for every row. */
enum {
    SCAN_PLACE = 1,
    SCAN_ORIGIN = 2,
    SCAN_CALLER = 4,
    SCAN_FREER = 8,
    SCAN_DURATION = 16,
    SCAN_LIVE = 32,      /* for scan_each_live: also keeps the lives that are never freed */
    SCAN_ALIGNMENT = 64, /* the alignment without the rest of SCAN_PLACE */
    SCAN_CALL = 128,     /* the thread and the duration of the allocating call without the rest of both */
    SCAN_DETAILS = SCAN_PLACE | SCAN_CALLER | SCAN_FREER,
};

struct scan;
struct filter;

/* What `alloc` may return, besides an exit status: the unit wants no further events; once all say so, the scan ends. */
#define SCAN_ENOUGH (-1)

/*
 * One analysis. Each callback returns COMMAND_FINE, or another exit status after a message, which ends the scan.
 * A unit that has said SCAN_ENOUGH may get further events, for which it says so again, and gets its `end`.
 * A second call of `begin` discards all events before it (see scan_run).
 */
struct scan_unit {
    unsigned needs;              /* SCAN_* */
    int (*begin)(void *context); /* or NULL */
    int (*alloc)(void *context, const struct scan_life *life);
    int (*free)(void *context, const struct scan_life *life); /* or NULL; a scan without frees is faster */
    bool attach; /* set the context's first member, a `const struct scan *`, to this scan */
    bool asks;   /* its callbacks query the trace: they run on the thread that reads it (scan_run_lanes) */
    int (*end)(void *context, int64_t last_ns); /* or NULL; last_ns: of the last event; 0: no events */
};

/* A unit and its context (both borrowed). */
struct scan_pass {
    const struct scan_unit *unit;
    void *context;
};

/*
 * Run all `passes` over the allocations of `trace` that pass `filter` (NULL: all) in one scan.
 *
 * Rows are read in the order of allocation_id, which normally is the order of alloc_ns. If a row breaks that order,
 * every unit's `begin` is called again and the file is read again, sorted by SQLite. COMMAND_FINE, or another exit
 * status after a message.
 */
int scan_run(const struct trace *trace, const struct filter *filter, const struct scan_pass *passes, size_t pass_count);

/* Passes that share a filter (both borrowed); several parts share one reading of the trace. */
struct scan_part {
    const struct filter *filter; /* NULL: all allocations */
    const struct scan_pass *passes;
    size_t pass_count;
};

/* Run all `parts` in one reading of `trace`. Each part sees only the events that pass its filter. */
int scan_run_parts(const struct trace *trace, const struct scan_part *parts, size_t part_count);

/*
 * The same, ignoring a `share`. The units of parts[i] run on a thread that all parts of the same lanes[i], from 1 to
 * SCAN_LANES, have together; where lanes[i] is 0 on the caller's thread. Units of different lanes share nothing that
 * one of them writes, and a unit that `asks` is in none. Their `begin` is called on the caller's thread.
 *
 * All run on the caller's thread where there are no others, where a unit fails, and where very many allocations are
 * live at a time. Then all lanes[i] become 0, and all begin and read again, so that messages are those of
 * scan_run_parts.
 */
#define SCAN_LANES 2
int scan_run_lanes(const struct trace *trace, const struct scan_part *parts, unsigned *lanes, size_t part_count);

/* What scan_run_parts of a trace with a `share` calls instead of reading, so that several callers share a reading. */
struct scan_share {
    int (*run)(void *context, const struct scan_part *parts, size_t part_count);
    void *context;
};

/*
 * Call `each` for every live allocation that is not of 0 bytes, in no order. A unit that needs SCAN_LIVE may call this
 * from its callbacks. During `alloc` and `free`, the life of that event is not included.
 */
void scan_each_live(const struct scan *scan, void (*each)(void *context, const struct scan_life *life), void *context);

/* The number of successful allocations and frees so far, including the current event. */
uint64_t scan_events(const struct scan *scan);

#endif
