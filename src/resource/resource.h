/* What resources need inside the library: calls without checks, checked arithmetic, options and messages. */
#ifndef TIDEI_RESOURCE_RESOURCE_H
#define TIDEI_RESOURCE_RESOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/message.h>
#include <tidemark/resource.h>

/* Call the operation of `resource` directly: the arguments were checked at the top of the stack. */
static inline enum tide_status
tidei_allocate(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    return resource->ops->allocate(resource, bytes, alignment, stream, out);
}

static inline enum tide_status
tidei_deallocate(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    return resource->ops->deallocate(resource, pointer, bytes, alignment, stream);
}

/* The same after a failure whose error text is to stay: a further failure is ignored. */
void tidei_deallocate_quietly(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment,
                              tide_stream stream);

#define TIDEI_RESOURCE_QUICK (UINT64_C(1) << 32)
#define TIDEI_RESOURCE_KIND  (UINT64_C(1) << 33)
#define TIDEI_RESOURCE_MIXED (UINT64_C(1) << 34)

/*
 * In reserved[1], beside the address of the name that stack text gave the layer, if it did. So a resource of the
 * program's has 0 there, and a layer without a name just this bit, which each call tests: see calls.c.
 */
#define TIDEI_RESOURCE_OWN UINT64_C(1)

/* Mark a resource whose operations are the library's; in its constructor. */
static inline void
tidei_resource_set_own(struct tide_resource *resource)
{
    resource->reserved[1] |= TIDEI_RESOURCE_OWN;
}

static inline bool
tidei_resource_is_own(const struct tide_resource *resource)
{
    return (resource->reserved[1] & TIDEI_RESOURCE_OWN) != 0;
}

/* Note that operations of the program were seen in the resource or below it. Any thread, any time. */
static inline void
tidei_resource_set_mixed(struct tide_resource *resource)
{
    __atomic_fetch_or(&resource->reserved[0], TIDEI_RESOURCE_MIXED, __ATOMIC_RELAXED);
}

static inline bool
tidei_resource_is_mixed(const struct tide_resource *resource)
{
    return (__atomic_load_n(&resource->reserved[0], __ATOMIC_RELAXED) & TIDEI_RESOURCE_MIXED) != 0;
}

/*
 * Mark a resource as quick, in its constructor. Beside calling its upstream (or the driver, for a base) a quick
 * resource does next to nothing: it holds no lock for long, calls nothing else and never waits.
 */
static inline void
tidei_resource_set_quick(struct tide_resource *resource)
{
    resource->reserved[0] |= TIDEI_RESOURCE_QUICK;
}

static inline bool
tidei_resource_is_quick(const struct tide_resource *resource)
{
    return (__atomic_load_n(&resource->reserved[0], __ATOMIC_RELAXED) & TIDEI_RESOURCE_QUICK) != 0;
}

static inline uint32_t
tidei_resource_references(const struct tide_resource *resource)
{
    return (uint32_t)__atomic_load_n(&resource->reserved[0], __ATOMIC_RELAXED);
}

/* A block that is live in some layer. */
struct tidei_place {
    void *pointer;
    size_t bytes, alignment;
    tide_stream stream;
};

/* What a layer holds, for samples. */
struct tidei_layer_figures {
    uint64_t used_bytes;
    uint64_t reserved_bytes;
    uint64_t reserved_high_bytes; /* the most that the layer ever had; 0: not known */
};

/* What any layer holds now; false where it does not know. Keeps the thread's error. */
bool tidei_layer_figures(struct tide_resource *layer, struct tidei_layer_figures *out);

