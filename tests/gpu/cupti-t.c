/*
 * Tests what CUPTI adds to a trace beside the calls of its stack: all memory of the process. Tests the trace without
 * CUPTI, too.
 */
#include "tests/gpu/gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "tests/find.h"
#include "tests/tap.h"
#include "tests/trace.h"

#if defined(HAVE_CUDA_H) && defined(HAVE_CUPTI_H)

#include <cupti.h>

#define OUTSIDE 12345 /* bytes of the allocations outside of the stack */

/*
 * The scenes run in processes of their own: CUPTI accepts one subscriber, and works in no child of a process that used
 * CUDA.
 */
static struct {
    bool fake;
} test;

/* ThreadSanitizer does not follow children: it runs only the first scene, in this process. */
static int
run(int (*scene)(void *), const char *path)
{
    void *argument = (void *)(uintptr_t)path;

    return CHILDREN_MAY_RECORD ? in_child(scene, argument) : scene(argument);
}

/* With a context that is current: without one the base calls the driver twice. */
static int
scene_open(void)
{
    const char *reason = gpu_open();
    CUcontext primary;

    if (reason == NULL && gpu.primary_retain(&primary, 0) == CUDA_SUCCESS && gpu.context_set(primary) == CUDA_SUCCESS)
        return 0;
    diag("%s", reason != NULL ? reason : "there is no context");
    return 1;
}

static int
scene_find(void *unused)
{
    (void)unused;
    return scene_open();
}

static void
pass_by(CUcontext context)
{
    CUdeviceptr address;

    if ((context != NULL && gpu.context_set(context) != CUDA_SUCCESS) ||
        gpu.mem_alloc(&address, OUTSIDE) != CUDA_SUCCESS || gpu.mem_free(address) != CUDA_SUCCESS)
        abort();
}

static int
scene_memory(void *path)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    struct tide_resource *stack;
    CUcontext primary = NULL, other;
    CUmemoryPool pool;
    void *pointers[3];

    if (test.fake)
        setenv("FAKE_CUPTI_TWICE", "1", 1);
    if (scene_open() != 0 || gpu.context_get(&primary) != CUDA_SUCCESS)
        return 1;
    stack = stack_of("log(%s, cupti=memory, samples=every) | driver", (char *)path);
    for (unsigned i = 0; i < 3; i++)
        pointers[i] = take(stack, 1000 * (i + 1));
    pass_by(NULL);
    if (gpu.context_create(&other, 0, 0) != CUDA_SUCCESS)
        return 1;
    pass_by(other);
    gpu.context_set(primary);
    for (unsigned i = 0; i < 3; i++)
        give(stack, pointers[i], 1000 * (i + 1));
    gpu.context_synchronize();
    if (gpu.mem_pool_create(&pool, &properties) != CUDA_SUCCESS || gpu.mem_pool_trim_to(pool, 0) != CUDA_SUCCESS ||
        gpu.mem_pool_trim_to(pool, 0) != CUDA_SUCCESS || gpu.mem_pool_destroy(pool) != CUDA_SUCCESS)
        return 1;
    tide_resource_release(stack);
    return 0;
}

#define MEMORY_TESTS 16

