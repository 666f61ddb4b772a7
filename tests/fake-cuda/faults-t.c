/*
 * Lets each function of the driver fail once, at each of its calls in turn, while a program uses every feature of the
 * bases. Each failure has to name the function and the driver's error, leave nothing behind, and leave everything else
 * working. Runs on the fake driver only, each scene in a child that has not loaded it yet.
 */
#include "config.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#include <cuda.h>

#include "tests/fake-cuda/tracer.h"

#define MIB            ((size_t)1 << 20)
#define FUNCTIONS_MOST 512

/* What a child finds out, in memory shared with the parent. */
static struct {
    int calls[FUNCTIONS_MOST]; /* of each function, in a run without a fault */
    struct fake_count left;    /* the objects left at the end, less those of the test itself */
    unsigned failures;         /* the number of statuses that were not TIDE_OK */
    char wrong[512];           /* the first error; "": none */
} * seen;

/* The function that fails, and how. */
static struct {
    const char *name;
    int result;
    int nth;
} fault;

/* The driver's functions that the test itself uses. */
static struct {
    void (*count)(struct fake_count *out);
    const char *(*function)(unsigned place, int *calls);
    CUresult (*init)(unsigned flags);
    CUresult (*retain)(CUcontext *context, CUdevice device);
} own;

static void
find(void *library, const char *symbol, void *slot)
{
    void *address = dlsym(library, symbol);

    memcpy(slot, &address, sizeof(address));
}

static void
wrong(const char *what)
{
    if (seen->wrong[0] == '\0')
        snprintf(seen->wrong, sizeof(seen->wrong), "%s (%s:%d:%d): %s", what, fault.name, fault.result, fault.nth,
                 tide_error_text());
}

/*
 * Whether a failure of this function may go unreported: a query of a device that has no answer, and a missing context.
 */
static bool
is_expected(const char *function)
{
    return strcmp(function, "cuDeviceGetAttribute") == 0 ||
           (strcmp(function, "cuCtxPushCurrent") == 0 && tide_error_driver() == CUDA_ERROR_INVALID_CONTEXT);
}

/* Whether a call has failed, which only the fault may cause; the error then has to name it. */
static bool
failed(enum tide_status status, const char *what)
{
    const char *name = fault.result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";

    if (status == TIDE_OK)
        return false;
    seen->failures++;
    if (fault.name == NULL)
        wrong(what);
    else if (is_expected(fault.name))
        return true;
    else if (strstr(tide_error_text(), name) == NULL)
        wrong("the text has no driver's error");
    else if (strstr(tide_error_text(), fault.name) == NULL && status != TIDE_ECAPACITY)
        wrong("the text does not name the function");
    else if (tide_error_driver() != fault.result)
        wrong("the driver's error is not kept");
    return true;
}

static struct tide_resource *
make(const char *text)
{
    struct tide_resource *base = NULL;
    enum tide_status status = tide_stack_parse(text, &base);

    if (failed(status, text) != (base == NULL))
        wrong("a failed creation has a result");
    return base;
}

static void *
have(struct tide_resource *base, size_t bytes, tide_stream stream)
{
    void *pointer = &fault;

    if (failed(tide_allocate(base, bytes, TIDE_DEFAULT_ALIGNMENT, stream, &pointer), "allocate") != (pointer == NULL))
        wrong("a failed allocation has a result");
    return pointer;
}

/* Free a block. A free that was refused once succeeds the second time. */
static void
give_back(struct tide_resource *base, void *pointer, size_t bytes, tide_stream stream)
{
    if (pointer != NULL && failed(tide_deallocate(base, pointer, bytes, TIDE_DEFAULT_ALIGNMENT, stream), "free") &&
        tide_deallocate(base, pointer, bytes, TIDE_DEFAULT_ALIGNMENT, stream) != TIDE_OK)
        wrong("a block whose free has failed is lost");
}

static void
ask(struct tide_resource *base)
{
    uint64_t figure;

    for (int what = TIDE_QUERY_BYTES_USED; what <= TIDE_QUERY_KEPT; what++) {
        if (tide_query(base, (enum tide_query)what, &figure) == TIDE_EDRIVER)
            failed(TIDE_EDRIVER, "query");
    }
}

