/* Writes what was gathered of a job as the manifest of its page. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/output/report-item.h"
#include "viewer/ranks/job.h"
#include "viewer/read/layer-kinds.h"
#include "viewer/report-job/job-manifest.h"

/* A name, null where there is none, or `instead` where names are not to leave the house. */
static void
job_put_name(const struct job_manifest *manifest, struct json *json, const char *text, const char *instead)
{
    const char *shown = manifest->no_names ? instead : text;

    if (shown == NULL)
        json_word(json, "null");
    else
        blocks_put_name(json, shown, strlen(shown));
}

/* Writes a value, of the memory at a place where it is of one. False after a message. */
typedef bool job_put(const struct job_manifest *manifest, size_t place, struct json *json);

/* A block of JSON as the value of the key before. False after a message. */
static bool
job_put_block(const struct job_manifest *manifest, job_put *put, size_t place)
{
    struct blocks inner;
    bool done;

    if (blocks_begin(&inner, true) != COMMAND_FINE)
        return false;
    done = put(manifest, place, &inner.json) && !inner.text.failed;
    blocks_text(manifest->blocks, inner.text.buffer, inner.text.used);
    blocks_free(&inner);
    return done;
}

static bool
job_put_ranks(const struct job_manifest *manifest, size_t place, struct json *json)
{
    const struct job_gather *gather = manifest->gather;

    (void)place;
    json_begin(json, '[');
    for (size_t i = 0; i < gather->rank_count; i++) {
        const struct job_rank *rank = &gather->ranks[i];

        json_begin(json, '{');
        json_put_signed(json, "rank", rank->rank);
        json_key(json, "local_rank");
        if (rank->local_rank >= 0)
            json_signed(json, rank->local_rank);
        else
            json_word(json, "null");
        json_put_signed(json, "start_ns", rank->start_unix_ns - gather->origin_unix_ns);
        json_key(json, "start_known");
        json_flag(json, rank->has_start);
        json_put_signed(json, "first_ns", rank->first_ns);
        json_put_signed(json, "last_ns", rank->last_ns);
        json_key(json, "complete");
        json_flag(json, rank->is_complete);
        json_key(json, "ended");
        if (rank->ended != NULL)
            json_text(json, rank->ended);
        else
            json_word(json, "null");
        json_put_signed(json, "lost_events", rank->lost_events);
        json_put_signed(json, "allocations", rank->allocations);
        json_put_signed(json, "frees", rank->frees);
        json_put_signed(json, "failures", rank->failures);
        json_key(json, "hostname");
        job_put_name(manifest, json, rank->hostname, NULL);
        json_key(json, "trace");
        job_put_name(manifest, json, rank->trace, NULL);
        json_end(json, '}');
    }
    json_end(json, ']');
    return true;
}

/* ---- a memory ---------------------------------------------------------------------------------------------------- */

static uint64_t
job_row_value(const void *context, size_t column, size_t place)
{
    const struct job_memory *memory = context;

    (void)column;
    return memory->rows[place].rank;
}

static uint64_t
job_share_value(const void *context, size_t column, size_t place)
{
    const struct job_share *share = &((const struct job_memory *)context)->shares[place];

    return column == 0 ? share->row : column == 1 ? share->group : (uint64_t)share->bytes;
}

static void
job_put_axis(struct blocks *blocks, struct grid *grid, int64_t origin)
{
    if (grid->cells != NULL)
        grid_write(grid, blocks, origin);
    else
        json_word(&blocks->json, "null");
    grid_drop(grid);
}

/* The grids, one after the other. False after a message. */
static bool
job_put_axes(const struct job_manifest *manifest, struct job_memory *memory)
{
    struct json *json = &manifest->blocks->json;

    json_key(json, "time");
    if (job_gather_time(manifest->gather, memory) != COMMAND_FINE)
        return false;
    job_put_axis(manifest->blocks, &memory->time, manifest->gather->origin_unix_ns);
    json_key(json, "steps");
    if (job_gather_steps(manifest->gather, memory) != COMMAND_FINE)
        return false;
    job_put_axis(manifest->blocks, &memory->steps, 1 - memory->first_step);
    return true;
}

