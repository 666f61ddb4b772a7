/* Tests the recording of CUPTI's calls and records without CUPTI: handmade records, and calls in the backlog. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "tap.h"
#include "src/trace/cupti/activity.h"
#include "src/trace/cupti/device-events.h"
#include "src/trace/events/event-calls.h"
#include "src/trace/ring/function.h"
#include "src/trace/database/schema.h"
#include "src/trace/events/timeline.h"

static struct tidei_ringfile *file;
static struct tidei_timeline timeline;
static struct tidei_pair *pair;
static uint64_t record_count;

/* An event of 100 ticks that ends at `end`, in the buffer that is paired. */
static struct tidei_record *
put(enum tidei_record_kind kind, uint64_t end, uint64_t address)
{
    struct tidei_record *record = tidei_buffer_record(file, 0, record_count++);

    *record = (struct tidei_record){ .ticks = end,
                                     .duration_check = 100,
                                     .address = address,
                                     .size = 64,
                                     .layer = 1,
                                     .kind = (uint8_t)kind,
                                     .thread = 1 };
    return record;
}

/* Put a driver call behind the event that was put last. */
static void
put_part(uint64_t start, uint64_t end, uint8_t function, int32_t result)
{
    struct tidei_text_record *record = (struct tidei_text_record *)tidei_buffer_record(file, 0, record_count++);
    struct tidei_call_part part = {
        .start = start, .end = end, .correlation = 77, .result = result, .function = function
    };

    *record = (struct tidei_text_record){ .length = sizeof(part), .kind = TIDEI_RECORD_TEXT, .thread = 1 };
    memcpy(record->text, &part, sizeof(part));
}

#define EVENT_CALL_TESTS 9

static void
test_event_calls(void)
{
    struct tidei_event_calls walk = { 0 };
    struct tidei_event_call call;
    struct tidei_record *record;

    record = put(TIDEI_RECORD_ALLOC, 1100, 0x1000);
    record->call_function = 1;
    record->call_span = 10 << 16 | 80;
    put(TIDEI_RECORD_ALLOC, 1200, 0x2000)->text_records = 2;
    put_part(1110, 1120, 7, 2);
    put_part(1130, 1200, 1, 0);
    put(TIDEI_RECORD_ALLOC, 1300, 0x3000);
    put(TIDEI_RECORD_FREE, 1400, 0x1000)->text_records = 4;
    put_part(1299, 1350, 5, 0);
    put_part(1310, 1401, 5, 0);
    put_part(1310, 1350, 200, 0);
    put_part(1350, 1340, 5, 0);
    record = put(TIDEI_RECORD_FREE, 1500, 0x2000);
    record->call_function = 5;
    record->call_span = 90 << 16 | 11;
    record = put(TIDEI_RECORD_FREE, 1600, 0x3000);
    record->call_function = 5;
    record->call_span = 0 << 16 | 100;
    tidei_pair_run(pair, 0, 0, record_count);
    ok(all_of(tidei_event_calls_next(&walk, pair, &call), call.allocation_id == 1, !call.is_free,
              call.part.start == 1010, call.part.end == 1090, call.part.function == 1, call.part.result == 0),
       "a driver call is read from the record of its event");
    ok(all_of(tidei_event_calls_next(&walk, pair, &call), call.allocation_id == 2, call.part.start == 1110,
              call.part.result == 2, call.part.correlation == 77),
       "a failed driver call is read from the record behind its event");
    ok(all_of(tidei_event_calls_next(&walk, pair, &call), call.allocation_id == 2, call.part.start == 1130),
       "a second call behind an event is read, up to the end of the event");
    ok(all_of(tidei_event_calls_next(&walk, pair, &call), call.allocation_id == 3, call.is_free, call.part.end == 1600),
       "the call of a free belongs to the freed allocation");
    ok(!tidei_event_calls_next(&walk, pair, &call),
       "calls that begin before their event, end after it, end before they begin or have no function are left out");
    ok(!tidei_event_calls_next(&walk, pair, &call), "after the last call there is no next one");
    is_string(tidei_function_name(1), "cuMemAllocFromPoolAsync", "a function has its name");
    ok(all_of(tidei_function_name(0) == NULL, tidei_function_name(63) == NULL, tidei_function_name(100000) == NULL),
       "a function number that is not in use has no name");
    ok(all_of(tidei_function_is_free(5), !tidei_function_is_free(1), !tidei_function_is_free(0)),
       "a function is known to free or not");
}

