/* What the median of all ranks of a job has. */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/ranks/median.h"

static void
median_swap(int64_t *a, int64_t *b)
{
    int64_t value = *a;

    *a = *b;
    *b = value;
}

/* Hoare's selection: a sort of 1,024 values takes ten times as long. */
int64_t
median_of(int64_t *values, size_t count)
{
    size_t low = 0, high = count - 1, wanted = count > 0 ? (count - 1) / 2 : 0;

    while (count > 0 && low < high) {
        int64_t pivot = values[low + (high - low) / 2];
        size_t i = low, j = high;

        while (true) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i >= j)
                break;
            median_swap(&values[i++], &values[j--]);
        }
        /* Up to j no value is above the pivot; where i has met j, that one is the pivot. */
        if (wanted <= j)
            high = j;
        else
            low = j + 1;
    }
    return count > 0 ? values[wanted] : 0;
}

/* The ranks that have a memory, with what each has of one group at the step that is looked at. */
struct median_rank {
    int64_t rank;
    int64_t first, last; /* its steps */
    int64_t peak_bytes, end_bytes;
    int64_t next_peak_bytes, next_end_bytes; /* in the next step that any has */
    bool has_next;                           /* the rank has that one, and so its own ends before it */
    int64_t unlisted_bytes; /* the file does not list the group: the rank has at most this much of it */
};

/* The least and the most that a median can be, as what some ranks have is known only by a bound. */
struct median_ends {
    int64_t least, most;
};

struct median {
    struct job *job;
    int64_t memory_id;
    struct median_rank *ranks; /* owns; by rank */
    size_t count, capacity;
    int64_t *steps; /* owns; the steps that any has, in order */
    bool *changes;  /* owns; other ranks have the step than the one before */
    size_t step_count, step_capacity, changes_capacity;
    int64_t *peaks, *ends;           /* owns; room for a value of each rank */
    int64_t *most_peaks, *most_ends; /* likewise: the most that they can be */
};

static int
median_no_memory(const struct median *median)
{
    message("%s: no memory for its medians", median->job->path);
    return COMMAND_WRONG;
}

static void
median_free(struct median *median)
{
    free(median->ranks);
    free(median->steps);
    free(median->changes);
    free(median->peaks);
    free(median->ends);
    free(median->most_peaks);
    free(median->most_ends);
}

/* A query on the file; NULL after a message. */
static sqlite3_stmt *
median_query(struct median *median, const char *sql, int64_t group_id)
{
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(median->job->db, sql, -1, &statement, NULL) != SQLITE_OK) {
        job_failed(median->job);
        return NULL;
    }
    sqlite3_bind_int64(statement, 1, median->memory_id);
    sqlite3_bind_int64(statement, 2, group_id);
    return statement;
}

/* The end of a query: COMMAND_FINE, or COMMAND_WRONG after a message. */
static int
median_end(struct median *median, sqlite3_stmt *statement, int code, int status)
{
    if (status == COMMAND_FINE && code != SQLITE_DONE)
        status = job_failed(median->job);
    sqlite3_finalize(statement);
    return status;
}

static int
median_read_ranks(struct median *median)
{
    sqlite3_stmt *statement = median_query(median,
                                           "SELECT rank, coalesce((SELECT min(step) FROM step WHERE rank = r.rank AND"
                                           " memory_id = ?1), 1), coalesce((SELECT max(step) FROM step WHERE"
                                           " rank = r.rank AND memory_id = ?1), 0) FROM rank_memory AS r"
                                           " WHERE memory_id = ?1 ORDER BY rank",
                                           0);
    int code = SQLITE_ROW, status = COMMAND_FINE;

    if (statement == NULL)
        return COMMAND_WRONG;
    while (status == COMMAND_FINE && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (!tidei_grow(&median->ranks, &median->capacity, median->count, 1))
            status = median_no_memory(median);
        else
            median->ranks[median->count++] = (struct median_rank){
                .rank = sqlite3_column_int64(statement, 0),
                .first = sqlite3_column_int64(statement, 1),
                .last = sqlite3_column_int64(statement, 2),
            };
    }
    status = median_end(median, statement, code, status);
    median->peaks = calloc(median->count + 1, sizeof(*median->peaks));
    median->ends = calloc(median->count + 1, sizeof(*median->ends));
    median->most_peaks = calloc(median->count + 1, sizeof(*median->most_peaks));
    median->most_ends = calloc(median->count + 1, sizeof(*median->most_ends));
    if (status == COMMAND_FINE &&
        (median->peaks == NULL || median->ends == NULL || median->most_peaks == NULL || median->most_ends == NULL))
        status = median_no_memory(median);
    return status;
}

