/* Tests the samples of bases for the table pool_sample: when bases are asked, and where the answers go. */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <tidemark/tidemark.h>

#include "src/sync/testpoint.h"
#include "tests/tap.h"
#include "tests/trace.h"
#include "src/trace/events/sampler.h"
#include "src/trace/ring/clock.h"

#define PERIOD 1000000u

/* A base without memory that answers with the figures that a test has set, and counts the queries. */
static struct {
    struct tide_resource base;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t asked_now;
    uint64_t used_bytes;
    uint64_t reserved_bytes;
    uint64_t high_bytes; /* 0: the base does not count it */
    bool changes;        /* each answer differs from the one before */
    unsigned asked;
    unsigned asked_in_write; /* queries during a transaction */
    uint64_t free_bytes;     /* of device 5; 0: the base is on none */
    unsigned asked_device;
    long slow_ns; /* how long the device's answer takes */
    bool in_write;
} told = { .lock = PTHREAD_MUTEX_INITIALIZER, .asked_now = PTHREAD_COND_INITIALIZER };

static enum tide_status
told_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    static atomic_uintptr_t next = 1 << 20;

    (void)self;
    (void)alignment;
    (void)stream;
    *out = bytes != 0 ? (void *)atomic_fetch_add(&next, 1024) : NULL;
    return TIDE_OK;
}

static enum tide_status
told_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    (void)self;
    (void)pointer;
    (void)bytes;
    (void)alignment;
    (void)stream;
    return TIDE_OK;
}

static enum tide_status
told_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    bool known;

    if ((what == TIDE_QUERY_DEVICE || what == TIDE_QUERY_DEVICE_TOTAL || what == TIDE_QUERY_DEVICE_FREE) &&
        told.free_bytes != 0) {
        *out = what == TIDE_QUERY_DEVICE ? 5 : what == TIDE_QUERY_DEVICE_TOTAL ? 1000000 : told.free_bytes;
        told.asked_device += what == TIDE_QUERY_DEVICE_FREE;
        if (what == TIDE_QUERY_DEVICE_FREE && told.slow_ns != 0)
            nanosleep(&(struct timespec){ 0, told.slow_ns }, NULL);
        return TIDE_OK;
    }
    pthread_mutex_lock(&told.lock);
    known = what == TIDE_QUERY_BYTES_USED || what == TIDE_QUERY_BYTES_RESERVED ||
            (what == TIDE_QUERY_BYTES_RESERVED_HIGH && told.high_bytes != 0);
    if (!known) {
        pthread_mutex_unlock(&told.lock);
        return tide_base_query(self, what, out);
    }
    if (what == TIDE_QUERY_BYTES_RESERVED_HIGH) {
        *out = told.high_bytes;
    } else if (what == TIDE_QUERY_BYTES_USED) {
        told.used_bytes += told.changes;
        *out = told.used_bytes;
    } else {
        told.asked++;
        told.asked_in_write += told.in_write;
        *out = told.reserved_bytes;
        pthread_cond_broadcast(&told.asked_now);
    }
    pthread_mutex_unlock(&told.lock);
    return TIDE_OK;
}

static void
told_destroy(struct tide_resource *self)
{
    tide_resource_fini(self);
}

static const struct tide_resource_ops told_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "told",
    .allocate = told_allocate,
    .deallocate = told_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = told_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = told_destroy,
};

static void
told_set(uint64_t used_bytes, uint64_t reserved_bytes)
{
    pthread_mutex_lock(&told.lock);
    told.used_bytes = used_bytes;
    told.reserved_bytes = reserved_bytes;
    pthread_mutex_unlock(&told.lock);
}

static void
told_write(const char *label)
{
    bool before = strcmp(label, "writer.before-write") == 0;

    if (!before && strcmp(label, "writer.after-write") != 0)
        return;
    pthread_mutex_lock(&told.lock);
    told.in_write = before;
    pthread_mutex_unlock(&told.lock);
}

/* A log over a new base of this kind. */
static struct tide_resource *
told_log(const char *path)
{
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = path };
    struct tide_resource *log = NULL;

    told.used_bytes = told.reserved_bytes = told.high_bytes = 0;
    told.asked = told.asked_in_write = 0;
    if (tide_resource_init(&told.base, &told_ops, NULL) != TIDE_OK ||
        tide_log_create(&told.base, &options, &log) != TIDE_OK)
        skip_all(tide_error_text());
    tide_resource_release(&told.base);
    return log;
}

