/* What a command of `tidemark` is. */
#ifndef VIEWER_CLI_COMMAND_H
#define VIEWER_CLI_COMMAND_H

#include <stddef.h>

#include "viewer/base/exit-status.h"

struct option_def;

/* One const entry for each command, in a file of its own. */
struct command {
    const char *name;
    const char *arguments;            /* what follows the name: "[--json] TRACE" */
    const char *purpose;              /* one line, for the list of commands */
    const char *help;                 /* what is said after the options, for --help; "" where that is all */
    const struct option_def *options; /* those of options.h, of its own; NULL: it parses its arguments itself */
    unsigned common;                  /* OPTIONS_*: which of the common options it takes besides */
    void (*list)(void);               /* prints for --help what `help` announces; NULL: nothing */

    /* Further tables of its own options, by number from 0; NULL behind the last. NULL: there are none. */
    const struct option_def *(*more_options)(size_t place);
    int (*run)(const struct command *self, int argc, char **argv);
};

/* Say on standard error that `command` was used in a wrong way, and why. Returns COMMAND_WRONG. */
int command_misused(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
