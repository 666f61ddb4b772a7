/* Tests units that run in lanes: each sees what it sees alone, whatever the others do, and failures end as alone. */
#include "tests/sanitized.h"
#include "tests/draw.h"
#include "tests/tap.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "src/trace/database/schema.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/lanes.h"
#include "viewer/read/filter.h"
#include "viewer/read/joint.h"
#include "viewer/read/scan.h"

#define UNITS 5

/* What a unit saw, as a digest, and what it does. */
struct seen {
    const struct scan *scan;
    uint64_t digest, allocations, live;
    int64_t last_ns;
    int begun, ended;            /* readings; ends of the last one */
    int64_t fails_at, enough_at; /* an allocation_id; 0: none */
    pthread_t thread;            /* of its callbacks */
    bool has_thread;
    bool moved; /* these ran on several threads in one reading */
};

static void
seen_add(struct seen *seen, uint64_t value)
{
    seen->digest = (seen->digest ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    seen->digest ^= seen->digest >> 29;
}

static void
seen_here(struct seen *seen)
{
    seen->moved = seen->moved || (seen->has_thread && !pthread_equal(seen->thread, pthread_self()));
    seen->thread = pthread_self();
    seen->has_thread = true;
}

static int
seen_begin(void *context)
{
    struct seen *seen = context;

    seen->digest = seen->allocations = seen->live = 0;
    seen->ended = 0;
    seen->last_ns = 0;
    seen->has_thread = seen->moved = false;
    seen->begun++;
    return COMMAND_FINE;
}

static void
seen_live(void *context, const struct scan_life *life)
{
    struct seen *seen = context;

    seen->live += (uint64_t)life->allocation_id * life->size;
}

static int
seen_alloc(void *context, const struct scan_life *life)
{
    struct seen *seen = context;

    seen_here(seen);
    seen->allocations++;
    seen_add(seen, (uint64_t)life->alloc_ns ^ life->size << 20 ^ (uint64_t)life->tag_id << 50);
    seen_add(seen, life->event);
    if (life->allocation_id % 4099 == 0) {
        scan_each_live(seen->scan, seen_live, seen);
        seen_add(seen, seen->live);
    }
    if (seen->fails_at != 0 && life->allocation_id >= seen->fails_at)
        return COMMAND_WRONG;
    return seen->enough_at != 0 && life->allocation_id >= seen->enough_at ? SCAN_ENOUGH : COMMAND_FINE;
}

static int
seen_free(void *context, const struct scan_life *life)
{
    struct seen *seen = context;

    seen_here(seen);
    seen_add(seen, (uint64_t)life->free_ns ^ (uint64_t)life->allocation_id << 32);
    seen_add(seen, scan_events(seen->scan));
    return COMMAND_FINE;
}

static int
seen_end(void *context, int64_t last_ns)
{
    struct seen *seen = context;

    seen_here(seen);
    seen->live = 0;
    scan_each_live(seen->scan, seen_live, seen);
    seen->last_ns = last_ns;
    seen->ended++;
    return COMMAND_FINE;
}

static const struct scan_unit seen_unit = {
    .needs = SCAN_ORIGIN | SCAN_LIVE,
    .attach = true,
    .begin = seen_begin,
    .alloc = seen_alloc,
    .free = seen_free,
    .end = seen_end,
};

/* Make `count` allocations; `disordered`: one of them began before the one before it. */
static void
make_trace(sqlite3 *db, size_t count, bool disordered)
{
    size_t early = disordered && count > 1 ? 1 + draw(count - 1) : SIZE_MAX;
    sqlite3_stmt *statement = NULL;
    int64_t ns = 0;

    sqlite3_exec(db, "DELETE FROM allocation; BEGIN", NULL, NULL, NULL);
    sqlite3_prepare_v2(db, "INSERT INTO allocation VALUES (?, 1, 0, ?, 256, ?, ?, NULL, ?, 1, 1, 1, ?, 1, 1, 1)", -1,
                       &statement, NULL);
    for (size_t i = 0; i < count; i++) {
        bool failed = draw(20) == 0;

        ns += (int64_t)draw(4);
        sqlite3_bind_int64(statement, 1, (int64_t)i + 1);
        sqlite3_bind_int64(statement, 2, (int64_t)draw(1000));
        sqlite3_bind_int64(statement, 3, failed ? 3 : 0);
        sqlite3_bind_int64(statement, 4, (int64_t)draw(5));
        sqlite3_bind_int64(statement, 5, i == early ? ns - 100 : ns);
        if (!failed && draw(10) != 0)
            sqlite3_bind_int64(statement, 6, ns + (int64_t)draw(2000));
        else
            sqlite3_bind_null(statement, 6);
        sqlite3_step(statement);
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
}

/* A reading of five units with two filters. */
struct round {
    struct seen seen[UNITS];
    unsigned lanes[UNITS];
    int status;
};

static void
run_round(const struct trace *trace, bool in_lanes, struct round *round)
{
    static const struct filter some = { .from_ns = 5, .to_ns = INT64_MAX, .min_size = 300, .active = true };
    static const unsigned lanes[UNITS] = { 1, 2, 0, 1, 2 };
    struct scan_pass passes[UNITS];
    struct scan_part parts[UNITS];

    memcpy(round->lanes, lanes, sizeof(lanes));
    for (size_t i = 0; i < UNITS; i++) {
        passes[i] = (struct scan_pass){ &seen_unit, &round->seen[i] };
        parts[i] = (struct scan_part){ i < 3 ? NULL : &some, &passes[i], 1 };
    }
    round->status = in_lanes ? scan_run_lanes(trace, parts, round->lanes, UNITS) : scan_run_parts(trace, parts, UNITS);
}

static bool
same_round(const struct round *a, const struct round *b)
{
    for (size_t i = 0; i < UNITS; i++) {
        const struct seen *one = &a->seen[i], *other = &b->seen[i];

        if (one->digest != other->digest || one->live != other->live || one->last_ns != other->last_ns ||
            one->ended != other->ended) {
            diag("unit %zu sees something else in its lane", i);
            return false;
        }
    }
    return a->status == b->status;
}

static bool
stayed(const struct round *round)
{
    bool stays = true;

    for (size_t i = 0; i < UNITS; i++)
        stays = stays && !round->seen[i].moved;
    return stays;
}

/* Read in lanes and without them. `set` prepares both. */
static bool
compare(const struct trace *trace, void (*set)(struct round *round, int64_t at), int64_t at, struct round *in_lanes)
{
    static struct round alone;

    memset(&alone, 0, sizeof(alone));
    memset(in_lanes, 0, sizeof(*in_lanes));
    if (set != NULL) {
        set(&alone, at);
        set(in_lanes, at);
    }
    run_round(trace, false, &alone);
    run_round(trace, true, in_lanes);
    return same_round(&alone, in_lanes) && stayed(in_lanes);
}

static void
test_sizes(sqlite3 *db, const struct trace *trace)
{
    static const size_t sizes[] = { 0,
                                    1,
                                    LANES_ITEMS - 1,
                                    LANES_ITEMS,
                                    LANES_ITEMS + 1,
                                    LANES_ITEMS * LANES_BATCHES - 1,
                                    LANES_ITEMS * LANES_BATCHES,
                                    LANES_ITEMS * LANES_BATCHES + 1 };
    bool ordered = true, disordered = true, kept = true;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) + FEWER(8, 2); i++) {
        size_t count = i < sizeof(sizes) / sizeof(sizes[0]) ? sizes[i] : draw(20000);
        struct round round;

        make_trace(db, count, false);
        ordered = compare(trace, NULL, 0, &round) && ordered;
        kept = kept && round.lanes[0] == 1 && round.lanes[1] == 2 && round.seen[0].begun == 1;
        kept = kept && (count == 0 || (!pthread_equal(round.seen[0].thread, pthread_self()) &&
                                       !pthread_equal(round.seen[0].thread, round.seen[1].thread) &&
                                       pthread_equal(round.seen[2].thread, pthread_self())));
        make_trace(db, count, true);
        disordered = compare(trace, NULL, 0, &round) && disordered;
    }
    ok(ordered, "units in lanes see the events, the live set and the end that they see without lanes");
    ok(kept, "each lane is a thread, and units of lane 0 run on the caller's");
    ok(disordered, "rows out of order are read again, in lanes");
}

