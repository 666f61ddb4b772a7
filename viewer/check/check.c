/* Judges whether a trace meets its budgets, and explains in a few lines what exceeds one, by how much, and why. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/analysis/failures.h"
#include "viewer/analysis/fragment.h"
#include "viewer/analysis/leaks.h"
#include "viewer/analysis/peak.h"
#include "viewer/analysis/snapshot.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/order.h"
#include "viewer/base/output.h"
#include "viewer/check/baseline.h"
#include "viewer/check/check.h"
#include "viewer/read/view.h"

/*
 * The number of budgets that share a reading of the trace. Each keeps its own live allocations. One reading for 64
 * budgets, each of another tag, took 1.3 times as long as four readings for 16 each: the caches hold no more.
 */
#define CHECK_TOGETHER 16

/* The most groups that an explanation names. */
#define CHECK_CULPRITS 3

/* A budget that is being judged; of the peak, one memory of those that each have to keep to it. */
struct check_job {
    struct check_job *next;      /* owns; of the next memory */
    char *memory;                /* owns; its name; NULL: the budget is of all that the view selects */
    int64_t layer_id;            /* whose blocks it has; 0: those of several layers */
    struct check *check;         /* borrows */
    struct check_result *result; /* borrows */
    struct filter_options options;
    struct view view; /* its own: some analyses extend the filter of their view */
    struct view baseline;
    struct snapshot before; /* of the baseline */
    bool has_baseline;      /* `baseline` and `before` are open */
    struct snapshot_memories memories;
    struct snapshot_worst worst; /* against the baseline */
    union {
        struct peak peak;
        struct fragment fragment;
        struct leaks leaks;
        struct failures failures;
        struct snapshot snapshot;
    } of;
};

static uint64_t
peak_bytes(const void *context, uint32_t group)
{
    return ((const struct peak *)context)->at_groups[group].bytes;
}

static void
peak_explain(const struct check_job *job, struct check_result *out)
{
    const struct peak *peak = &job->of.peak;
    struct order *order = order_make(peak->groups.count, peak_bytes, peak);
    struct output_figure figure, without, ns;
    char buffer[128];

    check_say(out, "%s%sthe peak is %s, %s", job->memory != NULL ? job->memory : "", job->memory != NULL ? ": " : "",
              output_size_beside(&figure, peak->bytes, out->limit), check_over(out, buffer, sizeof(buffer)));
    check_say(out, "it was reached after %s, by allocation #%" PRId64 ", with %" PRIu64 " live",
              output_time(&ns, peak->ns), peak->allocation_id, peak->at_count);
    for (size_t i = 0; order != NULL && i < peak->groups.count && i < CHECK_CULPRITS - 1; i++) {
        uint64_t bytes = order[i].figure;

        if (bytes > 0)
            check_say(out, "%s %s has %s of it (%.1f%%); without it the peak is %s", groups_word(peak->groups.by),
                      groups_brief(&peak->groups, order[i].number, buffer, sizeof(buffer)), output_size(&figure, bytes),
                      100 * (double)bytes / (double)peak->at_bytes,
                      output_size(&without, counterfactual_without(&peak->rest, order[i].number)));
    }
    free(order);
}

/* Whether a group is only the sum of others, each of which is judged: its logs have memory of several kinds. */
static bool
reserved_is_sum(const struct reserved *reserved, const struct reserved_group *group)
{
    bool has_parts = false;

    if (group->reserved.source != RESERVED_UNKNOWN || !group->is_mixed)
        return false;
    for (size_t i = 0; i < reserved->group_count && !has_parts; i++)
        has_parts = reserved->groups[i].number == group->number && &reserved->groups[i] != group &&
                    (reserved->groups[i].reserved.source != RESERVED_UNKNOWN);
    return has_parts;
}