/* The groups that ranks have at their peaks. */
static bool
job_put_groups(const struct job_manifest *manifest, size_t place, struct json *json)
{
    const struct job_memory *memory = &manifest->gather->memories[place];

    json_begin(json, '[');
    for (size_t i = 0; i < memory->group_count; i++) {
        const struct job_group *group = &memory->groups[i];
        char instead[64];

        snprintf(instead, sizeof(instead), "%.16s %lld", group->kind, (long long)group->group_id);
        json_begin(json, '{');
        json_put_text(json, "kind", group->kind);
        json_key(json, "name");
        /* Classes of sizes are no names of a program. */
        job_put_name(manifest, json, group->name, strcmp(group->kind, "class") == 0 ? group->name : instead);
        json_key(json, "median_bytes");
        if (ranks_is_exact(group->median))
            json_signed(json, group->median.least);
        else
            json_word(json, "null");
        json_key(json, "median_least_bytes");
        json_signed(json, group->median.least);
        json_key(json, "median_most_bytes");
        json_signed(json, group->median.most);
        json_end(json, '}');
    }
    json_end(json, ']');
    return true;
}

static bool
job_put_memory(const struct job_manifest *manifest, size_t place)
{
    static const struct column rows[] = {
        { "rank", COLUMN_DELTA, job_row_value },
    };
    static const struct column shares[] = {
        { "row", COLUMN_DELTA, job_share_value },
        { "group", COLUMN_VARINT, job_share_value },
        { "bytes", COLUMN_VARINT, job_share_value },
    };
    struct job_memory *memory = &manifest->gather->memories[place];
    struct blocks *blocks = manifest->blocks;
    struct json *json = &blocks->json;
    char instead[32];
    bool done;

    snprintf(instead, sizeof(instead), "memory %zu", place + 1);
    json_begin(json, '{');
    json_key(json, "memory");
    job_put_name(manifest, json, memory->name, layer_kind_is_words(memory->name) ? memory->name : instead);
    json_key(json, "rows");
    blocks_columns(blocks, rows, 1, memory->row_count, memory);
    json_end(json, '}');
    if (!job_put_axes(manifest, memory))
        return false;
    json_put_signed(json, "first_step", memory->first_step);
    json_key(json, "groups");
    done = job_put_block(manifest, job_put_groups, place);
    json_key(json, "shares");
    blocks_columns(blocks, shares, 3, memory->share_count, memory);
    json_end(json, '}');
    json_end(json, '}');
    return done;
}

/* ---- failures and marks ------------------------------------------------------------------------------------------ */

/* What a query of rows writes into. */
struct job_rows {
    const struct job_manifest *manifest;
    struct json *json;
    bool is_wrong;
};

static int64_t
job_rows_number(struct job_rows *rows, sqlite3_stmt *row, int column)
{
    rows->is_wrong = rows->is_wrong || sqlite3_column_type(row, column) != SQLITE_INTEGER;
    return sqlite3_column_int64(row, column);
}

/* The place among the memories of the page; null: it is none of them. */
static void
job_put_place(struct job_rows *rows, sqlite3_stmt *row, int column)
{
    const struct job_gather *gather = rows->manifest->gather;
    bool is_known = sqlite3_column_type(row, column) != SQLITE_NULL;
    size_t place = 0;

    while (place < gather->memory_count && gather->memories[place].memory_id != sqlite3_column_int64(row, column))
        place++;
    json_key(rows->json, "memory");
    if (is_known && place < gather->memory_count)
        json_unsigned(rows->json, place);
    else
        json_word(rows->json, "null");
}

static int
job_put_failure(void *context, const struct trace *file, sqlite3_stmt *row)
{
    static const char *const texts[] = { "status", "cause", "layer", "tag", "text" };
    struct job_rows *rows = context;
    struct json *json = rows->json;

    (void)file;
    json_begin(json, '{');
    json_put_signed(json, "rank", job_rows_number(rows, row, 0));
    json_put_signed(json, "ns", job_rows_number(rows, row, 1));
    json_put_signed(json, "size", job_rows_number(rows, row, 2));
    json_put_signed(json, "live_bytes", job_rows_number(rows, row, 3));
    for (int i = 0; i < 5; i++) {
        const char *text = (const char *)sqlite3_column_text(row, 4 + i);

        json_key_text(json, texts[i]);
        /* Status and cause are words of Tidemark's own. */
        job_put_name(rows->manifest, json, text, i < 2 ? text : NULL);
    }
    job_put_place(rows, row, 9);
    json_end(json, '}');
    return COMMAND_FINE;
}

static int
job_put_mark(void *context, const struct trace *file, sqlite3_stmt *row)
{
    struct job_rows *rows = context;

    (void)file;
    json_begin(rows->json, '{');
    json_put_signed(rows->json, "rank", job_rows_number(rows, row, 0));
    json_put_signed(rows->json, "ns", job_rows_number(rows, row, 1));
    json_key(rows->json, "text");
    job_put_name(rows->manifest, rows->json, (const char *)sqlite3_column_text(row, 2), NULL);
    json_end(rows->json, '}');
    return COMMAND_FINE;
}

