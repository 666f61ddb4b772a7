/* Tests the base `driver` on a real GPU: pools, figures, contexts, threads, streams, and cleanup. */
#include "tests/gpu/gpu.h"
#include "tests/gpu/lock.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "tests/contract.h"
#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#define MIB   ((size_t)1 << 20)
#define WORDS ((uint32_t)1 << 20)

static struct tide_resource *
driver_new(const struct tide_driver_options *options)
{
    struct tide_resource *driver = NULL;

    if (tide_driver_create(options, &driver) != TIDE_OK)
        diag("%s", tide_error_text());
    return driver;
}

static uint64_t
figure(struct tide_resource *resource, enum tide_query what)
{
    uint64_t value = 0;

    if (tide_query(resource, what, &value) != TIDE_OK)
        diag("%s", tide_error_text());
    return value;
}

static bool
allocates(struct tide_resource *resource, size_t bytes, tide_stream stream, void **out)
{
    enum tide_status status = tide_allocate(resource, bytes, TIDE_DEFAULT_ALIGNMENT, stream, out);

    if (status != TIDE_OK)
        diag("%s: %s", tide_status_name(status), tide_error_text());
    return status == TIDE_OK && *out != NULL && (uintptr_t)*out % TIDE_DEFAULT_ALIGNMENT == 0;
}

static bool
frees(struct tide_resource *resource, void *pointer, size_t bytes, tide_stream stream)
{
    enum tide_status status = tide_deallocate(resource, pointer, bytes, TIDE_DEFAULT_ALIGNMENT, stream);

    if (status != TIDE_OK)
        diag("%s: %s", tide_status_name(status), tide_error_text());
    return status == TIDE_OK;
}

/*
 * What a child does before this process has loaded the driver: it exits with memory allocated, which is released after
 * the driver has shut down.
 */
static struct {
    struct tide_resource *driver;
    void *pointer;
} exiting;

static void
exit_late(void)
{
    enum tide_status status = tide_deallocate(exiting.driver, exiting.pointer, MIB, TIDE_DEFAULT_ALIGNMENT, 0);

    if (status != TIDE_OK)
        diag("%s: %s", tide_status_name(status), tide_error_text());
    tide_resource_release(exiting.driver);
    fflush(stdout);
    _exit(status == TIDE_OK ? 0 : 1);
}

