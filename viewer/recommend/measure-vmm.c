/* Measures what handles of physical memory cost: creating, mapping, unmapping and releasing them. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "viewer/base/clock.h"
#include "viewer/base/processor.h"
#include "viewer/recommend/measure-bases.h"
#include "viewer/recommend/measure-calls.h"

/*
 * Blocks of `vmm` that stay while its handles are mapped and released: a program has hundreds, and with thousands each
 * call takes a fifth longer than with dozens. As long as a base has few, it lays each far from all others
 * (src/bases/vmm/space.h), where a mapping needs tables of its own. A pool lays its chunks side by side.
 */
#define MEASURE_NEIGHBOURS 512

/* Pairs of blocks whose handles move, and how often that is timed. */
#define MEASURE_MOVING 512
#define MEASURE_MOVES  256

/* Pairs of blocks of a page, of which the handles move together into one block of two pages, and back. */
struct measure_moving {
    void *pointers[MEASURE_MOVING][2];
    size_t count;
    double maps[MEASURE_MOVES], unmaps[MEASURE_MOVES]; /* what mapping, and unmapping, two handles took */
    size_t moves;                                      /* for which both was timed */
};

static bool
measure_pair_make(struct measure *measure, void *pair[2])
{
    double ns;

    return measure_allocate(measure, measure_bytes(0), &pair[0], &ns) &&
           measure_allocate(measure, measure_bytes(0), &pair[1], &ns);
}

static bool
measure_pair_free(struct measure *measure, void *pair[2])
{
    bool good = true;
    double ns;

    for (int i = 0; i < 2; i++) {
        if (pair[i] != NULL)
            good = measure_free(measure, pair[i], measure_bytes(0), &ns) && good;
        pair[i] = NULL;
    }
    return good && tide_order(measure->base, TIDE_STREAM_ALL, 0) == TIDE_OK;
}

/*
 * Free a block, and wait: former mappings of its handles end then. *ns is what the free took, and what the wait took
 * beyond one with which no mapping ends.
 */
static bool
measure_move_free(struct measure *measure, void *block, double *ns)
{
    double begin, middle, end;

    if (!measure_free(measure, block, 2 * measure_bytes(0), ns))
        return false;
    begin = (double)clock_now_ns();
    if (tide_order(measure->base, TIDE_STREAM_ALL, 0) != TIDE_OK)
        return false;
    middle = (double)clock_now_ns();
    if (tide_order(measure->base, TIDE_STREAM_ALL, 0) != TIDE_OK)
        return false;
    end = (double)clock_now_ns();
    *ns += (middle - begin) - (end - middle);
    return true;
}

/* A block gets the handles of a pair: they are mapped, and with its free their former mappings end. */
static bool
measure_move(struct measure *measure, struct measure_moving *moving, void *pair[2], const struct cost costs[COST_CALLS])
{
    struct tide_vmm_figures before = { TIDE_FIGURES(before) }, after = { TIDE_FIGURES(after) };
    double allocates, frees;
    void *block;

    if (!measure_pair_free(measure, pair) || tide_vmm_read(measure->base, &before) != TIDE_OK ||
        !measure_allocate(measure, 2 * measure_bytes(0), &block, &allocates))
        return false;
    if (tide_vmm_read(measure->base, &after) != TIDE_OK || !measure_move_free(measure, block, &frees))
        return false;
    if (after.remapped - before.remapped == 2 && after.created == before.created) {
        moving->maps[moving->moves] = measure_max(allocates - costs[COST_ALLOCATE].ns, 0);
        moving->unmaps[moving->moves++] = measure_max(frees - costs[COST_FREE].ns, 0);
    }
    return measure_pair_make(measure, pair);
}

static bool
measure_remap_once(struct measure *measure, int pass, struct cost out[COST_CALLS])
{
    uint64_t fit = measure->most_bytes / MEASURE_SMALL_SHARE / (2 * measure_bytes(0));
    struct measure_moving moving = { .count = fit < MEASURE_MOVING ? (size_t)fit : MEASURE_MOVING };
    bool good = true;

    for (size_t i = 0; i < moving.count && good; i++)
        good = measure_pair_make(measure, moving.pointers[i]);
    for (size_t turn = 0; turn < MEASURE_MOVES && good; turn++)
        good = measure_move(measure, &moving, moving.pointers[measure_visit(turn, moving.count)], out);
    for (size_t i = 0; i < moving.count; i++)
        good = measure_pair_free(measure, moving.pointers[i]) && good;
    if (good && moving.moves == 0) {
        snprintf(measure->why, sizeof(measure->why), "no handle moved from a block to another");
        good = false;
    } else if (good) {
        out[COST_MAP].ns = measure_least(out[COST_MAP].ns, measure_mean(moving.maps, moving.moves) / 2, pass);
        out[COST_UNMAP].ns = measure_least(out[COST_UNMAP].ns, measure_mean(moving.unmaps, moving.moves) / 2, pass);
    }
    return good;
}

/* Blocks of `vmm` that stay beside others. */
struct measure_neighbours {
    void *pointers[MEASURE_NEIGHBOURS];
    size_t count;
};

