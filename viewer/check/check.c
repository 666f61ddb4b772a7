/* Judges whether a trace meets its budgets. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/check/explain.h"
#include "viewer/check/check.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"
#include "viewer/read/view.h"

/*
 * How many budgets read the trace together. Each keeps what is live by itself: of 64, one for each of some tags, one
 * reading for all took 1.3 of the time of four for sixteen each, as the caches hold no more.
 */
#define CHECK_TOGETHER 16

/* A budget that is being judged. */
struct check_job {
    struct check *check;         /* borrows */
    struct check_result *result; /* borrows */
    struct filter_options options;
    struct view view; /* of its own: each analysis changes what the filters of its view take */
    struct view baseline;
    struct snapshot before; /* of the baseline */
    bool has_baseline;      /* both are open */
    union {
        struct peak peak;
        struct fragment fragment;
        struct leaks leaks;
        struct failures failures;
        struct snapshot snapshot;
    } of;
};

static int
peak_start(struct check_job *job)
{
    const struct moment at = { .kind = MOMENT_PEAK };

    return peak_begin(&job->view, groups_default(&job->view.names), &at, 0.05, 0, &job->of.peak);
}

static int
peak_judge(struct check_job *job)
{
    struct check_result *out = job->result;

    out->seen = job->of.peak.bytes;
    out->passed = out->seen <= out->limit;
    if (!out->passed)
        check_explain_peak(job->check, &job->of.peak, out);
    return COMMAND_FINE;
}

static void
peak_drop(struct check_job *job)
{
    peak_free(&job->of.peak);
}

static int
reserved_start(struct check_job *job)
{
    const struct moment at = { .kind = MOMENT_PEAK };

    return fragment_begin(&job->view, &at, 0, SPACE_PAGE, 0, &job->of.fragment);
}

static int
reserved_judge(struct check_job *job)
{
    const struct fragment *fragment = &job->of.fragment;
    struct check_result *out = job->result;
    double used = fragment_utilisation(fragment);
    char name[128];

    out->seen = fragment->layers.lower.active ? fragment->reserved_peak_bytes : fragment->samples.reserved_peak_bytes;
    out->seen_share = used < 0 || used > 1 ? 0 : 1 - used;
    out->passed =
        out->budget->kind == BUDGET_RESERVED ? out->seen <= out->limit : out->seen_share <= out->budget->share;
    if (used < 0 && fragment->peak_bytes > 0)
        return trace_broken(&job->view.trace, "no log below the pool and no pool samples: %s cannot be judged",
                            budget_name(out->budget, name, sizeof(name)));
    if (!out->passed)
        check_explain_reserved(job->check, &job->view, fragment, out);
    return COMMAND_FINE;
}

static void
reserved_drop(struct check_job *job)
{
    fragment_free(&job->of.fragment);
}

static int
allocations_start(struct check_job *job)
{
    return leaks_begin(&job->view, groups_default(&job->view.names), STEPS_OFF, NULL, 0, &job->of.leaks);
}

static int
allocations_judge(struct check_job *job)
{
    const struct leaks *leaks = &job->of.leaks;
    struct check_result *out = job->result;

    out->seen = 0;
    for (uint32_t i = 0; i < leaks->groups.count; i++)
        out->seen += leaks->list[i].allocations;
    out->passed = out->seen <= out->limit;
    if (!out->passed)
        check_explain_allocations(job->check, leaks, out);
    return COMMAND_FINE;
}

static int
leaks_start(struct check_job *job)
{
    return leaks_begin(&job->view, groups_default(&job->view.names), STEPS_OFF, job->check->budgets->suppressions, 0,
                       &job->of.leaks);
}

/* Whether the program had no chance to free what is live at the end. */
static bool
leaks_are_unknown(const struct check_job *job)
{
    const struct check *check = job->check;

    return !check->budgets->even_killed && check->options->to.kind == MOMENT_NONE &&
           (check->trace->end == TRACE_KILLED || check->trace->end == TRACE_RUNNING);
}

