/* retry: if upstream has no memory, has some freed (by a trim, or by a function of the application) and asks again. */
#ifndef TIDEMARK_RETRY_H
#define TIDEMARK_RETRY_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Called before upstream is asked again for `bytes` bytes, which it refused with `status`. `retry` counts from 1. The
 * call is made on the thread that made the request, without any lock held. The function may call any function on the
 * stack, and may allocate, free and trim. If it returns false, the request fails.
 */
typedef bool (*tide_retry_function)(void *context, size_t bytes, unsigned retry, enum tide_status status);

struct tide_retry_options {
    size_t struct_size;           /* TIDE_OPTIONS */
    tide_retry_function function; /* NULL: trim and wait, as tide_retry_create says */
    void *context;                /* borrowed for the life of the resource */
    uint32_t retries;             /* how often upstream is asked again, up to 1000; 0: 2 */
    bool any;                     /* after any failure, not only TIDE_ECAPACITY and TIDE_ELIMIT */
    uint8_t reserved[3];          /* 0 */
};

struct tide_retry_figures {
    size_t struct_size; /* TIDE_FIGURES */
    uint64_t failed;    /* requests that upstream refused the first time, and that were asked for again */
    uint64_t served;    /* requests of these that succeeded in the end */
};

/*
 * Create a layer that asks `upstream` again if it failed with TIDE_ECAPACITY or TIDE_ELIMIT.
 *
 * Without a function it trims all layers below before each retry (tide_trim to 0). From the second retry on it also
 * waits until the device has done all its work (tide_order behind TIDE_STREAM_ALL), so that memory that was freed in
 * the order of any stream is free. That wait fails while a stream is captured, and invalidates the capture.
 *
 * Holds a reference to `upstream`. `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, more than 1000 retries), TIDE_ENOMEM. Errors of its allocations: the last failure of
 * upstream, whose error text follows "retry: ".
 * Thread safety: any thread. Wait-free, except for the function. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_retry_create(struct tide_resource *upstream, const struct tide_retry_options *options,
                                               struct tide_resource **out);

/*
 * Read the figures of a retry resource. On failure they are zeros.
 * Errors: TIDE_EINVAL (not a retry resource, NULL, struct_size). Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_retry_read(struct tide_resource *retry, struct tide_retry_figures *out);

#ifdef __cplusplus
}
#endif
#endif
