/*
 * Tests pool, arena and fixed with dozens of threads and streams and too little memory. A model knows the owner of each
 * 256 bytes, when and on which stream they were freed, and which stream has waited for which; every block is checked
 * against it. In the model work never ends by itself: memory is free for a stream only after the stream was ordered
 * behind all uses of the memory. Trims, orders behind all streams and queries come in between; streams are destroyed
 * and their handles are reused; upstream is slow and refuses requests.
 *
 * STORM_ROUNDS in the environment makes it longer: 8 rounds for each resource take a few seconds.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "tap.h"

#define MIB        (UINT64_C(1) << 20)
#define GRANULE    256
#define SLOTS      1024
#define SLOT_BYTES (64 * MIB)
#define BASE       UINT64_C(0x100000000000)

#define THREADS      6
#define STEPS        1500
#define OWN          24
#define SHELVES      16
#define STREAMS      12 /* handles; the stream of handle 0 is never destroyed */
#define GENERATIONS  20 /* of all other handles, for each resource */
#define STREAM_IDS   (1 + (STREAMS - 1) * GENERATIONS)
#define LIVE_BYTES   (8 * MIB) /* of all threads */
#define ROUNDS_LEAST 8

/* The last use of a granule, and its stream. */
struct granule {
    uint64_t time : 48;
    uint64_t stream : 15;
    uint64_t live : 1;
};

struct slot {
    struct granule *granules; /* owns; NULL: no chunk */
    uint64_t bytes;
};

/* A base that knows the order of streams. */
struct timeline {
    struct tide_resource base;
    pthread_mutex_t lock;
    struct slot slots[SLOTS];
    size_t next_slot;
    uint64_t reserved_bytes, capacity_bytes;
    uint64_t seed;
    uint64_t clock;                           /* one for all streams */
    uint64_t waited[STREAM_IDS][STREAM_IDS];  /* [later][earlier]: up to when `later` has waited for `earlier` */
    unsigned generation;                      /* of all handles but 0 */
    uint64_t early, overlaps, returned_early; /* violations */
    uint64_t orders, refusals;
};

static size_t
stream_id(const struct timeline *timeline, tide_stream stream)
{
    return stream == 0 ? 0 : stream + (STREAMS - 1) * timeline->generation;
}

static struct granule *
granules_at(struct timeline *timeline, const void *pointer)
{
    uint64_t offset = (uintptr_t)pointer - BASE;

    return &timeline->slots[offset / SLOT_BYTES].granules[offset % SLOT_BYTES / GRANULE];
}

/* Whether all uses of a granule are done before the next work on the stream. Call with the lock. */
static bool
is_ordered(const struct timeline *timeline, const struct granule *granule, size_t id)
{
    return granule->time <= timeline->waited[id][granule->stream];
}

/* Submit work on a stream. Returns its time. */
static uint64_t
submit(struct timeline *timeline, size_t id)
{
    return timeline->waited[id][id] = ++timeline->clock;
}

static void
take_a_while(struct timeline *timeline)
{
    uint64_t drawn;

    pthread_mutex_lock(&timeline->lock);
    drawn = contract_random(&timeline->seed) % 64;
    pthread_mutex_unlock(&timeline->lock);
    if (drawn == 0)
        usleep(200);
    else if (drawn < 24)
        sched_yield();
}

static enum tide_status
timeline_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct timeline *timeline = (struct timeline *)self;
    enum tide_status status = TIDE_OK;
    size_t slot;

    (void)stream;
    *out = NULL;
    take_a_while(timeline);
    pthread_mutex_lock(&timeline->lock);
    if (bytes > SLOT_BYTES || alignment > SLOT_BYTES || timeline->reserved_bytes + bytes > timeline->capacity_bytes ||
        contract_random(&timeline->seed) % 64 == 0) {
        timeline->refusals++;
        status = tide_error_set(TIDE_ECAPACITY, "timeline: no room for %zu B", bytes);
    } else {
        do
            slot = timeline->next_slot++ % SLOTS;
        while (timeline->slots[slot].granules != NULL);
        timeline->slots[slot].bytes = bytes;
        timeline->slots[slot].granules = calloc((bytes + GRANULE - 1) / GRANULE, sizeof(struct granule));
        timeline->reserved_bytes += bytes;
        *out = (void *)(BASE + slot * SLOT_BYTES);
    }
    pthread_mutex_unlock(&timeline->lock);
    return status;
}

