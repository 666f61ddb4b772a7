/* The ways of requests through the layers of a trace. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/parse.h"
#include "viewer/read/names.h"
#include "viewer/read/routes.h"

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

uint64_t
routes_bound(const struct trace_layer *layer)
{
    const struct layer_kind *kind = layer->known;

    return kind->has_bound ? routes_size(layer->config, kind->bound_key, kind->bound_is_first, ROUTES_UNBOUNDED)
                           : ROUTES_UNBOUNDED;
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
                                 .device = layer->device,
                                 .is_log = trace_layer_is_log(layer),
                                 .is_recorded = trace_layer_is_log(layer),
                                 .is_suballocator = layer->known->role == LAYER_CUTS,
                                 .is_top = true };
    if (!layer->known->has_bound)
        return true;
    to->kind = layer->known;
    to->bound_bytes = routes_bound(layer);
    to->rounding = routes_size(layer->config, to->kind->rounder, false, to->kind->rounding);
    if (to->rounding == 0)
        to->rounding = 1;
    if (to->rounding < to->kind->least_rounding)
        to->rounding = to->kind->least_rounding;
    if (strcmp(layer->kind, "limit") != 0)
        return true;
    if (routes_argument(layer->config, "count", false, text, sizeof(text)) && parse_count(text, &count))
        to->bound_count = count;
    to->is_shared = routes_argument(layer->config, "shared", false, text, sizeof(text));
    if (!to->is_shared && !routes_argument(layer->config, "budget", false, text, sizeof(text)))
        return true;
    to->budget = strdup(text);
    return to->budget != NULL;
}

/* A base of a device without a bound of its own is bounded by the device. */
static void
routes_bound_devices(const struct trace *trace, struct routes *routes)
{
    struct name_list devices = { 0 };

    names_read_devices(trace, &devices);
    for (size_t i = 0; i < routes->layers->count; i++) {
        struct routes_layer *layer = &routes->list[i];
        const struct name *device;

        if (!routes->layers->layers[i].known->is_of_device)
            continue;
        device = layer->device >= 0 ? names_find(&devices, layer->device) : NULL;
        if (layer->bound_bytes == ROUTES_UNBOUNDED && device != NULL && device->number > 0) {
            layer->bound_bytes = (uint64_t)device->number;
            layer->is_device_bound = true;
        }
    }
    names_free_list(&devices);
}

/* Which logs are topmost, and which layers may be asked for chunks. */
static void
routes_relate(struct routes *routes)
{
    const struct trace_layers *layers = routes->layers;
    struct trace_layer_set some, below;

    for (size_t i = 0; i < layers->edge_count; i++) {
        if (!layers->edges[i].is_bin)
            routes->list[layers->edges[i].from].upstream = layers->edges[i].to;
    }
    layer_graph_logs(layers, &some, &below);
    for (size_t i = 0; i < layers->count; i++)
        routes->list[i].is_top = !trace_layer_set_has(&below, i);
    some = (struct trace_layer_set){ { 0 } };
    for (size_t i = 0; i < layers->count; i++) {
        if (routes->list[i].is_suballocator)
            trace_layer_set_add(&some, i);
    }
    layer_graph_inner(layers, &some, &below);
    for (size_t i = 0; i < layers->count; i++)
        routes->list[i].is_chunked = trace_layer_set_has(&below, i);
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
    if (status == COMMAND_FINE) {
        routes_relate(out);
        routes_bound_devices(trace, out);
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
    const struct trace_layer *layer = &routes->layers->layers[from];
    const struct trace_edge *edges = routes->layers->edges + layer->first_edge, *best = NULL;
    bool is_first_choice = false;

    for (size_t i = 0; i < layer->edge_count; i++) {
        if (edges[i].is_bin && edges[i].limit_bytes >= (uint64_t)INT64_MAX)
            is_first_choice = true;
        else if (edges[i].is_bin && size <= edges[i].limit_bytes &&
                 (best == NULL || edges[i].limit_bytes < best->limit_bytes))
            best = &edges[i];
    }
    if (best != NULL)
        return best->to;
    *unsure = *unsure || is_first_choice;
    return routes->list[from].upstream;
}

void
routes_follow(const struct routes *routes, size_t from, uint64_t size, bool all, struct route *out)
{
    size_t at = routes_next(routes, from, size, (out->is_unsure = false, &out->is_unsure));

    /* A broken file may have a circle. */
    for (out->count = 0; at != ROUTES_NONE && out->count < TRACE_LAYERS_DEPTH;) {
        out->layers[out->count++] = at;
        if (routes->list[at].is_recorded && !all)
            break;
        at = routes_next(routes, at, size, &out->is_unsure);
    }
}

/* The context of routes_near. */
struct routes_nearing {
    const struct routes *routes;
    void (*each)(void *context, size_t layer);
    void *context;
};

static int
routes_near(void *context, size_t layer, int state)
{
    const struct routes_nearing *nearing = context;

    nearing->each(nearing->context, layer);
    return nearing->routes->list[layer].is_recorded ? LAYER_WALK_ENDS : state;
}

void
routes_each_near(const struct routes *routes, size_t from, void (*each)(void *context, size_t layer), void *context)
{
    struct routes_nearing nearing = { routes, each, context };
    struct layer_walk walk = { .layers = routes->layers, .each = routes_near, .context = &nearing };

    layer_walk_below(&walk, from, 0);
}

bool
routes_is_below(const struct routes *routes, size_t above, size_t below)
{
    return above != below && trace_layer_sets_has(&routes->layers->below, above, below);
}

uint64_t
routes_round(uint64_t bytes, uint64_t rounding)
{
    uint64_t rest = rounding > 0 ? bytes % rounding : 0;

    return rest == 0 ? bytes : bytes > UINT64_MAX - (rounding - rest) ? UINT64_MAX : bytes + (rounding - rest);
}
