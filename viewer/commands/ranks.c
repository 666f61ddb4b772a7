/* `tidemark ranks`: what the ranks of a job differ in, from the file that `tidemark merge` has made. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "viewer/base/message.h"
#include "viewer/base/output.h"
#include "viewer/commands/commands.h"
#include "viewer/commands/ranks.h"

#define RANKS_ANY UINT64_MAX

struct ranks_arguments {
    const char *memory;
    uint64_t rank;
    int by; /* -1: what the job has */
    double max_skew;
};

#define AT(field) offsetof(struct ranks_arguments, field)

static const struct option_def ranks_option_defs[] = {
    { "rank", 'r', OPTION_COUNT, "N", "explain this rank; else the one with the highest peak", AT(rank), NULL, 0 },
    { "memory", 'm', OPTION_TEXT, "NAME", "of this memory; else of the device's with the highest peak", AT(memory),
      NULL, 0 },
    { "by", 'b', OPTION_CHOICE, "WHAT",
      "the difference by tag, function (call stacks without lines) or class (of\nsizes); else the first that the job "
      "has",
      AT(by), "tag|function|class", 0 },
    { "max-skew", 0, OPTION_SHARE, "SHARE", "exit 1 where the highest peak is over the median by more", AT(max_skew),
      NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

static const char *const ranks_kinds[] = { "tag", "function", "class" };

/* The step of a rank's peak; none where its trace has no marks of steps. */
static struct report_cell
ranks_step_cell(const struct ranks_rank *rank)
{
    return rank->whole_steps > 0 ? cell_signed(rank->peak_step) : cell_none();
}

static void
ranks_report_head(struct report *report, const struct ranks *ranks)
{
    struct output_figure one, other;

    report_field(report, "job", "job", REPORT_TEXT, cell_text(ranks->job));
    report_field(report, "ranks", "ranks", REPORT_COUNT, cell_signed(ranks->rank_total));
    report_field(report, "world_size", NULL, REPORT_COUNT,
                 ranks->world_size > 0 ? cell_signed(ranks->world_size) : cell_none());
    report_field(report, "missing_count", NULL, REPORT_COUNT, cell_signed(ranks->missing_count));
    report_field(report, "missing", ranks->missing_count > 0 ? "missing" : NULL, REPORT_TEXT,
                 cell_text(ranks->missing));
    report_field(report, "beyond_count", NULL, REPORT_COUNT, cell_signed(ranks->beyond_count));
    report_field(report, "incomplete", NULL, REPORT_COUNT, cell_signed(ranks->incomplete));
    report_field(report, "starts_unknown", NULL, REPORT_COUNT, cell_signed(ranks->starts_unknown));
    report_field(report, "memory", "memory", REPORT_TEXT, cell_text(ranks->memory->name));
    report_field(report, "highest_rank", NULL, REPORT_COUNT, cell_signed(ranks->highest->rank));
    report_field(report, "highest_bytes", NULL, REPORT_SIZE, cell_signed(ranks->highest->peak_bytes));
    report_label(report, "highest peak", "%s, rank %" PRId64, output_size(&one, (uint64_t)ranks->highest->peak_bytes),
                 ranks->highest->rank);
    report_field(report, "median_rank", NULL, REPORT_COUNT, cell_signed(ranks->median->rank));
    report_field(report, "median_bytes", NULL, REPORT_SIZE, cell_signed(ranks->median->peak_bytes));
    report_label(report, "median", "%s, rank %" PRId64,
                 output_size_beside(&one, (uint64_t)ranks->median->peak_bytes, (uint64_t)ranks->highest->peak_bytes),
                 ranks->median->rank);
    report_field(report, "lowest_rank", NULL, REPORT_COUNT, cell_signed(ranks->lowest->rank));
    report_field(report, "lowest_bytes", NULL, REPORT_SIZE, cell_signed(ranks->lowest->peak_bytes));
    report_label(report, "lowest", "%s, rank %" PRId64,
                 output_size_beside(&other, (uint64_t)ranks->lowest->peak_bytes, (uint64_t)ranks->median->peak_bytes),
                 ranks->lowest->rank);
    if (ranks_skew_is_endless(ranks)) {
        report_field(report, "skew_share", NULL, REPORT_SHARE, cell_none());
        report_label(report, "highest over median", "unknown, as the median is 0 B");
    } else {
        report_field(report, "skew_share", "highest over median", REPORT_SHARE, cell_real(ranks_skew(ranks)));
    }
    report_field(report, "failures", NULL, REPORT_COUNT, cell_signed(ranks->failure_total));
}

/* ---- sentences --------------------------------------------------------------------------------------------------- */

/* Whether the rank is out by this group in the same direction as by its peak. */
static bool
ranks_group_agrees(const struct ranks *ranks, const struct ranks_group *group)
{
    int64_t over = ranks_certain(ranks_group_over(group));

    return strcmp(group->kind, ranks->kind) == 0 && over != 0 &&
           (over > 0) == (ranks->outlier->peak_bytes >= ranks->median->peak_bytes);
}

/*
 * The group that the sentence names. Two ranks may have their peaks in different phases of a step: then much of what is
 * live at the one peak is not at the other, although both ranks have it in each step. So a group whose difference is
 * there in the steps, too, goes before larger ones, where it accounts for half of the rank's excess or more.
 */
static const struct ranks_group *
ranks_named_group(const struct ranks *ranks)
{
    int64_t excess = ranks->outlier->peak_bytes - ranks->median->peak_bytes;
    const struct ranks_group *largest = NULL;

    for (size_t i = 0; i < ranks->group_count; i++) {
        const struct ranks_group *group = &ranks->groups[i];
        int64_t over = ranks_certain(ranks_group_over(group));

        if (!ranks_group_agrees(ranks, group))
            continue;
        if (group->has_step && (over < 0 ? over <= excess / 2 : over >= excess / 2))
            return group;
        if (largest == NULL)
            largest = group;
    }
    return largest;
}

/* "+1.1 GiB", or "between +1.1 GiB and +1.2 GiB" where only these bounds are known. */
static const char *
ranks_change_words(struct ranks_range change, char *buffer, size_t size)
{
    const struct report_cell least = cell_signed(change.least), most = cell_signed(change.most);
    char one[64], other[64];
    const char *from = report_words(REPORT_CHANGE, &least, one, sizeof(one));

    if (ranks_is_exact(change))
        snprintf(buffer, size, "%s", from);
    else
        snprintf(buffer, size, "between %s and %s", from, report_words(REPORT_CHANGE, &most, other, sizeof(other)));
    return buffer;
}

/* "; +1.1 GiB in tag activations, from step 12 on" */
static void
ranks_put_group(const struct ranks_group *group, char *buffer, size_t size)
{
    char change[160];
    int length =
        snprintf(buffer, size, "; %s in %s %.512s", ranks_change_words(ranks_group_over(group), change, sizeof(change)),
                 group->kind, group->name);

    buffer += length;
    size -= (size_t)length;
    if (!group->has_step)
        return;
    if (group->step.most < 0)
        snprintf(buffer, size, ", from the beginning on");
    else if (ranks_is_exact(group->step))
        snprintf(buffer, size, ", from step %" PRId64 " on", group->step.least);
    else if (group->step.least < 0)
        snprintf(buffer, size, ", from the beginning or a step up to %" PRId64 " on", group->step.most);
    else
        snprintf(buffer, size, ", from a step between %" PRId64 " and %" PRId64 " on", group->step.least,
                 group->step.most);
}

/* "Rank 3: 14.1 GiB, 8.6% over the median; +1.1 GiB in tag activations, from step 12 on." */
static void
ranks_note_outlier(struct report *report, const struct ranks *ranks)
{
    const struct ranks_rank *rank = ranks->outlier;
    const struct ranks_group *group = ranks_named_group(ranks);
    int64_t more = rank->peak_bytes - ranks->median->peak_bytes;
    struct output_figure one;
    char where[1024] = "", share[32] = "";

    if (more == 0) {
        report_note(report, "Rank %" PRId64 " has a peak of %s, as the median.", rank->rank,
                    output_size(&one, (uint64_t)rank->peak_bytes));
        return;
    }
    if (group != NULL)
        ranks_put_group(group, where, sizeof(where));
    /* Over a median of 0 there is no share. */
    if (ranks->median->peak_bytes > 0)
        snprintf(share, sizeof(share), "%.3g%% ",
                 100 * (double)(more < 0 ? -more : more) / (double)ranks->median->peak_bytes);
    report_note(report, "Rank %" PRId64 ": %s, %s%s the median%s%s.", rank->rank,
                output_size(&one, (uint64_t)rank->peak_bytes), share, more > 0 ? "over" : "under",
                share[0] != '\0' ? "" : " of 0 B", where);
}

static void
ranks_note_growth(struct report *report, const struct ranks *ranks)
{
    const struct ranks_growth *growth = ranks->growths;
    struct output_figure one, other, third;
    char where[1024] = "";

    if (ranks->growth_count == 0)
        return;
    if (growth->group != NULL)
        snprintf(where, sizeof(where), ", %s%s of it in %s %.512s",
                 ranks_is_exact(growth->group_more) ? "" : "at least ",
                 output_size(&other, (uint64_t)growth->group_more.least), growth->kind, growth->group);
    report_note(
        report, "%s %" PRId64 "%s by %s from step %" PRId64 " to step %" PRId64 "%s; the median by %s%s.",
        ranks->growth_count == 1 ? "Rank" : "Of several ranks that grow, rank", growth->rank->rank,
        ranks->growth_count == 1 ? " alone grows:" : " grows most:",
        output_size(&one, (uint64_t)growth->rank->grown_bytes), growth->rank->first_step, growth->rank->last_step,
        where, growth->median_bytes < 0 ? "-" : "",
        output_size(&third, (uint64_t)(growth->median_bytes < 0 ? -growth->median_bytes : growth->median_bytes)));
}

static void
ranks_note_failures(struct report *report, const struct ranks *ranks)
{
    const struct ranks_failure *failure = ranks->failures;
    struct output_figure one, other;

    if (ranks->failure_count == 0)
        return;
    report_note(report,
                "%" PRId64 " allocation%s failed; the first, of rank %" PRId64 ", of %s at %s, for this cause: %s.",
                ranks->failure_total, ranks->failure_total == 1 ? "" : "s", failure->rank,
                output_size(&one, (uint64_t)failure->size), output_time(&other, failure->ns), failure->cause);
}

static void
ranks_note_lacks(struct report *report, const struct ranks *ranks)
{
    if (ranks->missing_count > 0)
        report_note(report, "Of %" PRId64 " ranks these are missing: %s.", ranks->world_size, ranks->missing);
    if (ranks->beyond_count > 0)
        report_note(report,
                    "%" PRId64 " rank%s behind the %" PRId64
                    " of the job: `tidemark merge` gives such a number to a trace that says no rank.",
                    ranks->beyond_count, ranks->beyond_count == 1 ? " has a number" : "s have numbers",
                    ranks->world_size);
    if ((int64_t)ranks->count < ranks->rank_total)
        report_note(report, "Of %" PRId64 " ranks %zu ha%s a memory of the name %s: the others are left out here.",
                    ranks->rank_total, ranks->count, ranks->count == 1 ? "s" : "ve", ranks->memory->name);
    if (ranks->incomplete > 0)
        report_note(report, "The trace%s of %" PRId64 " rank%s incomplete.", ranks->incomplete == 1 ? "" : "s",
                    ranks->incomplete, ranks->incomplete == 1 ? " is" : "s are");
    if (ranks->starts_unknown > 0 && ranks->starts_unknown == ranks->rank_total)
        report_note(report, "It is not known when the traces began: they count as begun at one time.");
    else if (ranks->starts_unknown == 1)
        report_note(report,
                    "It is not known when the trace of rank %" PRId64
                    " began: it counts as begun with the first of the others.",
                    ranks->first_without_start);
    else if (ranks->starts_unknown > 1)
        report_note(report,
                    "It is not known when the traces of rank %" PRId64 " and %" PRId64
                    " more began: they count as begun with the first of the others.",
                    ranks->first_without_start, ranks->starts_unknown - 1);
    if (!ranks->is_merged)
        report_note(report, "The merge did not come to its end: run it again.");
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void
ranks_report_list(struct report *report, const struct ranks *ranks)
{
    static const struct report_column columns[] = {
        { "rank", "RANK", REPORT_COUNT },
        { "peak_bytes", "PEAK", REPORT_SIZE },
        { "over_median_bytes", "OVER MEDIAN", REPORT_CHANGE },
        { "over_median_share", "", REPORT_SHARE },
        { "step", "AT STEP", REPORT_COUNT },
        { "peak_ns", "AT", REPORT_TIME },
        { "reserved_peak_bytes", "RESERVED", REPORT_SIZE },
        { "live_bytes", "LIVE AT END", REPORT_SIZE },
        { "grown_bytes", "GROWN", REPORT_CHANGE },
        { "step_bytes", NULL, REPORT_CHANGE },
        { "failures", "FAILURES", REPORT_COUNT },
        { "complete", "COMPLETE", REPORT_FLAG },
        { "hostname", "HOST", REPORT_TEXT },
        { "path", NULL, REPORT_TEXT },
    };
    int64_t median = ranks->median->peak_bytes;

    REPORT_TABLE(report, "by_rank", "Ranks, the highest peak first", columns);
    report_spare(
        report, "hostname complete peak_ns reserved_peak_bytes failures grown_bytes live_bytes over_median_share step");
    for (size_t i = 0; i < ranks->count && i < report->options.limit; i++) {
        const struct ranks_rank *rank = &ranks->list[i];

        REPORT_ROW(
            report, cell_signed(rank->rank), cell_signed(rank->peak_bytes), cell_signed(rank->peak_bytes - median),
            cell_share((double)(rank->peak_bytes - median), (double)median), ranks_step_cell(rank),
            cell_signed(rank->peak_ns), rank->reserved_bytes >= 0 ? cell_signed(rank->reserved_bytes) : cell_none(),
            cell_signed(rank->end_bytes), rank->whole_steps > 1 ? cell_signed(rank->grown_bytes) : cell_none(),
            ranks_has_growth(rank) ? cell_signed(ranks_step_growth(rank)) : cell_none(), cell_signed(rank->failures),
            cell_unsigned(rank->is_complete), cell_text(rank->hostname), cell_text(rank->path));
    }
    if (ranks->count > report->options.limit)
        report_rest(report, ranks->count - report->options.limit, cell_none());
}

/* A figure of which there may be bounds alone. */
static struct report_cell
ranks_exact_cell(struct ranks_range range)
{
    return ranks_is_exact(range) ? cell_signed(range.least) : cell_none();
}

static void
ranks_report_group(struct report *report, const struct ranks_group *group, bool is_named)
{
    const struct ranks_range over = ranks_group_over(group);
    const struct report_cell least = cell_signed(over.least), most = cell_signed(over.most);
    char from[64], to[64], between[160];

    snprintf(between, sizeof(between), "%s, %s", report_words(REPORT_CHANGE, &least, from, sizeof(from)),
             report_words(REPORT_CHANGE, &most, to, sizeof(to)));
    REPORT_ROW(report, cell_text(group->kind), ranks_exact_cell(group->bytes), cell_signed(group->bytes.most),
               ranks_exact_cell(group->median), cell_signed(group->median.least), cell_signed(group->median.most),
               ranks_exact_cell(over), cell_text(ranks_is_exact(over) ? NULL : between), least, most,
               group->has_step ? ranks_exact_cell(group->step) : cell_none(),
               group->has_step ? cell_signed(group->step.least) : cell_none(),
               group->has_step ? cell_signed(group->step.most) : cell_none(),
               ranks_is_exact(group->bytes) ? cell_signed(group->count) : cell_none(),
               group->without_bytes >= 0 ? cell_signed(group->without_bytes) : cell_none(), cell_unsigned(is_named),
               cell_text(group->name));
}

static void
ranks_report_groups(struct report *report, const struct ranks *ranks, bool people, uint64_t most)
{
    static const struct report_column columns[] = {
        { "kind", NULL, REPORT_TEXT },
        { "bytes", "BYTES", REPORT_SIZE },
        { "most_bytes", NULL, REPORT_SIZE },
        { "median_bytes", "MEDIAN", REPORT_SIZE },
        { "median_least_bytes", NULL, REPORT_SIZE },
        { "median_most_bytes", NULL, REPORT_SIZE },
        { "over_median_bytes", "OVER MEDIAN", REPORT_CHANGE },
        { NULL, "OR BETWEEN", REPORT_TEXT },
        { "over_median_least_bytes", NULL, REPORT_CHANGE },
        { "over_median_most_bytes", NULL, REPORT_CHANGE },
        { "from_step", "FROM STEP", REPORT_COUNT },
        { "from_step_earliest", NULL, REPORT_COUNT },
        { "from_step_latest", NULL, REPORT_COUNT },
        { "count", "COUNT", REPORT_COUNT },
        { "peak_without_bytes", "PEAK WITHOUT", REPORT_SIZE },
        { "named", NULL, REPORT_FLAG },
        { "name", "NAME", REPORT_NAME },
    };
    const struct ranks_group *named = ranks_named_group(ranks);
    uint64_t shown = 0, left = 0;

    report_field(report, "rank", "explained rank", REPORT_COUNT, cell_signed(ranks->outlier->rank));
    report_field(report, "step", "its peak is in step", REPORT_COUNT, ranks_step_cell(ranks->outlier));
    REPORT_TABLE(report, "groups", "What the explained rank has at its peak", columns);
    report_spare(report, "peak_without_bytes count from_step median_bytes");
    for (size_t i = 0; i < ranks->group_count; i++) {
        const struct ranks_group *group = &ranks->groups[i];

        if (people && strcmp(group->kind, ranks->kind) != 0)
            continue;
        if (shown++ >= most) {
            left++;
            continue;
        }
        ranks_report_group(report, group, group == named);
    }
    if (left > 0)
        report_rest(report, left, cell_none());
}

static void
ranks_report_growth(struct report *report, const struct ranks *ranks)
{
    static const struct report_column columns[] = {
        { "rank", "RANK", REPORT_COUNT },
        { "grown_bytes", "GROWN", REPORT_CHANGE },
        { "step_bytes", "A STEP", REPORT_CHANGE },
        { "median_bytes", "MEDIAN", REPORT_CHANGE },
        { "first_step", "FROM STEP", REPORT_COUNT },
        { "last_step", "TO STEP", REPORT_COUNT },
        { "steps_risen", "RISEN", REPORT_COUNT },
        { "group_bytes", "OF IT", REPORT_SIZE },
        { "group_least_bytes", NULL, REPORT_SIZE },
        { "group_most_bytes", NULL, REPORT_SIZE },
        { "kind", NULL, REPORT_TEXT },
        { "group", "IN", REPORT_NAME },
    };

    if (ranks->growth_count == 0) {
        report_no_table(report, "growth");
        return;
    }
    REPORT_TABLE(report, "growth", "Ranks that grow more than the median, from step to step", columns);
    report_spare(report, "steps_risen first_step last_step median_bytes step_bytes");
    for (size_t i = 0; i < ranks->growth_count && i < report->options.limit; i++) {
        const struct ranks_growth *growth = &ranks->growths[i];

        REPORT_ROW(report, cell_signed(growth->rank->rank), cell_signed(growth->rank->grown_bytes),
                   cell_signed(ranks_step_growth(growth->rank)), cell_signed(growth->median_bytes),
                   cell_signed(growth->rank->first_step), cell_signed(growth->rank->last_step),
                   cell_signed(growth->rises),
                   growth->group != NULL ? ranks_exact_cell(growth->group_more) : cell_none(),
                   growth->group != NULL ? cell_signed(growth->group_more.least) : cell_none(),
                   growth->group != NULL ? cell_signed(growth->group_more.most) : cell_none(), cell_text(growth->kind),
                   cell_text(growth->group));
    }
    if (ranks->growth_count > report->options.limit)
        report_rest(report, ranks->growth_count - report->options.limit, cell_none());
}

static void
ranks_report_failures(struct report *report, const struct ranks *ranks)
{
    static const struct report_column columns[] = {
        { "count", "COUNT", REPORT_COUNT },    { "ranks", "RANKS", REPORT_COUNT },
        { "cause", "CAUSE", REPORT_TEXT },     { "status", "STATUS", REPORT_TEXT },
        { "layer", "LAYER", REPORT_TEXT },     { "first_rank", "FIRST: RANK", REPORT_COUNT },
        { "first_ns", "AT", REPORT_TIME },     { "size", "SIZE", REPORT_SIZE },
        { "live_bytes", "LIVE", REPORT_SIZE }, { "tag", "TAG", REPORT_TEXT },
        { "memory", "MEMORY", REPORT_TEXT },   { "text", "TEXT", REPORT_NAME },
    };

    if (ranks->failure_count == 0) {
        report_no_table(report, "failed");
        return;
    }
    REPORT_TABLE(report, "failed", "Failures, the most frequent first", columns);
    report_spare(report, "tag live_bytes first_ns status text layer memory");
    for (size_t i = 0; i < ranks->failure_count && i < report->options.limit; i++) {
        const struct ranks_failure *failure = &ranks->failures[i];

        REPORT_ROW(report, cell_signed(failure->count), cell_signed(failure->ranks), cell_text(failure->cause),
                   cell_text(failure->status), cell_text(failure->layer), cell_signed(failure->rank),
                   cell_signed(failure->ns), cell_signed(failure->size), cell_signed(failure->live_bytes),
                   cell_text(failure->tag), cell_text(failure->memory), cell_text(failure->text));
    }
    if (ranks->failure_count > report->options.limit)
        report_rest(report, ranks->failure_count - report->options.limit, cell_none());
}

static void
ranks_report_left(struct report *report, const struct ranks *ranks)
{
    static const struct report_column columns[] = {
        { "path", "TRACE", REPORT_TEXT },
        { "reason", "WHY", REPORT_NAME },
    };

    if (ranks->left_count == 0) {
        report_no_table(report, "left_out");
        return;
    }
    REPORT_TABLE(report, "left_out", "Left out", columns);
    for (size_t i = 0; i < ranks->left_count && i < report->options.limit; i++)
        REPORT_ROW(report, cell_text(ranks->left[i].path), cell_text(ranks->left[i].reason));
    if (ranks->left_count > report->options.limit)
        report_rest(report, ranks->left_count - report->options.limit, cell_none());
}

static void
ranks_report_memories(struct report *report, const struct ranks *ranks)
{
    static const struct report_column columns[] = {
        { "memory", "MEMORY", REPORT_TEXT },
        { "ranks", "RANKS", REPORT_COUNT },
        { "highest_bytes", "HIGHEST PEAK", REPORT_SIZE },
    };

    REPORT_TABLE(report, "memories", "Memory, each with an answer of its own (--memory)", columns);
    for (size_t i = 0; i < ranks->memory_count; i++)
        REPORT_ROW(report, cell_text(ranks->memories[i].name), cell_signed(ranks->memories[i].ranks),
                   cell_signed(ranks->memories[i].highest_bytes));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Judge the skew, where a bound was given. */
static int
ranks_judge(struct report *report, const struct ranks *ranks, double max_skew)
{
    bool exceeds = ranks_skew(ranks) > max_skew;
    char buffer[256];
    const char *unknown = ranks_skew_unknown(ranks, buffer, sizeof(buffer));

    if (max_skew < 0)
        return COMMAND_FINE;
    if (!exceeds && unknown != NULL) {
        report_note(report, "Whether the highest peak is over the median by more than the %.4g%% is unknown: %s.",
                    100 * max_skew, unknown);
        message("%s: the skew is unknown: %s", ranks->file->path, unknown);
        return COMMAND_INCOMPLETE;
    }
    report_note(report, "The highest peak is over the median by %.4g%%, %s than the %.4g%% that are allowed.",
                100 * ranks_skew(ranks), exceeds ? "more" : "no more", 100 * max_skew);
    return exceeds ? COMMAND_FINDING : COMMAND_FINE;
}

int
ranks_answer(struct report *report, const struct ranks *ranks, double max_skew, uint64_t most_groups)
{
    bool people = report->options.format == REPORT_TABLE || report->options.format == REPORT_MARKDOWN;
    int status;

    ranks_report_head(report, ranks);
    ranks_note_outlier(report, ranks);
    ranks_note_growth(report, ranks);
    ranks_note_failures(report, ranks);
    ranks_note_lacks(report, ranks);
    status = ranks_judge(report, ranks, max_skew);
    ranks_report_list(report, ranks);
    ranks_report_groups(report, ranks, people, most_groups);
    ranks_report_growth(report, ranks);
    ranks_report_failures(report, ranks);
    if (ranks->memory_count > 1 || !people)
        ranks_report_memories(report, ranks);
    ranks_report_left(report, ranks);
    return status;
}

int
ranks_verdict(const struct ranks *ranks)
{
    if (ranks->missing_count == 0 && ranks->incomplete == 0 && ranks->left_count == 0 && ranks->is_merged)
        return COMMAND_FINE;
    message("%s: ranks are missing or incomplete: the answer may be another with them", ranks->file->path);
    return COMMAND_INCOMPLETE;
}

static int
ranks_command_run(struct invocation *call)
{
    const struct ranks_arguments *arguments = (const struct ranks_arguments *)call->own;
    const struct ranks_options options = {
        .memory = arguments->memory,
        .rank = arguments->rank == RANKS_ANY ? -1 : (int64_t)arguments->rank,
        .kind = arguments->by < 0 ? NULL : ranks_kinds[arguments->by],
    };
    struct report report;
    struct ranks ranks;
    struct trace file;
    int status;

    if (arguments->rank != RANKS_ANY && arguments->rank > INT32_MAX)
        return command_misused(call->command, "--rank: ranks are numbered from 0");
    status = job_read(call->arguments[0], &file);
    if (status != COMMAND_FINE)
        return status;
    report_begin(&report, &call->common.report, call->command->name);
    status = ranks_make(&file, &options, &ranks);
    if (status == COMMAND_FINE)
        status = ranks_answer(&report, &ranks, arguments->max_skew, report.options.limit);
    if (status == COMMAND_FINE)
        status = ranks_verdict(&ranks);
    if (status != COMMAND_WRONG)
        status = report_print(&report, status);
    ranks_free(&ranks);
    report_end(&report);
    trace_close(&file);
    return status;
}

const struct command command_ranks = {
    .name = "ranks",
    .arguments = "[OPTIONS] JOB",
    .purpose = "What the ranks of a job differ in, at their peaks and from which step on",
    .help = "\n"
            "JOB is the file that `tidemark merge` has made. Of an even number of ranks the median is the\n"
            "lower one in the middle. The exit status is 1 where --max-skew is exceeded.\n",
    .wanted = &(const struct command_arguments){ 1, "which file of a job is to be read?", "one job at a time" },
    .options = ranks_option_defs,
    COMMAND_OWN(struct ranks_arguments, .rank = RANKS_ANY, .by = -1, .max_skew = -1),
    .common = OPTIONS_REPORT | OPTIONS_LIMIT,
    .run = ranks_command_run,
};
