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
    switch (by) {
    case GROUPS_TAG:
    case GROUPS_CALLSTACK:
        return SCAN_ORIGIN;
    case GROUPS_STREAM:
    case GROUPS_THREAD:
    case GROUPS_DEVICE:
        return SCAN_CALLER;
    default:
        return 0;
    }
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
    switch (groups->by) {
    case GROUPS_TAG:
        return (uint64_t)life->tag_id;
    case GROUPS_CALLSTACK:
        return (uint64_t)life->callstack_id;
    case GROUPS_SIZE:
        return life->size;
    case GROUPS_CLASS:
        return groups_class(life->size);
    case GROUPS_STREAM:
        return (uint64_t)life->alloc_stream_id;
    case GROUPS_THREAD:
        return (uint64_t)life->alloc_thread_id;
    case GROUPS_LAYER:
        return (uint64_t)life->layer_id;
    case GROUPS_DEVICE:
        return groups_device(groups, life->alloc_stream_id);
    }
    return 0;
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
    group = number != NULL ? *number : groups_add(groups, key);
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

const char *
groups_name(const struct groups *groups, uint32_t group, char *buffer, size_t size)
{
    struct output_figure figure;
    uint64_t key = groups->keys[group];

    switch (groups->by) {
    case GROUPS_TAG:
        return names_tag(groups->names, (int64_t)key, buffer, size);
    case GROUPS_CALLSTACK:
        return names_callstack(groups->names, (int64_t)key, buffer, size);
    case GROUPS_SIZE:
        snprintf(buffer, size, "%s", output_size(&figure, key));
        return buffer;
    case GROUPS_CLASS:
        return groups_class_name(key, buffer, size);
    case GROUPS_STREAM:
        return names_stream(groups->names, (int64_t)key, buffer, size);
    case GROUPS_THREAD:
        return names_thread(groups->names, (int64_t)key, buffer, size);
    case GROUPS_LAYER:
        return names_layer(groups->names, (int64_t)key, buffer, size);
    case GROUPS_DEVICE:
        if (key == UINT64_MAX)
            return "(none)";
        snprintf(buffer, size, "device %" PRId64, (int64_t)key);
        return buffer;
    }
    return "";
}

const char *
groups_brief(const struct groups *groups, uint32_t group, char *buffer, size_t size)
{
    const char *name = groups_name(groups, group, buffer, size);

    return groups->by == GROUPS_CALLSTACK ? stack_text_brief(name, buffer, size) : name;
}

const char *
groups_word(enum groups_by by)
{
    static const char *const words[] = { "tag",    "call stack", "size",  "class of sizes",
                                         "stream", "thread",     "layer", "device" };

    return words[by];
}
