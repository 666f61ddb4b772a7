/*
 * callback: a base that calls functions of the application, for memory that a program gets elsewhere.
 *
 * This is the short way to bring a base of one's own. examples/own-resource.c shows the full way.
 */
#ifndef TIDEMARK_CALLBACK_H
#define TIDEMARK_CALLBACK_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The application's functions. Each does what struct tide_resource_ops says of the operation of its name, for sizes
 * above 0. It sets the words for its failures with tide_error_set, and may be called by several threads at once.
 */
typedef enum tide_status (*tide_callback_allocate_function)(void *context, size_t bytes, size_t alignment,
                                                            tide_stream stream, void **out);
typedef enum tide_status (*tide_callback_deallocate_function)(void *context, void *pointer, size_t bytes,
                                                              size_t alignment, tide_stream stream);
typedef enum tide_status (*tide_callback_order_function)(void *context, tide_stream earlier, tide_stream later);

/* Called once, when the resource is destroyed, after every other call. */
typedef void (*tide_callback_destroy_function)(void *context);

struct tide_callback_options {
    size_t struct_size; /* TIDE_OPTIONS */
    tide_callback_allocate_function allocate;
    tide_callback_deallocate_function deallocate;
    tide_callback_order_function order;     /* NULL: there are no streams to order */
    tide_callback_destroy_function destroy; /* NULL: there is nothing to do */
    void *context;                          /* borrowed for the life of the resource */
    int32_t device;                         /* CUDA ordinal; only read where on_device is set */
    bool on_device;                         /* the memory lies on `device` */
    bool host_access;                       /* the host may read and write the memory */
    bool stream_ordered;                    /* allocations and deallocations follow their streams; needs `order` */
    uint8_t reserved[1];                    /* 0 */
};

/*
 * Create a base over functions of the application. It counts the bytes outstanding. Stack text cannot name it.
 *
 * A request of 0 bytes succeeds with NULL and calls no function. Where `allocate` succeeds with NULL or with an
 * unaligned address, which is given back, the request fails with TIDE_EUPSTREAM.
 *
 * `options` is required. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL; no allocate or deallocate; stream_ordered without order; a negative device), TIDE_ENOMEM.
 * Errors of its allocations: what the function returns, TIDE_EUPSTREAM, TIDE_EOVERFLOW. Of its deallocations: what the
 * function returns, TIDE_EPOINTER (NULL).
 * Thread safety: any thread. Takes no lock. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_callback_create(const struct tide_callback_options *options,
                                                  struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
