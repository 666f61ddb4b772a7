/* What the library answers of CUDA where the build has none. */
#include <tidemark/base.h>
#include <tidemark/driver.h>
#include <tidemark/message.h>

#include "driver-table.h"

enum tide_status
tide_driver_reset_highs(struct tide_resource *driver)
{
    (void)driver;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_driver_access_set(struct tide_resource *driver, int device, enum tide_driver_access access,
                       enum tide_driver_access *former)
{
    (void)driver;
    (void)device;
    (void)access;
    (void)former;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_driver_access_get(struct tide_resource *driver, int device, enum tide_driver_access *out)
{
    (void)driver;
    (void)device;
    (void)out;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_driver_export(struct tide_resource *driver, int *fd)
{
    (void)driver;
    (void)fd;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_driver_export_fabric(struct tide_resource *driver, struct tide_driver_fabric *out)
{
    (void)driver;
    (void)out;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_driver_import(int fd, const struct tide_driver_import_options *options, struct tide_resource **out)
{
    (void)fd;
    (void)options;
    (void)out;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_driver_import_fabric(const struct tide_driver_fabric *handle, const struct tide_driver_import_options *options,
                          struct tide_resource **out)
{
    (void)handle;
    (void)options;
    (void)out;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_driver_pointer_export(struct tide_resource *driver, void *pointer, uint64_t bytes, struct tide_driver_pointer *out)
{
    (void)driver;
    (void)pointer;
    (void)bytes;
    (void)out;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_driver_pointer_import(struct tide_resource *stack, const struct tide_driver_pointer *from, tide_stream stream,
                           void **out)
{
    (void)stack;
    (void)from;
    (void)stream;
    (void)out;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_device_count(int *count, int *driver_version)
{
    (void)count;
    (void)driver_version;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_device_name(int device, char *name, size_t capacity)
{
    (void)device;
    (void)name;
    (void)capacity;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_device_query(int device, enum tide_query what, uint64_t *out)
{
    (void)device;
    (void)what;
    (void)out;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_cuda_create(const struct tide_cuda_options *options, struct tide_resource **out)
{
    (void)options;
    (void)out;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_managed_create(const struct tide_managed_options *options, struct tide_resource **out)
{
    (void)options;
    (void)out;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}

enum tide_status
tide_pinned_create(const struct tide_pinned_options *options, struct tide_resource **out)
{
    (void)options;
    (void)out;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
}
