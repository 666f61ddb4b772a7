/*
 * Places blocks one after the other. Time is a segment tree, each node of which has two sets of addresses: those of the
 * blocks that live through all of its slots, and those of all blocks that live in any of them. What a life may not use
 * is then the union of a few sets for each level of the tree, and the blocks that live beside it are never enumerated.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "plan-beam.h"
#include "plan-place.h"
#include "src/tables/grow.h"

#define LEVELS_MOST 33

/* Greedy placements that are nearer to the bound are left to the search through orders. */
#define PLACE_NEAR 1.005

/* The widths of beams, each twice the one before. Their placements take memory by the width: nothing else bounds it. */
#define BEAM_WIDTH      25
#define BEAM_WIDTH_MOST 1600

struct span {
    uint64_t from;
    uint64_t to;
};

/* Addresses: spans in ascending order that neither overlap nor touch. */
struct span_set {
    struct span *spans; /* owns */
    size_t count;
    size_t capacity;
};

struct node {
    struct span_set through; /* of blocks that live through all of its slots, and not through all of its parent's */
    struct span_set within;  /* of blocks that live in any of its slots, and not through all of its parent's */
};

struct place {
    const struct place_blocks *blocks;
    struct node *nodes; /* owns; 1 is the root, the leaves begin at `leaves` */
    size_t leaves;
    size_t *used; /* owns; the nodes that have addresses */
    size_t used_count;
    size_t used_capacity;
};

const char *const place_order_names[PLACE_ORDERS] = { "by size", "by life", "by size x life", "by time" };

static double
seconds_since(uint64_t begin_ns)
{
    return (double)(bench_now_ns() - begin_ns) / 1e9;
}

/* The index of the first span from `index` on that ends above `address`. */
static size_t
span_above(const struct span_set *set, size_t index, uint64_t address)
{
    size_t end = set->count;

    if (index < end && set->spans[index].to > address)
        return index;
    while (index < end) {
        size_t middle = index + (end - index) / 2;

        if (set->spans[middle].to > address)
            end = middle;
        else
            index = middle + 1;
    }
    return index;
}

static void
span_add(struct span_set *set, uint64_t from, uint64_t to)
{
    size_t first = from == 0 ? 0 : span_above(set, 0, from - 1), last = first;

    while (last < set->count && set->spans[last].from <= to)
        last++;
    if (last > first) { /* these become one */
        struct span *span = &set->spans[first];

        to = set->spans[last - 1].to > to ? set->spans[last - 1].to : to;
        *span = (struct span){ span->from < from ? span->from : from, to };
        memmove(span + 1, &set->spans[last], (set->count - last) * sizeof(*span));
        set->count -= last - first - 1;
        return;
    }
    if (!tidei_grow(&set->spans, &set->capacity, set->count, 1))
        bench_fail("no memory for a plan");
    memmove(&set->spans[first + 1], &set->spans[first], (set->count - first) * sizeof(*set->spans));
    set->spans[first] = (struct span){ from, to };
    set->count++;
}

static void
place_begin(struct place *place, const struct place_blocks *blocks)
{
    *place = (struct place){ .blocks = blocks, .leaves = 1 };
    while (place->leaves < blocks->slots)
        place->leaves *= 2;
    place->nodes = calloc(2 * place->leaves, sizeof(*place->nodes));
    if (place->nodes == NULL)
        bench_fail("no memory for a plan");
}

/* Take all blocks out. */
static void
place_clear(struct place *place)
{
    for (size_t i = 0; i < place->used_count; i++) {
        place->nodes[place->used[i]].through.count = 0;
        place->nodes[place->used[i]].within.count = 0;
    }
    place->used_count = 0;
}

static void
place_end(struct place *place)
{
    for (size_t i = 0; i < 2 * place->leaves; i++) {
        free(place->nodes[i].through.spans);
        free(place->nodes[i].within.spans);
    }
    free(place->nodes);
    free(place->used);
}

/* Nodes that make up some slots, and those above them. */
struct cover {
    size_t whole[4 * LEVELS_MOST];
    size_t whole_count;
    size_t part[4 * LEVELS_MOST];
    size_t part_count;
};

