/* A pull parser for JSON, plain or gzip. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/tables/grow.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/json-pull.h"

#define PULL_BUFFER_BYTES (64 * 1024)

/* Longer texts are refused; no name of a function or file is as long. */
#define PULL_TEXT_MAX (1 << 20)

/* The most tokens that a pickle stands for. A stack of 512 frames that an event refers to has 7 tokens a frame. */
#define PULL_TOKENS_A_BYTE 1000
#define PULL_TOKENS_FREE   UINT64_C(1000000)

static enum json_token
pull_failed(struct json_pull *pull, const char *why)
{
    if (pull->pickle != NULL)
        snprintf(pull->message, sizeof(pull->message), "%s: %s", pull->path, why);
    else
        snprintf(pull->message, sizeof(pull->message), "%s:%" PRIu64 ": %s", pull->path, pull->line, why);
    return JSON_FAILED;
}

/* The next byte, without consuming it; -1 at the end. */
static int
pull_peek(struct json_pull *pull)
{
    int count;

    if (pull->begin < pull->end)
        return pull->buffer[pull->begin];
    if (pull->at_end)
        return -1;
    count = gzread(pull->file, pull->buffer, PULL_BUFFER_BYTES);
    pull->begin = 0;
    pull->end = count > 0 ? (size_t)count : 0;
    pull->at_end = count <= 0;
    return count > 0 ? pull->buffer[0] : -1;
}

static int
pull_take(struct json_pull *pull)
{
    int byte = pull_peek(pull);

    if (byte >= 0)
        pull->begin++;
    pull->line += byte == '\n';
    return byte;
}

/* The next byte that is not white space, without consuming it. */
static int
pull_peek_token(struct json_pull *pull)
{
    int byte;

    while ((byte = pull_peek(pull)) == ' ' || byte == '\t' || byte == '\r' || byte == '\n')
        pull_take(pull);
    return byte;
}

static enum json_token
pull_unexpected(struct json_pull *pull)
{
    int byte = pull_peek(pull);
    int code = Z_OK;
    char why[64];

    if (byte < 0) {
        gzerror(pull->file, &code);
        return pull_failed(pull, code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR
                                     ? "the JSON ends in the middle"
                                     : "the compressed data is damaged");
    }
    if (byte > ' ' && byte < 127)
        snprintf(why, sizeof(why), "no JSON: unexpected '%c'", byte);
    else
        snprintf(why, sizeof(why), "no JSON: unexpected byte 0x%02x", (unsigned)byte);
    return pull_failed(pull, why);
}

static bool
pull_put(struct json_pull *pull, int byte)
{
    if (pull->text_length + 1 >= PULL_TEXT_MAX || !tidei_grow(&pull->text, &pull->text_capacity, pull->text_length, 2))
        return false;
    pull->text[pull->text_length++] = (char)byte;
    return true;
}

/* Four hexadecimal digits; -1: none. */
static int
pull_hexadecimal(struct json_pull *pull)
{
    int value = 0;

    for (int i = 0; i < 4; i++) {
        int byte = pull_peek(pull);
        int digit = byte >= '0' && byte <= '9'   ? byte - '0'
                    : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                    : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                                 : -1;

        if (digit < 0)
            return -1;
        pull_take(pull);
        value = value << 4 | digit;
    }
    return value;
}

/* Append a code point as UTF-8. */
static bool
pull_put_character(struct json_pull *pull, int32_t code)
{
    static const int first_bits[] = { 0, 0xc0, 0xe0, 0xf0 };
    int following = (code >= 0x80) + (code >= 0x800) + (code >= 0x10000);
    bool fine = pull_put(pull, first_bits[following] | code >> 6 * following);

    while (fine && following-- > 0)
        fine = pull_put(pull, 0x80 | (code >> 6 * following & 0x3f));
    return fine;
}

/* Parse the rest of an escape sequence. A lone surrogate and a NUL become U+FFFD. */
static bool
pull_escape(struct json_pull *pull)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    int byte = pull_take(pull);
    const char *letter = byte > 0 ? strchr(letters, byte) : NULL;
    int32_t code, low;

    if (letter != NULL)
        return pull_put(pull, meant[letter - letters]);
    if (byte != 'u')
        return false;
    code = pull_hexadecimal(pull);
    if (code < 0)
        return false;
    if (code >= 0xd800 && code < 0xdc00 && pull_peek(pull) == '\\') {
        pull_take(pull);
        if (pull_peek(pull) != 'u')
            return pull_put_character(pull, 0xfffd) && pull_escape(pull);
        pull_take(pull);
        low = pull_hexadecimal(pull);
        if (low < 0)
            return false;
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
    }
    return pull_put_character(pull, code == 0 || (code >= 0xd800 && code < 0xe000) ? 0xfffd : code);
}

