/* Runs a command: parses its options from their table, opens the trace, and prints the answer. */
#include "config.h"

#include <assert.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/message.h"
#include "viewer/base/output.h"
#include "viewer/cli/command.h"

/* The command goes on; there is no exit status yet. */
#define OPTIONS_GO (-1)

int
command_misused(const struct command *command, const char *format, ...)
{
    va_list arguments;
    char *text;

    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    message("tidemark %s: %s", command->name, text != NULL ? text : "no memory for a message");
    free(text);
    message("Usage: tidemark %s %s", command->name, command->arguments);
    return COMMAND_WRONG;
}

#define OPTIONS_MAX 64

/* The default of --limit for tables that people read; programs get all rows. */
#define OPTIONS_ROWS 20

/* --limit was not given; no number that it takes is as high. */
#define OPTIONS_NO_LIMIT UINT64_MAX

#define AT(field) offsetof(struct view_options, field)

/* The common options. A command takes those that have a bit of its `common`. */
static const struct {
    unsigned common;
    struct option_def def;
} options_common[] = {
    { OPTIONS_LIMIT,
      { "limit", 'n', OPTION_COUNT, "ROWS",
        "at most so many rows of a table; 0: all; else 20 of a table for\npeople, and all for programs",
        AT(report.limit), NULL, 0 } },
    { OPTIONS_FILTER | OPTIONS_WINDOW,
      { "layer", 'l', OPTION_LIST, "LAYER", "only of this log layer (number); else the outermost ones",
        AT(filter.layers), NULL, 0 } },
    { OPTIONS_FILTER,
      { "tag", 't', OPTION_LIST, "TAG", "only under this tag (path, or a pattern; none: without)", AT(filter.tags),
        NULL, 0 } },
    { OPTIONS_FILTER,
      { "thread", 0, OPTION_LIST, "THREAD", "only of this thread (number, or a pattern of its name)",
        AT(filter.threads), NULL, 0 } },
    { OPTIONS_FILTER,
      { "stream", 0, OPTION_LIST, "STREAM", "only on this stream (number, or its handle: 0x...)", AT(filter.streams),
        NULL, 0 } },
    { OPTIONS_FILTER, { "device", 0, OPTION_LIST, "DEVICE", "only on this device", AT(filter.devices), NULL, 0 } },
    { OPTIONS_FILTER | OPTIONS_WINDOW,
      { "from", 0, OPTION_MOMENT, "MOMENT", "from there on: 1.5s, 50%, #ALLOCATION or mark:TEXT", AT(filter.from), NULL,
        0 } },
    { OPTIONS_FILTER | OPTIONS_WINDOW, { "to", 0, OPTION_MOMENT, "MOMENT", "up to there", AT(filter.to), NULL, 0 } },
    { OPTIONS_FILTER,
      { "min-size", 0, OPTION_SIZE, "SIZE", "only of at least this size", AT(filter.min_size), NULL, 0 } },
    { OPTIONS_FILTER,
      { "callstack", 0, OPTION_TEXT, "REGEX", "only where a frame of the call stack matches", AT(filter.callstack),
        NULL, 0 } },
    { OPTIONS_STACKS,
      { "frames", 0, OPTION_COUNT, "N", "only the N innermost frames of call stacks count; 0: all",
        AT(filter.stacks.frames), NULL, 0 } },
    { OPTIONS_STACKS,
      { "skip", 0, OPTION_LIST, "PATTERN", "these frames do not count: of a function, or FUNCTION (FILE:LINE)",
        AT(filter.stacks.skip), NULL, 0 } },
    { OPTIONS_STACKS,
      { "depth", 0, OPTION_COUNT, "N", "by tag: sums of the tree of tags, N levels deep; 0: each tag", AT(filter.depth),
        NULL, 0 } },
    { OPTIONS_FILTER | OPTIONS_WINDOW | OPTIONS_SYMBOLS,
      { "no-symbols", 0, OPTION_FLAG, NULL, "open no files to look up the names of call stacks", AT(filter.no_symbols),
        NULL, 0 } },
    { OPTIONS_REPORT,
      { "format", 'f', OPTION_CHOICE, "FORMAT", "table, json, jsonl, csv or md", AT(report.format), REPORT_FORMATS,
        0 } },
    { OPTIONS_REPORT,
      { "json", 'j', OPTION_SET, NULL, "the same as --format=json: bytes and nanoseconds", AT(report.format), NULL,
        REPORT_JSON } },
    { OPTIONS_JSON, { "json", 'j', OPTION_SET, NULL, "print one JSON object", AT(report.format), NULL, REPORT_JSON } },
    { OPTIONS_REPORT, { "only", 0, OPTION_TEXT, "NAME", "print this table alone", AT(report.only), NULL, 0 } },
    { OPTIONS_REPORT,
      { "color", 0, OPTION_CHOICE, "WHEN", "auto, always or never", AT(report.color), "auto|always|never", 0 } },
    { OPTIONS_REPORT, { "no-pager", 0, OPTION_FLAG, NULL, "never through a pager", AT(report.no_pager), NULL, 0 } },
};

