/*
 * A fast buffered writer for answers and exports: bytes, numbers and text to a file, to standard output or to memory,
 * plain or compressed with gzip.
 */
#ifndef VIEWER_OUTPUT_EMIT_H
#define VIEWER_OUTPUT_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "viewer/base/temporary.h"

#define EMIT_BUFFER_BYTES (256 * 1024)

struct emit {
    const char *path;           /* borrows; NULL: standard output */
    struct temporary temporary; /* the file that is renamed to `path` at the end; none: `path` is written directly */
    int file;                   /* owns where it is neither standard output nor that of `temporary` */
    struct z_stream_s *deflate; /* owns; NULL: plain */
    bool in_memory;             /* the buffer grows and is never written out */
    char *buffer;               /* owns */
    size_t used;
    size_t capacity;
    uint64_t written; /* bytes that have left the buffer */
    bool failed;      /* an error was reported; later writes do nothing */
};

/*
 * Open `path` (borrowed until emit_close; NULL: standard output). An existing file is replaced only when the export is
 * complete. An SQLite database is refused, so that a mistyped path cannot overwrite a trace. Pipes, devices and links
 * are written directly. COMMAND_FINE, or COMMAND_WRONG after a message; then there is nothing to close.
 */
int emit_open(struct emit *emit, const char *path, bool compress);

/* Write to memory: `used` bytes at `buffer`. COMMAND_FINE, or COMMAND_WRONG after a message. */
int emit_open_memory(struct emit *emit);

/*
 * Write the rest and close. Returns `status`, or COMMAND_WRONG after a message. Where either is COMMAND_WRONG, no file
 * is made.
 */
int emit_close(struct emit *emit, int status);

/* Discard everything written so far. False after a message: the output cannot be rewound. */
bool emit_rewind(struct emit *emit);

/* Write the buffer out now, through the compression if there is one. `end`: nothing follows. */
void emit_flush(struct emit *emit, bool end);

/* The slow path of emit_bytes: the bytes do not fit in the buffer. */
void emit_overflow(struct emit *emit, const void *bytes, size_t count);

/* Inline because most writes are constants of a few bytes: the calls took a third of a large export's time. */
static inline void
emit_bytes(struct emit *emit, const void *bytes, size_t count)
{
    if (count > emit->capacity - emit->used) {
        emit_overflow(emit, bytes, count);
        return;
    }
    memcpy(emit->buffer + emit->used, bytes, count);
    emit->used += count;
}

/* Write a constant text unescaped. */
static inline void
emit_string(struct emit *emit, const char *text)
{
    emit_bytes(emit, text, strlen(text));
}

void emit_unsigned(struct emit *emit, uint64_t value);
void emit_signed(struct emit *emit, int64_t value);
void emit_hexadecimal(struct emit *emit, uint64_t value); /* 0x... */

/* Nanoseconds as microseconds with three decimals. */
void emit_microseconds(struct emit *emit, int64_t ns);

/* With all significant digits; "null" if the value is not finite. */
void emit_real(struct emit *emit, double value);

/* As printf. */
void emit_format(struct emit *emit, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Write a text from a trace. emit_text escapes what is not shown as it is, as shown_put does. emit_json writes a
 * quoted string, with \uXXXX for the same characters, and U+FFFD for bytes that are not UTF-8. emit_csv writes a field,
 * in quotes if `quote` is set, and escapes like emit_text unless `raw` is set.
 */
void emit_text(struct emit *emit, const char *text, size_t length);
void emit_json(struct emit *emit, const char *text, size_t length);
void emit_csv(struct emit *emit, const char *text, size_t length, bool quote, bool raw);

#endif