static bool
measure_neighbours_make(struct measure *measure, struct measure_neighbours *out)
{
    uint64_t fit = measure->most_bytes / MEASURE_SMALL_SHARE / measure_bytes(0);
    bool good = true;
    double ns;

    *out = (struct measure_neighbours){ .count = fit < MEASURE_NEIGHBOURS ? (size_t)fit : MEASURE_NEIGHBOURS };
    for (size_t i = 0; i < out->count && good; i++)
        good = measure_allocate(measure, measure_bytes(0), &out->pointers[i], &ns);
    return good;
}

static bool
measure_neighbours_free(struct measure *measure, struct measure_neighbours *neighbours)
{
    bool good = true;
    double ns;

    for (size_t i = 0; i < neighbours->count; i++) {
        if (neighbours->pointers[i] != NULL)
            good = measure_free(measure, neighbours->pointers[i], measure_bytes(0), &ns) && good;
    }
    return good;
}

/* In a base of its own: one that had more in use before takes new handles. */
static bool
measure_remap(struct measure *measure, struct cost out[COST_CALLS])
{
    struct measure own = { .most_bytes = measure->most_bytes,
                           .clear_ns = measure->clear_ns,
                           .reading_ns = measure->reading_ns };
    struct measure_neighbours neighbours;
    double ns, mib;
    bool good;

    if (tide_stack_parse(measure->second_text, &own.base) != TIDE_OK)
        return false;
    good = measure_neighbours_make(&own, &neighbours);
    for (int pass = 0; pass < MEASURE_PASSES && good; pass++) {
        processor_choose();
        good = measure_remap_once(&own, pass, out);
    }
    good = measure_neighbours_free(&own, &neighbours) && good;
    good = measure_trim(&own, 0, &ns, &mib) && good;
    tide_resource_release(own.base);
    measure_settle(measure, mib);
    memcpy(measure->why, own.why, sizeof(measure->why));
    return good;
}

/* What blocks take, by size, that get new handles, and that are unmapped and released. */
static bool
measure_handles_once(struct measure *measure, struct measured *grown, struct measured *released)
{
    for (unsigned size = 0; size < measure->sizes; size++) {
        uint64_t bytes = measure_bytes(size), fit = measure_large_bytes(measure) / bytes;
        size_t count = fit < MEASURE_TURNS ? (size_t)fit : MEASURE_TURNS;
        struct measure_block blocks[MEASURE_TURNS] = { { .pointer = NULL } };
        double ns, mib;
        bool good = true;

        for (size_t i = 0; i < count && good; i++) {
            blocks[i].size = size;
            good = measure_fill_block(measure, &blocks[i], grown);
        }
        for (size_t i = 0; i < count; i++) {
            if (blocks[i].pointer != NULL)
                good = measure_free(measure, blocks[i].pointer, bytes, &ns) && good;
        }
        if (!good || !measure_trim(measure, 0, &ns, &mib))
            return false;
        measure_add(released, size, ns / (double)count);
        measure_settle(measure, mib);
    }
    return true;
}

static bool
measure_grow_handles(struct measure *measure, struct measured *grown, struct measured *released)
{
    bool good = true;

    *grown = *released = (struct measured){ .count = { 0 } };
    for (int pass = 0; pass < MEASURE_PASSES && good; pass++) {
        struct measured up = { .count = { 0 } }, down = { .count = { 0 } };

        processor_choose();
        good = measure_handles_once(measure, &up, &down);
        measure_keep_least(grown, &up);
        measure_keep_least(released, &down);
    }
    return good;
}

/* What creating, mapping, unmapping and releasing handles takes beside others. */
static bool
measure_handles(struct measure *measure, struct cost out[COST_CALLS], struct measured *grown, struct measured *released)
{
    struct measure_neighbours neighbours;
    bool good = measure_neighbours_make(measure, &neighbours);

    good = good && measure_remap(measure, out);
    good = good && measure_grow_handles(measure, grown, released);
    return measure_neighbours_free(measure, &neighbours) && good;
}

/* The memory that the first blocks got is fresh, and what handles get beside others is not. */
bool
measure_vmm(struct measure *measure, struct measured *fresh, struct cost out[COST_CALLS])
{
    struct cost first = measure_fit(fresh), again, back;
    struct measured grown, released;
    double ns, mib;

    if (!measure_small(measure, out))
        return false;
    if (!measure_empty(measure) || !measure_trim(measure, 0, &ns, &mib))
        return false;
    measure_settle(measure, mib);
    if (!measure_handles(measure, out, &grown, &released))
        return false;
    again = measure_fit(&grown);
    back = measure_fit(&released);
    out[COST_GROW] = measure_less(again, out[COST_ALLOCATE].ns + out[COST_MAP].ns, 0);
    out[COST_RETURN] = measure_less(back, out[COST_UNMAP].ns, 0);
    out[COST_FRESH] = measure_less((struct cost){ 0, first.ns_per_mib, first.spread }, 0, again.ns_per_mib);
    return true;
}
