/* Makes lives of recorded traffic, finds loops, and repeats their steps. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "plan-flow.h"

#define NEVER UINT32_MAX

void
flow_make(const struct replay_input *input, struct flow *out)
{
    uint32_t *slots = calloc(input->allocation_count + 1, sizeof(*slots));

    *out = (struct flow){ .lives = calloc(input->allocation_count + 1, sizeof(*out->lives)) };
    if (slots == NULL || out->lives == NULL || input->allocation_count >= NEVER)
        bench_fail("no memory for the lives of the traffic");
    for (size_t i = 0; i < input->event_count; i++) {
        const struct replay_event *event = &input->events[i];
        uint64_t bytes = event->kind == REPLAY_MARK ? 0 : input->sizes[event->allocation];
        uint32_t now = (uint32_t)out->count;

        if (bytes == 0)
            continue;
        if (event->kind == REPLAY_FREE) {
            out->lives[slots[event->allocation]].end = now;
            continue;
        }
        slots[event->allocation] = now;
        bytes = (bytes + PLACE_ALIGNMENT - 1) / PLACE_ALIGNMENT * PLACE_ALIGNMENT;
        out->lives[out->count++] = (struct place_life){ now, NEVER, event->stream, bytes };
    }
    for (size_t i = 0; i < out->count; i++)
        if (out->lives[i].end == NEVER)
            out->lives[i].end = (uint32_t)out->count;
    free(slots);
}

void
flow_free(struct flow *flow)
{
    free(flow->lives);
    *flow = (struct flow){ 0 };
}

static bool
flow_same(const struct flow *flow, size_t one, size_t other)
{
    const struct place_life *a = &flow->lives[one], *b = &flow->lives[other];

    return a->bytes == b->bytes && a->stream == b->stream && a->end - a->begin == b->end - b->begin;
}

/* The loop that ends at the slot `end`: by how many blocks, counted from there, the traffic agrees with itself. */
static struct flow_loop
flow_find_loop_at(const struct flow *flow, size_t end)
{
    struct flow_loop best = { 0 };
    size_t *same = calloc(end + 1, sizeof(*same)); /* of the blocks before `end`, those that equal the ones i earlier */
    size_t left = 0, right = 0;

    if (same == NULL)
        bench_fail("no memory for a loop");
    for (size_t i = 1; i < end; i++) {
        if (i < right)
            same[i] = right - i < same[i - left] ? right - i : same[i - left];
        while (i + same[i] < end && flow_same(flow, end - 1 - same[i], end - 1 - same[i] - i))
            same[i]++;
        if (i + same[i] > right) {
            left = i;
            right = i + same[i];
        }
        if (i >= FLOW_PERIOD_LEAST && same[i] >= (FLOW_REPEATS - 1) * i && same[i] + i > best.count)
            best = (struct flow_loop){ end - i - same[i], i, i + same[i] };
    }
    free(same);
    return best;
}

struct flow_loop
flow_find_loop(const struct flow *flow)
{
    struct flow_loop best = { 0 };

    /* What follows a loop, and the last step, whose blocks nobody frees, are not like it. */
    for (size_t i = 16; i > 8; i--) {
        struct flow_loop loop = flow_find_loop_at(flow, flow->count * i / 16);

        if (loop.count > best.count && loop.count > flow->count / 8)
            best = loop;
    }
    return best;
}

/* What is live before each allocation. */
static uint64_t *
flow_live(const struct flow *flow)
{
    uint64_t *live = calloc(flow->count + 1, sizeof(*live)); /* at first the change before each */

    if (live == NULL)
        bench_fail("no memory for what is live");
    for (size_t i = 0; i < flow->count; i++) {
        live[i + 1] += flow->lives[i].bytes;
        live[flow->lives[i].end] -= flow->lives[i].bytes;
    }
    for (size_t i = 0; i < flow->count; i++)
        live[i + 1] += live[i];
    return live;
}

size_t
flow_step_begin(const struct flow *flow, const struct flow_loop *loop)
{
    size_t first = loop->begin + loop->count / loop->period / 2 * loop->period, best = first;
    uint64_t *live = flow_live(flow);

    for (size_t slot = first; slot < first + loop->period; slot++)
        best = live[slot] < live[best] ? slot : best;
    free(live);
    return best;
}

/* The least that is live from a slot on, while it stays at or below `low`; *slot goes to the first one above. */
static size_t
flow_valley(const uint64_t *live, uint64_t low, size_t end, size_t *slot)
{
    size_t least = *slot;

    for (; *slot < end && live[*slot] <= low; ++*slot)
        least = live[*slot] < live[least] ? *slot : least;
    return least;
}

