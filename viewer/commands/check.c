/* `tidemark check`: whether a trace meets its budgets; for tests that must fail if it does not. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/check/check.h"
#include "viewer/check/job-check.h"
#include "viewer/commands/commands.h"
#include "viewer/commands/tables.h"
#include "viewer/base/message.h"
#include "viewer/base/output.h"
#include "viewer/base/shown.h"
#include "viewer/ranks/job.h"

enum check_output {
    CHECK_REPORT,
    CHECK_TAP,
    CHECK_JUNIT,
};

struct check_options {
    struct option_list max_peak, max_reserved, max_fragmentation, max_allocations, max_failures, max_skew, max_growth;
    struct option_list baselines, files;
    bool no_leaks;
    bool even_killed;
    const char *suppressions;
    const char *tolerance;
    int by;     /* enum groups_by; -1: what the trace has */
    int output; /* enum check_output */
};

#define AT(field) offsetof(struct check_options, field)

/* The budgets with their names in a file of budgets, up to --budget; then the other options. */
static const struct option_def check_option_defs[] = {
    { "max-peak", 0, OPTION_LIST, "SIZE", "at most so many bytes live at a time", AT(max_peak), NULL, 0 },
    { "max-reserved", 0, OPTION_LIST, "SIZE", "at most so many bytes reserved by pools", AT(max_reserved), NULL, 0 },
    { "max-fragmentation", 0, OPTION_LIST, "SHARE", "at most so much of the reserved peak never given out",
      AT(max_fragmentation), NULL, 0 },
    { "max-allocations", 0, OPTION_LIST, "N", "at most so many allocations", AT(max_allocations), NULL, 0 },
    { "max-failures", 0, OPTION_LIST, "N", "at most so many that failed", AT(max_failures), NULL, 0 },
    { "max-skew", 0, OPTION_LIST, "SHARE", "of a job: the highest peak at most so much over the median", AT(max_skew),
      NULL, 0 },
    { "max-growth", 0, OPTION_LIST, "SIZE", "of a job: no rank grows by more than so much beyond the median",
      AT(max_growth), NULL, 0 },
    { "no-leaks", 0, OPTION_FLAG, NULL, "nothing live at the end", AT(no_leaks), NULL, 0 },
    { "suppressions", 0, OPTION_TEXT, "FILE", "no leak is what fits a pattern in FILE", AT(suppressions), NULL, 0 },
    { "baseline", 0, OPTION_LIST, "TRACE", "a peak no higher than that of TRACE", AT(baselines), NULL, 0 },
    { "tolerance", 0, OPTION_TEXT, "SHARE", "or no more than this share higher; 0%", AT(tolerance), NULL, 0 },
    { "even-killed", 0, OPTION_FLAG, NULL, "judge no-leaks although the program was killed", AT(even_killed), NULL, 0 },
    { "budget", 0, OPTION_LIST, "FILE", "also what FILE says: such options without --, one to a line", AT(files), NULL,
      0 },
    TABLES_OPTION_BY(AT(by)),
    { "tap", 0, OPTION_SET, NULL, "print TAP", AT(output), NULL, CHECK_TAP },
    { "junit", 0, OPTION_SET, NULL, "print JUnit's XML", AT(output), NULL, CHECK_JUNIT },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

/* Set the budgets of one option, for each time that it was given. */
static int
check_take_option(struct budgets *budgets, const struct option_def *def, const void *value)
{
    struct option_list once = { .count = 0 };
    const struct option_list *list = &once;

    if (def->kind == OPTION_LIST)
        list = value;
    else if (def->kind == OPTION_TEXT)
        once = (struct option_list){ { *(const char *const *)value }, *(const char *const *)value != NULL };
    else
        once = (struct option_list){ { "" }, *(const bool *)value };
    for (size_t i = 0; i < list->count; i++) {
        const char *wrong = budgets_set(budgets, def->name, list->items[i], NULL);

        if (wrong != NULL)
            return command_misused(&command_check, "--%s: %s", def->name, wrong);
    }
    return COMMAND_FINE;
}

/* The value of --by, which --depth implies. */
static int
check_option_by(const struct invocation *call)
{
    int option = ((const struct check_options *)call->own)->by;

    return option < 0 && call->common.filter.depth > 0 ? GROUPS_TAG : option;
}

/* Refuse --by, --frames, --skip and --depth where no budget has groups, or those are of something else. */
static int
check_groups(const struct invocation *call, const struct budgets *budgets, struct view *view,
             const struct report *report)
{
    int option = check_option_by(call);
    const struct filter_options *filter = &call->common.filter;
    const char *given = ((const struct check_options *)call->own)->by >= 0 ? "by"
                        : filter->stacks.frames > 0                        ? "frames"
                        : filter->stacks.skip.count > 0                    ? "skip"
                        : filter->depth > 0                                ? "depth"
                                                                           : NULL;
    bool has_groups = false, has_baseline = false;
    enum groups_by by;

    for (size_t i = 0; i < budgets->count; i++) {
        has_groups = has_groups || check_has_groups(budgets->list[i].kind);
        has_baseline = has_baseline || budgets->list[i].kind == BUDGET_BASELINE;
    }
    if (given != NULL && !has_groups)
        return command_misused(&command_check, "--%s is for --max-peak, --max-allocations, --no-leaks and --baseline",
                               given);
    /* A baseline may have the call stacks that the trace lacks: they are looked at once it is open. */
    if (has_baseline && option < 0)
        return COMMAND_FINE;
    if (!has_baseline && names_check_callstacks(&view->names, NULL) != COMMAND_FINE)
        return COMMAND_WRONG;
    return tables_by(view, report, option, &by);
}

static bool
check_has_leaks(const struct budgets *budgets)
{
    for (size_t i = 0; i < budgets->count; i++) {
        if (budgets->list[i].kind == BUDGET_LEAKS)
            return true;
    }
    return false;
}

/* Files first, so that a tolerance or suppressions on the command line win. */
static int
check_take(const struct check_options *options, struct budgets *budgets)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; i < options->files.count && status == COMMAND_FINE; i++)
        status = budgets_read(budgets, options->files.items[i]);
    for (const struct option_def *def = check_option_defs; status == COMMAND_FINE && def->offset != AT(files); def++)
        status = check_take_option(budgets, def, (const char *)options + def->offset);
    if (status == COMMAND_FINE && budgets->even_killed && !check_has_leaks(budgets))
        status = command_misused(&command_check, "--even-killed is for --no-leaks");
    if (status == COMMAND_FINE && budgets->count == 0)
        status = command_misused(&command_check, "which budget? --max-peak=4GiB, say, or --no-leaks");
    return status;
}

