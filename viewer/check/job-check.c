/*
 * Judges whether the ranks of a job meet their budgets. Each rank, and each memory of a rank, has to keep to a budget
 * by itself; what is said of one that is not kept names the rank that is worst, and the others.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/base/output.h"
#include "viewer/check/baseline.h"
#include "viewer/check/job-check.h"
#include "viewer/ranks/job.h"
#include "viewer/ranks/ranks.h"

/* Ranks that a line names, and groups that an explanation does. */
#define JOB_CHECK_RANKS  8
#define JOB_CHECK_GROUPS 2

/* Of two such figures the sum can be told. */
#define JOB_CHECK_MOST ((uint64_t)INT64_MAX / 2)

/* What a rank has, in all its memory or in the one that has most. */
struct job_figure {
    int64_t rank;
    int64_t memory_id; /* 0: all */
    uint64_t value;
    bool is_unknown;           /* it may be more, in some memory; of leaks: it may be none */
    int64_t unknown_memory_id; /* the first of these */
};

struct job_figures {
    struct job_figure *list; /* owns */
    size_t count, capacity;
};

static int
job_figure_wrong(const struct trace *file)
{
    return trace_broken(file, "it has figures that cannot be");
}

/* Rows come in the order of ranks, each with the memory that has most before its others. */
static int
job_figure_take(void *context, const struct trace *file, sqlite3_stmt *row)
{
    struct job_figures *figures = context;
    int64_t rank = sqlite3_column_int64(row, 0), memory_id = sqlite3_column_int64(row, 1);
    int64_t value = sqlite3_column_int64(row, 2);
    bool is_number = sqlite3_column_type(row, 2) == SQLITE_INTEGER;
    struct job_figure *last = figures->count > 0 ? &figures->list[figures->count - 1] : NULL;

    if (!is_number || value < 0 || (uint64_t)value > JOB_CHECK_MOST)
        return job_figure_wrong(file);
    if (last == NULL || last->rank != rank) {
        if (!tidei_grow(&figures->list, &figures->capacity, figures->count, 1))
            return trace_broken(file, "no memory for its ranks");
        last = &figures->list[figures->count++];
        *last = (struct job_figure){ .rank = rank, .memory_id = memory_id, .value = (uint64_t)value };
    }
    if (!last->is_unknown && sqlite3_column_int64(row, 3) != 0) {
        last->is_unknown = true;
        last->unknown_memory_id = memory_id;
    }
    return COMMAND_FINE;
}

/* The name of a memory, which the caller frees; NULL: it has none. */
static char *
job_memory_name(const struct trace *file, int64_t memory_id)
{
    char *sql = sqlite3_mprintf("SELECT name FROM memory WHERE memory_id = %lld", (long long)memory_id);
    sqlite3_stmt *row = NULL;
    const char *text = NULL;
    char *name;

    if (sql != NULL && sqlite3_prepare_v2(file->db, sql, -1, &row, NULL) == SQLITE_OK &&
        sqlite3_step(row) == SQLITE_ROW)
        text = (const char *)sqlite3_column_text(row, 0);
    name = text != NULL ? strdup(text) : NULL;
    sqlite3_finalize(row);
    sqlite3_free(sql);
    return name;
}

/* The memory that a budget is for; 0: each. */
static int
job_memory_find(const struct trace *file, const struct budget *budget, int64_t *out)
{
    *out = 0;
    if (budget->memory == NULL)
        return COMMAND_FINE;
    if (trace_look_up(file, out, "SELECT memory_id FROM memory WHERE name = %Q", budget->memory) == SQLITE_ROW)
        return COMMAND_FINE;
    message("%s: there is no memory \"%s\"", file->path, budget->memory);
    message("  `tidemark ranks` says which there are");
    return COMMAND_WRONG;
}

static int
job_compare_figures(const void *left, const void *right)
{
    const struct job_figure *a = left, *b = right;

    return a->value != b->value ? (a->value < b->value) - (a->value > b->value)
                                : (a->rank > b->rank) - (a->rank < b->rank);
}

/* What of leaks is unknown is less than what is known. */
static int
job_compare_leaks(const void *left, const void *right)
{
    const struct job_figure *a = left, *b = right;

    return a->is_unknown != b->is_unknown ? a->is_unknown - b->is_unknown : job_compare_figures(left, right);
}

