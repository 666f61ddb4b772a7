/* The base `driver` in stack text: its arguments, and its description. */
#include "src/bases/driver/pool.h"

#include <limits.h>

#include "src/bases/driver/options.h"
#include "src/resource/kind.h"

static const char *const text_locations[] = { "device", "host_numa", "managed", NULL };
/* The index is the set of bits of enum tide_driver_handle. */
static const char *const text_handles[] = { "none", "posix_fd", "fabric", "posix_fd+fabric", NULL };
static const char *const text_fallbacks[] = { "none", "cuda", NULL };

#ifdef HAVE_CUDA_H

static const char *
text_next(struct tide_text *text)
{
    return text->length == 0 ? "" : ", ";
}

static void
text_size(struct tide_text *text, const char *key, uint64_t bytes)
{
    tide_text_format(text, "%s%s=", text_next(text), key);
    if (bytes == TIDE_DRIVER_KEEP_ALL)
        tide_text_format(text, "all");
    else
        tide_text_size(text, bytes);
}

static void
text_reuse(struct tide_text *text, const char *key, enum tide_driver_reuse reuse)
{
    if (reuse != TIDE_DRIVER_REUSE_UNSET)
        tide_text_format(text, "%s%s=%s", text_next(text), key, reuse == TIDE_DRIVER_REUSE_ON ? "true" : "false");
}

/* The arguments go into a text of their own, so that what stands before them puts no comma there. */
void
tidei_driver_describe(struct tide_resource *resource, struct tide_text *out)
{
    const struct tide_driver_options *options = &((struct driver *)resource)->options;
    char data[512] = "";
    struct tide_text buffer = { .data = data, .capacity = sizeof(data) };
    struct tide_text *text = &buffer;

    if (options->device != 0)
        tide_text_format(text, "device=%d", options->device);
    if (options->set_release_threshold)
        text_size(text, "release_threshold", options->release_threshold_bytes);
    if (options->maximum_bytes != 0)
        text_size(text, "maximum", options->maximum_bytes);
    if (options->use_default_pool)
        tide_text_format(text, "%sdefault=true", text_next(text));
    if (options->initial_bytes != 0)
        text_size(text, "initial", options->initial_bytes);
    if (options->location != TIDE_DRIVER_ON_DEVICE)
        tide_text_format(text, "%slocation=%s", text_next(text), text_locations[options->location]);
    if (options->host_numa != 0)
        tide_text_format(text, "%shost_numa=%d", text_next(text), options->host_numa);
    if (options->handles != TIDE_DRIVER_NO_HANDLE)
        tide_text_format(text, "%shandle=%s", text_next(text), text_handles[options->handles]);
    text_reuse(text, "reuse_event_dependencies", options->reuse_event_dependencies);
    text_reuse(text, "reuse_opportunistic", options->reuse_opportunistic);
    text_reuse(text, "reuse_internal_dependencies", options->reuse_internal_dependencies);
    if (options->fallback_cuda)
        tide_text_format(text, "%sfallback=cuda", text_next(text));
    tide_text_format(out, "%s", data);
}

#endif

#define TEXT_SHARE_OR_SIZE "a size such as 1GiB, or a share of the device's memory such as 25%"

static const struct tidei_argument text_arguments[] = {
    [TIDEI_DRIVER_DEVICE] = { .key = "device",
                              .type = TIDEI_ARGUMENT_COUNT,
                              .most = INT_MAX,
                              .expected = "a CUDA ordinal such as 0" },
    [TIDEI_DRIVER_RELEASE_THRESHOLD] = { .key = "release_threshold",
                                         .type = TIDEI_ARGUMENT_SIZE,
                                         .share = true,
                                         .all = true,
                                         .expected = "a size such as 1GiB, a share of the device's memory such as 25%, "
                                                     "or all" },
    [TIDEI_DRIVER_MAXIMUM] = { .key = "maximum",
                               .type = TIDEI_ARGUMENT_SIZE,
                               .share = true,
                               .least = 1,
                               .expected = TEXT_SHARE_OR_SIZE },
    [TIDEI_DRIVER_DEFAULT] = { .key = "default", .type = TIDEI_ARGUMENT_FLAG, .expected = "true or false" },
    [TIDEI_DRIVER_INITIAL] = { .key = "initial",
                               .type = TIDEI_ARGUMENT_SIZE,
                               .share = true,
                               .expected = TEXT_SHARE_OR_SIZE },
    [TIDEI_DRIVER_LOCATION] = { .key = "location",
                                .type = TIDEI_ARGUMENT_CHOICE,
                                .choices = text_locations,
                                .expected = "device, host_numa or managed" },
    [TIDEI_DRIVER_HOST_NUMA] = { .key = "host_numa",
                                 .type = TIDEI_ARGUMENT_COUNT,
                                 .most = INT_MAX,
                                 .expected = "a NUMA node of the host such as 0" },
    [TIDEI_DRIVER_HANDLE] = { .key = "handle",
                              .type = TIDEI_ARGUMENT_CHOICE,
                              .choices = text_handles,
                              .expected = "none, posix_fd, fabric or posix_fd+fabric" },
    [TIDEI_DRIVER_REUSE_EVENT_DEPENDENCIES] = { .key = "reuse_event_dependencies",
                                                .type = TIDEI_ARGUMENT_FLAG,
                                                .expected = "true or false" },
    [TIDEI_DRIVER_REUSE_OPPORTUNISTIC] = { .key = "reuse_opportunistic",
                                           .type = TIDEI_ARGUMENT_FLAG,
                                           .expected = "true or false" },
    [TIDEI_DRIVER_REUSE_INTERNAL_DEPENDENCIES] = { .key = "reuse_internal_dependencies",
                                                   .type = TIDEI_ARGUMENT_FLAG,
                                                   .expected = "true or false" },
    [TIDEI_DRIVER_FALLBACK] = { .key = "fallback",
                                .type = TIDEI_ARGUMENT_CHOICE,
                                .choices = text_fallbacks,
                                .expected = "none or cuda" },
};

