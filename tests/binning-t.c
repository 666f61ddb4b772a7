/* Tests adaptors/binning.c. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "tap.h"
#include "upstream.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

static enum tide_status
take(struct tide_resource *resource, size_t bytes, void **out)
{
    return tide_allocate(resource, bytes, TIDE_DEFAULT_ALIGNMENT, 0, out);
}

static enum tide_status
give(struct tide_resource *resource, void *pointer, size_t bytes)
{
    return tide_deallocate(resource, pointer, bytes, TIDE_DEFAULT_ALIGNMENT, 0);
}

/* Like tide_binning_create, with only bins. */
static enum tide_status
create(struct tide_resource *upstream, const struct tide_upstream *bins, size_t bin_count, struct tide_resource **out)
{
    const struct tide_binning_options options = { TIDE_OPTIONS(options), .bins = bins, .bin_count = bin_count };

    return tide_binning_create(upstream, &options, out);
}

/* Like tide_binning_create, with only a range. */
static enum tide_status
create_range(struct tide_resource *upstream, uint64_t smallest, uint64_t largest, struct tide_resource **out)
{
    const struct tide_binning_options options = { TIDE_OPTIONS(options), .smallest_bytes = smallest,
                                                  .largest_bytes = largest };

    return tide_binning_create(upstream, &options, out);
}

#define MOST_BINS 20

/* A binning layer over upstreams that count their calls; the last upstream is the one for larger requests. */
struct scene {
    struct upstream *upstreams[MOST_BINS + 1];
    uint64_t limits[MOST_BINS + 1];
    size_t bin_count;
    struct tide_resource *binning;
};

/* Pass the bins in an order other than by size: in steps of seven, or backwards if the steps would miss some. */
static void
scene_open(struct scene *scene, const uint64_t *limits, size_t bin_count)
{
    struct tide_upstream bins[MOST_BINS];

    scene->bin_count = bin_count;
    for (size_t i = 0; i <= bin_count; i++) {
        size_t place = bin_count > 0 ? i * 7 % bin_count : 0;

        scene->upstreams[i] = upstream_create();
        scene->limits[i] = i < bin_count ? limits[i] : UINT64_MAX;
        if (i < bin_count && bin_count % 7 != 0)
            bins[place] = (struct tide_upstream){ &scene->upstreams[i]->base, limits[i] };
        else if (i < bin_count)
            bins[bin_count - 1 - i] = (struct tide_upstream){ &scene->upstreams[i]->base, limits[i] };
    }
    if (create(&scene->upstreams[bin_count]->base, bins, bin_count, &scene->binning) != TIDE_OK)
        abort();
}

static void
scene_close(struct scene *scene)
{
    tide_resource_release(scene->binning);
    for (size_t i = 0; i <= scene->bin_count; i++)
        tide_resource_release(&scene->upstreams[i]->base);
}

/*
 * The index of the upstream that serves `bytes`, by one allocation and one deallocation; -1 if not exactly one is
 * called.
 */
static int
scene_serves(struct scene *scene, uint64_t bytes)
{
    int served = -1;
    uint64_t calls = 0;
    void *pointer;

    for (size_t i = 0; i <= scene->bin_count; i++)
        scene->upstreams[i]->allocate_calls = scene->upstreams[i]->deallocate_calls = 0;
    if (take(scene->binning, bytes, &pointer) == TIDE_OK)
        give(scene->binning, pointer, bytes);
    for (size_t i = 0; i <= scene->bin_count; i++) {
        calls += scene->upstreams[i]->allocate_calls;
        if (scene->upstreams[i]->allocate_calls == 1 && scene->upstreams[i]->wrong_frees == 0 &&
            scene->upstreams[i]->deallocate_calls <= 1 && scene->upstreams[i]->live_count == 0)
            served = (int)i;
    }
    return calls == 1 ? served : -1;
}

#define ROUTE_TESTS 16

