/* Makes the file of a job of the traces of its ranks. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "viewer/analysis/failures.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/base/progress.h"
#include "viewer/ranks/inputs.h"
#include "viewer/ranks/job.h"
#include "viewer/ranks/median.h"
#include "viewer/ranks/merge.h"
#include "viewer/ranks/rollup.h"
#include "viewer/ranks/store.h"
#include "viewer/read/view.h"

#define MERGE_JOBS_MOST 64

/* The exit status of a process that could not write into the file of the job: others could not, either. */
#define MERGE_STUCK 9

struct merge {
    const struct filter_options *filter;
    const struct merge_options *options;
    struct inputs inputs;
    char *lock_path; /* owns */
    int lock;        /* owns: a file beside that of the job, locked against other merges; -1: none */
    char *steps;     /* owns: the pattern of the marks of steps; NULL: none */
    bool is_new;     /* the file was made by this merge */
    bool is_stuck;
    bool is_lacking; /* something is left out, or incomplete */
};

struct merge_job {
    pid_t process; /* 0: free */
    struct input *input;
};

/* ---- one trace, in a process of its own -------------------------------------------------------------------------- */

/* Why allocations failed takes two further readings: only where some did. */
static int
merge_failures(const struct merge *merge, const struct rollup *rollup, const char *path, struct view *view,
               struct failures *failures, bool *made)
{
    uint64_t count = 0;
    int status;

    for (size_t i = 0; i < rollup->memory_count; i++)
        count += rollup->memories[i].failures;
    if (count == 0)
        return COMMAND_FINE;
    status = view_open(view, merge->filter, path);
    if (status != COMMAND_FINE)
        return status;
    status = failures_make(view, failures);
    *made = status == COMMAND_FINE;
    if (!*made)
        view_close(view);
    return status;
}

static int
merge_store(const struct merge *merge, const struct input *input, struct rollup *rollup,
            const struct failures *failures)
{
    const struct store_rank who = { input->rank, input->trace, input->path, merge->steps };
    struct job job;

    if (job_open(merge->options->output, &job) != COMMAND_FINE)
        return MERGE_STUCK;
    if (store_rank(&job, &who, rollup, failures) != COMMAND_FINE) {
        job_close(&job);
        return MERGE_STUCK;
    }
    job_close(&job);
    return COMMAND_FINE;
}

/* Read a trace and write what it says. Returns the exit status of the process. */
static int
merge_one(const struct merge *merge, const struct input *input)
{
    static struct failures failures;
    struct view view, again;
    struct rollup rollup;
    bool has_failures = false;
    int status = view_open(&view, merge->filter, input->path), verdict;

    if (status != COMMAND_FINE)
        return status;
    verdict = trace_verdict(&view.trace);
    status = rollup_make(&view, merge->steps, &rollup);
    if (status == COMMAND_FINE) {
        if (rollup.memories_left > 0) {
            message("%s: %zu kinds of memory are left out: the first %d are merged", input->path, rollup.memories_left,
                    ROLLUP_MEMORIES);
            verdict = COMMAND_INCOMPLETE;
        }
        status = merge_failures(merge, &rollup, input->path, &again, &failures, &has_failures);
        if (status == COMMAND_FINE)
            status = merge_store(merge, input, &rollup, has_failures ? &failures : NULL);
        if (has_failures) {
            failures_free(&failures);
            view_close(&again);
        }
        rollup_free(&rollup);
    }
    view_close(&view);
    return status == COMMAND_FINE ? verdict : status;
}

/* ---- all traces, side by side ------------------------------------------------------------------------------------ */

static bool
merge_start(const struct merge *merge, struct merge_job *job, struct input *input)
{
    job->process = fork();
    if (job->process == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(merge->lock); /* the lock ends with the merge, even where it is killed */
        _exit(merge_one(merge, input));
    }
    if (job->process < 0) {
        job->process = 0;
        return false;
    }
    job->input = input;
    return true;
}

/* A process has ended. */
static void
merge_take(struct merge *merge, struct merge_job *job, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

    job->process = 0;
    if (code == COMMAND_FINE)
        return;
    merge->is_lacking = true;
    if (code == COMMAND_INCOMPLETE)
        return;
    if (code == MERGE_STUCK) {
        merge->is_stuck = true;
        return;
    }
    if (WIFSIGNALED(status))
        input_leave(job->input, "the process that read it was ended: %s", strsignal(WTERMSIG(status)));
    else
        input_leave(job->input, "it cannot be read");
}

