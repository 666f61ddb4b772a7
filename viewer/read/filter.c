/* The filters that commands share. */
#include "config.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/filter.h"
#include "viewer/read/tag-levels.h"
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
        message("tidemark: no memory for the filters");
        return COMMAND_WRONG;
    }
    return COMMAND_FINE;
}

/* Report that nothing has the name `text`. */
static int
filter_no_such(const struct names *names, const char *what, const char *text, const struct name_list *list)
{
    const char *nearest = NULL;

    for (size_t i = 0; list != NULL && i < list->count; i++)
        nearest = parse_nearest(text, nearest, list->names[i].text);
    if (nearest != NULL && nearest[0] != '\0')
        message("%s: no %s \"%s\"; did you mean \"%s\"?", names->trace->path, what, text, nearest);
    else
        message("%s: no %s \"%s\"", names->trace->path, what, text);
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

/* An argument of a filter, with the list that it selects from: as text, and as a number or a handle ("0x..."). */
struct filter_argument {
    const struct name_list *list;
    const char *text;
    bool is_number;
    bool is_handle;
    uint64_t number;
    uint64_t handle;
};

static bool
filter_fits_tag(const struct name *tag, const struct filter_argument *argument)
{
    struct tag_levels levels;

    if (filter_tag_fits(tag->text, argument->text))
        return true;
    tag_levels_of(argument->list, tag->id, &levels);
    return tag_levels_lie_in(&levels, argument->text);
}

static bool
filter_fits_thread(const struct name *thread, const struct filter_argument *argument)
{
    return argument->is_number ? (uint64_t)thread->id == argument->number
                               : fnmatch(argument->text, thread->text, 0) == 0;
}

static bool
filter_fits_stream(const struct name *stream, const struct filter_argument *argument)
{
    return (argument->is_number && (uint64_t)stream->id == argument->number) ||
           (argument->is_handle && (uint64_t)stream->number == argument->handle);
}

/* An allocation belongs to the device of its stream. */
static bool
filter_fits_device(const struct name *stream, const struct filter_argument *argument)
{
    return argument->is_number && (uint64_t)stream->device == argument->number;
}

/* The filters whose arguments select names. */
static const struct filter_kind {
    const char *what;
    size_t arguments; /* offset of the option_list in filter_options */
    size_t list;      /* offset of the name_list in names */
    size_t set;       /* offset of the filter_set in filter */
    bool (*fits)(const struct name *name, const struct filter_argument *argument);
    const char *none;    /* the argument that selects id 0; NULL: there is no such argument */
    bool suggests_names; /* after an argument that selects nothing */
} filter_kinds[] = {
    { "tag", offsetof(struct filter_options, tags), offsetof(struct names, tags), offsetof(struct filter, tags),
      filter_fits_tag, "none", true },
    { "thread", offsetof(struct filter_options, threads), offsetof(struct names, threads),
      offsetof(struct filter, threads), filter_fits_thread, NULL, true },
    { "stream", offsetof(struct filter_options, streams), offsetof(struct names, streams),
      offsetof(struct filter, streams), filter_fits_stream, NULL, false },
    { "device", offsetof(struct filter_options, devices), offsetof(struct names, streams),
      offsetof(struct filter, device_streams), filter_fits_device, NULL, false },
};

/* Add the names that fit `text` to the filter. */
static int
filter_add_names(struct filter *filter, const struct names *names, const struct filter_kind *kind, const char *text)
{
    const struct name_list *list = (const void *)((const char *)names + kind->list);
    struct filter_set *set = (void *)((char *)filter + kind->set);
    struct filter_argument argument = { .list = list, .text = text };
    bool found = kind->none != NULL && strcmp(text, kind->none) == 0;
    int status = found ? filter_set_add(set, 0) : COMMAND_FINE;
    char *end = NULL;

    argument.is_number = parse_count(text, &argument.number);
    argument.handle = strtoull(text, &end, 16);
    argument.is_handle = strncmp(text, "0x", 2) == 0 && *end == '\0';
    for (size_t i = 0; i < list->count && status == COMMAND_FINE; i++) {
        if (kind->fits(&list->names[i], &argument)) {
            status = filter_set_add(set, list->names[i].id);
            found = true;
        }
    }
    if (found || status != COMMAND_FINE)
        return status;
    return filter_no_such(names, kind->what, text, kind->suggests_names ? list : NULL);
}

/* Add a layer, which must be a log or have allocations. */
static int
filter_layer(struct filter *filter, const struct names *names, const char *text)
{
    const struct trace_layer *layer;
    int code = SQLITE_ROW;
    uint64_t number;
    int64_t found;

    if (!parse_count(text, &number) || number > INT64_MAX)
        return filter_no_such(names, "layer", text, NULL);
    layer = trace_layers_find(names->layers, (int64_t)number);
    if (layer == NULL || !trace_layer_is_log(layer))
        code = trace_look_up(names->trace, &found, "SELECT 1 FROM allocation WHERE layer_id = %lld LIMIT 1", number);
    if (code == SQLITE_ROW)
        return filter_set_add(&filter->layers, (int64_t)number);
    return code == SQLITE_DONE ? filter_no_such(names, "layer that records", text, NULL) : trace_failed(names->trace);
}

static int
filter_callstack(struct filter *filter, const struct names *names, const char *text)
{
    int status = COMMAND_FINE;
    bool found = false;
    regex_t regex;
    char why[128];
    int code = regcomp(&regex, text, REG_EXTENDED | REG_NOSUB);

    if (code != 0) {
        regerror(code, &regex, why, sizeof(why));
        message("tidemark: --callstack: %s", why);
        return COMMAND_WRONG;
    }
    filter->callstacks.active = true;
    for (size_t i = 0; i < names->callstacks.count && status == COMMAND_FINE; i++) {
        if (regexec(&regex, names->callstacks.names[i].text, 0, NULL, 0) != 0)
            continue;
        status = filter_set_add(&filter->callstacks, names->callstacks.names[i].id);
        found = true;
    }
    regfree(&regex);
    if (status != COMMAND_FINE)
        return status;
    if (names->callstacks.count == 0)
        return trace_broken(names->trace, "it has no call stacks for --callstack");
    if (!found)
        return filter_no_such(names, "call stack with a frame that matches", text, NULL);
    return COMMAND_FINE;
}

/* Select the logs that have no other log above them. */
static int
filter_outermost(struct filter *filter, const struct trace_layers *layers)
{
    struct trace_layer_set logs, inner;
    int status = COMMAND_FINE;

    layer_graph_logs(layers, &logs, &inner);
    for (size_t i = 0; i < layers->count && status == COMMAND_FINE; i++) {
        if (trace_layer_set_has(&logs, i) && !trace_layer_set_has(&inner, i))
            status = filter_set_add(&filter->layers, layers->layers[i].layer_id);
    }
    return status;
}

/* Apply the options that name layers, tags, threads, streams or devices. */
static int
filter_add_lists(struct filter *filter, const struct names *names, const struct filter_options *options)
{
    int status = options->layers.count == 0 ? filter_outermost(filter, names->layers) : COMMAND_FINE;

    for (size_t i = 0; i < options->layers.count && status == COMMAND_FINE; i++)
        status = filter_layer(filter, names, options->layers.items[i]);
    for (size_t k = 0; k < sizeof(filter_kinds) / sizeof(filter_kinds[0]); k++) {
        const struct option_list *arguments = (const void *)((const char *)options + filter_kinds[k].arguments);

        for (size_t i = 0; i < arguments->count && status == COMMAND_FINE; i++)
            status = filter_add_names(filter, names, &filter_kinds[k], arguments->items[i]);
    }
    return status;
}

/* The end of the recording: the stored one, or the time of the last allocation, free, sample or mark. */
static int
filter_end(const struct trace *trace, int64_t *out)
{
    static const struct {
        const char *table, *column, *last;
    } others[] = {
        { "pool_sample", "ns", "SELECT max(ns) FROM pool_sample" },
        { "device_sample", "ns", "SELECT max(ns) FROM device_sample" },
        { "mark", "ns", "SELECT max(ns) FROM mark" },
    };
    int status = trace_integer(trace, "SELECT value FROM meta WHERE key = 'end_ns'", out);

    if (status != COMMAND_FINE || *out > 0)
        return status;
    status = trace_integer(trace, "SELECT max(max(alloc_ns, ifnull(free_ns, 0))) FROM allocation", out);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]) && status == COMMAND_FINE; i++) {
        int64_t last = 0;

        if (trace_has(trace, others[i].table, others[i].column))
            status = trace_integer(trace, others[i].last, &last);
        *out = last > *out ? last : *out;
    }
    return status;
}

