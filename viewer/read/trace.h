/* An open trace: what may be asked of it, and how a command says what is wrong with it. */
#ifndef VIEWER_READ_TRACE_H
#define VIEWER_READ_TRACE_H

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

/* Say what SQLite's last error on this trace is. Returns COMMAND_WRONG. */
int trace_failed(const struct trace *trace);

/* Say what is wrong with the content of the trace. Returns COMMAND_WRONG. */
int trace_broken(const struct trace *trace, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first column of the first row of `sql`, an integer; 0 where there is none. COMMAND_FINE or COMMAND_WRONG. */
int trace_integer(const struct trace *trace, const char *sql, int64_t *out);

/* A text of `meta`, to be freed by the caller; NULL where there is none. */
char *trace_meta(const struct trace *trace, const char *key);

#endif