/* The group that is judged, which is the worst for the budget. */
static const struct reserved_group *
reserved_worst(const struct check_job *job)
{
    const struct reserved *reserved = &job->of.fragment.reserved;
    const struct reserved_group *worst = NULL;
    bool by_share = job->result->budget->kind == BUDGET_FRAGMENTATION;

    for (size_t i = 0; i < reserved->group_count; i++) {
        const struct reserved_group *group = &reserved->groups[i];

        if (reserved_is_sum(reserved, group))
            continue;
        /* Where nothing was reserved, or it is unknown, there is no share: it hides none of another group. */
        if (by_share && (!group->has_upper || reserved_utilisation(group) < 0))
            continue;
        if (worst == NULL || (by_share ? reserved_utilisation(group) < reserved_utilisation(worst)
                                       : reserved_larger(group)->peak_bytes > reserved_larger(worst)->peak_bytes))
            worst = group;
    }
    return worst;
}

/* What a budget judges of a group. */
static const struct reserved_figure *
reserved_judged(const struct check_job *job, const struct reserved_group *group)
{
    return job->result->budget->kind == BUDGET_FRAGMENTATION ? &group->reserved : reserved_larger(group);
}

/* Whether a group has to keep to the budget. Of blocks that lie in several kinds of memory the share is unknown. */
static bool
reserved_matters(const struct check_job *job, const struct reserved_group *group)
{
    bool by_share = job->result->budget->kind == BUDGET_FRAGMENTATION;

    if (group->has_upper)
        return group->live_peak_bytes > 0 && (by_share || !reserved_is_sum(&job->of.fragment.reserved, group));
    return !by_share && reserved_larger(group)->peak_bytes > 0;
}

/* Whether some group may break the budget without the trace telling. */
static bool
reserved_is_unknown(const struct check_job *job)
{
    const struct reserved *reserved = &job->of.fragment.reserved;

    for (size_t i = 0; i < reserved->group_count; i++) {
        const struct reserved_group *group = &reserved->groups[i];
        const struct reserved_figure *judged = reserved_judged(job, group);

        if (!judged->is_exact && reserved_matters(job, group))
            return true;
    }
    return reserved->is_off;
}

/* Each kind of memory of each stack has to keep to the budget: they are not added up. */
static int
reserved_measure(struct check_job *job)
{
    const struct reserved_group *group = reserved_worst(job);
    struct check_result *out = job->result;
    double used = group != NULL ? reserved_utilisation(group) : -1;

    check_measured(out, group != NULL ? reserved_larger(group)->peak_bytes : 0);
    out->seen_share = used < 0 ? 0 : 1 - used;
    if (out->budget->kind == BUDGET_FRAGMENTATION)
        out->passed = out->seen_share <= out->budget->share;
    out->unknown = out->passed && reserved_is_unknown(job);
    out->passed = out->passed && !out->unknown;
    return COMMAND_FINE;
}

/* The chunk whose few blocks hold back the most free bytes. */
static const struct space_chunk *
reserved_pinned(const struct space *space)
{
    const struct space_chunk *most = NULL;

    for (size_t i = 0; i < space->chunk_count; i++) {
        const struct space_chunk *chunk = &space->chunks[i];

        if (chunk->block_count > 0 && chunk->used_bytes < chunk->size &&
            (most == NULL || chunk->size - chunk->used_bytes > most->size - most->used_bytes))
            most = chunk;
    }
    return most;
}

/* Why the budget cannot be judged. */
static void
reserved_explain_unknown(const struct check_job *job, struct check_result *out)
{
    const struct reserved *reserved = &job->of.fragment.reserved;
    struct output_figure figure;

    for (size_t i = 0; i < reserved->group_count; i++) {
        const struct reserved_group *group = &reserved->groups[i];
        const struct reserved_figure *judged = reserved_judged(job, group);

        if (judged->is_exact || !reserved_matters(job, group))
            continue;
        if (reserved_is_sum(reserved, group))
            check_say(out, "%s: the trace does not tell how much of each of them was used", group->name);
        else if (judged->source == RESERVED_UNKNOWN)
            check_say(out, "%s: no log below the pool, no chunks of it and no samples say what was reserved",
                      group->name);
        else
            check_say(out, "%s: at least %s were reserved, by samples of the %s, which can miss a peak", group->name,
                      output_size(&figure, judged->peak_bytes), judged == &group->base ? "base" : "pool");
    }
}

