/*
 * Tests the sums of `tidemark top`, `histogram` and `summary` against brute force, over small random traces, with every
 * grouping.
 */
#include "tests/random-trace.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <unistd.h>

#include <sqlite3.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/histogram.h"
#include "viewer/analysis/summary.h"

#define ROUNDS 150
#define TRACE  "tally-t.db"

static struct random_trace trace;

static bool
same(const char *what, uint64_t seen, int64_t wanted)
{
    if (seen != (uint64_t)wanted)
        diag("seed %" PRIu64 ": %s is %" PRIu64 ", by brute force %" PRId64, trace.seed, what, seen, wanted);
    return seen == (uint64_t)wanted;
}

static int64_t
key_of(const struct random_life *life, enum groups_by by)
{
    int64_t class = 0;

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
    case GROUPS_CLASS:
        for (int64_t size = life->size; size > 0; size /= 2)
            class ++;
        return class;
    default:
        return 0;
    }
}

/* The driver calls: every third allocation, on both layers, has one of as many nanoseconds as its id. */
static int64_t
driver_ns(const struct random_life *life)
{
    return life->id % 3 == 0 ? life->id : 0;
}

static void
write_driver_calls(void)
{
    sqlite3 *db;

    sqlite3_open(TRACE, &db);
    sqlite3_exec(db,
                 "INSERT INTO driver_call(allocation_id, is_free, function, start_ns, duration_ns, thread_id, result)"
                 " SELECT allocation_id, 0, 'cuMemAllocAsync', alloc_ns, allocation_id, 1, 0 FROM allocation"
                 " WHERE allocation_id % 3 = 0 ORDER BY random();"
                 "INSERT INTO driver_call(allocation_id, is_free, function, start_ns, duration_ns, result)"
                 " VALUES (NULL, 0, 'cuMemAllocAsync', 1, 1000000, 0)",
                 NULL, NULL, NULL);
    sqlite3_close(db);
}

/* The most live bytes of a group. */
static int64_t
peak_of(enum groups_by by, int64_t key)
{
    int64_t peak = 0;

    for (size_t e = 0; e < trace.count; e++) {
        int64_t bytes = 0;

        for (size_t i = 0; trace.lives[e].layer == 1 && trace.lives[e].status == 0 && i < trace.count; i++) {
            const struct random_life *life = &trace.lives[i];

            if (life->layer == 1 && key_of(life, by) == key && random_trace_is_live(life, &trace.lives[e], false))
                bytes += life->size;
        }
        peak = bytes > peak ? bytes : peak;
    }
    return peak;
}

static bool
check_group(const struct tallies *tallies, enum groups_by by, uint32_t group)
{
    const struct tally *seen = &tallies->list[group];
    int64_t key = (int64_t)tallies->groups.keys[group];
    int64_t allocations = 0, frees = 0, failures = 0, bytes = 0, live = 0, lived = 0, area = 0, time = 0, driver = 0;

    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *life = &trace.lives[i];
        bool freed = life->free_ns != RANDOM_NEVER;

        if (key_of(life, by) != key)
            continue;
        driver += driver_ns(life);
        if (life->layer != 1)
            continue;
        time += freed ? 10 : 5;
        failures += life->status != 0;
        if (life->status != 0)
            continue;
        allocations++;
        frees += freed;
        bytes += life->size;
        live += freed ? 0 : life->size;
        lived += freed ? life->free_ns - life->alloc_ns : 0;
        area += life->size * ((freed ? life->free_ns : trace.end_ns) - life->alloc_ns);
    }
    return same("allocations", seen->allocations, allocations) && same("frees", seen->frees, frees) &&
           same("failures", seen->failures, failures) && same("bytes", seen->bytes, bytes) &&
           same("live", seen->live_bytes, live) && same("lived", (uint64_t)seen->lived_ns, lived) &&
           same("bytes times time", (uint64_t)seen->byte_ns, area) && same("time", seen->time_ns, time) &&
           same("driver", seen->driver_ns, driver) && same("peak", seen->peak_bytes, peak_of(by, key));
}

