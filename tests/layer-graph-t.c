/*
 * Tests what the viewer knows of the layers: that its table of kinds agrees with the kinds of the library, and, on
 * random graphs with bins, which layers are below which, the walk, and the way of a request, against brute force.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/resource/kind.h"
#include "tests/random-trace.h"
#include "tests/tap.h"
#include "viewer/read/layer-graph.h"
#include "viewer/read/routes.h"

#define ROUNDS 500
#define LAYERS 12
#define EDGES  60

static struct trace_layer list[LAYERS];
static struct trace_edge edges[EDGES];
static struct trace_layers layers;
static bool reach[LAYERS][LAYERS]; /* by brute force, in one step or more */
static uint64_t seed, state;

/* ---- kinds ------------------------------------------------------------------------------------------------------ */

static bool
is_known_right(const struct tidei_kind *kind)
{
    const struct layer_kind *known = layer_kind_find(kind->ops.name, "");
    enum layer_role role = kind->is_base                        ? LAYER_BASE
                           : strcmp(kind->ops.name, "log") == 0 ? LAYER_RECORDS
                           : kind->chunks != NULL               ? LAYER_CUTS
                                                                : LAYER_PASSES;
    bool has_key = !known->has_bound || known->bound_key == NULL;

    for (size_t i = 0; i < kind->argument_count && !has_key; i++)
        has_key = strcmp(kind->arguments[i].key, known->bound_key) == 0 &&
                  kind->arguments[i].positional == known->bound_is_first;
    if (known->role != role || !has_key)
        diag("%s: see viewer/read/layer-kinds.c", kind->ops.name);
    return known->role == role && has_key;
}

static void
test_kinds(void)
{
    bool good = true;

    for (const struct tidei_kind *const *kind = tidei_kinds; *kind != NULL; kind++)
        good = is_known_right(*kind) && good;
    ok(good, "the viewer knows what each kind of the library does with a request, and which argument bounds it");
    ok(all_of(layer_kind_find("callback", "")->role == LAYER_PASSES,
              layer_kind_find("of an application", "")->role == LAYER_OTHER, layer_kind_find("", "")->name == NULL),
       "a layer of callbacks passes requests on, and of what else an application brings nothing is known");
}

/* ---- random graphs ---------------------------------------------------------------------------------------------- */

static void
graph_free(void)
{
    free(layers.above);
    trace_layer_sets_free(&layers.below);
    trace_layer_sets_free(&layers.next_logs);
    id_map_free(&layers.by_id);
}

static void
add_edge(size_t from, size_t to, bool is_bin, uint64_t limit)
{
    if (layers.edge_count < EDGES)
        edges[layers.edge_count++] = (struct trace_edge){ from, to, is_bin, limit };
}

/* A graph from the top down; `has_circle`: as only in a broken file. Bins are in the order of the largest first. */
static void
make_graph(bool has_circle)
{
    static char names[][8] = { "log", "limit", "pool", "binning", "mine" };

    memset(list, 0, sizeof(list));
    layers = (struct trace_layers){ .layers = list, .count = 2 + random_draw(&state, LAYERS - 1), .edges = edges };
    for (size_t i = 0; i < layers.count; i++) {
        size_t below = layers.count - 1 - i;
        char *name = names[random_draw(&state, sizeof(names) / sizeof(names[0]))];

        list[i] = (struct trace_layer){ .layer_id = (int64_t)i + 1, .kind = name, .device = -1 };
        list[i].config = names[0] + 3; /* empty */
        list[i].known = layer_kind_find(name, "");
        if (below == 0 && !has_circle)
            continue;
        if (random_draw(&state, 8) > 0)
            add_edge(i, has_circle ? random_draw(&state, layers.count) : i + 1 + random_draw(&state, below), false, 0);
        for (uint64_t limit = random_draw(&state, 4); limit > 0; limit--) {
            bool is_first_choice = limit == 3 && random_draw(&state, 2) == 0;

            add_edge(i, has_circle ? random_draw(&state, layers.count) : i + 1 + random_draw(&state, below), true,
                     is_first_choice ? (uint64_t)INT64_MAX : 100 * limit);
        }
    }
}

static void
find_reach(void)
{
    memset(reach, 0, sizeof(reach));
    for (size_t i = 0; i < layers.edge_count; i++)
        reach[edges[i].from][edges[i].to] = true;
    for (size_t via = 0; via < layers.count; via++) {
        for (size_t i = 0; i < layers.count; i++) {
            for (size_t j = 0; j < layers.count; j++)
                reach[i][j] = reach[i][j] || (reach[i][via] && reach[via][j]);
        }
    }
}

/* By paths: whether some way from `from` meets the log `to` before it meets another log. */
static bool
is_next_log(size_t from, size_t to)
{
    for (size_t i = 0; i < layers.edge_count; i++) {
        if (edges[i].from != from)
            continue;
        if (edges[i].to == to || (!trace_layer_is_log(&list[edges[i].to]) && is_next_log(edges[i].to, to)))
            return true;
    }
    return false;
}

static bool
relations_are_right(void)
{
    for (size_t i = 0; i < layers.count; i++) {
        bool has_edges = false;

        for (size_t j = 0; j < layers.count; j++) {
            if (trace_layer_sets_has(&layers.below, i, j) != (i == j || reach[i][j]) ||
                (trace_layer_is_log(&list[j]) && trace_layer_sets_has(&layers.next_logs, i, j) != is_next_log(i, j)))
                return false;
            has_edges = has_edges || reach[i][j];
        }
        if (trace_layer_is_base(&list[i]) == has_edges)
            return false;
    }
    return true;
}

