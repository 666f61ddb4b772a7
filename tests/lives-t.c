/* Tests the rules by which frees find their allocations. */
#include "tap.h"
#include "src/tables/lives.h"

/* Whether the first of two has the smaller number. */
static bool
is_smaller(const void *context, uint32_t one, uint32_t other)
{
    (void)context;
    return one < other;
}

static void
test_addresses(struct tidei_lives *lives)
{
    uint32_t earlier = 9;

    ok(tidei_lives_add(lives, 0x1000, 1, 10) && tidei_lives_add(lives, 0x1000, 2, 20),
       "an address is added in two layers");
    is_u64(tidei_lives_take(lives, 0x1000, 2, NULL, NULL), 20, "a free ends the allocation of its own layer");
    is_u64(tidei_lives_take(lives, 0x1000, 2, NULL, NULL), 0, "a second free of that layer ends nothing");
    ok(tidei_lives_has(lives, 0x1000, 1) && !tidei_lives_has(lives, 0x1000, 2),
       "the allocation of the other layer stays");
    ok(tidei_lives_replace(lives, 0x1000, 1, 11, &earlier) && earlier == 10,
       "a repeated allocation of an address replaces the earlier one");
    is_u64(tidei_lives_take(lives, 0x1000, 1, NULL, NULL), 11, "a free ends the repeated allocation");
    is_u64(tidei_lives_take(lives, 0x1000, 1, NULL, NULL), 0, "once");
    ok(tidei_lives_replace(lives, 0x1000, 1, 12, &earlier) && earlier == 0,
       "an allocation of an address without a live one replaces none");
    ok(tidei_lives_add(lives, 0x1000, 1, 13) && tidei_lives_add(lives, 0x1000, 1, 11),
       "two more allocations of one address are added");
    is_u64(tidei_lives_take(lives, 0x1000, 1, is_smaller, NULL), 11,
           "the caller decides which allocation of an address a free ends");
    tidei_lives_renumber(lives, 0x1000, 0, 1, 13, 7);
    is_u64(tidei_lives_take(lives, 0x1000, 1, is_smaller, NULL), 7,
           "a renumbered allocation is taken under its new number");
    is_u64(tidei_lives_take(lives, 0x1000, 1, is_smaller, NULL), 12,
           "the last free of an address ends the allocation that is left");
}

static void
test_nulls(struct tidei_lives *lives)
{
    uint32_t earlier = 9, first;

    ok(tidei_lives_add(lives, 0, 1, 31), "an allocation of 0 bytes is added");
    first = lives->last_null_id;
    ok(tidei_lives_replace(lives, 0, 1, 32, &earlier) && earlier == 0, "a second allocation of 0 bytes replaces none");
    ok(tidei_lives_add(lives, 0, 2, 33) && tidei_lives_add(lives, first, 1, 34),
       "an allocation of 0 bytes in another layer, and an address like a table index, are added");
    is_u64(tidei_lives_take(lives, 0, 1, NULL, NULL), 32, "a free of 0 bytes ends the latest allocation of its layer");
    tidei_lives_renumber(lives, 0, first, 1, 31, 35);
    is_u64(tidei_lives_take(lives, 0, 1, NULL, NULL), 35, "a second free of 0 bytes ends the allocation before it");
    is_u64(tidei_lives_take(lives, 0, 1, NULL, NULL), 0, "a free of 0 bytes without a live allocation ends none");
    is_u64(tidei_lives_take(lives, first, 1, NULL, NULL), 34,
           "an address like a table index is not taken for an allocation of 0 bytes");
    ok(!tidei_lives_has(lives, 0, 2), "address 0 has no entry by address");
}

/* Ids of freed allocations of 0 bytes are reused, but never by two live ones. */
static void
test_null_ids(struct tidei_lives *lives)
{
    uint32_t first, second;
    bool good = true;

    ok(tidei_lives_add(lives, 0, 3, 41), "an allocation of 0 bytes of layer 3");
    first = lives->last_null_id;
    ok(tidei_lives_add(lives, 0, 4, 42), "an allocation of 0 bytes of layer 4");
    second = lives->last_null_id;
    is_u64(tidei_lives_take(lives, 0, 3, NULL, NULL), 41, "the allocation of 0 bytes of layer 3 is freed");
    ok(tidei_lives_add(lives, 0, 4, 43) && lives->last_null_id != second,
       "a third allocation of 0 bytes has an id of its own");
    tidei_lives_renumber(lives, 0, second, 4, 42, 44);
    tidei_lives_renumber(lives, 0, first, 3, 41, 45);
    is_u64(tidei_lives_take(lives, 0, 4, NULL, NULL), 43, "an allocation of 0 bytes that was freed is not renumbered");
    is_u64(tidei_lives_take(lives, 0, 4, NULL, NULL), 44, "a live allocation of 0 bytes is renumbered");
    for (uint32_t i = 1; i <= 200000; i++)
        good &= tidei_lives_add(lives, 0, i <= 100000 ? 5 : 6, i);
    for (uint32_t i = 100000; i > 0; i--)
        good &= tidei_lives_take(lives, 0, 5, NULL, NULL) == i;
    ok(good, "100,000 allocations of 0 bytes of a layer are freed, while 100,000 later ones of another are live");
}

int
main(void)
{
    struct tidei_lives lives = { 0 };
    bool good = true;

    plan(28);
    tidei_map_draw_key(&lives.by_address);
    test_addresses(&lives);
    test_nulls(&lives);
    test_null_ids(&lives);
    for (uint32_t i = 1; i <= 100000; i++)
        good &= tidei_lives_add(&lives, (uint64_t)i << 40, 1, i);
    for (uint32_t i = 1; i <= 100000; i++)
        good &= tidei_lives_take(&lives, (uint64_t)i << 40, 1, NULL, NULL) == i;
    ok(good, "100,000 addresses that differ only in high bits are all found");
    tidei_lives_free(&lives);
    return done();
}
