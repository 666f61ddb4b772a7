/* Shortens and wraps the text of call stacks from names.h: "innermost (file:line) < ... < outermost". */
#ifndef VIEWER_BASE_CALLSTACK_TEXT_H
#define VIEWER_BASE_CALLSTACK_TEXT_H

#include <stddef.h>

/* The length of the first frame of `text`; *next is the frame after it, or NULL. */
size_t stack_text_frame(const char *text, const char **next);

/*
 * Shorten a call stack: drop the folders of files, write a recursive frame once with its count, and keep only the
 * `frames` innermost frames. Text that is not a call stack stays unchanged. The caller frees the result; NULL: no
 * memory.
 */
char *stack_text_short(const char *text, size_t frames);

/*
 * Write the two innermost frames, shortened, into `buffer`, and truncate them to `size`. Returns `buffer`, or `text`
 * if there is no memory.
 */
const char *stack_text_brief(const char *text, char *buffer, size_t size);

/*
 * Wrap the text into at most `lines` lines of at most `width` bytes. Lines break before a frame where possible; a text
 * that is cut off ends with "...". The caller frees the result; NULL: no memory.
 */
char *stack_text_wrap(const char *text, size_t width, size_t lines);

#endif
