/*
 * Which ranks of a job grow more than the median.
 *
 * What a rank has at the end of a step can only be compared with what others have at that moment. A rank that marks
 * fewer steps is then in the middle of one of its own. So a rank is compared at the ends of those steps that end for
 * most of the ranks, and where these are too few, whether it grows more than the others is not known.
 */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/ranks/growth.h"
#include "viewer/ranks/median.h"

/* The fewest ends of steps at which a rank can be compared: of three steps it has to rise in each. */
#define GROWTH_ENDS 4

/* The end of a step that any rank has. */
struct growth_end {
    int64_t step;
    int64_t median_bytes;
    bool is_common; /* a step of most of the ranks ends there */
};

struct growth {
    struct ranks *ranks;     /* borrows */
    struct growth_end *ends; /* owns; in the order of steps */
    size_t end_count, end_capacity;
    int64_t *values; /* owns; room for one of each rank */
    size_t value_count;
    bool all_alike;                     /* all ranks have the same steps */
    int64_t usual_bytes;                /* the median of what the ranks have grown by, each in its own steps */
    const struct growth_end *from, *to; /* the next one is known between these */
    int64_t median_bytes;
};

/* A rank from one of its steps to the next. */
struct growth_course {
    struct growth *growth; /* borrows */
    const struct ranks_rank *rank;
    size_t place; /* of the first end that is not before the step which is read */
    int64_t step, end_bytes;
    bool has_step;
    size_t steps; /* which have been read */
    size_t ends, first_steps, last_steps;
    const struct growth_end *first, *last; /* at which it was compared */
    int64_t first_step, first_bytes, last_step, last_bytes, excess;
    int64_t rises, falls; /* it came further above the median, or less far, than at the one before */
};

static int
growth_no_memory(const struct growth *growth)
{
    return trace_broken(growth->ranks->file, "no memory for its growth");
}

static bool
growth_is_size(sqlite3_stmt *row, int column)
{
    int64_t value = sqlite3_column_int64(row, column);

    return sqlite3_column_type(row, column) == SQLITE_INTEGER && value >= 0 && value <= RANKS_MOST;
}

/* ---- one rank ---------------------------------------------------------------------------------------------------- */

/* A step of the rank has ended, before the end at `place`. */
static void
growth_compare(struct growth_course *course)
{
    const struct growth_end *end = course->place > 0 ? &course->growth->ends[course->place - 1] : NULL;
    int64_t excess;

    course->steps++;
    if (end == NULL || !end->is_common)
        return;
    excess = course->end_bytes - end->median_bytes;
    if (course->ends == 0) {
        course->first = end;
        course->first_step = course->step;
        course->first_bytes = course->end_bytes;
        course->first_steps = course->steps;
    } else {
        course->rises += excess > course->excess;
        course->falls += excess < course->excess;
    }
    course->ends++;
    course->last = end;
    course->last_step = course->step;
    course->last_bytes = course->end_bytes;
    course->last_steps = course->steps;
    course->excess = excess;
}

/* Look at the step before, if it is a whole one: it ends where the step `next` begins. */
static void
growth_end_step(struct growth_course *course, int64_t next)
{
    const struct growth *growth = course->growth;

    while (course->place < growth->end_count && growth->ends[course->place].step < next)
        course->place++;
    if (course->has_step && course->step <= course->rank->last_step)
        growth_compare(course);
}

static int
growth_take_step(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct growth_course *course = context;

    if (!growth_is_size(row, 1))
        return job_wrong(trace, "step", course->rank->rank);
    growth_end_step(course, sqlite3_column_int64(row, 0));
    course->step = sqlite3_column_int64(row, 0);
    course->end_bytes = sqlite3_column_int64(row, 1);
    course->has_step = true;
    return COMMAND_FINE;
}

static int
growth_take_value(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct growth *growth = context;

    (void)trace;
    if (growth->value_count < growth->ranks->count)
        growth->values[growth->value_count++] = sqlite3_column_int64(row, 0);
    return COMMAND_FINE;
}

/* The first step of those ranks whose steps end here; the last one has no next, but they have that one. */
static long long
growth_next_step(const struct growth *growth, const struct growth_end *end)
{
    return (long long)(end + 1 < growth->ends + growth->end_count ? end[1].step : end->step);
}

/* Find what the median grows by from one end to another, of the ranks whose steps end at both. */
static int
growth_find_median(struct growth *growth, const struct growth_end *from, const struct growth_end *to)
{
    const long long memory = (long long)growth->ranks->memory->memory_id;
    int status;

    if (growth->from == from && growth->to == to)
        return COMMAND_FINE;
    growth->value_count = 0;
    status = trace_each(growth->ranks->file, growth_take_value, growth,
                        "SELECT (SELECT end_bytes FROM step AS s WHERE s.rank = r.rank AND s.memory_id = r.memory_id"
                        " AND step <= %lld ORDER BY step DESC LIMIT 1) - (SELECT end_bytes FROM step AS s WHERE"
                        " s.rank = r.rank AND s.memory_id = r.memory_id AND step <= %lld ORDER BY step DESC LIMIT 1)"
                        " AS grown FROM rank_memory AS r WHERE memory_id = %lld AND grown IS NOT NULL AND"
                        " EXISTS (SELECT 1 FROM step AS s WHERE s.rank = r.rank AND s.memory_id = r.memory_id AND"
                        " step = %lld) AND EXISTS (SELECT 1 FROM step AS s WHERE s.rank = r.rank AND"
                        " s.memory_id = r.memory_id AND step = %lld)",
                        (long long)to->step, (long long)from->step, memory, growth_next_step(growth, from),
                        growth_next_step(growth, to));
    growth->from = from;
    growth->to = to;
    growth->median_bytes = median_of(growth->values, growth->value_count);
    return status;
}

