/* The ways of requests through the layers of a trace. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/parse.h"
#include "viewer/read/names.h"
#include "viewer/read/routes.h"

static const struct routes_bound routes_bounds[] = {
    { "limit", "limit", true, "alignment", 256 },
    { "pool", "maximum", false, "alignment", 256 },
    { "arena", "size", false, NULL, 256 },
    { "sim", "capacity", false, "granularity", 1 },
    { "host", "capacity", false, NULL, 1 },
    { "driver", "maximum", false, NULL, 1 },
    { "vmm", "maximum", false, "granularity", 2 << 20 },
    { "cuda", NULL, false, NULL, 1 },
};

static const char *const routes_suballocators[] = { "pool", "arena", "fixed", "monotonic" };

/* The end of the argument at `text`: the comma behind it or the end, outside of quotes and braces. */
static size_t
routes_argument_length(const char *text)
{
    bool quoted = false;
    int depth = 0;
    size_t at = 0;

    for (; text[at] != '\0'; at++) {
        if (quoted && text[at] == '\\' && text[at + 1] != '\0')
            at++;
        else if (text[at] == '"')
            quoted = !quoted;
        else if (!quoted && (text[at] == '{' || text[at] == '}'))
            depth += text[at] == '{' ? 1 : -1;
        else if (!quoted && depth == 0 && text[at] == ',')
            break;
    }
    return at;
}

static void
routes_unquote(const char *text, size_t length, char *out, size_t size)
{
    size_t count = 0;

    for (size_t i = 0; i < length && count + 1 < size; i++) {
        if (text[i] == '"')
            continue;
        if (text[i] == '\\' && i + 1 < length)
            i++;
        out[count++] = text[i];
    }
    out[count] = '\0';
}

bool
routes_argument(const char *config, const char *key, bool first, char *out, size_t size)
{
    size_t key_length = strlen(key);
    bool is_first = true;

    while (*config != '\0') {
        size_t length = routes_argument_length(config);
        bool named = strncmp(config, key, key_length) == 0 && config[key_length] == '=';

        if (named || (first && is_first && memchr(config, '=', length) == NULL)) {
            size_t skip = named ? key_length + 1 : 0;

            routes_unquote(config + skip, length - skip, out, size);
            return true;
        }
        is_first = false;
        config += length;
        config += strspn(config, ", ");
    }
    return false;
}

static uint64_t
routes_size(const char *config, const char *key, bool first, uint64_t missing)
{
    char text[64];
    uint64_t bytes;

    return key != NULL && routes_argument(config, key, first, text, sizeof(text)) && parse_size(text, &bytes) ? bytes
                                                                                                              : missing;
}

static bool
routes_is_suballocator(const char *kind)
{
    for (size_t i = 0; i < sizeof(routes_suballocators) / sizeof(routes_suballocators[0]); i++) {
        if (strcmp(kind, routes_suballocators[i]) == 0)
            return true;
    }
    return false;
}

/* What the arguments of a layer say. false: no memory. */
static bool
routes_configure(struct routes_layer *to, const struct trace_layer *layer)
{
    char text[256];
    uint64_t count;

    *to = (struct routes_layer){ .upstream = ROUTES_NONE,
                                 .bound_bytes = ROUTES_UNBOUNDED,
                                 .bound_count = ROUTES_UNBOUNDED,
                                 .rounding = 1,
                                 .device = -1,
                                 .is_top = true };
    to->is_log = to->is_recorded = strcmp(layer->kind, "log") == 0;
    to->is_suballocator = routes_is_suballocator(layer->kind);
    for (size_t i = 0; i < sizeof(routes_bounds) / sizeof(routes_bounds[0]); i++) {
        if (strcmp(layer->kind, routes_bounds[i].kind) == 0)
            to->kind = &routes_bounds[i];
    }
    if (to->kind == NULL)
        return true;
    to->bound_bytes = routes_size(layer->config, to->kind->key, to->kind->is_first, ROUTES_UNBOUNDED);
    to->rounding = routes_size(layer->config, to->kind->rounder, false, to->kind->rounding);
    if (to->rounding == 0)
        to->rounding = 1;
    if (strcmp(layer->kind, "sim") == 0 && to->rounding < 256)
        to->rounding = 256; /* the distance of its addresses */
    if (strcmp(layer->kind, "limit") != 0)
        return true;
    if (routes_argument(layer->config, "count", false, text, sizeof(text)) && parse_count(text, &count))
        to->bound_count = count;
    if (routes_argument(layer->config, "budget", false, text, sizeof(text)))
        to->budget = strdup(text);
    return to->budget != NULL || !routes_argument(layer->config, "budget", false, text, sizeof(text));
}

