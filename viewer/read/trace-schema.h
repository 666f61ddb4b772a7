/* Checks a trace's schema: only ordinary tables (no views) with the columns that are read are accepted. */
#ifndef VIEWER_READ_TRACE_SCHEMA_H
#define VIEWER_READ_TRACE_SCHEMA_H

#include "viewer/read/trace.h"

/* COMMAND_FINE if it is a trace of a known format with all that the viewer reads; or COMMAND_WRONG after a message. */
int trace_check_schema(const struct trace *trace);

/* Whether the trace has an ordinary table `table` with `columns` ("a b"); for tables that older recorders lack. */
bool trace_has(const struct trace *trace, const char *table, const char *columns);

#endif
