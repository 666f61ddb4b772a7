/* Tests which allocation a free ends if an address has two live ones, with handmade records. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "src/trace/events/pair.h"

static struct tidei_ringfile *file;
static struct tidei_pair *pair;
static uint64_t record_count;

/* The record of a call that ended at `end` and took `ticks`. */
static void
put_at(uint64_t address, uint64_t size, enum tidei_record_kind kind, uint64_t end, uint64_t ticks)
{
    *tidei_buffer_record(file, 0, record_count++) = (struct tidei_record){ .ticks = end,
                                                                           .duration_check = ticks,
                                                                           .address = address,
                                                                           .size = size,
                                                                           .layer = 1,
                                                                           .kind = (uint8_t)kind,
                                                                           .thread = 1 };
}

/* A record of the address that most tests use. */
static void
put(enum tidei_record_kind kind, uint64_t end, uint64_t ticks)
{
    put_at(0x1000, 64, kind, end, ticks);
}

/* Pair the records that were put since the last run. */
static void
run(void)
{
    static uint64_t from;

    tidei_pair_run(pair, 0, from, record_count);
    from = record_count;
}

static void
test_one_tick(void)
{
    put(TIDEI_RECORD_ALLOC, 100, 10);
    put(TIDEI_RECORD_ALLOC, 100, 10);
    put(TIDEI_RECORD_FREE, 300, 100);
    put(TIDEI_RECORD_FREE, 400, 0);
    run();
    is_u64(pair->rows[1].free, 2, "a free that begins after two allocations of one tick ends the later of them");
    is_u64(pair->rows[0].free, 3, "the free after it ends the earlier of the two allocations");

    put(TIDEI_RECORD_ALLOC, 500, 10);
    put(TIDEI_RECORD_ALLOC, 500, 10);
    put(TIDEI_RECORD_FREE, 500, 0);
    put(TIDEI_RECORD_FREE, 500, 0);
    run();
    is_u64(pair->rows[0].free, 6, "a free that begins in the tick of two allocations ends the earlier of them");
    is_u64(pair->rows[1].free, 7, "a second free in the tick of two allocations ends the later of them");
}

static void
test_earlier_slice(void)
{
    struct tidei_live live;

    put(TIDEI_RECORD_ALLOC, 600, 10);
    run();
    live = (struct tidei_live){ .id = pair->first_id, .ticks = 600, .address = 0x1000, .size = 64, .layer = 1 };
    ok(tidei_pair_keep(pair, &live, 0), "an allocation lives beyond its slice");
    put(TIDEI_RECORD_ALLOC, 600, 10);
    put(TIDEI_RECORD_FREE, 800, 100);
    run();
    is_u64(pair->rows[0].free, 10,
           "of an earlier slice's allocation and this slice's, a free that begins later ends this slice's");
    ok(all_of(pair->closing_count == 1, pair->closings[0].id == live.id, pair->closings[0].free == TIDEI_NO_FREE),
       "the earlier slice's allocation ends where its address is allocated again, until its free comes");
    put(TIDEI_RECORD_FREE, 900, 0);
    run();
    ok(pair->closing_count == 1 && pair->closings[0].id == live.id,
       "the next free ends the earlier slice's allocation");
    put(TIDEI_RECORD_FREE, 1000, 0);
    run();
    is_u64(pair->unmatched.count, 1, "a free of an address without live allocations is unmatched");
}

static void
test_sizes(void)
{
    uint64_t first = record_count;

    put_at(0x1000, 64, TIDEI_RECORD_ALLOC, 1100, 10);
    put_at(0x1000, 128, TIDEI_RECORD_ALLOC, 1200, 10);
    put_at(0x1000, 64, TIDEI_RECORD_FREE, 1400, 10);
    put_at(0x1000, 128, TIDEI_RECORD_FREE, 1500, 10);
    run();
    is_u64(pair->rows[0].free, first + 2,
           "a free ends the allocation of its size, though one of another size is later");
    is_u64(pair->rows[1].free, first + 3, "a free ends the allocation of its size if it is the only one left");
}

