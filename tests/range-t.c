/*
 * Tests src/suballoc/range: chunks that are joined, in random steps. Compares each piece with a model of each granule,
 * whether it is mapped and free, and on which stream it was freed; and walks the row of pieces and gaps.
 */
#include <stdlib.h>

#include "contract.h"
#include "src/suballoc/heap-inner.h"
#include "src/suballoc/range.h"
#include "tap.h"

#define GRANULE   UINT64_C(4096)
#define PAGE      UINT64_C(65536)
#define BASE      UINT64_C(0x7f0000000000)
#define PAGES     512 /* where chunks lie, which are a few most of the time */
#define GRANULES  (PAGES * PAGE / GRANULE)
#define STREAMS   3
#define LIVE_MOST 100
#define STEPS     40000

struct live {
    struct tidei_piece *piece;
    uint64_t begin, count; /* granules */
};

struct granule {
    bool mapped;
    uint8_t owner;  /* index in `live`, plus 1; 0: none */
    uint8_t stream; /* on which it was freed, or mapped */
};

static struct {
    struct tidei_heap heap;
    struct granule granules[GRANULES];
    struct live live[LIVE_MOST];
    uint64_t mapped, seed;
    uint64_t overlaps, unmapped, odd_runs, odd_rows, odd_windows, lost;
    uint64_t filled, returned, refused; /* how often */
} model;

static uint64_t
choose(uint64_t count)
{
    return (contract_random(&model.seed) >> 16) % count;
}

static uint32_t
number(void)
{
    return tidei_streams_number(&model.heap.streams, 1 + choose(STREAMS));
}

static uint64_t
granule_of(uintptr_t address)
{
    return (address - BASE) / GRANULE;
}

/* The freed runs of a piece say on which stream each granule was freed. */
static void
check_runs(const struct tidei_piece *piece)
{
    uint64_t at = granule_of(tidei_piece_address(piece)), bytes = 0;

    for (const struct tidei_freed_run *run = piece->freed_runs.first; run != NULL; run = run->next) {
        for (uint64_t i = 0; i < run->bytes / GRANULE; i++)
            model.odd_runs += model.granules[at + i].stream != run->stream;
        at += run->bytes / GRANULE;
        bytes += run->bytes;
    }
    model.odd_runs += bytes != piece->bytes;
}

/* The row covers all addresses; free pieces and gaps meet none of their own kind; each free piece is mapped. */
static void
check_row(void)
{
    const struct tidei_piece *before = NULL;
    uint64_t mapped = 0, gaps = 0;

    for (const struct tidei_piece *piece = model.heap.range.span.first; piece != NULL; piece = piece->after) {
        bool gap = piece->size_class == TIDEI_PIECE_GAP, is_free = tidei_heap_is_free(piece);

        model.odd_rows += piece->before != before;
        if (before != NULL) {
            model.odd_rows += tidei_piece_address(before) + before->bytes != tidei_piece_address(piece);
            model.odd_rows += gap && before->size_class == TIDEI_PIECE_GAP;
            model.odd_rows += is_free && tidei_heap_is_free(before);
        }
        model.odd_rows += gap && model.heap.range.gaps[gaps] != piece;
        gaps += gap;
        mapped += gap ? 0 : piece->bytes;
        if (is_free)
            check_runs(piece);
        before = piece;
    }
    model.odd_rows += mapped != model.mapped || gaps != model.heap.range.gap_count;
    model.odd_rows += tidei_heap_free_bytes(&model.heap) + model.heap.out_bytes != mapped;
}

static void
model_map(uintptr_t address, uint64_t bytes, bool mapped, uint32_t stream)
{
    for (uint64_t i = granule_of(address); i < granule_of(address + bytes); i++) {
        model.overlaps += model.granules[i].mapped == mapped || model.granules[i].owner != 0;
        model.granules[i] = (struct granule){ .mapped = mapped, .stream = (uint8_t)stream };
    }
    model.mapped += mapped ? bytes : 0 - bytes;
}