bool
flow_largest_step(const struct flow *flow, size_t *begin, size_t *end)
{
    /* Programs set up at their begin, and clean up at their end. */
    size_t first = flow->count / 16, last = flow->count - flow->count / 16, slot = first, before = 0;
    uint64_t *live = flow_live(flow), least = UINT64_MAX, most = 0, found = 0, low, top = 0;

    for (size_t i = first; i < last; i++) {
        least = live[i] < least ? live[i] : least;
        most = live[i] > most ? live[i] : most;
    }
    low = least + (most - least) / 50;
    for (; slot < last; slot++) {
        top = live[slot] > top ? live[slot] : top;
        if (live[slot] > low)
            continue;
        size_t valley = flow_valley(live, low, last, &slot);

        if (before > 0 && top > found && valley - before >= FLOW_PERIOD_LEAST) {
            found = top;
            *begin = before;
            *end = valley;
        }
        before = valley;
        top = 0;
        slot--;
    }
    free(live);
    return found > 0;
}

void
flow_step_make(const struct flow *flow, size_t begin, size_t end, struct flow_step *out)
{
    *out = (struct flow_step){
        .lives = calloc(end - begin + 1, sizeof(*out->lives)),
        .stays = calloc(end + 1, sizeof(*out->stays)),
        .slots = (uint32_t)(end - begin),
    };
    if (out->lives == NULL || out->stays == NULL)
        bench_fail("no memory for a step");
    for (size_t i = 0; i < end; i++) {
        struct place_life life = flow->lives[i];

        if (i < begin && life.end < end)
            continue; /* of the step before, or gone */
        life.begin -= (uint32_t)begin;
        life.end -= (uint32_t)begin;
        if (life.end > out->slots)
            life.end -= out->slots; /* in the next step */
        if (i < begin || life.end > life.begin + (flow->lives[i].end > end ? 0 : out->slots)) {
            out->stays[out->stays_count++] = life.bytes;
            out->stays_bytes += life.bytes;
        } else {
            out->lives[out->count++] = life;
        }
    }
}

void
flow_step_free(struct flow_step *step)
{
    free(step->lives);
    free(step->stays);
    *step = (struct flow_step){ 0 };
}

static uint32_t
repeat_get(struct replay_input *input, uint64_t bytes, uint32_t stream)
{
    uint32_t number = 0;

    if (replay_input_alloc(input, 1, stream, bytes, 8, &number) != NULL)
        bench_fail("no memory for a loop");
    return number;
}

/* The blocks of a step in the order of their ends. */
static uint32_t *
repeat_order(const struct flow_step *step)
{
    uint32_t *order = calloc(step->count + 1, sizeof(*order));
    size_t *before = calloc((size_t)step->slots + 2, sizeof(*before)); /* blocks that end before each slot */

    if (order == NULL || before == NULL)
        bench_fail("no memory for a loop");
    for (size_t i = 0; i < step->count; i++)
        before[step->lives[i].end + 1]++;
    for (size_t slot = 0; slot < step->slots; slot++)
        before[slot + 1] += before[slot];
    for (size_t i = 0; i < step->count; i++)
        order[before[step->lives[i].end]++] = (uint32_t)i;
    free(before);
    return order;
}

void
flow_repeat(const struct flow_step *step, unsigned rounds, struct replay_input *out, size_t *last)
{
    uint32_t *numbers = calloc(step->count + 1, sizeof(*numbers)); /* of the blocks that were allocated last */
    uint32_t *order = repeat_order(step);

    *out = (struct replay_input){ 0 };
    if (numbers == NULL)
        bench_fail("no memory for a loop");
    for (size_t i = 0; i < step->stays_count; i++)
        repeat_get(out, step->stays[i], 0);
    for (unsigned round = 0; round < rounds; round++) {
        size_t next = 0, ended = 0;

        *last = out->event_count;
        for (uint32_t slot = 0; slot <= step->slots; slot++) {
            for (; ended < step->count && step->lives[order[ended]].end == slot; ended++) {
                const struct place_life *life = &step->lives[order[ended]];

                /* A block that goes on into the next step was allocated in the one before. */
                if ((round > 0 || life->begin < life->end) &&
                    replay_input_free(out, 1, life->stream, 8, numbers[order[ended]]) != NULL)
                    bench_fail("no memory for a loop");
            }
            if (next < step->count && step->lives[next].begin == slot) {
                numbers[next] = repeat_get(out, step->lives[next].bytes, step->lives[next].stream);
                next++;
            }
        }
    }
    free(numbers);
    free(order);
}