static const struct option_def options_help_def = { "help", 'h', OPTION_FLAG, NULL, "print this", 0, NULL, 0 };

static void
options_each_of(const struct option_def *defs, void *own, command_option_fn *each, void *context)
{
    for (const struct option_def *def = defs; def != NULL && def->name != NULL; def++)
        each(context, def, own);
}

void
command_each_option(const struct command *command, struct invocation *call, command_option_fn *each, void *context)
{
    void *own = call != NULL ? call->own : NULL;

    options_each_of(command->options, own, each, context);
    for (size_t i = 0; command->more_options != NULL && command->more_options(i) != NULL; i++)
        options_each_of(command->more_options(i), own, each, context);
    for (size_t i = 0; i < sizeof(options_common) / sizeof(options_common[0]); i++) {
        if (command->common & options_common[i].common)
            each(context, &options_common[i].def, call != NULL ? &call->common : NULL);
    }
    each(context, &options_help_def, NULL);
}

/* Set *target to the place of `value` among the choices. */
static int
options_set_choice(const struct command *self, const struct option_def *def, int *target, const char *value)
{
    const char *nearest = NULL;
    char words[256];
    char *rest = NULL;
    int place = 0;

    snprintf(words, sizeof(words), "%s", def->choices);
    for (char *word = strtok_r(words, "|", &rest); word != NULL; word = strtok_r(NULL, "|", &rest), place++) {
        if (strcmp(word, value) == 0) {
            *target = place;
            return OPTIONS_GO;
        }
        nearest = parse_nearest(value, nearest, word);
    }
    if (nearest != NULL)
        return command_misused(self, "--%s: \"%s\" is none of %s; did you mean \"%s\"?", def->name, value, def->choices,
                               nearest);
    return command_misused(self, "--%s: \"%s\" is none of %s", def->name, value, def->choices);
}

static int
options_add_item(const struct command *self, const struct option_def *def, struct option_list *list, const char *value)
{
    if (list->count == OPTION_LIST_MAX)
        return command_misused(self, "--%s: at most %d times", def->name, OPTION_LIST_MAX);
    list->items[list->count++] = value;
    return OPTIONS_GO;
}

