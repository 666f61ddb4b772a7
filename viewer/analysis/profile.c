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
#include "viewer/read/tag-levels.h"

/* Deeper stacks lose their outer frames. */
#define PROFILE_DEPTH_MAX 1024

struct profile_maker {
    struct view *view;
    struct profile *profile;
    enum groups_by by;
    bool by_class; /* the trace has neither tags nor call stacks, or no tags where they alone count */
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
    bool has_callstack = !maker->by_class && maker->by != GROUPS_TAG && life->callstack_id != 0;
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

/* Append a frame for each level of a tag, outermost first. */
static bool
profile_tag_frames(struct profile_maker *maker, int64_t tag_id, uint32_t *frames, size_t *count)
{
    const struct names *names = &maker->view->names;
    struct tag_levels levels;
    bool done = true;

    tag_levels_of(&names->tags, tag_id, &levels);
    if (levels.count == 0)
        return profile_frame(maker, names_find(&names->tags, tag_id) == NULL ? "(none)" : "(unnamed)", "", 0,
                             &frames[(*count)++]);
    if (names->depth > 0 && levels.count > names->depth)
        levels.count = (size_t)names->depth;
    for (size_t i = 0; i < levels.count && done; i++) {
        char *level = tag_levels_join(&levels, i, 1);

        done = level != NULL && profile_frame(maker, level, "", 0, &frames[(*count)++]);
        free(level);
    }
    return done;
}

/* Append a frame of a call stack; of one by files, unless it is in the same file as the one before. */
static bool
profile_callstack_frame(struct profile_maker *maker, sqlite3_stmt *row, uint32_t *frames, size_t first, size_t *count)
{
    const char *function = (const char *)sqlite3_column_text(row, 1);
    const char *file = (const char *)sqlite3_column_text(row, 2);
    const char *module = (const char *)sqlite3_column_text(row, 4);
    int64_t line = maker->by == GROUPS_CALLSTACK ? sqlite3_column_int64(row, 3) : 0;

    if (maker->by == GROUPS_FILE) {
        function = file != NULL && file[0] != '\0' ? file : module != NULL ? module : "(unknown)";
        file = NULL;
    }
    if (!profile_frame(maker, function != NULL ? function : "", file != NULL ? file : "", line, &frames[*count]))
        return false;
    *count += maker->by != GROUPS_FILE || *count == first || frames[*count] != frames[*count - 1];
    return true;
}

/*
 * Append the frames of a call stack that count, outermost first, from rows of frame, function, file, line and module,
 * innermost first.
 */
static int
profile_callstack_frames(struct profile_maker *maker, sqlite3_stmt *rows, int64_t id, uint32_t *frames, size_t *count)
{
    const struct names *names = &maker->view->names;
    size_t counted = 0;
    size_t before = *count;
    bool any = false;
    bool done = true;

    sqlite3_bind_int64(rows, 1, id);
    while (done && sqlite3_step(rows) == SQLITE_ROW) {
        any = true;
        if ((names->callstack->frames > 0 && counted >= names->callstack->frames) ||
            id_map_find(&names->skipped_frames, (uint64_t)sqlite3_column_int64(rows, 0)) != NULL)
            continue;
        counted++;
        done = profile_callstack_frame(maker, rows, frames, before, count);
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
        " printf('+0x%%x', address - base), printf('0x%%x', address)), file, line,"
        " replace(path, rtrim(path, replace(path, '/', '')), '')"
        " FROM (SELECT * FROM callstack WHERE callstack_id = ? ORDER BY position LIMIT %d)"
        " JOIN frame USING (frame_id) LEFT JOIN module USING (module_id) ORDER BY position";
    const struct trace *trace = &maker->view->trace;
    uint32_t frames[PROFILE_DEPTH_MAX + TAG_LEVELS_MAX + 2];
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

static bool
profile_reads_same(const struct profile_group *a, const struct profile_group *b)
{
    return a->frame_count == b->frame_count && memcmp(a->frames, b->frames, a->frame_count * sizeof(*a->frames)) == 0;
}

/* Make one of the groups that have the same frames. If two others share a hash, one of them may stay apart. */
static int
profile_merge(struct profile_maker *maker)
{
    struct profile *profile = maker->profile;
    struct id_map by_hash = { 0 };
    size_t kept = 0;
    bool done = true;

    for (size_t i = 0; i < profile->group_count; i++) {
        struct profile_group *group = &profile->groups[i];
        uint64_t hash = 0;
        const uint32_t *known;

        for (size_t j = 0; j < group->frame_count; j++)
            hash = (hash ^ (group->frames[j] + UINT64_C(1))) * UINT64_C(0x9e3779b97f4a7c15);
        known = id_map_find(&by_hash, hash);
        if (known != NULL && profile_reads_same(&profile->groups[*known], group)) {
            for (size_t weight = 0; weight < PROFILE_WEIGHTS; weight++) {
                profile->groups[*known].values[weight].bytes += group->values[weight].bytes;
                profile->groups[*known].values[weight].count += group->values[weight].count;
            }
            free(group->frames);
            continue;
        }
        done = done && (known != NULL || id_map_add(&by_hash, hash, (uint32_t)kept));
        profile->groups[kept++] = *group;
    }
    profile->group_count = kept;
    id_map_free(&by_hash);
    return done ? COMMAND_FINE : profile_no_memory(maker);
}

int
profile_make(struct view *view, enum groups_by by, struct profile *out)
{
    struct profile_maker maker = {
        .view = view,
        .profile = out,
        .by = by,
        .by_class = view->names.tags.count == 0 && (by == GROUPS_TAG || view->names.callstacks.count == 0),
    };
    struct scan_pass pass = { .unit = &profile_unit, .context = &maker };
    int status;

    *out = (struct profile){ 0 };
    groups_begin(&maker.layers, GROUPS_LAYER, &view->names);
    groups_begin(&maker.groups, GROUPS_LAYER, &view->names);
    groups_begin(&maker.tags, GROUPS_TAG, &view->names);
    /* Call stacks of the same functions are of the same files; what is one file then, profile_merge makes one. */
    groups_begin(&maker.callstacks, by == GROUPS_CALLSTACK ? by : GROUPS_FUNCTION, &view->names);
    status = view_scan(view, &pass, 1);
    if (status == COMMAND_FINE)
        status = profile_name_groups(&maker);
    if (status == COMMAND_FINE && by == GROUPS_FILE)
        status = profile_merge(&maker);
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