static void
test_period(void)
{
    struct tidei_sampler *sampler = tidei_sampler_new();
    const struct tidei_pool_sample *samples;
    size_t count;

    tide_resource_init(&told.base, &told_ops, NULL);
    tidei_sampler_watch(sampler, &told.base, 7, (struct tidei_high){ 0 });
    for (uint64_t ns = PERIOD; ns <= 4 * PERIOD; ns += PERIOD / 4) {
        told_set(ns, 2 * ns);
        tidei_sampler_sample(sampler, ns, false);
    }
    is_u64(told.asked, 4, "a base is asked once at the start and once in each of three milliseconds");
    tidei_sampler_sample(sampler, 4 * PERIOD + 1, true);
    is_u64(told.asked, 5, "a base is asked at once on demand");
    samples = tidei_sampler_take(sampler, &count);
    is_u64(count, 4, "an answer equal to the one before adds no sample");
    ok(all_of(samples[2].ns == 3 * PERIOD, samples[2].layer_id == 7, samples[2].used_bytes == 3 * PERIOD,
              samples[2].reserved_bytes == 6 * PERIOD),
       "a sample has the time, the layer and both figures");
    told_set(5, 5);
    tidei_sampler_sample(sampler, 6 * PERIOD, false);
    ok(all_of(tidei_sampler_take(sampler, &count) == samples, count == 4),
       "a sample taken during a transaction waits for the next transaction");
    tidei_sampler_written(sampler);
    ok(all_of(tidei_sampler_has(sampler), tidei_sampler_take(sampler, &count)->used_bytes == 5, count == 1),
       "a sample that waits is kept");
    tidei_sampler_written(sampler);
    told_set(6, 5);
    tidei_sampler_unwatch(sampler, &told.base);
    ok(all_of(tidei_sampler_take(sampler, &count)->used_bytes == 6, count == 1),
       "at the end the base is asked a last time");
    tidei_sampler_free(sampler);
    tide_resource_fini(&told.base);
}

/* A device is asked less often than its layers, and once for all its bases. */
static void
test_device(void)
{
    struct tidei_sampler *sampler = tidei_sampler_new();
    const uint64_t begin = tidei_monotonic_ns();
    const struct tidei_device_sample *samples;
    struct tide_resource twin;
    size_t count;

    tide_resource_init(&told.base, &told_ops, NULL);
    tide_resource_init(&twin, &told_ops, NULL);
    told.free_bytes = 700000;
    atomic_store(&tidei_test_device_ns, 3600ull * 1000000000);
    tidei_sampler_watch_device(sampler, &told.base, 5);
    tidei_sampler_watch_device(sampler, &twin, 5);
    for (int i = 0; i < 4; i++)
        tidei_sampler_sample(sampler, begin + i * PERIOD, false);
    is_u64(told.asked_device, 1, "two bases of a device are asked for it once within its period");
    told.free_bytes = 600000;
    tidei_sampler_sample(sampler, begin + 5 * PERIOD, true);
    tidei_sampler_sample(sampler, begin + 6 * PERIOD, true);
    ok(tidei_sampler_has(sampler), "samples of a device alone are to be written");
    samples = tidei_sampler_take_devices(sampler, &count);
    ok(all_of(count == 2, samples[0].ns >= begin, samples[0].device == 5, samples[0].free_bytes == 700000,
              samples[0].total_bytes == 1000000, samples[1].free_bytes == 600000),
       "a change of a device's free bytes is a sample, with the device and its total");
    tidei_sampler_written(sampler);
    told.free_bytes = 500000;
    tidei_sampler_unwatch(sampler, &told.base);
    tidei_sampler_sample(sampler, begin + 7 * PERIOD, true);
    ok(all_of(tidei_sampler_take_devices(sampler, &count)->free_bytes == 500000, count == 2),
       "at the end of the first base the device is asked a last time, and through the other one from then on");
    atomic_store(&tidei_test_device_ns, 0);
    told.free_bytes = 0;
    tidei_sampler_free(sampler);
    tide_resource_fini(&told.base);
    tide_resource_fini(&twin);
}

/* A sampler of a device, which is that of a layer, too. */
static struct tidei_sampler *
told_sampler(void)
{
    struct tidei_sampler *sampler = tidei_sampler_new();

    tide_resource_init(&told.base, &told_ops, NULL);
    told_set(300000, 400000);
    told.free_bytes = 700000;
    told.asked = told.asked_device = 0;
    tidei_sampler_watch(sampler, &told.base, 7, (struct tidei_high){ 0 });
    tidei_sampler_watch_device(sampler, &told.base, 5);
    return sampler;
}

static void
told_sampler_free(struct tidei_sampler *sampler)
{
    tidei_sampler_free(sampler);
    told.free_bytes = 0;
    tide_resource_fini(&told.base);
}

