/* The `tidemark` command: finds the named command and runs it. */
#include "config.h"

#include <fcntl.h>
#include <getopt.h>
#include <locale.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>
#include <tidemark/tidemark.h>

#include "src/trace/database/schema.h"
#include "viewer/base/message.h"
#include "viewer/commands/commands.h"
#include "viewer/cli/layer-help.h"
#include "viewer/base/output.h"

static const struct command *const commands[] = { COMMANDS(COMMANDS_ENTRY) };

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void
main_usage(FILE *out)
{
    fputs("Usage: tidemark COMMAND [OPTIONS] ...\n"
          "Records GPU memory allocation and reads what was recorded.\n\n"
          "Commands:\n",
          out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-13s %s\n", commands[i]->name, commands[i]->purpose);
    fputs("\n`tidemark COMMAND --help` says more about one, `tidemark help LAYER` about a layer of stack text.\n"
          "\nExit status: 0 fine, 1 a finding, 2 wrong use or unreadable input, 3 the trace is incomplete.\n",
          out);
}

static int
main_version(void)
{
    printf("tidemark %s (library %s, trace format %d, SQLite %s)\n", PACKAGE_VERSION, tide_version(),
           TIDEI_TRACE_FORMAT, sqlite3_libversion());
    return output_finish(COMMAND_FINE);
}

static const struct command *
main_find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    }
    return NULL;
}

static int
main_unknown(const char *name, bool help)
{
    const char *nearest = NULL;

    for (size_t i = 0; i < COMMAND_COUNT; i++)
        nearest = parse_nearest(name, nearest, commands[i]->name);
    for (size_t i = 0; help && layer_help_name(i) != NULL; i++)
        nearest = parse_nearest(name, nearest, layer_help_name(i));
    if (nearest != NULL)
        message("tidemark: there is no command %s\"%s\"; did you mean \"%s\"?", help ? "or layer " : "", name, nearest);
    else
        message("tidemark: there is no command %s\"%s\"; `tidemark --help` lists them", help ? "or layer " : "", name);
    return COMMAND_WRONG;
}

static int
main_help(const char *name)
{
    const struct command *command;

    if (name == NULL) {
        main_usage(stdout);
        return output_finish(COMMAND_FINE);
    }
    command = main_find(name);
    if (command != NULL)
        return command_help(command);
    if (!layer_help_has(name))
        return main_unknown(name, true);
    layer_help_print(name, stdout);
    return output_finish(COMMAND_FINE);
}

/* `tidemark help [COMMAND|LAYER]`. */
static int
main_help_of(int count, char **names)
{
    if (count <= 1)
        return main_help(count == 1 ? names[0] : NULL);
    message("tidemark help: one command or layer at a time");
    return COMMAND_WRONG;
}

/* The options of `tidemark` itself, before a command. */
static const struct option main_options[] = {
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'V' },
    { NULL, 0, NULL, 0 },
};

/* Report an option that is none, in the words of the commands (viewer/cli/command.c). */
static int
main_unknown_option(const char *typed)
{
    const char *nearest = NULL;
    char name[64];

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(typed + 2, "="), typed + 2);
    for (const struct option *option = main_options; option->name != NULL; option++)
        nearest = parse_nearest(name, nearest, option->name);
    if (strncmp(typed, "--", 2) != 0)
        message("tidemark: there is no option -%c", optopt);
    else if (optopt != 0)
        message("tidemark: --%s takes no value", name);
    else if (nearest != NULL)
        message("tidemark: there is no option --%s; did you mean --%s?", name, nearest);
    else
        message("tidemark: there is no option --%s", name);
    message("Usage: tidemark COMMAND [OPTIONS] ...; an option of a command stands behind the command");
    return COMMAND_WRONG;
}

/* Print a message of the library that belongs to no call, such as that a recording ends because the disk is full. */
static void
main_message(void *context, enum tide_severity severity, const char *text)
{
    atomic_bool *failed = context;

    /* Relaxed: it carries nothing, and the recorder's thread is joined before main_run reads it. */
    if (severity == TIDE_ERROR)
        atomic_store_explicit(failed, true, memory_order_relaxed);
    message("tidemark: %s%s", severity == TIDE_WARNING ? "warning: " : "", text);
}

static int
main_run(const struct command *command, int argc, char **argv)
{
    static atomic_bool failed;
    char name[64];
    int status;

    /* getopt_long begins its messages with argv[0]. */
    snprintf(name, sizeof(name), "tidemark %s", command->name);
    argv[0] = name;
    optind = 0;
    /* libdw would ask these servers for the debug information of any build id in a trace. */
    if (!command->is_wrapper)
        unsetenv("DEBUGINFOD_URLS");
    tide_message_sink_set(main_message, &failed);
    status = command_invoke(command, argc, argv);
    return status == COMMAND_FINE && atomic_load_explicit(&failed, memory_order_relaxed) ? COMMAND_INCOMPLETE : status;
}

/*
 * Open standard descriptors that are closed, so that no file that is opened later takes their numbers and gets what is
 * printed. They cannot be read or written, so that errors are noticed as before.
 */
static void
main_take_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_PATH);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int
main(int argc, char **argv)
{
    const struct command *command;
    int option;

    main_take_descriptors();
    /* Only the character set of the locale: programs, too, read the numbers that are printed. */
    setlocale(LC_CTYPE, "");
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+hV", main_options, NULL)) != -1) {
        if (option == 'h')
            return main_help(NULL);
        if (option == 'V')
            return main_version();
        return main_unknown_option(argv[optind - 1]);
    }
    if (optind == argc) {
        main_usage(stderr);
        return COMMAND_WRONG;
    }
    if (strcmp(argv[optind], "help") == 0)
        return main_help_of(argc - optind - 1, argv + optind + 1);
    command = main_find(argv[optind]);
    if (command == NULL)
        return main_unknown(argv[optind], false);
    return main_run(command, argc - optind, argv + optind);
}
