/* The list of all commands. */
#ifndef VIEWER_COMMANDS_COMMANDS_H
#define VIEWER_COMMANDS_COMMANDS_H

#include "viewer/cli/command.h"

/* In alphabetical order, one to a line. */
/* clang-format off */
#define COMMANDS(each) \
    each(check) \
    each(completion) \
    each(devices) \
    each(diff) \
    each(export) \
    each(failures) \
    each(fragmentation) \
    each(histogram) \
    each(import) \
    each(layers) \
    each(leaks) \
    each(merge) \
    each(metrics) \
    each(peak) \
    each(query) \
    each(ranks) \
    each(recommend) \
    each(recover) \
    each(replay) \
    each(report) \
    each(run) \
    each(stack) \
    each(summary) \
    each(timeline) \
    each(top) \
    each(watch)
/* clang-format on */

#define COMMANDS_DECLARE(name) extern const struct command command_##name;
COMMANDS(COMMANDS_DECLARE)
#undef COMMANDS_DECLARE

/* Fills an array of pointers to commands. */
#define COMMANDS_ENTRY(name) &command_##name,

#endif