/* The piece is the request's: it waits for no stream here, and belongs to one. */
static void
model_take(struct live *live, struct tidei_piece *piece, const struct tidei_heap_request *request)
{
    uint32_t earlier;
    uint64_t epoch;

    check_runs(piece);
    while (tidei_heap_wait(&model.heap, piece, request->stream, &earlier, &epoch))
        tidei_heap_waited(&model.heap, piece, request->stream, earlier, epoch);
    *live = (struct live){ piece, granule_of(tidei_piece_address(piece)), piece->bytes / GRANULE };
    model.lost += piece->bytes != request->bytes || tidei_piece_address(piece) % request->alignment != 0;
    for (uint64_t i = 0; i < live->count; i++) {
        struct granule *granule = &model.granules[live->begin + i];

        model.overlaps += granule->owner != 0;
        model.unmapped += !granule->mapped;
        granule->owner = (uint8_t)(live - model.live + 1);
    }
}

static void
step_put(struct live *live)
{
    uint32_t stream = number();

    for (uint64_t i = 0; i < live->count; i++) {
        model.granules[live->begin + i].owner = 0;
        model.granules[live->begin + i].stream = (uint8_t)stream;
    }
    tidei_piece_set_word(live->piece, TIDEI_PIECE_MOVING);
    tidei_heap_put(&model.heap, live->piece, stream);
    live->piece = NULL;
}

static bool
step_chunk(bool all)
{
    struct tidei_piece *chunk = tidei_range_chunk_take(&model.heap, all, choose(8) == 0 ? PAGE : UINT64_MAX);

    if (chunk == NULL)
        return false;
    check_runs(chunk);
    if (choose(4) == 0) {
        tidei_range_chunk_put_back(&model.heap, chunk);
        return true;
    }
    model.returned++;
    model_map(tidei_piece_address(chunk), chunk->bytes, false, 0);
    tidei_range_chunk_forget(&model.heap, chunk);
    return true;
}

/* An address in a gap that is not in the window; `gap` where a few attempts find none. */
static uintptr_t
somewhere(const struct tidei_window *window, uintptr_t gap, uint64_t bytes)
{
    for (int i = 0; i < 64; i++) {
        uintptr_t address = BASE + choose(PAGES) * PAGE;

        if (tidei_range_is_gap(&model.heap, address, bytes) &&
            (address >= window->begin + window->bytes || address + bytes <= window->begin))
            return address;
    }
    return gap;
}

/* A chunk for the gap, or elsewhere. False where there is no room for it, or it lies elsewhere. */
static bool
fill_gap(const struct tidei_range_gap *gap, struct tidei_window *window, uint32_t stream)
{
    uint64_t bytes = choose(2) == 0 ? gap->bytes : PAGE;
    uintptr_t address = choose(16) != 0 ? gap->begin : somewhere(window, gap->begin, bytes);
    struct tidei_piece *piece;

    if (address + bytes > BASE + PAGES * PAGE || !tidei_range_reserve(&model.heap))
        return false;
    model.odd_windows += gap->room_bytes < gap->bytes || !tidei_range_is_gap(&model.heap, address, bytes);
    piece = tidei_range_add(&model.heap, address, bytes, stream, false);
    model_map(address, bytes, true, stream);
    model.odd_windows += tidei_range_is_gap(&model.heap, address, 1);
    if (address == gap->begin) {
        tidei_range_window_add(window, piece);
        return true;
    }
    tidei_range_free(&model.heap, piece);
    tidei_range_refused(&model.heap, gap->begin);
    model.refused++;
    return false;
}

