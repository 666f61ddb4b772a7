/* Tests `tidemark leaks` against brute force, over small random traces: live allocations at the end, steps, growth. */
#include "tests/random-trace.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/leaks.h"

#define ROUNDS       150
#define TRACE        "leaks-t.db"
#define SUPPRESSIONS "leaks-t.supp"
#define LEVELS       (2 * RANDOM_LIVES)

static struct random_trace trace;
static int rhythms;

static bool
same(const char *what, int64_t seen, int64_t wanted)
{
    if (seen != wanted)
        diag("seed %" PRIu64 ": %s is %" PRId64 ", by brute force %" PRId64, trace.seed, what, seen, wanted);
    return seen == wanted;
}

/* Whether a block counts: layer 1, and neither tag 4 (d), if that is suppressed, nor tag 5 below it. */
static bool
counts(const struct random_life *life, bool suppressed)
{
    return life->layer == 1 && life->status == 0 && !(suppressed && life->tag >= 4);
}

/* The bytes of allocations made by `ns` and not freed by then. INT64_MAX: the end. */
static int64_t
bytes_at(int64_t tag, int64_t ns, bool suppressed)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *life = &trace.lives[i];

        if (counts(life, suppressed) && life->tag == tag && life->alloc_ns <= ns &&
            (life->free_ns == RANDOM_NEVER || life->free_ns > ns))
            bytes += life->size;
    }
    return bytes;
}

static bool
same_growth(const struct leaks *leaks, const struct leaks_group *group, int64_t tag, bool suppressed)
{
    int64_t rose = 0, fell = 0, before = 0, first = 0;

    for (size_t i = 0; i < leaks->steps.count; i++) {
        int64_t bytes = bytes_at(tag, leaks->steps.ends[i], suppressed);

        if (i == 0)
            first = bytes;
        rose += i > 0 && bytes > before;
        fell += i > 0 && bytes < before;
        before = bytes;
    }
    return same("bytes after the first step", (int64_t)group->first_bytes, first) &&
           same("bytes after the last", (int64_t)group->last_bytes, before) &&
           same("steps in which it rose", group->rose, rose) && same("in which it fell", group->fell, fell);
}

static bool
same_group(const struct leaks *leaks, uint32_t number, bool suppressed)
{
    const struct leaks_group *group = &leaks->list[number];
    int64_t tag = (int64_t)leaks->groups.keys[number];
    int64_t allocations = 0, live = 0, oldest = INT64_MAX;

    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *life = &trace.lives[i];

        if (!counts(life, suppressed) || life->tag != tag)
            continue;
        allocations++;
        if (life->free_ns != RANDOM_NEVER || life->size == 0)
            continue;
        live++;
        oldest = life->alloc_ns < oldest ? life->alloc_ns : oldest;
    }
    return same("allocations", (int64_t)group->allocations, allocations) &&
           same("live bytes", (int64_t)group->live_bytes, bytes_at(tag, INT64_MAX, suppressed)) &&
           same("live allocations", (int64_t)group->live_count, live) && same("oldest", group->oldest_ns, oldest) &&
           same_growth(leaks, group, tag, suppressed);
}

struct level_of {
    int64_t ns;
    uint64_t bytes;
};

/* The live bytes after each event. */
static size_t
levels(struct level_of *out)
{
    size_t count = 0;

    for (size_t i = 0; i < trace.count; i++) {
        for (int is_free = 0; is_free < 2; is_free++) {
            const struct random_life *event = &trace.lives[i];
            struct level_of level = { is_free ? event->free_ns : event->alloc_ns, 0 };
            size_t at = count;

            if (!counts(event, false) || (is_free && event->free_ns == RANDOM_NEVER))
                continue;
            for (size_t j = 0; j < trace.count; j++)
                level.bytes += counts(&trace.lives[j], false) && random_trace_is_live(&trace.lives[j], event, is_free)
                                   ? (uint64_t)trace.lives[j].size
                                   : 0;
            /* In the order of the scan: at one time, allocations come before frees. */
            for (; at > 0 && out[at - 1].ns > level.ns; at--)
                out[at] = out[at - 1];
            out[at] = level;
            count++;
        }
    }
    return count;
}

/*
 * The lows of the whole series: from a high, the lowest point before the next rise of a whole swing. Levels of one time
 * have no order here, so that a series in which two of them matter is not compared: -1.
 */
