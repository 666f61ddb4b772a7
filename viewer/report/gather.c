/* Gathers the data of a report in two readings of a trace. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/report/gather.h"

const struct gather_detail gather_details[GATHER_DETAILS] = {
    [GATHER_SMALL] = { "small", 16384, 1024, 256, 512, 256, 30000, 2850000 },
    [GATHER_NORMAL] = { "normal", 65536, 4096, 512, 1024, 1024, 120000, 2850000 },
    [GATHER_FULL] = { "full", 262144, 8192, 1024, 4096, 4096, 800000, 0 },
};

static int
gather_no_memory(const struct gather *gather)
{
    return trace_broken(&gather->view->trace, "no memory for the data of its report");
}

static int
gather_begin(struct gather *gather)
{
    const struct gather_detail *detail = gather->detail;
    struct view *view = gather->view;
    int status;

    anchors_begin(&gather->anchors, detail->lives);
    status = series_begin(&gather->series, &view->names);
    if (status != COMMAND_FINE)
        return status;
    if (!buckets_begin(&gather->time, detail->buckets) || !buckets_begin(&gather->by_event, detail->buckets) ||
        !pages_begin(&gather->pages, detail->map_rows))
        return gather_no_memory(gather);
    return COMMAND_FINE;
}

void
gather_free(struct gather *gather)
{
    for (size_t i = 0; i < gather->mark_count; i++) {
        free(gather->marks[i].kind);
        free(gather->marks[i].text);
    }
    free(gather->marks);
    free(gather->failures);
    peak_free(&gather->peak);
    free(gather->summits);
    free(gather->stamps);
    buckets_free(&gather->time);
    buckets_free(&gather->by_event);
    pages_free(&gather->pages);
    series_free(&gather->series);
    anchors_free(&gather->anchors);
    for (size_t i = 0; i < 2; i++)
        series_board_free(&gather->boards[i]);
    map_free(&gather->map);
}

/* What the first reading does. */

static int
find_begin(void *context)
{
    struct gather *gather = context;

    buckets_clear(&gather->time);
    buckets_clear(&gather->by_event);
    pages_clear(&gather->pages);
    matrix_clear(&gather->matrix);
    series_clear(&gather->series);
    gather->failure_count = gather->failures_count = 0;
    gather->begun = gather->has_peak = false;
    gather->events = gather->allocations = gather->live_bytes = gather->live_count = 0;
    gather->peak_bytes = gather->peak_count = gather->peak_event = 0;
    return COMMAND_FINE;
}

/* Something happens at `ns`. */
static inline void
find_reach(struct gather *gather, int64_t ns)
{
    if (!gather->begun)
        gather->begin_ns = ns;
    gather->begun = true;
    gather->end_ns = ns;
    buckets_go(&gather->time, ns, gather->live_bytes, ns);
}

static int
find_failure(struct gather *gather, const struct scan_life *life)
{
    if (gather->failures_count++ >= GATHER_FAILURES)
        return COMMAND_FINE;
    if (!tidei_grow(&gather->failures, &gather->failure_capacity, gather->failure_count, 1))
        return gather_no_memory(gather);
    gather->failures[gather->failure_count++] = (struct gather_failure){
        .ns = life->alloc_ns,
        .event = gather->events,
        .allocation_id = life->allocation_id,
        .size = life->size,
        .status = life->status,
        .tag_id = life->tag_id,
        .callstack_id = life->callstack_id,
        .thread_id = life->alloc_thread_id,
        .stream_id = life->alloc_stream_id,
        .layer_id = life->layer_id,
    };
    return COMMAND_FINE;
}

static int
find_alloc(void *context, const struct scan_life *life)
{
    struct gather *gather = context;

    find_reach(gather, life->alloc_ns);
    if (life->status != 0)
        return find_failure(gather, life);
    buckets_go(&gather->by_event, (int64_t)gather->events, gather->live_bytes, life->alloc_ns);
    gather->events++;
    gather->allocations++;
    gather->live_bytes += life->size;
    gather->live_count += scan_live_count(life);
    /* It was live when the selected time began: so is the bucket that begins there. */
    if (life->clipped)
        gather->time.least[gather->time.axis.count - 1] = gather->live_bytes;
    buckets_add(&gather->time, gather->live_bytes);
    buckets_add(&gather->by_event, gather->live_bytes);
    if (gather->live_bytes > gather->peak_bytes) {
        gather->has_peak = true;
        gather->peak_bytes = gather->live_bytes;
        gather->peak_count = gather->live_count;
        gather->peak_ns = life->alloc_ns;
        gather->peak_id = life->allocation_id;
        gather->peak_event = gather->events;
    }
    pages_add(&gather->pages, life);
    matrix_alloc(&gather->matrix, life);
    return series_add(&gather->series, life, false) ? COMMAND_FINE : gather_no_memory(gather);
}

