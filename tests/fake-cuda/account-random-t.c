/*
 * Tests the account of a process against a model: threads allocate and free memory of every kind at random, below a
 * limit, while contexts come and go; at the edge of a limit, and beyond what the device has. The seed is printed, and
 * ACCOUNT_SEED sets it.
 *
 * With ACCOUNT_REDIRECTED, account-redirected-t, plain memory comes from a stack of each context's own.
 */
#include "tests/fake-cuda/account.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#define KIB          ((size_t)1 << 10)
#define MIB          ((size_t)1 << 20)
#define LIMIT        (64 * MIB)
#define EDGE_THREADS 16
#define THREADS      6
#define SLOTS        24
#define STEPS        400
#define ROUNDS       4

#ifdef ACCOUNT_REDIRECTED
#define STACK      "log | pool | cuda"
#define FIRST_KIND ASYNC /* the limit alone knows of plain memory, of all contexts together */
#else
#define STACK      NULL
#define FIRST_KIND PLAIN
#endif

enum kind { PLAIN, ASYNC, POOL, VIRTUAL, ARRAY, MANAGED, PINNED, KINDS };

static const char *const kind_names[KINDS] = { "plain", "async", "pool", "virtual", "array", "managed", "pinned" };

static CUmemoryPool own_pool;

struct block {
    enum kind kind;
    size_t bytes; /* 0: the slot is empty */
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    bool mapped;
    CUarray array;
    void *host;
};

static CUresult
create(CUmemGenericAllocationHandle *handle, size_t bytes)
{
    const CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                             .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

    return account.w_cuMemCreate(handle, bytes, &properties, 0);
}

/* Physical memory, half of which lives through a mapping alone. */
static CUresult
create_mapped(struct block *block, bool release)
{
    CUresult result = create(&block->handle, block->bytes);

    if (result != CUDA_SUCCESS)
        return result;
    block->mapped = account.address_reserve(&block->address, block->bytes, 0, 0, 0) == CUDA_SUCCESS &&
                    account.w_cuMemMap(block->address, block->bytes, 0, block->handle, 0) == CUDA_SUCCESS;
    if (block->mapped && release) {
        account.w_cuMemRelease(block->handle);
        block->handle = 0;
    }
    return CUDA_SUCCESS;
}

static CUresult
block_allocate(struct block *block, enum kind kind, size_t bytes, bool odd)
{
    CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = bytes / 64 / 4, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1
    };

    *block = (struct block){ .kind = kind, .bytes = bytes };
    switch (kind) {
    case PLAIN:
        return account.w_cuMemAlloc_v2(&block->address, bytes);
    case ASYNC:
        return odd ? account.w_cuMemAllocAsync_ptsz(&block->address, bytes, NULL)
                   : account.w_cuMemAllocAsync(&block->address, bytes, NULL);
    case POOL:
        return account.w_cuMemAllocFromPoolAsync(&block->address, bytes, own_pool, NULL);
    case VIRTUAL:
        return create_mapped(block, odd);
    case ARRAY:
        return account.w_cuArrayCreate_v2(&block->array, &flat);
    case MANAGED:
        return account.w_cuMemAllocManaged(&block->address, bytes, CU_MEM_ATTACH_GLOBAL);
    default:
        return odd ? account.w_cuMemHostAlloc(&block->host, bytes, 0)
                   : account.w_cuMemAllocHost_v2(&block->host, bytes);
    }
}

static bool
block_free(struct block *block, bool odd)
{
    bool done = true;

    switch (block->kind) {
    case ASYNC:
    case POOL:
        done = (odd ? account.w_cuMemFreeAsync(block->address, NULL) : account.w_cuMemFree_v2(block->address)) ==
               CUDA_SUCCESS;
        break;
    case VIRTUAL:
        if (odd && block->handle != 0)
            done = account.w_cuMemRelease(block->handle) == CUDA_SUCCESS;
        if (block->mapped)
            done &= account.w_cuMemUnmap(block->address, block->bytes) == CUDA_SUCCESS;
        if (!odd && block->handle != 0)
            done &= account.w_cuMemRelease(block->handle) == CUDA_SUCCESS;
        break;
    case ARRAY:
        done = account.w_cuArrayDestroy(block->array) == CUDA_SUCCESS;
        break;
    case PINNED:
        done = account.w_cuMemFreeHost(block->host) == CUDA_SUCCESS;
        break;
    default:
        done = account.w_cuMemFree_v2(block->address) == CUDA_SUCCESS;
    }
    block->bytes = 0;
    return done;
}

/* The edge of the limit: what is live is counted beside the account, after each success and before each free. */

static _Atomic uint64_t edge_live, edge_refused, edge_passed, edge_wrong;
static _Atomic int edge_ready;
static CUcontext context;

struct edge {
    uint64_t random;
    size_t most; /* bytes that the thread may hold */
    size_t unit; /* of which a block has one to eight */
};

