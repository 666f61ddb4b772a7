/* Reads the layers of a trace, and puts them in order from the top of each stack down. */
#ifndef VIEWER_READ_TRACE_LAYERS_H
#define VIEWER_READ_TRACE_LAYERS_H

#include "viewer/read/layer-graph.h"
#include "viewer/read/trace.h"

/* Read the layers. COMMAND_FINE, or COMMAND_WRONG after a message and there is nothing to free. */
int trace_layers_read(const struct trace *trace, struct trace_layers *out);

void trace_layers_free(struct trace_layers *layers);

#endif
