/* Reports tables and columns of a trace that the viewer does not know. Later recorders and users may add such. */
#ifndef VIEWER_READ_TRACE_UNKNOWN_H
#define VIEWER_READ_TRACE_UNKNOWN_H

#include "viewer/read/trace.h"

/* List unknown tables and columns on standard error, if there are any. */
void trace_say_unknown(const struct trace *trace);

#endif
