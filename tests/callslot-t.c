/* Tests src/trace/ring/capture.h: which event a driver call belongs to, and when that event ends. */
#include "config.h"

#include <stdio.h>

#include "tap.h"
#include "src/trace/ring/capture.h"
#include "src/trace/ring/drops.h"

#define RING_RECORDS 64

static struct tidei_session sessions[3];
static struct tidei_record records[RING_RECORDS];
static struct tidei_ring ring;
static struct tidei_producer fronts[3];

static struct tidei_call_part
call_at(uint64_t start)
{
    return (struct tidei_call_part){ .start = start, .end = start + 10, .function = 1 };
}

static bool
add(uint64_t start)
{
    struct tidei_call_part call = call_at(start);

    return tidei_call_capture_add(tidei_call_capture(tidei_thread), &call);
}

/* The start times of the calls that the innermost waiting log gets, as text. */
static const char *
taken(void)
{
    const struct tidei_call_capture *slot = tidei_call_capture(tidei_thread);
    uint32_t position = 0, count = tidei_call_capture_count(slot);
    struct tidei_call_part call;
    static char text[256];
    int length = 0;

    text[0] = '\0';
    for (; tidei_call_capture_next(slot, &position, &call); count--)
        length +=
            snprintf(text + length, sizeof(text) - (size_t)length, length == 0 ? "%u" : " %u", (unsigned)call.start);
    return count == 0 ? text : "as many calls as there are were not counted";
}

/* Whether the innermost log gets the calls `from` to `to`, in this order, and no others. */
static bool
takes(uint32_t from, uint32_t to)
{
    const struct tidei_call_capture *slot = tidei_call_capture(tidei_thread);
    bool all = tidei_call_capture_count(slot) == to - from + 1;
    struct tidei_call_part call;
    uint32_t position = 0;

    for (; from <= to; from++)
        all = tidei_call_capture_next(slot, &position, &call) && call.start == from && all;
    return all && !tidei_call_capture_next(slot, &position, &call);
}

#define ALONE_TESTS 7

static void
test_alone(void)
{
    static const unsigned most[] = { 1, 16, 17, 20000 };
    struct tidei_call_capture *slot = tidei_call_capture_arm(&fronts[0], false);

    is_string(taken(), "", "a log that waits has no call at first");
    ok(all_of(tidei_call_capture_waits(slot, &sessions[0]), !tidei_call_capture_waits(slot, &sessions[1])),
       "a log waits for the calls of its own trace only");
    tidei_call_capture_disarm(slot);
    for (unsigned i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
        bool all = true;

        tidei_call_capture_arm(&fronts[0], false);
        for (unsigned n = 1; n <= most[i]; n++)
            all = add(n) && all;
        ok(all_of(all, takes(1, most[i])), "the %u calls of an event are all captured, in the order in which they came",
           most[i]);
        tidei_call_capture_shrink(slot);
        tidei_call_capture_disarm(slot);
    }
    ok(all_of(slot->armed == 0, slot->count == 0, !tidei_call_capture_waits(slot, &sessions[0])),
       "after its calls were taken a log waits no more");
}

#define NESTED_TESTS 15

static void
test_nested(void)
{
    struct tidei_call_capture *slot = tidei_call_capture_arm(&fronts[0], false);

    add(1);
    tidei_call_capture_arm(&fronts[1], false);
    is_string(taken(), "", "a log of another trace inside another log has no earlier calls");
    add(2);
    tidei_call_capture_arm(&fronts[0], false);
    add(3);
    is_string(taken(), "3", "a second log of the first trace has its own call");
    tidei_call_capture_disarm(slot);
    is_string(taken(), "2 3", "the call of the inner log is also that of the other trace's log around it");
    tidei_call_capture_arm(&fronts[2], false);
    add(4);
    is_string(taken(), "4", "a log of a third trace has its own call");
    ok(all_of(tidei_call_capture_waits(slot, &sessions[0]), tidei_call_capture_waits(slot, &sessions[1]),
              tidei_call_capture_waits(slot, &sessions[2])),
       "three traces wait for the calls");
    tidei_call_capture_disarm(slot);
    ok(!tidei_call_capture_waits(slot, &sessions[2]), "the third trace waits no longer once it is disarmed");
    is_string(taken(), "2 3 4", "the captured call stays for the logs around");
    tidei_call_capture_disarm(slot);
    is_string(taken(), "1 2 4", "the first trace gets each call only once");
    tidei_call_capture_disarm(slot);
    ok(all_of(slot->armed == 0, slot->count == 0), "after three traces no call and no waiting trace is left");

    tidei_call_capture_arm(&fronts[0], false);
    tidei_call_capture_arm(&fronts[0], false);
    add(5);
    tidei_call_capture_disarm(slot);
    add(6);
    is_string(taken(), "6", "with logs of one trace alone, a call belongs to the inner log");
    tidei_call_capture_disarm(slot);
    tidei_call_capture_arm(&fronts[0], false);
    for (unsigned i = 1; i <= 100; i++)
        add(i);
    tidei_call_capture_arm(&fronts[1], false);
    tidei_call_capture_arm(&fronts[0], false);
    for (unsigned i = 101; i <= 2000; i++)
        add(i);
    ok(takes(101, 2000), "the inner log of very many calls gets those within it");
    tidei_call_capture_disarm(slot);
    ok(takes(101, 2000), "very many calls are also those of the other trace's log around");
    tidei_call_capture_disarm(slot);
    ok(takes(1, 100), "the outer log of very many calls gets those that the inner one has not");
    tidei_call_capture_disarm(slot);
    tidei_call_capture_arm(&fronts[0], false);
    add(7);
    is_string(taken(), "7", "an outer log gets only the calls after the inner one");
    tidei_call_capture_forget();
    tidei_call_capture_disarm(slot);
    ok(all_of(slot->armed == 0, slot->count == 0, slot->more == NULL), "a slot can be forgotten while a log waits");
}