/* The holes at the peak, and a chunk that few blocks hold. */
static void
reserved_explain_holes(const struct check_job *job, struct check_result *out)
{
    const struct fragment *fragment = &job->of.fragment;
    const struct space_chunk *pinned = reserved_pinned(&fragment->space);
    struct output_figure figure, other;
    char text[512];

    if (fragment->space.free_bytes > 0)
        check_say(out, "at the peak %s were free in %" PRIu64 " holes, the largest of %s",
                  output_size(&figure, fragment->space.free_bytes), fragment->space.holes,
                  output_size(&other, fragment->space.largest_hole));
    if (pinned != NULL) {
        space_pins(&job->view, &fragment->space, pinned, text, sizeof(text));
        check_say(out, "then a chunk with %s free of its %s was held by %s",
                  output_size(&figure, pinned->size - pinned->used_bytes), output_size(&other, pinned->size), text);
    }
}

static void
reserved_explain(const struct check_job *job, struct check_result *out)
{
    const struct fragment *fragment = &job->of.fragment;
    const struct reserved_group *group = reserved_worst(job);
    const struct reserved_figure *most = group != NULL ? reserved_larger(group) : NULL;
    struct output_figure figure, other, third;
    char text[128];

    if (out->unknown || group == NULL) {
        reserved_explain_unknown(job, out);
        return;
    }
    if (out->budget->kind == BUDGET_RESERVED)
        check_say(out, "%s: %s%s were reserved%s, %s", group->name, reserved_least(most),
                  output_size_beside(&figure, out->seen, out->limit), most == &group->base ? " by the base" : "",
                  check_over(out, text, sizeof(text)));
    else
        check_say(out, "%s: %s%.1f%% of what was reserved was never given out: more than %.1f%%", group->name,
                  reserved_least(&group->reserved), 100 * out->seen_share, 100 * out->budget->share);
    check_say(out, "of the %s reserved at most, %s were given out at most; %s were asked for",
              output_size(&figure, group->reserved.peak_bytes), output_size(&other, reserved_used_peak(group)),
              output_size(&third, group->live_peak_bytes));
    if (fragment->layers.lower.active && fragment->group == group)
        reserved_explain_holes(job, out);
}

static int
allocations_measure(struct check_job *job)
{
    const struct leaks *leaks = &job->of.leaks;
    uint64_t allocations = 0;

    for (uint32_t i = 0; i < leaks->groups.count; i++)
        allocations += leaks->list[i].allocations;
    return check_measured(job->result, allocations);
}

static uint64_t
allocations_of(const void *context, uint32_t group)
{
    return ((const struct leaks *)context)->list[group].allocations;
}

static void
allocations_explain(const struct check_job *job, struct check_result *out)
{
    const struct leaks *leaks = &job->of.leaks;
    struct order *order = order_make(leaks->groups.count, allocations_of, leaks);
    char name[GROUPS_NAME];

    check_say(out, "%" PRIu64 " allocation%s, %" PRIu64 " more than %" PRIu64, out->seen, out->seen == 1 ? "" : "s",
              out->seen - out->limit, out->limit);
    for (size_t i = 0; order != NULL && i < leaks->groups.count && i < CHECK_CULPRITS; i++)
        check_say(out, "%s %s made %" PRIu64 " of them (%.1f%%)", groups_word(leaks->groups.by),
                  groups_brief(&leaks->groups, order[i].number, name, sizeof(name)), order[i].figure,
                  100 * (double)order[i].figure / (double)out->seen);
    free(order);
}

