/* The live and reserved bytes over time, in columns of equal duration. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/timeline.h"

/* Take over what was reserved since the column began, or since the last time. */
static void
timeline_take_reserved(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->part_count; i++) {
        struct timeline_column *column = &timeline->parts[i].columns[timeline->at];
        uint64_t most = timeline->parts[i].group->reserved.most_bytes;

        if (most > column->reserved_bytes)
            column->reserved_bytes = most;
        if (timeline->parts[i].group->rows_most_bytes > column->rows_bytes)
            column->rows_bytes = timeline->parts[i].group->rows_most_bytes;
    }
}

/* Set where the column after the current one begins. */
static void
timeline_look_ahead(struct timeline *timeline)
{
    timeline->next_ns =
        timeline->at + 1 < timeline->count ? timeline->parts[0].columns[timeline->at + 1].ns : INT64_MAX;
}

/* Advance by a column. It begins with the bytes live and reserved at the end of the one before. */
static void
timeline_step(struct timeline *timeline)
{
    reserved_until(&timeline->reserved, timeline->next_ns);
    timeline_take_reserved(timeline);
    reserved_restart(&timeline->reserved);
    timeline->at++;
    for (size_t i = 0; i < timeline->part_count; i++) {
        struct timeline_column *next = &timeline->parts[i].columns[timeline->at];

        next->most_bytes = next->least_bytes = next->end_bytes = timeline->parts[i].group->live_bytes;
    }
    timeline_look_ahead(timeline);
}

/* Advance to the column of `ns`. */
static inline void
timeline_advance(struct timeline *timeline, int64_t ns)
{
    while (ns >= timeline->next_ns && timeline->at + 1 < timeline->count)
        timeline_step(timeline);
}

static int
timeline_begin(void *context)
{
    struct timeline *timeline = context;
    unsigned __int128 span = (uint64_t)timeline->end_ns - (uint64_t)timeline->begin_ns;

    for (size_t i = 0; i < timeline->part_count; i++) {
        struct timeline_column *columns = timeline->parts[i].columns;

        memset(columns, 0, timeline->count * sizeof(*columns));
        for (size_t j = 0; j < timeline->count; j++)
            columns[j].ns = (int64_t)((uint64_t)timeline->begin_ns + (uint64_t)(span * j / timeline->count));
    }
    timeline->at = 0;
    timeline_look_ahead(timeline);
    reserved_begin(&timeline->reserved);
    return COMMAND_FINE;
}

/* The current column of the part of a group; NULL: the life is a chunk, or of no part. */
static struct timeline_column *
timeline_column(const struct timeline *timeline, const struct reserved_group *group)
{
    /* Parts are in the order of the groups; groups that were found later have none. */
    size_t place = group != NULL ? (size_t)(group - timeline->reserved.groups) : SIZE_MAX;

    if (place >= timeline->part_count || timeline->parts[place].group != group)
        return NULL;
    return &timeline->parts[place].columns[timeline->at];
}

/* The sources have changed: of the time before, the chunks alone count, as in the peak. */
static void
timeline_change_sources(struct timeline *timeline)
{
    timeline->plans = timeline->reserved.plans;
    for (size_t i = 0; i < timeline->part_count; i++) {
        for (size_t j = 0; j <= timeline->at; j++)
            timeline->parts[i].columns[j].reserved_bytes = timeline->parts[i].columns[j].rows_bytes;
    }
}

static int
timeline_alloc(void *context, const struct scan_life *life)
{
    struct timeline *timeline = context;
    const struct reserved_group *group;
    struct timeline_column *column;
    uint64_t bytes;
    int status;

    timeline_advance(timeline, life->alloc_ns);
    status = reserved_alloc(&timeline->reserved, life);
    if (timeline->plans != timeline->reserved.plans)
        timeline_change_sources(timeline);
    group = reserved_upper(&timeline->reserved, life->layer_id);
    column = timeline_column(timeline, group);
    if (column == NULL || status != COMMAND_FINE)
        return status;
    if (life->status != 0) {
        column->failures++;
        return COMMAND_FINE;
    }
    bytes = group->live_bytes;
    column->allocations += !life->clipped;
    if (life->clipped) /* it was live when the column began */
        column->least_bytes = bytes;
    column->end_bytes = bytes;
    if (bytes > column->most_bytes)
        column->most_bytes = bytes;
    return COMMAND_FINE;
}

