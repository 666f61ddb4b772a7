/*
 * The options of commands. A command describes its options in a const table: name, argument and destination. Parsing,
 * --help and shell completion all use that table. The options that many commands share are in tables in options.c.
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

/* The argument of an option, and the type at its offset. */
enum option_kind {
    OPTION_FLAG,   /* bool; no argument */
    OPTION_TEXT,   /* const char *, borrowed from argv */
    OPTION_LIST,   /* struct option_list; may be repeated */
    OPTION_COUNT,  /* uint64_t */
    OPTION_SIZE,   /* uint64_t, bytes */
    OPTION_SHARE,  /* double */
    OPTION_MOMENT, /* struct moment */
    OPTION_CHOICE, /* int: the index of the word in `choices` */
    OPTION_SET,    /* int: set to `value`; no argument */
};

struct option_def {
    const char *name; /* NULL ends a table */
    char letter;      /* 0: none */
    enum option_kind kind;
    const char *argument; /* the argument's name in --help */
    const char *help;     /* one or more lines */
    size_t offset;        /* in the struct that the command passes */
    const char *choices;  /* "tag|size": OPTION_CHOICE */
    int value;            /* OPTION_SET */
};

/* Which of the common options a command takes. */
enum {
    OPTIONS_REPORT = 1, /* output format */
    OPTIONS_FILTER = 2, /* which allocations count */
    OPTIONS_LIMIT = 4,  /* number of rows */
    OPTIONS_WINDOW = 8, /* only the filters by layer and time, for commands that need every block of a pool */
};

/* The values of the common options. */
struct view_options {
    struct report_options report;
    struct filter_options filter;
};

/* The command goes on; there is no exit status yet. */
#define OPTIONS_GO (-1)

/*
 * Parse the options of `self` in argv: its own into `own`, which the caller has filled with the defaults, and the
 * common ones into `common`. Returns OPTIONS_GO, with `optind` at the first argument, or an exit status after the help
 * or a message.
 */
int options_parse(const struct command *self, int argc, char **argv, void *own, struct view_options *common);

typedef void options_each_fn(void *context, const struct option_def *def, void *base);

/*
 * Call `each` for every option of a command, its own first. `base` is the struct that the option's offset is in: `own`,
 * `common`, or NULL for --help.
 */
void options_each(const struct command *self, void *own, struct view_options *common, options_each_fn *each,
                  void *context);

/* Whether the option takes an argument. */
bool options_has_argument(const struct option_def *def);

#endif
