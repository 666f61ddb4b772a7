/* An open trace: opening, queries and messages. The file may come from anyone and is not trusted. */
#ifndef VIEWER_READ_TRACE_H
#define VIEWER_READ_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include <tidemark/status.h>

/* Of the file of a job, which is no trace (viewer/ranks/job.h): "TIDJ". */
#define JOB_APPLICATION_ID 0x5449444a

struct scan_share;

/* How the recording ended. */
enum trace_end {
    TRACE_CLOSED,   /* the program released its stack, or exited */
    TRACE_KILLED,   /* what it left was taken in, or is still missing */
    TRACE_RUNNING,  /* it has not ended */
    TRACE_IMPORTED, /* another program's recording, which does not say */
    TRACE_FAILED,   /* the recorder gave up, for instance on a full disk; how the program ended is not known */
};

struct trace {
    sqlite3 *db;      /* owns */
    const char *path; /* borrows: the argument of trace_open */
    bool complete;
    bool failed;      /* not complete, and the recorder says why: see trace_failure */
    bool in_progress; /* not complete, and the recording process still runs */
    uint32_t process; /* the id of the recording process; 0: unknown */
    int64_t lost_events;
    enum trace_end end;
    const struct scan_share *share; /* borrows; NULL: a scan reads the rows itself (viewer/read/scan.h) */
};

/*
 * Open the trace at `path` (borrowed until trace_close) read-only, in one read transaction, and check that it has
 * every table and column that the viewer reads. Before, look up the names of its call stacks, unless `no_symbols`.
 *
 * COMMAND_FINE; or COMMAND_WRONG after a message, and there is nothing to close.
 */
int trace_open(const char *path, bool no_symbols, struct trace *out);

/* Open another program's SQLite file, without the check of tables and columns; use trace_has. */
int trace_open_other(const char *path, struct trace *out);

void trace_close(struct trace *trace);

/*
 * Whether only the ring file of a trace is there, which is of no use alone: the trace has the layers and all that was
 * written before. Says so, and what to do.
 */
bool trace_is_gone(const char *path);

/* After tide_trace_recover has failed: say why, and what takes in elsewhere what was left. `what` goes before that. */
void trace_not_recovered(const char *path, const char *what, enum tide_status status);

/* Whether the trace has an ordinary table `table` with `columns` ("a b"); for tables that older recorders lack. */
bool trace_has(const struct trace *trace, const char *table, const char *columns);

/*
 * COMMAND_FINE if the recording is complete and has lost no events; otherwise COMMAND_INCOMPLETE after a message. Also
 * lists the tables and columns that the viewer does not know.
 */
int trace_verdict(const struct trace *trace);

/* Print SQLite's last error on this trace. Returns COMMAND_WRONG. */
int trace_failed(const struct trace *trace);

/* Print what is wrong with the trace. Returns COMMAND_WRONG. */
int trace_broken(const struct trace *trace, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Takes one row of a query. Returns COMMAND_FINE, or another status after a message, which ends the query. */
typedef int trace_row(void *context, const struct trace *trace, sqlite3_stmt *row);

/*
 * Run the query `format` and pass each row to `row`. `format` and its arguments are as for sqlite3_mprintf, where %Q
 * quotes a text. COMMAND_FINE, or another status after a message.
 */
int trace_each(const struct trace *trace, trace_row *row, void *context, const char *format, ...);

/*
 * The first column of the first row of the query `format` as an integer. SQLITE_ROW; SQLITE_DONE if there is no row, or
 * an error code, without a message: *out is then 0.
 */
int trace_look_up(const struct trace *trace, int64_t *out, const char *format, ...);

/* The first column of the first row of `sql` as an integer; 0: there is no row. COMMAND_FINE or COMMAND_WRONG. */
int trace_integer(const struct trace *trace, const char *sql, int64_t *out);

/* Whether the trace has everything: "complete", "in progress", "incomplete", and "cut off" where its end is missing. */
const char *trace_state_word(const struct trace *trace);

/* Why the trace is incomplete, as the recorder says; NULL: it does not. The caller frees it. */
char *trace_failure(const struct trace *trace);

/* How the recording ended: "closed", "killed", "running", "imported". */
const char *trace_end_word(const struct trace *trace);

/* Whether what is live at the end may have been in use: the recording ended before its program, or goes on. */
bool trace_is_cut(const struct trace *trace);

/* What stands at the end of the trace: "live at the end", "live when it was killed", "live so far". */
const char *trace_live_words(const struct trace *trace);

/* A text of `meta`, which the caller frees; NULL: there is none. */
char *trace_meta(const struct trace *trace, const char *key);

#endif