/* In a step that a rank does not mark, it is still in the one before. */
static bool
median_has_step(const struct median_rank *rank, int64_t step)
{
    return rank->first <= step && step <= rank->last;
}

static int
median_compare_rank(const void *number, const void *rank)
{
    int64_t one = *(const int64_t *)number, other = ((const struct median_rank *)rank)->rank;

    return one < other ? -1 : one > other;
}

static struct median_rank *
median_find_rank(struct median *median, int64_t rank)
{
    return median->count > 0
               ? bsearch(&rank, median->ranks, median->count, sizeof(median->ranks[0]), median_compare_rank)
               : NULL;
}

/* Keep the medians of a step. The rows of the next one are read; `is_last`: there is none. */
static int
median_add_step(struct median *median, int64_t step, bool is_last)
{
    size_t count = 0, ended = 0;
    bool changes = median->step_count == 0;

    if (!tidei_grow(&median->steps, &median->step_capacity, median->step_count, 1) ||
        !tidei_grow(&median->changes, &median->changes_capacity, median->step_count, 1))
        return median_no_memory(median);
    for (size_t i = 0; i < median->count; i++) {
        const struct median_rank *rank = &median->ranks[i];

        changes =
            changes || median_has_step(rank, step) != median_has_step(rank, median->steps[median->step_count - 1]);
        if (median_has_step(rank, step)) {
            median->peaks[count] = rank->peak_bytes;
            median->ends[count++] = rank->end_bytes;
            if (rank->has_next || (is_last && rank->last == step))
                median->most_ends[ended++] = rank->end_bytes;
        }
    }
    median->steps[median->step_count] = step;
    median->changes[median->step_count++] = changes;
    return job_insert(median->job, step_median, TIDEI_NUMBER(median->memory_id), TIDEI_NUMBER(step),
                      TIDEI_NUMBER(count), TIDEI_NUMBER(median_of(median->peaks, count)),
                      TIDEI_NUMBER(median_of(median->ends, count)), TIDEI_NUMBER(ended),
                      TIDEI_NUMBER(median_of(median->most_ends, ended)));
}

/* The rows of the next step are read, after those of `step`, if there is any: NULL. */
static int
median_go_on(struct median *median, const int64_t *step)
{
    int status = step != NULL ? median_add_step(median, *step, false) : COMMAND_FINE;

    for (size_t i = 0; i < median->count; i++) {
        struct median_rank *rank = &median->ranks[i];

        if (rank->has_next) {
            rank->peak_bytes = rank->next_peak_bytes;
            rank->end_bytes = rank->next_end_bytes;
        }
        rank->has_next = false;
    }
    return status;
}

/* A step is kept once the rows of the next one are read, which say whose step ends there. */
static int
median_fill_steps(struct median *median)
{
    sqlite3_stmt *statement = median_query(
        median, "SELECT step, rank, peak_bytes, end_bytes FROM step WHERE memory_id = ?1 ORDER BY step, rank", 0);
    int code = SQLITE_ROW, status = COMMAND_FINE;
    int64_t step = 0, next = 0;
    bool has_step = false, has_next = false;

    if (statement == NULL)
        return COMMAND_WRONG;
    while (status == COMMAND_FINE && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct median_rank *rank = median_find_rank(median, sqlite3_column_int64(statement, 1));

        if (has_next && sqlite3_column_int64(statement, 0) != next) {
            status = median_go_on(median, has_step ? &step : NULL);
            step = next;
            has_step = true;
        }
        next = sqlite3_column_int64(statement, 0);
        has_next = true;
        if (rank == NULL)
            continue;
        rank->next_peak_bytes = sqlite3_column_int64(statement, 2);
        rank->next_end_bytes = sqlite3_column_int64(statement, 3);
        rank->has_next = true;
    }
    status = median_end(median, statement, code, status);
    if (status == COMMAND_FINE && has_next)
        status = median_go_on(median, has_step ? &step : NULL);
    return status == COMMAND_FINE && has_next ? median_add_step(median, next, true) : status;
}

