/*
 * Resources: the interface that every base, adaptor and pool has, and the calls that work on any of them.
 *
 * Make a stack from the bottom up: create a base, pass it to the constructor of an adaptor, pass that to the next one.
 * A constructor gives its caller one reference, and holds one of its own to each resource below. So release every
 * resource that you created, in any order; the stack is destroyed with its top.
 *
 * Signal handlers may call tide_allocate, tide_deallocate, tide_tag_push, tide_tag_pop, tide_mark, tide_status_name and
 * tide_status_text, and no other function of the library. The result depends on what the handler has interrupted:
 *
 *  - another call of the library on the same thread: tide_allocate, tide_tag_push and tide_mark return TIDE_ESIGNAL and
 *    do nothing; tide_tag_pop does nothing either. tide_deallocate returns TIDE_OK, and the interrupted call frees the
 *    memory as its last act. A call keeps 100 such frees; a further one returns TIDE_ESIGNAL, and the memory stays
 *    allocated. None of these calls waits, allocates, or changes tide_error_text() or errno. tide_interrupted_read
 *    counts them.
 *  - anything else: these calls work as anywhere. But they are only as safe as what they call: if the handler has
 *    interrupted malloc, or a call of the driver that the program made itself, a call that needs the same may wait for
 *    ever. The first call of a thread, and the first call to each layer, takes host memory; so do calls of the base
 *    `host`.
 *
 * Not covered: calls on a stack with a resource that the program brings (tide_resource_init). Such a resource may call
 * the library from within a call, which the library cannot tell from a handler; so all calls within a call on that
 * stack go ahead. If the resource is on top of all layers of the library, the allocations, frees, orders, trims and
 * queries that it passes on are covered: they count as calls from outside.
 * Not covered either is a handler that leaves a call by siglongjmp: locks stay held, and the thread counts as within
 * that call.
 * The library's own threads block all signals but SIGBUS, so that a handler never runs on them.
 *
 * An application can bring a resource of its own: it defines a struct with struct tide_resource as its first member,
 * and a table of operations. See examples/own-resource.c.
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
 * All streams of the resource's device, also those that were destroyed since. Only for the argument `earlier` of
 * tide_order, and for tide_monotonic_reset. It cannot be used to allocate or free, and cannot be made to wait.
 */
#define TIDE_STREAM_ALL ((tide_stream)-1)

/* The alignment that cudaMalloc guarantees, in bytes, and the default of this library. */
#define TIDE_DEFAULT_ALIGNMENT ((size_t)256)

/* What tide_query can ask. The numbers never change. */
enum tide_query {
    TIDE_QUERY_BYTES_USED = 1,     /* bytes that this resource has handed out and not got back, as it counts them */
    TIDE_QUERY_BYTES_RESERVED = 2, /* bytes that it holds from outside, handed out or not */
    TIDE_QUERY_CAPACITY = 3,       /* the most bytes it can hand out: a limit, a maximum, or the device's memory */
    TIDE_QUERY_DEVICE = 4,         /* CUDA ordinal of the device that the memory lies on */
    TIDE_QUERY_HOST_ACCESS = 5,    /* 1 if the host may read and write the memory, else 0 */
    TIDE_QUERY_STREAM_ORDERED = 6, /* 1 if allocations and deallocations follow their streams, else 0 */
    TIDE_QUERY_ALIGNMENT = 7,      /* bytes that every address is a multiple of, whatever was asked for */

    TIDE_QUERY_BYTES_USED_HIGH = 8,     /* the most that BYTES_USED has been, since its last reset if it has one */
    TIDE_QUERY_BYTES_RESERVED_HIGH = 9, /* the most that BYTES_RESERVED has been, likewise */
    TIDE_QUERY_BYTES_CACHED = 10,       /* free bytes that are kept for the next request of one thread */
    TIDE_QUERY_LARGEST_FREE = 11,       /* the largest request in bytes that free memory held here can serve */
    TIDE_QUERY_FREE_BLOCKS = 12,        /* number of free blocks held here, cached ones included */

