/* Checks the options of the base `driver` as far as they need no device. */
#include "src/bases/driver/options.h"

#include "src/resource/resource.h"

/* The default pool exists already, as the driver has created it. */
static enum tide_status
options_check_default(const struct tide_driver_options *options, size_t *fault)
{
    const char *what = NULL;

    if (!options->use_default_pool)
        return TIDE_OK;
    if (options->maximum_bytes != 0) {
        *fault = TIDEI_DRIVER_MAXIMUM;
        what = "a maximum is";
    } else if (options->location != TIDE_DRIVER_ON_DEVICE) {
        *fault = TIDEI_DRIVER_LOCATION;
        what = "a location is";
    } else if (options->handles != TIDE_DRIVER_NO_HANDLE) {
        *fault = TIDEI_DRIVER_HANDLE;
        what = "handles are";
    }
    return what == NULL
               ? TIDE_OK
               : tide_error_set(TIDE_EINVAL, "driver: %s for a pool of its own, not for the default pool", what);
}

static enum tide_status
options_check_location(const struct tide_driver_options *options, size_t *fault)
{
    *fault = TIDEI_DRIVER_HOST_NUMA;
    if (options->host_numa != 0 && options->location != TIDE_DRIVER_ON_HOST_NUMA)
        return tide_error_set(TIDE_EINVAL, "driver: a NUMA node is for a pool on the host (location=host_numa)");
    if (options->location != TIDE_DRIVER_MANAGED)
        return TIDE_OK;
    *fault = TIDEI_DRIVER_HANDLE;
    if (options->handles != TIDE_DRIVER_NO_HANDLE)
        return tide_error_set(TIDE_EINVAL, "driver: a pool of managed memory has no handles to share it by");
    *fault = TIDEI_DRIVER_MAXIMUM;
    if (options->maximum_bytes != 0)
        return tide_error_set(TIDE_EINVAL, "driver: a pool of managed memory takes no maximum; a limit above it does");
    return TIDE_OK;
}

static enum tide_status
options_check_sizes(const struct tide_driver_options *options, size_t *fault)
{
    uint64_t threshold_bytes = tidei_none_to_zero(options->release_threshold_bytes);

    *fault = TIDEI_DRIVER_INITIAL;
    if (options->maximum_bytes != 0 && options->initial_bytes > options->maximum_bytes)
        return tide_error_set(TIDE_EINVAL, "driver: an initial size of %s exceeds the maximum of %s",
                              tidei_size_text(options->initial_bytes), tidei_size_text(options->maximum_bytes));
    *fault = TIDEI_DRIVER_RELEASE_THRESHOLD;
    if (options->release_threshold_bytes != 0 && threshold_bytes < options->initial_bytes)
        return tide_error_set(TIDE_EINVAL, "driver: a release threshold of %s gives an initial size of %s back at once",
                              tidei_size_text(threshold_bytes), tidei_size_text(options->initial_bytes));
    return TIDE_OK;
}

enum tide_status
tidei_driver_options_check(void *given, size_t *fault)
{
    struct tide_driver_options *options = given;
    enum tide_status status;

    if (options->maximum_bytes == TIDE_UNLIMITED)
        options->maximum_bytes = 0;
    status = options_check_location(options, fault);
    if (status == TIDE_OK)
        status = options_check_default(options, fault);
    if (status == TIDE_OK)
        status = options_check_sizes(options, fault);
    return status;
}
