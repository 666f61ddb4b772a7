/* The filters that commands share. */
#include "config.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/read/filter.h"
#include "viewer/base/parse.h"
#include "viewer/base/output.h"

bool
filter_set_has(const struct filter_set *set, int64_t id)
{
    return !set->active || id_map_find(&set->ids, (uint64_t)id) != NULL;
}

int
filter_set_add(struct filter_set *set, int64_t id)
{
    set->active = true;
    if (id_map_find(&set->ids, (uint64_t)id) == NULL && !id_map_add(&set->ids, (uint64_t)id, 0)) {
        fputs("tidemark: no memory for the filters\n", stderr);
        return COMMAND_WRONG;
    }
    return COMMAND_FINE;
}

/* Report that nothing has the name `text`. */
static int
filter_no_such(const struct names *names, const char *what, const char *text, const struct name_list *list)
{
    const char *nearest = NULL;

    fprintf(stderr, "%s: no %s \"", names->trace->path, what);
    output_text(stderr, text, strlen(text));
    putc('"', stderr);
    for (size_t i = 0; list != NULL && i < list->count; i++)
        nearest = parse_nearest(text, nearest, list->names[i].text);
    if (nearest != NULL && nearest[0] != '\0') {
        fputs("; did you mean \"", stderr);
        output_text(stderr, nearest, strlen(nearest));
        fputs("\"?", stderr);
    }
    putc('\n', stderr);
    return COMMAND_WRONG;
}

bool
filter_tag_fits(const char *path, const char *pattern)
{
    size_t length = strlen(pattern);

    if (strncmp(path, pattern, length) == 0 && (path[length] == '\0' || path[length] == '/'))
        return true;
    return fnmatch(pattern, path, 0) == 0;
}

static int
filter_tag(struct filter *filter, const struct names *names, const char *text)
{
    bool found = strcmp(text, "none") == 0;
    int status = found ? filter_set_add(&filter->tags, 0) : COMMAND_FINE;

    for (size_t i = 0; i < names->tags.count && status == COMMAND_FINE; i++) {
        if (filter_tag_fits(names->tags.names[i].text, text)) {
            status = filter_set_add(&filter->tags, names->tags.names[i].id);
            found = true;
        }
    }
    return found || status != COMMAND_FINE ? status : filter_no_such(names, "tag", text, &names->tags);
}

static int
filter_thread(struct filter *filter, const struct names *names, const char *text)
{
    bool found = false;
    int status = COMMAND_FINE;
    uint64_t number;
    bool is_number = parse_count(text, &number);

    for (size_t i = 0; i < names->threads.count && status == COMMAND_FINE; i++) {
        const struct name *thread = &names->threads.names[i];

        if (is_number ? thread->id == (int64_t)number : fnmatch(text, thread->text, 0) == 0) {
            status = filter_set_add(&filter->threads, thread->id);
            found = true;
        }
    }
    return found || status != COMMAND_FINE ? status : filter_no_such(names, "thread", text, &names->threads);
}

static int
filter_stream(struct filter *filter, const struct names *names, const char *text)
{
    bool is_handle = strncmp(text, "0x", 2) == 0;
    bool found = false;
    int status = COMMAND_FINE;
    uint64_t number = 0;
    char *end = NULL;

    if (is_handle)
        number = strtoull(text, &end, 16);
    if (is_handle ? *end != '\0' : !parse_count(text, &number))
        return filter_no_such(names, "stream", text, NULL);
    for (size_t i = 0; i < names->streams.count && status == COMMAND_FINE; i++) {
        const struct name *stream = &names->streams.names[i];

        if ((is_handle ? (uint64_t)stream->number : (uint64_t)stream->id) == number) {
            status = filter_set_add(&filter->streams, stream->id);
            found = true;
        }
    }
    return found || status != COMMAND_FINE ? status : filter_no_such(names, "stream", text, NULL);
}

/* Whether a layer is a log or has allocations. */
static int
filter_layer_records(const struct names *names, int64_t layer_id, bool *records)
{
    char sql[96];
    int64_t found = 0;
    int status = COMMAND_FINE;

    *records = false;
    for (size_t i = 0; i < names->layers->count && !*records; i++)
        *records = names->layers->layers[i].layer_id == layer_id && strcmp(names->layers->layers[i].kind, "log") == 0;
    if (*records)
        return COMMAND_FINE;
    snprintf(sql, sizeof(sql), "SELECT 1 FROM allocation WHERE layer_id = %" PRId64 " LIMIT 1", layer_id);
    status = trace_integer(names->trace, sql, &found);
    *records = found != 0;
    return status;
}