/* Whether the program had no chance to free what is live at the end. */
static bool
leaks_are_unknown(const struct check_job *job)
{
    const struct check *check = job->check;

    return !check->budgets->even_killed && check->options->to.kind == MOMENT_NONE && trace_is_cut(check->trace);
}

static int
leaks_measure(struct check_job *job)
{
    struct check_result *out = job->result;

    check_measured(out, job->of.leaks.live_count);
    out->unknown = leaks_are_unknown(job);
    out->passed = out->passed && !out->unknown;
    return COMMAND_FINE;
}

static uint64_t
leaks_of(const void *context, uint32_t group)
{
    return ((const struct leaks *)context)->list[group].live_bytes;
}

static void
leaks_explain(const struct check_job *job, struct check_result *out)
{
    const struct leaks *leaks = &job->of.leaks;
    struct order *order = order_make(leaks->groups.count, leaks_of, leaks);
    struct output_figure figure, since;
    char name[GROUPS_NAME];

    if (out->unknown) {
        if (job->check->trace->end == TRACE_FAILED)
            check_say(out, "unknown: the recording failed, and the program went on with what was live");
        else
            check_say(out, "unknown: the program %s, and may have been about to free what was live",
                      job->check->trace->end == TRACE_KILLED ? "was killed" : "still runs");
        check_say(out, "--even-killed judges it all the same");
        free(order);
        return;
    }
    check_say(out, "%" PRIu64 " allocation%s %s, %s", leaks->live_count, leaks->live_count == 1 ? " is" : "s are",
              view_live_words(&job->view), output_size(&figure, leaks->live_bytes));
    for (size_t i = 0; order != NULL && i < leaks->groups.count && i < CHECK_CULPRITS && order[i].figure > 0; i++) {
        const struct leaks_group *group = &leaks->list[order[i].number];

        check_say(out, "%s %s: %" PRIu64 " of its %" PRIu64 " allocations, %s, since %s", groups_word(leaks->groups.by),
                  groups_brief(&leaks->groups, order[i].number, name, sizeof(name)), group->live_count,
                  group->allocations, output_size(&figure, group->live_bytes), output_time(&since, group->oldest_ns));
    }
    free(order);
}

static void
failures_explain(const struct check_job *job, struct check_result *out)
{
    const struct failures *failures = &job->of.failures;
    const struct failure *first = failures->first;
    bool holes;
    struct output_figure size, ns, live, hole;
    char causes[256] = "";
    size_t length = 0;

    for (int cause = 0; cause < FAILURE_CAUSES; cause++) {
        if (failures->by_cause[cause] > 0 && length < sizeof(causes))
            length +=
                (size_t)snprintf(causes + length, sizeof(causes) - length, "%s%s %" PRIu64, length > 0 ? ", " : "",
                                 failures_word((enum failure_cause)cause), failures->by_cause[cause]);
    }
    check_say(out, "%" PRIu64 " allocation%s failed, %" PRIu64 " more than %" PRIu64 ": %s", out->seen,
              out->seen == 1 ? "" : "s", out->seen - out->limit, out->limit, causes);
    if (first == NULL)
        return;
    holes = first->at.source == DIAGNOSIS_CHUNKS;
    check_say(out, "the first is #%" PRId64 " of %s after %s, with %s live: %s", first->life.allocation_id,
              output_size(&size, first->life.size), output_time(&ns, first->life.alloc_ns),
              output_size(&live, first->at.live_bytes), failures_word(first->cause));
    if (first->at.source != DIAGNOSIS_NONE)
        check_say(out, "%s of %s reserved were free then%s%s", output_size(&size, first->at.free_bytes),
                  output_size(&live, first->at.reserved_bytes), holes ? "; the largest hole: " : "",
                  holes ? output_size(&hole, first->at.largest_hole) : "");
    if (first->pinned_by != NULL)
        check_say(out, "in its way: %s", first->pinned_by);
}

