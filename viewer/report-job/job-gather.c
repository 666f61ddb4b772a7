/* Reads what the page of a job shows from the file of the job. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/ranks/job.h"
#include "viewer/report-job/job-gather.h"

const struct job_detail job_details[] = {
    { "small", 512, (size_t)300 << 10, 6, 4, 8 },
    { "normal", 2048, (size_t)1850 << 10, 16, 16, 32 },
    { "full", 8192, (size_t)16 << 20, 64, 100, 1000 },
};

/* No time, no step and no number of bytes is as large: they can be added. */
#define JOB_MOST ((int64_t)1 << 61)

/* A new item at the end of a list; NULL: no memory. */
#define job_add(list, capacity, count) (tidei_grow((list), (capacity), *(count), 1) ? &(*(list))[(*(count))++] : NULL)

static int
job_no_memory(const struct trace *file)
{
    return trace_broken(file, "no memory for its report");
}

/* A number of a row, which may be missing. False: it cannot be. */
static bool
job_number(sqlite3_stmt *row, int column, int64_t least, int64_t missing, int64_t *out)
{
    *out = sqlite3_column_type(row, column) == SQLITE_INTEGER ? sqlite3_column_int64(row, column) : missing;
    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        return true;
    return sqlite3_column_type(row, column) == SQLITE_INTEGER && *out >= least && *out < JOB_MOST;
}

static char *
job_text(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);

    return text != NULL ? strdup(text) : NULL;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* Where the trace lies, from the folder of the job on where it is in it, as `tidemark report` can be called there. */
static const char *
job_relative(const char *job, const char *trace)
{
    const char *slash = strrchr(job, '/');
    size_t length = slash != NULL ? (size_t)(slash - job) + 1 : 0;

    return strncmp(job, trace, length) == 0 && trace[length] != '\0' ? trace + length : trace;
}

static int
job_take_rank(void *context, const struct trace *file, sqlite3_stmt *row)
{
    struct job_gather *gather = context;
    struct job_rank *rank = job_add(&gather->ranks, &gather->rank_capacity, &gather->rank_count);
    const char *path = (const char *)sqlite3_column_text(row, 1);
    int64_t complete;
    bool can;

    if (rank == NULL)
        return job_no_memory(file);
    *rank = (struct job_rank){
        .trace = strdup(path != NULL ? job_relative(file->path, path) : ""),
        .hostname = job_text(row, 2),
        .ended = job_text(row, 3),
    };
    can = job_number(row, 0, 0, -1, &rank->rank) && rank->rank >= 0 && job_number(row, 4, INT64_MIN, -1, &rank->pid) &&
          job_number(row, 5, INT64_MIN, -1, &rank->local_rank) && job_number(row, 6, 0, 0, &rank->start_unix_ns) &&
          job_number(row, 7, -JOB_MOST, 0, &rank->first_ns) &&
          job_number(row, 8, rank->first_ns, rank->first_ns, &rank->last_ns) && job_number(row, 9, 0, 0, &complete) &&
          job_number(row, 10, 0, 0, &rank->lost_events) && job_number(row, 11, 0, 0, &rank->allocations) &&
          job_number(row, 12, 0, 0, &rank->frees) && job_number(row, 13, 0, 0, &rank->failures);
    if (!can || rank->start_unix_ns + rank->first_ns < 0)
        return job_wrong(file, "rank", rank->rank);
    rank->is_complete = complete != 0;
    rank->has_start = rank->start_unix_ns > 0;
    return rank->trace != NULL ? COMMAND_FINE : job_no_memory(file);
}

/*
 * A rank whose start is not known is placed with the first of the others. Its buckets stay whole ones: it begins at the
 * bucket of its own in which that one begins.
 */
static int
job_place_rank(struct job_gather *gather, struct job_rank *rank)
{
    int64_t shift = 0;

    trace_look_up(gather->file, &shift, "SELECT max(bucket_shift) FROM rank_memory WHERE rank = %lld",
                  (long long)rank->rank);
    if (shift < 0 || shift >= 62)
        return job_wrong(gather->file, "rank_memory", rank->rank);
    rank->start_unix_ns = gather->origin_unix_ns >> shift << shift;
    return rank->start_unix_ns + rank->first_ns >= 0 ? COMMAND_FINE : job_wrong(gather->file, "rank", rank->rank);
}

