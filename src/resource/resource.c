/* Counts references, and forwards for layers that change nothing. */
#include <stdlib.h>
#include <string.h>

#include "src/resource/interrupted.h"
#include "src/resource/resource.h"

/*
 * The lower half of reserved[0] counts references; its upper half says whether the resource is quick. reserved[1] has
 * the name that stack text gave the layer, and whether the layer is the library's: see resource.h. It does not change
 * once other threads know the resource. The struct is public and read by C++, which lacks C's _Atomic, so only the
 * __atomic builtins below access reserved[0].
 */
#define REFERENCES     0
#define REFERENCE_MASK ((uint64_t)UINT32_MAX)

/* A larger struct_size was never set: no header has such a struct. */
#define SIZED_MAX_BYTES ((size_t)4096)

static bool
resource_ops_complete(const struct tide_resource_ops *ops)
{
    return ops->name != NULL && ops->allocate != NULL && ops->deallocate != NULL && ops->order != NULL &&
           ops->trim != NULL && ops->query != NULL && ops->describe != NULL && ops->upstream_at != NULL &&
           ops->destroy != NULL;
}

enum tide_status
tide_resource_init(struct tide_resource *self, const struct tide_resource_ops *ops, struct tide_resource *upstream)
{
    if (self == NULL || ops == NULL)
        return tide_error_set(TIDE_EINVAL, "resource: no struct or no operations given");
    if (ops->version != TIDE_RESOURCE_OPS_VERSION)
        return tide_error_set(TIDE_EUNSUPPORTED, "resource: operations of version %u, this library knows version %d",
                              (unsigned)ops->version, TIDE_RESOURCE_OPS_VERSION);
    if (!resource_ops_complete(ops))
        return tide_error_set(TIDE_EINVAL, "resource: the operations of '%s' have an empty slot",
                              ops->name != NULL ? ops->name : "(no name)");
    self->ops = ops;
    self->upstream = tide_resource_retain(upstream);
    self->reserved[1] = 0;
    /* relaxed: the transfer of the resource to another thread orders this */
    __atomic_store_n(&self->reserved[REFERENCES], 1, __ATOMIC_RELAXED);
    return TIDE_OK;
}

void
tide_resource_fini(struct tide_resource *self)
{
    struct tide_resource *upstream = self->upstream;

    self->upstream = NULL;
    free((char *)tidei_resource_given_name(self));
    self->reserved[1] &= TIDEI_RESOURCE_OWN;
    tide_resource_release(upstream);
}

enum tide_status
tidei_resource_set_given_name(struct tide_resource *resource, const char *name)
{
    char *copy = strdup(name);

    if (copy == NULL)
        return tide_error_set(TIDE_ENOMEM, "%s: no host memory for its name", resource->ops->name);
    resource->reserved[1] |= (uintptr_t)copy;
    return TIDE_OK;
}

struct tide_resource *
tide_resource_retain(struct tide_resource *resource)
{
    /* relaxed: the caller's own reference prevents destruction meanwhile */
    if (resource != NULL)
        __atomic_fetch_add(&resource->reserved[REFERENCES], 1, __ATOMIC_RELAXED);
    return resource;
}

/* Whether operations that the program brings lie in the layer or below it. Reads only what a call does not change. */
static bool
calls_program(struct tide_resource *layer)
{
    struct tide_upstream below;

    if (!tidei_resource_is_own(layer))
        return true;
    for (size_t i = 0; layer->ops->upstream_at(layer, i, &below) == TIDE_OK; i++) {
        if (calls_program(below.resource))
            return true;
    }
    return false;
}

bool
tidei_interrupted_by(const void *call)
{
    struct tide_resource *layer = (struct tide_resource *)(uintptr_t)call;

    if (call == NULL)
        return false;
    if (call == &tidei_inside_library)
        return true;
    if (tidei_resource_is_mixed(layer))
        return false;
    if (!calls_program(layer))
        return true;
    /* Layers keep what lies below them, so this stays true: nested calls find it without another walk. */
    tidei_resource_set_mixed(layer);
    return false;
}

/* The mark must not name the resource, which goes away. Operations of the program's may free what they hold below. */
static void
resource_destroy(struct tide_resource *resource)
{
    if (!tidei_interrupted_by(resource)) {
        resource->ops->destroy(resource);
        return;
    }
    TIDEI_INSIDE(NULL);
    resource->ops->destroy(resource);
}

void
tide_resource_release(struct tide_resource *resource)
{
    if (resource == NULL)
        return;
    /*
     * release: this thread's use of the resource comes before another thread's destroy; acquire: the last release sees
     * the use by all others. Both sides are this line.
     */
    if ((__atomic_fetch_sub(&resource->reserved[REFERENCES], 1, __ATOMIC_ACQ_REL) & REFERENCE_MASK) == 1)
        resource_destroy(resource);
}

const char *
tide_resource_name(const struct tide_resource *resource)
{
    return resource != NULL ? resource->ops->name : "";
}

void
tidei_deallocate_quietly(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment,
                         tide_stream stream)
{
    struct tidei_error error;

    tidei_error_save(&error);
    (void)tidei_deallocate(resource, pointer, bytes, alignment, stream);
    tidei_error_restore(&error);
}

