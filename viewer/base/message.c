/* Writes messages for people on standard error. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "viewer/base/message.h"
#include "viewer/base/shown.h"

static _Thread_local bool message_is_held;

void
message_hold(bool held)
{
    message_is_held = held;
}

void
message_list(const char *format, va_list arguments)
{
    char *text = NULL;
    char *clean = vasprintf(&text, format, arguments) >= 0 ? shown_copy(text) : NULL;

    /* In one call, so that a line is one write. */
    if (!message_is_held)
        fprintf(stderr, "%s\n", clean != NULL ? clean : "tidemark: no memory for a message");
    free(clean);
    free(text);
}

void
message(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    message_list(format, arguments);
    va_end(arguments);
}