/* The lines of a result, one below the other. The caller frees them; NULL: no memory. */
static char *
check_reason(const struct check_result *result)
{
    char *reason = NULL;
    size_t size;
    FILE *out = open_memstream(&reason, &size);

    for (size_t i = 0; out != NULL && i < result->line_count; i++)
        fprintf(out, "%s%s", i > 0 ? "\n" : "", result->lines[i]);
    if (out != NULL && fclose(out) == 0)
        return reason;
    free(reason);
    return NULL;
}

static void
check_report_row(struct report *report, const struct check_result *result)
{
    bool is_share = check_is_share(result);
    char name[256], limit[64], seen[64];
    char *reason = check_reason(result);

    REPORT_ROW(report, cell_text(check_word(result)), cell_text(budget_name(result->budget, name, sizeof(name))),
               cell_unsigned(result->passed), cell_unsigned(result->unknown),
               cell_text(check_limit_words(result, limit, sizeof(limit))),
               cell_text(check_seen_words(result, seen, sizeof(seen))),
               is_share ? cell_none() : cell_unsigned(result->limit),
               is_share || result->seen_unknown ? cell_none() : cell_unsigned(result->seen),
               is_share ? cell_real(result->budget->share) : cell_none(),
               is_share && !result->seen_unknown ? cell_real(result->seen_share) : cell_none(),
               result->passed ? cell_none() : cell_text(reason));
    free(reason);
}

