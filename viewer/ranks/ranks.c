/* What the ranks of a job differ in. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/ranks/growth.h"
#include "viewer/ranks/ranks.h"

static int
ranks_no_memory(const struct ranks *ranks)
{
    return trace_broken(ranks->file, "no memory for its ranks");
}

/* A text of a row, which the caller frees; NULL: there is none, or no memory. */
static char *
ranks_text(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);

    return text != NULL ? strdup(text) : NULL;
}

/* A new item at the end of a list; NULL: no memory. */
#define ranks_add(list, capacity, count) (tidei_grow((list), (capacity), *(count), 1) ? &(*(list))[(*(count))++] : NULL)

/* ---- memories and ranks ------------------------------------------------------------------------------------------ */

static int
ranks_take_memory(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct ranks *ranks = context;
    struct ranks_memory *memory = ranks_add(&ranks->memories, &ranks->memory_capacity, &ranks->memory_count);

    (void)trace;
    if (memory == NULL)
        return ranks_no_memory(ranks);
    *memory = (struct ranks_memory){
        .memory_id = sqlite3_column_int64(row, 0),
        .name = ranks_text(row, 1),
        .is_device = sqlite3_column_int64(row, 2) != 0,
        .ranks = sqlite3_column_int64(row, 3),
        .highest_bytes = sqlite3_column_int64(row, 4),
    };
    return memory->name != NULL ? COMMAND_FINE : ranks_no_memory(ranks);
}

static int
ranks_choose_memory(struct ranks *ranks, const char *name)
{
    int status = trace_each(ranks->file, ranks_take_memory, ranks,
                            "SELECT memory_id, name, max(device IS NOT NULL), count(*), max(peak_bytes)"
                            " FROM memory JOIN rank_memory USING (memory_id) GROUP BY memory_id"
                            " ORDER BY 3 DESC, 5 DESC, 1");

    if (status != COMMAND_FINE)
        return status;
    for (size_t i = 0; i < ranks->memory_count && ranks->memory == NULL; i++) {
        if (name == NULL || strcmp(ranks->memories[i].name, name) == 0)
            ranks->memory = &ranks->memories[i];
    }
    if (ranks->memory != NULL)
        return COMMAND_FINE;
    if (name == NULL)
        return trace_broken(ranks->file, "nothing was allocated on any rank");
    message("%s: there is no memory \"%s\"", ranks->file->path, name);
    for (size_t i = 0; i < ranks->memory_count; i++)
        message("  --memory='%s'", ranks->memories[i].name);
    return COMMAND_WRONG;
}

static int64_t
ranks_integer_or(sqlite3_stmt *row, int column, int64_t missing)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL ? missing : sqlite3_column_int64(row, column);
}

/* A number of the row that is calculated with, not less than `least`. */
static int64_t
ranks_figure(struct ranks *ranks, sqlite3_stmt *row, int column, int64_t least)
{
    int64_t value = sqlite3_column_int64(row, column);

    if (sqlite3_column_type(row, column) == SQLITE_INTEGER && value >= least && value <= RANKS_MOST)
        return value;
    ranks->is_wrong = true;
    return 0;
}

/* Two of them, in order. */
static struct ranks_range
ranks_bounds(struct ranks *ranks, sqlite3_stmt *row, int column)
{
    struct ranks_range range = { ranks_figure(ranks, row, column, 0), ranks_figure(ranks, row, column + 1, 0) };

    ranks->is_wrong = ranks->is_wrong || range.least > range.most;
    return range;
}

static int
ranks_take_rank(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct ranks *ranks = context;
    struct ranks_rank *rank = ranks_add(&ranks->list, &ranks->capacity, &ranks->count);

    if (rank == NULL)
        return ranks_no_memory(ranks);
    *rank = (struct ranks_rank){
        .rank = sqlite3_column_int64(row, 0),
        .path = ranks_text(row, 1),
        .hostname = ranks_text(row, 2),
        .is_complete = sqlite3_column_int64(row, 3) != 0,
        .peak_bytes = ranks_figure(ranks, row, 4, 0),
        .peak_ns = sqlite3_column_int64(row, 5),
        .peak_step = sqlite3_column_int64(row, 6),
        .end_bytes = ranks_figure(ranks, row, 7, 0),
        .reserved_bytes = ranks_integer_or(row, 8, -1),
        .failures = sqlite3_column_int64(row, 9),
        .whole_steps = sqlite3_column_int64(row, 10),
        .first_step = ranks_integer_or(row, 11, 0),
        .last_step = ranks_integer_or(row, 12, 0),
        .grown_bytes = ranks_figure(ranks, row, 13, -RANKS_MOST),
        .rose = sqlite3_column_int64(row, 14),
    };
    return ranks->is_wrong ? job_wrong(trace, "rank_memory", rank->rank) : COMMAND_FINE;
}