/* Parse `value` into the field at the option's offset. */
static int
options_set(const struct command *self, const struct option_def *def, void *base, const char *value)
{
    void *target = (char *)base + def->offset;
    const char *wanted = NULL;
    char why[160];

    switch (def->kind) {
    case OPTION_FLAG:
        *(bool *)target = true;
        break;
    case OPTION_SET:
        *(int *)target = def->value;
        break;
    case OPTION_TEXT:
        /* A script's variable that is not set; as a path it would be nobody's file in an error. */
        if (value[0] == '\0')
            return command_misused(self, "--%s: %s was expected, and not an empty text", def->name, def->argument);
        *(const char **)target = value;
        break;
    case OPTION_LIST:
        return options_add_item(self, def, target, value);
    case OPTION_CHOICE:
        return options_set_choice(self, def, target, value);
    case OPTION_COUNT:
        wanted = parse_count(value, target) ? NULL : "a number";
        break;
    case OPTION_SIZE:
        wanted = parse_size(value, target) ? NULL : "a size, such as 4096, 64KiB or 1.5GiB";
        break;
    case OPTION_SHARE:
        if (!parse_share(value, target))
            return command_misused(self, "--%s: %s", def->name, parse_share_refusal(value, why, sizeof(why)));
        break;
    case OPTION_MOMENT:
        wanted = parse_moment(value, target) ? NULL : "a moment, such as 1.5s, 50%, #123, mark:TEXT or peak";
        break;
    }
    if (wanted != NULL)
        return command_misused(self, "--%s: \"%s\" is not %s", def->name, value, wanted);
    return OPTIONS_GO;
}

/* The options as getopt_long needs them. A long option's result is 256 plus its place in these arrays. */
struct options_getopt {
    struct option longs[OPTIONS_MAX + 1];
    char shorts[2 * OPTIONS_MAX + 2];
    const struct option_def *defs[OPTIONS_MAX];
    void *bases[OPTIONS_MAX];
    size_t count;
};

bool
option_has_argument(const struct option_def *def)
{
    return def->kind != OPTION_FLAG && def->kind != OPTION_SET;
}

static void
options_add(void *context, const struct option_def *def, void *base)
{
    int argument = option_has_argument(def) ? required_argument : no_argument;
    struct options_getopt *all = context;
    size_t letters = strlen(all->shorts);

    assert(all->count < OPTIONS_MAX);
    all->longs[all->count] = (struct option){ def->name, argument, NULL, 256 + (int)all->count };
    all->defs[all->count] = def;
    all->bases[all->count++] = base;
    if (def->letter != 0)
        all->shorts[letters++] = def->letter;
    if (def->letter != 0 && argument == required_argument)
        all->shorts[letters] = ':';
}

static int
options_unknown(const struct command *self, const struct options_getopt *all, const char *typed)
{
    const char *nearest = NULL;
    char name[64];

    if (strncmp(typed, "--", 2) != 0)
        return command_misused(self, "there is no option -%c", optopt);
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(typed + 2, "="), typed + 2);
    if (optopt >= 256)
        return command_misused(self, "--%s takes no value", name);
    for (size_t i = 0; i < all->count; i++)
        nearest = parse_nearest(name, nearest, all->defs[i]->name);
    if (nearest != NULL)
        return command_misused(self, "there is no option --%s; did you mean --%s?", name, nearest);
    return command_misused(self, "there is no option --%s", name);
}

static size_t
options_place(const struct options_getopt *all, int result)
{
    if (result >= 256)
        return (size_t)result - 256;
    for (size_t i = 0; i < all->count; i++) {
        if (all->defs[i]->letter == result)
            return i;
    }
    return all->count;
}

/* Print an option's line of --help, and a line for each further line of its text. */
static void
options_help(void *context, const struct option_def *def, void *base)
{
    char name[64];
    const char *line = def->help;

    (void)context;
    (void)base;
    snprintf(name, sizeof(name), "--%s%s%s", def->name, def->argument != NULL ? "=" : "",
             def->argument != NULL ? def->argument : "");
    printf("  %c%c%c %-22s ", def->letter != 0 ? '-' : ' ', def->letter != 0 ? def->letter : ' ',
           def->letter != 0 ? ',' : ' ', name);
    for (; strchr(line, '\n') != NULL; line = strchr(line, '\n') + 1)
        printf("%.*s\n%29s", (int)strcspn(line, "\n"), line, "");
    printf("%s\n", line);
}

