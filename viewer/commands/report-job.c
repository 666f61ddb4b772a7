/* `tidemark report` of the file of a job: what its ranks differ in, to look at. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/base/message.h"
#include "viewer/commands/commands.h"
#include "viewer/commands/ranks.h"
#include "viewer/commands/report-job.h"
#include "viewer/read/layer-kinds.h"
#include "viewer/report-job/job-manifest.h"

/* Of the groups that `tidemark ranks` lists the page has so many, those that differ most. */
#define REPORT_JOB_GROUPS 600

/* What `tidemark ranks` answers of each memory. */
struct report_job {
    struct trace file;
    const char *names[JOB_MEMORIES]; /* borrow from `ranks` */
    struct ranks ranks[JOB_MEMORIES];
    struct report answers[JOB_MEMORIES];
    size_t count;
    struct job_gather gather;
};

bool
report_is_job(const struct invocation *call)
{
    for (int i = 0; i < call->count; i++) {
        if (job_look(call->arguments[i]) == JOB_FILE_JOB)
            return true;
    }
    return false;
}

/* The file of a job has no allocations that could be selected. */
static int
report_job_check(const struct invocation *call)
{
    const struct filter_options *filter = &call->common.filter;
    bool selects = filter->layers.count > 0 || filter->tags.count > 0 || filter->threads.count > 0 ||
                   filter->streams.count > 0 || filter->devices.count > 0 || filter->callstack != NULL ||
                   filter->from.kind != MOMENT_NONE || filter->to.kind != MOMENT_NONE || filter->min_size > 0 ||
                   filter->stacks.frames > 0 || filter->stacks.skip.count > 0 || filter->depth > 0;

    if (call->count > 1)
        return command_misused(call->command, "the file of a job has a page of its own: one job at a time");
    if (selects)
        return command_misused(call->command, "%s is the file of a job: it has no allocations to select",
                               call->arguments[0]);
    return COMMAND_FINE;
}

/* As for a trace: words from fixed lists, and numbers. */
static bool
report_job_keeps(const char *name, const char *text)
{
    static const char *const words[] = { "cause", "status", "kind", "missing" };

    for (size_t i = 0; name != NULL && i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i], name) == 0)
            return true;
    }
    return name != NULL && text != NULL && strcmp(name, "memory") == 0 && layer_kind_is_words(text);
}

/* Ask for one more memory; the first is that which `tidemark ranks` chooses. */
static int
report_job_ask(struct report_job *job, const char *memory, bool no_names)
{
    static const struct report_options all = { .format = REPORT_JSON, .limit = UINT64_MAX };
    const struct ranks_options options = { .memory = memory, .rank = -1 };
    struct ranks *ranks = &job->ranks[job->count];
    struct report *answer = &job->answers[job->count];
    int status;

    job->names[job->count++] = NULL;
    report_begin(answer, &all, command_ranks.name);
    status = ranks_make(&job->file, &options, ranks);
    if (status != COMMAND_FINE)
        return status;
    job->names[job->count - 1] = ranks->memory->name;
    status = ranks_answer(answer, ranks, -1, REPORT_JOB_GROUPS);
    if (no_names)
        report_hide_texts(answer, report_job_keeps);
    return status;
}

static int
report_job_ask_all(struct report_job *job, bool no_names)
{
    const struct ranks *first = &job->ranks[0];
    int status = report_job_ask(job, NULL, no_names);

    for (size_t i = 0; i < first->memory_count && job->count < JOB_MEMORIES && status != COMMAND_WRONG; i++) {
        if (&first->memories[i] != first->memory)
            status = report_job_ask(job, first->memories[i].name, no_names);
    }
    return status == COMMAND_FINE ? ranks_verdict(first) : status;
}

static int
report_job_put(struct report_job *job, int detail, bool no_names, struct blocks *blocks)
{
    const struct job_manifest manifest = {
        .blocks = blocks,
        .gather = &job->gather,
        .answers = job->answers,
        .memories_left = job->ranks[0].memory_count - job->count,
        .no_names = no_names,
    };
    int status = job_gather_make(&job->gather, &job->file, &job_details[detail], job->names, job->count);

    if (status == COMMAND_FINE)
        status = job_manifest_write(&manifest);
    job_gather_free(&job->gather);
    return status;
}

int
report_job_write(const struct invocation *call, int detail, bool no_names, struct blocks *blocks)
{
    struct report_job *job;
    int verdict, status = report_job_check(call);

    if (status != COMMAND_FINE)
        return status;
    job = calloc(1, sizeof(*job));
    if (job == NULL) {
        message("tidemark report: no memory");
        return COMMAND_WRONG;
    }
    verdict = job_read(call->arguments[0], &job->file);
    if (verdict != COMMAND_FINE) {
        free(job);
        return verdict;
    }
    verdict = report_job_ask_all(job, no_names);
    status = verdict == COMMAND_WRONG ? verdict : report_job_put(job, detail, no_names, blocks);
    for (size_t i = 0; i < job->count; i++) {
        report_end(&job->answers[i]);
        ranks_free(&job->ranks[i]);
    }
    trace_close(&job->file);
    free(job);
    return status == COMMAND_FINE ? verdict : status;
}
