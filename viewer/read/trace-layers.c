/* Reads the layers of a trace, and puts them in order. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

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
    struct trace_layer *layer = &layers->layers[layers->count];

    if (layers->count == TRACE_LAYERS_MAX)
        return layers_too_many(trace);
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
    layer->known = layer_kind_find(layer->kind);
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
    if (from != NULL && to != NULL)
        layers->edges[layers->edge_count++] = (struct trace_edge){
            .from = (size_t)(from - layers->layers),
            .to = (size_t)(to - layers->layers),
            .is_bin = sqlite3_column_type(row, 2) != SQLITE_NULL,
            .limit_bytes = (uint64_t)sqlite3_column_int64(row, 2),
        };
    return COMMAND_FINE;
}

/* Put the unvisited layers below `at`, then `at` itself, in front of `order`, which begins at *first. */
static void
layers_visit(struct trace_layers *layers, size_t at, size_t *order, size_t *first)
{
    layers->layers[at].visited = true;
    for (size_t i = 0; i < layers->edge_count; i++) {
        if (layers->edges[i].from == at && !layers->layers[layers->edges[i].to].visited)
            layers_visit(layers, layers->edges[i].to, order, first);
    }
    order[--*first] = at;
}

static bool
layers_is_top(const struct trace_layers *layers, size_t at)
{
    for (size_t i = 0; i < layers->edge_count; i++) {
        if (layers->edges[i].to == at)
            return false;
    }
    return true;
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

/* Sort topologically, from the last layer to the first. Layers in a circle, as in a broken file, come first. */
static void
layers_sort(struct trace_layers *layers)
{
    struct trace_layer sorted[TRACE_LAYERS_MAX];
    size_t order[TRACE_LAYERS_MAX];
    size_t place[TRACE_LAYERS_MAX];
    size_t first = layers->count;

    for (size_t i = layers->count; i-- > 0;) {
        if (layers_is_top(layers, i))
            layers_visit(layers, i, order, &first);
    }
    for (size_t i = layers->count; i-- > 0;) {
        if (!layers->layers[i].visited)
            layers_visit(layers, i, order, &first);
    }
    for (size_t i = 0; i < layers->count; i++) {
        sorted[i] = layers->layers[order[i]];
        place[order[i]] = i;
    }
    memcpy(layers->layers, sorted, layers->count * sizeof(sorted[0]));
    for (size_t i = 0; i < layers->edge_count; i++) {
        layers->edges[i].from = place[layers->edges[i].from];
        layers->edges[i].to = place[layers->edges[i].to];
    }
    qsort(layers->edges, layers->edge_count, sizeof(layers->edges[0]), layers_compare_edges);
}

int
trace_layers_read(const struct trace *trace, struct trace_layers *out)
{
    int status;

    memset(out, 0, sizeof(*out));
    out->layers = calloc(TRACE_LAYERS_MAX, sizeof(*out->layers));
    out->edges = calloc(TRACE_EDGES_MAX, sizeof(*out->edges));
    if (out->layers == NULL || out->edges == NULL) {
        trace_layers_free(out);
        return trace_broken(trace, "no memory for its layers");
    }
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
    if (status == COMMAND_FINE) {
        layers_sort(out);
        status = layer_graph_relate(out) ? COMMAND_FINE : trace_broken(trace, "no memory for its layers");
    }
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
    free(layers->below);
    free(layers->next_logs);
    memset(layers, 0, sizeof(*layers));
}