/* A share is of the memory of a device that no layer is on yet. */
static enum tide_status
text_bytes(const struct tidei_arguments *arguments, enum tidei_driver_option option, int device, uint64_t *out)
{
    const struct tidei_value *value = &arguments->values[option];
    uint64_t total_bytes;
    enum tide_status status;

    *out = value->number;
    if (value->share_whole == 0)
        return TIDE_OK;
    status = tide_device_query(device, TIDE_QUERY_DEVICE_TOTAL, &total_bytes);
    *out = (uint64_t)((unsigned __int128)total_bytes * value->share / value->share_whole);
    if (status == TIDE_EINVAL && arguments->values[TIDEI_DRIVER_DEVICE].given)
        *arguments->error_column = arguments->values[TIDEI_DRIVER_DEVICE].column;
    return status;
}

static enum tide_driver_reuse
text_reuse_value(const struct tidei_value *value)
{
    if (!value->given)
        return TIDE_DRIVER_REUSE_UNSET;
    return value->number != 0 ? TIDE_DRIVER_REUSE_ON : TIDE_DRIVER_REUSE_OFF;
}

static enum tide_status
text_options(const struct tidei_arguments *arguments, struct tide_driver_options *options)
{
    const struct tidei_value *values = arguments->values;
    int device = (int)values[TIDEI_DRIVER_DEVICE].number;
    enum tide_status status;

    options->device = device;
    options->set_release_threshold = values[TIDEI_DRIVER_RELEASE_THRESHOLD].given;
    options->use_default_pool = values[TIDEI_DRIVER_DEFAULT].number != 0;
    options->location = (enum tide_driver_location)values[TIDEI_DRIVER_LOCATION].number;
    options->host_numa = (int)values[TIDEI_DRIVER_HOST_NUMA].number;
    options->handles = (unsigned)values[TIDEI_DRIVER_HANDLE].number;
    options->reuse_event_dependencies = text_reuse_value(&values[TIDEI_DRIVER_REUSE_EVENT_DEPENDENCIES]);
    options->reuse_opportunistic = text_reuse_value(&values[TIDEI_DRIVER_REUSE_OPPORTUNISTIC]);
    options->reuse_internal_dependencies = text_reuse_value(&values[TIDEI_DRIVER_REUSE_INTERNAL_DEPENDENCIES]);
    options->fallback_cuda = values[TIDEI_DRIVER_FALLBACK].number != 0;
    status = text_bytes(arguments, TIDEI_DRIVER_RELEASE_THRESHOLD, device, &options->release_threshold_bytes);
    if (status == TIDE_OK)
        status = text_bytes(arguments, TIDEI_DRIVER_MAXIMUM, device, &options->maximum_bytes);
    if (status == TIDE_OK)
        status = text_bytes(arguments, TIDEI_DRIVER_INITIAL, device, &options->initial_bytes);
    return status;
}

/* What the driver has refused, where that is a value: the NUMA node, unless there is no such device. */
static enum tidei_driver_option
text_fault(const struct tide_driver_options *options)
{
    int count = 0;

    if (options->location != TIDE_DRIVER_ON_HOST_NUMA)
        return TIDEI_DRIVER_DEVICE;
    return tide_device_count(&count, NULL) == TIDE_OK && options->device < count ? TIDEI_DRIVER_HOST_NUMA
                                                                                 : TIDEI_DRIVER_DEVICE;
}

/* What is wrong with the options among themselves is said where the argument stands, and so is a missing device. */
static enum tide_status
text_create(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_driver_options options = { TIDE_OPTIONS(options) };
    enum tidei_driver_option fault = TIDEI_DRIVER_DEVICE;
    enum tide_status status;

    (void)upstream;
    *out = NULL;
    status = text_options(arguments, &options);
    if (status != TIDE_OK)
        return status;
    status = tidei_driver_options_check(&options, &fault);
    if (status == TIDE_OK) {
        status = tide_driver_create(&options, out);
        fault = text_fault(&options);
    }
    if (status == TIDE_EINVAL && arguments->values[fault].given)
        *arguments->error_column = arguments->values[fault].column;
    return status;
}

const struct tidei_kind tidei_driver_kind = {
    .ops.name = "driver",
    .is_base = true,
    .arguments = text_arguments,
    .argument_count = TIDEI_COUNT_OF(text_arguments),
    .create_text = text_create,
};
