/* `tidemark merge`: makes one file of the traces of all ranks of a job. */
#include "config.h"

#include "viewer/commands/commands.h"
#include "viewer/ranks/merge.h"

#define AT(field) offsetof(struct merge_options, field)

static const struct option_def merge_option_defs[] = {
    { "output", 'o', OPTION_TEXT, "JOB", "the file of the job; where it is there, ranks are added to it", AT(output),
      NULL, 0 },
    { "jobs", 'j', OPTION_COUNT, "N", "read so many traces at a time; as many as there are processors", AT(jobs), NULL,
      0 },
    { "steps", 0, OPTION_TEXT, "TEXT", "the marks that begin steps, a pattern; else the text that most have", AT(steps),
      NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

static int
merge_command_run(struct invocation *call)
{
    struct merge_options *options = (struct merge_options *)call->own;
    struct filter_options *filter = &call->common.filter;

    if (call->count == 0)
        return command_misused(call->command, "which traces are to be merged?");
    if (options->output == NULL)
        return command_misused(call->command, "where is the file of the job to go? -o JOB");
    if (options->jobs == 0)
        return command_misused(call->command, "--jobs: at least one process");
    if (options->jobs == UINT64_MAX)
        options->jobs = 0;
    /* The frames that tell what allocated; more would make a group of each way to it. */
    if (filter->stacks.frames == 0)
        filter->stacks.frames = 8;
    return merge_run(call->arguments, (size_t)call->count, filter, options);
}

const struct command command_merge = {
    .name = "merge",
    .arguments = "[OPTIONS] TRACE|FOLDER... -o JOB",
    .purpose = "Make one file of the traces of all ranks of a job",
    .help = "\n"
            "The file has what `tidemark ranks` answers from: what each rank had over time, at its peak\n"
            "and in its steps. Where a merge was interrupted, the same call goes on.\n"
            "The exit status is 3 where a rank is missing, incomplete or left out; messages name it.\n",
    .wanted = &(const struct command_arguments){ .count = -1 },
    .options = merge_option_defs,
    COMMAND_OWN(struct merge_options, .jobs = UINT64_MAX),
    .common = OPTIONS_STACKS | OPTIONS_SYMBOLS,
    .run = merge_command_run,
};
