/* Tests the base `driver` over a fake driver in the test: its driver calls, its figures, and its cleanup. */
#include "config.h"

#include <limits.h>

#include <tidemark/driver.h>
#include <tidemark/message.h>

#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#include "src/resource/kind.h"
#include "tests/driver-fake.h"

#define MIB ((size_t)1 << 20)

extern const struct tidei_kind tidei_driver_kind;

static struct tidei_driver fake_driver;
static bool fake_usable = true;

/* Replaces src/cuda/driver-load.c. */
enum tide_status
tidei_driver_get(const char *subject, const struct tidei_driver **out)
{
    (void)subject;
    *out = &fake_driver;
    return tidei_driver_fill(&fake_driver, fake_find, NULL);
}

bool
tidei_driver_usable(void)
{
    return fake_usable;
}

static void
test_fill(void)
{
    struct tidei_driver table;
    char init[] = "cuInit";
    char pool[] = "cuMemPoolCreate";

    fake_reset();
    ok(tidei_driver_fill(&table, fake_find, init) == TIDE_EUNSUPPORTED, "a library without cuInit is refused");
    is_string(tide_error_text(), "driver: the NVIDIA driver has no cuInit", "the text names what is missing");
    ok(tidei_driver_fill(&table, fake_find, pool) == TIDE_OK, "a driver too old for pools is accepted");
    ok(table.mem_pool_create == NULL && table.mem_pool_destroy != NULL, "only the missing function is switched off");
    is_i64(table.version, 13000, "the table knows the driver's version");
    ok(tidei_driver_fill(&table, fake_find_proc_address, NULL) == TIDE_OK, "cuGetProcAddress finds every function");
    ok(table.mem_alloc_from_pool_async == fake_mem_alloc_from_pool_async && table.event_destroy == fake_event_destroy,
       "functions with and without a version in their symbol are found");
    is_i64(fake.flags, 1, "cuGetProcAddress is asked for the legacy default stream");
    is_i64(fake.total_mem_version, 3020, "cuGetProcAddress is asked for the version of the signature");
}

static void
test_start(void)
{
    struct tidei_driver table;

    fake_reset();
    fake.fail = "cuInit";
    fake.result = CUDA_ERROR_NO_DEVICE;
    ok(tidei_driver_fill(&table, fake_find, NULL) == TIDE_EUNSUPPORTED, "a machine without a device is unsupported");
    is_string(tide_error_text(), "driver: no CUDA device on this machine (cuInit: CUDA_ERROR_NO_DEVICE)",
              "the text says that there is no device");
    is_i64(tide_error_driver(), CUDA_ERROR_NO_DEVICE, "the error of cuInit is kept as the driver's error");
    fake.result = CUDA_ERROR_STUB_LIBRARY;
    ok(tidei_driver_fill(&table, fake_find, NULL) == TIDE_EUNSUPPORTED, "a driver that does not start is unsupported");
    is_string(tide_error_text(), "driver: the NVIDIA driver does not start (cuInit: CUDA_ERROR_STUB_LIBRARY, 34)",
              "the text has the function and the error's name");
    fake.result = (CUresult)12345;
    tidei_driver_fill(&table, fake_find, NULL);
    has_words(tide_error_text(), "an unknown CUDA error, 12345",
              "the text names an unknown driver error by its number");
    fake.fail = NULL;
    fake.devices = 0;
    ok(tidei_driver_fill(&table, fake_find, NULL) == TIDE_EUNSUPPORTED, "a driver with 0 devices is unsupported");
}

static enum tide_status
create_fails(const struct tide_driver_options *options)
{
    struct tide_resource *driver = (struct tide_resource *)&fake;
    enum tide_status status = tide_driver_create(options, &driver);

    if (driver != NULL)
        diag("*out is not NULL");
    return driver == NULL ? status : TIDE_OK;
}