/* Fill a window for a request that nothing fits; chunks of holes are returned meanwhile, and blocks freed. */
static void
step_window(struct live *live, const struct tidei_heap_request *request)
{
    uint64_t missing = 0, before = model.mapped;
    struct tidei_window window;
    struct tidei_range_gap gap;
    bool filled = true;
    struct tidei_piece *piece;

    if (!tidei_range_reserve(&model.heap) || !tidei_range_window(&model.heap, request->bytes, choose(8) == 0, &window))
        return;
    model.odd_windows += window.bytes < request->bytes || window.missing_bytes == 0;
    while (filled && tidei_range_gap(&model.heap, &window, &gap)) {
        struct live *other = &model.live[choose(LIVE_MOST)];

        missing = gap.bytes;
        filled = fill_gap(&gap, &window, request->stream);
        if (choose(4) == 0 && other->piece != NULL)
            step_put(other);
    }
    tidei_range_release(&model.heap, &window);
    if (!filled)
        return;
    model.filled++;
    model.odd_windows += model.mapped - before != window.missing_bytes || missing == 0;
    if (!tidei_heap_reserve(&model.heap))
        return;
    piece = tidei_heap_take(&model.heap, request);
    model.lost += piece == NULL;
    if (piece != NULL)
        model_take(live, piece, request);
}

static void
step_take(struct live *live)
{
    uint64_t bytes = GRANULE + choose(UINT64_C(1) << (12 + choose(10)));
    struct tidei_heap_request request = { .stream = number(), .alignment = GRANULE, .last_resort = true };
    struct tidei_piece *piece;

    request.bytes = (bytes + GRANULE - 1) & ~(GRANULE - 1);
    request.zone = TIDEI_ZONE_LARGE;
    if (!tidei_heap_reserve(&model.heap))
        return;
    piece = tidei_heap_take(&model.heap, &request);
    if (piece != NULL)
        model_take(live, piece, &request);
    else
        step_window(live, &request);
}

/* A first chunk, and now and then one that stands alone, for a request of its own. */
static void
step_alone(struct live *live)
{
    const struct tidei_range *range = &model.heap.range;
    uintptr_t address = range->lowest == 0 ? BASE + PAGES / 2 * PAGE : BASE + choose(PAGES - 16) * PAGE;
    struct tidei_heap_request request = { .stream = number(),
                                          .alignment = GRANULE,
                                          .bytes = GRANULE * (1 + choose(64)) };
    uint64_t bytes = (request.bytes + PAGE - 1) & ~(PAGE - 1);
    struct tidei_piece *piece;

    if (!tidei_range_is_gap(&model.heap, address, bytes) || !tidei_range_reserve(&model.heap))
        return;
    piece = tidei_range_add(&model.heap, address, bytes, request.stream, false);
    model_map(address, bytes, true, request.stream);
    if (!tidei_range_reserve(&model.heap))
        return;
    model_take(live, tidei_heap_take_held(&model.heap, piece, &request), &request);
}

/* A block of so many pages; the page at which it begins. */
static struct tidei_piece *
cut(struct tidei_heap *heap, uint64_t pages, uint64_t *at)
{
    struct tidei_heap_request request = { .bytes = pages * PAGE,
                                          .alignment = GRANULE,
                                          .zone = TIDEI_ZONE_LARGE,
                                          .stream = tidei_streams_number(&heap->streams, 0) };
    struct tidei_piece *piece;
    uint32_t earlier;
    uint64_t epoch;

    if (!tidei_heap_reserve(heap))
        abort();
    piece = tidei_heap_take(heap, &request);
    while (tidei_heap_wait(heap, piece, request.stream, &earlier, &epoch))
        tidei_heap_waited(heap, piece, request.stream, earlier, epoch);
    *at = (tidei_piece_address(piece) - BASE) / PAGE;
    return piece;
}

static void
put(struct tidei_heap *heap, struct tidei_piece *piece)
{
    tidei_heap_put(heap, piece, tidei_streams_number(&heap->streams, 0));
}

