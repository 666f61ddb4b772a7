/*
 * The layers of a trace as a graph: which layer hands requests to which, and through which bin.
 *
 * viewer/read/trace-layers.h reads it, from the top of each stack down.
 */
#ifndef VIEWER_READ_LAYER_GRAPH_H
#define VIEWER_READ_LAYER_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/layer-kinds.h"

/* More layers than any program has. A file with more is refused. */
#define TRACE_LAYERS_MAX   1024
#define TRACE_LAYERS_WORDS (TRACE_LAYERS_MAX / 64)

struct trace_layer {
    int64_t layer_id;
    int64_t upstream_layer_id;      /* 0 for a base */
    char *kind;                     /* owns */
    char *config;                   /* owns */
    const struct layer_kind *known; /* what its kind does */
    int64_t device;                 /* CUDA's ordinal; -1: on none, or not recorded */
    unsigned depth;                 /* the number of layers above it, on the longest path */
    size_t first_edge;              /* its edges are consecutive: to its upstream, then to its bins, largest first */
    size_t edge_count;              /* 0: a base */
    bool visited;                   /* used while the layers are sorted */
};

/* A set of layers: a bit for each, by its index in trace_layers.layers. */
struct trace_layer_set {
    uint64_t bits[TRACE_LAYERS_WORDS];
};

/* From a layer to a layer directly below it: its upstream or a bin. Indices in trace_layers.layers. */
struct trace_edge {
    size_t from;
    size_t to;
    bool is_bin;
    uint64_t limit_bytes; /* of a bin: the largest request that goes there */
};

/* Outermost first: a layer comes before all layers below it, and stacks follow each other. */
struct trace_layers {
    struct trace_layer *layers; /* owns */
    size_t count;
    struct trace_edge *edges; /* owns; in the order of `from` */
    size_t edge_count;
    bool has_bins;
    struct trace_layer_set *below;     /* owns; for each layer: itself and all layers below it */
    struct trace_layer_set *next_logs; /* owns; for each layer: the logs below it with no log between, on some path */
};

/* NULL if there is no such layer. */
const struct trace_layer *trace_layers_find(const struct trace_layers *layers, int64_t layer_id);

/* Whether `below` is `layer` itself or any layer below it. */
bool trace_layers_reaches(const struct trace_layers *layers, int64_t layer, int64_t below);

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

static inline bool
trace_layer_is_log(const struct trace_layer *layer)
{
    return layer->known->role == LAYER_RECORDS;
}

/* Whether no layer is below it, of whatever kind it is. */
static inline bool
trace_layer_is_base(const struct trace_layer *layer)
{
    return layer->edge_count == 0;
}

/* From the edges, which are in the order of `from`, find which layer is below which. false: no memory. */
bool layer_graph_relate(struct trace_layers *layers);

/*
 * For each layer, by its index, the layers of `some` below it with none of `some` between, on some path; and in `open`
 * the layers from which a path leads to a base past all of `some`, and the bases. Not valid in a circle.
 */
void layer_graph_next(const struct trace_layers *layers, const struct trace_layer_set *some,
                      struct trace_layer_set *next, struct trace_layer_set *open);

/* The way of a walk ends at this layer. */
#define LAYER_WALK_ENDS (-1)

/*
 * A walk down. `each` is called for each layer that it reaches, once in each of two states, which mean what the caller
 * wants. It returns the state in which the layers directly below that one are reached, or LAYER_WALK_ENDS.
 */
struct layer_walk {
    const struct trace_layers *layers; /* borrows */
    int (*each)(void *context, size_t layer, int state);
    void *context;
    struct trace_layer_set visited[2];
};

/* Walk on below `from`, the smallest bin first and its upstream last. A circle, as in a broken file, ends. */
void layer_walk_below(struct layer_walk *walk, size_t from, int state);

#endif
