/*
 * Tests the calls of one event that do not fit behind it: wherever the process is killed between them, those that were
 * recorded are in the trace, with their event, even where that had been written before.
 */
#include "config.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

#include "src/trace/ring/capture.h"
#include "src/trace/ring/producer.h"

#include "tap.h"
#include "trace.h"

#define CALLS 5000
#define ROOM  15 /* calls behind one record, of the smallest ring */

static struct {
    struct tide_resource *stack;
    unsigned seen, flush_at, kill_at;
} at;

/* Another record of calls is in the ring. */
static void
visit(const char *label)
{
    if (strcmp(label, "producer.more-calls") != 0)
        return;
    at.seen++;
    if (at.seen == at.flush_at)
        tide_log_flush(at.stack);
    if (at.seen == at.kill_at)
        raise(SIGKILL);
}

/* An event with the calls, as a log over the driver records it. */
static void
event(struct tidei_producer *producer, enum tidei_record_kind kind, uint64_t address, unsigned calls)
{
    struct tidei_call_capture *slot = tidei_call_capture_arm(producer, false);
    uint64_t begin = tidei_producer_ticks(producer, false);

    for (unsigned i = 0; i < calls; i++) {
        struct tidei_call_part call = { .start = tidei_producer_ticks(producer, false), .function = 5 };

        call.end = tidei_producer_ticks(producer, false);
        tidei_call_capture_add(slot, &call);
    }
    tidei_producer_event_calls(producer, begin, address, 4096, 0, tidei_record_word(1, kind, 0, 8), 0, true, slot);
    tidei_call_capture_disarm(slot);
}

struct run {
    char path[256];
    enum tidei_record_kind kind;
    unsigned flush_at, kill_at;
};

/* The address was another allocation's before, and others live beside. */
static int
child(void *argument)
{
    const struct run *run = argument;
    struct tidei_producer *producer;

    at.stack = stack_of("log(%s, ring=4KiB, overwrite=true) | sim", run->path);
    at.flush_at = run->flush_at;
    at.kill_at = run->kill_at;
    producer = tidei_producer_get(tidei_sessions.first);
    event(producer, TIDEI_RECORD_ALLOC, 0x1000, 0);
    event(producer, TIDEI_RECORD_FREE, 0x1000, 0);
    event(producer, TIDEI_RECORD_ALLOC, 0x2000, 0);
    if (run->kind == TIDEI_RECORD_FREE)
        event(producer, TIDEI_RECORD_ALLOC, 0x1000, 0);
    atomic_store_explicit(&tidei_test_point, visit, memory_order_release);
    event(producer, run->kind, 0x1000, CALLS);
    raise(SIGKILL);
    return 0;
}

#define KILL_TESTS 4

static void
test_kill(enum tidei_record_kind kind, unsigned flush_at, unsigned kill_at, uint64_t slice, int64_t wanted)
{
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    struct run run = { .kind = kind, .flush_at = flush_at, .kill_at = kill_at };
    const char *what = kind == TIDEI_RECORD_FREE ? "free" : "allocation";
    enum tide_status status;
    char when[128];

    if (!CHILDREN_MAY_RECORD) {
        skip(KILL_TESTS, "ThreadSanitizer does not follow children");
        return;
    }
    snprintf(when, sizeof(when), "%s, written before record %u of calls, killed behind record %u, slices of %u", what,
             flush_at, kill_at, (unsigned)slice);
    snprintf(run.path, sizeof(run.path), "%s", scratch("event.db"));
    in_child(child, &run);
    atomic_store(&tidei_test_slice, slice);
    status = tide_trace_recover(run.path, &recovery);
    atomic_store(&tidei_test_slice, 0);
    if (!ok(all_of(status == TIDE_OK, trace_is_sound(run.path)), "%s: the trace is recovered", when))
        diag("%s", tide_error_text());
    if (!ok(sql_number(run.path, "SELECT count(*) FROM driver_call") == wanted, "%s: the calls are there, each once",
            when))
        diag("%lld calls", (long long)sql_number(run.path, "SELECT count(*) FROM driver_call"));
    ok(sql_number(run.path, "SELECT count(*) FROM driver_call WHERE allocation_id = 3 AND is_free = %d",
                  kind == TIDEI_RECORD_FREE) == wanted,
       "%s: the calls belong to their event", when);
    ok(sql_number(run.path, "SELECT count(*) FROM driver_call JOIN allocation AS a USING (allocation_id) WHERE"
                            " start_ns + 2 < iif(is_free, free_ns, alloc_ns - alloc_duration_ns) OR start_ns +"
                            " duration_ns - 2 > iif(is_free, free_ns + free_duration_ns, alloc_ns)") == 0,
       "%s: the calls lie within their event", when);
}

int
main(void)
{
    plan(8 * KILL_TESTS);
    for (unsigned i = 0; i < 2; i++) {
        enum tidei_record_kind kind = i == 0 ? TIDEI_RECORD_ALLOC : TIDEI_RECORD_FREE;

        test_kill(kind, 0, 3, 0, ROOM * 4);
        test_kill(kind, 0, 3, 1, ROOM * 4);
        test_kill(kind, 0, 0, 1, CALLS);
        /* Without CUPTI a program that records writes no calls: what is there comes from the recovery. */
        test_kill(kind, 3, 6, 0, ROOM * 3);
    }
    return done();
}
