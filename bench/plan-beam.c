/*
 * A placement of some blocks has a height for each section of time: where the blocks of that section end. All others go
 * above it, so that the top of a section is at least its height and the sizes of its blocks that are not placed. That
 * grows by what is left empty below a block, and by nothing else. Where each block of a section would have to leave
 * something empty, the section is raised by the least of it at once: such a placement is then known for what it is.
 *
 * Each step takes every placement that is kept, finds where it is lowest, and puts a block there, each of those that
 * live then in turn. Of all these the best are kept: those with the lowest top that they must have, the least area that
 * is left empty, and the most area that is placed.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "plan-beam.h"

struct section {
    uint64_t height;
    uint64_t left; /* the sizes of its blocks that are not placed */
};

/* A placement of some of the blocks. */
struct beam_state {
    struct section *sections; /* owns */
    bool *placed;             /* owns; by block */
    size_t history;           /* of the last block that was placed */
    uint64_t hash;            /* of what is placed */
    uint64_t top;             /* that it must have at least */
    double waste;
    double area;
};

/* A block on top of a placement. */
struct beam_step {
    double score;
    size_t state;
    uint32_t block;
    uint64_t hash;
    uint64_t offset;
    uint64_t top;
    double waste;
};

/* How a placement came about. */
struct beam_history {
    size_t before;
    uint32_t block;
    uint64_t offset;
};

struct beam {
    const struct place_blocks *blocks;
    struct beam_weights weights;
    uint32_t *begins; /* owns; by block, in sections */
    uint32_t *counts; /* owns; by block, how many sections */
    double *areas;    /* owns; by block */
    uint64_t *hashes; /* owns; by block */
    double *lengths;  /* owns; by section, of its time */
    uint64_t *lowest; /* owns; by section */
    size_t section_count;
    double area;
    uint64_t bound;
    uint64_t most;
    struct beam_state *states, *next; /* own */
    size_t width, state_count, next_count;
    struct beam_step *steps; /* owns */
    size_t step_count, step_capacity;
    struct beam_history *history; /* owns */
    size_t history_count;
};

static void *
beam_alloc(size_t count, size_t size)
{
    void *found = calloc(count + 1, size);

    if (found == NULL)
        bench_fail("no memory for a search");
    return found;
}

/* Sections begin where a block begins or ends. */
static void
beam_sections(struct beam *beam)
{
    const struct place_blocks *blocks = beam->blocks;
    uint32_t *section_of = beam_alloc((size_t)blocks->slots + 1, sizeof(*section_of));
    uint32_t count = 0, last = 0;

    section_of[0] = 1;
    for (size_t i = 0; i < blocks->count; i++) {
        section_of[blocks->lives[i].begin] = 1;
        section_of[blocks->lives[i].end] = 1;
    }
    beam->lengths = beam_alloc((size_t)blocks->slots + 1, sizeof(*beam->lengths));
    for (uint32_t slot = 0; slot < blocks->slots; slot++) {
        count += section_of[slot];
        last = count - 1;
        section_of[slot] = last;
        beam->lengths[last] += 1.0 / blocks->slots;
    }
    section_of[blocks->slots] = count;
    beam->section_count = count;
    for (size_t i = 0; i < blocks->count; i++) {
        const struct place_life *life = &blocks->lives[i];
        uint32_t begin = section_of[life->begin], end = section_of[life->end];

        beam->begins[i] = begin;
        beam->counts[i] = life->begin < life->end ? end - begin : count - begin + end;
    }
    free(section_of);
}

static uint32_t
beam_after(const struct beam *beam, uint32_t section)
{
    return section + 1 < beam->section_count ? section + 1 : 0;
}

