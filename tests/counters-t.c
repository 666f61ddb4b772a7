/*
 * Tests that `statistics` and `limit` are exact under threads, against a simple model.
 *
 * Serialised: many threads, one call at a time, so that there is one order alone, and each figure and each refusal is
 * that of the model. At once: a layer below sees an allocation earlier and its end later than `statistics` counts them,
 * the caller the other way round; so the true peak, whatever the order was, lies between the peaks of both.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "gate.h"
#include "limit-used.h"
#include "point.h"
#include "tap.h"
#include "upstream.h"

#define THREADS 16
#define BLOCKS  64
#define DEPTH   4

static uint64_t seed;

static enum tide_status
take(struct tide_resource *resource, size_t bytes, void **out)
{
    return tide_allocate(resource, bytes, 256, 0, out);
}

static enum tide_status
give(struct tide_resource *resource, void *pointer, size_t bytes)
{
    return tide_deallocate(resource, pointer, bytes, 256, 0);
}

static struct tide_resource *
statistics_over(struct tide_resource *upstream)
{
    struct tide_resource *statistics;

    if (tide_statistics_create(upstream, NULL, &statistics) != TIDE_OK)
        abort();
    return statistics;
}

static struct tide_resource *
limit_over(struct tide_resource *upstream, uint64_t bytes, uint64_t count)
{
    const struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = bytes, .alignment = 1,
                                                .limit_count = count };
    struct tide_resource *limit;

    if (tide_limit_create(upstream, &options, &limit) != TIDE_OK)
        abort();
    return limit;
}

/* --- One call at a time. --- */

struct model {
    struct tide_statistics_figures levels[DEPTH];
    int depth; /* the index of the innermost level */
    int64_t used_bytes, used_count;
};

struct serial {
    pthread_mutex_t lock; /* around each step */
    struct tide_resource *statistics, *limit;
    uint64_t limit_bytes, limit_count;
    struct model model;
    void *pointers[BLOCKS];
    size_t sizes[BLOCKS];
    bool live[BLOCKS];
    uint64_t seed;
    int steps; /* left */
    uint64_t wrong, refused;
};

static void
model_add(struct tide_counter *counter, int64_t value)
{
    counter->current += value;
    if (value > 0)
        counter->total += value;
    if (counter->current > counter->peak)
        counter->peak = counter->current;
}

static void
model_count(struct model *model, int64_t bytes, int64_t count)
{
    struct tide_statistics_figures *figures = &model->levels[model->depth];

    model->used_bytes += bytes;
    model->used_count += count;
    model_add(&figures->bytes, bytes);
    model_add(&figures->count, count);
}

static void
model_fold(struct tide_counter *outer, const struct tide_counter *inner)
{
    if (outer->current + inner->peak > outer->peak)
        outer->peak = outer->current + inner->peak;
    outer->current += inner->current;
    outer->total += inner->total;
}

static bool
same(const struct tide_statistics_figures *a, const struct tide_statistics_figures *b)
{
    return a->bytes.current == b->bytes.current && a->bytes.peak == b->bytes.peak && a->bytes.total == b->bytes.total &&
           a->count.current == b->count.current && a->count.peak == b->count.peak && a->count.total == b->count.total;
}

/* A size: 0, small, or up to half of the limit. */
static size_t
serial_size(struct serial *serial)
{
    static const uint64_t largest[] = { 1, 16, 256, 4096, 50000 };

    return (size_t)(contract_random(&serial->seed) % largest[contract_random(&serial->seed) % 5]);
}

static void
serial_take(struct serial *serial, unsigned slot)
{
    size_t bytes = serial_size(serial);
    bool fits = (uint64_t)serial->model.used_bytes + bytes <= serial->limit_bytes &&
                (uint64_t)serial->model.used_count < serial->limit_count;
    enum tide_status status = take(serial->statistics, bytes, &serial->pointers[slot]);

    serial->wrong += status != (fits ? TIDE_OK : TIDE_ELIMIT);
    serial->refused += !fits;
    if (status != TIDE_OK)
        return;
    serial->live[slot] = true;
    serial->sizes[slot] = bytes;
    model_count(&serial->model, (int64_t)bytes, 1);
}

