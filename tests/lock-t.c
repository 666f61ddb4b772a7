/* Tests src/sync/lock.c with its test points. (lock-fork-t.c tests fork().) */
#include <sched.h>

#include "guarded.h"
#include "tap.h"

#define THREADS 8
#define STEPS   20000
#define ROUNDS  200

#define BIAS_TESTS 6

static void
check_bias(void)
{
    struct guarded guarded;

    guarded_init(&guarded);
    ok(owner_of(&guarded) == TIDEI_LOCK_NEW, "a new lock has no owner");
    count(&guarded);
    count(&guarded);
    ok(owner_of(&guarded) == tidei_thread->number, "the first thread that takes a lock owns it");
    tidei_lock_acquire(&guarded.lock);
    ok(guarded.lock.busy == 1 && guarded.lock.held == 0, "the owner takes the lock through a plain word");
    tidei_lock_release(&guarded.lock);
    elsewhere(run_count, &guarded);
    ok(owner_of(&guarded) == TIDEI_LOCK_SHARED, "a second thread makes the lock shared");
    tidei_lock_acquire(&guarded.lock);
    ok(guarded.lock.busy == 0 && guarded.lock.held == 1, "after that the first thread takes the lock as a shared one");
    tidei_lock_release(&guarded.lock);
    is_u64(guarded.first, 3, "the lock has protected all three additions");
    tidei_lock_fini(&guarded.lock);
}

struct adder {
    pthread_t thread;
    struct guarded *guarded;
    uint64_t from;  /* begins when the first thread has done this many steps */
    uint64_t steps; /* the number of steps */
    bool leads;
    pthread_barrier_t *begin;
    bool alone; /* goes on without the lock if it is shared; the sum is in `sum` */
    _Atomic uint64_t *sum;
};

/* Add as limit does: by a load and a store under the lock, or by a read-modify-write if the lock is shared. */
static void
add_alone(struct guarded *guarded, _Atomic uint64_t *sum)
{
    if (tidei_lock_acquire_alone(&guarded->lock)) {
        uint64_t before = atomic_load_explicit(sum, memory_order_relaxed);

        guarded->first++;
        atomic_store_explicit(sum, before + 1, memory_order_relaxed);
        tidei_lock_release(&guarded->lock);
    } else {
        atomic_fetch_add_explicit(sum, 1, memory_order_relaxed);
    }
}

static void *
run_add(void *context)
{
    struct adder *adder = context;
    struct guarded *guarded = adder->guarded;

    pthread_barrier_wait(adder->begin);
    while (atomic_load_explicit(&guarded->steps, memory_order_relaxed) < adder->from)
        sched_yield();
    for (uint64_t i = 0; i < adder->steps; i++) {
        if (adder->alone)
            add_alone(guarded, adder->sum);
        else
            count(guarded);
        if (adder->leads)
            atomic_store_explicit(&guarded->steps, i + 1, memory_order_relaxed);
    }
    return NULL;
}

