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
       "the whole of a block may be written to");
    block[100] = 1;
    block[103] = 2;
    ok(all_of(tide_guard_check(guard, &found) == TIDE_EDAMAGED, found == 1), "a write behind a block is found");
    ok(all_of(damage_count == 1, damages[0].place == TIDE_GUARD_AFTER, damages[0].block == block,
              damages[0].bytes == 100, damages[0].offset == 100, damages[0].changed_bytes == 2),
       "the damage behind a block is reported with its place, offset and length");
    ok(all_of(damages[0].seen_bytes == TIDE_GUARD_SEEN, damages[0].seen[0] == 1, damages[0].seen[3] == 2,
              damages[0].seen[1] == damages[0].expected),
       "the damage behind a block is reported with the bytes seen and expected");
    page[-1] = 9;
    ok(all_of(tide_guard_check(guard, NULL) == TIDE_EDAMAGED, damage_count == 3),
       "a second check reports the same damage again");
    ok(all_of(give(guard, block, 100, 1) == TIDE_EDAMAGED, block[50] == 7),
       "the free of a damaged block fails, and leaves its memory as it is");
    has_words(tide_error_text(), "guard: bytes have changed before or behind block 0x",
              "the error names the block with damage");
    ok(give(guard, block, 100, 1) == TIDE_OK, "a second free of a damaged block succeeds");
    ok(all_of(give(guard, page, 10, 4096) == TIDE_EDAMAGED, damages[4].place == TIDE_GUARD_BEFORE,
              damages[4].offset == -1, damages[4].seen_bytes == 1, damages[4].seen[0] == 9),
       "a byte that changed before a block is found by its free");
    ok(all_of(give(guard, page, 10, 4096) == TIDE_OK, tide_guard_check(guard, NULL) == TIDE_OK),
       "after the second free of the damaged block a check finds nothing");
    block = take(guard, 100, 256);
    block[100 + 255] ^= 1;
    block[-256] ^= 1;
    ok(all_of(tide_guard_check(guard, &found) == TIDE_EDAMAGED, found == 2),
       "a byte that changed 256 bytes before or behind a block is found");
    ok(give(guard, block, 100, 256) == TIDE_EDAMAGED, "the free of a block with damage before and behind it fails");
    has_words(tide_error_text(), "before and behind block", "the error says that both sides have changed");
    give(guard, block, 100, 256);
    tide_resource_release(guard);
    is_u64(figure(base, TIDE_QUERY_BYTES_USED), 0, "after all frees base has all memory back");
    guard = over(base, 16, 0);
    block = take(guard, 8, 8);
    ok(all_of(damage_count == 0, figure(base, TIDE_QUERY_BYTES_USED) == 8 + 32, give(guard, block, 8, 8) == TIDE_OK),
       "a block between canaries of 16 bytes is allocated and freed");
    tide_resource_release(guard);
}

#define FREED_TESTS 17

static void
check_freed(void)
{
    struct tide_resource *base = base_host(0);
    struct tide_resource *guard = over(tide_resource_retain(base), 16, 1000);
    unsigned char *a = take(guard, 400, 16), *b = take(guard, 400, 16), *c = take(guard, 400, 16), *d;

    is_u64(figure(guard, TIDE_QUERY_BYTES_USED), 1200, "the bytes used are those that were requested");
    is_u64(figure(guard, TIDE_QUERY_BYTES_RESERVED), 1200 + 3 * 32, "the bytes reserved include the canaries");
    give(guard, a, 400, 16);
    give(guard, b, 400, 16);
    ok(all_of(figure(guard, TIDE_QUERY_BYTES_USED) == 400, figure(base, TIDE_QUERY_BYTES_USED) == 1200 + 3 * 32,
              figure(guard, TIDE_QUERY_BYTES_RESERVED) == 1200 + 3 * 32),
       "freed blocks are held: they count as reserved");
    ok(give(guard, a, 400, 16) == TIDE_EPOINTER, "a held block cannot be freed again");
    has_words(tide_error_text(), "which was given back before",
              "the refusal of a second free says that it was given back before");
    a[399] = 1;
    ok(all_of(tide_guard_check(guard, NULL) == TIDE_EDAMAGED, damages[0].place == TIDE_GUARD_FREED,
              damages[0].block == a, damages[0].offset == 399, damages[0].changed_bytes == 1),
       "a write to a held block is found by a check");
    ok(all_of(give(guard, c, 400, 16) == TIDE_OK, damage_count == 2, damages[1].block == a),
       "a write to a held block is found when it is released, and the free that releases it succeeds");
    is_u64(figure(base, TIDE_QUERY_BYTES_USED), 800 + 2 * 32,
           "the oldest held block is released when more than the maximum is held");
    ok(all_of(tide_trim(guard, 0) == TIDE_OK, figure(base, TIDE_QUERY_BYTES_USED) == 0, damage_count == 2),
       "a trim releases all held blocks");
    d = take(guard, 1001, 16);
    ok(all_of(give(guard, d, 1001, 16) == TIDE_OK, figure(base, TIDE_QUERY_BYTES_USED) == 0),
       "a block larger than the maximum is not held");
    d = take(guard, 1000, 16);
    ok(all_of(give(guard, d, 1000, 16) == TIDE_OK, figure(base, TIDE_QUERY_BYTES_USED) == 1032),
       "a block as large as the maximum is held");
    d[0] = 0;
    tide_resource_release(guard);
    ok(all_of(damage_count == 3, damages[2].block == d),
       "blocks held at the end are checked when the layer is destroyed");
    is_u64(figure(base, TIDE_QUERY_BYTES_USED), 0, "destroying the layer gives all memory back");

    guard = over(tide_resource_retain(base), 16, TIDE_NONE);
    d = take(guard, 100, 16);
    ok(all_of(give(guard, d, 100, 16) == TIDE_OK, figure(base, TIDE_QUERY_BYTES_USED) == 0),
       "with hold=0 a freed block is not held");
    tide_resource_release(guard);
    tide_resource_release(base);

    base = base_host(2000);
    guard = over(tide_resource_retain(base), 16, 0);
    d = take(guard, 1500, 16);
    give(guard, d, 1500, 16);
    ok(figure(base, TIDE_QUERY_BYTES_USED) == 1532, "a held block counts in the layer below");
    d = take(guard, 1000, 16);
    ok(all_of(d != NULL, figure(base, TIDE_QUERY_BYTES_USED) == 1032),
       "held blocks are released for a request that would fail");
    ok(all_of(take(guard, 1500, 16) == NULL, give(guard, d, 1000, 16) == TIDE_OK),
       "a request that no held block makes room for fails");
    tide_resource_release(guard);
    tide_resource_release(base);
}

