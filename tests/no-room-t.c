/*
 * Tests layers that cache memory when the host has no memory for their bookkeeping. They request nothing from upstream
 * that they could not note, and keep what upstream refuses to take back, whatever other threads do.
 */
#include <pthread.h>

#include <tidemark/tidemark.h>

#include "tap.h"

#define BLOCK   ((size_t)4096)
#define THREADS 64 /* so many that each shard of `fixed` gets at least one thread */

static bool no_room;

/* Replaces the C library's, which lets tables grow. */
__attribute__((visibility("default"))) void *
reallocarray(void *pointer, size_t count, size_t bytes)
{
    return no_room ? NULL : realloc(pointer, count * bytes);
}

/* An upstream that gives out increasing addresses, and can refuse a free. */
struct below {
    struct tide_resource *above; /* the tested layer */
    uint64_t live_bytes;
    uint64_t calls;
    uintptr_t next;
    bool refuses;
    unsigned taken; /* allocations by another thread while a block was on its way */
    bool nests;     /* another block is requested while the next one is on its way to the layer */
    enum tide_status nested_status;
};

static enum tide_status
below_allocate(void *context, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct below *below = context;

    (void)alignment;
    (void)stream;
    below->calls++;
    if (below->nests) {
        void *nested;

        below->nests = false;
        below->nested_status = tide_allocate(below->above, BLOCK, 256, 0, &nested);
    }
    below->live_bytes += bytes;
    *out = (void *)below->next;
    below->next += bytes;
    return TIDE_OK;
}

static void *
take_meanwhile(void *context)
{
    struct below *below = context;
    void *pointer;

    while (below->taken < 3 && tide_allocate(below->above, BLOCK, 256, 0, &pointer) == TIDE_OK)
        below->taken++;
    return NULL;
}

/* Before it refuses the free, another thread allocates what it can get. */
static enum tide_status
below_deallocate(void *context, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct below *below = context;
    pthread_t thread;

    (void)pointer;
    (void)alignment;
    (void)stream;
    if (!below->refuses) {
        below->live_bytes -= bytes;
        return TIDE_OK;
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_create(&thread, NULL, take_meanwhile, below);
        pthread_join(thread, NULL);
    }
    return tide_error_set(TIDE_EPOINTER, "below: not now");
}

static struct tide_resource *
make_below(struct below *below)
{
    const struct tide_callback_options options = { TIDE_OPTIONS(options), .allocate = below_allocate,
                                                   .deallocate = below_deallocate, .context = below };
    struct tide_resource *base;

    *below = (struct below){ .next = 1 << 20 };
    if (tide_callback_create(&options, &base) != TIDE_OK)
        abort();
    return base;
}

static uint64_t
reserved_bytes(struct tide_resource *resource)
{
    uint64_t bytes;

    return tide_query(resource, TIDE_QUERY_BYTES_RESERVED, &bytes) == TIDE_OK ? bytes : UINT64_MAX;
}

/* Allocate blocks until the layer has no room to note another. Returns how many, at most `most`. */
static unsigned
fill(struct tide_resource *resource, void **pointers, unsigned most)
{
    unsigned count = 0;

    no_room = true;
    while (count < most && tide_allocate(resource, BLOCK, 256, 0, &pointers[count]) == TIDE_OK)
        count++;
    no_room = false;
    return count;
}

#define LAYER_TESTS 7

static void
check_layer(struct tide_resource *layer, struct below *below, const char *name)
{
    static void *pointers[64];
    void *one;
    unsigned count;
    uint64_t calls;

    below->above = layer;
    if (tide_allocate(layer, BLOCK, 256, 0, &one) != TIDE_OK) /* makes the table */
        abort();
    count = fill(layer, pointers, 64);
    calls = below->calls;
    ok(all_of(count > 0, count < 64), "%s: without host memory for its tables there is room for %u more blocks", name,
       count);
    no_room = true;
    ok(all_of(tide_allocate(layer, BLOCK, 256, 0, &one) == TIDE_ENOMEM, one == NULL),
       "%s: without room the next request is refused", name);
    ok(below->calls == calls, "%s: without room a request does not reach upstream", name);
    no_room = false;
    if (strcmp(name, "monotonic") == 0)
        tide_monotonic_reset(layer, 0);
    else
        tide_deallocate(layer, pointers[count - 1], BLOCK, 256, 0);
    no_room = below->refuses = true;
    tide_trim(layer, 0);
    ok(reserved_bytes(layer) == below->live_bytes,
       "%s: what upstream did not take back is still reserved, %u blocks later", name, below->taken);
    no_room = below->refuses = false;
    below->taken = 0;
    take_meanwhile(below);
    ok(below->taken == 3, "%s: requests succeed once there is room again", name);
    ok(reserved_bytes(layer) == below->live_bytes, "%s: the reserved bytes are all that upstream has allocated", name);
    tide_resource_release(layer);
    ok(below->live_bytes == 0, "%s: at the end everything has gone back to upstream", name);
}

