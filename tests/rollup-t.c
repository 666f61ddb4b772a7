/*
 * Tests `tidemark merge` against brute force: what the file of a job says of each rank over time, at its peak and in
 * its steps, and of the medians, over small random traces with random marks, which are not of the same steps.
 */
#include "tests/answers.h"
#include "tests/random-trace.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "viewer/base/exit-status.h"

#define ROUNDS   40
#define RANKS    3
#define STEPS    8
#define START_NS INT64_C(1700000000000000000)
#define JOB      "rollup-t-job.db"

/* Two times for each life, and an entry for no tag. */
#define EVENTS (2 * RANDOM_LIVES)
#define TAGS   (RANDOM_TAGS + 1)

static const char *const tag_names[TAGS] = { "(none)", "a", "a/b", "a/b/c", "d", "d/e" };

/* What is live right after an event. */
struct point {
    int64_t ns, id;
    int is_free;
    int64_t live, reserved, count, by_tag[TAGS], count_by_tag[TAGS];
    bool is_chunk;
};

struct figures {
    struct point points[EVENTS];
    size_t count;
    int64_t marks[STEPS], numbers[STEPS]; /* the time of each mark of a step, and its number */
    size_t mark_count;
    int64_t step_peak[STEPS + 1], step_end[STEPS + 1];
};

static struct random_trace trace;
static struct figures all[RANKS];
static sqlite3 *job;
static uint64_t seed;

/* The first column of the first row as an integer; INT64_MIN: there is none, or it is NULL. */
__attribute__((format(printf, 1, 2))) static int64_t
number(const char *format, ...)
{
    sqlite3_stmt *statement = NULL;
    int64_t found = INT64_MIN;
    va_list arguments;
    char *sql;

    va_start(arguments, format);
    sql = sqlite3_vmprintf(format, arguments);
    va_end(arguments);
    if (sqlite3_prepare_v2(job, sql, -1, &statement, NULL) != SQLITE_OK)
        diag("%s: %s", sql, sqlite3_errmsg(job));
    if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        found = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_free(sql);
    return found;
}

static bool
same(const char *what, int64_t at, int64_t seen, int64_t wanted)
{
    if (seen != wanted)
        diag("seed %" PRIu64 ": %s of %" PRId64 " is %" PRId64 ", by brute force %" PRId64, seed, what, at, seen,
             wanted);
    return seen == wanted;
}

/* ---- brute force ------------------------------------------------------------------------------------------------- */

static int
compare_points(const void *left, const void *right)
{
    const struct point *a = left, *b = right;

    if (a->ns != b->ns)
        return (a->ns > b->ns) - (a->ns < b->ns);
    if (a->is_free != b->is_free)
        return a->is_free - b->is_free;
    return (a->id > b->id) - (a->id < b->id);
}

static void
add_point(struct figures *figures, const struct random_life *life, int is_free)
{
    struct point *point = &figures->points[figures->count++];

    *point = (struct point){
        .ns = is_free ? life->free_ns : life->alloc_ns, .id = life->id, .is_free = is_free, .is_chunk = life->layer == 3
    };
}

static void
look(struct figures *figures)
{
    figures->count = 0;
    for (size_t i = 0; i < trace.count; i++) {
        if (trace.lives[i].status != 0)
            continue;
        add_point(figures, &trace.lives[i], 0);
        if (trace.lives[i].free_ns != RANDOM_NEVER)
            add_point(figures, &trace.lives[i], 1);
    }
    qsort(figures->points, figures->count, sizeof(figures->points[0]), compare_points);
    for (size_t i = 0; i < figures->count; i++) {
        struct point *point = &figures->points[i];
        const struct random_life *event = NULL;

        for (size_t j = 0; j < trace.count; j++)
            event = trace.lives[j].id == point->id ? &trace.lives[j] : event;
        for (size_t j = 0; j < trace.count; j++) {
            const struct random_life *life = &trace.lives[j];

            if (!random_trace_is_live(life, event, point->is_free))
                continue;
            point->reserved += life->layer == 3 ? life->size : 0;
            if (life->layer != 1)
                continue;
            point->live += life->size;
            point->count++;
            point->by_tag[life->tag] += life->size;
            point->count_by_tag[life->tag]++;
        }
    }
}

