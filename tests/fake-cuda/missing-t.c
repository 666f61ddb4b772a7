/*
 * Tests a driver that lacks one function: only features that need it are refused, with a status that names it. Runs on
 * the fake driver, in place of src/cuda/driver-load.c.
 */
#include "config.h"

#include <dlfcn.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#include "src/cuda/driver-table.h"

#define MIB ((size_t)1 << 20)

static struct tidei_driver table;
static void *library;

enum tide_status
tidei_driver_get(const char *subject, const struct tidei_driver **out)
{
    (void)subject;
    *out = &table;
    return TIDE_OK;
}

const struct tidei_driver *
tidei_driver_loaded(void)
{
    return &table;
}

bool
tidei_driver_usable(void)
{
    return true;
}

/* Finds no cuGetProcAddress either, like drivers of 11.2, which export all symbols or lack them. */
static void *
find_but(void *missing, const char *symbol)
{
    if (strncmp(symbol, "cuGetProcAddress", 16) == 0 || (missing != NULL && strcmp(symbol, missing) == 0))
        return NULL;
    return dlsym(library, symbol);
}

static enum tide_status
make(const char *text)
{
    struct tide_resource *stack = NULL;
    enum tide_status status = tide_stack_parse(text, &stack);

    tide_resource_release(stack);
    return status;
}

static enum tide_status
try_pool(struct tide_resource *driver)
{
    (void)driver;
    return make("driver");
}

static enum tide_status
try_initial(struct tide_resource *driver)
{
    (void)driver;
    return make("driver(initial=1MiB)");
}

static enum tide_status
try_host_pool(struct tide_resource *driver)
{
    (void)driver;
    return make("driver(location=host_numa)");
}

static enum tide_status
try_cuda(struct tide_resource *driver)
{
    (void)driver;
    return make("cuda");
}

static enum tide_status
try_managed(struct tide_resource *driver)
{
    (void)driver;
    return make("managed");
}

static enum tide_status
try_advice(struct tide_resource *driver)
{
    (void)driver;
    return make("managed(preferred=host)");
}

static enum tide_status
try_pinned(struct tide_resource *driver)
{
    (void)driver;
    return make("pinned");
}

static enum tide_status
try_order(struct tide_resource *driver)
{
    return tide_order(driver, 1, 2);
}

static enum tide_status
try_access(struct tide_resource *driver)
{
    return tide_driver_access_set(driver, 1, TIDE_DRIVER_READ_WRITE, NULL);
}

static enum tide_status
try_export(struct tide_resource *driver)
{
    int fd;

    return tide_driver_export(driver, &fd);
}

static enum tide_status
try_pointer_export(struct tide_resource *driver)
{
    struct tide_driver_pointer pointer;
    enum tide_status status;
    void *block = NULL;

    tide_allocate(driver, MIB, TIDE_DEFAULT_ALIGNMENT, 0, &block);
    status = tide_driver_pointer_export(driver, block, MIB, &pointer);
    tide_deallocate(driver, block, MIB, TIDE_DEFAULT_ALIGNMENT, 0);
    return status;
}

static enum tide_status
try_import(struct tide_resource *driver)
{
    struct tide_resource *imported = driver;

    return tide_driver_import(0, NULL, &imported);
}

static enum tide_status
try_pages(struct tide_resource *driver)
{
    (void)driver;
    return make("vmm");
}

static enum tide_status
try_shared_pages(struct tide_resource *driver)
{
    (void)driver;
    return make("vmm(shareable=true)");
}

static enum tide_status
try_pages_import(struct tide_resource *vmm)
{
    void *block;

    return tide_vmm_import(vmm, 0, MIB, &block);
}

static enum tide_status
try_free_memory(struct tide_resource *driver)
{
    uint64_t bytes;

    return tide_query(driver, TIDE_QUERY_DEVICE_FREE, &bytes);
}

static enum tide_status
try_name(struct tide_resource *driver)
{
    char name[64];

    (void)driver;
    return tide_device_name(0, name, sizeof(name));
}

