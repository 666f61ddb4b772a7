/* Reads the JSON of torch.cuda.memory._snapshot(). */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/import/pytorch-json.h"

enum {
    READER_BEGIN,
    READER_TOP,
    READER_SEGMENTS,
    READER_BLOCKS,
    READER_SEGMENT_REST,
    READER_TRACES,
    READER_TRACE,
};

/* What an object of the snapshot may say; what it does not is 0 and not `has`. */
struct reader_fields {
    bool has_address;
    bool has_size;
    bool has_requested;
    bool has_stream;
    bool has_time;
    bool has_action;
    int64_t address;
    int64_t size;
    int64_t requested;
    int64_t stream;
    int64_t time_us;
    int64_t device_free;
    char action[32]; /* or the state of a block */
};

static const struct {
    const char *name;
    enum pytorch_action action;
} reader_actions[] = {
    { "alloc", PYTORCH_ALLOC },
    { "free_requested", PYTORCH_FREE_REQUESTED },
    { "free_completed", PYTORCH_FREE_COMPLETED },
    { "free", PYTORCH_FREE_REQUESTED }, /* of early versions */
    { "segment_alloc", PYTORCH_SEGMENT_ALLOC },
    { "segment_map", PYTORCH_SEGMENT_ALLOC },
    { "segment_free", PYTORCH_SEGMENT_FREE },
    { "segment_unmap", PYTORCH_SEGMENT_FREE },
    { "oom", PYTORCH_OOM },
    { "snapshot", PYTORCH_SNAPSHOT },
};

/* Where a number goes that the key names; NULL: nowhere. */
static int64_t *
reader_number(struct reader_fields *fields, const char *key, bool **has)
{
    static bool ignored;

    *has = &ignored;
    if (strcmp(key, "addr") == 0 || strcmp(key, "address") == 0)
        return *has = &fields->has_address, &fields->address;
    if (strcmp(key, "size") == 0)
        return *has = &fields->has_size, &fields->size;
    if (strcmp(key, "requested_size") == 0)
        return *has = &fields->has_requested, &fields->requested;
    if (strcmp(key, "stream") == 0)
        return *has = &fields->has_stream, &fields->stream;
    if (strcmp(key, "time_us") == 0)
        return *has = &fields->has_time, &fields->time_us;
    return strcmp(key, "device_free") == 0 ? &fields->device_free : NULL;
}

/* One frame, from behind its brace: "function (file:line)", of a file that is long only the end. */
static bool
reader_frame(struct pytorch_reader *reader)
{
    struct json_pull *json = &reader->json;
    char name[PYTORCH_FRAME_BYTES] = "?";
    char file[PYTORCH_FRAME_BYTES] = "";
    int64_t line = 0;
    enum json_token token;

    while ((token = json_pull_next(json)) == JSON_KEY) {
        bool is_name = strcmp(json->text, "name") == 0;
        bool is_file = strcmp(json->text, "filename") == 0;
        bool is_line = strcmp(json->text, "line") == 0;

        token = json_pull_next(json);
        if (token == JSON_TEXT && is_name)
            snprintf(name, sizeof(name), "%s", json->text);
        else if (token == JSON_TEXT && is_file)
            snprintf(file, sizeof(file), "%s", json->text + (json->text_length > 160 ? json->text_length - 160 : 0));
        else if (token == JSON_INTEGER && is_line)
            line = json->integer;
        else if (!json_pull_skip(json, token))
            return false;
    }
    if (reader->frame_count < PYTORCH_FRAMES_MAX) {
        char *text = reader->frames[reader->frame_count];

        if (file[0] != '\0' && line > 0)
            snprintf(text, PYTORCH_FRAME_BYTES, "%.60s (%.160s:%" PRId64 ")", name, file, line);
        else
            snprintf(text, PYTORCH_FRAME_BYTES, "%s", name);
        reader->frame_texts[reader->frame_count++] = text;
    }
    return token == JSON_OBJECT_END;
}

/* An array of frames, from behind its bracket. */
static bool
reader_frames(struct pytorch_reader *reader)
{
    enum json_token token;

    reader->frame_count = 0;
    while ((token = json_pull_next(&reader->json)) != JSON_ARRAY_END) {
        if (token == JSON_OBJECT ? !reader_frame(reader) : !json_pull_skip(&reader->json, token))
            return false;
    }
    return true;
}