#define DEEP_TESTS 3

static void
test_deep(void)
{
    struct tidei_call_capture *slot = tidei_call_capture_arm(&fronts[0], false);

    for (unsigned i = 1; i < 20; i++)
        tidei_call_capture_arm(&fronts[1], false);
    add(1);
    is_string(taken(), "", "the innermost of very many nested logs get no calls");
    while (slot->armed != (TIDEI_CALL_WITHIN | 8))
        tidei_call_capture_disarm(slot);
    is_string(taken(), "1", "the innermost log that still fits gets its call");
    while (slot->armed != (TIDEI_CALL_WITHIN | 1))
        tidei_call_capture_disarm(slot);
    is_string(taken(), "1", "the outermost of very many nested logs gets its calls");
    tidei_call_capture_disarm(slot);
}

/* Record an event that began at `begin`, as a log does. */
static const struct tidei_record *
event(uint64_t begin)
{
    uint64_t word = tidei_record_word(1, TIDEI_RECORD_ALLOC, 0, 8), head = fronts[0].head;
    struct tidei_call_capture *slot = tidei_call_capture(tidei_thread);
    struct tidei_prepared prepared;

    if (tidei_producer_has_room(&fronts[0]) && tidei_call_capture_fits(slot, begin, 0x1000)) {
        prepared = tidei_producer_prepare(&fronts[0], &prepared, 64, 0, word);
        tidei_producer_add_address(&prepared, 0x1000);
        tidei_producer_finish_calls(&fronts[0], prepared, begin, true, slot);
    } else {
        tidei_producer_event_calls(&fronts[0], begin, 0x1000, 64, 0, word, 0, true, slot);
    }
    return &records[head % RING_RECORDS];
}

/* Do what the callbacks do for an event's first call, until it is short enough. Returns when the event began. */
static uint64_t
first_call(struct tidei_call_capture *slot)
{
    uint64_t begin;

    do {
        begin = tidei_clock_ticks(true);
        slot->first = call_at(tidei_clock_ticks(true));
        slot->first.end = tidei_call_capture_open(slot);
    } while (slot->first.end - begin > UINT16_MAX);
    slot->count = 1;
    return begin;
}

static bool
is_closed(void)
{
    return atomic_load(&ring.open) == 0 && atomic_load(&ring.head) == fronts[0].head;
}

#define JOINED_TESTS 11

static void
test_joined(void)
{
    struct tidei_call_capture *slot = tidei_call_capture_arm(&fronts[0], true);
    uint64_t begin = first_call(slot), before;
    const struct tidei_record *record;

    is_u64(atomic_load(&ring.open), slot->first.start | 1, "a call that ends opens the record of its event");
    record = event(begin);
    ok(all_of(record->ticks == slot->first.end, tidei_record_duration(record) == slot->first.end - begin),
       "the event's record ends with the call");
    ok(all_of(record->call_function == 1, record->text_records == 0,
              (record->call_span & UINT16_MAX) == slot->first.end - slot->first.start),
       "the event's record holds the call's function and start");
    ok(is_closed(), "the record is closed after the event");
    tidei_call_capture_disarm(slot);

    tidei_call_capture_arm(&fronts[0], true);
    begin = first_call(slot);
    tidei_call_capture_close(slot);
    ok(is_closed(), "a second call closes the record");
    add(tidei_clock_ticks(true));
    before = tidei_clock_ticks(true);
    record = event(begin);
    ok(all_of(record->ticks >= before, record->text_records == 2, is_closed()),
       "the event after a second call has its own end time");
    tidei_call_capture_disarm(slot);

    tidei_call_capture_arm(&fronts[0], true);
    begin = first_call(slot);
    tidei_producer_sample(&fronts[0], 1, &(struct tidei_layer_figures){ 2, 3, 3 });
    ok(is_closed(), "a record in between closes the record that a call has opened");
    before = tidei_clock_ticks(true);
    ok(all_of(event(begin)->ticks >= before, is_closed()), "an event after a record in between has its own end time");
    tidei_call_capture_disarm(slot);

    tidei_call_capture_arm(&fronts[0], true);
    begin = tidei_clock_ticks(true);
    record = event(begin);
    ok(all_of(record->call_function == 0, record->text_records == 0, is_closed()),
       "an event without a call has no function in its record");
    tidei_call_capture_disarm(slot);

    tidei_call_capture_arm(&fronts[0], true);
    begin = first_call(slot);
    fronts[0].drop = true;
    fronts[0].tail = fronts[0].head - RING_RECORDS;
    atomic_store(&ring.tail, fronts[0].tail);
    event(begin);
    ok(is_closed(), "an event that is dropped leaves nothing open");
    is_u64(atomic_load(&ring.dropped_allocs), 1, "the event that was dropped is counted");
    tidei_call_capture_disarm(slot);
}

int
main(void)
{
    plan(ALONE_TESTS + NESTED_TESTS + DEEP_TESTS + JOINED_TESTS);
    for (unsigned i = 0; i < 3; i++) {
        fronts[i] = (struct tidei_producer){ .records = records,
                                             .ring = &ring,
                                             .mask = RING_RECORDS - 1,
                                             .thread_id = 1,
                                             .tsc = true,
                                             .plain = true,
                                             .session = &sessions[i] };
    }
    sessions[0].drops = tidei_drops_new();
    if (tidei_thread_get() == NULL)
        abort();
    test_alone();
    test_nested();
    test_deep();
    test_joined();
    tidei_call_capture_forget();
    tidei_drops_free(sessions[0].drops);
    return done();
}