static bool
job_put_failures(const struct job_manifest *manifest, size_t place, struct json *json)
{
    struct job_rows rows = { manifest, json, false };
    int status;

    (void)place;
    json_begin(json, '[');
    status = trace_each(manifest->gather->file, job_put_failure, &rows,
                        "SELECT rank, ns, size, live_bytes, status, cause, layer, tag, substr(text, 1, 512), memory_id"
                        " FROM (SELECT *, row_number() OVER (PARTITION BY rank ORDER BY ns) AS place FROM failure"
                        " JOIN rank USING (rank)) WHERE place <= %d ORDER BY place, rank LIMIT %d",
                        (int)manifest->gather->detail->failures, JOB_FAILURES);
    json_end(json, ']');
    if (status == COMMAND_FINE && rows.is_wrong)
        status = job_wrong(manifest->gather->file, "failure", -1);
    return status == COMMAND_FINE;
}

static bool
job_put_marks(const struct job_manifest *manifest, size_t place, struct json *json)
{
    struct job_rows rows = { manifest, json, false };
    int status;

    (void)place;
    json_begin(json, '[');
    status =
        trace_each(manifest->gather->file, job_put_mark, &rows,
                   "SELECT rank, ns, text FROM (SELECT *, row_number() OVER (PARTITION BY rank ORDER BY ns) AS place"
                   " FROM mark JOIN rank USING (rank)) WHERE place <= %d ORDER BY place, rank LIMIT %d",
                   (int)manifest->gather->detail->marks, JOB_MARKS);
    json_end(json, ']');
    if (status == COMMAND_FINE && rows.is_wrong)
        status = job_wrong(manifest->gather->file, "mark", -1);
    return status == COMMAND_FINE;
}

/* ---- the manifest ------------------------------------------------------------------------------------------------ */

static void
job_put_answer(const struct report *answer, struct json *json)
{
    json_separate(json);
    report_write_json(answer, json->out);
    if (json->out->used > 0)
        json->out->used--; /* the line end */
}

/* What `tidemark ranks` answers. */
static bool
job_put_answers(const struct job_manifest *manifest, size_t place, struct json *json)
{
    (void)place;
    json_begin(json, '{');
    json_key(json, "ranks");
    job_put_answer(&manifest->answers[0], json);
    json_key(json, "other_memories");
    json_begin(json, '[');
    for (size_t i = 1; i < manifest->gather->memory_count; i++)
        job_put_answer(&manifest->answers[i], json);
    json_end(json, ']');
    json_end(json, '}');
    return true;
}

static void
job_put_meta(const struct job_manifest *manifest, const char *key)
{
    char *text = trace_meta(manifest->gather->file, key);

    json_key_text(&manifest->blocks->json, key);
    job_put_name(manifest, &manifest->blocks->json, text, NULL);
    free(text);
}

static void
job_put_verdict(const struct job_manifest *manifest)
{
    const struct report *report = &manifest->answers[0];
    struct json *json = &manifest->blocks->json;

    json_key(json, "verdict");
    json_begin(json, '[');
    for (size_t i = 0; i < report->count && !manifest->no_names; i++) {
        if (report->items[i].kind == REPORT_ITEM_NOTE)
            blocks_put_name(json, report->items[i].text, strlen(report->items[i].text));
    }
    json_end(json, ']');
}

static void
job_put_head(const struct job_manifest *manifest)
{
    const struct job_gather *gather = manifest->gather;
    const char *slash = strrchr(gather->file->path, '/');
    struct json *json = &manifest->blocks->json;
    int64_t merged = 0;
    char number[32];

    json_put_unsigned(json, "format_version", 1);
    json_put_text(json, "of", "job");
    json_put_text(json, "detail", gather->detail->name);
    json_put_text(json, "version", PACKAGE_VERSION);
    json_key(json, "file");
    job_put_name(manifest, json, slash != NULL ? slash + 1 : gather->file->path, NULL);
    job_put_meta(manifest, "job");
    job_put_meta(manifest, "steps");
    trace_look_up(gather->file, &merged, "SELECT value FROM meta WHERE key = 'complete'");
    json_key(json, "complete");
    json_flag(json, merged == 1);
    /* More than a double has. */
    snprintf(number, sizeof(number), "%lld", (long long)gather->origin_unix_ns);
    json_put_text(json, "begin_unix_ns", number);
}

