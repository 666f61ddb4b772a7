/* What of a trace's schema is believed: ordinary tables with the columns that are read. */
#ifndef VIEWER_READ_TRACE_SCHEMA_H
#define VIEWER_READ_TRACE_SCHEMA_H

#include "viewer/read/trace.h"

/* COMMAND_FINE where it is a trace of a known format, with all that is read; or COMMAND_WRONG after a message. */
int trace_check_schema(const struct trace *trace);

/* Whether the trace has an ordinary table of that name with these columns ("a b"), which older recorders lack. */
bool trace_has(const struct trace *trace, const char *table, const char *columns);

#endif
