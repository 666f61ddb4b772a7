/* Opens a trace for reading. The file may come from anyone and is not trusted. */
#ifndef VIEWER_READ_TRACE_OPEN_H
#define VIEWER_READ_TRACE_OPEN_H

#include "viewer/read/trace-schema.h"
#include "viewer/read/trace.h"

/*
 * Open the trace at `path` (borrowed until trace_close) read-only, in one read transaction, and check that it has
 * every table and column that the viewer reads.
 *
 * COMMAND_FINE; or COMMAND_WRONG after a message, and there is nothing to close.
 */
int trace_open(const char *path, struct trace *out);

/* Open another program's SQLite file, without the check of tables and columns; use trace_has. */
int trace_open_other(const char *path, struct trace *out);

void trace_close(struct trace *trace);

/*
 * COMMAND_FINE if the recording is complete and has lost no events; otherwise COMMAND_INCOMPLETE after a message. Also
 * lists the tables and columns that the viewer does not know.
 */
int trace_verdict(const struct trace *trace);

#endif