/* What all ranks have, the worst first. */
static int
job_figures_read(const struct job_check *check, const struct budget *budget, struct job_figures *out)
{
    const char *value = "peak_bytes", *unknown = "0";
    bool is_sum = false; /* of all memory of a rank */
    int64_t memory_id;
    int status = job_memory_find(check->file, budget, &memory_id);

    if (budget->kind == BUDGET_RESERVED) {
        value = "coalesce(reserved_peak_bytes, 0)";
        unknown = "(peak_bytes > 0 OR reserved_peak_bytes > 0) AND reserved_is_exact IS NOT 1";
    } else if (budget->kind == BUDGET_LEAKS) {
        value = "live_end_bytes";
        unknown = check->budgets->even_killed ? "0" : "ended IN ('killed', 'running', 'failed')";
    } else if (budget->kind == BUDGET_ALLOCATIONS || budget->kind == BUDGET_FAILURES) {
        value = budget->kind == BUDGET_ALLOCATIONS ? "m.allocations" : "m.failures";
        is_sum = memory_id == 0;
    }
    if (status == COMMAND_FINE && is_sum)
        status =
            trace_each(check->file, job_figure_take, out, "SELECT rank, 0, %s, 0 FROM rank AS m ORDER BY rank", value);
    else if (status == COMMAND_FINE)
        status = trace_each(check->file, job_figure_take, out,
                            "SELECT rank, memory_id, %s, %s FROM rank_memory AS m JOIN rank USING (rank)"
                            " WHERE %lld IN (0, memory_id) ORDER BY rank, 3 DESC, memory_id",
                            value, unknown, (long long)memory_id);
    if (status == COMMAND_FINE && out->count > 0)
        qsort(out->list, out->count, sizeof(*out->list),
              budget->kind == BUDGET_LEAKS ? job_compare_leaks : job_compare_figures);
    return status;
}

/* ---- explanations ------------------------------------------------------------------------------------------------ */

/* "rank 3", or "rank 3, pool of the device". */
static const char *
job_where(const struct trace *file, int64_t rank, int64_t memory_id, char *buffer, size_t size)
{
    char *name = memory_id != 0 ? job_memory_name(file, memory_id) : NULL;

    snprintf(buffer, size, "rank %" PRId64 "%s%s", rank, name != NULL ? ", " : "", name != NULL ? name : "");
    free(name);
    return buffer;
}

/* Name the ranks for which `counts`, where there are several. `what` says what they do. */
static void
job_say_ranks(const struct job_figures *figures, bool (*counts)(const struct job_figure *figure, uint64_t limit),
              const char *what, struct check_result *out)
{
    char names[JOB_CHECK_RANKS * 24] = "";
    size_t length = 0, count = 0;

    for (size_t i = 0; i < figures->count; i++) {
        if (counts(&figures->list[i], out->limit) && count++ < JOB_CHECK_RANKS)
            length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%" PRId64, count > 1 ? ", " : "",
                                       figures->list[i].rank);
    }
    if (count > JOB_CHECK_RANKS)
        check_say(out, "%zu ranks %s: %s and %zu more", count, what, names, count - JOB_CHECK_RANKS);
    else if (count > 1)
        check_say(out, "%zu ranks %s: %s", count, what, names);
}

static bool
job_figure_exceeds(const struct job_figure *figure, uint64_t limit)
{
    return figure->value > limit;
}

static bool
job_figure_leaks(const struct job_figure *figure, uint64_t limit)
{
    return figure->value > limit && !figure->is_unknown;
}

static bool
job_figure_is_unknown(const struct job_figure *figure, uint64_t limit)
{
    (void)limit;
    return figure->is_unknown;
}

static int
job_take_group(void *context, const struct trace *file, sqlite3_stmt *row)
{
    struct check_result *out = context;
    int64_t bytes = sqlite3_column_int64(row, 2), without = sqlite3_column_int64(row, 3);
    int64_t peak = sqlite3_column_int64(row, 4);
    struct output_figure figure, other;

    if (bytes < 0 || without < 0 || peak <= 0)
        return job_figure_wrong(file);
    check_say(out, "%s %s has %s of it (%.1f%%); without it the peak is %s", sqlite3_column_text(row, 0),
              sqlite3_column_text(row, 1), output_size(&figure, (uint64_t)bytes), 100 * (double)bytes / (double)peak,
              output_size(&other, (uint64_t)without));
    return COMMAND_FINE;
}