/* Add the nodes of the slots [begin, end). */
static void
cover_add(struct cover *cover, size_t leaves, size_t begin, size_t end)
{
    size_t low = begin + leaves, high = end + leaves, last = high - 1, first = low;

    for (; low < high; low /= 2, high /= 2) {
        if (low % 2 == 1)
            cover->whole[cover->whole_count++] = low++;
        if (high % 2 == 1)
            cover->whole[cover->whole_count++] = --high;
    }
    /* What is above the two ends, and has slots beyond them. */
    for (size_t width = 2; first > 1; width *= 2) {
        first /= 2;
        last /= 2;
        if (first * width < begin + leaves || (first + 1) * width > end + leaves)
            cover->part[cover->part_count++] = first;
        if (last != first && (last * width < begin + leaves || (last + 1) * width > end + leaves))
            cover->part[cover->part_count++] = last;
    }
}

static void
cover_of(const struct place *place, const struct place_life *life, struct cover *cover)
{
    cover->whole_count = cover->part_count = 0;
    if (life->begin < life->end) {
        cover_add(cover, place->leaves, life->begin, life->end);
        return;
    }
    cover_add(cover, place->leaves, life->begin, place->blocks->slots);
    if (life->end > 0)
        cover_add(cover, place->leaves, 0, life->end);
}

static void
place_add_to(struct place *place, size_t number, bool is_through, uint64_t from, uint64_t to)
{
    struct node *node = &place->nodes[number];

    if (node->within.count == 0) {
        if (!tidei_grow(&place->used, &place->used_capacity, place->used_count, 1))
            bench_fail("no memory for a plan");
        place->used[place->used_count++] = number;
    }
    span_add(&node->within, from, to);
    if (is_through && number < place->leaves) /* nothing is below a leaf */
        span_add(&node->through, from, to);
}

/* The sets of addresses that a life may not use, with the place in each where the search stands. */
struct search {
    const struct span_set *sets[8 * LEVELS_MOST];
    size_t at[8 * LEVELS_MOST];
    size_t count;
};

static void
search_take(struct search *search, const struct span_set *set)
{
    if (set->count == 0)
        return;
    search->sets[search->count] = set;
    search->at[search->count++] = 0;
}

/* The lowest address from `address` on that is the begin of `bytes` free ones. */
static uint64_t
search_free(struct search *search, uint64_t address, uint64_t bytes)
{
    for (size_t i = 0, agree = 0; agree < search->count; i = i + 1 < search->count ? i + 1 : 0) {
        const struct span_set *set = search->sets[i];

        search->at[i] = span_above(set, search->at[i], address);
        agree++;
        while (search->at[i] < set->count && set->spans[search->at[i]].from < address + bytes) {
            address = set->spans[search->at[i]++].to;
            agree = 1;
        }
    }
    return address;
}

/* Where the free addresses from `address` on end, which is free. */
static uint64_t
search_end(const struct search *search, uint64_t address)
{
    uint64_t end = UINT64_MAX;

    for (size_t i = 0; i < search->count; i++) {
        const struct span_set *set = search->sets[i];
        size_t at = span_above(set, search->at[i], address);

        if (at < set->count && set->spans[at].from < end)
            end = set->spans[at].from;
    }
    return end;
}

static uint64_t
search_smallest(struct search *search, uint64_t bytes)
{
    uint64_t address = 0, best = UINT64_MAX, found = 0;

    for (;;) {
        uint64_t begin = search_free(search, address, bytes), end = search_end(search, begin);

        if (end == UINT64_MAX) /* above all others: only where there is no gap */
            return best == UINT64_MAX ? begin : found;
        if (end - begin < best) {
            best = end - begin;
            found = begin;
        }
        address = end;
    }
}

static uint64_t
place_one(struct place *place, const struct place_life *life, bool smallest)
{
    struct search search = { .count = 0 };
    struct cover cover;
    uint64_t offset;

    cover_of(place, life, &cover);
    for (size_t i = 0; i < cover.whole_count; i++)
        search_take(&search, &place->nodes[cover.whole[i]].within);
    for (size_t i = 0; i < cover.part_count; i++)
        search_take(&search, &place->nodes[cover.part[i]].through);
    offset = smallest ? search_smallest(&search, life->bytes) : search_free(&search, 0, life->bytes);
    for (size_t i = 0; i < cover.whole_count; i++)
        place_add_to(place, cover.whole[i], true, offset, offset + life->bytes);
    for (size_t i = 0; i < cover.part_count; i++)
        place_add_to(place, cover.part[i], false, offset, offset + life->bytes);
    return offset;
}

