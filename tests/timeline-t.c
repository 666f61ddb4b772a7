/*
 * Tests `tidemark timeline` against brute force: every figure of every column, over small random traces and parts of
 * them.
 */
#include "tests/random-trace.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <unistd.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/timeline.h"

#define ROUNDS 200
#define TRACE  "timeline-t.db"

static struct random_trace trace;
static int64_t from_ns, to_ns; /* the examined time */

static bool
same(const char *what, size_t column, uint64_t seen, int64_t wanted)
{
    if (seen != (uint64_t)wanted)
        diag("seed %" PRIu64 ": %s of column %zu is %" PRIu64 ", by brute force %" PRId64, trace.seed, what, column,
             seen, wanted);
    return seen == (uint64_t)wanted;
}

/* The live bytes of a layer as the event of another layer begins; NULL: at `ns`. */
static int64_t
live_bytes(int64_t layer, const struct random_life *event, bool is_free, int64_t ns)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *life = &trace.lives[i];
        bool live = event != NULL ? random_trace_is_live(life, event, is_free)
                                  : life->status == 0 && life->alloc_ns < ns &&
                                        (life->free_ns == RANDOM_NEVER || life->free_ns >= ns);

        bytes += live && life->layer == layer ? life->size : 0;
    }
    return bytes;
}

/* Add an event to its column. */
static void
take(struct timeline_column *wanted, const struct random_life *life, bool is_free)
{
    int64_t bytes = life->status == 0 ? live_bytes(life->layer, life, is_free, 0) : 0;

    if (life->layer == 3) {
        if (bytes > (int64_t)wanted->reserved_bytes)
            wanted->reserved_bytes = (uint64_t)bytes;
        return;
    }
    if (life->status != 0) {
        wanted->failures++;
        return;
    }
    wanted->allocations += !is_free;
    wanted->frees += is_free;
    if (bytes > (int64_t)wanted->most_bytes)
        wanted->most_bytes = (uint64_t)bytes;
    if (bytes < (int64_t)wanted->least_bytes)
        wanted->least_bytes = (uint64_t)bytes;
}

static bool
check_column(const struct timeline *timeline, size_t at)
{
    const struct timeline_column *seen = &timeline->parts[0].columns[at];
    bool last = at + 1 == timeline->count;
    int64_t end = last ? to_ns + 1 : seen[1].ns;
    struct timeline_column wanted = { .most_bytes = (uint64_t)live_bytes(1, NULL, false, seen->ns),
                                      .reserved_bytes = (uint64_t)live_bytes(3, NULL, false, seen->ns) };
    bool good;

    wanted.least_bytes = wanted.most_bytes;
    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *life = &trace.lives[i];

        if (life->alloc_ns >= seen->ns && life->alloc_ns < end)
            take(&wanted, life, false);
        if (life->free_ns != RANDOM_NEVER && life->free_ns >= seen->ns && life->free_ns < end)
            take(&wanted, life, true);
    }
    good = same("most", at, seen->most_bytes, (int64_t)wanted.most_bytes) &&
           same("least", at, seen->least_bytes, (int64_t)wanted.least_bytes) &&
           same("end", at, seen->end_bytes, live_bytes(1, NULL, false, end)) &&
           same("allocations", at, seen->allocations, (int64_t)wanted.allocations) &&
           same("frees", at, seen->frees, (int64_t)wanted.frees) &&
           same("failures", at, seen->failures, (int64_t)wanted.failures);
    return good && same("reserved", at, seen->reserved_bytes, (int64_t)wanted.reserved_bytes);
}

static bool
check_trace(uint64_t seed, bool window)
{
    struct filter_options options;
    struct timeline timeline;
    struct view view;
    uint64_t state = seed + 1;
    size_t count;
    bool good = true;

    random_trace_make(&trace, seed, 1 + random_draw(&state, 120));
    random_trace_write(&trace, TRACE);
    options = (struct filter_options){ 0 };
    from_ns = 0;
    to_ns = trace.end_ns;
    if (window) {
        from_ns = (int64_t)random_draw(&state, (uint64_t)trace.end_ns + 1);
        to_ns = from_ns + 1 + (int64_t)random_draw(&state, 60);
        if (trace.count > 0 && to_ns < trace.lives[0].alloc_ns)
            to_ns = trace.lives[0].alloc_ns; /* an earlier end is refused */
        options.from = (struct moment){ .kind = MOMENT_TIME, .number = from_ns };
        options.to = (struct moment){ .kind = MOMENT_TIME, .number = to_ns };
    }
    count = 1 + random_draw(&state, random_draw(&state, 2) == 0 ? 5 : 300);
    if (view_open(&view, &options, TRACE) != COMMAND_FINE)
        return false;
    if (timeline_make(&view, count, TIMELINE_ASK, &timeline) != COMMAND_FINE)
        return false;
    if (count > (size_t)(to_ns - from_ns))
        count = to_ns > from_ns ? (size_t)(to_ns - from_ns) : 1;
    good = timeline.count == count && timeline.begin_ns == from_ns && timeline.parts[0].columns[0].ns == from_ns;
    for (size_t i = 0; good && i < count; i++)
        good = check_column(&timeline, i);
    timeline_free(&timeline);
    view_close(&view);
    return good;
}

int
main(void)
{
    uint64_t seed = random_trace_seed();
    bool whole = true;
    bool parts = true;

    plan(2);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        whole = check_trace(seed + i, false) && whole;
        parts = check_trace(seed + i, true) && parts;
    }
    ok(whole, "what was live, reserved and failed in each column is that of brute force");
    ok(parts, "in a part of the time each column is that of brute force");
    unlink(TRACE);
    return done();
}
