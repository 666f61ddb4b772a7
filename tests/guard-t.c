/* Tests adaptors/guard/guard.c over host memory. (tests/gpu/guard-t.c uses device memory.) */
#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "gate.h"
#include "guard.h"
#include "tap.h"
#include "texts.h"
#include "upstream.h"

#define CANARY_TESTS 15

static void
check_canaries(void)
{
    struct tide_resource *base = base_host(0);
    struct tide_resource *guard = over(tide_resource_retain(base), 0, 0);
    unsigned char *block = take(guard, 100, 1), *page = take(guard, 10, 4096);
    uint64_t found = 1;

    memset(block, 7, 100);
    memset(page, 7, 10);
    ok(all_of((uintptr_t)page % 4096 == 0, tide_guard_check(guard, &found) == TIDE_OK, found == 0),
       "all of a block may be written to");
    block[100] = 1;
    block[103] = 2;
    ok(all_of(tide_guard_check(guard, &found) == TIDE_EDAMAGED, found == 1), "a byte behind it may not");
    ok(all_of(damage_count == 1, damages[0].place == TIDE_GUARD_AFTER, damages[0].block == block,
              damages[0].bytes == 100, damages[0].offset == 100, damages[0].changed_bytes == 2),
       "which is told, with where and how much");
    ok(all_of(damages[0].seen_bytes == TIDE_GUARD_SEEN, damages[0].seen[0] == 1, damages[0].seen[3] == 2,
              damages[0].seen[1] == damages[0].expected),
       "and what stands there");
    page[-1] = 9;
    ok(all_of(tide_guard_check(guard, NULL) == TIDE_EDAMAGED, damage_count == 3), "all of it is told again");
    ok(all_of(give(guard, block, 100, 1) == TIDE_EDAMAGED, block[50] == 7), "a block with damage stays allocated");
    has_words(tide_error_text(), "guard: bytes have changed before or behind block 0x", "and the text says so");
    ok(give(guard, block, 100, 1) == TIDE_OK, "then it can be freed");
    ok(all_of(give(guard, page, 10, 4096) == TIDE_EDAMAGED, damages[4].place == TIDE_GUARD_BEFORE,
              damages[4].offset == -1, damages[4].seen_bytes == 1, damages[4].seen[0] == 9),
       "a byte before a block is found, too");
    ok(all_of(give(guard, page, 10, 4096) == TIDE_OK, tide_guard_check(guard, NULL) == TIDE_OK),
       "and all is well again");
    block = take(guard, 100, 256);
    block[100 + 255] ^= 1;
    block[-256] ^= 1;
    ok(all_of(tide_guard_check(guard, &found) == TIDE_EDAMAGED, found == 2), "the canaries have 256 bytes");
    ok(give(guard, block, 100, 256) == TIDE_EDAMAGED, "both may have changed");
    has_words(tide_error_text(), "before and behind block", "which the text says");
    give(guard, block, 100, 256);
    tide_resource_release(guard);
    is_u64(figure(base, TIDE_QUERY_BYTES_USED), 0, "all of it goes back");
    guard = over(base, 16, 0);
    block = take(guard, 8, 8);
    ok(all_of(damage_count == 0, figure(base, TIDE_QUERY_BYTES_USED) == 8 + 32, give(guard, block, 8, 8) == TIDE_OK),
       "canaries may have 16 bytes");
    tide_resource_release(guard);
}

#define FREED_TESTS 17