#define TELL_TESTS 3

/* Without a damage function, damage goes to the message sink. */
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
    is_string(told, wanted, "damage behind a block is reported with its offset from the block's end");
    block[-3] = 0x43;
    give(guard, block, 100, 1);
    snprintf(wanted, sizeof(wanted),
             "guard: 1 bytes have changed before block %p of 100 B: at -3 stands 0x43, expected 0xa5", (void *)block);
    is_string(told, wanted, "damage before a block is reported with its offset from the block's begin");
    give(guard, block, 100, 1);
    block[3] = 0x44;
    tide_trim(guard, 0);
    snprintf(wanted, sizeof(wanted),
             "guard: 1 bytes have changed in freed block %p of 100 B: at +3 stands 0x44, expected 0xdd", (void *)block);
    is_string(told, wanted, "damage in a freed block is reported with its offset from the block's begin");
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
       "a free with another size, alignment or address is refused");
    gate->order_all_status = TIDE_EDRIVER;
    ok(all_of(give(guard, block, 100, 16) == TIDE_EDRIVER, tide_guard_check(guard, NULL) == TIDE_EDRIVER),
       "a free and a check fail if the device cannot be synchronized");
    gate->order_all_status = TIDE_OK;
    ok(give(guard, block, 100, 16) == TIDE_OK, "the block is freed once the device can be synchronized");
    gate->deallocate_status = TIDE_EDRIVER;
    ok(all_of(tide_trim(guard, 0) == TIDE_OK, figure(guard, TIDE_QUERY_BYTES_RESERVED) == 132),
       "a held block that upstream does not take back is held again");
    ok(all_of(tide_trim(guard, 0) == TIDE_OK, figure(guard, TIDE_QUERY_BYTES_RESERVED) == 0),
       "a second trim gives the held block back to upstream");
    block = take(guard, 5000, 16);
    gate->deallocate_status = TIDE_EDRIVER;
    ok(all_of(give(guard, block, 5000, 16) == TIDE_EDRIVER, give(guard, block, 5000, 16) == TIDE_OK),
       "a block too large to be held whose free has failed can be freed again");
    ok(all_of(figure(guard, TIDE_QUERY_BYTES_USED) == 0, figure(&gate->base, TIDE_QUERY_BYTES_USED) == 0),
       "after failed frees no block is lost");
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
    ok(over(base_host(0), 0, UINT64_C(1) << 51) == NULL, "a hold over what any machine has is refused");
    ok(all_of(tide_guard_create(&upstream->base, NULL, &guard) == TIDE_EUNSUPPORTED, guard == NULL,
              over(base_sim(0), 0, 0) == NULL),
       "a guard over a base without memory is refused");
    ok(all_of(tide_guard_create(NULL, NULL, &guard) == TIDE_EINVAL,
              tide_guard_create(&upstream->base, NULL, NULL) == TIDE_EINVAL,
              tide_guard_check(NULL, NULL) == TIDE_EINVAL, tide_guard_check(&upstream->base, NULL) == TIDE_EINVAL),
       "a guard without upstream, or without a place for the result, is refused");
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
