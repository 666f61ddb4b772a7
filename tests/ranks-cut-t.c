/*
 * Tests the two ends of medians, and what `tidemark ranks` makes of them, against brute force: random jobs of which the
 * file has only the largest groups of each rank.
 */
#include "tests/random-trace.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "viewer/base/exit-status.h"
#include "viewer/ranks/median.h"
#include "viewer/ranks/ranks.h"

#define ROUNDS 300
#define RANKS  7
#define GROUPS 6
#define STEPS  6
#define JOB    "ranks-cut-t-job.db"

/* What a rank has of each group at the peak and at the end of each step; the steps are numbered from 0. */
struct truth {
    int64_t peak[STEPS][GROUPS], end[STEPS][GROUPS];
    int peak_step;
    bool at_peak[GROUPS], in_steps[GROUPS]; /* the file lists the group */
    int64_t peak_bound, step_bound;
};

static struct truth ranks[RANKS];
static int rank_count;
static struct job job;
static uint64_t seed, state;
static int round_number;

static bool
wrong(const char *what, int rank, int group)
{
    diag("seed %" PRIu64 ", round %d: %s, of rank %d and group %d", seed, round_number, what, rank, group);
    return false;
}

static int64_t
at_peak(const struct truth *truth, int group)
{
    return truth->peak[truth->peak_step][group];
}

/* The most that a rank has of a group in any step. */
static int64_t
most_of(const struct truth *truth, int group)
{
    int64_t most = 0;

    for (int step = 0; step < STEPS; step++) {
        most = truth->peak[step][group] > most ? truth->peak[step][group] : most;
        most = truth->end[step][group] > most ? truth->end[step][group] : most;
    }
    return most;
}

/* List the `kept` groups with the most bytes, of the others say the most. */
static int64_t
cut(const struct truth *truth, int64_t (*figure)(const struct truth *, int), size_t kept, bool *listed)
{
    int64_t bound = 0;

    for (int group = 0; group < GROUPS; group++) {
        size_t above = 0;

        for (int other = 0; other < GROUPS; other++) {
            int64_t own = figure(truth, group), theirs = figure(truth, other);

            above += theirs > own || (theirs == own && other < group);
        }
        listed[group] = above < kept;
        if (!listed[group] && figure(truth, group) > bound)
            bound = figure(truth, group);
    }
    return bound;
}

static void
draw_rank(struct truth *truth)
{
    int from = (int)random_draw(&state, STEPS), raised = (int)random_draw(&state, GROUPS);
    int leaking = (int)random_draw(&state, GROUPS);
    int64_t leak = random_draw(&state, 3) == 0 ? 100 + 100 * (int64_t)random_draw(&state, 20) : 0;

    for (int group = 0; group < GROUPS; group++) {
        int64_t usual = (int64_t)random_draw(&state, 4) * 100;

        for (int step = 0; step < STEPS; step++) {
            int64_t more = group == raised && step >= from ? 1000 : 0;

            truth->peak[step][group] = random_draw(&state, 4) == 0 ? usual + more + 7 : usual + more;
            truth->end[step][group] = random_draw(&state, 4) == 0 ? usual + more + 9 : usual;
            if (group == leaking) {
                truth->peak[step][group] += leak * step;
                truth->end[step][group] += leak * step;
            }
        }
    }
    truth->peak_step = (int)random_draw(&state, STEPS);
    truth->peak_bound = cut(truth, at_peak, 1 + random_draw(&state, GROUPS), truth->at_peak);
    truth->step_bound = cut(truth, most_of, 1 + random_draw(&state, GROUPS), truth->in_steps);
}

/* What a rank has of all groups at the end of a step. */
static int64_t
end_of(int rank, int step)
{
    int64_t bytes = 0;

    for (int group = 0; group < GROUPS; group++)
        bytes += ranks[rank].end[step][group];
    return bytes;
}

