/* A bounded text buffer that resources describe themselves into. */
#ifndef TIDEMARK_TEXT_H
#define TIDEMARK_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <tidemark/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * `data` (owned by the caller, `capacity` bytes) always ends in a NUL once something was added; `length` counts
 * all that was added, so that length >= capacity says that the text was cut, as with snprintf.
 */
struct tide_text {
    char *data;
    size_t capacity;
    size_t length;
};

/* Add formatted text. Since 0.1. */
TIDE_EXPORT void tide_text_format(struct tide_text *text, const char *format, ...) TIDE_PRINTF(2, 3);

/* Add a size that stack text reads back to the very byte: 4GiB, 1536MiB, 1000. Since 0.1. */
TIDE_EXPORT void tide_text_size(struct tide_text *text, uint64_t bytes);

/* Add a word of stack text, in quotes where it needs them. Since 0.1. */
TIDE_EXPORT void tide_text_word(struct tide_text *text, const char *word);

#ifdef __cplusplus
}
#endif
#endif