/* A chunk goes back on a stream, which must be ordered behind all uses of the chunk. */
static enum tide_status
timeline_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct timeline *timeline = (struct timeline *)self;
    struct granule *granules;

    (void)alignment;
    take_a_while(timeline);
    pthread_mutex_lock(&timeline->lock);
    granules = granules_at(timeline, pointer);
    for (size_t i = 0; i < (bytes + GRANULE - 1) / GRANULE; i++)
        timeline->returned_early +=
            granules[i].live || !is_ordered(timeline, &granules[i], stream_id(timeline, stream));
    timeline->slots[((uintptr_t)pointer - BASE) / SLOT_BYTES].granules = NULL;
    timeline->reserved_bytes -= bytes;
    pthread_mutex_unlock(&timeline->lock);
    free(granules);
    return TIDE_OK;
}

static void
wait_for(struct timeline *timeline, size_t earlier, size_t later)
{
    for (size_t i = 0; i < STREAM_IDS; i++) {
        if (timeline->waited[later][i] < timeline->waited[earlier][i])
            timeline->waited[later][i] = timeline->waited[earlier][i];
    }
}

static enum tide_status
timeline_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    struct timeline *timeline = (struct timeline *)self;

    take_a_while(timeline);
    pthread_mutex_lock(&timeline->lock);
    timeline->orders++;
    if (earlier != TIDE_STREAM_ALL)
        wait_for(timeline, stream_id(timeline, earlier), stream_id(timeline, later));
    for (size_t i = 0; earlier == TIDE_STREAM_ALL && i < STREAM_IDS; i++)
        wait_for(timeline, i, stream_id(timeline, later));
    pthread_mutex_unlock(&timeline->lock);
    take_a_while(timeline);
    return TIDE_OK;
}

static void
timeline_destroy(struct tide_resource *self)
{
    struct timeline *timeline = (struct timeline *)self;

    pthread_mutex_destroy(&timeline->lock);
    tide_resource_fini(self);
    free(timeline);
}

static const struct tide_resource_ops timeline_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "timeline",
    .allocate = timeline_allocate,
    .deallocate = timeline_deallocate,
    .order = timeline_order,
    .trim = tide_base_trim,
    .query = tide_base_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = timeline_destroy,
};

static struct timeline *
timeline_create(uint64_t capacity_bytes, uint64_t seed)
{
    struct timeline *timeline = calloc(1, sizeof(*timeline));

    if (timeline == NULL || tide_resource_init(&timeline->base, &timeline_ops, NULL) != TIDE_OK)
        abort();
    pthread_mutex_init(&timeline->lock, NULL);
    timeline->seed = seed;
    timeline->capacity_bytes = capacity_bytes;
    return timeline;
}

/* All streams but 0 are destroyed, after an order of stream 0; their handles are given to new streams. */
static void
timeline_renew(struct timeline *timeline)
{
    timeline->generation = (timeline->generation + 1) % GENERATIONS;
    for (tide_stream stream = 1; stream < STREAMS; stream++)
        memset(timeline->waited[stream_id(timeline, stream)], 0, sizeof(timeline->waited[0]));
}

struct block {
    void *pointer; /* NULL: no block */
    size_t bytes;
    tide_stream stream; /* the stream that uses it */
};

struct storm {
    struct timeline *timeline;
    struct tide_resource *resource;
    size_t most_bytes; /* the largest request */
    _Atomic int64_t live_bytes;
    _Atomic uint64_t refused, failures, odd_figures;
    struct {
        pthread_mutex_t lock;
        struct block block;
    } shelves[SHELVES];
};

struct worker {
    pthread_t thread;
    struct storm *storm;
    uint64_t seed;
    struct block own[OWN];
};

static void
block_new(struct worker *worker, struct block *block)
{
    struct storm *storm = worker->storm;
    struct timeline *timeline = storm->timeline;
    uint64_t bytes = 1 + contract_random(&worker->seed) % (UINT64_C(1) << contract_random(&worker->seed) % 22);
    tide_stream stream = contract_random(&worker->seed) % STREAMS;
    struct granule *granules;
    enum tide_status status;
    size_t id, count;
    void *pointer;

    bytes = bytes > storm->most_bytes ? storm->most_bytes : bytes;
    if (atomic_fetch_add(&storm->live_bytes, (int64_t)bytes) + (int64_t)bytes > (int64_t)LIVE_BYTES) {
        atomic_fetch_sub(&storm->live_bytes, (int64_t)bytes);
        return;
    }
    status = tide_allocate(storm->resource, bytes, 256, stream, &pointer);
    if (status != TIDE_OK) {
        atomic_fetch_add(status == TIDE_ECAPACITY ? &storm->refused : &storm->failures, 1);
        atomic_fetch_sub(&storm->live_bytes, (int64_t)bytes);
        return;
    }
    *block = (struct block){ pointer, bytes, stream };
    count = (bytes + GRANULE - 1) / GRANULE;
    pthread_mutex_lock(&timeline->lock);
    id = stream_id(timeline, stream);
    granules = granules_at(timeline, pointer);
    for (size_t i = 0; i < count; i++) {
        timeline->overlaps += granules[i].live;
        timeline->early += !is_ordered(timeline, &granules[i], id);
        granules[i] = (struct granule){ .time = timeline->clock + 1, .stream = id, .live = 1 };
    }
    submit(timeline, id);
    pthread_mutex_unlock(&timeline->lock);
}