static void
check_routes(void)
{
    static const uint64_t limits[] = { 256, 1000, 4096 };
    struct scene scene;

    scene_open(&scene, limits, 3);
    is_i64(scene_serves(&scene, 1), 0, "a byte goes to the smallest bin");
    is_i64(scene_serves(&scene, 255), 0, "a byte under a limit goes to its bin");
    is_i64(scene_serves(&scene, 256), 0, "a request of exactly the limit goes to its bin");
    is_i64(scene_serves(&scene, 257), 1, "a byte over the limit goes to the next bin");
    is_i64(scene_serves(&scene, 1000), 1, "limits need not be powers of two");
    is_i64(scene_serves(&scene, 1001), 2, "a byte over a limit that is no power of two goes to the next bin");
    is_i64(scene_serves(&scene, 4096), 2, "a request of exactly the largest limit goes to the largest bin");
    is_i64(scene_serves(&scene, 4097), 3, "a byte over the largest limit goes to the upstream for larger requests");
    is_i64(scene_serves(&scene, SIZE_MAX), 3, "SIZE_MAX bytes go to the upstream for larger requests");
    is_i64(scene_serves(&scene, 0), 0, "0 bytes are allocated and freed by the smallest bin");
    scene_close(&scene);

    scene_open(&scene, NULL, 0);
    ok(all_of(scene_serves(&scene, 0) == 0, scene_serves(&scene, 1) == 0, scene_serves(&scene, SIZE_MAX) == 0),
       "without bins every request goes to the upstream for larger requests");
    scene_close(&scene);

    scene_open(&scene, (const uint64_t[]){ 1, UINT64_MAX }, 2);
    ok(all_of(scene_serves(&scene, 0) == 0, scene_serves(&scene, 1) == 0), "a bin may have a limit of one byte");
    ok(all_of(scene_serves(&scene, 2) == 1, scene_serves(&scene, SIZE_MAX) == 1),
       "a bin may have a limit of SIZE_MAX bytes");
    scene.upstreams[0]->fail_allocate = 1;
    ok(take(scene.binning, 1, &(void *){ NULL }) == TIDE_ECAPACITY, "the failure of a bin fails the request");
    tide_order(scene.binning, 3, 4);
    ok(all_of(scene.upstreams[2]->last_earlier == 3, scene.upstreams[2]->last_later == 4),
       "streams are ordered by the upstream for larger requests");
    take(scene.binning, 1, &(void *){ NULL });
    ok(tide_query(scene.binning, TIDE_QUERY_BYTES_USED, &(uint64_t){ 0 }) == TIDE_OK,
       "queries are answered by the upstream for larger requests");
    scene_close(&scene);
}

#define SEARCH_TESTS 1

/* Compare each size around each limit, for 0 to 20 bins, with the first limit that fits. */
static void
check_search(void)
{
    uint64_t limits[MOST_BINS];
    uint64_t wrong = 0;

    for (size_t count = 0; count <= MOST_BINS; count++) {
        struct scene scene;

        for (size_t i = 0; i < count; i++)
            limits[i] = 10 * (i + 1) + i % 3;
        scene_open(&scene, limits, count);
        for (uint64_t bytes = 0; bytes < 10 * count + 15; bytes++) {
            int wanted = 0;

            while (scene.limits[wanted] < bytes)
                wanted++;
            wrong += scene_serves(&scene, bytes) != wanted;
        }
        scene_close(&scene);
    }
    is_u64(wrong, 0, "with 0 to 20 bins every size goes to the first limit that fits");
}

#define SHAPE_TESTS 11

