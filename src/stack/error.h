/* Error messages about stack text. */
#ifndef TIDEI_STACK_ERROR_H
#define TIDEI_STACK_ERROR_H

#include "src/resource/kind.h"
#include "src/stack/lex.h"

/*
 * Set the thread's error text to one line, "stack text, column 7: limit: " followed by the formatted text (`layer`
 * NULL: no layer), and return TIDE_ESYNTAX.
 */
enum tide_status tidei_stack_fail(unsigned column, const char *layer, const char *format, ...) TIDE_PRINTF(3, 4);

/* The same for another status; the formatted text begins with its own subject. */
enum tide_status tidei_stack_fail_status(enum tide_status status, unsigned column, const char *format, ...)
    TIDE_PRINTF(3, 4);

/* A token as messages show it: '|', 'word', the end of the text. Writes at most `capacity` bytes to `buffer`. */
const char *tidei_stack_show(const struct stack_token *token, char *buffer, size_t capacity);

/* List the kind's keys in `buffer`: "a", "a or b", "a, b or c". */
const char *tidei_stack_show_keys(const struct tidei_kind *kind, char *buffer, size_t capacity);

/* The same for choices that end in NULL. */
const char *tidei_stack_show_choices(const char *const *choices, char *buffer, size_t capacity);

/* The same for the names of all kinds, which end in NULL. */
const char *tidei_stack_show_kinds(const struct tidei_kind *const *kinds, char *buffer, size_t capacity);

/*
 * Write "; did you mean limit?" to `buffer` if `word` is close to a name: a typing slip, other capitals, or letters
 * left out. Else write "". `name_at` returns the names one by one, then NULL.
 */
const char *tidei_stack_hint(const char *word, const char *(*name_at)(const void *names, size_t index),
                             const void *names, char *buffer, size_t capacity);

#endif