static void *
take_one(void *context)
{
    struct below *below = context;
    void *pointer;

    if (tide_allocate(below->above, BLOCK, 256, 0, &pointer) != TIDE_OK)
        abort();
    return NULL;
}

/*
 * A layer of which other threads have so many blocks. What asks upstream (src/suballoc/chunks.h) notes all of them in
 * one table, and `fixed` those of some threads in a table of their own. With a few blocks of others the table of all is
 * full first; with many it has grown, and that of the calling thread is.
 */
static struct tide_resource *
make_shared(struct below *below, struct tide_resource *base, struct tide_resource *(*make)(struct tide_resource *base),
            unsigned others)
{
    struct tide_resource *layer = below->above = make(base);
    pthread_t thread;
    void *one;

    for (unsigned i = 0; i < others; i++) {
        pthread_create(&thread, NULL, take_one, below);
        pthread_join(thread, NULL);
    }
    if (tide_allocate(layer, BLOCK, 256, 0, &one) != TIDE_OK)
        abort();
    return layer;
}

/* A layer with room for exactly one more block. */
static struct tide_resource *
make_full_but_one(struct below *below, struct tide_resource *base,
                  struct tide_resource *(*make)(struct tide_resource *base), unsigned others)
{
    struct tide_resource *layer = make_shared(below, base, make, others);
    static void *pointers[64];
    unsigned room = fill(layer, pointers, 64);

    tide_resource_release(layer);
    layer = make_shared(below, base, make, others);
    if (room == 0 || room == 64 || fill(layer, pointers, room - 1) != room - 1)
        abort();
    return layer;
}

#define WAY_TESTS 4

/* As under many threads over a slow upstream: two requests are under way with room for one block. */
static void
check_way(struct tide_resource *(*make)(struct tide_resource *base), const char *name, unsigned others)
{
    struct below below;
    struct tide_resource *base = make_below(&below);
    struct tide_resource *layer = make_full_but_one(&below, base, make, others);
    void *one;

    below.calls = 0;
    no_room = below.nests = true;
    ok(tide_allocate(layer, BLOCK, 256, 0, &one) == TIDE_OK, "%s: a request takes the last room", name);
    no_room = false;
    ok(below.nested_status == TIDE_ENOMEM, "%s: no other request gets that room while upstream is called", name);
    ok(below.calls == 1, "%s: the other request does not reach upstream", name);
    ok(reserved_bytes(layer) == below.live_bytes, "%s: the reserved bytes are all that upstream gave", name);
    tide_resource_release(layer);
    tide_resource_release(base);
}

static struct tide_resource *
make_fixed(struct tide_resource *base)
{
    const struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = BLOCK };
    struct tide_resource *layer;

    if (tide_fixed_create(base, &options, &layer) != TIDE_OK)
        abort();
    return layer;
}

static struct tide_resource *
make_monotonic(struct tide_resource *base)
{
    const struct tide_monotonic_options options = { TIDE_OPTIONS(options), .chunk_bytes = BLOCK };
    struct tide_resource *layer;

    if (tide_monotonic_create(base, &options, &layer) != TIDE_OK)
        abort();
    return layer;
}

int
main(void)
{
    struct tide_resource *base;
    struct below below;

    plan(2 * LAYER_TESTS + 4 * WAY_TESTS);
    base = make_below(&below);
    check_layer(make_fixed(base), &below, "fixed");
    tide_resource_release(base);
    base = make_below(&below);
    check_layer(make_monotonic(base), &below, "monotonic");
    tide_resource_release(base);
    check_way(make_fixed, "fixed", 0);
    check_way(make_fixed, "fixed, three threads", 2);
    check_way(make_fixed, "fixed, many threads", THREADS);
    check_way(make_monotonic, "monotonic", 0);
    return done();
}
