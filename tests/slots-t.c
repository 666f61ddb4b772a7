/*
 * Tests src/sync/slots.h: each thread has its slot, one thread at a time holds all slots, and thread exits and forks
 * lose nothing.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sanitized.h"
#include "tap.h"
#include "src/sync/slots.h"

#define THREADS 8
#define STEPS   200000
#define OBJECTS 50

struct count {
    struct tidei_slot part;
    uint64_t steps;
    uint64_t pending; /* 0 at the end of each step, so that no other thread sees another value */
};

struct object {
    struct tidei_slots parts;
    _Atomic uint64_t without; /* steps that threads did without a slot of their own; relaxed: only a number */
    uint64_t left;            /* what `leave` collected from slots */
    uint64_t leave_calls;     /* the number of calls of `leave` */
    _Atomic bool stop;
};

static void
object_leave(struct tidei_slots *parts, struct tidei_slot *part)
{
    struct object *object = (struct object *)parts;
    struct count *count = (struct count *)part;

    object->leave_calls++;
    object->left += count->steps;
    count->steps = 0;
}

static void
object_init_sized(struct object *object, size_t part_bytes)
{
    memset(object, 0, sizeof(*object));
    tidei_slots_init(&object->parts, part_bytes, object_leave);
}

static void
object_init(struct object *object)
{
    object_init_sized(object, sizeof(struct count));
}

static void
object_step(struct object *object)
{
    struct count *count = (struct count *)tidei_slot_enter(&object->parts);

    if (count == NULL) {
        atomic_fetch_add_explicit(&object->without, 1, memory_order_relaxed);
        return;
    }
    count->pending++;
    count->steps++;
    count->pending--;
    tidei_slot_leave(&count->part);
}

/* The sum of all steps so far. *torn is set if a thread is seen inside of a step. */
static uint64_t
object_sum(struct object *object, bool *torn)
{
    uint64_t sum;

    tidei_slots_quiesce(&object->parts);
    sum = atomic_load_explicit(&object->without, memory_order_relaxed) + object->left;
    for (struct tidei_slot *part = object->parts.first; part != NULL; part = part->next) {
        sum += ((struct count *)part)->steps;
        *torn |= ((struct count *)part)->pending != 0;
    }
    tidei_slots_resume(&object->parts);
    return sum;
}

static size_t
object_parts(struct object *object)
{
    size_t count = 0;

    tidei_slots_quiesce(&object->parts);
    for (struct tidei_slot *part = object->parts.first; part != NULL; part = part->next)
        count++;
    tidei_slots_resume(&object->parts);
    return count;
}

static void *
run_steps(void *context)
{
    for (int i = 0; i < STEPS; i++)
        object_step(context);
    return NULL;
}

#define SUM_TESTS 5

static void
check_sum(void)
{
    struct object object;
    pthread_t threads[THREADS];
    uint64_t sum = 0, before = 0;
    bool torn = false, backwards = false;

    object_init(&object);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run_steps, &object);
    for (int i = 0; i < 200; i++) {
        sum = object_sum(&object, &torn);
        backwards |= sum < before;
        before = sum;
        sched_yield();
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ok(!torn, "a sum never sees a thread inside of a step");
    ok(!backwards, "a sum never decreases");
    is_u64(object_sum(&object, &torn), (uint64_t)THREADS * STEPS, "every step counts once");
    is_u64(object.leave_calls, THREADS, "each thread's part is left when the thread ends");
    ok(object_parts(&object) <= THREADS, "there are no more parts than threads");
    tidei_slots_fini(&object.parts);
}

#define REUSE_TESTS 2

static void *
run_step(void *context)
{
    object_step(context);
    return NULL;
}

static void
check_reuse(void)
{
    struct object object;
    pthread_t thread;
    bool torn = false;

    object_init(&object);
    for (int i = 0; i < 100; i++) {
        pthread_create(&thread, NULL, run_step, &object);
        pthread_join(thread, NULL);
    }
    is_u64(object_parts(&object), 1, "threads that run one after the other use the same part");
    is_u64(object_sum(&object, &torn), 100, "the part keeps the sum of ended threads");
    tidei_slots_fini(&object.parts);
}

#define MANY_TESTS 2

