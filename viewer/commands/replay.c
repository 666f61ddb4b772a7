/* `tidemark replay`: runs recorded allocator traffic through any stack. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/message.h>
#include <tidemark/stack.h>
#include <tidemark/trace.h>

#include "viewer/base/file.h"
#include "viewer/commands/commands.h"
#include "viewer/replay/input.h"
#include "viewer/replay/report.h"
#include "viewer/replay/run.h"

#define REPLAY_STACK "statistics | sim"

/* The value of --layer that stands for the outermost log; no layer has this number. */
#define REPLAY_OUTERMOST UINT64_MAX

struct replay_options {
    const char *stack;
    uint64_t layer_id; /* REPLAY_OUTERMOST where no layer was asked for */
    bool json;
    bool keep_live;
};

static int
replay_read(const char *path, const struct replay_options *options, struct replay_input *input)
{
    if (strcmp(path, "-") != 0 && file_is_sqlite(path))
        return replay_read_trace(path, options->layer_id != REPLAY_OUTERMOST ? (int64_t)options->layer_id : 0, input);
    if (options->layer_id != REPLAY_OUTERMOST) {
        fprintf(stderr, "%s: no trace, and --layer is for traces\n", path);
        return COMMAND_WRONG;
    }
    return replay_read_csv(path, input);
}

/* A stack of TIDEMARK_STACK was written for another program, and may name the input itself. */
static int
replay_protect(const char *path)
{
    if (strcmp(path, "-") == 0 || tide_trace_protect(path) == TIDE_OK)
        return COMMAND_FINE;
    fprintf(stderr, "tidemark replay: %s\n", tide_error_text());
    return COMMAND_WRONG;
}

static int
replay_make_stack(const struct replay_options *options, struct tide_resource **out)
{
    enum tide_status status =
        options->stack != NULL ? tide_stack_parse(options->stack, out) : tide_stack_from_environment(REPLAY_STACK, out);

    if (status == TIDE_OK)
        return COMMAND_FINE;
    fprintf(stderr, "tidemark replay: %s\n", tide_error_text());
    return COMMAND_WRONG;
}

/* Replay and print. The figures of the layers are taken before the blocks that the input left live are freed. */
static int
replay_through(struct tide_resource *stack, const struct replay_input *input, const struct replay_options *options)
{
    struct replay replay;
    struct replay_report report = { 0 };
    int status = replay_run(&replay, input, stack);

    if (status == COMMAND_FINE)
        status = replay_report_make(stack, &report);
    if (status == COMMAND_FINE) {
        if (!options->keep_live)
            replay_free_left(&replay);
        status = replay_report_print(&report, &replay, options->json);
    }
    if (replay.result.first_failure[0] != '\0')
        fprintf(stderr, "tidemark replay: the first of the failures: %s\n", replay.result.first_failure);
    replay_report_free(&report);
    replay_finish(&replay);
    return status;
}

static int
replay_input_through(const char *path, const struct replay_options *options)
{
    struct replay_input input;
    struct tide_resource *stack;
    int status = replay_read(path, options, &input);

    if (status != COMMAND_FINE)
        return status;
    /* After reading, since the stack may record a trace, which a broken input must not leave behind. */
    status = replay_protect(path);
    if (status == COMMAND_FINE)
        status = replay_make_stack(options, &stack);
    if (status == COMMAND_FINE) {
        status = replay_through(stack, &input, options);
        tide_resource_release(stack);
    }
    if (status == COMMAND_FINE && input.incomplete)
        status = COMMAND_INCOMPLETE;
    replay_input_clear(&input);
    return status;
}

#define AT(field) offsetof(struct replay_options, field)

static const struct option_def replay_defs[] = {
    { "stack", 's', OPTION_TEXT, "TEXT", "the stack; else that of TIDEMARK_STACK, else\n\"" REPLAY_STACK "\"",
      AT(stack), NULL, 0 },
    { "layer", 'l', OPTION_COUNT, "N", "of a trace: the log layer to replay; else the outermost", AT(layer_id), NULL,
      0 },
    { "keep-live", 'k', OPTION_FLAG, NULL, "do not free at the end what the input left live", AT(keep_live), NULL, 0 },
    { "json", 'j', OPTION_FLAG, NULL, "print one JSON object, in bytes and nanoseconds", AT(json), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

static int
replay_command(struct invocation *call)
{
    const struct replay_options *options = (const struct replay_options *)call->own;

    if (options->layer_id != REPLAY_OUTERMOST && (options->layer_id == 0 || options->layer_id > INT64_MAX))
        return command_misused(call->command, "--layer: layers are numbered from 1");
    return replay_input_through(call->arguments[0], options);
}

const struct command command_replay = {
    .name = "replay",
    .arguments = "[--stack TEXT] [--layer N] [--keep-live] [--json] INPUT",
    .purpose = "Replay recorded allocator traffic through a stack, as fast as it can",
    .help = "\nINPUT is RMM's CSV (Thread,Time,Action,Pointer,Size,Stream), plain or gzip, or - for\n"
            "standard input, or a Tidemark trace. Each recorded thread is one of the replay; the events\n"
            "run in the recorded order.\n",
    .wanted = &(const struct command_arguments){ 1, "what is to be replayed?", "one input at a time" },
    .options = replay_defs,
    COMMAND_OWN(struct replay_options, .layer_id = REPLAY_OUTERMOST),
    .run = replay_command,
};