static void
beam_begin(struct beam *beam, const struct place_blocks *blocks, size_t width)
{
    uint64_t random = UINT64_C(0x9e3779b97f4a7c15);

    beam->blocks = blocks;
    beam->width = width;
    beam->begins = beam_alloc(blocks->count, sizeof(*beam->begins));
    beam->counts = beam_alloc(blocks->count, sizeof(*beam->counts));
    beam->areas = beam_alloc(blocks->count, sizeof(*beam->areas));
    beam->hashes = beam_alloc(blocks->count, sizeof(*beam->hashes));
    beam->history = beam_alloc(width * blocks->count, sizeof(*beam->history));
    beam_sections(beam);
    beam->lowest = beam_alloc(beam->section_count, sizeof(*beam->lowest));
    beam->states = beam_alloc(width, sizeof(*beam->states));
    beam->next = beam_alloc(width, sizeof(*beam->next));
    for (size_t i = 0; i < width; i++) {
        beam->states[i].sections = beam_alloc(beam->section_count, sizeof(*beam->states[i].sections));
        beam->next[i].sections = beam_alloc(beam->section_count, sizeof(*beam->next[i].sections));
        beam->states[i].placed = beam_alloc(blocks->count, sizeof(bool));
        beam->next[i].placed = beam_alloc(blocks->count, sizeof(bool));
    }
    beam->bound = place_bound(blocks);
    for (size_t i = 0; i < blocks->count; i++) {
        uint32_t section = beam->begins[i];

        for (uint32_t k = 0; k < beam->counts[i]; k++, section = beam_after(beam, section)) {
            beam->states[0].sections[section].left += blocks->lives[i].bytes;
            beam->areas[i] += beam->lengths[section] * (double)blocks->lives[i].bytes;
        }
        beam->area += beam->areas[i];
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        beam->hashes[i] = random;
    }
    beam->states[0].history = SIZE_MAX;
    beam->states[0].top = beam->bound;
    beam->state_count = 1;
}

static void
beam_end(struct beam *beam)
{
    for (size_t i = 0; i < beam->width; i++) {
        free(beam->states[i].sections);
        free(beam->states[i].placed);
        free(beam->next[i].sections);
        free(beam->next[i].placed);
    }
    free(beam->states);
    free(beam->next);
    free(beam->begins);
    free(beam->counts);
    free(beam->areas);
    free(beam->hashes);
    free(beam->lengths);
    free(beam->lowest);
    free(beam->steps);
    free(beam->history);
}

/* Look at a block on top of a placement. */
static void
beam_try(struct beam *beam, size_t number, uint32_t block)
{
    const struct beam_state *state = &beam->states[number];
    struct beam_step step = { .state = number, .block = block, .hash = state->hash ^ beam->hashes[block] };
    uint32_t section = beam->begins[block];

    for (uint32_t k = 0; k < beam->counts[block]; k++, section = beam_after(beam, section)) {
        if (state->sections[section].height > step.offset)
            step.offset = state->sections[section].height;
    }
    step.top = state->top;
    step.waste = state->waste;
    section = beam->begins[block];
    for (uint32_t k = 0; k < beam->counts[block]; k++, section = beam_after(beam, section)) {
        uint64_t top = step.offset + state->sections[section].left;

        step.waste += (double)(step.offset - state->sections[section].height) * beam->lengths[section];
        step.top = top > step.top ? top : step.top;
    }
    if (step.top >= beam->most)
        return;
    step.score = (double)step.top / (double)beam->bound + beam->weights.waste * step.waste / beam->area -
                 beam->weights.placed * (state->area + beam->areas[block]) / beam->area;
    if (beam->step_count == beam->step_capacity) {
        beam->step_capacity = 2 * beam->step_capacity + 1024;
        beam->steps = realloc(beam->steps, beam->step_capacity * sizeof(*beam->steps));
        if (beam->steps == NULL)
            bench_fail("no memory for a search");
    }
    beam->steps[beam->step_count++] = step;
}

/* Try all blocks of the lowest section: one of them is the next above it. */
static void
beam_expand(struct beam *beam, size_t number)
{
    const struct beam_state *state = &beam->states[number];
    uint64_t height = UINT64_MAX;
    uint32_t lowest = 0;

    for (uint32_t i = 0; i < beam->section_count; i++) {
        if (state->sections[i].left > 0 && state->sections[i].height < height) {
            height = state->sections[i].height;
            lowest = i;
        }
    }
    for (uint32_t i = 0; i < beam->blocks->count; i++) {
        uint32_t begin = beam->begins[i], end = begin + beam->counts[i];

        if (!state->placed[i] && ((begin <= lowest && end > lowest) || end > beam->section_count + lowest))
            beam_try(beam, number, i);
    }
}