static int
in_child(void (*run)(void))
{
    pid_t child;
    int status = 0;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        run();
        _exit(3);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void
child_exits(void)
{
    atexit(exit_late);
    if (tide_driver_create(NULL, &exiting.driver) != TIDE_OK ||
        tide_allocate(exiting.driver, MIB, TIDE_DEFAULT_ALIGNMENT, 0, &exiting.pointer) != TIDE_OK)
        _exit(2);
    exit(4);
}

static void
child_of_user(void)
{
    struct tide_resource *driver = NULL;
    enum tide_status status = tide_driver_create(NULL, &driver);

    tide_resource_release(exiting.driver);
    _exit(status == TIDE_EUNSUPPORTED && strstr(tide_error_text(), "fork()") != NULL ? 0 : 1);
}

static void
test_fork(void)
{
    void *pointer;

    exiting.driver = driver_new(NULL);
    is_i64(in_child(child_of_user), 0,
           "in a child of fork() the driver is unsupported, and an inherited one may be released");
    ok(all_of(allocates(exiting.driver, MIB, 0, &pointer), frees(exiting.driver, pointer, MIB, 0)),
       "the parent's driver works after the fork");
    tide_resource_release(exiting.driver);
}

static void
test_create(void)
{
    struct tide_driver_options options = { TIDE_OPTIONS(options), .device = gpu.devices };
    struct tide_resource *driver;
    unsigned int flags;
    int active = 1;

    ok(all_of(tide_driver_create(&options, &driver) == TIDE_EINVAL, driver == NULL),
       "a device past the last is refused");
    has_words(tide_error_text(), "driver: no device ", "the refusal of a device past the last says so");
    options = (struct tide_driver_options){ TIDE_OPTIONS(options), .use_default_pool = true, .maximum_bytes = MIB };
    ok(tide_driver_create(&options, &driver) == TIDE_EINVAL, "a maximum for the default pool is refused");
    driver = driver_new(NULL);
    ok(driver != NULL, "a driver over a pool of its own is created");
    is_u64(figure(driver, TIDE_QUERY_DEVICE), 0, "the driver is on device 0");
    ok(figure(driver, TIDE_QUERY_CAPACITY) >= 1024 * MIB, "the capacity of the driver is the device's memory");
    is_u64(figure(driver, TIDE_QUERY_STREAM_ORDERED), 1, "the driver is stream ordered");
    is_u64(figure(driver, TIDE_QUERY_BYTES_RESERVED), 0, "a new driver reserves nothing");
    tide_resource_release(driver);
    gpu.primary_get_state(0, &flags, &active);
    is_i64(active, 0, "releasing the driver releases the device's primary context");
}

static void
test_allocate(void)
{
    struct tide_resource *driver = driver_new(NULL);
    CUcontext current = (CUcontext)&gpu;
    void *pointer = NULL;
    void *none = &gpu;

    ok(allocates(driver, 100 * MIB, 0, &pointer), "100 MiB are allocated by a thread without a context");
    is_u64(figure(driver, TIDE_QUERY_BYTES_USED), 100 * MIB, "exactly 100 MiB are used");
    ok(figure(driver, TIDE_QUERY_BYTES_RESERVED) >= 100 * MIB, "at least 100 MiB are reserved");
    diag("reserved for 100 MiB: %" PRIu64 " MiB", figure(driver, TIDE_QUERY_BYTES_RESERVED) / MIB);
    ok(all_of(tide_allocate(driver, MIB, 512, 0, &none) == TIDE_EINVAL, none == NULL),
       "an alignment of 512 is refused");
    ok(frees(driver, pointer, 100 * MIB, 0), "the 100 MiB are freed");
    is_u64(figure(driver, TIDE_QUERY_BYTES_USED), 0, "after the free nothing is used");
    ok(all_of(tide_allocate(driver, SIZE_MAX, 256, 0, &none) == TIDE_ECAPACITY, none == NULL),
       "a request of SIZE_MAX bytes is refused");
    ok(all_of(tide_allocate(driver, figure(driver, TIDE_QUERY_CAPACITY), 256, 0, &none) == TIDE_ECAPACITY,
              none == NULL),
       "a request of the whole device's memory is refused");
    diag("%s", tide_error_text());
    is_i64(tide_error_driver(), CUDA_ERROR_OUT_OF_MEMORY, "the refusal keeps the driver's error");
    ok(tide_deallocate(driver, (void *)(uintptr_t)0x1000, MIB, 256, 0) == TIDE_EPOINTER,
       "the free of an address that is no allocation is refused");
    diag("%s", tide_error_text());
    ok(all_of(allocates(driver, MIB, 0, &pointer), frees(driver, pointer, MIB, 0)),
       "the driver allocates and frees after these failures");
    ok(all_of(gpu.context_get(&current) == CUDA_SUCCESS, current == NULL),
       "the thread has no context after all these calls");
    tide_resource_release(driver);
}

/* The bytes that can be allocated in blocks of `bytes`. All of them are freed again. */
static size_t
fill_up(struct tide_resource *driver, size_t bytes, enum tide_status *last)
{
    void *pointers[128];
    size_t count = 0;

    while (count < 128) {
        *last = tide_allocate(driver, bytes, TIDE_DEFAULT_ALIGNMENT, 0, &pointers[count]);
        if (*last != TIDE_OK)
            break;
        count++;
    }
    for (size_t i = 0; i < count; i++)
        frees(driver, pointers[i], bytes, 0);
    return count * bytes;
}

static void
test_maximum(void)
{
    struct tide_driver_options options = { TIDE_OPTIONS(options), .maximum_bytes = 64 * MIB };
    struct tide_resource *driver = driver_new(&options);
    enum tide_status last;
    void *first = NULL;
    void *second = &gpu;

    is_u64(figure(driver, TIDE_QUERY_CAPACITY), 64 * MIB, "the capacity is the maximum");
    ok(allocates(driver, 48 * MIB, 0, &first), "48 MiB of 64 are allocated");
    ok(all_of(tide_allocate(driver, 32 * MIB, 256, 0, &second) == TIDE_ECAPACITY, second == NULL),
       "with 48 MiB of 64 in use, 32 more are refused");
    has_words(tide_error_text(), "(48 MiB used, 64 MiB reserved, maximum 64 MiB)",
              "the refusal names the pool's figures");
    ok(all_of(frees(driver, first, 48 * MIB, 0), allocates(driver, 32 * MIB, 0, &second)),
       "after a free 32 MiB are allocated");
    frees(driver, second, 32 * MIB, 0);
    is_u64(fill_up(driver, 2 * MIB, &last), 64 * MIB, "exactly 64 MiB are given out in blocks of 2 MiB");
    is_i64(last, TIDE_ECAPACITY, "a block over the maximum of 64 MiB is refused");
    tide_resource_release(driver);
    options.maximum_bytes = 100 * MIB;
    driver = driver_new(&options);
    ok(all_of(fill_up(driver, 2 * MIB, &last) >= 100 * MIB, last == TIDE_ECAPACITY),
       "a maximum of 100 MiB is exact to a block");
    diag("a maximum of 100 MiB gives out %zu MiB", fill_up(driver, 2 * MIB, &last) / MIB);
    tide_resource_release(driver);
}

static uint64_t
reserved_after_free(const struct tide_driver_options *options)
{
    struct tide_resource *driver = driver_new(options);
    CUcontext primary;
    uint64_t reserved;
    void *pointer = NULL;

    gpu.primary_retain(&primary, 0);
    gpu.context_set(primary);
    allocates(driver, 100 * MIB, 0, &pointer);
    frees(driver, pointer, 100 * MIB, 0);
    gpu.context_synchronize();
    reserved = figure(driver, TIDE_QUERY_BYTES_RESERVED);
    gpu.context_set(NULL);
    gpu.primary_release(0);
    tide_resource_release(driver);
    return reserved;
}

static void
test_threshold(void)
{
    struct tide_driver_options options = { TIDE_OPTIONS(options) };

    is_u64(reserved_after_free(NULL), 0, "without a threshold a synchronize gives everything back");
    options.release_threshold_bytes = TIDE_UNLIMITED;
    ok(reserved_after_free(&options) >= 100 * MIB, "with a threshold of all a synchronize releases nothing");
    options.release_threshold_bytes = 1024 * MIB;
    ok(reserved_after_free(&options) >= 100 * MIB, "with a threshold of 1 GiB a synchronize releases nothing");
}

/* A pool of its own keeps memory for its user alone, so a suballocator above may have it trimmed. */
static void
test_unit(void)
{
    struct tide_driver_options options = { TIDE_OPTIONS(options), .use_default_pool = true };
    struct tide_resource *driver, *pool = NULL;
    uint64_t unit = 0;
    void *pointer = NULL;

    ok(tide_driver_create(&options, &driver) == TIDE_OK && tide_query(driver, TIDE_QUERY_UNIT, &unit) != TIDE_OK,
       "the default pool has no unit, as others use it, too");
    tide_resource_release(driver);
    options.use_default_pool = false;
    ok(tide_driver_create(&options, &driver) == TIDE_OK && tide_query(driver, TIDE_QUERY_UNIT, &unit) == TIDE_OK,
       "a pool of its own on a device keeps memory in units");
    tide_pool_create(driver, NULL, &pool);
    ok(tide_allocate(pool, 3 * MIB, 256, 0, &pointer) == TIDE_OK &&
           tide_query(pool, TIDE_QUERY_BYTES_RESERVED, &unit) == TIDE_OK && unit == 32 * MIB,
       "a pool over it takes a whole unit");
    ok(tide_deallocate(pool, pointer, 3 * MIB, 256, 0) == TIDE_OK && tide_trim(pool, 0) == TIDE_OK &&
           tide_query(pool, TIDE_QUERY_BYTES_RESERVED, &unit) == TIDE_OK && unit == 0,
       "a trim returns the unit");
    tide_resource_release(pool);
    ok(tide_query(driver, TIDE_QUERY_KEPT, &unit) == TIDE_EUNSUPPORTED,
       "without a threshold a pool is told nothing to keep");
    tide_resource_release(driver);
    options.release_threshold_bytes = 64 * MIB;
    ok(tide_driver_create(&options, &driver) == TIDE_OK && tide_query(driver, TIDE_QUERY_KEPT, &unit) == TIDE_OK &&
           unit == 64 * MIB,
       "a release threshold is what a pool is told to keep");
    tide_resource_release(driver);
    options.release_threshold_bytes = TIDE_UNLIMITED;
    ok(tide_driver_create(&options, &driver) == TIDE_OK && tide_query(driver, TIDE_QUERY_KEPT, &unit) == TIDE_OK &&
           unit > UINT64_MAX / 2,
       "with a release threshold of all a pool keeps everything");
    tide_resource_release(driver);
}

static void
test_default_pool(void)
{
    struct tide_driver_options options = { TIDE_OPTIONS(options), .use_default_pool = true,
                                           .release_threshold_bytes = 256 * MIB };
    cuuint64_t before = 1;
    cuuint64_t during = 1;
    cuuint64_t after = 1;
    struct tide_resource *driver;
    CUmemoryPool pool = NULL;
    void *pointer = NULL;

    gpu.device_get_default_mem_pool(&pool, 0);
    gpu.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &before);
    driver = driver_new(&options);
    gpu.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &during);
    ok(allocates(driver, 8 * MIB, 0, &pointer), "the default pool allocates");
    is_u64(figure(driver, TIDE_QUERY_BYTES_USED), 8 * MIB, "8 MiB of the default pool are used");
    ok(frees(driver, pointer, 8 * MIB, 0), "the 8 MiB are freed");
    is_u64(during, 256 * MIB, "the default pool has the threshold in the options");
    tide_resource_release(driver);
    gpu.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &after);
    is_u64(after, before, "destroying the driver restores the default pool's threshold");
}

