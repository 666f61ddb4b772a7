/*
 * The base `driver`: memory from a stream-ordered pool of the CUDA driver, its own or the device's default pool.
 *
 * Usage: driver(device=ORDINAL, release_threshold=SIZE, maximum=SIZE, default=true, initial=SIZE,
 *               location=device|host_numa|managed, host_numa=NODE, handle=posix_fd|fabric,
 *               reuse_event_dependencies=BOOL, reuse_opportunistic=BOOL, reuse_internal_dependencies=BOOL,
 *               fallback=cuda)
 *     device                       0 unless given
 *     default                      use the default pool; unless given, the base has its own pool
 *     maximum, location, handle    only for a pool of its own
 *
 * Example: statistics | limit(4GiB) | driver(device=1, release_threshold=1GiB)
 *
 * LIMITATIONS
 *  - It keeps no list of its blocks. It does not detect a wrong size, and frees memory of another pool like its own.
 *  - All users in the process share the default pool. Its figures count all of them, and a release threshold and
 *    policies apply to all. At the end the previous settings come back, unless somebody else has changed them since.
 *  - The driver rounds a maximum to the steps in which it reserves.
 *  - In a child of fork() nothing works, as in CUDA itself. A release there does not call the driver.
 *  - After a reset of the device's primary context all calls fail with CUDA_ERROR_CONTEXT_IS_DESTROYED, until the
 *    context is retained again.
 *
 * Stream 0 is the legacy default stream of the current context, as everywhere in CUDA. A thread without a current
 * context, or with a destroyed one, uses the device's primary context, which is current for the call only. A stream may
 * belong to another device. It must exist: the driver crashes on the handle of a destroyed stream. An order behind
 * TIDE_STREAM_ALL names no stream, but waits for the primary context and the current one; see driver.h.
 */
#include "src/bases/driver/pool.h"

#include <limits.h>

#include <tidemark/base.h>
#include <tidemark/driver.h>

#include "src/bases/figures.h"
#include "src/resource/kind.h"
#include "src/sync/inside.h"

extern const struct tidei_kind tidei_driver_kind;

/* The indices of the arguments below. */
enum driver_argument {
    DRIVER_DEVICE,
    DRIVER_RELEASE_THRESHOLD,
    DRIVER_MAXIMUM,
    DRIVER_DEFAULT,
    DRIVER_INITIAL,
    DRIVER_LOCATION,
    DRIVER_HOST_NUMA,
    DRIVER_HANDLE,
    DRIVER_REUSE_EVENT_DEPENDENCIES,
    DRIVER_REUSE_OPPORTUNISTIC,
    DRIVER_REUSE_INTERNAL_DEPENDENCIES,
    DRIVER_FALLBACK,
};

#ifdef HAVE_CUDA_H

static enum tide_status
driver_allocate(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct driver *self = (struct driver *)resource;
    const struct tidei_driver *cuda = self->device.cuda;
    CUdeviceptr address = 0;
    CUresult result;

    *out = NULL;
    if (alignment > TIDEI_POOL_ALIGNMENT)
        return tidei_refused(
            resource, tide_error_set(TIDE_EINVAL, "driver: alignment %zu exceeds the 256 bytes of a pool", alignment));
    if (bytes == 0)
        return TIDE_OK;
    if (bytes > self->capacity_bytes) /* the driver must not see sizes near SIZE_MAX, which it would round up */
        return tidei_mempool_refuse(self, bytes);
    result = TIDEI_DRIVER_CALL(cuda, self->device.context,
                               cuda->mem_alloc_from_pool_async(&address, bytes, self->pool, (CUstream)stream));
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return tidei_mempool_refuse(self, bytes);
    if (result != CUDA_SUCCESS)
        return tidei_refused(resource, tidei_device_error(&self->device, result, "cuMemAllocFromPoolAsync"));
    *out = (void *)(uintptr_t)address;
    return TIDE_OK;
}

static enum tide_status
driver_deallocate(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct driver *self = (struct driver *)resource;

    (void)alignment;
    return tidei_device_free_async(&self->device, pointer, bytes, stream);
}