    TIDE_QUERY_DEVICE_FREE = 13,   /* bytes that the driver says are free on the device */
    TIDE_QUERY_DEVICE_TOTAL = 14,  /* bytes of memory that the device has */
    TIDE_QUERY_POOLS = 15,         /* 1 if the device has stream-ordered memory pools, else 0 */
    TIDE_QUERY_PEERS = 16,         /* bit n is set if the device can reach the memory of CUDA ordinal n (below 64) */
    TIDE_QUERY_IPC = 17,           /* 1 if a pool can be shared through a POSIX file descriptor, else 0 */
    TIDE_QUERY_FABRIC = 18,        /* 1 if a pool can be shared through a fabric handle, else 0 */
    TIDE_QUERY_MANAGED_POOLS = 19, /* 1 if there can be a pool of managed memory, else 0 */
    TIDE_QUERY_HOST_POOLS = 20,    /* 1 if there can be a pool on a NUMA node of the host, else 0 */

    TIDE_QUERY_LARGEST_REQUEST = 21, /* bytes; a larger request is refused at once, however much is free */
    TIDE_QUERY_PAGE = 22,            /* bytes; allocations of whole pages that lie side by side may be used as one */
    TIDE_QUERY_VIRTUAL_MEMORY = 23, /* 1 if the device has the virtual memory calls that the base `vmm` makes, else 0 */
    TIDE_QUERY_UNIT = 24, /* bytes; the base keeps freed memory, and reserves the least if requests are multiples */
    TIDE_QUERY_KEPT = 25, /* bytes that the base was told to keep; layers do not trim it below that on their own */
};

struct tide_resource;

/* What lies below a layer: `resource` (borrowed) serves requests of up to `limit_bytes`. This struct never grows. */
struct tide_upstream {
    struct tide_resource *resource;
    uint64_t limit_bytes;
};

#define TIDE_RESOURCE_OPS_VERSION 1

/*
 * The operations of one kind of resource. Every operation must be set: where a layer changes nothing it names the
 * function tide_pass_*, and where a base has nothing to do, the function tide_base_*. The table must outlive all its
 * resources.
 *
 * Every operation may be called by any thread at any time, except destroy, which is called once and last. An operation
 * may call the resources below its own, never those above: they may be waiting for this very call to return.
 */
struct tide_resource_ops {
    uint32_t version;  /* TIDE_RESOURCE_OPS_VERSION */
    uint32_t reserved; /* 0 */
    const char *name;  /* the kind, as in stack text: "limit" */

    /*
     * Allocate at least `bytes` bytes at a multiple of `alignment` (a power of two; tide_allocate has checked that)
     * and put their address into *out. The memory may be used in the order of `stream`. 0 bytes succeed with NULL, and
     * count as an allocation. On failure *out is NULL and nothing has changed. A layer that counts or reserves does so
     * before it calls upstream, and undoes it if upstream fails.
     */
    enum tide_status (*allocate)(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream,
                                 void **out);

    /*
     * Free what allocate gave out for the same bytes and alignment, after the work submitted to `stream`. A layer that
     * knows its blocks forgets this one before it calls upstream: another thread may get the same address at once. On
     * failure the memory has not been freed.
     */
    enum tide_status (*deallocate)(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment,
                                   tide_stream stream);

    /*
     * Make the work that will be submitted to `later` wait for the work that was submitted to `earlier`, without
     * blocking the host. A layer calls it before it reuses a block on another stream. Bases without streams do nothing.
     *
     * With TIDE_STREAM_ALL as `earlier`: wait for the work of all streams of the device. The host may block until that
     * is done. A layer calls it before it frees memory whose last stream may be gone. A layer that keeps handles of
     * streams forgets those that it no longer needs. A layer over several resources orders all of them.
     */
    enum tide_status (*order)(struct tide_resource *self, tide_stream earlier, tide_stream later);

    /*
     * Give memory that is held and not handed out back to where it came from, until `keep_bytes` are reserved; then
     * have upstream do the same. Each layer keeps `keep_bytes` of its own. Less may be given back: a chunk with a live
     * block, and memory that a device is still using, stay.
     */
    enum tide_status (*trim)(struct tide_resource *self, uint64_t keep_bytes);