static int
job_read_ranks(struct job_gather *gather)
{
    int status =
        trace_each(gather->file, job_take_rank, gather,
                   "SELECT rank, path, hostname, ended, pid, local_rank, start_unix_ns, first_ns, last_ns, complete,"
                   " lost_events, allocations, frees, failures FROM rank ORDER BY rank");

    for (size_t i = 0; i < gather->rank_count; i++) {
        const struct job_rank *rank = &gather->ranks[i];

        if (rank->has_start && (gather->origin_unix_ns == 0 || rank->start_unix_ns < gather->origin_unix_ns))
            gather->origin_unix_ns = rank->start_unix_ns;
    }
    for (size_t i = 0; i < gather->rank_count && status == COMMAND_FINE; i++) {
        if (!gather->ranks[i].has_start)
            status = job_place_rank(gather, &gather->ranks[i]);
    }
    return status;
}

/* Where a bucket of the rank begins, since 1970. Where its start is not known, its buckets are counted from that. */
static uint64_t
job_bucket_begin(const struct job_rank *rank, int64_t bucket, unsigned shift)
{
    return ((uint64_t)bucket << shift) + (rank->has_start ? 0 : (uint64_t)rank->start_unix_ns);
}

/* ---- memories ---------------------------------------------------------------------------------------------------- */

/* What the functions of one memory share. */
struct job_reading {
    struct job_gather *gather;
    struct job_memory *memory;
    struct grid *grid;
    size_t row; /* that is filled */
};

/* The number of the rank whose row is filled. */
static int64_t
job_rank_of(const struct job_reading *reading)
{
    return reading->gather->ranks[reading->memory->rows[reading->row].rank].rank;
}

static int
job_take_row(void *context, const struct trace *file, sqlite3_stmt *statement)
{
    struct job_reading *reading = context;
    struct job_memory *memory = reading->memory;
    struct job_row *row = job_add(&memory->rows, &memory->row_capacity, &memory->row_count);
    size_t *at = &reading->row;
    int64_t rank, shift;
    bool can;

    if (row == NULL)
        return job_no_memory(file);
    *row = (struct job_row){ .has_buckets = sqlite3_column_type(statement, 2) != SQLITE_NULL,
                             .has_steps = sqlite3_column_type(statement, 4) != SQLITE_NULL,
                             .has_before = sqlite3_column_int64(statement, 6) != 0 };
    can = job_number(statement, 0, 0, -1, &rank) && job_number(statement, 1, 0, 0, &shift) && shift < 62 &&
          job_number(statement, 2, 0, 0, &row->first_bucket) && job_number(statement, 3, 0, 0, &row->last_bucket) &&
          job_number(statement, 4, 0, 0, &row->first_step) && job_number(statement, 5, -1, 0, &row->last_step) &&
          row->last_bucket <= (JOB_MOST >> shift);
    if (!can)
        return job_wrong(file, "rank_memory, usage_bucket or step", rank);
    row->shift = (unsigned)shift;
    while (*at < reading->gather->rank_count && reading->gather->ranks[*at].rank < rank)
        ++*at;
    row->rank = *at;
    return *at < reading->gather->rank_count && reading->gather->ranks[*at].rank == rank
               ? COMMAND_FINE
               : job_wrong(file, "rank_memory", rank);
}

static int
job_read_rows(struct job_reading *reading)
{
    return trace_each(
        reading->gather->file, job_take_row, reading,
        "SELECT m.rank, bucket_shift,"
        " (SELECT min(bucket) FROM usage_bucket AS u WHERE u.rank = m.rank AND u.memory_id = m.memory_id),"
        " (SELECT max(bucket) FROM usage_bucket AS u WHERE u.rank = m.rank AND u.memory_id = m.memory_id),"
        " (SELECT min(step) FROM step AS s WHERE s.rank = m.rank AND s.memory_id = m.memory_id AND step >= 0),"
        " (SELECT max(step) FROM step AS s WHERE s.rank = m.rank AND s.memory_id = m.memory_id),"
        " EXISTS (SELECT 1 FROM step AS s WHERE s.rank = m.rank AND s.memory_id = m.memory_id AND"
        " step = -1) FROM rank_memory AS m JOIN rank USING (rank) WHERE memory_id = %lld ORDER BY m.rank",
        (long long)reading->memory->memory_id);
}

