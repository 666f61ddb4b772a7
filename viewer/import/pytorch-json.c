/* Reads torch.cuda.memory._snapshot(), as JSON or as a pickle. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/message.h"
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

/* The numbers that an object of the snapshot may have. */
enum reader_number {
    NUMBER_ADDRESS,
    NUMBER_SIZE,
    NUMBER_TOTAL_SIZE, /* of a segment */
    NUMBER_REQUESTED,
    NUMBER_STREAM,
    NUMBER_TIME,
    NUMBER_DEVICE,
    NUMBER_DEVICE_FREE,
    NUMBERS
};

static const struct {
    const char *key;
    enum reader_number number;
} reader_keys[] = {
    { "addr", NUMBER_ADDRESS },          { "address", NUMBER_ADDRESS },         { "size", NUMBER_SIZE },
    { "total_size", NUMBER_TOTAL_SIZE }, { "stream", NUMBER_STREAM },           { "requested_size", NUMBER_REQUESTED },
    { "time_us", NUMBER_TIME },          { "device_free", NUMBER_DEVICE_FREE }, { "device", NUMBER_DEVICE },
};

/* What an object says. A number that it does not say is 0 and not in `has`. */
struct reader_fields {
    bool has[NUMBERS];
    bool has_word;
    int64_t numbers[NUMBERS];
    char word[32]; /* the action of an event, or the state of a block */
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

/* One value of an object, behind its key. The blocks of a segment are left for later. */
static bool
reader_value(struct pytorch_reader *reader, const char *key, struct reader_fields *fields)
{
    struct json_pull *json = &reader->json;
    enum json_token token = json_pull_next(json);

    for (size_t i = 0; token == JSON_INTEGER && i < sizeof(reader_keys) / sizeof(reader_keys[0]); i++) {
        if (strcmp(key, reader_keys[i].key) == 0) {
            fields->numbers[reader_keys[i].number] = json->integer;
            fields->has[reader_keys[i].number] = true;
        }
    }
    if (token == JSON_TEXT && (strcmp(key, "action") == 0 || strcmp(key, "state") == 0)) {
        snprintf(fields->word, sizeof(fields->word), "%s", json->text);
        fields->has_word = true;
    }
    if (token == JSON_ARRAY && strcmp(key, "frames") == 0)
        return reader_frames(reader);
    if (token == JSON_ARRAY && strcmp(key, "blocks") == 0 && reader->state == READER_SEGMENTS) {
        reader->state = READER_BLOCKS;
        return true;
    }
    return json_pull_skip(json, token);
}

/* An object from behind its brace; that of a segment up to its blocks, which come last. */
static bool
reader_object(struct pytorch_reader *reader, struct reader_fields *fields)
{
    int state = reader->state;
    char key[32];
    enum json_token token;

    *fields = (struct reader_fields){ 0 };
    reader->frame_count = 0;
    while (reader->state == state && (token = json_pull_next(&reader->json)) == JSON_KEY) {
        snprintf(key, sizeof(key), "%s", reader->json.text);
        if (!reader_value(reader, key, fields))
            return false;
    }
    return reader->state != state || token == JSON_OBJECT_END;
}

/* The object of an event or a block. */
static bool
reader_item(struct pytorch_reader *reader, struct reader_fields *fields, struct pytorch_item *item)
{
    const int64_t *numbers = fields->numbers;

    if (!reader_object(reader, fields))
        return false;
    item->address = (uint64_t)numbers[NUMBER_ADDRESS];
    item->size = (uint64_t)numbers[fields->has[NUMBER_REQUESTED] ? NUMBER_REQUESTED : NUMBER_SIZE];
    item->stream = (uint64_t)numbers[NUMBER_STREAM];
    item->device = reader->device;
    item->has_time = fields->has[NUMBER_TIME] && numbers[NUMBER_TIME] >= 0;
    item->time_us = numbers[NUMBER_TIME];
    item->device_free = (uint64_t)numbers[NUMBER_DEVICE_FREE];
    item->frames = reader->frame_texts;
    item->frame_count = reader->frame_count;
    return true;
}

static enum pytorch_item_kind
reader_event(struct pytorch_reader *reader, struct pytorch_item *item)
{
    struct reader_fields fields;

    if (!reader_item(reader, &fields, item))
        return PYTORCH_FAILED;
    item->action = fields.has_word ? PYTORCH_OTHER : PYTORCH_BROKEN;
    for (size_t i = 0; i < sizeof(reader_actions) / sizeof(reader_actions[0]); i++) {
        if (strcmp(fields.word, reader_actions[i].name) == 0)
            item->action = reader_actions[i].action;
    }
    if (item->action <= PYTORCH_SEGMENT_FREE &&
        (!fields.has[NUMBER_ADDRESS] || !fields.has[NUMBER_SIZE] || fields.numbers[NUMBER_SIZE] < 0))
        item->action = PYTORCH_BROKEN;
    return PYTORCH_EVENT;
}

static enum pytorch_item_kind
reader_block(struct pytorch_reader *reader, struct pytorch_item *item)
{
    struct reader_fields fields;

    if (!reader_item(reader, &fields, item))
        return PYTORCH_FAILED;
    if (!fields.has[NUMBER_ADDRESS])
        item->address = reader->next_block;
    if (!fields.has[NUMBER_STREAM])
        item->stream = reader->stream;
    item->active = strcmp(fields.word, "active_allocated") == 0;
    reader->next_block = item->address;
    if (fields.numbers[NUMBER_SIZE] > 0)
        reader->next_block += (uint64_t)fields.numbers[NUMBER_SIZE];
    return PYTORCH_BLOCK;
}

static enum pytorch_item_kind
reader_segment(struct pytorch_reader *reader, struct pytorch_item *item)
{
    struct reader_fields fields;

    if (!reader_object(reader, &fields))
        return PYTORCH_FAILED;
    reader->device = fields.numbers[NUMBER_DEVICE];
    reader->stream = (uint64_t)fields.numbers[NUMBER_STREAM];
    reader->next_block = (uint64_t)fields.numbers[NUMBER_ADDRESS];
    item->address = reader->next_block;
    item->size = (uint64_t)fields.numbers[NUMBER_TOTAL_SIZE];
    item->stream = reader->stream;
    item->device = reader->device;
    return PYTORCH_SEGMENT;
}

/* A key of the whole snapshot, and its value. */
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

/* Go on by one token. With *more there is no item yet, and the kind has no meaning. */
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
pytorch_open(struct pytorch_reader *reader, const char *path, const struct pickle *pickle, int64_t only_device)
{
    int status = COMMAND_FINE;

    *reader = (struct pytorch_reader){ .only_device = only_device };
    if (pickle != NULL)
        json_pull_open_pickle(&reader->json, path, pickle);
    else
        status = json_pull_open(&reader->json, path);
    if (status != COMMAND_FINE)
        return status;
    reader->frames = malloc(PYTORCH_FRAMES_MAX * sizeof(*reader->frames));
    if (reader->frames != NULL)
        return COMMAND_FINE;
    message("%s: no memory", path);
    return COMMAND_WRONG;
}

void
pytorch_close(struct pytorch_reader *reader)
{
    json_pull_close(&reader->json);
    free(reader->frames);
    reader->frames = NULL;
}