/* The rank that is to be explained is not in the list. */
static int
ranks_no_rank(const struct ranks *ranks, int64_t wanted)
{
    int64_t is_there = 0;

    trace_look_up(ranks->file, &is_there, "SELECT 1 FROM rank WHERE rank = %lld", (long long)wanted);
    if (is_there != 0)
        message("%s: rank %" PRId64 " has no memory of the name %s", ranks->file->path, wanted, ranks->memory->name);
    else
        message("%s: there is no rank %" PRId64, ranks->file->path, wanted);
    return COMMAND_WRONG;
}

static int
ranks_read_list(struct ranks *ranks, int64_t wanted)
{
    int status = trace_each(ranks->file, ranks_take_rank, ranks,
                            "SELECT rank.rank, path, hostname, complete, peak_bytes, peak_ns, peak_step,"
                            " live_end_bytes, reserved_peak_bytes, m.failures, whole_steps, first_step, last_step,"
                            " grown_bytes, rose FROM rank_memory AS m JOIN rank USING (rank) WHERE memory_id = %lld"
                            " ORDER BY peak_bytes DESC, rank.rank",
                            (long long)ranks->memory->memory_id);

    if (status != COMMAND_FINE)
        return status;
    if (ranks->count == 0)
        return trace_broken(ranks->file, "nothing was allocated on any rank");
    ranks->highest = ranks->outlier = &ranks->list[0];
    ranks->lowest = &ranks->list[ranks->count - 1];
    /* The lower one in the middle, as median_of; the list goes down. */
    ranks->median = &ranks->list[ranks->count / 2];
    for (size_t i = 0; i < ranks->count && wanted >= 0; i++) {
        if (ranks->list[i].rank == wanted)
            ranks->outlier = &ranks->list[i];
    }
    return wanted < 0 || ranks->outlier->rank == wanted ? COMMAND_FINE : ranks_no_rank(ranks, wanted);
}

/* ---- groups at the peak ------------------------------------------------------------------------------------------ */

static int
ranks_take_group(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct ranks *ranks = context;
    struct ranks_group *group;

    if (sqlite3_column_type(row, 1) == SQLITE_NULL || sqlite3_column_type(row, 2) == SQLITE_NULL)
        return trace_broken(trace, "a group of allocations has no kind or no name");
    group = ranks_add(&ranks->groups, &ranks->group_capacity, &ranks->group_count);
    if (group == NULL)
        return ranks_no_memory(ranks);
    *group = (struct ranks_group){
        .group_id = sqlite3_column_int64(row, 0),
        .kind = ranks_text(row, 1),
        .name = ranks_text(row, 2),
        .bytes = ranks_bounds(ranks, row, 3),
        .median = ranks_bounds(ranks, row, 5),
        .count = sqlite3_column_int64(row, 7),
        .without_bytes = ranks_integer_or(row, 8, -1),
        .unlisted_bytes = ranks_figure(ranks, row, 9, 0),
    };
    if (ranks->is_wrong)
        return job_wrong(trace, "peak_group or group_median", -1);
    return group->kind != NULL && group->name != NULL ? COMMAND_FINE : ranks_no_memory(ranks);
}

/* A figure of a group in one step. */
struct ranks_point {
    int64_t step;
    struct ranks_range bytes;
};

struct ranks_points {
    struct ranks *ranks;      /* borrows */
    struct ranks_point *list; /* owns; in the order of steps; between two the earlier one holds */
    size_t count, capacity;
    struct ranks_range before; /* what holds before the first one */
};

static int
ranks_take_point(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct ranks_points *points = context;
    struct ranks_point *point = ranks_add(&points->list, &points->capacity, &points->count);

    if (point == NULL)
        return trace_broken(trace, "no memory for its steps");
    *point = (struct ranks_point){ sqlite3_column_int64(row, 0), ranks_bounds(points->ranks, row, 1) };
    return points->ranks->is_wrong ? job_wrong(trace, "step_group or group_step_median", -1) : COMMAND_FINE;
}

