/* Groups allocations by tag, call stack, size and other keys. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/analysis/groups.h"
#include "viewer/base/output.h"
#include "viewer/base/callstack-text.h"

const char *
groups_class_name(uint64_t class, char *buffer, size_t size)
{
    struct output_figure from;
    struct output_figure to;

    if (class == 0)
        return "0 B";
    if (class == 1)
        return "1 B";
    snprintf(buffer, size, "%s to %s", output_size(&from, UINT64_C(1) << (class - 1)),
             class < 64 ? output_size(&to, UINT64_C(1) << class) : "16 EiB");
    return buffer;
}

/* A kind of key: the field of a life that it is made from, the columns that it needs, and its words. */
static const struct groups_kind {
    const char *word;
    const char *(*name)(const struct names *names, int64_t key, char *buffer, size_t size); /* NULL: not an id */
    int64_t (*same)(const struct names *names, int64_t key); /* the key of its group; NULL: each has its own */
    size_t field;                                            /* the offset in struct scan_life; 8 bytes */
    unsigned needs;                                          /* SCAN_* */
} groups_kinds[] = {
    [GROUPS_TAG] = { "tag", names_branch, names_same_branch, offsetof(struct scan_life, tag_id), SCAN_ORIGIN },
    [GROUPS_CALLSTACK] = { "call stack", names_counted, names_same_counted, offsetof(struct scan_life, callstack_id),
                           SCAN_ORIGIN },
    [GROUPS_SIZE] = { "size", NULL, NULL, offsetof(struct scan_life, size), 0 },
    [GROUPS_CLASS] = { "class of sizes", NULL, NULL, offsetof(struct scan_life, size), 0 },
    [GROUPS_STREAM] = { "stream", names_stream, NULL, offsetof(struct scan_life, alloc_stream_id), SCAN_CALLER },
    [GROUPS_THREAD] = { "thread", names_thread, NULL, offsetof(struct scan_life, alloc_thread_id), SCAN_CALLER },
    [GROUPS_LAYER] = { "layer", names_layer, NULL, offsetof(struct scan_life, layer_id), 0 },
    [GROUPS_DEVICE] = { "device", NULL, NULL, offsetof(struct scan_life, alloc_stream_id), SCAN_CALLER },
    [GROUPS_FUNCTION] = { "call stack", names_functions, names_same_functions, offsetof(struct scan_life, callstack_id),
                          SCAN_ORIGIN },
    [GROUPS_KIND] = { "kind of memory", names_kind, names_same_kind, offsetof(struct scan_life, layer_id), 0 },
    [GROUPS_FILE] = { "file", names_file, names_same_file, offsetof(struct scan_life, callstack_id), SCAN_ORIGIN },
};

void
groups_begin(struct groups *groups, enum groups_by by, const struct names *names)
{
    *groups = (struct groups){ .by = by, .names = names };
}

void
groups_end(struct groups *groups)
{
    id_map_free(&groups->by_key);
    free(groups->keys);
    groups->keys = NULL;
    groups->count = groups->capacity = 0;
}

unsigned
groups_needs(enum groups_by by)
{
    return groups_kinds[by].needs;
}

uint64_t
groups_class(uint64_t size)
{
    return size == 0 ? 0 : (uint64_t)(64 - __builtin_clzll(size));
}

static uint64_t
groups_device(const struct groups *groups, int64_t stream_id)
{
    const struct name *stream = names_find(&groups->names->streams, stream_id);

    return stream != NULL ? (uint64_t)stream->device : UINT64_MAX;
}

static uint64_t
groups_key(const struct groups *groups, const struct scan_life *life)
{
    uint64_t key;

    memcpy(&key, (const char *)life + groups_kinds[groups->by].field, sizeof(key));
    return groups->by == GROUPS_CLASS    ? groups_class(key)
           : groups->by == GROUPS_DEVICE ? groups_device(groups, (int64_t)key)
                                         : key;
}

enum groups_by
groups_default(const struct names *names)
{
    return names->callstacks.count > 0 ? GROUPS_CALLSTACK : names->tags.count > 0 ? GROUPS_TAG : GROUPS_CLASS;
}