static void
serial_give(struct serial *serial, unsigned slot)
{
    serial->wrong += give(serial->statistics, serial->pointers[slot], serial->sizes[slot]) != TIDE_OK;
    serial->live[slot] = false;
    model_count(&serial->model, -(int64_t)serial->sizes[slot], -1);
}

static void
serial_nest(struct serial *serial)
{
    struct model *model = &serial->model;
    struct tide_statistics_figures seen = { TIDE_FIGURES(seen) }, wanted = model->levels[model->depth];

    if (contract_random(&serial->seed) % 2 == 0) {
        if (model->depth + 1 == DEPTH)
            return;
        serial->wrong += tide_statistics_push(serial->statistics, &seen) != TIDE_OK || !same(&seen, &wanted);
        model->levels[++model->depth] = (struct tide_statistics_figures){ 0 };
    } else {
        if (model->depth == 0)
            return;
        serial->wrong += tide_statistics_pop(serial->statistics, &seen) != TIDE_OK || !same(&seen, &wanted);
        model->depth--;
        model_fold(&model->levels[model->depth].bytes, &wanted.bytes);
        model_fold(&model->levels[model->depth].count, &wanted.count);
    }
}

static void
serial_look(struct serial *serial)
{
    struct tide_statistics_figures seen = { TIDE_FIGURES(seen) };

    serial->wrong += tide_statistics_read(serial->statistics, &seen) != TIDE_OK ||
                     !same(&seen, &serial->model.levels[serial->model.depth]);
    serial->wrong += limit_used(serial->limit) != (uint64_t)serial->model.used_bytes ||
                     limit_used_count(serial->limit) != (uint64_t)serial->model.used_count;
}

/* Make some steps in a row, so that the thread gets a reserve; then maybe another thread has its turn. */
static void
serial_turn(struct serial *serial)
{
    unsigned turn = 1 + (unsigned)(contract_random(&serial->seed) % 40);

    for (; turn > 0 && serial->steps > 0; turn--, serial->steps--) {
        unsigned slot = (unsigned)(contract_random(&serial->seed) % BLOCKS);
        unsigned what = (unsigned)(contract_random(&serial->seed) % 200);

        if (what == 0)
            serial_nest(serial);
        else if (what < 4)
            serial_look(serial);
        else if (serial->live[slot])
            serial_give(serial, slot);
        else
            serial_take(serial, slot);
    }
}

static void *
serial_run(void *context)
{
    struct serial *serial = context;
    /* Threads end at different times, so that others take over their reserves. */
    int turns;
    bool more = true;

    pthread_mutex_lock(&serial->lock);
    turns = 1 << (contract_random(&serial->seed) % 12);
    pthread_mutex_unlock(&serial->lock);
    while (more && turns-- > 0) {
        pthread_mutex_lock(&serial->lock);
        serial_turn(serial);
        more = serial->steps > 0;
        pthread_mutex_unlock(&serial->lock);
        sched_yield();
    }
    return NULL;
}

static void
serial_open(struct serial *serial, int steps)
{
    struct tide_resource *base = base_sim(0);

    *serial = (struct serial){ .steps = steps, .seed = contract_random(&seed) };
    serial->limit_bytes = 1 + contract_random(&serial->seed) % 100000;
    serial->limit_count = 1 + contract_random(&serial->seed) % BLOCKS;
    serial->limit = limit_over(base, serial->limit_bytes, serial->limit_count);
    serial->statistics = statistics_over(serial->limit);
    tide_resource_release(base);
    pthread_mutex_init(&serial->lock, NULL);
}

#define SERIAL_TESTS 3

static void
check_serial(void)
{
    uint64_t wrong = 0, refused = 0, left = 0;

    for (int round = 0; round < 20; round++) {
        struct serial serial;
        pthread_t threads[THREADS];

        serial_open(&serial, 4000);
        while (serial.steps > 0) {
            for (int i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, serial_run, &serial);
            for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        }
        for (unsigned slot = 0; slot < BLOCKS; slot++) {
            if (serial.live[slot])
                serial_give(&serial, slot);
        }
        serial_look(&serial);
        wrong += serial.wrong;
        refused += serial.refused;
        left += (uint64_t)serial.model.used_bytes;
        pthread_mutex_destroy(&serial.lock);
        tide_resource_release(serial.statistics);
        tide_resource_release(serial.limit);
    }
    is_u64(wrong, 0, "sixteen threads, one call at a time: each figure and each refusal is the model's");
    ok(refused > 100, "the model of one call at a time has refused more than 100 requests");
    is_u64(left, 0, "after one call at a time nothing is left in use");
}