static void
check_shape(void)
{
    static const uint64_t limits[] = { 100, 200 };
    struct tide_upstream edge;
    struct scene scene;
    struct tide_resource *binning = (struct tide_resource *)&scene;
    bool destroyed[3] = { 0 };

    scene_open(&scene, limits, 2);
    ok(all_of(scene.binning->ops->upstream_at(scene.binning, 0, &edge) == TIDE_OK,
              edge.resource == &scene.upstreams[2]->base, edge.limit_bytes == UINT64_MAX),
       "the first listed upstream is the one for larger requests");
    ok(all_of(scene.binning->ops->upstream_at(scene.binning, 1, &edge) == TIDE_OK,
              edge.resource == &scene.upstreams[0]->base, edge.limit_bytes == 100),
       "the second listed upstream is the bin of the smallest limit");
    ok(all_of(scene.binning->ops->upstream_at(scene.binning, 2, &edge) == TIDE_OK,
              edge.resource == &scene.upstreams[1]->base, edge.limit_bytes == 200),
       "the third listed upstream is the bin of the next limit");
    ok(all_of(scene.binning->ops->upstream_at(scene.binning, 3, &edge) == TIDE_EINVAL, edge.resource == NULL),
       "there is no upstream after the last bin");
    for (size_t i = 0; i < 3; i++) {
        scene.upstreams[i]->destroyed = &destroyed[i];
        tide_resource_release(&scene.upstreams[i]->base);
    }
    ok(all_of(!destroyed[0], !destroyed[1], !destroyed[2]), "the layer holds a reference to every upstream");
    tide_resource_release(scene.binning);
    ok(all_of(destroyed[0], destroyed[1], destroyed[2]), "the upstreams are destroyed with the layer");

    scene.upstreams[0] = upstream_create();
    scene.upstreams[0]->destroyed = &destroyed[0];
    destroyed[0] = false;
    struct tide_upstream bins[] = { { &scene.upstreams[0]->base, 100 }, { &scene.upstreams[0]->base, 100 } };
    ok(all_of(create(&scene.upstreams[0]->base, bins, 2, &binning) == TIDE_EINVAL, binning == NULL),
       "two bins of one limit are refused");
    bins[1].limit_bytes = 0;
    ok(create(&scene.upstreams[0]->base, bins, 2, &binning) == TIDE_EINVAL, "a bin of 0 bytes is refused");
    bins[1] = (struct tide_upstream){ NULL, 5 };
    ok(create(&scene.upstreams[0]->base, bins, 2, &binning) == TIDE_EINVAL, "a bin without a resource is refused");
    ok(all_of(create(NULL, bins, 1, &binning) == TIDE_EINVAL,
              create(&scene.upstreams[0]->base, NULL, 1, &binning) == TIDE_EINVAL,
              create(&scene.upstreams[0]->base, bins, 1, NULL) == TIDE_EINVAL),
       "NULL in place of a pointer is refused");
    tide_resource_release(&scene.upstreams[0]->base);
    ok(destroyed[0], "a refused creation keeps no reference");
}

/* Bins given beside a range. */
static void
check_range_beside(struct tide_resource *base)
{
    struct tide_upstream bin = { base, 700 }, edge = { 0 };
    struct tide_binning_options options = { TIDE_OPTIONS(options), .bins = &bin, .bin_count = 1, .smallest_bytes = 512,
                                            .largest_bytes = 1024 };
    struct tide_resource *binning;

    ok(all_of(tide_binning_create(base, &options, &binning) == TIDE_OK,
              binning->ops->upstream_at(binning, 2, &edge) == TIDE_OK, edge.resource == base, edge.limit_bytes == 700),
       "a range may be combined with a bin between its limits");
    tide_resource_release(binning);
    bin.limit_bytes = 512;
    ok(all_of(tide_binning_create(base, &options, &binning) == TIDE_EINVAL, binning == NULL),
       "a bin with the same limit as one of a range is refused");
    ok(tide_binning_create(base, NULL, &binning) == TIDE_OK, "NULL options make a layer without bins");
    tide_resource_release(binning);
}

#define RANGE_TESTS 15

