/* bench/plan: placements beside brute force, and the loops that it finds. Usage: tests/plan-t [SEED] */
#include "config.h"

#include <time.h>

#include "bench/plan-beam.h"
#include "bench/plan-flow.h"
#include "bench/plan-place.h"
#include "tests/tap.h"

#define UNIT   PLACE_ALIGNMENT
#define BLOCKS 400

static uint64_t state;

static uint32_t
draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % below);
}

/* Blocks at random; `is_loop`: some go on from the last slot to the first. */
static void
draw_blocks(struct place_life *lives, size_t count, uint32_t slots, uint32_t units, bool is_loop,
            struct place_blocks *out)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t one = draw(slots), length = 1 + draw(draw(4) == 0 ? slots : slots / 4 + 1), end = one + length;

        if (end > slots)
            end = is_loop && end - slots <= one ? end - slots : slots;
        lives[i] = (struct place_life){ one, end, 0, (1 + draw(units)) * UNIT };
    }
    *out = (struct place_blocks){ lives, count, slots };
}

static bool
lives_in(const struct place_life *life, uint32_t slot)
{
    return life->begin < life->end ? slot >= life->begin && slot < life->end : slot >= life->begin || slot < life->end;
}

static bool
meet(const struct place_life *one, const struct place_life *other)
{
    return lives_in(one, other->begin) || lives_in(other, one->begin);
}

/* Whether the blocks from `next` on fit below `top`, beside those before it. */
static bool
fits(const struct place_blocks *blocks, uint64_t *offsets, size_t next, uint64_t top)
{
    const struct place_life *life = &blocks->lives[next];

    if (next == blocks->count)
        return true;
    for (offsets[next] = 0; offsets[next] + life->bytes <= top; offsets[next] += UNIT) {
        bool is_free = true;

        for (size_t i = 0; is_free && i < next; i++)
            is_free = !meet(life, &blocks->lives[i]) || offsets[i] + blocks->lives[i].bytes <= offsets[next] ||
                      offsets[next] + life->bytes <= offsets[i];
        if (is_free && fits(blocks, offsets, next + 1, top))
            return true;
    }
    return false;
}

/* Whether the offsets are a placement with this top, which is not below the bound. */
static bool
is_placement(const struct place_blocks *blocks, const uint64_t *offsets, uint64_t top)
{
    uint64_t most = 0, bound = 0;

    for (size_t i = 0; i < blocks->count; i++) {
        const struct place_life *life = &blocks->lives[i];

        most = offsets[i] + life->bytes > most ? offsets[i] + life->bytes : most;
        for (size_t k = 0; k < i; k++)
            if (meet(life, &blocks->lives[k]) && offsets[k] < offsets[i] + life->bytes &&
                offsets[i] < offsets[k] + blocks->lives[k].bytes)
                return false;
    }
    for (uint32_t slot = 0; slot < blocks->slots; slot++) {
        uint64_t live = 0;

        for (size_t i = 0; i < blocks->count; i++)
            live += lives_in(&blocks->lives[i], slot) ? blocks->lives[i].bytes : 0;
        bound = live > bound ? live : bound;
    }
    return most == top && place_bound(blocks) == bound && top >= bound;
}

/* The lowest free offset, or that of the smallest gap, of a block beside those that are placed; one at a time. */
static uint64_t
naive_offset(const struct place_blocks *blocks, const uint64_t *offsets, const bool *placed, size_t block,
             bool smallest)
{
    uint64_t at = 0, best = UINT64_MAX, found = UINT64_MAX;

    for (;;) {
        uint64_t end = UINT64_MAX, after = 0;

        for (size_t i = 0; i < blocks->count; i++) {
            uint64_t top = offsets[i] + blocks->lives[i].bytes;

            if (!placed[i] || !meet(&blocks->lives[i], &blocks->lives[block]) || top <= at)
                continue;
            if (offsets[i] <= at)
                after = top > after ? top : after;
            end = offsets[i] < end ? offsets[i] : end;
        }
        if (after > 0) { /* not free */
            at = after;
            continue;
        }
        if (end - at >= blocks->lives[block].bytes && (!smallest || end == UINT64_MAX || end - at < best)) {
            if (!smallest || (end == UINT64_MAX && best == UINT64_MAX))
                return at;
            if (end != UINT64_MAX) {
                best = end - at;
                found = at;
            }
        }
        if (end == UINT64_MAX)
            return found;
        at = end;
    }
}

/* Whether placing in the order of time, which is that of the blocks, gives what one that looks at all others gives. */
static bool
agrees(bool is_loop, bool smallest)
{
    static struct place_life lives[BLOCKS];
    uint64_t offsets[BLOCKS], naive[BLOCKS] = { 0 };
    bool placed[BLOCKS] = { false }, same = true;
    struct place_blocks blocks = { lives, BLOCKS, BLOCKS };
    struct place_result result;

    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t end = i + 1 + draw(draw(4) == 0 ? BLOCKS - 1 : 40);

        if (end > BLOCKS)
            end = is_loop && end - BLOCKS <= i ? end - BLOCKS : BLOCKS;
        lives[i] = (struct place_life){ i, end, 0, (1 + draw(1000)) * UNIT };
    }
    place_greedy(&blocks, PLACE_BY_TIME, smallest, offsets, &result);
    for (size_t i = 0; same && i < BLOCKS; i++) {
        naive[i] = naive_offset(&blocks, naive, placed, i, smallest);
        placed[i] = true;
        same = naive[i] == offsets[i];
    }
    return same;
}