static int
growth_take_group(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct ranks_growth *found = context;
    const char *kind = (const char *)sqlite3_column_text(row, 0), *name = (const char *)sqlite3_column_text(row, 1);

    (void)trace;
    found->kind = kind != NULL ? strdup(kind) : NULL;
    found->group = name != NULL ? strdup(name) : NULL;
    found->group_more = (struct ranks_range){ sqlite3_column_int64(row, 2), sqlite3_column_int64(row, 3) };
    return COMMAND_FINE;
}

/* Find the group in which a rank grows most beyond the median, for certain. */
static int
growth_find_group(struct ranks *ranks, const struct growth_course *course, struct ranks_growth *found)
{
    const long long memory = (long long)ranks->memory->memory_id, id = (long long)course->rank->rank;
    const long long first = (long long)course->first_step, last = (long long)course->last_step;
    const long long first_end = (long long)course->first->step, last_end = (long long)course->last->step;

    return trace_each(
        ranks->file, growth_take_group, found,
        "WITH own AS (SELECT group_id, kind, name,"
        " coalesce((SELECT end_bytes FROM step_group AS s WHERE s.rank = %lld AND s.memory_id = %lld AND"
        " s.group_id = g.group_id AND s.step <= %lld ORDER BY s.step DESC LIMIT 1), 0) -"
        " coalesce((SELECT end_bytes FROM step_group AS s WHERE s.rank = %lld AND s.memory_id = %lld AND"
        " s.group_id = g.group_id AND s.step <= %lld ORDER BY s.step DESC LIMIT 1), 0) AS grown,"
        " (SELECT step FROM group_step_median AS s WHERE s.memory_id = %lld AND s.group_id = g.group_id AND"
        " s.step <= %lld ORDER BY s.step DESC LIMIT 1) AS last,"
        " (SELECT step FROM group_step_median AS s WHERE s.memory_id = %lld AND s.group_id = g.group_id AND"
        " s.step <= %lld ORDER BY s.step DESC LIMIT 1) AS first"
        " FROM allocation_group AS g WHERE kind = %Q AND (EXISTS (SELECT 1 FROM step_group AS s WHERE s.rank = %lld AND"
        " s.memory_id = %lld AND s.group_id = g.group_id) OR NOT EXISTS (SELECT 1 FROM group_cut AS c WHERE"
        " c.rank = %lld AND c.memory_id = %lld AND c.kind = g.kind AND step_bytes > 0)))"
        " SELECT o.kind, name, grown - coalesce(l.end_most_bytes, 0) + coalesce(f.end_least_bytes, 0) AS least,"
        " grown - coalesce(l.end_least_bytes, 0) + coalesce(f.end_most_bytes, 0) FROM own AS o"
        " LEFT JOIN group_step_median AS l ON l.memory_id = %lld AND l.group_id = o.group_id AND l.step = last"
        " LEFT JOIN group_step_median AS f ON f.memory_id = %lld AND f.group_id = o.group_id AND f.step = first"
        " WHERE least > 0 ORDER BY least DESC, o.group_id LIMIT 1",
        id, memory, last, id, memory, first, memory, last_end, memory, first_end, ranks->kind, id, memory, id, memory,
        memory, memory);
}

/* Whether the rank is compared at four ends at least, and over the half of its whole steps. */
static bool
growth_is_known(const struct growth_course *course)
{
    return course->ends >= GROWTH_ENDS && 2 * (course->last_steps - course->first_steps) >= course->steps - 1;
}

