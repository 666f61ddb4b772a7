/* Keeps the buffers that CUPTI fills. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "src/trace/cupti/buffer.h"

/* CUPTI requests a buffer about every 6,000 events of a thread. From 64 KiB to 8 MiB the size made no difference. */
#define BUFFER_BYTES  ((size_t)1 << 20)
#define BUFFER_SPARES 64

/* A lock of their own, so that a thread that allocates never waits for one that reads a buffer. */
static pthread_mutex_t buffer_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *buffer_spares[BUFFER_SPARES];
static size_t buffer_count;

void
tidei_buffer_take(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer = NULL;
    pthread_mutex_lock(&buffer_lock);
    if (buffer_count > 0)
        *buffer = buffer_spares[--buffer_count];
    pthread_mutex_unlock(&buffer_lock);
    if (*buffer == NULL && posix_memalign((void **)buffer, 64, BUFFER_BYTES) == 0)
        memset(*buffer, 0, BUFFER_BYTES);
    *bytes = *buffer != NULL ? BUFFER_BYTES : 0;
    *most_records = 0;
}

void
tidei_buffer_give_back(uint8_t *buffer)
{
    /* Zeroed here, so that CUPTI need not do it on an application thread. */
    memset(buffer, 0, BUFFER_BYTES);
    pthread_mutex_lock(&buffer_lock);
    if (buffer_count < BUFFER_SPARES) {
        buffer_spares[buffer_count++] = buffer;
        buffer = NULL;
    }
    pthread_mutex_unlock(&buffer_lock);
    free(buffer);
}