static void
check_freed(void)
{
    struct tide_resource *base = base_host(0);
    struct tide_resource *guard = over(tide_resource_retain(base), 16, 1000);
    unsigned char *a = take(guard, 400, 16), *b = take(guard, 400, 16), *c = take(guard, 400, 16), *d;

    is_u64(figure(guard, TIDE_QUERY_BYTES_USED), 1200, "what was asked for is used");
    is_u64(figure(guard, TIDE_QUERY_BYTES_RESERVED), 1200 + 3 * 32, "and canaries are reserved");
    give(guard, a, 400, 16);
    give(guard, b, 400, 16);
    ok(all_of(figure(guard, TIDE_QUERY_BYTES_USED) == 400, figure(base, TIDE_QUERY_BYTES_USED) == 1200 + 3 * 32,
              figure(guard, TIDE_QUERY_BYTES_RESERVED) == 1200 + 3 * 32),
       "freed blocks are held");
    ok(give(guard, a, 400, 16) == TIDE_EPOINTER, "and cannot be freed again");
    has_words(tide_error_text(), "which was given back before",
              "the refusal of a second free says that it was given back before");
    a[399] = 1;
    ok(all_of(tide_guard_check(guard, NULL) == TIDE_EDAMAGED, damages[0].place == TIDE_GUARD_FREED,
              damages[0].block == a, damages[0].offset == 399, damages[0].changed_bytes == 1),
       "who writes to one is found");
    ok(all_of(give(guard, c, 400, 16) == TIDE_OK, damage_count == 2, damages[1].block == a),
       "at the latest when it leaves, for which another's free is not to blame");
    is_u64(figure(base, TIDE_QUERY_BYTES_USED), 800 + 2 * 32, "the oldest leaves when there are too many");
    ok(all_of(tide_trim(guard, 0) == TIDE_OK, figure(base, TIDE_QUERY_BYTES_USED) == 0, damage_count == 2),
       "a trim has all of them leave");
    d = take(guard, 1001, 16);
    ok(all_of(give(guard, d, 1001, 16) == TIDE_OK, figure(base, TIDE_QUERY_BYTES_USED) == 0),
       "what is larger than all that is held is not");
    d = take(guard, 1000, 16);
    ok(all_of(give(guard, d, 1000, 16) == TIDE_OK, figure(base, TIDE_QUERY_BYTES_USED) == 1032), "what is as large is");
    d[0] = 0;
    tide_resource_release(guard);
    ok(all_of(damage_count == 3, damages[2].block == d), "the rest is looked at in the end");
    is_u64(figure(base, TIDE_QUERY_BYTES_USED), 0, "and all of it goes back");

    guard = over(tide_resource_retain(base), 16, TIDE_NONE);
    d = take(guard, 100, 16);
    ok(all_of(give(guard, d, 100, 16) == TIDE_OK, figure(base, TIDE_QUERY_BYTES_USED) == 0), "it may hold nothing");
    tide_resource_release(guard);
    tide_resource_release(base);

    base = base_host(2000);
    guard = over(tide_resource_retain(base), 16, 0);
    d = take(guard, 1500, 16);
    give(guard, d, 1500, 16);
    ok(figure(base, TIDE_QUERY_BYTES_USED) == 1532, "what is held takes the room of others");
    d = take(guard, 1000, 16);
    ok(all_of(d != NULL, figure(base, TIDE_QUERY_BYTES_USED) == 1032), "but leaves for them");
    ok(all_of(take(guard, 1500, 16) == NULL, give(guard, d, 1000, 16) == TIDE_OK), "unless there is none");
    tide_resource_release(guard);
    tide_resource_release(base);
}

#define TELL_TESTS 3

/* Without a function it is the message sink that is told. */
static void
check_told(void)
{
    struct tide_resource *guard;
    unsigned char *block;
    char wanted[256];

    tide_message_sink_set(sink, NULL);
    if (tide_stack_parse("guard | host", &guard) != TIDE_OK)
        abort();
    block = take(guard, 100, 1);
    block[101] = 0x42;
    give(guard, block, 100, 1);
    snprintf(wanted, sizeof(wanted),
             "guard: 1 bytes have changed behind block %p of 100 B: at +2 stands 0x42, expected 0xa5", (void *)block);
    is_string(told, wanted, "what is behind a block is told from its end");
    block[-3] = 0x43;
    give(guard, block, 100, 1);
    snprintf(wanted, sizeof(wanted),
             "guard: 1 bytes have changed before block %p of 100 B: at -3 stands 0x43, expected 0xa5", (void *)block);
    is_string(told, wanted, "what is before it from its begin");
    give(guard, block, 100, 1);
    block[3] = 0x44;
    tide_trim(guard, 0);
    snprintf(wanted, sizeof(wanted),
             "guard: 1 bytes have changed in freed block %p of 100 B: at +3 stands 0x44, expected 0xdd", (void *)block);
    is_string(told, wanted, "and so what is in it");
    tide_message_sink_set(NULL, NULL);
    tide_resource_release(guard);
}

#define FAILURE_TESTS 8

