/* Compares the trace of a random stack with its expected content. */
#include "random-stack-trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "trace.h"

static char wrong[1024];

static const char *say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static const char *
say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(wrong, sizeof(wrong), format, arguments);
    va_end(arguments);
    return wrong;
}

size_t
lives_add(struct lives *lives, const struct life *life)
{
    if (lives->count == lives->capacity) {
        lives->capacity = lives->capacity != 0 ? 2 * lives->capacity : 1024;
        lives->all = realloc(lives->all, lives->capacity * sizeof(*lives->all));
        if (lives->all == NULL)
            abort();
    }
    lives->all[lives->count] = *life;
    return lives->count++;
}

void
lives_free(struct lives *lives)
{
    free(lives->all);
    *lives = (struct lives){ 0 };
}

static int
life_compare(const void *left, const void *right)
{
    const struct life *a = left, *b = right;

    for (size_t i = 0; i < LIFE_COLUMNS; i++) {
        if (a->column[i] != b->column[i])
            return a->column[i] < b->column[i] ? -1 : 1;
    }
    return 0;
}

/* Allocations of 0 bytes have no address: which one a free belongs to is unknown. */
static void
lives_part_empty(struct lives *lives)
{
    for (size_t i = 0, count = lives->count; i < count; i++) {
        struct life freed = lives->all[i];

        if (freed.column[LIFE_SIZE] != 0 || freed.column[LIFE_STATUS] != TIDE_OK)
            continue;
        lives->all[i].column[LIFE_FREE_THREAD] = lives->all[i].column[LIFE_FREE_STREAM] = -1;
        memset(freed.column, 0, LIFE_FREE_THREAD * sizeof(freed.column[0]));
        lives_add(lives, &freed);
    }
}

