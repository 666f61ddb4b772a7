/* Reads the names for the ids of a trace. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/names.h"
#include "viewer/read/tag-levels.h"

/* The most levels of nested tags. Beyond them, or in a cycle, outer tags are left out. */
#define NAMES_TAG_DEPTH 64

/* The most bytes of all tag paths; a million tags of a real program take some hundred MiB. */
#define NAMES_PATHS_BYTES ((size_t)2 << 30)

/* Add a row of id, text, number and device to a list. */
static int
names_add(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct name_list *list = context;
    const char *text = (const char *)sqlite3_column_text(row, 1);
    struct name name = {
        .id = sqlite3_column_int64(row, 0),
        .text = strdup(text != NULL ? text : ""),
        .number = sqlite3_column_int64(row, 2),
        .device = sqlite3_column_type(row, 3) == SQLITE_NULL ? -1 : sqlite3_column_int64(row, 3),
    };

    if (list->count == NAMES_MAX || !tidei_grow(&list->names, &list->capacity, list->count, 1)) {
        free(name.text);
        return trace_broken(trace, "more names than can be taken in");
    }
    if (name.text == NULL || !id_map_add(&list->by_id, (uint64_t)name.id, (uint32_t)list->count)) {
        free(name.text);
        return trace_broken(trace, "no memory for its names");
    }
    list->names[list->count++] = name;
    return COMMAND_FINE;
}

/*
 * Make the path of a tag: its name after those of its ancestors. Adds the bytes of the path to *total and makes none
 * beyond the limit. NULL: no memory.
 */
static char *
names_make_path(const struct name_list *tags, const struct name *tag, size_t *total)
{
    const struct name *chain[NAMES_TAG_DEPTH];
    size_t depth = 0;
    size_t bytes = 0;
    char *path;

    for (; tag != NULL && depth < NAMES_TAG_DEPTH; tag = tag->number != 0 ? names_find(tags, tag->number) : NULL) {
        bytes += strlen(tag->text) + 1;
        chain[depth++] = tag;
    }
    *total += bytes;
    path = *total <= NAMES_PATHS_BYTES ? malloc(bytes) : NULL;
    for (char *end = path; path != NULL && depth > 0; depth--)
        end += sprintf(end, "%s%s", chain[depth - 1]->text, depth > 1 ? "/" : "");
    return path;
}

/* Turn the names of tags into paths; `number` is the parent. A parent may come after its children. */
static int
names_make_paths(const struct trace *trace, struct name_list *tags)
{
    char **paths = calloc(tags->count + 1, sizeof(*paths));
    size_t total = 0;
    size_t made = 0;
    bool failed;

    while (paths != NULL && made < tags->count &&
           (paths[made] = names_make_path(tags, &tags->names[made], &total)) != NULL)
        made++;
    failed = paths == NULL || made < tags->count;
    for (size_t i = 0; i < made; i++) {
        free(failed ? paths[i] : tags->names[i].text);
        if (!failed)
            tags->names[i].text = paths[i];
    }
    free(paths);
    if (total > NAMES_PATHS_BYTES)
        return trace_broken(trace, "longer names of tags than can be taken in");
    return failed ? trace_broken(trace, "no memory for its tags") : COMMAND_FINE;
}

int
names_read_streams(const struct trace *trace, struct name_list *out)
{
    return trace_each(trace, names_add, out, "SELECT stream_id, '', handle, device FROM stream ORDER BY 1");
}

int
names_read_tags(const struct trace *trace, struct name_list *out)
{
    if (!trace_has(trace, "tag", "tag_id parent_tag_id name"))
        return COMMAND_FINE;
    return trace_each(trace, names_add, out, "SELECT tag_id, name, parent_tag_id, NULL FROM tag ORDER BY tag_id");
}

int
names_read_threads(const struct trace *trace, struct name_list *out)
{
    return trace_each(trace, names_add, out, "SELECT thread_id, name, os_tid, NULL FROM thread ORDER BY 1");
}