/* A figure that one thread at a time writes, and others read without its lock: a number, no data behind it. */
static inline uint64_t
tidei_figure_get(const _Atomic uint64_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

static inline void
tidei_figure_add(_Atomic uint64_t *figure, uint64_t bytes)
{
    atomic_store_explicit(figure, tidei_figure_get(figure) + bytes, memory_order_relaxed);
}

/* Raise a high-water mark, as any thread may. Relaxed: as above. Lock-free; one load where it does not rise. */
static inline void
tidei_figure_raise(_Atomic uint64_t *high, uint64_t bytes)
{
    uint64_t before = tidei_figure_get(high);

    while (__builtin_expect(before < bytes, 0) &&
           !atomic_compare_exchange_weak_explicit(high, &before, bytes, memory_order_relaxed, memory_order_relaxed))
        ;
}

/* The name that stack text gave the layer with `as`; NULL where it has none. */
static inline const char *
tidei_resource_given_name(const struct tide_resource *resource)
{
    return (const char *)(uintptr_t)(resource->reserved[1] & ~TIDEI_RESOURCE_OWN);
}

/* Give a layer without a name a name (copied), before any other thread knows the layer. Errors: TIDE_ENOMEM. */
enum tide_status tidei_resource_set_given_name(struct tide_resource *resource, const char *name);

static inline bool
tidei_is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Round `bytes` up to `alignment` (power of two) into *out; on overflow return false, with *out 0. */
static inline bool
tidei_round_up(uint64_t bytes, uint64_t alignment, uint64_t *out)
{
    uint64_t mask = alignment - 1;

    *out = bytes > UINT64_MAX - mask ? 0 : (bytes + mask) & ~mask;
    return bytes <= UINT64_MAX - mask;
}

/*
 * Add `bytes` to a count of bytes outstanding, unless the sum would pass `most`. *before is the previous count. A
 * refused addition never changes the count, not even for a moment, so an oversized request cannot make another one
 * fail.
 *
 * Relaxed order is enough: each step is one read-modify-write of the count, which guards no other data, and the
 * transfer of the memory itself to another thread orders that memory. Lock-free.
 */
static inline bool
tidei_bounded_add(_Atomic uint64_t *count, uint64_t bytes, uint64_t most, uint64_t *before)
{
    *before = atomic_load_explicit(count, memory_order_relaxed);
    do {
        if (*before > most || bytes > most - *before)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(count, before, *before + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/*
 * Copy a caller's options, whose first member is their size, to `out`, which is zeroed; NULL leaves the zeros.
 * `known_bytes` is the part of the struct that this library knows: all of it, or up to the final member `reserved`.
 * Errors: TIDE_EINVAL (the size is unset, or below that of its own member), TIDE_EUNSUPPORTED (a newer program sets an
 * option past `known_bytes`).
 */
enum tide_status tidei_options_copy(const char *subject, const void *options, void *out, size_t known_bytes);

/*
 * Fill a caller's figures, whose first member is their size. A function first clears them, so that they are zero on
 * every failure, and then copies its own over them, as far as the caller's struct has room. Errors of clearing:
 * TIDE_EINVAL (`out` is NULL, or its size is invalid).
 */
enum tide_status tidei_figures_clear(const char *subject, void *out);
void tidei_figures_copy(void *out, const void *figures, size_t known_bytes);

/* Conversions between plain sizes and options in which 0 means the default, and TIDE_NONE means 0 bytes. */
static inline uint64_t
tidei_bytes_or_none(bool given, uint64_t bytes)
{
    return given && bytes == 0 ? TIDE_NONE : bytes;
}

static inline uint64_t
tidei_none_to_zero(uint64_t bytes)
{
    return bytes == TIDE_NONE ? 0 : bytes;
}

/* Print a readable size, for messages, into one of the thread's few buffers: "64 MiB", "1.50 GiB", "1000 B". */
const char *tidei_size_text(uint64_t bytes);

/* Append a name from elsewhere as it is shown to people; see src/resource/visible.h. */
void tidei_text_shown(struct tide_text *text, const char *name);

/* The length, at most `most`, at which a longer text can be cut without splitting a UTF-8 character. */
size_t tidei_utf8_cut(const char *text, size_t most);

/* The length of `text` that fits into `most` bytes: all of it, or as for tidei_utf8_cut. */
size_t tidei_utf8_length(const char *text, size_t most);

/* Send a message to the message sink, if there is one. */
void tidei_message(enum tide_severity severity, const char *format, ...) TIDE_PRINTF(2, 3);

/*
 * Saves and restores this thread's last error around inner calls whose failure the caller must not see, such as a query
 * for a figure that a layer may not know.
 */
struct tidei_error {
    char text[TIDE_ERROR_TEXT_BYTES];
    int driver;
    enum tide_status status;             /* that the text was set with */
    const struct tide_resource *refused; /* the layer that refused, only to be compared; NULL: not known */
    const void *told_to;                 /* the trace that has recorded the text; NULL: none has, since it was set */
    uint64_t told;                       /* the time in that trace at which the recorded call began */
};
void tidei_error_save(struct tidei_error *error);
void tidei_error_restore(const struct tidei_error *error);

/* Note that a layer refuses of its own accord. The words have been set with `status`, which is returned. */
enum tide_status tidei_refused(const struct tide_resource *layer, enum tide_status status);

/*
 * Set the words of a layer that passes on the failure in `error`, which was saved: the layer that refused, and the
 * driver's error, stay. Returns `status`.
 */
enum tide_status tidei_error_pass_on(const struct tidei_error *error, enum tide_status status, const char *format, ...)
    TIDE_PRINTF(3, 4);

/*
 * This thread's error, if it is that of a call which began at `began` in the trace `teller` and has just failed with
 * `status`; it is then noted as told. NULL where the call has set no words: those of an earlier failure are not its.
 * Borrowed until the thread's next error.
 */
const struct tidei_error *tidei_error_tell(enum tide_status status, const void *teller, uint64_t began);

/* Set this thread's last driver error, beside the text of tide_error_set. */
void tidei_error_driver_set(int result);

/* Whether the answer holds for upstream's own blocks, so a layer that hands out others does not pass it on. */
static inline bool
tidei_query_is_of_blocks(enum tide_query what)
{
    return what == TIDE_QUERY_PAGE || what == TIDE_QUERY_UNIT;
}

#endif