static void
write_groups(int rank)
{
    const struct truth *truth = &ranks[rank];

    for (int group = 0; group < GROUPS; group++) {
        int64_t peak = 0, end = 0;

        if (truth->at_peak[group] && at_peak(truth, group) > 0)
            job_execute(&job, "INSERT INTO peak_group VALUES (%d, 1, %d, %lld, 1, 0)", rank, group + 1,
                        (long long)at_peak(truth, group));
        for (int step = 0; step < STEPS && truth->in_steps[group]; step++) {
            if (truth->peak[step][group] != peak || truth->end[step][group] != end)
                job_execute(&job, "INSERT INTO step_group VALUES (%d, 1, %d, %d, %lld, %lld)", rank, group + 1, step,
                            (long long)truth->peak[step][group], (long long)truth->end[step][group]);
            peak = truth->peak[step][group];
            end = truth->end[step][group];
        }
    }
    if (truth->peak_bound > 0 || truth->step_bound > 0)
        job_execute(&job, "INSERT INTO group_cut VALUES (%d, 1, 'tag', %lld, %lld)", rank, (long long)truth->peak_bound,
                    (long long)truth->step_bound);
}

static bool
write_job(void)
{
    unlink(JOB);
    if (job_open(JOB, &job) != COMMAND_FINE || job_begin(&job) != COMMAND_FINE)
        return false;
    job_execute(&job, "INSERT INTO memory VALUES (1, 'device')");
    for (int group = 0; group < GROUPS; group++)
        job_execute(&job, "INSERT INTO allocation_group VALUES (%d, 'tag', '%d')", group + 1, group);
    for (int rank = 0; rank < rank_count; rank++) {
        int64_t peak = 0;

        for (int group = 0; group < GROUPS; group++)
            peak += at_peak(&ranks[rank], group);
        job_execute(&job,
                    "INSERT INTO rank VALUES (%d, '%d', '%d', NULL, NULL, 1, NULL, 0, 0, 1, 1, 'closed', 0, 1, 1, 0, 1,"
                    " NULL, NULL)",
                    rank, rank, rank);
        job_execute(&job,
                    "INSERT INTO rank_memory VALUES (%d, 1, 0, %lld, 1, 1, %d, 0, NULL, NULL, NULL, 1, 1, 0, 1, 0, %d,"
                    " 0, %d, %lld, 0)",
                    rank, (long long)peak, ranks[rank].peak_step, STEPS, STEPS - 1,
                    (long long)(end_of(rank, STEPS - 1) - end_of(rank, 0)));
        for (int step = 0; step < STEPS; step++)
            job_execute(&job, "INSERT INTO step VALUES (%d, 1, %d, 0, 1, 1, 1, 1, %lld, NULL, 1, 1)", rank, step,
                        (long long)end_of(rank, step));
        write_groups(rank);
    }
    if (median_fill(&job) != COMMAND_FINE || job_commit(&job) != COMMAND_FINE)
        return false;
    job_close(&job);
    return true;
}

