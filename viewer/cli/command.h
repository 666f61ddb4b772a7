/* The description of a command of `tidemark`. */
#ifndef VIEWER_CLI_COMMAND_H
#define VIEWER_CLI_COMMAND_H

#include <stddef.h>

#include "viewer/base/exit-status.h"

struct option_def;

/* One const entry for each command, in a file of its own. */
struct command {
    const char *name;
    const char *arguments;            /* for the usage line: "[--json] TRACE" */
    const char *purpose;              /* one line, for the list of commands */
    const char *help;                 /* the end of --help, after the options; may be "" */
    const struct option_def *options; /* the command's own options; NULL: it parses its arguments itself */
    unsigned common;                  /* OPTIONS_*: the common options that it also takes */
    void (*list)(void);               /* prints a list after `help`; NULL: no list */

    /* Further tables of the command's own options: `place` counts from 0, NULL ends them. NULL: there are none. */
    const struct option_def *(*more_options)(size_t place);
    int (*run)(const struct command *self, int argc, char **argv);
};

/* Report wrong use of `command` on standard error. Returns COMMAND_WRONG. */
int command_misused(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
