/*
 * The ways of requests through the layers of a trace: which bin takes a size, which layers cut chunks into blocks, and
 * what bounds them.
 *
 * A recorded layer is one with rows of its own in `allocation`: a log, or a suballocator that says its chunks itself.
 */
#ifndef VIEWER_READ_ROUTES_H
#define VIEWER_READ_ROUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"
#include "viewer/read/trace-layers.h"

/* No layer. */
#define ROUTES_NONE SIZE_MAX

/* No bound. */
#define ROUTES_UNBOUNDED UINT64_MAX

struct routes_layer {
    size_t upstream;               /* the index of the layer below; ROUTES_NONE: a base */
    const struct layer_kind *kind; /* NULL: this kind has no bound */
    uint64_t bound_bytes;          /* what its arguments allow, or the whole device; ROUTES_UNBOUNDED: nothing does */
    uint64_t bound_count;          /* of a limit; ROUTES_UNBOUNDED: nothing does */
    uint64_t rounding;             /* each request counts rounded up to a multiple of this */
    char *budget;                  /* owns; of a limit that shares its account; NULL: none */
    bool is_shared;                /* with other processes, of which the trace says nothing */
    int64_t device;                /* -1: none, or unknown */
    bool is_device_bound;          /* bound_bytes is all of the device's memory, which others use as well */
    bool is_log;
    bool is_suballocator; /* it takes chunks from below and cuts them into blocks */
    bool is_recorded;     /* it has rows; of a suballocator: the owner of the routes sets it */
    bool is_top;          /* no log is above it */
    bool is_chunked;      /* a suballocator is above it: it may be asked for chunks */
};

struct routes {
    const struct trace_layers *layers; /* borrows */
    struct routes_layer *list;         /* owns; by the index in `layers` */
    struct id_map by_id;               /* to the index */
    int64_t last_id;                   /* the layer that was asked for last */
    size_t last;
};

/* Read them. COMMAND_FINE, or COMMAND_WRONG after a message and there is nothing to free. */
int routes_read(const struct trace *trace, const struct trace_layers *layers, struct routes *out);

void routes_free(struct routes *routes);

/* The index of a layer; ROUTES_NONE: the trace does not define it. */
size_t routes_find(struct routes *routes, int64_t layer_id);

/* The layers that a request passes, below the one where it begins. */
struct route {
    size_t layers[TRACE_LAYERS_DEPTH];
    size_t count;
    bool is_unsure; /* a layer on it may have sent the request elsewhere (`fallback`) */
};

/*
 * The way of a request of `size` from the layer `from` down to the next recorded layer, which is its last one, or with
 * `all` to the base.
 */
void routes_follow(const struct routes *routes, size_t from, uint64_t size, bool all, struct route *out);

/* Call `each` for every layer below `from` that a request may reach up to the first recorded one, that included. */
void routes_each_near(const struct routes *routes, size_t from, void (*each)(void *context, size_t layer),
                      void *context);

/* Whether the layer at index `below` is below the one at `above`; a layer is not below itself. */
bool routes_is_below(const struct routes *routes, size_t above, size_t below);

/* The value of `key` in the arguments of a layer (stack text), unquoted, into `out`. `first`: also without its key. */
bool routes_argument(const char *config, const char *key, bool first, char *out, size_t size);

/* The bound in bytes that a layer has by its arguments; ROUTES_UNBOUNDED: none. */
uint64_t routes_bound(const struct trace_layer *layer);

/* `bytes`, rounded up to a multiple of `rounding`; UINT64_MAX where that overflows. */
uint64_t routes_round(uint64_t bytes, uint64_t rounding);

#endif