/* The driver answers late while another thread has its lock. */
static void
test_slow(void)
{
    struct tidei_sampler *sampler = told_sampler();
    const uint64_t begin = tidei_monotonic_ns(), slow_ns = 30000000;
    const struct tidei_device_sample *devices;
    const struct tidei_pool_sample *pools;
    size_t count, pool_count;

    told.slow_ns = (long)slow_ns;
    tidei_sampler_sample(sampler, begin, false);
    told.slow_ns = 0;
    devices = tidei_sampler_take_devices(sampler, &count);
    pools = tidei_sampler_take(sampler, &pool_count);
    ok(all_of(count == 1, pool_count == 1, devices[0].ns >= begin + slow_ns, pools[0].ns == devices[0].ns),
       "a device that answers late has a sample of the time of its answer, and its layers one of the same time");
    tidei_sampler_sample(sampler, begin + PERIOD, false);
    is_u64(told.asked_device, 1, "after a late answer the device is left alone for a while");
    tidei_sampler_sample(sampler, tidei_monotonic_ns() + 261000000, false);
    is_u64(told.asked_device, 2, "but for no longer than about a quarter of a second");
    told_sampler_free(sampler);
}

/* While the process exits. */
static void
test_last(void)
{
    const struct timespec past = { 0, 0 };
    struct tidei_sampler *sampler = told_sampler();
    const uint64_t begin = tidei_monotonic_ns();
    unsigned asked;
    size_t count;

    tidei_sampler_sample(sampler, begin, false);
    ok(all_of(tidei_sampler_want(sampler), !tidei_sampler_want(sampler), tidei_sampler_is_wanted(sampler)),
       "the last sample is wanted once");
    tidei_sampler_sample(sampler, begin + PERIOD / 2, false);
    tidei_sampler_take_devices(sampler, &count);
    ok(all_of(count == 2, !tidei_sampler_is_wanted(sampler), !tidei_sampler_hangs(sampler)),
       "it is taken at the next moment, and has the device although nothing has changed");
    tidei_sampler_wait(sampler, &past);
    asked = told.asked;
    tidei_sampler_end(sampler, begin + 4000 * PERIOD);
    ok(all_of(told.asked_device == 2, told.asked > asked), "after it layers are asked, but no device is");
    told_sampler_free(sampler);

    sampler = told_sampler();
    tidei_sampler_want(sampler);
    tidei_sampler_wait(sampler, &past);
    tidei_sampler_end(sampler, begin);
    ok(all_of(told.asked == 1, told.asked_device == 0, !tidei_sampler_hangs(sampler)),
       "where nobody takes it in time no device is asked any more, but the layers are");
    told_sampler_free(sampler);
}

/* Each change that a flush follows has a sample, with used and reserved bytes of its own. */
static void
test_values(void)
{
    const char *path = scratch("values.db");
    struct tide_resource *log = told_log(path);
    void *pointer = NULL;

    tide_allocate(log, 1, 1, 0, &pointer);
    for (uint64_t i = 1; i <= 50; i++) {
        told_set(i * 1000, i / 5 * 32768);
        tide_log_flush(log);
    }
    for (int i = 0; i < 10; i++)
        tide_log_flush(log);
    tide_deallocate(log, pointer, 1, 1, 0);
    tide_resource_release(log);
    is_i64(sql_number(path, "SELECT count(*) FROM pool_sample WHERE used_bytes > 0"), 50,
           "50 changes of the figures are 50 samples, and a repetition adds none");
    is_i64(sql_number(path, "SELECT count(*) FROM (SELECT used_bytes, reserved_bytes, row_number() OVER (ORDER BY ns) "
                            "AS i FROM pool_sample WHERE used_bytes > 0) "
                            "WHERE used_bytes = i * 1000 AND reserved_bytes = i / 5 * 32768"),
           50, "the samples are in order, with the figures of their times");
}

static void
told_grow(struct tide_resource *log, uint64_t reserved_bytes, uint64_t high_bytes)
{
    pthread_mutex_lock(&told.lock);
    told.used_bytes = 10;
    told.reserved_bytes = reserved_bytes;
    told.high_bytes = high_bytes;
    pthread_mutex_unlock(&told.lock);
    tide_log_flush(log);
}

/* What a base counts as its most, also between two samples. */
static void
test_high(void)
{
    const char *path = scratch("high.db");
    struct tide_resource *log = told_log(path);

    told_grow(log, 1000, 0);
    is_string(sql_text(path, "SELECT group_concat(ifnull(reserved_high_bytes, 'NULL')) FROM pool_sample"), "NULL",
              "where the base does not count its most, that is not known");
    told_grow(log, 1000, 1500);
    told_grow(log, 1000, 1700);
    told_grow(log, 1000, 1700);
    told_grow(log, 900, 900); /* the program has reset it */
    told_grow(log, 900, 1600);
    told_grow(log, 900, 1800);
    pthread_mutex_lock(&told.lock);
    told.high_bytes = 1900;
    pthread_mutex_unlock(&told.lock);
    tide_resource_release(log);
    is_string(sql_text(path, "SELECT group_concat(reserved_high_bytes) FROM pool_sample"), "1500,1700,1700,1800,1900",
              "each rise of the most has a sample, the last word too, and it never falls");
}