/* What the groups are by, where `otherwise` is the default. */
static enum groups_by
check_by(const struct check *check, enum groups_by otherwise)
{
    return check->by >= 0 ? (enum groups_by)check->by : otherwise;
}

bool
check_has_groups(enum budget_kind kind)
{
    return kind == BUDGET_PEAK || kind == BUDGET_ALLOCATIONS || kind == BUDGET_LEAKS || kind == BUDGET_BASELINE;
}

/* The baseline itself is read here, before the shared readings. */
static int
baseline_begin(struct check_job *job)
{
    enum groups_by by[SNAPSHOT_GROUPS];
    int status = view_open(&job->baseline, job->check->options, job->result->budget->path);

    if (status != COMMAND_FINE)
        return status;
    snapshot_groups_default(&job->baseline.names, &job->view.names, by);
    by[0] = check_by(job->check, by[0]);
    status = names_check_callstacks(&job->view.names, &job->baseline.names);
    if (status == COMMAND_FINE)
        status = snapshot_make(&job->baseline, by, 1, &job->before);
    job->has_baseline = status == COMMAND_FINE;
    if (!job->has_baseline) {
        view_close(&job->baseline);
        return status;
    }
    return snapshot_begin(&job->view, by, 1, &job->of.snapshot);
}

/* The figure that is worst is what the budget is judged by. */
static int
baseline_measure(struct check_job *job)
{
    int status = snapshot_pair(&job->before, &job->of.snapshot, &job->memories);

    if (status != COMMAND_FINE)
        return status;
    baseline_judge(&job->memories, job->check->budgets->tolerance, &job->worst, job->result);
    if (trace_verdict(&job->baseline.trace) != COMMAND_FINE)
        job->check->baseline_incomplete = true;
    return COMMAND_FINE;
}

static void
baseline_explain(const struct check_job *job, struct check_result *out)
{
    const struct snapshot *a = &job->before, *b = &job->of.snapshot;
    bool has_name = job->worst.memory != NULL;
    struct output_figure figure, before, after;
    struct align align = { 0 };
    char name[GROUPS_NAME];

    baseline_say(&job->memories, job->check->budgets->tolerance, &job->worst, out);
    if (out->unknown)
        return;
    if (align_make(a, b, 0, &align) == COMMAND_FINE) {
        for (size_t i = 0; i < align.count && i < CHECK_CULPRITS && align_change(&align.rows[i]) != 0; i++) {
            const struct align_row *row = &align.rows[i];
            int64_t change = align_change(row);

            check_say(out, "%s %s: %s%s at the peak%s, from %s to %s", groups_word(b->by[0].groups.by),
                      align_brief(row, b->by[0].groups.by, name, sizeof(name)), change < 0 ? "-" : "+",
                      output_size(&figure, change < 0 ? (uint64_t)-change : (uint64_t)change),
                      has_name ? " of all together" : "", output_size_beside(&before, row->a.bytes, row->b.bytes),
                      output_size_beside(&after, row->b.bytes, row->a.bytes));
        }
        align_free(&align);
    }
}

/* Let the view of a job select the logs of one memory alone. */
static int
check_narrow(struct check_job *job, const struct reserved *reserved, const struct reserved_group *group)
{
    struct filter_set *set = &job->view.filter.layers;
    size_t count = 0;
    int status = COMMAND_FINE;

    id_map_free(&set->ids);
    *set = (struct filter_set){ .active = true };
    for (size_t i = group->first_upper; i != TRACE_LAYERS_NONE && status == COMMAND_FINE;
         i = reserved->roles[i].next_upper) {
        int64_t id = reserved->roles[i].layer_id;

        status = filter_set_add(set, id);
        job->layer_id = count++ == 0 ? id : 0;
    }
    job->memory = strdup(group->name);
    return status == COMMAND_FINE && job->memory == NULL ? trace_broken(job->check->trace, "no memory for its budgets")
                                                         : status;
}

