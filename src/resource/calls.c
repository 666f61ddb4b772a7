/*
 * Checks calls that enter a stack from outside, and marks their threads; see src/sync/inside.h.
 *
 * A call of a resource that the program brings gets no mark: nothing of the library is begun before that resource calls
 * the library, which is a call from outside again. It only looks for the mark of a call that it may have interrupted.
 */
#include "src/resource/interrupted.h"
#include "src/resource/resource.h"

static enum tide_status
resource_check(const struct tide_resource *resource, size_t alignment)
{
    if (resource == NULL)
        return tide_error_set(TIDE_EINVAL, "resource: NULL in place of a resource");
    if (!tidei_is_power_of_two(alignment))
        return tide_error_set(TIDE_EINVAL, "%s: alignment %zu is no power of two", resource->ops->name, alignment);
    return TIDE_OK;
}

/* The reason to refuse an allocation or a free, if there is one. */
static enum tide_status
resource_refuse(const struct tide_resource *resource, size_t alignment, tide_stream stream)
{
    enum tide_status status = resource_check(resource, alignment);

    if (status == TIDE_OK && stream == TIDE_STREAM_ALL)
        status =
            tide_error_set(TIDE_EINVAL, "%s: TIDE_STREAM_ALL is no stream to allocate or free on", resource->ops->name);
    return status;
}

#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Keeps the compiler from joining conditions without branches, which takes more instructions. */
#define APART() __asm__ volatile("")

/* How a call goes on. */
enum resource_way {
    RESOURCE_OTHER,   /* resource_refuse has a reason, the call is within another one, or the layer has a name */
    RESOURCE_PROGRAM, /* to a resource of the program's, without a mark */
    RESOURCE_OWN,     /* to a layer of the library, with a mark */
};

/*
 * The only check on the path of allocations and frees. One branch finds that nothing stops a call of a resource of the
 * program's, which falls through; one more that of a layer of the library. No mark is the address 1, and a wrong
 * alignment has no bit there. A layer with a name is found by a few more instructions, in a function of its own.
 */
static inline __attribute__((always_inline)) enum resource_way
resource_way(const struct tide_resource *resource, size_t alignment, tide_stream stream)
{
    uintptr_t found;

    if (UNLIKELY(resource == NULL))
        return RESOURCE_OTHER;
    APART();
    if (UNLIKELY(stream == TIDE_STREAM_ALL))
        return RESOURCE_OTHER;
    APART();
    if (UNLIKELY(alignment == 0))
        return RESOURCE_OTHER;
    APART();
    found = (alignment & (alignment - 1)) | resource->reserved[1] | (uintptr_t)tidei_inside_call();
    if (__builtin_expect(found == 0, 1))
        return RESOURCE_PROGRAM;
    return __builtin_expect(found == TIDEI_RESOURCE_OWN, 1) ? RESOURCE_OWN : RESOURCE_OTHER;
}

/* Whether nothing stops a request of a layer of the library, which then has a name. */
static inline bool
resource_is_named(const struct tide_resource *resource, size_t alignment, tide_stream stream)
{
    return resource != NULL && tidei_resource_is_own(resource) && tidei_is_power_of_two(alignment) &&
           stream != TIDE_STREAM_ALL && tidei_inside_call() == NULL;
}

/* The end of an allocation that has failed, or behind which handlers have left something. The thread is not marked. */
static __attribute__((noinline, cold)) enum tide_status
allocate_end(enum tide_status status, void **out)
{
    if (status != TIDE_OK)
        *out = NULL;
    tidei_interrupted_free();
    return status;
}

/* An allocation from a layer of the library, of which nothing is wrong, on a thread without a mark. */
static inline __attribute__((always_inline)) enum tide_status
allocate_own(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    void **volatile kept = out; /* in memory: in a register it would cost two more instructions */
    enum tide_status status;

    *out = NULL;
    tidei_inside_set(resource);
    status = resource->ops->allocate(resource, bytes, alignment, stream, out);
    if (UNLIKELY(((uintptr_t)tidei_inside_leave() | (uintptr_t)status) != 0))
        return allocate_end(status, kept);
    return TIDE_OK;
}

/* An allocation with wrong arguments, or within another call. */
static __attribute__((noinline, cold)) enum tide_status
allocate_otherwise(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    const void *within = tidei_inside_call();
    enum tide_status status;

    if (out != NULL)
        *out = NULL;
    if (tidei_interrupted_refuses())
        return TIDE_ESIGNAL;
    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "resource: NULL in place of an address for the pointer");
    status = resource_refuse(resource, alignment, stream);
    if (status != TIDE_OK)
        return status;
    tidei_inside_set(resource);
    status = resource->ops->allocate(resource, bytes, alignment, stream, out);
    tidei_inside_set(within);
    return allocate_end(status, out);
}

/* Not in allocate_otherwise, which saves registers. */
static __attribute__((noinline)) enum tide_status
allocate_other(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    if (resource_is_named(resource, alignment, stream))
        return allocate_own(resource, bytes, alignment, stream, out);
    return allocate_otherwise(resource, bytes, alignment, stream, out);
}

/* The begin of a cache line: elsewhere a pair of calls was seen to take 0.3 ns more. */
#define ALIGNED __attribute__((aligned(64)))

