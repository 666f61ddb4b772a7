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

#include "viewer/base/id-map.h"
#include "viewer/read/layer-kinds.h"

/* A record has 16 bits for the number of its layer. A file with more layers is refused. */
#define TRACE_LAYERS_MAX   65535
#define TRACE_LAYERS_WORDS ((TRACE_LAYERS_MAX + 63) / 64)

/* The most layers on one way down. A file with a longer way is refused: walks are recursive. */
#define TRACE_LAYERS_DEPTH 4096

/* No layer. */
#define TRACE_LAYERS_NONE SIZE_MAX

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
    size_t first_above;             /* the edges that lead to it, in trace_layers.above */
    size_t above_count;
    bool visited; /* used while the layers are sorted, as has_above */
    bool has_above;
};

/* A set of layers: a bit for each, by its index in trace_layers.layers. 8 KiB: one, but not one for each layer. */
struct trace_layer_set {
    uint64_t bits[TRACE_LAYERS_WORDS];
};

/* Layers that follow each other, from index `begin` up to `end`, which is not of them. */
struct trace_layer_span {
    uint32_t begin;
    uint32_t end;
};

/*
 * A set of layers for each layer, such as those below it. The order of the layers puts most of what is below a layer
 * directly behind it. So a set is a few spans, where bits for each of 65,535 layers would take 512 MiB.
 */
struct trace_layer_sets {
    struct trace_layer_places {
        size_t first; /* in `spans` */
        size_t count;
    } * of;                         /* owns; by the index of the layer */
    struct trace_layer_span *spans; /* owns; in ascending order within a set */
    size_t count, capacity;
    size_t added; /* spans in all, before those that touch were joined */
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
    size_t count, capacity;
    struct trace_edge *edges; /* owns; in the order of `from` */
    size_t edge_count, edge_capacity;
    bool has_bins;
    size_t *above;                     /* owns; the edges (indices), in the order of `to` */
    struct trace_layer_sets below;     /* for each layer: itself and all layers below it */
    struct trace_layer_sets next_logs; /* for each layer: the logs below it with no log between, on some path */
    struct id_map by_id;               /* to the index */
};

/* NULL if there is no such layer. */
const struct trace_layer *trace_layers_find(const struct trace_layers *layers, int64_t layer_id);

/* Whether a layer is in the set of the layer at index `of`, by its index. */
bool trace_layer_sets_has(const struct trace_layer_sets *sets, size_t of, size_t layer);

/* The first layer of that set from index `from` on; TRACE_LAYERS_NONE: there is none. */
size_t trace_layer_sets_next(const struct trace_layer_sets *sets, size_t of, size_t from);

/* For each `layer` (a new variable) of the set of the layer at index `of`, in ascending order. */
#define TRACE_LAYER_SETS_EACH(layer, sets, of)                                                                         \
    for (size_t layer = trace_layer_sets_next((sets), (of), 0); layer != TRACE_LAYERS_NONE;                            \
         layer = trace_layer_sets_next((sets), (of), layer + 1))

/* Add the set of the layer at index `of` to another one. */
void trace_layer_sets_add_to(const struct trace_layer_sets *sets, size_t of, struct trace_layer_set *out);

void trace_layer_sets_free(struct trace_layer_sets *sets);

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

/* From the edges, which are in the order of `from`, find which layer is below which. false: no memory, or too many. */
bool layer_graph_relate(struct trace_layers *layers);

/*
 * For each layer, by its index, the layers of `some` below it with none of `some` between, on some path; and in `open`
 * the layers from which a path leads to a base past all of `some`, and the bases. Not valid in a circle. false: no
 * memory, or too many; the caller frees `next` in any case.
 */
bool layer_graph_next(const struct trace_layers *layers, const struct trace_layer_set *some,
                      struct trace_layer_sets *next, struct trace_layer_set *open);

/* The layers that have another layer, one of `some`, above. */
void layer_graph_inner(const struct trace_layers *layers, const struct trace_layer_set *some,
                       struct trace_layer_set *out);

/* The logs, and those of them that have another log above. */
void layer_graph_logs(const struct trace_layers *layers, struct trace_layer_set *logs, struct trace_layer_set *inner);

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
    unsigned depth;
    struct trace_layer_set visited[2];
};

/* Walk on below `from`, the smallest bin first and its upstream last. A circle, as in a broken file, ends. */
void layer_walk_below(struct layer_walk *walk, size_t from, int state);

#endif