static int
find_free(void *context, const struct scan_life *life)
{
    struct gather *gather = context;

    find_reach(gather, life->free_ns);
    buckets_go(&gather->by_event, (int64_t)gather->events, gather->live_bytes, life->free_ns);
    gather->events++;
    gather->live_bytes -= life->size;
    gather->live_count -= scan_live_count(life);
    buckets_add(&gather->time, gather->live_bytes);
    buckets_add(&gather->by_event, gather->live_bytes);
    matrix_free(&gather->matrix, life);
    return series_add(&gather->series, life, true) ? COMMAND_FINE : gather_no_memory(gather);
}

/* Read the marks. */
static int
find_mark(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct gather *gather = context;
    const char *kind = (const char *)sqlite3_column_text(row, 1);
    const char *text = (const char *)sqlite3_column_text(row, 2);
    struct gather_mark *mark;

    (void)trace;
    if (gather->marks_count++ >= GATHER_MARKS)
        return COMMAND_FINE;
    if (!tidei_grow(&gather->marks, &gather->mark_capacity, gather->mark_count, 1))
        return gather_no_memory(gather);
    mark = &gather->marks[gather->mark_count++];
    *mark = (struct gather_mark){
        .ns = sqlite3_column_int64(row, 0),
        .kind = kind != NULL ? strdup(kind) : NULL,
        .text = text != NULL ? strdup(text) : NULL,
    };
    return (kind != NULL && mark->kind == NULL) || (text != NULL && mark->text == NULL) ? gather_no_memory(gather)
                                                                                        : COMMAND_FINE;
}

static int
find_marks(struct gather *gather)
{
    const struct filter *filter = &gather->view->filter;

    if (!trace_has(&gather->view->trace, "mark", "ns kind text"))
        return COMMAND_FINE;
    return trace_each(&gather->view->trace, find_mark, gather,
                      "SELECT ns, kind, text FROM mark WHERE typeof(ns) = 'integer' AND ns BETWEEN %lld AND %lld"
                      " ORDER BY ns, rowid",
                      (long long)filter->from_ns, (long long)filter->to_ns);
}

/* Take over the summits, and count the plateaus, unless these would take another reading. */
static int
find_summits(struct gather *gather)
{
    const struct summits *summits = &gather->peak.summits;
    size_t count = summits->count < GATHER_SUMMITS ? summits->count : GATHER_SUMMITS;
    struct scan_pass pass = { NULL, NULL };
    int status = peak_next(&gather->peak, &pass);

    gather->summits = calloc(count + 1, sizeof(*gather->summits));
    if (status == COMMAND_FINE && gather->summits == NULL)
        status = gather_no_memory(gather);
    for (; status == COMMAND_FINE && gather->summit_count < count; gather->summit_count++) {
        const struct summit *summit = &summits->found[gather->summit_count];

        gather->summits[gather->summit_count] = (struct gather_summit){ .ns = summit->ns,
                                                                        .bytes = summit->bytes,
                                                                        .prominence_bytes = summit->prominence_bytes };
    }
    if (pass.unit == NULL && gather->has_peak)
        gather->plateau_count =
            gather->peak.plateau_count < PEAK_PLATEAUS_MAX ? gather->peak.plateau_count : PEAK_PLATEAUS_MAX;
    return status;
}

/* The first reading. */
static int
gather_find(struct gather *gather)
{
    static const struct scan_unit unit = {
        .needs = SCAN_PLACE | SCAN_ORIGIN | SCAN_CALLER,
        .begin = find_begin,
        .alloc = find_alloc,
        .free = find_free,
    };
    const struct moment at = { .kind = MOMENT_PEAK };
    const struct peak_shares shares = { 0.05, 0.05 }; /* as `tidemark peak` has them */
    struct scan_pass passes[2] = { { &unit, gather }, { NULL, &gather->peak } };
    int status = peak_begin(gather->view, GROUPS_LAYER, &at, &shares, 0, &gather->peak);

    gather->peak.has_no_groups = true;
    if (status == COMMAND_FINE)
        status = peak_next(&gather->peak, &passes[1]);
    if (status == COMMAND_FINE)
        status = find_marks(gather);
    if (status == COMMAND_FINE)
        status = view_scan(gather->view, passes, 2);
    return status == COMMAND_FINE ? find_summits(gather) : status;
}

/* Between the readings. */