static int
leaks_judge(struct check_job *job)
{
    struct check_result *out = job->result;

    out->seen = job->of.leaks.live_count;
    out->unknown = leaks_are_unknown(job);
    out->passed = out->seen == 0 && !out->unknown;
    if (out->unknown)
        check_explain_killed(job->check, out);
    else if (!out->passed)
        check_explain_leaks(job->check, &job->of.leaks, out);
    return COMMAND_FINE;
}

static void
leaks_drop(struct check_job *job)
{
    leaks_free(&job->of.leaks);
}

static int
failures_start(struct check_job *job)
{
    return failures_begin(&job->view, &job->of.failures);
}

static int
failures_judge(struct check_job *job)
{
    struct check_result *out = job->result;

    out->seen = job->of.failures.total;
    out->passed = out->seen <= out->limit;
    if (!out->passed)
        check_explain_failures(job->check, &job->of.failures, out);
    return COMMAND_FINE;
}

static void
failures_drop(struct check_job *job)
{
    failures_free(&job->of.failures);
}

/* The baseline is read at once. */
static int
baseline_start(struct check_job *job)
{
    enum groups_by by[SNAPSHOT_GROUPS];
    int status = view_open(&job->baseline, job->check->options, job->result->budget->path);

    if (status != COMMAND_FINE)
        return status;
    snapshot_groups_default(&job->baseline.names, &job->view.names, by);
    status = snapshot_make(&job->baseline, by, 1, &job->before);
    job->has_baseline = status == COMMAND_FINE;
    if (!job->has_baseline) {
        view_close(&job->baseline);
        return status;
    }
    return snapshot_begin(&job->view, by, 1, &job->of.snapshot);
}

static int
baseline_judge(struct check_job *job)
{
    const struct snapshot *a = &job->before, *b = &job->of.snapshot;
    struct check_result *out = job->result;
    double tolerance = job->check->budgets->tolerance;

    out->seen = b->peak_bytes;
    out->limit = INT64_MAX;
    if ((1 + tolerance) * (double)a->peak_bytes < (double)out->limit)
        out->limit = a->peak_bytes + (uint64_t)(tolerance * (double)a->peak_bytes);
    out->passed = !snapshot_exceeds(a->peak_bytes, b->peak_bytes, tolerance) &&
                  !(a->has_reserved && b->has_reserved &&
                    snapshot_exceeds(a->reserved_peak_bytes, b->reserved_peak_bytes, tolerance));
    if (!out->passed)
        check_explain_baseline(job->check, a, b, out);
    if (trace_verdict(&job->baseline.trace) != COMMAND_FINE)
        job->check->baseline_incomplete = true;
    return COMMAND_FINE;
}

static void
baseline_drop(struct check_job *job)
{
    snapshot_free(&job->of.snapshot);
    if (!job->has_baseline)
        return;
    snapshot_free(&job->before);
    view_close(&job->baseline);
}

/* How each kind of budget is judged. What stands in `of` begins as zeros, and is dropped in any case. */
static const struct check_kind {
    int (*start)(struct check_job *job);
    int (*next)(void *analysis, struct scan_pass *pass); /* see viewer/read/view.h */
    int (*judge)(struct check_job *job);
    void (*drop)(struct check_job *job);
} check_kinds[] = {
    [BUDGET_PEAK] = { peak_start, peak_next, peak_judge, peak_drop },
    [BUDGET_RESERVED] = { reserved_start, fragment_next, reserved_judge, reserved_drop },
    [BUDGET_FRAGMENTATION] = { reserved_start, fragment_next, reserved_judge, reserved_drop },
    [BUDGET_ALLOCATIONS] = { allocations_start, leaks_next, allocations_judge, leaks_drop },
    [BUDGET_FAILURES] = { failures_start, failures_next, failures_judge, failures_drop },
    [BUDGET_LEAKS] = { leaks_start, leaks_next, leaks_judge, leaks_drop },
    [BUDGET_BASELINE] = { baseline_start, snapshot_next, baseline_judge, baseline_drop },
};

