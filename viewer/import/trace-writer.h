/*
 * Writes a new trace from complete rows, for events that this library did not record.
 *
 * The rows go into a temporary file that is renamed to the trace when it is complete, so a trace is never partial. The
 * caller numbers the rows; nothing is checked here.
 */
#ifndef VIEWER_IMPORT_TRACE_WRITER_H
#define VIEWER_IMPORT_TRACE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "src/trace/database/insert.h"

struct trace_writer {
    sqlite3 *db;     /* owns */
    char *path;      /* owns */
    char *temporary; /* owns; the file until it is renamed to `path`; NULL: none */
    bool overwrite;
    struct tidei_inserts inserts; /* owns */
};

/* One row of `allocation`; ids that are 0 are NULL in the trace. */
struct trace_writer_life {
    int64_t allocation_id;
    int64_t layer_id;
    uint64_t address;
    uint64_t size;
    uint64_t alignment;
    int status;
    int64_t tag_id;
    int64_t alloc_ns;
    int64_t alloc_duration_ns;
    int64_t alloc_thread_id;
    int64_t alloc_stream_id;
    bool freed;
    int64_t free_ns;
    int64_t free_duration_ns;
    int64_t free_thread_id;
    int64_t free_stream_id;
};

/*
 * Begin a trace at `path`. An existing trace there is replaced only with `overwrite`; any other file never is.
 * COMMAND_FINE; or COMMAND_WRONG after a message, and there is nothing to abandon.
 */
int trace_writer_open(struct trace_writer *writer, const char *path, bool overwrite);

/* Insert a row: see insert.h. COMMAND_FINE, or COMMAND_WRONG after a message. */
#define trace_writer_row(writer, table, ...)                                                                           \
    trace_writer_inserted((writer), tidei_insert(&(writer)->inserts, table, __VA_ARGS__))
int trace_writer_inserted(const struct trace_writer *writer, int code);
int trace_writer_life(struct trace_writer *writer, const struct trace_writer_life *life);

/* Complete the trace and rename it to its path. COMMAND_FINE; or COMMAND_WRONG after a message, and no file is left. */
int trace_writer_finish(struct trace_writer *writer);

/* Discard the trace. */
void trace_writer_abandon(struct trace_writer *writer);

#endif