static void
edge_wait(void)
{
    atomic_fetch_add(&edge_ready, 1);
    while (atomic_load(&edge_ready) < EDGE_THREADS)
        sched_yield(); /* to those that are not there yet, where there are fewer processors */
}

static void *
edge_thread(void *argument)
{
    struct edge *edge = argument;
    struct block blocks[8] = { 0 };
    size_t held = 0;

    account.context_set(context);
    edge_wait();
    for (int step = 0; step < STEPS; step++) {
        struct block *block = &blocks[next_random(&edge->random) % 8];
        enum kind kind = next_random(&edge->random) % 2 != 0 ? PLAIN : ASYNC;
        size_t bytes = (1 + next_random(&edge->random) % 8) * edge->unit;
        CUresult result;

        if (block->bytes != 0) {
            atomic_fetch_sub(&edge_live, block->bytes);
            held -= block->bytes;
            if (!block_free(block, false))
                atomic_fetch_add(&edge_wrong, 1);
            continue;
        }
        if (held + bytes > edge->most)
            continue;
        result = block_allocate(block, kind, bytes, false);
        if (result != CUDA_SUCCESS) {
            block->bytes = 0;
            atomic_fetch_add(result == CUDA_ERROR_OUT_OF_MEMORY ? &edge_refused : &edge_wrong, 1);
            continue;
        }
        held += bytes;
        if (atomic_fetch_add(&edge_live, bytes) + bytes > LIMIT)
            atomic_fetch_add(&edge_passed, 1);
    }
    for (int i = 0; i < 8; i++) {
        if (blocks[i].bytes == 0)
            continue;
        atomic_fetch_sub(&edge_live, blocks[i].bytes);
        if (!block_free(&blocks[i], false))
            atomic_fetch_add(&edge_wrong, 1);
    }
    return NULL;
}

