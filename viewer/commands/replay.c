/* `tidemark replay`: runs recorded allocator traffic through any stack. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/message.h>
#include <tidemark/stack.h>
#include <tidemark/trace.h>

#include "viewer/base/clock.h"
#include "viewer/base/message.h"
#include "viewer/base/file.h"
#include "viewer/base/processor.h"
#include "viewer/commands/commands.h"
#include "viewer/replay/input.h"
#include "viewer/replay/keep.h"
#include "viewer/replay/report.h"
#include "viewer/replay/run.h"

#define REPLAY_STACK "statistics | sim"

/* A device clears memory that went back: an H200 takes 2.4 us for each MiB. */
#define REPLAY_CLEAR_NS_PER_MIB 3000

/* The value of --layer that stands for the outermost log; no layer has this number. */
#define REPLAY_OUTERMOST UINT64_MAX

/* In the order of REPLAY_CLOCKS. */
enum replay_clock {
    REPLAY_CLOCK_NOW,
    REPLAY_CLOCK_RECORDED,
};

#define REPLAY_CLOCKS "now|recorded"

struct replay_choices {
    struct option_list stacks;
    uint64_t layer_id;           /* REPLAY_OUTERMOST where no layer was asked for */
    int clock;                   /* enum replay_clock */
    const char *time_scale_text; /* NULL: not given */
    double time_scale;           /* what it says; 0: as fast as it can */
    bool json;
    bool keep_live;
    bool stop_at_failure;
};

/*
 * Whether a stack that is made after reading may have a log, which keeps the notes of the input. The text of one that
 * has one has the word; where the word stands for something else, they are read for nothing.
 */
static bool
replay_may_record(const struct replay_choices *options)
{
    const char *environment = getenv("TIDEMARK_STACK");

    for (size_t i = 0; i < options->stacks.count; i++) {
        if (strstr(options->stacks.items[i], "log") != NULL)
            return true;
    }
    return options->stacks.count == 0 && environment != NULL && strstr(environment, "log") != NULL;
}

static int
replay_read(const char *path, const struct replay_choices *options, bool no_symbols, struct replay_input *input)
{
    const struct replay_reading reading = {
        .keeps_times = options->time_scale > 0,
        .layer_id = options->layer_id != REPLAY_OUTERMOST ? (int64_t)options->layer_id : 0,
        .keeps_notes = replay_may_record(options),
        .no_symbols = no_symbols,
    };

    if (strcmp(path, "-") != 0 && file_is_sqlite(path))
        return replay_read_trace(path, &reading, input);
    if (options->layer_id != REPLAY_OUTERMOST) {
        message("%s: no trace, and --layer is for traces", path);
        return COMMAND_WRONG;
    }
    return replay_read_csv(path, &reading, input);
}

/* A stack of TIDEMARK_STACK was written for another program, and may name the input itself. */
static int
replay_protect(const char *path)
{
    if (strcmp(path, "-") == 0 || tide_trace_protect(path) == TIDE_OK)
        return COMMAND_FINE;
    message("tidemark replay: %s", tide_error_text());
    return COMMAND_WRONG;
}

/* Make a stack; NULL: that of the environment, or the default. `counted`: its bases are counted. */
static int
replay_make_stack(const char *text, bool counted, struct tide_resource **out)
{
    char *full = counted ? replay_counted_text(text) : NULL;
    enum tide_status status = text == NULL   ? tide_stack_from_environment(REPLAY_STACK, out)
                              : !counted     ? tide_stack_parse(text, out)
                              : full != NULL ? tide_stack_parse(full, out)
                                             : TIDE_ENOMEM;

    free(full);
    if (status == TIDE_OK)
        return COMMAND_FINE;
    message("tidemark replay: %s", tide_error_text());
    return COMMAND_WRONG;
}

/* What goes on with the traces of a replay once its stack is released. */
static int
replay_keep_all(char **paths, size_t count, const struct replay *replay, const struct replay_choices *choices)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; i < count && status == COMMAND_FINE; i++)
        status = replay_keep(paths[i], replay, choices->clock == REPLAY_CLOCK_RECORDED);
    return status;
}

