/*
 * Writes what commands answer and export: bytes, numbers and texts in the forms that files have, fast, to a file,
 * standard output or memory, plain or compressed with gzip.
 */
#ifndef VIEWER_OUTPUT_EMIT_H
#define VIEWER_OUTPUT_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EMIT_BUFFER_BYTES (256 * 1024)

struct emit {
    const char *path; /* borrows; NULL: standard output */
    char *temporary;  /* owns; what takes the place of `path` at the end; NULL: it is written directly */
    int file;
    struct z_stream_s *deflate; /* owns; NULL: plain */
    bool in_memory;             /* nothing leaves the buffer, which grows */
    char *buffer;               /* owns */
    size_t used;
    size_t capacity;
    uint64_t written; /* bytes that have left the buffer */
    bool failed;      /* a message was printed; nothing more is written */
};

/*
 * Open `path` (borrowed until the end; NULL: standard output). A file that is there is replaced when the export is
 * complete, and not before; a database never is, so that no trace is lost to a slip. Pipes, devices and links are
 * written directly. COMMAND_FINE, or COMMAND_WRONG after a message and there is nothing to close.
 */
int emit_open(struct emit *emit, const char *path, bool compress);

/* Keep all that is written in `buffer`, of `used` bytes. COMMAND_FINE, or COMMAND_WRONG after a message. */
int emit_open_memory(struct emit *emit);

/* Write what is left. `status`, or COMMAND_WRONG after a message; then, and where `status` is that, no file is made. */
int emit_close(struct emit *emit, int status);

/* Begin anew, as if nothing had been written. False after a message: what was written cannot be taken back. */
bool emit_rewind(struct emit *emit);

/* Write what is in the buffer now. */
void emit_flush(struct emit *emit);

/* What does not fit in the buffer any more. */
void emit_overflow(struct emit *emit, const void *bytes, size_t count);

/* Inline, as most of what is written are constants of a few bytes: the calls were a third of a large export. */
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

/* A text as it stands: for constant texts. */
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

/* In all its digits; null where it is not finite. */
void emit_real(struct emit *emit, double value);

/* As printf. */
void emit_format(struct emit *emit, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * A text of a trace. As words: control characters and what is no UTF-8 become \xNN, so that no file drives a terminal.
 * As JSON, in quotes: what is no UTF-8 becomes U+FFFD. As a field of CSV: in quotes where `quote` says so, and as
 * words unless it is to stand `raw`.
 */
void emit_text(struct emit *emit, const char *text, size_t length);
void emit_json(struct emit *emit, const char *text, size_t length);
void emit_csv(struct emit *emit, const char *text, size_t length, bool quote, bool raw);

#endif