static enum tide_status
driver_order(struct tide_resource *resource, tide_stream earlier, tide_stream later)
{
    return tidei_device_order(&((struct driver *)resource)->device, earlier, later);
}

static enum tide_status
driver_trim(struct tide_resource *resource, uint64_t keep_bytes)
{
    struct driver *self = (struct driver *)resource;
    const struct tidei_driver *cuda = self->device.cuda;
    struct tidei_await *await = tidei_await_take();
    CUresult result;

    if (cuda->mem_pool_trim_to == NULL)
        return TIDE_OK;
    if (await != NULL)
        tidei_marks_await(&self->marks, &self->device, await);
    result = TIDEI_DRIVER_CALL(cuda, self->device.context, cuda->mem_pool_trim_to(self->pool, (size_t)keep_bytes));
    return tidei_device_error(&self->device, result, "cuMemPoolTrimTo");
}

/*
 * A pool on a device reserves memory in these units, and keeps them (H200, driver 580.159). Others use the default
 * pool, too: what it keeps may be what they need next.
 */
#define DRIVER_UNIT_BYTES (UINT64_C(32) << 20)

static bool
driver_has_units(const struct tide_driver_options *options)
{
    return options->location == TIDE_DRIVER_ON_DEVICE && !options->use_default_pool;
}

/* What the pool keeps as its options say; UINT64_MAX: they say nothing of it. */
static uint64_t
driver_kept_bytes(const struct tide_driver_options *options)
{
    uint64_t threshold_bytes = tidei_none_to_zero(options->release_threshold_bytes);

    if (options->release_threshold_bytes == 0)
        return options->initial_bytes != 0 ? options->initial_bytes : UINT64_MAX;
    return threshold_bytes < UINT64_MAX ? threshold_bytes : UINT64_MAX - 1;
}

static enum tide_status
driver_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    static const struct {
        enum tide_query what;
        CUmemPool_attribute attribute;
    } attributes[] = {
        { TIDE_QUERY_BYTES_USED, CU_MEMPOOL_ATTR_USED_MEM_CURRENT },
        { TIDE_QUERY_BYTES_RESERVED, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT },
        { TIDE_QUERY_BYTES_USED_HIGH, CU_MEMPOOL_ATTR_USED_MEM_HIGH },
        { TIDE_QUERY_BYTES_RESERVED_HIGH, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH },
    };
    struct driver *self = (struct driver *)resource;
    const struct tide_driver_options *options = &self->options;
    const struct tidei_figure figures[] = {
        { TIDE_QUERY_CAPACITY, self->capacity_bytes },
        { TIDE_QUERY_DEVICE, options->location == TIDE_DRIVER_ON_HOST_NUMA ? UINT64_MAX : (uint64_t)options->device },
        { TIDE_QUERY_HOST_ACCESS, options->location != TIDE_DRIVER_ON_DEVICE },
        { TIDE_QUERY_STREAM_ORDERED, 1 },
        { TIDE_QUERY_ALIGNMENT, TIDEI_POOL_ALIGNMENT },
        { TIDE_QUERY_UNIT, driver_has_units(options) ? DRIVER_UNIT_BYTES : UINT64_MAX },
        { TIDE_QUERY_KEPT, driver_kept_bytes(options) },
    };
    enum tide_status status = TIDE_OK;

    for (size_t i = 0; i < TIDEI_COUNT_OF(attributes); i++) {
        if (attributes[i].what == what)
            return tidei_mempool_figure(self, attributes[i].attribute, out);
    }
    if (tidei_figures_find(figures, TIDEI_COUNT_OF(figures), what, out))
        return TIDE_OK;
    return tidei_device_query(&self->device, what, out, &status) ? status : tide_base_query(resource, what, out);
}

struct driver *
tidei_driver_of(struct tide_resource *resource)
{
    if (resource != NULL && resource->ops == &tidei_driver_kind.ops)
        return (struct driver *)resource;
    tide_error_set(TIDE_EINVAL, "driver: '%s' is none; tide_stack_find finds the one that a stack ends in",
                   resource != NULL ? tide_resource_name(resource) : "NULL");
    return NULL;
}

