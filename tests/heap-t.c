/* Tests src/suballoc: compares what a heap hands out with a model of each granule, its stream, and the waits. */
#include <stdlib.h>

#include "contract.h"
#include "src/suballoc/heap.h"
#include "src/suballoc/leaving.h"
#include "tap.h"

#define GRANULE     UINT64_C(256)
#define CHUNKS      6
#define CHUNK_BYTES (UINT64_C(24) << 20)
#define BASE(chunk) (UINT64_C(0x7f0000000000) + (uint64_t)(chunk) * (CHUNK_BYTES + 4096)) /* chunk 3 follows on 2 */
#define STREAMS     5
#define LIVE_MOST   400
#define STEPS       60000

struct live {
    struct tidei_piece *piece;
    uint64_t address;
    uint64_t bytes;
};

/* The state of each granule: its owner, and when and on which stream it was freed. */
struct granule {
    uint16_t owner; /* index in `live`, plus 1; 0: free */
    uint8_t stream;
    uint32_t freed;
};

static struct {
    struct tidei_heap heap;
    bool there[CHUNKS];
    struct granule granules[CHUNKS][CHUNK_BYTES / GRANULE];
    struct live live[LIVE_MOST];
    uint32_t clock[STREAMS + 1]
                  [STREAMS + 1]; /* up to when the first stream has waited for the second, directly or not */
    uint32_t now;
    uint64_t seed;
    uint64_t overlaps, early, needless, misplaced, waits;
} model;

static size_t
chunk_of(uint64_t address)
{
    size_t chunk = 0;

    while (chunk + 1 < CHUNKS && address >= BASE(chunk + 1))
        chunk++;
    return chunk;
}

static struct granule *
granules_of(const struct live *live)
{
    size_t chunk = chunk_of(live->address);

    return &model.granules[chunk][(live->address - BASE(chunk)) / GRANULE];
}

/* The application's streams begin at 1. */
static uint32_t
number(uint32_t stream)
{
    return tidei_streams_number(&model.heap.streams, stream);
}

static uint32_t
stream_of(uint32_t number)
{
    return (uint32_t)model.heap.streams.streams[number]->handle;
}

/* `later` waits for `earlier`, and so for everything that `earlier` has waited for. */
static void
model_wait(uint32_t earlier, uint32_t later)
{
    for (size_t i = 1; i <= STREAMS; i++) {
        if (model.clock[later][i] < model.clock[earlier][i])
            model.clock[later][i] = model.clock[earlier][i];
    }
    model.clock[later][earlier] = model.now++;
    model.waits++;
}

static void
model_take(struct live *live, uint32_t stream)
{
    struct granule *granules = granules_of(live);
    size_t chunk = chunk_of(live->address);

    model.misplaced += !model.there[chunk] || live->address + live->bytes > BASE(chunk) + CHUNK_BYTES;
    for (uint64_t i = 0; i < live->bytes / GRANULE; i++) {
        struct granule *granule = &granules[i];

        model.overlaps += granule->owner != 0;
        model.early += granule->freed > model.clock[stream][granule->stream] && granule->stream != stream;
        granule->owner = (uint16_t)(live - model.live + 1);
    }
}

static void
model_free(struct live *live, uint32_t stream)
{
    struct granule *granules = granules_of(live);

    for (uint64_t i = 0; i < live->bytes / GRANULE; i++)
        granules[i] = (struct granule){ .stream = (uint8_t)stream, .freed = model.now };
    live->piece = NULL;
}

/* Whether a wait is needed: a granule was freed on that stream since the last wait. Merged runs have the later time. */
static bool
model_needs(const struct live *live, uint32_t earlier, uint32_t later)
{
    const struct granule *granules = granules_of(live);

    for (uint64_t i = 0; i < live->bytes / GRANULE; i++) {
        if (granules[i].stream == earlier && granules[i].freed > model.clock[later][earlier])
            return true;
    }
    return false;
}

