/* The layers of a trace as a graph. */
#include "config.h"

#include <stdlib.h>

#include "viewer/read/layer-graph.h"

const struct trace_layer *
trace_layers_find(const struct trace_layers *layers, int64_t layer_id)
{
    for (size_t i = 0; i < layers->count; i++) {
        if (layers->layers[i].layer_id == layer_id)
            return &layers->layers[i];
    }
    return NULL;
}

bool
trace_layers_reaches(const struct trace_layers *layers, int64_t layer, int64_t below)
{
    const struct trace_layer *from = trace_layers_find(layers, layer);
    const struct trace_layer *to = trace_layers_find(layers, below);

    return from != NULL && to != NULL &&
           trace_layer_set_has(&layers->below[from - layers->layers], (size_t)(to - layers->layers));
}

static void
graph_find_edges(struct trace_layers *layers)
{
    for (size_t i = layers->edge_count; i-- > 0;) {
        struct trace_layer *from = &layers->layers[layers->edges[i].from];

        from->first_edge = i;
        from->edge_count++;
        layers->has_bins = layers->has_bins || layers->edges[i].is_bin;
    }
}

/* Edges are sorted by their upper layer, from the top down, so one backward pass covers every path. */
static void
graph_find_below(struct trace_layers *layers)
{
    for (size_t i = 0; i < layers->count; i++)
        trace_layer_set_add(&layers->below[i], i);
    for (size_t i = layers->edge_count; i-- > 0;) {
        const struct trace_edge *edge = &layers->edges[i];

        for (size_t word = 0; word < TRACE_LAYERS_WORDS; word++)
            layers->below[edge->from].bits[word] |= layers->below[edge->to].bits[word];
    }
}

/* As above, one backward pass covers every path. A layer of `some` in a bin hides none that other bins reach. */
void
layer_graph_next(const struct trace_layers *layers, const struct trace_layer_set *some, struct trace_layer_set *next,
                 struct trace_layer_set *open)
{
    *open = (struct trace_layer_set){ { 0 } };
    for (size_t i = 0; i < layers->count; i++) {
        next[i] = (struct trace_layer_set){ { 0 } };
        if (trace_layer_is_base(&layers->layers[i]))
            trace_layer_set_add(open, i);
    }
    for (size_t i = layers->edge_count; i-- > 0;) {
        const struct trace_edge *edge = &layers->edges[i];

        if (trace_layer_set_has(some, edge->to)) {
            trace_layer_set_add(&next[edge->from], edge->to);
            continue;
        }
        if (trace_layer_set_has(open, edge->to))
            trace_layer_set_add(open, edge->from);
        for (size_t word = 0; word < TRACE_LAYERS_WORDS; word++)
            next[edge->from].bits[word] |= next[edge->to].bits[word];
    }
}

static void
graph_find_next_logs(struct trace_layers *layers)
{
    struct trace_layer_set logs = { { 0 } }, open;

    for (size_t i = 0; i < layers->count; i++) {
        if (trace_layer_is_log(&layers->layers[i]))
            trace_layer_set_add(&logs, i);
    }
    layer_graph_next(layers, &logs, layers->next_logs, &open);
}

/* As above, one forward pass covers every path. The bound is reached only by layers in a circle. */
static void
graph_find_depths(struct trace_layers *layers)
{
    for (size_t i = 0; i < layers->edge_count; i++) {
        unsigned above = layers->layers[layers->edges[i].from].depth;
        struct trace_layer *below = &layers->layers[layers->edges[i].to];

        if (below->depth < above + 1 && above < TRACE_LAYERS_MAX)
            below->depth = above + 1;
    }
}

/* Compute which layer is below which once: for a file of a thousand layers, there are a million such queries. */
bool
layer_graph_relate(struct trace_layers *layers)
{
    layers->below = calloc(layers->count + 1, sizeof(*layers->below));
    layers->next_logs = calloc(layers->count + 1, sizeof(*layers->next_logs));
    if (layers->below == NULL || layers->next_logs == NULL)
        return false;
    graph_find_edges(layers);
    graph_find_below(layers);
    graph_find_next_logs(layers);
    graph_find_depths(layers);
    return true;
}

void
layer_walk_below(struct layer_walk *walk, size_t from, int state)
{
    const struct trace_layer *above = &walk->layers->layers[from];

    for (size_t i = above->edge_count; i-- > 0;) {
        size_t at = walk->layers->edges[above->first_edge + i].to;
        int next;

        if (trace_layer_set_has(&walk->visited[state], at))
            continue;
        trace_layer_set_add(&walk->visited[state], at);
        next = walk->each(walk->context, at, state);
        if (next != LAYER_WALK_ENDS)
            layer_walk_below(walk, at, next);
    }
}
