/* A memory profile of a trace by call stack or tag. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/analysis/groups.h"
#include "viewer/analysis/profile.h"

/* Deeper stacks lose their outer frames. */
#define PROFILE_DEPTH_MAX 1024

struct profile_maker {
    struct view *view;
    struct profile *profile;
    bool by_class; /* the trace has neither tags nor call stacks */
    size_t group_capacity;
    size_t frame_capacity;
    /* Small numbers for ids, so that a layer with a tag or a call stack makes one key of `groups`. */
    struct groups layers, tags, callstacks;
    struct groups groups;
    struct id_map frame_hash; /* owns; the newest frame of a hash */
    uint64_t live_bytes;
    uint64_t allocated_bytes;
    uint64_t peak_number;
};

static int
profile_no_memory(const struct profile_maker *maker)
{
    return trace_broken(&maker->view->trace, "no memory for its call stacks");
}

static struct profile_group *
profile_group(struct profile_maker *maker, const struct scan_life *life)
{
    struct profile *profile = maker->profile;
    bool has_callstack = !maker->by_class && life->callstack_id != 0;
    uint32_t layer = groups_number(&maker->layers, (uint64_t)life->layer_id);
    uint32_t stack = maker->by_class ? (uint32_t)groups_class(life->size)
                     : has_callstack ? groups_number(&maker->callstacks, (uint64_t)life->callstack_id)
                                     : groups_number(&maker->tags, (uint64_t)life->tag_id);
    uint32_t number;

    if (layer > INT32_MAX || stack == GROUPS_FULL)
        return NULL;
    number = groups_number(&maker->groups, (uint64_t)layer << 33 | (uint64_t)has_callstack << 32 | stack);
    if (number >= maker->group_capacity && !groups_reach(&profile->groups, &maker->group_capacity, number))
        return NULL;
    if (number == profile->group_count) {
        profile->group_count++;
        profile->groups[number] = (struct profile_group){
            .layer_id = life->layer_id,
            .tag_id = maker->by_class || has_callstack ? 0 : life->tag_id,
            .callstack_id = has_callstack ? life->callstack_id : 0,
            .class = maker->by_class ? groups_class(life->size) + 1 : 0,
        };
    }
    return &profile->groups[number];
}

/* Before a group changes: keep what it had live at the last peak. So a peak costs nothing for the other groups. */
static void
profile_keep_peak(const struct profile_maker *maker, struct profile_group *group)
{
    if (group->peak_number == maker->peak_number)
        return;
    group->values[PROFILE_PEAK] = group->values[PROFILE_LIVE];
    group->peak_number = maker->peak_number;
}

static int
profile_begin(void *context)
{
    struct profile_maker *maker = context;

    groups_end(&maker->groups);
    maker->profile->group_count = 0;
    maker->profile->peak_bytes = 0;
    maker->live_bytes = maker->allocated_bytes = 0;
    maker->peak_number = 0;
    return COMMAND_FINE;
}

static int
profile_alloc(void *context, const struct scan_life *life)
{
    struct profile_maker *maker = context;
    struct profile_group *group;

    if (life->status != 0)
        return COMMAND_FINE;
    group = profile_group(maker, life);
    if (group == NULL)
        return profile_no_memory(maker);
    /* What is live is never more than what was allocated. */
    if (maker->allocated_bytes > (uint64_t)INT64_MAX - life->size)
        return trace_broken(&maker->view->trace, "allocation %" PRId64 ": the sizes add up to more than 2^63 bytes",
                            life->allocation_id);
    maker->allocated_bytes += life->size;
    profile_keep_peak(maker, group);
    group->values[PROFILE_LIVE].bytes += life->size;
    group->values[PROFILE_LIVE].count += scan_live_count(life);
    group->values[PROFILE_ALLOCATED].bytes += life->size;
    group->values[PROFILE_ALLOCATED].count++;
    maker->live_bytes += life->size;
    if (maker->live_bytes > maker->profile->peak_bytes) {
        maker->profile->peak_bytes = maker->live_bytes;
        maker->profile->peak_ns = life->alloc_ns;
        maker->peak_number++;
    }
    return COMMAND_FINE;
}

static int
profile_free_event(void *context, const struct scan_life *life)
{
    struct profile_maker *maker = context;
    struct profile_group *group = profile_group(maker, life);

    if (group == NULL)
        return profile_no_memory(maker);
    profile_keep_peak(maker, group);
    group->values[PROFILE_LIVE].bytes -= life->size;
    group->values[PROFILE_LIVE].count -= scan_live_count(life);
    maker->live_bytes -= life->size;
    return COMMAND_FINE;
}