/* The place behind the last event before `ns`; 0: none was. */
static size_t
before(const struct figures *figures, int64_t ns)
{
    size_t place = 0;

    while (place < figures->count && figures->points[place].ns < ns)
        place++;
    return place;
}

static const struct point nothing;

/* What holds once `place` events have happened. */
static const struct point *
after(const struct figures *figures, size_t place)
{
    return place > 0 ? &figures->points[place - 1] : &nothing;
}

/* The first place in [from, to] with the most live bytes. */
static size_t
highest(const struct figures *figures, size_t from, size_t to)
{
    size_t best = from;

    for (size_t i = from + 1; i <= to; i++) {
        if (after(figures, i)->live > after(figures, best)->live)
            best = i;
    }
    return best;
}

/* ---- the file of the job ----------------------------------------------------------------------------------------- */

static bool
check_bucket(int rank, const struct figures *figures, int64_t bucket, int64_t shift)
{
    size_t from = before(figures, (bucket << shift) - START_NS),
           to = before(figures, ((bucket + 1) << shift) - START_NS);
    int64_t least = after(figures, from)->live, most = least, low = after(figures, from)->reserved, high = low;
    int64_t allocations = 0, frees = 0;
    bool good;

    for (size_t i = from + 1; i <= to; i++) {
        const struct point *point = after(figures, i);

        least = point->live < least ? point->live : least;
        most = point->live > most ? point->live : most;
        low = point->reserved < low ? point->reserved : low;
        high = point->reserved > high ? point->reserved : high;
        allocations += !point->is_chunk && !point->is_free;
        frees += !point->is_chunk && point->is_free;
    }
#define BUCKET(column)                                                                                                 \
    number("SELECT " column " FROM usage_bucket WHERE rank = %d AND bucket = %lld", rank, (long long)bucket)
    if (from == to)
        return true;
    good = same("most", bucket, BUCKET("most_bytes"), most);
    good = same("least", bucket, BUCKET("least_bytes"), least) && good;
    good = same("end", bucket, BUCKET("end_bytes"), after(figures, to)->live) && good;
    good = same("most reserved", bucket, BUCKET("reserved_most_bytes"), high) && good;
    good = same("least reserved", bucket, BUCKET("reserved_least_bytes"), low) && good;
    good = same("reserved", bucket, BUCKET("reserved_end_bytes"), after(figures, to)->reserved) && good;
    good = same("allocations", bucket, BUCKET("allocations"), allocations) && good;
    return same("frees", bucket, BUCKET("frees"), frees) && good;
}

static bool
check_usage(int rank, const struct figures *figures)
{
    int64_t shift = number("SELECT bucket_shift FROM rank_memory WHERE rank = %d", rank), last = -1;
    int64_t rows = number("SELECT count(*) FROM usage_bucket WHERE rank = %d", rank);
    bool good = same("at most 4096 buckets", rank, rows <= 4096, 1);

    for (size_t i = 0; i < figures->count; i++) {
        int64_t bucket = (START_NS + figures->points[i].ns) >> shift;

        if (bucket != last)
            good = check_bucket(rank, figures, bucket, shift) && good;
        last = bucket;
    }
    return good;
}