/* Place all blocks in an order; the top, or UINT64_MAX once a block ends above `most`. */
static uint64_t
place_all(struct place *place, const uint32_t *order, bool smallest, uint64_t most, uint64_t *offsets)
{
    uint64_t top = 0;

    place_clear(place);
    for (size_t i = 0; i < place->blocks->count; i++) {
        const struct place_life *life = &place->blocks->lives[order[i]];
        uint64_t end;

        offsets[order[i]] = place_one(place, life, smallest);
        end = offsets[order[i]] + life->bytes;
        top = end > top ? end : top;
        if (top > most)
            return UINT64_MAX;
    }
    return top;
}

uint64_t
place_bound(const struct place_blocks *blocks)
{
    uint64_t *change = calloc((size_t)blocks->slots + 1, sizeof(*change)), live = 0, bound = 0;

    if (change == NULL)
        bench_fail("no memory for a plan");
    for (size_t i = 0; i < blocks->count; i++) {
        const struct place_life *life = &blocks->lives[i];

        change[life->begin] += life->bytes;
        change[life->end] -= life->bytes;
        if (life->end <= life->begin)
            change[0] += life->bytes;
    }
    for (size_t i = 0; i < blocks->slots; i++) {
        live += change[i];
        bound = live > bound ? live : bound;
    }
    free(change);
    return bound;
}

/* An item to be sorted: by `first`, then by `second`, both descending, then by number. */
struct rank {
    double first;
    double second;
    uint32_t number;
};