/* --- All at once. --- */

struct crowd {
    struct tide_resource *top; /* statistics | limit | upstream, or statistics | upstream */
    struct upstream *upstream;
    pthread_mutex_t lock; /* guards the two fields below: what the callers know that they hold */
    int64_t held_bytes, held_peak;
    _Atomic bool stop;
};

struct worker {
    pthread_t thread;
    struct crowd *crowd;
    uint64_t seed, wrong;
    int steps;
    int64_t bytes, count; /* in all */
    void *pointers[8];
    size_t sizes[8]; /* 0: not live */
};

/* A caller holds a block from after its allocation to before its deallocation. */
static void
crowd_holds(struct crowd *crowd, int64_t bytes)
{
    pthread_mutex_lock(&crowd->lock);
    crowd->held_bytes += bytes;
    if (crowd->held_bytes > crowd->held_peak)
        crowd->held_peak = crowd->held_bytes;
    pthread_mutex_unlock(&crowd->lock);
}

static void
worker_give(struct worker *worker, unsigned slot)
{
    crowd_holds(worker->crowd, -(int64_t)worker->sizes[slot]);
    worker->wrong += give(worker->crowd->top, worker->pointers[slot], worker->sizes[slot]) != TIDE_OK;
    worker->sizes[slot] = 0;
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;

    for (int i = 0; i < worker->steps; i++) {
        unsigned slot = (unsigned)(contract_random(&worker->seed) % 8);
        size_t bytes = 1 + contract_random(&worker->seed) % 1000;

        if (worker->sizes[slot] != 0) {
            worker_give(worker, slot);
        } else if (take(worker->crowd->top, bytes, &worker->pointers[slot]) == TIDE_OK) {
            worker->sizes[slot] = bytes;
            worker->bytes += (int64_t)bytes;
            worker->count++;
            crowd_holds(worker->crowd, (int64_t)bytes);
        }
    }
    return NULL;
}

/* Reads the figures all the while: none of them may contradict another. */
static void *
reader_run(void *context)
{
    struct worker *worker = context;
    int64_t peak = 0, total = 0;

    while (!atomic_load_explicit(&worker->crowd->stop, memory_order_relaxed)) { /* relaxed: tells nothing else */
        struct tide_statistics_figures seen = { TIDE_FIGURES(seen) };

        worker->wrong += tide_statistics_read(worker->crowd->top, &seen) != TIDE_OK;
        worker->wrong += seen.bytes.current < 0 || seen.bytes.current > seen.bytes.peak || seen.bytes.peak < peak;
        worker->wrong += seen.bytes.total < total || seen.bytes.peak > seen.bytes.total;
        worker->wrong += seen.count.current < 0 || seen.count.current > seen.count.peak;
        worker->wrong += seen.bytes.current < seen.count.current || seen.bytes.current > 1000 * seen.count.current;
        peak = seen.bytes.peak;
        total = seen.bytes.total;
        sched_yield();
    }
    return NULL;
}

/* Run sixteen workers and a reader. The sum of the workers' calls goes into *sum. */
static uint64_t
crowd_run(struct crowd *crowd, int steps, struct worker *sum)
{
    static struct worker workers[THREADS];
    struct worker reader = { .crowd = crowd };
    uint64_t wrong = 0;

    *sum = (struct worker){ .crowd = crowd };
    crowd->held_bytes = crowd->held_peak = 0;
    pthread_mutex_init(&crowd->lock, NULL);
    pthread_create(&reader.thread, NULL, reader_run, &reader);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .crowd = crowd, .seed = contract_random(&seed), .steps = steps };
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
        sum->bytes += workers[i].bytes;
        sum->count += workers[i].count;
    }
    atomic_store_explicit(&crowd->stop, true, memory_order_relaxed);
    pthread_join(reader.thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        for (unsigned slot = 0; slot < 8; slot++) {
            if (workers[i].sizes[slot] != 0)
                worker_give(&workers[i], slot);
        }
    }
    pthread_mutex_destroy(&crowd->lock);
    return wrong + reader.wrong;
}