/* Choose at most GATHER_INSTANTS of `count` moments, evenly. */
static bool
choose_some(struct gather *gather, size_t count, unsigned why, int64_t (*ns)(const struct gather *gather, size_t place))
{
    size_t wanted = count < GATHER_INSTANTS ? count : GATHER_INSTANTS;
    bool done = true;

    for (size_t i = 0; i < wanted && done; i++)
        done = anchors_add(&gather->anchors, ns(gather, i * count / wanted), why);
    return done;
}

static int64_t
choose_summit(const struct gather *gather, size_t place)
{
    return gather->summits[place].ns;
}

static int64_t
choose_plateau(const struct gather *gather, size_t place)
{
    const struct peak_plateau *plateau = &gather->peak.plateaus[place / 2];

    return place % 2 == 0 ? plateau->begin_ns : plateau->end_ns;
}

static int64_t
choose_failure(const struct gather *gather, size_t place)
{
    return gather->failures[place].ns;
}

static int64_t
choose_mark(const struct gather *gather, size_t place)
{
    return gather->marks[place].ns;
}

/* What is left of the instants is spread evenly over the events. */
static bool
choose_spread(struct gather *gather)
{
    size_t buckets = gather->by_event.axis.count, most = gather->detail->anchors;
    size_t wanted;
    bool done = true;

    anchors_sort(&gather->anchors);
    wanted = gather->anchors.count < most ? most - gather->anchors.count : 0;
    wanted = wanted < buckets ? wanted : buckets;
    for (size_t i = 0; i < wanted && done; i++)
        done = anchors_add(&gather->anchors, gather->by_event.ns[i * buckets / wanted], ANCHOR_SPREAD);
    anchors_sort(&gather->anchors);
    return done;
}

static int
choose_compare_stamps(const void *a, const void *b)
{
    const struct gather_stamp *one = a;
    const struct gather_stamp *other = b;

    return (one->ns > other->ns) - (one->ns < other->ns);
}