    /*
     * Answer tide_query. TIDE_EUNSUPPORTED and *out = 0 for what neither this resource nor one below it knows.
     *
     * While a `log` above a base that an application brings records, a thread of the library, named "tidemark-query",
     * also calls the base's query: for the bytes of the base and of its device, about every millisecond while there are
     * events. With TIDE_SAMPLES_OFF it does not. The query may take locks of the application, such as an interpreter's.
     * A thread that flushes, ends a recording, releases the resource or forks waits 0.1 s at most for such a query, so
     * it may hold the lock that the query waits for. After a release that did not wait to the end, the library keeps a
     * reference until the query has returned; then that thread calls destroy. A child of fork() inherits no lock that a
     * query had taken, unless the query takes longer than 0.1 s.
     */
    enum tide_status (*query)(struct tide_resource *self, enum tide_query what, uint64_t *out);

    /* Add the arguments to `text` as stack text reads them, without name and parentheses. */
    void (*describe)(struct tide_resource *self, struct tide_text *text);

    /*
     * Get the resources below, by index. The resource of index 0 serves every request that no other one serves. Returns
     * TIDE_EINVAL past the last resource, and for every index of a base.
     */
    enum tide_status (*upstream_at)(struct tide_resource *self, size_t index, struct tide_upstream *out);

    /* Give everything back, release upstream (tide_resource_fini does), and free the struct. */
    void (*destroy)(struct tide_resource *self);
};

/* The first member of every resource. `ops` and `upstream` may be read; only tide_resource_init writes them. */
struct tide_resource {
    const struct tide_resource_ops *ops;
    struct tide_resource *upstream; /* holds a reference; NULL for a base */
    uint64_t reserved[2];           /* the library's */
};

/*
 * Make *self a resource with one reference. For resources that an application brings.
 *
 * Borrows `ops` for the life of the resource. Holds a reference to `upstream` (NULL for a base). On failure *self is
 * unchanged.
 * Errors: TIDE_EINVAL (NULL, an operation is missing), TIDE_EUNSUPPORTED (a version that this library does not know).
 * Thread safety: any thread, on different resources. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_resource_init(struct tide_resource *self, const struct tide_resource_ops *ops,
                                                struct tide_resource *upstream);

/*
 * Release the upstream that tide_resource_init took. For destroy operations. Thread safety: the thread in destroy.
 * Since 0.1.
 */
TIDE_EXPORT void tide_resource_fini(struct tide_resource *self);

/* Take another reference; returns `resource`, which may be NULL. Thread safety: any thread. Since 0.1. */
TIDE_EXPORT struct tide_resource *tide_resource_retain(struct tide_resource *resource);

/*
 * Give back a reference. The last one destroys the resource and releases those below it. Memory that is still allocated
 * must not be used or freed afterwards. `resource` may be NULL. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT void tide_resource_release(struct tide_resource *resource);

/* The name of the kind, as in stack text. Borrowed; "" for NULL. Thread safety: any thread. Since 0.1. */
TIDE_EXPORT const char *tide_resource_name(const struct tide_resource *resource);