static int64_t
lows(const struct level_of *level, size_t count, int64_t *ends)
{
    uint64_t peak = 0;
    int64_t found = 0;
    size_t low = 0, high = 0;
    bool falling = false;

    for (size_t i = 0; i < count; i++)
        peak = level[i].bytes > peak ? level[i].bytes : peak;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && level[i].ns == level[i - 1].ns)
            return -1;
        if (falling) {
            low = level[i].bytes < level[low].bytes ? i : low;
            if (level[i].bytes >= level[low].bytes + peak / 4 + 1) {
                ends[found++] = level[low].ns;
                falling = false;
                high = i;
            }
        } else {
            high = level[i].bytes > level[high].bytes ? i : high;
            if (level[high].bytes >= level[i].bytes + peak / 4 + 1) {
                falling = true;
                low = i;
            }
        }
    }
    return found;
}

/* Whether fewer than three quarters of the steps last between half and twice as long as the median step. */
static bool
irregular(const int64_t *ends, int64_t count)
{
    int64_t steps = count - 1, regular = 0;

    for (int64_t i = 0; i < steps; i++) {
        int64_t middle = ends[i + 1] - ends[i];
        int64_t shorter = 0, equal = 0;

        for (int64_t j = 0; j < steps; j++) {
            shorter += ends[j + 1] - ends[j] < middle;
            equal += ends[j + 1] - ends[j] == middle;
        }
        if (shorter > steps / 2 || shorter + equal <= steps / 2)
            continue;
        for (int64_t j = 0; j < steps; j++)
            regular += 2 * (ends[j + 1] - ends[j]) >= middle && ends[j + 1] - ends[j] < 2 * middle + 2;
        return regular * 4 < steps * 3;
    }
    return true;
}

static bool
same_rhythm(const struct steps *steps)
{
    static struct level_of level[LEVELS];
    static int64_t ends[LEVELS];
    int64_t count = lows(level, levels(level), ends);
    bool good = true;

    if (count < 0)
        return true;
    if (steps->source != STEPS_RHYTHM)
        return same("a rhythm that is none", count <= 3 || irregular(ends, count), true);
    rhythms++;
    good = same("steps", (int64_t)steps->count, count);
    for (int64_t i = 0; good && i < count; i++)
        good = same("the end of a step", steps->ends[i], ends[i]);
    return good;
}

static bool
check_trace(uint64_t seed, bool suppressed, bool sparse)
{
    struct filter_options options;
    struct leaks leaks;
    struct view view;
    int64_t live = 0, hidden = 0;
    bool good = true;

    random_trace_make(&trace, seed, 300);
    /* No two events at one time, so that the levels have one order. */
    for (size_t i = 0; sparse && i < trace.count; i++) {
        struct random_life *life = &trace.lives[i];

        life->alloc_ns = life->alloc_ns * 1000 + (int64_t)i;
        life->free_ns = life->free_ns == RANDOM_NEVER ? RANDOM_NEVER : life->free_ns * 1000 + 500 + (int64_t)i;
    }
    random_trace_write(&trace, TRACE);
    options = (struct filter_options){ 0 };
    if (view_open(&view, &options, TRACE) != COMMAND_FINE ||
        leaks_make(&view, GROUPS_TAG, NULL, suppressed ? SUPPRESSIONS : NULL, 3, &leaks) != COMMAND_FINE)
        return false;
    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *life = &trace.lives[i];

        if (counts(life, false) && life->free_ns == RANDOM_NEVER)
            *(counts(life, suppressed) ? &live : &hidden) += life->size;
    }
    good = same("live bytes", (int64_t)leaks.live_bytes, live) &&
           same("suppressed bytes", (int64_t)leaks.suppressed_bytes, hidden);
    for (uint32_t i = 0; i < leaks.groups.count; i++)
        good = same_group(&leaks, i, suppressed) && good;
    if (sparse)
        good = same_rhythm(&leaks.steps) && good;
    leaks_free(&leaks);
    view_close(&view);
    return good;
}

int
main(void)
{
    uint64_t seed = random_trace_seed();
    FILE *file = fopen(SUPPRESSIONS, "w");
    bool good = true, good_suppressed = true, good_steps = true;

    if (file == NULL || fputs("# what is known\n\n  tag:d \nsize:123456789\n", file) < 0 || fclose(file) != 0)
        return 99;
    plan(4);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        good = check_trace(seed + i, false, false) && good;
        good_suppressed = check_trace(seed + i, true, false) && good_suppressed;
        good_steps = check_trace(seed + i, false, true) && good_steps;
    }
    ok(good, "what each tag has live at the end, and how it grew, are those of brute force");
    ok(good_suppressed, "without suppressed tags the live bytes and growth are those of brute force");
    ok(good_steps, "the ends of steps are the lows of the whole series");
    ok(rhythms > 0, "some of the random traces had a rhythm (%d)", rhythms);
    unlink(TRACE);
    unlink(SUPPRESSIONS);
    return done();
}
