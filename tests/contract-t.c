/* Tests that the contract test passes over the fake upstream of the other tests, so that both can be trusted. */
#include "contract.h"
#include "tap.h"
#include "upstream.h"

static struct tide_resource *
create(void *context)
{
    (void)context;
    return &upstream_create()->base;
}

static void
check_knobs(struct upstream *upstream)
{
    void *const chosen[] = { (void *)0x7000, (void *)0x9000 };
    void *first = NULL;
    void *second = NULL;

    upstream->fail_allocate = 2;
    ok(all_of(tide_allocate(&upstream->base, 8, 8, 0, &first) == TIDE_OK,
              tide_allocate(&upstream->base, 8, 8, 0, &second) == TIDE_ECAPACITY, second == NULL,
              tide_allocate(&upstream->base, 8, 8, 0, &second) == TIDE_OK),
       "the upstream fails the nth request and no other");
    ok(all_of(tide_deallocate(&upstream->base, first, 16, 8, 0) == TIDE_EMISMATCH, upstream->wrong_frees == 1),
       "the upstream counts a free of another size");
    upstream->reuse = true;
    tide_deallocate(&upstream->base, second, 8, 8, 0);
    ok(all_of(tide_allocate(&upstream->base, 8, 8, 0, &first) == TIDE_OK, first == second),
       "the upstream gives out at once what was freed last");
    upstream->chosen = chosen;
    upstream->chosen_count = 2;
    tide_allocate(&upstream->base, 8, 8, 0, &first);
    tide_allocate(&upstream->base, 8, 8, 0, &second);
    ok(all_of(first == chosen[0], second == chosen[1]), "the upstream gives out chosen addresses in their order");
}

int
main(void)
{
    const struct contract contract = {
        .name = "upstream", .create = create, .largest_bytes = 1 << 20, .knows_pointers = true
    };
    struct upstream *upstream;
    bool destroyed = false;

    plan(CONTRACT_TESTS + 5);
    contract_check(&contract);
    upstream = upstream_create();
    upstream->destroyed = &destroyed;
    check_knobs(upstream);
    tide_resource_release(&upstream->base);
    ok(destroyed, "the upstream reports its destruction");
    return done();
}