/* Names in `text` come from the trace and may hold control characters. */
static void
check_report_line(struct report *report, const char *indent, const char *text, const char *end)
{
    char *clean = shown_copy(text);

    report_lines(report, "%s%s%s\n", indent, clean != NULL ? clean : "", end);
    free(clean);
}

static void
check_report_cause(struct report *report, const struct check_result *result)
{
    char name[256];

    check_report_line(report, "", budget_name(result->budget, name, sizeof(name)), ":");
    for (size_t i = 0; i < result->line_count; i++)
        check_report_line(report, "  ", result->lines[i], "");
}

/* `trace` is NULL of a job, whose ranks have an end each. */
static void
check_report(struct report *report, const struct trace *trace, const struct check_result *results, size_t count,
             size_t failed, size_t unknown)
{
    static const struct report_column columns[] = {
        { NULL, "", REPORT_TEXT },
        { "budget", "BUDGET", REPORT_TEXT },
        { "passed", NULL, REPORT_FLAG },
        { "unknown", NULL, REPORT_FLAG },
        { NULL, "LIMIT", REPORT_TEXT },
        { NULL, "SEEN", REPORT_TEXT },
        { "limit", NULL, REPORT_COUNT },
        { "seen", NULL, REPORT_COUNT },
        { "limit_share", NULL, REPORT_SHARE },
        { "seen_share", NULL, REPORT_SHARE },
        { "reason", NULL, REPORT_TEXT },
    };

    report_field(report, "passed", NULL, REPORT_FLAG, cell_unsigned(failed + unknown == 0));
    report_field(report, "failed_count", NULL, REPORT_COUNT, cell_unsigned(failed));
    report_field(report, "unknown_count", NULL, REPORT_COUNT, cell_unsigned(unknown));
    report_field(report, "ended", trace != NULL && trace_is_cut(trace) ? "ended" : NULL, REPORT_TEXT,
                 trace != NULL ? cell_text(trace_end_word(trace)) : cell_none());
    REPORT_TABLE(report, "budgets", NULL, columns);
    for (size_t i = 0; i < count; i++)
        check_report_row(report, &results[i]);
    for (size_t i = 0; i < count; i++) {
        if (!results[i].passed)
            check_report_cause(report, &results[i]);
    }
}

/* How many results are of budgets that are broken, and of those of which it is unknown. The exit status. */
static int
check_count(const struct check_result *results, size_t count, size_t *failed, size_t *unknown)
{
    *failed = *unknown = 0;
    for (size_t i = 0; i < count; i++) {
        *failed += !results[i].passed && !results[i].unknown;
        *unknown += results[i].unknown;
    }
    return *failed > 0 ? COMMAND_FINDING : *unknown > 0 ? COMMAND_INCOMPLETE : COMMAND_FINE;
}

/* As TAP or JUnit's XML. COMMAND_FINE, or another status after a message. */
static int
check_write(enum check_output output, const struct trace *trace, const struct check_result *results, size_t count,
            const struct check_lacks *lacks)
{
    int status = output == CHECK_TAP ? check_write_tap(trace, results, count, lacks)
                                     : check_write_junit(trace, results, count, lacks);

    return status == 0 ? COMMAND_FINE : trace_broken(trace, "no memory for the answer");
}

