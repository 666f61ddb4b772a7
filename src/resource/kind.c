/* Creates layers: the common part of all kinds' constructors. */
#include "src/resource/kind.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define KIND_OPTIONS_MOST 256 /* the largest options struct that stack text fills */

const struct tidei_kind *
tidei_kind_find(const struct tidei_kind *const *kinds, const char *name)
{
    while (*kinds != NULL && strcmp((*kinds)->ops.name, name) != 0)
        kinds++;
    return *kinds;
}

static enum tide_status
kind_options(const struct tidei_kind *kind, struct tide_resource *upstream, const void *options, void *wanted,
             struct tide_resource **out, size_t *fault)
{
    enum tide_status status;

    *fault = kind->argument_count;
    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "%s: no place for the resource", kind->ops.name);
    *out = NULL;
    if (upstream == NULL && !kind->is_base)
        return tide_error_set(TIDE_EINVAL, "%s: no upstream", kind->ops.name);
    status = tidei_options_copy(kind->ops.name, options, wanted, kind->options_size);
    if (status == TIDE_OK)
        status = tidei_fields_check(kind, wanted, fault);
    if (status == TIDE_OK && kind->check != NULL)
        status = kind->check(wanted, fault);
    if (status == TIDE_OK && !kind->keeps_unset)
        tidei_fields_complete(kind, wanted);
    return status;
}

/* Allocate a zeroed struct. */
static void *
kind_struct_new(const struct tidei_kind *kind)
{
    void *self = aligned_alloc(kind->alignment, kind->size);

    return self != NULL ? memset(self, 0, kind->size) : NULL;
}

static enum tide_status
kind_create(const struct tidei_kind *kind, struct tide_resource *upstream, const void *options,
            struct tide_resource **out, size_t *fault)
{
    _Alignas(max_align_t) unsigned char wanted[KIND_OPTIONS_MOST];
    struct tide_resource *self;
    enum tide_status status;

    assert(kind->options_size <= sizeof(wanted));
    status = kind_options(kind, upstream, options, wanted, out, fault);
    if (status != TIDE_OK)
        return status;
    if (kind->size == 0)
        return tide_error_set(TIDE_EUNSUPPORTED, "%s: this build has no CUDA (configure found no cuda.h)",
                              kind->ops.name);
    self = kind_struct_new(kind);
    if (self == NULL)
        return tide_error_set(TIDE_ENOMEM, "%s: no host memory for %zu B", kind->ops.name, kind->size);
    memcpy((unsigned char *)self + kind->options_offset, wanted, kind->options_size);
    *fault = kind->argument_count;
    status = tide_resource_init(self, &kind->ops, upstream);
    if (status == TIDE_OK && kind->init != NULL) {
        status = kind->init(self, fault);
        if (status != TIDE_OK)
            tide_resource_fini(self);
    }
    if (status == TIDE_OK)
        *out = self;
    else
        free(self);
    return status;
}

enum tide_status
tidei_kind_create(const struct tidei_kind *kind, struct tide_resource *upstream, const void *options,
                  struct tide_resource **out)
{
    size_t fault;

    return kind_create(kind, upstream, options, out, &fault);
}

enum tide_status
tidei_kind_options(const struct tidei_kind *kind, struct tide_resource *upstream, const void *options, void *wanted,
                   struct tide_resource **out)
{
    size_t fault;

    return kind_options(kind, upstream, options, wanted, out, &fault);
}

enum tide_status
tidei_kind_create_read(const struct tidei_kind *kind, const struct tidei_arguments *arguments, const void *options,
                       struct tide_resource *upstream, struct tide_resource **out)
{
    size_t fault;
    enum tide_status status = kind_create(kind, upstream, options, out, &fault);

    if (status != TIDE_OK && fault < kind->argument_count && arguments->values[fault].given)
        *arguments->error_column = arguments->values[fault].column;
    return status;
}

enum tide_status
tidei_kind_create_text(const struct tidei_kind *kind, const struct tidei_arguments *arguments,
                       struct tide_resource *upstream, struct tide_resource **out)
{
    _Alignas(max_align_t) unsigned char options[KIND_OPTIONS_MOST];

    if (kind->create_text != NULL)
        return kind->create_text(arguments, upstream, out);
    assert(kind->options_size <= sizeof(options));
    tidei_kind_read_text(kind, arguments, options);
    return tidei_kind_create_read(kind, arguments, options, upstream, out);
}

void
tidei_kind_describe(struct tide_resource *self, struct tide_text *text)
{
    const struct tidei_kind *kind = tidei_kind_of(self);

    tidei_kind_describe_options(kind, (const unsigned char *)self + kind->options_offset, "", text);
}

void
tidei_kind_destroy(struct tide_resource *self)
{
    const struct tidei_kind *kind = tidei_kind_of(self);

    if (kind->fini != NULL)
        kind->fini(self);
    tide_resource_fini(self);
    free(self);
}