/* What a walk has seen: the state becomes 1 below a pool, and the way ends at a log. */
struct seen {
    unsigned times[LAYERS][2];
};

static int
see(void *context, size_t layer, int at)
{
    ((struct seen *)context)->times[layer][at]++;
    if (trace_layer_is_log(&list[layer]))
        return LAYER_WALK_ENDS;
    return list[layer].known->role == LAYER_CUTS ? 1 : at;
}

/* Returns whether it was not there yet. */
static bool
see_first(struct seen *out, size_t layer, int at)
{
    bool is_new = out->times[layer][at] == 0;

    out->times[layer][at] = 1;
    return is_new;
}

/* The same by brute force: pairs of a layer and a state, until nothing is added. */
static void
see_all(size_t from, struct seen *out)
{
    bool changed = true;

    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < layers.edge_count; i++) {
        if (edges[i].from == from)
            see_first(out, edges[i].to, 0);
    }
    while (changed) {
        changed = false;
        for (size_t i = 0; i < layers.edge_count; i++) {
            const struct trace_layer *above = &list[edges[i].from];

            for (int at = 0; at < 2 && !trace_layer_is_log(above); at++) {
                if (out->times[edges[i].from][at] > 0)
                    changed = see_first(out, edges[i].to, above->known->role == LAYER_CUTS ? 1 : at) || changed;
            }
        }
    }
}

static bool
walks_are_right(void)
{
    for (size_t i = 0; i < layers.count; i++) {
        struct seen seen = { 0 }, wanted;
        struct layer_walk walk = { .layers = &layers, .each = see, .context = &seen };

        layer_walk_below(&walk, i, 0);
        see_all(i, &wanted);
        if (memcmp(&seen, &wanted, sizeof(seen)) != 0)
            return false;
    }
    return true;
}

/* The smallest bin that fits, else the upstream; a bin without a bound may have taken what no other one fits. */
static bool
ways_are_right(void)
{
    struct routes_layer routed[LAYERS] = { 0 };
    struct routes routes = { .layers = &layers, .list = routed };

    for (size_t i = 0; i < layers.count; i++)
        routed[i].upstream = ROUTES_NONE;
    for (size_t i = 0; i < layers.edge_count; i++) {
        if (!edges[i].is_bin)
            routed[edges[i].from].upstream = edges[i].to;
    }
    for (size_t from = 0; from < layers.count; from++) {
        uint64_t size = random_draw(&state, 400), best = UINT64_MAX;
        size_t at = routed[from].upstream;
        bool unsure = false;
        struct route way;

        for (size_t i = 0; i < layers.edge_count; i++) {
            if (edges[i].from == from && edges[i].is_bin && edges[i].limit_bytes < INT64_MAX &&
                edges[i].limit_bytes >= size && edges[i].limit_bytes < best) {
                best = edges[i].limit_bytes;
                at = edges[i].to;
            }
            unsure = unsure || (edges[i].from == from && edges[i].is_bin && edges[i].limit_bytes == INT64_MAX);
        }
        if (at != ROUTES_NONE)
            routed[at].is_recorded = true; /* the way ends there */
        routes_follow(&routes, from, size, false, &way);
        if (way.count != (at != ROUTES_NONE) || (at != ROUTES_NONE && way.layers[0] != at) ||
            way.is_unsure != (unsure && best == UINT64_MAX))
            return false;
        if (at != ROUTES_NONE)
            routed[at].is_recorded = false;
    }
    return true;
}

/* ---- the order of a walk ---------------------------------------------------------------------------------------- */

static int
write_down(void *context, size_t layer, int at)
{
    char *text = context;

    snprintf(text + strlen(text), 8, "%zu", layer);
    return at;
}

static void
test_order(void)
{
    struct layer_walk walk;
    char text[128] = "";

    memset(list, 0, sizeof(list));
    for (size_t i = 0; i < 4; i++)
        list[i].known = layer_kind_find("limit", "");
    layers = (struct trace_layers){ .layers = list, .count = 4, .edges = edges };
    add_edge(0, 3, false, 0);
    add_edge(0, 2, true, 200);
    add_edge(0, 1, true, 100);
    add_edge(1, 3, false, 0);
    layer_graph_relate(&layers);
    walk = (struct layer_walk){ .layers = &layers, .each = write_down, .context = text };
    layer_walk_below(&walk, 0, 0);
    is_string(text, "132", "a walk comes to the smallest bin first and to the upstream last, and to each layer once");
    graph_free();
}

int
main(void)
{
    uint64_t first = random_trace_seed();
    bool relations = true, walks = true, ways = true;

    plan(6);
    test_kinds();
    for (uint64_t i = 0; i < ROUNDS && relations && walks && ways; i++) {
        bool has_circle = i % 10 == 9;

        seed = first + i;
        state = seed * 2 + 88172645463325253u;
        make_graph(has_circle);
        if (!layer_graph_relate(&layers))
            return 99;
        find_reach();
        relations = has_circle || relations_are_right();
        walks = walks_are_right();
        ways = ways_are_right();
        if (!relations || !walks || !ways)
            diag("seed %" PRIu64, seed);
        graph_free();
    }
    ok(relations, "which layers and which next logs are below a layer is by brute force the same");
    ok(walks, "a walk reaches each layer once in each state, in circles, too");
    ok(ways, "a request goes to the smallest bin that it fits, or else to the upstream");
    test_order();
    return done();
}