/* Print the results, and close the view. Returns the exit status. */
static int
check_finish(struct view *view, struct report *report, const struct check_options *options, const struct check *check,
             const struct check_result *results)
{
    const struct check_lacks lacks = { .recording = view->trace.lost_events != 0 ? "it has lost events"
                                                    : view->trace.in_progress    ? "it is in progress"
                                                    : view->trace.failed         ? "it is incomplete"
                                                    : !view->trace.complete      ? "it was cut off"
                                                                                 : NULL,
                                       .baseline = check->baseline_incomplete };
    size_t count = check->budgets->count;
    size_t failed, unknown;
    int status = check_count(results, count, &failed, &unknown), written;

    if (options->output == CHECK_REPORT) {
        check_report(report, &view->trace, results, count, failed, unknown);
        status = command_finish(view, report, failed > 0 ? COMMAND_FINDING : COMMAND_FINE);
        return status == COMMAND_FINE && unknown > 0 ? COMMAND_INCOMPLETE : status;
    }
    written = check_write((enum check_output)options->output, &view->trace, results, count, &lacks);
    if (written != COMMAND_FINE)
        status = written;
    else if (trace_verdict(&view->trace) != COMMAND_FINE)
        status = COMMAND_INCOMPLETE;
    command_finish(view, report, COMMAND_WRONG);
    return output_finish(status);
}

static int
check_trace(const struct invocation *call, const struct budgets *budgets, struct check_result *results)
{
    const struct filter_options *filter = &call->common.filter;
    const char *path = call->arguments[0];
    struct report report;
    struct view view;
    struct check check = {
        .path = path,
        .trace = &view.trace,
        .options = filter,
        .budgets = budgets,
        .by = check_option_by(call),
    };
    int status = view_open(&view, filter, path);

    if (status != COMMAND_FINE)
        return status;
    report_begin(&report, &call->common.report, "check");
    status = check_groups(call, budgets, &view, &report);
    if (status == COMMAND_FINE)
        status = check_judge(&check, results);
    if (status == COMMAND_FINE) {
        status = check_finish(&view, &report, (const struct check_options *)call->own, &check, results);
        if (check.baseline_incomplete && status != COMMAND_WRONG)
            status = COMMAND_INCOMPLETE;
    } else {
        command_finish(&view, &report, status);
    }
    return status;
}

/* ---- the ranks of a job ------------------------------------------------------------------------------------------ */

/* The word in the file of a job for what groups are by; NULL in *out: --by was not given. */
static int
check_job_by(int by, const char **out)
{
    *out = by == GROUPS_TAG ? "tag" : by == GROUPS_FUNCTION ? "function" : by == GROUPS_CLASS ? "class" : NULL;
    return by < 0 || *out != NULL
               ? COMMAND_FINE
               : command_misused(&command_check, "--by: the file of a job has groups by tag, function and class alone");
}

/* Refuse the options that choose allocations: the file of a job has none. */
static int
check_job_options(const struct invocation *call)
{
    const struct filter_options *filter = &call->common.filter;
    const char *given = filter->layers.count > 0           ? "layer"
                        : filter->from.kind != MOMENT_NONE ? "from"
                        : filter->to.kind != MOMENT_NONE   ? "to"
                        : filter->stacks.frames > 0        ? "frames"
                        : filter->stacks.skip.count > 0    ? "skip"
                        : filter->depth > 0                ? "depth"
                                                           : NULL;

    return given == NULL ? COMMAND_FINE
                         : command_misused(&command_check, "--%s is for a trace, and %s is the file of a job", given,
                                           call->arguments[0]);
}

/* Print the results. Returns the exit status. */
static int
check_job_finish(const struct invocation *call, const struct job_check *check, const struct check_result *results)
{
    const struct check_options *options = (const struct check_options *)call->own;
    size_t count = check->budgets->count, failed, unknown;
    int status = check_count(results, count, &failed, &unknown), looked;
    struct report report;
    char buffer[256];
    const char *incomplete;

    looked = job_check_lacks(check->file, buffer, sizeof(buffer), &incomplete);
    if (looked != COMMAND_FINE)
        return looked;
    if (incomplete != NULL)
        message("%s: %s", check->file->path, incomplete);
    if (incomplete != NULL || check->baseline_incomplete)
        status = COMMAND_INCOMPLETE;
    if (options->output != CHECK_REPORT) {
        const struct check_lacks lacks = { incomplete, check->baseline_incomplete };
        int written = check_write((enum check_output)options->output, check->file, results, count, &lacks);

        return output_finish(written != COMMAND_FINE ? written : status);
    }
    report_begin(&report, &call->common.report, "check");
    check_report(&report, NULL, results, count, failed, unknown);
    status = report_print(&report, status);
    report_end(&report);
    return status;
}