/* Without `symbol`, the call returns TIDE_EUNSUPPORTED with these words; `base` still works. */
static const struct {
    const char *symbol;
    enum tide_status (*call)(struct tide_resource *driver);
    const char *words;
    const char *base;
} rows[] = {
    { "cuMemPoolCreate", try_pool, "driver(fallback=cuda)", "driver(fallback=cuda)" },
    { "cuMemAllocFromPoolAsync", try_pool, "driver(fallback=cuda)", "driver(fallback=cuda)" },
    { "cuMemPoolTrimTo", NULL, NULL, "driver" },
    { "cuStreamCreate", try_initial, "driver: the NVIDIA driver has no cuStreamCreate", "driver" },
    { "cuMemPoolSetAccess", try_access, "driver: the NVIDIA driver has no cuMemPoolSetAccess", "driver" },
    { "cuMemPoolSetAccess", try_host_pool, "driver: the NVIDIA driver has no cuMemPoolSetAccess", "driver" },
    { "cuMemPoolGetAccess", try_access, "driver: the NVIDIA driver has no cuMemPoolGetAccess", "driver" },
    { "cuMemPoolExportToShareableHandle", try_export,
      "driver: the NVIDIA driver has no cuMemPoolExportToShareableHandle", "driver(handle=posix_fd)" },
    { "cuMemPoolExportPointer", try_pointer_export, "driver: the NVIDIA driver has no cuMemPoolExportPointer",
      "driver(handle=posix_fd)" },
    { "cuMemPoolImportFromShareableHandle", try_import,
      "driver_import: the NVIDIA driver has no cuMemPoolImportFromShareableHandle", "driver" },
    { "cuMemPoolImportPointer", try_import, "driver_import: the NVIDIA driver has no cuMemPoolImportPointer",
      "driver" },
    { "cuStreamWaitEvent", try_order, "driver: the NVIDIA driver has no events", "driver" },
    { "cuMemAlloc_v2", try_cuda, "cuda: the NVIDIA driver has no cuMemAlloc", "driver" },
    { "cuMemAllocManaged", try_managed, "managed: the NVIDIA driver has no cuMemAllocManaged", "pinned" },
    { "cuMemAdvise", try_advice, "managed: the NVIDIA driver has no cuMemAdvise", "managed" },
    { "cuMemHostAlloc", try_pinned, "pinned: the NVIDIA driver has no cuMemHostAlloc", "cuda" },
    { "cuMemAddressReserve", try_pages, "vmm: the NVIDIA driver has no cuMemAddressReserve", "vmm(fallback=driver)" },
    { "cuMemSetAccess", try_pages, "vmm: the NVIDIA driver has no cuMemSetAccess", "vmm(fallback=cuda)" },
    { "cuEventQuery", try_pages, "vmm: the NVIDIA driver has no cuEventQuery", "driver" },
    { "cuThreadExchangeStreamCaptureMode", NULL, NULL, "vmm" },
    { "cuStreamGetCtx", NULL, NULL, "vmm" },
    { "cuDeviceCanAccessPeer", NULL, NULL, "vmm(access=all)" },
    { "cuMemExportToShareableHandle", try_shared_pages, "vmm: the NVIDIA driver has no cuMemExportToShareableHandle",
      "vmm" },
    { "cuMemImportFromShareableHandle", try_pages_import,
      "vmm: the NVIDIA driver has no cuMemImportFromShareableHandle", "vmm" },
    { "cuMemGetInfo_v2", try_free_memory, "driver: the NVIDIA driver has no cuMemGetInfo", "driver" },
    { "cuDeviceGetName", try_name, "device: the NVIDIA driver has no cuDeviceGetName", "driver" },
};

#define ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

static void
test_missing(int row)
{
    struct tide_resource *base = NULL;
    void *block = NULL;

    if (tidei_driver_fill(&table, find_but, (void *)(uintptr_t)rows[row].symbol) != TIDE_OK)
        diag("%s", tide_error_text());
    ok(all_of(tide_stack_parse(rows[row].base, &base) == TIDE_OK,
              tide_allocate(base, MIB, TIDE_DEFAULT_ALIGNMENT, 0, &block) == TIDE_OK,
              tide_deallocate(base, block, MIB, TIDE_DEFAULT_ALIGNMENT, 0) == TIDE_OK, tide_trim(base, 0) == TIDE_OK),
       "without %s: %s works", rows[row].symbol, rows[row].base);
    if (rows[row].call == NULL) {
        skip(2, "nothing that is asked for needs it");
    } else {
        is_i64(rows[row].call(base), TIDE_EUNSUPPORTED, "a call that needs the missing function is refused");
        has_words(tide_error_text(), rows[row].words, "the refusal names the missing function");
    }
    tide_resource_release(base);
}

int
main(void)
{
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || dlsym(library, "fake_cuda_trace") == NULL)
        skip_all("this is not the fake driver: run it by tests/fake-cuda/run");
    plan(3 * ROWS);
    for (int row = 0; row < ROWS; row++)
        test_missing(row);
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
}

#endif
