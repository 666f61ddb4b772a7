/* The processes of bench/gpu that call the driver. Each measures its configurations when bench/gpu tells it to. */
#include "tests/gpu/gpu.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "bench/bench.h"
#include "bench/gpu.h"

#ifdef HAVE_CUDA_H

#define CHILD_MAX_CONFIGS 8
#define CHILD_MAX_THREADS 64

/* The live blocks of one thread, for random replacement. */
struct child_live {
    uint64_t seed;
    struct {
        void *pointer;
        size_t bytes;
    } blocks[GPU_LIVE];
};

/* A configuration that this process measures. */
struct child_config {
    const struct gpu_config *config;
    struct tide_resource *stack;                /* NULL: the driver's pool, skipped, or not open in this round */
    struct child_live *live[CHILD_MAX_THREADS]; /* owns; by thread; NULL until its first round */
    char trace[96];                             /* empty: without a log */
    unsigned place;
    bool skipped;
};

static struct {
    struct child_config configs[CHILD_MAX_CONFIGS];
    unsigned count;
    unsigned threads;
    CUcontext context;
    CUmemoryPool pool;
    struct child_config *turn; /* the configuration to run; NULL: the end */
    pthread_barrier_t barrier;
    pthread_t ids[CHILD_MAX_THREADS];
    double results[CHILD_MAX_THREADS];
} child;

/*
 * Open the pool that the stacks use, with their release threshold, so that it gives nothing back to the device
 * meanwhile. A pool of its own would not compare: two pools of one process took 620 and 870 ns a pair.
 */
static void
child_open_pool(void)
{
    cuuint64_t all = (cuuint64_t)1 << 40;

    if (gpu.device_get_default_mem_pool(&child.pool, 0) != CUDA_SUCCESS ||
        gpu.mem_pool_set_attribute(child.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all) != CUDA_SUCCESS)
        bench_fail("cuDeviceGetDefaultMemPool");
}

static void
child_pairs_bare(CUstream stream, unsigned pairs)
{
    CUdeviceptr address;

    for (unsigned i = 0; i < pairs; i++) {
        if (gpu.mem_alloc_from_pool_async(&address, GPU_BYTES, child.pool, stream) != CUDA_SUCCESS ||
            gpu.mem_free_async(address, stream) != CUDA_SUCCESS)
            bench_fail("the driver's pool");
    }
}

static void
child_pairs_stack(struct tide_resource *stack, tide_stream stream, unsigned pairs)
{
    void *pointer;

    for (unsigned i = 0; i < pairs; i++) {
        if (tide_allocate(stack, GPU_BYTES, TIDE_DEFAULT_ALIGNMENT, stream, &pointer) != TIDE_OK ||
            tide_deallocate(stack, pointer, GPU_BYTES, TIDE_DEFAULT_ALIGNMENT, stream) != TIDE_OK)
            bench_fail("stack");
    }
}

static void
child_replace(struct child_live *live, size_t i, struct tide_resource *stack, tide_stream stream, size_t bytes)
{
    if (live->blocks[i].bytes != 0 && tide_deallocate(stack, live->blocks[i].pointer, live->blocks[i].bytes,
                                                      TIDE_DEFAULT_ALIGNMENT, stream) != TIDE_OK)
        bench_fail(tide_error_text());
    live->blocks[i].bytes = bytes;
    if (bytes != 0 && tide_allocate(stack, bytes, TIDE_DEFAULT_ALIGNMENT, stream, &live->blocks[i].pointer) != TIDE_OK)
        bench_fail(tide_error_text());
}

static uint64_t
child_random(struct child_live *live)
{
    live->seed = live->seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    return live->seed >> 33;
}

