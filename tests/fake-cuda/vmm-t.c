/*
 * Tests the base `vmm` where a GPU gives no answer: what is left of handles and mappings, a driver that refuses,
 * devices that cannot, too little memory and too few addresses, fork, and contexts and streams that are gone.
 *
 * Runs on the fake driver alone, each scene in a child that has not loaded it yet.
 */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "tests/gpu/work.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#include "src/resource/place.h"
#include "tests/fake-cuda/tracer.h"

#define PAGE  (2 * MIB)
#define WORDS ((uint32_t)(PAGE / sizeof(uint32_t)))

/* A condition of a scene: if it is false, the scene ends with 1. */
#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            diag("line %d is false: %s (%s)", __LINE__, #condition, tide_error_text());                                \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static void (*own_count)(struct fake_count *out);
static CUresult (*own_unmap)(CUdeviceptr pointer, size_t bytes);
static const char *(*own_function)(unsigned place, int *calls);

static struct fake_count
count(void)
{
    struct fake_count left;

    own_count(&left);
    return left;
}

static bool
nothing_left(void)
{
    struct fake_count left = count();

    if (left.handles + left.ranges + left.maps + left.events + left.faults == 0 && left.handle_bytes == 0)
        return true;
    diag("left: %u handles, %u ranges, %u maps, %u events, %u faults", left.handles, left.ranges, left.maps,
         left.events, left.faults);
    return false;
}

static struct tide_resource *
make(const char *text)
{
    struct tide_resource *stack = NULL;

    if (tide_stack_parse(text, &stack) != TIDE_OK)
        diag("%s: %s", text, tide_error_text());
    return stack;
}

static void *
have(struct tide_resource *vmm, size_t bytes, CUstream stream)
{
    void *block = NULL;

    gpu_allocates(vmm, bytes, stream, &block);
    return block;
}

static struct tide_vmm_figures
figures_of(struct tide_resource *vmm)
{
    struct tide_vmm_figures figures = { TIDE_FIGURES(figures) };

    tide_vmm_read(vmm, &figures);
    return figures;
}

/* Whether the figures are those that the driver counts. */
static bool
figures_are_right(struct tide_resource *vmm)
{
    struct tide_vmm_figures figures = figures_of(vmm);
    struct fake_count real = count();

    return figures.handles == real.handles && figures.reserved_bytes == real.handle_bytes &&
           figures.created - figures.released == figures.handles &&
           figures.mapped_bytes + figures.cached_bytes == figures.reserved_bytes &&
           gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == figures.reserved_bytes;
}

/* The mapping of a freed block ends once its work is done, and not before. */
static int
scene_mappings(void *unused)
{
    struct tide_resource *vmm = make("vmm");
    struct gpu_work work = { 0 };
    struct gpu_hold hold = { 0 };
    void *first, *second;

    (void)unused;
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0) && gpu_hold_open(&hold));
    NEED((first = have(vmm, 2 * PAGE, work.first)) != NULL);
    NEED(count().handles == 1 && count().maps == 1 && count().ranges == 1);
    NEED(gpu_hold_fill(&hold, work.first, first, 2 * WORDS, 1) && gpu_frees(vmm, first, 2 * PAGE, work.first));
    tidei_place_wish((uintptr_t)first + 4 * PAGE);
    NEED((second = have(vmm, 2 * PAGE, work.first)) == (char *)first + 4 * PAGE);
    NEED(count().handles == 1 && count().maps == 2 && figures_of(vmm).remapped == 1);
    NEED(tide_trim(vmm, 0) == TIDE_OK && count().maps == 2);
    gpu_hold_go(&hold);
    NEED(gpu.stream_synchronize(work.first) == CUDA_SUCCESS && tide_trim(vmm, 0) == TIDE_OK);
    NEED(count().maps == 1 && count().handles == 1 && count().faults == 0);
    NEED(gpu_count_wrong(&work.kernels, work.first, second, 2 * WORDS, 1) == 0);
    NEED(figures_are_right(vmm) && gpu_frees(vmm, second, 2 * PAGE, work.first));
    tide_resource_release(vmm);
    gpu_hold_close(&hold);
    gpu_work_close(&work);
    NEED(nothing_left());
    return 0;
}

/* A driver whose events pass at once makes the base unmap memory in use: the fake driver sees it. */
static int
scene_planted(void *unused)
{
    struct tide_resource *vmm;
    struct gpu_work work = { 0 };
    struct gpu_hold hold = { 0 };
    void *block;

    (void)unused;
    setenv("FAKE_CUDA_EVENTS_LIE", "1", 1);
    vmm = make("vmm");
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0) && gpu_hold_open(&hold));
    NEED((block = have(vmm, PAGE, work.first)) != NULL && gpu_hold_fill(&hold, work.first, block, WORDS, 1));
    NEED(gpu_frees(vmm, block, PAGE, work.first) && tide_trim(vmm, 0) == TIDE_OK);
    NEED(count().faults == 1 && gpu.stream_query(work.first) == CUDA_ERROR_ILLEGAL_ADDRESS);
    gpu_hold_go(&hold);
    return 0;
}

/* What the fake driver refuses, so that a base which does it is found out. */
static int
scene_legal(void *unused)
{
    struct tide_resource *vmm = make("vmm");
    char *block;

    (void)unused;
    NEED(gpu_open() == NULL && (block = have(vmm, 2 * PAGE, NULL)) != NULL);
    NEED(own_unmap((CUdeviceptr)(uintptr_t)block, PAGE) == CUDA_ERROR_INVALID_VALUE);
    NEED(own_unmap((CUdeviceptr)(uintptr_t)(block + 2 * PAGE), PAGE) == CUDA_ERROR_INVALID_VALUE);
    NEED(gpu.mem_free((CUdeviceptr)(uintptr_t)block) != CUDA_SUCCESS);
    NEED(count().maps == 1 && gpu_frees(vmm, block, 2 * PAGE, NULL));
    tide_resource_release(vmm);
    return !nothing_left();
}

/* A base that is released with live blocks and pending work waits for the work, and leaves nothing. */
static int
scene_live(void *unused)
{
    struct tide_resource *vmm = make("vmm");
    struct gpu_work work = { 0 };
    void *blocks[3];

    (void)unused;
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0));
    for (int i = 0; i < 3; i++) {
        NEED((blocks[i] = have(vmm, (size_t)(i + 1) * PAGE, work.first)) != NULL);
        NEED(gpu_delay(&work.kernels, work.first, 20000000) &&
             gpu_fill(&work.kernels, work.first, blocks[i], WORDS, 1));
    }
    NEED(gpu_frees(vmm, blocks[0], PAGE, work.first));
    tide_resource_release(vmm);
    NEED(count().handles == 0 && count().maps == 0 && count().ranges == 0 && count().faults == 0);
    gpu_work_close(&work);
    return !nothing_left();
}

