/* Tests host: real memory, and a capacity that is exact to the byte. */
#include "contract.h"
#include "tap.h"

static struct tide_resource *
create(void *context)
{
    struct tide_resource *host;

    return tide_host_create(context, &host) == TIDE_OK ? host : NULL;
}

static uint64_t
figure(struct tide_resource *resource, enum tide_query what)
{
    uint64_t value;

    tide_query(resource, what, &value);
    return value;
}

static void
check_capacity(void)
{
    struct tide_host_options options = { TIDE_OPTIONS(options), .capacity_bytes = 1000 };
    struct tide_resource *host = create(&options);
    void *first;
    void *second;

    ok(tide_allocate(host, 400, 64, 0, &first) == TIDE_OK, "400 of 1000 bytes pass");
    ok(all_of(tide_allocate(host, 601, 64, 0, &second) == TIDE_ECAPACITY, second == NULL), "601 more are refused");
    is_string(tide_error_text(), "host: 601 B request exceeds 1000 B capacity (400 B in use)",
              "the refusal names the request, the capacity and what is in use");
    is_u64(figure(host, TIDE_QUERY_BYTES_USED), 400, "a refusal leaves the bytes in use");
    ok(tide_allocate(host, 600, 64, 0, &second) == TIDE_OK, "600 more reach the capacity");
    is_u64(figure(host, TIDE_QUERY_CAPACITY), 1000, "the capacity can be asked for");
    tide_deallocate(host, first, 400, 64, 0);
    ok(tide_deallocate(host, second, 600, 64, 0) == TIDE_OK, "both are given back");
    is_u64(figure(host, TIDE_QUERY_BYTES_RESERVED), 0, "then nothing is held");
    tide_resource_release(host);
}

static void
check_memory(void)
{
    struct tide_resource *host = create(NULL);
    void *pointer;
    uint64_t capacity = 1;

    ok(all_of(tide_allocate(host, 100000, 4096, 0, &pointer) == TIDE_OK, (uintptr_t)pointer % 4096 == 0),
       "an alignment of a page is honoured");
    memset(pointer, 1, 100000);
    ok(tide_deallocate(host, NULL, 100000, 4096, 0) == TIDE_EPOINTER, "bytes at NULL are no allocation");
    ok(tide_deallocate(host, pointer, 0, 4096, 0) == TIDE_EMISMATCH, "0 bytes at an address are no allocation");
    ok(tide_deallocate(host, pointer, 100000, 4096, 0) == TIDE_OK, "memory that was written to is given back");
    is_u64(figure(host, TIDE_QUERY_HOST_ACCESS), 1, "the host may touch it");
    is_u64(figure(host, TIDE_QUERY_STREAM_ORDERED), 0, "it knows no streams");
    ok(all_of(tide_query(host, TIDE_QUERY_CAPACITY, &capacity) == TIDE_EUNSUPPORTED, capacity == 0),
       "without a bound there is no capacity");
    tide_resource_release(host);
}

static void
check_options(void)
{
    struct {
        struct tide_host_options known;
        uint64_t newer;
    } grown = { .known = { TIDE_OPTIONS(grown) } };
    struct tide_host_options options = { .struct_size = 0 };
    struct tide_resource *host = (struct tide_resource *)&options;

    ok(all_of(tide_host_create(&options, &host) == TIDE_EINVAL, host == NULL),
       "options without their size are refused");
    options.struct_size = sizeof(size_t);
    options.capacity_bytes = 1;
    ok(tide_host_create(&options, &host) == TIDE_OK, "the smaller options of an older program are taken");
    ok(tide_query(host, TIDE_QUERY_CAPACITY, &options.capacity_bytes) == TIDE_EUNSUPPORTED,
       "what lies past their end is not read");
    tide_resource_release(host);
    ok(tide_host_create(&grown.known, &host) == TIDE_OK, "the larger options of a newer program are taken");
    tide_resource_release(host);
    grown.newer = 1;
    ok(all_of(tide_host_create(&grown.known, &host) == TIDE_EUNSUPPORTED, host == NULL),
       "but not where they set what this library does not know");
    ok(tide_host_create(NULL, NULL) == TIDE_EINVAL, "NULL in place of the result is refused");
}

int
main(void)
{
    const struct contract contract = { .name = "host", .create = create, .largest_bytes = 100000 };

    plan(CONTRACT_TESTS + 21);
    contract_check(&contract);
    check_capacity();
    check_memory();
    check_options();
    return done();
}
