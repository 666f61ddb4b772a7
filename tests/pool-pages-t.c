/*
 * Tests pools over a base whose chunks may be joined, `sim(model=vmm)`: they grow in place, and have free chunks mapped
 * elsewhere before they hold more than ever.
 */
#include <tidemark/tidemark.h>

#include "contract.h"
#include "tap.h"
#include "upstream.h"

#define MIB (UINT64_C(1) << 20)

static uint64_t
figure(struct tide_resource *resource, enum tide_query what)
{
    uint64_t value = UINT64_MAX;

    tide_query(resource, what, &value);
    return value;
}

static struct tide_resource *
stack_of(const char *text)
{
    struct tide_resource *stack;

    if (tide_stack_parse(text, &stack) != TIDE_OK) {
        diag("%s: %s", text, tide_error_text());
        abort();
    }
    return stack;
}

static struct tide_pool_figures
pool_figures(struct tide_resource *pool)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };

    tide_pool_read(pool, &figures);
    return figures;
}

static void *
get(struct tide_resource *pool, uint64_t bytes, tide_stream stream)
{
    void *pointer;

    return tide_allocate(pool, bytes, 256, stream, &pointer) == TIDE_OK ? pointer : NULL;
}

/* Free memory at the end of one chunk and the beginning of the next one serve one request. */
static void
check_joined(void)
{
    struct tide_resource *pool = stack_of("pool | sim(model=vmm)"), *plain = stack_of("pool | sim");
    uint64_t page;
    void *a = get(pool, 2 * MIB, 0), *b = get(pool, 2 * MIB, 0), *c;

    ok((char *)b == (char *)a + 2 * MIB, "the second chunk lies behind the first one");
    tide_deallocate(pool, a, 2 * MIB, 256, 0);
    tide_deallocate(pool, b, 2 * MIB, 256, 0);
    is_u64(figure(pool, TIDE_QUERY_LARGEST_FREE), 4 * MIB, "free chunks that touch are one free block");
    c = get(pool, 4 * MIB, 0);
    ok(c == a, "a request spans two chunks");
    is_u64(pool_figures(pool).grown, 2, "a request that free chunks serve together asks upstream for nothing");
    ok(tide_query(pool, TIDE_QUERY_PAGE, &page) == TIDE_EUNSUPPORTED, "a pool does not pass the page of its base on");
    tide_deallocate(pool, c, 4 * MIB, 256, 0);
    tide_trim(pool, 0);
    ok(all_of(figure(pool, TIDE_QUERY_BYTES_RESERVED) == 0, pool_figures(pool).chunks == 0),
       "a trim returns chunks that were used as one");
    tide_resource_release(pool);
    a = get(plain, 2 * MIB, 0);
    b = get(plain, 2 * MIB, 0);
    tide_deallocate(plain, a, 2 * MIB, 256, 0);
    tide_deallocate(plain, b, 2 * MIB, 256, 0);
    is_u64(figure(plain, TIDE_QUERY_LARGEST_FREE), 2 * MIB, "over a base without pages free chunks stay apart");
    tide_resource_release(plain);
}

/* Only what is missing behind the free memory at the end is asked for. */
static void
check_missing(void)
{
    struct tide_resource *pool = stack_of("pool | sim(model=vmm)");
    void *a = get(pool, 6 * MIB, 0), *b = get(pool, 6 * MIB, 0), *c;

    tide_deallocate(pool, b, 6 * MIB, 256, 0);
    is_u64(figure(pool, TIDE_QUERY_BYTES_RESERVED), 12 * MIB, "two requests of 6 MiB reserve 12 MiB");
    c = get(pool, 10 * MIB, 0);
    ok(c == b, "a request that is larger than the free memory at the end begins there");
    is_u64(figure(pool, TIDE_QUERY_BYTES_RESERVED), 16 * MIB, "only the missing 4 MiB are asked for");
    tide_deallocate(pool, a, 6 * MIB, 256, 0);
    tide_deallocate(pool, c, 10 * MIB, 256, 0);
    is_u64(figure(pool, TIDE_QUERY_LARGEST_FREE), 16 * MIB, "after all frees there is one free block");
    tide_resource_release(pool);
}

/* Before it holds more than ever, the pool has the chunks of a hole mapped where they are needed. */
static void
check_remapped(void)
{
    struct tide_resource *pool = stack_of("pool | sim(model=vmm)");
    struct tide_pool_figures figures;
    void *a = get(pool, 8 * MIB, 0), *b = get(pool, 8 * MIB, 0), *c = get(pool, 8 * MIB, 0), *d, *e;

    tide_deallocate(pool, a, 8 * MIB, 256, 0);
    tide_deallocate(pool, c, 8 * MIB, 256, 0);
    d = get(pool, 14 * MIB, 0);
    figures = pool_figures(pool);
    ok(d == c, "a request that fits in no hole begins at the free memory at the end");
    is_u64(figures.reserved_peak_bytes, 24 * MIB,
           "what it misses comes out of the hole: the pool holds no more than before");
    is_u64(figures.remapped, 3, "each chunk that was mapped elsewhere is counted");
    is_u64(figures.returned, 3, "a chunk that was mapped elsewhere went back to upstream first");
    tide_deallocate(pool, d, 14 * MIB, 256, 0);
    e = get(pool, 8 * MIB, 0);
    ok(e == d, "a request takes mapped memory before it has any gap filled");
    d = get(pool, 6 * MIB, 0);
    ok(d == (char *)e + 8 * MIB, "free memory at the end serves the next request");
    c = get(pool, 8 * MIB, 0);
    ok(c == a, "a hole whose gap must be filled in part is stitched rather than the range extended by more");
    is_u64(figure(pool, TIDE_QUERY_BYTES_RESERVED), 30 * MIB, "only the gap in the hole is filled");
    tide_deallocate(pool, b, 8 * MIB, 256, 0);
    tide_deallocate(pool, c, 8 * MIB, 256, 0);
    tide_deallocate(pool, d, 6 * MIB, 256, 0);
    tide_deallocate(pool, e, 8 * MIB, 256, 0);
    is_u64(figure(pool, TIDE_QUERY_LARGEST_FREE), 30 * MIB, "a stitched hole merges with its neighbours");
    tide_resource_release(pool);
}

int
main(void)
{
    plan(7 + 4 + 9);
    check_joined();
    check_missing();
    check_remapped();
    return done();
}