/* Begin the analysis of a budget. `of` is released even on failure. */
static int
check_begin(struct check_job *job)
{
    const struct moment at = { .kind = MOMENT_PEAK };
    enum groups_by by = check_by(job->check, groups_default(&job->view.names));

    switch (job->result->budget->kind) {
    case BUDGET_PEAK:
        return peak_begin(&job->view, by, &at, &(struct peak_shares){ .within = 0.05, .prominence = 1 }, 0,
                          &job->of.peak);
    case BUDGET_RESERVED:
    case BUDGET_FRAGMENTATION:
        return fragment_begin(&job->view, &(struct fragment_options){ .at = at, .page_bytes = SPACE_PAGE },
                              &job->of.fragment);
    case BUDGET_ALLOCATIONS:
        return leaks_begin(&job->view, by, STEPS_OFF, NULL, 0, &job->of.leaks);
    case BUDGET_FAILURES:
        return failures_begin(&job->view, &job->of.failures);
    case BUDGET_LEAKS:
        return leaks_begin(&job->view, by, STEPS_OFF, job->check->budgets->suppressions, 0, &job->of.leaks);
    case BUDGET_BASELINE:
        return baseline_begin(job);
    case BUDGET_SKEW:
    case BUDGET_GROWTH:
        break; /* of a job: viewer/check/job-check.h */
    }
    return COMMAND_WRONG;
}

/* Once the trace has been read: set the measured value, and whether it meets the budget. */
static int
check_measure(struct check_job *job)
{
    switch (job->result->budget->kind) {
    case BUDGET_PEAK:
        return check_measured(job->result, job->of.peak.bytes);
    case BUDGET_RESERVED:
    case BUDGET_FRAGMENTATION:
        return reserved_measure(job);
    case BUDGET_ALLOCATIONS:
        return allocations_measure(job);
    case BUDGET_FAILURES:
        return check_measured(job->result, job->of.failures.total);
    case BUDGET_LEAKS:
        return leaks_measure(job);
    case BUDGET_BASELINE:
        return baseline_measure(job);
    case BUDGET_SKEW:
    case BUDGET_GROWTH:
        break;
    }
    return COMMAND_WRONG;
}

/* The analysis of each kind of budget. */
static const struct check_kind {
    int (*next)(void *analysis, struct scan_pass *pass); /* see viewer/read/view.h */
    void (*release)(void *analysis);
    void (*explain)(const struct check_job *job, struct check_result *out);
    const char *command; /* tells more about the cause */
} check_kinds[] = {
    [BUDGET_PEAK] = { peak_next, peak_free, peak_explain, "peak" },
    [BUDGET_RESERVED] = { fragment_next, fragment_free, reserved_explain, "fragmentation" },
    [BUDGET_FRAGMENTATION] = { fragment_next, fragment_free, reserved_explain, "fragmentation" },
    [BUDGET_ALLOCATIONS] = { leaks_next, leaks_free, allocations_explain, "top" },
    [BUDGET_FAILURES] = { failures_next, failures_free, failures_explain, "failures" },
    [BUDGET_LEAKS] = { leaks_next, leaks_free, leaks_explain, "leaks" },
    [BUDGET_BASELINE] = { snapshot_next, snapshot_free, baseline_explain, "diff" },
};

/* End the jobs of a budget. */
static void
check_close(struct check_job *job)
{
    while (job != NULL) {
        struct check_job *next = job->next;

        check_kinds[job->result->budget->kind].release(&job->of);
        snapshot_memories_free(&job->memories);
        if (job->has_baseline) {
            snapshot_free(&job->before);
            view_close(&job->baseline);
        }
        view_close(&job->view);
        free(job->memory);
        free(job);
        job = next;
    }
}

