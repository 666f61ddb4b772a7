/* The live and reserved bytes over time, in columns of equal duration. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/timeline.h"

/* Advance to the column of `ns`. Each column begins with the bytes live and reserved at the end of the one before. */
static void
timeline_advance(struct timeline *timeline, int64_t ns)
{
    while (timeline->at + 1 < timeline->count && ns >= timeline->columns[timeline->at + 1].ns) {
        struct timeline_column *next = &timeline->columns[++timeline->at];

        next->most_bytes = next->least_bytes = next->end_bytes = timeline->live_bytes;
        if (timeline->reserved == TIMELINE_LAYERS)
            next->reserved_bytes = timeline->held_bytes;
    }
}

static int
timeline_begin(void *context)
{
    struct timeline *timeline = context;
    unsigned __int128 span = (uint64_t)timeline->end_ns - (uint64_t)timeline->begin_ns;

    memset(timeline->columns, 0, timeline->count * sizeof(*timeline->columns));
    for (size_t i = 0; i < timeline->count; i++)
        timeline->columns[i].ns = (int64_t)((uint64_t)timeline->begin_ns + (uint64_t)(span * i / timeline->count));
    timeline->at = 0;
    timeline->live_bytes = timeline->held_bytes = timeline->peak_bytes = 0;
    return COMMAND_FINE;
}

/* Whether `life` is of the log below: it changes the reserved bytes. */
static bool
timeline_is_chunk(const struct timeline *timeline, const struct scan_life *life)
{
    return timeline->layers.lower.active && filter_set_has(&timeline->layers.lower, life->layer_id);
}

static int
timeline_alloc(void *context, const struct scan_life *life)
{
    struct timeline *timeline = context;
    bool chunk = timeline_is_chunk(timeline, life);
    uint64_t *bytes = chunk ? &timeline->held_bytes : &timeline->live_bytes;
    struct timeline_column *column;

    timeline_advance(timeline, life->alloc_ns);
    column = &timeline->columns[timeline->at];
    if (life->status != 0) {
        column->failures += !chunk;
        return COMMAND_FINE;
    }
    if (*bytes > (uint64_t)INT64_MAX - life->size)
        return trace_broken(&timeline->view->trace, "allocation %" PRId64 ": the sizes add up to more than 2^63 bytes",
                            life->allocation_id);
    *bytes += life->size;
    if (chunk) {
        if (*bytes > column->reserved_bytes)
            column->reserved_bytes = *bytes;
        return COMMAND_FINE;
    }
    column->allocations += !life->clipped;
    if (life->clipped) /* it was live when the column began */
        column->least_bytes = *bytes;
    column->end_bytes = *bytes;
    if (*bytes > column->most_bytes)
        column->most_bytes = *bytes;
    if (*bytes > timeline->peak_bytes) {
        timeline->peak_bytes = *bytes;
        timeline->peak_ns = life->alloc_ns;
    }
    return COMMAND_FINE;
}

static int
timeline_release(void *context, const struct scan_life *life)
{
    struct timeline *timeline = context;
    struct timeline_column *column;

    timeline_advance(timeline, life->free_ns);
    if (timeline_is_chunk(timeline, life)) {
        timeline->held_bytes -= life->size;
        return COMMAND_FINE;
    }
    column = &timeline->columns[timeline->at];
    timeline->live_bytes -= life->size;
    column->frees++;
    column->end_bytes = timeline->live_bytes;
    if (timeline->live_bytes < column->least_bytes)
        column->least_bytes = timeline->live_bytes;
    return COMMAND_FINE;
}

static int
timeline_end(void *context, int64_t last_ns)
{
    struct timeline *timeline = context;

    (void)last_ns;
    timeline_advance(timeline, INT64_MAX);
    return COMMAND_FINE;
}

static const struct scan_unit timeline_unit = {
    .begin = timeline_begin,
    .alloc = timeline_alloc,
    .free = timeline_release,
    .end = timeline_end,
};

/* The most reserved bytes of each column: of the last sample before it and of the samples in it. */
static void
timeline_sample(struct timeline *timeline, const struct samples *samples)
{
    size_t next = 0;
    uint64_t bytes = 0;

    for (size_t i = 0; i < timeline->count; i++) {
        struct timeline_column *column = &timeline->columns[i];

        column->reserved_bytes = bytes;
        for (; next < samples->count && (i + 1 == timeline->count || samples->list[next].ns < column[1].ns); next++) {
            bytes = samples->list[next].reserved_bytes;
            if (bytes > column->reserved_bytes)
                column->reserved_bytes = bytes;
        }
    }
}

