/*
 * Exports pprof's profile: the protocol buffer of profile.proto (github.com/google/pprof), of which few messages are
 * needed, so that they are written here.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/export/export.h"
#include "viewer/analysis/profile.h"

/* Numbers of fields in profile.proto. */
enum {
    PPROF_SAMPLE_TYPE = 1,
    PPROF_SAMPLE = 2,
    PPROF_LOCATION = 4,
    PPROF_FUNCTION = 5,
    PPROF_STRING = 6,
    PPROF_TIME_NANOS = 9,
    PPROF_DURATION_NANOS = 10,
    PPROF_DEFAULT_SAMPLE_TYPE = 14,

    VALUE_TYPE = 1,
    VALUE_UNIT = 2,

    SAMPLE_LOCATION = 1,
    SAMPLE_VALUE = 2,

    LOCATION_ID = 1,
    LOCATION_LINE = 4,

    LINE_FUNCTION = 1,
    LINE_NUMBER = 2,

    FUNCTION_ID = 1,
    FUNCTION_NAME = 2,
    FUNCTION_SYSTEM_NAME = 3,
    FUNCTION_FILE = 4,
};

/* Texts stand in a table, which a profile begins with "" and then these; those of frames follow, two for each. */
static const char *const pprof_strings[] = {
    "", "bytes", "count", "peak_objects", "peak_space", "inuse_objects", "inuse_space", "alloc_objects", "alloc_space",
};

enum { PPROF_BYTES = 1, PPROF_COUNT = 2, PPROF_TYPES = 3, PPROF_PEAK_SPACE = 4, PPROF_FRAME_STRINGS = 9 };

#define PPROF_VARINT_BYTES 10

/* A message that is being put together. */
struct pprof_message {
    unsigned char *bytes; /* owns */
    size_t count;
    size_t capacity;
    bool failed;
};

static void
pprof_put_byte(struct pprof_message *message, unsigned byte)
{
    if (!tidei_grow(&message->bytes, &message->capacity, message->count, 1)) {
        message->failed = true;
        return;
    }
    message->bytes[message->count++] = (unsigned char)byte;
}

/* Seven bits to a byte, the lowest first; all but the last have the upper bit. At most PPROF_VARINT_BYTES. */
static size_t
pprof_varint(unsigned char *bytes, uint64_t value)
{
    size_t count = 0;

    for (; value >= 0x80; value >>= 7)
        bytes[count++] = (unsigned char)(value | 0x80);
    bytes[count++] = (unsigned char)value;
    return count;
}

static void
pprof_put_varint(struct pprof_message *message, uint64_t value)
{
    unsigned char bytes[PPROF_VARINT_BYTES];
    size_t count = pprof_varint(bytes, value);

    for (size_t i = 0; i < count; i++)
        pprof_put_byte(message, bytes[i]);
}

static void
pprof_emit_varint(struct emit *out, uint64_t value)
{
    unsigned char bytes[PPROF_VARINT_BYTES];

    emit_bytes(out, bytes, pprof_varint(bytes, value));
}

static void
pprof_put_number(struct pprof_message *message, unsigned field, uint64_t value)
{
    pprof_put_varint(message, field << 3);
    pprof_put_varint(message, value);
}

/* A text or a message in a message. */
static void
pprof_put_bytes(struct pprof_message *message, unsigned field, const void *bytes, size_t count)
{
    pprof_put_varint(message, field << 3 | 2);
    pprof_put_varint(message, count);
    for (size_t i = 0; i < count; i++)
        pprof_put_byte(message, ((const unsigned char *)bytes)[i]);
}

/* Write a field of the profile itself. */
static void
pprof_emit(struct emit *out, unsigned field, const void *bytes, size_t count)
{
    pprof_emit_varint(out, field << 3 | 2);
    pprof_emit_varint(out, count);
    emit_bytes(out, bytes, count);
}

static void
pprof_emit_number(struct emit *out, unsigned field, uint64_t value)
{
    pprof_emit_varint(out, field << 3);
    pprof_emit_varint(out, value);
}

/* Six values for each sample: counts and bytes at the peak, at the end and in all. */
static void
pprof_types(struct emit *out)
{
    struct pprof_message type = { 0 };

    for (unsigned i = 0; i < 2 * PROFILE_WEIGHTS; i++) {
        type.count = 0;
        pprof_put_number(&type, VALUE_TYPE, PPROF_TYPES + i);
        pprof_put_number(&type, VALUE_UNIT, i % 2 == 0 ? PPROF_COUNT : PPROF_BYTES);
        pprof_emit(out, PPROF_SAMPLE_TYPE, type.bytes, type.count);
    }
    free(type.bytes);
}