/* The moments of summits and marks, whose positions among the events the second reading finds. */
static bool
choose_stamps(struct gather *gather)
{
    size_t count = gather->summit_count + gather->mark_count;

    gather->stamps = calloc(count + 1, sizeof(*gather->stamps));
    if (gather->stamps == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        gather->stamps[i].ns =
            i < gather->summit_count ? gather->summits[i].ns : gather->marks[i - gather->summit_count].ns;
    qsort(gather->stamps, count, sizeof(*gather->stamps), choose_compare_stamps);
    gather->stamp_count = count;
    return true;
}

/* Choose the instants, and make room for the second reading. */
static int
gather_choose(struct gather *gather)
{
    const struct gather_detail *detail = gather->detail;
    uint64_t last_event = gather->events > 0 ? gather->events - 1 : 0;
    bool done = true;

    if (!gather->begun)
        return choose_stamps(gather) ? COMMAND_FINE : gather_no_memory(gather);
    gather->series_time = axis_make(gather->begin_ns, gather->end_ns, detail->series_buckets);
    gather->series_event = axis_make(0, (int64_t)last_event, detail->series_buckets);
    gather->map_time = axis_make(gather->begin_ns, gather->end_ns, detail->map_buckets);
    gather->map_event = axis_make(0, (int64_t)last_event, detail->map_buckets);
    if (gather->has_peak)
        done = anchors_add(&gather->anchors, gather->peak_ns, ANCHOR_PEAK);
    done = done && anchors_add(&gather->anchors, gather->end_ns, ANCHOR_END) &&
           choose_some(gather, gather->summit_count, ANCHOR_SUMMIT, choose_summit) &&
           choose_some(gather, 2 * gather->plateau_count, ANCHOR_PLATEAU, choose_plateau) &&
           choose_some(gather, gather->failure_count, ANCHOR_FAILURE, choose_failure) &&
           choose_some(gather, gather->mark_count, ANCHOR_MARK, choose_mark) && choose_spread(gather) &&
           choose_stamps(gather) && series_rank(&gather->series) &&
           series_board_begin(&gather->boards[0], &gather->series, &gather->series_time) &&
           series_board_begin(&gather->boards[1], &gather->series, &gather->series_event) &&
           map_begin(&gather->map, &gather->pages, &gather->map_time, &gather->map_event);
    return done ? COMMAND_FINE : gather_no_memory(gather);
}

/* What the second reading does. */

static int
look_begin(void *context)
{
    struct gather *gather = context;

    gather->live_bytes = gather->live_count = 0;
    gather->stamped = 0;
    map_clear(&gather->map);
    series_clear_sums(&gather->series);
    anchors_clear(&gather->anchors);
    for (size_t i = 0; i < 2; i++)
        series_board_clear(&gather->boards[i]);
    return COMMAND_FINE;
}

/* Before an event, or a failure, which `events` events precede. */
static void
look_reach(struct gather *gather, int64_t ns, bool is_free, uint64_t events)
{
    while (gather->stamped < gather->stamp_count &&
           (gather->stamps[gather->stamped].ns < ns || (is_free && gather->stamps[gather->stamped].ns == ns)))
        gather->stamps[gather->stamped++].event = events;
    anchors_pass(&gather->anchors, ns, is_free, events, gather->live_bytes, gather->live_count);
    series_board_go(&gather->boards[0], ns, gather->live_bytes);
    map_go(&gather->map, &gather->map.boards[0], ns);
}

static int
look_alloc(void *context, const struct scan_life *life)
{
    struct gather *gather = context;

    look_reach(gather, life->alloc_ns, false, life->event);
    if (life->status != 0)
        return COMMAND_FINE;
    series_board_go(&gather->boards[1], (int64_t)life->event, gather->live_bytes);
    map_go(&gather->map, &gather->map.boards[1], (int64_t)life->event);
    gather->live_bytes += life->size;
    gather->live_count += scan_live_count(life);
    series_sum(&gather->series, life, false);
    for (size_t i = 0; i < 2; i++)
        series_board_rose(&gather->boards[i], gather->live_bytes);
    map_add(&gather->map, life, false);
    return COMMAND_FINE;
}

static int
look_free(void *context, const struct scan_life *life)
{
    struct gather *gather = context;
    uint64_t event = scan_events(gather->scan) - 1; /* this one is counted */

    look_reach(gather, life->free_ns, true, event);
    series_board_go(&gather->boards[1], (int64_t)event, gather->live_bytes);
    map_go(&gather->map, &gather->map.boards[1], (int64_t)event);
    for (size_t i = 0; i < 2; i++)
        series_board_falls(&gather->boards[i]);
    gather->live_bytes -= life->size;
    gather->live_count -= scan_live_count(life);
    series_sum(&gather->series, life, true);
    map_add(&gather->map, life, true);
    anchors_keep(&gather->anchors, life);
    return gather->anchors.failed ? gather_no_memory(gather) : COMMAND_FINE;
}

static void
look_live(void *context, const struct scan_life *life)
{
    struct gather *gather = context;

    anchors_keep(&gather->anchors, life);
}

static int
look_end(void *context, int64_t last_ns)
{
    struct gather *gather = context;
    uint64_t events = scan_events(gather->scan);

    (void)last_ns;
    look_reach(gather, gather->end_ns, false, events);
    while (gather->stamped < gather->stamp_count)
        gather->stamps[gather->stamped++].event = events;
    anchors_pass(&gather->anchors, INT64_MAX, true, events, gather->live_bytes, gather->live_count);
    scan_each_live(gather->scan, look_live, gather);
    for (size_t i = 0; i < 2; i++)
        series_board_end(&gather->boards[i]);
    map_end(&gather->map);
    anchors_end(&gather->anchors);
    return gather->anchors.failed ? gather_no_memory(gather) : COMMAND_FINE;
}

/* The position of a moment; the stamps have it. */
static uint64_t
look_event(const struct gather *gather, int64_t ns)
{
    size_t from = 0, to = gather->stamp_count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (gather->stamps[middle].ns < ns)
            from = middle + 1;
        else
            to = middle;
    }
    return from < gather->stamp_count ? gather->stamps[from].event : 0;
}

/* The second reading. */
static int
gather_look(struct gather *gather)
{
    static const struct scan_unit unit = {
        .needs = SCAN_PLACE | SCAN_ORIGIN | SCAN_CALLER | SCAN_LIVE,
        .begin = look_begin,
        .alloc = look_alloc,
        .free = look_free,
        .attach = true,
        .end = look_end,
    };
    const struct scan_pass pass = { &unit, gather };
    int status = gather->begun ? view_scan(gather->view, &pass, 1) : COMMAND_FINE;

    for (size_t i = 0; i < gather->summit_count; i++)
        gather->summits[i].event = look_event(gather, gather->summits[i].ns);
    for (size_t i = 0; i < gather->mark_count; i++)
        gather->marks[i].event = look_event(gather, gather->marks[i].ns);
    return status;
}

int
gather_make(struct gather *gather, struct view *view, const struct gather_detail *detail)
{
    int status;

    memset(gather, 0, sizeof(*gather));
    gather->view = view;
    gather->detail = detail;
    status = gather_begin(gather);
    if (status == COMMAND_FINE)
        status = gather_find(gather);
    if (status == COMMAND_FINE)
        status = gather_choose(gather);
    if (status == COMMAND_FINE)
        status = gather_look(gather);
    return status;
}