bool
names_read_devices(const struct trace *trace, struct name_list *out)
{
    /* CASE, because json_type refuses an element that is a plain text. */
    static const char sql[] = "SELECT json_extract(item.value, '$.device'), json_extract(item.value, '$.name'),"
                              " max(ifnull(json_extract(item.value, '$.total_bytes'), 0), 0), NULL"
                              " FROM meta, json_each(meta.value) AS item WHERE meta.key = 'devices'"
                              " AND CASE item.type WHEN 'object' THEN json_type(item.value, '$.device') = 'integer'"
                              " AND json_type(item.value, '$.name') = 'text' END";
    int64_t count;

    trace_look_up(trace, &count,
                  "SELECT iif(json_valid(value), json_array_length(value), 0) FROM meta WHERE key = 'devices'");
    return count > 0 && trace_each(trace, names_add, out, sql) == COMMAND_FINE;
}

int
names_read(const struct trace *trace, const struct trace_layers *layers, const struct callstack_options *callstack,
           uint64_t depth, struct names *out)
{
    const struct callstack_lists lists = { .whole = &out->callstacks,
                                           .counted = &out->counted,
                                           .functions = &out->functions,
                                           .files = &out->files,
                                           .skipped = &out->skipped_frames,
                                           .fitting = &out->fitting };
    int status;

    *out = (struct names){ .trace = trace, .layers = layers, .callstack = callstack, .depth = depth };
    status = names_read_tags(trace, &out->tags);
    if (status == COMMAND_FINE)
        status = names_make_paths(trace, &out->tags);
    if (status == COMMAND_FINE && depth > 0)
        status = tag_levels_cut(trace, &out->tags, depth, &out->branches);
    if (status == COMMAND_FINE)
        status = names_read_threads(trace, &out->threads);
    if (status == COMMAND_FINE)
        status = names_read_streams(trace, &out->streams);
    if (status == COMMAND_FINE)
        status = callstacks_read(trace, callstack, &lists);
    if (status != COMMAND_FINE)
        names_free(out);
    return status;
}

void
names_free_list(struct name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (!list->names[i].borrows)
            free(list->names[i].text);
    }
    free(list->names);
    id_map_free(&list->by_id);
}

void
names_free(struct names *names)
{
    names_free_list(&names->tags);
    names_free_list(&names->threads);
    names_free_list(&names->streams);
    names_free_list(&names->callstacks);
    names_free_list(&names->counted);
    names_free_list(&names->functions);
    names_free_list(&names->files);
    names_free_list(&names->branches);
    id_map_free(&names->skipped_frames);
    memset(names, 0, sizeof(*names));
}

int
names_check_callstacks(const struct names *names, const struct names *other)
{
    const struct callstack_options *options = names->callstack;
    uint32_t fitting = names->fitting | (other != NULL ? other->fitting : 0);

    if ((options->frames > 0 || options->skip.count > 0) && names->callstacks.count == 0 &&
        (other == NULL || other->callstacks.count == 0))
        return trace_broken(names->trace, "it has no call stacks for --%s", options->frames > 0 ? "frames" : "skip");
    if (names->depth > 0 && names->tags.count == 0 && (other == NULL || other->tags.count == 0))
        return trace_broken(names->trace, "it has no tags for --depth");
    for (size_t i = 0; i < options->skip.count; i++) {
        if ((fitting >> i & 1) == 0)
            return trace_broken(names->trace, "no frame of a call stack fits \"%s\"", options->skip.items[i]);
    }
    return COMMAND_FINE;
}

static const char *
names_unknown(const char *what, int64_t id, char *buffer, size_t size)
{
    if (id == 0)
        return "(none)";
    snprintf(buffer, size, "%s %" PRId64, what, id);
    return buffer;
}

const char *
names_tag(const struct names *names, int64_t id, char *buffer, size_t size)
{
    const struct name *tag = names_find(&names->tags, id);

    return tag != NULL ? tag->text : names_unknown("tag", id, buffer, size);
}

static const char *
names_stack(const struct name_list *list, int64_t id, char *buffer, size_t size)
{
    const struct name *stack = names_find(list, id);

    return stack != NULL ? stack->text : names_unknown("call stack", id, buffer, size);
}

static int64_t
names_same(const struct name_list *list, int64_t id)
{
    const struct name *stack = names_find(list, id);

    return stack != NULL ? stack->number : id;
}

/* Where all frames count, there is one list for both. */
static const struct name_list *
names_counted_list(const struct names *names)
{
    return names->counted.count > 0 ? &names->counted : &names->callstacks;
}