/* Allocates a block for which the host has to wait. */
static void *
allocate_small(void *vmm)
{
    return have(vmm, 3 * PAGE, (CUstream)2);
}

/* While one thread waits for freed memory, another one frees, and so may end the work that is waited for. */
static int
scene_waits(void *unused)
{
    struct tide_resource *vmm = make("vmm");
    struct gpu_work work = { 0 };
    struct gpu_hold hold = { 0 };
    pthread_t thread;
    void *large, *other, *small;

    (void)unused;
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0) && gpu_hold_open(&hold));
    NEED((large = have(vmm, 4 * PAGE, work.first)) != NULL && (other = have(vmm, PAGE, work.second)) != NULL);
    NEED(gpu_hold_fill(&hold, work.first, large, WORDS, 1) && gpu_frees(vmm, large, 4 * PAGE, work.first));
    NEED(pthread_create(&thread, NULL, allocate_small, vmm) == 0);
    while (figures_of(vmm).waits == 0)
        usleep(1000);
    NEED(gpu_frees(vmm, other, PAGE, work.second) && gpu.stream_query(work.first) == CUDA_ERROR_NOT_READY);
    gpu_hold_go(&hold);
    NEED(pthread_join(thread, &small) == 0 && small != NULL && figures_of(vmm).waits == 1);
    NEED(gpu_frees(vmm, small, 3 * PAGE, NULL) && figures_are_right(vmm));
    gpu_hold_close(&hold);
    tide_resource_release(vmm);
    gpu_work_close(&work);
    return !nothing_left();
}

/* Two threads need what one block on its way has, and the device has no more: the second waits as well. */
static int
scene_waiters(void *unused)
{
    struct tide_resource *vmm;
    struct gpu_work work = { 0 };
    struct gpu_hold hold = { 0 };
    pthread_t threads[2];
    void *large, *small[2];

    (void)unused;
    setenv("FAKE_CUDA_MEMORY", "64M", 1); /* of which the driver keeps 32M, and the test 2M for a word */
    vmm = make("vmm");
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0) && gpu_hold_open(&hold));
    NEED((large = have(vmm, 14 * PAGE, work.first)) != NULL);
    NEED(gpu_hold_fill(&hold, work.first, large, WORDS, 1) && gpu_frees(vmm, large, 14 * PAGE, work.first));
    for (uint64_t i = 0; i < 2; i++) {
        NEED(pthread_create(&threads[i], NULL, allocate_small, vmm) == 0);
        for (int ms = 0; ms < 5000 && figures_of(vmm).waits <= i; ms++)
            usleep(1000);
    }
    gpu_hold_go(&hold);
    for (int i = 0; i < 2; i++)
        NEED(pthread_join(threads[i], &small[i]) == 0);
    NEED(small[0] != NULL && small[1] != NULL && small[0] != small[1]);
    NEED(gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED_HIGH) == 14 * PAGE && figures_are_right(vmm));
    for (int i = 0; i < 2; i++)
        NEED(gpu_frees(vmm, small[i], 3 * PAGE, NULL));
    gpu_hold_close(&hold);
    tide_resource_release(vmm);
    gpu_work_close(&work);
    return !nothing_left();
}

/* A stream is destroyed while its memory is on the way, and a new one gets its handle. */
static int
scene_destroyed(void *unused)
{
    struct tide_resource *vmm = make("vmm");
    struct gpu_work work = { 0 };
    struct gpu_hold hold = { 0 };
    CUstream stream, later;
    void *block, *again;

    (void)unused;
    setenv("FAKE_CUDA_REUSE_STREAMS", "1", 1);
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0) && gpu_hold_open(&hold));
    NEED(gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    NEED((block = have(vmm, PAGE, stream)) != NULL && gpu_hold_fill(&hold, stream, block, WORDS, 1));
    NEED(gpu_frees(vmm, block, PAGE, stream) && gpu.stream_destroy(stream) == CUDA_SUCCESS);
    NEED(gpu.stream_create(&later, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS && later == stream);
    NEED((again = have(vmm, PAGE, later)) != NULL);
    NEED(figures_of(vmm).orders == 1); /* a new stream does not wait for the old one by itself */
    gpu_hold_go(&hold);
    NEED(gpu_frees(vmm, again, PAGE, later) && gpu.stream_destroy(later) == CUDA_SUCCESS);
    NEED(tide_order(vmm, TIDE_STREAM_ALL, 0) == TIDE_OK && figures_are_right(vmm) && tide_trim(vmm, 0) == TIDE_OK &&
         gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == 0);
    gpu_hold_close(&hold);
    tide_resource_release(vmm);
    gpu_work_close(&work);
    return !nothing_left();
}

/* A mapping that the driver once refuses to end holds its memory: the handle is released after it. */
static int
scene_unmap(void *unused)
{
    struct tide_resource *vmm = make("vmm");
    struct gpu_work work = { 0 };
    char *first, *second;

    (void)unused;
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0) && (first = have(vmm, PAGE, work.first)) != NULL);
    NEED(gpu_delay(&work.kernels, work.first, 20000000) && gpu_frees(vmm, first, PAGE, work.first));
    tidei_place_wish((uintptr_t)first + 4 * PAGE);
    NEED((second = have(vmm, PAGE, work.first)) == first + 4 * PAGE && count().maps == 2 && count().handles == 1);
    NEED(gpu_frees(vmm, second, PAGE, work.first) && gpu.stream_synchronize(work.first) == CUDA_SUCCESS);
    setenv("FAKE_CUDA_FAIL", "cuMemUnmap:999:1", 1);
    NEED(tide_trim(vmm, 0) == TIDE_OK && figures_are_right(vmm));
    NEED(count().maps == 0 && count().handle_bytes == 0);
    tide_resource_release(vmm);
    gpu_work_close(&work);
    return !nothing_left();
}

