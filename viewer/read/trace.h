/* An open trace: simple queries and error messages. */
#ifndef VIEWER_READ_TRACE_H
#define VIEWER_READ_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

struct trace {
    sqlite3 *db;      /* owns */
    const char *path; /* borrows: the argument of trace_open */
    bool complete;
    bool in_progress; /* not complete, and the recording process still runs */
    uint32_t process; /* the id of the recording process; 0: unknown */
    int64_t lost_events;
};

/* Print SQLite's last error on this trace. Returns COMMAND_WRONG. */
int trace_failed(const struct trace *trace);

/* Print what is wrong with the trace. Returns COMMAND_WRONG. */
int trace_broken(const struct trace *trace, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first column of the first row of `sql` as an integer; 0: there is no row. COMMAND_FINE or COMMAND_WRONG. */
int trace_integer(const struct trace *trace, const char *sql, int64_t *out);

/* A text of `meta`, which the caller frees; NULL: there is none. */
char *trace_meta(const struct trace *trace, const char *key);

#endif
