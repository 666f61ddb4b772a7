/* Fills and reads the memory that a resource hands out, wherever it lies: by the host, or through the CUDA driver. */
#ifndef TIDEI_CUDA_MEMORY_IO_H
#define TIDEI_CUDA_MEMORY_IO_H

#include "src/cuda/device.h"
#include "src/resource/resource.h"

struct tidei_memory_io {
    struct tide_resource *resource; /* borrowed; whose memory it is */
    const char *subject;            /* static; of messages */
    bool host;                      /* the host does it itself */
#ifdef HAVE_CUDA_H
    struct tidei_device device; /* unless `host` */
#endif
};

/*
 * Find out how the memory of `resource` can be touched: through the driver where that hands it out in stream order, or
 * the host cannot reach it; else by the host. On failure there is nothing to close.
 * Errors: TIDE_EUNSUPPORTED (there is no memory, or it can be reached by neither), those of tidei_device_open.
 */
enum tide_status tidei_memory_io_open(struct tidei_memory_io *touch, const char *subject,
                                      struct tide_resource *resource);
void tidei_memory_io_close(struct tidei_memory_io *touch);

/* Set `bytes` bytes to `value`, in the order of `stream`. Errors: TIDE_EDRIVER. */
enum tide_status tidei_memory_io_fill(struct tidei_memory_io *touch, void *to, unsigned char value, size_t bytes,
                                      tide_stream stream);

/*
 * Wait on the host until what was submitted to `stream` is done; where the host touches the memory itself, until all
 * that was submitted to any stream is. Errors: TIDE_EDRIVER.
 */
enum tide_status tidei_memory_io_wait(struct tidei_memory_io *touch, tide_stream stream);

/* Copy to the host, in the order of `stream`: the bytes are there after tidei_memory_io_wait. Errors: TIDE_EDRIVER. */
enum tide_status tidei_memory_io_read(struct tidei_memory_io *touch, void *to, const void *from, size_t bytes,
                                      tide_stream stream);

/* Whether what is submitted to `stream` goes into a graph: then nothing of it can be waited for. */
bool tidei_memory_io_is_captured(struct tidei_memory_io *touch, tide_stream stream);

#endif