static bool
pprof_samples(struct emit *out, const struct profile *profile)
{
    struct pprof_message sample = { 0 };
    struct pprof_message packed = { 0 };
    bool failed;

    for (size_t i = 0; i < profile->group_count; i++) {
        const struct profile_group *group = &profile->groups[i];

        sample.count = packed.count = 0;
        for (size_t j = group->frame_count; j-- > 0;)
            pprof_put_varint(&packed, (uint64_t)group->frames[j] + 1);
        pprof_put_bytes(&sample, SAMPLE_LOCATION, packed.bytes, packed.count);
        packed.count = 0;
        for (int weight = 0; weight < PROFILE_WEIGHTS; weight++) {
            pprof_put_varint(&packed, group->values[weight].count);
            pprof_put_varint(&packed, group->values[weight].bytes);
        }
        pprof_put_bytes(&sample, SAMPLE_VALUE, packed.bytes, packed.count);
        pprof_emit(out, PPROF_SAMPLE, sample.bytes, sample.count);
    }
    failed = sample.failed || packed.failed;
    free(sample.bytes);
    free(packed.bytes);
    return !failed;
}

/* A location and a function for each frame, all with its number and 1. */
static bool
pprof_frames(struct emit *out, const struct profile *profile)
{
    struct pprof_message message = { 0 };
    struct pprof_message line = { 0 };
    bool failed;

    for (size_t i = 0; i < profile->frame_count; i++) {
        line.count = message.count = 0;
        pprof_put_number(&line, LINE_FUNCTION, i + 1);
        pprof_put_number(&line, LINE_NUMBER, (uint64_t)profile->frames[i].line);
        pprof_put_number(&message, LOCATION_ID, i + 1);
        pprof_put_bytes(&message, LOCATION_LINE, line.bytes, line.count);
        pprof_emit(out, PPROF_LOCATION, message.bytes, message.count);
        message.count = 0;
        pprof_put_number(&message, FUNCTION_ID, i + 1);
        pprof_put_number(&message, FUNCTION_NAME, PPROF_FRAME_STRINGS + 2 * i);
        pprof_put_number(&message, FUNCTION_SYSTEM_NAME, PPROF_FRAME_STRINGS + 2 * i);
        pprof_put_number(&message, FUNCTION_FILE, PPROF_FRAME_STRINGS + 2 * i + 1);
        pprof_emit(out, PPROF_FUNCTION, message.bytes, message.count);
    }
    failed = message.failed || line.failed;
    free(message.bytes);
    free(line.bytes);
    return !failed;
}

static void
pprof_texts(struct emit *out, const struct profile *profile)
{
    for (size_t i = 0; i < PPROF_FRAME_STRINGS; i++)
        pprof_emit(out, PPROF_STRING, pprof_strings[i], strlen(pprof_strings[i]));
    for (size_t i = 0; i < profile->frame_count; i++) {
        pprof_emit(out, PPROF_STRING, profile->frames[i].function, strlen(profile->frames[i].function));
        pprof_emit(out, PPROF_STRING, profile->frames[i].file, strlen(profile->frames[i].file));
    }
}

static int
pprof_run(const struct export_job *export)
{
    const struct trace *trace = &export->view->trace;
    struct profile profile;
    int64_t start_unix_ns;
    int status = trace_integer(trace, "SELECT value FROM meta WHERE key = 'start_unix_ns'", &start_unix_ns);

    if (status == COMMAND_FINE)
        status = profile_make(export->view, &profile);
    if (status != COMMAND_FINE)
        return status;
    pprof_types(export->out);
    if (!pprof_samples(export->out, &profile) || !pprof_frames(export->out, &profile))
        status = trace_broken(trace, "no memory for the profile");
    pprof_texts(export->out, &profile);
    pprof_emit_number(export->out, PPROF_TIME_NANOS, (uint64_t)start_unix_ns);
    pprof_emit_number(export->out, PPROF_DURATION_NANOS, (uint64_t)profile.end_ns);
    pprof_emit_number(export->out, PPROF_DEFAULT_SAMPLE_TYPE, PPROF_PEAK_SPACE);
    profile_free(&profile);
    return status;
}

const struct export_format export_pprof = {
    .name = "pprof",
    .purpose = "the same for `go tool pprof`, with every weight, compressed with gzip",
    .compress = true,
    .run = pprof_run,
};
