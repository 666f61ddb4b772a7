/*
 * Exports pprof's profile: the protocol buffer of profile.proto (github.com/google/pprof), of which few messages are
 * needed, so that they are written here.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

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

/* The output, and two messages that are built in memory: one for the output, and one nested in it. */
struct pprof {
    struct emit *out;
    struct emit message; /* owns */
    struct emit nested;  /* owns */
};

/* Seven bits to a byte, the lowest first; all but the last have the upper bit. */
static void
pprof_varint(struct emit *out, uint64_t value)
{
    unsigned char bytes[10];
    size_t count = 0;

    for (; value >= 0x80; value >>= 7)
        bytes[count++] = (unsigned char)(value | 0x80);
    bytes[count++] = (unsigned char)value;
    emit_bytes(out, bytes, count);
}

static void
pprof_number(struct emit *out, unsigned field, uint64_t value)
{
    pprof_varint(out, field << 3);
    pprof_varint(out, value);
}

static void
pprof_bytes(struct emit *out, unsigned field, const void *bytes, size_t count)
{
    pprof_varint(out, field << 3 | 2);
    pprof_varint(out, count);
    emit_bytes(out, bytes, count);
}

/* Write a message that is complete, and begin the next one. */
static void
pprof_message(struct emit *out, unsigned field, struct emit *message)
{
    pprof_bytes(out, field, message->buffer, message->used);
    message->used = 0;
}

/* Write a name. It is escaped as in other exports of text: `pprof` prints it to a terminal, and wants UTF-8. */
static void
pprof_name(struct emit *out, const char *name, struct emit *message)
{
    emit_text(message, name, strlen(name));
    pprof_message(out, PPROF_STRING, message);
}

/* Six values for each sample: counts and bytes at the peak, at the end and in all. */
static void
pprof_types(struct pprof *pprof)
{
    for (unsigned i = 0; i < 2 * PROFILE_WEIGHTS; i++) {
        pprof_number(&pprof->message, VALUE_TYPE, PPROF_TYPES + i);
        pprof_number(&pprof->message, VALUE_UNIT, i % 2 == 0 ? PPROF_COUNT : PPROF_BYTES);
        pprof_message(pprof->out, PPROF_SAMPLE_TYPE, &pprof->message);
    }
}

static void
pprof_samples(struct pprof *pprof, const struct profile *profile)
{
    for (size_t i = 0; i < profile->group_count; i++) {
        const struct profile_group *group = &profile->groups[i];

        for (size_t j = group->frame_count; j-- > 0;)
            pprof_varint(&pprof->nested, (uint64_t)group->frames[j] + 1);
        pprof_message(&pprof->message, SAMPLE_LOCATION, &pprof->nested);
        for (int weight = 0; weight < PROFILE_WEIGHTS; weight++) {
            pprof_varint(&pprof->nested, group->values[weight].count);
            pprof_varint(&pprof->nested, group->values[weight].bytes);
        }
        pprof_message(&pprof->message, SAMPLE_VALUE, &pprof->nested);
        pprof_message(pprof->out, PPROF_SAMPLE, &pprof->message);
    }
}

/* A location and a function for each frame, all with its number and 1. */
static void
pprof_frames(struct pprof *pprof, const struct profile *profile)
{
    for (size_t i = 0; i < profile->frame_count; i++) {
        pprof_number(&pprof->nested, LINE_FUNCTION, i + 1);
        pprof_number(&pprof->nested, LINE_NUMBER, (uint64_t)profile->frames[i].line);
        pprof_number(&pprof->message, LOCATION_ID, i + 1);
        pprof_message(&pprof->message, LOCATION_LINE, &pprof->nested);
        pprof_message(pprof->out, PPROF_LOCATION, &pprof->message);
        pprof_number(&pprof->message, FUNCTION_ID, i + 1);
        pprof_number(&pprof->message, FUNCTION_NAME, PPROF_FRAME_STRINGS + 2 * i);
        pprof_number(&pprof->message, FUNCTION_SYSTEM_NAME, PPROF_FRAME_STRINGS + 2 * i);
        pprof_number(&pprof->message, FUNCTION_FILE, PPROF_FRAME_STRINGS + 2 * i + 1);
        pprof_message(pprof->out, PPROF_FUNCTION, &pprof->message);
    }
}

static void
pprof_texts(struct emit *out, const struct profile *profile, struct emit *message)
{
    for (size_t i = 0; i < PPROF_FRAME_STRINGS; i++)
        pprof_bytes(out, PPROF_STRING, pprof_strings[i], strlen(pprof_strings[i]));
    for (size_t i = 0; i < profile->frame_count; i++) {
        pprof_name(out, profile->frames[i].function, message);
        pprof_name(out, profile->frames[i].file, message);
    }
}

/* False where there is no memory for a message. */
static bool
pprof_write(struct emit *out, const struct profile *profile)
{
    struct pprof pprof = { .out = out };
    bool done = emit_open_memory(&pprof.message) == COMMAND_FINE && emit_open_memory(&pprof.nested) == COMMAND_FINE;

    if (done) {
        pprof_types(&pprof);
        pprof_samples(&pprof, profile);
        pprof_frames(&pprof, profile);
        pprof_texts(out, profile, &pprof.message);
        done = !pprof.message.failed && !pprof.nested.failed;
    }
    free(pprof.message.buffer);
    free(pprof.nested.buffer);
    return done;
}

static int
pprof_run(const struct export_job *export)
{
    const struct trace *trace = &export->view->trace;
    struct profile profile;
    int64_t start_unix_ns;
    int status = trace_integer(trace, "SELECT value FROM meta WHERE key = 'start_unix_ns'", &start_unix_ns);

    if (status == COMMAND_FINE)
        status = profile_make(export->view, export_groups(export->options, export->view->options), &profile);
    if (status != COMMAND_FINE)
        return status;
    if (!pprof_write(export->out, &profile))
        status = trace_broken(trace, "no memory for the profile");
    pprof_number(export->out, PPROF_TIME_NANOS, (uint64_t)start_unix_ns);
    pprof_number(export->out, PPROF_DURATION_NANOS, (uint64_t)profile.end_ns);
    pprof_number(export->out, PPROF_DEFAULT_SAMPLE_TYPE, PPROF_PEAK_SPACE);
    profile_free(&profile);
    return status;
}

const struct export_format export_pprof = {
    .name = "pprof",
    .purpose = "the same for `go tool pprof`, with every weight, compressed with gzip",
    .compress = true,
    .groups = true,
    .run = pprof_run,
};
