/* Fills and reads the memory of a resource, wherever it lies: from the host, or through the CUDA driver. */
#ifndef TIDEI_CUDA_MEMORY_IO_H
#define TIDEI_CUDA_MEMORY_IO_H

#include "src/cuda/device.h"
#include "src/resource/resource.h"

struct tidei_memory_io {
    struct tide_resource *resource; /* borrowed; hands out the memory */
    const char *subject;            /* static; for messages */
    bool host;                      /* the host accesses the memory directly */
#ifdef HAVE_CUDA_H
    struct tidei_device device; /* unless `host` */
#endif
};

/*
 * Choose how to access the memory of `resource`: through the driver if it is handed out in stream order, or the host
 * cannot reach it; else from the host. On failure there is nothing to close. Errors: TIDE_EUNSUPPORTED (there is no
 * memory, or neither can reach it), those of tidei_device_open.
 */
enum tide_status tidei_memory_io_open(struct tidei_memory_io *io, const char *subject, struct tide_resource *resource);
void tidei_memory_io_close(struct tidei_memory_io *io);

/* Set `bytes` bytes to `value`, in the order of `stream`. Errors: TIDE_EDRIVER. */
enum tide_status tidei_memory_io_fill(struct tidei_memory_io *io, void *to, unsigned char value, size_t bytes,
                                      tide_stream stream);

/*
 * Wait on the host until all work submitted to `stream` is done; if the host accesses the memory directly, until the
 * work of all streams is. Errors: TIDE_EDRIVER.
 */
enum tide_status tidei_memory_io_wait(struct tidei_memory_io *io, tide_stream stream);

/* Copy to the host, in the order of `stream`; the copy is complete after tidei_memory_io_wait. Errors: TIDE_EDRIVER. */
enum tide_status tidei_memory_io_read(struct tidei_memory_io *io, void *to, const void *from, size_t bytes,
                                      tide_stream stream);

/* Whether `stream` is being captured into a graph: then its work cannot be waited for. */
bool tidei_memory_io_is_captured(struct tidei_memory_io *io, tide_stream stream);

#endif