const char *
names_callstack(const struct names *names, int64_t id, char *buffer, size_t size)
{
    return names_stack(&names->callstacks, id, buffer, size);
}

const char *
names_counted(const struct names *names, int64_t id, char *buffer, size_t size)
{
    return names_stack(names_counted_list(names), id, buffer, size);
}

const char *
names_functions(const struct names *names, int64_t id, char *buffer, size_t size)
{
    return names_stack(&names->functions, id, buffer, size);
}

const char *
names_file(const struct names *names, int64_t id, char *buffer, size_t size)
{
    return names_stack(&names->files, id, buffer, size);
}

const char *
names_branch(const struct names *names, int64_t id, char *buffer, size_t size)
{
    const struct name *branch = names_find(&names->branches, id);

    return branch != NULL ? branch->text : names_tag(names, id, buffer, size);
}

int64_t
names_same_counted(const struct names *names, int64_t id)
{
    return names_same(names_counted_list(names), id);
}

int64_t
names_same_functions(const struct names *names, int64_t id)
{
    return names_same(&names->functions, id);
}

int64_t
names_same_file(const struct names *names, int64_t id)
{
    return names_same(&names->files, id);
}

int64_t
names_same_branch(const struct names *names, int64_t id)
{
    return names_same(&names->branches, id);
}

static bool
names_is_shared(const struct name_list *list, int64_t id)
{
    const struct name *first = names_find(list, names_same(list, id));

    return first != NULL && first->is_shared;
}

bool
names_is_shared_counted(const struct names *names, int64_t id)
{
    return names_is_shared(names_counted_list(names), id);
}

bool
names_is_shared_functions(const struct names *names, int64_t id)
{
    return names_is_shared(&names->functions, id);
}

bool
names_is_shared_branch(const struct names *names, int64_t id)
{
    return names_is_shared(&names->branches, id);
}

const char *
names_thread(const struct names *names, int64_t id, char *buffer, size_t size)
{
    const struct name *thread = names_find(&names->threads, id);

    if (thread == NULL || thread->text[0] == '\0')
        return names_unknown("thread", id, buffer, size);
    snprintf(buffer, size, "%" PRId64 " %s", id, thread->text);
    return buffer;
}

const char *
names_stream(const struct names *names, int64_t id, char *buffer, size_t size)
{
    const struct name *stream = names_find(&names->streams, id);

    if (stream == NULL)
        return names_unknown("stream", id, buffer, size);
    snprintf(buffer, size, "%" PRId64 " (0x%" PRIx64 ")", id, (uint64_t)stream->number);
    return buffer;
}

const char *
names_layer(const struct names *names, int64_t id, char *buffer, size_t size)
{
    const struct trace_layer *layer = trace_layers_find(names->layers, id);

    snprintf(buffer, size, "%" PRId64 " %s", id, layer != NULL ? layer->kind : "");
    return buffer;
}

/* The base below a layer by its upstream; NULL: the trace does not define the layer, or goes round in a circle. */
static const struct trace_layer *
names_base(const struct names *names, int64_t layer_id)
{
    const struct trace_layer *layer = trace_layers_find(names->layers, layer_id);

    for (size_t i = 0; layer != NULL && layer->upstream_layer_id != 0; i++)
        layer = i < TRACE_LAYERS_DEPTH ? trace_layers_find(names->layers, layer->upstream_layer_id) : NULL;
    return layer;
}

/* The number of a base stands in the upper half, negative, and its device in the lower one. */
int64_t
names_same_kind(const struct names *names, int64_t layer_id)
{
    const struct trace_layer *base = names_base(names, layer_id);

    if (base == NULL)
        return 0;
    return -(((int64_t)layer_kind_number(base->known) << 32) + (int64_t)(uint32_t)(base->device + 1) + 1);
}

const char *
names_kind(const struct names *names, int64_t kind, char *buffer, size_t size)
{
    const struct layer_kind *known = layer_kind_at((unsigned)(-(kind + 1) >> 32));
    int64_t device = (int64_t)(uint32_t)(-(kind + 1)) - 1;

    (void)names;
    if (kind == 0)
        return "(unknown)";
    if (device < 0)
        snprintf(buffer, size, "%s", layer_kind_word(known));
    else
        snprintf(buffer, size, "%s of GPU %" PRId64, layer_kind_word(known), device);
    return buffer;
}