/*
 * Allocate `bytes` bytes from the stack under `resource`, at a multiple of `alignment` (a power of two). The memory may
 * be used in the order of `stream`. 0 bytes succeed with NULL, which may be given to tide_deallocate. On failure *out
 * is NULL.
 *
 * Errors: TIDE_EINVAL (NULL, alignment, TIDE_STREAM_ALL), TIDE_ESIGNAL (from a signal handler within another call), and
 * all that the layers return.
 * Thread safety: any thread, and signal handlers. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_allocate(struct tide_resource *resource, size_t bytes, size_t alignment,
                                           tide_stream stream, void **out);

/*
 * Free what tide_allocate gave out. `bytes` and `alignment` are those of the allocation. The memory may be reused after
 * the work submitted to `stream`.
 *
 * Errors: TIDE_EINVAL (NULL, alignment, TIDE_STREAM_ALL), TIDE_EPOINTER and TIDE_EMISMATCH from layers that know their
 * blocks, TIDE_ESIGNAL (after 100 frees from signal handlers within one call), and all else that the layers return. On
 * failure the memory has not been freed.
 * Thread safety: any thread, and signal handlers. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_deallocate(struct tide_resource *resource, void *pointer, size_t bytes,
                                             size_t alignment, tide_stream stream);

/*
 * Make the work that will be submitted to `later` wait for the work that was submitted to `earlier`, or to all streams
 * of the device (TIDE_STREAM_ALL, for which the host may block). The streams must exist.
 *
 * A program that destroys streams while it goes on using the stack calls tide_order(stack, TIDE_STREAM_ALL, 0) just
 * before, or just after and before it allocates again. Afterwards no layer names a stream that it was given before.
 *
 * Errors: TIDE_EINVAL (NULL, TIDE_STREAM_ALL as `later`), and what the layers return.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_order(struct tide_resource *resource, tide_stream earlier, tide_stream later);

/*
 * Have every layer of a stack give back memory that it holds and has not handed out, until it has `keep_bytes`
 * reserved. 0 gives back all that can be.
 *
 * Errors: TIDE_EINVAL (NULL), and what the layers return, such as TIDE_EDRIVER. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_trim(struct tide_resource *resource, uint64_t keep_bytes);

/*
 * Ask for a figure or a capability. The answer is that of the first layer from the top that knows it. On failure *out
 * is 0.
 *
 * Errors: TIDE_EINVAL (NULL), TIDE_EUNSUPPORTED (no layer knows it), TIDE_EDRIVER.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_query(struct tide_resource *resource, enum tide_query what, uint64_t *out);

/* Calls from signal handlers that had interrupted another call of the library, over all threads since the start. */
struct tide_interrupted_figures {
    size_t struct_size; /* TIDE_FIGURES */
    uint64_t refused;   /* calls that returned TIDE_ESIGNAL, and those of tide_tag_pop that did nothing */
    uint64_t deferred;  /* frees that the interrupted call made at its end */
    uint64_t failed;    /* of these, frees that failed: the message sink was told why, and the memory stays allocated */
};

/*
 * Read how often signal handlers have interrupted calls; see the top of this file.
 *
 * Errors: TIDE_EINVAL (NULL, struct_size). Thread safety: any thread; lock-free. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_interrupted_read(struct tide_interrupted_figures *out);

/*
 * Each calls the same operation of the upstream, for a layer that changes nothing there. tide_pass_describe adds no
 * arguments. tide_pass_upstream_at is for a layer with one upstream; it returns TIDE_EINVAL past index 0. Errors of the
 * others, and the thread safety of all: those of upstream's operation. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_pass_allocate(struct tide_resource *self, size_t bytes, size_t alignment,
                                                tide_stream stream, void **out);
TIDE_EXPORT enum tide_status tide_pass_deallocate(struct tide_resource *self, void *pointer, size_t bytes,
                                                  size_t alignment, tide_stream stream);
TIDE_EXPORT enum tide_status tide_pass_order(struct tide_resource *self, tide_stream earlier, tide_stream later);
TIDE_EXPORT enum tide_status tide_pass_trim(struct tide_resource *self, uint64_t keep_bytes);
TIDE_EXPORT enum tide_status tide_pass_query(struct tide_resource *self, enum tide_query what, uint64_t *out);
TIDE_EXPORT void tide_pass_describe(struct tide_resource *self, struct tide_text *text); /* adds nothing */
TIDE_EXPORT enum tide_status tide_pass_upstream_at(struct tide_resource *self, size_t index, struct tide_upstream *out);

/*
 * Operations of a base that has no streams, holds nothing back, knows no figures, and has no upstream. tide_base_order
 * and tide_base_trim do nothing and return TIDE_OK. tide_base_query returns TIDE_EUNSUPPORTED with *out = 0, and
 * tide_base_upstream_at returns TIDE_EINVAL. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_base_order(struct tide_resource *self, tide_stream earlier, tide_stream later);
TIDE_EXPORT enum tide_status tide_base_trim(struct tide_resource *self, uint64_t keep_bytes);
TIDE_EXPORT enum tide_status tide_base_query(struct tide_resource *self, enum tide_query what, uint64_t *out);
TIDE_EXPORT enum tide_status tide_base_upstream_at(struct tide_resource *self, size_t index, struct tide_upstream *out);

#ifdef __cplusplus
}
#endif
#endif
