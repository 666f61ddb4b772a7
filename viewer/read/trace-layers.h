/* The layers of a trace, ordered from the top of each stack down. */
#ifndef VIEWER_READ_TRACE_LAYERS_H
#define VIEWER_READ_TRACE_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/trace.h"

/* More layers than any program has. A file with more is refused. */
#define TRACE_LAYERS_MAX   1024
#define TRACE_LAYERS_WORDS (TRACE_LAYERS_MAX / 64)

struct trace_layer {
    int64_t layer_id;
    int64_t upstream_layer_id; /* 0 for a base */
    char *kind;                /* owns */
    char *config;              /* owns */
    int64_t device;            /* CUDA's ordinal; -1: on none, or not recorded */
    unsigned depth;            /* the number of layers above it, on the longest path */
    bool visited;              /* used while the layers are sorted */
};

/* A set of layers: a bit for each, by its index in trace_layers.layers. */
struct trace_layer_set {
    uint64_t bits[TRACE_LAYERS_WORDS];
};

/* From a layer to a layer directly below it: its upstream or a bin. Indices in trace_layers.layers. */
struct trace_edge {
    size_t from;
    size_t to;
};

/* Outermost first: a layer comes before all layers below it, and stacks follow each other. */
struct trace_layers {
    struct trace_layer *layers; /* owns */
    size_t count;
    struct trace_edge *edges; /* owns; in the order of `from` */
    size_t edge_count;
    struct trace_layer_set *below;     /* owns; for each layer: itself and all layers below it */
    struct trace_layer_set *next_logs; /* owns; for each layer: the logs below it with no log between, on some path */
};

/* Read the layers. COMMAND_FINE, or COMMAND_WRONG after a message and there is nothing to free. */
int trace_layers_read(const struct trace *trace, struct trace_layers *out);

void trace_layers_free(struct trace_layers *layers);

/* NULL if there is no such layer. */
const struct trace_layer *trace_layers_find(const struct trace_layers *layers, int64_t layer_id);

/* Whether `below` is `layer` itself or any layer below it. */
bool trace_layers_reaches(const struct trace_layers *layers, int64_t layer, int64_t below);

/* Whether no layer is below it. */
bool trace_layers_is_base(const struct trace_layers *layers, int64_t layer);

/* Whether a layer is in the set, by its index. */
static inline bool
trace_layer_set_has(const struct trace_layer_set *set, size_t layer)
{
    return set->bits[layer / 64] >> layer % 64 & 1;
}

static inline void
trace_layer_set_add(struct trace_layer_set *set, size_t layer)
{
    set->bits[layer / 64] |= UINT64_C(1) << layer % 64;
}

/* Whether the log `below` is below `above` and there is a path between them without another log. */
bool trace_layers_is_next_log(const struct trace_layers *layers, const struct trace_layer *above,
                              const struct trace_layer *below);

#endif