static void
test_memory(void)
{
    const char *path = scratch("memory.db");
    const char *by = "allocation_id IS NULL AND bytes = 12345 AND function LIKE 'cuMem%_v2' AND os_tid IS NOT NULL";

    is_i64(run(scene_memory, path), 0, "a program allocates through the stack and outside of it");
    ok(trace_is_whole(path), "the trace of that program is whole");
    is_string(sql_text(path, "SELECT value FROM meta WHERE key = 'cupti'"), "memory",
              "the trace's meta says that it has all memory");
    is_i64(sql_number(path, "SELECT count(*) FROM device_event AS e JOIN allocation AS a USING (allocation_id)"
                            " WHERE e.kind = 'allocation' AND e.address = a.address AND e.bytes = a.size"
                            " AND e.function = 'cuMemAllocFromPoolAsync' AND memory_kind = 'device'"
                            " AND ns BETWEEN alloc_ns - alloc_duration_ns - 1000 AND alloc_ns + 1000"),
           3, "each allocation of the stack has one device event, with the id of its row");
    is_i64(sql_number(path, "SELECT count(*) FROM device_event AS e JOIN allocation AS a USING (allocation_id)"
                            " WHERE e.kind = 'release' AND e.address = a.address AND e.bytes = a.size"
                            " AND ns BETWEEN free_ns - 1000 AND free_ns + free_duration_ns + 1000"),
           3, "each release of the stack has one device event, with the id of its row");
    is_i64(sql_number(path, "SELECT count(*) FROM device_event WHERE kind IN ('allocation', 'release')"
                            " AND allocation_id IS NOT NULL"),
           6, "no other device event has an allocation's id");
    is_i64(sql_number(path, "SELECT count(*) FROM device_event WHERE kind = 'allocation' AND %s", by), 2,
           "each allocation outside of the stack has one device event, with its function and thread");
    is_i64(sql_number(path, "SELECT count(*) FROM device_event WHERE kind = 'release' AND %s", by), 2,
           "each release outside of the stack has one device event");
    is_i64(sql_number(path, "SELECT count(*) FROM driver_call WHERE allocation_id IS NULL AND correlation IN"
                            " (SELECT correlation FROM device_event WHERE bytes = 12345)"),
           4, "the calls outside of the stack are recorded");
    ok(all_of(sql_number(path,
                         "SELECT count(*) FROM device_event WHERE kind = 'pool_created' AND pool_address IS NOT NULL"
                         " AND address IS NULL AND pool_kind = 'local'") >= 1,
              sql_number(path, "SELECT count(*) FROM device_event WHERE kind = 'pool_destroyed'") >= 1),
       "the creation and destruction of pools is recorded");
    ok(sql_number(path, "SELECT count(*) FROM device_event WHERE kind = 'pool_trimmed' AND keep_bytes = 0"
                        " AND function IS NULL AND correlation IS NULL GROUP BY pool_address"
                        " ORDER BY 1 DESC LIMIT 1") >= 2,
       "two trims of a pool are recorded");
    is_i64(sql_number(path, "SELECT count(*) FROM (SELECT 1 FROM device_event WHERE correlation IS NOT NULL"
                            " GROUP BY correlation, kind, address, pool_address HAVING count(*) > 1)"),
           0, "no device event is recorded twice");
    is_i64(sql_number(path, "SELECT sum(bytes * (1 - 2 * memoryOperationType)) FROM CUDA_GPU_MEMORY_USAGE_EVENTS AS e"
                            " JOIN ENUM_CUDA_MEM_KIND AS k ON k.id = e.memKind WHERE k.label = 'Device'"
                            " AND (correlationId IN (SELECT correlation FROM driver_call))"),
           0, "a query written for Nsight Systems sees as much released as allocated");
    is_i64(sql_number(path,
                      "SELECT count(*) FROM CUDA_GPU_MEMORY_USAGE_EVENTS AS e JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r"
                      " ON r.correlationId = e.correlationId AND e.start BETWEEN r.start AND r.end"
                      " JOIN StringIds AS s ON s.id = r.nameId WHERE s.value = 'cuMemAllocFromPoolAsync'"
                      " AND r.globalTid / 0x1000000 %% 0x1000000 = (SELECT value FROM meta WHERE key = 'pid')"),
           3, "a query written for Nsight Systems finds the calls by their correlation");
    is_i64(sql_number(path,
                      "SELECT count(*) FROM CUDA_GPU_MEMORY_POOL_EVENTS AS e"
                      " JOIN ENUM_CUDA_MEMPOOL_OPER AS o ON o.id = e.operationType WHERE o.label = 'Destroyed'") >= 1,
           1, "a query written for Nsight Systems finds the pools' events with the name of their operation");
    ok(sql_number(path, "SELECT count(*) FROM pool_sample") >= 6,
       "samples=every has the pool's figures after each event");
}