static void
test_create_errors(void)
{
    struct tide_driver_options options = { TIDE_OPTIONS(options), .device = 2 };

    fake_reset();
    ok(tide_driver_create(NULL, NULL) == TIDE_EINVAL, "NULL in place of the address is refused");
    ok(create_fails(&options) == TIDE_EINVAL, "a device past the last is refused");
    is_string(tide_error_text(), "driver: no device 2, this machine has 2 (counted from 0)",
              "the text says how many devices there are");
    options.device = -1;
    ok(create_fails(&options) == TIDE_EINVAL, "a negative device is refused");
    options = (struct tide_driver_options){ TIDE_OPTIONS(options), .use_default_pool = true, .maximum_bytes = 1 };
    ok(create_fails(&options) == TIDE_EINVAL, "a maximum for the default pool is refused");
    fake.pools_supported = 0;
    ok(create_fails(NULL) == TIDE_EUNSUPPORTED, "a device without pools is unsupported");
    is_string(tide_error_text(), "driver: device 0 has no memory pools: use the base cuda, or driver(fallback=cuda)",
              "the text says that the device has no pools, and what to use instead");
    fake_reset();
    fake.fail = "cuMemPoolCreate";
    fake.result = CUDA_ERROR_INVALID_VALUE;
    ok(create_fails(NULL) == TIDE_EDRIVER, "a pool that cannot be created is a driver error");
    is_string(tide_error_text(), "driver: cuMemPoolCreate: CUDA_ERROR_INVALID_VALUE (1)", "the text names the call");
    is_i64(fake.primary.references, 0, "a failed creation releases the primary context");
    fake.fail = "cuMemPoolSetAttribute";
    options = (struct tide_driver_options){ TIDE_OPTIONS(options), .release_threshold_bytes = TIDE_NONE };
    ok(create_fails(&options) == TIDE_EDRIVER, "a threshold that cannot be set is a driver error");
    is_i64(fake.pools + fake.primary.references, 0, "a failed threshold releases pool and context");
    fake_reset();
    fake.version = 12000;
    options = (struct tide_driver_options){ TIDE_OPTIONS(options), .maximum_bytes = 64 * MIB };
    ok(create_fails(&options) == TIDE_EUNSUPPORTED, "a maximum is refused if the driver would ignore it");
    has_words(tide_error_text(), "CUDA 12.2, this one is of 12.0",
              "the refusal of the maximum names both CUDA versions");
}

static void
test_contexts(void)
{
    struct fake_context own = { 0 };
    struct CUstream_st stream = { .context = &own };
    struct tide_resource *driver = NULL;
    void *pointer = NULL;

    fake_reset();
    ok(tide_driver_create(NULL, &driver) == TIDE_OK, "a driver is created on a thread without a context");
    fake.pushes = 0;
    ok(tide_allocate(driver, MIB, 256, 0, &pointer) == TIDE_OK && pointer != NULL,
       "a thread without a context allocates on stream 0");
    ok(tide_deallocate(driver, pointer, MIB, 256, 0) == TIDE_OK, "a thread without a context frees on stream 0");
    ok(fake.current == NULL && fake.depth == 0, "no context is left behind on that thread");
    is_i64(fake.pushes, 2, "an allocation and a free each make the primary context current once");
    ok(tide_allocate(driver, MIB, 256, (tide_stream)&stream, &pointer) == TIDE_OK && fake.stream == &stream,
       "a stream is handed to the driver as it is");
    is_i64(fake.pushes, 2, "a stream that has a context of its own needs no other");
    fake.current = &own;
    ok(tide_allocate(driver, MIB, 256, 0, &pointer) == TIDE_OK && fake.pushes == 2 && fake.current == &own,
       "the application's own context stays current");
    fake.current = NULL;
    fake.fail = "cuMemAllocFromPoolAsync";
    fake.result = CUDA_ERROR_INVALID_CONTEXT;
    fake.allocations = 0;
    ok(tide_allocate(driver, MIB, 256, 0, &pointer) == TIDE_EDRIVER && pointer == NULL && fake.allocations == 2,
       "an allocation that fails with a current context is tried once in the primary context");
    fake.fail = NULL;
    tide_resource_release(driver);
    ok(fake.depth == 0 && fake.pools == 0 && fake.primary.references == 0, "releasing gives back pool and context");
}