static int
check_job(const struct invocation *call, const struct budgets *budgets, struct check_result *results)
{
    struct trace file;
    struct job_check check = { .file = &file, .budgets = budgets };
    int status = check_job_options(call);

    if (status == COMMAND_FINE)
        status = check_job_by(((const struct check_options *)call->own)->by, &check.kind);
    if (status == COMMAND_FINE)
        status = job_read(call->arguments[0], &file);
    if (status != COMMAND_FINE)
        return status;
    status = job_check_judge(&check, results);
    if (status == COMMAND_FINE)
        status = check_job_finish(call, &check, results);
    trace_close(&file);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Refuse budgets of ranks where there is a trace alone. */
static int
check_is_trace(const struct invocation *call, const struct budgets *budgets)
{
    char name[256];

    for (size_t i = 0; i < budgets->count; i++) {
        if (budget_is_of_job(&budgets->list[i]))
            return command_misused(&command_check,
                                   "%s is for the file of a job, which `tidemark merge` makes: %s is none",
                                   budget_name(&budgets->list[i], name, sizeof(name)), call->arguments[0]);
    }
    return COMMAND_FINE;
}

/* Judge all budgets, print, and free what was judged. */
static int
check_all(const struct invocation *call, const struct budgets *budgets)
{
    struct check_result *results = calloc(budgets->count, sizeof(*results));
    enum job_file file = job_look(call->arguments[0]);
    bool is_job = file == JOB_FILE_JOB;
    int status = is_job || file == JOB_FILE_NONE ? COMMAND_FINE : check_is_trace(call, budgets);

    if (results == NULL) {
        message("%s: no memory for its budgets", call->arguments[0]);
        return COMMAND_WRONG;
    }
    if (status == COMMAND_FINE)
        status = is_job ? check_job(call, budgets, results) : check_trace(call, budgets, results);
    for (size_t i = 0; i < budgets->count; i++)
        check_free(&results[i]);
    free(results);
    return status;
}

static int
check_run(struct invocation *call)
{
    struct budgets budgets = { 0 };
    int status = check_take((const struct check_options *)call->own, &budgets);

    if (status == COMMAND_FINE)
        status = check_all(call, &budgets);
    budgets_free(&budgets);
    return status;
}

const struct command command_check = {
    .name = "check",
    .arguments = "BUDGET ... TRACE|JOB",
    .purpose = "Whether a trace, or each rank of a job, keeps to its budgets; 1 where not",
    .help = "\n"
            "A budget of a part of the allocations has layer=N: or tag=TAG: before its limit, as in\n"
            "--max-peak=tag=train/forward:2GiB; where tags have no meaning, layers alone. All may be\n"
            "given several times. Each stack and kind of memory has to keep to --max-peak,\n"
            "--max-reserved, --max-fragmentation and --baseline by itself. What is said of a budget\n"
            "names groups: --by, --frames and --skip say of what. JOB is the file of a job, which\n"
            "`tidemark merge` makes: each of its ranks has to keep to the budgets by itself, and those\n"
            "of one kind of memory have memory=NAME: before their limit. Exit status: 0 all are kept,\n"
            "1 one is not, 2 wrong use, 3 the trace is incomplete or does not tell, as whether a\n"
            "program that was killed has leaks.\n",
    .options = check_option_defs,
    COMMAND_OWN(struct check_options, .by = -1, .output = CHECK_REPORT),
    .common = OPTIONS_REPORT | OPTIONS_WINDOW | OPTIONS_STACKS,
    .run = check_run,
};
