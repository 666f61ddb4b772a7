/* What tests of `guard` share: a guard whose damage reports are kept, and its blocks. */
#ifndef TESTS_GUARD_H
#define TESTS_GUARD_H

#include <stdatomic.h>
#include <stdio.h>

#include <tidemark/tidemark.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static struct tide_guard_damage damages[16];
static atomic_uint damage_count;

static inline void
see(void *context, const struct tide_guard_damage *damage)
{
    unsigned number = atomic_fetch_add(&damage_count, 1);

    (void)context;
    if (number < 16)
        damages[number] = *damage;
}

/* A guard over `upstream`, or NULL. Takes over the reference. */
static inline struct tide_resource *
over(struct tide_resource *upstream, uint64_t canary_bytes, uint64_t hold_bytes)
{
    struct tide_guard_options options = { TIDE_OPTIONS(options), .canary_bytes = canary_bytes, .hold_bytes = hold_bytes,
                                          .function = see };
    struct tide_resource *guard;

    tide_guard_create(upstream, &options, &guard);
    tide_resource_release(upstream);
    atomic_store(&damage_count, 0);
    return guard;
}

static inline unsigned char *
take(struct tide_resource *guard, size_t bytes, size_t alignment)
{
    void *pointer;

    return tide_allocate(guard, bytes, alignment, 0, &pointer) == TIDE_OK ? pointer : NULL;
}

static inline enum tide_status
give(struct tide_resource *guard, unsigned char *pointer, size_t bytes, size_t alignment)
{
    return tide_deallocate(guard, pointer, bytes, alignment, 0);
}

static inline uint64_t
figure(struct tide_resource *resource, enum tide_query what)
{
    uint64_t seen;

    return tide_query(resource, what, &seen) == TIDE_OK ? seen : UINT64_MAX;
}

/* The latest error that the message sink heard. */
static char told[256];

static inline void
sink(void *context, enum tide_severity severity, const char *text)
{
    (void)context;
    if (severity == TIDE_ERROR)
        snprintf(told, sizeof(told), "%s", text);
}

#endif
