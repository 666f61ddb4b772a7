/* Explains in a few lines why a trace exceeds a budget. */
#include "config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "viewer/analysis/align.h"
#include "viewer/check/explain.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/order.h"
#include "viewer/base/output.h"

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

void
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
                      groups_brief(&peak->groups, order[i].number, buffer, sizeof(buffer)), output_size(&figure, bytes),
                      100 * (double)bytes / (double)peak->at_bytes,
                      output_size(&without, counterfactual_without(&peak->rest, order[i].number)));
    }
    free(order);
    check_say_more(check, out, "peak");
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

void
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

static uint64_t
check_allocations_of(const void *context, uint32_t group)
{
    return ((const struct leaks *)context)->list[group].allocations;
}

void
check_explain_allocations(const struct check *check, const struct leaks *leaks, struct check_result *out)
{
    struct order *order = order_make(leaks->groups.count, check_allocations_of, leaks);
    char name[GROUPS_NAME];

    check_say(out, "%" PRIu64 " allocation%s, %" PRIu64 " more than %" PRIu64, out->seen, out->seen == 1 ? "" : "s",
              out->seen - out->limit, out->limit);
    for (size_t i = 0; order != NULL && i < leaks->groups.count && i < CHECK_CULPRITS; i++)
        check_say(out, "%s %s made %" PRIu64 " of them (%.1f%%)", groups_word(leaks->groups.by),
                  groups_brief(&leaks->groups, order[i].number, name, sizeof(name)), order[i].figure,
                  100 * (double)order[i].figure / (double)out->seen);
    free(order);
    check_say_more(check, out, "top");
}

static uint64_t
check_leaks_of(const void *context, uint32_t group)
{
    const struct leaks_group *at = &((const struct leaks *)context)->list[group];

    return at->live_bytes;
}

void
check_explain_killed(const struct check *check, struct check_result *out)
{
    check_say(out, "unknown: the program %s, and may have been about to free what was live",
              check->trace->end == TRACE_KILLED ? "was killed" : "still runs");
    check_say(out, "--even-killed judges it all the same");
}

void
check_explain_leaks(const struct check *check, const struct leaks *leaks, struct check_result *out)
{
    struct order *order = order_make(leaks->groups.count, check_leaks_of, leaks);
    struct output_figure figure, since;
    char name[GROUPS_NAME];

    check_say(out, "%" PRIu64 " allocation%s %s, %s", leaks->live_count, leaks->live_count == 1 ? " is" : "s are",
              trace_live_words(check->trace), output_size(&figure, leaks->live_bytes));
    for (size_t i = 0; order != NULL && i < leaks->groups.count && i < CHECK_CULPRITS && order[i].figure > 0; i++) {
        const struct leaks_group *group = &leaks->list[order[i].number];

        check_say(out, "%s %s: %" PRIu64 " of its %" PRIu64 " allocations, %s, since %s", groups_word(leaks->groups.by),
                  groups_brief(&leaks->groups, order[i].number, name, sizeof(name)), group->live_count,
                  group->allocations, output_size(&figure, group->live_bytes), output_time(&since, group->oldest_ns));
    }
    free(order);
    check_say_more(check, out, "leaks");
}

void
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

void
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
                      align_brief(&align.rows[i], b->by[0].groups.by, name, sizeof(name)), change < 0 ? "-" : "+",
                      output_size(&figure, change < 0 ? (uint64_t)-change : (uint64_t)change),
                      output_size(&before, align.rows[i].a.bytes), output_size(&after, align.rows[i].b.bytes));
        }
        align_free(&align);
    }
    check_say(out, "more: tidemark diff %s %s", out->budget->path, check->path);
}