/* One value of an object, behind its key. */
static bool
reader_value(struct pytorch_reader *reader, const char *key, struct reader_fields *fields)
{
    struct json_pull *json = &reader->json;
    bool is_word = strcmp(key, "action") == 0 || strcmp(key, "state") == 0;
    bool is_frames = strcmp(key, "frames") == 0;
    bool *has;
    int64_t *number = reader_number(fields, key, &has);
    enum json_token token = json_pull_next(json);

    if (token == JSON_INTEGER && number != NULL) {
        *number = json->integer;
        *has = true;
        return true;
    }
    if (token == JSON_TEXT && is_word) {
        snprintf(fields->action, sizeof(fields->action), "%s", json->text);
        fields->has_action = true;
        return true;
    }
    if (token == JSON_ARRAY && is_frames)
        return reader_frames(reader);
    return json_pull_skip(json, token);
}

/* An object of numbers, words and frames, from behind its brace. */
static bool
reader_object(struct pytorch_reader *reader, struct reader_fields *fields)
{
    char key[32];
    enum json_token token;

    *fields = (struct reader_fields){ 0 };
    reader->frame_count = 0;
    while ((token = json_pull_next(&reader->json)) == JSON_KEY) {
        snprintf(key, sizeof(key), "%s", reader->json.text);
        if (!reader_value(reader, key, fields))
            return false;
    }
    return token == JSON_OBJECT_END;
}

static void
reader_fill(const struct pytorch_reader *reader, const struct reader_fields *fields, struct pytorch_item *item)
{
    item->address = (uint64_t)fields->address;
    item->size = (uint64_t)(fields->has_requested ? fields->requested : fields->size);
    item->stream = (uint64_t)fields->stream;
    item->device = reader->device;
    item->has_time = fields->has_time && fields->time_us >= 0;
    item->time_us = fields->time_us;
    item->device_free = (uint64_t)fields->device_free;
    item->frames = reader->frame_texts;
    item->frame_count = reader->frame_count;
}

static enum pytorch_item_kind
reader_event(struct pytorch_reader *reader, struct pytorch_item *item)
{
    struct reader_fields fields;

    if (!reader_object(reader, &fields))
        return PYTORCH_FAILED;
    reader_fill(reader, &fields, item);
    item->action = fields.has_action ? PYTORCH_OTHER : PYTORCH_BROKEN;
    for (size_t i = 0; i < sizeof(reader_actions) / sizeof(reader_actions[0]); i++) {
        if (strcmp(fields.action, reader_actions[i].name) == 0)
            item->action = reader_actions[i].action;
    }
    if (item->action <= PYTORCH_SEGMENT_FREE && (!fields.has_address || !fields.has_size || fields.size < 0))
        item->action = PYTORCH_BROKEN;
    return PYTORCH_EVENT;
}

static enum pytorch_item_kind
reader_block(struct pytorch_reader *reader, struct pytorch_item *item)
{
    struct reader_fields fields;

    if (!reader_object(reader, &fields))
        return PYTORCH_FAILED;
    reader_fill(reader, &fields, item);
    if (!fields.has_address)
        item->address = reader->next_block;
    if (!fields.has_stream)
        item->stream = reader->stream;
    item->active = strcmp(fields.action, "active_allocated") == 0;
    reader->next_block = item->address + (fields.size > 0 ? (uint64_t)fields.size : 0);
    return PYTORCH_BLOCK;
}

/* A segment up to its blocks, which come last. */
static enum pytorch_item_kind
reader_segment(struct pytorch_reader *reader, struct pytorch_item *item)
{
    struct json_pull *json = &reader->json;
    enum json_token token;

    *item = (struct pytorch_item){ .frames = reader->frame_texts };
    reader->device = 0;
    reader->state = READER_SEGMENTS;
    while ((token = json_pull_next(json)) == JSON_KEY) {
        char key[32];

        snprintf(key, sizeof(key), "%s", json->text);
        token = json_pull_next(json);
        if (token == JSON_ARRAY && strcmp(key, "blocks") == 0) {
            reader->state = READER_BLOCKS;
            break;
        }
        if (token == JSON_INTEGER && strcmp(key, "address") == 0)
            item->address = (uint64_t)json->integer;
        else if (token == JSON_INTEGER && strcmp(key, "total_size") == 0)
            item->size = (uint64_t)json->integer;
        else if (token == JSON_INTEGER && strcmp(key, "stream") == 0)
            item->stream = (uint64_t)json->integer;
        else if (token == JSON_INTEGER && strcmp(key, "device") == 0)
            reader->device = json->integer;
        else if (!json_pull_skip(json, token))
            return PYTORCH_FAILED;
    }
    item->device = reader->device;
    reader->next_block = item->address;
    reader->stream = item->stream;
    return token == JSON_FAILED ? PYTORCH_FAILED : PYTORCH_SEGMENT;
}

