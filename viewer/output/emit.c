/* A fast buffered writer for answers and exports. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "src/resource/visible.h"
#include "src/tables/grow.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/output/emit.h"
#include "viewer/base/output.h"
#include "viewer/base/file.h"

/* The digits of 2^64 - 1. */
#define EMIT_DIGITS 20

#define EMIT_MEMORY_FIRST 4096

static void
emit_failed(struct emit *emit, const char *why)
{
    if (!emit->failed && emit->path != NULL)
        message("%s: cannot be written: %s", emit->path, why);
    else if (!emit->failed)
        message("tidemark: standard output cannot be written: %s", why);
    emit->failed = true;
}

static void
emit_write(struct emit *emit, const char *bytes, size_t count)
{
    while (count > 0 && !emit->failed) {
        ssize_t written = write(emit->file, bytes, count);

        if (written < 0 && errno != EINTR)
            emit_failed(emit, strerror(errno));
        if (written > 0) {
            bytes += written;
            count -= (size_t)written;
            emit->written += (uint64_t)written;
        }
    }
}

void
emit_flush(struct emit *emit, bool end)
{
    char compressed[65536];
    int code = Z_OK;

    if (emit->deflate == NULL) {
        emit_write(emit, emit->buffer, emit->used);
        emit->used = 0;
        return;
    }
    emit->deflate->next_in = (Bytef *)emit->buffer;
    emit->deflate->avail_in = (uInt)emit->used;
    do {
        emit->deflate->next_out = (Bytef *)compressed;
        emit->deflate->avail_out = sizeof(compressed);
        code = deflate(emit->deflate, end ? Z_FINISH : Z_NO_FLUSH);
        emit_write(emit, compressed, sizeof(compressed) - emit->deflate->avail_out);
    } while (!emit->failed && (end ? code == Z_OK : emit->deflate->avail_out == 0));
    emit->used = 0;
}

