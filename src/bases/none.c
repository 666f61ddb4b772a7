/* The answers to CUDA requests in a build without CUDA. */
#include "src/cuda/driver-table.h"

#ifndef HAVE_CUDA_H

#include <string.h>

#include <tidemark/driver.h>
#include <tidemark/vmm.h>

#include "src/resource/kind.h"

/* The functions below use only those parameters that return a result. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

extern const struct tidei_kind tidei_driver_kind, tidei_vmm_kind;

static enum tide_status
none(const char *subject)
{
    return tide_error_set(TIDE_EUNSUPPORTED, "%s: this build has no CUDA (configure found no cuda.h)", subject);
}

enum tide_status
tide_driver_create(const struct tide_driver_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_driver_kind, NULL, options, out);
}

enum tide_status
tide_driver_access_set(struct tide_resource *driver, int device, enum tide_driver_access access,
                       enum tide_driver_access *former)
{
    if (former != NULL)
        *former = TIDE_DRIVER_NO_ACCESS;
    return none("driver");
}

enum tide_status
tide_driver_access_get(struct tide_resource *driver, int device, enum tide_driver_access *out)
{
    if (out != NULL)
        *out = TIDE_DRIVER_NO_ACCESS;
    return none("driver");
}

enum tide_status
tide_driver_export(struct tide_resource *driver, int *fd)
{
    if (fd != NULL)
        *fd = -1;
    return none("driver");
}

enum tide_status
tide_driver_export_fabric(struct tide_resource *driver, struct tide_driver_fabric *out)
{
    if (out != NULL)
        memset(out, 0, sizeof(*out));
    return none("driver");
}

enum tide_status
tide_driver_import(int fd, const struct tide_driver_import_options *options, struct tide_resource **out)
{
    if (out != NULL)
        *out = NULL;
    return none("driver_import");
}

enum tide_status
tide_driver_import_fabric(const struct tide_driver_fabric *handle, const struct tide_driver_import_options *options,
                          struct tide_resource **out)
{
    if (out != NULL)
        *out = NULL;
    return none("driver_import");
}

enum tide_status
tide_driver_pointer_export(struct tide_resource *driver, void *pointer, uint64_t bytes, struct tide_driver_pointer *out)
{
    if (out != NULL)
        memset(out, 0, sizeof(*out));
    return none("driver");
}

enum tide_status
tide_driver_pointer_import(struct tide_resource *stack, const struct tide_driver_pointer *from, tide_stream stream,
                           void **out)
{
    if (out != NULL)
        *out = NULL;
    return none("driver_import");
}

enum tide_status
tide_vmm_create(const struct tide_vmm_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_vmm_kind, NULL, options, out);
}

enum tide_status
tide_vmm_read(struct tide_resource *vmm, struct tide_vmm_figures *out)
{
    enum tide_status status = tidei_figures_clear("vmm", out);

    return status == TIDE_OK ? none("vmm") : status;
}

enum tide_status
tide_vmm_find_block(struct tide_resource *vmm, const void *pointer, void **block, uint64_t *bytes)
{
    if (block != NULL)
        *block = NULL;
    if (bytes != NULL)
        *bytes = 0;
    return none("vmm");
}

enum tide_status
tide_vmm_export(struct tide_resource *vmm, void *pointer, int *fd)
{
    if (fd != NULL)
        *fd = -1;
    return none("vmm");
}

enum tide_status
tide_vmm_import(struct tide_resource *vmm, int fd, uint64_t bytes, void **out)
{
    if (out != NULL)
        *out = NULL;
    return none("vmm");
}

enum tide_status
tide_device_count(int *count, int *driver_version)
{
    if (count != NULL)
        *count = 0;
    if (driver_version != NULL)
        *driver_version = 0;
    return none("driver");
}

enum tide_status
tide_device_name(int device, char *name, size_t capacity)
{
    if (name != NULL && capacity > 0)
        name[0] = '\0';
    return none("driver");
}

enum tide_status
tide_device_query(int device, enum tide_query what, uint64_t *out)
{
    if (out != NULL)
        *out = 0;
    return none("driver");
}

#endif