static int
routes_add_upstream(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct routes *routes = context;
    size_t from = routes_find(routes, sqlite3_column_int64(row, 0));
    size_t to = routes_find(routes, sqlite3_column_int64(row, 1));

    (void)trace;
    if (from != ROUTES_NONE)
        routes->list[from].upstream = to;
    return COMMAND_FINE;
}

static int
routes_add_device(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct routes *routes = context;
    size_t layer = routes_find(routes, sqlite3_column_int64(row, 0));

    (void)trace;
    if (layer != ROUTES_NONE)
        routes->list[layer].device = sqlite3_column_int64(row, 1);
    return COMMAND_FINE;
}

/* The rows come in the order of layers and limits. */
static int
routes_add_bin(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct routes *routes = context;
    size_t layer = routes_find(routes, sqlite3_column_int64(row, 0));
    size_t upstream = routes_find(routes, sqlite3_column_int64(row, 2));

    if (layer == ROUTES_NONE || upstream == ROUTES_NONE)
        return COMMAND_FINE;
    if (!tidei_grow(&routes->bins, &routes->bin_capacity, routes->bin_count, 1))
        return trace_broken(trace, "no memory for its layers");
    if (routes->list[layer].bin_count++ == 0)
        routes->list[layer].first_bin = routes->bin_count;
    routes->bins[routes->bin_count++] = (struct routes_bin){ layer, (uint64_t)sqlite3_column_int64(row, 1), upstream };
    return COMMAND_FINE;
}

/* A base of a device without a bound of its own is bounded by the device. */
static int
routes_bound_devices(const struct trace *trace, struct routes *routes)
{
    struct name_list devices = { 0 };

    names_read_devices(trace, &devices);
    for (size_t i = 0; i < routes->layers->count; i++) {
        struct routes_layer *layer = &routes->list[i];
        const char *kind = routes->layers->layers[i].kind;
        const struct name *device;

        if (strcmp(kind, "driver") != 0 && strcmp(kind, "vmm") != 0 && strcmp(kind, "cuda") != 0)
            continue;
        device = layer->device >= 0 ? names_find(&devices, layer->device) : NULL;
        if (layer->bound_bytes == ROUTES_UNBOUNDED && device != NULL && device->number > 0) {
            layer->bound_bytes = (uint64_t)device->number;
            layer->is_device_bound = true;
        }
    }
    names_free_list(&devices);
    return COMMAND_FINE;
}

static int
routes_read_edges(const struct trace *trace, struct routes *routes)
{
    int status = trace_each(trace, routes_add_upstream, routes,
                            "SELECT layer_id, upstream_layer_id FROM layer WHERE upstream_layer_id IS NOT NULL");

    if (status == COMMAND_FINE)
        status = trace_each(trace, routes_add_bin, routes,
                            "SELECT layer_id, limit_bytes, upstream_layer_id FROM layer_bin"
                            " ORDER BY layer_id, limit_bytes");
    if (status == COMMAND_FINE && trace_has(trace, "layer", "device"))
        status =
            trace_each(trace, routes_add_device, routes, "SELECT layer_id, device FROM layer WHERE device IS NOT NULL");
    return status == COMMAND_FINE ? routes_bound_devices(trace, routes) : status;
}