/* Read each row of a query as numbers. Ends the program if the query fails. */
static void
rows_read(const char *path, const char *sql, int64_t layer_id, struct lives *out)
{
    sqlite3_stmt *statement;
    sqlite3 *db;

    *out = (struct lives){ 0 };
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(db, 5000) != SQLITE_OK || sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_bind_int64(statement, 1, layer_id) != SQLITE_OK) {
        fprintf(stderr, "%s: %s: %s\n", path, sql, sqlite3_errmsg(db));
        abort();
    }
    while (sqlite3_step(statement) == SQLITE_ROW) {
        struct life row = { { 0 } };

        for (int i = 0; i < sqlite3_column_count(statement); i++)
            row.column[i] = sqlite3_column_int64(statement, i);
        lives_add(out, &row);
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static const char *
say_life(const char *what, int64_t layer_id, const struct life *life)
{
    return say("layer %" PRId64 ": %s: address 0x%" PRIx64 ", %" PRId64 " B at a multiple of %" PRId64
               ", status %" PRId64 ", tag %" PRId64 ", by %" PRId64 " on %" PRId64 ", freed by %" PRId64 " on %" PRId64,
               layer_id, what, (uint64_t)life->column[LIFE_ADDRESS], life->column[LIFE_SIZE],
               life->column[LIFE_ALIGNMENT], life->column[LIFE_STATUS], life->column[LIFE_TAG],
               life->column[LIFE_ALLOC_THREAD], life->column[LIFE_ALLOC_STREAM], life->column[LIFE_FREE_THREAD],
               life->column[LIFE_FREE_STREAM]);
}

/* Compare the sorted model with the rows of one layer: with all rows, or only those of successful allocations. */
static const char *
lives_compare(const char *path, int64_t layer_id, const struct lives *model, bool failed)
{
    const char *fault = NULL;
    struct lives rows;
    size_t seen = 0;

    rows_read(path,
              "SELECT address, size, alignment, status, coalesce(substr(tag.name, 2), 0), alloc.os_tid, drawn.handle,"
              " coalesce(freed.os_tid, -1), coalesce(back.handle, -1)"
              " FROM allocation LEFT JOIN tag USING (tag_id)"
              " LEFT JOIN thread AS alloc ON alloc.thread_id = alloc_thread_id"
              " LEFT JOIN stream AS drawn ON drawn.stream_id = alloc_stream_id"
              " LEFT JOIN thread AS freed ON freed.thread_id = free_thread_id"
              " LEFT JOIN stream AS back ON back.stream_id = free_stream_id WHERE layer_id = ?",
              layer_id, &rows);
    for (size_t i = 0; i < rows.count; i++) {
        if (rows.all[i].column[LIFE_STATUS] == TIDE_OK || failed)
            rows.all[seen++] = rows.all[i];
    }
    rows.count = seen;
    lives_part_empty(&rows);
    qsort(rows.all, rows.count, sizeof(*rows.all), life_compare);
    for (size_t i = 0, j = 0; fault == NULL && (i < model->count || j < rows.count);) {
        int order;

        if (i < model->count && model->all[i].column[LIFE_STATUS] != TIDE_OK && !failed) {
            i++;
            continue;
        }
        order = i == model->count ? 1 : j == rows.count ? -1 : life_compare(&model->all[i], &rows.all[j]);
        if (order < 0)
            fault = say_life("no row", layer_id, &model->all[i]);
        else if (order > 0)
            fault = say_life("a row that should not be", layer_id, &rows.all[j]);
        i++;
        j++;
    }
    lives_free(&rows);
    return fault;
}

/* Whether two blocks of one layer overlapped at any time. */
static const char *
lives_overlap(const char *path, int64_t layer_id)
{
    struct lives events, live = { 0 };
    const char *fault = NULL;

    rows_read(path, "SELECT address, size, kind = 'free' FROM event WHERE layer_id = ? AND status = 0 AND size <> 0",
              layer_id, &events);
    for (size_t i = 0; fault == NULL && i < events.count; i++) {
        const int64_t *event = events.all[i].column;
        bool freed = event[2] != 0;
        size_t j = 0;

        for (; j < live.count; j++) {
            const int64_t *other = live.all[j].column;

            if (freed ? other[0] == event[0]
                      : (uint64_t)event[0] < (uint64_t)other[0] + (uint64_t)other[1] &&
                            (uint64_t)other[0] < (uint64_t)event[0] + (uint64_t)event[1])
                break;
        }
        if (freed && j < live.count)
            live.all[j] = live.all[--live.count];
        else if (freed || j < live.count)
            fault = say("layer %" PRId64 ": 0x%" PRIx64 " of %" PRId64 " B: %s", layer_id, (uint64_t)event[0], event[1],
                        freed ? "freed, and not live" : "overlaps another");
        else
            lives_add(&live, &events.all[i]);
    }
    lives_free(&live);
    lives_free(&events);
    return fault;
}

/* Check that the new layer of the trace has the row of `resource`, and all layers below it have theirs. */
static const char *
layer_check(const char *path, struct tide_resource *resource, int64_t id, struct trace_layers *layers)
{
    char config[4096] = "";
    struct tide_text text = { .data = config, .capacity = sizeof(config) };
    const char *fault = NULL;
    struct tide_upstream edge;

    for (size_t i = 0; i < layers->count; i++) {
        if (layers->all[i].resource != resource)
            continue;
        layers->all[i].edges++;
        return layers->all[i].id == id ? NULL : say("%s has two numbers", tide_resource_name(resource));
    }
    if (layers->count == TRACE_LAYERS_MOST)
        return say("too many layers for the test");
    layers->all[layers->count].resource = resource;
    layers->all[layers->count].edges = 1;
    layers->all[layers->count++].id = id;
    layers->logs += strcmp(tide_resource_name(resource), "log") == 0;
    if (strcmp(sql_text(path, "SELECT kind FROM layer WHERE layer_id = %" PRId64, id), tide_resource_name(resource)))
        return say("layer %" PRId64 " is no %s", id, tide_resource_name(resource));
    resource->ops->describe(resource, &text);
    if (strcmp(sql_text(path, "SELECT config FROM layer WHERE layer_id = %" PRId64, id), config) != 0)
        return say("layer %" PRId64 " is not of '%s'", id, config);
    for (size_t i = 0; fault == NULL && resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++) {
        uint64_t limit = edge.limit_bytes < INT64_MAX ? edge.limit_bytes : INT64_MAX;
        int64_t below = i == 0 ? sql_number(path, "SELECT upstream_layer_id FROM layer WHERE layer_id = %" PRId64, id)
                               : sql_number(path,
                                            "SELECT upstream_layer_id FROM layer_bin WHERE layer_id = %" PRId64
                                            " AND limit_bytes = %" PRIu64,
                                            id, limit);

        fault = layer_check(path, edge.resource, below, layers);
    }
    return fault;
}

const char *
trace_check_layers(const char *path, struct tide_resource *log, struct trace_layers *layers)
{
    char text[8192];
    const char *fault;

    *layers = (struct trace_layers){ .count = 0 };
    if (tide_log_flush(log) != TIDE_OK)
        return say("a flush: %s", tide_error_text());
    tide_describe(log, text, sizeof(text), NULL);
    if (strlen(text) < 4096 && strcmp(sql_text(path, "SELECT value FROM meta WHERE key = 'stack'"), text) != 0)
        return say("the trace is not of the stack");
    fault = layer_check(path, log, sql_number(path, "SELECT min(layer_id) FROM layer"), layers);
    if (fault == NULL && sql_number(path, "SELECT count(*) FROM layer") != (int64_t)layers->count)
        fault = say("%" PRId64 " layers, expected %zu", sql_number(path, "SELECT count(*) FROM layer"), layers->count);
    return fault;
}

/* Check that statistics saw exactly the requests that their log passed on. */
static const char *
statistics_check(const char *path, struct tide_resource *statistics, int64_t log_id)
{
    struct tide_statistics_figures seen = { TIDE_FIGURES(seen) };
    int64_t count =
        sql_number(path, "SELECT count(*) FROM allocation WHERE layer_id = %" PRId64 " AND status = 0", log_id);
    int64_t bytes = sql_number(
        path, "SELECT coalesce(sum(size), 0) FROM allocation WHERE layer_id = %" PRId64 " AND status = 0", log_id);

    if (tide_statistics_read(statistics, &seen) != TIDE_OK)
        return say("statistics: %s", tide_error_text());
    if (seen.count.total == count && seen.bytes.total == bytes)
        return NULL;
    return say("layer %" PRId64 ": %" PRId64 " rows of %" PRId64 " bytes, statistics below has %" PRId64 " of %" PRId64,
               log_id, count, bytes, (int64_t)seen.count.total, (int64_t)seen.bytes.total);
}

static size_t
layers_find(const struct trace_layers *layers, const struct tide_resource *resource)
{
    size_t i = 0;

    while (i < layers->count && layers->all[i].resource != resource)
        i++;
    return i;
}

/* Whether a layer passes every request on unchanged, and makes no others. */
static bool
hands_on(const struct tide_resource *resource)
{
    static const char *const names[] = { "log", "statistics", "limit", "retry", "fault", "track" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(tide_resource_name(resource), names[i]) == 0)
            return true;
    }
    return false;
}