static int
scene_versions(void *path)
{
    struct tide_resource *stack;

    setenv("FAKE_CUPTI_VERSION", "22", 1);
    setenv("FAKE_CUPTI_DROP", "3", 1);
    if (scene_open() != 0)
        return 1;
    stack = stack_of("log(%s, cupti=memory, samples=off) | driver", (char *)path);
    for (unsigned i = 0; i < 10; i++)
        give(stack, take(stack, 4096), 4096);
    tide_resource_release(stack);
    return 0;
}

#define VERSION_TESTS 4

static void
test_versions(void)
{
    const char *path = scratch("versions.db");

    if (!test.fake) {
        skip(VERSION_TESTS, "this is a CUPTI of one version");
        return;
    }
    is_i64(run(scene_versions, path), 0, "a program runs with an older CUPTI, which drops records");
    is_i64(sql_number(path, "SELECT events FROM loss WHERE reason = 'record dropped by CUPTI'"), 3,
           "the records that CUPTI dropped are counted as lost");
    is_i64(sql_number(path, "SELECT count(*) FROM driver_call") + sql_number(path, "SELECT count(*) FROM device_event"
                                                                                   " WHERE pool_used_bytes > 0"),
           20 + 17, "all other calls and device events are recorded");
    is_i64(sql_number(path, "SELECT count(*) FROM pool_sample"), 0, "samples=off writes no samples");
}

static int
scene_exit(void *path)
{
    struct tide_resource *stack;

    if (scene_open() != 0)
        return 1;
    stack = stack_of("log(%s, cupti=memory) | driver", (char *)path);
    for (unsigned i = 0; i < 100; i++)
        give(stack, take(stack, 4096), 4096);
    exit(0);
}

static int
scene_kill(void *path)
{
    struct tide_resource *stack;

    if (scene_open() != 0)
        return 1;
    stack = stack_of("log(%s, cupti=memory) | driver", (char *)path);
    for (unsigned i = 0; i < 100; i++)
        give(stack, take(stack, 4096), 4096);
    tide_log_flush(stack);
    pass_by(NULL);
    tide_log_flush(stack);
    for (unsigned i = 0; i < 100; i++)
        give(stack, take(stack, 4096), 4096);
    raise(SIGKILL);
    return 1;
}

/* A program that is killed at once, with and without CUPTI. */
static int
scene_kill_soon(void *path)
{
    struct tide_resource *stack;

    if (scene_open() != 0)
        return 1;
    stack = stack_of("log(%s, cupti=memory) | driver", (char *)path);
    give(stack, take(stack, 4096), 4096);
    raise(SIGKILL);
    return 1;
}

static int
scene_kill_off(void *path)
{
    if (scene_open() != 0)
        return 1;
    stack_of("log(%s, cupti=off) | driver", (char *)path);
    raise(SIGKILL);
    return 1;
}

static struct tide_resource *exit_stack;
static _Atomic unsigned exit_pairs;

static void *
exit_thread(void *unused)
{
    CUcontext primary;

    (void)unused;
    if (gpu.primary_retain(&primary, 0) != CUDA_SUCCESS || gpu.context_set(primary) != CUDA_SUCCESS)
        return NULL;
    for (;;) {
        void *pointer;

        /* The driver may have shut down by now. */
        if (tide_allocate(exit_stack, 4096, 256, 0, &pointer) == TIDE_OK)
            tide_deallocate(exit_stack, pointer, 4096, 256, 0);
        atomic_fetch_add(&exit_pairs, 1);
        usleep(100);
    }
    return NULL;
}

static void
exit_wait(void)
{
    unsigned pairs = atomic_load(&exit_pairs);

    while (atomic_load(&exit_pairs) < pairs + 10)
        usleep(100);
}