static void
map(struct tidei_heap *heap, uint64_t at, uint64_t pages)
{
    if (!tidei_range_reserve(heap))
        abort();
    tidei_range_free(
        heap, tidei_range_add(heap, BASE + at * PAGE, pages * PAGE, tidei_streams_number(&heap->streams, 0), false));
}

/* Which end of a free piece a block is cut out of. */
static void
check_ends(void)
{
    struct tidei_heap heap;
    struct tidei_piece *low, *high, *block;
    uint64_t at;

    if (tidei_heap_init(&heap, GRANULE, PAGE, UINT64_MAX) != TIDE_OK || !tidei_range_init(&heap, PAGE))
        abort();
    map(&heap, 100, 8);
    low = cut(&heap, 4, &at);
    high = cut(&heap, 4, &at);
    put(&heap, low);
    block = cut(&heap, 1, &at);
    is_u64(at, 103, "with a gap before it a free piece is cut at its end, so that the rest stays beside the gap");
    put(&heap, block);
    low = cut(&heap, 4, &at);
    put(&heap, high);
    high = cut(&heap, 1, &at);
    is_u64(at, 104, "with a gap behind it a free piece is cut at its beginning");
    put(&heap, high);
    put(&heap, low);
    map(&heap, 108, 4);
    low = cut(&heap, 5, &at);
    block = cut(&heap, 5, &at);
    high = cut(&heap, 2, &at);
    put(&heap, block);
    block = cut(&heap, 2, &at);
    is_u64(at, 108,
           "with no gap beside it a free piece is cut where a chunk begins, so that the rest has more of the other");
    put(&heap, block);
    put(&heap, low);
    put(&heap, high);
    tidei_range_fini(&heap);
    tidei_heap_fini(&heap);
}

int
main(void)
{
    plan(9 + 3);
    check_ends();
    model.seed = contract_seed(20261123);
    if (tidei_heap_init(&model.heap, GRANULE, PAGE, UINT64_MAX) != TIDE_OK || !tidei_range_init(&model.heap, PAGE))
        abort();
    for (int i = 0; i < STEPS; i++) {
        struct live *live = &model.live[choose(LIVE_MOST)];
        uint64_t what = choose(100);

        if (what < 5)
            step_chunk(choose(4) == 0);
        else if (live->piece != NULL)
            step_put(live);
        else if (what < 7)
            step_alone(live);
        else
            step_take(live);
        if (i % 16 == 0)
            check_row();
    }
    is_u64(model.overlaps, 0, "no granule has two owners, and none is mapped twice");
    is_u64(model.unmapped, 0, "no request gets a granule of a gap");
    is_u64(model.odd_runs, 0, "each granule of a free piece has the stream on which it was freed");
    is_u64(model.odd_rows, 0, "pieces and gaps follow each other without holes, and free neighbours are merged");
    is_u64(model.odd_windows, 0, "filling a window takes exactly the pages that it missed");
    is_u64(model.lost, 0, "a window that was filled serves the request for which it was chosen");
    diag("%d windows filled, %d chunks returned, %d wishes refused", (int)model.filled, (int)model.returned,
         (int)model.refused);
    ok(all_of(model.filled > 100, model.returned > 100, model.refused > 10),
       "windows were filled, chunks returned and wishes refused");
    for (size_t i = 0; i < LIVE_MOST; i++) {
        if (model.live[i].piece != NULL)
            step_put(&model.live[i]);
    }
    check_row();
    for (int i = 0; i < STEPS && model.heap.chunk_count > 0; i++)
        step_chunk(true);
    check_row();
    ok(all_of(model.mapped == 0, model.heap.chunk_count == 0, model.heap.free_count == 0, model.odd_rows == 0),
       "after all frees every chunk can be returned");
    ok(model.heap.range.gap_count == 1, "one gap is left");
    tidei_range_fini(&model.heap);
    tidei_heap_fini(&model.heap);
    return done();
}
