/* limit: refuses requests that would exceed a number of bytes or of allocations. */
#ifndef TIDEMARK_LIMIT_H
#define TIDEMARK_LIMIT_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Called each time that the bytes outstanding rise from soft_limit_bytes or less to more: on the thread that made the
 * request, before upstream is asked, without any lock held. `used_bytes` includes the request. The function may call
 * any function on the stack, and may allocate, free and trim.
 */
typedef void (*tide_soft_limit_function)(void *context, uint64_t used_bytes, uint64_t soft_limit_bytes);

/* At least one of limit_bytes and limit_count must be given. */
struct tide_limit_options {
    size_t struct_size;                /* TIDE_OPTIONS */
    uint64_t limit_bytes;              /* the most bytes outstanding; 0: no bound; TIDE_NONE: only requests of 0 pass */
    uint64_t alignment;                /* power of two that each request is rounded up to; 0: 256, as RMM does */
    uint64_t limit_count;              /* the most allocations outstanding, those of 0 bytes included; 0: no bound */
    uint64_t soft_limit_bytes;         /* at most limit_bytes; 0: no soft limit */
    tide_soft_limit_function function; /* for the soft limit; NULL: a warning goes to the message sink */
    void *context;                     /* borrowed for the life of the resource */
    const char *budget; /* copied; all limits of this process with the same name count together; NULL: on its own */
    /*
     * Copied. All limits with the same name in processes of this user on this machine count together. The name is a
     * word for a file in /dev/shm, or the path of a file, which begins with '/', to share the budget among containers.
     * NULL: the limit counts in this process only. With `shared`, limit_count, soft_limit_bytes and budget must be 0.
     */
    const char *shared;
};

struct tide_limit_figures {
    size_t struct_size;  /* TIDE_FIGURES */
    uint64_t used_bytes; /* bytes that count against the limit now, of the whole budget */
    uint64_t used_count; /* allocations that count against the limit now, of the whole budget; 0: it is shared */
    uint64_t own_bytes;  /* the part of used_bytes that this process has */
    uint64_t processes;  /* number of processes that share the budget, this one included */
};

/*
 * Create a layer that refuses requests (TIDE_ELIMIT) which would take the bytes outstanding through `upstream` past
 * limit_bytes, or the allocations past limit_count.
 *
 * A refused request never reaches upstream. A request that fits is never refused, whatever other threads do at the same
 * time. All limits that share a budget must have the same limit_bytes, limit_count and soft_limit_bytes. The budget
 * ends with the last of them.
 *
 * Both promises also hold among processes that name the same `shared` budget. When a process ends, its bytes count no
 * longer, whether it exits, is killed at any moment, or executes another program. The first process sets limit_bytes.
 *
 * Holds a reference to `upstream`. `options` is required. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL; no bound; an alignment that is not a power of two; a soft limit over the limit; bounds
 * other than those of the budget; a shared budget that is another user's), TIDE_ENOMEM. With `shared` also TIDE_EIO,
 * TIDE_EFORMAT (no file of a shared budget), TIDE_EBUSY (more than 256 processes) and TIDE_EUNSUPPORTED (a file system
 * without locks of open files).
 * Errors of its allocations: TIDE_ELIMIT, TIDE_EOVERFLOW, TIDE_EIO (the file of a shared budget can no longer be
 * locked, for instance because the program has closed all descriptors), and what upstream returns. Of its
 * deallocations: TIDE_EMISMATCH (more bytes than are outstanding; noticed only while a single thread uses the layer,
 * and not in a shared budget).
 * Thread safety: any thread. Wait-free while a thread stays within its share of the free bytes, which it takes in
 * advance (in a shared budget: lock-free); else takes a short lock. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_limit_create(struct tide_resource *upstream, const struct tide_limit_options *options,
                                               struct tide_resource **out);

/*
 * Read what is outstanding, all figures at one moment. On failure they are zeros.
 * Errors: TIDE_EINVAL (not a limit resource, NULL, struct_size).
 * Thread safety: any thread. Stops all threads that use the limit for some microseconds. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_limit_read(struct tide_resource *limit, struct tide_limit_figures *out);

#ifdef __cplusplus
}
#endif
#endif