/* Compare rows and drops with the model. */
static const char *
dropped_check(const char *path, const struct lives *model)
{
    int64_t rows = sql_number(path, "SELECT count(*) FROM allocation JOIN layer USING (layer_id) WHERE kind = 'log'");
    int64_t told = sql_number(path, "SELECT count(*) FROM layer WHERE kind IN ('arena', 'fixed', 'monotonic', 'pool')");
    int64_t dropped = sql_number(path, "SELECT coalesce(sum(events), 0) FROM loss"
                                       " WHERE reason = 'dropped allocation'");

    /* Of what was dropped, some may be chunks. */
    if (rows <= (int64_t)model->count &&
        (rows + dropped == (int64_t)model->count || (told > 0 && rows + dropped > (int64_t)model->count)))
        return NULL;
    return say("%" PRId64 " rows and %" PRId64 " that were dropped, expected %zu", rows, dropped, model->count);
}

const char *
trace_check_lives(const char *path, const struct random_stack *random, struct tide_resource *log,
                  const struct trace_layers *layers, struct lives *model)
{
    const char *fault = NULL;

    if (random->drops)
        return layers->logs == 1 ? dropped_check(path, model) : NULL;
    lives_part_empty(model);
    qsort(model->all, model->count, sizeof(*model->all), life_compare);
    for (struct tide_resource *layer = log; fault == NULL && hands_on(layer); layer = layer->upstream) {
        size_t index = layers_find(layers, layer);

        if (strcmp(tide_resource_name(layer), "log") == 0)
            fault = lives_compare(path, layers->all[index].id, model, layer == log);
    }
    for (size_t i = 0; fault == NULL && i < layers->count; i++) {
        struct tide_resource *layer = layers->all[i].resource;

        if (strcmp(tide_resource_name(layer), "log") != 0)
            continue;
        fault = lives_overlap(path, layers->all[i].id);
        if (fault == NULL && strcmp(tide_resource_name(layer->upstream), "statistics") == 0 &&
            layers->all[layers_find(layers, layer->upstream)].edges == 1)
            fault = statistics_check(path, layer->upstream, layers->all[i].id);
    }
    return fault;
}

const char *
trace_check_end(const char *path, const struct random_stack *random)
{
    int64_t live = sql_number(path, "SELECT count(*) FROM live");

    if (random->drops) {
        if (!trace_is_sound(path) || sql_number(path, "SELECT count(*) FROM unmatched_free WHERE layer_id = 1") != 0)
            return say("the trace is not sound");
        return NULL;
    }
    if (!trace_is_whole(path))
        return say("the trace is not whole");
    return live == 0 ? NULL : say("%" PRId64 " blocks are live in the trace of a stack that has gone", live);
}