static void
check_range(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *binning;
    struct tide_upstream edge = { 0 };
    void *pointer, *again;
    bool destroyed = false;

    upstream->destroyed = &destroyed;
    ok(create_range(&upstream->base, 256, 64 * KIB, &binning) == TIDE_OK, "a layer is created from a range");
    ok(all_of(binning->ops->upstream_at(binning, 9, &edge) == TIDE_OK, edge.limit_bytes == 64 * KIB,
              strcmp(tide_resource_name(edge.resource), "fixed") == 0,
              binning->ops->upstream_at(binning, 10, &edge) == TIDE_EINVAL),
       "a range from 256 B to 64 KiB makes nine bins of fixed blocks");
    is_u64(upstream->allocate_calls, 0, "the bins of a range allocate nothing at creation");
    take(binning, 700, &pointer);
    is_u64(upstream->last_bytes, 1024, "a request of 700 bytes takes a block of 1 KiB");
    ok(all_of(give(binning, pointer, 600) == TIDE_EMISMATCH, give(binning, pointer, 300) == TIDE_EPOINTER),
       "a free with a wrong size is refused, whether the size is of the same bin or of another");
    give(binning, pointer, 700);
    take(binning, 1000, &again);
    ok(all_of(again == pointer, upstream->allocate_calls == 1),
       "a request of 1000 bytes takes the freed block of 1 KiB");
    take(binning, 64 * KIB + 1, &again);
    is_u64(upstream->last_bytes, 64 * KIB + 1, "a request over the largest bin passes to upstream unchanged");
    tide_resource_release(binning);

    ok(all_of(create_range(&upstream->base, 1, UINT64_C(1) << 63, &binning) == TIDE_OK,
              binning->ops->upstream_at(binning, 64, &edge) == TIDE_OK, edge.limit_bytes == UINT64_C(1) << 63,
              binning->ops->upstream_at(binning, 65, &edge) == TIDE_EINVAL),
       "a range over all powers of two has 64 bins");
    ok(all_of(take(binning, (UINT64_C(1) << 62) + 1, &pointer) == TIDE_ECAPACITY, pointer == NULL,
              take(binning, SIZE_MAX, &pointer) == TIDE_ECAPACITY),
       "the largest blocks of the range over all powers of two cannot be allocated");
    tide_resource_release(binning);
    ok(create_range(&upstream->base, 512, 512, &binning) == TIDE_OK, "a range of a single size is accepted");
    tide_resource_release(binning);
    check_range_beside(&upstream->base);
    binning = &upstream->base;
    ok(all_of(create_range(&upstream->base, 512, 256, &binning) == TIDE_EINVAL, binning == NULL,
              create_range(&upstream->base, 0, 256, &binning) == TIDE_EINVAL,
              create_range(&upstream->base, 256, 1000, &binning) == TIDE_EINVAL,
              create_range(NULL, 256, 512, &binning) == TIDE_EINVAL,
              create_range(&upstream->base, 256, 512, NULL) == TIDE_EINVAL),
       "a range that falls, has limits that are no powers of two, or has no upstream is refused");
    tide_resource_release(&upstream->base);
    ok(destroyed, "upstream is destroyed with the last layer over it");
}

#define ADD_TESTS 16