void
tide_pass_describe(struct tide_resource *self, struct tide_text *text)
{
    (void)self, (void)text;
}

/* The index after the last one ends every walk and is no error to report: the thread's last error stays. */
enum tide_status
tide_pass_upstream_at(struct tide_resource *self, size_t index, struct tide_upstream *out)
{
    out->resource = index == 0 ? self->upstream : NULL;
    out->limit_bytes = index == 0 ? UINT64_MAX : 0;
    return index == 0 ? TIDE_OK : TIDE_EINVAL;
}

enum tide_status
tide_base_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    (void)self, (void)earlier, (void)later;
    return TIDE_OK;
}

enum tide_status
tide_base_trim(struct tide_resource *self, uint64_t keep_bytes)
{
    (void)self, (void)keep_bytes;
    return TIDE_OK;
}

/* The names of figures in messages. */
static const char *const resource_query_names[] = {
    [TIDE_QUERY_BYTES_USED] = "bytes used",
    [TIDE_QUERY_BYTES_RESERVED] = "bytes reserved",
    [TIDE_QUERY_CAPACITY] = "capacity",
    [TIDE_QUERY_DEVICE] = "device",
    [TIDE_QUERY_HOST_ACCESS] = "host access",
    [TIDE_QUERY_STREAM_ORDERED] = "stream order",
    [TIDE_QUERY_ALIGNMENT] = "alignment",
    [TIDE_QUERY_BYTES_USED_HIGH] = "most bytes used",
    [TIDE_QUERY_BYTES_RESERVED_HIGH] = "most bytes reserved",
    [TIDE_QUERY_BYTES_CACHED] = "bytes cached",
    [TIDE_QUERY_LARGEST_FREE] = "largest free block",
    [TIDE_QUERY_FREE_BLOCKS] = "free blocks",
    [TIDE_QUERY_DEVICE_FREE] = "free device memory",
    [TIDE_QUERY_DEVICE_TOTAL] = "device memory",
    [TIDE_QUERY_POOLS] = "memory pools",
    [TIDE_QUERY_PEERS] = "peers",
    [TIDE_QUERY_IPC] = "sharing between processes",
    [TIDE_QUERY_FABRIC] = "fabric handles",
    [TIDE_QUERY_MANAGED_POOLS] = "managed pools",
    [TIDE_QUERY_HOST_POOLS] = "host pools",
    [TIDE_QUERY_LARGEST_REQUEST] = "largest request",
    [TIDE_QUERY_PAGE] = "page",
    [TIDE_QUERY_VIRTUAL_MEMORY] = "virtual memory calls",
    [TIDE_QUERY_UNIT] = "unit of the memory that it keeps",
    [TIDE_QUERY_KEPT] = "size that it was told to keep",
};

enum tide_status
tide_base_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    size_t count = sizeof(resource_query_names) / sizeof(resource_query_names[0]);
    const char *name = (size_t)what < count ? resource_query_names[what] : NULL;

    *out = 0;
    return tide_error_set(TIDE_EUNSUPPORTED, "%s: knows no %s", self->ops->name,
                          name != NULL ? name : "figure of that number");
}

enum tide_status
tide_base_upstream_at(struct tide_resource *self, size_t index, struct tide_upstream *out)
{
    (void)index;
    return tide_pass_upstream_at(self, 1, out); /* past the last one */
}

/* Read the size at the begin of a struct; false where it is invalid. */
static bool
sized_read(const void *from, size_t *size)
{
    memcpy(size, from, sizeof(*size));
    return *size >= sizeof(*size) && *size <= SIZED_MAX_BYTES;
}

enum tide_status
tidei_options_copy(const char *subject, const void *options, void *out, size_t known_bytes)
{
    const unsigned char *bytes = options;
    size_t size = known_bytes;

    memset(out, 0, known_bytes);
    if (options != NULL && !sized_read(options, &size))
        return tide_error_set(TIDE_EINVAL, "%s: struct_size %zu in the options, expected TIDE_OPTIONS", subject, size);
    for (size_t i = known_bytes; i < size; i++) {
        if (bytes[i] != 0)
            return tide_error_set(TIDE_EUNSUPPORTED,
                                  "%s: an option past byte %zu is set, this library is too old for it", subject,
                                  known_bytes);
    }
    if (options != NULL)
        memcpy(out, options, size < known_bytes ? size : known_bytes);
    memcpy(out, &known_bytes, sizeof(known_bytes));
    return TIDE_OK;
}

enum tide_status
tidei_figures_clear(const char *subject, void *out)
{
    size_t size;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "%s: NULL in place of the figures", subject);
    if (!sized_read(out, &size))
        return tide_error_set(TIDE_EINVAL, "%s: struct_size %zu in the figures, expected TIDE_FIGURES", subject, size);
    memset((unsigned char *)out + sizeof(size), 0, size - sizeof(size));
    return TIDE_OK;
}

void
tidei_figures_copy(void *out, const void *figures, size_t known_bytes)
{
    size_t size;

    memcpy(&size, out, sizeof(size));
    if (size > known_bytes)
        size = known_bytes;
    memcpy((unsigned char *)out + sizeof(size), (const unsigned char *)figures + sizeof(size), size - sizeof(size));
}