int
routes_read(const struct trace *trace, const struct trace_layers *layers, struct routes *out)
{
    int status = COMMAND_FINE;

    *out = (struct routes){ .layers = layers, .list = calloc(layers->count + 1, sizeof(*out->list)) };
    if (out->list == NULL)
        return trace_broken(trace, "no memory for its layers");
    for (size_t i = 0; i < layers->count && status == COMMAND_FINE; i++) {
        if (!routes_configure(&out->list[i], &layers->layers[i]) ||
            (id_map_find(&out->by_id, (uint64_t)layers->layers[i].layer_id) == NULL &&
             !id_map_add(&out->by_id, (uint64_t)layers->layers[i].layer_id, (uint32_t)i)))
            status = trace_broken(trace, "no memory for its layers");
    }
    out->last = ROUTES_NONE;
    if (status == COMMAND_FINE)
        status = routes_read_edges(trace, out);
    for (size_t i = 0; i < layers->count && status == COMMAND_FINE; i++) {
        for (size_t j = 0; j < layers->count && (out->list[i].is_log || out->list[i].is_suballocator); j++) {
            bool below = routes_is_below(out, i, j);

            out->list[j].is_top = out->list[j].is_top && !(below && out->list[i].is_log);
            out->list[j].is_chunked = out->list[j].is_chunked || (below && out->list[i].is_suballocator);
        }
    }
    if (status != COMMAND_FINE)
        routes_free(out);
    return status;
}

void
routes_free(struct routes *routes)
{
    for (size_t i = 0; routes->list != NULL && i < routes->layers->count; i++)
        free(routes->list[i].budget);
    free(routes->list);
    free(routes->bins);
    id_map_free(&routes->by_id);
    *routes = (struct routes){ 0 };
}

size_t
routes_find(struct routes *routes, int64_t layer_id)
{
    const uint32_t *found;

    if (routes->last != ROUTES_NONE && routes->last_id == layer_id)
        return routes->last;
    found = id_map_find(&routes->by_id, (uint64_t)layer_id);
    routes->last_id = layer_id;
    routes->last = found != NULL ? *found : ROUTES_NONE;
    return routes->last;
}

/* A bin without a bound is the first choice of a `fallback`; what it has no memory for goes to the layer below. */
static size_t
routes_next(const struct routes *routes, size_t from, uint64_t size, bool *unsure)
{
    const struct routes_layer *layer = &routes->list[from];

    for (size_t i = 0; i < layer->bin_count; i++) {
        const struct routes_bin *bin = &routes->bins[layer->first_bin + i];

        if (bin->limit_bytes >= (uint64_t)INT64_MAX)
            *unsure = true;
        else if (size <= bin->limit_bytes)
            return bin->upstream;
    }
    return layer->upstream;
}

void
routes_follow(const struct routes *routes, size_t from, uint64_t size, bool all, struct route *out)
{
    size_t at = routes_next(routes, from, size, (out->is_unsure = false, &out->is_unsure));

    /* A broken file may have a circle. */
    for (out->count = 0; at != ROUTES_NONE && out->count < routes->layers->count;) {
        out->layers[out->count++] = at;
        if (routes->list[at].is_recorded && !all)
            break;
        at = routes_next(routes, at, size, &out->is_unsure);
    }
}

static void
routes_visit(const struct routes *routes, size_t from, bool *visited, void (*each)(void *context, size_t layer),
             void *context)
{
    const struct routes_layer *layer = &routes->list[from];

    for (size_t i = 0; i <= layer->bin_count; i++) {
        size_t next = i < layer->bin_count ? routes->bins[layer->first_bin + i].upstream : layer->upstream;

        if (next == ROUTES_NONE || visited[next])
            continue;
        visited[next] = true;
        each(context, next);
        if (!routes->list[next].is_recorded)
            routes_visit(routes, next, visited, each, context);
    }
}

void
routes_each_near(const struct routes *routes, size_t from, void (*each)(void *context, size_t layer), void *context)
{
    bool visited[TRACE_LAYERS_MAX] = { false };

    routes_visit(routes, from, visited, each, context);
}

bool
routes_is_below(const struct routes *routes, size_t above, size_t below)
{
    const struct trace_layer *layers = routes->layers->layers;

    return above != below && trace_layers_reaches(routes->layers, layers[above].layer_id, layers[below].layer_id);
}

uint64_t
routes_round(uint64_t bytes, uint64_t rounding)
{
    uint64_t rest = rounding > 0 ? bytes % rounding : 0;

    return rest == 0 ? bytes : bytes > UINT64_MAX - (rounding - rest) ? UINT64_MAX : bytes + (rounding - rest);
}
