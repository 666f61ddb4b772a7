/* Tests callers that share the readings of a trace: what each sees, in which order, and what failures do. */
#include "tests/tap.h"

#include <unistd.h>

#include "tests/random-trace.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/filter.h"
#include "viewer/read/joint.h"

#define CALLERS 4

/* What a caller does: so many readings, with its filter, and where it fails. */
struct caller {
    struct trace trace; /* borrows, with the share */
    const struct filter *filter;
    int readings;
    int fails_in; /* the unit's reading that fails, from 1; 0: none */
    int returns;
    int begun, done; /* of its readings */
    uint64_t sum;    /* of its last reading */
    int answers[4];
};

/* The most callers that were in a reading at once. */
static int within, most_within;

static int
caller_begin(void *context)
{
    struct caller *caller = context;

    caller->begun++;
    caller->sum = 0;
    if (++within > most_within)
        most_within = within;
    return COMMAND_FINE;
}

static int
caller_alloc(void *context, const struct scan_life *life)
{
    struct caller *caller = context;

    caller->sum += life->size * 31 + (uint64_t)life->alloc_ns;
    return caller->fails_in == caller->begun ? COMMAND_WRONG : COMMAND_FINE;
}

static int
caller_free(void *context, const struct scan_life *life)
{
    struct caller *caller = context;

    caller->sum = caller->sum * 3 + life->size;
    return COMMAND_FINE;
}

static int
caller_end(void *context, int64_t last_ns)
{
    (void)context;
    (void)last_ns;
    within--;
    return COMMAND_FINE;
}

static const struct scan_unit caller_unit = {
    .begin = caller_begin, .alloc = caller_alloc, .free = caller_free, .end = caller_end
};

static int
caller_run(void *context)
{
    struct caller *caller = context;
    const struct scan_pass pass = { &caller_unit, caller };

    for (; caller->done < caller->readings; caller->done++) {
        caller->answers[caller->done] = scan_run(&caller->trace, caller->filter, &pass, 1);
        if (caller->answers[caller->done] != COMMAND_FINE)
            return caller->answers[caller->done];
    }
    return caller->returns;
}

/* Run callers over `trace`. Returns what joint_run did. */
static int
run(struct trace *trace, struct caller *callers, struct joint_caller *joined, size_t count)
{
    struct joint joint;
    int status;

    within = most_within = 0;
    joint_begin(&joint);
    for (size_t i = 0; i < count; i++) {
        callers[i].trace = *trace;
        callers[i].trace.share = &joint.share;
        callers[i].begun = callers[i].done = 0;
        joined[i] = (struct joint_caller){ .run = caller_run, .context = &callers[i] };
    }
    status = joint_run(&joint, trace, joined, count);
    joint_end(&joint);
    return status;
}

/* What a caller would see alone. */
static uint64_t
alone(const struct trace *trace, const struct filter *filter)
{
    struct caller caller = { .trace = *trace, .filter = filter, .readings = 1 };

    within = 0;
    return caller_run(&caller) == COMMAND_FINE ? caller.sum : UINT64_MAX;
}

static void
test_readings(struct trace *trace, const struct filter *a, const struct filter *b)
{
    struct caller callers[CALLERS] = {
        { .filter = a, .readings = 2 },
        { .filter = b, .readings = 1, .returns = COMMAND_FINDING },
        { .filter = a, .readings = 3 },
        { .filter = NULL, .readings = 0 },
    };
    struct joint_caller joined[CALLERS];
    int status = run(trace, callers, joined, CALLERS);

    ok(all_of(status == COMMAND_FINE, joined[0].status == COMMAND_FINE, joined[2].status == COMMAND_FINE),
       "callers that succeed say so");
    ok(joined[1].status == COMMAND_FINDING, "the status of a caller is what it returned");
    ok(all_of(callers[0].done == 2, callers[1].done == 1, callers[2].done == 3),
       "each gets as many readings as it asks");
    ok(most_within == 3, "three callers share their first reading");
    ok(all_of(callers[0].sum == alone(trace, a), callers[1].sum == alone(trace, b), callers[2].sum == alone(trace, a)),
       "each sees the events that pass its own filter, as if it read alone");
}

static void
test_failures(struct trace *trace, const struct filter *a)
{
    struct caller callers[3] = {
        { .filter = a, .readings = 2, .fails_in = 2 },
        { .filter = a, .readings = 2 },
        { .filter = a, .readings = 1 },
    };
    struct joint_caller joined[3];
    int status = run(trace, callers, joined, 3);

    ok(status == COMMAND_FINE, "all callers run to their ends where one fails");
    ok(all_of(joined[0].status == COMMAND_WRONG, joined[1].status == COMMAND_WRONG),
       "a unit that fails ends the reading for all that wait for it");
    ok(joined[2].status == COMMAND_FINE, "a caller that had ended before is not concerned");
}

int
main(void)
{
    char path[] = "/tmp/tidemark-joint-XXXXXX";
    static struct random_trace made;
    struct filter all = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
    struct filter first = { .from_ns = INT64_MIN, .to_ns = INT64_MAX, .layers.active = true };
    struct filter same = first;
    struct trace trace;
    int file = mkstemp(path);

    plan(13);
    random_trace_make(&made, random_trace_seed(), 200);
    random_trace_write(&made, path);
    ok(file >= 0 && trace_open(path, true, &trace) == COMMAND_FINE, "a random trace is opened");
    ok(all_of(filter_set_add(&first.layers, 1) == COMMAND_FINE, filter_set_add(&same.layers, 1) == COMMAND_FINE),
       "a filter of a layer is made");
    ok(all_of(filter_same(&first, &same), filter_same(NULL, NULL), !filter_same(&first, &all),
              !filter_same(&all, NULL)),
       "filters are the same where the same layers pass");
    same.to_ns = 5;
    ok(!filter_same(&first, &same), "filters of another time are not the same");
    filter_set_add(&first.layers, 3);
    same.to_ns = INT64_MAX;
    ok(!filter_same(&first, &same), "filters of more layers are not the same");
    test_readings(&trace, &all, &same);
    test_failures(&trace, &all);
    filter_free(&first);
    filter_free(&same);
    trace_close(&trace);
    close(file);
    unlink(path);
    return done();
}