struct worker {
    pthread_t thread;
    struct tide_resource *driver;
    int failures;
    bool touched; /* a context was current at the end */
};

static void *
worker_run(void *context)
{
    struct worker *worker = context;
    CUcontext current = NULL;
    void *pointers[16];

    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 16; i++)
            worker->failures += !allocates(worker->driver, MIB, 0, &pointers[i]);
        for (int i = 0; i < 16; i++)
            worker->failures += !frees(worker->driver, pointers[i], MIB, 0);
    }
    worker->touched = gpu.context_get(&current) != CUDA_SUCCESS || current != NULL;
    return NULL;
}

static void
test_threads(void)
{
    struct tide_resource *driver = driver_new(NULL);
    struct worker workers[8];
    bool touched = false;
    int failures = 0;

    for (int i = 0; i < 8; i++) {
        workers[i] = (struct worker){ .driver = driver };
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(workers[i].thread, NULL);
        failures += workers[i].failures;
        touched = touched || workers[i].touched;
    }
    is_i64(failures, 0, "8 threads that never touched CUDA allocate and free");
    ok(!touched, "the 8 threads have no context afterwards");
    is_u64(figure(driver, TIDE_QUERY_BYTES_USED), 0, "after the 8 threads nothing is left in use");
    tide_resource_release(driver);
}