/* A thread goes on while the process exits: exit_wait runs after all handlers that were registered later. */
static int
scene_exit_threads(void *path)
{
    pthread_t thread;

    atexit(exit_wait);
    if (scene_open() != 0)
        return 1;
    exit_stack = stack_of("log(%s, cupti=memory) | log(%s.2) | driver", (char *)path, (char *)path);
    pthread_create(&thread, NULL, exit_thread, NULL);
    exit_wait();
    exit(0);
}

#define END_TESTS 20

static void
test_ends(void)
{
    const char *path = scratch("exit.db");
    int status = run(scene_exit, path);
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };

    is_i64(status, 0, "a program exits with its stack in use");
    ok(all_of(trace_is_whole(path), sql_number(path, "SELECT count(*) FROM driver_call") == 200,
              sql_number(path, "SELECT count(*) FROM device_event WHERE allocation_id IS NOT NULL") == 200),
       "the trace of a program that exits with its stack in use has every call and every record");
    path = scratch("kill.db");
    status = run(scene_kill, path);
    ok(all_of(WIFSIGNALED(status), WTERMSIG(status) == SIGKILL), "a program is killed after a flush");
    ok(sql_number(path, "SELECT count(*) FROM device_event WHERE allocation_id IS NOT NULL") >= 200,
       "the device events before the flush are in the trace of the killed program");
    ok(all_of(sql_number(path, "SELECT count(*) FROM device_event WHERE bytes = %d AND allocation_id IS NULL",
                         OUTSIDE) >= 2,
              sql_number(path, "SELECT count(*) FROM driver_call WHERE allocation_id IS NULL") >= 2),
       "device events and calls outside of the stack between two flushes are in the trace");
    ok(all_of(tide_trace_recover(path, &recovery) == TIDE_OK, trace_is_sound(path)),
       "the trace of the killed program is recovered");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation WHERE free_ns IS NOT NULL"), 200,
           "no event of the killed program is lost");
    is_i64(sql_number(path, "SELECT count(*) FROM driver_call WHERE allocation_id IS NOT NULL"), 400,
           "no call of the killed program is lost");
    has_words(sql_text(path, "SELECT value FROM meta WHERE key = 'cupti'"), "when the process was killed",
              "the trace says that the last records of memory are missing");
    path = scratch("kill-soon.db");
    status = run(scene_kill_soon, path);
    ok(all_of(WIFSIGNALED(status), tide_trace_recover(path, &recovery) == TIDE_OK, trace_is_sound(path)),
       "the trace of a program that is killed at once is recovered");
    has_words(sql_text(path, "SELECT value FROM meta WHERE key = 'cupti'"), "when the process was killed",
              "the trace of a program that is killed at once says that the last records of memory are missing");
    path = scratch("kill-off.db");
    status = run(scene_kill_off, path);
    ok(all_of(WIFSIGNALED(status), tide_trace_recover(path, &recovery) == TIDE_OK, trace_is_sound(path)),
       "the trace of a killed program without CUPTI is recovered");
    is_string(sql_text(path, "SELECT value FROM meta WHERE key = 'cupti'"), "off: cupti=off",
              "the trace of a killed program without CUPTI says that it was switched off");
    path = scratch("exit-threads.db");
    is_i64(run(scene_exit_threads, path), 0, "a process exits while a thread of it goes on");
    ok(all_of(tide_trace_recover(path, &recovery) == TIDE_OK, trace_is_sound(path),
              sql_number(path, "SELECT value = (SELECT count(*) = 0 FROM loss) FROM meta WHERE key = 'complete'") == 1),
       "the trace of a process that exits beside a thread is complete, or counts what that had no more room for");
    has_words(sql_text(path, "SELECT value FROM meta WHERE key = 'cupti'"), "memory: up to ",
              "the trace of a process that exits beside a thread says until when it has memory events");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation AS a JOIN (SELECT CAST(substr(value, 15) AS INTEGER) AS ns"
                            " FROM meta WHERE key = 'cupti') WHERE alloc_ns < ns AND status = 0 AND NOT EXISTS"
                            " (SELECT 1 FROM device_event AS e WHERE e.allocation_id = a.allocation_id)"),
           0, "every allocation before that time has its device event");
    for (unsigned i = 0; i < 2; i++) {
        const char *each = i == 0 ? path : scratch("exit-threads.db.2");

        is_i64(sql_number(each, "SELECT count(*) FROM allocation AS a WHERE status = 0 AND NOT EXISTS"
                                " (SELECT 1 FROM driver_call AS c WHERE c.allocation_id = a.allocation_id)"),
               0, "every allocation up to the driver's end has its call");
    }
    is_string(sql_text(scratch("exit-threads.db.2"), "SELECT value FROM meta WHERE key = 'cupti'"), "calls",
              "a trace of calls alone has no missing part when the process exits beside a thread");
}