/* Finish a piece; now and then give it back halfway. */
static void
finish(struct live *live, uint32_t stream, bool fail)
{
    uint32_t earlier;
    uint64_t epoch;

    tidei_streams_hold(&model.heap.streams, number(stream));
    while (tidei_heap_wait(&model.heap, live->piece, number(stream), &earlier, &epoch)) {
        model.needless += !model_needs(live, stream_of(earlier), stream);
        if (fail && contract_random(&model.seed) % 2 == 0) {
            tidei_heap_put_back(&model.heap, live->piece);
            live->piece = NULL;
            break;
        }
        model_wait(stream_of(earlier), stream);
        tidei_heap_waited(&model.heap, live->piece, number(stream), earlier, epoch);
    }
    tidei_streams_release(&model.heap.streams, number(stream));
    if (live->piece == NULL)
        return;
    model_take(live, stream);
    if (contract_random(&model.seed) % 2 == 0)
        tidei_piece_set_word(live->piece, TIDEI_PIECE_LIVE);
}

static void
step_take(struct live *live)
{
    uint32_t stream = 1 + (uint32_t)(contract_random(&model.seed) % STREAMS);
    uint64_t bytes = 1 + contract_random(&model.seed) % (UINT64_C(1) << contract_random(&model.seed) % 24);
    struct tidei_heap_request request = { .stream = number(stream), .alignment = GRANULE };

    request.bytes = tidei_heap_round(&model.heap, bytes, &request.zone);
    request.alignment <<= contract_random(&model.seed) % 8 == 0 ? contract_random(&model.seed) % 12 : 0;
    request.last_resort = contract_random(&model.seed) % 4 == 0;
    model.misplaced += request.bytes < bytes || request.bytes % GRANULE != 0;
    live->piece = tidei_heap_take(&model.heap, &request);
    if (live->piece == NULL)
        return;
    live->address = tidei_piece_address(live->piece);
    live->bytes = live->piece->bytes;
    model.misplaced += live->bytes != request.bytes || live->address % request.alignment != 0 ||
                       tidei_piece_map_find(&model.heap.out, (void *)(uintptr_t)live->address) != live->piece;
    finish(live, stream, contract_random(&model.seed) % 16 == 0);
}

static void
step_put(struct live *live)
{
    uint32_t stream = 1 + (uint32_t)(contract_random(&model.seed) % STREAMS);

    tidei_piece_set_word(live->piece, TIDEI_PIECE_MOVING);
    tidei_heap_put(&model.heap, live->piece, number(stream));
    model_free(live, stream);
}

static void
step_chunk(void)
{
    size_t chunk = contract_random(&model.seed) % CHUNKS;
    uint32_t stream = 1 + (uint32_t)(contract_random(&model.seed) % STREAMS);
    struct tidei_piece *taken;

    if (contract_random(&model.seed) % 2 == 0) {
        taken = tidei_heap_chunk_take(&model.heap, contract_random(&model.seed) % 2 == 0, UINT64_MAX);
        if (taken == NULL)
            return;
        if (contract_random(&model.seed) % 4 == 0) {
            tidei_heap_chunk_put_back(&model.heap, taken);
            return;
        }
        model.there[chunk_of(tidei_piece_address(taken))] = false;
        tidei_heap_chunk_forget(&model.heap, taken);
        return;
    }
    model.misplaced += tidei_heap_overlaps(&model.heap, BASE(chunk), CHUNK_BYTES) != model.there[chunk];
    if (model.there[chunk])
        return;
    model.there[chunk] = true;
    tidei_heap_chunk_add(&model.heap, BASE(chunk), CHUNK_BYTES, number(stream), chunk == 0);
    for (uint64_t i = 0; i < CHUNK_BYTES / GRANULE; i++)
        model.granules[chunk][i] = (struct granule){ .stream = (uint8_t)stream, .freed = model.now };
}