int
command_help(const struct command *command)
{
    printf("Usage: tidemark %s %s\n%s.\n\n", command->name, command->arguments, command->purpose);
    command_each_option(command, NULL, options_help, NULL);
    fputs(command->help, stdout);
    if (command->list != NULL)
        command->list();
    return output_finish(COMMAND_FINE);
}

/* Fill in the default of --limit, which depends on the format. */
static void
options_default_limit(struct report_options *options)
{
    bool people = options->format == REPORT_TABLE || options->format == REPORT_MARKDOWN;

    if (options->limit == OPTIONS_NO_LIMIT && people)
        options->limit = OPTIONS_ROWS;
    else if (options->limit == 0)
        options->limit = UINT64_MAX;
}

/*
 * Parse the options in argv. Returns OPTIONS_GO, with `optind` at the first argument, or an exit status after the help
 * or a message.
 */
static int
options_parse(struct invocation *call, int argc, char **argv)
{
    const struct command *self = call->command;
    /* A plus: the first argument that is no option ends them. */
    struct options_getopt all = { .shorts = { self->is_wrapper ? '+' : ':', self->is_wrapper ? ':' : '\0' } };
    int status = OPTIONS_GO;
    int result;

    command_each_option(self, call, options_add, &all);
    opterr = 0;
    while (status == OPTIONS_GO && (result = getopt_long(argc, argv, all.shorts, all.longs, NULL)) != -1) {
        size_t place;

        if (result == '?')
            return options_unknown(self, &all, argv[optind - 1]);
        place = options_place(&all, result == ':' ? optopt : result);
        if (result == ':')
            return command_misused(self, "--%s needs a value", all.defs[place]->name);
        if (all.bases[place] == NULL)
            return command_help(self);
        status = options_set(self, all.defs[place], all.bases[place], optarg);
    }
    options_default_limit(&call->common.report);
    return status;
}

int
command_invoke(const struct command *command, int argc, char **argv)
{
    static const struct command_arguments trace = { 1, "which trace?", "one trace at a time" };
    const struct command_arguments *wanted = command->wanted != NULL ? command->wanted : &trace;
    struct invocation call = { .command = command, .common.report.limit = OPTIONS_NO_LIMIT };
    int status;

    assert(command->own_bytes <= sizeof(call.own));
    if (command->defaults != NULL)
        memcpy(call.own, command->defaults, command->own_bytes);
    status = options_parse(&call, argc, argv);
    if (status != OPTIONS_GO)
        return status;
    call.arguments = argv + optind;
    call.count = argc - optind;
    if (wanted->count >= 0 && call.count < wanted->count)
        return command_misused(command, "%s", wanted->missing);
    if (wanted->count >= 0 && call.count > wanted->count)
        return command_misused(command, "%s", wanted->excess);
    return command->run(&call);
}

int
command_answer(struct invocation *call)
{
    struct report report;
    struct view view;
    int status = view_open(&view, &call->common.filter, call->arguments[0]);

    if (status != COMMAND_FINE)
        return status;
    report_begin(&report, &call->common.report, call->command->name);
    status = names_check_callstacks(&view.names, NULL);
    if (status == COMMAND_FINE)
        status = call->command->analyse(&view, &report, call->own);
    return command_finish(&view, &report, status);
}

int
command_finish(struct view *view, struct report *report, int status)
{
    if (status == COMMAND_FINE || status == COMMAND_FINDING) {
        int verdict = trace_verdict(&view->trace);

        status = report_print(report, verdict != COMMAND_FINE ? verdict : status);
    }
    report_end(report);
    view_close(view);
    return status;
}

void
command_subject(struct report *report, const struct view *view)
{
    char *subject = view_subject(view);

    report_field(report, "of", "of", REPORT_TEXT, cell_text(subject));
    free(subject);
}