static bool
check_groups(struct view *view)
{
    bool good = true;

    for (enum groups_by by = GROUPS_TAG; by <= GROUPS_DEVICE; by++) {
        struct tallies tallies;

        if (by == GROUPS_CALLSTACK)
            continue;
        if (tallies_make(view, by, &tallies) != COMMAND_FINE)
            return false;
        for (uint32_t group = 0; group < tallies.groups.count; group++)
            good = check_group(&tallies, by, group) && good;
        tallies_free(&tallies);
    }
    return good;
}

/* Whether event `one` comes before `other`, both of layer 1: an allocation or a free. */
static bool
comes_before(const struct random_life *one, bool one_is_free, const struct random_life *other, bool other_is_free)
{
    int64_t a = one_is_free ? one->free_ns : one->alloc_ns;
    int64_t b = other_is_free ? other->free_ns : other->alloc_ns;

    if (a != b)
        return a < b;
    if (one_is_free != other_is_free)
        return other_is_free;
    return one->id < other->id;
}

static int64_t
events_within(const struct random_life *life)
{
    int64_t count = 0;

    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *other = &trace.lives[i];

        if (other->layer != 1 || other->status != 0)
            continue;
        count += comes_before(life, false, other, false) && comes_before(other, false, life, true);
        if (other->free_ns != RANDOM_NEVER)
            count += comes_before(life, false, other, true) && comes_before(other, true, life, true);
    }
    return count;
}

static bool
same_bin(const char *what, const struct histogram_bin *seen, const struct histogram_bin *wanted)
{
    return same(what, seen->count, (int64_t)wanted->count) && same(what, seen->bytes, (int64_t)wanted->bytes) &&
           same(what, (uint64_t)seen->byte_ns, (int64_t)wanted->byte_ns);
}

static bool
check_lifetimes(struct view *view)
{
    struct histogram_bin times[HISTOGRAM_TIMES] = { { 0 } };
    struct histogram_bin events[HISTOGRAM_EVENTS] = { { 0 } };
    struct histogram_bin live = { 0 };
    struct histogram histogram;
    bool good = true;

    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *life = &trace.lives[i];
        bool freed = life->free_ns != RANDOM_NEVER;
        int64_t ns = (freed ? life->free_ns : trace.end_ns) - life->alloc_ns;
        struct histogram_bin *bins[2] = { &live, NULL };

        if (life->layer != 1 || life->status != 0)
            continue;
        if (freed) {
            int64_t between = events_within(life);
            size_t bin = 0;

            for (; between > 0; between /= 2)
                bin++;
            bins[0] = &times[ns == 0 ? 0 : ns < 10 ? 1 : 2];
            bins[1] = &events[bin];
        }
        for (size_t b = 0; b < 2 && bins[b] != NULL; b++) {
            bins[b]->count += b == 1 || freed || life->size != 0;
            bins[b]->bytes += (uint64_t)life->size;
            bins[b]->byte_ns += (unsigned __int128)(life->size * ns);
        }
    }
    if (histogram_make(view, &histogram) != COMMAND_FINE)
        return false;
    for (size_t i = 0; i < HISTOGRAM_TIMES; i++)
        good = good && same_bin("a lifetime", &histogram.times[i], &times[i]);
    for (size_t i = 0; i < HISTOGRAM_EVENTS; i++)
        good = good && same_bin("a lifetime in events", &histogram.events[i], &events[i]);
    good = good && same_bin("what is live", &histogram.live, &live);
    for (uint32_t i = 0; i < histogram.exact.groups.count; i++) {
        const struct tally *size = &histogram.exact.list[i];

        histogram.classes[groups_class(histogram.exact.groups.keys[i])].allocations -= size->allocations;
        histogram.classes[groups_class(histogram.exact.groups.keys[i])].byte_ns -= size->byte_ns;
    }
    for (size_t i = 0; i < HISTOGRAM_CLASSES; i++)
        good = good && histogram.classes[i].allocations == 0 && histogram.classes[i].byte_ns == 0;
    histogram_free(&histogram);
    return good;
}

