/* Tests `tidemark failures` against brute force, on small random traces whose pool runs out. */
#include "tests/random-trace.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/failures.h"

#define ROUNDS 200
#define TRACE  "failures-t.db"

static struct random_trace trace;
static int seen_causes[FAILURE_CAUSES];

static bool
same(const char *what, uint64_t seen, int64_t wanted)
{
    if (seen != (uint64_t)wanted)
        diag("seed %" PRIu64 ": %s is %" PRIu64 ", by brute force %" PRId64, trace.seed, what, seen, wanted);
    return seen == (uint64_t)wanted;
}

static enum failure_cause
cause_of(const struct random_life *life, const struct random_map *map)
{
    int64_t wanted = (life->size + 255) / 256 * 256;

    if (life->status == 4)
        return FAILURE_LIMIT;
    if (map->reserved - map->inside < wanted)
        return FAILURE_CAPACITY;
    return map->largest < wanted ? FAILURE_FRAGMENTATION : FAILURE_UNUSED;
}

static bool
check_one(const struct failure *failure, const struct random_life *life)
{
    bool live[RANDOM_LIVES];
    struct random_map map;
    int64_t count = 0;
    bool good;

    for (size_t i = 0; i < trace.count; i++) {
        live[i] = random_trace_is_live(&trace.lives[i], life, false);
        count += live[i] && trace.lives[i].layer == 1;
    }
    random_trace_map(&trace, live, life->size, &map);
    seen_causes[failure->cause]++;
    good = same("the allocation", (uint64_t)failure->life.allocation_id, life->id) &&
           same("live bytes", failure->live_bytes, map.requested) && same("live", failure->live_count, count) &&
           same("reserved", failure->reserved_bytes, map.reserved) &&
           same("free", failure->free_bytes, map.reserved - map.inside) &&
           same("the largest hole", failure->largest_hole, map.largest) &&
           same("the cause", (uint64_t)failure->cause, (int64_t)cause_of(life, &map));
    if (failure->cause == FAILURE_FRAGMENTATION)
        good &= same("pinned by something", failure->pinned_by != NULL && failure->pinned_by[0] == '#', 1);
    return good;
}

static bool
check_trace(uint64_t seed)
{
    struct filter_options options;
    struct failures failures;
    struct view view;
    uint64_t state = seed + 1;
    size_t next = 0;
    bool good = true;

    random_trace_make(&trace, seed, 300);
    for (size_t i = 0; i < trace.count; i++) {
        if (trace.lives[i].status != 0 && random_draw(&state, 4) == 0)
            trace.lives[i].status = 4;
    }
    random_trace_write(&trace, TRACE);
    options = (struct filter_options){ 0 };
    if (view_open(&view, &options, TRACE) != COMMAND_FINE || failures_make(&view, &failures) != COMMAND_FINE)
        return false;
    for (size_t i = 0; i < trace.count; i++) {
        if (trace.lives[i].status != 0 && next < failures.count)
            good &= check_one(&failures.list[next++], &trace.lives[i]);
        else
            good &= trace.lives[i].status == 0;
    }
    good &= same("failures", failures.total, (int64_t)next);
    failures_free(&failures);
    view_close(&view);
    return good;
}

int
main(void)
{
    uint64_t seed = random_trace_seed();
    bool good = true;

    plan(2);
    for (uint64_t i = 0; i < ROUNDS; i++)
        good = check_trace(seed + i) && good;
    ok(good, "at each failure the live and free bytes and the cause are those of brute force");
    diag("limit %d, capacity %d, fragmentation %d", seen_causes[FAILURE_LIMIT], seen_causes[FAILURE_CAPACITY],
         seen_causes[FAILURE_FRAGMENTATION]);
    ok(all_of(seen_causes[FAILURE_LIMIT] > 0, seen_causes[FAILURE_CAPACITY] + seen_causes[FAILURE_FRAGMENTATION] > 0),
       "the random traces had failures at limits and of full pools");
    unlink(TRACE);
    return done();
}