/* Do what tide_order behind TIDE_STREAM_ALL does. */
static void
step_reassign(void)
{
    uint32_t stream = 1 + (uint32_t)(contract_random(&model.seed) % STREAMS);
    uint64_t epoch = model.heap.streams.epoch++;

    model.now++;
    for (uint32_t i = 1; i <= STREAMS; i++)
        model_wait(i, stream);
    tidei_heap_reassign(&model.heap, epoch, number(stream));
}

/* Compare free bytes and pieces with the model: there are at least as many runs of free granules. */
static uint64_t
heap_differs(void)
{
    uint64_t free_bytes = 0, chunk_bytes = 0, out = 0, wrong = 0;

    for (size_t i = 0; i < LIVE_MOST; i++)
        out += model.live[i].piece != NULL ? model.live[i].bytes : 0;
    for (size_t i = 0; i < CHUNKS; i++) {
        const struct tidei_piece *piece;

        if (!model.there[i])
            continue;
        piece = tidei_heap_around(&model.heap, (void *)(uintptr_t)BASE(i));
        wrong += piece == NULL || tidei_piece_address(piece) != BASE(i);
        chunk_bytes += CHUNK_BYTES;
        for (uint64_t j = 0; j < CHUNK_BYTES / GRANULE; j++)
            free_bytes += model.granules[i][j].owner == 0 ? GRANULE : 0;
    }
    return wrong + (model.heap.out_bytes != out) + (free_bytes + out != chunk_bytes);
}

#define MODEL_TESTS 6

static void
check_model(void)
{
    struct tidei_piece *taken;
    uint64_t differs = 0;

    model.seed = contract_seed(20261121);
    model.now = 1;
    if (tidei_heap_init(&model.heap, GRANULE, 4096, UINT64_MAX) != TIDE_OK)
        abort();
    for (int i = 0; i < STEPS; i++) {
        struct live *live = &model.live[contract_random(&model.seed) % LIVE_MOST];
        uint64_t what = contract_random(&model.seed) % 1000;

        if (!tidei_heap_reserve(&model.heap))
            abort();
        if (what < 10)
            step_chunk();
        else if (what < 11)
            step_reassign();
        else if (what < 16)
            tidei_leaving_choose(&model.heap, contract_random(&model.seed) % (CHUNKS * CHUNK_BYTES));
        else if (live->piece == NULL)
            step_take(live);
        else
            step_put(live);
        if (i % 5000 == 0)
            differs += heap_differs();
    }
    is_u64(model.overlaps, 0, "no two pieces overlap");
    is_u64(model.misplaced, 0, "each piece lies in a chunk, with the requested size and alignment");
    is_u64(model.early, 0, "no stream gets memory before it waits for the streams that had it");
    is_u64(differs, 0, "the figures are those of the model");
    diag("%" PRIu64 " waits in %d steps, %" PRIu64 " that an exact memory would spare", model.waits, STEPS,
         model.needless);
    for (size_t i = 0; i < LIVE_MOST; i++) {
        if (model.live[i].piece != NULL)
            step_put(&model.live[i]);
    }
    while ((taken = tidei_heap_chunk_take(&model.heap, true, UINT64_MAX)) != NULL) {
        model.there[chunk_of(tidei_piece_address(taken))] = false;
        differs += taken->bytes != CHUNK_BYTES;
        tidei_heap_chunk_forget(&model.heap, taken);
    }
    for (size_t i = 0; i < CHUNKS; i++)
        differs += model.there[i];
    is_u64(differs, 0, "what is freed merges until each chunk is whole again");
    ok(all_of(model.heap.free_count == 0, model.heap.out_bytes == 0, model.heap.region_bytes == 0),
       "after merging nothing is left in use");
    tidei_heap_fini(&model.heap);
}

#define TREE_TESTS 2

static uint64_t
tree_wrong(struct tidei_tree *tree, struct tidei_piece *pieces, const bool *there, size_t count, uint64_t bytes)
{
    struct tidei_piece *found = tidei_tree_find(tree, bytes, 8);
    uint64_t best = UINT64_MAX, largest = 0;

    for (size_t i = 0; i < count; i++) {
        if (there[i] && pieces[i].bytes >= bytes && pieces[i].bytes < best)
            best = pieces[i].bytes;
        if (there[i] && pieces[i].bytes > largest)
            largest = pieces[i].bytes;
    }
    return (found == NULL) != (best == UINT64_MAX) || (found != NULL && found->bytes != best) ||
           (largest != 0 && tidei_tree_largest(tree)->bytes != largest);
}