/* Free a block on the stream that uses it, or on another one that was ordered behind it. */
static void
block_end(struct worker *worker, struct block *block)
{
    struct storm *storm = worker->storm;
    struct timeline *timeline = storm->timeline;
    tide_stream stream =
        contract_random(&worker->seed) % 4 == 0 ? contract_random(&worker->seed) % STREAMS : block->stream;
    size_t count = (block->bytes + GRANULE - 1) / GRANULE, id;
    struct granule *granules;

    pthread_mutex_lock(&timeline->lock);
    id = stream_id(timeline, stream);
    wait_for(timeline, stream_id(timeline, block->stream), id);
    granules = granules_at(timeline, block->pointer);
    for (size_t i = 0; i < count; i++)
        granules[i] = (struct granule){ .time = timeline->clock + 1, .stream = id };
    submit(timeline, id);
    pthread_mutex_unlock(&timeline->lock);
    if (tide_deallocate(storm->resource, block->pointer, block->bytes, 256, stream) != TIDE_OK)
        atomic_fetch_add(&storm->failures, 1);
    atomic_fetch_sub(&storm->live_bytes, (int64_t)block->bytes);
    block->pointer = NULL;
}

static void
block_swap(struct worker *worker, struct block *block)
{
    size_t shelf = contract_random(&worker->seed) % SHELVES;
    struct block other;

    pthread_mutex_lock(&worker->storm->shelves[shelf].lock);
    other = worker->storm->shelves[shelf].block;
    worker->storm->shelves[shelf].block = *block;
    pthread_mutex_unlock(&worker->storm->shelves[shelf].lock);
    *block = other;
}

static void
check_figures(struct storm *storm)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };
    uint64_t value;

    for (int what = TIDE_QUERY_BYTES_USED; what <= TIDE_QUERY_FREE_BLOCKS; what++)
        tide_query(storm->resource, (enum tide_query)what, &value);
    if (tide_pool_read(storm->resource, &figures) != TIDE_OK)
        return;
    if (figures.used_bytes + figures.cached_bytes + figures.free_bytes > figures.reserved_bytes ||
        figures.reserved_bytes > figures.reserved_peak_bytes)
        atomic_fetch_add(&storm->odd_figures, 1);
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;
    struct storm *storm = worker->storm;

    for (int i = 0; i < STEPS; i++) {
        struct block *block = &worker->own[contract_random(&worker->seed) % OWN];
        uint64_t what = contract_random(&worker->seed) % 1000;

        if (what < 4)
            check_figures(storm);
        else if (what < 8)
            atomic_fetch_add(&storm->failures,
                             tide_trim(storm->resource, contract_random(&worker->seed) % (16 * MIB)) != TIDE_OK);
        else if (what < 10)
            atomic_fetch_add(&storm->failures, tide_order(storm->resource, TIDE_STREAM_ALL, 0) != TIDE_OK);
        else if (what < 200)
            block_swap(worker, block);
        else if (block->pointer == NULL)
            block_new(worker, block);
        else
            block_end(worker, block);
    }
    return NULL;
}

static void
end_all(struct storm *storm, struct worker *workers)
{
    for (size_t i = 0; i < THREADS * OWN; i++) {
        if (workers[i / OWN].own[i % OWN].pointer != NULL)
            block_end(&workers[0], &workers[i / OWN].own[i % OWN]);
    }
    for (size_t i = 0; i < SHELVES; i++) {
        if (storm->shelves[i].block.pointer != NULL)
            block_end(&workers[0], &storm->shelves[i].block);
    }
}

/* Stream 0 waits for the streams of allocated blocks that will be destroyed, and uses the blocks from then on. */
static void
hand_to_zero(struct storm *storm, struct worker *workers)
{
    for (size_t i = 0; i < THREADS * OWN; i++)
        workers[i / OWN].own[i % OWN].stream = 0;
    for (size_t i = 0; i < SHELVES; i++)
        storm->shelves[i].block.stream = 0;
}