static struct tidei_device_event
event_of(uint64_t ticks, uint32_t correlation, uint64_t address, uint32_t context)
{
    return (struct tidei_device_event){ .ticks = ticks,
                                        .address = address,
                                        .bytes = 64,
                                        .correlation = correlation,
                                        .context = context,
                                        .kind = TIDEI_DEVICE_ALLOCATION };
}

static struct tidei_call
call_of(uint64_t end, uint32_t correlation, bool waits)
{
    return (struct tidei_call){ .part = { .start = end - 10, .end = end, .correlation = correlation, .function = 7 },
                                .os_tid = 4711,
                                .waits = waits };
}

static size_t
row_count(const struct tidei_device_events *devices)
{
    size_t count;

    tidei_device_events_rows(devices, &count);
    return count;
}

#define NAME_TESTS 1

/* The view StringIds has the functions under the same numbers. */
static void
test_names(void)
{
    unsigned different = 0;
    sqlite3_stmt *select = NULL;
    sqlite3 *db = NULL;

    if (sqlite3_open(":memory:", &db) != SQLITE_OK ||
        sqlite3_exec(db, tidei_trace_schema, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "SELECT value FROM StringIds WHERE id = ?1", -1, &select, NULL) != SQLITE_OK)
        diag("%s", sqlite3_errmsg(db));
    for (int i = 0; select != NULL && i < TIDEI_FUNCTION_MOST; i++) {
        const char *name = tidei_function_name((unsigned)i);
        const char *value = NULL;

        sqlite3_bind_int(select, 1, i);
        if (sqlite3_step(select) == SQLITE_ROW)
            value = (const char *)sqlite3_column_text(select, 0);
        different += (name == NULL) != (value == NULL) || (name != NULL && strcmp(name, value) != 0);
        sqlite3_reset(select);
    }
    ok(all_of(select != NULL, different == 0),
       "the view StringIds has every function under its number, and nothing else");
    sqlite3_finalize(select);
    sqlite3_close(db);
}

#define DEVICES_TESTS 18