/* Rounds with a new lock each. All other threads end its bias at once, at a random step of its owner. */
static uint64_t
add_in_rounds(unsigned rounds, uint64_t steps, bool alone)
{
    struct adder adders[THREADS];
    uint64_t random = 88172645463325252u, wrong = 0;
    pthread_barrier_t begin;

    pthread_barrier_init(&begin, NULL, THREADS);
    for (unsigned round = 0; round < rounds; round++) {
        struct guarded guarded;
        _Atomic uint64_t sum = 0;
        uint64_t seen;

        guarded_init(&guarded);
        random = random * 6364136223846793005u + 1442695040888963407u;
        for (int i = 0; i < THREADS; i++) {
            adders[i] = (struct adder){ .guarded = &guarded,
                                        .from = i == 0 ? 0 : 1 + (random >> 33) % steps,
                                        .steps = steps,
                                        .leads = i == 0,
                                        .begin = &begin,
                                        .alone = alone,
                                        .sum = &sum };
            pthread_create(&adders[i].thread, NULL, run_add, &adders[i]);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(adders[i].thread, NULL);
        seen = alone ? sum : guarded.first;
        wrong += seen != THREADS * steps || owner_of(&guarded) != TIDEI_LOCK_SHARED;
        tidei_lock_fini(&guarded.lock);
    }
    pthread_barrier_destroy(&begin);
    return wrong;
}

#define DUELS 500

/* End the bias of one lock after the other, while its owner takes and releases it. */
static void *
run_duels(void *context)
{
    struct guarded *duels = context;

    for (int i = 0; i < DUELS; i++) {
        while (atomic_load_explicit(&duels[i].steps, memory_order_relaxed) < 20 + (uint64_t)i % 50)
            ;
        for (int step = 0; step < 4; step++)
            count(&duels[i]);
        atomic_store_explicit(&duels[i].stop, true, memory_order_relaxed);
    }
    return NULL;
}

/* Without the barrier up to a quarter of the duels lose a count, since processors delay stores past later loads. */
static uint64_t
duels_lost(void)
{
    static struct guarded duels[DUELS];
    pthread_t other;
    uint64_t lost = 0;

    for (int i = 0; i < DUELS; i++)
        guarded_init(&duels[i]);
    pthread_create(&other, NULL, run_duels, duels);
    for (int i = 0; i < DUELS; i++) {
        for (uint64_t steps = 0; !atomic_load_explicit(&duels[i].stop, memory_order_relaxed);) {
            for (int step = 0; step < 5; step++)
                count(&duels[i]);
            steps += 5;
            duels[i].owned = steps;
            atomic_store_explicit(&duels[i].steps, steps, memory_order_relaxed);
        }
    }
    pthread_join(other, NULL);
    for (int i = 0; i < DUELS; i++) {
        lost += duels[i].first != duels[i].owned + 4 || duels[i].second != duels[i].first;
        tidei_lock_fini(&duels[i].lock);
    }
    return lost;
}

#define EXCLUSION_TESTS 4

static void
check_exclusion(void)
{
    is_u64(add_in_rounds(1, STEPS, false), 0, "eight threads add up under the lock, one at a time");
    is_u64(add_in_rounds(ROUNDS, 400, false), 0,
           "eight threads add up while seven end the ownership of the eighth, at any moment");
    is_u64(duels_lost(), 0,
           "two threads add up while one ends the ownership of the other, which takes and releases the lock");
    is_u64(add_in_rounds(ROUNDS, 400, true), 0, "eight threads add up while the lock's users go on without it");
}

#define WAITING_TESTS 1

/* Hold the lock so long that waiting threads come to yield and to sleep. */
static void
check_waiting(bool shared)
{
    struct pair pair;
    pthread_t thread = pair_start(&pair, shared);

    tidei_lock_acquire(&pair.newer.lock);
    is_u64(pair.newer.first - pair.newer.second, 0,
           shared ? "a thread that waits for long comes after the holder of a shared lock"
                  : "a thread that waits for long comes after the owner of a lock");
    tidei_lock_release(&pair.newer.lock);
    pair_end(&pair, thread);
}

/* Take the lock as its owner, and hold it until told to go on. */
static void *
run_own_inside(void *context)
{
    struct guarded *guarded = context;

    count(guarded);
    tidei_lock_acquire(&guarded->lock);
    guarded->first++;
    my_stop = &owner_stop;
    stop_here(owner_stop.label);
    guarded->second++;
    guarded->owned++;
    tidei_lock_release(&guarded->lock);
    return NULL;
}

/* Asks whether it is alone, and then reads what the owner wrote. */
struct look {
    struct guarded *guarded;
    _Atomic bool done; /* relaxed: only whether there is an answer; the answer is read after a join */
    bool alone;
    uint64_t seen;
};

static void *
run_look(void *context)
{
    struct look *look = context;

    look->alone = tidei_lock_acquire_alone(&look->guarded->lock);
    look->seen = look->guarded->owned;
    atomic_store_explicit(&look->done, true, memory_order_relaxed);
    return NULL;
}

#define WINDOW_TESTS 7

/* The owner is between its store and its check, and the other thread has passed the barrier. */
static void
check_owner_looks(void)
{
    pthread_t owner, other;
    struct guarded guarded;

    guarded_init(&guarded);
    stop_init(&owner_stop, "lock.busy");
    stop_init(&other_stop, "lock.revoked");
    pthread_create(&owner, NULL, run_own_stopped, &guarded);
    sem_wait(&owner_stop.reached);
    pthread_create(&other, NULL, run_count_stopped, &guarded);
    sem_wait(&other_stop.reached);
    ok(guarded.lock.busy == 1 && guarded.lock.held == 1,
       "the owner is about to check its ownership, and another thread is behind its barrier");
    sem_post(&owner_stop.go);
    while (guarded.lock.busy != 0)
        usleep(100);
    ok(guarded.first == 1, "the owner sees that it is owner no more, and steps back");
    sem_post(&other_stop.go);
    pthread_join(owner, NULL);
    pthread_join(other, NULL);
    is_u64(guarded.first, 3, "both threads take the lock, one after the other");
    tidei_lock_fini(&guarded.lock);
}

/*
 * The owner holds the lock. Another thread is before its barrier, then waits; a third thread asks whether it is alone.
 */
static void
check_owner_inside(void)
{
    pthread_t owner, other, third;
    struct guarded guarded;
    struct look look = { .guarded = &guarded };

    guarded_init(&guarded);
    stop_init(&owner_stop, "inside");
    stop_init(&other_stop, "lock.revoking");
    pthread_create(&owner, NULL, run_own_inside, &guarded);
    sem_wait(&owner_stop.reached);
    pthread_create(&other, NULL, run_count_stopped, &guarded);
    sem_wait(&other_stop.reached);
    pthread_create(&third, NULL, run_look, &look);
    usleep(20000);
    ok(!look.done, "the lock is not shared for a third thread before the ownership has ended");
    sem_post(&other_stop.go);
    usleep(20000);
    ok(!look.done && owner_of(&guarded) == TIDEI_LOCK_REVOKING,
       "the ownership does not end while the owner holds the lock");
    sem_post(&owner_stop.go);
    pthread_join(owner, NULL);
    pthread_join(other, NULL);
    pthread_join(third, NULL);
    ok(guarded.first == 3 && guarded.second == 3, "the lock has protected the additions of all three threads");
    ok(!look.alone && look.seen == 1, "a thread that goes on without the lock sees what the owner wrote");
    tidei_lock_fini(&guarded.lock);
}

static void
check_windows(void)
{
    atomic_store_explicit(&tidei_test_point, stop_here, memory_order_release);
    check_owner_looks();
    check_owner_inside();
    atomic_store_explicit(&tidei_test_point, NULL, memory_order_release);
}

int
main(void)
{
    struct guarded guarded;
    bool biased;

    plan(EXCLUSION_TESTS + 2 * WAITING_TESTS + BIAS_TESTS + WINDOW_TESTS);
    alarm(200); /* ends the test if a thread waits for ever */
    guarded_init(&guarded);
    biased = owner_of(&guarded) == TIDEI_LOCK_NEW;
    tidei_lock_fini(&guarded.lock);
    check_exclusion();
    check_waiting(true);
    check_waiting(false);
    if (biased) {
        check_bias();
        check_windows();
    } else {
        skip(BIAS_TESTS + WINDOW_TESTS, "the kernel has no membarrier");
    }
    return done();
}