/* Of the jobs of a budget the one that is worst for it. */
static const struct check_job *
check_worst(const struct check_job *job)
{
    const struct check_job *worst = job;

    for (; job != NULL; job = job->next) {
        if (job->result->budget->kind == BUDGET_PEAK && job->of.peak.bytes > worst->of.peak.bytes)
            worst = job;
    }
    return worst;
}

/* Name the command that says more. */
static void
check_say_more(const struct check_job *job, struct check_result *out)
{
    const struct budget *budget = out->budget;
    const char *option = budget->tag != NULL ? "--tag=" : budget->layer != NULL ? "--layer=" : "";
    const char *of = budget->tag != NULL ? budget->tag : budget->layer != NULL ? budget->layer : budget->path;
    char layer[48] = "";

    if (job->layer_id != 0)
        snprintf(layer, sizeof(layer), "--layer=%" PRId64 " ", job->layer_id);
    check_say(out, "more: tidemark %s %s%s%s%s%s", check_kinds[budget->kind].command, layer, option,
              of != NULL ? of : "", of != NULL ? " " : "", job->check->path);
}

static int
check_judge_one(struct check_job *first)
{
    struct check_job *job = (struct check_job *)check_worst(first);
    struct check_result *out = job->result;
    int status = check_measure(job);

    if (status != COMMAND_FINE || out->passed)
        return status;
    check_kinds[out->budget->kind].explain(job, out);
    check_say_more(job, out);
    return COMMAND_FINE;
}

/*
 * Begin a job of a budget: of one memory, a `group` of `reserved`, or where that is NULL of all. NULL, and *status is
 * another than fine.
 */
static struct check_job *
check_open_job(struct check *check, struct check_result *result, const struct reserved *reserved,
               const struct reserved_group *group, int *status)
{
    const struct budget *budget = result->budget;
    struct check_job *job = calloc(1, sizeof(*job));

    *status = job != NULL ? COMMAND_FINE : trace_broken(check->trace, "no memory for its budgets");
    if (job == NULL)
        return NULL;
    job->check = check;
    job->result = result;
    job->options = *check->options;
    if (budget->tag != NULL)
        job->options.tags = (struct option_list){ { budget->tag }, 1 };
    if (budget->layer != NULL)
        job->options.layers = (struct option_list){ { budget->layer }, 1 };
    *status = view_open(&job->view, &job->options, check->path);
    if (*status != COMMAND_FINE) {
        free(job);
        return NULL;
    }
    if (group != NULL)
        *status = check_narrow(job, reserved, group);
    if (*status == COMMAND_FINE)
        *status = check_begin(job);
    if (*status == COMMAND_FINE)
        return job;
    check_close(job);
    return NULL;
}

/*
 * Above so many memories, the one with the highest peak is found by a scan of its own. The analysis of a peak takes
 * 16 MB: one for each of 204 memories took 3.3 GB.
 */
#define CHECK_MEMORIES 8

/* That scan. */
struct check_peaks {
    struct reserved reserved;
    struct scan_unit unit;
    unsigned turn;
};

static int
peaks_begin_scan(void *context)
{
    reserved_begin(&((struct check_peaks *)context)->reserved);
    return COMMAND_FINE;
}

static int
peaks_alloc(void *context, const struct scan_life *life)
{
    return reserved_alloc(&((struct check_peaks *)context)->reserved, life);
}

static int
peaks_release(void *context, const struct scan_life *life)
{
    reserved_release(&((struct check_peaks *)context)->reserved, life);
    return COMMAND_FINE;
}

static int
peaks_next(void *context, struct scan_pass *pass)
{
    struct check_peaks *peaks = context;

    if (peaks->turn++ > 0)
        return COMMAND_FINE;
    peaks->unit = (struct scan_unit){
        .needs = SCAN_ALIGNMENT, .begin = peaks_begin_scan, .alloc = peaks_alloc, .free = peaks_release
    };
    pass->unit = &peaks->unit;
    return COMMAND_FINE;
}

static void
peaks_free(void *context)
{
    reserved_free(&((struct check_peaks *)context)->reserved);
}