static void
test_devices(void)
{
    struct tidei_device_events *devices = tidei_device_events_new();
    struct tidei_event_call own = { .allocation_id = 9, .part = { .end = 250, .correlation = 2, .function = 1 } };
    const struct tidei_device_row *rows;
    const struct tidei_outside_row *outside;
    struct tidei_device_event events[4];
    struct tidei_call call;
    size_t count;

    /* A call outside of all logs, which two contexts report, one of them late. */
    tidei_device_events_add_thread(devices, 3, 4711);
    events[0] = event_of(105, 1, 0x1000, 1);
    tidei_device_events_add_events(devices, events, 1);
    call = call_of(110, 1, false);
    tidei_device_events_add_calls(devices, &timeline, &call, 1);
    tidei_device_events_run(devices, &timeline, 100);
    is_u64(row_count(devices), 0, "a device event waits until all earlier records have come");
    events[0] = event_of(107, 1, 0x1000, 2);
    tidei_device_events_add_events(devices, events, 1);
    tidei_device_events_run(devices, &timeline, 200);
    rows = tidei_device_events_rows(devices, &count);
    is_u64(count, 1, "a device event that two contexts report has one row");
    ok(all_of(count == 1, rows[0].event.context == 1 + (rows[0].event.ticks == 107), rows[0].os_tid == 4711,
              strcmp(rows[0].function, "cuMemAlloc_v2") == 0, rows[0].allocation_id == 0),
       "the row of a device event has the function and the thread of its call");
    outside = tidei_device_events_outside(devices, &count);
    ok(all_of(count == 1, outside[0].thread_id == 3, outside[0].start_ns == 50, outside[0].duration_ns == 5),
       "a call outside of any log has a row of its own");
    tidei_device_events_written(devices);
    is_u64(row_count(devices), 0, "rows that were written are dropped");

    /* The call of a log is reported twice: by CUPTI at once, and with its event, which may come later. */
    events[0] = event_of(245, 2, 0x2000, 1);
    events[1] = event_of(246, 3, 0x2000, 1);
    events[2] = event_of(247, 0, 0x2000, 1);
    events[3] = event_of(248, 0, 0x2000, 1);
    tidei_device_events_add_events(devices, events, 4);
    call = call_of(250, 2, true);
    tidei_device_events_add_calls(devices, &timeline, &call, 1);
    tidei_device_events_run(devices, &timeline, 300);
    rows = tidei_device_events_rows(devices, &count);
    is_u64(count, 3, "a device event waits until the log of its call has reported the call");
    ok(all_of(count == 3, rows[0].event.correlation == 3, rows[0].function == NULL, rows[0].os_tid == 0),
       "a device event whose call is not recorded has a row without function and thread");
    ok(all_of(count == 3, rows[1].event.ticks == 247, rows[2].event.ticks == 248),
       "device events without a correlation number are all kept, in the order of time");
    tidei_device_events_written(devices);
    tidei_device_events_run(devices, &timeline, 400);
    is_u64(row_count(devices), 0, "a row that was written does not come again");
    tidei_device_events_add_own(devices, &own);
    tidei_device_events_run(devices, &timeline, 500);
    rows = tidei_device_events_rows(devices, &count);
    ok(all_of(count == 1, rows[0].allocation_id == 9, rows[0].os_tid == 4711, rows[0].ns == 122),
       "the row of a device event gets the allocation once the log has reported it");
    tidei_device_events_written(devices);
    tidei_device_events_outside(devices, &count);
    is_u64(count, 0, "a call that a log has recorded has no row of its own");

    /* A log that dropped its event never reports the call. */
    events[0] = event_of(600, 4, 0x3000, 1);
    tidei_device_events_add_events(devices, events, 1);
    call = call_of(610, 4, true);
    tidei_device_events_add_calls(devices, &timeline, &call, 1);
    for (unsigned i = 0; i < 110; i++)
        tidei_device_events_run(devices, &timeline, 700);
    is_u64(row_count(devices), 1, "a device event waits only so long for a log that does not report its call");
    tidei_device_events_written(devices);
    events[0] = event_of(800, 5, 0x3000, 1);
    tidei_device_events_add_events(devices, events, 1);
    tidei_device_events_run(devices, &timeline, UINT64_MAX);
    is_u64(row_count(devices), 1, "at the end of the trace device events wait no more");
    tidei_device_events_written(devices);

    /*
     * Calls that are not recorded have no correlation number of their own: their events have that of an earlier or
     * later call.
     */
    call = call_of(910, 6, false);
    tidei_device_events_add_calls(devices, &timeline, &call, 1);
    for (unsigned i = 0; i < 4; i++) {
        events[i] = event_of(905 + 10 * i, 6, 0x4000, 1);
        events[i].kind = i % 2 == 0 ? TIDEI_DEVICE_ALLOCATION : TIDEI_DEVICE_RELEASE;
    }
    tidei_device_events_add_events(devices, events, 4);
    tidei_device_events_run(devices, &timeline, 1000);
    rows = tidei_device_events_rows(devices, &count);
    is_u64(count, 4,
           "events of one context at one address are all kept, although their correlation number is the same");
    ok(all_of(count == 4, rows[0].function != NULL, rows[0].os_tid == 4711),
       "an event within the time of a call gets its function and thread");
    ok(all_of(count == 4, rows[1].function == NULL, rows[2].function == NULL, rows[3].os_tid == 0),
       "an event outside of the time of a call does not get its function, although it has its correlation number");
    tidei_device_events_written(devices);
    call = call_of(1010, 7, false);
    tidei_device_events_add_calls(devices, &timeline, &call, 1);
    events[0] = event_of(1005, 7, 0x5000, 1);
    events[0].kind = TIDEI_DEVICE_RELEASE;
    tidei_device_events_add_events(devices, events, 1);
    tidei_device_events_run(devices, &timeline, 1100);
    rows = tidei_device_events_rows(devices, &count);
    ok(all_of(count == 1, rows[0].function == NULL), "a release does not get the function of a call that allocates");
    is_u64(tidei_device_events_dropped(devices), 0, "no event of the device was dropped");
    tidei_device_events_free(devices);
}

#define ACTIVITY_TESTS 9

#ifdef HAVE_CUPTI_H

#include <cupti.h>

