/*
 * Messages: the text of a thread's last error, and a function of the application that gets messages about what no
 * return value can report.
 */
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
 * The text of the calling thread's last failure: subject, fact and numbers, such as
 * "limit: 64 MiB request exceeds 1 GiB limit (1008 MiB in use)". "" before the first failure; never NULL.
 *
 * In names within the text, control characters, bytes that are not UTF-8, and characters that reverse text or are
 * invisible are escaped: "\x1b", "\u202e", "\U000e0041".
 *
 * Borrowed: valid until the next call on this thread that fails, and no longer than the thread.
 * Thread safety: any thread; each thread has its own text. Since 0.1.
 */
TIDE_EXPORT const char *tide_error_text(void);

/*
 * Copy the text of the calling thread's last failure into `text`, which has room for `capacity` bytes, so that it can
 * be read on another thread or later. This is for runtimes that move a task from one thread to another: call it on the
 * thread that made the failing call, before the task can move.
 *
 * Returns the length without the NUL, as snprintf does: where that is `capacity` or more, the text was cut. The copy
 * always ends in a NUL, unless `capacity` is 0; then `text` may be NULL. The length is always below
 * TIDE_ERROR_TEXT_BYTES.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT size_t tide_error_copy(char *text, size_t capacity);

/*
 * The CUresult of the calling thread's last failed call of the CUDA driver; 0 if there was none.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT int tide_error_driver(void);

/*
 * Set the text of the calling thread's last failure and return `status`. For resources that an application brings:
 * `return tide_error_set(TIDE_ECAPACITY, "slab: no block of %zu bytes left", bytes);`
 * Text longer than TIDE_ERROR_TEXT_BYTES - 1 bytes is cut.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_error_set(enum tide_status status, const char *format, ...) TIDE_PRINTF(2, 3);

/* How severe a message is. */
enum tide_severity {
    TIDE_NOTE = 0,    /* good to know */
    TIDE_WARNING = 1, /* the library goes on, with less than was asked for */
    TIDE_ERROR = 2,   /* something has ended, such as a recording because the disk is full */
};

/* `text` is borrowed for the call, and escaped as tide_error_text() is. */
typedef void (*tide_message_function)(void *context, enum tide_severity severity, const char *text);

/*
 * Set the message sink: `function` gets a message about each event outside of any call, such as a recording that ends
 * because the disk is full. The library never prints; without a sink such messages are dropped. NULL removes the sink.
 *
 * `context` is borrowed until another sink is set. The function may be called from any thread, also from the library's
 * own, and by several threads at once. It must not call the library. When tide_message_sink_set returns, the former
 * sink is no longer called.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT void tide_message_sink_set(tide_message_function function, void *context);

#ifdef __cplusplus
}
#endif
#endif
