/* Tests `tidemark peak` against brute force: every figure, over small random traces, with every grouping. */
#include "tests/random-trace.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <unistd.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/peak.h"

#define ROUNDS 120
#define TRACE  "peak-t.db"

/* An event of layer 1, and what is live right after it. */
struct moment_of {
    const struct random_life *life;
    bool is_free;
    int64_t ns;
    int64_t bytes;
};

static struct random_trace trace;
static struct moment_of moments[2 * RANDOM_LIVES];
static size_t moment_count;

static int64_t
key_of(const struct random_life *life, enum groups_by by)
{
    switch (by) {
    case GROUPS_TAG:
        return life->tag;
    case GROUPS_STREAM:
        return life->stream;
    case GROUPS_THREAD:
        return life->thread;
    case GROUPS_LAYER:
        return life->layer;
    case GROUPS_SIZE:
        return life->size;
    case GROUPS_DEVICE:
        return life->stream == 3;
    case GROUPS_CLASS: {
        int64_t class = 0;

        for (int64_t size = life->size; size > 0; size /= 2)
            class ++;
        return class;
    }
    default:
        return 0;
    }
}

/* The live bytes right after a moment, of one group or (`without`) of all others; NULL: of all. */
static int64_t
live_bytes(const struct moment_of *moment, enum groups_by by, const int64_t *key, bool without, int64_t *count)
{
    int64_t bytes = 0;

    *count = 0;
    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *life = &trace.lives[i];

        if (life->layer != 1 || !random_trace_is_live(life, moment->life, moment->is_free))
            continue;
        if (key != NULL && (key_of(life, by) == *key) == without)
            continue;
        bytes += life->size;
        (*count)++;
    }
    return bytes;
}

static int
compare_moments(const void *a, const void *b)
{
    const struct moment_of *one = a;
    const struct moment_of *other = b;

    if (one->ns != other->ns)
        return one->ns < other->ns ? -1 : 1;
    if (one->is_free != other->is_free)
        return one->is_free ? 1 : -1;
    return one->life->id < other->life->id ? -1 : 1;
}

static void
make_moments(void)
{
    int64_t count;

    moment_count = 0;
    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *life = &trace.lives[i];

        if (life->layer != 1 || life->status != 0)
            continue;
        moments[moment_count++] = (struct moment_of){ life, false, life->alloc_ns, 0 };
        if (life->free_ns != RANDOM_NEVER)
            moments[moment_count++] = (struct moment_of){ life, true, life->free_ns, 0 };
    }
    qsort(moments, moment_count, sizeof(moments[0]), compare_moments);
    for (size_t i = 0; i < moment_count; i++)
        moments[i].bytes = live_bytes(&moments[i], 0, NULL, false, &count);
}

static bool
same(const char *what, int64_t seen, int64_t wanted)
{
    if (seen != wanted)
        diag("seed %" PRIu64 ": %s is %" PRId64 ", by brute force %" PRId64, trace.seed, what, seen, wanted);
    return seen == wanted;
}

/* The first moment with the most live bytes. */
static const struct moment_of *
highest(void)
{
    const struct moment_of *best = NULL;

    for (size_t i = 0; i < moment_count; i++) {
        if (moments[i].bytes > (best != NULL ? best->bytes : 0))
            best = &moments[i];
    }
    return best;
}

static bool
same_groups(const struct peak *peak, enum groups_by by, const struct moment_of *at)
{
    bool good = true;

    for (uint32_t group = 0; group < peak->groups.count; group++) {
        int64_t key = (int64_t)peak->groups.keys[group];
        int64_t without = 0;
        int64_t count;

        for (size_t i = 0; i < moment_count; i++) {
            int64_t rest = live_bytes(&moments[i], by, &key, true, &count);

            if (rest > without)
                without = rest;
        }
        good &= same("the peak without a group", (int64_t)counterfactual_without(&peak->rest, group), without);
        good &= same("bytes of a group", (int64_t)peak->at_groups[group].bytes,
                     at != NULL ? live_bytes(at, by, &key, false, &count) : 0);
        good &= same("count of a group", (int64_t)peak->at_groups[group].count, at != NULL ? count : 0);
    }
    return good;
}