/* Each block ends up above what is below it now: raise the sections to the lowest of their blocks. */
static void
beam_lift(const struct beam *beam, struct beam_state *state)
{
    uint64_t *lowest = beam->lowest;

    for (size_t i = 0; i < beam->section_count; i++)
        lowest[i] = UINT64_MAX;
    for (size_t i = 0; i < beam->blocks->count; i++) {
        uint32_t section = beam->begins[i];
        uint64_t offset = 0;

        if (state->placed[i])
            continue;
        for (uint32_t k = 0; k < beam->counts[i]; k++, section = beam_after(beam, section))
            offset = state->sections[section].height > offset ? state->sections[section].height : offset;
        section = beam->begins[i];
        for (uint32_t k = 0; k < beam->counts[i]; k++, section = beam_after(beam, section))
            lowest[section] = offset < lowest[section] ? offset : lowest[section];
    }
    for (size_t i = 0; i < beam->section_count; i++) {
        struct section *section = &state->sections[i];

        if (section->left == 0 || lowest[i] <= section->height)
            continue;
        state->waste += (double)(lowest[i] - section->height) * beam->lengths[i];
        section->height = lowest[i];
        state->top = section->height + section->left > state->top ? section->height + section->left : state->top;
    }
}

static int
beam_compare(const void *one, const void *other)
{
    const struct beam_step *a = one, *b = other;

    if (a->score != b->score)
        return a->score < b->score ? -1 : 1;
    return a->hash != b->hash ? (a->hash < b->hash ? -1 : 1) : (a->offset > b->offset) - (a->offset < b->offset);
}

static void
beam_take(struct beam *beam, const struct beam_step *step)
{
    const struct beam_state *from = &beam->states[step->state];
    struct beam_state *to = &beam->next[beam->next_count++];
    uint64_t bytes = beam->blocks->lives[step->block].bytes;
    uint32_t section = beam->begins[step->block];

    memcpy(to->sections, from->sections, beam->section_count * sizeof(*to->sections));
    memcpy(to->placed, from->placed, beam->blocks->count * sizeof(*to->placed));
    for (uint32_t k = 0; k < beam->counts[step->block]; k++, section = beam_after(beam, section)) {
        to->sections[section].height = step->offset + bytes;
        to->sections[section].left -= bytes;
    }
    to->placed[step->block] = true;
    to->hash = step->hash;
    to->top = step->top;
    to->waste = step->waste;
    to->area = from->area + beam->areas[step->block];
    beam_lift(beam, to);
    if (to->top >= beam->most) {
        beam->next_count--;
        return;
    }
    to->history = beam->history_count;
    beam->history[beam->history_count++] = (struct beam_history){ from->history, step->block, step->offset };
}

/* Keep the best; of those with the same blocks placed and the same score one. */
static void
beam_keep(struct beam *beam)
{
    struct beam_state *states = beam->states;

    if (beam->step_count > 0) /* else `steps` may be NULL */
        qsort(beam->steps, beam->step_count, sizeof(*beam->steps), beam_compare);
    beam->next_count = 0;
    for (size_t i = 0; i < beam->step_count && beam->next_count < beam->width; i++) {
        if (i == 0 || beam->steps[i].hash != beam->steps[i - 1].hash ||
            beam->steps[i].score != beam->steps[i - 1].score)
            beam_take(beam, &beam->steps[i]);
    }
    beam->states = beam->next;
    beam->state_count = beam->next_count;
    beam->next = states;
    beam->step_count = 0;
}

/* The placement with the lowest top. The first has the best score, in which what is left empty counts, too. */
static const struct beam_state *
beam_lowest(const struct beam *beam)
{
    const struct beam_state *best = beam->states;

    for (size_t i = 1; i < beam->state_count; i++)
        best = beam->states[i].top < best->top ? &beam->states[i] : best;
    return best;
}

bool
beam_place(const struct place_blocks *blocks, const struct beam_weights *weights, size_t width, uint64_t most,
           uint64_t deadline_ns, uint64_t *offsets, uint64_t *top)
{
    struct beam beam = { .weights = *weights, .most = most };
    bool found;

    beam_begin(&beam, blocks, width);
    for (size_t step = 0; step < blocks->count && beam.state_count > 0; step++) {
        if (bench_now_ns() >= deadline_ns)
            beam.state_count = 0;
        for (size_t i = 0; i < beam.state_count; i++)
            beam_expand(&beam, i);
        beam_keep(&beam);
    }
    found = beam.state_count > 0;
    if (found) {
        const struct beam_state *best = beam_lowest(&beam);

        *top = best->top;
        for (size_t at = best->history; at != SIZE_MAX; at = beam.history[at].before)
            offsets[beam.history[at].block] = beam.history[at].offset;
    }
    beam_end(&beam);
    return found;
}