/* Wait for one of the processes. False: none is running. */
static bool
merge_wait(struct merge *merge, struct merge_job *jobs, size_t count)
{
    int status = 0;
    pid_t process;

    do
        process = waitpid(-1, &status, 0);
    while (process < 0 && errno == EINTR);
    for (size_t i = 0; i < count && process > 0; i++) {
        if (jobs[i].process == process)
            merge_take(merge, &jobs[i], status);
    }
    return process > 0;
}

static struct merge_job *
merge_free_job(struct merge_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].process == 0)
            return &jobs[i];
    }
    return NULL;
}

static size_t
merge_job_count(const struct merge *merge)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t count = merge->options->jobs != 0 ? merge->options->jobs : processors > 0 ? (uint64_t)processors : 1;

    return count < MERGE_JOBS_MOST ? (size_t)count : MERGE_JOBS_MOST;
}

static int
merge_read_all(struct merge *merge)
{
    struct merge_job jobs[MERGE_JOBS_MOST] = { { 0 } };
    size_t count = merge_job_count(merge);
    struct progress progress;
    bool good = true;

    (void)signal(SIGCHLD, SIG_DFL); /* where it is ignored, there would be nothing to wait for */
    fflush(NULL);                   /* else each process would write what is in the buffers again */
    progress_begin(&progress, "merging");
    for (size_t i = 0; i < merge->inputs.count && good && !merge->is_stuck; i++) {
        struct input *input = &merge->inputs.list[i];
        struct merge_job *job;

        progress_update(&progress, i, merge->inputs.count);
        if (input->reason != NULL || input->is_in_whole)
            continue;
        while ((job = merge_free_job(jobs, count)) == NULL && merge_wait(merge, jobs, count))
            ;
        if (job != NULL && !merge->is_stuck)
            good = merge_start(merge, job, input);
    }
    if (!good)
        message("tidemark merge: a process cannot be started: %s", strerror(errno));
    while (merge_wait(merge, jobs, count))
        ;
    progress_end(&progress);
    return good && !merge->is_stuck ? COMMAND_FINE : COMMAND_WRONG;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* The file can be written. */
static int
merge_look(struct merge *merge)
{
    const char *path = merge->options->output;
    enum job_file file = job_look(path);

    merge->is_new = file == JOB_FILE_NONE;
    if (file == JOB_FILE_OTHER) {
        message("%s: it exists and is no file of a job: it is not overwritten", path);
        return COMMAND_WRONG;
    }
    if (merge->is_new || access(path, W_OK) == 0)
        return COMMAND_FINE;
    message("%s: %s", path, strerror(errno));
    return COMMAND_WRONG;
}

/* Lock the file beside it: another merge may have taken away the one that was opened. */
static bool
merge_take_lock(struct merge *merge)
{
    struct stat own, named;

    while ((merge->lock = open(merge->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) >= 0) {
        if (flock(merge->lock, LOCK_EX | LOCK_NB) != 0)
            break;
        if (fstat(merge->lock, &own) == 0 && stat(merge->lock_path, &named) == 0 && own.st_ino == named.st_ino &&
            own.st_dev == named.st_dev)
            return true;
        close(merge->lock);
    }
    return false;
}

/*
 * Take the file, so that no other merge writes into it. Not by a lock on itself: on NFS that is one with the locks of
 * SQLite, which would wait for it.
 */
static int
merge_lock(struct merge *merge)
{
    const char *path = merge->options->output;
    int status = merge_look(merge);

    if (status != COMMAND_FINE)
        return status;
    if (asprintf(&merge->lock_path, "%s-lock", path) < 0) {
        merge->lock_path = NULL;
        message("%s: no memory for its name", path);
        return COMMAND_WRONG;
    }
    if (merge_take_lock(merge))
        return merge_look(merge);
    if (errno == EWOULDBLOCK)
        message("%s: another `tidemark merge` writes into it", path);
    else
        message("%s: %s", merge->lock_path, strerror(errno));
    if (merge->lock >= 0)
        close(merge->lock);
    merge->lock = -1;
    return COMMAND_WRONG;
}

/* Take the file away before the lock ends, so that nobody locks it who would not see that it goes. */
static void
merge_unlock(struct merge *merge)
{
    if (merge->lock >= 0) {
        unlink(merge->lock_path);
        close(merge->lock);
    }
    free(merge->lock_path);
    free(merge->steps);
}

/* All ranks of a file have steps by the same marks. `file` is NULL where there is none yet. */
static int
merge_choose_steps(struct merge *merge, const struct trace *file)
{
    const char *wanted = merge->options->steps;
    int64_t ranks = 0;
    int status = COMMAND_FINE;

    if (file != NULL)
        status = trace_integer(file, "SELECT count(*) FROM rank", &ranks);
    if (status == COMMAND_FINE && ranks > 0)
        merge->steps = trace_meta(file, "steps");
    if (status != COMMAND_FINE || wanted == NULL || (merge->steps != NULL && strcmp(merge->steps, wanted) == 0))
        return status;
    if (ranks > 0) {
        message("%s: its ranks have steps by %s%s%s, not by --steps='%s': merge into a new file", file->path,
                merge->steps != NULL ? "--steps='" : "the marks that most have",
                merge->steps != NULL ? merge->steps : "", merge->steps != NULL ? "'" : "", wanted);
        return COMMAND_WRONG;
    }
    merge->steps = strdup(wanted);
    return merge->steps != NULL ? COMMAND_FINE : COMMAND_WRONG;
}

/* Keep the pattern for further merges. */
static int
merge_keep_steps(const struct merge *merge)
{
    struct job job;
    int status = job_open(merge->options->output, &job);

    if (status != COMMAND_FINE)
        return status;
    status = merge->steps != NULL ? job_execute(&job, "INSERT OR REPLACE INTO meta VALUES ('steps', %Q)", merge->steps)
                                  : job_execute(&job, "DELETE FROM meta WHERE key = 'steps'");
    job_close(&job);
    return status;
}

static int
merge_choose(struct merge *merge)
{
    struct trace file;
    int status;

    if (job_look(merge->options->output) != JOB_FILE_JOB) {
        status = merge_choose_steps(merge, NULL);
        return status == COMMAND_FINE ? inputs_choose(&merge->inputs, NULL) : status;
    }
    status = job_read(merge->options->output, &file);
    if (status != COMMAND_FINE)
        return status;
    status = merge_choose_steps(merge, &file);
    if (status == COMMAND_FINE)
        status = inputs_choose(&merge->inputs, &file);
    trace_close(&file);
    return status;
}

/* Say which ranks are missing. */
static void
merge_name_missing(struct merge *merge, sqlite3 *db)
{
    char *text = NULL;
    int64_t count;

    if (!job_missing(db, merge->inputs.world_size, &text, &count) || count == 0)
        return;
    merge->is_lacking = true;
    message("tidemark merge: of %" PRId64 " ranks these are missing: %s", merge->inputs.world_size, text);
    free(text);
}

/* The number that a query says; -1: none. */
static int64_t
merge_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    int64_t number = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

/* Of a rank with memory: whether no mark of it begins a step. */
#define MERGE_NO_STEPS                                                                                                 \
    "EXISTS (SELECT 1 FROM rank_memory AS m WHERE m.rank = r.rank) AND"                                                \
    " NOT EXISTS (SELECT 1 FROM step AS s WHERE s.rank = r.rank AND step >= 0)"

/* Say of which ranks no mark matches the pattern of steps, with how many marks the file has of each. */
static void
merge_name_no_steps(struct merge *merge, sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(db,
                           "SELECT path, (SELECT count(*) FROM mark WHERE mark.rank = r.rank) FROM rank AS r"
                           " WHERE " MERGE_NO_STEPS " ORDER BY rank",
                           -1, &statement, NULL) != SQLITE_OK)
        return;
    while (sqlite3_step(statement) == SQLITE_ROW) {
        int64_t marks = sqlite3_column_int64(statement, 1);

        message("%s: no mark matches \"%s\"; it has %" PRId64 "%s mark%s",
                (const char *)sqlite3_column_text(statement, 0), merge->steps, marks,
                marks >= STORE_MARKS ? " or more" : "", marks == 1 ? "" : "s");
    }
    sqlite3_finalize(statement);
}

/* The same, and at once where it is so of all ranks. */
static void
merge_check_steps(struct merge *merge, sqlite3 *db)
{
    int64_t lacking;

    if (merge->steps == NULL)
        return;
    lacking = merge_number(db, "SELECT count(*) FROM rank AS r WHERE " MERGE_NO_STEPS);
    if (lacking <= 0)
        return;
    merge->is_lacking = true;
    if (lacking < merge_number(db, "SELECT count(*) FROM rank WHERE rank IN (SELECT rank FROM rank_memory)"))
        merge_name_no_steps(merge, db);
    else
        message("tidemark merge: no mark matches \"%s\"; the file has %" PRId64 " marks", merge->steps,
                merge_number(db, "SELECT count(*) FROM mark"));
}

/* Write what was left out, and what holds over all ranks. */
static int
merge_finish(struct merge *merge, struct job *job)
{
    const struct inputs *inputs = &merge->inputs;
    int status = job_execute(job, "DELETE FROM left_out");

    for (size_t i = 0; i < inputs->count && status == COMMAND_FINE; i++) {
        const struct input *input = &inputs->list[i];

        if (input->reason != NULL)
            status = job_insert(job, left_out, TIDEI_TEXT(input->path), TIDEI_NUMBER_IF(input->rank >= 0, input->rank),
                                TIDEI_TEXT(input->reason));
    }
    if (status == COMMAND_FINE && inputs->job != NULL)
        status = job_execute(job, "INSERT OR REPLACE INTO meta VALUES ('job', %Q)", inputs->job);
    if (status == COMMAND_FINE && inputs->world_size >= 0)
        status = job_execute(job,
                             "INSERT INTO meta VALUES ('world_size', %lld) ON CONFLICT(key) DO UPDATE SET"
                             " value = max(value, excluded.value)",
                             (long long)inputs->world_size);
    if (status == COMMAND_FINE)
        status = median_fill(job);
    if (status == COMMAND_FINE)
        status = job_execute(job, "UPDATE meta SET value = 1 WHERE key = 'complete'");
    return status;
}

static int
merge_complete(struct merge *merge)
{
    struct job job;
    int64_t ranks;
    int status = job_open(merge->options->output, &job);

    if (status != COMMAND_FINE)
        return status;
    ranks = merge_number(job.db, "SELECT count(*) FROM rank");
    if (ranks <= 0) {
        message("tidemark merge: there is no rank to merge");
        status = COMMAND_WRONG;
    }
    if (status == COMMAND_FINE)
        status = job_begin(&job);
    if (status == COMMAND_FINE)
        status = merge_finish(merge, &job);
    if (status == COMMAND_FINE)
        status = job_commit(&job);
    if (status == COMMAND_FINE) {
        merge_name_missing(merge, job.db);
        merge_check_steps(merge, job.db);
    }
    merge->is_new = merge->is_new && ranks <= 0;
    job_close(&job);
    return status;
}

static int
merge_all(struct merge *merge)
{
    int status = inputs_look(&merge->inputs);

    if (status == COMMAND_FINE)
        status = merge_lock(merge);
    if (status == COMMAND_FINE)
        status = merge_choose(merge);
    if (status == COMMAND_FINE)
        status = merge_keep_steps(merge);
    if (status == COMMAND_FINE)
        status = merge_read_all(merge);
    if (status == COMMAND_FINE)
        status = merge_complete(merge);
    for (size_t i = 0; i < merge->inputs.count; i++)
        merge->is_lacking = merge->is_lacking || merge->inputs.list[i].reason != NULL;
    return status == COMMAND_FINE && merge->is_lacking ? COMMAND_INCOMPLETE : status;
}

int
merge_run(char *const *inputs, size_t count, const struct filter_options *filter, const struct merge_options *options)
{
    struct merge merge = { .filter = filter, .options = options, .lock = -1 };
    int status = inputs_find(&merge.inputs, inputs, count);

    if (status == COMMAND_FINE)
        status = merge_all(&merge);
    /* A file in which there is no rank is of no use. */
    if (status == COMMAND_WRONG && merge.is_new && merge.lock >= 0 &&
        (job_look(options->output) == JOB_FILE_EMPTY || !merge.is_stuck))
        unlink(options->output);
    merge_unlock(&merge);
    inputs_free(&merge.inputs);
    return status;
}