/* The calls that a request makes are in the trace, with the request. */
static int
scene_trace(void *path)
{
#ifdef HAVE_CUPTI_H
    struct tide_resource *stack = stack_of("log(%s, cupti=calls) | vmm(stress=true)", (const char *)path);
    void *block = take(stack, PAGE);

    give(stack, block, PAGE);
    NEED(tide_order(stack, TIDE_STREAM_ALL, 0) == TIDE_OK);
    block = take(stack, 2 * PAGE);
    give(stack, block, 2 * PAGE);
    tide_resource_release(stack);
    NEED(trace_is_whole(path));
    if (sql_number(path, "SELECT value = 'calls' FROM meta WHERE key = 'cupti'") == 0)
        return 0; /* the fake CUPTI was not built */
    NEED(sql_number(path, "SELECT count(*) FROM driver_call WHERE function = 'cuMemCreate' AND result = 0") == 2);
    NEED(sql_number(path, "SELECT count(*) FROM driver_call WHERE function = 'cuMemMap'") == 3);
    NEED(sql_number(path, "SELECT count(DISTINCT function) FROM driver_call WHERE allocation_id = 1 AND NOT is_free") ==
         3);
#else
    (void)path;
#endif
    return 0;
}

/* What was in use long ago is released as other blocks come and go, and what a repeated step needs stays. */
static int
scene_decay(void *unused)
{
    struct tide_resource *vmm = make("vmm(decay=10)"), *slow = make("vmm");
    struct tide_resource *both[2] = { vmm, slow };
    void *blocks[8], *block;

    (void)unused;
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 8; j++)
            NEED((blocks[j] = have(both[i], 4 * PAGE, NULL)) != NULL);
        for (int j = 0; j < 8; j++)
            NEED(gpu_frees(both[i], blocks[j], 4 * PAGE, NULL));
        NEED(tide_order(both[i], TIDE_STREAM_ALL, 0) == TIDE_OK);
    }
    usleep(60000);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 40; j++)
            NEED((block = have(both[i], PAGE, NULL)) != NULL && gpu_frees(both[i], block, PAGE, NULL));
        NEED(figures_of(both[i]).created == 9);
    }
    NEED(gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == PAGE &&
         gpu_figure(slow, TIDE_QUERY_BYTES_RESERVED) == 29 * PAGE);
    NEED(gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED_HIGH) == 32 * PAGE);
    tide_resource_release(vmm);
    tide_resource_release(slow);
    return !nothing_left();
}

/*
 * Refusals. One scene uses all ways in which a base gets memory and gives it back, from its creation to its release. It
 * runs once to count the driver's calls, and then once for each of them and each result, with that call refused: one
 * call of the base may fail, and no other, and nothing may be left.
 */
static const struct refused_way {
    const char *text;
    bool shares; /* with another process, which is the same one here */
    bool ranges; /* needs a second range of addresses */
} refused_ways[] = {
    { "vmm", false, false },
    { "vmm(stress=true)", false, false },
    { "vmm(access=1)", false, true },
    { "vmm(shareable=true)", true, false },
};

static const char *const refused_functions[] = {
    "cuMemGetAllocationGranularity",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemExportToShareableHandle",
    "cuMemImportFromShareableHandle",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuStreamWaitEvent",
    "cuDevicePrimaryCtxRetain",
};

#define REFUSED_WAYS      (sizeof(refused_ways) / sizeof(refused_ways[0]))
#define REFUSED_FUNCTIONS (sizeof(refused_functions) / sizeof(refused_functions[0]))

/* The numbers of a function's first call in the scene, and of its last; the child writes them. */
struct refused_span {
    int first, last;
};

static struct refused_span *refused_spans; /* one for each function, in memory that children share */

static int
calls_of(const char *function)
{
    const char *name;
    int calls = 0;

    for (unsigned place = 0; (name = own_function(place, &calls)) != NULL; place++) {
        if (strcmp(name, function) == 0)
            return calls;
    }
    return 0;
}

/* Make a base; where that fails, once more. */
static struct tide_resource *
insist_make(const char *text, unsigned *failures)
{
    struct tide_resource *stack = NULL;

    if (tide_stack_parse(text, &stack) == TIDE_OK)
        return stack;
    ++*failures;
    return stack == NULL ? make(text) : NULL;
}

/* Allocate; a call that fails is made again. */
static void *
insist(struct tide_resource *vmm, size_t bytes, CUstream stream, unsigned *failures)
{
    void *block = NULL;

    if (tide_allocate(vmm, bytes, TIDE_DEFAULT_ALIGNMENT, (tide_stream)stream, &block) == TIDE_OK)
        return block;
    ++*failures;
    return block == NULL && figures_are_right(vmm) ? have(vmm, bytes, stream) : NULL;
}

static bool
insist_free(struct tide_resource *vmm, void *block, size_t bytes, CUstream stream, unsigned *failures)
{
    if (tide_deallocate(vmm, block, bytes, TIDE_DEFAULT_ALIGNMENT, (tide_stream)stream) == TIDE_OK)
        return true;
    ++*failures;
    return figures_are_right(vmm) && gpu_frees(vmm, block, bytes, stream);
}

/* Blocks that come and go, on two streams, with work that goes on. */
static int
refused_blocks(struct tide_resource *vmm, struct gpu_work *work, unsigned *failures)
{
    void *blocks[4], *large, *other, *small;

    for (int i = 0; i < 4; i++)
        NEED((blocks[i] = insist(vmm, PAGE, work->first, failures)) != NULL);
    NEED(gpu_delay(&work->kernels, work->first, 5000000));
    for (int i = 0; i < 4; i++)
        NEED(insist_free(vmm, blocks[i], PAGE, work->first, failures));
    NEED((large = insist(vmm, 3 * PAGE, work->first, failures)) != NULL);
    NEED((other = insist(vmm, PAGE, work->second, failures)) != NULL);
    NEED(insist_free(vmm, large, 3 * PAGE, work->first, failures));
    NEED((small = insist(vmm, 2 * PAGE, work->second, failures)) != NULL);
    NEED(gpu_fill(&work->kernels, work->second, small, 2 * WORDS, 3));
    NEED(gpu_count_wrong(&work->kernels, work->second, small, 2 * WORDS, 3) == 0 && figures_are_right(vmm));
    NEED(insist_free(vmm, small, 2 * PAGE, work->second, failures));
    NEED(insist_free(vmm, other, PAGE, work->second, failures));
    NEED(tide_order(vmm, TIDE_STREAM_ALL, 0) == TIDE_OK);
    *failures += tide_trim(vmm, 0) != TIDE_OK;
    NEED(tide_trim(vmm, 0) == TIDE_OK && gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == 0 && figures_are_right(vmm));
    NEED(gpu_figure(vmm, TIDE_QUERY_BYTES_USED) == 0 && count().maps == 0 && count().handles == 0);
    return 0;
}

