/* Tests which allocation a free ends if an address has two of them in one tick, with handmade records. */
#include <stdlib.h>

#include "tap.h"
#include "src/trace/events/pair.h"

static struct tidei_ringfile *file;
static struct tidei_pair *pair;
static uint64_t record_count;

/* An event of one address that ends at `end` and took `ticks`. */
static void
put(enum tidei_record_kind kind, uint64_t end, uint64_t ticks)
{
    *tidei_buffer_record(file, 0, record_count++) = (struct tidei_record){ .ticks = end,
                                                                           .duration_ticks = ticks,
                                                                           .address = 0x1000,
                                                                           .size = 64,
                                                                           .layer = 1,
                                                                           .kind = (uint8_t)kind,
                                                                           .thread = 1 };
}

/* Pair what was put since the last time. */
static void
run(void)
{
    static uint64_t from;

    tidei_pair_run(pair, 0, from, record_count);
    from = record_count;
}

int
main(void)
{
    struct tidei_live live = { 0 };

    plan(8);
    file = calloc(1, sizeof(*file));
    file->chunks[0][0] = calloc(TIDEI_CHUNK_RECORDS, sizeof(struct tidei_record));
    pair = tidei_pair_new(file);

    put(TIDEI_RECORD_ALLOC, 100, 10);
    put(TIDEI_RECORD_ALLOC, 100, 10);
    put(TIDEI_RECORD_FREE, 300, 100);
    put(TIDEI_RECORD_FREE, 400, 0);
    run();
    is_u64(pair->rows[1].free, 2, "of two of one tick, a free that begins after both ends the later one");
    is_u64(pair->rows[0].free, 3, "and the next free the other");

    put(TIDEI_RECORD_ALLOC, 500, 10);
    put(TIDEI_RECORD_ALLOC, 500, 10);
    put(TIDEI_RECORD_FREE, 500, 0);
    put(TIDEI_RECORD_FREE, 500, 0);
    run();
    is_u64(pair->rows[0].free, 6, "one that begins in the very tick ends the earlier one");
    is_u64(pair->rows[1].free, 7, "and the next free the other");

    put(TIDEI_RECORD_ALLOC, 600, 10);
    run();
    live = (struct tidei_live){ .id = pair->first_id, .ticks = 600, .address = 0x1000, .size = 64, .layer = 1 };
    ok(tidei_pair_keep(pair, &live, 0), "an allocation lives beyond its slice");
    put(TIDEI_RECORD_ALLOC, 600, 10);
    put(TIDEI_RECORD_FREE, 800, 100);
    run();
    ok(pair->rows[0].free == 10 && pair->closing_count == 0, "a free that begins later ends that of this slice");
    put(TIDEI_RECORD_FREE, 900, 0);
    run();
    ok(pair->closing_count == 1 && pair->closings[0].id == live.id, "and the next free the one of before");
    put(TIDEI_RECORD_FREE, 1000, 0);
    run();
    is_u64(pair->unmatched.count, 1, "a third is a free of nothing");
    tidei_pair_free(pair);
    free(file->chunks[0][0]);
    free(file);
    return done();
}