/* Bins are added while blocks of their sizes are allocated. */
static void
check_add(void)
{
    struct upstream *upstreams[4]; /* the one for larger requests, and bins of 4096 (from the start), 1000 and 100 */
    struct tide_upstream bins[] = { { NULL, 4096 } }, edge;
    struct tide_resource *binning;
    void *blocks[6], *nothing[3];
    bool destroyed[4] = { false };

    for (int i = 0; i < 4; i++) {
        upstreams[i] = upstream_create();
        upstreams[i]->destroyed = &destroyed[i];
        upstreams[i]->next_address += (uint64_t)i << 40;
    }
    bins[0].resource = &upstreams[1]->base;
    if (create(&upstreams[0]->base, bins, 1, &binning) != TIDE_OK)
        abort();
    take(binning, 50, &blocks[0]);
    take(binning, 0, &nothing[0]);
    ok(tide_binning_add(binning, 1000, &upstreams[2]->base) == TIDE_OK, "a bin is added to a layer in use");
    take(binning, 50, &blocks[1]);
    take(binning, 0, &nothing[1]);
    is_u64(upstreams[2]->live_bytes, 50, "the added bin serves requests of its sizes");
    ok(tide_binning_add(binning, 100, &upstreams[3]->base) == TIDE_OK, "a bin with a smaller limit is added");
    take(binning, 50, &blocks[2]);
    take(binning, 0, &nothing[2]);
    take(binning, 500, &blocks[3]);
    take(binning, 2000, &blocks[4]);
    take(binning, 5000, &blocks[5]);
    ok(all_of(upstreams[3]->live_bytes == 50, upstreams[2]->live_bytes == 550, upstreams[1]->live_bytes == 2050,
              upstreams[0]->live_bytes == 5000),
       "the smaller bin takes over the sizes up to its limit, and all other requests go where they went before");
    ok(all_of(binning->ops->upstream_at(binning, 1, &edge) == TIDE_OK, edge.limit_bytes == 100,
              binning->ops->upstream_at(binning, 3, &edge) == TIDE_OK, edge.limit_bytes == 4096,
              binning->ops->upstream_at(binning, 4, &edge) == TIDE_EINVAL),
       "the bins are listed by limit, added ones included");
    ok(all_of(tide_binning_add(binning, 100, &upstreams[2]->base) == TIDE_EINVAL,
              tide_binning_add(binning, 4096, &upstreams[2]->base) == TIDE_EINVAL),
       "adding a bin is refused if its limit is already taken");
    has_words(tide_error_text(), "two bins of up to 4 KiB", "the refusal of two bins of one limit names the limit");
    ok(all_of(tide_binning_add(binning, 0, &upstreams[2]->base) == TIDE_EINVAL,
              tide_binning_add(binning, 1, NULL) == TIDE_EINVAL, tide_binning_add(NULL, 1, binning) == TIDE_EINVAL,
              tide_binning_add(&upstreams[0]->base, 1, binning) == TIDE_EINVAL),
       "adding a bin of 0 bytes, a bin without a resource, or a bin to another kind of layer is refused");
    ok(all_of(tide_binning_add(binning, UINT64_MAX, &upstreams[2]->base) == TIDE_OK,
              take(binning, SIZE_MAX, &blocks[5]) != TIDE_OK),
       "a bin of the largest limit can be added");

    ok(all_of(give(binning, blocks[0], 50) == TIDE_OK, upstreams[1]->live_bytes == 2000),
       "a block from before the bins were added is freed where it was allocated");
    upstreams[2]->fail_deallocate = 1;
    ok(all_of(give(binning, blocks[1], 50) == TIDE_EDRIVER, give(binning, blocks[1], 50) == TIDE_OK),
       "a block of an added bin whose free has failed can be freed again");
    ok(all_of(give(binning, blocks[2], 50) == TIDE_OK, give(binning, blocks[3], 500) == TIDE_OK,
              give(binning, blocks[4], 2000) == TIDE_OK),
       "all other blocks are freed where they were allocated");
    for (int i = 0; i < 3; i++)
        give(binning, nothing[i], 0);
    is_u64(upstreams[1]->deallocate_calls, 3, "0 bytes are freed where they were allocated");
    is_u64(upstreams[2]->deallocate_calls + upstreams[3]->deallocate_calls, 6,
           "each bin was asked to free its own blocks");
    for (int i = 0; i < 4; i++)
        tide_resource_release(&upstreams[i]->base);
    ok(all_of(!destroyed[0], !destroyed[1], !destroyed[2], !destroyed[3]),
       "the layer holds a reference to every added bin");
    tide_resource_release(binning);
    ok(all_of(destroyed[0], destroyed[1], destroyed[2], destroyed[3]), "the added bins are destroyed with the layer");
}

#define ADDED   40
#define WORKERS 4

struct added {
    struct tide_resource *binning;
    uint64_t seed, wrong;
    _Atomic bool *all; /* set when all bins have been added; relaxed: it orders nothing else */
    pthread_t thread;
};

