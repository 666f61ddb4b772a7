/* How a command says how it is used. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "viewer/cli/command.h"
#include "viewer/cli/options.h"
#include "viewer/base/output.h"

int
command_help(const struct command *command)
{
    printf("Usage: tidemark %s %s\n%s.\n\n", command->name, command->arguments, command->purpose);
    options_help(command);
    fputs(command->help, stdout);
    return output_finish(COMMAND_FINE);
}

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