/* Replay. The figures of the layers are taken before the blocks that the input left live are freed. */
static int
replay_through(struct tide_resource *stack, const struct replay_input *input, const struct replay_choices *choices,
               const char *counted, struct replay_outcome *out)
{
    const struct replay_options options = {
        .keeps_notes = replay_has_log(stack),
        .stop_at_failure = choices->stop_at_failure,
        .time_scale = choices->time_scale,
    };
    int status;

    if (choices->clock == REPLAY_CLOCK_RECORDED && !options.keeps_notes) {
        message("tidemark replay: --clock=recorded: the stack has no log, which would record a trace");
        return COMMAND_WRONG;
    }
    status = replay_run(&out->replay, input, stack, &options);
    if (status == COMMAND_FINE)
        status = replay_report_make(stack, counted, &out->report);
    if (status == COMMAND_FINE && !choices->keep_live)
        replay_free_left(&out->replay);
    if (out->replay.result.first_failure[0] != '\0')
        message("tidemark replay: the first of the failures: %s", out->replay.result.first_failure);
    return status;
}

/* Stacks that are compared begin alike: on a processor that nothing slows, and when what others had is cleared. */
static void
replay_begin_alike(const struct replay_outcome *before)
{
    const struct replay_report *report = &before->report;
    uint64_t most_bytes = 0;

    for (size_t i = 0; i < report->count && before->replay.streams.driver != NULL; i++) {
        if (report->layers[i].reserved_peak_bytes > most_bytes)
            most_bytes = report->layers[i].reserved_peak_bytes;
    }
    clock_sleep_until(clock_now_ns() + (int64_t)(most_bytes >> 20) * REPLAY_CLEAR_NS_PER_MIB);
    processor_choose();
}

/* Make a stack, replay through it, and complete the traces that it recorded. */
static int
replay_one(const char *text, const struct replay_input *input, const struct replay_choices *choices,
           struct replay_outcome *out)
{
    bool counted = choices->stacks.count > 1;
    struct tide_resource *stack;
    char **paths = NULL;
    size_t count = 0;
    int status = replay_make_stack(text, counted, &stack);

    if (status != COMMAND_FINE)
        return status;
    status = replay_through(stack, input, choices, counted ? text : NULL, out);
    if (status == COMMAND_FINE && !replay_report_traces(&out->report, &paths, &count)) {
        message("tidemark replay: no memory for the traces");
        status = COMMAND_WRONG;
    }
    tide_resource_release(stack);
    if (status == COMMAND_FINE)
        status = replay_keep_all(paths, count, &out->replay, choices);
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
    return status;
}

static int
replay_all(const struct replay_input *input, const struct replay_choices *choices)
{
    struct replay_outcome outcomes[OPTION_LIST_MAX] = { 0 };
    size_t count = choices->stacks.count > 0 ? choices->stacks.count : 1;
    int status = COMMAND_FINE;

    /* A mistake in the last text is no reason to find out after all the others have been replayed. */
    for (size_t i = 0; i < choices->stacks.count; i++) {
        if (tide_stack_check(choices->stacks.items[i], NULL, 0, NULL) != TIDE_OK) {
            message("tidemark replay: %s", tide_error_text());
            return COMMAND_WRONG;
        }
    }
    for (size_t i = 0; i < count && status == COMMAND_FINE; i++) {
        if (count > 1)
            replay_begin_alike(&outcomes[i > 0 ? i - 1 : 0]);
        status = replay_one(choices->stacks.count > 0 ? choices->stacks.items[i] : NULL, input, choices, &outcomes[i]);
    }
    if (status == COMMAND_FINE)
        status = replay_report_print(outcomes, count, choices->json);
    for (size_t i = 0; i < count; i++) {
        if (status == COMMAND_FINE && outcomes[i].replay.result.stopped_at > 0)
            status = COMMAND_FINDING;
        replay_report_free(&outcomes[i].report);
        replay_finish(&outcomes[i].replay);
    }
    return status;
}