/* Import the exported pool and one of its blocks, and free both. */
static void
share(struct tide_resource *driver, void *block)
{
    struct tide_resource *imported = NULL;
    struct tide_driver_pointer pointer;
    void *there = NULL;
    int fd = -1;

    if (failed(tide_driver_export(driver, &fd), "export"))
        return;
    if (!failed(tide_driver_import(fd, NULL, &imported), "import") && block != NULL &&
        !failed(tide_driver_pointer_export(driver, block, MIB, &pointer), "pointer export") &&
        !failed(tide_driver_pointer_import(imported, &pointer, 0, &there), "pointer import"))
        give_back(imported, there, MIB, 0);
    tide_resource_release(imported);
    close(fd);
}

static void
use_pool(const char *text, bool shared)
{
    struct tide_resource *driver = make(text);
    enum tide_driver_access former;
    void *first, *second;

    if (driver == NULL)
        return;
    first = have(driver, MIB, 0);
    second = have(driver, 40 * MIB, 1); /* CU_STREAM_LEGACY */
    failed(tide_order(driver, 0, 1), "order");
    failed(tide_order(driver, TIDE_STREAM_ALL, 0), "order behind all");
    ask(driver);
    if (shared) {
        share(driver, first);
        if (!failed(tide_driver_access_set(driver, 1, TIDE_DRIVER_READ_WRITE, &former), "access"))
            failed(tide_driver_access_set(driver, 1, former, NULL), "access");
    }
    give_back(driver, second, 40 * MIB, 1);
    give_back(driver, first, MIB, 0);
    failed(tide_trim(driver, 0), "trim");
    failed(tide_driver_reset_highs(driver), "highs");
    tide_resource_release(driver);
}

/* Export a block, map it once more, and free that. */
static void
share_pages(struct tide_resource *vmm, void *block, size_t bytes)
{
    void *there = NULL;
    int fd = -1;

    if (block == NULL || failed(tide_vmm_export(vmm, block, &fd), "export"))
        return;
    if (failed(tide_vmm_import(vmm, fd, bytes, &there), "import") != (there == NULL))
        wrong("a failed import has a result");
    give_back(vmm, there, bytes, 0);
    close(fd);
}

/* A block that comes back as it is, one of the memory of others, and one that has to be created. */
static void
use_pages(const char *text, bool shared)
{
    struct tide_resource *vmm = make(text);
    void *first, *second;

    if (vmm == NULL)
        return;
    first = have(vmm, MIB, 0);
    second = have(vmm, 4 * MIB, 1); /* CU_STREAM_LEGACY */
    if (shared)
        share_pages(vmm, first, MIB);
    give_back(vmm, first, MIB, 0);
    first = have(vmm, MIB, 0);
    give_back(vmm, first, MIB, 0);
    give_back(vmm, second, 4 * MIB, 1);
    first = have(vmm, 6 * MIB, 0);
    second = have(vmm, 3 * MIB, 0);
    ask(vmm);
    failed(tide_order(vmm, 0, 1), "order");
    give_back(vmm, second, 3 * MIB, 0);
    give_back(vmm, first, 6 * MIB, 0);
    failed(tide_order(vmm, TIDE_STREAM_ALL, 0), "order behind all");
    failed(tide_trim(vmm, 0), "trim");
    tide_resource_release(vmm);
}

static void
use_plain(const char *text)
{
    struct tide_resource *base = make(text);
    uint64_t used_bytes = 1;
    void *block;

    if (base == NULL)
        return;
    block = have(base, MIB, 0);
    ask(base);
    give_back(base, block, MIB, 0);
    if (tide_query(base, TIDE_QUERY_BYTES_USED, &used_bytes) != TIDE_OK || used_bytes != 0)
        wrong("the base counts what is not out");
    tide_resource_release(base);
}

static void
use_device(void)
{
    uint64_t figure;
    char name[64];
    int count;

    failed(tide_device_count(&count, NULL), "count");
    failed(tide_device_name(1, name, sizeof(name)), "name");
    for (int what = TIDE_QUERY_DEVICE_FREE; what <= TIDE_QUERY_HOST_POOLS; what++)
        failed(tide_device_query(1, (enum tide_query)what, &figure), "device query");
    failed(tide_device_query(1, TIDE_QUERY_VIRTUAL_MEMORY, &figure), "device query");
}