/* The kind of groups that a rank has in a memory: tags, else functions, else classes. The SQL of an expression. */
#define JOB_KIND                                                                                                       \
    "coalesce(%Q, (SELECT kind FROM peak_group JOIN allocation_group USING (group_id) WHERE rank = %lld AND"           \
    " memory_id = %lld ORDER BY kind = 'tag' DESC, kind = 'function' DESC LIMIT 1))"

static int
job_explain_peak(const struct job_check *check, const struct job_figure *worst, struct check_result *out)
{
    const long long rank = (long long)worst->rank, memory_id = (long long)worst->memory_id;

    return trace_each(check->file, job_take_group, out,
                      "SELECT kind, name, bytes, peak_without_bytes, peak_bytes FROM peak_group JOIN allocation_group"
                      " USING (group_id) JOIN rank_memory USING (rank, memory_id) WHERE rank = %lld AND"
                      " memory_id = %lld AND kind = " JOB_KIND " AND bytes > 0 ORDER BY bytes DESC, group_id LIMIT %d",
                      rank, memory_id, check->kind, rank, memory_id, JOB_CHECK_GROUPS);
}

static int
job_take_cause(void *context, const struct trace *file, sqlite3_stmt *row)
{
    struct check_result *out = context;
    int64_t size = sqlite3_column_int64(row, 2);
    struct output_figure figure, ns;

    if (size < 0)
        return job_figure_wrong(file);
    check_say(out, "the first for the cause %s, one of %" PRId64 ", is of %s after %s", sqlite3_column_text(row, 0),
              (int64_t)sqlite3_column_int64(row, 1), output_size(&figure, (uint64_t)size),
              output_time(&ns, sqlite3_column_int64(row, 3)));
    return COMMAND_FINE;
}

static int
job_explain_failures(const struct job_check *check, const struct job_figure *worst, struct check_result *out)
{
    return trace_each(check->file, job_take_cause, out,
                      "SELECT cause, count(*), size, min(ns) FROM failure WHERE rank = %lld AND"
                      " %lld IN (0, memory_id) GROUP BY cause ORDER BY 2 DESC, 4 LIMIT %d",
                      (long long)worst->rank, (long long)worst->memory_id, JOB_CHECK_GROUPS);
}

/* Say of which ranks it is not known whether they keep the budget, and why. */
static void
job_explain_unknown(const struct job_figures *figures, const char *where, struct check_result *out)
{
    if (out->budget->kind == BUDGET_LEAKS) {
        check_say(out, "unknown: %s did not come to its end, and may have been about to free what was live", where);
        job_say_ranks(figures, job_figure_is_unknown, "did not come to their end", out);
        check_say(out, "--even-killed judges it all the same");
        return;
    }
    check_say(out, "unknown: the trace of %s does not tell the exact peak of what was reserved", where);
    job_say_ranks(figures, job_figure_is_unknown, "do not tell it", out);
}

/* The first line, of the rank that is worst. */
static void
job_say_worst(const struct job_figure *worst, const char *where, struct check_result *out)
{
    struct output_figure figure;
    char over[128];

    if (out->budget->kind == BUDGET_LEAKS)
        check_say(out, "%s: %s are live at the end", where, output_size(&figure, out->seen));
    else if (out->budget->kind == BUDGET_ALLOCATIONS || out->budget->kind == BUDGET_FAILURES)
        check_say(out, "%s: %" PRIu64 " allocation%s%s, %" PRIu64 " more than %" PRIu64, where, out->seen,
                  out->seen == 1 ? "" : "s", out->budget->kind == BUDGET_FAILURES ? " failed" : "",
                  out->seen - out->limit, out->limit);
    else
        check_say(out, "%s: %s is %s%s, %s", where,
                  out->budget->kind == BUDGET_RESERVED ? "the most that was reserved" : "the peak",
                  worst->is_unknown ? "at least " : "", output_size_beside(&figure, out->seen, out->limit),
                  check_over(out, over, sizeof(over)));
}

static int
job_explain(const struct job_check *check, const struct job_figures *figures, const struct job_figure *worst,
            struct check_result *out)
{
    char where[256];
    int status = COMMAND_FINE;