/* A block goes to another base by a descriptor, and is freed there while work on it goes on. */
static int
refused_share(struct tide_resource *vmm, struct gpu_work *work, unsigned *failures)
{
    struct tide_resource *other = insist_make("vmm", failures);
    void *block = insist(vmm, PAGE, work->first, failures), *there = NULL;
    int fd = -1;

    NEED(other != NULL && block != NULL);
    if (tide_vmm_export(vmm, block, &fd) != TIDE_OK) {
        ++*failures;
        NEED(fd == -1 && tide_vmm_export(vmm, block, &fd) == TIDE_OK);
    }
    if (tide_vmm_import(other, fd, PAGE, &there) != TIDE_OK) {
        ++*failures;
        NEED(there == NULL && gpu_figure(other, TIDE_QUERY_BYTES_USED) == 0);
        NEED(tide_vmm_import(other, fd, PAGE, &there) == TIDE_OK);
    }
    NEED(gpu_delay(&work->kernels, work->first, 5000000));
    NEED(gpu_fill(&work->kernels, work->first, there, WORDS, 7) && close(fd) == 0);
    NEED(tide_deallocate(other, there, PAGE, TIDE_DEFAULT_ALIGNMENT, (tide_stream)work->first) == TIDE_OK);
    NEED(gpu_figure(other, TIDE_QUERY_BYTES_USED) == 0);
    NEED(gpu_count_wrong(&work->kernels, work->first, block, WORDS, 7) == 0);
    for (int i = 0; i < 2; i++)
        NEED(tide_order(other, TIDE_STREAM_ALL, 0) == TIDE_OK && tide_trim(other, 0) == TIDE_OK);
    NEED(count().maps == 1 && count().handles == 1);
    NEED(insist_free(vmm, block, PAGE, work->first, failures));
    tide_resource_release(other);
    return 0;
}

/* All gaps of the first range are too small for a large block: another range is needed. The device has 128 MiB. */
static int
refused_ranges(struct tide_resource *vmm, unsigned *failures)
{
    char *blocks[8], *large;

    NEED((blocks[0] = insist(vmm, PAGE, NULL, failures)) != NULL);
    for (size_t i = 1; i < 8; i++) {
        tidei_place_wish((uintptr_t)blocks[0] + i * 32 * MIB);
        blocks[i] = insist(vmm, PAGE, NULL, failures);
        if (blocks[i] != blocks[0] + i * 32 * MIB) { /* the wish was for the call that failed */
            NEED(blocks[i] != NULL && insist_free(vmm, blocks[i], PAGE, NULL, failures));
            NEED(gpu.context_synchronize() == CUDA_SUCCESS);
            tidei_place_wish((uintptr_t)blocks[0] + i * 32 * MIB);
            NEED((blocks[i] = have(vmm, PAGE, NULL)) == blocks[0] + i * 32 * MIB);
        }
    }
    NEED((large = insist(vmm, 32 * MIB, NULL, failures)) != NULL && count().ranges == 2);
    NEED(insist_free(vmm, large, 32 * MIB, NULL, failures));
    for (int i = 0; i < 8; i++)
        NEED(insist_free(vmm, blocks[i], PAGE, NULL, failures));
    return 0;
}

struct refused {
    const struct refused_way *way;
    char call[64]; /* empty: none is refused */
};

static int
scene_refused(void *context)
{
    const struct refused *self = context;
    struct gpu_work work = { 0 };
    struct tide_resource *vmm;
    unsigned failures = 0;

    if (self->way->ranges)
        setenv("FAKE_CUDA_MEMORY", "128M", 1);
    setenv("FAKE_CUDA_ADDRESSES", self->way->ranges ? "384M" : "1024G",
           1); /* an arena is 256M where there are ranges */
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0));
    for (size_t i = 0; i < REFUSED_FUNCTIONS; i++)
        refused_spans[i].first = calls_of(refused_functions[i]) + 1;
    setenv("FAKE_CUDA_FAIL", self->call, 1);
    NEED((vmm = insist_make(self->way->text, &failures)) != NULL);
    setenv("FAKE_CUDA_ADDRESSES", "1024G", 1);
    NEED(refused_blocks(vmm, &work, &failures) == 0);
    NEED(!self->way->shares || refused_share(vmm, &work, &failures) == 0);
    NEED(!self->way->ranges || refused_ranges(vmm, &failures) == 0);
    NEED(have(vmm, 2 * PAGE, work.first) != NULL || ++failures == 1); /* left live */
    tide_resource_release(vmm);
    for (size_t i = 0; i < REFUSED_FUNCTIONS; i++)
        refused_spans[i].last = calls_of(refused_functions[i]);
    unsetenv("FAKE_CUDA_FAIL");
    NEED(failures <= 1);
    gpu_work_close(&work);
    NEED(count().references == 0);
    return !nothing_left();
}

/* Refuse each call of one function, with each result, in a child of its own. */
static bool
refuse_each(const struct refused_way *way, const char *function, const struct refused_span *calls)
{
    static const int results[] = { CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN };
    struct refused refused = { .way = way };
    bool right = true;

    for (int number = calls->first; number <= calls->last; number++) {
        for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
            snprintf(refused.call, sizeof(refused.call), "%s:%d:%d", function, results[i], number);
            if (in_child(scene_refused, &refused) == 0)
                continue;
            diag("%s, %s", way->text, refused.call);
            right = false;
        }
    }
    return right;
}

static void
test_refused(const struct refused_way *way)
{
    struct refused refused = { .way = way };
    struct refused_span spans[REFUSED_FUNCTIONS];

    ok(in_child(scene_refused, &refused) == 0, "%s: without refusals nothing fails", way->text);
    memcpy(spans, refused_spans, sizeof(spans));
    for (size_t i = 0; i < REFUSED_FUNCTIONS; i++) {
        if (spans[i].last < spans[i].first)
            skip(1, "the function is not called here");
        else
            ok(refuse_each(way, refused_functions[i], &spans[i]),
               "%s: each call of %s refused once is at most one error, and leaves nothing", way->text,
               refused_functions[i]);
    }
}