/* A process imports its own pool: the real CUPTI 13.0 crashes when the pointer is freed. */
static int
scene_import(void *path)
{
    struct tide_driver_import_options options = { TIDE_OPTIONS(options) };
    struct tide_driver_pointer pointer;
    struct tide_resource *stack, *driver, *imported;
    void *block, *again;
    int fd = -1;

    if (scene_open() != 0)
        return 1;
    stack = stack_of("log(%s, cupti=memory) | driver(handle=posix_fd)", (char *)path);
    block = take(stack, 4096);
    gpu.context_synchronize();
    driver = find_layer(stack, "driver");
    if (tide_driver_export(driver, &fd) != TIDE_OK || tide_driver_import(fd, &options, &imported) != TIDE_OK ||
        tide_driver_pointer_export(driver, block, 4096, &pointer) != TIDE_OK ||
        tide_driver_pointer_import(imported, &pointer, 0, &again) != TIDE_OK) {
        diag("%s", tide_error_text());
        return 1;
    }
    give(imported, again, 4096);
    gpu.context_synchronize();
    give(stack, block, 4096);
    give(stack, take(stack, 8192), 8192);
    tide_resource_release(imported);
    tide_resource_release(stack);
    stack = stack_of("log(%s.2, cupti=memory) | driver", (char *)path);
    give(stack, take(stack, 4096), 4096);
    tide_resource_release(stack);
    return 0;
}

#define IMPORT_TESTS 7

static void
test_import(void)
{
    const char *path = scratch("import.db");

    is_i64(run(scene_import, path), 0, "a process imports a pointer and frees it");
    ok(trace_is_whole(path), "the trace of a process that imports a pointer is whole");
    has_words(sql_text(path, "SELECT value FROM meta WHERE key = 'cupti'"), "memory: up to ",
              "the trace of a process that imports a pointer says until when it has memory events, and why");
    is_i64(sql_number(path, "SELECT count(*) FROM driver_call WHERE allocation_id IS NOT NULL"), 4,
           "the calls after the import are all recorded");
    is_i64(sql_number(path, "SELECT count(*) FROM device_event WHERE kind = 'allocation' AND bytes = 4096"), 1,
           "the device event before the import is recorded");
    is_i64(sql_number(path, "SELECT count(*) FROM device_event WHERE bytes = 8192"), 0,
           "the device event after the import is not recorded");
    has_words(sql_text(scratch("import.db.2"), "SELECT value FROM meta WHERE key = 'cupti'"),
              "calls: no memory: ", "a later trace of the process has the calls alone");
}

/* The callback of another tool in the process, which subscribed first. */
static void
other_callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    (void)userdata;
    (void)domain;
    (void)id;
    (void)data;
}