    job_where(check->file, worst->rank, out->unknown ? worst->unknown_memory_id : worst->memory_id, where,
              sizeof(where));
    if (out->unknown) {
        job_explain_unknown(figures, where, out);
        return COMMAND_FINE;
    }
    job_say_worst(worst, where, out);
    if (out->budget->kind == BUDGET_LEAKS)
        job_say_ranks(figures, job_figure_leaks, "have some", out);
    else
        job_say_ranks(figures, job_figure_exceeds, "have more than is allowed", out);
    if (out->budget->kind == BUDGET_PEAK)
        status = job_explain_peak(check, worst, out);
    else if (out->budget->kind == BUDGET_FAILURES)
        status = job_explain_failures(check, worst, out);
    check_say(out, "more: tidemark ranks --rank=%" PRId64 " %s", worst->rank, check->file->path);
    return status;
}

/* ---- budgets that each rank has to keep -------------------------------------------------------------------------- */

static int
job_judge_each(const struct job_check *check, struct check_result *out)
{
    struct job_figures figures = { 0 };
    const struct job_figure *worst, *unknown = NULL;
    int status = job_figures_read(check, out->budget, &figures);

    if (status == COMMAND_FINE && figures.count > 0) {
        worst = &figures.list[0];
        for (size_t i = 0; i < figures.count && unknown == NULL; i++)
            unknown = figures.list[i].is_unknown ? &figures.list[i] : NULL;
        check_measured(out, worst->value);
        /* What may have been in use breaks no budget of leaks. */
        if (out->budget->kind == BUDGET_LEAKS && worst->is_unknown)
            out->passed = true;
        out->unknown = out->passed && unknown != NULL;
        out->passed = out->passed && !out->unknown;
        /* Of ranks that were killed this is what was live: they are behind the others in the list. */
        if (out->unknown && out->budget->kind == BUDGET_LEAKS && unknown->value > out->seen)
            out->seen = unknown->value;
        if (!out->passed)
            status = job_explain(check, &figures, out->unknown ? unknown : worst, out);
    } else if (status == COMMAND_FINE) {
        check_measured(out, 0);
    }
    free(figures.list);
    return status;
}

/* ---- budgets of what ranks differ in ----------------------------------------------------------------------------- */

static void
job_judge_skew(const struct job_check *check, const struct ranks *ranks, struct check_result *out)
{
    const struct ranks_rank *highest = ranks->highest;
    struct output_figure peak, median, percent;
    char buffer[256];
    const char *unknown = ranks_skew_unknown(ranks, buffer, sizeof(buffer));
    int said = 0;

    out->seen_share = ranks_skew(ranks);
    out->passed = out->seen_share <= out->budget->share;
    out->unknown = out->passed && unknown != NULL;
    out->passed = out->passed && !out->unknown;
    out->seen_unknown = out->unknown;
    if (out->unknown)
        check_say(out, "unknown: %s", unknown);
    if (out->passed || out->unknown)
        return;
    check_say(out, "rank %" PRId64 ", %s: the peak is %s, %s over the median of %s", highest->rank, ranks->memory->name,
              output_size(&peak, (uint64_t)highest->peak_bytes), output_percent(&percent, out->seen_share, 4),
              output_size_beside(&median, (uint64_t)ranks->median->peak_bytes, (uint64_t)highest->peak_bytes));
    for (size_t i = 0; i < ranks->group_count && said < JOB_CHECK_GROUPS; i++) {
        const struct ranks_group *group = &ranks->groups[i];
        const struct ranks_range over = ranks_group_over(group);
        char since[64] = "";

        if (strcmp(group->kind, ranks->kind) != 0 || over.least <= 0)
            continue;
        if (group->has_step && ranks_is_exact(group->step) && group->step.least >= 0)
            snprintf(since, sizeof(since), ", from step %" PRId64 " on", group->step.least);
        check_say(out, "%s %s: %s%s more than the median%s", group->kind, group->name,
                  ranks_is_exact(over) ? "" : "at least ", output_size(&peak, (uint64_t)over.least), since);
        said++;
    }
    check_say(out, "more: tidemark ranks %s", check->file->path);
}