static void
test_few(bool is_loop)
{
    struct place_search search = { .seed = 1 };
    bool placed = true, best = true, below = false;

    for (int round = 0; round < 400; round++) {
        struct place_life lives[PLACE_FEW];
        uint64_t offsets[PLACE_FEW], tried[PLACE_FEW];
        struct place_blocks blocks;
        struct place_plan plan;

        draw_blocks(lives, round < 50 ? 1 + draw(PLACE_FEW) : PLACE_FEW - draw(2), 8, 6, is_loop, &blocks);
        place_best(&blocks, &search, offsets, &plan);
        placed = placed && is_placement(&blocks, offsets, plan.best.top);
        best = best && !fits(&blocks, tried, 0, plan.best.top - UNIT);
        below = below || plan.best.top > place_bound(&blocks);
    }
    ok(placed, "few blocks%s are placed without overlap, and not below the bound", is_loop ? " of a loop" : "");
    ok(best, "no placement of few blocks%s is better than the one that is found", is_loop ? " of a loop" : "");
    if (is_loop)
        ok(below, "some loop needs more than what is live at most, and the plan says so");
}

static void
test_many(bool is_loop)
{
    static struct place_life lives[BLOCKS];
    struct place_search search = { .seconds = 60, .rounds = 300, .seed = 3 };
    uint64_t offsets[BLOCKS], again[BLOCKS], least = UINT64_MAX;
    struct place_plan plan, same;
    struct place_blocks blocks;
    bool placed = true;

    draw_blocks(lives, BLOCKS, 200, 1000, is_loop, &blocks);
    for (unsigned i = 0; i < 2 * PLACE_ORDERS; i++) {
        struct place_result result;

        place_greedy(&blocks, i / 2, i % 2 == 1, offsets, &result);
        placed = placed && is_placement(&blocks, offsets, result.top);
        least = result.top < least ? result.top : least;
    }
    ok(placed, "all greedy orders place many blocks%s without overlap", is_loop ? " of a loop" : "");
    place_best(&blocks, &search, offsets, &plan);
    ok(all_of(is_placement(&blocks, offsets, plan.best.top), plan.best.top <= least),
       "the search places many blocks%s without overlap, no worse than the best order", is_loop ? " of a loop" : "");
    place_best(&blocks, &search, again, &same);
    ok(all_of(memcmp(offsets, again, sizeof(offsets)) == 0, same.best.rounds == plan.best.rounds),
       "the same seed finds the same placement of many blocks%s", is_loop ? " of a loop" : "");
}

static void
test_beam(bool is_loop)
{
    static const struct beam_weights weights = { 4, 1 };
    bool placed = true, none = true;

    for (int round = 0; round < 40; round++) {
        struct place_life lives[60];
        uint64_t offsets[60], top = 0;
        struct place_blocks blocks;

        draw_blocks(lives, 60, 40, 50, is_loop, &blocks);
        placed = placed && beam_place(&blocks, &weights, 8, UINT64_MAX, UINT64_MAX, offsets, &top) &&
                 is_placement(&blocks, offsets, top);
        none = none && !beam_place(&blocks, &weights, 8, place_bound(&blocks), UINT64_MAX, offsets, &top);
    }
    ok(placed, "a beam places blocks%s without overlap, up to the top that it says", is_loop ? " of a loop" : "");
    ok(none, "a beam finds nothing below the bound%s", is_loop ? " of a loop" : "");
}

/* Parts of a rectangle that is cut in two again and again; of one seed, as how near a search comes differs. */
static void
test_tiling(void)
{
    struct place_search search = { .seconds = 1e6, .rounds = 4000, .seed = 1 }; /* rounds bound it, no clock does */
    struct place_life parts[80] = { { 0, 200, 0, 200 * UNIT } };
    struct place_blocks blocks = { parts, 80, 200 };
    uint64_t offsets[80], before = state;
    struct place_plan plan;
    bool same;

    state = 1;
    for (uint32_t made = 1; made < 80;) {
        struct place_life *part = &parts[draw(made)];
        uint32_t units = (uint32_t)(part->bytes / UNIT), slots = part->end - part->begin;

        if (units * slots < 200 || units < 2 || slots < 2)
            continue;
        parts[made] = *part;
        if (draw(2) == 0) {
            part->end = parts[made].begin = part->begin + 1 + draw(slots - 1);
        } else {
            part->bytes = (1 + draw(units - 1)) * UNIT;
            parts[made].bytes -= part->bytes;
        }
        made++;
    }
    state = before;
    place_best(&blocks, &search, offsets, &plan);
    same = is_placement(&blocks, offsets, plan.best.top);
    diag("gap of 80 parts of a rectangle: %.2f%%", 100 * ((double)plan.best.top / (double)place_bound(&blocks) - 1));
    ok(all_of(same, plan.best.top <= place_bound(&blocks) * 21 / 20),
       "the parts of a rectangle are placed within a twentieth of it");
}