static void
check_tree(void)
{
    static struct tidei_piece pieces[300];
    static bool there[300];
    struct tidei_tree tree = { 0 };
    uint64_t seed = model.seed, wrong = 0;

    for (int i = 0; i < 40000; i++) {
        size_t which = contract_random(&seed) % 300;

        if (there[which]) {
            tidei_tree_remove(&tree, &pieces[which], 8);
        } else {
            pieces[which].bytes = (1 + contract_random(&seed) % (UINT64_C(1) << contract_random(&seed) % 39)) << 8;
            tidei_tree_add(&tree, &pieces[which], 8);
        }
        there[which] = !there[which];
        wrong += tree_wrong(&tree, pieces, there, 300, 1 + contract_random(&seed) % (UINT64_C(1) << seed % 47));
    }
    is_u64(wrong, 0, "the tree finds the smallest piece that fits, and the largest piece");
    for (size_t i = 0; i < 300; i++) {
        if (there[i])
            tidei_tree_remove(&tree, &pieces[i], 8);
    }
    is_u64(tree.octaves, 0, "the tree is empty once all pieces are taken out");
}

#define CLASS_TESTS 2

static void
check_classes(void)
{
    uint64_t wrong = 0;

    for (uint64_t granules = 1; granules < 100000; granules++) {
        uint64_t up = tidei_class_round_up(granules);

        wrong += up < granules || (up - granules) * TIDEI_FIT_STEPS > granules;
        wrong += tidei_class_of(up) < tidei_class_of(granules) || tidei_class_of(up) > tidei_class_of(granules) + 1;
        wrong += tidei_class_round_up(up) != up || (up > 1 && tidei_class_of(up) == tidei_class_of(up - 1));
    }
    is_u64(wrong, 0, "a size is rounded up by at most a sixteenth, to the begin of its class");
    ok(tidei_class_of((UINT64_C(1) << TIDEI_FIT_OCTAVES) - 1) == TIDEI_FIT_CLASSES - 1,
       "the largest size has the last class");
}

#define CHUNK_TESTS 2

/* Chunks are added while others are on their way to upstream, which may refuse them. */
static void
check_chunks(void)
{
    struct tidei_heap heap;
    struct tidei_piece *away[8];
    size_t count = 0;

    if (tidei_heap_init(&heap, GRANULE, CHUNK_BYTES, UINT64_MAX) != TIDE_OK)
        abort();
    while ((count == 0 || heap.chunk_count < heap.chunk_capacity) && tidei_heap_reserve(&heap))
        tidei_heap_chunk_add(&heap, BASE(count++), CHUNK_BYTES, tidei_streams_number(&heap.streams, 0), false);
    for (size_t i = 0; i < 8; i++)
        away[i] = tidei_heap_chunk_take(&heap, false, UINT64_MAX);
    for (size_t i = 0; i < 8 && tidei_heap_reserve(&heap); i++)
        tidei_heap_chunk_add(&heap, BASE(count++), CHUNK_BYTES, tidei_streams_number(&heap.streams, 0), false);
    ok(heap.chunk_count + 8 <= heap.chunk_capacity, "the chunk table has room for chunks that are on their way");
    for (size_t i = 0; i < 8 && heap.chunk_count < heap.chunk_capacity; i++)
        tidei_heap_chunk_put_back(&heap, away[i]);
    is_u64(heap.chunk_count, count, "chunks on their way are all put back");
    tidei_heap_fini(&heap);
}

#define LEAVING_TESTS  5
#define LEAVING_BLOCKS 12 /* in a chunk */

