/* retry: where upstream has no memory, have some made free and ask again. */
#ifndef TIDEMARK_RETRY_H
#define TIDEMARK_RETRY_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Called when upstream has failed a request with `status`, before the `retry`th time (from 1) that it is asked again:
 * on the thread whose request it is, without any lock held. It may call any function of the stack, also free, trim and
 * allocate. False: the request fails.
 */
typedef bool (*tide_retry_function)(void *context, size_t bytes, unsigned retry, enum tide_status status);

struct tide_retry_options {
    size_t struct_size;
    tide_retry_function function; /* NULL: what is said below */
    void *context;                /* borrowed for the life of the resource */
    uint32_t retries;             /* how often upstream is asked again, up to 1000; 0: twice */
    bool any;                     /* after any failure, not only where there is no memory */
    uint8_t reserved[3];          /* 0 */
};

struct tide_retry_figures {
    size_t struct_size;
    uint64_t failed; /* requests that upstream failed the first time, and that were asked again for */
    uint64_t served; /* of these, those that succeeded in the end */
};

/*
 * Where upstream fails with TIDE_ECAPACITY or TIDE_ELIMIT, call back and ask it again. Without a function of one's own,
 * what is below is trimmed (tide_trim to 0), and from the second time on it waits for the device before
 * (tide_order behind TIDE_STREAM_ALL; that fails while a stream is captured, whose capture is spoilt then), so that
 * what was freed in the order of any stream is free. `options` may be NULL.
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, more than 1000 retries), TIDE_ENOMEM. Its allocations: the last failure of upstream, its
 * words behind "retry: ".
 * Thread safety: any thread; wait-free but for what is called back. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_retry_create(struct tide_resource *upstream, const struct tide_retry_options *options,
                                               struct tide_resource **out);

/* Errors: TIDE_EINVAL (not a retry, NULL); then *out has zeros. Thread safety: any thread. Since 0.1. */
TIDE_EXPORT enum tide_status tide_retry_read(struct tide_resource *retry, struct tide_retry_figures *out);

#ifdef __cplusplus
}
#endif
#endif