#define STEP  50
#define STEPS 20
#define SETUP 7

static uint32_t
get(struct replay_input *input, uint64_t bytes)
{
    uint32_t number = 0;

    if (replay_input_alloc(input, 1, 0, bytes, 8, &number) != NULL)
        abort();
    return number;
}

static void
give(struct replay_input *input, uint32_t number)
{
    if (replay_input_free(input, 1, 0, 8, number) != NULL)
        abort();
}

/* Weights, then steps whose blocks live for up to four others, the last one into the next step; with requests of 0
 * bytes. `longer`: the middle of each step
 * is larger than that of the one before. */
static void
make_steps(struct replay_input *input, bool longer)
{
    uint32_t numbers[STEP];

    *input = (struct replay_input){ 0 };
    for (int i = 0; i < SETUP; i++)
        get(input, 1000);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < STEP; i++) {
            give(input, get(input, 0));
            if (step > 0 && i == 3)
                give(input, numbers[STEP - 1]);
            numbers[i] = get(input, UNIT * (i == STEP - 1               ? 1
                                            : longer && i > 9 && i < 40 ? (uint64_t)(i * i % 37 + 1 + step)
                                                                        : (uint64_t)(i * i % 37 + 1)));
            if (i >= 4)
                give(input, numbers[i - 4]);
        }
        for (int i = STEP - 4; i < STEP - 1; i++)
            give(input, numbers[i]);
    }
    get(input, 5);
}

static uint64_t
peak_of(const struct replay_input *input)
{
    uint64_t live = 0, peak = 0;

    for (size_t i = 0; i < input->event_count; i++) {
        uint64_t bytes = input->sizes[input->events[i].allocation];

        live += input->events[i].kind == REPLAY_FREE ? 0 - bytes : bytes;
        peak = live > peak ? live : peak;
    }
    return peak;
}

static void
test_loop(void)
{
    struct replay_input input, repeated;
    struct place_blocks blocks;
    struct flow_loop loop;
    struct flow_step step;
    struct flow flow;
    size_t begin, last;

    make_steps(&input, false);
    flow_make(&input, &flow);
    loop = flow_find_loop(&flow);
    ok(flow.count == SETUP + STEP * STEPS + 1, "requests of 0 bytes are no blocks");
    ok(all_of(loop.period == STEP, loop.begin <= SETUP, loop.count > STEP * (STEPS - 3)),
       "a loop is found with its period, behind what sets it up");
    begin = flow_step_begin(&flow, &loop);
    is_i64((int64_t)((begin - SETUP) % STEP), 0, "its step begins where the fewest bytes are live");
    flow_step_make(&flow, begin, begin + STEP, &step);
    ok(all_of(step.count == STEP, step.stays_count == SETUP, step.stays_bytes == (uint64_t)SETUP * 1024),
       "a step has the blocks that it allocates, and beside them those that stay, in multiples of 256 bytes");
    ok(all_of(step.lives[STEP - 1].begin == STEP - 1, step.lives[STEP - 1].end == 3),
       "a block that lives on ends in the slots of the next step");
    blocks = (struct place_blocks){ step.lives, step.count, step.slots };
    flow_repeat(&step, 5, &repeated, &last);
    ok(peak_of(&repeated) == step.stays_bytes + place_bound(&blocks),
       "repeated, it has as much live as the bound of a step says");
    ok(all_of(repeated.event_count - last == 2 * STEP, repeated.allocation_count == SETUP + 5 * STEP),
       "each further step makes as many frees as allocations");
    replay_input_clear(&repeated);
    flow_step_free(&step);
    flow_free(&flow);
    replay_input_clear(&input);
}

static void
test_no_loop(void)
{
    struct replay_input input;
    struct flow_loop loop;
    struct flow flow;
    size_t begin = 0, end = 0;

    make_steps(&input, true);
    flow_make(&input, &flow);
    loop = flow_find_loop(&flow);
    is_i64((int64_t)loop.period, 0, "steps whose sizes grow are no loop");
    ok(all_of(flow_largest_step(&flow, &begin, &end), end == begin + STEP, (begin - SETUP) % STEP == 0,
              begin > flow.count / 4 * 3),
       "the largest of them is found, which is one of the last");
    flow_free(&flow);
    replay_input_clear(&input);
}

int
main(int argc, char **argv)
{
    bool lowest = true, smallest = true;

    plan(27);
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
    diag("seed %" PRIu64, state);
    test_few(false);
    test_few(true);
    test_many(false);
    test_many(true);
    test_beam(false);
    test_beam(true);
    test_tiling();
    for (int round = 0; round < 4; round++) {
        lowest = lowest && agrees(round % 2 == 1, false);
        smallest = smallest && agrees(round % 2 == 1, true);
    }
    ok(lowest, "the lowest gap is the one that a look at all blocks finds");
    ok(smallest, "the smallest gap is the one that a look at all blocks finds");
    test_loop();
    test_no_loop();
    return done();
}