/* Keep the rank if it goes away from the median from step to step: what all have in common, as noise, is no growth. */
static int
growth_look_at(struct growth *growth, const struct ranks_rank *rank)
{
    struct ranks *ranks = growth->ranks;
    struct growth_course course = { .growth = growth, .rank = rank };
    struct ranks_growth *found;
    int status = trace_each(ranks->file, growth_take_step, &course,
                            "SELECT step, end_bytes FROM step WHERE rank = %lld AND memory_id = %lld AND step >= %lld"
                            " ORDER BY step",
                            (long long)rank->rank, (long long)ranks->memory->memory_id, (long long)rank->first_step);

    if (status != COMMAND_FINE)
        return status;
    growth_end_step(&course, INT64_MAX);
    if (!growth_is_known(&course)) {
        if (ranks->growth_unknown++ == 0 || rank->rank < ranks->first_growth_unknown)
            ranks->first_growth_unknown = rank->rank;
        return COMMAND_FINE;
    }
    if (course.rises <= 2 || course.rises < 3 * course.falls)
        return COMMAND_FINE;
    status = growth_find_median(growth, course.first, course.last);
    if (status != COMMAND_FINE || course.last_bytes <= course.first_bytes ||
        course.last_bytes - course.first_bytes <= growth->median_bytes)
        return status;
    if (!tidei_grow(&ranks->growths, &ranks->growth_capacity, ranks->growth_count, 1))
        return growth_no_memory(growth);
    found = &ranks->growths[ranks->growth_count++];
    *found = (struct ranks_growth){
        .rank = rank,
        .first_step = course.first_step,
        .last_step = course.last_step,
        .grown_bytes = course.last_bytes - course.first_bytes,
        .median_bytes = growth->median_bytes,
        .rises = course.rises,
    };
    return growth_find_group(ranks, &course, found);
}

/* ---- all ranks --------------------------------------------------------------------------------------------------- */

static int
growth_take_end(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct growth *growth = context;
    int64_t ended = sqlite3_column_int64(row, 2), ranks = (int64_t)growth->ranks->count;

    if (!growth_is_size(row, 1) || ended < 0 || ended > INT32_MAX)
        return job_wrong(trace, "step_median", -1);
    if (!tidei_grow(&growth->ends, &growth->end_capacity, growth->end_count, 1))
        return growth_no_memory(growth);
    growth->ends[growth->end_count++] = (struct growth_end){
        .step = sqlite3_column_int64(row, 0),
        .median_bytes = sqlite3_column_int64(row, 1),
        .is_common = 2 * ended > ranks,
    };
    growth->all_alike = growth->all_alike && ended == ranks;
    return COMMAND_FINE;
}

static int
growth_begin(struct growth *growth)
{
    struct ranks *ranks = growth->ranks;

    growth->all_alike = true;
    growth->values = calloc(ranks->count, sizeof(*growth->values));
    if (growth->values == NULL)
        return growth_no_memory(growth);
    for (size_t i = 0; i < ranks->count; i++)
        growth->values[i] = ranks->list[i].grown_bytes;
    growth->usual_bytes = median_of(growth->values, ranks->count);
    return trace_each(ranks->file, growth_take_end, growth,
                      "SELECT step, ended_bytes, ended_ranks FROM step_median WHERE memory_id = %lld ORDER BY step",
                      (long long)ranks->memory->memory_id);
}

static int
growth_compare_ranks(const void *left, const void *right)
{
    const struct ranks_rank *a = *(const struct ranks_rank *const *)left, *b = *(const struct ranks_rank *const *)right;

    return a->grown_bytes != b->grown_bytes ? (a->grown_bytes < b->grown_bytes) - (a->grown_bytes > b->grown_bytes)
                                            : (a->rank > b->rank) - (a->rank < b->rank);
}

static int
growth_compare_found(const void *left, const void *right)
{
    const struct ranks_growth *a = left, *b = right;
    int64_t more_a = a->grown_bytes - a->median_bytes, more_b = b->grown_bytes - b->median_bytes;

    return more_a != more_b ? (more_a < more_b) - (more_a > more_b)
                            : (a->rank->rank > b->rank->rank) - (a->rank->rank < b->rank->rank);
}

/* The ranks that may grow more than the median, in `list`, which has room for all. Their number. */
static size_t
growth_candidates(const struct growth *growth, const struct ranks_rank **list)
{
    const struct ranks *ranks = growth->ranks;
    size_t count = 0;

    for (size_t i = 0; i < ranks->count; i++) {
        const struct ranks_rank *rank = &ranks->list[i];

        if (rank->whole_steps >= GROWTH_ENDS && rank->grown_bytes > 0 &&
            (!growth->all_alike || rank->grown_bytes > growth->usual_bytes))
            list[count++] = rank;
    }
    if (count > 0)
        qsort(list, count, sizeof(*list), growth_compare_ranks);
    return count;
}

int
growth_read(struct ranks *ranks)
{
    struct growth growth = { .ranks = ranks };
    const struct ranks_rank **list = calloc(ranks->count, sizeof(*list));
    int status = list != NULL ? growth_begin(&growth) : growth_no_memory(&growth);
    size_t count = status == COMMAND_FINE ? growth_candidates(&growth, list) : 0;

    /* Where all have the same steps, the order of these ranks is that of what they have grown by. */
    for (size_t i = 0; i < count && status == COMMAND_FINE; i++) {
        if (growth.all_alike && ranks->growth_count >= RANKS_GROWTHS)
            break;
        status = growth_look_at(&growth, list[i]);
    }
    if (ranks->growth_count > 0)
        qsort(ranks->growths, ranks->growth_count, sizeof(*ranks->growths), growth_compare_found);
    while (ranks->growth_count > RANKS_GROWTHS) {
        ranks->growth_count--;
        free(ranks->growths[ranks->growth_count].kind);
        free(ranks->growths[ranks->growth_count].group);
    }
    free(list);
    free(growth.ends);
    free(growth.values);
    return status;
}
