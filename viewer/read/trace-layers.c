/* Reads the layers of a trace, and puts them in order. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/trace-layers.h"

/* Each layer has one upstream, and as many bins again. A file with more is refused. */
#define TRACE_EDGES_MAX (2 * TRACE_LAYERS_MAX)

static int
layers_too_many(const struct trace *trace)
{
    return trace_broken(trace, "more layers than can be taken in (%d)", TRACE_LAYERS_MAX);
}

static char *
layers_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);

    return strdup(text != NULL ? text : "");
}

static int
layers_add(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct trace_layers *layers = context;
    struct trace_layer *layer;

    if (layers->count == TRACE_LAYERS_MAX)
        return layers_too_many(trace);
    if (!tidei_grow(&layers->layers, &layers->capacity, layers->count, 1))
        return trace_broken(trace, "no memory for its layers");
    layer = &layers->layers[layers->count];
    *layer = (struct trace_layer){
        .layer_id = sqlite3_column_int64(row, 0),
        .upstream_layer_id = sqlite3_column_int64(row, 1),
        .kind = layers_text(row, 2),
        .config = layers_text(row, 3),
        .device = sqlite3_column_type(row, 4) == SQLITE_INTEGER ? sqlite3_column_int64(row, 4) : -1,
    };
    layers->count++;
    if (layer->kind == NULL || layer->config == NULL)
        return trace_broken(trace, "no memory for its layers");
    layer->known = layer_kind_find(layer->kind, layer->config);
    if (id_map_find(&layers->by_id, (uint64_t)layer->layer_id) == NULL &&
        !id_map_add(&layers->by_id, (uint64_t)layer->layer_id, (uint32_t)(layers->count - 1)))
        return trace_broken(trace, "no memory for its layers");
    return COMMAND_FINE;
}

/* An edge that leads nowhere is left out. */
static int
layers_add_edge(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct trace_layers *layers = context;
    const struct trace_layer *from = trace_layers_find(layers, sqlite3_column_int64(row, 0));
    const struct trace_layer *to = trace_layers_find(layers, sqlite3_column_int64(row, 1));

    if (layers->edge_count == TRACE_EDGES_MAX)
        return layers_too_many(trace);
    if (!tidei_grow(&layers->edges, &layers->edge_capacity, layers->edge_count, 1))
        return trace_broken(trace, "no memory for its layers");
    if (from != NULL && to != NULL)
        layers->edges[layers->edge_count++] = (struct trace_edge){
            .from = (size_t)(from - layers->layers),
            .to = (size_t)(to - layers->layers),
            .is_bin = sqlite3_column_type(row, 2) != SQLITE_NULL,
            .limit_bytes = (uint64_t)sqlite3_column_int64(row, 2),
        };
    return COMMAND_FINE;
}

static int
layers_compare_edges(const void *a, const void *b)
{
    const struct trace_edge *one = a;
    const struct trace_edge *other = b;

    if (one->from != other->from || one->is_bin != other->is_bin)
        return one->from != other->from ? (one->from < other->from ? -1 : 1) : one->is_bin ? 1 : -1;
    return one->limit_bytes > other->limit_bytes ? -1 : one->limit_bytes < other->limit_bytes;
}

static void
layers_sort_edges(struct trace_layers *layers)
{
    if (layers->edge_count != 0) /* else there is no list */
        qsort(layers->edges, layers->edge_count, sizeof(layers->edges[0]), layers_compare_edges);
}

/* What the sort knows of the layers, by their places before it. */
struct layers_order {
    struct trace_layers *layers;
    size_t *edges; /* owns; the first edge of each, and one more */
    size_t *order; /* owns; the layers in their order, from `first` on */
    size_t first;
    bool is_deep; /* a way down is longer than walks can be */
};

/* Put the unvisited layers below `at`, then `at` itself, in front of those in order. */
static void
order_visit(struct layers_order *order, size_t at, size_t depth)
{
    struct trace_layers *layers = order->layers;

    order->is_deep = order->is_deep || depth > TRACE_LAYERS_DEPTH;
    if (order->is_deep)
        return;
    layers->layers[at].visited = true;
    for (size_t i = order->edges[at]; i < order->edges[at + 1]; i++) {
        if (!layers->layers[layers->edges[i].to].visited)
            order_visit(order, layers->edges[i].to, depth + 1);
    }
    order->order[--order->first] = at;
}

