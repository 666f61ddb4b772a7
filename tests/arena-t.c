/* Tests adaptors/arena.c: threads have memory of their own, frees find it, and no request fails while there is room. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "find.h"
#include "tap.h"
#include "trace.h"
#include "upstream.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* An arena over `upstream`. Takes over the reference. */
static struct tide_resource *
over(struct tide_resource *upstream, uint64_t size_bytes)
{
    struct tide_arena_options options = { TIDE_OPTIONS(options), .size_bytes = size_bytes };
    struct tide_resource *arena;

    if (tide_arena_create(upstream, &options, &arena) != TIDE_OK)
        abort();
    tide_resource_release(upstream);
    return arena;
}

static void *
try_take(struct tide_resource *arena, size_t bytes)
{
    void *pointer = NULL;

    return tide_allocate(arena, bytes, TIDE_DEFAULT_ALIGNMENT, 0, &pointer) == TIDE_OK ? pointer : NULL;
}

static enum tide_status
try_give(struct tide_resource *arena, void *pointer, size_t bytes)
{
    return tide_deallocate(arena, pointer, bytes, TIDE_DEFAULT_ALIGNMENT, 0);
}

static uint64_t
query(struct tide_resource *arena, enum tide_query what)
{
    uint64_t figure;

    return tide_query(arena, what, &figure) == TIDE_OK ? figure : UINT64_MAX;
}

static struct tide_resource *
create_over_upstream(void *context)
{
    (void)context;
    return over(&upstream_create()->base, 0);
}

static struct tide_resource *
create_over_base(void *context)
{
    return over(((const struct base_maker *)context)->create(0), 0);
}

#define CONTRACT_CALLS (1 + BASE_COUNT)

static void
check_contract(void)
{
    struct contract contract = {
        .name = "arena", .create = create_over_upstream, .largest_bytes = 64 * MIB, .knows_pointers = true
    };

    contract_check(&contract);
    for (size_t i = 0; i < BASE_COUNT; i++) {
        contract.create = create_over_base;
        contract.context = (void *)&bases[i];
        contract_check(&contract);
    }
}

/* What another thread does for a test, and the result. */
struct errand {
    struct tide_resource *arena;
    void *pointer;
    size_t bytes;
    enum tide_status status;
};

static void *
run_take(void *context)
{
    struct errand *errand = context;

    errand->pointer = try_take(errand->arena, errand->bytes);
    return NULL;
}

static void *
run_give(void *context)
{
    struct errand *errand = context;

    errand->status = try_give(errand->arena, errand->pointer, errand->bytes);
    return NULL;
}

static void
elsewhere(void *(*run)(void *context), struct errand *errand)
{
    pthread_t thread;

    pthread_create(&thread, NULL, run, errand);
    pthread_join(thread, NULL);
}

#define THREAD_TESTS 6

static void
check_threads(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *arena = over(tide_resource_retain(&upstream->base), 0);
    struct errand errand = { .arena = arena, .bytes = 4096 };
    char *mine = try_take(arena, 4096), *again;

    elsewhere(run_take, &errand);
    again = try_take(arena, 4096);
    ok(again - mine == 4096 || mine - again == 4096, "blocks of one thread lie beside each other");
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) /* then all threads share one arena */
        skip(1, "one processor");
    else
        ok(llabs((char *)errand.pointer - mine) >= (long long)MIB,
           "blocks of different threads lie at least 1 MiB apart");
    is_u64(query(arena, TIDE_QUERY_BYTES_USED), (uint64_t)3 * 4096, "the blocks of both threads count as used");
    errand.pointer = mine;
    elsewhere(run_give, &errand);
    ok(all_of(errand.status == TIDE_OK, try_take(arena, 4096) == mine),
       "a block that another thread frees goes back to the arena of the thread that allocated it");
    errand.pointer = try_take(arena, 20 * MIB);
    errand.bytes = 20 * MIB;
    elsewhere(run_give, &errand);
    ok(errand.status == TIDE_OK, "large blocks have an arena for all threads");
    errand.bytes = 4096;
    errand.pointer = mine + 256;
    elsewhere(run_give, &errand);
    ok(all_of(errand.status == TIDE_EPOINTER, query(arena, TIDE_QUERY_BYTES_USED) == (uint64_t)3 * 4096),
       "a pointer into the middle of a block is refused on every thread");
    tide_resource_release(arena);
    tide_resource_release(&upstream->base);
}

#define BOUND_TESTS 9