/* Read a text from its first quote. Returns `token`, or JSON_FAILED. */
static enum json_token
pull_text(struct json_pull *pull, enum json_token token)
{
    int byte;

    pull_take(pull);
    pull->text_length = 0;
    while ((byte = pull_take(pull)) != '"') {
        if (byte < 0)
            return pull_unexpected(pull);
        if (byte == '\\' ? !pull_escape(pull) : !pull_put(pull, byte != 0 ? byte : ' '))
            return pull_failed(pull, "a text that is no JSON, or longer than 1 MiB");
    }
    if (!pull_put(pull, '\0'))
        return pull_failed(pull, "a text longer than 1 MiB");
    pull->text_length--;
    return token;
}

/* A number, or a word: true, false, null, and NaN and Infinity, as Python writes them. */
static enum json_token
pull_word(struct json_pull *pull)
{
    static const char *const words[] = { "true", "false", "null", "NaN", "Infinity", "-Infinity" };
    char word[64];
    size_t length = 0;
    const char *digits = word;
    uint64_t value;
    char *end;
    int byte;

    while ((byte = pull_peek(pull)) > ' ' && strchr(",:]}\"[{", byte) == NULL && length + 1 < sizeof(word))
        word[length++] = (char)pull_take(pull);
    word[length] = '\0';
    if (length == 0)
        return pull_unexpected(pull);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(word, words[i]) == 0)
            return JSON_OTHER;
    }
    digits += word[0] == '-';
    errno = 0;
    value = strtoull(digits, &end, 10);
    if (*digits >= '0' && *digits <= '9' && *end == '\0' && errno == 0 && (digits == word || value <= INT64_MAX)) {
        pull->integer = digits == word ? (int64_t)value : -(int64_t)value;
        return JSON_INTEGER;
    }
    strtod(word, &end);
    if (*end == '\0' && (word[0] == '-' || (word[0] >= '0' && word[0] <= '9')))
        return JSON_OTHER;
    return pull_failed(pull, "no JSON: neither a number nor true, false or null");
}

static enum json_token
pull_open(struct json_pull *pull, bool object)
{
    if (pull->depth == JSON_PULL_DEPTH)
        return pull_failed(pull, "the JSON is nested too deep");
    pull_take(pull);
    pull->in_object[pull->depth++] = object;
    pull->has_value = pull->has_comma = pull->has_key = false;
    return object ? JSON_OBJECT : JSON_ARRAY;
}

static enum json_token
pull_value(struct json_pull *pull, int byte)
{
    enum json_token token;

    if (byte == '{' || byte == '[')
        return pull_open(pull, byte == '{');
    if (byte == '"')
        token = pull_text(pull, JSON_TEXT);
    else
        token = pull_word(pull);
    pull->has_value = true;
    pull->has_comma = pull->has_key = false;
    return token;
}

static enum json_token
pull_key(struct json_pull *pull)
{
    if (pull_text(pull, JSON_KEY) == JSON_FAILED)
        return JSON_FAILED;
    if (pull_peek_token(pull) != ':')
        return pull_unexpected(pull);
    pull_take(pull);
    pull->has_key = true;
    return JSON_KEY;
}

/* The text of a value of a pickle. */
static bool
pull_copy(struct json_pull *pull, const char *bytes, size_t length)
{
    if (!tidei_grow(&pull->text, &pull->text_capacity, 0, length + 1))
        return false;
    memcpy(pull->text, bytes, length);
    pull->text[length] = '\0';
    pull->text_length = length;
    return true;
}

static enum json_token
pull_enter_container(struct json_pull *pull, const struct pickle_value *value)
{
    if (pull->depth == JSON_PULL_DEPTH)
        return pull_failed(pull, "containers nest too deep");
    pull->in_object[pull->depth] = value->type == PICKLE_DICT;
    pull->containers[pull->depth] = value->container;
    pull->places[pull->depth++] = 0;
    return value->type == PICKLE_DICT ? JSON_OBJECT : JSON_ARRAY;
}