/* What holds at a step; *at is a place that is not behind it, and is moved there. */
static struct ranks_range
ranks_point_at(const struct ranks_points *points, size_t *at, int64_t step)
{
    while (*at < points->count && points->list[*at].step <= step)
        ++*at;
    return *at > 0 ? points->list[*at - 1].bytes : points->before;
}

/*
 * Since which step the rank has had more of the group than the median: the first one from which on the difference was
 * more than an eighth of what it is in the step of the rank's peak. Where figures are known by bounds, the earliest and
 * the latest that it can be: from the one on it may have been, from the other on it was for certain.
 */
static void
ranks_find_step(const struct ranks *ranks, const struct ranks_points *steps, const struct ranks_points *own,
                const struct ranks_points *median, struct ranks_group *group)
{
    size_t own_at = 0, median_at = 0;
    int64_t last = ranks->outlier->peak_step, sign;
    bool may = false, is_certain = false;
    struct ranks_range excess;

    excess = ranks_difference(ranks_point_at(own, &own_at, last), ranks_point_at(median, &median_at, last));
    if (ranks_certain(excess) == 0)
        return;
    sign = excess.least > 0 ? 1 : -1;
    own_at = median_at = 0;
    for (size_t i = 0; i < steps->count && steps->list[i].step <= last; i++) {
        int64_t step = steps->list[i].step;
        struct ranks_range here =
            ranks_difference(ranks_point_at(own, &own_at, step), ranks_point_at(median, &median_at, step));
        bool was_certain = is_certain, could = may;

        may = step == last ||
              sign * (sign > 0 ? here.most : here.least) > sign * (sign > 0 ? excess.least : excess.most) / 8;
        is_certain = step == last ||
                     sign * (sign > 0 ? here.least : here.most) > sign * (sign > 0 ? excess.most : excess.least) / 8;
        if (may && !could)
            group->step.least = step;
        if (is_certain && !was_certain)
            group->step.most = step;
    }
    group->has_step = is_certain;
}

static int
ranks_find_steps_of(struct ranks *ranks, const struct ranks_points *steps, struct ranks_group *group)
{
    const long long rank = (long long)ranks->outlier->rank, memory = (long long)ranks->memory->memory_id;
    struct ranks_points own = { .ranks = ranks }, median = { .ranks = ranks };
    int status = trace_each(ranks->file, ranks_take_point, &own,
                            "SELECT step, peak_bytes, peak_bytes FROM step_group WHERE rank = %lld AND memory_id ="
                            " %lld AND group_id = %lld ORDER BY step",
                            rank, memory, (long long)group->group_id);

    if (status == COMMAND_FINE)
        status = trace_each(ranks->file, ranks_take_point, &median,
                            "SELECT step, peak_least_bytes, peak_most_bytes FROM group_step_median WHERE memory_id ="
                            " %lld AND group_id = %lld ORDER BY step",
                            memory, (long long)group->group_id);
    if (own.count == 0)
        own.before.most = group->unlisted_bytes;
    if (status == COMMAND_FINE)
        ranks_find_step(ranks, steps, &own, &median, group);
    free(own.list);
    free(median.list);
    return status;
}

static int
ranks_find_steps(struct ranks *ranks)
{
    const long long rank = (long long)ranks->outlier->rank, memory = (long long)ranks->memory->memory_id;
    struct ranks_points steps = { .ranks = ranks };
    int status =
        trace_each(ranks->file, ranks_take_point, &steps,
                   "SELECT step, 0, 0 FROM step WHERE rank = %lld AND memory_id = %lld ORDER BY step", rank, memory);

    /* A single step, that before the first mark, says nothing. */
    for (size_t i = 0; i < ranks->group_count && steps.count > 1 && status == COMMAND_FINE; i++) {
        if (ranks_certain(ranks_group_over(&ranks->groups[i])) != 0)
            status = ranks_find_steps_of(ranks, &steps, &ranks->groups[i]);
    }
    free(steps.list);
    return status;
}