/* Undo driver_init, even where it failed half-way. */
static void
driver_fini(struct tide_resource *resource)
{
    struct driver *self = (struct driver *)resource;
    const struct tidei_driver *cuda = self->device.cuda;

    if (tidei_driver_usable()) {
        bool pushed = cuda->context_push(self->device.context) == CUDA_SUCCESS;

        tidei_mempool_close(self);
        if (pushed)
            tidei_driver_leave(cuda);
    }
    tidei_marks_fini(&self->marks, &self->device);
    tidei_device_close(&self->device);
    tidei_lock_fini(&self->access_lock);
}

/* Any thread may create a base: the pool is created with the primary context current, then the thread's is restored. */
static enum tide_status
driver_init(struct tide_resource *resource, size_t *fault)
{
    struct driver *self = (struct driver *)resource;
    enum tide_status status = tidei_device_open(&self->device, "driver", self->options.device);
    struct tidei_error error;

    if (status == TIDE_EINVAL)
        *fault = DRIVER_DEVICE;
    if (status != TIDE_OK)
        return status;
    tidei_lock_init(&self->access_lock);
    tidei_marks_init(&self->marks);
    status = tidei_mempool_possible(self);
    if (status == TIDE_OK)
        status = tidei_device_error(&self->device, self->device.cuda->context_push(self->device.context),
                                    "cuCtxPushCurrent");
    if (status == TIDE_OK) {
        status = tidei_mempool_open(self);
        tidei_driver_leave(self->device.cuda);
    }
    if (status == TIDE_OK) {
        tidei_resource_set_quick(resource);
        return TIDE_OK;
    }
    if (status == TIDE_EINVAL)
        *fault = self->options.location == TIDE_DRIVER_ON_HOST_NUMA ? DRIVER_HOST_NUMA : DRIVER_DEVICE;
    tidei_error_save(&error); /* restoring a setting may fail, too */
    driver_fini(resource);
    tidei_error_restore(&error);
    return status;
}

/* Whether the device exists and has no memory pools. */
static bool
driver_has_no_pools(int device)
{
    struct driver probe = { .options.device = device };
    bool possible;

    if (tidei_device_open(&probe.device, "driver", device) != TIDE_OK)
        return false;
    possible = tidei_mempool_possible(&probe) == TIDE_OK;
    tidei_device_close(&probe.device);
    return !possible;
}

/* Fall back to the base that needs no pools, unless the options ask for more than it can do. */
static enum tide_status
driver_fall_back(const struct tide_driver_options *known, struct tide_resource **out)
{
    struct tide_cuda_options options = { TIDE_OPTIONS(options), .device = known->device };

    if (known->maximum_bytes != 0 || known->location != TIDE_DRIVER_ON_DEVICE || known->handles != 0)
        return tide_error_set(TIDE_EUNSUPPORTED,
                              "driver: device %d has no memory pools, and the base cuda no maximum, location or handle",
                              known->device);
    return tide_cuda_create(&options, out);
}

enum tide_status
tide_driver_create(const struct tide_driver_options *options, struct tide_resource **out)
{
    enum tide_status status = tidei_kind_create(&tidei_driver_kind, NULL, options, out);
    struct tide_driver_options known;

    if (status != TIDE_EUNSUPPORTED || tidei_kind_options(&tidei_driver_kind, NULL, options, &known, out) != TIDE_OK ||
        !known.fallback_cuda || !driver_has_no_pools(known.device))
        return status;
    return driver_fall_back(&known, out);
}