static int
filter_layer(struct filter *filter, const struct names *names, const char *text)
{
    bool records = false;
    uint64_t number;
    int status = COMMAND_FINE;

    if (!parse_count(text, &number) || number > INT64_MAX)
        return filter_no_such(names, "layer", text, NULL);
    status = filter_layer_records(names, (int64_t)number, &records);
    if (status != COMMAND_FINE)
        return status;
    return records ? filter_set_add(&filter->layers, (int64_t)number)
                   : filter_no_such(names, "layer that records", text, NULL);
}

/* An allocation belongs to the device of its stream. */
static int
filter_device(struct filter *filter, const struct names *names, const char *text)
{
    bool found = false;
    int status = COMMAND_FINE;
    uint64_t number;

    if (!parse_count(text, &number))
        return filter_no_such(names, "device", text, NULL);
    for (size_t i = 0; i < names->streams.count && status == COMMAND_FINE; i++) {
        if (names->streams.names[i].device == (int64_t)number) {
            status = filter_set_add(&filter->device_streams, names->streams.names[i].id);
            found = true;
        }
    }
    return found || status != COMMAND_FINE ? status : filter_no_such(names, "device", text, NULL);
}

static int
filter_callstack(struct filter *filter, const struct names *names, const char *text)
{
    int status = COMMAND_FINE;
    regex_t regex;
    char why[128];
    int code = regcomp(&regex, text, REG_EXTENDED | REG_NOSUB);

    if (code != 0) {
        regerror(code, &regex, why, sizeof(why));
        fprintf(stderr, "tidemark: --callstack: %s\n", why);
        return COMMAND_WRONG;
    }
    filter->callstacks.active = true;
    for (size_t i = 0; i < names->callstacks.count && status == COMMAND_FINE; i++) {
        if (regexec(&regex, names->callstacks.names[i].text, 0, NULL, 0) == 0)
            status = filter_set_add(&filter->callstacks, names->callstacks.names[i].id);
    }
    regfree(&regex);
    if (names->callstacks.count == 0) {
        fprintf(stderr, "%s: it has no call stacks for --callstack\n", names->trace->path);
        return COMMAND_WRONG;
    }
    return status;
}

/* Select the logs that have no other log above them. */
static int
filter_outermost(struct filter *filter, const struct trace_layers *layers)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; i < layers->count && status == COMMAND_FINE; i++) {
        const struct trace_layer *layer = &layers->layers[i];
        bool outermost = strcmp(layer->kind, "log") == 0;

        for (size_t j = 0; outermost && j < layers->count; j++)
            outermost = i == j || strcmp(layers->layers[j].kind, "log") != 0 ||
                        !trace_layers_reaches(layers, layers->layers[j].layer_id, layer->layer_id);
        if (outermost)
            status = filter_set_add(&filter->layers, layer->layer_id);
    }
    return status;
}

static int
filter_each(struct filter *filter, const struct names *names, const struct option_list *list,
            int (*add)(struct filter *, const struct names *, const char *))
{
    int status = COMMAND_FINE;

    for (size_t i = 0; i < list->count && status == COMMAND_FINE; i++)
        status = add(filter, names, list->items[i]);
    return status;
}

/* The end of the recording: the stored one, or the time of the last event. */
static int
filter_end(const struct trace *trace, int64_t *out)
{
    int status = trace_integer(trace, "SELECT value FROM meta WHERE key = 'end_ns'", out);

    if (status == COMMAND_FINE && *out <= 0)
        status = trace_integer(trace, "SELECT max(max(alloc_ns, ifnull(free_ns, 0))) FROM allocation", out);
    return status;
}

/* The time that `sql` returns for the number or text of a moment. */
static int
filter_look_up(const struct trace *trace, const char *sql, const struct moment *moment, int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    int code;

    if (sqlite3_prepare_v2(trace->db, sql, -1, &statement, NULL) != SQLITE_OK)
        return trace_failed(trace);
    if (moment->kind == MOMENT_MARK)
        sqlite3_bind_text(statement, 1, moment->text, -1, SQLITE_STATIC);
    else
        sqlite3_bind_int64(statement, 1, moment->number);
    code = sqlite3_step(statement);
    *out = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    if (code == SQLITE_ROW)
        return COMMAND_FINE;
    if (code != SQLITE_DONE)
        return trace_failed(trace);
    if (moment->kind == MOMENT_MARK)
        return trace_broken(trace, "no mark has this text");
    return trace_broken(trace, "no allocation %" PRId64, moment->number);
}