static uint64_t
high_after(struct tidei_high *high, uint64_t reserved_bytes, uint64_t most_bytes)
{
    struct tidei_layer_figures figures = { 0, reserved_bytes, most_bytes };

    tidei_high_next(high, &figures);
    return figures.reserved_high_bytes;
}

/* A base had reserved 500 bytes before the watch began, when it has 100. */
static void
test_high_before(void)
{
    const struct tidei_layer_figures figures = { 0, 100, 500 };
    struct tidei_high high;

    tidei_high_begin(&high, &figures);
    ok(all_of(high_after(&high, 100, 500) == 0, high_after(&high, 300, 500) == 0),
       "what a base had reserved before the trace is not taken for the most since");
    ok(all_of(high_after(&high, 300, 501) == 501, high_after(&high, 100, 501) == 501),
       "once it has had more, that is the most since");
    tidei_high_begin(&high, &figures);
    ok(all_of(high_after(&high, 500, 500) == 500, high_after(&high, 100, 500) == 500),
       "once it has as much again, that is the most since");
    tidei_high_begin(&high, &figures);
    ok(all_of(high_after(&high, 300, 500) == 0, high_after(&high, 200, 200) == 300, high_after(&high, 200, 400) == 400),
       "a base that is reset counts from then on, and what was seen before counts, too");
}

#define EVENTS 40000

/* The writer of a busy trace is in SQLite most of the time. */
static void
test_busy(void)
{
    const char *path = scratch("busy.db");
    struct tide_resource *log;
    void *pointer = NULL;
    unsigned asked;

    told.changes = true; /* before the writer can ask */
    log = told_log(path);
    atomic_store(&tidei_test_sample_ns, 1);
    atomic_store(&tidei_test_point, told_write);
    for (int i = 0; i < EVENTS; i++)
        tide_allocate(log, 1, 1, 0, &pointer);
    tide_log_flush(log);
    atomic_store(&tidei_test_point, NULL);
    atomic_store(&tidei_test_sample_ns, 0);
    pthread_mutex_lock(&told.lock);
    asked = told.asked_in_write;
    pthread_mutex_unlock(&told.lock);
    ok(asked >= EVENTS / 4096 / 2, "a base is asked while SQLite writes: %u times", asked);
    tide_resource_release(log);
    is_i64(sql_number(path, "SELECT count(*) FROM pool_sample"), told.asked - 2,
           "each answer but those at the begin of the watch is a sample");
    is_i64(sql_number(path, "SELECT max(used_bytes) FROM pool_sample"), (int64_t)told.used_bytes,
           "the last answer before the end is a sample");
    told.changes = false;
}

/* A pool gives memory back when its streams are waited for, without an event. */
static void
test_quiet(void)
{
    const char *path = scratch("quiet.db");
    struct tide_resource *log = told_log(path);
    void *pointer = NULL;
    struct timespec late;
    unsigned asked;

    atomic_store(&tidei_test_quiet_ns, UINT64_MAX);
    told_set(1000, 4096);
    tide_allocate(log, 1, 1, 0, &pointer);
    tide_deallocate(log, pointer, 1, 1, 0);
    tide_log_flush(log);
    pthread_mutex_lock(&told.lock);
    told.used_bytes = told.reserved_bytes = 0;
    asked = told.asked;
    clock_gettime(CLOCK_REALTIME, &late);
    late.tv_sec += 20;
    while (told.asked == asked && pthread_cond_timedwait(&told.asked_now, &told.lock, &late) == 0)
        continue;
    told.used_bytes = told.reserved_bytes = 4711; /* so that the last answer differs */
    pthread_mutex_unlock(&told.lock);
    atomic_store(&tidei_test_quiet_ns, 0);
    tide_resource_release(log);
    is_i64(sql_number(path, "SELECT reserved_bytes FROM pool_sample WHERE used_bytes = 0 ORDER BY ns DESC LIMIT 1"), 0,
           "a change after the last event has a sample");
}

int
main(void)
{
    plan(30);
    atomic_store(&tidei_test_query_ns, 20000000000u); /* a busy machine answers late */
    test_period();
    test_device();
    test_slow();
    test_last();
    test_values();
    test_high();
    test_high_before();
    test_busy();
    test_quiet();
    return done();
}
