/* Writes an export. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "viewer/base/exit-status.h"
#include "viewer/output/emit.h"
#include "viewer/base/output.h"
#include "viewer/base/file.h"

/* The digits of 2^64 - 1. */
#define EMIT_DIGITS 20

static void
emit_failed(struct emit *emit, const char *why)
{
    if (!emit->failed && emit->path != NULL)
        fprintf(stderr, "%s: cannot be written: %s\n", emit->path, why);
    else if (!emit->failed)
        fprintf(stderr, "tidemark: standard output cannot be written: %s\n", why);
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

/* Give what is in the buffer to the file, through the compression where there is one. */
static void
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

/* A file beside `path`; false where there can be none, with errno. */
static bool
emit_open_temporary(struct emit *emit, mode_t mode)
{
    if (asprintf(&emit->temporary, "%s-export%ld", emit->path, (long)getpid()) < 0) {
        emit->temporary = NULL;
        errno = ENOMEM;
        return false;
    }
    emit->file = open(emit->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (emit->file >= 0)
        return true;
    free(emit->temporary);
    emit->temporary = NULL;
    return false;
}

static int
emit_open_file(struct emit *emit)
{
    struct stat there;
    bool exists = lstat(emit->path, &there) == 0;
    bool direct = exists && !S_ISREG(there.st_mode);

    if (file_is_sqlite(emit->path)) {
        fprintf(stderr, "%s: is a database: it is not overwritten\n", emit->path);
        return COMMAND_WRONG;
    }
    emit->file = -1;
    if (!direct && !emit_open_temporary(emit, exists ? there.st_mode & 0777 : 0666))
        direct = exists && (errno == EACCES || errno == EROFS || errno == ENAMETOOLONG);
    if (direct)
        emit->file = open(emit->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (emit->file >= 0)
        return COMMAND_FINE;
    fprintf(stderr, "%s: %s\n", emit->path, strerror(errno));
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
    *emit = (struct emit){ .path = path, .file = STDOUT_FILENO };
    if (path == NULL && compress && isatty(STDOUT_FILENO)) {
        fputs("tidemark: this format is no text for a terminal; -o FILE takes it\n", stderr);
        return COMMAND_WRONG;
    }
    if (path != NULL && emit_open_file(emit) != COMMAND_FINE)
        return COMMAND_WRONG;
    emit->buffer = malloc(EMIT_BUFFER_BYTES);
    if (emit->buffer != NULL && (!compress || emit_begin_deflate(emit)))
        return COMMAND_FINE;
    emit_failed(emit, "no memory");
    return emit_close(emit, COMMAND_WRONG);
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
    if (emit->path != NULL && close(emit->file) != 0)
        emit_failed(emit, strerror(errno));
    if (status != COMMAND_WRONG && !emit->failed && emit->temporary != NULL && rename(emit->temporary, emit->path) != 0)
        emit_failed(emit, strerror(errno));
    if (emit->failed)
        status = COMMAND_WRONG;
    if (status == COMMAND_WRONG && emit->temporary != NULL)
        unlink(emit->temporary);
    free(emit->temporary);
    return status;
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
    while (count > 0 && !emit->failed) {
        size_t room = EMIT_BUFFER_BYTES - emit->used;
        size_t part = count < room ? count : room;

        memcpy(emit->buffer + emit->used, bytes, part);
        emit->used += part;
        bytes = (const char *)bytes + part;
        count -= part;
        if (emit->used == EMIT_BUFFER_BYTES)
            emit_flush(emit, false);
    }
}

/* The decimal digits of `value`, two at a time, at the end of `digits`; how many bytes stand before them. */
static size_t
emit_digits(char digits[EMIT_DIGITS], uint64_t value)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    size_t at = EMIT_DIGITS;

    for (; value >= 100; value /= 100)
        memcpy(digits + (at -= 2), pairs + 2 * (value % 100), 2);
    if (value < 10)
        digits[--at] = (char)('0' + value);
    else
        memcpy(digits + (at -= 2), pairs + 2 * value, 2);
    return at;
}

void
emit_unsigned(struct emit *emit, uint64_t value)
{
    char digits[EMIT_DIGITS];
    size_t at = emit_digits(digits, value);

    emit_bytes(emit, digits + at, sizeof(digits) - at);
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

/* The length of a text of printable bytes of ASCII without `one` and `other`, as most names are; -1 of any other. */
static ssize_t
emit_plain(const char *text, char one, char other)
{
    const char *at = text;

    for (; *at != '\0'; at++) {
        if (*at < 0x20 || *at > 0x7e || *at == one || *at == other)
            return -1;
    }
    return at - text;
}

/* The text as `write` prints it; NULL: no memory, and the export has failed. To be freed. */
static char *
emit_escape(struct emit *emit, const char *text, void (*write)(FILE *out, const char *text, size_t length))
{
    char *escaped = NULL;
    size_t length;
    FILE *out = open_memstream(&escaped, &length);

    if (out != NULL) {
        write(out, text, strlen(text));
        if (fclose(out) == 0)
            return escaped;
    }
    free(escaped);
    emit_failed(emit, "no memory");
    return NULL;
}

void
emit_json(struct emit *emit, const char *text)
{
    ssize_t length = emit_plain(text, '"', '\\');
    char *escaped;

    if (length >= 0) {
        emit_bytes(emit, "\"", 1);
        emit_bytes(emit, text, (size_t)length);
        emit_bytes(emit, "\"", 1);
        return;
    }
    escaped = emit_escape(emit, text, output_json_text);
    if (escaped != NULL)
        emit_string(emit, escaped);
    free(escaped);
}

void
emit_csv(struct emit *emit, const char *text)
{
    ssize_t length = emit_plain(text, '"', '"');
    bool quoted = length < 0 || text[strcspn(text, ", ")] != '\0';
    char *escaped;

    if (length >= 0) {
        emit_bytes(emit, "\"", quoted);
        emit_bytes(emit, text, (size_t)length);
        emit_bytes(emit, "\"", quoted);
        return;
    }
    escaped = emit_escape(emit, text, output_text);
    emit_bytes(emit, "\"", 1);
    for (const char *letter = escaped; letter != NULL && *letter != '\0'; letter++)
        emit_bytes(emit, *letter == '"' ? "\"\"" : letter, *letter == '"' ? 2 : 1);
    emit_bytes(emit, "\"", 1);
    free(escaped);
}

void
emit_name(struct emit *emit, const char *text, char separator)
{
    ssize_t length = emit_plain(text, separator, separator);
    char *escaped;

    if (length >= 0) {
        emit_bytes(emit, text, (size_t)length);
        return;
    }
    escaped = emit_escape(emit, text, output_text);
    for (char *letter = escaped; letter != NULL && *letter != '\0'; letter++) {
        if (*letter == separator)
            *letter = separator == ';' ? ',' : '_';
    }
    if (escaped != NULL)
        emit_string(emit, escaped);
    free(escaped);
}