static void *
added_run(void *context)
{
    struct added *added = context;
    void *pointers[32] = { 0 };
    size_t sizes[32];

    /* Until all bins have been added, and some time longer. */
    for (int i = 0; i < 5000; i += atomic_load_explicit(added->all, memory_order_relaxed)) {
        unsigned slot = (unsigned)(contract_random(&added->seed) % 32);

        if (pointers[slot] != NULL) {
            added->wrong += give(added->binning, pointers[slot], sizes[slot]) != TIDE_OK;
            pointers[slot] = NULL;
        } else {
            sizes[slot] = 1 + contract_random(&added->seed) % (ADDED * 100);
            added->wrong += take(added->binning, sizes[slot], &pointers[slot]) != TIDE_OK;
        }
    }
    for (int slot = 0; slot < 32; slot++)
        added->wrong += pointers[slot] != NULL && give(added->binning, pointers[slot], sizes[slot]) != TIDE_OK;
    return NULL;
}

#define ADD_THREADS_TESTS 4

/* Two threads add bins while others allocate. Each upstream knows its own addresses. */
static void
check_add_beside_threads(void)
{
    struct tide_resource *base = base_sim(0), *binning, *upstreams[ADDED];
    struct added workers[WORKERS];
    _Atomic bool all = false;
    uint64_t wrong = 0, left = 0, refused = 0, served = 0;

    if (create(base, NULL, 0, &binning) != TIDE_OK)
        abort();
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct added){ .binning = binning, .seed = 77 + i, .all = &all };
        pthread_create(&workers[i].thread, NULL, added_run, &workers[i]);
    }
    for (unsigned i = 0; i < ADDED; i++) {
        if (tide_statistics_create(base, NULL, &upstreams[i]) != TIDE_OK)
            abort();
        refused += tide_binning_add(binning, (i * 7 % ADDED + 1) * 100, upstreams[i]) != TIDE_OK;
        sched_yield();
    }
    atomic_store_explicit(&all, true, memory_order_relaxed);
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
    }
    is_u64(refused, 0, "bins are added while other threads allocate");
    is_u64(wrong, 0, "every block that was allocated while bins were added is freed where it came from");
    for (unsigned i = 0; i < ADDED; i++) {
        struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };

        tide_statistics_read(upstreams[i], &figures);
        left += figures.bytes.current != 0 || figures.count.current != 0;
        served += figures.count.total != 0;
        tide_resource_release(upstreams[i]);
    }
    is_u64(left, 0, "after the threads nothing is left allocated in any bin");
    ok(served > ADDED / 2, "most of the added bins have served a request");
    tide_resource_release(binning);
    tide_resource_release(base);
}

/* The description of the stack that the text makes. */
static const char *
described(const char *text)
{
    static char description[512];
    struct tide_resource *stack;

    if (tide_stack_parse(text, &stack) != TIDE_OK)
        return tide_error_text();
    tide_describe(stack, description, sizeof(description), NULL);
    tide_resource_release(stack);
    return description;
}

#define TEXT_TESTS 7

static void
check_text(void)
{
    is_string(described("binning(256={fixed(256)}, 4KiB={fixed(4KiB, preallocate=2)}) | sim"),
              "binning(256={fixed(256)}, 4KiB={fixed(4KiB, preallocate=2)}) | sim",
              "bins with their own layers are described as they were written");
    is_string(described("binning(4KiB={statistics | fixed(4KiB)}, 256={fixed(256)}) | limit(1GiB) | host"),
              "binning(256={fixed(256)}, 4KiB={statistics | fixed(4KiB)}) | limit(1GiB) | host",
              "bins by size are described as they were written");
    is_string(described("binning(256..1KiB) | sim"),
              "binning(256={fixed(256)}, 512={fixed(512)}, 1KiB={fixed(1KiB)}) | sim",
              "a range is described as its bins");
    is_string(described("binning(256..512, 1MiB={fixed(1MiB)}) | sim"),
              "binning(256={fixed(256)}, 512={fixed(512)}, 1MiB={fixed(1MiB)}) | sim",
              "a range beside another bin is described as its bins");
    is_string(described("binning | sim"), "binning | sim", "a layer without bins is allowed in stack text");
    has_words(described("binning(256..1KiB, 512={fixed(512)}) | sim"), "two bins of up to 512 B",
              "a bin with the limit of one of a range is refused in stack text");
    has_words(described("binning(300..1KiB) | sim"), "powers of two", "a range of no powers of two is refused");
}