/* Visit all layers, from the last one to the first; those with a layer above only where they lie in a circle. */
static void
order_visit_all(struct layers_order *order)
{
    struct trace_layers *layers = order->layers;

    for (size_t i = 0; i < layers->edge_count; i++)
        layers->layers[layers->edges[i].to].has_above = true;
    for (size_t i = layers->count; i-- > 0 && !order->is_deep;) {
        if (!layers->layers[i].has_above)
            order_visit(order, i, 1);
    }
    for (size_t i = layers->count; i-- > 0 && !order->is_deep;) {
        if (!layers->layers[i].visited)
            order_visit(order, i, 1);
    }
}

/* Put the layers into their order, in `sorted`; the place of each is then in order->edges. */
static void
order_apply(struct layers_order *order, struct trace_layer *sorted)
{
    struct trace_layers *layers = order->layers;
    size_t *place = order->edges;

    for (size_t i = 0; i < layers->count; i++) {
        sorted[i] = layers->layers[order->order[i]];
        place[order->order[i]] = i;
    }
    free(layers->layers);
    layers->layers = sorted;
    for (size_t i = 0; i < layers->edge_count; i++) {
        layers->edges[i].from = place[layers->edges[i].from];
        layers->edges[i].to = place[layers->edges[i].to];
    }
    layers_sort_edges(layers);
}

/* Sort topologically, from the last layer to the first. Layers in a circle, as in a broken file, come first. */
static int
layers_sort(const struct trace *trace, struct trace_layers *layers)
{
    struct layers_order order = { .layers = layers,
                                  .edges = calloc(layers->count + 1, sizeof(*order.edges)),
                                  .order = calloc(layers->count + 1, sizeof(*order.order)),
                                  .first = layers->count };
    struct trace_layer *sorted = calloc(layers->count + 1, sizeof(*sorted));
    int status = COMMAND_FINE;

    if (order.edges == NULL || order.order == NULL || sorted == NULL)
        status = trace_broken(trace, "no memory for its layers");
    if (status == COMMAND_FINE) {
        layers_sort_edges(layers);
        for (size_t i = 0; i < layers->edge_count; i++)
            order.edges[layers->edges[i].from + 1] = i + 1;
        for (size_t i = 0; i < layers->count; i++) {
            if (order.edges[i + 1] < order.edges[i]) /* it has none */
                order.edges[i + 1] = order.edges[i];
        }
        order_visit_all(&order);
        if (order.is_deep)
            status = trace_broken(trace, "more layers on one way down than can be taken in (%d)", TRACE_LAYERS_DEPTH);
    }
    if (status == COMMAND_FINE)
        order_apply(&order, sorted);
    else
        free(sorted);
    free(order.edges);
    free(order.order);
    return status;
}

/* Find what is below what. */
static int
layers_relate(const struct trace *trace, struct trace_layers *layers)
{
    id_map_free(&layers->by_id);
    layers->by_id = (struct id_map){ .entries = NULL };
    if (!layer_graph_relate(layers))
        return trace_broken(trace, "no memory for its layers, or more ways between them than can be taken in");
    for (size_t i = 0; i < layers->count; i++) {
        if (layers->layers[i].depth >= TRACE_LAYERS_DEPTH)
            return trace_broken(trace, "more layers on one way down than can be taken in (%d)", TRACE_LAYERS_DEPTH);
    }
    return COMMAND_FINE;
}

int
trace_layers_read(const struct trace *trace, struct trace_layers *out)
{
    int status;

    memset(out, 0, sizeof(*out));
    status = trace_each(trace, layers_add, out,
                        "SELECT layer_id, upstream_layer_id, kind, config, %s FROM layer ORDER BY layer_id",
                        trace_has(trace, "layer", "device") ? "device" : "NULL");
    if (status == COMMAND_FINE)
        status = trace_each(trace, layers_add_edge, out,
                            "SELECT layer_id, upstream_layer_id, NULL FROM layer WHERE upstream_layer_id IS NOT NULL");
    if (status == COMMAND_FINE)
        status = trace_each(trace, layers_add_edge, out,
                            "SELECT layer_id, upstream_layer_id, ifnull(limit_bytes, 0) FROM layer_bin"
                            " ORDER BY layer_id, limit_bytes DESC");
    if (status == COMMAND_FINE)
        status = layers_sort(trace, out);
    if (status == COMMAND_FINE)
        status = layers_relate(trace, out);
    if (status != COMMAND_FINE)
        trace_layers_free(out);
    return status;
}

void
trace_layers_free(struct trace_layers *layers)
{
    for (size_t i = 0; i < layers->count; i++) {
        free(layers->layers[i].kind);
        free(layers->layers[i].config);
    }
    free(layers->layers);
    free(layers->edges);
    free(layers->above);
    trace_layer_sets_free(&layers->below);
    trace_layer_sets_free(&layers->next_logs);
    id_map_free(&layers->by_id);
    memset(layers, 0, sizeof(*layers));
}
