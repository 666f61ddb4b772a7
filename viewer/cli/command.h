/*
 * The commands of `tidemark`, and how one runs: from its arguments to an open trace and its answer. A command describes
 * its options in a const table: name, argument and destination. Parsing, --help and shell completion all use it. The
 * options that many commands share are in a table in command.c.
 */
#ifndef VIEWER_CLI_COMMAND_H
#define VIEWER_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/parse.h"
#include "viewer/output/report.h"
#include "viewer/read/view.h"

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
    OPTIONS_REPORT = 1,   /* output format */
    OPTIONS_FILTER = 2,   /* which allocations count */
    OPTIONS_LIMIT = 4,    /* number of rows */
    OPTIONS_WINDOW = 8,   /* only the filters by layer and time, for commands that need every block of a pool */
    OPTIONS_JSON = 16,    /* JSON alone, for commands without other formats */
    OPTIONS_STACKS = 32,  /* which frames of call stacks, and levels of tags, count */
    OPTIONS_SYMBOLS = 64, /* no look at symbols, for commands without filters that open a trace */
};

/* The values of the common options. */
struct view_options {
    struct report_options report;
    struct filter_options filter;
};

/* Room for the values of a command's own options. */
#define COMMAND_OWN_BYTES 2048

/* A parsed command line. */
struct invocation {
    const struct command *command;
    struct view_options common;
    _Alignas(max_align_t) char own[COMMAND_OWN_BYTES]; /* the struct that the command's own options fill */
    char **arguments;                                  /* that are no options */
    int count;
};

/* How many arguments a command takes, and what it says of too few and too many. */
struct command_arguments {
    int count; /* -1: the command checks them itself */
    const char *missing;
    const char *excess;
};

/* One const entry for each command, in a file of its own. */
struct command {
    const char *name;
    const char *arguments;                  /* for the usage line: "[--json] TRACE" */
    const char *purpose;                    /* one line, for the list of commands */
    const char *help;                       /* the end of --help, after the options; may be "" */
    const struct command_arguments *wanted; /* NULL: one trace */
    const struct option_def *options;       /* the command's own options; NULL: none */
    const void *defaults;                   /* of the struct that they fill; see COMMAND_OWN */
    size_t own_bytes;                       /* the size of that struct */
    unsigned common;                        /* OPTIONS_*: the common options that it also takes */
    bool is_wrapper;    /* its first argument is a program, which gets the rest and the environment */
    void (*list)(void); /* prints a list after `help`; NULL: no list */

    /* Further tables of the command's own options: `place` counts from 0, NULL ends them. NULL: there are none. */
    const struct option_def *(*more_options)(size_t place);

    /* Returns the exit status. */
    int (*run)(struct invocation *call);

    /*
     * Of a command that runs by command_answer: fill the report from the open trace. Returns COMMAND_FINE,
     * COMMAND_FINDING, or another status after a message.
     */
    int (*analyse)(struct view *view, struct report *report, const void *own);
};

/* The struct that the command's own options fill, with their defaults: COMMAND_OWN(struct peak_options, .by = -1) */
#define COMMAND_OWN(type, ...) .defaults = &(const type){ __VA_ARGS__ }, .own_bytes = sizeof(type)

/* Parse the arguments and run the command. Returns the exit status. */
int command_invoke(const struct command *command, int argc, char **argv);

/* Open the trace that the first argument names, analyse it, print the report, and close. Returns the exit status. */
int command_answer(struct invocation *call);

/*
 * If `status` is COMMAND_FINE or COMMAND_FINDING, warn about an incomplete trace and print the report. Always free the
 * report and close the view. Returns the exit status.
 */
int command_finish(struct view *view, struct report *report, int status);

/* Add the field "of": a text that says which allocations the report covers. */
void command_subject(struct report *report, const struct view *view);

/* Report wrong use of `command` on standard error. Returns COMMAND_WRONG. */
int command_misused(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Print the text of --help on standard output. Returns COMMAND_FINE. */
int command_help(const struct command *command);

typedef void command_option_fn(void *context, const struct option_def *def, void *base);

/*
 * Call `each` for every option of a command, its own first. `base` is the struct that the option's offset is in: a part
 * of `call`, which may be NULL; NULL for --help.
 */
void command_each_option(const struct command *command, struct invocation *call, command_option_fn *each,
                         void *context);

/* Whether the option takes an argument. */
bool option_has_argument(const struct option_def *def);

#endif
