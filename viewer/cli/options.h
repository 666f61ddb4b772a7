/*
 * The options of a command: a const table that says what each is called, what it takes and where that goes; parsed,
 * explained and completed from the one table. Options that many commands take are in a table here.
 */
#ifndef VIEWER_CLI_OPTIONS_H
#define VIEWER_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/parse.h"
#include "viewer/output/report.h"
#include "viewer/read/filter.h"

struct command;

/* What an option takes, and the type at its offset. */
enum option_kind {
    OPTION_FLAG,     /* bool: nothing */
    OPTION_TEXT,     /* const char *, borrowed from argv */
    OPTION_LIST,     /* struct option_list: may be given again and again */
    OPTION_COUNT,    /* uint64_t */
    OPTION_SIZE,     /* uint64_t, bytes */
    OPTION_SHARE,    /* double */
    OPTION_DURATION, /* int64_t, ns */
    OPTION_MOMENT,   /* struct moment */
    OPTION_CHOICE,   /* int: the place of the word among the words of `choices` */
    OPTION_SET,      /* int: set to `value` by a flag */
};

struct option_def {
    const char *name; /* NULL ends a table */
    char letter;      /* 0: none */
    enum option_kind kind;
    const char *argument; /* its name in --help */
    const char *help;     /* a line, or several */
    size_t offset;        /* in the struct that the command gives */
    const char *choices;  /* "tag|size": OPTION_CHOICE */
    int value;            /* OPTION_SET */
};

/* Which of the common options a command takes. */
enum {
    OPTIONS_REPORT = 1, /* how it is printed */
    OPTIONS_FILTER = 2, /* which allocations count */
    OPTIONS_LIMIT = 4,  /* how many rows */
    OPTIONS_WINDOW = 8, /* of the filters the layer and the time alone, where all blocks of a pool have to count */
};

/* What the common options fill. */
struct view_options {
    struct report_options report;
    struct filter_options filter;
};

/* Nothing to return: go on. */
#define OPTIONS_GO (-1)

/*
 * Take the options of `self` out of argv: its own into `own`, which the caller has filled with their defaults, and the
 * common ones into `common`. OPTIONS_GO, with `optind` at the first argument; or an exit status, after the help or a
 * message.
 */
int options_parse(const struct command *self, int argc, char **argv, void *own, struct view_options *common);

/* As options_parse, and then exactly `count` arguments, called `what` ("trace") in a message. */
int options_parse_arguments(const struct command *self, int argc, char **argv, void *own, struct view_options *common,
                            int count, const char *what);

/* Print on standard output how `command` is used; for --help. Returns COMMAND_FINE. */
int command_help(const struct command *command);

/* Call `each` for every option of a command, its own first. */
void options_each(const struct command *command, void (*each)(void *context, const struct option_def *def),
                  void *context);

/* Whether it takes a value. */
bool options_has_argument(const struct option_def *def);

#endif