/* The streams and memory of one scene of test_order, in the current context. */
struct scene {
    struct gpu_hold hold;
    struct tide_resource *driver;
    CUstream first;
    CUstream second;
    void *words;    /* on the device */
    uint32_t *seen; /* pinned */
};

static bool
scene_open(struct scene *scene, struct tide_resource *driver)
{
    memset(scene, 0, sizeof(*scene));
    scene->driver = driver;
    return gpu_hold_open(&scene->hold) && gpu.stream_create(&scene->first, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
           gpu.stream_create(&scene->second, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
           gpu.host_alloc((void **)&scene->seen, WORDS * sizeof(uint32_t), 0) == CUDA_SUCCESS &&
           allocates(driver, WORDS * sizeof(uint32_t), (tide_stream)scene->first, &scene->words) &&
           gpu.memset_d32_async((CUdeviceptr)(uintptr_t)scene->words, 1, WORDS, scene->first) == CUDA_SUCCESS &&
           gpu.stream_synchronize(scene->first) == CUDA_SUCCESS;
}

static void
scene_close(struct scene *scene)
{
    gpu_hold_close(&scene->hold);
    if (scene->words != NULL)
        frees(scene->driver, scene->words, WORDS * sizeof(uint32_t), (tide_stream)scene->first);
    if (scene->seen != NULL)
        gpu.host_free(scene->seen);
    gpu.stream_destroy(scene->first);
    gpu.stream_destroy(scene->second);
}

static CUresult
scene_read(struct scene *scene)
{
    return gpu.memcpy_dtoh_async(scene->seen, (CUdeviceptr)(uintptr_t)scene->words, WORDS * sizeof(uint32_t),
                                 scene->second);
}

static bool
scene_saw(const struct scene *scene, uint32_t value)
{
    for (uint32_t i = 0; i < WORDS; i++) {
        if (scene->seen[i] != value) {
            diag("word %" PRIu32 ": seen %" PRIu32 ", wanted %" PRIu32, i, scene->seen[i], value);
            return false;
        }
    }
    return true;
}

#define ORDER_TESTS 6

/* The reader runs while the writer is held: without order it reads the old words, with order the new ones. */
static void
order_streams(struct tide_resource *driver, const char *whose)
{
    struct scene scene;

    if (!scene_open(&scene, driver)) {
        skip(ORDER_TESTS, "this device cannot run the test's kernel");
        scene_close(&scene);
        return;
    }
    ok(gpu_hold_fill(&scene.hold, scene.first, scene.words, WORDS, 2), "%s: a stream is held before it writes", whose);
    ok(all_of(scene_read(&scene) == CUDA_SUCCESS, gpu.stream_synchronize(scene.second) == CUDA_SUCCESS,
              scene_saw(&scene, 1)),
       "%s: a second stream without order reads the earlier value", whose);
    ok(tide_order(driver, (tide_stream)scene.first, (tide_stream)scene.second) == TIDE_OK,
       "%s: the second stream is ordered behind the first", whose);
    scene_read(&scene);
    ok(gpu.stream_query(scene.second) == CUDA_ERROR_NOT_READY, "%s: the second stream waits while the first is held",
       whose);
    gpu_hold_go(&scene.hold);
    ok(all_of(gpu.stream_synchronize(scene.second) == CUDA_SUCCESS, scene_saw(&scene, 2)),
       "%s: the second stream reads what the first wrote", whose);
    ok(all_of(tide_order(driver, (tide_stream)scene.second, 0) == TIDE_OK,
              tide_order(driver, 0, (tide_stream)scene.second) == TIDE_OK),
       "%s: stream 0 can be the earlier or the later stream", whose);
    scene_close(&scene);
}

/* The memory is on the driver's device, and kernels of the current context can write to it. */
static void
test_own_context(void)
{
    struct tide_resource *driver = driver_new(NULL);
    CUcontext own = NULL;
    CUcontext current = NULL;
    CUdeviceptr address;
    uint32_t word = 0;
    void *pointer = NULL;

    ok(gpu.context_create(&own, 0, 0) == CUDA_SUCCESS, "the application makes a context of its own");
    ok(allocates(driver, MIB, 0, &pointer), "stream 0 of the application's context allocates");
    address = (CUdeviceptr)(uintptr_t)pointer;
    ok(all_of(gpu.memset_d32_async(address, 7, MIB / sizeof(word), NULL) == CUDA_SUCCESS,
              gpu.memcpy_dtoh_async(&word, address + MIB - sizeof(word), sizeof(word), NULL) == CUDA_SUCCESS,
              gpu.context_synchronize() == CUDA_SUCCESS, word == 7),
       "the application's context writes and reads the memory");
    ok(all_of(gpu.context_get(&current) == CUDA_SUCCESS, current == own), "the application's context stays current");
    order_streams(driver, "own context");
    ok(frees(driver, pointer, MIB, 0), "stream 0 of the application's context frees");
    allocates(driver, MIB, 0, &pointer);
    gpu.context_synchronize();
    gpu.context_destroy(own);
    ok(frees(driver, pointer, MIB, 0), "memory is freed after the context it was allocated in has gone");
    tide_resource_release(driver);
}

static void
test_order(void)
{
    struct tide_resource *driver = driver_new(NULL);
    CUcontext primary;

    gpu.primary_retain(&primary, 0);
    gpu.context_set(primary);
    order_streams(driver, "primary context");
    gpu.context_set(NULL);
    gpu.primary_release(0);
    ok(tide_order(driver, 0, 2) == TIDE_OK, "a thread without a context orders its per-thread stream behind stream 0");
    tide_resource_release(driver);
}

#define OTHER_DEVICE_TESTS 4

static void
test_other_device(void)
{
    struct tide_resource *driver;
    CUcontext other;
    int ordinal = -1;
    void *pointer = NULL;

    if (gpu.devices < 2) {
        skip(OTHER_DEVICE_TESTS, "this machine has one device");
        return;
    }
    driver = driver_new(NULL);
    gpu.primary_retain(&other, 1);
    gpu.context_set(other);
    ok(allocates(driver, MIB, 0, &pointer), "a thread on another device allocates");
    ok(all_of(gpu.pointer_get_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        (CUdeviceptr)(uintptr_t)pointer) == CUDA_SUCCESS,
              ordinal == 0),
       "the memory lies on the driver's device");
    ok(tide_order(driver, 0, 2) == TIDE_OK, "streams of the other device can be ordered");
    ok(frees(driver, pointer, MIB, 0), "the memory is freed on a thread on another device");
    gpu.context_set(NULL);
    gpu.primary_release(1);
    tide_resource_release(driver);
}

static uint64_t
now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#define PAIRS 20000

static uint64_t
bare_ns(CUmemoryPool pool, CUstream stream)
{
    uint64_t start = now_ns();
    CUdeviceptr address;

    for (int i = 0; i < PAIRS; i++) {
        gpu.mem_alloc_from_pool_async(&address, 4096, pool, stream);
        gpu.mem_free_async(address, stream);
    }
    return (now_ns() - start) / PAIRS;
}

static uint64_t
ours_ns(struct tide_resource *driver, tide_stream stream)
{
    uint64_t start = now_ns();
    void *pointer;

    for (int i = 0; i < PAIRS; i++) {
        tide_allocate(driver, 4096, 256, stream, &pointer);
        tide_deallocate(driver, pointer, 4096, 256, stream);
    }
    return (now_ns() - start) / PAIRS;
}

static uint64_t
smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* No test: prints the cost of a pair beside the driver's own calls, as the best of five runs. */
static void
measure(void)
{
    struct tide_driver_options options = { TIDE_OPTIONS(options), .release_threshold_bytes = TIDE_UNLIMITED };
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    uint64_t bare = UINT64_MAX, with_stream = UINT64_MAX, without_context = UINT64_MAX;
    struct tide_resource *driver = driver_new(&options);
    cuuint64_t all = UINT64_MAX;
    CUmemoryPool pool = NULL;
    CUstream stream = NULL;
    CUcontext primary;

    gpu.primary_retain(&primary, 0);
    gpu.mem_pool_create(&pool, &properties);
    gpu.mem_pool_set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
    gpu.context_set(primary);
    gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 5; i++) {
        bare = smaller(bare, bare_ns(pool, stream));
        with_stream = smaller(with_stream, ours_ns(driver, (tide_stream)stream));
    }
    gpu.context_set(NULL);
    for (int i = 0; i < 5; i++)
        without_context = smaller(without_context, ours_ns(driver, 0));
    diag("ns a pair of 4 KiB: the driver's calls %" PRIu64 ", through the base %" PRIu64
         ", on stream 0 without a context %" PRIu64,
         bare, with_stream, without_context);
    gpu.mem_pool_destroy(pool);
    gpu.stream_destroy(stream);
    gpu.primary_release(0);
    tide_resource_release(driver);
}

static struct tide_resource *
contract_create(void *context)
{
    (void)context;
    return driver_new(NULL);
}

int
main(void)
{
    static const struct contract contract = {
        .name = "driver", .create = contract_create, .largest_bytes = MIB, .knows_pointers = false
    };
    const char *reason;
    bool late;

    gpu_lock(true);
    /* Fork before this process has started the driver, since the child may not use it afterwards. */
    late = in_child(child_exits) == 0;
    reason = gpu_open();
    if (reason != NULL)
        skip_all(reason);
    plan(57 + 2 * ORDER_TESTS + OTHER_DEVICE_TESTS + CONTRACT_TESTS);
    gpu_diag();
    ok(late, "a process exits well if it frees and releases after the driver has shut down");
    test_create();
    test_fork();
    test_allocate();
    test_maximum();
    test_threshold();
    test_default_pool();
    test_unit();
    test_threads();
    test_own_context();
    test_order();
    test_other_device();
    contract_check(&contract);
    measure();
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
