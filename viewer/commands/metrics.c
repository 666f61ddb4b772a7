/* `tidemark metrics`: the figures of running programs, as monitoring systems read them. */
#include "config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "viewer/base/message.h"
#include "viewer/commands/commands.h"
#include "viewer/metrics/metrics.h"

struct metrics_options {
    const char *listen, *textfile;
    uint64_t tags;
    bool no_durations;
    int format; /* enum metrics_format; -1: not given */
};

#define AT(field) offsetof(struct metrics_options, field)

static const struct option_def metrics_defs[] = {
    { "listen", 'l', OPTION_TEXT, "ADDRESS:PORT",
      "answer GET /metrics there until a signal comes; 127.0.0.1:9455,\n[::1]:9455, a port of 0 takes any", AT(listen),
      NULL, 0 },
    { "textfile", 0, OPTION_TEXT, "FILE",
      "replace the file as a whole, for the textfile collector of\nnode_exporter; its name ends with .prom",
      AT(textfile), NULL, 0 },
    { "format", 0, OPTION_CHOICE, "FORMAT",
      "openmetrics (1.0) or prometheus (its text format 0.0.4, as in\n--textfile); --listen gives what is asked for",
      AT(format), "openmetrics|prometheus", 0 },
    { "tags", 0, OPTION_COUNT, "N", "so many of each recording's largest tags, from 0 to 64; 32", AT(tags), NULL, 0 },
    { "no-durations", 0, OPTION_FLAG, NULL,
      "leave out the histograms of durations, which are two thirds of\nthe samples", AT(no_durations), NULL, 0 },
    { 0 },
};

/* To standard output, or a file that gets its name once it is complete and on the disk. */
static int
metrics_print(const struct metrics *metrics, enum metrics_format format, const char *path)
{
    struct stat info;
    struct emit out;
    int status = COMMAND_FINE;

    if (path != NULL && lstat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        message("%s: is no regular file: it cannot be replaced as a whole", path);
        return COMMAND_WRONG;
    }
    if (emit_open(&out, path, false) != COMMAND_FINE)
        return COMMAND_WRONG;
    metrics_write(metrics, format, &out);
    emit_flush(&out, true);
    if (path != NULL && !out.failed && fsync(out.file) != 0) {
        message("%s: cannot be written: %s", path, strerror(errno));
        status = COMMAND_WRONG;
    }
    return emit_close(&out, status);
}

/* What of the command line is wrong; COMMAND_FINE. */
static int
metrics_check(const struct invocation *call, const struct metrics_options *options)
{
    const char *wrong = NULL;
    char *host, *port;

    if (call->count == 0)
        return command_misused(call->command, "a trace, a folder or a process id is missing");
    if (options->listen != NULL && options->textfile != NULL)
        return command_misused(call->command, "--listen and --textfile contradict each other");
    if (options->listen != NULL && options->format >= 0)
        return command_misused(call->command,
                               "--listen and --format contradict each other: a client asks for its format");
    if (options->textfile != NULL && options->format == METRICS_OPENMETRICS)
        return command_misused(call->command, "--textfile and --format=openmetrics contradict each other: the "
                                              "collector reads the format of prometheus");
    if (options->tags > TIDEI_GAUGE_TAGS)
        return command_misused(call->command, "--tags=%llu: from 0 to %d", (unsigned long long)options->tags,
                               TIDEI_GAUGE_TAGS);
    if (options->listen != NULL) {
        wrong = metrics_parse_address(options->listen, &host, &port);
        free(host);
        free(port);
    }
    return wrong == NULL ? COMMAND_FINE : command_misused(call->command, "--listen=%s: %s", options->listen, wrong);
}

static int
metrics_run(struct invocation *call)
{
    const struct metrics_options *options = (const struct metrics_options *)call->own;
    enum metrics_format format = options->textfile != NULL ? METRICS_PROMETHEUS : METRICS_OPENMETRICS;
    struct metrics metrics;
    int status = metrics_check(call, options);

    if (status != COMMAND_FINE)
        return status;
    if (options->format >= 0)
        format = (enum metrics_format)options->format;
    status = metrics_init(&metrics, call->arguments, call->count);
    if (status != COMMAND_FINE)
        return status;
    metrics.tag_limit = options->tags;
    metrics.no_durations = options->no_durations;
    status = metrics_find(&metrics, true);
    if (status == COMMAND_FINE && options->listen != NULL)
        status = metrics_serve(&metrics, options->listen);
    else if (status == COMMAND_FINE && (status = metrics_gather(&metrics, METRICS_NO_BOUND)) == COMMAND_FINE)
        status = metrics_print(&metrics, format, options->textfile);
    metrics_free(&metrics);
    return status;
}

const struct command command_metrics = {
    .name = "metrics",
    .arguments =
        "[--listen ADDRESS:PORT | --textfile FILE | --format FORMAT] [--tags N] [--no-durations] TRACE|FOLDER|PID...",
    .purpose = "Print or serve the figures of running programs for Prometheus and others",
    .help = "\nA folder stands for each trace in it that is recorded, a process id for those of that process.\n"
            "Recordings that were killed stay, with tidemark_up 0, until a command takes in what they have left, or\n"
            "where the trace itself was removed, until its file TRACE-rings is.\n",
    .wanted = &(const struct command_arguments){ -1, NULL, NULL },
    .options = metrics_defs,
    COMMAND_OWN(struct metrics_options, .tags = METRICS_TAGS, .format = -1),
    .run = metrics_run,
};