/* Of the memories with selected logs, keep only the one with the highest peak, the first of those as high. */
static int
peaks_keep_highest(struct check_peaks *peaks, struct view *view)
{
    struct reserved_group *highest = NULL;
    int status = view_run_analysis(view, COMMAND_FINE, peaks_next, peaks_free, peaks);

    for (size_t i = 0; i < peaks->reserved.group_count && status == COMMAND_FINE; i++) {
        struct reserved_group *group = &peaks->reserved.groups[i];

        if (group->has_upper && (highest == NULL || group->live_peak_bytes > highest->live_peak_bytes))
            highest = group;
    }
    for (size_t i = 0; i < peaks->reserved.group_count && status == COMMAND_FINE; i++)
        peaks->reserved.groups[i].has_upper = &peaks->reserved.groups[i] == highest;
    return status;
}

/* The memories that have to keep to a budget of the peak, each by itself: those with selected logs. */
static int
check_open_memories(struct check *check, struct check_result *result, struct check_job *all, struct check_job **out)
{
    struct check_job **last = out;
    struct check_peaks peaks = { .turn = 0 };
    struct reserved *reserved = &peaks.reserved;
    size_t count = 0;
    int status = reserved_make_groups(&all->view, reserved);

    *out = all;
    if (status != COMMAND_FINE)
        return status;
    for (size_t i = 0; i < reserved->group_count; i++)
        count += reserved->groups[i].has_upper;
    if (count > CHECK_MEMORIES)
        status = peaks_keep_highest(&peaks, &all->view);
    for (size_t i = 0; i < reserved->group_count && count > 1 && status == COMMAND_FINE; i++) {
        if (!reserved->groups[i].has_upper)
            continue;
        if (*out == all)
            *out = NULL;
        *last = check_open_job(check, result, reserved, &reserved->groups[i], &status);
        if (*last != NULL)
            last = &(*last)->next;
    }
    reserved_free(reserved);
    if (*out != all)
        check_close(all);
    return status;
}

/* Open the jobs of a budget. On failure *out has those that are to be closed. */
static int
check_open(struct check *check, struct check_result *result, struct check_job **out)
{
    int status;

    *out = check_open_job(check, result, NULL, NULL, &status);
    if (status != COMMAND_FINE || result->budget->kind != BUDGET_PEAK)
        return status;
    return check_open_memories(check, result, *out, out);
}

/* Read the trace for all jobs. */
static int
check_run(const struct check *check, struct check_job *const *jobs, size_t count)
{
    struct view_analysis *analyses = NULL;
    size_t capacity = 0, used = 0;
    int status = COMMAND_FINE;

    for (size_t i = 0; i < count && status == COMMAND_FINE; i++) {
        for (struct check_job *job = jobs[i]; job != NULL && status == COMMAND_FINE; job = job->next) {
            if (!tidei_grow(&analyses, &capacity, used, 1))
                status = trace_broken(check->trace, "no memory for its budgets");
            else
                analyses[used++] = (struct view_analysis){ .filter = &job->view.filter,
                                                           .next = check_kinds[job->result->budget->kind].next,
                                                           .context = &job->of };
        }
    }
    if (status == COMMAND_FINE)
        status = view_run_analyses(check->trace, analyses, used);
    free(analyses);
    return status;
}

static int
check_judge_some(struct check *check, struct check_result *results, size_t count)
{
    struct check_job *jobs[CHECK_TOGETHER] = { NULL };
    int status = COMMAND_FINE;

    for (size_t i = 0; i < count && status == COMMAND_FINE; i++)
        status = check_open(check, &results[i], &jobs[i]);
    if (status == COMMAND_FINE)
        status = check_run(check, jobs, count);
    for (size_t i = 0; i < count; i++) {
        if (status == COMMAND_FINE)
            status = check_judge_one(jobs[i]);
        check_close(jobs[i]);
    }
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