/* Say that there may be growth in the ranks that have not enough steps, or not enough of those that others have. */
static void
job_say_growth_unknown(const struct ranks *ranks, int64_t known, struct check_result *out)
{
    if (known == ranks->rank_total)
        check_say(out,
                  "unknown: too few steps of %" PRId64 " of %" PRId64 " ranks, the first of them %" PRId64
                  ", end where those of most ranks do, in %s",
                  ranks->growth_unknown, ranks->rank_total, ranks->first_growth_unknown, ranks->memory->name);
    else if (known > 0)
        check_say(out, "unknown: only %" PRId64 " of %" PRId64 " ranks have four whole steps in %s", known,
                  ranks->rank_total, ranks->memory->name);
    else
        check_say(out,
                  "unknown: no rank has four whole steps; `tidemark merge --steps` says with which marks one begins");
}

static void
job_judge_growth(const struct job_check *check, const struct ranks *ranks, struct check_result *out)
{
    const struct ranks_growth *growth = ranks->growths;
    struct output_figure figure, other;
    int64_t known = 0;

    for (size_t i = 0; i < ranks->count; i++)
        known += ranks->list[i].whole_steps >= 4;
    check_measured(out, ranks->growth_count > 0 ? (uint64_t)(growth->grown_bytes - growth->median_bytes) : 0);
    out->unknown = out->passed && (known < ranks->rank_total || ranks->growth_unknown > 0);
    out->passed = out->passed && !out->unknown;
    out->seen_unknown = out->unknown && ranks->growth_count == 0;
    if (out->unknown)
        job_say_growth_unknown(ranks, known, out);
    if (out->passed || out->unknown)
        return;
    check_say(out, "rank %" PRId64 ", %s: it grows by %s more than the median from step %" PRId64 " to %" PRId64 ", %s",
              growth->rank->rank, ranks->memory->name, output_size_beside(&figure, out->seen, out->limit),
              growth->first_step, growth->last_step, check_over(out, (char[128]){ "" }, 128));
    if (ranks->growth_count > 1)
        check_say(out, "%zu ranks grow more than the median from step to step", ranks->growth_count);
    if (growth->group != NULL)
        check_say(out, "%s %s has %s%s of it", growth->kind, growth->group,
                  ranks_is_exact(growth->group_more) ? "" : "at least ",
                  output_size(&other, (uint64_t)growth->group_more.least));
    check_say(out, "more: tidemark ranks --rank=%" PRId64 " %s", growth->rank->rank, check->file->path);
}

static int
job_judge_ranks(const struct job_check *check, struct check_result *out)
{
    const struct ranks_options options = { .memory = out->budget->memory, .rank = -1, .kind = check->kind };
    struct ranks ranks;
    int status = ranks_make(check->file, &options, &ranks);

    if (status == COMMAND_FINE && out->budget->kind == BUDGET_SKEW)
        job_judge_skew(check, &ranks, out);
    else if (status == COMMAND_FINE)
        job_judge_growth(check, &ranks, out);
    ranks_free(&ranks);
    return status;
}

/* ---- whether it can be judged ------------------------------------------------------------------------------------ */

/* Refuse a file without ranks, and one in which ranks do not have the memory that their sums are of. */
static int
job_look_at_ranks(const struct trace *file)
{
    int64_t ranks = 0, wrong = 0;
    int status = trace_integer(file, "SELECT count(*) FROM rank", &ranks);

    if (status == COMMAND_FINE && ranks == 0)
        return trace_broken(file, "it has no ranks");
    if (status == COMMAND_FINE)
        status = trace_integer(file,
                               "SELECT count(*) FROM rank LEFT JOIN (SELECT rank, sum(allocations) AS allocations,"
                               " sum(failures) AS failures FROM rank_memory GROUP BY rank) AS m USING (rank) WHERE"
                               " rank.allocations IS NOT coalesce(m.allocations, 0) OR"
                               " rank.failures IS NOT coalesce(m.failures, 0)",
                               &wrong);
    return status == COMMAND_FINE && wrong > 0 ? job_figure_wrong(file) : status;
}

/* ---- the baseline ------------------------------------------------------------------------------------------------ */

/* A memory of a job: the rank with the highest peak, and what was reserved at most. */
struct job_memory {
    int64_t memory_id;
    char *name; /* owns */
    int64_t rank;
    uint64_t peak_bytes;
    struct reserved_figure most;
};

struct job_memories {
    struct job_memory *list; /* owns */
    size_t count, capacity;
};

