/* Tests adaptors/guard/guard.c with several threads at once, and the blocks that pass between them. */
#include <pthread.h>
#include <sched.h>

#include "bases.h"
#include "contract.h"
#include "gate.h"
#include "guard.h"
#include "tap.h"

#define THREADS 4
#define STEPS   3000

#define LARGEST 2000

static atomic_uint_fast64_t seed;

static void *
run(void *context)
{
    uint64_t state = atomic_fetch_add(&seed, 1);
    uintptr_t wrong = 0;

    for (int i = 0; i < STEPS; i++) {
        size_t bytes = 1 + contract_random(&state) % LARGEST;
        unsigned char *block = take(context, bytes, 16);

        if (block == NULL) {
            wrong++;
            continue;
        }
        memset(block, i, bytes);
        wrong += give(context, block, bytes, 16) != TIDE_OK;
    }
    return (void *)wrong;
}

static void *
check_often(void *context)
{
    uintptr_t wrong = 0;

    for (int i = 0; i < 200; i++)
        wrong += tide_guard_check(context, NULL) != TIDE_OK;
    return (void *)wrong;
}

#define THREAD_TESTS 3

/* Other threads check all blocks while threads free them. */
static void
check_threads(void)
{
    struct tide_resource *base = base_host(0);
    struct tide_resource *guard = over(tide_resource_retain(base), 64, 20000);
    pthread_t threads[THREADS + 2];
    uintptr_t wrong = 0;

    atomic_store(&seed, contract_seed(20261121));
    for (size_t i = 0; i < THREADS + 2; i++)
        pthread_create(&threads[i], NULL, i < THREADS ? run : check_often, guard);
    for (size_t i = 0; i < THREADS + 2; i++) {
        void *seen;

        pthread_join(threads[i], &seen);
        wrong += (uintptr_t)seen;
    }
    ok(all_of(wrong == 0, damage_count == 0), "threads that do no damage get no report of damage");
    tide_resource_release(guard);
    is_u64(figure(base, TIDE_QUERY_BYTES_USED), 0, "after the threads base has all memory back");
    tide_resource_release(base);

    /* Room for exactly the blocks that are allocated at once. */
    guard = over(base_host(THREADS * (LARGEST + 2 * 64)), 64, 20000);
    wrong = 0;
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, guard);
    for (size_t i = 0; i < THREADS; i++) {
        void *seen;

        pthread_join(threads[i], &seen);
        wrong += (uintptr_t)seen;
    }
    is_u64(wrong, 0, "no request is refused while blocks are held that other threads have freed");
    tide_resource_release(guard);
}

static struct tide_resource *pinned;
static void *pinned_block;
static pthread_t pinned_thread;
static atomic_bool freed, freed_early;

static void *
free_pinned(void *context)
{
    uintptr_t status = give(pinned, pinned_block, 100, 16);

    (void)context;
    atomic_store(&freed, true);
    return (void *)status;
}

/* While the block's damage is being reported, another thread tries to free the block. */
static void
see_pinned(void *context, const struct tide_guard_damage *damage)
{
    (void)context;
    (void)damage;
    if (atomic_fetch_add(&damage_count, 1) != 0)
        return;
    pthread_create(&pinned_thread, NULL, free_pinned, NULL);
    for (int i = 0; i < 2000; i++)
        sched_yield();
    atomic_store(&freed_early, atomic_load(&freed));
}

#define PIN_TESTS 3

static void
check_pins(void)
{
    struct tide_guard_options options = { TIDE_OPTIONS(options), .function = see_pinned };
    struct tide_resource *base = base_host(0);
    void *status;

    if (tide_guard_create(base, &options, &pinned) != TIDE_OK)
        abort();
    atomic_store(&damage_count, 0);
    pinned_block = take(pinned, 100, 16);
    ((unsigned char *)pinned_block)[100] ^= 1;
    ok(all_of(tide_guard_check(pinned, NULL) == TIDE_EDAMAGED, !freed_early),
       "a block is not freed while a check reads it");
    pthread_join(pinned_thread, &status);
    ok((uintptr_t)status == TIDE_EDAMAGED, "a free that waited for the check reports the block's own damage");
    ok(give(pinned, pinned_block, 100, 16) == TIDE_OK, "the block is freed once its damage is repaired");
    tide_resource_release(pinned);
    tide_resource_release(base);
}

static unsigned char *late_block;

/* Like a thread that allocates while a check waits for the device, and whose canaries are not written yet. */
static void
take_late(void *context)
{
    late_block = take(context, 100, 16);
    late_block[100] ^= 1;
}

#define LATE_TESTS 2