/* The first round of a thread, which does not count, fills its blocks first. */
static void
child_pairs_replace(struct child_config *config, unsigned thread, tide_stream stream, unsigned pairs)
{
    struct child_live *live = config->live[thread];

    if (live == NULL) {
        live = config->live[thread] = calloc(1, sizeof(*live));
        if (live == NULL)
            bench_fail("no memory");
        live->seed = 12345 + thread;
        for (size_t i = 0; i < GPU_LIVE; i++)
            child_replace(live, i, config->stack, stream, 1 + child_random(live) % GPU_LARGEST);
    }
    for (unsigned i = 0; i < pairs; i++) {
        size_t block = child_random(live) % GPU_LIVE;

        child_replace(live, block, config->stack, stream, 1 + child_random(live) % GPU_LARGEST);
    }
}

/* The stream of the thread is about to go. */
static void
child_free_live(unsigned thread, tide_stream stream)
{
    for (unsigned i = 0; i < child.count; i++) {
        struct child_config *config = &child.configs[i];

        for (size_t j = 0; j < GPU_LIVE && config->live[thread] != NULL; j++)
            child_replace(config->live[thread], j, config->stack, stream, 0);
        free(config->live[thread]);
    }
}

static void
child_pairs(CUstream stream, unsigned thread, unsigned pairs)
{
    if (child.turn->config->pairs == GPU_REPLACE)
        child_pairs_replace(child.turn, thread, (tide_stream)stream, pairs);
    else if (child.turn->stack != NULL)
        child_pairs_stack(child.turn->stack, (tide_stream)stream, pairs);
    else
        child_pairs_bare(stream, pairs);
}