int
filter_moment(const struct trace *trace, const struct moment *moment, int64_t *out)
{
    int64_t end;
    int status;
    int code;

    *out = moment->number;
    switch (moment->kind) {
    case MOMENT_SHARE:
        status = filter_end(trace, &end);
        *out = moment->share * (double)end < 0x1p63 ? (int64_t)(moment->share * (double)end) : end;
        return status;
    case MOMENT_EVENT:
        code = trace_look_up(trace, out, "SELECT alloc_ns FROM allocation WHERE allocation_id = %lld", moment->number);
        if (code == SQLITE_DONE)
            return trace_broken(trace, "no allocation %" PRId64, moment->number);
        return code == SQLITE_ROW ? COMMAND_FINE : trace_failed(trace);
    case MOMENT_MARK:
        if (!trace_has(trace, "mark", "ns kind text"))
            return trace_broken(trace, "it has no marks");
        code = trace_look_up(trace, out, "SELECT ns FROM mark WHERE kind = 'mark' AND text = %Q ORDER BY ns LIMIT 1",
                             moment->text);
        if (code == SQLITE_DONE)
            return trace_broken(trace, "no mark has this text");
        return code == SQLITE_ROW ? COMMAND_FINE : trace_failed(trace);
    case MOMENT_PEAK:
        message("tidemark: \"peak\" is no moment to begin or end at");
        return COMMAND_WRONG;
    default:
        return COMMAND_FINE;
    }
}