/* More objects than a thread has slots, and new ones at the addresses of destroyed ones. */
static void
check_many(void)
{
    static struct object objects[OBJECTS];
    uint64_t wrong = 0;
    bool torn = false;

    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < OBJECTS; i++)
            object_init(&objects[i]);
        for (size_t step = 0; step < 10; step++) {
            for (size_t i = 0; i < OBJECTS; i++)
                object_step(&objects[i]);
        }
        for (size_t i = 0; i < OBJECTS; i++) {
            wrong += object_sum(&objects[i], &torn) != 10;
            wrong += object_parts(&objects[i]) != 1;
            tidei_slots_fini(&objects[i].parts);
        }
    }
    is_u64(wrong, 0, "each of many objects has its own part for a thread, also at the address of an earlier object");
    ok(!torn, "a sum over many objects never sees a thread inside of a step");
}

static void *
run_until_stop(void *context)
{
    struct object *object = context;

    while (!atomic_load_explicit(&object->stop, memory_order_relaxed)) /* relaxed: only the stop */
        object_step(object);
    return NULL;
}

/* The exit status of the child: 0 if it finds all steps complete, and goes on. */
static int
forked(struct object *object)
{
    bool torn = false;
    uint64_t sum = object_sum(object, &torn);
    uint64_t again;

    if (object->leave_calls != THREADS)
        return 1;
    object_step(object);
    again = object_sum(object, &torn);
    return torn ? 2 : again != sum + 1 ? 3 : 0;
}

#define FORK_TESTS 1

static void
check_fork(void)
{
    struct object object;
    pthread_t threads[THREADS];
    int wrong = 0;

    object_init(&object);
    object_step(&object);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run_until_stop, &object);
    while (object_parts(&object) < THREADS + 1)
        sched_yield();
    for (int i = 0; i < 20 && wrong == 0; i++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            alarm(60);
            _exit(forked(&object));
        }
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            wrong = WIFEXITED(status) ? WEXITSTATUS(status) : 100;
    }
    atomic_store_explicit(&object.stop, true, memory_order_relaxed); /* relaxed: only the stop */
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    is_i64(wrong, 0, "a child has all parts consistent, and the parts of threads that it does not have are left");
    tidei_slots_fini(&object.parts);
}

/* Have another thread use the object first, until the object tells it to stop. */
static pthread_t
other_thread(struct object *object)
{
    pthread_t thread;

    pthread_create(&thread, NULL, run_until_stop, object);
    while (object_parts(object) == 0)
        sched_yield();
    return thread;
}

#define PLACE_TESTS 1
/* So large that malloc maps it separately, mostly at the same address again. */
#define PLACE_BYTES ((size_t)33 << 20)

/* This thread has used objects that were destroyed. Another thread uses the new ones at their addresses. */
static void
check_place(void)
{
    int wrong = 0;

    for (int i = 0; i < 10 && wrong == 0; i++) {
        struct object object;
        pthread_t thread;
        pid_t child;
        int status;

        object_init_sized(&object, PLACE_BYTES);
        object_step(&object);
        tidei_slots_fini(&object.parts);
        object_init_sized(&object, PLACE_BYTES);
        thread = other_thread(&object);
        child = fork();
        if (child == 0) {
            alarm(60);
            _exit(object.leave_calls == 1 ? 0 : 1);
        }
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            wrong = WIFEXITED(status) ? WEXITSTATUS(status) : 100;
        atomic_store_explicit(&object.stop, true, memory_order_relaxed); /* relaxed: only the stop */
        pthread_join(thread, NULL);
        tidei_slots_fini(&object.parts);
    }
    is_i64(wrong, 0,
           "a child leaves the part of a thread that it does not have, also at the address of an earlier object");
}

int
main(void)
{
    plan(SUM_TESTS + REUSE_TESTS + MANY_TESTS + FORK_TESTS + PLACE_TESTS);
    alarm(200);
    check_sum();
    check_reuse();
    check_many();
    if (SANITIZED_ADDRESS)
        skip(FORK_TESTS + PLACE_TESTS, "under AddressSanitizer a child that was forked off beside threads may hang");
    if (!SANITIZED_ADDRESS) {
        check_fork();
        check_place();
    }
    return done();
}