static int
compare(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* The lower one in the middle. */
static int64_t
middle(int64_t *values)
{
    qsort(values, (size_t)rank_count, sizeof(*values), compare);
    return values[(rank_count - 1) / 2];
}

/* The median of all ranks in one step, as it is. */
static int64_t
true_median(int step, int group)
{
    int64_t values[RANKS];

    for (int rank = 0; rank < rank_count; rank++)
        values[rank] = ranks[rank].peak[step][group];
    return middle(values);
}

/* The first step from which on the rank has more than the median, by more than an eighth of what it has at its peak. */
static int
true_start(int rank, int group, bool *is_there)
{
    const struct truth *truth = &ranks[rank];
    int64_t excess = at_peak(truth, group) - true_median(truth->peak_step, group);
    int start = truth->peak_step;

    *is_there = excess != 0;
    while (start > 0) {
        int64_t here = truth->peak[start - 1][group] - true_median(start - 1, group);

        if (excess > 0 ? here <= excess / 8 : here >= excess / 8)
            break;
        start--;
    }
    return start;
}

static bool
check_peak(const struct ranks_group *group, int rank, int number)
{
    int64_t own = at_peak(&ranks[rank], number), truth[RANKS], least[RANKS], most[RANKS];
    struct ranks_range over = ranks_group_over(group);

    for (int i = 0; i < rank_count; i++) {
        bool listed = ranks[i].at_peak[number];

        truth[i] = at_peak(&ranks[i], number);
        least[i] = listed ? truth[i] : 0;
        most[i] = listed ? truth[i] : ranks[i].peak_bound;
    }
    if (group->median.least != middle(least) || group->median.most != middle(most))
        return wrong("the ends of the median", rank, number);
    own -= middle(truth);
    if (own < over.least || own > over.most)
        return wrong("the difference is not between its ends", rank, number);
    return true;
}

static bool
check_start(const struct ranks_group *group, int rank, int number, size_t *starts, size_t *between)
{
    bool is_there;
    int start = true_start(rank, number, &is_there);

    if (!group->has_step)
        return true;
    ++*starts;
    *between += !ranks_is_exact(group->step);
    if (!is_there || start < group->step.least || start > group->step.most)
        return wrong("the step from which on the difference is there", rank, number);
    return true;
}

/* The median of the ends of one step: as it is, and the two ends of it that the file tells. */
static struct ranks_range
end_median(int step, int group, int64_t *truth)
{
    int64_t values[RANKS], least[RANKS], most[RANKS];

    for (int i = 0; i < rank_count; i++) {
        bool listed = ranks[i].in_steps[group];

        values[i] = ranks[i].end[step][group];
        least[i] = listed ? values[i] : 0;
        most[i] = listed ? values[i] : ranks[i].step_bound;
    }
    *truth = middle(values);
    return (struct ranks_range){ middle(least), middle(most) };
}

/* The group in which a rank grows most for certain, and both ends of by how much; -1: there is none. */
static int
true_growth(int rank, struct ranks_range *more, int64_t *truth)
{
    int found = -1;

    for (int group = 0; group < GROUPS; group++) {
        int64_t own = ranks[rank].end[STEPS - 1][group] - ranks[rank].end[0][group], first, last;
        struct ranks_range begin = end_median(0, group, &first), end = end_median(STEPS - 1, group, &last);
        struct ranks_range here = { own - end.most + begin.least, own - end.least + begin.most };

        if (!ranks[rank].in_steps[group] || here.least <= 0 || (found >= 0 && here.least <= more->least))
            continue;
        found = group;
        *more = here;
        *truth = own - last + first;
    }
    return found;
}

/* `grown` counts the growths with a group, `grown_between` those with two ends. */
static bool
check_growth(const struct trace *file, size_t *grown, size_t *grown_between)
{
    struct ranks answer;
    bool good = ranks_make(file, &(struct ranks_options){ .rank = 0, .kind = "tag" }, &answer) == COMMAND_FINE;

    for (size_t i = 0; i < answer.growth_count && good; i++) {
        const struct ranks_growth *growth = &answer.growths[i];
        int rank = (int)growth->rank->rank;
        struct ranks_range more = { 0, 0 };
        int64_t truth = 0;
        int group = true_growth(rank, &more, &truth);

        if ((growth->group == NULL) != (group < 0) || (group >= 0 && atoi(growth->group) != group))
            good = wrong("the group in which a rank grows most", rank, group);
        if (!good || group < 0)
            continue;
        ++*grown;
        *grown_between += !ranks_is_exact(growth->group_more);
        if (growth->group_more.least != more.least || growth->group_more.most != more.most)
            good = wrong("the ends of the growth", rank, group);
        if (truth < growth->group_more.least || truth > growth->group_more.most)
            good = wrong("the growth is not between its ends", rank, group);
    }
    ranks_free(&answer);
    return good;
}

/* Of one job. */
static bool
check_growths(size_t *grown, size_t *grown_between)
{
    struct trace file;
    bool good;

    if (job_read(JOB, &file) != COMMAND_FINE)
        return false;
    good = check_growth(&file, grown, grown_between);
    trace_close(&file);
    return good;
}

/* All that is listed of each rank. `starts` counts the differences with a step, `between` those with two. */
static bool
check_ranks(bool *peaks, bool *steps, size_t *starts, size_t *between)
{
    struct trace file;
    bool good = true;

    if (job_read(JOB, &file) != COMMAND_FINE)
        return false;
    for (int rank = 0; rank < rank_count && good; rank++) {
        struct ranks answer;

        good = ranks_make(&file, &(struct ranks_options){ .rank = rank }, &answer) == COMMAND_FINE;
        for (size_t i = 0; i < answer.group_count && good; i++) {
            int number = atoi(answer.groups[i].name);

            *peaks = check_peak(&answer.groups[i], rank, number) && *peaks;
            *steps = check_start(&answer.groups[i], rank, number, starts, between) && *steps;
        }
        ranks_free(&answer);
    }
    trace_close(&file);
    return good;
}

/* Where nothing is left out, each difference has one step, and it is the right one. */
static bool
check_whole(void)
{
    struct trace file;
    bool good = true;

    for (int rank = 0; rank < rank_count; rank++) {
        ranks[rank].peak_bound = cut(&ranks[rank], at_peak, GROUPS, ranks[rank].at_peak);
        ranks[rank].step_bound = cut(&ranks[rank], most_of, GROUPS, ranks[rank].in_steps);
    }
    if (!write_job() || job_read(JOB, &file) != COMMAND_FINE)
        return false;
    for (int rank = 0; rank < rank_count && good; rank++) {
        struct ranks answer;

        good = ranks_make(&file, &(struct ranks_options){ .rank = rank }, &answer) == COMMAND_FINE;
        for (size_t i = 0; i < answer.group_count && good; i++) {
            const struct ranks_group *group = &answer.groups[i];
            int number = atoi(group->name);
            bool is_there;
            int start = true_start(rank, number, &is_there);

            if (ranks_certain(ranks_group_over(group)) == 0)
                continue;
            if (!ranks_is_exact(group->median) || group->has_step != is_there ||
                (is_there && (group->step.least != start || group->step.most != start)))
                good = wrong("the only step", rank, number);
        }
        ranks_free(&answer);
    }
    trace_close(&file);
    return good;
}

int
main(void)
{
    bool written = true, peaks = true, steps = true, whole = true, growths = true;
    size_t starts = 0, between = 0, grown = 0, grown_between = 0;

    plan(7);
    seed = random_trace_seed();
    state = seed * 2 + 1;
    for (round_number = 0; round_number < ROUNDS && written; round_number++) {
        rank_count = 1 + (int)random_draw(&state, RANKS);
        for (int rank = 0; rank < rank_count; rank++)
            draw_rank(&ranks[rank]);
        written = write_job() && check_ranks(&peaks, &steps, &starts, &between);
        growths = written && check_growths(&grown, &grown_between) && growths;
        if (round_number % 10 == 0)
            whole = check_whole() && whole;
    }
    unlink(JOB);
    diag("%zu differences have steps, %zu of them two", starts, between);
    diag("%zu ranks grow in a group, %zu of them between two ends", grown, grown_between);
    ok(written, "random jobs with groups that are left out are read");
    ok(peaks, "both ends of a median are those by brute force, and each difference lies between its ends");
    ok(steps, "the step from which on a difference is there lies between its ends");
    ok(starts > 100 && between > 20 && between < starts, "there are differences with one step, and with two");
    ok(whole, "where nothing is left out, each difference has the step that it has by brute force");
    ok(growths, "the group in which a rank grows most, and both ends of by how much, are those by brute force");
    ok(grown > 100 && grown_between > 20 && grown_between < grown, "growth is known with one end, and with two");
    return done();
}
