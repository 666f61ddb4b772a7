/* The driver's calls find the allocation or the free that made them, whichever of the two comes first. */
#include <stdlib.h>

#include "tap.h"
#include "trace/join.h"

#define TID 4711

static struct tidei_ringfile *file;
static struct tidei_store store;
static uint64_t record_count;

static void
put(enum tidei_record_kind kind, uint64_t begin, uint64_t end, uint64_t address, uint32_t thread, uint16_t layer)
{
    struct tidei_record *record = tidei_half_record(file, 0, record_count++);

    *record = (struct tidei_record){ .ticks = end,
                                     .duration_ticks = end - begin,
                                     .address = address,
                                     .size = 64,
                                     .layer = layer,
                                     .kind = (uint8_t)kind,
                                     .thread = thread };
}

static void
add_call(struct tidei_join *join, uint64_t start, uint64_t end, uint32_t os_tid, const char *function)
{
    struct tidei_call call = { .start = start, .end = end, .function = function, .os_tid = os_tid };

    tidei_join_add_calls(join, &call, 1);
}

/* Pair what was put since the last time, and give it to the join. */
static void
settle(struct tidei_join *join)
{
    static uint64_t from;

    tidei_pair_run(store.pair, 0, from, record_count);
    tidei_join_add_events(join, &store, from, record_count);
    tidei_pair_forget_closed(store.pair);
    tidei_feed_keep_live(&store);
    from = record_count;
}

/* The row of an allocation's call, or of its free's; NULL where there is none. */
static const struct tidei_driver_call *
row_of(const struct tidei_join *join, uint64_t allocation_id, bool is_free)
{
    size_t count;
    const struct tidei_driver_call *rows = tidei_join_rows(join, &count);

    for (size_t i = 0; i < count; i++) {
        if (rows[i].allocation_id == allocation_id && rows[i].is_free == is_free)
            return &rows[i];
    }
    return NULL;
}

static size_t
row_count(const struct tidei_join *join)
{
    size_t count;

    tidei_join_rows(join, &count);
    return count;
}

int
main(void)
{
    struct tidei_join *join = tidei_join_new();
    const struct tidei_driver_call *row;

    plan(13);
    file = calloc(1, sizeof(*file));
    file->chunks[0][0] = calloc(TIDEI_CHUNK_RECORDS, sizeof(struct tidei_record));
    store.pair = tidei_pair_new(file);
    store.line = (struct tidei_clock_line){ .ns_per_tick = 0.5 };
    tidei_join_add_layer(join, 2);
    tidei_join_add_thread(join, 1, TID);
    tidei_join_add_thread(join, 2, TID + 1);

    /* Layer 1 lies around layer 2, two threads at the same time. */
    put(TIDEI_RECORD_ALLOC, 102, 198, 0x1000, 1, 2);
    put(TIDEI_RECORD_ALLOC, 100, 200, 0x1000, 1, 1);
    put(TIDEI_RECORD_ALLOC, 110, 210, 0x2000, 2, 2);
    settle(join);
    add_call(join, 120, 180, TID, "alloc");
    add_call(join, 130, 190, TID + 1, "alloc");
    add_call(join, 150, 160, TID + 9, "alloc");
    add_call(join, 50, 90, TID, "alloc");
    add_call(join, 199, 205, TID, "alloc");
    tidei_join_run(join, 300, 0);
    is_u64(row_count(join), 2, "calls outside of any event, and of other threads, are not ours");
    row = row_of(join, 1, false);
    ok(row != NULL && row->thread_id == 1, "a call belongs to the event of its thread that it lies in");
    ok(row != NULL && row->start_ns == 60 && row->duration_ns == 30, "its times are the trace's");
    ok(row_of(join, 2, false) == NULL, "a layer that has another log below it has no calls");
    row = row_of(join, 3, false);
    ok(row != NULL && row->thread_id == 2, "the other thread's call is the other thread's");
    tidei_join_written(join);

    /* The call comes first: its event has not been paired yet. */
    add_call(join, 420, 440, TID, "free");
    tidei_join_run(join, 400, 0);
    is_u64(row_count(join), 0, "a call later than all events is kept");
    put(TIDEI_RECORD_FREE, 410, 450, 0x1000, 1, 2);
    settle(join);
    tidei_join_run(join, 500, 0);
    row = row_of(join, 1, true);
    ok(row != NULL && strcmp(row->function, "free") == 0,
       "and tied once its event is there: a free, to its allocation");
    tidei_join_run(join, 500, 0);
    is_u64(row_count(join), 1, "no call is tied twice");
    tidei_join_written(join);

    /* The event comes first, and stays until the calls have got past it. */
    put(TIDEI_RECORD_ALLOC, 600, 700, 0x3000, 1, 2);
    put(TIDEI_RECORD_ALLOC, 720, 800, 0x4000, 1, 2);
    settle(join);
    tidei_join_run(join, 900, 650);
    add_call(join, 730, 740, TID, "second");
    add_call(join, 745, 750, TID, "third");
    add_call(join, 610, 620, TID, "first");
    tidei_join_run(join, 900, 710);
    row = row_of(join, 4, false);
    ok(row != NULL && strcmp(row->function, "first") == 0, "an event waits for its call, out of order as they come");
    ok(row_of(join, 5, false) != NULL, "so does the next");
    is_u64(row_count(join), 3, "an event may have two calls");
    tidei_join_written(join);
    add_call(join, 650, 660, TID, "late");
    tidei_join_run(join, 900, 1000);
    is_u64(row_count(join), 0, "an event that the calls have got past is given up");
    add_call(join, 730, 735, TID, "later");
    tidei_join_run(join, 900, 1000);
    is_u64(row_count(join), 0, "and so is the last one");
    tidei_join_free(join);
    tidei_pair_free(store.pair);
    free(store.streams);
    free(file->chunks[0][0]);
    free(file);
    return done();
}