static int
job_take_memory(void *context, const struct trace *file, sqlite3_stmt *row)
{
    struct job_memories *memories = context;
    const char *name = (const char *)sqlite3_column_text(row, 1);
    int64_t peak = sqlite3_column_int64(row, 3), reserved = sqlite3_column_int64(row, 4);
    struct job_memory *memory;

    if (name == NULL || sqlite3_column_type(row, 3) != SQLITE_INTEGER ||
        (sqlite3_column_type(row, 4) != SQLITE_INTEGER && sqlite3_column_type(row, 4) != SQLITE_NULL))
        return job_figure_wrong(file);
    if (peak < 0 || (uint64_t)peak > JOB_CHECK_MOST || reserved < 0 || (uint64_t)reserved > JOB_CHECK_MOST)
        return job_figure_wrong(file);
    if (!tidei_grow(&memories->list, &memories->capacity, memories->count, 1))
        return trace_broken(file, "no memory for its budgets");
    memory = &memories->list[memories->count++];
    *memory = (struct job_memory){
        .memory_id = sqlite3_column_int64(row, 0),
        .name = strdup(name),
        .rank = sqlite3_column_int64(row, 2),
        .peak_bytes = (uint64_t)peak,
        .most = { .peak_bytes = (uint64_t)reserved,
                  .source = sqlite3_column_type(row, 4) == SQLITE_NULL ? RESERVED_UNKNOWN : RESERVED_SAMPLES,
                  .is_exact = sqlite3_column_int64(row, 5) != 0 },
    };
    return memory->name != NULL ? COMMAND_FINE : trace_broken(file, "no memory for its budgets");
}

static int
job_memories_read(const struct trace *file, struct job_memories *out)
{
    /* The bare column beside max() is that of its row. */
    return trace_each(
        file, job_take_memory, out,
        "SELECT memory_id, name, rank, max(peak_bytes), (SELECT max(reserved_peak_bytes) FROM rank_memory"
        " AS r WHERE r.memory_id = m.memory_id), (SELECT min(reserved_is_exact IS 1) FROM rank_memory AS r"
        " WHERE r.memory_id = m.memory_id AND r.peak_bytes > 0) FROM rank_memory AS m JOIN memory USING"
        " (memory_id) GROUP BY memory_id ORDER BY memory_id");
}

static void
job_memories_free(struct job_memories *memories)
{
    for (size_t i = 0; i < memories->count; i++)
        free(memories->list[i].name);
    free(memories->list);
}

static const struct job_memory *
job_memories_find(const struct job_memories *memories, const char *name)
{
    for (size_t i = 0; i < memories->count && name != NULL; i++) {
        if (strcmp(memories->list[i].name, name) == 0)
            return &memories->list[i];
    }
    return NULL;
}

/* Pair the memories of two jobs by their names; what only one has is 0 in the other. The names are borrowed. */
static bool
job_memories_pair(const struct job_memories *a, const struct job_memories *b, struct snapshot_memories *out)
{
    out->list = calloc(a->count + b->count + 1, sizeof(*out->list));
    for (size_t i = 0; out->list != NULL && i < b->count; i++) {
        const struct job_memory *before = job_memories_find(a, b->list[i].name);

        out->list[out->count++] = (struct snapshot_memory){
            .name = b->list[i].name,
            .a_peak_bytes = before != NULL ? before->peak_bytes : 0,
            .b_peak_bytes = b->list[i].peak_bytes,
            .a_most = before != NULL ? before->most : (struct reserved_figure){ .is_exact = true },
            .b_most = b->list[i].most,
        };
    }
    return out->list != NULL;
}

/* A group of the highest rank of one job, or of both. */
struct job_change {
    char *name; /* owns */
    int64_t before, after;
};

struct job_changes {
    struct job_change *list; /* owns */
    size_t count, capacity;
    bool is_before;
};

static int
job_take_change(void *context, const struct trace *file, sqlite3_stmt *row)
{
    struct job_changes *changes = context;
    const char *name = (const char *)sqlite3_column_text(row, 0);
    int64_t bytes = sqlite3_column_int64(row, 1);
    size_t i = 0;

    if (name == NULL || bytes < 0 || (uint64_t)bytes > JOB_CHECK_MOST)
        return job_figure_wrong(file);
    /* At most 200 of each. */
    while (i < changes->count && strcmp(changes->list[i].name, name) != 0)
        i++;
    if (i == changes->count) {
        if (!tidei_grow(&changes->list, &changes->capacity, changes->count, 1))
            return trace_broken(file, "no memory for its budgets");
        changes->list[changes->count++] = (struct job_change){ .name = strdup(name) };
        if (changes->list[i].name == NULL)
            return trace_broken(file, "no memory for its budgets");
    }
    *(changes->is_before ? &changes->list[i].before : &changes->list[i].after) = bytes;
    return COMMAND_FINE;
}