static void
run_round(struct storm *storm, struct worker *workers, uint64_t seed)
{
    for (size_t i = 0; i < THREADS; i++) {
        workers[i].storm = storm;
        workers[i].seed = seed + i;
        if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) != 0)
            abort();
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
}

#define STORM_TESTS 5

static void
check_storm(const char *name, struct tide_resource *resource, struct timeline *timeline, size_t most_bytes,
            unsigned rounds, uint64_t seed)
{
    static struct worker workers[THREADS];
    static struct storm storm;

    memset(workers, 0, sizeof(workers));
    memset(&storm, 0, sizeof(storm));
    storm.timeline = timeline;
    storm.resource = resource;
    storm.most_bytes = most_bytes;
    for (size_t i = 0; i < SHELVES; i++)
        pthread_mutex_init(&storm.shelves[i].lock, NULL);
    for (unsigned round = 0; round < rounds; round++) {
        run_round(&storm, workers, seed + round * 1000);
        if (tide_order(resource, TIDE_STREAM_ALL, 0) != TIDE_OK)
            abort();
        hand_to_zero(&storm, workers);
        timeline_renew(timeline);
    }
    end_all(&storm, workers);
    tide_trim(resource, 0);
    if (storm.failures > 0 || storm.odd_figures > 0)
        diag("%" PRIu64 " failures, %" PRIu64 " odd figures", storm.failures, storm.odd_figures);
    diag("%s: %" PRIu64 " orders, %" PRIu64 " refusals of upstream, %" PRIu64 " of it", name, timeline->orders,
         timeline->refusals, storm.refused);
    is_u64(timeline->early, 0, "no stream gets memory before it waits for all streams that used it");
    is_u64(timeline->overlaps, 0, "no two blocks share memory");
    is_u64(timeline->returned_early, 0, "no memory goes back before all streams that used it are waited for");
    ok(all_of(storm.failures == 0, storm.odd_figures == 0),
       "%s: no call fails, and the figures of one moment are consistent", name);
    ok(timeline->reserved_bytes == 0, "%s: after all frees everything goes back", name);
    tide_resource_release(resource);
    tide_resource_release(&timeline->base);
}

static void
check_pool(const char *name, const struct tide_pool_options *options, unsigned rounds, uint64_t seed)
{
    struct timeline *timeline = timeline_create(14 * MIB, seed);
    struct tide_resource *pool;

    if (tide_pool_create(&timeline->base, options, &pool) != TIDE_OK)
        abort();
    check_storm(name, pool, timeline, 2 * MIB, rounds, seed);
}

static void
check_arena(unsigned rounds, uint64_t seed)
{
    struct tide_arena_options options = { TIDE_OPTIONS(options), .size_bytes = 12 * MIB };
    struct timeline *timeline = timeline_create(14 * MIB, seed);
    struct tide_resource *arena;

    if (tide_arena_create(&timeline->base, &options, &arena) != TIDE_OK)
        abort();
    check_storm("arena", arena, timeline, 2 * MIB, rounds, seed);
}

static void
check_fixed(unsigned rounds, uint64_t seed)
{
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = 65536 };
    struct timeline *timeline = timeline_create(5 * MIB, seed);
    struct tide_resource *fixed;

    if (tide_fixed_create(&timeline->base, &options, &fixed) != TIDE_OK)
        abort();
    check_storm("fixed", fixed, timeline, 65536, rounds, seed);
}

int
main(void)
{
    struct tide_pool_options plain = { TIDE_OPTIONS(plain) };
    struct tide_pool_options tight = { TIDE_OPTIONS(tight), .maximum_bytes = 12 * MIB, .growth_bytes = 12 * MIB,
                                       .initial_bytes = 4 * MIB };
    struct tide_pool_options bare = { TIDE_OPTIONS(bare), .cache_bytes = TIDE_NONE,
                                      .release_threshold_bytes = TIDE_NONE };
    const char *text = getenv("STORM_ROUNDS");
    unsigned rounds = text != NULL ? (unsigned)strtoul(text, NULL, 10) : ROUNDS_LEAST;
    uint64_t seed = contract_seed(20261123);

    plan(5 * STORM_TESTS);
    alarm(60 * (1 + rounds));
    check_pool("pool", &plain, rounds, seed);
    check_pool("pool at its maximum", &tight, rounds, seed + 1);
    check_pool("pool without caches", &bare, rounds, seed + 2);
    check_arena(rounds, seed + 3);
    check_fixed(rounds, seed + 4);
    return done();
}
