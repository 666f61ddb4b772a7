/* The layers of a trace as a graph. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "viewer/read/layer-graph.h"

/* The most spans that are added to all sets: 128 MiB. A trace of 65,535 layers in stacks has four for each. */
#define GRAPH_SPANS_MAX ((size_t)1 << 24)

const struct trace_layer *
trace_layers_find(const struct trace_layers *layers, int64_t layer_id)
{
    const uint32_t *found = id_map_find(&layers->by_id, (uint64_t)layer_id);

    return found != NULL ? &layers->layers[*found] : NULL;
}

/* The first span of a set that ends behind `layer`; its count: there is none. */
static size_t
sets_seek(const struct trace_layer_span *spans, size_t count, size_t layer)
{
    size_t low = 0;

    while (count > 0) {
        size_t half = count / 2;

        if (spans[low + half].end <= layer) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

size_t
trace_layer_sets_next(const struct trace_layer_sets *sets, size_t of, size_t from)
{
    const struct trace_layer_places *places = &sets->of[of];
    const struct trace_layer_span *spans = sets->spans != NULL ? sets->spans + places->first : NULL;
    size_t at;

    if (places->count == 0)
        return TRACE_LAYERS_NONE;
    at = sets_seek(spans, places->count, from);
    if (at == places->count)
        return TRACE_LAYERS_NONE;
    return spans[at].begin > from ? spans[at].begin : from;
}

bool
trace_layer_sets_has(const struct trace_layer_sets *sets, size_t of, size_t layer)
{
    return trace_layer_sets_next(sets, of, layer) == layer;
}

void
trace_layer_sets_add_to(const struct trace_layer_sets *sets, size_t of, struct trace_layer_set *out)
{
    const struct trace_layer_places places = sets->of[of];

    for (size_t i = 0; i < places.count; i++) {
        struct trace_layer_span span = sets->spans[places.first + i];

        for (size_t layer = span.begin; layer < span.end;) {
            if (layer % 64 == 0 && span.end - layer >= 64) {
                out->bits[layer / 64] = UINT64_MAX;
                layer += 64;
            } else {
                trace_layer_set_add(out, layer++);
            }
        }
    }
}

void
trace_layer_sets_free(struct trace_layer_sets *sets)
{
    free(sets->of);
    free(sets->spans);
    *sets = (struct trace_layer_sets){ .of = NULL };
}

/* Begin the set of a layer, behind those of all others. */
static void
sets_begin(struct trace_layer_sets *sets, size_t of)
{
    sets->of[of] = (struct trace_layer_places){ .first = sets->count };
}

/* Add a span to the set that was begun last, which may have it. false: no memory, or too many. */
static bool
sets_add(struct trace_layer_sets *sets, size_t begin, size_t end)
{
    if (sets->added++ == GRAPH_SPANS_MAX || !tidei_grow(&sets->spans, &sets->capacity, sets->count, 1))
        return false;
    sets->spans[sets->count++] = (struct trace_layer_span){ (uint32_t)begin, (uint32_t)end };
    return true;
}

/* Add all layers of another set. */
static bool
sets_add_all(struct trace_layer_sets *sets, size_t other)
{
    const struct trace_layer_places places = sets->of[other];

    for (size_t i = 0; i < places.count; i++) {
        struct trace_layer_span span = sets->spans[places.first + i];

        if (!sets_add(sets, span.begin, span.end))
            return false;
    }
    return true;
}

static int
sets_compare(const void *a, const void *b)
{
    const struct trace_layer_span *one = a;
    const struct trace_layer_span *other = b;

    return (one->begin > other->begin) - (one->begin < other->begin);
}

/* The set that was begun last is complete: put it in order, and join what touches or overlaps. */
static void
sets_end(struct trace_layer_sets *sets, size_t of)
{
    struct trace_layer_places *places = &sets->of[of];
    struct trace_layer_span *spans = sets->spans != NULL ? sets->spans + places->first : NULL;
    size_t count = sets->count - places->first, kept = 0;

    if (count > 1)
        qsort(spans, count, sizeof(*spans), sets_compare);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || spans[i].begin > spans[kept - 1].end)
            spans[kept++] = spans[i];
        else if (spans[i].end > spans[kept - 1].end)
            spans[kept - 1].end = spans[i].end;
    }
    places->count = kept;
    sets->count = places->first + kept;
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

/* The edges in the order of `to`: where those of each layer begin, and then each at the next place of its layer. */
static bool
graph_find_above(struct trace_layers *layers)
{
    size_t first = 0;

    layers->above = calloc(layers->edge_count + 1, sizeof(*layers->above));
    if (layers->above == NULL)
        return false;
    for (size_t i = 0; i < layers->edge_count; i++)
        layers->layers[layers->edges[i].to].above_count++;
    for (size_t i = 0; i < layers->count; i++) {
        layers->layers[i].first_above = first;
        first += layers->layers[i].above_count;
        layers->layers[i].above_count = 0;
    }
    for (size_t i = 0; i < layers->edge_count; i++) {
        struct trace_layer *to = &layers->layers[layers->edges[i].to];

        layers->above[to->first_above + to->above_count++] = i;
    }
    return true;
}

static bool
graph_find_ids(struct trace_layers *layers)
{
    for (size_t i = 0; i < layers->count; i++) {
        uint64_t id = (uint64_t)layers->layers[i].layer_id;

        if (id_map_find(&layers->by_id, id) == NULL && !id_map_add(&layers->by_id, id, (uint32_t)i))
            return false;
    }
    return true;
}

/* Layers come before those below them, so one backward pass covers every path. In a circle it leaves out some. */
static bool
graph_find_below(struct trace_layers *layers)
{
    struct trace_layer_sets *below = &layers->below;
    bool fits = true;

    for (size_t i = layers->count; i-- > 0 && fits;) {
        const struct trace_layer *layer = &layers->layers[i];

        sets_begin(below, i);
        fits = sets_add(below, i, i + 1);
        for (size_t edge = layer->first_edge; fits && edge < layer->first_edge + layer->edge_count; edge++) {
            size_t to = layers->edges[edge].to;

            fits = to > i ? sets_add_all(below, to) : sets_add(below, to, to + 1);
        }
        sets_end(below, i);
    }
    return fits;
}

/* As above, one backward pass covers every path. A layer of `some` in a bin hides none that other bins reach. */
bool
layer_graph_next(const struct trace_layers *layers, const struct trace_layer_set *some, struct trace_layer_sets *next,
                 struct trace_layer_set *open)
{
    bool fits = true;

    *open = (struct trace_layer_set){ { 0 } };
    *next = (struct trace_layer_sets){ .of = calloc(layers->count + 1, sizeof(*next->of)) };
    if (next->of == NULL)
        return false;
    for (size_t i = 0; i < layers->count; i++) {
        if (trace_layer_is_base(&layers->layers[i]))
            trace_layer_set_add(open, i);
    }
    for (size_t i = layers->count; i-- > 0 && fits;) {
        const struct trace_layer *layer = &layers->layers[i];

        sets_begin(next, i);
        for (size_t edge = layer->first_edge + layer->edge_count; fits && edge-- > layer->first_edge;) {
            size_t to = layers->edges[edge].to;

            if (trace_layer_set_has(some, to))
                fits = sets_add(next, to, to + 1);
            else if (to > i)
                fits = sets_add_all(next, to);
            if (!trace_layer_set_has(some, to) && trace_layer_set_has(open, to))
                trace_layer_set_add(open, i);
        }
        sets_end(next, i);
    }
    return fits;
}

void
layer_graph_inner(const struct trace_layers *layers, const struct trace_layer_set *some, struct trace_layer_set *out)
{
    *out = (struct trace_layer_set){ { 0 } };
    for (size_t i = 0; i < layers->count; i++) {
        bool has_above = trace_layer_set_has(out, i);

        if (!trace_layer_set_has(some, i))
            continue;
        trace_layer_sets_add_to(&layers->below, i, out);
        if (!has_above) /* so far only itself */
            out->bits[i / 64] &= ~(UINT64_C(1) << i % 64);
    }
}

void
layer_graph_logs(const struct trace_layers *layers, struct trace_layer_set *logs, struct trace_layer_set *inner)
{
    *logs = (struct trace_layer_set){ { 0 } };
    for (size_t i = 0; i < layers->count; i++) {
        if (trace_layer_is_log(&layers->layers[i]))
            trace_layer_set_add(logs, i);
    }
    layer_graph_inner(layers, logs, inner);
}

static bool
graph_find_next_logs(struct trace_layers *layers)
{
    struct trace_layer_set logs = { { 0 } }, open;

    for (size_t i = 0; i < layers->count; i++) {
        if (trace_layer_is_log(&layers->layers[i]))
            trace_layer_set_add(&logs, i);
    }
    return layer_graph_next(layers, &logs, &layers->next_logs, &open);
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

/* Compute which layer is below which once: commands ask it for each pair of a stack. */
bool
layer_graph_relate(struct trace_layers *layers)
{
    layers->below.of = calloc(layers->count + 1, sizeof(*layers->below.of));
    if (layers->below.of == NULL || !graph_find_ids(layers) || !graph_find_above(layers))
        return false;
    graph_find_edges(layers);
    graph_find_depths(layers);
    return graph_find_below(layers) && graph_find_next_logs(layers);
}

void
layer_walk_below(struct layer_walk *walk, size_t from, int state)
{
    const struct trace_layer *above = &walk->layers->layers[from];

    /* Only in a circle is a way longer than trace_layers_read takes, by state. */
    if (walk->depth == 2 * TRACE_LAYERS_DEPTH)
        return;
    walk->depth++;
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
    walk->depth--;
}
