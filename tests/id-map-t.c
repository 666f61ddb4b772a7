/* Tests the hash table of ids against a plain array, with random additions and removals that make long chains. */
#include "tests/draw.h"
#include "tests/tap.h"

#include <time.h>
#include <unistd.h>

#include "viewer/base/id-map.h"

#define IDS   700
#define STEPS 200000

#define CHOSEN 100000

/* The length of the longest run of used slots, which a search may have to walk. */
static size_t
longest_run(const struct tidei_map *map)
{
    size_t longest = 0;
    size_t run = 0;

    for (size_t i = 0; i <= map->mask; i++) {
        run = map->entries[i].used ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/*
 * The longest run for ids that collide under a known hash: multiples of the inverse of Fibonacci hashing's multiplier,
 * of high powers of two, and an arithmetic progression. A table that is at most half full does not have a run of a
 * thousand by chance.
 */
static size_t
longest_of_chosen(void)
{
    static const uint64_t factors[] = { UINT64_C(0xf1de83e19937733d), UINT64_C(1) << 47, UINT64_C(1) << 32, 4096, 1 };
    size_t longest = 0;

    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
        struct id_map map = { 0 };
        size_t run;

        for (uint64_t id = 1; id <= CHOSEN; id++)
            id_map_add(&map, id * factors[i], (uint32_t)id);
        run = longest_run(&map);
        diag("factor 0x%" PRIx64 ": %zu in a row", factors[i], run);
        longest = run > longest ? run : longest;
        id_map_free(&map);
    }
    return longest;
}

/*
 * A pool's address is allocated again before its free is recorded: two entries of one key, of which either may be
 * taken.
 */
static void
check_several(void)
{
    struct tidei_map map = { 0 };
    uint64_t sum = 0;
    uint32_t number;
    size_t count = 0;

    for (uint32_t i = 0; i < 1000; i++)
        tidei_map_add(&map, i % 10 * 512, (uint16_t)(i % 2), i);
    for (size_t i = tidei_map_first(&map, 512, 1); i != TIDEI_MAP_NONE; i = tidei_map_next(&map, i)) {
        sum += map.entries[i].number;
        count++;
    }
    ok(count == 100 && sum == 100 * 1 + 10 * 4950,
       "the hundred entries of a key are found, and no entry of another key");
    is_u64(tidei_map_first(&map, 512, 0), TIDEI_MAP_NONE, "an entry is not found under another layer");
    for (count = 0; tidei_map_take(&map, 512, 1, &number); count++)
        sum -= number;
    ok(count == 100 && sum == 0 && map.count == 900, "each of the hundred entries can be taken out once");
    tidei_map_free(&map);
}

/* The same for ids of many layers, each with its layer's number in the high bits. */
static size_t
longest_of_layers(void)
{
    struct tidei_map map = { 0 };
    size_t longest;

    tidei_map_draw_key(&map);
    for (uint32_t layer = 0; layer <= UINT16_MAX; layer++)
        tidei_map_add(&map, (uint64_t)layer << 48 ^ 0x1000, (uint16_t)layer, layer);
    longest = longest_run(&map);
    tidei_map_free(&map);
    return longest;
}

int
main(void)
{
    struct id_map map = { 0 };
    bool there[IDS] = { false };
    uint32_t numbers[IDS];
    uint64_t ids[IDS];
    uint32_t number = 0;
    size_t count = 0;
    size_t wrong = 0;

    plan(9);
    draw_begin();
    ok(id_map_find(&map, 0) == NULL && !id_map_take(&map, 0, &number), "an empty table finds nothing");
    /* Ids as pointers have them: multiples of 512 and of 2 MiB, and 0. */
    for (size_t i = 0; i < IDS; i++)
        ids[i] = i % 2 == 0 ? i * 512 : UINT64_C(0x7f0000000000) + (i << 21);
    for (uint32_t step = 0; step < STEPS; step++) {
        size_t i = draw(step % 20000 < 10000 ? IDS : IDS / 20);
        uint32_t *found = id_map_find(&map, ids[i]);

        wrong += there[i] ? found == NULL || *found != numbers[i] : found != NULL;
        if (!there[i]) {
            wrong += !id_map_add(&map, ids[i], step);
            numbers[i] = step;
        } else {
            wrong += !id_map_take(&map, ids[i], &number) || number != numbers[i];
        }
        there[i] = !there[i];
        count += there[i] ? 1 : (size_t)-1;
    }
    is_u64(wrong, 0, "every id in the table is found with its number, and no other id is");
    is_u64(map.count, count, "the table knows how many it holds");
    for (size_t i = 0; i < IDS; i++)
        wrong += (id_map_find(&map, ids[i]) != NULL) != there[i];
    is_u64(wrong, 0, "at the end exactly the ids remain that were not taken out");
    id_map_free(&map);
    check_several();
    ok(longest_of_chosen() < 1000, "ids that were chosen to collide are spread by the random key");
    ok(longest_of_layers() < 1000, "ids that were chosen for their layers are spread by the random key");
    return done();
}
