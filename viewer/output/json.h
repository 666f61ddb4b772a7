/*
 * Writes JSON, compact: the one writer of all commands and exports.
 *
 *     struct json json = { .out = out };
 *
 *     json_begin(&json, '{');
 *     json_key(&json, "bytes");
 *     json_unsigned(&json, 4096);
 *     json_end(&json, '}');
 *
 * Commas come by themselves. That arrays and objects are closed in the right order is up to the caller.
 */
#ifndef VIEWER_OUTPUT_JSON_H
#define VIEWER_OUTPUT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "viewer/output/emit.h"

struct json {
    struct emit *out; /* borrows */
    bool comma;       /* a value came before the next one, in the same array or object */
};

/* What comes in front of a value that has no key: it stands in an array. */
static inline void
json_separate(struct json *json)
{
    if (json->comma)
        emit_bytes(json->out, ",", 1);
    json->comma = true;
}

/* Begin an object with '{' or an array with '['; end it with '}' or ']'. */
static inline void
json_begin(struct json *json, char bracket)
{
    json_separate(json);
    emit_bytes(json->out, &bracket, 1);
    json->comma = false;
}

static inline void
json_end(struct json *json, char bracket)
{
    emit_bytes(json->out, &bracket, 1);
    json->comma = true;
}

/* A line of its own for the next element of an array; each line of JSON lines is written as one. */
static inline void
json_line(struct json *json)
{
    if (json->comma)
        emit_bytes(json->out, ",", 1);
    emit_bytes(json->out, "\n", 1);
    json->comma = false;
}

/*
 * The name of the value that follows: a literal that needs no escaping. What is copied, with a comma or without, is of
 * a length that the compiler knows: keys are most of what JSON consists of.
 */
#define json_key(json, name) json_put_key((json), ",\"" name "\":", sizeof(name) + 3)

static inline __attribute__((always_inline)) void
json_put_key(struct json *json, const char *text, size_t length)
{
    if (json->comma)
        emit_bytes(json->out, text, length);
    else
        emit_bytes(json->out, text + 1, length - 1);
    json->comma = false;
}

/* The same of a name that is no literal and may be anything. */
static inline void
json_key_text(struct json *json, const char *name)
{
    json_separate(json);
    emit_json(json->out, name, strlen(name));
    emit_bytes(json->out, ":", 1);
    json->comma = false;
}

static inline void
json_unsigned(struct json *json, uint64_t value)
{
    json_separate(json);
    emit_unsigned(json->out, value);
}

static inline void
json_signed(struct json *json, int64_t value)
{
    json_separate(json);
    emit_signed(json->out, value);
}

/* What is no UTF-8 becomes U+FFFD. */
static inline void
json_text(struct json *json, const char *text)
{
    json_separate(json);
    emit_json(json->out, text, strlen(text));
}

/* A word as it stands: true, false, null, or a number in digits of the caller's. */
static inline void
json_word(struct json *json, const char *word)
{
    json_separate(json);
    emit_string(json->out, word);
}

static inline void
json_flag(struct json *json, bool value)
{
    json_word(json, value ? "true" : "false");
}

/* In all its digits; null where it is not finite. */
static inline void
json_real(struct json *json, double value)
{
    json_separate(json);
    emit_real(json->out, value);
}

/* A member of an object: a literal and its value. */
#define json_put_unsigned(json, name, value) (json_key((json), name), json_unsigned((json), (value)))
#define json_put_signed(json, name, value)   (json_key((json), name), json_signed((json), (value)))
#define json_put_real(json, name, value)     (json_key((json), name), json_real((json), (value)))
#define json_put_text(json, name, value)     (json_key((json), name), json_text((json), (value)))

#endif