static void
set_failure(struct round *round, int64_t at)
{
    round->seen[1].fails_at = at;
}

static void
set_enough(struct round *round, int64_t at)
{
    for (size_t i = 0; i < UNITS; i++)
        round->seen[i].enough_at = at;
}

static void
set_some_enough(struct round *round, int64_t at)
{
    round->seen[0].enough_at = round->seen[3].enough_at = round->seen[2].enough_at = at;
}

static void
test_ends(sqlite3 *db, const struct trace *trace)
{
    bool failed = true, enough = true, some = true;

    for (int i = 0; i < FEWER(12, 4); i++) {
        struct round round;

        make_trace(db, 12000, i % 4 == 3);
        failed = compare(trace, set_failure, 1 + (int64_t)draw(12000), &round) && failed;
        failed = failed && round.status == COMMAND_WRONG && round.lanes[0] == 0;
        enough = compare(trace, set_enough, 1 + (int64_t)draw(12000), &round) && enough && round.status == COMMAND_FINE;
        compare(trace, set_some_enough, 1 + (int64_t)draw(12000), &round);
        some = some && round.status == COMMAND_FINE && round.seen[1].allocations > 11000 && stayed(&round);
    }
    ok(failed, "a unit that fails in its lane ends the reading for all, as without lanes");
    ok(enough, "a reading ends where no unit wants further events");
    ok(some, "a lane that wants no further events leaves them to the other");
}