int
filter_moment(const struct trace *trace, const struct moment *moment, int64_t *out)
{
    int64_t end;
    int status;

    *out = moment->number;
    switch (moment->kind) {
    case MOMENT_SHARE:
        status = filter_end(trace, &end);
        *out = moment->share * (double)end < 0x1p63 ? (int64_t)(moment->share * (double)end) : end;
        return status;
    case MOMENT_EVENT:
        return filter_look_up(trace, "SELECT alloc_ns FROM allocation WHERE allocation_id = ?", moment, out);
    case MOMENT_MARK:
        if (!trace_has(trace, "mark", "ns kind text"))
            return trace_broken(trace, "it has no marks");
        return filter_look_up(trace, "SELECT ns FROM mark WHERE kind = 'mark' AND text = ? ORDER BY ns LIMIT 1", moment,
                              out);
    case MOMENT_PEAK:
        fputs("tidemark: \"peak\" is no moment to begin or end at\n", stderr);
        return COMMAND_WRONG;
    default:
        return COMMAND_FINE;
    }
}

static int
filter_times(struct filter *filter, const struct trace *trace, const struct filter_options *options)
{
    int status = COMMAND_FINE;

    filter->from_ns = INT64_MIN;
    filter->to_ns = INT64_MAX;
    if (options->from.kind != MOMENT_NONE)
        status = filter_moment(trace, &options->from, &filter->from_ns);
    if (status == COMMAND_FINE && options->to.kind != MOMENT_NONE)
        status = filter_moment(trace, &options->to, &filter->to_ns);
    if (status == COMMAND_FINE && filter->from_ns > filter->to_ns) {
        fputs("tidemark: --from lies behind --to\n", stderr);
        status = COMMAND_WRONG;
    }
    return status;
}

int
filter_make(const struct names *names, const struct filter_options *options, struct filter *out)
{
    int status;

    memset(out, 0, sizeof(*out));
    out->min_size = options->min_size;
    status = filter_times(out, names->trace, options);
    if (status == COMMAND_FINE && options->layers.count == 0)
        status = filter_outermost(out, names->layers);
    if (status == COMMAND_FINE)
        status = filter_each(out, names, &options->layers, filter_layer);
    if (status == COMMAND_FINE)
        status = filter_each(out, names, &options->tags, filter_tag);
    if (status == COMMAND_FINE)
        status = filter_each(out, names, &options->threads, filter_thread);
    if (status == COMMAND_FINE)
        status = filter_each(out, names, &options->streams, filter_stream);
    if (status == COMMAND_FINE)
        status = filter_each(out, names, &options->devices, filter_device);
    if (status == COMMAND_FINE && options->callstack != NULL)
        status = filter_callstack(out, names, options->callstack);
    if (status != COMMAND_FINE) {
        filter_free(out);
        return status;
    }
    if (out->tags.active || out->callstacks.active)
        out->needs |= SCAN_ORIGIN;
    if (out->threads.active || out->streams.active || out->device_streams.active)
        out->needs |= SCAN_CALLER;
    out->active = filter_has_rows(out) || out->from_ns != INT64_MIN || out->to_ns != INT64_MAX;
    return COMMAND_FINE;
}

void
filter_free(struct filter *filter)
{
    id_map_free(&filter->layers.ids);
    id_map_free(&filter->tags.ids);
    id_map_free(&filter->threads.ids);
    id_map_free(&filter->streams.ids);
    id_map_free(&filter->device_streams.ids);
    id_map_free(&filter->callstacks.ids);
}

bool
filter_has_layer(const struct filter *filter, int64_t layer_id)
{
    return filter_set_has(&filter->layers, layer_id);
}

bool
filter_has_rows(const struct filter *filter)
{
    return filter->needs != 0 || filter->min_size > 0;
}

/* Clip a life to the time range. */
static bool
filter_clip(const struct filter *filter, struct scan_life *life)
{
    if (life->alloc_ns > filter->to_ns || (life->freed && life->free_ns < filter->from_ns) ||
        (life->status != 0 && life->alloc_ns < filter->from_ns))
        return false;
    if (life->alloc_ns < filter->from_ns) {
        life->alloc_ns = filter->from_ns;
        life->clipped = true;
    }
    if (life->freed && life->free_ns > filter->to_ns)
        life->freed = false;
    return true;
}

bool
filter_takes(const struct filter *filter, struct scan_life *life)
{
    if (!filter_set_has(&filter->layers, life->layer_id))
        return false;
    if (!filter->active)
        return true;
    return life->size >= filter->min_size && filter_set_has(&filter->tags, life->tag_id) &&
           filter_set_has(&filter->callstacks, life->callstack_id) &&
           filter_set_has(&filter->threads, life->alloc_thread_id) &&
           filter_set_has(&filter->streams, life->alloc_stream_id) &&
           filter_set_has(&filter->device_streams, life->alloc_stream_id) && filter_clip(filter, life);
}