/* The driver ends one of a block's two mappings, and refuses to end the other: nobody gets the block as it was. */
static int
scene_half(void *unused)
{
    struct tide_resource *vmm = make("vmm");
    struct gpu_work work = { 0 };
    void *pages[2], *large, *again;
    char call[64];

    (void)unused;
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0));
    for (int i = 0; i < 2; i++)
        NEED((pages[i] = have(vmm, PAGE, work.first)) != NULL);
    for (int i = 0; i < 2; i++)
        NEED(gpu_frees(vmm, pages[i], PAGE, work.first));
    NEED((large = have(vmm, 2 * PAGE, work.first)) != NULL && gpu_frees(vmm, large, 2 * PAGE, work.first));
    NEED(tide_order(vmm, TIDE_STREAM_ALL, 0) == TIDE_OK && count().maps == 2 && count().handles == 2);
    snprintf(call, sizeof(call), "cuMemUnmap:999:%d", calls_of("cuMemUnmap") + 2);
    setenv("FAKE_CUDA_FAIL", call, 1);
    NEED(tide_trim(vmm, 0) == TIDE_EDRIVER && figures_are_right(vmm));
    NEED((again = have(vmm, 2 * PAGE, work.first)) != NULL);
    NEED(gpu_fill(&work.kernels, work.first, again, 2 * WORDS, 3));
    NEED(gpu_count_wrong(&work.kernels, work.first, again, 2 * WORDS, 3) == 0 && figures_are_right(vmm));
    NEED(gpu_frees(vmm, again, 2 * PAGE, work.first));
    tide_resource_release(vmm);
    gpu_work_close(&work);
    return !nothing_left();
}

static int
scene_full(void *unused)
{
    struct tide_resource *vmm;
    struct gpu_work work = { 0 };
    void *blocks[8], *more = &work;

    (void)unused;
    setenv("FAKE_CUDA_MEMORY", "64M", 1); /* of which the driver keeps 32M, and the test 2M for a word */
    vmm = make("vmm");
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0));
    for (int i = 0; i < 7; i++)
        NEED((blocks[i] = have(vmm, 2 * PAGE, work.first)) != NULL);
    NEED(tide_allocate(vmm, 2 * PAGE, 256, 0, &more) == TIDE_ECAPACITY && more == NULL);
    diag("%s", tide_error_text());
    NEED(tide_error_driver() == CUDA_ERROR_OUT_OF_MEMORY && strstr(tide_error_text(), "28 MiB in live blocks") != NULL);
    NEED(figures_are_right(vmm) && gpu_figure(vmm, TIDE_QUERY_BYTES_USED) == 14 * PAGE);
    NEED(gpu_delay(&work.kernels, work.first, 30000000) && gpu_frees(vmm, blocks[0], 2 * PAGE, work.first));
    NEED(gpu_frees(vmm, blocks[1], 2 * PAGE, work.first) && (more = have(vmm, 4 * PAGE, work.second)) != NULL);
    NEED(figures_of(vmm).orders == 2 && figures_of(vmm).reserved_bytes == 14 * PAGE);
    for (int i = 2; i < 7; i++)
        NEED(gpu_frees(vmm, blocks[i], 2 * PAGE, work.first));
    NEED(gpu_frees(vmm, more, 4 * PAGE, work.second));
    tide_resource_release(vmm);
    gpu_work_close(&work);
    return !nothing_left();
}

/* Memory that another part of the program holds is missing on the device: the base gives up what it caches. */
static int
scene_squeezed(void *unused)
{
    struct tide_resource *vmm;
    CUdeviceptr taken = 0;
    CUcontext context;
    void *large, *small, *other;

    (void)unused;
    setenv("FAKE_CUDA_MEMORY", "64M", 1);
    vmm = make("vmm");
    NEED(gpu_open() == NULL && gpu.primary_retain(&context, 0) == CUDA_SUCCESS &&
         gpu.context_set(context) == CUDA_SUCCESS);
    NEED((large = have(vmm, 6 * PAGE, NULL)) != NULL && (other = have(vmm, PAGE, NULL)) != NULL);
    NEED(gpu.mem_alloc(&taken, 16 * MIB) == CUDA_SUCCESS && gpu_frees(vmm, large, 6 * PAGE, NULL));
    NEED((small = have(vmm, 5 * PAGE, NULL)) != NULL && figures_are_right(vmm));
    NEED(gpu_frees(vmm, small, 5 * PAGE, NULL) && gpu_frees(vmm, other, PAGE, NULL));
    tide_resource_release(vmm);
    gpu.mem_free(taken);
    gpu.primary_release(0);
    return !nothing_left();
}

static int
scene_addresses(void *unused)
{
    struct tide_resource *vmm = NULL;
    void *blocks[3];

    (void)unused;
    setenv("FAKE_CUDA_MEMORY", "64M", 1);
    setenv("FAKE_CUDA_ADDRESSES", "126M", 1); /* an arena is 128M */
    NEED(gpu_open() == NULL && tide_stack_parse("vmm", &vmm) == TIDE_ECAPACITY && vmm == NULL);
    NEED(strstr(tide_error_text(), "128 MiB of addresses") != NULL && nothing_left());
    setenv("FAKE_CUDA_ADDRESSES", "256M", 1);
    NEED((vmm = make("vmm")) != NULL && count().ranges == 1);
    for (int i = 0; i < 3; i++)
        NEED((blocks[i] = have(vmm, PAGE, NULL)) != NULL);
    NEED((char *)blocks[2] == (char *)blocks[1] + PAGE); /* both arenas are taken: the last one is shared */
    for (int i = 0; i < 3; i++)
        NEED(gpu_frees(vmm, blocks[i], PAGE, NULL));
    tide_resource_release(vmm);
    return !nothing_left();
}

/* Gaps that are too small everywhere: another range is reserved. */
static int
scene_ranges(void *unused)
{
    struct tide_resource *vmm;
    char *first, *block, *large;

    (void)unused;
    setenv("FAKE_CUDA_MEMORY", "64M", 1);
    setenv("FAKE_CUDA_ADDRESSES", "192M", 1);
    vmm = make("vmm");
    setenv("FAKE_CUDA_ADDRESSES", "256M", 1);
    NEED(gpu_open() == NULL && (first = have(vmm, PAGE, NULL)) != NULL);
    for (size_t i = 1; i < 4; i++) {
        tidei_place_wish((uintptr_t)first + i * 32 * MIB);
        NEED((block = have(vmm, PAGE, NULL)) == first + i * 32 * MIB);
    }
    NEED((large = have(vmm, 10 * PAGE, NULL)) == first + PAGE);
    NEED(gpu_frees(vmm, large, 10 * PAGE, NULL) && count().ranges == 1);
    tidei_place_wish((uintptr_t)first + 16 * MIB);
    NEED(have(vmm, PAGE, NULL) == first + 16 * MIB);
    return 0;
}

