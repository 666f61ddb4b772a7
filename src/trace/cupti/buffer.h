/* The buffers that CUPTI fills with records: zeroed, and used again. */
#ifndef TIDEI_TRACE_CUPTI_BUFFER_H
#define TIDEI_TRACE_CUPTI_BUFFER_H

#include <stddef.h>
#include <stdint.h>

/* As CUPTI asks for one, on a thread that allocates; *buffer is NULL where host memory is short. Any thread. */
void tidei_buffer_take(uint8_t **buffer, size_t *bytes, size_t *most_records);

/* Zero a buffer and keep it for the next caller. Any thread. */
void tidei_buffer_give_back(uint8_t *buffer);

#endif