static int
ranks_read_groups(struct ranks *ranks, const char *kind)
{
    static const char *const kinds[] = { "tag", "function", "class" };
    int status = trace_each(
        ranks->file, ranks_take_group, ranks,
        "SELECT m.group_id, g.kind, name, coalesce(p.bytes, 0) AS own, coalesce(p.bytes, c.peak_bytes, 0) AS own_most,"
        " m.least_bytes, m.most_bytes, p.count, p.peak_without_bytes, coalesce(c.step_bytes, 0)"
        " FROM group_median AS m JOIN allocation_group AS g ON g.group_id = m.group_id"
        " LEFT JOIN peak_group AS p ON p.rank = %lld AND p.memory_id = m.memory_id AND p.group_id = m.group_id"
        " LEFT JOIN group_cut AS c ON c.rank = %lld AND c.memory_id = m.memory_id AND c.kind = g.kind"
        " WHERE m.memory_id = %lld AND (own > 0 OR m.least_bytes > 0)"
        " ORDER BY max(own - m.most_bytes, m.least_bytes - own_most, 0) DESC, own DESC, m.group_id",
        (long long)ranks->outlier->rank, (long long)ranks->outlier->rank, (long long)ranks->memory->memory_id);

    if (status != COMMAND_FINE)
        return status;
    ranks->kind = kind;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && ranks->kind == NULL; i++) {
        for (size_t j = 0; j < ranks->group_count && ranks->kind == NULL; j++)
            ranks->kind = strcmp(ranks->groups[j].kind, kinds[i]) == 0 ? kinds[i] : NULL;
    }
    if (ranks->kind == NULL)
        ranks->kind = "class";
    return ranks_find_steps(ranks);
}

/* ---- failures, and what is missing ------------------------------------------------------------------------------- */

static int
ranks_take_failure(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct ranks *ranks = context;
    struct ranks_failure *failure = ranks_add(&ranks->failures, &ranks->failure_capacity, &ranks->failure_count);

    (void)trace;
    if (failure == NULL)
        return ranks_no_memory(ranks);
    *failure = (struct ranks_failure){
        .status = ranks_text(row, 0),
        .cause = ranks_text(row, 1),
        .layer = ranks_text(row, 2),
        .count = sqlite3_column_int64(row, 3),
        .ranks = sqlite3_column_int64(row, 4),
        .rank = sqlite3_column_int64(row, 6),
        .ns = sqlite3_column_int64(row, 7),
        .size = sqlite3_column_int64(row, 8),
        .live_bytes = sqlite3_column_int64(row, 9),
        .tag = ranks_text(row, 10),
        .text = ranks_text(row, 11),
        .memory = ranks_text(row, 12),
    };
    return COMMAND_FINE;
}

static int
ranks_take_left(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct ranks *ranks = context;
    struct ranks_left *left = ranks_add(&ranks->left, &ranks->left_capacity, &ranks->left_count);

    (void)trace;
    if (left == NULL)
        return ranks_no_memory(ranks);
    *left = (struct ranks_left){ ranks_text(row, 0), ranks_text(row, 1) };
    return COMMAND_FINE;
}

/* The failures in one memory, or in all: 0. */
static int
ranks_read_failures(struct ranks *ranks, int64_t memory_id)
{
    /*
     * The bare columns beside min() are those of its row. The first failure is that of the earliest time since 1970. A
     * rank whose start is not known counts as begun with the first of the others.
     */
    int status = trace_each(ranks->file, ranks_take_failure, ranks,
                            "SELECT status, cause, layer, count(*), count(DISTINCT f.rank),"
                            " min(iif(start_unix_ns > 0, start_unix_ns, coalesce((SELECT min(start_unix_ns) FROM rank"
                            " WHERE start_unix_ns > 0), 0)) + ns),"
                            " f.rank, ns, size, live_bytes, tag, text, m.name FROM failure AS f JOIN rank USING (rank)"
                            " LEFT JOIN memory AS m USING (memory_id) WHERE %lld IN (0, memory_id)"
                            " GROUP BY status, cause, layer, memory_id ORDER BY 4 DESC, 6",
                            (long long)memory_id);

    if (status != COMMAND_FINE)
        return status;
    if (memory_id == 0)
        return trace_integer(ranks->file, "SELECT sum(failures) FROM rank", &ranks->failure_total);
    ranks->failure_total = 0;
    for (size_t i = 0; i < ranks->count; i++)
        ranks->failure_total += ranks->list[i].failures;
    return COMMAND_FINE;
}

