/*
 * The contract that every base, adaptor and pool keeps, and the calls that work on any of them.
 *
 * A stack is made bottom up: create a base, hand it to an adaptor's constructor, that one to the next. An adaptor
 * holds a reference to what is below it; a constructor gives its caller one reference; so an application releases
 * each handle that it was given, in any order, and the stack goes when its top does.
 *
 * An application brings a resource of its own by embedding struct tide_resource first in a struct of its own and
 * filling a table of operations; see examples/own-resource.c.
 */
#ifndef TIDEMARK_RESOURCE_H
#define TIDEMARK_RESOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <tidemark/sized.h>
#include <tidemark/status.h>
#include <tidemark/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A CUstream as an integer; 0 is the legacy default stream. Bases without streams ignore it. */
typedef uintptr_t tide_stream;

/*
 * For `earlier` in an order: every stream of the resource's device at once, also those that are destroyed by now. It
 * is no stream: nothing is allocated, freed or made to wait on it.
 */
#define TIDE_STREAM_ALL ((tide_stream)-1)

/* What cudaMalloc guarantees, and what is meant where nothing else is said. */
#define TIDE_DEFAULT_ALIGNMENT ((size_t)256)

/* Figures and capabilities that tide_query asks for. The numbers never change. */
enum tide_query {
    TIDE_QUERY_BYTES_USED = 1,     /* bytes: handed out by this resource and not yet freed, as it counts them */
    TIDE_QUERY_BYTES_RESERVED = 2, /* bytes: held from outside, whether handed out or not */
    TIDE_QUERY_CAPACITY = 3,       /* bytes: the most that can be handed out; the device's memory, a maximum */
    TIDE_QUERY_DEVICE = 4,         /* CUDA ordinal of the device that the memory lies on */
    TIDE_QUERY_HOST_ACCESS = 5,    /* 1 where the host may read and write the memory, else 0 */
    TIDE_QUERY_STREAM_ORDERED = 6, /* 1 where memory is handed out and taken back in stream order, else 0 */
    TIDE_QUERY_ALIGNMENT = 7,      /* bytes: every address is a multiple of this, whatever was asked */

    TIDE_QUERY_BYTES_USED_HIGH = 8,     /* bytes: the most that BYTES_USED has been, since a reset where there is one */
    TIDE_QUERY_BYTES_RESERVED_HIGH = 9, /* bytes: the most that BYTES_RESERVED has been, in the same way */
    TIDE_QUERY_BYTES_CACHED = 10,       /* bytes: free, held for one thread's next request */
    TIDE_QUERY_LARGEST_FREE = 11,       /* bytes: the largest request that free memory held here serves */
    TIDE_QUERY_FREE_BLOCKS = 12,        /* number of free blocks held here, those that are cached included */

    TIDE_QUERY_DEVICE_FREE = 13,   /* bytes that the driver says are free on the device */
    TIDE_QUERY_DEVICE_TOTAL = 14,  /* bytes of memory that the device has */
    TIDE_QUERY_POOLS = 15,         /* 1 where the device has stream-ordered memory pools, else 0 */
    TIDE_QUERY_PEERS = 16,         /* a bit for each CUDA ordinal below 64 whose memory the device can reach */
    TIDE_QUERY_IPC = 17,           /* 1 where a pool can be shared through a POSIX file descriptor, else 0 */
    TIDE_QUERY_FABRIC = 18,        /* 1 where a pool can be shared through a fabric handle, else 0 */
    TIDE_QUERY_MANAGED_POOLS = 19, /* 1 where a pool of managed memory can be made, else 0 */
    TIDE_QUERY_HOST_POOLS = 20,    /* 1 where a pool on a NUMA node of the host can be made, else 0 */

    TIDE_QUERY_LARGEST_REQUEST = 21, /* bytes: more than that is refused at once, whatever is free */
};

struct tide_resource;

/* One edge of a stack: `resource` (borrowed) serves requests of up to `limit_bytes`; TIDE_UNLIMITED: all. */
struct tide_upstream {
    struct tide_resource *resource;
    uint64_t limit_bytes;
};

#define TIDE_RESOURCE_OPS_VERSION 1