static int
replay_input_through(const char *path, const struct replay_choices *choices, bool no_symbols)
{
    struct replay_input input;
    int status = replay_read(path, choices, no_symbols, &input);

    if (status != COMMAND_FINE)
        return status;
    if (choices->clock == REPLAY_CLOCK_RECORDED && input.notes.path == NULL) {
        message("%s: no trace, and --clock=recorded is for traces", path);
        status = COMMAND_WRONG;
    }
    /* Stacks are made after reading, since they may record traces, which a broken input must not leave behind. */
    if (status == COMMAND_FINE)
        status = replay_protect(path);
    if (status == COMMAND_FINE)
        status = replay_all(&input, choices);
    if (status == COMMAND_FINE && input.incomplete)
        status = COMMAND_INCOMPLETE;
    replay_input_clear(&input);
    return status;
}

#define AT(field) offsetof(struct replay_choices, field)

static const struct option_def replay_defs[] = {
    { "stack", 's', OPTION_LIST, "TEXT",
      "the stack; else that of TIDEMARK_STACK, else\n\"" REPLAY_STACK "\"; several are compared in one table",
      AT(stacks), NULL, 0 },
    { "layer", 'l', OPTION_COUNT, "N", "of a trace: the log layer to replay; else the outermost", AT(layer_id), NULL,
      0 },
    { "keep-live", 'k', OPTION_FLAG, NULL, "do not free at the end what the input left live", AT(keep_live), NULL, 0 },
    { "stop-at-failure", 0, OPTION_FLAG, NULL, "stop at the first allocation that the stack refuses, with status 1",
      AT(stop_at_failure), NULL, 0 },
    { "clock", 0, OPTION_CHOICE, "CLOCK", "of a new trace of a trace: now, or the recorded times; now", AT(clock),
      REPLAY_CLOCKS, 0 },
    { "time-scale", 0, OPTION_TEXT, "X",
      "keep the recorded gaps, X times as long: 1 as recorded, 0.1\nten times as fast; 0, no gaps, is the default",
      AT(time_scale_text), NULL, 0 },
    { "json", 'j', OPTION_FLAG, NULL, "print a JSON object, or an array of several", AT(json), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

static int
replay_command(struct invocation *call)
{
    struct replay_choices *options = (struct replay_choices *)call->own;

    if (options->layer_id != REPLAY_OUTERMOST && (options->layer_id == 0 || options->layer_id > INT64_MAX))
        return command_misused(call->command, "--layer: layers are numbered from 1");
    if (options->time_scale_text != NULL &&
        (!parse_number(options->time_scale_text, &options->time_scale) || options->time_scale > REPLAY_PACE_MOST))
        return command_misused(call->command, "--time-scale: \"%s\" is no number from 0 to %d, such as 0.1",
                               options->time_scale_text, REPLAY_PACE_MOST);
    return replay_input_through(call->arguments[0], options, call->common.filter.no_symbols);
}

const struct command command_replay = {
    .name = "replay",
    .arguments = "[--stack TEXT ...] [OPTIONS] INPUT",
    .purpose = "Replay recorded allocator traffic through a stack",
    .help = "\nINPUT is RMM's CSV (Thread,Time,Action,Pointer,Size,Stream), plain or gzip, or - for\n"
            "standard input, or a Tidemark trace. Each recorded thread is one of the replay; the events\n"
            "run in the recorded order. Where a log of the stack records the replay of a trace, the new trace\n"
            "has its tags, marks, call stacks and names of threads.\n",
    .wanted = &(const struct command_arguments){ 1, "what is to be replayed?", "one input at a time" },
    .options = replay_defs,
    COMMAND_OWN(struct replay_choices, .layer_id = REPLAY_OUTERMOST),
    .common = OPTIONS_SYMBOLS,
    .run = replay_command,
};