static void *
child_thread(void *argument)
{
    double *result = argument;
    unsigned thread = (unsigned)(result - child.results);
    CUstream stream = NULL;
    uint64_t begin;

    bench_pin(thread);
    if (gpu.context_set(child.context) != CUDA_SUCCESS ||
        gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        bench_fail("cuStreamCreate");
    for (;;) {
        pthread_barrier_wait(&child.barrier);
        if (child.turn == NULL)
            break;
        begin = bench_now_ns();
        child_pairs(stream, thread, GPU_PAIRS(child.threads));
        *result = (double)(bench_now_ns() - begin) / GPU_PAIRS(child.threads);
        pthread_barrier_wait(&child.barrier);
    }
    child_free_live(thread, (tide_stream)stream);
    gpu.stream_destroy(stream);
    return NULL;
}

static int
child_machine(void)
{
    char name[64] = "";
    int version = 0;

    gpu.device_get_name(name, sizeof(name), 0);
    gpu.driver_get_version(&version);
    printf("%d x %s, driver of CUDA %d.%d\n", gpu.devices, name, version / 1000, version % 1000 / 10);
    return 0;
}

/* Returns NULL, or why this configuration cannot be measured here. */
static const char *
child_open_config(struct child_config *self)
{
    char text[256];

    if (self->config->cupti != GPU_CUPTI_NOTHING)
        return gpu_cupti_start(self->config->cupti);
    if (self->config->stack == NULL)
        return NULL;
    if (strstr(self->config->stack, "%s") != NULL)
        snprintf(self->trace, sizeof(self->trace), "bench-gpu-%s-%u.db", self->config->process, self->place);
    snprintf(text, sizeof(text), self->config->stack, self->trace);
    return tide_stack_parse(text, &self->stack) == TIDE_OK ? NULL : tide_error_text();
}

/* Close a configuration, but keep its trace or the number of bytes received, for the notes. */
static void
child_close_config(struct child_config *self)
{
    tide_resource_release(self->stack);
    self->stack = NULL;
    if (self->config->cupti == GPU_CUPTI_CALLBACKS)
        gpu_cupti_stop();
}

static void
child_turn(struct child_config *config)
{
    child.turn = config;
    pthread_barrier_wait(&child.barrier);
    pthread_barrier_wait(&child.barrier);
}

/*
 * Warm up: run two rounds that do not count, and let the writer of a log write their records. Before, the processor has
 * slept, another process has used it, and the pages of a new log's rings have not been touched.
 */
static void
child_warm(struct child_config *config)
{
    child_turn(config);
    child_turn(config);
    if (config->trace[0] != '\0' && tide_log_flush(config->stack) != TIDE_OK)
        bench_fail("log");
}

/* Run a round; returns the mean of all threads. */
static double
child_round(struct child_config *config)
{
    const char *reason = config->config->for_round ? child_open_config(config) : NULL;
    double sum = 0;

    if (reason != NULL)
        bench_fail(reason);
    child_warm(config);
    child_turn(config);
    for (unsigned i = 0; i < child.threads; i++)
        sum += child.results[i];
    if (config->config->for_round)
        child_close_config(config);
    return sum / child.threads;
}

static void
child_open(const char *process)
{
    for (unsigned i = 0; i < gpu_config_count && child.count < CHILD_MAX_CONFIGS; i++) {
        struct child_config *self = &child.configs[child.count];
        const char *reason;

        if (strcmp(gpu_configs[i].process, process) != 0)
            continue;
        self->config = &gpu_configs[i];
        self->place = child.count;
        reason = child_open_config(self);
        self->skipped = reason != NULL;
        if (self->config->for_round && !self->skipped)
            child_close_config(self);
        if (self->skipped)
            printf("skip %s\n", reason);
        else
            puts("ready");
        child.count++;
    }
    fflush(stdout);
}

/* Print what the trace says in words about the calls that CUPTI timed. */
static void
child_note(const char *trace)
{
    static const char sql[] =
        "SELECT coalesce((SELECT value FROM meta WHERE key = 'cupti'), 'off'), (SELECT count(*) FROM allocation), "
        "(SELECT count(*) FROM driver_call), (SELECT coalesce(sum(events), 0) FROM loss), "
        "(SELECT coalesce(max(value), 0) FROM meta WHERE key = 'ring_waits')";
    sqlite3_stmt *statement = NULL;
    sqlite3 *db = NULL;

    if (sqlite3_open_v2(trace, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        printf("cupti %s, %lld allocations, %lld driver calls, %lld lost, %lld waits for the writer",
               sqlite3_column_text(statement, 0), sqlite3_column_int64(statement, 1),
               sqlite3_column_int64(statement, 2), sqlite3_column_int64(statement, 3),
               sqlite3_column_int64(statement, 4));
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static void
child_close(void)
{
    for (unsigned i = 0; i < child.count; i++) {
        struct child_config *self = &child.configs[i];

        if (!self->skipped && !self->config->for_round)
            child_close_config(self);
        if (!self->skipped && self->config->cupti == GPU_CUPTI_MEMORY2) {
            unsigned fresh;
            unsigned long long bytes = gpu_cupti_finish(&fresh);

            printf("%.1f MiB of MEMORY2 records, %u buffers made in between", (double)bytes / (1 << 20), fresh);
        }
        if (!self->skipped && self->trace[0] != '\0') {
            child_note(self->trace);
            unlink(self->trace);
        }
        putchar('\n');
    }
}

int
gpu_child(const char *process, unsigned threads)
{
    const char *reason = gpu_open();
    char line[32];

    if (reason != NULL)
        bench_fail(reason);
    if (strcmp(process, GPU_MACHINE) == 0)
        return child_machine();
    if (threads == 0 || threads > CHILD_MAX_THREADS || gpu.primary_retain(&child.context, 0) != CUDA_SUCCESS ||
        gpu.context_set(child.context) != CUDA_SUCCESS)
        bench_fail(process);
    child.threads = threads;
    child_open_pool();
    child_open(process);
    pthread_barrier_init(&child.barrier, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&child.ids[i], NULL, child_thread, &child.results[i]) != 0)
            bench_fail("no thread");
    }
    while (fgets(line, sizeof(line), stdin) != NULL) {
        unsigned long place = strtoul(line, NULL, 10);

        if (place >= child.count || child.configs[place].skipped)
            bench_fail("no such configuration");
        printf("%.3f\n", child_round(&child.configs[place]));
        fflush(stdout);
    }
    child.turn = NULL;
    pthread_barrier_wait(&child.barrier);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(child.ids[i], NULL);
    child_close();
    gpu.context_set(NULL);
    gpu.primary_release(0);
    return fflush(stdout) == 0 ? 0 : 1;
}

#else

int
gpu_child(const char *process, unsigned threads)
{
    (void)threads;
    bench_fail(process);
}

#endif
