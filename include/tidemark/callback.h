/* callback: an application's two functions as a resource. */
#ifndef TIDEMARK_CALLBACK_H
#define TIDEMARK_CALLBACK_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Put the address of `bytes` bytes (more than 0) at a multiple of `alignment` into *out, and take them back. What they
 * have to do is what struct tide_resource_ops says of allocate and deallocate; they set the words for a failure with
 * tide_error_set, and may be called from several threads at once.
 */
typedef enum tide_status (*tide_callback_allocate_function)(void *context, size_t bytes, size_t alignment,
                                                            tide_stream stream, void **out);
typedef enum tide_status (*tide_callback_deallocate_function)(void *context, void *pointer, size_t bytes,
                                                              size_t alignment, tide_stream stream);
typedef enum tide_status (*tide_callback_order_function)(void *context, tide_stream earlier, tide_stream later);

typedef void (*tide_callback_destroy_function)(void *context);

struct tide_callback_options {
    size_t struct_size;
    tide_callback_allocate_function allocate;
    tide_callback_deallocate_function deallocate;
    tide_callback_order_function order;     /* NULL: there are no streams to order */
    tide_callback_destroy_function destroy; /* called once and last, when the resource goes; NULL: nothing to be done */
    void *context;                          /* borrowed for the life of the resource */
    int32_t device;                         /* CUDA ordinal */
    bool on_device;                         /* the memory lies on `device` */
    bool host_access;                       /* the host may read and write the memory */
    bool stream_ordered;                    /* memory is handed out and taken back in stream order; with `order` */
    uint8_t reserved[1];                    /* 0 */
};

/*
 * Create a base over two functions: for memory that a program gets elsewhere, without a table of operations of its own
 * (examples/own-resource.c has one). It counts the bytes outstanding. An application's resource is none of stack text.
 *
 * Errors: TIDE_EINVAL (NULL, no functions, stream_ordered without an order, a device below 0), TIDE_ENOMEM. Its
 * allocations: what the function returns, TIDE_EUPSTREAM where that is success with NULL or an address of another
 * alignment, which is given back; TIDE_EOVERFLOW. Its deallocations: what the function returns; TIDE_EPOINTER (NULL).
 * Thread safety: any thread; each counts for itself. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_callback_create(const struct tide_callback_options *options,
                                                  struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
