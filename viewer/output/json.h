/*
 * Writes compact JSON for all commands and exports.
 *
 *     struct json json = { .out = out };
 *
 *     json_begin(&json, '{');
 *     json_key(&json, "bytes");
 *     json_unsigned(&json, 4096);
 *     json_end(&json, '}');
 *
 * The writer adds the commas. The caller must close arrays and objects in the right order.
 */
#ifndef VIEWER_OUTPUT_JSON_H
#define VIEWER_OUTPUT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "viewer/base/callstack-text.h"
#include "viewer/output/emit.h"

struct json {
    struct emit *out; /* borrows */
    bool comma;       /* the next value of this array or object is not the first */
};

/* Separate a value from the one before it. After a key this writes nothing. */
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

/* Begin a new line for the next element of an array, or for the next object of JSON lines. */
static inline void
json_line(struct json *json)
{
    if (json->comma)
        emit_bytes(json->out, ",", 1);
    emit_bytes(json->out, "\n", 1);
    json->comma = false;
}

/*
 * Write the key of the next value, a literal that needs no escaping. The compiler knows the copied length, with and
 * without the comma; this matters because most of the output is keys.
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

/* The same for any text; it is escaped. */
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

/* Bytes that are not UTF-8 become U+FFFD. */
static inline void
json_text(struct json *json, const char *text)
{
    json_separate(json);
    emit_json(json->out, text, strlen(text));
}

/* Write a call stack from names.h as an array of its frames, the innermost first. */
static inline void
json_stack(struct json *json, const char *text)
{
    json_begin(json, '[');
    while (text != NULL) {
        const char *next;
        size_t length = stack_text_frame(text, &next);

        json_separate(json);
        emit_json(json->out, text, length);
        text = next;
    }
    json_end(json, ']');
}

/* Write `word` unescaped: true, false, null, or a number that the caller has formatted. */
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

/* With all significant digits; null if the value is not finite. */
static inline void
json_real(struct json *json, double value)
{
    json_separate(json);
    emit_real(json->out, value);
}

/* A member of an object: a literal key and its value. */
#define json_put_unsigned(json, name, value) (json_key((json), name), json_unsigned((json), (value)))
#define json_put_signed(json, name, value)   (json_key((json), name), json_signed((json), (value)))
#define json_put_real(json, name, value)     (json_key((json), name), json_real((json), (value)))
#define json_put_text(json, name, value)     (json_key((json), name), json_text((json), (value)))

#endif