/* When the first and the last thing happened on a rank, since 1970. */
static void
job_span(const struct job_gather *gather, const struct job_row *row, uint64_t *first, uint64_t *last)
{
    const struct job_rank *rank = &gather->ranks[row->rank];
    uint64_t begin = job_bucket_begin(rank, row->first_bucket, row->shift);
    uint64_t end = job_bucket_begin(rank, row->last_bucket, row->shift);

    *first = (uint64_t)(rank->start_unix_ns + rank->first_ns);
    *last = (uint64_t)(rank->start_unix_ns + rank->last_ns);
    if (row->has_buckets && begin >> row->shift < *first >> row->shift)
        *first = begin;
    if (row->has_buckets && end > *last)
        *last = end;
}

static int
job_take_bucket(void *context, const struct trace *file, sqlite3_stmt *statement)
{
    struct job_reading *reading = context;
    const struct job_row *row = &reading->memory->rows[reading->row];
    int64_t bucket, most, end;
    uint64_t first, last, position;

    if (!job_number(statement, 0, 0, -1, &bucket) || !job_number(statement, 1, 0, -1, &most) ||
        !job_number(statement, 2, 0, -1, &end) || bucket < 0 || most < 0 || end < 0)
        return job_wrong(file, "usage_bucket", job_rank_of(reading));
    /* The first bucket may begin before the first event. */
    job_span(reading->gather, row, &first, &last);
    position = job_bucket_begin(&reading->gather->ranks[row->rank], bucket, row->shift);
    return grid_put(reading->grid, position < first ? first : position, (uint64_t)most, (uint64_t)end)
               ? COMMAND_FINE
               : job_wrong(file, "usage_bucket", job_rank_of(reading));
}

static int
job_fill_time(struct job_reading *reading)
{
    const struct job_memory *memory = reading->memory;
    int status = COMMAND_FINE;

    for (reading->row = 0; reading->row < memory->row_count && status == COMMAND_FINE; reading->row++) {
        const struct job_row *row = &memory->rows[reading->row];
        uint64_t first, last;

        job_span(reading->gather, row, &first, &last);
        if (!grid_begin_row(reading->grid, first, last))
            return job_wrong(reading->gather->file, "rank", job_rank_of(reading));
        status = trace_each(reading->gather->file, job_take_bucket, reading,
                            "SELECT bucket, most_bytes, end_bytes FROM usage_bucket WHERE rank = %lld AND"
                            " memory_id = %lld ORDER BY bucket",
                            (long long)reading->gather->ranks[row->rank].rank, (long long)memory->memory_id);
        grid_end_row(reading->grid);
    }
    return status;
}

/* Where a step lies: position 0 is what was before the first mark, whatever the number of the first step. */
static uint64_t
job_step(const struct job_memory *memory, int64_t step)
{
    return step < memory->first_step ? 0 : (uint64_t)(step - memory->first_step) + 1;
}

static int
job_take_step(void *context, const struct trace *file, sqlite3_stmt *statement)
{
    struct job_reading *reading = context;
    int64_t step, most;

    if (!job_number(statement, 0, -1, -2, &step) || !job_number(statement, 1, 0, -1, &most) || step < -1 || most < 0)
        return job_wrong(file, "step", job_rank_of(reading));
    /* A row stands for all steps up to the next row. */
    return grid_put(reading->grid, job_step(reading->memory, step), (uint64_t)most, (uint64_t)most)
               ? COMMAND_FINE
               : job_wrong(file, "step", job_rank_of(reading));
}