static int
scene_missing(void *unused)
{
    struct tide_resource *vmm = NULL;

    (void)unused;
    setenv("FAKE_CUDA_NO_VMM", "1", 1);
    NEED(tide_stack_parse("vmm", &vmm) == TIDE_EUNSUPPORTED && vmm == NULL);
    NEED(strstr(tide_error_text(), "device 0 has no virtual memory calls") != NULL);
    NEED((vmm = make("vmm(fallback=driver, maximum=64MiB)")) != NULL);
    NEED(strcmp(tide_resource_name(vmm), "driver") == 0 && gpu_figure(vmm, TIDE_QUERY_CAPACITY) == 64 * MIB);
    tide_resource_release(vmm);
    NEED((vmm = make("vmm(fallback=cuda, device=1)")) != NULL && gpu_figure(vmm, TIDE_QUERY_DEVICE) == 1);
    NEED(strcmp(tide_resource_name(vmm), "cuda") == 0);
    tide_resource_release(vmm);
    NEED(tide_stack_parse("vmm(fallback=cuda, maximum=64MiB)", &vmm) == TIDE_EUNSUPPORTED);
    NEED(strstr(tide_error_text(), "the base cuda no maximum") != NULL);
    NEED(tide_stack_parse("vmm(fallback=driver, access=all)", &vmm) == TIDE_EUNSUPPORTED);
    NEED(tide_stack_parse("vmm(fallback=driver, shareable=true)", &vmm) == TIDE_EUNSUPPORTED);
    NEED(strstr(tide_error_text(), "the base driver no shareable") != NULL);
    return 0;
}

/* A driver that is too old for the calls. */
static int
scene_old(void *unused)
{
    struct tide_resource *vmm = NULL;

    (void)unused;
    setenv("FAKE_CUDA_FAIL", "cuMemGetAllocationGranularity:801", 1);
    NEED(tide_stack_parse("vmm", &vmm) == TIDE_EDRIVER && vmm == NULL);
    NEED(strstr(tide_error_text(), "cuMemGetAllocationGranularity") != NULL);
    unsetenv("FAKE_CUDA_FAIL");
    setenv("FAKE_CUDA_NO_PEERS", "1", 1);
    NEED(tide_stack_parse("vmm(access=1)", &vmm) == TIDE_EUNSUPPORTED);
    NEED(strstr(tide_error_text(), "device 1 cannot reach the memory of device 0") != NULL);
    NEED((vmm = make("vmm(access=all)")) != NULL);
    tide_resource_release(vmm);
    return !nothing_left();
}

static unsigned warnings;

static void
hear_warning(void *context, enum tide_severity severity, const char *text)
{
    (void)context;
    warnings += severity == TIDE_WARNING && strstr(text, "a maximum of 2 GiB exceeds") != NULL;
}

static int
scene_maximum(void *unused)
{
    struct tide_resource *vmm;

    (void)unused;
    tide_message_sink_set(hear_warning, NULL);
    vmm = make("vmm(maximum=2GiB)");
    NEED(vmm != NULL && warnings == 1 && gpu_figure(vmm, TIDE_QUERY_CAPACITY) == 1024 * MIB);
    tide_resource_release(vmm);
    return 0;
}

static unsigned left_warnings;

static void
hear_left(void *context, enum tide_severity severity, const char *text)
{
    (void)context;
    left_warnings += severity == TIDE_WARNING && strstr(text, "the driver takes not all back (cuMem") != NULL;
}

/* A driver that never ends a mapping again, or takes no handle back: a warning says what stays taken. */
static int
scene_kept(void *unused)
{
    static const char *const calls[] = { "cuMemUnmap:999", "cuMemRelease:999", "cuMemAddressFree:999" };

    (void)unused;
    tide_message_sink_set(hear_left, NULL);
    for (unsigned i = 0; i < 3; i++) {
        struct tide_resource *vmm = make("vmm");

        NEED(gpu_open() == NULL && have(vmm, PAGE, NULL) != NULL && left_warnings == i);
        setenv("FAKE_CUDA_FAIL", calls[i], 1);
        tide_resource_release(vmm);
        NEED(left_warnings == i + 1);
        unsetenv("FAKE_CUDA_FAIL");
    }
    return 0;
}

static int
child_of_fork(void *vmm)
{
    void *block = &block;

    NEED(tide_allocate(vmm, PAGE, 256, 0, &block) == TIDE_EUNSUPPORTED && block == NULL);
    NEED(strstr(tide_error_text(), "after fork()") != NULL && tide_trim(vmm, 0) == TIDE_EUNSUPPORTED);
    NEED(tide_order(vmm, 0, 0) == TIDE_EUNSUPPORTED && tide_allocate(vmm, 0, 256, 0, &block) == TIDE_EUNSUPPORTED);
    tide_resource_release(vmm);
    return count().handles == 1 && count().maps == 1 && count().ranges == 1 ? 0 : 1;
}

static int
scene_fork(void *unused)
{
    struct tide_resource *vmm = make("vmm");
    void *block = have(vmm, PAGE, NULL);

    (void)unused;
    NEED(block != NULL && in_child(child_of_fork, vmm) == 0);
    NEED(tide_deallocate(vmm, block, PAGE, TIDE_DEFAULT_ALIGNMENT, 0) == TIDE_OK);
    tide_resource_release(vmm);
    return !nothing_left();
}