static void
test_allocate(void)
{
    struct tide_driver_options options = { TIDE_OPTIONS(options), .maximum_bytes = 64 * MIB };
    struct tide_resource *driver = NULL;
    void *pointer = &fake;
    uint64_t figure;

    fake_reset();
    tide_driver_create(&options, &driver);
    is_u64(fake.properties.maxSize, 64 * MIB, "the pool is created with the maximum");
    ok(tide_allocate(driver, MIB, 512, 0, &pointer) == TIDE_EINVAL && pointer == NULL,
       "an alignment of 512 is refused");
    ok(tide_allocate(driver, 0, 256, 0, &pointer) == TIDE_OK && pointer == NULL, "0 bytes are allocated as NULL");
    ok(tide_deallocate(driver, NULL, 0, 256, 0) == TIDE_OK, "NULL of 0 bytes may be freed");
    ok(tide_deallocate(driver, NULL, 1, 256, 0) == TIDE_EPOINTER, "a free of 1 byte at NULL is refused");
    ok(tide_allocate(driver, SIZE_MAX, 256, 0, &pointer) == TIDE_ECAPACITY && pointer == NULL,
       "a request past the device's memory is refused");
    is_i64(fake.allocations, 0, "refused requests and those of 0 bytes do not reach the driver");
    ok(tide_allocate(driver, 48 * MIB, 256, 0, &pointer) == TIDE_OK, "48 MiB of 64 are allocated");
    ok(tide_query(driver, TIDE_QUERY_BYTES_USED, &figure) == TIDE_OK && figure == 48 * MIB, "48 MiB are in use");
    ok(tide_query(driver, TIDE_QUERY_BYTES_RESERVED, &figure) == TIDE_OK && figure == 64 * MIB,
       "64 MiB are reserved for 48 MiB in use");
    ok(tide_trim(driver, MIB) == TIDE_OK && fake.trimmed_to_bytes == MIB, "the pool is trimmed to a size");
    fake.trim_needs_context = true;
    ok(tide_trim(driver, 2 * MIB) == TIDE_OK && fake.trimmed_to_bytes == 2 * MIB && fake.current == NULL,
       "a trim on a thread without a context works with a driver that needs one");
    fake.fail = "cuMemPoolTrimTo";
    fake.result = CUDA_ERROR_UNKNOWN;
    ok(tide_trim(driver, 0) == TIDE_EDRIVER, "a trim that the driver fails is a driver error");
    fake.fail = NULL;
    ok(tide_allocate(driver, 17 * MIB, 256, 0, &pointer) == TIDE_ECAPACITY && pointer == NULL,
       "a request over the free memory of the pool is refused");
    is_string(tide_error_text(),
              "driver: 17 MiB request finds no room in the pool of device 0: CUDA_ERROR_OUT_OF_MEMORY (48 MiB used, "
              "64 MiB reserved, maximum 64 MiB)",
              "the refusal names the request and the pool's figures");
    is_i64(tide_error_driver(), CUDA_ERROR_OUT_OF_MEMORY, "a refused allocation keeps the driver's error");
    fake.fail = "cuMemAllocFromPoolAsync";
    fake.result = CUDA_ERROR_LAUNCH_FAILED;
    ok(tide_allocate(driver, MIB, 256, 0, &pointer) == TIDE_EDRIVER && pointer == NULL,
       "any other error of an allocation is a driver error");
    is_string(tide_error_text(), "driver: cuMemAllocFromPoolAsync: CUDA_ERROR_LAUNCH_FAILED (719)",
              "the text names the driver's function and error");
    tide_resource_release(driver);
}

static void
test_deallocate(void)
{
    struct tide_resource *driver = NULL;

    fake_reset();
    tide_driver_create(NULL, &driver);
    fake.fail = "cuMemFreeAsync";
    fake.result = CUDA_ERROR_INVALID_VALUE;
    ok(tide_deallocate(driver, &fake, MIB, 256, 0) == TIDE_EPOINTER,
       "a free of a pointer that the driver does not know is refused");
    is_i64(tide_error_driver(), CUDA_ERROR_INVALID_VALUE, "a refused free keeps the driver's error");
    fake.result = CUDA_ERROR_LAUNCH_FAILED;
    ok(tide_deallocate(driver, &fake, MIB, 256, 0) == TIDE_EDRIVER, "any other error of a free is a driver error");
    fake.result = CUDA_ERROR_DEINITIALIZED;
    ok(tide_deallocate(driver, &fake, MIB, 256, 0) == TIDE_OK, "a free after the driver has shut down succeeds");
    fake_usable = false;
    tide_resource_release(driver);
    fake_usable = true;
    ok(fake.pools == 1 && fake.primary.references == 1, "a child of fork() releases without calling the driver");
}