static bool
check_peak(int rank, const struct figures *figures)
{
    size_t place = highest(figures, 0, figures->count);
    const struct point *peak = after(figures, place);
    bool good = same("peak", rank, number("SELECT peak_bytes FROM rank_memory WHERE rank = %d", rank), peak->live);

    good = same("count at the peak", rank, number("SELECT peak_count FROM rank_memory WHERE rank = %d", rank),
                peak->count) &&
           good;
    good = same("end", rank, number("SELECT live_end_bytes FROM rank_memory WHERE rank = %d", rank),
                after(figures, figures->count)->live) &&
           good;
    for (int tag = 0; tag < TAGS; tag++) {
        int64_t without = 0;

        for (size_t i = 0; i < figures->count; i++) {
            const struct point *point = &figures->points[i];

            if (point->live - point->by_tag[tag] > without)
                without = point->live - point->by_tag[tag];
        }
#define PEAK_GROUP(column)                                                                                             \
    number("SELECT " column " FROM peak_group JOIN allocation_group USING (group_id) WHERE rank = %d AND"              \
           " kind = 'tag' AND name = '%s'",                                                                            \
           rank, tag_names[tag])
        if (peak->by_tag[tag] == 0) {
            good = same("a tag that is not there", tag, PEAK_GROUP("bytes"), INT64_MIN) && good;
            continue;
        }
        good = same("bytes of a tag at the peak", tag, PEAK_GROUP("bytes"), peak->by_tag[tag]) && good;
        good = same("count of a tag at the peak", tag, PEAK_GROUP("count"), peak->count_by_tag[tag]) && good;
        good = same("peak without a tag", tag, PEAK_GROUP("peak_without_bytes"), without) && good;
    }
    return good;
}

/* What a tag has in a step: the last row up to it. */
static int64_t
step_group(int rank, int tag, int64_t step, const char *column)
{
    int64_t found = number("SELECT %s FROM step_group JOIN allocation_group USING (group_id) WHERE rank = %d AND"
                           " kind = 'tag' AND name = '%s' AND step <= %lld ORDER BY step DESC LIMIT 1",
                           column, rank, tag_names[tag], (long long)step);

    return found == INT64_MIN ? 0 : found;
}

/* Step -1 is before the first mark. */
static int64_t
number_of(const struct figures *figures, size_t place)
{
    return place == 0 ? -1 : figures->numbers[place - 1];
}

static bool
check_steps(int rank, struct figures *figures)
{
    bool good = true;

    for (size_t i = 0; i <= figures->mark_count; i++) {
        int64_t step = number_of(figures, i);
        size_t from = i == 0 ? 0 : before(figures, figures->marks[i - 1]);
        size_t to = i < figures->mark_count ? before(figures, figures->marks[i]) : figures->count;
        size_t peak = highest(figures, from, to);

#define STEP(column) number("SELECT " column " FROM step WHERE rank = %d AND step = %lld", rank, (long long)step)
        figures->step_peak[i] = after(figures, peak)->live;
        figures->step_end[i] = after(figures, to)->live;
        good = same("peak of a step", step, STEP("peak_bytes"), figures->step_peak[i]) && good;
        good = same("end of a step", step, STEP("end_bytes"), figures->step_end[i]) && good;
        good = same("a whole step", step, STEP("is_whole"), i < figures->mark_count) && good;
        for (int tag = 0; tag < TAGS; tag++) {
            good = same("a tag at the peak of a step", step, step_group(rank, tag, step, "peak_bytes"),
                        after(figures, peak)->by_tag[tag]) &&
                   good;
            good = same("a tag at the end of a step", step, step_group(rank, tag, step, "end_bytes"),
                        after(figures, to)->by_tag[tag]) &&
                   good;
        }
    }
    return good;
}

/* The values of the ranks that count in a step; of two the lower one is the median. */
struct values {
    int64_t list[RANKS];
    size_t count;
};

static void
add_value(struct values *values, int64_t value)
{
    size_t place = values->count++;

    for (; place > 0 && values->list[place - 1] > value; place--)
        values->list[place] = values->list[place - 1];
    values->list[place] = value;
}

static int64_t
median(const struct values *values)
{
    return values->count > 0 ? values->list[(values->count - 1) / 2] : 0;
}