/* A stream of a context that the application made, which it destroys with the work on it. */
static int
scene_contexts(void *unused)
{
    struct tide_resource *vmm = make("vmm");
    CUcontext own = NULL;
    CUstream stream;
    void *block, *again;

    (void)unused;
    NEED(gpu_open() == NULL && gpu.context_create(&own, 0, 0) == CUDA_SUCCESS);
    NEED(gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    NEED((block = have(vmm, PAGE, stream)) != NULL && gpu_frees(vmm, block, PAGE, stream));
    NEED((again = have(vmm, PAGE, stream)) == block && figures_of(vmm).kept == 1 &&
         gpu_frees(vmm, again, PAGE, stream));
    NEED((block = have(vmm, 2 * PAGE, NULL)) != NULL && gpu_frees(vmm, block, 2 * PAGE, NULL));
    NEED(gpu.context_destroy(own) == CUDA_SUCCESS && tide_order(vmm, TIDE_STREAM_ALL, 0) == TIDE_OK);
    NEED(tide_trim(vmm, 0) == TIDE_OK && gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == 0);
    NEED((block = have(vmm, PAGE, NULL)) != NULL && gpu_frees(vmm, block, PAGE, NULL));
    tide_resource_release(vmm);
    return !nothing_left();
}

static int
scene_reset(void *unused)
{
    struct tide_resource *vmm = make("vmm");
    CUcontext context;
    void *block, *live, *none = &context;

    (void)unused;
    NEED(gpu_open() == NULL && (live = have(vmm, PAGE, NULL)) != NULL && (block = have(vmm, PAGE, NULL)) != NULL);
    NEED(gpu_frees(vmm, block, PAGE, NULL) && gpu.primary_reset(0) == CUDA_SUCCESS);
    NEED(tide_deallocate(vmm, live, PAGE, TIDE_DEFAULT_ALIGNMENT, 0) == TIDE_OK ||
         strstr(tide_error_text(), "CUDA_ERROR_CONTEXT_IS_DESTROYED") != NULL);
    (void)tide_allocate(vmm, 3 * PAGE, 256, 0, &none);
    NEED(gpu.primary_retain(&context, 0) == CUDA_SUCCESS && (block = have(vmm, 2 * PAGE, NULL)) != NULL);
    NEED(gpu_frees(vmm, block, 2 * PAGE, NULL) && figures_are_right(vmm));
    tide_resource_release(vmm);
    NEED(count().handles == 0 && count().maps == 0 && count().ranges == 0);
    return 0;
}

/* A block that is freed in a capture goes to nobody else, and does not hold the host. */
static int
scene_capture(void *unused)
{
    struct tide_resource *vmm = make("vmm");
    struct gpu_work work = { 0 };
    CUgraph graph = NULL;
    void *block, *again, *other;

    (void)unused;
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0) && (block = have(vmm, PAGE, work.first)) != NULL);
    NEED(gpu.stream_begin_capture(work.first, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    NEED(gpu_fill(&work.kernels, work.first, block, WORDS, 1) && gpu_frees(vmm, block, PAGE, work.first));
    NEED((again = have(vmm, PAGE, work.first)) == block && gpu_frees(vmm, again, PAGE, work.first));
    NEED((other = have(vmm, PAGE, work.second)) != NULL && other != block);
    NEED(gpu_frees(vmm, other, PAGE, work.second) && tide_trim(vmm, PAGE) == TIDE_OK);
    NEED((other = have(vmm, PAGE, work.second)) != NULL && other != block);
    NEED(gpu.stream_end_capture(work.first, &graph) == CUDA_SUCCESS && graph != NULL);
    NEED((again = have(vmm, 2 * PAGE, work.second)) != NULL && figures_of(vmm).remapped == 0);
    NEED(gpu_frees(vmm, again, 2 * PAGE, work.second) && gpu_frees(vmm, other, PAGE, work.second));
    NEED(figures_are_right(vmm));
    gpu.graph_destroy(graph);
    tide_resource_release(vmm);
    gpu_work_close(&work);
    return !nothing_left();
}

/* The program ends with memory live: its base is released after the driver is gone. */
static struct tide_resource *at_exit_vmm;

static void
release_at_exit(void)
{
    tide_resource_release(at_exit_vmm);
    if (left_warnings > 0)
        _exit(1);
}

static int
scene_exit(void *unused)
{
    void *block;

    (void)unused;
    atexit(release_at_exit); /* before the driver's own, so that it runs after */
    tide_message_sink_set(hear_left, NULL);
    at_exit_vmm = make("vmm");
    NEED((block = have(at_exit_vmm, PAGE, NULL)) != NULL && have(at_exit_vmm, PAGE, NULL) != NULL);
    NEED(gpu_frees(at_exit_vmm, block, PAGE, NULL));
    exit(0);
}

/* One block shared with the base itself: as between two processes, but that both are here. */
static int
scene_share(void *unused)
{
    struct tide_resource *vmm = make("vmm(shareable=true)"), *plain = make("vmm");
    struct gpu_work work = { 0 };
    void *block, *there, *none = &work;
    int fd = -1, wrong = 99;

    (void)unused;
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0) && (block = have(vmm, PAGE + 5, work.first)) != NULL);
    NEED(tide_vmm_export(plain, block, &wrong) == TIDE_EINVAL && wrong == -1);
    NEED(tide_vmm_export(vmm, (char *)block + PAGE, &wrong) == TIDE_EPOINTER && wrong == -1);
    NEED(tide_vmm_export(vmm, block, &fd) == TIDE_OK && fd >= 0);
    NEED(tide_vmm_import(plain, fd, PAGE, &none) == TIDE_EDRIVER && none == NULL); /* of two pages */
    NEED(tide_vmm_import(plain, 0, PAGE, &none) == TIDE_EDRIVER && tide_vmm_import(plain, fd, 0, &none) == TIDE_EINVAL);
    NEED(tide_vmm_import(plain, fd, PAGE + 5, &there) == TIDE_OK && there != block);
    NEED(gpu_figure(plain, TIDE_QUERY_BYTES_USED) == PAGE + 5 && gpu_figure(plain, TIDE_QUERY_BYTES_RESERVED) == 0);
    NEED(gpu_fill(&work.kernels, work.first, block, WORDS, 5));
    NEED(gpu_count_wrong(&work.kernels, work.first, there, WORDS, 5) == 0);
    NEED(gpu_frees(plain, there, PAGE + 5, work.first) && tide_order(plain, TIDE_STREAM_ALL, 0) == TIDE_OK);
    NEED(count().handles == 1 && count().maps == 1 && gpu_figure(plain, TIDE_QUERY_BYTES_USED) == 0);
    NEED(gpu_frees(vmm, block, PAGE + 5, work.first) && close(fd) == 0);
    tide_resource_release(vmm);
    tide_resource_release(plain);
    gpu_work_close(&work);
    return !nothing_left();
}

