/*
 * Tests `tidemark fragmentation` against brute force: a map of every 256 bytes of every chunk, over small random
 * traces.
 */
#include "tests/random-trace.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <unistd.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/fragment.h"

#define ROUNDS 150
#define TRACE  "fragment-t.db"

static struct random_trace trace;

static bool
same(const char *what, uint64_t seen, int64_t wanted)
{
    if (seen != (uint64_t)wanted)
        diag("seed %" PRIu64 ": %s is %" PRIu64 ", by brute force %" PRId64, trace.seed, what, seen, wanted);
    return seen == (uint64_t)wanted;
}

static bool
same_figures(const struct fragment_figures *seen, const struct random_map *wanted)
{
    return same("requested", seen->requested_bytes, wanted->requested) &&
           same("rounded", seen->rounded_bytes, wanted->rounded) &&
           same("inside", seen->inside_bytes, wanted->inside) &&
           same("reserved", seen->space_bytes, wanted->reserved) &&
           (wanted->chunks == 0 || same("reserved now", seen->reserved_bytes, wanted->reserved)) &&
           same("free", seen->free_bytes, wanted->reserved - wanted->inside) &&
           same("largest hole", seen->largest_hole, wanted->largest) && same("holes", seen->holes, wanted->holes) &&
           same("unusable", seen->unusable_bytes, wanted->unusable) && same("blocks", seen->blocks, wanted->blocks) &&
           same("chunks", seen->chunks, wanted->chunks) && same("empty", seen->empty_bytes, wanted->empty);
}

/* Which allocations are live at a time: those made by then and not freed before it. */
static void
live_at(int64_t ns, bool *live)
{
    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *life = &trace.lives[i];

        live[i] = life->status == 0 && life->alloc_ns <= ns && (life->free_ns == RANDOM_NEVER || life->free_ns >= ns);
    }
}

static int64_t
live_after(const struct random_life *event, int64_t layer, bool *live)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < trace.count; i++) {
        live[i] = random_trace_is_live(&trace.lives[i], event, false);
        bytes += live[i] && trace.lives[i].layer == layer ? trace.lives[i].size : 0;
    }
    return bytes;
}

/* The size of the largest allocation of layer 1 that succeeded. */
static int64_t
largest_request(void)
{
    int64_t largest = 0;

    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *life = &trace.lives[i];

        if (life->layer == 1 && life->status == 0 && life->size > largest)
            largest = life->size;
    }
    return largest;
}

/* The first allocation after which the live bytes of a layer are at their peak. */
static const struct random_life *
highest(int64_t layer, int64_t *most)
{
    const struct random_life *best = NULL;
    bool live[RANDOM_LIVES];

    *most = 0;
    for (size_t i = 0; i < trace.count; i++) {
        int64_t bytes;

        if (trace.lives[i].layer != layer || trace.lives[i].status != 0)
            continue;
        bytes = live_after(&trace.lives[i], layer, live);
        if (bytes > *most) {
            *most = bytes;
            best = &trace.lives[i];
        }
    }
    return best;
}

static bool
check(struct view *view, const struct moment *at, int64_t request)
{
    struct fragment fragment;
    struct random_map wanted;
    bool live[RANDOM_LIVES];
    int64_t most, reserved;
    const struct random_life *peak = highest(1, &most);
    const struct random_life *reserving = highest(3, &reserved);
    bool good;

    const struct fragment_options options = { *at, (uint64_t)request, SPACE_PAGE, 7, 0 };

    if (fragment_make(view, &options, &fragment) != COMMAND_FINE)
        return false;
    good = same("the peak", fragment.peak_bytes, most) &&
           same("the peak's allocation", (uint64_t)fragment.peak_id, peak != NULL ? peak->id : 0) &&
           same("the largest request", fragment.group->largest_request, largest_request()) &&
           same("the most reserved", fragment.group->reserved.peak_bytes, reserved);
    if (request == 0)
        request = (int64_t)fragment.group->largest_request;
    if (at->kind == MOMENT_PEAK && peak != NULL)
        live_after(peak, 1, live);
    else
        live_at(at->kind == MOMENT_PEAK ? trace.end_ns + 1 : at->number, live);
    random_trace_map(&trace, live, request, &wanted);
    good &= same_figures(&fragment.figures, &wanted);
    if (reserving != NULL) {
        live_after(reserving, 3, live);
        random_trace_map(&trace, live, request, &wanted);
        good &= same_figures(&fragment.reserved_figures, &wanted);
    }
    for (size_t i = 0; i < fragment.moments_done; i++) {
        live_at(fragment.moments[i].ns, live);
        random_trace_map(&trace, live, request, &wanted);
        good &= same_figures(&fragment.moments[i], &wanted);
    }
    good &= same("moments", fragment.moments_done, 7);
    fragment_free(&fragment);
    return good;
}

static bool
check_trace(uint64_t seed, bool at_times)
{
    struct moment at = { .kind = MOMENT_PEAK };
    struct filter_options options;
    struct view view;
    uint64_t state = seed + 1;
    bool good;

    random_trace_make(&trace, seed, random_draw(&state, 150));
    random_trace_write(&trace, TRACE);
    options = (struct filter_options){ 0 };
    if (view_open(&view, &options, TRACE) != COMMAND_FINE)
        return false;
    if (at_times)
        at = (struct moment){ .kind = MOMENT_TIME, .number = (int64_t)random_draw(&state, (uint64_t)trace.end_ns + 1) };
    good = check(&view, &at, at_times ? (int64_t)random_draw(&state, 4000) : 0);
    view_close(&view);
    return good;
}

int
main(void)
{
    uint64_t seed = random_trace_seed();
    bool at_peak = true;
    bool at_times = true;

    plan(2);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        at_peak = check_trace(seed + i, false) && at_peak;
        at_times = check_trace(seed + i, true) && at_times;
    }
    ok(at_peak, "the figures at the peak, at the most reserved bytes and over time are those of a map of every unit");
    ok(at_times, "the figures at any time, for any request, are those of a map of every unit");
    unlink(TRACE);
    return done();
}
