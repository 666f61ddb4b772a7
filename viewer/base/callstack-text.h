/* Call stacks, as names.h writes them, for people: "innermost (file:line) < ... < outermost". */
#ifndef VIEWER_BASE_CALLSTACK_TEXT_H
#define VIEWER_BASE_CALLSTACK_TEXT_H

#include <stddef.h>

/*
 * The text without the folders of files, frames that call themselves once with their number, and of more than `frames`
 * the innermost alone. What is no call stack stays as it is, as it has no frames that are told apart. To be freed;
 * NULL: no memory.
 */
char *stack_text_short(const char *text, size_t frames);

/*
 * Its two innermost frames, short, into `buffer` as far as they fit. Returns that, or the text where there is no
 * memory.
 */
const char *stack_text_brief(const char *text, char *buffer, size_t size);

/*
 * The text in lines of at most `width` bytes, broken in front of frames where that is possible, and no more than
 * `lines` of them, the last with "..." at its end. To be freed; NULL: no memory.
 */
char *stack_text_wrap(const char *text, size_t width, size_t lines);

#endif