/*
 * One const table for each kind. Every slot is filled; a layer that changes nothing names a tide_pass_* function,
 * a base that has none of it a tide_base_* function. Every operation may be called from any thread at any time,
 * but for destroy, which comes once and last.
 *
 * An operation may call what is below its layer, never anything above: that may be waiting for this very call to
 * return. An upstream that allocates from the pool over it waits for itself once the pool is at its maximum.
 */
struct tide_resource_ops {
    uint32_t version;  /* TIDE_RESOURCE_OPS_VERSION */
    uint32_t reserved; /* 0 */
    const char *name;  /* as in stack text: "limit" */

    /*
     * Put the address of at least `bytes` bytes at a multiple of `alignment` (a power of two, checked by
     * tide_allocate) into *out, usable in the order of `stream`. 0 bytes: TIDE_OK and NULL, and counts as an
     * allocation. On failure *out is NULL and nothing has changed. What is reserved is reserved before upstream is
     * called and given back when upstream fails.
     */
    enum tide_status (*allocate)(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream,
                                 void **out);

    /*
     * Take back what allocate gave out for the same bytes and alignment, once the work submitted to `stream`
     * is done. The address is forgotten before upstream is called: it may come back on another thread at once.
     * Where the status is not TIDE_OK the memory has not been freed.
     */
    enum tide_status (*deallocate)(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment,
                                   tide_stream stream);

    /*
     * Have what will be submitted to `later` wait for what has been submitted to `earlier`, without blocking the
     * host. What reuses a block on another stream calls it. Bases without streams do nothing.
     *
     * TIDE_STREAM_ALL for `earlier`: wait for what has been submitted to any stream of the device, which may block the
     * host until all of it is done. What frees memory on a stream other than the one that it was last used on calls
     * it where that one's handle may be gone. A layer that keeps handles of streams forgets those that it need not
     * name any more; a layer over several resources orders all of them.
     */
    enum tide_status (*order)(struct tide_resource *self, tide_stream earlier, tide_stream later);

    /*
     * Give back to where it came from what is held and not handed out, down to `keep_bytes` reserved, and have
     * upstream do the same; each layer keeps `keep_bytes` of its own. It may give back less: what shares a chunk with
     * a live block, or is still in use by work on a device. It fails nothing that is handed out.
     */
    enum tide_status (*trim)(struct tide_resource *self, uint64_t keep_bytes);

    /* TIDE_EUNSUPPORTED and *out = 0 for what this resource and all below it do not know. */
    enum tide_status (*query)(struct tide_resource *self, enum tide_query what, uint64_t *out);

    /* Add the arguments as stack text reads them, without name and parentheses; nothing where there are none. */
    void (*describe)(struct tide_resource *self, struct tide_text *text);

    /*
     * The resources below, index 0 being the one that serves what no other does. TIDE_EINVAL past the last, and
     * for a base at 0.
     */
    enum tide_status (*upstream_at)(struct tide_resource *self, size_t index, struct tide_upstream *out);

    /* Give back everything, release upstream (tide_resource_fini does), free the struct. */
    void (*destroy)(struct tide_resource *self);
};

/*
 * The head of every resource; embed it first. Read `ops` and `upstream` as you like; only tide_resource_init writes
 * them, and `reserved` is the library's.
 */
struct tide_resource {
    const struct tide_resource_ops *ops;
    struct tide_resource *upstream; /* holds a reference; NULL for a base */
    uint64_t reserved[2];
};

/*
 * Make *self a resource with one reference, over `upstream` (holds a reference; NULL for a base).
 *
 * `ops` is borrowed for the life of the resource. On failure *self is untouched.
 * Errors: TIDE_EINVAL (a slot is empty), TIDE_EUNSUPPORTED (a version that this library does not know).
 * Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_resource_init(struct tide_resource *self, const struct tide_resource_ops *ops,
                                                struct tide_resource *upstream);

/* Release the upstream that tide_resource_init took; for destroy operations. Since 0.1. */
TIDE_EXPORT void tide_resource_fini(struct tide_resource *self);

/* Take another reference; returns `resource`. NULL is allowed. Thread safety: any thread. Since 0.1. */
TIDE_EXPORT struct tide_resource *tide_resource_retain(struct tide_resource *resource);

