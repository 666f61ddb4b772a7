/* Judges whether a trace keeps to a budget. */
#include "config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/align.h"
#include "viewer/check.h"
#include "viewer/command.h"
#include "viewer/failures.h"
#include "viewer/fragment.h"
#include "viewer/leaks.h"
#include "viewer/order.h"
#include "viewer/output.h"
#include "viewer/peak.h"

/* How many groups a cause names. */
#define CHECK_CULPRITS 3

static void check_say(struct check_result *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Without memory a line is missing, and nothing else. */
static void
check_say(struct check_result *out, const char *format, ...)
{
    va_list arguments;
    char *line = NULL;

    va_start(arguments, format);
    if (out->line_count < CHECK_LINES && vasprintf(&line, format, arguments) >= 0)
        out->lines[out->line_count++] = line;
    va_end(arguments);
}

/* The command that says more about it. */
static void
check_say_more(const struct check *check, struct check_result *out, const char *command)
{
    const struct budget *budget = out->budget;

    if (budget->tag != NULL)
        check_say(out, "more: tidemark %s --tag=%s %s", command, budget->tag, check->path);
    else if (budget->layer != NULL)
        check_say(out, "more: tidemark %s --layer=%s %s", command, budget->layer, check->path);
    else
        check_say(out, "more: tidemark %s %s", command, check->path);
}

/* "1.2 GiB (30.0%) over the 4 GiB allowed" */
static const char *
check_over(const struct check_result *result, char *buffer, size_t size)
{
    struct output_figure over, limit;
    char share[32] = "";

    if (result->limit > 0)
        snprintf(share, sizeof(share), " (%.1f%%)",
                 100 * (double)(result->seen - result->limit) / (double)result->limit);
    snprintf(buffer, size, "%s%s over the %s allowed", output_size(&over, result->seen - result->limit), share,
             output_size(&limit, result->limit));
    return buffer;
}

static uint64_t
check_peak_bytes(const void *context, uint32_t group)
{
    return ((const struct peak *)context)->at_groups[group].bytes;
}

static void
check_explain_peak(const struct check *check, const struct peak *peak, struct check_result *out)
{
    struct order *order = order_make(peak->groups.count, check_peak_bytes, peak);
    struct output_figure figure, without, ns;
    char buffer[128];

    check_say(out, "the peak is %s, %s", output_size(&figure, peak->bytes), check_over(out, buffer, sizeof(buffer)));
    check_say(out, "it was reached after %s, by allocation #%" PRId64 ", with %" PRIu64 " live",
              output_time(&ns, peak->ns), peak->allocation_id, peak->at_count);
    for (size_t i = 0; order != NULL && i < peak->groups.count && i < CHECK_CULPRITS - 1; i++) {
        uint64_t bytes = order[i].figure;

        if (bytes > 0)
            check_say(out, "%s %s has %s of it (%.1f%%); without it the peak is %s", groups_word(peak->groups.by),
                      groups_name(&peak->groups, order[i].number, buffer, sizeof(buffer)), output_size(&figure, bytes),
                      100 * (double)bytes / (double)peak->at_bytes,
                      output_size(&without, counterfactual_without(&peak->rest, order[i].number)));
    }
    free(order);
    check_say_more(check, out, "peak");
}

static int
check_peak(struct check *check, struct view *view, struct check_result *out)
{
    const struct moment at = { .kind = MOMENT_PEAK };
    struct peak peak;
    int status = peak_make(view, groups_default(&view->names), &at, 0.05, 0, &peak);

    if (status != COMMAND_FINE)
        return status;
    out->seen = peak.bytes;
    out->passed = out->seen <= out->limit;
    if (!out->passed)
        check_explain_peak(check, &peak, out);
    peak_free(&peak);
    return COMMAND_FINE;
}

/* The chunk in which most is held back by few blocks. */
static const struct space_chunk *
check_pinned(const struct space *space)
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

static void
check_explain_reserved(const struct check *check, const struct view *view, const struct fragment *fragment,
                       struct check_result *out)
{
    bool layers = fragment->layers.lower.active;
    uint64_t used = layers ? fragment->rounded_peak_bytes : fragment->samples.used_peak_bytes;
    const struct space_chunk *pinned = layers ? check_pinned(&fragment->space) : NULL;
    struct output_figure figure, other, third;
    char text[512];

    if (out->budget->kind == BUDGET_RESERVED)
        check_say(out, "%s were reserved, %s", output_size(&figure, out->seen), check_over(out, text, sizeof(text)));
    else
        check_say(out, "%.1f%% of what was reserved was never given out: more than %.1f%%", 100 * out->seen_share,
                  100 * out->budget->share);
    check_say(out, "of the %s reserved at most, %s were given out at most; %s were asked for",
              output_size(&figure, layers ? fragment->reserved_peak_bytes : fragment->samples.reserved_peak_bytes),
              output_size(&other, used), output_size(&third, fragment->peak_bytes));
    if (layers && fragment->space.free_bytes > 0)
        check_say(out, "at the peak %s were free in %" PRIu64 " holes, the largest of %s",
                  output_size(&figure, fragment->space.free_bytes), fragment->space.holes,
                  output_size(&other, fragment->space.largest_hole));
    if (pinned != NULL) {
        space_pins(view, &fragment->space, pinned, text, sizeof(text));
        check_say(out, "then a chunk with %s free of its %s was held by %s",
                  output_size(&figure, pinned->size - pinned->used_bytes), output_size(&other, pinned->size), text);
    }
    check_say_more(check, out, "fragmentation");
}

static int
check_reserved(struct check *check, struct view *view, struct check_result *out)
{
    const struct moment at = { .kind = MOMENT_PEAK };
    struct fragment fragment;
    char name[128];
    double used;
    int status = fragment_make(view, &at, 0, SPACE_PAGE, 0, &fragment);

    if (status != COMMAND_FINE)
        return status;
    used = fragment_utilisation(&fragment);
    out->seen = fragment.layers.lower.active ? fragment.reserved_peak_bytes : fragment.samples.reserved_peak_bytes;
    out->seen_share = used < 0 || used > 1 ? 0 : 1 - used;
    out->passed =
        out->budget->kind == BUDGET_RESERVED ? out->seen <= out->limit : out->seen_share <= out->budget->share;
    if (used < 0 && fragment.peak_bytes > 0)
        status = trace_broken(&view->trace, "no log below the pool and no pool samples: %s cannot be judged",
                              budget_name(out->budget, name, sizeof(name)));
    else if (!out->passed)
        check_explain_reserved(check, view, &fragment, out);
    fragment_free(&fragment);
    return status;
}

static uint64_t
check_allocations_of(const void *context, uint32_t group)
{
    return ((const struct leaks *)context)->list[group].allocations;
}

static void
check_explain_allocations(const struct check *check, const struct leaks *leaks, struct check_result *out)
{
    struct order *order = order_make(leaks->groups.count, check_allocations_of, leaks);
    char name[GROUPS_NAME];

    check_say(out, "%" PRIu64 " allocation%s, %" PRIu64 " more than %" PRIu64, out->seen, out->seen == 1 ? "" : "s",
              out->seen - out->limit, out->limit);
    for (size_t i = 0; order != NULL && i < leaks->groups.count && i < CHECK_CULPRITS; i++)
        check_say(out, "%s %s made %" PRIu64 " of them (%.1f%%)", groups_word(leaks->groups.by),
                  groups_name(&leaks->groups, order[i].number, name, sizeof(name)), order[i].figure,
                  100 * (double)order[i].figure / (double)out->seen);
    free(order);
    check_say_more(check, out, "top");
}

static int
check_allocations(struct check *check, struct view *view, struct check_result *out)
{
    struct leaks leaks;
    int status = leaks_make(view, groups_default(&view->names), STEPS_OFF, NULL, 0, &leaks);

    if (status != COMMAND_FINE)
        return status;
    out->seen = 0;
    for (uint32_t i = 0; i < leaks.groups.count; i++)
        out->seen += leaks.list[i].allocations;
    out->passed = out->seen <= out->limit;
    if (!out->passed)
        check_explain_allocations(check, &leaks, out);
    leaks_free(&leaks);
    return COMMAND_FINE;
}

static uint64_t
check_leaks_of(const void *context, uint32_t group)
{
    const struct leaks_group *at = &((const struct leaks *)context)->list[group];

    return at->live_count > 0 ? at->live_bytes + 1 : 0;
}

static void
check_explain_leaks(const struct check *check, const struct leaks *leaks, struct check_result *out)
{
    struct order *order = order_make(leaks->groups.count, check_leaks_of, leaks);
    struct output_figure figure, since;
    char name[GROUPS_NAME];

    check_say(out, "%" PRIu64 " allocation%s live at the end, %s", leaks->live_count,
              leaks->live_count == 1 ? " is" : "s are", output_size(&figure, leaks->live_bytes));
    for (size_t i = 0; order != NULL && i < leaks->groups.count && i < CHECK_CULPRITS && order[i].figure > 0; i++) {
        const struct leaks_group *group = &leaks->list[order[i].number];

        check_say(out, "%s %s: %" PRIu64 " of its %" PRIu64 " allocations, %s, since %s", groups_word(leaks->groups.by),
                  groups_name(&leaks->groups, order[i].number, name, sizeof(name)), group->live_count,
                  group->allocations, output_size(&figure, group->live_bytes), output_time(&since, group->oldest_ns));
    }
    free(order);
    check_say_more(check, out, "leaks");
}

static int
check_leaks(struct check *check, struct view *view, struct check_result *out)
{
    struct leaks leaks;
    int status = leaks_make(view, groups_default(&view->names), STEPS_OFF, check->budgets->suppressions, 0, &leaks);

    if (status != COMMAND_FINE)
        return status;
    out->seen = leaks.live_count;
    out->passed = out->seen == 0;
    if (!out->passed)
        check_explain_leaks(check, &leaks, out);
    leaks_free(&leaks);
    return COMMAND_FINE;
}

static void
check_explain_failures(const struct check *check, const struct failures *failures, struct check_result *out)
{
    const struct failure *first = &failures->list[0];
    bool holes = failures->layers.lower.active;
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
    check_say(out, "the first is #%" PRId64 " of %s after %s, with %s live: %s", first->life.allocation_id,
              output_size(&size, first->life.size), output_time(&ns, first->life.alloc_ns),
              output_size(&live, first->live_bytes), failures_word(first->cause));
    if (first->has_space)
        check_say(out, "%s of %s reserved were free then%s%s", output_size(&size, first->free_bytes),
                  output_size(&live, first->reserved_bytes), holes ? "; the largest hole: " : "",
                  holes ? output_size(&hole, first->largest_hole) : "");
    if (first->pinned_by != NULL)
        check_say(out, "in its way: %s", first->pinned_by);
    check_say_more(check, out, "failures");
}

static int
check_failures(struct check *check, struct view *view, struct check_result *out)
{
    struct failures failures;
    int status = failures_make(view, &failures);

    if (status != COMMAND_FINE)
        return status;
    out->seen = failures.total;
    out->passed = out->seen <= out->limit;
    if (!out->passed)
        check_explain_failures(check, &failures, out);
    failures_free(&failures);
    return COMMAND_FINE;
}

static void
check_explain_baseline(const struct check *check, const struct snapshot *a, const struct snapshot *b,
                       struct check_result *out)
{
    bool by_peak = snapshot_exceeds(a->peak_bytes, b->peak_bytes, check->budgets->tolerance);
    uint64_t from = by_peak ? a->peak_bytes : a->reserved_peak_bytes;
    uint64_t to = by_peak ? b->peak_bytes : b->reserved_peak_bytes;
    struct output_figure figure, before, after;
    struct align align = { 0 };
    char name[GROUPS_NAME];

    check_say(out, "the peak %sis %s: %s more than the %s of the baseline, of which %.4g%% are tolerated",
              by_peak ? "" : "of the reserved bytes ", output_size(&after, to), output_size(&figure, to - from),
              output_size(&before, from), 100 * check->budgets->tolerance);
    if (align_make(a, b, 0, &align) == COMMAND_FINE) {
        for (size_t i = 0; i < align.count && i < CHECK_CULPRITS && align_change(&align.rows[i]) != 0; i++) {
            int64_t change = align_change(&align.rows[i]);

            check_say(out, "%s %s: %s%s at the peak, from %s to %s", groups_word(b->by[0].groups.by),
                      align_name(&align.rows[i], name, sizeof(name)), change < 0 ? "-" : "+",
                      output_size(&figure, change < 0 ? (uint64_t)-change : (uint64_t)change),
                      output_size(&before, align.rows[i].a.bytes), output_size(&after, align.rows[i].b.bytes));
        }
        align_free(&align);
    }
    check_say(out, "more: tidemark diff %s %s", out->budget->path, check->path);
}

static int
check_against(struct check *check, struct view *baseline, struct view *view, struct check_result *out)
{
    enum groups_by by[SNAPSHOT_GROUPS];
    struct snapshot a, b;
    int status;

    snapshot_groups_default(&baseline->names, &view->names, by);
    status = snapshot_make(baseline, by, 1, &a);
    if (status != COMMAND_FINE)
        return status;
    status = snapshot_make(view, by, 1, &b);
    if (status == COMMAND_FINE) {
        double tolerance = check->budgets->tolerance;

        out->seen = b.peak_bytes;
        out->limit = a.peak_bytes + (uint64_t)(tolerance * (double)a.peak_bytes);
        out->passed = !snapshot_exceeds(a.peak_bytes, b.peak_bytes, tolerance) &&
                      !(a.has_reserved && b.has_reserved &&
                        snapshot_exceeds(a.reserved_peak_bytes, b.reserved_peak_bytes, tolerance));
        if (!out->passed)
            check_explain_baseline(check, &a, &b, out);
        snapshot_free(&b);
    }
    snapshot_free(&a);
    return status;
}

static int
check_baseline(struct check *check, struct view *view, struct check_result *out)
{
    struct view baseline;
    int status = view_open(&baseline, "check", check->options, out->budget->path);

    if (status != COMMAND_FINE)
        return status;
    status = check_against(check, &baseline, view, out);
    if (status == COMMAND_FINE && trace_verdict(&baseline.trace) != COMMAND_FINE)
        check->baseline_incomplete = true;
    view_finish(&baseline, COMMAND_WRONG);
    return status;
}

int
check_judge(struct check *check, const struct budget *budget, struct check_result *out)
{
    static int (*const judges[])(struct check *, struct view *, struct check_result *) = {
        [BUDGET_PEAK] = check_peak,
        [BUDGET_RESERVED] = check_reserved,
        [BUDGET_FRAGMENTATION] = check_reserved,
        [BUDGET_ALLOCATIONS] = check_allocations,
        [BUDGET_FAILURES] = check_failures,
        [BUDGET_LEAKS] = check_leaks,
        [BUDGET_BASELINE] = check_baseline,
    };
    struct view_options options = *check->options;
    struct view view;
    int status;

    *out = (struct check_result){ .budget = budget, .limit = budget->limit };
    if (budget->tag != NULL)
        options.tags = (struct option_list){ { budget->tag }, 1 };
    if (budget->layer != NULL)
        options.layers = (struct option_list){ { budget->layer }, 1 };
    /* A view of its own: each analysis changes what the filters of its view take. */
    status = view_open(&view, "check", &options, check->path);
    if (status != COMMAND_FINE)
        return status;
    status = judges[budget->kind](check, &view, out);
    view_finish(&view, COMMAND_WRONG);
    if (status != COMMAND_FINE)
        check_free(out);
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