/* Memory of a pool is shared by the blocks that it lies in: here two, side by side. */
static int
scene_share_pool(void *unused)
{
    struct tide_resource *pool = make("pool(growth=2MiB) | vmm(shareable=true)"), *plain = make("vmm"), *vmm = NULL;
    struct gpu_work work = { 0 };
    char *first, *second, *memory;
    uint64_t offset = 0, bytes = 9;
    void *block = &work;
    size_t blocks = 0;

    (void)unused;
    NEED(gpu_open() == NULL && gpu_work_open(&work, 0) && tide_stack_find(pool, "vmm", &vmm) == TIDE_OK);
    NEED((first = have(pool, PAGE, work.first)) != NULL && (second = have(pool, PAGE, work.first)) == first + PAGE);
    NEED(gpu_frees(pool, first, PAGE, work.first) && gpu_frees(pool, second, PAGE, work.first));
    NEED((memory = have(pool, 3 * MIB, work.first)) == first);
    NEED(gpu_fill(&work.kernels, work.first, memory, WORDS / 2 * 3, 6));
    for (offset = 0; offset < 3 * MIB; offset = (uint64_t)((char *)block + bytes - memory), blocks++) {
        void *there = NULL;
        uint64_t part;
        int fd = -1;

        NEED(tide_vmm_find_block(vmm, memory + offset, &block, &bytes) == TIDE_OK);
        NEED(tide_vmm_export(vmm, memory + MIB / 2, &fd) == TIDE_EPOINTER); /* a block is exported by its begin */
        NEED(tide_vmm_export(vmm, block, &fd) == TIDE_OK && tide_vmm_import(plain, fd, bytes, &there) == TIDE_OK);
        part = (uint64_t)((char *)block + bytes - (memory + offset));
        part = part < 3 * MIB - offset ? part : 3 * MIB - offset;
        NEED(gpu_count_wrong(&work.kernels, work.first, (char *)there + (memory + offset - (char *)block),
                             (uint32_t)(part / 4), 6) == 0);
        NEED(gpu_frees(plain, there, bytes, work.first) && close(fd) == 0);
    }
    NEED(blocks == 2);
    NEED(tide_vmm_find_block(vmm, memory + 64 * MIB, &block, &bytes) == TIDE_EPOINTER && block == NULL && bytes == 0);
    NEED(tide_vmm_find_block(pool, memory, &block, &bytes) == TIDE_EINVAL);
    NEED(tide_vmm_find_block(vmm, memory, NULL, &bytes) == TIDE_EINVAL);
    NEED(gpu_frees(pool, memory, 3 * MIB, work.first));
    tide_resource_release(pool);
    tide_resource_release(plain);
    gpu_work_close(&work);
    return !nothing_left();
}

/* The program ends with memory live that nobody releases, in a traced stack. */
static int
scene_abandoned(void *path)
{
    struct tide_resource *stack = stack_of("log(%s) | pool | vmm", (const char *)path);
    void *block;

    NEED((block = have(stack, PAGE, NULL)) != NULL && have(stack, 2 * PAGE, NULL) != NULL);
    NEED(gpu_frees(stack, block, PAGE, NULL));
    exit(0);
}

static const struct {
    const char *sentence;
    int (*scene)(void *);
} scenes[] = {
    { "the mapping of a freed block ends once its work is done, and not before", scene_mappings },
    { "memory that is unmapped under its work is seen by the fake driver", scene_planted },
    { "the fake driver refuses what is not legal", scene_legal },
    { "a base that is released with live blocks and pending work leaves nothing", scene_live },
    { "a thread that waits for freed memory holds up no other", scene_waits },
    { "two threads wait for one block where the device has no other memory", scene_waiters },
    { "a new stream with the handle of a destroyed one is ordered behind the work of that one", scene_destroyed },
    { "a mapping that the driver refuses to end once ends before its handle", scene_unmap },
    { "a block of which the driver has ended half of the mappings is not handed out as it was", scene_half },
    { "memory that was in use long ago is released, and what was in use of late is kept", scene_decay },
    { "a full device refuses a request in words, and live blocks stay", scene_full },
    { "a device that others fill gets what the base has cached", scene_squeezed },
    { "too few addresses are an error", scene_addresses },
    { "gaps of addresses are used", scene_ranges },
    { "a device without virtual memory is refused, or another base takes its place", scene_missing },
    { "a driver that refuses the granularity and devices that are no peers are named", scene_old },
    { "a maximum above the device's memory is a warning", scene_maximum },
    { "what the driver does not take back at the end is a warning", scene_kept },
    { "a child of fork() is refused and calls no driver", scene_fork },
    { "streams of other contexts are ordered, also where the context is destroyed", scene_contexts },
    { "a reset of the context is an error until the context is retained again", scene_reset },
    { "memory that is freed in a capture goes to nobody else", scene_capture },
    { "a program may end with memory live", scene_exit },
    { "a block is shared by a descriptor", scene_share },
    { "memory of a pool is shared by the blocks that it lies in", scene_share_pool },
};

#define SCENES (sizeof(scenes) / sizeof(scenes[0]))

int
main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *count_symbol = library != NULL ? dlsym(library, FAKE_CUDA_COUNT) : NULL;
    void *unmap_symbol = library != NULL ? dlsym(library, "cuMemUnmap") : NULL;
    void *function_symbol = library != NULL ? dlsym(library, FAKE_CUDA_FUNCTION) : NULL;

    if (count_symbol == NULL)
        skip_all("this is not the fake driver: run it by tests/fake-cuda/run");
    if (!CHILDREN_MAY_RECORD)
        skip_all("ThreadSanitizer does not follow a child that starts threads");
    memcpy(&own_count, &count_symbol, sizeof(own_count));
    memcpy(&own_unmap, &unmap_symbol, sizeof(own_unmap));
    memcpy(&own_function, &function_symbol, sizeof(own_function));
    refused_spans = mmap(NULL, REFUSED_FUNCTIONS * sizeof(*refused_spans), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (refused_spans == MAP_FAILED)
        abort();
    plan((int)(SCENES + REFUSED_WAYS * (REFUSED_FUNCTIONS + 1)) + 2);
    for (size_t i = 0; i < SCENES; i++)
        is_i64(in_child(scenes[i].scene, NULL), 0, scenes[i].sentence);
    is_i64(in_child(scene_trace, (void *)(uintptr_t)scratch("pages.db")), 0, "the trace has the calls of each request");
    ok(all_of(in_child(scene_abandoned, (void *)(uintptr_t)scratch("abandoned.db")) == 0,
              sql_number(scratch("abandoned.db"),
                         "SELECT count(*) FROM allocation WHERE layer_id = 1 AND free_ns IS NULL") == 1),
       "a program may end with memory live that nobody releases, and its trace says so");
    for (size_t i = 0; i < REFUSED_WAYS; i++)
        test_refused(&refused_ways[i]);
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
}

#endif