static int
profile_end(void *context, int64_t last_ns)
{
    struct profile_maker *maker = context;

    maker->profile->end_ns = last_ns;
    for (size_t i = 0; i < maker->profile->group_count; i++)
        profile_keep_peak(maker, &maker->profile->groups[i]);
    return COMMAND_FINE;
}

static const struct scan_unit profile_unit = {
    .needs = SCAN_ORIGIN,
    .begin = profile_begin,
    .alloc = profile_alloc,
    .free = profile_free_event,
    .end = profile_end,
};

static uint64_t
profile_hash(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash * UINT64_C(0x9e3779b97f4a7c15);
}

/* Number a frame. If two frames share a hash, which real names do not, one of them is added again at each use. */
static bool
profile_frame(struct profile_maker *maker, const char *function, const char *file, int64_t line, uint32_t *out)
{
    struct profile *profile = maker->profile;
    uint32_t *known;
    struct profile_frame *frame;
    uint64_t hash;

    if (function[0] == '\0')
        function = "(unnamed)";
    hash = profile_hash(profile_hash((uint64_t)line, function), file);
    known = id_map_find(&maker->frame_hash, hash);
    if (known != NULL) {
        frame = &profile->frames[*known];
        *out = *known;
        if (frame->line == line && strcmp(frame->function, function) == 0 && strcmp(frame->file, file) == 0)
            return true;
    }
    if (profile->frame_count == UINT32_MAX ||
        !tidei_grow(&profile->frames, &maker->frame_capacity, profile->frame_count, 1))
        return false;
    *out = (uint32_t)profile->frame_count;
    frame = &profile->frames[profile->frame_count++];
    *frame = (struct profile_frame){ strdup(function), strdup(file), line };
    if (known == NULL && !id_map_add(&maker->frame_hash, hash, *out))
        return false;
    return frame->function != NULL && frame->file != NULL;
}

/* The name of a tag without the path of its parent. */
static const char *
profile_tag_name(const struct name *tag, const struct name *parent)
{
    size_t length = parent != NULL ? strlen(parent->text) : 0;

    if (parent != NULL && strncmp(tag->text, parent->text, length) == 0 && tag->text[length] == '/')
        return tag->text + length + 1;
    return tag->text;
}

/* Append the frames of a tag, outermost first. */
static bool
profile_tag_frames(struct profile_maker *maker, int64_t tag_id, uint32_t *frames, size_t *count)
{
    const struct name_list *tags = &maker->view->names.tags;
    const struct name *chain[64];
    size_t depth = 0;

    for (const struct name *tag = names_find(tags, tag_id); tag != NULL && depth < 64;
         tag = tag->number != 0 ? names_find(tags, tag->number) : NULL)
        chain[depth++] = tag;
    if (depth == 0)
        return profile_frame(maker, "(none)", "", 0, &frames[(*count)++]);
    for (; depth > 0; depth--) {
        const struct name *parent = chain[depth - 1]->number != 0 ? names_find(tags, chain[depth - 1]->number) : NULL;

        if (!profile_frame(maker, profile_tag_name(chain[depth - 1], parent), "", 0, &frames[(*count)++]))
            return false;
    }
    return true;
}

/*
 * Append the frames of a call stack that count, outermost first, from rows of frame, function, file and line, innermost
 * first.
 */
static int
profile_callstack_frames(struct profile_maker *maker, sqlite3_stmt *rows, int64_t id, uint32_t *frames, size_t *count)
{
    const struct names *names = &maker->view->names;
    bool lines = maker->callstacks.by == GROUPS_CALLSTACK;
    size_t before = *count;
    bool any = false;
    bool done = true;

    sqlite3_bind_int64(rows, 1, id);
    while (done && sqlite3_step(rows) == SQLITE_ROW) {
        const char *function = (const char *)sqlite3_column_text(rows, 1);
        const char *file = (const char *)sqlite3_column_text(rows, 2);

        any = true;
        if ((names->callstack->frames > 0 && *count - before >= names->callstack->frames) ||
            id_map_find(&names->skipped_frames, (uint64_t)sqlite3_column_int64(rows, 0)) != NULL)
            continue;
        done = profile_frame(maker, function != NULL ? function : "", file != NULL ? file : "",
                             lines ? sqlite3_column_int64(rows, 3) : 0, &frames[(*count)++]);
    }
    if (sqlite3_reset(rows) != SQLITE_OK)
        return trace_failed(&maker->view->trace);
    if (done && *count == before)
        done = profile_frame(maker, any ? "(left out)" : "(unknown)", "", 0, &frames[(*count)++]);
    for (size_t first = before, last = *count; first + 1 < last; first++) {
        uint32_t frame = frames[first];

        frames[first] = frames[--last];
        frames[last] = frame;
    }
    return done ? COMMAND_FINE : profile_no_memory(maker);
}

