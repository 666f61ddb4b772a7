/*
 * Writes an export: bytes, numbers and texts in the forms that files of others have, fast, to a file or standard
 * output, plain or compressed with gzip.
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
    char *buffer;               /* owns */
    size_t used;
    uint64_t written; /* bytes that have left the buffer */
    bool failed;      /* a message was printed; nothing more is written */
};

/*
 * Open `path` (borrowed until the end; NULL: standard output). A file that is there is replaced when the export is
 * complete, and not before; a database never is, so that no trace is lost to a slip. Pipes, devices and links are
 * written directly. COMMAND_FINE, or COMMAND_WRONG after a message and there is nothing to close.
 */
int emit_open(struct emit *emit, const char *path, bool compress);

/* Write what is left. `status`, or COMMAND_WRONG after a message; then, and where `status` is that, no file is made. */
int emit_close(struct emit *emit, int status);

/* Begin anew, as if nothing had been written. False after a message: what was written cannot be taken back. */
bool emit_rewind(struct emit *emit);

/* What does not fit in the buffer any more. */
void emit_overflow(struct emit *emit, const void *bytes, size_t count);

/* Inline, as most of what is written are constants of a few bytes: the calls were a third of a large export. */
static inline void
emit_bytes(struct emit *emit, const void *bytes, size_t count)
{
    if (count > EMIT_BUFFER_BYTES - emit->used) {
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

/*
 * A text of a trace: as JSON, in quotes; as a field of CSV; as one name in a line, in which `separator` is no letter.
 */
void emit_json(struct emit *emit, const char *text);
void emit_csv(struct emit *emit, const char *text);
void emit_name(struct emit *emit, const char *text, char separator);

#endif