/* A stack whose bins keep no blocks: kept blocks would count as used below. */
static struct tide_resource *
contract_create(void *context)
{
    const struct base_maker *maker = context;
    struct tide_resource *base = maker->create(0), *binning;
    struct tide_limit_options bound = { TIDE_OPTIONS(bound), .limit_bytes = MIB };
    struct tide_upstream bins[] = { { NULL, 256 }, { NULL, 4 * KIB }, { base, 16 * KIB } };

    if (tide_statistics_create(base, NULL, &bins[0].resource) != TIDE_OK ||
        tide_limit_create(base, &bound, &bins[1].resource) != TIDE_OK || create(base, bins, 3, &binning) != TIDE_OK)
        abort();
    tide_resource_release(bins[0].resource);
    tide_resource_release(bins[1].resource);
    tide_resource_release(base);
    return binning;
}

#define BASE_TESTS 3

/* Blocks that bins keep count as used below the layer, and only there. */
static void
check_base(const struct base_maker *maker)
{
    struct tide_resource *base = maker->create(0), *binning;
    uint64_t used = 0;
    void *small = NULL, *large = NULL;

    diag("bins over %s", maker->name);
    if (create_range(base, 256, 16 * KIB, &binning) != TIDE_OK)
        abort();
    tide_resource_release(base);
    ok(all_of(take(binning, 300, &small) == TIDE_OK, take(binning, MIB, &large) == TIDE_OK),
       "small and large requests pass");
    tide_query(binning, TIDE_QUERY_BYTES_USED, &used);
    is_u64(used, 512 + MIB, "the small request counts as its block below, the large one as itself");
    give(binning, small, 300);
    give(binning, large, MIB);
    tide_query(binning, TIDE_QUERY_BYTES_USED, &used);
    is_u64(used, 512, "a freed small block stays allocated below");
    tide_resource_release(binning);
}

#define ORDER_TESTS 5

static void
check_order(void)
{
    static const uint64_t limits[] = { 256, 1000, 4096 };
    struct scene scene;
    uint64_t behind_one = 0, behind_all = 0;

    scene_open(&scene, limits, 3);
    ok(all_of(tide_order(scene.binning, 3, 4) == TIDE_OK, scene.upstreams[3]->last_earlier == 3,
              scene.upstreams[3]->last_later == 4),
       "streams are ordered through the layer that follows");
    for (size_t i = 0; i < 3; i++)
        behind_one += scene.upstreams[i]->order_calls;
    is_u64(behind_one, 0, "an order of two streams does not reach the bins");
    ok(tide_order(scene.binning, TIDE_STREAM_ALL, 0) == TIDE_OK, "an order behind all streams succeeds");
    scene.upstreams[1]->order_all_status = TIDE_EDRIVER;
    ok(tide_order(scene.binning, TIDE_STREAM_ALL, 0) == TIDE_EDRIVER,
       "an order behind all streams fails if one bin fails");
    for (size_t i = 0; i <= 3; i++)
        behind_all += scene.upstreams[i]->order_all_calls;
    is_u64(behind_all, 8, "every bin is asked for an order behind all streams, although one fails");
    scene_close(&scene);
}