static int
job_fill_steps(struct job_reading *reading)
{
    const struct job_memory *memory = reading->memory;
    int status = COMMAND_FINE;

    for (reading->row = 0; reading->row < memory->row_count && status == COMMAND_FINE; reading->row++) {
        const struct job_row *row = &memory->rows[reading->row];

        if (!row->has_steps && !row->has_before) {
            reading->grid->row++;
            continue;
        }
        if (!grid_begin_row(reading->grid, row->has_before ? 0 : job_step(memory, row->first_step),
                            row->has_steps ? job_step(memory, row->last_step) : 0))
            return job_wrong(reading->gather->file, "step", job_rank_of(reading));
        status = trace_each(reading->gather->file, job_take_step, reading,
                            "SELECT step, peak_bytes FROM step WHERE rank = %lld AND memory_id = %lld ORDER BY step",
                            (long long)reading->gather->ranks[row->rank].rank, (long long)memory->memory_id);
        grid_end_row(reading->grid);
    }
    return status;
}

int
job_gather_time(struct job_gather *gather, struct job_memory *memory)
{
    struct job_reading reading = { .gather = gather, .memory = memory, .grid = &memory->time };
    uint64_t from = UINT64_MAX, to = 0;
    unsigned shift = 0;
    int status;

    if (memory->row_count == 0)
        return COMMAND_FINE;
    for (size_t i = 0; i < memory->row_count; i++) {
        const struct job_row *row = &memory->rows[i];
        uint64_t first, last;

        job_span(gather, row, &first, &last);
        from = first < from ? first : from;
        to = last > to ? last : to;
        shift = row->shift > shift ? row->shift : shift;
    }
    if (!grid_begin(reading.grid, memory->row_count, gather->detail->columns, shift, from, to))
        return job_no_memory(gather->file);
    status = job_fill_time(&reading);
    if (status == COMMAND_FINE && !grid_finish(reading.grid, gather->grid_bytes / 3 * 2))
        status = job_no_memory(gather->file);
    return status;
}

int
job_gather_steps(struct job_gather *gather, struct job_memory *memory)
{
    struct job_reading reading = { .gather = gather, .memory = memory, .grid = &memory->steps };
    int64_t first = INT64_MAX, last = -1;
    int status;

    for (size_t i = 0; i < memory->row_count; i++) {
        const struct job_row *row = &memory->rows[i];

        if (!row->has_steps)
            continue;
        first = row->first_step < first ? row->first_step : first;
        last = row->last_step > last ? row->last_step : last;
    }
    /* What is before the first mark alone is no step. */
    if (last < 0)
        return COMMAND_FINE;
    memory->first_step = first;
    if (!grid_begin(reading.grid, memory->row_count, gather->detail->columns, 0, 0, job_step(memory, last)))
        return job_no_memory(gather->file);
    status = job_fill_steps(&reading);
    if (status == COMMAND_FINE && !grid_finish(reading.grid, gather->grid_bytes / 3))
        status = job_no_memory(gather->file);
    return status;
}

/* ---- groups at the peaks ----------------------------------------------------------------------------------------- */

static int
job_take_group(void *context, const struct trace *file, sqlite3_stmt *row)
{
    struct job_memory *memory = ((struct job_reading *)context)->memory;
    struct job_group *group = job_add(&memory->groups, &memory->group_capacity, &memory->group_count);

    if (group == NULL)
        return job_no_memory(file);
    *group = (struct job_group){ .group_id = sqlite3_column_int64(row, 0),
                                 .kind = job_text(row, 1),
                                 .name = job_text(row, 2) };
    if (!job_number(row, 3, 0, -1, &group->median.least) || !job_number(row, 4, 0, -1, &group->median.most) ||
        group->median.least < 0 || group->median.least > group->median.most)
        return job_wrong(file, "group_median", -1);
    return group->kind != NULL && group->name != NULL ? COMMAND_FINE : job_no_memory(file);
}

/* The groups of one rank: what it has of each, and of which kinds it has more that are not known. */
struct job_peak {
    struct job_reading *reading;
    int64_t *bytes;  /* owns; of each group */
    uint32_t *order; /* owns */
    bool is_cut[3];  /* of JOB_KINDS */
};

static const char *const job_kinds[] = { "tag", "function", "class" };

#define JOB_KINDS (sizeof(job_kinds) / sizeof(job_kinds[0]))

static size_t
job_kind(const char *kind)
{
    size_t i = 0;

    while (i < JOB_KINDS && (kind == NULL || strcmp(kind, job_kinds[i]) != 0))
        i++;
    return i;
}

