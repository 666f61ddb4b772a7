/* Reports wrong use of a command. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "viewer/cli/command.h"

int
command_misused(const struct command *command, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "tidemark %s: ", command->name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nUsage: tidemark %s %s\n", command->name, command->arguments);
    return COMMAND_WRONG;
}