/* Find the ranks that do not list a group and may have some of it: `sql` names them, each with the most it can be. */
static int
median_find_unlisted(struct median *median, const char *sql, int64_t group_id)
{
    sqlite3_stmt *statement = median_query(median, sql, group_id);
    int code = SQLITE_DONE;

    for (size_t i = 0; i < median->count; i++)
        median->ranks[i].unlisted_bytes = 0;
    while (statement != NULL && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct median_rank *rank = median_find_rank(median, sqlite3_column_int64(statement, 0));

        if (rank != NULL)
            rank->unlisted_bytes = sqlite3_column_int64(statement, 1);
    }
    return statement != NULL ? median_end(median, statement, code, COMMAND_FINE) : COMMAND_WRONG;
}

/* Of the least and the most that each rank has; both are put in another order. */
static struct median_ends
median_ends_of(int64_t *least, int64_t *most, size_t count)
{
    return (struct median_ends){ median_of(least, count), median_of(most, count) };
}

/* A rank that does not list a group has from 0 to the bound of what it leaves out. `count` ranks have listed it. */
static int
median_add_group(struct median *median, int64_t group_id, size_t count)
{
    static const char sql[] = "SELECT c.rank, c.peak_bytes FROM allocation_group AS g JOIN group_cut AS c ON"
                              " c.memory_id = ?1 AND c.kind = g.kind WHERE g.group_id = ?2 AND c.peak_bytes > 0 AND"
                              " NOT EXISTS (SELECT 1 FROM peak_group AS p WHERE p.rank = c.rank AND p.memory_id = ?1"
                              " AND p.group_id = ?2)";
    int status = median_find_unlisted(median, sql, group_id);
    size_t next = count, rest = median->count - count;
    struct median_ends ends;

    if (status != COMMAND_FINE)
        return status;
    memset(median->peaks + count, 0, rest * sizeof(*median->peaks));
    memcpy(median->most_peaks, median->peaks, median->count * sizeof(*median->peaks));
    /* The ranks with a bound are among the others. */
    for (size_t i = 0; i < median->count && next < median->count; i++) {
        if (median->ranks[i].unlisted_bytes > 0)
            median->most_peaks[next++] = median->ranks[i].unlisted_bytes;
    }
    ends = median_ends_of(median->peaks, median->most_peaks, median->count);
    return job_insert(median->job, group_median, TIDEI_NUMBER(median->memory_id), TIDEI_NUMBER(group_id),
                      TIDEI_NUMBER(count), TIDEI_NUMBER(ends.least), TIDEI_NUMBER(ends.most));
}

static int
median_fill_groups(struct median *median)
{
    sqlite3_stmt *statement =
        median_query(median, "SELECT group_id, bytes FROM peak_group WHERE memory_id = ?1 ORDER BY group_id", 0);
    int code = SQLITE_ROW, status = COMMAND_FINE;
    size_t count = 0;
    int64_t last = 0;

    if (statement == NULL)
        return COMMAND_WRONG;
    while (status == COMMAND_FINE && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t group_id = sqlite3_column_int64(statement, 0);

        if (count > 0 && group_id != last) {
            status = median_add_group(median, last, count);
            count = 0;
        }
        last = group_id;
        if (count < median->count)
            median->peaks[count++] = sqlite3_column_int64(statement, 1);
    }
    status = median_end(median, statement, code, status);
    return status == COMMAND_FINE && count > 0 ? median_add_group(median, last, count) : status;
}

/* ---- groups in each step ----------------------------------------------------------------------------------------- */

/* Keep the medians of a group in a step, where they are others than before. */
static int
median_add_group_step(struct median *median, int64_t group_id, int64_t step, struct median_ends *peak,
                      struct median_ends *end)
{
    struct median_ends peak_now, end_now;
    size_t count = 0;

    for (size_t i = 0; i < median->count; i++) {
        const struct median_rank *rank = &median->ranks[i];

        if (!median_has_step(rank, step))
            continue;
        median->peaks[count] = rank->peak_bytes;
        median->ends[count] = rank->end_bytes;
        median->most_peaks[count] = rank->peak_bytes + rank->unlisted_bytes;
        median->most_ends[count++] = rank->end_bytes + rank->unlisted_bytes;
    }
    peak_now = median_ends_of(median->peaks, median->most_peaks, count);
    end_now = median_ends_of(median->ends, median->most_ends, count);
    if (memcmp(&peak_now, peak, sizeof(*peak)) == 0 && memcmp(&end_now, end, sizeof(*end)) == 0)
        return COMMAND_FINE;
    *peak = peak_now;
    *end = end_now;
    return job_insert(median->job, group_step_median, TIDEI_NUMBER(median->memory_id), TIDEI_NUMBER(group_id),
                      TIDEI_NUMBER(step), TIDEI_NUMBER(peak_now.least), TIDEI_NUMBER(peak_now.most),
                      TIDEI_NUMBER(end_now.least), TIDEI_NUMBER(end_now.most));
}