/* Count the marks of each column. */
static int
timeline_mark(struct timeline *timeline)
{
    static const char sql[] = "SELECT ns FROM mark WHERE kind = 'mark' ORDER BY ns";
    sqlite3_stmt *statement = NULL;
    size_t at = 0;
    int code;

    if (!trace_has(&timeline->view->trace, "mark", "ns kind"))
        return COMMAND_FINE;
    code = sqlite3_prepare_v2(timeline->view->trace.db, sql, -1, &statement, NULL);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW) {
            int64_t ns = sqlite3_column_int64(statement, 0);

            while (at + 1 < timeline->count && ns >= timeline->columns[at + 1].ns)
                at++;
            if (ns >= timeline->begin_ns && ns <= timeline->end_ns)
                timeline->columns[at].marks++;
        }
    }
    code = sqlite3_finalize(statement);
    return code == SQLITE_OK ? COMMAND_FINE : trace_failed(&timeline->view->trace);
}

/*
 * The time range of the filters. Without an end, it ends with the last event: the recording itself ends later, when the
 * last events are written.
 */
static int
timeline_window(struct timeline *timeline)
{
    const struct filter *filter = &timeline->view->filter;
    int status = COMMAND_FINE;
    uint64_t span;

    timeline->begin_ns = filter->from_ns != INT64_MIN ? filter->from_ns : 0;
    timeline->end_ns = filter->to_ns;
    if (filter->to_ns == INT64_MAX)
        status =
            trace_integer(&timeline->view->trace,
                          "SELECT max(max(alloc_ns, ifnull(free_ns, alloc_ns))) FROM allocation", &timeline->end_ns);
    if (timeline->end_ns <= timeline->begin_ns)
        timeline->end_ns = timeline->begin_ns < INT64_MAX ? timeline->begin_ns + 1 : INT64_MAX;
    span = (uint64_t)timeline->end_ns - (uint64_t)timeline->begin_ns;
    if (timeline->count > span)
        timeline->count = span > 0 ? (size_t)span : 1;
    return status;
}

/* Choose the source of the reserved bytes. The log below also serves allocations that a filter leaves out. */
static int
timeline_source(struct timeline *timeline, struct samples *samples)
{
    struct view *view = timeline->view;
    int status = samples_read(view, samples);

    if (status == COMMAND_FINE && view->filter.needs == 0 && view->filter.min_size == 0)
        status = space_layers_make(view, SPACE_PAGE, &timeline->layers);
    timeline->reserved = timeline->layers.lower.active ? TIMELINE_LAYERS
                         : samples->count > 0          ? TIMELINE_SAMPLES
                                                       : TIMELINE_UNKNOWN;
    return status;
}

int
timeline_make(struct view *view, size_t count, struct timeline *out)
{
    struct scan_pass pass = { &timeline_unit, out };
    struct samples samples = { 0 };
    int status;

    *out = (struct timeline){ .view = view, .count = count < TIMELINE_COLUMNS ? count : TIMELINE_COLUMNS };
    out->columns = calloc(out->count, sizeof(*out->columns));
    out->limit_bytes = view_limit(view);
    status = out->columns != NULL ? timeline_window(out) : trace_broken(&view->trace, "no memory for its timeline");
    if (status == COMMAND_FINE)
        status = timeline_source(out, &samples);
    if (status == COMMAND_FINE)
        status = view_scan(view, &pass, 1);
    if (status == COMMAND_FINE)
        status = timeline_mark(out);
    if (status == COMMAND_FINE && out->reserved == TIMELINE_SAMPLES)
        timeline_sample(out, &samples);
    for (size_t i = 0; status == COMMAND_FINE && i < out->count; i++) {
        if (out->columns[i].reserved_bytes > out->reserved_peak_bytes)
            out->reserved_peak_bytes = out->columns[i].reserved_bytes;
    }
    samples_free(&samples);
    if (status != COMMAND_FINE)
        timeline_free(out);
    return status;
}

void
timeline_free(struct timeline *timeline)
{
    space_layers_free(&timeline->layers);
    free(timeline->columns);
    timeline->columns = NULL;
}