#define CROWD_TESTS 5

static void
check_crowd(void)
{
    struct upstream *upstream = upstream_create();
    struct crowd crowd = { .top = statistics_over(&upstream->base), .upstream = upstream };
    struct tide_statistics_figures seen = { TIDE_FIGURES(seen) };
    struct worker sum;

    is_u64(crowd_run(&crowd, 3000, &sum), 0,
           "sixteen threads at once: no call fails, and no set of figures is impossible");
    tide_statistics_read(crowd.top, &seen);
    ok(seen.bytes.peak >= crowd.held_peak, "the peak is at least what the threads held at once");
    ok(seen.bytes.peak <= (int64_t)upstream->peak_bytes, "the peak is at most what upstream had allocated at once");
    diag("%" PRId64 " <= %" PRId64 " <= %" PRIu64, crowd.held_peak, seen.bytes.peak, upstream->peak_bytes);
    ok(all_of(seen.bytes.current == 0, seen.count.current == 0), "the current figures are 0 after the threads");
    ok(all_of(seen.bytes.total == sum.bytes, seen.count.total == sum.count), "the totals are those of the threads");
    tide_resource_release(crowd.top);
    tide_resource_release(&upstream->base);
}

#define BOUND_TESTS 3

static void
check_bound(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *limit = limit_over(&upstream->base, 20000, 0);
    struct crowd crowd = { .top = statistics_over(limit), .upstream = upstream };
    struct tide_statistics_figures seen = { TIDE_FIGURES(seen) };
    struct worker sum;

    is_u64(crowd_run(&crowd, 3000, &sum), 0, "sixteen threads at a limit: every allocation that passed is freed");
    tide_statistics_read(crowd.top, &seen);
    ok(all_of(seen.bytes.peak <= (int64_t)upstream->peak_bytes, upstream->peak_bytes <= 20000),
       "neither the peak nor what upstream had allocated exceeds the limit");
    is_u64(limit_used(limit), 0, "after the threads nothing is left in use at the limit");
    tide_resource_release(crowd.top);
    tide_resource_release(limit);
    tide_resource_release(&upstream->base);
}

/* --- To the last byte. --- */

#define LAST_BYTES 100003

struct filler {
    pthread_t thread;
    struct tide_resource *limit;
    pthread_barrier_t *barrier;
    uint64_t seed, wrong;
    uint64_t taken;
};

/* Get a large reserve, then allocate ever smaller blocks until no byte is left. Runs over sim, and frees nothing. */
static void *
filler_run(void *context)
{
    struct filler *filler = context;
    uint64_t most = LAST_BYTES / 8;
    void *pointer;

    for (int i = 0; i < 200; i++) {
        uint64_t bytes = 1 + contract_random(&filler->seed) % (LAST_BYTES / (2 * THREADS));

        if (take(filler->limit, bytes, &pointer) != TIDE_OK || give(filler->limit, pointer, bytes) != TIDE_OK)
            filler->wrong++;
    }
    pthread_barrier_wait(filler->barrier);
    while (most > 0) {
        uint64_t bytes = 1 + contract_random(&filler->seed) % most;

        if (take(filler->limit, bytes, &pointer) == TIDE_OK)
            filler->taken += bytes;
        else
            most = bytes == 1 ? 0 : bytes - 1;
    }
    return NULL;
}

/* Get a reserve, and stay idle. */
static void *
idler_run(void *context)
{
    struct filler *filler = context;
    void *pointer;

    for (int i = 0; i < 200; i++) {
        if (take(filler->limit, 10, &pointer) != TIDE_OK || give(filler->limit, pointer, 10) != TIDE_OK)
            filler->wrong++;
    }
    pthread_barrier_wait(filler->barrier);
    pthread_barrier_wait(filler->barrier);
    return NULL;
}