static struct tidei_piece *
block_take(struct tidei_heap *heap)
{
    struct tidei_heap_request request = { .bytes = CHUNK_BYTES / LEAVING_BLOCKS,
                                          .alignment = GRANULE,
                                          .zone = TIDEI_ZONE_LARGE,
                                          .stream = tidei_streams_number(&heap->streams, 0) };
    struct tidei_piece *piece;
    uint32_t earlier;
    uint64_t epoch;

    if (!tidei_heap_reserve(heap))
        abort();
    piece = tidei_heap_take(heap, &request);
    while (piece != NULL && tidei_heap_wait(heap, piece, request.stream, &earlier, &epoch))
        tidei_heap_waited(heap, piece, request.stream, earlier, epoch);
    return piece;
}

static void
block_put(struct tidei_heap *heap, struct tidei_piece **block)
{
    tidei_heap_put(heap, *block, tidei_streams_number(&heap->streams, 0));
    *block = NULL;
}

/* Three chunks, of whose 12 blocks 1, 6 and 11 are live. Before that of the first lies room for 3, as the best fit. */
static void
leaving_fill(struct tidei_heap *heap, struct tidei_piece *blocks[3 * LEAVING_BLOCKS])
{
    static const size_t first[3] = { 3, 0, 0 }, count[3] = { 1, 6, 11 };
    size_t seen[3] = { 0 };

    if (tidei_heap_init(heap, GRANULE, CHUNK_BYTES, UINT64_MAX) != TIDE_OK)
        abort();
    for (size_t i = 0; i < 3 && tidei_heap_reserve(heap); i++)
        tidei_heap_chunk_add(heap, BASE(i), CHUNK_BYTES, tidei_streams_number(&heap->streams, 0), false);
    for (size_t i = 0; i < 3 * LEAVING_BLOCKS; i++)
        blocks[i] = block_take(heap);
    for (size_t i = 0; i < 3 * LEAVING_BLOCKS; i++) {
        size_t chunk = chunk_of(tidei_piece_address(blocks[i]));

        if (seen[chunk]++ - first[chunk] >= count[chunk])
            block_put(heap, &blocks[i]);
    }
}

static void
check_leaving(void)
{
    struct tidei_piece *blocks[3 * LEAVING_BLOCKS], *taken[8], *chunk;
    struct tidei_heap heap;
    size_t elsewhere = 0;

    leaving_fill(&heap, blocks);
    ok(tidei_leaving_choose(&heap, CHUNK_BYTES + CHUNK_BYTES / 2) >= 3 + 18,
       "all chunks are looked at to choose those that leave");
    is_u64(tidei_heap_largest(&heap), CHUNK_BYTES / LEAVING_BLOCKS * 8, "free memory of a chunk that leaves counts");
    for (size_t i = 0; i < 7; i++) {
        taken[i] = block_take(&heap);
        elsewhere += chunk_of(tidei_piece_address(taken[i])) != 0;
    }
    is_u64(elsewhere, 7, "requests that fit into other chunks leave the emptiest one alone");
    taken[7] = block_take(&heap);
    ok(taken[7] != NULL && chunk_of(tidei_piece_address(taken[7])) == 0,
       "what fits nowhere else gets memory of the chunk that leaves");
    block_put(&heap, &taken[7]);
    for (size_t i = 0; i < 3 * LEAVING_BLOCKS; i++) {
        if (blocks[i] != NULL && chunk_of(tidei_piece_address(blocks[i])) == 0)
            block_put(&heap, &blocks[i]);
    }
    chunk = tidei_heap_chunk_take(&heap, false, UINT64_MAX);
    ok(chunk != NULL && tidei_piece_address(chunk) == BASE(0),
       "with its last block the chunk is free, and can go back");
    tidei_heap_fini(&heap);
}

int
main(void)
{
    plan(MODEL_TESTS + TREE_TESTS + CLASS_TESTS + CHUNK_TESTS + LEAVING_TESTS);
    check_model();
    check_tree();
    check_classes();
    check_chunks();
    check_leaving();
    return done();
}