static void
check_failures(void)
{
    struct gate *gate = gate_create(base_host(0));
    struct tide_resource *guard = over(tide_resource_retain(&gate->base), 16, 1000);
    unsigned char *block = take(guard, 100, 16);

    ok(all_of(give(guard, block, 101, 16) == TIDE_EMISMATCH, give(guard, block, 100, 8) == TIDE_EMISMATCH,
              give(guard, block + 1, 100, 16) == TIDE_EPOINTER, give(guard, NULL, 100, 16) == TIDE_EPOINTER),
       "another size, alignment or address is refused");
    gate->order_all_status = TIDE_EDRIVER;
    ok(all_of(give(guard, block, 100, 16) == TIDE_EDRIVER, tide_guard_check(guard, NULL) == TIDE_EDRIVER),
       "where the device cannot be waited for nothing is freed");
    gate->order_all_status = TIDE_OK;
    ok(give(guard, block, 100, 16) == TIDE_OK, "once the device can be waited for the block is freed");
    gate->deallocate_status = TIDE_EDRIVER;
    ok(all_of(tide_trim(guard, 0) == TIDE_OK, figure(guard, TIDE_QUERY_BYTES_RESERVED) == 132),
       "what upstream does not take back is held again");
    ok(all_of(tide_trim(guard, 0) == TIDE_OK, figure(guard, TIDE_QUERY_BYTES_RESERVED) == 0),
       "a trim gives the block that was held back to upstream");
    block = take(guard, 5000, 16);
    gate->deallocate_status = TIDE_EDRIVER;
    ok(all_of(give(guard, block, 5000, 16) == TIDE_EDRIVER, give(guard, block, 5000, 16) == TIDE_OK),
       "what was not to be held stays with its owner");
    ok(all_of(figure(guard, TIDE_QUERY_BYTES_USED) == 0, figure(&gate->base, TIDE_QUERY_BYTES_USED) == 0),
       "and nothing is lost");
    block = take(guard, SIZE_MAX - 47, 16);
    ok(all_of(block == NULL, take(guard, SIZE_MAX - 31, 16) == NULL, strstr(tide_error_text(), "overflows") != NULL),
       "a size that overflows with its canaries is refused");
    tide_resource_release(guard);
    tide_resource_release(&gate->base);
}

#define BAD_TESTS 4

static void
check_bad_input(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *guard;

    ok(all_of(over(base_host(0), 15, 0) == NULL, over(base_host(0), 48, 0) == NULL,
              over(base_host(0), 2 * MIB, 0) == NULL, over(base_host(0), 8, 0) == NULL),
       "a canary that is no power of two, too small or too large is refused");
    ok(over(base_host(0), 0, UINT64_C(1) << 51) == NULL, "so is more to hold than any machine has");
    ok(all_of(tide_guard_create(&upstream->base, NULL, &guard) == TIDE_EUNSUPPORTED, guard == NULL,
              over(base_sim(0), 0, 0) == NULL),
       "there is no guard over addresses alone");
    ok(all_of(tide_guard_create(NULL, NULL, &guard) == TIDE_EINVAL,
              tide_guard_create(&upstream->base, NULL, NULL) == TIDE_EINVAL,
              tide_guard_check(NULL, NULL) == TIDE_EINVAL, tide_guard_check(&upstream->base, NULL) == TIDE_EINVAL),
       "a guard without upstream, or without a place for it, is refused");
    tide_resource_release(&upstream->base);
}

static const struct stack_text texts[] = {
    { "guard|host", "guard | host" },
    { "guard(canary=256, hold=16MiB)|host", "guard | host" },
    { "guard(canary=4KiB, hold=1GiB)|host", "guard(canary=4KiB, hold=1GiB) | host" },
    { "guard(hold=0)|host", "guard(hold=0) | host" },
    { "guard|sim", "stack text, column 1: guard: the layers below have no memory that can be read" },
    { "guard(canary=8)|host",
      "stack text, column 14: guard: argument 'canary': '8' is too small, expected a power of two "
      "from 16 to 1MiB" },
    { "guard(canary=2MiB)|host",
      "stack text, column 14: guard: argument 'canary': '2MiB' is too large, expected a power "
      "of two from 16 to 1MiB" },
};

#define TEXT_TESTS ((int)(sizeof(texts) / sizeof(texts[0])))

static struct tide_resource *
create(void *context)
{
    return over(base_host(0), 0, *(uint64_t *)context);
}

int
main(void)
{
    uint64_t holds[] = { TIDE_NONE, 100 * KIB };

    plan(2 * CONTRACT_TESTS + CANARY_TESTS + FREED_TESTS + TELL_TESTS + FAILURE_TESTS + BAD_TESTS + TEXT_TESTS);
    for (int i = 0; i < 2; i++) {
        const struct contract contract = {
            .name = "guard", .create = create, .context = &holds[i], .largest_bytes = 64 * KIB, .knows_pointers = true
        };

        contract_check(&contract);
    }
    check_canaries();
    check_freed();
    check_told();
    check_failures();
    check_bad_input();
    check_texts(texts, TEXT_TESTS);
    return done();
}