static uint64_t
run_fillers(struct filler *fillers, struct tide_resource *limit, pthread_barrier_t *barrier, uint64_t *wrong)
{
    uint64_t taken = 0;

    for (int i = 0; i < THREADS; i++) {
        fillers[i] = (struct filler){ .limit = limit, .barrier = barrier, .seed = contract_random(&seed) };
        pthread_create(&fillers[i].thread, NULL, filler_run, &fillers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(fillers[i].thread, NULL);
        *wrong += fillers[i].wrong;
        taken += fillers[i].taken;
    }
    return taken;
}

#define LAST_TESTS 5

static void
check_last_byte(void)
{
    struct filler fillers[THREADS];
    struct tide_resource *base = base_sim(0), *limit;
    pthread_barrier_t barrier;
    uint64_t wrong = 0, differ = 0, more = 0;
    void *pointer;

    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int round = 0; round < 30; round++) {
        limit = limit_over(base, LAST_BYTES, 0);
        differ += run_fillers(fillers, limit, &barrier, &wrong) != LAST_BYTES;
        differ += limit_used(limit) != LAST_BYTES;
        more += take(limit, 1, &pointer) != TIDE_ELIMIT;
        tide_resource_release(limit);
    }
    pthread_barrier_destroy(&barrier);
    is_u64(wrong, 0, "sixteen threads within the limit are never refused");
    is_u64(differ, 0, "sixteen threads fill a limit to the last byte");
    is_u64(more, 0, "threads get no byte more than the limit");

    limit = limit_over(base, LAST_BYTES, 0);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        fillers[i] = (struct filler){ .limit = limit, .barrier = &barrier };
        pthread_create(&fillers[i].thread, NULL, idler_run, &fillers[i]);
    }
    pthread_barrier_wait(&barrier);
    ok(all_of(take(limit, LAST_BYTES + 1, &pointer) == TIDE_ELIMIT, take(limit, LAST_BYTES, &pointer) == TIDE_OK),
       "a thread that needs the whole limit gets what idle threads hold in reserve");
    is_string(take(limit, 1, &pointer) == TIDE_ELIMIT ? tide_error_text() : "passed",
              "limit: 1 B request exceeds 97.66 KiB limit (97.66 KiB in use)",
              "no byte more than the limit is granted after that");
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++)
        pthread_join(fillers[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    tide_resource_release(limit);
    tide_resource_release(base);
}

/* --- At the points between two steps. --- */

static void *
run_take(void *context)
{
    void *pointer;

    return take(context, 100, &pointer) == TIDE_OK ? context : NULL;
}

#define WINDOW_TESTS 5

/* A thread is stopped while its request waits, and while it has recalled all leases. */
static void
check_windows(void)
{
    struct tide_resource *base = base_sim(0), *statistics = statistics_over(base);
    struct tide_statistics_figures seen = { TIDE_FIGURES(seen) };
    pthread_t thread;
    void *pointer, *done;

    take(statistics, 10, &pointer);
    point_arm("ledger.asked", NULL);
    pthread_create(&thread, NULL, run_take, statistics);
    point_wait();
    tide_statistics_read(statistics, &seen);
    is_i64(seen.bytes.current, 10, "a request that upstream has not served yet does not count");
    take(statistics, 1000, &pointer);
    take(statistics, 1000, &pointer);
    tide_statistics_read(statistics, &seen);
    ok(all_of(seen.bytes.current == 2010, seen.bytes.peak == 2010),
       "other threads' requests count while one waits for upstream");
    point_release();
    pthread_join(thread, &done);
    tide_statistics_read(statistics, &seen);
    ok(all_of(done != NULL, seen.bytes.current == 2110, seen.bytes.peak == 2110),
       "the request counts once when upstream has served it");

    point_arm("ledger.asked", NULL);
    pthread_create(&thread, NULL, run_take, statistics);
    point_wait();
    take(statistics, 1000, &pointer);
    tide_statistics_read(statistics, &seen);
    is_i64(seen.bytes.current, 3210, "a thread with the lock serves the request of a waiting one");
    point_release();
    pthread_join(thread, &done);
    tide_statistics_read(statistics, &seen);
    ok(all_of(done != NULL, seen.bytes.current == 3210, seen.bytes.peak == 3210, seen.count.total == 6),
       "a thread whose request was served while it waited finds it done");
    tide_resource_release(statistics);
    tide_resource_release(base);
}

int
main(void)
{
    plan(SERIAL_TESTS + CROWD_TESTS + BOUND_TESTS + LAST_TESTS + WINDOW_TESTS);
    seed = contract_seed((uint64_t)time(NULL));
    check_serial();
    check_crowd();
    check_bound();
    check_last_byte();
    check_windows();
    return done();
}