/* Set the frames of a group, outermost first. `rows` is NULL if the trace has no call stacks. */
static int
profile_group_frames(struct profile_maker *maker, sqlite3_stmt *rows, const struct profile_group *group,
                     uint32_t *frames, size_t *count)
{
    char name[GROUPS_NAME];
    bool done = true;

    /* Where there is more than one layer, the layer is the outermost frame. */
    if (maker->layers.count > 1)
        done = profile_frame(maker, names_layer(&maker->view->names, group->layer_id, name, sizeof(name)), "", 0,
                             &frames[(*count)++]);
    if (done && group->callstack_id != 0 && rows != NULL)
        return profile_callstack_frames(maker, rows, group->callstack_id, frames, count);
    if (done && group->class != 0)
        done =
            profile_frame(maker, groups_class_name(group->class - 1, name, sizeof(name)), "", 0, &frames[(*count)++]);
    else if (done)
        done = profile_tag_frames(maker, group->tag_id, frames, count);
    return done ? COMMAND_FINE : profile_no_memory(maker);
}

static int
profile_name_groups(struct profile_maker *maker)
{
    static const char sql[] =
        "SELECT frame_id, coalesce(nullif(function, ''), replace(path, rtrim(path, replace(path, '/', '')), '') ||"
        " printf('+0x%%x', address - base), printf('0x%%x', address)), file, line"
        " FROM (SELECT * FROM callstack WHERE callstack_id = ? ORDER BY position LIMIT %d)"
        " JOIN frame USING (frame_id) LEFT JOIN module USING (module_id) ORDER BY position";
    const struct trace *trace = &maker->view->trace;
    uint32_t frames[PROFILE_DEPTH_MAX + 65];
    sqlite3_stmt *rows = NULL;
    char text[sizeof(sql) + 16];
    int status = COMMAND_FINE;

    snprintf(text, sizeof(text), sql, PROFILE_DEPTH_MAX);
    if (trace_has(trace, "callstack", "callstack_id position frame_id") &&
        trace_has(trace, "frame", "frame_id address module_id function file line") &&
        trace_has(trace, "module", "module_id path base") &&
        sqlite3_prepare_v2(trace->db, text, -1, &rows, NULL) != SQLITE_OK)
        return trace_failed(trace);
    for (size_t i = 0; status == COMMAND_FINE && i < maker->profile->group_count; i++) {
        struct profile_group *group = &maker->profile->groups[i];
        size_t count = 0;

        status = profile_group_frames(maker, rows, group, frames, &count);
        if (status == COMMAND_FINE && (group->frames = malloc(count * sizeof(*frames))) == NULL)
            status = profile_no_memory(maker);
        if (status != COMMAND_FINE)
            break;
        group->frame_count = count;
        memcpy(group->frames, frames, count * sizeof(*frames));
    }
    sqlite3_finalize(rows);
    return status;
}

int
profile_make(struct view *view, enum groups_by by, struct profile *out)
{
    struct profile_maker maker = {
        .view = view,
        .profile = out,
        .by_class = view->names.tags.count == 0 && view->names.callstacks.count == 0,
    };
    struct scan_pass pass = { .unit = &profile_unit, .context = &maker };
    int status;

    *out = (struct profile){ 0 };
    groups_begin(&maker.callstacks, by, &view->names);
    status = view_scan(view, &pass, 1);
    if (status == COMMAND_FINE)
        status = profile_name_groups(&maker);
    groups_end(&maker.layers);
    groups_end(&maker.tags);
    groups_end(&maker.callstacks);
    groups_end(&maker.groups);
    id_map_free(&maker.frame_hash);
    if (status != COMMAND_FINE)
        profile_free(out);
    return status;
}

void
profile_free(struct profile *profile)
{
    for (size_t i = 0; i < profile->group_count; i++)
        free(profile->groups[i].frames);
    for (size_t i = 0; i < profile->frame_count; i++) {
        free(profile->frames[i].function);
        free(profile->frames[i].file);
    }
    free(profile->groups);
    free(profile->frames);
    *profile = (struct profile){ 0 };
}
