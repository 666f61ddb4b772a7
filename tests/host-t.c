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

    ok(tide_allocate(host, 400, 64, 0, &first) == TIDE_OK, "400 of 1000 bytes are allocated");
    ok(all_of(tide_allocate(host, 601, 64, 0, &second) == TIDE_ECAPACITY, second == NULL),
       "601 bytes more are refused");
    is_string(tide_error_text(), "host: 601 B request exceeds 1000 B capacity (400 B in use)",
              "the refusal names the request, the capacity and what is in use");
    is_u64(figure(host, TIDE_QUERY_BYTES_USED), 400, "a refusal leaves the bytes in use");
    ok(tide_allocate(host, 600, 64, 0, &second) == TIDE_OK, "600 bytes more are allocated, up to the capacity");
    is_u64(figure(host, TIDE_QUERY_CAPACITY), 1000, "a query of the capacity gives 1000 bytes");
    tide_deallocate(host, first, 400, 64, 0);
    ok(tide_deallocate(host, second, 600, 64, 0) == TIDE_OK, "the second block is freed");
    is_u64(figure(host, TIDE_QUERY_BYTES_RESERVED), 0, "after both frees no bytes are reserved");
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
    is_u64(figure(host, TIDE_QUERY_HOST_ACCESS), 1, "the host has access");
    is_u64(figure(host, TIDE_QUERY_STREAM_ORDERED), 0, "the base is not stream ordered");
    ok(all_of(tide_query(host, TIDE_QUERY_CAPACITY, &capacity) == TIDE_EUNSUPPORTED, capacity == 0),
       "a base without a capacity option knows no capacity");
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
    ok(tide_host_create(&options, &host) == TIDE_OK, "the smaller options of an older program are accepted");
    ok(tide_query(host, TIDE_QUERY_CAPACITY, &options.capacity_bytes) == TIDE_EUNSUPPORTED,
       "fields past the end of smaller options are not read");
    tide_resource_release(host);
    ok(tide_host_create(&grown.known, &host) == TIDE_OK, "the larger options of a newer program are accepted");
    tide_resource_release(host);
    grown.newer = 1;
    ok(all_of(tide_host_create(&grown.known, &host) == TIDE_EUNSUPPORTED, host == NULL),
       "larger options that set an unknown field are refused");
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