/* How far the live bytes fall from moment `top` on, in one direction, before they exceed it. */
static int64_t
ground(size_t top, int step)
{
    int64_t least = moments[top].bytes;

    for (size_t i = top; (step > 0 || i > 0) && i + (size_t)step < moment_count;) {
        i += (size_t)step;
        if (step > 0 ? moments[i].bytes > moments[top].bytes : moments[i].bytes >= moments[top].bytes)
            return least;
        if (moments[i].bytes < least)
            least = moments[i].bytes;
    }
    return 0;
}

/* Find every local peak and its prominence: the result must have all but those that are less prominent than `share`. */
static bool
same_summits(const struct peak *peak, double share)
{
    bool good = true;
    size_t all = 0;

    for (size_t i = 0; i < moment_count; i++) {
        int64_t before = i > 0 ? moments[i - 1].bytes : 0;
        size_t next = i + 1;
        uint64_t prominence;
        bool found = false;

        while (next < moment_count && moments[next].bytes == moments[i].bytes)
            next++;
        if (before >= moments[i].bytes || (next < moment_count && moments[next].bytes > moments[i].bytes))
            continue;
        prominence = (uint64_t)(moments[i].bytes - (ground(i, -1) > ground(i, 1) ? ground(i, -1) : ground(i, 1)));
        if ((double)prominence < share * (double)peak->bytes)
            continue;
        all++;
        for (size_t j = 0; j < peak->summits.count; j++)
            found = found || (peak->summits.found[j].ns == moments[i].ns &&
                              peak->summits.found[j].bytes == (uint64_t)moments[i].bytes &&
                              peak->summits.found[j].prominence_bytes == prominence);
        if (!found)
            good = same("the prominence of a peak", -1, (int64_t)prominence);
    }
    good &= same("distinct peaks", (int64_t)peak->summits.count, (int64_t)all);
    return good;
}

static bool
same_plateaus(const struct peak *peak, double within)
{
    int64_t begin = -1;
    int64_t total = 0;
    int64_t longest = 0;
    int64_t count = 0;
    int64_t margin = (int64_t)((double)peak->bytes * within);

    if (peak->bytes == 0)
        return true;
    for (size_t i = 0; i <= moment_count; i++) {
        int64_t ns = i < moment_count ? moments[i].ns : trace.end_ns;
        bool near = i < moment_count && moments[i].bytes >= (int64_t)peak->bytes - margin;

        if (near && begin < 0)
            begin = ns;
        if (!near && begin >= 0) {
            total += ns - begin;
            longest = ns - begin > longest ? ns - begin : longest;
            count++;
            begin = -1;
        }
    }
    return same("plateaus", (int64_t)peak->plateau_count, count) && same("time near the peak", peak->near_ns, total) &&
           same("the longest plateau", peak->plateaus[0].end_ns - peak->plateaus[0].begin_ns, longest);
}

/* The state at a time: allocations made by then and not freed before it. */
static const struct moment_of *
moment_at(int64_t ns)
{
    const struct moment_of *last = NULL;

    for (size_t i = 0; i < moment_count; i++) {
        if (moments[i].ns < ns || (moments[i].ns == ns && !moments[i].is_free))
            last = &moments[i];
    }
    return last;
}

static bool
check(struct view *view, enum groups_by by, const struct moment *at)
{
    const struct moment_of *top = highest();
    const struct moment_of *looked = at->kind == MOMENT_PEAK ? top : moment_at(at->number);
    const struct peak_shares shares = { 0.05, trace.seed % 3 == 0 ? 0.05 : 0 };
    struct peak peak;
    int64_t count = 0;
    bool good = true;

    /* Without single allocations one pass is enough for what is live at the peak. */
    if (peak_make(view, by, at, &shares, trace.seed % 2 == 0 ? 3 : 0, &peak) != COMMAND_FINE)
        return false;
    good &= same("the peak", (int64_t)peak.bytes, top != NULL ? top->bytes : 0);
    if (top != NULL)
        good &= same("the peak's time", peak.ns, top->ns) && same("its allocation", peak.allocation_id, top->life->id);
    good &= same("bytes live", (int64_t)peak.at_bytes, looked != NULL ? live_bytes(looked, 0, NULL, false, &count) : 0);
    good &= same("allocations live", (int64_t)peak.at_count, count);
    good &= same_groups(&peak, by, looked);
    good &= same_summits(&peak, shares.prominence);
    good &= same_plateaus(&peak, 0.05);
    peak_free(&peak);
    return good;
}