static void
test_order(void)
{
    struct fake_context own = { 0 };
    struct CUstream_st first = { .context = &fake.primary };
    struct CUstream_st second = { .context = &fake.primary };
    struct CUstream_st foreign = { .context = &own };
    struct tide_resource *driver = NULL;

    fake_reset();
    tide_driver_create(NULL, &driver);
    ok(tide_order(driver, (tide_stream)&first, (tide_stream)&first) == TIDE_OK && fake.events_created == 0,
       "a stream needs no order with itself");
    ok(tide_order(driver, (tide_stream)&first, (tide_stream)&second) == TIDE_OK && second.waits == 1,
       "an order makes the later stream wait");
    ok(tide_order(driver, (tide_stream)&second, (tide_stream)&first) == TIDE_OK && fake.events_created == 1,
       "a second order reuses the event");
    ok(tide_order(driver, 0, (tide_stream)&first) == TIDE_OK && fake.depth == 0 && fake.events_created == 1,
       "a thread without a context orders behind stream 0");
    ok(tide_order(driver, (tide_stream)&first, 0) == TIDE_OK && fake.depth == 0,
       "a thread without a context makes stream 0 wait for another stream");
    ok(tide_order(driver, (tide_stream)&foreign, (tide_stream)&first) == TIDE_OK && fake.events_created == 2,
       "a stream of another context gets an event of that context");
    is_i64(fake.events_live, 1, "the event of another context is not kept");
    fake.fail = "cuStreamWaitEvent";
    fake.result = CUDA_ERROR_LAUNCH_FAILED;
    ok(tide_order(driver, (tide_stream)&first, (tide_stream)&second) == TIDE_EDRIVER,
       "a failed wait is a driver error");
    has_words(tide_error_text(), "cuStreamWaitEvent: CUDA_ERROR_LAUNCH_FAILED", "the text names the failed wait");
    fake_driver.event_record = NULL;
    ok(tide_order(driver, (tide_stream)&first, (tide_stream)&second) == TIDE_EUNSUPPORTED,
       "an order is unsupported without events");
    tide_resource_release(driver);
    is_i64(fake.events_live, 0, "destroying the driver destroys the kept events");
}

static void
test_order_all(void)
{
    struct fake_context own = { 0 };
    struct tide_resource *driver = NULL;

    fake_reset();
    tide_driver_create(NULL, &driver);
    ok(tide_order(driver, TIDE_STREAM_ALL, 0) == TIDE_OK && fake.primary.synchronized == 1,
       "all streams are waited for in the primary context");
    ok(fake.current == NULL && fake.depth == 0, "an order behind all streams leaves no context current");
    fake.current = &own;
    ok(tide_order(driver, TIDE_STREAM_ALL, 0) == TIDE_OK && fake.primary.synchronized == 2 && own.synchronized == 1,
       "an order behind all streams also synchronizes the current context of the application");
    ok(fake.current == &own && fake.depth == 0 && fake.events_created == 0,
       "an order behind all streams leaves the application's context current");
    fake.fail = "cuCtxSynchronize";
    fake.result = CUDA_ERROR_LAUNCH_FAILED;
    ok(tide_order(driver, TIDE_STREAM_ALL, 0) == TIDE_EDRIVER && fake.depth == 0,
       "an order behind all streams fails if the application's context does");
    fake.current = NULL;
    ok(tide_order(driver, TIDE_STREAM_ALL, 0) == TIDE_EDRIVER && fake.depth == 0,
       "an order behind all streams fails if the primary context does");
    is_string(tide_error_text(), "driver: cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED (719)",
              "the failure of a synchronize names the function");
    fake.result = CUDA_ERROR_DEINITIALIZED;
    ok(tide_order(driver, TIDE_STREAM_ALL, 0) == TIDE_OK,
       "an order behind all streams succeeds after the driver has shut down");
    ok(tide_order(driver, 0, TIDE_STREAM_ALL) == TIDE_EINVAL, "all streams cannot be made to wait");
    fake.fail = NULL;
    fake.primary.synchronized = 0;
    fake_usable = false;
    ok(tide_order(driver, TIDE_STREAM_ALL, 0) == TIDE_EUNSUPPORTED && fake.primary.synchronized == 0,
       "an order behind all streams is unsupported in a child of fork()");
    fake_usable = true;
    tide_resource_release(driver);
}

static void
test_query(void)
{
    static const struct {
        enum tide_query what;
        uint64_t wanted;
        const char *sentence;
    } rows[] = {
        { TIDE_QUERY_CAPACITY, UINT64_C(80) << 30, "the capacity without a maximum is the device's memory" },
        { TIDE_QUERY_DEVICE, 1, "the device is the ordinal asked for" },
        { TIDE_QUERY_HOST_ACCESS, 0, "the host has no access" },
        { TIDE_QUERY_STREAM_ORDERED, 1, "memory comes in stream order" },
        { TIDE_QUERY_ALIGNMENT, 256, "every address is a multiple of 256" },
    };
    struct tide_driver_options options = { TIDE_OPTIONS(options), .device = 1 };
    struct tide_resource *driver = NULL;
    uint64_t figure;

    fake_reset();
    tide_driver_create(&options, &driver);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ok(tide_query(driver, rows[i].what, &figure) == TIDE_OK && figure == rows[i].wanted, "%s", rows[i].sentence);
    is_i64(fake.properties.location.id, 1, "the pool lies on the device in the options");
    ok(tide_query(driver, (enum tide_query)999, &figure) == TIDE_EUNSUPPORTED, "an unknown figure is unsupported");
    tide_resource_release(driver);
}

