/* What of a trace's schema is believed: ordinary tables with the columns that are read. */
#ifndef VIEWER_READ_TRACE_SCHEMA_H
#define VIEWER_READ_TRACE_SCHEMA_H

#include "viewer/read/trace-open.h"

/* COMMAND_FINE where it is a trace of a known format, with all that is read; or COMMAND_WRONG after a message. */
int trace_check_schema(const struct trace *trace);

#endif