static int
timeline_release(void *context, const struct scan_life *life)
{
    struct timeline *timeline = context;
    const struct reserved_group *group;
    struct timeline_column *column;
    uint64_t bytes;

    timeline_advance(timeline, life->free_ns);
    reserved_release(&timeline->reserved, life);
    group = reserved_upper(&timeline->reserved, life->layer_id);
    column = timeline_column(timeline, group);
    if (column == NULL)
        return COMMAND_FINE;
    bytes = group->live_bytes;
    column->frees++;
    column->end_bytes = bytes;
    if (bytes < column->least_bytes)
        column->least_bytes = bytes;
    return COMMAND_FINE;
}

static int
timeline_end(void *context, int64_t last_ns)
{
    struct timeline *timeline = context;

    (void)last_ns;
    timeline_advance(timeline, INT64_MAX);
    reserved_end(&timeline->reserved);
    timeline_take_reserved(timeline);
    return COMMAND_FINE;
}

/* With rounded sizes, of which the utilisation of chunks is made, and without. */
static const struct scan_unit timeline_units[] = {
    {
        .needs = SCAN_ALIGNMENT,
        .begin = timeline_begin,
        .alloc = timeline_alloc,
        .free = timeline_release,
        .end = timeline_end,
    },
    {
        .begin = timeline_begin,
        .alloc = timeline_alloc,
        .free = timeline_release,
        .end = timeline_end,
    },
};

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

            while (at + 1 < timeline->count && ns >= timeline->parts[0].columns[at + 1].ns)
                at++;
            for (size_t i = 0; i < timeline->part_count && ns >= timeline->begin_ns && ns <= timeline->end_ns; i++)
                timeline->parts[i].columns[at].marks++;
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
timeline_window(struct timeline *timeline, int64_t last_ns)
{
    const struct filter *filter = &timeline->view->filter;
    int status = COMMAND_FINE;
    uint64_t span;

    timeline->begin_ns = filter->from_ns != INT64_MIN ? filter->from_ns : 0;
    timeline->end_ns = filter->to_ns < INT64_MAX ? filter->to_ns : last_ns;
    if (timeline->end_ns == TIMELINE_ASK)
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

/* Make a part of each group with selected logs, or samples. There is one part at least. */
static int
timeline_make_parts(struct timeline *timeline)
{
    struct reserved *reserved = &timeline->reserved;

    timeline->parts = calloc(reserved->group_count + 1, sizeof(*timeline->parts));
    for (size_t i = 0; timeline->parts != NULL && i < reserved->group_count; i++)
        timeline->parts[timeline->part_count++] = (struct timeline_part){
            .group = &reserved->groups[i],
            .limit_bytes = reserved_limit(reserved, &reserved->groups[i]),
        };
    if (timeline->parts != NULL && timeline->part_count == 0)
        timeline->parts[timeline->part_count++] = (struct timeline_part){ .group = &reserved_no_group };
    for (size_t i = 0; i < timeline->part_count; i++) {
        timeline->parts[i].columns = calloc(timeline->count, sizeof(*timeline->parts[i].columns));
        if (timeline->parts[i].columns == NULL)
            return trace_broken(&timeline->view->trace, "no memory for its timeline");
    }
    return timeline->parts != NULL ? COMMAND_FINE : trace_broken(&timeline->view->trace, "no memory for its timeline");
}

int
timeline_make(struct view *view, size_t count, int64_t last_ns, struct timeline *out)
{
    struct scan_pass pass = { NULL, out };
    int status;

    *out = (struct timeline){ .view = view, .count = count < TIMELINE_COLUMNS ? count : TIMELINE_COLUMNS };
    status = reserved_make(view, &out->reserved);
    if (status == COMMAND_FINE)
        status = reserved_select(&out->reserved, view);
    if (status == COMMAND_FINE)
        status = timeline_window(out, last_ns);
    if (status == COMMAND_FINE)
        status = timeline_make_parts(out);
    pass.unit = &timeline_units[status == COMMAND_FINE && !reserved_may_have_chunks(&out->reserved)];
    if (status == COMMAND_FINE)
        status = view_scan(view, &pass, 1);
    if (status == COMMAND_FINE)
        status = timeline_mark(out);
    if (status != COMMAND_FINE)
        timeline_free(out);
    return status;
}

void
timeline_free(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->part_count; i++)
        free(timeline->parts[i].columns);
    free(timeline->parts);
    reserved_free(&timeline->reserved);
    timeline->parts = NULL;
    timeline->part_count = 0;
}