static int
job_take_peak(void *context, const struct trace *file, sqlite3_stmt *row)
{
    struct job_peak *peak = context;
    const struct job_memory *memory = peak->reading->memory;
    int64_t id = sqlite3_column_int64(row, 0), bytes;
    size_t from = 0, to = memory->group_count;

    if (!job_number(row, 1, 0, -1, &bytes) || bytes < 0)
        return job_wrong(file, "peak_group", job_rank_of(peak->reading));
    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (memory->groups[middle].group_id < id)
            from = middle + 1;
        else
            to = middle;
    }
    if (from < memory->group_count && memory->groups[from].group_id == id)
        peak->bytes[from] = bytes;
    return COMMAND_FINE;
}

static int
job_take_cut(void *context, const struct trace *file, sqlite3_stmt *row)
{
    struct job_peak *peak = context;
    size_t kind = job_kind((const char *)sqlite3_column_text(row, 0));

    (void)file;
    if (kind < JOB_KINDS)
        peak->is_cut[kind] = true;
    return COMMAND_FINE;
}

/* By how much the rank differs from the median for certain. */
static int64_t
job_difference(const struct job_peak *peak, uint32_t group)
{
    const struct ranks_range own = { peak->bytes[group], peak->bytes[group] };

    return llabs(ranks_certain(ranks_difference(own, peak->reading->memory->groups[group].median)));
}

/* An insertion into the first `most` of an order. Returns their number. */
static size_t
job_place_group(struct job_peak *peak, size_t count, size_t most, uint32_t group)
{
    size_t at = count;
    int64_t difference = job_difference(peak, group);

    while (at > 0) {
        int64_t other = job_difference(peak, peak->order[at - 1]);

        if (other > difference || (other == difference && peak->bytes[peak->order[at - 1]] >= peak->bytes[group]))
            break;
        at--;
    }
    if (at == most)
        return count;
    count += count < most;
    memmove(peak->order + at + 1, peak->order + at, (count - at - 1) * sizeof(*peak->order));
    peak->order[at] = group;
    return count;
}

/* Keep the groups of one kind that differ most, and then those with the most bytes. */
static bool
job_keep_groups(struct job_peak *peak, size_t kind)
{
    struct job_memory *memory = peak->reading->memory;
    size_t most = peak->reading->gather->detail->groups, count = 0;

    for (uint32_t i = 0; i < memory->group_count; i++) {
        const struct job_group *group = &memory->groups[i];
        bool is_there = peak->bytes[i] > 0 || (group->median.least > 0 && !peak->is_cut[kind]);

        if (is_there && strcmp(group->kind, job_kinds[kind]) == 0)
            count = job_place_group(peak, count, most, i);
    }
    for (size_t i = 0; i < count; i++) {
        struct job_share *share = job_add(&memory->shares, &memory->share_capacity, &memory->share_count);

        if (share == NULL)
            return false;
        *share = (struct job_share){ peak->reading->row, peak->order[i], peak->bytes[peak->order[i]] };
    }
    return true;
}

static int
job_read_peak(struct job_peak *peak)
{
    struct job_reading *reading = peak->reading;
    const struct job_memory *memory = reading->memory;
    const long long rank = (long long)reading->gather->ranks[memory->rows[reading->row].rank].rank;
    int status;

    memset(peak->bytes, 0, memory->group_count * sizeof(*peak->bytes));
    memset(peak->is_cut, 0, sizeof(peak->is_cut));
    status = trace_each(reading->gather->file, job_take_peak, peak,
                        "SELECT group_id, bytes FROM peak_group WHERE rank = %lld AND memory_id = %lld", rank,
                        (long long)memory->memory_id);
    if (status == COMMAND_FINE)
        status = trace_each(reading->gather->file, job_take_cut, peak,
                            "SELECT kind FROM group_cut WHERE rank = %lld AND memory_id = %lld AND peak_bytes > 0",
                            rank, (long long)memory->memory_id);
    for (size_t kind = 0; kind < JOB_KINDS && status == COMMAND_FINE; kind++) {
        if (!job_keep_groups(peak, kind))
            status = job_no_memory(reading->gather->file);
    }
    return status;
}

