/*
 * Compares the table of pieces by address with a plain array, under random additions and removals: for addresses at
 * many powers of two, for addresses of one bucket, and beside a thread that looks up addresses that stay.
 */
#include "tests/draw.h"
#include "tests/tap.h"

#include <pthread.h>
#include <time.h>

#include "src/suballoc/piece-map.h"

#define PIECES 20000
#define STEPS  400000
#define STAY   500

static void
number(void *item, uint32_t number)
{
    ((struct tidei_piece *)item)->number = number;
}

static struct {
    struct tidei_slab store;
    struct tidei_piece_map map;
    struct tidei_piece *pieces[PIECES]; /* NULL: not in the table */
    uintptr_t addresses[PIECES];
} model;

static void
add(size_t i)
{
    if (!tidei_slab_reserve(&model.store, 1) || !tidei_piece_map_reserve(&model.map))
        abort();
    model.pieces[i] = tidei_slab_take(&model.store);
    atomic_store_explicit(&model.pieces[i]->address, model.addresses[i], memory_order_relaxed);
    tidei_piece_map_add(&model.map, model.pieces[i]);
}

static void
remove_one(size_t i)
{
    tidei_piece_map_remove(&model.map, model.pieces[i]);
    tidei_slab_give(&model.store, model.pieces[i]);
    model.pieces[i] = NULL;
}

static void
begin(void)
{
    memset(&model.store, 0, sizeof(model.store));
    tidei_slab_init(&model.store, sizeof(struct tidei_piece), number);
    if (tidei_piece_map_init(&model.map, &model.store) != TIDE_OK)
        abort();
    memset(model.pieces, 0, sizeof(model.pieces));
}

static void
end(void)
{
    tidei_piece_map_fini(&model.map);
    tidei_slab_fini(&model.store);
}

/* Look up all addresses, in the table or not. Returns how many answers are wrong. */
static uint64_t
wrong_answers(void)
{
    uint64_t wrong = 0;

    for (size_t i = 0; i < PIECES; i++)
        wrong += tidei_piece_map_find(&model.map, (void *)model.addresses[i]) != model.pieces[i];
    return wrong;
}

/* Random steps among the first `count` addresses, which are all different. */
static uint64_t
wander(size_t count)
{
    uint64_t wrong = 0;

    begin();
    for (int step = 0; step < STEPS; step++) {
        size_t i = draw(count);

        wrong += tidei_piece_map_find(&model.map, (void *)model.addresses[i]) != model.pieces[i];
        if (model.pieces[i] != NULL)
            remove_one(i);
        else
            add(i);
        wrong += tidei_piece_map_find(&model.map, (void *)model.addresses[i]) != model.pieces[i];
    }
    wrong += wrong_answers();
    for (size_t i = 0; i < count; i++) {
        if (model.pieces[i] != NULL)
            remove_one(i);
    }
    wrong += wrong_answers() + model.map.count;
    end();
    return wrong;
}

/* Adjacent blocks of 256 B, of 64 KiB and of 256 MiB. */
static void
test_sizes(void)
{
    static const struct {
        unsigned shift;
        const char *sentence;
    } sizes[] = { { 8, "adjacent blocks of 256 B are found, and no other address is" },
                  { 16, "adjacent blocks of 64 KiB are found, and no other address is" },
                  { 28, "adjacent blocks of 256 MiB are found, and no other address is" } };

    for (size_t size = 0; size < sizeof(sizes) / sizeof(sizes[0]); size++) {
        for (size_t i = 0; i < PIECES; i++)
            model.addresses[i] = UINT64_C(0x7f0000000000) + (i << sizes[size].shift);
        is_u64(wander(PIECES), 0, sizes[size].sentence);
    }
}

/* The number of pieces in the fullest bucket. */
static uint64_t
fullest_bucket(void)
{
    struct tidei_piece_table *table = atomic_load(&model.map.table);
    uint64_t *counts = calloc(table->mask + 1, sizeof(*counts)), most = 0;

    for (size_t i = 0; i < PIECES && counts != NULL; i++) {
        uint64_t *count = &counts[tidei_piece_hash(model.addresses[i]) >> table->shift];

        if (model.pieces[i] != NULL && ++*count > most)
            most = *count;
    }
    free(counts);
    return most;
}

/* Adjacent blocks of one size spread evenly: no bucket gets much more than its share. */
static void
test_spread(void)
{
    for (unsigned shift = 8; shift <= 28; shift += 4) {
        begin();
        for (size_t i = 0; i < PIECES; i++) {
            model.addresses[i] = UINT64_C(0x7f0000000000) + (i << shift);
            add(i);
        }
        ok(fullest_bucket() <= 16, "blocks of %" PRIu64 " B side by side spread over the buckets",
           UINT64_C(1) << shift);
        end();
    }
}

/* All addresses belong to the last bucket, so that the later ones wrap to the first buckets. */
static void
test_chains(void)
{
    size_t count = 0;
    uintptr_t address = 0;

    /* The first table has 512 buckets, and grows with this many addresses. */
    while (count < 600) {
        address += 256;
        if (tidei_piece_hash(address) >> 55 == 511)
            model.addresses[count++] = address;
    }
    for (size_t i = count; i < PIECES; i++)
        model.addresses[i] = (i + 1) << 40 | 1;
    is_u64(wander(count), 0, "hundreds of addresses of the last bucket are found, and no other address is");
}

struct reader {
    _Atomic bool stop;
    uint64_t looks, missed;
};

/* Look up the addresses that stay, until told to stop and all were seen. */
static void *
read_on(void *argument)
{
    struct reader *reader = argument;

    do {
        for (size_t i = 0; i < STAY; i++, reader->looks++)
            reader->missed += tidei_piece_map_find(&model.map, (void *)model.addresses[i]) != model.pieces[i];
    } while (!atomic_load(&reader->stop));
    return NULL;
}

static void
test_reader(void)
{
    struct reader reader = { 0 };
    pthread_t thread;

    begin();
    for (size_t i = 0; i < PIECES; i++)
        model.addresses[i] = UINT64_C(0x7f0000000000) + (i << 12);
    for (size_t i = 0; i < STAY; i++)
        add(i);
    if (pthread_create(&thread, NULL, read_on, &reader) != 0)
        abort();
    for (int step = 0; step < STEPS / 4; step++) {
        size_t i = STAY + draw(PIECES - STAY);

        if (model.pieces[i] != NULL)
            remove_one(i);
        else
            add(i);
    }
    atomic_store(&reader.stop, true);
    pthread_join(thread, NULL);
    diag("%" PRIu64 " looks", reader.looks);
    is_u64(reader.missed, 0, "another thread finds the addresses that stay all the while, also as the table grows");
    end();
}

int
main(void)
{
    plan(11);
    draw_begin();
    test_sizes();
    test_spread();
    test_chains();
    test_reader();
    return done();
}
