/* Keeps the zeroed buffers that CUPTI fills with records, and reuses them. */
#ifndef TIDEI_TRACE_CUPTI_BUFFER_H
#define TIDEI_TRACE_CUPTI_BUFFER_H

#include <stddef.h>
#include <stdint.h>

/* CUPTI's buffer request, on an application thread. *buffer is NULL without host memory. Any thread. */
void tidei_buffer_take(uint8_t **buffer, size_t *bytes, size_t *most_records);

/* Zero a buffer and keep it for the next request. Any thread. */
void tidei_buffer_give_back(uint8_t *buffer);

#endif