/* Drop the groups of which no rank has a share: a page has no use for them. */
static bool
job_drop_groups(struct job_memory *memory)
{
    uint32_t *places = calloc(memory->group_count + 1, sizeof(*places));
    size_t count = 0;

    if (places == NULL)
        return false;
    for (size_t i = 0; i < memory->share_count; i++)
        places[memory->shares[i].group] = 1;
    for (size_t i = 0; i < memory->group_count; i++) {
        struct job_group group = memory->groups[i];

        if (places[i] == 0) {
            free(group.kind);
            free(group.name);
            continue;
        }
        places[i] = (uint32_t)count;
        memory->groups[count++] = group;
    }
    memory->group_count = count;
    for (size_t i = 0; i < memory->share_count; i++)
        memory->shares[i].group = places[memory->shares[i].group];
    free(places);
    return true;
}

static int
job_read_groups(struct job_reading *reading)
{
    struct job_memory *memory = reading->memory;
    struct job_peak peak = { .reading = reading };
    int status = trace_each(
        reading->gather->file, job_take_group, reading,
        "SELECT m.group_id, kind, name, least_bytes, most_bytes FROM group_median AS m JOIN allocation_group AS g"
        " ON g.group_id = m.group_id WHERE memory_id = %lld AND kind IS NOT NULL AND name IS NOT NULL"
        " ORDER BY m.group_id",
        (long long)memory->memory_id);

    peak.bytes = calloc(memory->group_count + 1, sizeof(*peak.bytes));
    peak.order = calloc(reading->gather->detail->groups + 1, sizeof(*peak.order));
    if (status == COMMAND_FINE && (peak.bytes == NULL || peak.order == NULL))
        status = job_no_memory(reading->gather->file);
    for (reading->row = 0; reading->row < memory->row_count && status == COMMAND_FINE; reading->row++)
        status = job_read_peak(&peak);
    if (status == COMMAND_FINE && !job_drop_groups(memory))
        status = job_no_memory(reading->gather->file);
    free(peak.bytes);
    free(peak.order);
    return status;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static int
job_read_memory(struct job_gather *gather, const char *name)
{
    struct job_memory *memory = &gather->memories[gather->memory_count++];
    struct job_reading reading = { .gather = gather, .memory = memory };
    int status;

    memory->name = strdup(name);
    if (memory->name == NULL)
        return job_no_memory(gather->file);
    if (trace_look_up(gather->file, &memory->memory_id, "SELECT memory_id FROM memory WHERE name = %Q", name) !=
        SQLITE_ROW)
        return job_wrong(gather->file, "memory", -1);
    status = job_read_rows(&reading);
    if (status == COMMAND_FINE && memory->row_count == 0)
        return COMMAND_FINE;
    if (status == COMMAND_FINE)
        status = job_read_groups(&reading);
    return status;
}

int
job_gather_make(struct job_gather *gather, const struct trace *file, const struct job_detail *detail,
                const char *const *names, size_t name_count)
{
    size_t count = name_count < JOB_MEMORIES ? name_count : JOB_MEMORIES;
    int status;

    *gather = (struct job_gather){ .file = file, .detail = detail };
    gather->grid_bytes = count > 0 ? detail->grid_bytes / count : 0;
    status = job_read_ranks(gather);
    for (size_t i = 0; i < count && status == COMMAND_FINE; i++)
        status = job_read_memory(gather, names[i]);
    return status;
}

static void
job_free_memory(struct job_memory *memory)
{
    for (size_t i = 0; i < memory->group_count; i++) {
        free(memory->groups[i].kind);
        free(memory->groups[i].name);
    }
    grid_free(&memory->time);
    grid_free(&memory->steps);
    free(memory->name);
    free(memory->rows);
    free(memory->groups);
    free(memory->shares);
}

void
job_gather_free(struct job_gather *gather)
{
    for (size_t i = 0; i < gather->memory_count; i++)
        job_free_memory(&gather->memories[i]);
    for (size_t i = 0; i < gather->rank_count; i++) {
        free(gather->ranks[i].trace);
        free(gather->ranks[i].hostname);
        free(gather->ranks[i].ended);
    }
    free(gather->ranks);
    *gather = (struct job_gather){ .rank_count = 0 };
}
