/* The layers of a trace, each stack from its top down. */
#ifndef VIEWER_READ_TRACE_LAYERS_H
#define VIEWER_READ_TRACE_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/trace-open.h"

struct trace_layer {
    int64_t layer_id;
    int64_t upstream_layer_id; /* 0 for a base */
    char *kind;                /* owns */
    char *config;              /* owns */
    bool visited;              /* while they are put in order */
};

/* From a layer to one below it, the upstream or a bin's: indices in trace_layers.layers. */
struct trace_edge {
    size_t from;
    size_t to;
};

/* Outermost first: a layer stands in front of all that are below it, and one stack in front of the next. */
struct trace_layers {
    struct trace_layer *layers; /* owns */
    size_t count;
    struct trace_edge *edges; /* owns; in the order of `from` */
    size_t edge_count;
    size_t words;        /* of one row of the next two */
    uint64_t *below;     /* owns; a row of bits for each layer: itself and all that are below it */
    uint64_t *next_logs; /* owns; for each log: the logs next under it */
};

/* Read the layers. COMMAND_FINE, or COMMAND_WRONG after a message and there is nothing to free. */
int trace_layers_read(const struct trace *trace, struct trace_layers *out);

void trace_layers_free(struct trace_layers *layers);

/* NULL where there is none. */
const struct trace_layer *trace_layers_find(const struct trace_layers *layers, int64_t layer_id);

/* Whether `below` is `layer` itself or somewhere below it. */
bool trace_layers_reaches(const struct trace_layers *layers, int64_t layer, int64_t below);

/* Whether `below` is the log next under the log `above`, with no other between. */
bool trace_layers_is_next_log(const struct trace_layers *layers, const struct trace_layer *above,
                              const struct trace_layer *below);

/* How many layers are above of the one at `place`, on the longest way. */
unsigned trace_layers_depth(const struct trace_layers *layers, size_t place);

#endif