/* COMMAND_FINE, or another status and there is nothing to close. */
static int
check_open(struct check *check, struct check_result *result, struct check_job *job)
{
    const struct budget *budget = result->budget;
    int status;

    *job = (struct check_job){ .check = check, .result = result, .options = *check->options };
    if (budget->tag != NULL)
        job->options.tags = (struct option_list){ { budget->tag }, 1 };
    if (budget->layer != NULL)
        job->options.layers = (struct option_list){ { budget->layer }, 1 };
    status = view_open(&job->view, &job->options, check->path);
    if (status != COMMAND_FINE)
        return status;
    status = check_kinds[budget->kind].start(job);
    if (status != COMMAND_FINE) {
        check_kinds[budget->kind].drop(job);
        view_close(&job->view);
    }
    return status;
}

static int
check_judge_some(struct check *check, struct check_result *results, size_t count)
{
    struct check_job *jobs = calloc(count, sizeof(*jobs));
    struct view_analysis analyses[CHECK_TOGETHER];
    size_t opened = 0;
    int status = jobs != NULL ? COMMAND_FINE : trace_broken(check->trace, "no memory for its budgets");

    for (; opened < count && status == COMMAND_FINE; opened += status == COMMAND_FINE) {
        struct check_job *job = &jobs[opened];

        status = check_open(check, &results[opened], job);
        analyses[opened] = (struct view_analysis){ .filter = &job->view.filter,
                                                   .next = check_kinds[results[opened].budget->kind].next,
                                                   .context = &job->of };
    }
    if (status == COMMAND_FINE)
        status = view_run_analyses(check->trace, analyses, opened);
    for (size_t i = 0; i < opened; i++) {
        const struct check_kind *kind = &check_kinds[results[i].budget->kind];

        if (status == COMMAND_FINE)
            status = kind->judge(&jobs[i]);
        kind->drop(&jobs[i]);
        view_close(&jobs[i].view);
    }
    free(jobs);
    return status;
}

int
check_judge(struct check *check, struct check_result *results)
{
    const struct budgets *budgets = check->budgets;
    int status = COMMAND_FINE;

    for (size_t i = 0; i < budgets->count; i++)
        results[i] = (struct check_result){ .budget = &budgets->list[i], .limit = budgets->list[i].limit };
    for (size_t i = 0; i < budgets->count && status == COMMAND_FINE; i += CHECK_TOGETHER) {
        size_t left = budgets->count - i;

        status = check_judge_some(check, results + i, left < CHECK_TOGETHER ? left : CHECK_TOGETHER);
    }
    return status;
}

void
check_free(struct check_result *result)
{
    for (size_t i = 0; i < result->line_count; i++)
        free(result->lines[i]);
    result->line_count = 0;
}

static const char *
check_words(const struct check_result *result, uint64_t number, double share, char *buffer, size_t size)
{
    struct output_figure figure;

    switch (result->budget->kind) {
    case BUDGET_PEAK:
    case BUDGET_RESERVED:
    case BUDGET_BASELINE:
        snprintf(buffer, size, "%s", output_size(&figure, number));
        break;
    case BUDGET_FRAGMENTATION:
        snprintf(buffer, size, "%.1f%%", 100 * share);
        break;
    default:
        snprintf(buffer, size, "%" PRIu64, number);
        break;
    }
    return buffer;
}

const char *
check_limit_words(const struct check_result *result, char *buffer, size_t size)
{
    return check_words(result, result->limit, result->budget->share, buffer, size);
}

const char *
check_seen_words(const struct check_result *result, char *buffer, size_t size)
{
    return check_words(result, result->seen, result->seen_share, buffer, size);
}
