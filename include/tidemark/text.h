/* A text buffer of limited size, into which resources write their descriptions. */
#ifndef TIDEMARK_TEXT_H
#define TIDEMARK_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <tidemark/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The caller owns `data`, which has room for `capacity` bytes, and sets `length` to 0. After the first addition `data`
 * always ends in a NUL. `length` counts all bytes that were added, without the NUL: if it is `capacity` or more, the
 * text was cut. `data` may be NULL if `capacity` is 0: then only the length is counted. Only one thread at a time may
 * use a buffer.
 */
struct tide_text {
    char *data;
    size_t capacity;
    size_t length;
};

/* Add formatted text, as printf formats it. Thread safety: any thread, on different buffers. Since 0.1. */
TIDE_EXPORT void tide_text_format(struct tide_text *text, const char *format, ...) TIDE_PRINTF(2, 3);

/*
 * Add a size in bytes that stack text reads back exactly: 4GiB, 1536MiB, 1000.
 * Thread safety: any thread, on different buffers. Since 0.1.
 */
TIDE_EXPORT void tide_text_size(struct tide_text *text, uint64_t bytes);

/* Add a word of stack text, in quotes if it needs them. Thread safety: any thread, on different buffers. Since 0.1. */
TIDE_EXPORT void tide_text_word(struct tide_text *text, const char *word);

#ifdef __cplusplus
}
#endif
#endif
