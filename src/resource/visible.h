/*
 * Which characters of a text from elsewhere are shown as they are, and what stands for the others: a name must not send
 * escape sequences to a terminal, change the order of what is beside it, or hide a part of itself.
 *
 * Escaped are bytes that are no UTF-8, control characters, line and paragraph separators, the controls of text in two
 * directions, what renders as nothing (Default_Ignorable_Code_Point of Unicode and the blank braille pattern),
 * interlinear annotations, and the code points that are private or no characters.
 */
#ifndef TIDEI_RESOURCE_VISIBLE_H
#define TIDEI_RESOURCE_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at the start of a text. */
struct tidei_visible {
    uint32_t code; /* the byte, where it begins no character */
    uint8_t bytes; /* of the text, 1 to 4 */
    bool is_utf8;
    bool is_plain; /* shown as it is */
};

/* The longest escape, "\U000e0001", with the terminating zero. */
#define TIDEI_VISIBLE_ESCAPE 11

/* `length` is at least 1. */
struct tidei_visible tidei_visible_at(const char *text, size_t length);

/* What is shown in place of the character: "\x1b" for a byte, else "\u202e" or "\U000e0001". Returns its length. */
size_t tidei_visible_escape(struct tidei_visible character, char out[TIDEI_VISIBLE_ESCAPE]);

/* Copy a text as it is shown. Where it does not fit it ends early, behind a whole character or escape. */
void tidei_visible_copy(const char *text, char *out, size_t capacity);

#endif