static int
job_compare_changes(const void *left, const void *right)
{
    const struct job_change *a = left, *b = right;
    int64_t of_a = llabs(a->after - a->before), of_b = llabs(b->after - b->before);

    return of_a != of_b ? (of_a < of_b) - (of_a > of_b) : strcmp(a->name, b->name);
}

/* The groups of a memory's highest rank, those of `kind`. */
static int
job_changes_read(const struct trace *file, const struct job_memory *memory, const char *kind, struct job_changes *out)
{
    return trace_each(file, job_take_change, out,
                      "SELECT name, bytes FROM peak_group JOIN allocation_group USING (group_id) WHERE rank = %lld AND"
                      " memory_id = %lld AND kind = %Q",
                      (long long)memory->rank, (long long)memory->memory_id, kind);
}

/* Say in what the highest rank has more than that of the baseline. */
static int
job_explain_changes(const struct job_check *check, const struct trace *baseline, const struct job_memory *a,
                    const struct job_memory *b, struct check_result *out)
{
    struct job_changes changes = { .is_before = true };
    const char *kind = check->kind;
    struct output_figure figure, from, to;
    int64_t has_tags = 0, has_functions = 0;
    int status;

    trace_look_up(check->file, &has_tags, "SELECT 1 FROM allocation_group WHERE kind = 'tag'");
    trace_look_up(check->file, &has_functions, "SELECT 1 FROM allocation_group WHERE kind = 'function'");
    if (kind == NULL)
        kind = has_tags ? "tag" : has_functions ? "function" : "class";
    status = job_changes_read(baseline, a, kind, &changes);
    changes.is_before = false;
    if (status == COMMAND_FINE)
        status = job_changes_read(check->file, b, kind, &changes);
    if (status == COMMAND_FINE && changes.count > 0)
        qsort(changes.list, changes.count, sizeof(*changes.list), job_compare_changes);
    for (size_t i = 0; status == COMMAND_FINE && i < changes.count && i < JOB_CHECK_GROUPS; i++) {
        int64_t before = changes.list[i].before, after = changes.list[i].after;

        if (before == after)
            continue;
        check_say(out, "%s %s: %s%s at the peak, from %s to %s", kind, changes.list[i].name, after > before ? "+" : "-",
                  output_size(&figure, (uint64_t)llabs(after - before)),
                  output_size_beside(&from, (uint64_t)before, (uint64_t)after),
                  output_size_beside(&to, (uint64_t)after, (uint64_t)before));
    }
    for (size_t i = 0; i < changes.count; i++)
        free(changes.list[i].name);
    free(changes.list);
    return status;
}

static int
job_explain_baseline(const struct job_check *check, const struct trace *baseline, const struct job_memories *before,
                     const struct job_memories *after, const struct snapshot_worst *worst, struct check_result *out)
{
    const struct job_memory *a = job_memories_find(before, worst->memory);
    const struct job_memory *b = job_memories_find(after, worst->memory);
    int status = COMMAND_FINE;

    if (out->unknown || b == NULL)
        return COMMAND_FINE;
    if (a != NULL && !worst->is_reserved) {
        check_say(out, "it is of rank %" PRId64 "; that of the baseline is of rank %" PRId64, b->rank, a->rank);
        status = job_explain_changes(check, baseline, a, b, out);
    }
    check_say(out, "more: tidemark ranks --rank=%" PRId64 " %s", b->rank, check->file->path);
    return status;
}

