/* What a resource inside the library needs: the contract, forwarders without checks, and arithmetic that may fail. */
#ifndef TIDEI_RESOURCE_RESOURCE_H
#define TIDEI_RESOURCE_RESOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/message.h>
#include <tidemark/resource.h>

/* Call the operation of `resource` itself: the arguments were checked where the stack was entered. */
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

#define TIDEI_RESOURCE_QUICK (UINT64_C(1) << 32)

/*
 * Mark a resource as quick: beside the calls of its upstream, or of the driver where it is a base, it does next to
 * nothing, which takes no lock for long, calls nobody else and never waits. For its constructor.
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

/* The name that stack text gave the layer with `as`; NULL where it has none. */
static inline const char *
tidei_resource_given_name(const struct tide_resource *resource)
{
    return (const char *)(uintptr_t)resource->reserved[1];
}

/* Give a layer that has none a name (copied), before anybody else knows it. Errors: TIDE_ENOMEM. */
enum tide_status tidei_resource_set_given_name(struct tide_resource *resource, const char *name);

static inline bool
tidei_is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Round `bytes` up to `alignment` (power of two) into *out; false where that overflows, and *out is 0. */
static inline bool
tidei_round_up(uint64_t bytes, uint64_t alignment, uint64_t *out)
{
    uint64_t mask = alignment - 1;

    *out = bytes > UINT64_MAX - mask ? 0 : (bytes + mask) & ~mask;
    return bytes <= UINT64_MAX - mask;
}

/*
 * Add `bytes` to a count of bytes outstanding, unless the sum would pass `most`; *before is the count that was found.
 * Nothing is added where it is refused, not even for a moment, so that an oversized request can make nobody else's
 * fail. The count is all that is shared: relaxed order is enough, since every step is one read-modify-write and what
 * hands the memory itself to another thread orders that. Lock-free.
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
 * Copy a caller's options (the first member is their size) to `out`, which begins with zeros; NULL leaves the zeros.
 * `known_bytes` is how much of the struct this library knows: all of it, or up to the member `reserved` at its end.
 * TIDE_EINVAL where the size is none: smaller than the size member, or unset. TIDE_EUNSUPPORTED where a newer program
 * sets an option past `known_bytes`.
 */
enum tide_status tidei_options_copy(const char *subject, const void *options, void *out, size_t known_bytes);

/*
 * Fill a caller's figures (the first member is their size). A function that reads figures first clears them, so that
 * they are zeros on every failure, and then copies its own over them, as much as the caller's struct has room for.
 * Clearing is TIDE_EINVAL where `out` is NULL or its size is none.
 */
enum tide_status tidei_figures_clear(const char *subject, void *out);
void tidei_figures_copy(void *out, const void *figures, size_t known_bytes);

/* 0 bytes that were asked for, where an option of 0 stands for its default; and back, to a plain number. */
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

/*
 * Print `bytes` for people into one of a thread's few buffers: "64 MiB", "1.50 GiB", "1000 B". Exact where it has
 * no decimals. For messages only.
 */
const char *tidei_size_text(uint64_t bytes);

/* The most bytes of a text that is longer than `most` which end where a character of UTF-8 does. */
size_t tidei_utf8_cut(const char *text, size_t most);

/* How much of `text` is kept where there is room for `most` bytes: all of it, or as above. */
size_t tidei_utf8_length(const char *text, size_t most);

/* Tell the message sink, where there is one. */
void tidei_message(enum tide_severity severity, const char *format, ...) TIDE_PRINTF(2, 3);

/*
 * This thread's last failure, kept across calls whose own failures are none to the caller: what asks for a figure that
 * a layer may not know, within a call that succeeds.
 */
struct tidei_error {
    char text[TIDE_ERROR_TEXT_BYTES];
    int driver;
};
void tidei_error_save(struct tidei_error *error);
void tidei_error_restore(const struct tidei_error *error);

/* Set this thread's last driver error beside the text that tide_error_set gives. */
void tidei_error_driver_set(int result);

#endif
