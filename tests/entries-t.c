/* Tests how entries are taken out of a concurrent table one by one: all that are wanted, in one walk over it. */
#include "config.h"

#include "src/tables/entries.h"

#include "tap.h"

#define ENTRIES 21000 /* divisible by 3 */

struct entry {
    uint64_t key;
    unsigned group;
};

static struct tidei_entries tables[3]; /* each is filled once, and none is torn down */
static struct tidei_entries *table;
static unsigned asked;
static uint64_t passed; /* the key of the last entry that was not wanted: it stands before the walk, and not far */

static bool
is_of_group(const void *entry, const void *group)
{
    bool wanted = ((const struct entry *)entry)->group == *(const unsigned *)group;

    asked++;
    if (!wanted)
        passed = ((const struct entry *)entry)->key;
    return wanted;
}

/* At uneven distances, so that keys collide: those at even ones hardly do. A bijection, so that they differ. */
static uint64_t
key_of(unsigned i)
{
    uint64_t key = (i + 1) * UINT64_C(0xbf58476d1ce4e5b9);

    key = (key ^ key >> 27) * UINT64_C(0x94d049bb133111eb);
    return key ^ key >> 31;
}

/* Begin with entries of as many groups, in turns. */
static void
fill(unsigned groups)
{
    table = table == NULL ? tables : table + 1;
    tidei_entries_init(table, sizeof(struct entry));
    for (unsigned i = 0; i < ENTRIES; i++) {
        struct entry entry = { key_of(i), i % groups };

        if (!tidei_entries_put(table, entry.key, &entry))
            diag("no host memory");
    }
    asked = 0;
}

/* Take the entries of a group, and after each one that the walk has passed, by its key. How many it were. */
static unsigned
take(unsigned group, bool others)
{
    struct tidei_entries_cursor cursor = { 0 };
    struct entry entry, other;
    unsigned count = 0;
    uint64_t key;

    while (tidei_entries_take_next(table, &cursor, is_of_group, &group, &key, &entry)) {
        if (key != entry.key || entry.group != group)
            diag("an entry of another key or group");
        if (others)
            (void)tidei_entries_take(table, passed, &other);
        count++;
    }
    return count;
}

static unsigned
left(void)
{
    unsigned count = 0;
    struct entry entry;

    for (unsigned i = 0; i < ENTRIES; i++)
        count += tidei_entries_get(table, key_of(i), &entry) && entry.key == key_of(i);
    return count;
}

int
main(void)
{
    plan(6);
    fill(2);
    ok(take(1, false) == ENTRIES / 2 && left() == ENTRIES / 2,
       "all entries that are wanted are taken out, and no other");
    if (!ok(asked <= 2 * ENTRIES, "the walk looks at each entry about once, however many are taken"))
        diag("%u times at %u entries", asked, ENTRIES);
    ok(take(1, false) == 0, "a second walk finds none");
    fill(1);
    ok(take(0, false) == ENTRIES && left() == 0, "a table is emptied");
    fill(3);
    ok(take(1, true) == ENTRIES / 3, "none is missed where others are taken meanwhile, and move entries up");
    ok(take(1, false) == 0 && left() < ENTRIES - ENTRIES / 3, "and none is left");
    return done();
}