/* A value of a pickle; `key` where it is one. A key that is no text has no name. */
static enum json_token
pull_pickle_value(struct json_pull *pull, const struct pickle_value *value, bool key)
{
    bool is_text = value->type == PICKLE_TEXT;

    if (key || is_text) {
        if (!pull_copy(pull, is_text ? value->text->bytes : "", is_text ? value->text->length : 0))
            return pull_failed(pull, "no memory");
        return key ? JSON_KEY : JSON_TEXT;
    }
    if (value->type == PICKLE_LIST || value->type == PICKLE_DICT)
        return pull_enter_container(pull, value);
    pull->integer = value->integer;
    return value->type == PICKLE_INTEGER ? JSON_INTEGER : JSON_OTHER;
}

/*
 * The next token of a pickle. Values that a pickle shares come once for each place that has them, so a small file made
 * for it can stand for an endless text: the number of tokens is bounded by far more than any snapshot has.
 */
static enum json_token
pull_pickle(struct json_pull *pull)
{
    const struct pickle_container *container;
    size_t place;

    if (pull->tokens++ > PULL_TOKENS_A_BYTE * pull->pickle->bytes + PULL_TOKENS_FREE)
        return pull_failed(pull, "its values refer to each other without end");
    if (pull->depth == 0) {
        if (pull->has_value)
            return JSON_END;
        pull->has_value = true;
        return pull_pickle_value(pull, &pull->pickle->root, false);
    }
    container = pull->containers[pull->depth - 1];
    place = pull->places[pull->depth - 1]++;
    if (place == container->count)
        return pull->in_object[--pull->depth] ? JSON_OBJECT_END : JSON_ARRAY_END;
    return pull_pickle_value(pull, &container->items[place], pull->in_object[pull->depth - 1] && place % 2 == 0);
}

static enum json_token
pull_json(struct json_pull *pull)
{
    int byte = pull_peek_token(pull);
    bool object = pull->depth > 0 && pull->in_object[pull->depth - 1];

    if (pull->depth == 0 && pull->has_value)
        return byte < 0 ? JSON_END : pull_unexpected(pull);
    if (pull->depth > 0 && !pull->has_key) {
        if (byte == (object ? '}' : ']') && !pull->has_comma) {
            pull_take(pull);
            pull->depth--;
            pull->has_value = true;
            return object ? JSON_OBJECT_END : JSON_ARRAY_END;
        }
        if (pull->has_value && !pull->has_comma) {
            if (byte != ',')
                return pull_unexpected(pull);
            pull_take(pull);
            pull->has_comma = true;
            byte = pull_peek_token(pull);
        }
        if (object)
            return byte == '"' ? pull_key(pull) : pull_unexpected(pull);
    }
    return byte < 0 ? pull_unexpected(pull) : pull_value(pull, byte);
}

enum json_token
json_pull_next(struct json_pull *pull)
{
    return pull->pickle != NULL ? pull_pickle(pull) : pull_json(pull);
}

bool
json_pull_skip(struct json_pull *pull, enum json_token token)
{
    unsigned depth = pull->depth;

    if (token == JSON_FAILED)
        return false;
    if (token != JSON_OBJECT && token != JSON_ARRAY)
        return true;
    if (pull->pickle != NULL) {
        pull->depth--;
        return true;
    }
    while (pull->depth >= depth) {
        if (json_pull_next(pull) == JSON_FAILED)
            return false;
    }
    return true;
}

int
json_pull_open(struct json_pull *pull, const char *path)
{
    struct stat info = { 0 };

    *pull = (struct json_pull){ .path = path, .line = 1 };
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        errno = EISDIR;
    else
        pull->file = gzopen(path, "r");
    if (pull->file == NULL) {
        message("%s: %s", path, strerror(errno));
        return COMMAND_WRONG;
    }
    gzbuffer(pull->file, PULL_BUFFER_BYTES);
    pull->buffer = malloc(PULL_BUFFER_BYTES);
    if (pull->buffer != NULL)
        return COMMAND_FINE;
    message("%s: no memory", path);
    return COMMAND_WRONG;
}

void
json_pull_open_pickle(struct json_pull *pull, const char *path, const struct pickle *pickle)
{
    *pull = (struct json_pull){ .path = path, .pickle = pickle };
}

void
json_pull_close(struct json_pull *pull)
{
    if (pull->file != NULL)
        gzclose(pull->file);
    free(pull->buffer);
    free(pull->text);
    *pull = (struct json_pull){ 0 };
}