static void
test_activity(void)
{
    CUpti_ActivityMemory4 memory = { .kind = CUPTI_ACTIVITY_KIND_MEMORY2,
                                     .memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE,
                                     .memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED,
                                     .correlationId = 5,
                                     .address = 0x1000,
                                     .bytes = 64,
                                     .timestamp = 99,
                                     .contextId = CUPTI_INVALID_CONTEXT_ID,
                                     .streamId = 7 };
    CUpti_ActivityMemoryPool2 pool = { .kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL,
                                       .memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED,
                                       .memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL,
                                       .minBytesToKeep = 3,
                                       .address = 0x2000,
                                       .size = 32,
                                       .releaseThreshold = UINT64_MAX,
                                       .utilizedSize = 16 };
    CUpti_ActivityAPI call = { .kind = CUPTI_ACTIVITY_KIND_DRIVER };
    struct tidei_device_event event;

    ok(tidei_activity_parse(&memory, 130000, &event) && event.kind == TIDEI_DEVICE_RELEASE && event.ticks == 99 &&
           event.address == 0x1000 && event.bytes == 64 && event.correlation == 5 && event.stream == 7 &&
           event.context == TIDEI_NO_NUMBER && event.pool == TIDEI_DEVICE_POOL_NONE && event.pool_address == 0 &&
           event.memory_kind == CUPTI_ACTIVITY_MEMORY_KIND_MANAGED,
       "CUPTI's record of a release without a pool is read");
    memory.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
    memory.memoryPoolConfig.address = 0x2000;
    memory.memoryPoolConfig.pool.size = 32;
    memory.memoryPoolConfig.utilizedSize = 16;
    ok(all_of(tidei_activity_parse(&memory, 17, &event), event.pool == TIDEI_DEVICE_POOL_LOCAL,
              event.pool_address == 0x2000, event.pool_bytes == 32, event.pool_used_bytes == 16, event.pool_pid == 0),
       "CUPTI's record of a release with a pool names the pool");
    ok(all_of(tidei_activity_parse(&memory, 16, &event), event.pool_bytes == 32, event.pool_used_bytes == UINT64_MAX),
       "an older CUPTI's record has no figure of the pool's used bytes");
    memory.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_IMPORTED;
    ok(all_of(tidei_activity_parse(&memory, 130000, &event), event.pool == TIDEI_DEVICE_POOL_IMPORTED,
              event.pool_pid == 32, event.pool_bytes == 0),
       "CUPTI's record of a release with an imported pool has the other process");
    memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_INVALID;
    ok(!tidei_activity_parse(&memory, 130000, &event), "CUPTI's record of memory without an operation is left out");
    ok(all_of(tidei_activity_parse(&pool, 130000, &event), event.kind == TIDEI_DEVICE_POOL_TRIMMED, event.address == 0,
              event.pool_address == 0x2000, event.bytes == 3, event.pool_used_bytes == 16,
              event.pool_threshold_bytes == UINT64_MAX, event.stream == TIDEI_NO_NUMBER),
       "CUPTI's record of a trimmed pool is read");
    pool.memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED;
    pool.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_IMPORTED;
    ok(all_of(tidei_activity_parse(&pool, 130000, &event), event.kind == TIDEI_DEVICE_POOL_CREATED, event.bytes == 0,
              event.pool == TIDEI_DEVICE_POOL_IMPORTED, event.pool_bytes == 0),
       "CUPTI's record of an imported pool is read");
    pool.memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_INVALID;
    ok(!tidei_activity_parse(&pool, 130000, &event), "CUPTI's record of a pool without an operation is left out");
    ok(!tidei_activity_parse(&call, 130000, &event), "CUPTI's record of another kind is left out");
}

#else

static void
test_activity(void)
{
    skip(ACTIVITY_TESTS, "this build has no cupti.h");
}

#endif

int
main(void)
{
    plan(NAME_TESTS + EVENT_CALL_TESTS + DEVICES_TESTS + ACTIVITY_TESTS);
    file = calloc(1, sizeof(*file));
    file->chunks[0][0] = calloc(TIDEI_CHUNK_RECORDS, sizeof(struct tidei_record));
    pair = tidei_pair_new(file);
    timeline.line = (struct tidei_clock_line){ .ns_per_tick = 0.5 };
    test_names();
    test_event_calls();
    test_devices();
    test_activity();
    tidei_pair_free(pair);
    free(file->chunks[0][0]);
    free(file);
    return done();
}