/*
 * The table yields the allocations of an address in the order in which they were added, with one exception: if the
 * first was in the last entry of the table and the second in entry 0, they change places when the table grows.
 */
static void
test_free_between(void)
{
    const struct tidei_map *map = &pair->lives.by_address;
    uint64_t address = 0x2000;
    size_t mask = map->mask;

    while (tidei_map_home(map, address, 1) != mask)
        address += 0x1000;
    put_at(address, 64, TIDEI_RECORD_ALLOC, 2000, 10);
    put_at(address, 64, TIDEI_RECORD_ALLOC, 2200, 10);
    for (size_t i = 0; i <= mask / 2; i++)
        put_at(UINT64_C(0x100000000) + i * 0x1000, 64, TIDEI_RECORD_ALLOC, 2200, 10);
    put_at(address, 64, TIDEI_RECORD_FREE, 2300, 200);
    put_at(address, 64, TIDEI_RECORD_FREE, 2400, 10);
    run();
    ok(map->mask > mask, "the table of live allocations grows between two allocations of an address and its free");
    is_u64(pair->rows[0].free, record_count - 2, "a free that began before the later allocation ends the earlier one");
    is_u64(pair->rows[1].free, record_count - 1, "a free that began after the later allocation ends it");
}

/*
 * Memory that was held before the trace began. Records are not changed: a kill would find one whose check is another's.
 */
static void
test_held(void)
{
    struct tidei_pair *first = tidei_pair_new(file);
    uint64_t from = record_count;
    struct tidei_record before[4];

    put_at(0x3000, 64, TIDEI_RECORD_HELD, 3000, 0);
    put_at(0x4000, 64, TIDEI_RECORD_ALLOC, 3100, 10);
    put_at(0x5000, 64, TIDEI_RECORD_HELD, 3200, 0);
    put_at(0x3000, 64, TIDEI_RECORD_FREE, 3300, 10);
    for (uint64_t i = from; i < record_count; i++)
        tidei_record_seal(tidei_buffer_record(file, 0, i), 0);
    memcpy(before, tidei_buffer_record(file, 0, from), sizeof(before));
    tidei_pair_run(first, 0, from, record_count);
    ok(memcmp(before, tidei_buffer_record(file, 0, from), sizeof(before)) == 0,
       "pairing changes no record of memory that was held before");
    ok(all_of(tidei_pair_row_ticks(first, 0) == TIDEI_TICKS_BEFORE, tidei_pair_row_ticks(first, 1) == 3100,
              tidei_pair_row_ticks(first, 2) == 3200, first->rows[0].free == from + 3),
       "what was held before the first allocation belongs to the beginning of the trace, later ones to their moment");
    tidei_pair_free(first);
}

/* A pairing for the records that follow, in which early frees wait for 1000 ticks. */
static struct tidei_pair *
begin_early(void)
{
    struct tidei_pair *begun = tidei_pair_new(file);

    begun->window_ticks = 1000;
    return begun;
}

/* The record of a thread, at an address that all these tests use. */
static void
put_by(uint32_t thread, enum tidei_record_kind kind, uint64_t size, uint64_t end)
{
    put_at(0x6000, size, kind, end, 0);
    tidei_buffer_record(file, 0, record_count - 1)->thread = thread;
}