/* More lives at a time than a lane keeps. */
static void
test_many(sqlite3 *db, const struct trace *trace)
{
    static const char many[] =
        "DELETE FROM allocation; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600000)"
        " INSERT INTO allocation SELECT i, 1, 0, 8, 256, 0, NULL, NULL, i, 1, 1, 1, %s, 1, 1, 1 FROM n";
    static const char *const frees[] = { "NULL", "1000000 + i" };
    bool same = true;

    for (size_t i = 0; i < 2; i++) {
        char sql[512];
        struct round round;

        snprintf(sql, sizeof(sql), many, frees[i]);
        same = same && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
        same = compare(trace, NULL, 0, &round) && same && round.lanes[0] == 0 && round.seen[0].begun == 2;
    }
    ok(same, "where more allocations live at a time than a lane keeps, the trace is read without lanes");
}

/* Callers that share a reading. */
struct caller {
    struct trace trace;
    const struct scan_unit *unit;
    struct seen seen;
};

static int
caller_run(void *context)
{
    struct caller *caller = context;
    const struct scan_pass pass = { caller->unit, &caller->seen };
    int status = scan_run(&caller->trace, NULL, &pass, 1);

    return status == COMMAND_FINE ? scan_run(&caller->trace, NULL, &pass, 1) : status;
}

static void
test_joint(sqlite3 *db, const struct trace *trace)
{
    static struct caller callers[4];
    struct scan_unit asking = seen_unit;
    struct joint_caller joined[4];
    struct joint joint;
    bool fine = true, same = true;

    asking.asks = true;
    make_trace(db, 9000, false);
    joint_begin(&joint);
    for (size_t i = 0; i < 4; i++) {
        callers[i] = (struct caller){ .trace = *trace, .unit = i == 3 ? &asking : &seen_unit };
        callers[i].trace.share = &joint.share;
        joined[i] =
            (struct joint_caller){ .run = caller_run, .context = &callers[i], .lane = i == 3 ? 1 : (unsigned)i };
    }
    fine = joint_run(&joint, trace, joined, 4) == COMMAND_FINE;
    joint_end(&joint);
    for (size_t i = 0; i < 4; i++) {
        fine = fine && joined[i].status == COMMAND_FINE && callers[i].seen.begun == 2 && callers[i].seen.ended == 1;
        same = same && callers[i].seen.digest == callers[0].seen.digest;
    }
    ok(fine && same, "callers of several lanes share their readings, and see the same");
    ok(all_of(!pthread_equal(callers[1].seen.thread, pthread_self()),
              !pthread_equal(callers[2].seen.thread, pthread_self()),
              !pthread_equal(callers[1].seen.thread, callers[2].seen.thread)),
       "a caller's units run in its lane");
    ok(pthread_equal(callers[3].seen.thread, pthread_self()), "a unit that asks the trace runs in no lane");
}

int
main(void)
{
    struct trace trace = { .path = "memory" };

    plan(10);
    draw_begin();
    if (sqlite3_open(":memory:", &trace.db) != SQLITE_OK ||
        sqlite3_exec(trace.db, tidei_trace_schema, NULL, NULL, NULL) != SQLITE_OK)
        return 99;
    test_sizes(trace.db, &trace);
    test_ends(trace.db, &trace);
    test_many(trace.db, &trace);
    test_joint(trace.db, &trace);
    sqlite3_close(trace.db);
    return done();
}