static int
rank_compare(const void *one, const void *other)
{
    const struct rank *a = one, *b = other;

    if (a->first != b->first)
        return a->first > b->first ? -1 : 1;
    if (a->second != b->second)
        return a->second > b->second ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

static uint32_t *
place_order_make(const struct place_blocks *blocks, enum place_order by)
{
    struct rank *ranks = calloc(blocks->count + 1, sizeof(*ranks));
    uint32_t *order = calloc(blocks->count + 1, sizeof(*order));

    if (ranks == NULL || order == NULL)
        bench_fail("no memory for a plan");
    for (size_t i = 0; i < blocks->count; i++) {
        const struct place_life *life = &blocks->lives[i];
        double bytes = (double)life->bytes, slots = (double)life->end - life->begin;

        slots += life->end <= life->begin ? blocks->slots : 0;
        ranks[i].number = (uint32_t)i;
        ranks[i].first = by == PLACE_BY_SIZE   ? bytes
                         : by == PLACE_BY_LIFE ? slots
                         : by == PLACE_BY_AREA ? bytes * slots
                                               : -(double)life->begin;
        ranks[i].second = by == PLACE_BY_SIZE ? slots : bytes;
    }
    qsort(ranks, blocks->count, sizeof(*ranks), rank_compare);
    for (size_t i = 0; i < blocks->count; i++)
        order[i] = ranks[i].number;
    free(ranks);
    return order;
}

void
place_greedy(const struct place_blocks *blocks, enum place_order by, bool smallest, uint64_t *offsets,
             struct place_result *out)
{
    uint64_t begin = bench_now_ns();
    uint32_t *order = place_order_make(blocks, by);
    struct place place;

    place_begin(&place, blocks);
    *out = (struct place_result){ .top = place_all(&place, order, smallest, UINT64_MAX, offsets), .rounds = 1 };
    place_end(&place);
    free(order);
    out->seconds = seconds_since(begin);
}

/* A search through orders. */
struct climb {
    struct place place;
    uint32_t *order;   /* owns; the best */
    uint32_t *tried;   /* owns */
    uint64_t *offsets; /* owns; of what is tried */
    uint32_t *at_top;  /* owns; the places in the order of the blocks that end at the top */
    uint64_t *best;    /* borrows; the offsets of the best */
    uint64_t top;      /* of the best */
    uint64_t bound;
    bool smallest;  /* whether the best has each block in the smallest gap */
    uint64_t state; /* of the source of random numbers */
};

static uint64_t
climb_random(struct climb *climb, uint64_t below)
{
    climb->state ^= climb->state << 13;
    climb->state ^= climb->state >> 7;
    climb->state ^= climb->state << 17;
    return climb->state % below;
}

/* Place the blocks in the order `tried`, which becomes the best where it is no worse. */
static void
climb_try(struct climb *climb)
{
    size_t count = climb->place.blocks->count;
    uint64_t top = place_all(&climb->place, climb->tried, climb->smallest, climb->top, climb->offsets);

    if (top == UINT64_MAX)
        return;
    climb->top = top;
    memcpy(climb->order, climb->tried, count * sizeof(*climb->order));
    memcpy(climb->best, climb->offsets, count * sizeof(*climb->best));
}

static void
climb_greedy(struct climb *climb, enum place_order by, bool smallest, struct place_result *out)
{
    uint32_t *order = place_order_make(climb->place.blocks, by);

    place_greedy(climb->place.blocks, by, smallest, climb->offsets, out);
    if (out->top < climb->top) {
        climb->top = out->top;
        climb->smallest = smallest;
        memcpy(climb->order, order, climb->place.blocks->count * sizeof(*order));
        memcpy(climb->best, climb->offsets, climb->place.blocks->count * sizeof(*climb->best));
    }
    free(order);
}

/* Move the block at one place of the order to an earlier one. */
static void
climb_move(uint32_t *order, size_t from, size_t to)
{
    uint32_t block = order[from];

    memmove(&order[to + 1], &order[to], (from - to) * sizeof(*order));
    order[to] = block;
}

static void
climb_step(struct climb *climb)
{
    const struct place_blocks *blocks = climb->place.blocks;
    size_t at_top = 0, from;

    memcpy(climb->tried, climb->order, blocks->count * sizeof(*climb->tried));
    for (size_t i = 0; i < blocks->count; i++)
        if (climb->best[climb->order[i]] + blocks->lives[climb->order[i]].bytes == climb->top)
            climb->at_top[at_top++] = (uint32_t)i;
    from = climb->at_top[climb_random(climb, at_top)];
    climb_move(climb->tried, from, climb_random(climb, from + 1));
    for (uint64_t more = climb_random(climb, 3); more > 0; more--) {
        from = climb_random(climb, blocks->count);
        climb_move(climb->tried, from, climb_random(climb, from + 1));
    }
    climb_try(climb);
}

/* Try all orders of the blocks from `first` on. */
static void
climb_all(struct climb *climb, size_t first, uint64_t *rounds)
{
    size_t count = climb->place.blocks->count;

    if (first + 1 >= count) {
        climb_try(climb);
        ++*rounds;
        return;
    }
    for (size_t i = first; i < count && climb->top > climb->bound; i++) {
        uint32_t block = climb->tried[i];

        climb->tried[i] = climb->tried[first];
        climb->tried[first] = block;
        climb_all(climb, first + 1, rounds);
        climb->tried[first] = climb->tried[i];
        climb->tried[i] = block;
    }
}

static void
climb_begin(struct climb *climb, const struct place_blocks *blocks, uint64_t seed, uint64_t *offsets)
{
    *climb = (struct climb){
        .order = calloc(blocks->count + 1, sizeof(*climb->order)),
        .tried = calloc(blocks->count + 1, sizeof(*climb->tried)),
        .offsets = calloc(blocks->count + 1, sizeof(*climb->offsets)),
        .at_top = calloc(blocks->count + 1, sizeof(*climb->at_top)),
        .best = offsets,
        .top = UINT64_MAX,
        .bound = place_bound(blocks),
        .state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1,
    };
    if (climb->order == NULL || climb->tried == NULL || climb->offsets == NULL || climb->at_top == NULL)
        bench_fail("no memory for a plan");
    place_begin(&climb->place, blocks);
}

static void
climb_end(struct climb *climb)
{
    place_end(&climb->place);
    free(climb->order);
    free(climb->tried);
    free(climb->offsets);
    free(climb->at_top);
}

/* The order by offsets, each block in the lowest gap, is at least as good as the offsets. */
static void
climb_take_offsets(struct climb *climb, const uint64_t *offsets)
{
    const struct place_blocks *blocks = climb->place.blocks;
    struct rank *ranks = calloc(blocks->count + 1, sizeof(*ranks));

    if (ranks == NULL)
        bench_fail("no memory for a plan");
    for (size_t i = 0; i < blocks->count; i++)
        ranks[i] = (struct rank){ -(double)offsets[i], 0, (uint32_t)i };
    qsort(ranks, blocks->count, sizeof(*ranks), rank_compare);
    for (size_t i = 0; i < blocks->count; i++)
        climb->tried[i] = ranks[i].number;
    free(ranks);
    climb->smallest = false;
    climb_try(climb);
}

/* The same blocks as time runs backwards. */
static void
climb_mirror(const struct place_blocks *blocks, struct place_life *lives)
{
    for (size_t i = 0; i < blocks->count; i++) {
        const struct place_life *life = &blocks->lives[i];

        lives[i] = *life;
        lives[i].begin = life->end == 0 ? 0 : blocks->slots - life->end;
        lives[i].end = blocks->slots - life->begin;
    }
}

/*
 * Searches with beams, each round twice as wide as the one before, with several weights and both directions of time,
 * until half of the time or of the rounds is over. A beam counts as many rounds as it is wide.
 */
static void
climb_beams(struct climb *climb, const struct place_search *search, uint64_t begin_ns, uint64_t *rounds)
{
    static const struct beam_weights weights[] = { { 4, 1 }, { 20, 1 }, { 4, 0.5 }, { 10, 1 } };
    const struct place_blocks *blocks = climb->place.blocks;
    struct place_life *lives = calloc(blocks->count + 1, sizeof(*lives));
    struct place_blocks mirrored = { lives, blocks->count, blocks->slots };
    uint64_t deadline_ns = begin_ns + (uint64_t)(search->seconds / 2 * 1e9), top;

    if (lives == NULL)
        bench_fail("no memory for a plan");
    climb_mirror(blocks, lives);
    for (size_t width = BEAM_WIDTH; width <= BEAM_WIDTH_MOST; width *= 2) {
        for (size_t i = 0; i < 2 * sizeof(weights) / sizeof(weights[0]); i++) {
            if (climb->top <= climb->bound || *rounds + width > search->rounds / 2 || bench_now_ns() >= deadline_ns)
                goto out;
            *rounds += width;
            if (beam_place(i % 2 == 0 ? blocks : &mirrored, &weights[i / 2], width, climb->top, deadline_ns,
                           climb->offsets, &top))
                climb_take_offsets(climb, climb->offsets);
        }
    }
out:
    free(lives);
}

void
place_best(const struct place_blocks *blocks, const struct place_search *search, uint64_t *offsets,
           struct place_plan *out)
{
    uint64_t begin = bench_now_ns();
    struct climb climb;

    *out = (struct place_plan){ 0 };
    if (blocks->count == 0)
        return;
    climb_begin(&climb, blocks, search->seed, offsets);
    for (unsigned i = 0; i < 2 * PLACE_ORDERS; i++)
        climb_greedy(&climb, i / 2, i % 2 == 1, &out->greedy[i / 2][i % 2]);
    out->best.rounds = 2 * PLACE_ORDERS;
    memcpy(climb.tried, climb.order, blocks->count * sizeof(*climb.tried));
    if (blocks->count <= PLACE_FEW) {
        climb.smallest = false; /* some order has all blocks lowest in a best placement: that of its offsets */
        climb_all(&climb, 0, &out->best.rounds);
    }
    if (blocks->count > PLACE_FEW && blocks->count <= BEAM_MOST && (double)climb.top > PLACE_NEAR * (double)climb.bound)
        climb_beams(&climb, search, begin, &out->best.rounds);
    while (blocks->count > PLACE_FEW && climb.top > climb.bound && out->best.rounds < search->rounds &&
           seconds_since(begin) < search->seconds) {
        climb_step(&climb);
        out->best.rounds++;
    }
    out->best.top = climb.top;
    out->best.seconds = seconds_since(begin);
    climb_end(&climb);
}