enum tide_status
tide_driver_reset_highs(struct tide_resource *driver)
{
    TIDEI_INSIDE(driver);
    struct driver *self = tidei_driver_of(driver);
    enum tide_status status;

    if (self == NULL)
        return TIDE_EINVAL;
    status = tidei_mempool_figure_set(self, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
    if (status == TIDE_OK)
        status = tidei_mempool_figure_set(self, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
    return status;
}

#endif

static const char *const driver_locations[] = { "device", "host_numa", "managed", NULL };
/* The index is the set of bits of enum tide_driver_handle. */
static const char *const driver_handles[] = { "none", "posix_fd", "fabric", "posix_fd+fabric", NULL };
static const char *const driver_fallbacks[] = { "none", "cuda", NULL };

#define DRIVER_REUSE(name, field)                                                                                      \
    {                                                                                                                  \
        .key = name, .type = TIDEI_ARGUMENT_FLAG, .zero_value = TIDE_DRIVER_REUSE_OFF, .expected = "true or false",    \
        TIDEI_FIELD(struct tide_driver_options, field)                                                                 \
    }

static const struct tidei_argument driver_arguments[] = {
    TIDEI_ARGUMENT("device", COUNT, struct tide_driver_options, device, "a CUDA ordinal such as 0", .most = INT_MAX),
    TIDEI_ARGUMENT("release_threshold", SIZE, struct tide_driver_options, release_threshold_bytes,
                   "a size such as 1GiB, a share of the device's memory such as 25%, "
                   "or all",
                   .share = true, .all = true, .zero_value = TIDE_NONE),
    TIDEI_ARGUMENT("maximum", SIZE, struct tide_driver_options, maximum_bytes,
                   "a size such as 1GiB, or a share of the device's memory such as 25%", .share = true, .least = 1),
    TIDEI_FLAG("default", struct tide_driver_options, use_default_pool),
    TIDEI_ARGUMENT("initial", SIZE, struct tide_driver_options, initial_bytes,
                   "a size such as 1GiB, or a share of the device's memory such as 25%", .share = true),
    TIDEI_ARGUMENT("location", CHOICE, struct tide_driver_options, location, "device, host_numa or managed",
                   .choices = driver_locations),
    TIDEI_ARGUMENT("host_numa", COUNT, struct tide_driver_options, host_numa, "a NUMA node of the host such as 0",
                   .most = INT_MAX),
    TIDEI_ARGUMENT("handle", CHOICE, struct tide_driver_options, handles, "none, posix_fd, fabric or posix_fd+fabric",
                   .choices = driver_handles),
    DRIVER_REUSE("reuse_event_dependencies", reuse_event_dependencies),
    DRIVER_REUSE("reuse_opportunistic", reuse_opportunistic),
    DRIVER_REUSE("reuse_internal_dependencies", reuse_internal_dependencies),
    TIDEI_ARGUMENT("fallback", CHOICE, struct tide_driver_options, fallback_cuda, "none or cuda",
                   .choices = driver_fallbacks),
};

static enum tide_status
driver_check_sizes(const struct tide_driver_options *options, size_t *fault)
{
    uint64_t threshold_bytes = tidei_none_to_zero(options->release_threshold_bytes);

    *fault = DRIVER_INITIAL;
    if (options->maximum_bytes != 0 && options->initial_bytes > options->maximum_bytes)
        return tide_error_set(TIDE_EINVAL, "driver: an initial size of %s exceeds the maximum of %s",
                              tidei_size_text(options->initial_bytes), tidei_size_text(options->maximum_bytes));
    *fault = DRIVER_RELEASE_THRESHOLD;
    if (options->release_threshold_bytes != 0 && threshold_bytes < options->initial_bytes)
        return tide_error_set(TIDE_EINVAL, "driver: a release threshold of %s gives an initial size of %s back at once",
                              tidei_size_text(threshold_bytes), tidei_size_text(options->initial_bytes));
    return TIDE_OK;
}

/* Check, without a device, for options that contradict each other. */
static enum tide_status
driver_check(void *given, size_t *fault)
{
    struct tide_driver_options *options = given;
    bool managed = options->location == TIDE_DRIVER_MANAGED, is_default = options->use_default_pool;
    bool bounded = options->maximum_bytes != 0 && options->maximum_bytes != TIDE_UNLIMITED;
    const struct {
        bool wrong;
        enum driver_argument argument;
        const char *text;
    } contradictions[] = {
        { options->host_numa != 0 && options->location != TIDE_DRIVER_ON_HOST_NUMA, DRIVER_HOST_NUMA,
          "a NUMA node is for a pool on the host (location=host_numa)" },
        { managed && options->handles != TIDE_DRIVER_NO_HANDLE, DRIVER_HANDLE,
          "a pool of managed memory has no handles to share it by" },
        { managed && bounded, DRIVER_MAXIMUM, "a pool of managed memory takes no maximum; a limit above it does" },
        /* The default pool exists already, as the driver has created it. */
        { is_default && bounded, DRIVER_MAXIMUM, "a maximum is for a pool of its own, not for the default pool" },
        { is_default && options->location != TIDE_DRIVER_ON_DEVICE, DRIVER_LOCATION,
          "a location is for a pool of its own, not for the default pool" },
        { is_default && options->handles != TIDE_DRIVER_NO_HANDLE, DRIVER_HANDLE,
          "handles are for a pool of its own, not for the default pool" },
    };

    if (!bounded)
        options->maximum_bytes = 0;
    for (size_t i = 0; i < TIDEI_COUNT_OF(contradictions); i++) {
        *fault = contradictions[i].argument;
        if (contradictions[i].wrong)
            return tide_error_set(TIDE_EINVAL, "driver: %s", contradictions[i].text);
    }
    return driver_check_sizes(options, fault);
}

/* Set the sizes that are shares of a device's memory: the device has no resource yet. */
static enum tide_status
driver_shares(const struct tidei_arguments *arguments, struct tide_driver_options *options)
{
    const struct tidei_value *values = arguments->values;
    const struct {
        enum driver_argument argument;
        uint64_t *bytes;
    } sizes[] = { { DRIVER_RELEASE_THRESHOLD, &options->release_threshold_bytes },
                  { DRIVER_MAXIMUM, &options->maximum_bytes },
                  { DRIVER_INITIAL, &options->initial_bytes } };
    enum tide_status status = TIDE_OK;
    uint64_t total_bytes;

    for (size_t i = 0; i < TIDEI_COUNT_OF(sizes) && status == TIDE_OK; i++) {
        const struct tidei_value *value = &values[sizes[i].argument];

        if (value->share_whole == 0)
            continue;
        status = tide_device_query(options->device, TIDE_QUERY_DEVICE_TOTAL, &total_bytes);
        *sizes[i].bytes = (uint64_t)((unsigned __int128)total_bytes * value->share / value->share_whole);
    }
    if (status == TIDE_EINVAL && values[DRIVER_DEVICE].given)
        *arguments->error_column = values[DRIVER_DEVICE].column;
    options->release_threshold_bytes =
        tidei_bytes_or_none(values[DRIVER_RELEASE_THRESHOLD].given, options->release_threshold_bytes);
    return status;
}

static enum tide_status
driver_from_text(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_driver_options options;
    enum tide_status status;

    *out = NULL;
    tidei_kind_read_text(&tidei_driver_kind, arguments, &options);
    status = driver_shares(arguments, &options);
    if (status == TIDE_OK)
        status = tidei_kind_create_read(&tidei_driver_kind, arguments, &options, upstream, out);
    /* The constructor tries again, and then falls back. */
    return status == TIDE_EUNSUPPORTED && options.fallback_cuda ? tide_driver_create(&options, out) : status;
}

const struct tidei_kind tidei_driver_kind = {
#ifdef HAVE_CUDA_H
    .ops = {
        TIDEI_KIND_OPS("driver"),
        .allocate = driver_allocate,
        .deallocate = driver_deallocate,
        .order = driver_order,
        .trim = driver_trim,
        .query = driver_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_base_upstream_at,
    },
    TIDEI_KIND_STRUCT(struct driver),
    .init = driver_init,
    .fini = driver_fini,
#else
    .ops.name = "driver",
#endif
    .is_base = true,
    TIDEI_KIND_ARGUMENTS(driver_arguments),
    .options_size = offsetof(struct tide_driver_options, reserved),
    .check = driver_check,
    .create_text = driver_from_text,
};