static const struct {
    const char *text, *wanted; /* `wanted` NULL: the stack is made */
} served[] = {
    { "binning(256KiB={fixed(256KiB)}) | sim", NULL },
    { "binning(256KiB={fixed(128KiB)}) | sim",
      "stack text, column 9: binning: the bin of up to 256 KiB serves no more than 131072 B" },
    { "binning(64={fixed(64)}, 256KiB={statistics | fixed(262143)}) | sim",
      "stack text, column 25: binning: the bin of up to 256 KiB serves no more than 262143 B" },
    { "binning(1MiB={limit(1MiB)}) | sim", NULL },
    { "binning(1MiB={limit(512KiB)}) | sim",
      "stack text, column 9: binning: the bin of up to 1 MiB serves no more than 524288 B" },
    { "binning(1MiB={guard(canary=256) | fixed(1049088)}) | host", NULL },
    { "binning(1MiB={guard(canary=256) | fixed(1049087)}) | host",
      "stack text, column 9: binning: the bin of up to 1 MiB serves no more than 1048575 B" },
    { "binning(1MiB={binning(64KiB={fixed(64KiB)})}) | fixed(512KiB) | sim",
      "stack text, column 9: binning: the bin of up to 1 MiB serves no more than 524288 B" },
    { "binning(4KiB={statistics}, 4KiB={statistics}) | sim",
      "stack text, column 28: binning: two bins of up to 4 KiB" },
    { "binning(1KiB..8KiB, 4KiB={statistics}) | sim", "stack text, column 21: binning: two bins of up to 4 KiB" },
};

#define SERVED_COUNT ((int)(sizeof(served) / sizeof(served[0])))
#define SERVED_TESTS (SERVED_COUNT + 3)

/* A bin that cannot serve the sizes sent to it is refused at creation. */
static void
check_served(void)
{
    struct tide_resource *binning, *fixed;
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = 100 };
    uint64_t largest = 0;

    for (int i = 0; i < SERVED_COUNT; i++) {
        enum tide_status status = tide_stack_parse(served[i].text, &binning);

        is_string(status == TIDE_OK ? "it is made" : tide_error_text(),
                  served[i].wanted != NULL ? served[i].wanted : "it is made", served[i].text);
        tide_resource_release(binning);
    }
    if (tide_stack_parse("binning(50={statistics}) | sim", &binning) != TIDE_OK ||
        tide_fixed_create(binning->upstream, &options, &fixed) != TIDE_OK)
        abort();
    ok(tide_binning_add(binning, 101, fixed) == TIDE_EINVAL,
       "adding a bin whose limit exceeds its resource's largest request is refused");
    ok(tide_binning_add(binning, 100, fixed) == TIDE_OK,
       "adding a bin whose limit equals its resource's largest request is accepted");
    ok(all_of(tide_query(binning, TIDE_QUERY_LARGEST_REQUEST, &largest) == TIDE_EUNSUPPORTED,
              tide_query(fixed, TIDE_QUERY_LARGEST_REQUEST, &largest) == TIDE_OK, largest == 100),
       "the largest request is that of the upstream for larger requests");
    tide_resource_release(fixed);
    tide_resource_release(binning);
}

int
main(void)
{
    plan(BASE_COUNT * (CONTRACT_TESTS + BASE_TESTS) + ROUTE_TESTS + SEARCH_TESTS + SHAPE_TESTS + RANGE_TESTS +
         ADD_TESTS + ADD_THREADS_TESTS + TEXT_TESTS + ORDER_TESTS + SERVED_TESTS);
    for (size_t i = 0; i < BASE_COUNT; i++) {
        const struct contract contract = { .name = "binning",
                                           .create = contract_create,
                                           .context = (void *)&bases[i],
                                           .largest_bytes = 65536,
                                           .knows_pointers = strcmp(bases[i].name, "sim") == 0 };

        contract_check(&contract);
        check_base(&bases[i]);
    }
    check_routes();
    check_search();
    check_shape();
    check_range();
    check_add();
    check_add_beside_threads();
    check_text();
    check_order();
    check_served();
    return done();
}