static int
emit_open_file(struct emit *emit)
{
    struct stat there;
    bool exists = lstat(emit->path, &there) == 0;
    bool direct = exists && !S_ISREG(there.st_mode);

    if (file_is_sqlite(emit->path)) {
        message("%s: is a database: it is not overwritten", emit->path);
        return COMMAND_WRONG;
    }
    if (!direct && !temporary_open(&emit->temporary, emit->path, "export", exists ? there.st_mode & 0777 : 0666))
        direct = exists && (errno == EACCES || errno == EROFS || errno == ENAMETOOLONG);
    emit->file = emit->temporary.file;
    if (direct)
        emit->file = open(emit->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (emit->file >= 0)
        return COMMAND_FINE;
    message("%s: %s", emit->path, strerror(errno));
    return COMMAND_WRONG;
}

static bool
emit_begin_deflate(struct emit *emit)
{
    emit->deflate = calloc(1, sizeof(*emit->deflate));
    /* 15 bits of window, and 16 more for the header of gzip. */
    if (emit->deflate != NULL &&
        deflateInit2(emit->deflate, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK)
        return true;
    free(emit->deflate);
    emit->deflate = NULL;
    return false;
}

int
emit_open(struct emit *emit, const char *path, bool compress)
{
    *emit = (struct emit){ .path = path, .file = STDOUT_FILENO, .temporary = { .file = -1 } };
    if (path == NULL && compress && isatty(STDOUT_FILENO)) {
        message("tidemark: this format is no text for a terminal; -o FILE takes it");
        return COMMAND_WRONG;
    }
    if (path != NULL && emit_open_file(emit) != COMMAND_FINE)
        return COMMAND_WRONG;
    emit->buffer = malloc(EMIT_BUFFER_BYTES);
    emit->capacity = emit->buffer != NULL ? EMIT_BUFFER_BYTES : 0;
    if (emit->buffer != NULL && (!compress || emit_begin_deflate(emit)))
        return COMMAND_FINE;
    emit_failed(emit, "no memory");
    return emit_close(emit, COMMAND_WRONG);
}

int
emit_open_memory(struct emit *emit)
{
    *emit = (struct emit){ .in_memory = true, .temporary = { .file = -1 } };
    if (tidei_grow(&emit->buffer, &emit->capacity, 0, EMIT_MEMORY_FIRST))
        return COMMAND_FINE;
    emit_failed(emit, "no memory");
    return COMMAND_WRONG;
}

/* Close the file, which tells of what could not be written. The temporary file's own descriptor keeps its lock. */
static int
emit_close_file(const struct emit *emit)
{
    int copy = emit->temporary.file >= 0 ? dup(emit->file) : emit->file;

    return copy >= 0 ? close(copy) : 0;
}

int
emit_close(struct emit *emit, int status)
{
    if (status != COMMAND_WRONG)
        emit_flush(emit, true);
    if (emit->deflate != NULL)
        deflateEnd(emit->deflate);
    free(emit->deflate);
    free(emit->buffer);
    if (emit->path != NULL && emit_close_file(emit) != 0)
        emit_failed(emit, strerror(errno));
    if (status != COMMAND_WRONG && !emit->failed && emit->temporary.path != NULL &&
        !temporary_publish(&emit->temporary, emit->path, true))
        emit_failed(emit, strerror(errno));
    temporary_close(&emit->temporary);
    return emit->failed ? COMMAND_WRONG : status;
}

bool
emit_rewind(struct emit *emit)
{
    emit->used = 0;
    if (emit->written == 0)
        return true;
    if (emit->path != NULL && emit->deflate == NULL && ftruncate(emit->file, 0) == 0 &&
        lseek(emit->file, 0, SEEK_SET) == 0) {
        emit->written = 0;
        return true;
    }
    emit_failed(emit, "the rows of the trace do not stand in the order of time; -o FILE can take them");
    return false;
}

void
emit_overflow(struct emit *emit, const void *bytes, size_t count)
{
    if (emit->in_memory) {
        if (emit->failed || !tidei_grow(&emit->buffer, &emit->capacity, emit->used, count)) {
            emit->failed = true;
            return;
        }
        memcpy(emit->buffer + emit->used, bytes, count);
        emit->used += count;
        return;
    }
    while (count > 0 && !emit->failed) {
        size_t unused = emit->capacity - emit->used;
        size_t part = count < unused ? count : unused;

        memcpy(emit->buffer + emit->used, bytes, part);
        emit->used += part;
        bytes = (const char *)bytes + part;
        count -= part;
        if (emit->used == emit->capacity)
            emit_flush(emit, false);
    }
}

/* A bit is 0.30103 digits: the bits of a number say how many digits it has, or one less. */
static size_t
emit_digit_count(uint64_t value)
{
    /* clang-format off */
    static const uint64_t powers[EMIT_DIGITS] = {
        0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000, 100000000000,
        1000000000000, 10000000000000, 100000000000000, 1000000000000000, 10000000000000000, 100000000000000000,
        1000000000000000000, 10000000000000000000u
    };
    /* clang-format on */
    size_t count = (64 - (size_t)__builtin_clzll(value | 1)) * 1233 >> 12;

    return count + (value >= powers[count]);
}

/* Write the `count` decimal digits of `value`, two at a time. */
static void
emit_digits(char *digits, size_t count, uint64_t value)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";

    for (; count > 1; value /= 100)
        memcpy(digits + (count -= 2), pairs + 2 * (value % 100), 2);
    if (count > 0)
        *digits = (char)('0' + value);
}

/* The digits are written in place where there is room: a row of JSON lines then takes 79 ns to write instead of 89. */
void
emit_unsigned(struct emit *emit, uint64_t value)
{
    size_t count = emit_digit_count(value);
    char digits[EMIT_DIGITS];

    if (count <= emit->capacity - emit->used) {
        emit_digits(emit->buffer + emit->used, count, value);
        emit->used += count;
        return;
    }
    emit_digits(digits, count, value);
    emit_bytes(emit, digits, count);
}

void
emit_signed(struct emit *emit, int64_t value)
{
    if (value < 0)
        emit_bytes(emit, "-", 1);
    emit_unsigned(emit, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void
emit_hexadecimal(struct emit *emit, uint64_t value)
{
    char digits[18];
    size_t at = sizeof(digits);

    do
        digits[--at] = "0123456789abcdef"[value & 15];
    while ((value >>= 4) != 0);
    digits[--at] = 'x';
    digits[--at] = '0';
    emit_bytes(emit, digits + at, sizeof(digits) - at);
}

void
emit_microseconds(struct emit *emit, int64_t ns)
{
    uint64_t value = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    char decimals[4] = { '.', (char)('0' + value / 100 % 10), (char)('0' + value / 10 % 10), (char)('0' + value % 10) };

    if (ns < 0)
        emit_bytes(emit, "-", 1);
    emit_unsigned(emit, value / 1000);
    emit_bytes(emit, decimals, sizeof(decimals));
}

void
emit_real(struct emit *emit, double value)
{
    if (isfinite(value))
        emit_format(emit, "%.17g", value);
    else
        emit_string(emit, "null");
}

void
emit_format(struct emit *emit, const char *format, ...)
{
    char text[512];
    char *longer = NULL;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof(text)) {
        emit_bytes(emit, text, (size_t)length);
        return;
    }
    va_start(arguments, format);
    length = vasprintf(&longer, format, arguments);
    va_end(arguments);
    if (length < 0) {
        emit_failed(emit, "no memory");
        return;
    }
    emit_bytes(emit, longer, (size_t)length);
    free(longer);
}

/* Count the bytes from `text` on that are printable ASCII but not `one` or `other`. Most names have only such bytes. */
static size_t
emit_plain(const char *text, size_t length, char one, char other)
{
    size_t count = 0;

    while (count < length && text[count] >= 0x20 && text[count] <= 0x7e && text[count] != one && text[count] != other)
        count++;
    return count;
}

void
emit_text(struct emit *emit, const char *text, size_t length)
{
    while (length > 0) {
        size_t count = emit_plain(text, length, '\0', '\0');
        struct tidei_visible character = { .is_plain = true };
        char escape[TIDEI_VISIBLE_ESCAPE];

        if (count == 0) {
            character = tidei_visible_at(text, length);
            count = character.bytes;
        }
        if (character.is_plain)
            emit_bytes(emit, text, count);
        else
            emit_bytes(emit, escape, tidei_visible_escape(character, escape));
        text += count;
        length -= count;
    }
}

/* Write a character of a JSON string that needs escaping or is not ASCII. Returns its length in `text`. */
static size_t
emit_json_character(struct emit *emit, const char *text, size_t length)
{
    struct tidei_visible character = tidei_visible_at(text, length);
    unsigned code = (unsigned)character.code;

    if (!character.is_utf8) {
        emit_string(emit, "\xef\xbf\xbd");
    } else if (!character.is_plain && code > 0xffff) {
        /* A pair of surrogates, which share the bits above the first plane. */
        code -= 0x10000;
        emit_format(emit, "\\u%04x\\u%04x", 0xd800 | code >> 10, 0xdc00 | (code & 0x3ff));
    } else if (!character.is_plain) {
        emit_format(emit, "\\u%04x", code);
    } else {
        if (*text == '"' || *text == '\\')
            emit_bytes(emit, "\\", 1);
        emit_bytes(emit, text, character.bytes);
    }
    return character.bytes;
}

void
emit_json(struct emit *emit, const char *text, size_t length)
{
    emit_bytes(emit, "\"", 1);
    for (size_t done = 0; done < length;) {
        size_t count = emit_plain(text + done, length - done, '"', '\\');

        emit_bytes(emit, text + done, count);
        done += count;
        if (done < length)
            done += emit_json_character(emit, text + done, length - done);
    }
    emit_bytes(emit, "\"", 1);
}

void
emit_csv(struct emit *emit, const char *text, size_t length, bool quote, bool raw)
{
    emit_bytes(emit, "\"", quote);
    for (size_t done = 0; done < length;) {
        const char *end = quote ? memchr(text + done, '"', length - done) : NULL;
        size_t count = end != NULL ? (size_t)(end - text) - done : length - done;

        if (raw)
            emit_bytes(emit, text + done, count);
        else
            emit_text(emit, text + done, count);
        done += count + (end != NULL);
        emit_bytes(emit, "\"\"", end != NULL ? 2 : 0);
    }
    emit_bytes(emit, "\"", quote);
}
