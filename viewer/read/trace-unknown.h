/* What a trace has beyond format 1 as it is known here: a later recorder adds tables and columns, and so do people. */
#ifndef VIEWER_READ_TRACE_UNKNOWN_H
#define VIEWER_READ_TRACE_UNKNOWN_H

#include "viewer/read/trace.h"

/* Say on standard error which tables and columns nothing here looks at; nothing where there are none. */
void trace_say_unknown(const struct trace *trace);

#endif