static int
ranks_read_rest(struct ranks *ranks)
{
    int status = trace_each(ranks->file, ranks_take_left, ranks, "SELECT path, reason FROM left_out ORDER BY rowid");
    int64_t merged = 0;

    if (status == COMMAND_FINE)
        status = trace_integer(ranks->file, "SELECT count(*) FROM rank", &ranks->rank_total);
    if (status == COMMAND_FINE)
        status = trace_integer(ranks->file, "SELECT count(*) FROM rank WHERE NOT complete", &ranks->incomplete);
    if (status == COMMAND_FINE)
        status =
            trace_integer(ranks->file, "SELECT count(*) FROM rank WHERE start_unix_ns <= 0", &ranks->starts_unknown);
    if (status == COMMAND_FINE)
        status = trace_integer(ranks->file, "SELECT coalesce(min(rank), -1) FROM rank WHERE start_unix_ns <= 0",
                               &ranks->first_without_start);
    if (status == COMMAND_FINE)
        status = trace_integer(ranks->file, "SELECT value FROM meta WHERE key = 'complete'", &merged);
    if (status == COMMAND_FINE)
        status = trace_integer(ranks->file, "SELECT value FROM meta WHERE key = 'world_size'", &ranks->world_size);
    if (status == COMMAND_FINE)
        status = trace_integer(ranks->file,
                               "SELECT count(*) FROM rank WHERE rank >="
                               " (SELECT value FROM meta WHERE key = 'world_size' AND value > 0)",
                               &ranks->beyond_count);
    ranks->is_merged = merged == 1;
    ranks->job = trace_meta(ranks->file, "job");
    if (status == COMMAND_FINE &&
        !job_missing(ranks->file->db, ranks->world_size, &ranks->missing, &ranks->missing_count))
        status = ranks_no_memory(ranks);
    return status;
}

int
ranks_make(const struct trace *file, const struct ranks_options *options, struct ranks *out)
{
    int status;

    *out = (struct ranks){ .file = file };
    status = ranks_choose_memory(out, options->memory);
    if (status == COMMAND_FINE)
        status = ranks_read_list(out, options->rank);
    if (status == COMMAND_FINE)
        status = ranks_read_groups(out, options->kind);
    if (status == COMMAND_FINE)
        status = growth_read(out);
    if (status == COMMAND_FINE)
        status = ranks_read_failures(out, options->memory != NULL ? out->memory->memory_id : 0);
    if (status == COMMAND_FINE)
        status = ranks_read_rest(out);
    return status;
}

void
ranks_free(struct ranks *ranks)
{
    for (size_t i = 0; i < ranks->memory_count; i++)
        free(ranks->memories[i].name);
    for (size_t i = 0; i < ranks->count; i++) {
        free(ranks->list[i].path);
        free(ranks->list[i].hostname);
    }
    for (size_t i = 0; i < ranks->group_count; i++) {
        free(ranks->groups[i].kind);
        free(ranks->groups[i].name);
    }
    for (size_t i = 0; i < ranks->growth_count; i++) {
        free(ranks->growths[i].kind);
        free(ranks->growths[i].group);
    }
    for (size_t i = 0; i < ranks->failure_count; i++) {
        free(ranks->failures[i].status);
        free(ranks->failures[i].cause);
        free(ranks->failures[i].layer);
        free(ranks->failures[i].tag);
        free(ranks->failures[i].text);
        free(ranks->failures[i].memory);
    }
    for (size_t i = 0; i < ranks->left_count; i++) {
        free(ranks->left[i].path);
        free(ranks->left[i].reason);
    }
    free(ranks->memories);
    free(ranks->list);
    free(ranks->groups);
    free(ranks->growths);
    free(ranks->failures);
    free(ranks->left);
    free(ranks->job);
    free(ranks->missing);
    *ranks = (struct ranks){ .file = NULL };
}

double
ranks_skew(const struct ranks *ranks)
{
    double median = (double)ranks->median->peak_bytes;

    return median > 0 ? ((double)ranks->highest->peak_bytes - median) / median : 0;
}

bool
ranks_skew_is_endless(const struct ranks *ranks)
{
    return ranks->median->peak_bytes == 0 && ranks->highest->peak_bytes > 0;
}

const char *
ranks_skew_unknown(const struct ranks *ranks, char *buffer, size_t size)
{
    if ((int64_t)ranks->count < ranks->rank_total)
        snprintf(buffer, size, "only %zu of %" PRId64 " ranks have a memory of the name %s", ranks->count,
                 ranks->rank_total, ranks->memory->name);
    else if (ranks_skew_is_endless(ranks))
        snprintf(buffer, size, "the median is 0 B, and rank %" PRId64 " has more in %s", ranks->highest->rank,
                 ranks->memory->name);
    else
        return NULL;
    return buffer;
}