/* A key of the whole snapshot and what it has. */
static bool
reader_top(struct pytorch_reader *reader)
{
    bool segments = strcmp(reader->json.text, "segments") == 0 && reader->only_device < 0;
    bool traces = strcmp(reader->json.text, "device_traces") == 0;
    enum json_token token = json_pull_next(&reader->json);

    if (token == JSON_ARRAY && (segments || traces)) {
        reader->state = segments ? READER_SEGMENTS : READER_TRACES;
        reader->device = -1;
        return true;
    }
    return json_pull_skip(&reader->json, token);
}

/* A device's history: read, or skipped. */
static bool
reader_trace(struct pytorch_reader *reader)
{
    reader->device++;
    if (reader->only_device >= 0 && reader->device != reader->only_device)
        return json_pull_skip(&reader->json, JSON_ARRAY);
    reader->state = READER_TRACE;
    return true;
}

/* Go on by one token. PYTORCH_OTHER in the kind's place does not exist: `more` says that there is no item yet. */
static enum pytorch_item_kind
reader_step(struct pytorch_reader *reader, struct pytorch_item *item, bool *more)
{
    enum json_token token = json_pull_next(&reader->json);

    *more = false;
    if (token == JSON_END)
        return PYTORCH_END;
    if (token == JSON_OBJECT && reader->state == READER_TRACE)
        return reader_event(reader, item);
    if (token == JSON_OBJECT && reader->state == READER_BLOCKS)
        return reader_block(reader, item);
    if (token == JSON_OBJECT && reader->state == READER_SEGMENTS)
        return reader_segment(reader, item);
    *more = true;
    if (reader->state == READER_BEGIN && (token == JSON_OBJECT || token == JSON_ARRAY)) {
        /* torch.cuda.memory_snapshot() is the segments alone. */
        reader->state = token == JSON_OBJECT ? READER_TOP : READER_SEGMENTS;
        *more = token == JSON_OBJECT || reader->only_device < 0 || json_pull_skip(&reader->json, token);
    } else if (reader->state == READER_TOP && token == JSON_KEY) {
        *more = reader_top(reader);
    } else if (reader->state == READER_TRACES && token == JSON_ARRAY) {
        *more = reader_trace(reader);
    } else if (token == JSON_ARRAY_END) {
        reader->state = reader->state == READER_TRACE    ? READER_TRACES
                        : reader->state == READER_BLOCKS ? READER_SEGMENT_REST
                                                         : READER_TOP;
    } else if (token == JSON_OBJECT_END) {
        reader->state = reader->state == READER_SEGMENT_REST ? READER_SEGMENTS : READER_TOP;
    } else if (token != JSON_KEY) {
        *more = json_pull_skip(&reader->json, token);
    }
    return PYTORCH_FAILED;
}

void
pytorch_next(struct pytorch_reader *reader, struct pytorch_item *item)
{
    enum pytorch_item_kind kind;
    bool more;

    *item = (struct pytorch_item){ .frames = reader->frame_texts };
    do
        kind = reader_step(reader, item, &more);
    while (more);
    item->kind = kind;
}

int
pytorch_open(struct pytorch_reader *reader, const char *path, int64_t only_device)
{
    int status;

    *reader = (struct pytorch_reader){ .only_device = only_device };
    status = json_pull_open(&reader->json, path);
    if (status != COMMAND_FINE)
        return status;
    reader->frames = malloc(PYTORCH_FRAMES_MAX * sizeof(*reader->frames));
    if (reader->frames != NULL)
        return COMMAND_FINE;
    fprintf(stderr, "%s: no memory\n", path);
    return COMMAND_WRONG;
}

void
pytorch_close(struct pytorch_reader *reader)
{
    json_pull_close(&reader->json);
    free(reader->frames);
    reader->frames = NULL;
}
