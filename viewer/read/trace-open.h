/* Opens a trace for reading, whoever wrote it. */
#ifndef VIEWER_READ_TRACE_OPEN_H
#define VIEWER_READ_TRACE_OPEN_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

struct trace {
    sqlite3 *db;      /* owns */
    const char *path; /* borrows: the argument of trace_open */
    bool complete;
    bool in_progress; /* not complete, and the process that records is still there */
    uint32_t process; /* its id; 0 where it is not known */
    int64_t lost_events;
};

/*
 * Open the trace at `path` (borrowed until trace_close) read-only, in one read transaction, and check that it has
 * every table and column that this command reads. Nothing in the file is trusted.
 *
 * COMMAND_FINE; or COMMAND_WRONG after a message, and there is nothing to close.
 */
int trace_open(const char *path, struct trace *out);

/* The same for another program's SQLite file, of which only that is checked; trace_has says what is in it. */
int trace_open_other(const char *path, struct trace *out);

void trace_close(struct trace *trace);

/*
 * COMMAND_FINE where the recording is complete and has lost nothing; else say what it is, and COMMAND_INCOMPLETE. Also
 * says what the trace has that nothing here knows.
 */
int trace_verdict(const struct trace *trace);

/* Say what SQLite's last error on this trace is. Returns COMMAND_WRONG. */
int trace_failed(const struct trace *trace);

/* Say what is wrong with the content of the trace. Returns COMMAND_WRONG. */
int trace_broken(const struct trace *trace, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first column of the first row of `sql`, an integer; 0 where there is none. COMMAND_FINE or COMMAND_WRONG. */
int trace_integer(const struct trace *trace, const char *sql, int64_t *out);

/* Whether the trace has an ordinary table of that name with these columns ("a b"), which older recorders lack. */
bool trace_has(const struct trace *trace, const char *table, const char *columns);

/* A text of `meta`, to be freed by the caller; NULL where there is none. */
char *trace_meta(const struct trace *trace, const char *key);

/* Whether the file at `path` is an SQLite database, by its first bytes; false where it cannot be read. */
bool trace_is_sqlite(const char *path);

#endif
