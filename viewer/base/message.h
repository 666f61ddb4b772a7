/* Messages for people on standard error. No other file of the command writes there, but for the line of progress. */
#ifndef VIEWER_BASE_MESSAGE_H
#define VIEWER_BASE_MESSAGE_H

#include <stdarg.h>
#include <stdbool.h>

/*
 * Write a message as a line of its own, without a line end in `format`. What an argument brings from elsewhere is
 * escaped as shown_put escapes it, so that a name with a line end makes no second line.
 */
void message(const char *format, ...) __attribute__((format(printf, 1, 2)));
void message_list(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));

/* Drop the messages of this thread from now on, or no longer: what it does is done again where it fails. */
void message_hold(bool held);

#endif
