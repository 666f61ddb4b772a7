/* `tidemark watch`: what running programs have allocated, while they run. */
#include "config.h"

#include <locale.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "viewer/base/clock.h"
#include "viewer/base/message.h"
#include "viewer/base/output.h"
#include "viewer/commands/commands.h"
#include "viewer/read/trace.h"
#include "viewer/watch/watch.h"

#define WATCH_LEAST_NS INT64_C(20000000)
#define WATCH_MOST_NS  INT64_C(3600000000000)

struct watch_options {
    const char *interval;
    uint64_t count;
    bool plain;
};

#define AT(field) offsetof(struct watch_options, field)

static const struct option_def watch_defs[] = {
    { "interval", 'i', OPTION_TEXT, "TIME",
      "look so often: 100ms, 2s, 1min; 1s, or 100ms on a screen;\nfrom 20ms to 60min", AT(interval), NULL, 0 },
    { "count", 'c', OPTION_COUNT, "N", "end after so many looks; else when nothing is recorded any more", AT(count),
      NULL, 0 },
    { "plain", 0, OPTION_FLAG, NULL, "a line for each process and look, as where output is no terminal", AT(plain),
      NULL, 0 },
    { 0 },
};

/* A time with its unit: a number alone would be nanoseconds elsewhere. */
static bool
watch_parse_interval(const char *text, uint64_t *out)
{
    struct moment moment;

    if (!parse_moment(text, &moment) || moment.kind != MOMENT_TIME || strspn(text, "0123456789") == strlen(text) ||
        moment.number < WATCH_LEAST_NS || moment.number > WATCH_MOST_NS)
        return false;
    *out = (uint64_t)moment.number;
    return true;
}

/* Lines or objects. COMMAND_WRONG where they cannot be written. */
static int
watch_lines(struct watch *watch, uint64_t interval_ns, uint64_t count, bool json)
{
    uint64_t next = (uint64_t)clock_now_ns();

    for (uint64_t line = 0; count == 0 || line < count; line++) {
        if (line != 0) {
            next += interval_ns;
            clock_sleep_until((int64_t)next);
        }
        if (line != 0 && watch_find(watch, false) != COMMAND_FINE)
            return COMMAND_WRONG;
        watch_look(watch);
        if (json && !watch_print_json(watch))
            return COMMAND_WRONG;
        if (!json)
            watch_print_plain(watch, line);
        if (output_finish(COMMAND_FINE) != COMMAND_FINE)
            return COMMAND_WRONG;
        if (watch->found.list_count != 0 && watch_is_over(watch))
            break;
    }
    return COMMAND_FINE;
}

/* What can be said of a process that is not, or no longer, recorded. */
static int
watch_verdict(const struct watch_process *process)
{
    const char *trace = process->base.file.trace;

    switch (process->base.look.state) {
    case GAUGE_KILLED:
        if (!trace_is_gone(trace))
            message("%s: the program was killed; `tidemark summary %s` takes in what is left", trace, trace);
        return COMMAND_INCOMPLETE;
    case GAUGE_FAILED:
        message("%s: the recording has failed: %s", trace, process->base.file.failure);
        return COMMAND_INCOMPLETE;
    case GAUGE_ENDED:
        message(process->base.was_seen ? "%s: the recording has ended; `tidemark summary %s` explains it"
                                       : "%s: nothing is recorded there now; `tidemark summary %s` explains what was",
                trace, trace);
        return process->base.was_seen ? COMMAND_FINE : COMMAND_WRONG;
    case GAUGE_OLD:
        message("%s: its recorder is of an earlier version (ring file of format %u), whose figures cannot be watched",
                trace, process->base.file.format);
        return COMMAND_WRONG;
    case GAUGE_NEWER:
        message("%s: its recorder is of a later version (ring file of format %u) than this tidemark", trace,
                process->base.file.format);
        return COMMAND_WRONG;
    case GAUGE_UNKNOWN:
        message("%s: %s is no ring file of a trace, or damaged", trace, process->base.file.rings);
        return COMMAND_WRONG;
    case GAUGE_REFUSED:
        message("%s: %s: %s", trace, process->base.file.rings, gauge_refusal(&process->base.file));
        return COMMAND_WRONG;
    default:
        return process->base.page.lost_allocations + process->base.page.lost_frees != 0 ? COMMAND_INCOMPLETE
                                                                                        : COMMAND_FINE;
    }
}

/* The worst that can be said of one, after what is wrong with each. Messages do not show while a screen is there. */
static int
watch_verdicts(const struct watch *watch, bool screen)
{
    int worst = COMMAND_FINE;

    for (int i = 0; i < watch->found.count; i++) {
        if (watch->found.folders[i].error == 0)
            continue;
        if (screen)
            message("%s: %s", watch->found.arguments[i], strerror(watch->found.folders[i].error));
        worst = COMMAND_INCOMPLETE;
    }
    for (size_t i = 0; i < watch->found.list_count; i++) {
        int status = watch_verdict(watch_at(watch, i));

        /* One of many that cannot be watched is no wrong use. */
        if (status == COMMAND_WRONG && watch->found.list_count > 1)
            status = COMMAND_INCOMPLETE;
        worst = status > worst && worst != COMMAND_WRONG ? status : worst;
    }
    return worst;
}

static int
watch_run(struct invocation *call)
{
    const struct watch_options *options = (const struct watch_options *)call->own;
    bool json = call->common.report.format == REPORT_JSON, screen = !options->plain && !json && watch_has_screen();
    struct watch watch;
    uint64_t interval_ns = screen ? 100000000 : 1000000000;
    int status, verdict;

    if (call->count == 0)
        return command_misused(call->command, "a trace, a folder or a process id is missing");
    if (options->plain && json)
        return command_misused(call->command, "--plain and --json contradict each other");
    if (options->interval != NULL && !watch_parse_interval(options->interval, &interval_ns))
        return command_misused(call->command,
                               "--interval=%s: write a time from 20ms to 60min with its unit, as 100ms or 2s",
                               options->interval);
    watch_init(&watch, call->arguments, call->count);
    status = watch_find(&watch, true);
    if (status == COMMAND_FINE && watch.found.list_count == 0 && options->count != 0)
        message("tidemark watch: nothing is recorded there now");
    /* Where there is nothing to watch, the message does not come behind a screen. */
    if (screen && status == COMMAND_FINE)
        watch_look(&watch);
    if (status == COMMAND_FINE && !(screen && watch.found.list_count != 0 && watch_is_over(&watch)))
        status = screen ? watch_screen(&watch, interval_ns, options->count)
                        : watch_lines(&watch, interval_ns, options->count, json);
    verdict = status == COMMAND_FINE ? watch_verdicts(&watch, screen) : COMMAND_FINE;
    running_free(&watch.found);
    return status == COMMAND_FINE ? verdict : status;
}

const struct command command_watch = {
    .name = "watch",
    .arguments = "[--interval TIME] [--count N] [--plain | --json] TRACE|FOLDER|PID...",
    .purpose = "Show what running programs have allocated, while they run",
    .help = "\nA folder stands for each trace in it that is recorded, a process id for those of that process.\n"
            "On a terminal: q ends, ? lists the keys.\n",
    .wanted = &(const struct command_arguments){ -1, NULL, NULL },
    .options = watch_defs,
    COMMAND_OWN(struct watch_options, .interval = NULL),
    .common = OPTIONS_JSON,
    .run = watch_run,
};
