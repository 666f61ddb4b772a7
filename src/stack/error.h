/* Words for what is wrong with stack text. */
#ifndef TIDEI_STACK_ERROR_H
#define TIDEI_STACK_ERROR_H

#include "src/resource/kind.h"
#include "src/stack/lex.h"

/*
 * Set the thread's error text to one line, "stack text, column 7: limit: " and what `format` makes (`layer` NULL: no
 * layer), and return TIDE_ESYNTAX.
 */
enum tide_status tidei_stack_fail(unsigned column, const char *layer, const char *format, ...) TIDE_PRINTF(3, 4);

/* The same for another status, whose words begin with their subject. */
enum tide_status tidei_stack_fail_status(enum tide_status status, unsigned column, const char *format, ...)
    TIDE_PRINTF(3, 4);

/* A token as messages show it: '|', 'word', the end of the text. At most `capacity` bytes into `buffer`. */
const char *tidei_stack_show(const struct stack_token *token, char *buffer, size_t capacity);

/* "a", "a or b", "a, b or c" into `buffer`, of the kind's keys. */
const char *tidei_stack_show_keys(const struct tidei_kind *kind, char *buffer, size_t capacity);

/* The same of the choices, which end in NULL. */
const char *tidei_stack_show_choices(const char *const *choices, char *buffer, size_t capacity);

/* The same of the names of all kinds, which end in NULL. */
const char *tidei_stack_show_kinds(const struct tidei_kind *const *kinds, char *buffer, size_t capacity);

/*
 * "; did you mean limit?", in `buffer`, of the name that `word` is but for a slip of the fingers, a capital or letters
 * left out; "" where it is none. `name_at` gives one after the other, then NULL.
 */
const char *tidei_stack_hint(const char *word, const char *(*name_at)(const void *names, size_t index),
                             const void *names, char *buffer, size_t capacity);

#endif
