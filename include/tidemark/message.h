/* A thread's last error in words, and the sink for what no return value can tell. */
#ifndef TIDEMARK_MESSAGE_H
#define TIDEMARK_MESSAGE_H

#include <stddef.h>

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for any error text, its NUL included. */
#define TIDE_ERROR_TEXT_BYTES 512

/*
 * The words for this thread's last failure: subject, fact, numbers, unit, such as
 * "limit: 64 MiB request exceeds 1 GiB limit (1008 MiB in use)". "" before the first failure.
 *
 * Borrowed: valid until the thread's next failing call. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT const char *tide_error_text(void);

/*
 * Copy the words for the calling thread's last failure into `text`, which has room for `capacity` bytes, so that they
 * can be read on another thread or later. For runtimes that move a task from one thread to another: call it on the
 * thread that made the failing call, before the task can move.
 *
 * Returns the length without the NUL, as snprintf does: where that is `capacity` or more, the text was cut. The text
 * always ends in a NUL, unless `capacity` is 0; then `text` may be NULL. No text is longer than
 * TIDE_ERROR_TEXT_BYTES - 1.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT size_t tide_error_copy(char *text, size_t capacity);

/* The CUresult of this thread's last failed driver call; 0 where there was none. Since 0.1. */
TIDE_EXPORT int tide_error_driver(void);

/*
 * Set this thread's last failure and return `status`, for resources that an application brings:
 * `return tide_error_set(TIDE_ECAPACITY, "slab: no block of %zu bytes left", bytes);`
 * Text past 511 bytes is cut. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_error_set(enum tide_status status, const char *format, ...) TIDE_PRINTF(2, 3);

enum tide_severity {
    TIDE_NOTE = 0,    /* worth knowing */
    TIDE_WARNING = 1, /* works on, with less than was asked for */
    TIDE_ERROR = 2,   /* something has ended, such as a recording on a full disk */
};

typedef void (*tide_message_function)(void *context, enum tide_severity severity, const char *text);

/*
 * Have `function`, the sink, called with what happens outside of any call, such as a recording that ends because the
 * disk is full. The library never prints; without a sink such messages are dropped. NULL removes the sink.
 *
 * `context` is borrowed until another sink is set. The sink may be called from any thread, also from the
 * library's own, by several at once, and must not call back into the library; once this function returns, the
 * sink of before is not called any more.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT void tide_message_sink_set(tide_message_function function, void *context);

#ifdef __cplusplus
}
#endif
#endif