ALIGNED enum tide_status
tide_allocate(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    void **volatile kept;
    enum resource_way way;
    enum tide_status status;

    if (UNLIKELY(out == NULL))
        return allocate_otherwise(resource, bytes, alignment, stream, out);
    APART();
    way = resource_way(resource, alignment, stream);
    if (UNLIKELY(way == RESOURCE_OTHER))
        return allocate_other(resource, bytes, alignment, stream, out);
    if (UNLIKELY(way == RESOURCE_OWN))
        return allocate_own(resource, bytes, alignment, stream, out);
    kept = out;
    *out = NULL;
    status = resource->ops->allocate(resource, bytes, alignment, stream, out);
    if (UNLIKELY(status != TIDE_OK))
        *kept = NULL;
    return status;
}

static __attribute__((noinline, cold)) enum tide_status
deallocate_end(enum tide_status status)
{
    tidei_interrupted_free();
    return status;
}

/* A free, as allocate_own. */
static inline __attribute__((always_inline)) enum tide_status
deallocate_own(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    enum tide_status status;

    tidei_inside_set(resource);
    status = resource->ops->deallocate(resource, pointer, bytes, alignment, stream);
    if (UNLIKELY(tidei_inside_leave() != NULL))
        return deallocate_end(status);
    return status;
}

/* A free with wrong arguments, or within another call. */
static __attribute__((noinline, cold)) enum tide_status
deallocate_otherwise(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    const void *within = tidei_inside_call();
    enum tide_status status;

    if (tidei_interrupted_by(within)) {
        if (resource == NULL || !tidei_is_power_of_two(alignment) || stream == TIDE_STREAM_ALL)
            return TIDE_EINVAL;
        return tidei_interrupted_defer(resource, &(struct tidei_place){ pointer, bytes, alignment, stream });
    }
    status = resource_refuse(resource, alignment, stream);
    if (status != TIDE_OK)
        return status;
    tidei_inside_set(resource);
    status = resource->ops->deallocate(resource, pointer, bytes, alignment, stream);
    tidei_inside_set(within);
    return deallocate_end(status);
}

static __attribute__((noinline)) enum tide_status
deallocate_other(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    if (resource_is_named(resource, alignment, stream))
        return deallocate_own(resource, pointer, bytes, alignment, stream);
    return deallocate_otherwise(resource, pointer, bytes, alignment, stream);
}

ALIGNED enum tide_status
tide_deallocate(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    enum resource_way way = resource_way(resource, alignment, stream);

    if (UNLIKELY(way == RESOURCE_OTHER))
        return deallocate_other(resource, pointer, bytes, alignment, stream);
    if (UNLIKELY(way == RESOURCE_OWN))
        return deallocate_own(resource, pointer, bytes, alignment, stream);
    return resource->ops->deallocate(resource, pointer, bytes, alignment, stream);
}

/*
 * Of a resource that the program brings, as its operation: the thread is not marked yet, or with that resource, which
 * lets all calls go ahead.
 */
enum tide_status
tide_pass_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    if (!tidei_resource_is_own(self))
        return tide_allocate(self->upstream, bytes, alignment, stream, out);
    return tidei_allocate(self->upstream, bytes, alignment, stream, out);
}

enum tide_status
tide_pass_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    if (!tidei_resource_is_own(self))
        return tide_deallocate(self->upstream, pointer, bytes, alignment, stream);
    return tidei_deallocate(self->upstream, pointer, bytes, alignment, stream);
}

enum tide_status
tide_order(struct tide_resource *resource, tide_stream earlier, tide_stream later)
{
    TIDEI_INSIDE(resource);
    enum tide_status status = resource_check(resource, 1);

    if (status == TIDE_OK && later == TIDE_STREAM_ALL)
        status = tide_error_set(TIDE_EINVAL, "%s: TIDE_STREAM_ALL cannot be made to wait", resource->ops->name);
    return status != TIDE_OK ? status : resource->ops->order(resource, earlier, later);
}

enum tide_status
tide_trim(struct tide_resource *resource, uint64_t keep_bytes)
{
    TIDEI_INSIDE(resource);
    enum tide_status status = resource_check(resource, 1);

    return status != TIDE_OK ? status : resource->ops->trim(resource, keep_bytes);
}

enum tide_status
tide_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    TIDEI_INSIDE(resource);
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "resource: NULL in place of an address for the figure");
    *out = 0;
    status = resource_check(resource, 1);
    if (status != TIDE_OK)
        return status;
    status = resource->ops->query(resource, what, out);
    if (status != TIDE_OK)
        *out = 0;
    return status;
}

enum tide_status
tide_pass_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    if (!tidei_resource_is_own(self))
        return tide_order(self->upstream, earlier, later);
    return self->upstream->ops->order(self->upstream, earlier, later);
}

enum tide_status
tide_pass_trim(struct tide_resource *self, uint64_t keep_bytes)
{
    if (!tidei_resource_is_own(self))
        return tide_trim(self->upstream, keep_bytes);
    return self->upstream->ops->trim(self->upstream, keep_bytes);
}

enum tide_status
tide_pass_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    if (!tidei_resource_is_own(self))
        return tide_query(self->upstream, what, out);
    return self->upstream->ops->query(self->upstream, what, out);
}