/* Take over the changes of a step. `code` is that of the row that is read. Whether there were any. */
static bool
median_take_changes(struct median *median, sqlite3_stmt *statement, int64_t step, int *code)
{
    bool changed = false;

    for (; *code == SQLITE_ROW && sqlite3_column_int64(statement, 0) <= step; *code = sqlite3_step(statement)) {
        struct median_rank *rank = median_find_rank(median, sqlite3_column_int64(statement, 1));

        if (rank == NULL)
            continue;
        rank->peak_bytes = sqlite3_column_int64(statement, 2);
        rank->end_bytes = sqlite3_column_int64(statement, 3);
        changed = true;
    }
    return changed;
}

static int
median_fill_group_steps(struct median *median, int64_t group_id)
{
    static const char unlisted_sql[] = "SELECT c.rank, c.step_bytes FROM allocation_group AS g JOIN group_cut AS c ON"
                                       " c.memory_id = ?1 AND c.kind = g.kind WHERE g.group_id = ?2 AND"
                                       " c.step_bytes > 0 AND NOT EXISTS (SELECT 1 FROM step_group AS s WHERE"
                                       " s.rank = c.rank AND s.memory_id = ?1 AND s.group_id = ?2)";
    int code, status = median_find_unlisted(median, unlisted_sql, group_id);
    sqlite3_stmt *statement = median_query(
        median,
        "SELECT step, s.rank, s.peak_bytes, s.end_bytes FROM rank_memory AS r CROSS JOIN step_group AS s"
        " ON s.rank = r.rank AND s.memory_id = ?1 AND s.group_id = ?2 WHERE r.memory_id = ?1 ORDER BY step",
        group_id);
    struct median_ends peak = { 0, 0 }, end = { 0, 0 };

    if (statement == NULL)
        return COMMAND_WRONG;
    for (size_t i = 0; i < median->count; i++)
        median->ranks[i].peak_bytes = median->ranks[i].end_bytes = 0;
    code = sqlite3_step(statement);
    for (size_t i = 0; i < median->step_count && status == COMMAND_FINE; i++) {
        bool changed = median_take_changes(median, statement, median->steps[i], &code);

        if (changed || median->changes[i])
            status = median_add_group_step(median, group_id, median->steps[i], &peak, &end);
    }
    return median_end(median, statement, code, status);
}

static int
median_fill_all_group_steps(struct median *median)
{
    sqlite3_stmt *statement =
        median_query(median, "SELECT DISTINCT group_id FROM step_group WHERE memory_id = ?1 ORDER BY group_id", 0);
    int code = SQLITE_ROW, status = COMMAND_FINE;

    if (statement == NULL)
        return COMMAND_WRONG;
    while (status == COMMAND_FINE && (code = sqlite3_step(statement)) == SQLITE_ROW)
        status = median_fill_group_steps(median, sqlite3_column_int64(statement, 0));
    return median_end(median, statement, code, status);
}

static int
median_fill_memory(struct job *job, int64_t memory_id)
{
    struct median median = { .job = job, .memory_id = memory_id };
    int status = median_read_ranks(&median);

    if (status == COMMAND_FINE)
        status = median_fill_steps(&median);
    if (status == COMMAND_FINE)
        status = median_fill_groups(&median);
    if (status == COMMAND_FINE)
        status = median_fill_all_group_steps(&median);
    median_free(&median);
    return status;
}

int
median_fill(struct job *job)
{
    struct median all = { .job = job };
    sqlite3_stmt *statement;
    int code = SQLITE_ROW;
    int status = job_execute(job, "DELETE FROM step_median; DELETE FROM group_median; DELETE FROM group_step_median");

    if (status != COMMAND_FINE)
        return status;
    statement = median_query(&all, "SELECT memory_id FROM memory", 0);
    if (statement == NULL)
        return COMMAND_WRONG;
    while (status == COMMAND_FINE && (code = sqlite3_step(statement)) == SQLITE_ROW)
        status = median_fill_memory(job, sqlite3_column_int64(statement, 0));
    return median_end(&all, statement, code, status);
}