static void
check_bounds(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *arena = over(tide_resource_retain(&upstream->base), 64 * MIB);
    struct errand errand = { .arena = arena, .bytes = 100 * KIB };
    uint64_t calls;
    size_t count = 0;
    void *block;

    elsewhere(run_take, &errand);
    elsewhere(run_give, &errand);
    ok(query(arena, TIDE_QUERY_BYTES_CACHED) > 0, "the arena of a thread keeps freed memory");
    block = try_take(arena, 64 * MIB);
    ok(block != NULL, "a request for the whole size gets the free memory of other arenas");
    ok(all_of(try_take(arena, 1) == NULL, tide_allocate(arena, 1, 256, 0, &block) == TIDE_ECAPACITY),
       "after a request for the whole size even 1 byte is refused");
    tide_trim(arena, 0);
    is_u64(upstream->live_bytes, 64 * MIB, "a trim leaves the memory in use with upstream");
    tide_resource_release(arena);
    is_u64(upstream->live_bytes, 0, "releasing the arena gives all memory back to upstream");

    arena = over(tide_resource_retain(&upstream->base), 64 * MIB);
    errand.arena = arena;
    try_give(arena, try_take(arena, 4096), 4096);
    elsewhere(run_take, &errand);
    try_give(arena, try_take(arena, 40 * MIB), 40 * MIB);
    calls = upstream->order_all_calls;
    tide_order(arena, TIDE_STREAM_ALL, 0);
    is_u64(upstream->order_all_calls - calls, 1,
           "an order behind all streams is passed to upstream once for all arenas");
    tide_resource_release(arena);

    arena = over(tide_resource_retain(&upstream->base), 64 * MIB);
    errand.arena = arena;
    try_give(arena, try_take(arena, 4096), 4096); /* so that the other thread gets another arena than this one */
    elsewhere(run_take, &errand);
    while (try_take(arena, 64 * KIB) != NULL)
        count++;
    ok(count >= 1000, "small blocks fill the whole size, although another thread's arena has a part of it");
    is_u64(query(arena, TIDE_QUERY_BYTES_USED), count * 64 * KIB + 100 * KIB,
           "the bytes used count the blocks of all arenas");
    is_u64(upstream->peak_bytes, 64 * MIB, "the arenas take no more than the size from upstream");
    tide_resource_release(arena);
    tide_resource_release(&upstream->base);
}

#define MARK_TESTS 3

static void
check_marks(void)
{
    struct tide_resource *stack, *arena;
    const char *path = scratch("arena.db");
    void *block;

    stack = stack_of("log(\"%s\") | arena(size=16MiB) | sim", path);
    arena = find_layer(stack, "arena");
    block = try_take(stack, 12 * MIB);
    ok(all_of(try_take(stack, 8 * MIB) == NULL, strstr(tide_error_text(), "maximum of 16 MiB") != NULL),
       "the refusal names the maximum");
    try_give(stack, block, 12 * MIB);
    tide_trim(arena, 0);
    try_take(stack, 17 * MIB);
    tide_resource_release(stack);
    is_string(sql_text(path, "SELECT text FROM mark WHERE text LIKE 'arena:%%' ORDER BY rowid LIMIT 1"),
              "arena: 8388608 B refused: reserved 12582912 B, used 12582912 B, free 0 B in 0 blocks, largest 0 B, "
              "fragmentation 0.000",
              "the trace has a mark with the arena's figures when nothing was free");
    is_string(sql_text(path, "SELECT text FROM mark WHERE text LIKE 'arena: 17825792 B%%' ORDER BY rowid LIMIT 1"),
              "arena: 17825792 B refused: reserved 0 B, used 0 B, free 0 B in 0 blocks, largest 0 B, "
              "fragmentation 0.000",
              "the trace has a mark with the arena's figures when nothing was reserved");
}

#define CREATE_TESTS 4

static void
check_create(void)
{
    struct tide_arena_options options = { TIDE_OPTIONS(options), .size_bytes = UINT64_MAX - 255 };
    struct tide_resource *base = base_sim(0), *arena;

    ok(all_of(tide_arena_create(base, &options, &arena) == TIDE_EINVAL, arena == NULL),
       "a size that overflows is refused");
    ok(all_of(tide_arena_create(NULL, NULL, &arena) == TIDE_EINVAL, tide_arena_create(base, NULL, NULL) == TIDE_EINVAL),
       "an arena without upstream, or without a place for it, is refused");
    options.size_bytes = 1;
    ok(all_of(tide_arena_create(base, &options, &arena) == TIDE_OK, try_take(arena, 1) == NULL),
       "a size too small for anything serves nothing");
    tide_resource_release(arena);
    ok(all_of(tide_stack_parse("arena(size=1GiB) | sim", &arena) == TIDE_OK,
              query(arena, TIDE_QUERY_CAPACITY) == 1024 * MIB, try_give(arena, &options, 1) == TIDE_EPOINTER),
       "stack text makes an arena of the given size, which refuses a pointer that is not its own");
    tide_resource_release(arena);
    tide_resource_release(base);
}

int
main(void)
{
    plan(CONTRACT_CALLS * CONTRACT_TESTS + THREAD_TESTS + BOUND_TESTS + MARK_TESTS + CREATE_TESTS);
    check_contract();
    check_threads();
    check_bounds();
    check_marks();
    check_create();
    return done();
}