static int
scene_other(void *path)
{
    void *library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
    CUptiResult (*subscribe)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *);
    CUpti_SubscriberHandle subscriber;
    struct tide_resource *stack;
    void *symbol;

    if (library == NULL)
        library = dlopen("/usr/local/cuda/lib64/libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || scene_open() != 0 || (symbol = dlsym(library, "cuptiSubscribe")) == NULL)
        return 1;
    memcpy(&subscribe, &symbol, sizeof(subscribe));
    if (subscribe(&subscriber, other_callback, NULL) != CUPTI_SUCCESS)
        return 1;
    stack = stack_of("log(%s) | driver", (char *)path);
    give(stack, take(stack, 4096), 4096);
    tide_resource_release(stack);
    return 0;
}

/* Two traces at once. The second one records more, and for longer. */
static int
scene_two(void *path)
{
    struct tide_resource *first, *second;
    void *most, *more;

    if (scene_open() != 0)
        return 1;
    first = stack_of("log(%s.1) | driver", (char *)path);
    second = stack_of("log(%s.2, cupti=memory) | driver", (char *)path);
    give(first, take(first, 4096), 4096);
    give(second, take(second, 8192), 8192);
    tide_resource_release(first);
    give(second, take(second, 8192), 8192);
    tide_resource_release(second);
    first = stack_of("log(%s.3) | driver(maximum=64MiB)", (char *)path);
    most = take(first, (size_t)48 << 20);
    if (tide_allocate(first, (size_t)48 << 20, 256, 0, &more) == TIDE_OK)
        return 1;
    give(first, most, (size_t)48 << 20);
    tide_resource_release(first);
    return 0;
}

#define OTHER_TESTS 9

static void
test_others(void)
{
    const char *path = scratch("other.db");

    is_i64(run(scene_other, path), 0, "a program runs while another tool has CUPTI");
    ok(all_of(trace_is_whole(path), sql_number(path, "SELECT count(*) FROM allocation") == 1),
       "the trace beside another tool is whole, without CUPTI's records");
    has_words(sql_text(path, "SELECT value FROM meta WHERE key = 'cupti'"), "off: cupti: another tool has it",
              "the trace beside another tool says who has CUPTI");
    path = scratch("two.db");
    is_i64(run(scene_two, path), 0, "a process has two traces, and then a third");
    ok(all_of(trace_is_whole(scratch("two.db.1")), trace_is_whole(scratch("two.db.2")),
              trace_is_whole(scratch("two.db.3"))),
       "the three traces of the process are whole");
    is_i64(sql_number(scratch("two.db.1"), "SELECT count(*) FROM driver_call"), 2,
           "the first of two traces has its own calls");
    is_i64(sql_number(scratch("two.db.2"), "SELECT count(*) FROM driver_call WHERE allocation_id IS NOT NULL"), 4,
           "the second of two traces has its own calls");
    is_i64(sql_number(scratch("two.db.2"), "SELECT count(*) FROM device_event WHERE bytes IN (4096, 8192)"), 6,
           "the second trace has all events of memory");
    ok(sql_number(scratch("two.db.3"), "SELECT count(*) FROM driver_call JOIN allocation USING (allocation_id)"
                                       " WHERE status <> 0 AND result <> 0") >= 1,
       "a driver call that failed is recorded with its result");
}

static bool
is_fake(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);

    return library != NULL && dlsym(library, "fake_cuda_trace") != NULL;
}

int
main(void)
{
    gpu_skip_sanitized("compute-sanitizer takes the place of CUPTI");
    scratch("x");
    if (run(scene_find, NULL) != 0)
        skip_all("no GPU, or no driver for it");
    test.fake = is_fake();
    plan(MEMORY_TESTS + VERSION_TESTS + END_TESTS + IMPORT_TESTS + OTHER_TESTS);
    test_memory();
    if (CHILDREN_MAY_RECORD) {
        test_versions();
        test_ends();
        test_import();
        test_others();
    } else {
        skip(VERSION_TESTS + END_TESTS + IMPORT_TESTS + OTHER_TESTS,
             "ThreadSanitizer does not follow children that have threads");
    }
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA or no CUPTI");
}

#endif