/* The place of the step in which a rank is when others are in this one; -1: it has no steps as late. */
static int
place_of(const struct figures *figures, int64_t step)
{
    int place = -1;

    for (size_t i = 0; i <= figures->mark_count; i++)
        place = number_of(figures, i) <= step ? (int)i : place;
    return number_of(figures, figures->mark_count) < step ? -1 : place;
}

/* The first step after this one that any rank has; INT64_MAX: there is none. */
static int64_t
next_of_all(int64_t step)
{
    int64_t next = INT64_MAX;

    for (int rank = 0; rank < RANKS; rank++) {
        for (size_t i = 0; i < all[rank].mark_count; i++)
            next = all[rank].numbers[i] > step && all[rank].numbers[i] < next ? all[rank].numbers[i] : next;
    }
    return next;
}

/* Whether the step that a rank has at this place ends before `next`, as that of others does. */
static bool
ends_before(const struct figures *figures, int place, int64_t next)
{
    return (size_t)place < figures->mark_count ? number_of(figures, (size_t)place + 1) == next : next == INT64_MAX;
}

/* The median of a tag in a step: the last row up to it. Of so few tags none is left out, and both ends are the same. */
static int64_t
step_median(int tag, int64_t step, const char *column)
{
    int64_t found = number("SELECT m.%s FROM group_step_median AS m JOIN allocation_group USING (group_id) WHERE"
                           " kind = 'tag' AND name = '%s' AND step <= %lld ORDER BY step DESC LIMIT 1",
                           column, tag_names[tag], (long long)step);

    return found == INT64_MIN ? 0 : found;
}

static bool
check_step_median(int64_t step)
{
    struct values peaks = { .count = 0 }, ends = { .count = 0 }, ended = { .count = 0 };
    bool good;

    for (int rank = 0; rank < RANKS; rank++) {
        int place = place_of(&all[rank], step);

        if (place < 0)
            continue;
        add_value(&peaks, all[rank].step_peak[place]);
        add_value(&ends, all[rank].step_end[place]);
        if (ends_before(&all[rank], place, next_of_all(step)))
            add_value(&ended, all[rank].step_end[place]);
    }
#define MEDIAN(column) number("SELECT " column " FROM step_median WHERE step = %lld", (long long)step)
    good = same("ranks in a step", step, MEDIAN("ranks"), (int64_t)peaks.count);
    good = same("median of the peaks of a step", step, MEDIAN("peak_bytes"), median(&peaks)) && good;
    good = same("median of the ends of a step", step, MEDIAN("end_bytes"), median(&ends)) && good;
    good = same("ranks that end a step", step, MEDIAN("ended_ranks"), (int64_t)ended.count) && good;
    return same("median of what they have", step, MEDIAN("ended_bytes"), median(&ended)) && good;
}

static bool
check_tag_median(int tag, int64_t step)
{
    struct values peaks = { .count = 0 }, ends = { .count = 0 };
    bool good;

    for (int rank = 0; rank < RANKS; rank++) {
        if (place_of(&all[rank], step) < 0)
            continue;
        add_value(&peaks, step_group(rank, tag, step, "peak_bytes"));
        add_value(&ends, step_group(rank, tag, step, "end_bytes"));
    }
    good =
        same("median of a tag at the peak of a step", step, step_median(tag, step, "peak_most_bytes"), median(&peaks));
    good = same("the least of it", step, step_median(tag, step, "peak_least_bytes"), median(&peaks)) && good;
    good =
        same("median of a tag at the end of a step", step, step_median(tag, step, "end_most_bytes"), median(&ends)) &&
        good;
    return same("the least of that", step, step_median(tag, step, "end_least_bytes"), median(&ends)) && good;
}

static bool
check_medians(void)
{
    bool good = true;
    int64_t rows = 0;

    for (int64_t step = -1; step != INT64_MAX; step = next_of_all(step)) {
        good = check_step_median(step) && good;
        for (int tag = 0; tag < TAGS; tag++)
            good = check_tag_median(tag, step) && good;
        rows++;
    }
    return same("steps with a median", RANKS, number("SELECT count(*) FROM step_median"), rows) && good;
}