static bool
check_trace(uint64_t seed, bool at_times)
{
    struct filter_options options;
    struct view view;
    uint64_t state = seed + 1;
    bool good = true;

    random_trace_make(&trace, seed, random_draw(&state, 80));
    random_trace_write(&trace, TRACE);
    make_moments();
    options = (struct filter_options){ 0 };
    if (view_open(&view, &options, TRACE) != COMMAND_FINE)
        return false;
    for (enum groups_by by = GROUPS_TAG; by <= GROUPS_DEVICE; by++) {
        struct moment at = { .kind = MOMENT_PEAK };

        if (at_times)
            at = (struct moment){ .kind = MOMENT_TIME,
                                  .number = (int64_t)random_draw(&state, (uint64_t)trace.end_ns + 1) };
        good = check(&view, by, &at) && good;
    }
    view_close(&view);
    return good;
}

/* The stack of totals is thinned out at every turn: the answers stay the same, from the group's own history. */
static bool
check_thinning(uint64_t seed)
{
    struct counterfactual thin = { .depth_limit = 1 };
    struct counterfactual thick = { 0 };
    int64_t live[64] = { 0 };
    uint64_t state = seed | 1;
    bool good = true;

    for (int i = 0; i < 3000; i++) {
        uint32_t group = (uint32_t)random_draw(&state, i < 1500 ? 20 : 64);
        uint64_t size = 1 + random_draw(&state, 100);

        if (live[group] >= (int64_t)size && random_draw(&state, 2) == 0) {
            good &= counterfactual_change(&thin, group, size, true) && counterfactual_change(&thick, group, size, true);
            live[group] -= (int64_t)size;
        } else {
            good &=
                counterfactual_change(&thin, group, size, false) && counterfactual_change(&thick, group, size, false);
            live[group] += (int64_t)size;
        }
    }
    for (uint32_t group = 0; group < thick.group_count; group++)
        good &= counterfactual_without(&thin, group) == counterfactual_without(&thick, group);
    good &= thin.depth <= 4 * (thin.group_count + 1);
    counterfactual_free(&thin);
    counterfactual_free(&thick);
    return good;
}

/*
 * A long curve that rises at random and then swings about the threshold: the kept levels give the same times above the
 * threshold as all levels.
 */
static bool
check_levels(uint64_t seed)
{
    static uint64_t curve[20000];
    const size_t count = sizeof(curve) / sizeof(curve[0]);
    struct levels levels = { 0 };
    struct levels small = { .most = 2048 };
    uint64_t state = seed | 1;
    uint64_t threshold = 1;
    uint64_t bytes = 1000;
    uint64_t most = bytes;
    size_t place = 0;
    bool good = true;
    bool above = false;

    for (size_t i = 0; i < count; i++) {
        bytes += random_draw(&state, 101);
        bytes -= bytes > 50 ? 50 : bytes;
        most = bytes > most ? bytes : most;
        if (i > count / 2)
            bytes = most - random_draw(&state, most / 10);
        threshold = bytes - bytes / 20 > threshold ? bytes - bytes / 20 : threshold;
        curve[i] = bytes;
        levels_add(&levels, (int64_t)i, bytes, threshold);
        levels_add(&small, (int64_t)i, random_draw(&state, 2), 1); /* a bound that no rising threshold exceeds */
    }
    for (size_t i = 0; i < count; i++) {
        for (; place < levels.count && levels.list[place].ns <= (int64_t)i; place++)
            above = levels.list[place].bytes >= threshold;
        good = good && above == (curve[i] >= threshold);
    }
    good = good && !levels.overflowed && levels.capacity < count && small.overflowed && small.capacity <= 2048;
    levels_free(&levels);
    levels_free(&small);
    return good;
}

int
main(void)
{
    uint64_t seed = random_trace_seed();
    bool at_peak = true;
    bool at_times = true;

    plan(4);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        at_peak = check_trace(seed + i, false) && at_peak;
        at_times = check_trace(seed + i, true) && at_times;
    }
    ok(at_peak, "the peak, its groups, the peak without each, distinct peaks and plateaus are those of brute force");
    ok(at_times, "what is live at any time is that of brute force");
    ok(check_thinning(seed), "thinning out the totals changes no answer, and bounds them by the groups");
    ok(check_levels(seed), "levels near the peak are kept while it rises, up to a bound");
    unlink(TRACE);
    return done();
}