static int
job_judge_baseline(struct job_check *check, const struct trace *baseline, struct check_result *out)
{
    double tolerance = check->budgets->tolerance;
    struct job_memories before = { 0 }, after = { 0 };
    struct snapshot_memories pairs = { 0 };
    struct snapshot_worst worst;
    char lacks[256];
    const char *why = NULL;
    int status = job_memories_read(baseline, &before);

    if (status == COMMAND_FINE)
        status = job_memories_read(check->file, &after);
    if (status == COMMAND_FINE && !job_memories_pair(&before, &after, &pairs))
        status = trace_broken(check->file, "no memory for its budgets");
    if (status == COMMAND_FINE) {
        baseline_judge(&pairs, tolerance, &worst, out);
        if (!out->passed) {
            baseline_say(&pairs, tolerance, &worst, out);
            status = job_explain_baseline(check, baseline, &before, &after, &worst, out);
        }
    }
    if (status == COMMAND_FINE)
        status = job_check_lacks(baseline, lacks, sizeof(lacks), &why);
    if (status == COMMAND_FINE && why != NULL) {
        message("%s: %s", baseline->path, why);
        check->baseline_incomplete = true;
    }
    snapshot_memories_free(&pairs);
    job_memories_free(&before);
    job_memories_free(&after);
    return status;
}

static int
job_open_baseline(struct job_check *check, struct check_result *out)
{
    struct trace baseline;
    int status = job_read(out->budget->path, &baseline);

    if (status != COMMAND_FINE)
        return status;
    status = job_look_at_ranks(&baseline);
    if (status == COMMAND_FINE)
        status = job_judge_baseline(check, &baseline, out);
    trace_close(&baseline);
    return status;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Refuse a budget of which the file of a job says nothing. */
static int
job_refuse(const struct job_check *check, const struct budget *budget)
{
    char name[256];

    if (budget->kind != BUDGET_FRAGMENTATION && budget->tag == NULL && budget->layer == NULL)
        return COMMAND_FINE;
    message("%s: the file of a job cannot tell %s: check the traces of its ranks", check->file->path,
            budget_name(budget, name, sizeof(name)));
    return COMMAND_WRONG;
}

static int
job_judge(struct job_check *check, struct check_result *out)
{
    switch (out->budget->kind) {
    case BUDGET_BASELINE:
        return job_open_baseline(check, out);
    case BUDGET_SKEW:
    case BUDGET_GROWTH:
        return job_judge_ranks(check, out);
    default:
        return job_judge_each(check, out);
    }
}

int
job_check_judge(struct job_check *check, struct check_result *results)
{
    const struct budgets *budgets = check->budgets;
    int status = COMMAND_FINE;

    for (size_t i = 0; i < budgets->count; i++)
        results[i] =
            (struct check_result){ .budget = &budgets->list[i], .limit = budgets->list[i].limit, .is_of_job = true };
    if (budgets->suppressions != NULL) {
        message("%s: the file of a job has no leaks that suppressions could fit: check the traces of its ranks",
                check->file->path);
        return COMMAND_WRONG;
    }
    for (size_t i = 0; i < budgets->count && status == COMMAND_FINE; i++)
        status = job_refuse(check, &budgets->list[i]);
    if (status == COMMAND_FINE)
        status = job_look_at_ranks(check->file);
    for (size_t i = 0; i < budgets->count && status == COMMAND_FINE; i++)
        status = job_judge(check, &results[i]);
    return status;
}

int
job_check_lacks(const struct trace *file, char *buffer, size_t size, const char **out)
{
    int64_t world_size = 0, missing = 0, incomplete = 0, left = 0, merged = 0;
    char *names = NULL;
    int status = trace_integer(file, "SELECT value FROM meta WHERE key = 'world_size'", &world_size);

    *out = buffer;
    if (status == COMMAND_FINE)
        status = trace_integer(file, "SELECT count(*) FROM rank WHERE NOT complete", &incomplete);
    if (status == COMMAND_FINE)
        status = trace_integer(file, "SELECT count(*) FROM left_out", &left);
    if (status == COMMAND_FINE)
        status = trace_integer(file, "SELECT value FROM meta WHERE key = 'complete'", &merged);
    if (status == COMMAND_FINE && !job_missing(file->db, world_size, &names, &missing))
        status = trace_broken(file, "no memory for its ranks");
    if (missing > 0)
        snprintf(buffer, size, "ranks are missing: %s", names);
    else if (incomplete > 0)
        snprintf(buffer, size, "the trace%s of %" PRId64 " rank%s incomplete", incomplete == 1 ? "" : "s", incomplete,
                 incomplete == 1 ? " is" : "s are");
    else if (left > 0)
        snprintf(buffer, size, "%" PRId64 " trace%s left out", left, left == 1 ? " was" : "s were");
    else if (merged != 1)
        snprintf(buffer, size, "the merge did not come to its end");
    else
        *out = NULL;
    free(names);
    return status;
}