/* Layer 1 is the outermost log, and layer 3 the lowest. */
static bool
check_summary(struct view *view)
{
    const struct random_life *top = NULL;
    int64_t peak = 0, rounded = 0, held = 0, held_peak = 0;
    struct tallies tallies;
    struct summary summary;
    bool good;

    for (size_t e = 0; e < trace.count; e++) {
        int64_t bytes[4] = { 0 };

        for (size_t i = 0; i < trace.count; i++) {
            if (random_trace_is_live(&trace.lives[i], &trace.lives[e], false))
                bytes[trace.lives[i].layer] += trace.lives[i].size;
        }
        held_peak = bytes[3] > held_peak ? bytes[3] : held_peak;
        if (trace.lives[e].layer == 1 && trace.lives[e].status == 0 && bytes[1] > peak) {
            peak = bytes[1];
            held = bytes[3];
            top = &trace.lives[e];
        }
    }
    for (size_t i = 0; top != NULL && i < trace.count; i++) {
        if (trace.lives[i].layer == 1 && random_trace_is_live(&trace.lives[i], top, false))
            rounded += (trace.lives[i].size + 255) / 256 * 256;
    }
    if (summary_make(view, &summary) != COMMAND_FINE || tallies_make(view, GROUPS_TAG, &tallies) != COMMAND_FINE)
        return false;
    good = same("the peak", summary.total.sums.peak_bytes, peak) &&
           same("its time", (uint64_t)summary.total.sums.peak_ns, top != NULL ? top->alloc_ns : 0) &&
           same("rounded at the peak", summary.total.peak_rounded_bytes, rounded) &&
           same("held at the peak", summary.total.peak_reserved_bytes, held) &&
           same("the most held", summary.reserved.groups[0].rows_peak_bytes, held_peak) &&
           same("bytes times time", (uint64_t)summary.total.sums.byte_ns, (int64_t)tallies.all.byte_ns) &&
           same("time in calls", summary.total.sums.time_ns, (int64_t)tallies.all.time_ns) &&
           same("live", summary.total.sums.live_bytes, (int64_t)tallies.all.live_bytes) &&
           same("failures", summary.total.sums.failures, (int64_t)tallies.all.failures) &&
           same("calls of the driver", summary.driver_ns, (int64_t)tallies.all.driver_ns);
    tallies_free(&tallies);
    summary_free(&summary);
    return good;
}

int
main(void)
{
    uint64_t seed = random_trace_seed();
    bool groups = true;
    bool lifetimes = true;
    bool summaries = true, bins = true;

    plan(4);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct filter_options options;
        struct view view;
        uint64_t state = seed + i + 1;

        random_trace_make(&trace, seed + i, random_draw(&state, 100));
        random_trace_write(&trace, TRACE);
        write_driver_calls();
        options = (struct filter_options){ 0 };
        if (view_open(&view, &options, TRACE) != COMMAND_FINE)
            return 99;
        groups = check_groups(&view) && groups;
        lifetimes = check_lifetimes(&view) && lifetimes;
        summaries = check_summary(&view) && summaries;
        view_close(&view);
    }
    ok(groups, "the figures of every group are those of brute force");
    ok(lifetimes, "lifetimes in time and in events are those of brute force, and sizes agree with their classes");
    ok(summaries,
       "the peak of the outermost layer, the rounded and held bytes then, and the sums are those of brute force");
    for (unsigned bin = 1; bin < HISTOGRAM_TIMES; bin++)
        bins = bins && histogram_time_bin(histogram_time_begin(bin)) == bin &&
               histogram_time_bin(histogram_time_begin(bin) - 1) == bin - 1;
    ok(all_of(bins, histogram_time_bin(UINT64_MAX) == 19, histogram_time_begin(0) == 0, histogram_time_begin(1) == 1,
              histogram_time_begin(2) == 10),
       "bins of time begin at powers of ten");
    unlink(TRACE);
    return done();
}