/* The scene, in the child. The test's own reference keeps the context, so that what is left in it can be counted. */
static int
scene(void *unused)
{
    CUcontext context;
    char text[64];

    (void)unused;
    if (own.init(0) != CUDA_SUCCESS || own.retain(&context, 0) != CUDA_SUCCESS)
        return 1;
    if (fault.name != NULL) {
        snprintf(text, sizeof(text), "%s:%d:%d", fault.name, fault.result, fault.nth);
        setenv("FAKE_CUDA_FAIL", text, 1);
    }
    use_pool("driver(handle=posix_fd, initial=64MiB, release_threshold=50%, reuse_opportunistic=false)", true);
    use_pool("driver(default=true, release_threshold=1GiB)", false);
    use_pool("driver(location=host_numa)", false);
    use_pages("vmm", false);
    use_pages("vmm(access=all, shareable=true)", true);
    use_plain("cuda");
    use_plain("managed(preferred=host, read_mostly=true)");
    use_plain("pinned");
    use_device();
    own.count(&seen->left);
    seen->left.references--;
    for (unsigned i = 0; fault.name == NULL && i < FUNCTIONS_MOST && own.function(i, &seen->calls[i]) != NULL; i++)
        continue;
    return 0;
}

/*
 * Whether the function gives something back: it is not repeated after a failure. Neither is the first free, that of a
 * pool's initial size.
 */
static bool
gives_back(const char *function, int nth)
{
    return (strcmp(function, "cuMemFreeAsync") == 0 && nth == 1) || strstr(function, "Destroy") != NULL ||
           strstr(function, "Release") != NULL || strstr(function, "PopCurrent") != NULL ||
           strstr(function, "Unmap") != NULL || strstr(function, "AddressFree") != NULL;
}

static bool
nothing_left(const struct fake_count *left)
{
    return left->pools + left->pool_blocks + left->references + left->streams + left->events + left->blocks +
               left->depth + left->handles + left->ranges + left->maps + left->faults ==
           0;
}

/* Run with one fault. False, with a diag, if something is wrong. */
static bool
survives(const char *function, int result, int nth)
{
    const struct fake_count *left = &seen->left;

    fault.name = function;
    fault.result = result;
    fault.nth = nth;
    memset(&seen->left, 0xff, sizeof(seen->left));
    seen->wrong[0] = '\0';
    seen->failures = 0;
    if (in_child(scene, NULL) != 0)
        snprintf(seen->wrong, sizeof(seen->wrong), "the program has not come to its end (%s:%d:%d)", function, result,
                 nth);
    else if (seen->wrong[0] == '\0' && !gives_back(function, nth) && !nothing_left(left))
        snprintf(seen->wrong, sizeof(seen->wrong),
                 "%s:%d:%d: left: %u pools, %u blocks of pools, %u references, %u streams, %u events, %u blocks, "
                 "%u contexts, %u handles, %u ranges, %u maps",
                 function, result, nth, left->pools, left->pool_blocks, left->references, left->streams, left->events,
                 left->blocks, left->depth, left->handles, left->ranges, left->maps);
    if (seen->wrong[0] != '\0')
        diag("%s", seen->wrong);
    return seen->wrong[0] == '\0';
}

static bool
survives_each(const char *function, int calls, int result, unsigned *scenes, unsigned *failures)
{
    bool good = true;

    for (int nth = 1; nth <= calls; nth++) {
        good = survives(function, result, nth) && good;
        ++*scenes;
        *failures += seen->failures;
    }
    return good;
}

static void
test_faults(int result, const char *name)
{
    int calls[FUNCTIONS_MOST];
    unsigned scenes = 0, failures = 0, broken = 0;
    const char *function;
    int ignored;

    memcpy(calls, seen->calls, sizeof(calls));
    for (unsigned i = 0; i < FUNCTIONS_MOST && (function = own.function(i, &ignored)) != NULL; i++)
        broken += !survives_each(function, calls[i], result, &scenes, &failures);
    ok(all_of(broken == 0, scenes > 100),
       "%u calls that come to %s one at a time, %u refusals: each is said and undone", scenes, name, failures);
}

int
main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL || dlsym(library, FAKE_CUDA_COUNT) == NULL)
        skip_all("this is not the fake driver: run it by tests/fake-cuda/run");
    if (!CHILDREN_MAY_RECORD)
        skip_all("ThreadSanitizer does not follow a child that starts threads");
    find(library, FAKE_CUDA_COUNT, &own.count);
    find(library, FAKE_CUDA_FUNCTION, &own.function);
    find(library, "cuInit", &own.init);
    find(library, "cuDevicePrimaryCtxRetain", &own.retain);
    seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED)
        skip_all("there is no memory to share with a child");
    plan(3);
    ok(all_of(in_child(scene, NULL) == 0, seen->wrong[0] == '\0', nothing_left(&seen->left)),
       "without a fault all is done, and nothing left %s", seen->wrong);
    test_faults(CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN");
    test_faults(CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY");
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
}

#endif
