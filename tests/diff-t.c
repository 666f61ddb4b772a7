/*
 * Tests `tidemark diff`: the live bytes at the peak match `peak`, and the changes of all groups add up to the peak's.
 */
#include "tests/random-trace.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "viewer/analysis/snapshot.h"
#include "viewer/base/exit-status.h"
#include "viewer/analysis/peak.h"

#define ROUNDS  100
#define TRACE_A "diff-t-a.db"
#define TRACE_B "diff-t-b.db"

static struct random_trace trace;

static bool
same(const char *what, int64_t seen, int64_t wanted)
{
    if (seen != wanted)
        diag("seed %" PRIu64 ": %s is %" PRId64 ", wanted %" PRId64, trace.seed, what, seen, wanted);
    return seen == wanted;
}

/* The bytes of the group of this key in peak_make's result; 0 if there is none. */
static uint64_t
bytes_of(const struct peak *peak, uint64_t key)
{
    for (uint32_t i = 0; i < peak->groups.count; i++) {
        if (peak->groups.keys[i] == key)
            return peak->at_groups[i].bytes;
    }
    return 0;
}

/* Whether the snapshot of one trace has the figures of `peak`, which tests/peak-t compares with brute force. */
static bool
same_as_peak(struct view *view, const struct snapshot *snapshot, size_t number)
{
    const struct snapshot_groups *by = &snapshot->by[number];
    const struct moment at = { .kind = MOMENT_PEAK };
    struct peak peak;
    bool good;

    if (peak_make(view, by->groups.by, &at, &(struct peak_shares){ 0.05, 0.05 }, 0, &peak) != COMMAND_FINE)
        return false;
    good = same("the peak", (int64_t)snapshot->all.peak_bytes, (int64_t)peak.bytes) &&
           same("its time", snapshot->all.peak_ns, peak.ns);
    for (uint32_t i = 0; good && i < by->groups.count; i++)
        good =
            same("bytes of a group", (int64_t)by->list[i].marked.bytes, (int64_t)bytes_of(&peak, by->groups.keys[i]));
    peak_free(&peak);
    return good;
}

static bool
same_figures(const struct snapshot *snapshot)
{
    int64_t allocations = 0, failures = 0, total = 0, live = 0;

    for (size_t i = 0; i < trace.count; i++) {
        const struct random_life *life = &trace.lives[i];

        if (life->layer != 1)
            continue;
        failures += life->status != 0;
        allocations += life->status == 0;
        total += life->status == 0 ? life->size : 0;
        live += life->status == 0 && life->free_ns == RANDOM_NEVER ? life->size : 0;
    }
    return same("allocations", (int64_t)snapshot->all.allocations, allocations) &&
           same("failures", (int64_t)snapshot->all.failures, failures) &&
           same("bytes in all", (int64_t)snapshot->all.bytes, total) &&
           same("bytes left", (int64_t)snapshot->all.live_bytes, live);
}

static bool
same_sums(const struct snapshot *a, const struct snapshot *b, size_t by)
{
    struct align align;
    int64_t in_a = 0, in_b = 0, change = 0;
    bool sorted = true;

    if (align_make(a, b, by, &align) != COMMAND_FINE)
        return false;
    for (size_t i = 0; i < align.count; i++) {
        in_a += (int64_t)align.rows[i].a.bytes;
        in_b += (int64_t)align.rows[i].b.bytes;
        change += align_change(&align.rows[i]);
        for (size_t j = 0; j < i; j++)
            sorted = sorted && (align.rows[i].name != NULL ? strcmp(align.rows[i].name, align.rows[j].name) != 0
                                                           : align.rows[i].size != align.rows[j].size);
    }
    align_free(&align);
    return same("no group comes twice", sorted, true) && same("all of A", in_a, (int64_t)a->all.peak_bytes) &&
           same("all of B", in_b, (int64_t)b->all.peak_bytes) &&
           same("the change", change, (int64_t)(b->all.peak_bytes - a->all.peak_bytes));
}

static bool
check_pair(uint64_t seed, struct view *a_view, struct view *b_view)
{
    static const enum groups_by by[] = { GROUPS_TAG, GROUPS_SIZE, GROUPS_STREAM };
    struct snapshot a, b;
    bool good;

    if (snapshot_make(a_view, by, 3, &a) != COMMAND_FINE)
        return false;
    if (snapshot_make(b_view, by, 3, &b) != COMMAND_FINE) {
        snapshot_free(&a);
        return false;
    }
    good = same_figures(&b);
    for (size_t i = 0; good && i < 3; i++)
        good = same_as_peak(a_view, &a, i) && same_as_peak(b_view, &b, i) && same_sums(&a, &b, i);
    if (!good)
        diag("seed %" PRIu64, seed);
    snapshot_free(&a);
    snapshot_free(&b);
    return good;
}

static bool
check_seed(uint64_t seed)
{
    struct filter_options options;
    struct view a_view, b_view;
    bool good = false;

    random_trace_make(&trace, seed + ROUNDS, 300);
    random_trace_write(&trace, TRACE_A);
    random_trace_make(&trace, seed, 300);
    random_trace_write(&trace, TRACE_B);
    options = (struct filter_options){ 0 };
    if (view_open(&a_view, &options, TRACE_A) != COMMAND_FINE)
        return false;
    if (view_open(&b_view, &options, TRACE_B) == COMMAND_FINE) {
        good = check_pair(seed, &a_view, &b_view);
        view_close(&b_view);
    }
    view_close(&a_view);
    return good;
}

int
main(void)
{
    uint64_t seed = random_trace_seed();
    bool good = true;

    plan(1);
    for (uint64_t i = 0; i < ROUNDS; i++)
        good = check_seed(seed + i) && good;
    ok(good, "both sides are what was live at the peak, and the changes add up");
    unlink(TRACE_A);
    unlink(TRACE_B);
    return done();
}