/* ---- the traces -------------------------------------------------------------------------------------------------- */

/* Write a random trace of a rank, with its times stretched, and marks of STEPS steps at different times. */
static void
write_rank(int rank, uint64_t *state)
{
    struct figures *figures = &all[rank];
    int64_t stretch = INT64_C(1) << random_draw(state, 24), end;
    uint64_t most = 1 + random_draw(state, 3); /* some ranks mark each step, and some leave steps out */
    char path[64], sql[256];
    sqlite3 *db;

    random_trace_make(&trace, random_draw(state, UINT64_MAX), 20 + random_draw(state, 100));
    for (size_t i = 0; i < trace.count; i++) {
        trace.lives[i].alloc_ns *= stretch;
        if (trace.lives[i].free_ns != RANDOM_NEVER)
            trace.lives[i].free_ns *= stretch;
    }
    snprintf(path, sizeof(path), "rollup-t-rank-%d.db", rank);
    random_trace_write(&trace, path);
    look(figures);
    end = trace.end_ns * stretch + 2 * STEPS;
    if (sqlite3_open(path, &db) != SQLITE_OK)
        exit(99);
    sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    figures->mark_count = STEPS;
    for (size_t i = 0; i < STEPS; i++) {
        figures->marks[i] = (int64_t)(i + random_draw(state, (uint64_t)(end / STEPS)) + (uint64_t)(end / STEPS) * i);
        figures->numbers[i] = (i > 0 ? figures->numbers[i - 1] + 1 : 0) + (int64_t)random_draw(state, most);
        snprintf(sql, sizeof(sql), "INSERT INTO mark VALUES (%" PRId64 ", 1, 'mark', 'step %" PRId64 "', NULL)",
                 figures->marks[i], figures->numbers[i]);
        sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    snprintf(sql, sizeof(sql), "INSERT INTO meta VALUES ('rank', %d), ('world_size', %d), ('trace_id', %d)", rank,
             RANKS, rank + 1);
    sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_close(db);
}

int
main(void)
{
    bool usage = true, peaks = true, steps = true, medians = true, merged = true;
    uint64_t state;

    plan(5);
    seed = random_trace_seed();
    state = seed * 2 + 1;
    for (int round = 0; round < ROUNDS && merged; round++) {
        struct answer answer;

        for (int rank = 0; rank < RANKS; rank++)
            write_rank(rank, &state);
        unlink(JOB);
        answer_ask(&answer, "merge --jobs=2 -o " JOB " rollup-t-rank-0.db rollup-t-rank-1.db rollup-t-rank-2.db");
        merged = same("the exit status", round, answer.status, COMMAND_FINE) && merged;
        answer_free(&answer);
        if (sqlite3_open(JOB, &job) != SQLITE_OK)
            exit(99);
        for (int rank = 0; rank < RANKS; rank++) {
            usage = check_usage(rank, &all[rank]) && usage;
            peaks = check_peak(rank, &all[rank]) && peaks;
            steps = check_steps(rank, &all[rank]) && steps;
        }
        medians = check_medians() && medians;
        sqlite3_close(job);
    }
    ok(merged, "three random traces are merged");
    ok(usage, "each bucket has the most, the least and the last of the live and the reserved bytes, by brute force");
    ok(peaks, "the peak of a rank, and what each tag had there, are those by brute force");
    ok(steps, "the peak and the end of each step, and what each tag had there, are those by brute force");
    ok(medians, "the medians of steps and of tags are those by brute force");
    for (int rank = 0; rank < RANKS; rank++) {
        char path[64];

        snprintf(path, sizeof(path), "rollup-t-rank-%d.db", rank);
        unlink(path);
    }
    unlink(JOB);
    return done();
}
