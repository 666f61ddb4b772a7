/* Opens a trace for reading, whoever wrote it. */
#ifndef VIEWER_READ_TRACE_OPEN_H
#define VIEWER_READ_TRACE_OPEN_H

#include "viewer/read/trace-schema.h"
#include "viewer/read/trace.h"

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

#endif
