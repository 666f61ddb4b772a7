/* What a command of `tidemark` is. */
#ifndef VIEWER_CLI_COMMAND_H
#define VIEWER_CLI_COMMAND_H

#include <stddef.h>

#include "viewer/base/exit-status.h"

struct option_def;

/* One const entry for each command, in a file of its own; main.c has the table. */
struct command {
    const char *name;
    const char *arguments;            /* what follows the name: "[--json] TRACE" */
    const char *purpose;              /* one line, for the list of commands */
    const char *help;                 /* what is said after the options, for --help; "" where that is all */
    const struct option_def *options; /* those of options.h, of its own; NULL: it parses its arguments itself */
    unsigned common;                  /* OPTIONS_*: which of the common options it takes besides */
    int (*run)(const struct command *self, int argc, char **argv);
};

extern const struct command command_check;
extern const struct command command_completion;
extern const struct command command_devices;
extern const struct command command_diff;
extern const struct command command_export;
extern const struct command command_failures;
extern const struct command command_fragmentation;
extern const struct command command_histogram;
extern const struct command command_import;
extern const struct command command_layers;
extern const struct command command_leaks;
extern const struct command command_peak;
extern const struct command command_query;
extern const struct command command_recover;
extern const struct command command_replay;
extern const struct command command_summary;
extern const struct command command_timeline;
extern const struct command command_top;

/* All commands, in alphabetical order. */
const struct command *const *command_list(size_t *count);

/* Print how `command` is used on standard output; for --help. Returns COMMAND_FINE. */
int command_help(const struct command *command);

/* Say on standard error that `command` was used in a wrong way, and why. Returns COMMAND_WRONG. */
int command_misused(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