int
filter_check_begin(const struct trace *trace, const struct moment *moment, const char *option)
{
    struct output_figure asked, ended;
    int64_t end = 0;
    int status = moment->kind == MOMENT_TIME ? filter_end(trace, &end) : COMMAND_FINE;

    if (status == COMMAND_FINE && moment->kind == MOMENT_TIME && moment->number > end)
        return trace_broken(trace, "--%s: %s lies behind the end of the recording, at %s", option,
                            output_time(&asked, moment->number), output_time(&ended, end));
    return status;
}

/* Refuse a time up to which nothing was recorded. */
static int
filter_check_to(const struct trace *trace, const struct moment *to)
{
    struct output_figure asked, began;
    int64_t begin = 0;
    int code;

    if (to->kind != MOMENT_TIME)
        return COMMAND_FINE;
    code = trace_look_up(trace, &begin, "SELECT alloc_ns FROM allocation ORDER BY allocation_id LIMIT 1");
    if (code == SQLITE_ROW && to->number < begin)
        return trace_broken(trace, "--to: %s lies before the first allocation, at %s", output_time(&asked, to->number),
                            output_time(&began, begin));
    return code == SQLITE_ROW || code == SQLITE_DONE ? COMMAND_FINE : trace_failed(trace);
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
    if (status == COMMAND_FINE)
        status = filter_check_begin(trace, &options->from, "from");
    if (status == COMMAND_FINE)
        status = filter_check_to(trace, &options->to);
    if (status == COMMAND_FINE && filter->from_ns > filter->to_ns) {
        message("tidemark: --from lies behind --to");
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
    if (status == COMMAND_FINE)
        status = filter_add_lists(out, names, options);
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

static bool
filter_set_same(const struct filter_set *a, const struct filter_set *b)
{
    if (a->active != b->active || a->ids.count != b->ids.count)
        return false;
    for (size_t i = 0; a->ids.count > 0 && i <= a->ids.mask; i++) {
        if (a->ids.entries[i].used && id_map_find(&b->ids, a->ids.entries[i].id) == NULL)
            return false;
    }
    return true;
}

bool
filter_same(const struct filter *a, const struct filter *b)
{
    if (a == b || a == NULL || b == NULL)
        return a == b;
    return a->from_ns == b->from_ns && a->to_ns == b->to_ns && a->min_size == b->min_size &&
           filter_set_same(&a->layers, &b->layers) && filter_set_same(&a->tags, &b->tags) &&
           filter_set_same(&a->threads, &b->threads) && filter_set_same(&a->streams, &b->streams) &&
           filter_set_same(&a->callstacks, &b->callstacks) && filter_set_same(&a->device_streams, &b->device_streams);
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