/* What the page leaves out of a table of which each rank has its rows: `each` of a rank, and `all` in all. */
static void
job_put_cut(const struct job_manifest *manifest, const char *table, size_t each, int all)
{
    const struct trace *file = manifest->gather->file;
    int64_t most = 0, taken = 0, count = 0;
    char text[256];

    trace_look_up(file, &most, "SELECT count(*) FROM %s GROUP BY rank ORDER BY 1 DESC LIMIT 1", table);
    trace_look_up(file, &taken,
                  "SELECT sum(min(n, %d)) FROM (SELECT count(*) AS n FROM %s JOIN rank USING (rank) GROUP BY rank)",
                  (int)each, table);
    trace_look_up(file, &count, "SELECT count(*) FROM %s", table);
    if (most > (int64_t)each) {
        snprintf(text, sizeof(text), "Of each rank at most %zu %ss are listed.", each, table);
        json_text(&manifest->blocks->json, text);
    }
    if (taken > all) {
        snprintf(text, sizeof(text), "Of %lld %ss %d are listed: the first ones of each rank.", (long long)count, table,
                 all);
        json_text(&manifest->blocks->json, text);
    }
}

static void
job_put_rounded(struct json *json, size_t place, const char *axis, const struct grid *grid)
{
    char text[256];

    if (!grid->is_rounded)
        return;
    snprintf(text, sizeof(text),
             "The figures over %s of memory %zu are rounded up to multiples of %llu bytes, so that the page stays"
             " small; --detail=full has finer ones.",
             axis, place + 1, 1ULL << grid->unit_shift);
    json_text(json, text);
}

/* Ranks of one job begin on the same day. */
#define JOB_APART_NS (INT64_C(86400) * 1000000000)

static void
job_put_apart(const struct job_gather *gather, struct json *json)
{
    const struct job_rank *first = NULL, *last = NULL;
    char text[256];

    for (size_t i = 0; i < gather->rank_count; i++) {
        const struct job_rank *rank = &gather->ranks[i];

        if (!rank->has_start)
            continue;
        first = first == NULL || rank->start_unix_ns < first->start_unix_ns ? rank : first;
        last = last == NULL || rank->start_unix_ns > last->start_unix_ns ? rank : last;
    }
    if (first == NULL || last->start_unix_ns - first->start_unix_ns <= JOB_APART_NS)
        return;
    snprintf(text, sizeof(text),
             "Rank %lld begins %lld days after rank %lld: a clock is wrong. Figures over time cannot be compared.",
             (long long)last->rank, (long long)((last->start_unix_ns - first->start_unix_ns) / JOB_APART_NS),
             (long long)first->rank);
    json_text(json, text);
}

static void
job_put_left_out(const struct job_manifest *manifest)
{
    const struct job_gather *gather = manifest->gather;
    struct json *json = &manifest->blocks->json;
    char text[256];

    json_key(json, "left_out");
    json_begin(json, '[');
    if (manifest->memories_left > 0) {
        snprintf(text, sizeof(text), "%zu memories are left out: the page has the first %d.", manifest->memories_left,
                 JOB_MEMORIES);
        json_text(json, text);
    }
    for (size_t i = 0; i < gather->memory_count; i++) {
        job_put_rounded(json, i, "time", &gather->memories[i].time);
        job_put_rounded(json, i, "steps", &gather->memories[i].steps);
    }
    job_put_apart(gather, json);
    job_put_cut(manifest, "failure", gather->detail->failures, JOB_FAILURES);
    job_put_cut(manifest, "mark", gather->detail->marks, JOB_MARKS);
    if (manifest->no_names)
        json_text(json, "Names are left out, as --no-names asked.");
    json_end(json, ']');
}

/* False after a message. */
static bool
job_put_blocks(const struct job_manifest *manifest)
{
    struct json *json = &manifest->blocks->json;
    bool done;

    json_key(json, "ranks");
    done = job_put_block(manifest, job_put_ranks, 0);
    json_key(json, "memories");
    json_begin(json, '[');
    for (size_t i = 0; i < manifest->gather->memory_count && done; i++)
        done = job_put_memory(manifest, i);
    if (!done)
        return false;
    json_end(json, ']');
    json_key(json, "failures");
    done = job_put_block(manifest, job_put_failures, 0) && done;
    json_key(json, "marks");
    done = job_put_block(manifest, job_put_marks, 0) && done;
    json_key(json, "reports");
    return job_put_block(manifest, job_put_answers, 0) && done;
}

int
job_manifest_write(const struct job_manifest *manifest)
{
    const struct trace *file = manifest->gather->file;
    struct json *json = &manifest->blocks->json;
    bool done;

    json_begin(json, '{');
    job_put_head(manifest);
    job_put_verdict(manifest);
    done = job_put_blocks(manifest);
    job_put_left_out(manifest);
    json_end(json, '}');
    if (manifest->blocks->failed)
        return trace_broken(file, "no memory for its page");
    return done && !manifest->blocks->text.failed ? COMMAND_FINE : COMMAND_WRONG;
}