static uint32_t
groups_add(struct groups *groups, uint64_t key)
{
    if (groups->count == GROUPS_FULL || !tidei_grow(&groups->keys, &groups->capacity, groups->count, 1))
        return GROUPS_FULL;
    if (!id_map_add(&groups->by_key, key, (uint32_t)groups->count))
        return GROUPS_FULL;
    groups->keys[groups->count] = key;
    return (uint32_t)groups->count++;
}

/* The group of a key that is new: that of the first key that is the same, or a new one. */
static uint32_t
groups_add_same(struct groups *groups, uint64_t key)
{
    const struct groups_kind *kind = &groups_kinds[groups->by];
    uint64_t first = kind->same != NULL ? (uint64_t)kind->same(groups->names, (int64_t)key) : key;
    const uint32_t *known = first != key ? id_map_find(&groups->by_key, first) : NULL;
    uint32_t group = known != NULL ? *known : groups_add(groups, first);

    if (group != GROUPS_FULL && first != key && !id_map_add(&groups->by_key, key, group))
        return GROUPS_FULL;
    return group;
}

uint32_t
groups_of(struct groups *groups, const struct scan_life *life)
{
    return groups_number(groups, groups_key(groups, life));
}

uint32_t
groups_number(struct groups *groups, uint64_t key)
{
    const uint32_t *number;
    uint32_t group;

    if (groups->count > 0 && key == groups->last_key)
        return groups->last;
    number = id_map_find(&groups->by_key, key);
    group = number != NULL ? *number : groups_add_same(groups, key);
    groups->last_key = key;
    groups->last = group;
    return group;
}

bool
groups_reach_items(void *array, size_t item_bytes, size_t *capacity, uint32_t group)
{
    size_t before = *capacity;
    char *items;

    if (group < before)
        return true;
    if (group == GROUPS_FULL || !tidei_grow_items(array, item_bytes, capacity, before, group + 1 - before))
        return false;
    memcpy(&items, array, sizeof(items));
    memset(items + before * item_bytes, 0, (*capacity - before) * item_bytes);
    return true;
}

bool
groups_has_id(const struct groups *groups, uint32_t group)
{
    int64_t key = (int64_t)groups->keys[group];

    switch (groups->by) {
    case GROUPS_TAG:
        return key != 0 && !names_is_shared_branch(groups->names, key);
    case GROUPS_CALLSTACK:
        return key != 0 && !names_is_shared_counted(groups->names, key);
    case GROUPS_FUNCTION:
        return key != 0 && !names_is_shared_functions(groups->names, key);
    case GROUPS_SIZE:
    case GROUPS_CLASS:
    case GROUPS_FILE:
    case GROUPS_KIND:
        return false;
    case GROUPS_DEVICE:
        return groups->keys[group] != UINT64_MAX;
    default:
        return key != 0;
    }
}

const char *
groups_name(const struct groups *groups, uint32_t group, char *buffer, size_t size)
{
    const struct groups_kind *kind = &groups_kinds[groups->by];
    uint64_t key = groups->keys[group];
    struct output_figure figure;

    if (kind->name != NULL)
        return kind->name(groups->names, (int64_t)key, buffer, size);
    if (groups->by == GROUPS_CLASS)
        return groups_class_name(key, buffer, size);
    if (groups->by == GROUPS_DEVICE && key == UINT64_MAX)
        return "(none)";
    if (groups->by == GROUPS_DEVICE)
        snprintf(buffer, size, "device %" PRId64, (int64_t)key);
    else
        snprintf(buffer, size, "%s", output_size(&figure, key));
    return buffer;
}

const char *
groups_brief(const struct groups *groups, uint32_t group, char *buffer, size_t size)
{
    const char *name = groups_name(groups, group, buffer, size);
    uint64_t key = groups->keys[group];
    struct output_figure exact;

    for (size_t i = 0; groups->by == GROUPS_SIZE && i < groups->count; i++) {
        /* Sizes that read the same are less than 1% apart. */
        uint64_t apart = groups->keys[i] > key ? groups->keys[i] - key : key - groups->keys[i];

        if (apart <= key / 100 && strcmp(output_size_beside(&exact, key, groups->keys[i]), name) != 0) {
            snprintf(buffer, size, "%s", exact.text);
            return buffer;
        }
    }
    return groups_are_stacks(groups->by) ? stack_text_brief(name, buffer, size) : name;
}

const char *
groups_word(enum groups_by by)
{
    return groups_kinds[by].word;
}