static void
edge_run(uint64_t *random, size_t most, size_t unit)
{
    struct edge edges[EDGE_THREADS];
    pthread_t threads[EDGE_THREADS];

    edge_ready = 0;
    edge_refused = edge_passed = edge_wrong = 0;
    for (int i = 0; i < EDGE_THREADS; i++) {
        edges[i] = (struct edge){ .random = next_random(random), .most = most, .unit = unit };
        pthread_create(&threads[i], NULL, edge_thread, &edges[i]);
    }
    for (int i = 0; i < EDGE_THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Threads that allocate one MiB each until they are refused; none of them frees. */
static _Atomic uint64_t filled;

static void *
fill_thread(void *argument)
{
    struct block *blocks = argument;

    account.context_set(context);
    edge_wait();
    for (size_t i = 0; i < LIMIT / MIB; i++) {
        if (block_allocate(&blocks[i], i % 2 != 0 ? PLAIN : VIRTUAL, MIB * 2, false) != CUDA_SUCCESS) {
            blocks[i].bytes = 0;
            break;
        }
        atomic_fetch_add(&filled, 1);
    }
    return NULL;
}

static void
fill_run(void)
{
    static struct block blocks[EDGE_THREADS][LIMIT / MIB];
    pthread_t threads[EDGE_THREADS];

    edge_ready = 0;
    for (int i = 0; i < EDGE_THREADS; i++)
        pthread_create(&threads[i], NULL, fill_thread, blocks[i]);
    for (int i = 0; i < EDGE_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < EDGE_THREADS; i++) {
        for (size_t k = 0; k < LIMIT / MIB; k++)
            if (blocks[i][k].bytes != 0 && !block_free(&blocks[i][k], true))
                atomic_fetch_add(&edge_wrong, 1);
    }
}

/* Everything at random. */

struct worker {
    uint64_t random;
    uint64_t model[KINDS];
    struct block blocks[SLOTS];
    uint64_t wrong, refused;
    bool ends; /* free all */
};

static size_t
random_bytes(uint64_t *random, enum kind kind)
{
    if (next_random(random) % 16 == 0)
        return (size_t)1 << 40; /* more than there is, and than the limit */
    if (kind == VIRTUAL)
        return (1 + next_random(random) % 2) * 2 * MIB;
    if (kind == ARRAY)
        return (1 + next_random(random) % 16) * 64 * KIB;
    return 1 + next_random(random) % (2 * MIB);
}

static void
worker_step(struct worker *worker, struct block *block)
{
    enum kind kind = next_random(&worker->random) % KINDS;
    size_t bytes = random_bytes(&worker->random, kind);
    bool odd = next_random(&worker->random) % 2 != 0;
    CUresult result;

    if (block->bytes != 0) {
        worker->model[block->kind] -= block->bytes;
        worker->wrong += !block_free(block, odd);
        return;
    }
    if (kind == ARRAY && bytes > MIB)
        bytes = MIB; /* the driver refuses larger ones as invalid */
    result = block_allocate(block, kind, bytes, odd);
    if (result == CUDA_SUCCESS) {
        worker->model[kind] += bytes;
        return;
    }
    block->bytes = 0;
    worker->refused++;
    worker->wrong += result != CUDA_ERROR_OUT_OF_MEMORY;
}

/* A context of the worker's own, whose blocks go with it. */
static void
worker_context(struct worker *worker)
{
    struct block lost[3];
    CUcontext mine;

    if (account.context_create(&mine, 0, 0) != CUDA_SUCCESS) {
        worker->wrong++;
        return;
    }
    (void)block_allocate(&lost[0], PLAIN, MIB, false);
    (void)block_allocate(&lost[1], MANAGED, MIB, false);
    (void)block_allocate(&lost[2], PINNED, MIB, true);
    worker->wrong += account.w_cuCtxDestroy_v2(mine) != CUDA_SUCCESS;
    worker->wrong += account.context_set(context) != CUDA_SUCCESS;
}

static void *
worker_thread(void *argument)
{
    struct worker *worker = argument;

    account.context_set(context);
    for (int step = 0; step < STEPS; step++) {
        if (next_random(&worker->random) % 64 == 0)
            worker_context(worker);
        else
            worker_step(worker, &worker->blocks[next_random(&worker->random) % SLOTS]);
    }
    for (int i = 0; worker->ends && i < SLOTS; i++) {
        if (worker->blocks[i].bytes == 0)
            continue;
        worker->model[worker->blocks[i].kind] -= worker->blocks[i].bytes;
        worker->wrong += !block_free(&worker->blocks[i], i % 2 != 0);
    }
    return NULL;
}

static bool
agrees(const struct worker *workers)
{
    bool same = true;

    for (int kind = FIRST_KIND; kind < KINDS; kind++) {
        uint64_t sum = 0, seen = account_used(kind_names[kind], 0);

        for (int i = 0; i < THREADS; i++)
            sum += workers[i].model[kind];
        if (sum != seen) {
            diag("%s: the account has %llu B, the model %llu B", kind_names[kind], (unsigned long long)seen,
                 (unsigned long long)sum);
            same = false;
        }
    }
    return same;
}

static void
test_random(uint64_t *random, const char *trace)
{
    static struct worker workers[THREADS];
    uint64_t wrong = 0, refused = 0, limited = 0;
    size_t free_bytes, total_bytes;
    bool same = true;

    for (int i = 0; i < THREADS; i++)
        workers[i].random = next_random(random);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];

        for (int i = 0; i < THREADS; i++) {
            workers[i].ends = round == ROUNDS - 1;
            pthread_create(&threads[i], NULL, worker_thread, &workers[i]);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        same &= agrees(workers);
        limited = 0;
        for (int i = 0; i < THREADS; i++)
            for (int kind = PLAIN; kind <= ARRAY; kind++)
                limited += workers[i].model[kind];
        same &= account.w_cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS && total_bytes == LIMIT &&
                free_bytes <= LIMIT - limited;
    }
    for (int i = 0; i < THREADS; i++) {
        wrong += workers[i].wrong;
        refused += workers[i].refused;
    }
    ok(same, "after each round the account of each kind is the model's");
    ok(wrong == 0, "every call has returned what the driver or the limit says");
    ok(refused != 0 && limited == 0 && free_bytes == LIMIT, "when all is freed the limit has all its bytes back");
    account_flush();
    /* A pool keeps chunks. */
    ok(sql_number(trace,
                  "SELECT count(*) FROM allocation JOIN layer USING (layer_id) WHERE kind = 'log' AND status = 0 "
                  "AND free_ns IS NULL") == 0 &&
           sql_number(trace, "SELECT count(*) FROM unmatched_free") == 0 && trace_is_sound(trace),
       "the trace has an end for each life, and no free without one");
}

int
main(void)
{
    uint64_t random = random_seed("ACCOUNT_SEED");
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    struct tide_process_options options = { TIDE_OPTIONS(options), .stack = STACK, .limit = "64MiB" };
    const char *trace;

    if (!account_find())
        skip_all("there is no fake driver");
    plan(9);
    trace = scratch("random.db");
    options.trace = trace;
    if (!ok(account_start(&options), "the account starts"))
        return done();
    account.primary_retain(&context, 0);
    if (account.w_cuMemPoolCreate(&own_pool, &properties) != CUDA_SUCCESS)
        diag("no pool");
    edge_run(&random, LIMIT / EDGE_THREADS, 256 * KIB);
    ok(edge_refused == 0 && edge_wrong == 0, "16 threads whose requests all fit are never refused");
    edge_run(&random, 4 * LIMIT, 2 * MIB); /* one thread alone reaches the limit */
    ok(edge_passed == 0 && edge_wrong == 0 && edge_live == 0, "16 threads that want more never pass the limit");
    ok(edge_refused != 0, "those that do not fit are refused as out of memory");
    fill_run();
    is_u64(filled, LIMIT / MIB / 2, "as many requests succeed as fit, and not one fewer");
    test_random(&random, trace);
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
}

#endif