/* Each life of an address ends with the free of the next one, if the first free was not of something else. */
static void
test_shifted(void)
{
    struct tidei_pair *shifted = begin_early();
    uint64_t from = record_count;
    struct tidei_live live;

    put_by(2, TIDEI_RECORD_FREE, 64, 10000);
    put_by(1, TIDEI_RECORD_ALLOC, 64, 10100);
    put_by(2, TIDEI_RECORD_FREE, 64, 10200);
    is_u64((tidei_pair_run(shifted, 0, from, record_count), tidei_pair_assumed(shifted)), 0,
           "after an early free, an allocation and a free nothing is assumed");
    is_u64(tidei_pair_doubtful(shifted), 1, "the later free waits for an allocation, which a kill must not forget");
    ok(all_of(shifted->rows[0].free == from + 2,
              tidei_pair_event_record(shifted, shifted->unmatched.items[1])->ticks == 10000),
       "a free that came before the allocation of its address ends nothing if another comes after it");
    from = record_count;
    put_by(1, TIDEI_RECORD_ALLOC, 64, 10300);
    tidei_pair_run(shifted, 0, from, record_count);
    is_u64(tidei_pair_assumed(shifted), 1, "the next allocation may be ended by that free, and counts as assumed");
    live = (struct tidei_live){ .id = shifted->first_id, .ticks = 10300, .address = 0x6000, .size = 64, .layer = 1 };
    live.early = shifted->rows[0].early;
    ok(all_of(shifted->rows[0].free == TIDEI_NO_FREE, tidei_pair_keep(shifted, &live, 0)), "it lives meanwhile");
    from = record_count;
    put_by(2, TIDEI_RECORD_FREE, 64, 10400);
    put_by(1, TIDEI_RECORD_ALLOC, 64, 10500);
    tidei_pair_run(shifted, 0, from, record_count);
    ok(all_of(shifted->closing_count == 1, shifted->closings[0].free == from, tidei_pair_assumed(shifted) == 1),
       "once it has a free of its own, that is doubted in turn, and the allocation after it counts");
    from = record_count;
    put_by(2, TIDEI_RECORD_FREE, 64, 10600);
    tidei_pair_run(shifted, 0, from, record_count);
    from = record_count;
    put_by(1, TIDEI_RECORD_ALLOC, 64, 11700);
    tidei_pair_run(shifted, 0, from, record_count);
    is_u64(tidei_pair_assumed(shifted), 0, "an allocation later than clocks may differ by has nothing to do with it");
    tidei_pair_free(shifted);
}

/* The next allocation is there before the free that ends the one before it. */
static void
test_shifted_there(void)
{
    struct tidei_pair *shifted = begin_early();
    uint64_t from = record_count;

    shifted->apart_ticks = 10;
    put_by(2, TIDEI_RECORD_FREE, 64, 30000);
    put_by(1, TIDEI_RECORD_ALLOC, 64, 30100);
    put_by(1, TIDEI_RECORD_ALLOC, 64, 30200);
    put_by(2, TIDEI_RECORD_FREE, 64, 30210);
    tidei_pair_run(shifted, 0, from, record_count);
    ok(all_of(shifted->rows[0].free == from + 3, shifted->rows[1].free == TIDEI_NO_FREE,
              tidei_pair_assumed(shifted) == 1),
       "an allocation that is there before such a free counts as assumed, too");
    tidei_pair_free(shifted);
}

/* The sizes tell which free is whose, though the clocks were not seen to differ. */
static void
test_shifted_sizes(void)
{
    struct tidei_pair *shifted = begin_early();
    uint64_t from = record_count;

    put_by(2, TIDEI_RECORD_FREE, 64, 20000);
    put_by(1, TIDEI_RECORD_ALLOC, 64, 20100);
    put_by(2, TIDEI_RECORD_FREE, 128, 20200);
    put_by(1, TIDEI_RECORD_ALLOC, 128, 20300);
    tidei_pair_run(shifted, 0, from, record_count);
    ok(all_of(shifted->rows[0].free == from, shifted->rows[1].free == from + 2, shifted->odd.count == 0),
       "an allocation ends with the early free of its size, rather than with a later one of another size");
    tidei_pair_free(shifted);
}

int
main(void)
{
    plan(25);
    file = calloc(1, sizeof(*file));
    file->chunks[0][0] = calloc(TIDEI_CHUNK_RECORDS, sizeof(struct tidei_record));
    pair = tidei_pair_new(file);
    test_one_tick();
    test_earlier_slice();
    test_sizes();
    test_free_between();
    test_held();
    test_shifted();
    test_shifted_there();
    test_shifted_sizes();
    tidei_pair_free(pair);
    free(file->chunks[0][0]);
    free(file);
    return done();
}