static void
check_late(void)
{
    struct gate *gate = gate_create(base_host(0));
    struct tide_resource *guard = over(tide_resource_retain(&gate->base), 0, 0);
    unsigned char *block = take(guard, 100, 16);
    uint64_t found = 0;

    gate->before_order_all = take_late;
    gate->context = guard;
    ok(all_of(tide_guard_check(guard, &found) == TIDE_OK, found == 0),
       "a check does not read a block allocated during it");
    ok(all_of(tide_guard_check(guard, &found) == TIDE_EDAMAGED, found == 1),
       "the next check reads the block allocated during the first");
    give(guard, late_block, 100, 16);
    give(guard, late_block, 100, 16);
    give(guard, block, 100, 16);
    tide_resource_release(guard);
    tide_resource_release(&gate->base);
}

/* What another thread does while a freed block is on its way to upstream. */
static struct tide_resource *way_guard;
static pthread_t way_thread;
static atomic_bool way_asked, way_answered;

static void
note_asked(void *context)
{
    (void)context;
    atomic_store(&way_asked, true);
}

static void *
take_on_the_way(void *context)
{
    void *block = take(way_guard, 1000, 16);

    (void)context;
    atomic_store(&way_answered, true);
    return block;
}

/* Another thread, refused by upstream, may not report that before this block has arrived. */
static void
see_on_the_way(void *context)
{
    (void)context;
    pthread_create(&way_thread, NULL, take_on_the_way, NULL);
    while (!atomic_load(&way_asked))
        sched_yield();
    for (int i = 0; i < 2000 && !atomic_load(&way_answered); i++)
        sched_yield();
}

static void *way_block;
static uint64_t way_used;

/* An allocation that wants the room: blocks that are freed meanwhile go back at once. */
static void
free_on_the_way(void *context)
{
    struct gate *gate = context;

    give(way_guard, way_block, 300, 16);
    way_used = figure(&gate->base, TIDE_QUERY_BYTES_USED);
}

static void
take_when_told(void *context, const struct tide_guard_damage *damage)
{
    (void)damage;
    ++*(unsigned *)context;
    if (take(way_guard, 1000, 16) != NULL)
        *(unsigned *)context += 100;
}

#define WAY_TESTS 8

static void
check_on_the_way(void)
{
    unsigned calls = 0;
    const struct tide_guard_options options = { TIDE_OPTIONS(options), .canary_bytes = 16, .function = take_when_told,
                                                .context = &calls };
    struct gate *gate = gate_create(base_host(2000));
    unsigned char *block;
    void *given = NULL;

    way_guard = over(tide_resource_retain(&gate->base), 16, 0);
    block = take(way_guard, 1500, 16);
    give(way_guard, block, 1500, 16);
    gate->before_deallocate = see_on_the_way;
    gate->after_allocate = note_asked;
    ok(all_of(tide_trim(way_guard, 0) == TIDE_OK, pthread_join(way_thread, &given) == 0, given != NULL),
       "a request is not refused while held blocks are on their way to upstream");
    give(way_guard, given, 1000, 16);
    tide_trim(way_guard, 0);
    give(way_guard, take(way_guard, 1500, 16), 1500, 16);
    way_block = take(way_guard, 300, 16);
    gate->before_deallocate = free_on_the_way;
    gate->context = gate;
    block = take(way_guard, 1400, 16);
    ok(all_of(block != NULL, way_used == 1500 + 32), "a block freed while a request waits for held blocks is not held");
    give(way_guard, block, 1400, 16);
    tide_resource_release(way_guard);

    if (tide_guard_create(&gate->base, &options, &way_guard) != TIDE_OK)
        abort();
    block = take(way_guard, 1500, 16);
    give(way_guard, block, 1500, 16);
    block[7] = 0;
    ok(all_of(tide_guard_check(way_guard, NULL) == TIDE_EDAMAGED, calls == 1),
       "a report of damage from a check may allocate without a deadlock");
    ok(all_of(tide_trim(way_guard, 0) == TIDE_OK, calls == 2),
       "a report of damage from a released block may allocate without a deadlock");
    tide_message_sink_set(sink, NULL);
    told[0] = '\0';
    block = take(way_guard, 700, 16);
    give(way_guard, block, 700, 16);
    give(way_guard, take(way_guard, 500, 16), 500, 16);
    gate->deallocate_status = TIDE_EDRIVER;
    tide_resource_release(way_guard);
    has_words(told, "guard: gate does not take 1 freed blocks back, 700 B: ",
              "held blocks that upstream does not take back at the end are reported");
    is_u64(figure(&gate->base, TIDE_QUERY_BYTES_USED), 700 + 32, "all other held blocks go back at the end");
    ok(calls == 2, "nothing else is reported at the end");
    tide_message_sink_set(NULL, NULL);
    gate->deallocate_status = TIDE_OK;
    ok(tide_deallocate(&gate->base, block - 16, 700 + 32, 16, 0) == TIDE_OK,
       "a reported block can be freed from its canary on");
    tide_resource_release(&gate->base);
}

int
main(void)
{
    plan(THREAD_TESTS + PIN_TESTS + LATE_TESTS + WAY_TESTS);
    check_threads();
    check_pins();
    check_late();
    check_on_the_way();
    return done();
}
