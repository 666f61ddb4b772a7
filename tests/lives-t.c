/* Tests the rules by which frees find their allocations. */
#include "tap.h"
#include "src/tables/lives.h"

/* Of two, the one with the smaller number. */
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

    ok(tidei_lives_add(lives, 0x1000, 1, 10) && tidei_lives_add(lives, 0x1000, 2, 20), "one address in two layers");
    is_u64(tidei_lives_take(lives, 0x1000, 2, NULL, NULL), 20, "a free ends that of its own layer");
    is_u64(tidei_lives_take(lives, 0x1000, 2, NULL, NULL), 0, "a second one there is unmatched");
    ok(tidei_lives_has(lives, 0x1000, 1) && !tidei_lives_has(lives, 0x1000, 2), "the other lives");
    ok(tidei_lives_replace(lives, 0x1000, 1, 11, &earlier) && earlier == 10, "allocated again, it takes its place");
    is_u64(tidei_lives_take(lives, 0x1000, 1, NULL, NULL), 11, "and is what a free ends");
    is_u64(tidei_lives_take(lives, 0x1000, 1, NULL, NULL), 0, "once");
    ok(tidei_lives_replace(lives, 0x1000, 1, 12, &earlier) && earlier == 0, "where nothing lives nothing is replaced");
    ok(tidei_lives_add(lives, 0x1000, 1, 13) && tidei_lives_add(lives, 0x1000, 1, 11), "two more of one address");
    is_u64(tidei_lives_take(lives, 0x1000, 1, is_smaller, NULL), 11, "the caller says which of them a free ends");
    tidei_lives_renumber(lives, 0x1000, 0, 1, 13, 7);
    is_u64(tidei_lives_take(lives, 0x1000, 1, is_smaller, NULL), 7, "one has another number by then");
    is_u64(tidei_lives_take(lives, 0x1000, 1, is_smaller, NULL), 12, "and the last one is left");
}

static void
test_nulls(struct tidei_lives *lives)
{
    uint32_t earlier = 9, first;

    ok(tidei_lives_add(lives, 0, 1, 31), "an allocation of 0 bytes");
    first = lives->last_null_id;
    ok(tidei_lives_replace(lives, 0, 1, 32, &earlier) && earlier == 0, "a second one replaces none");
    ok(tidei_lives_add(lives, 0, 2, 33) && tidei_lives_add(lives, first, 1, 34),
       "one elsewhere, and an address like it");
    is_u64(tidei_lives_take(lives, 0, 1, NULL, NULL), 32, "the latest of the layer is freed first");
    tidei_lives_renumber(lives, 0, first, 1, 31, 35);
    is_u64(tidei_lives_take(lives, 0, 1, NULL, NULL), 35, "then the one before");
    is_u64(tidei_lives_take(lives, 0, 1, NULL, NULL), 0, "then there is none");
    is_u64(tidei_lives_take(lives, first, 1, NULL, NULL), 34, "addresses are not mistaken for them");
    ok(!tidei_lives_has(lives, 0, 2), "nothing lives at no address");
}

/* Ids are used again: not by two that live. */
static void
test_null_ids(struct tidei_lives *lives)
{
    uint32_t first, second;
    bool good = true;

    ok(tidei_lives_add(lives, 0, 3, 41), "an allocation of 0 bytes of layer 3");
    first = lives->last_null_id;
    ok(tidei_lives_add(lives, 0, 4, 42), "and one of layer 4");
    second = lives->last_null_id;
    is_u64(tidei_lives_take(lives, 0, 3, NULL, NULL), 41, "the first is freed");
    ok(tidei_lives_add(lives, 0, 4, 43) && lives->last_null_id != second, "a third has an id that nobody else has");
    tidei_lives_renumber(lives, 0, second, 4, 42, 44);
    tidei_lives_renumber(lives, 0, first, 3, 41, 45);
    is_u64(tidei_lives_take(lives, 0, 4, NULL, NULL), 43, "one that is gone is not renumbered");
    is_u64(tidei_lives_take(lives, 0, 4, NULL, NULL), 44, "one that lives is");
    for (uint32_t i = 1; i <= 200000; i++)
        good &= tidei_lives_add(lives, 0, i <= 100000 ? 5 : 6, i);
    for (uint32_t i = 100000; i > 0; i--)
        good &= tidei_lives_take(lives, 0, 5, NULL, NULL) == i;
    ok(good, "100,000 of a layer are freed at once while 100,000 later ones of another live");
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
    ok(good, "100,000 addresses that differ in high bits alone are all found");
    tidei_lives_free(&lives);
    return done();
}