static void
describes(const struct tide_driver_options *options, const char *wanted)
{
    char data[128] = "";
    struct tide_text text = { .data = data, .capacity = sizeof(data) };
    struct tide_resource *driver = NULL;

    fake_reset();
    if (tide_driver_create(options, &driver) == TIDE_OK)
        driver->ops->describe(driver, &text);
    is_string(data, wanted, wanted[0] != '\0' ? wanted : "a driver of defaults has no arguments");
    tide_resource_release(driver);
}

static void
test_describe(void)
{
    struct tide_driver_options own = { TIDE_OPTIONS(own), .device = 1, .release_threshold_bytes = 1024 * MIB,
                                       .maximum_bytes = 8192 * MIB };
    struct tide_driver_options shared = { TIDE_OPTIONS(shared), .use_default_pool = true,
                                          .release_threshold_bytes = TIDE_NONE };

    describes(NULL, "");
    describes(&own, "device=1, release_threshold=1GiB, maximum=8GiB");
    describes(&shared, "release_threshold=0, default=true");
}

/* The values are in the order of the argument table, as the parser passes them. */
static void
test_kind(void)
{
    struct tidei_arguments arguments = { 0 };
    struct tide_resource *driver = NULL;
    uint64_t figure = 0;

    fake_reset();
    is_string(tidei_driver_kind.arguments[1].key, "release_threshold", "the second argument is the threshold");
    ok(tidei_driver_kind.arguments[0].most == INT_MAX, "a device past any int is refused");
    ok(tidei_driver_kind.arguments[2].least == 1, "a maximum of 0 is refused");
    arguments.values[0] = (struct tidei_value){ .given = true, .number = 1 };
    arguments.values[1] = (struct tidei_value){ .given = true, .number = 5 * MIB };
    arguments.values[2] = (struct tidei_value){ .given = true, .number = 96 * MIB };
    ok(tidei_driver_kind.create_text(&arguments, NULL, &driver) == TIDE_OK,
       "the arguments of stack text make a driver");
    tide_query(driver, TIDE_QUERY_CAPACITY, &figure);
    ok(figure == 96 * MIB && fake.threshold_bytes == 5 * MIB && fake.properties.location.id == 1,
       "every argument of the stack text reaches the driver");
    tide_resource_release(driver);
}

static void
test_default_pool(void)
{
    struct tide_driver_options options = { TIDE_OPTIONS(options), .use_default_pool = true,
                                           .release_threshold_bytes = 7 * MIB };
    struct tide_resource *driver = NULL;

    fake_reset();
    fake.threshold_bytes = 3 * MIB;
    tide_driver_create(&options, &driver);
    ok(fake.pools == 0 && fake.threshold_bytes == 7 * MIB, "a driver over the default pool sets its threshold");
    tide_resource_release(driver);
    ok(fake.pools == 0 && fake.threshold_bytes == 3 * MIB,
       "destroying the driver restores the default pool's threshold");
    tide_driver_create(&options, &driver);
    fake.threshold_bytes = 9 * MIB;
    tide_resource_release(driver);
    is_u64(fake.threshold_bytes, 9 * MIB, "destroying the driver keeps a threshold that was changed meanwhile");
    options.release_threshold_bytes = 0;
    tide_driver_create(&options, &driver);
    tide_resource_release(driver);
    is_u64(fake.threshold_bytes, 9 * MIB, "a driver that sets no threshold touches none");
}

int
main(void)
{
    plan(103);
    test_fill();
    test_start();
    test_create_errors();
    test_contexts();
    test_allocate();
    test_deallocate();
    test_order();
    test_order_all();
    test_query();
    test_describe();
    test_kind();
    test_default_pool();
    return done();
}

#else

int
main(void)
{
    struct tide_driver_options options = { TIDE_OPTIONS(options), .use_default_pool = true, .maximum_bytes = 1 };
    struct tide_resource *driver = (struct tide_resource *)&options;

    plan(3);
    ok(tide_driver_create(NULL, &driver) == TIDE_EUNSUPPORTED && driver == NULL, "a build without CUDA has no driver");
    is_string(tide_error_text(), "driver: this build has no CUDA (configure found no cuda.h)",
              "the text says that this build has no CUDA");
    ok(tide_driver_create(&options, &driver) == TIDE_EINVAL, "a build without CUDA checks the options nevertheless");
    return done();
}

#endif