/*
 * Give a reference back; the last one destroys the resource and releases what is below. NULL is allowed. Memory
 * that is still allocated must not be used or freed afterwards. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT void tide_resource_release(struct tide_resource *resource);

/* The name of the kind, as in stack text. Borrowed. Since 0.1. */
TIDE_EXPORT const char *tide_resource_name(const struct tide_resource *resource);

/*
 * Allocate `bytes` bytes at a multiple of `alignment` (power of two) from the top of a stack, in the order of
 * `stream`. On failure *out is NULL. 0 bytes succeed with NULL and may be deallocated.
 *
 * Errors: TIDE_EINVAL (alignment, NULL, TIDE_STREAM_ALL), and all that the layers below return.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_allocate(struct tide_resource *resource, size_t bytes, size_t alignment,
                                           tide_stream stream, void **out);

/*
 * Give back what tide_allocate gave out; `bytes` and `alignment` are those of the allocation. The memory may be
 * reused once the work submitted to `stream` is done.
 *
 * Errors: TIDE_EINVAL (alignment, NULL, TIDE_STREAM_ALL), TIDE_EPOINTER and TIDE_EMISMATCH from layers that can tell,
 * and all that the layers below return; then the memory has not been freed.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_deallocate(struct tide_resource *resource, void *pointer, size_t bytes,
                                             size_t alignment, tide_stream stream);

/*
 * Have `later` wait for what `earlier`, or TIDE_STREAM_ALL, holds so far; see struct tide_resource_ops. The streams
 * must be there.
 *
 * Call `tide_order(stack, TIDE_STREAM_ALL, 0)` where streams are destroyed while the stack goes on, before or after
 * (before anything else is allocated): then no layer names a stream of before again.
 * Errors: TIDE_EINVAL (NULL, TIDE_STREAM_ALL for `later`), and what the layers below return. Thread safety: any
 * thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_order(struct tide_resource *resource, tide_stream earlier, tide_stream later);

/*
 * Have every layer of a stack give back the memory that it holds and nobody uses, down to `keep_bytes` reserved in
 * each; 0 gives back all that can be. Layers that hold nothing do nothing.
 * Errors: TIDE_EINVAL (NULL), TIDE_EDRIVER. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_trim(struct tide_resource *resource, uint64_t keep_bytes);

/*
 * Ask for a figure or a capability. *out is 0 on failure.
 * Errors: TIDE_EUNSUPPORTED (no layer knows). Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_query(struct tide_resource *resource, enum tide_query what, uint64_t *out);

/* Pass-through functions for the slots of a layer that changes nothing. Since 0.1. */
TIDE_EXPORT enum tide_status tide_pass_allocate(struct tide_resource *self, size_t bytes, size_t alignment,
                                                tide_stream stream, void **out);
TIDE_EXPORT enum tide_status tide_pass_deallocate(struct tide_resource *self, void *pointer, size_t bytes,
                                                  size_t alignment, tide_stream stream);
TIDE_EXPORT enum tide_status tide_pass_order(struct tide_resource *self, tide_stream earlier, tide_stream later);
TIDE_EXPORT enum tide_status tide_pass_trim(struct tide_resource *self, uint64_t keep_bytes);
TIDE_EXPORT enum tide_status tide_pass_query(struct tide_resource *self, enum tide_query what, uint64_t *out);
TIDE_EXPORT void tide_pass_describe(struct tide_resource *self, struct tide_text *text); /* adds nothing */
TIDE_EXPORT enum tide_status tide_pass_upstream_at(struct tide_resource *self, size_t index, struct tide_upstream *out);

/* What a base without streams, without figures, and without upstream fills its slots with. Since 0.1. */
TIDE_EXPORT enum tide_status tide_base_order(struct tide_resource *self, tide_stream earlier, tide_stream later);
TIDE_EXPORT enum tide_status tide_base_trim(struct tide_resource *self, uint64_t keep_bytes);
TIDE_EXPORT enum tide_status tide_base_query(struct tide_resource *self, enum tide_query what, uint64_t *out);
TIDE_EXPORT enum tide_status tide_base_upstream_at(struct tide_resource *self, size_t index, struct tide_upstream *out);

#ifdef __cplusplus
}
#endif
#endif
