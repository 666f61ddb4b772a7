/* Judges the peaks of a trace, or of a job, by those of a baseline. */
#include "config.h"

#include "viewer/base/output.h"
#include "viewer/check/baseline.h"

void
baseline_judge(const struct snapshot_memories *memories, double tolerance, struct snapshot_worst *worst,
               struct check_result *out)
{
    out->passed = !snapshot_find_worst(memories, tolerance, worst);
    for (size_t i = 0; out->passed && i < memories->count && !out->unknown; i++)
        out->unknown = snapshot_is_unsure(&memories->list[i], tolerance);
    out->passed = out->passed && !out->unknown;
    out->seen = worst->b_bytes;
    out->limit = INT64_MAX;
    if ((1 + tolerance) * (double)worst->a_bytes < (double)out->limit)
        out->limit = worst->a_bytes + (uint64_t)(tolerance * (double)worst->a_bytes);
}

/* Why what was reserved cannot be judged, by the one whose figure is `most`. */
static void
baseline_say_unsure(const struct snapshot_memory *memory, const struct reserved_figure *most, const char *of,
                    struct check_result *out)
{
    const char *prefix = memory->name != NULL ? memory->name : "reserved";
    struct output_figure figure;

    if (most->source == RESERVED_UNKNOWN)
        check_say(out, "%s: %s does not say what was reserved", prefix, of);
    else if (!most->is_exact)
        check_say(out, "%s: at least %s by %s, which can miss a peak", prefix, output_size(&figure, most->peak_bytes),
                  of);
}

static void
baseline_say_unknown(const struct snapshot_memories *memories, double tolerance, struct check_result *out)
{
    check_say(out, "unknown: no peak is higher, but whether more was reserved cannot be told");
    for (size_t i = 0; i < memories->count; i++) {
        const struct snapshot_memory *memory = &memories->list[i];

        if (!snapshot_is_unsure(memory, tolerance))
            continue;
        baseline_say_unsure(memory, &memory->a_most, "the baseline", out);
        baseline_say_unsure(memory, &memory->b_most, out->is_of_job ? "this job" : "this trace", out);
    }
}

void
baseline_say(const struct snapshot_memories *memories, double tolerance, const struct snapshot_worst *worst,
             struct check_result *out)
{
    uint64_t from = worst->a_bytes, to = worst->b_bytes;
    bool has_name = worst->memory != NULL;
    struct output_figure figure, before, after;

    if (out->unknown)
        baseline_say_unknown(memories, tolerance, out);
    else
        check_say(out, "%s%sthe %speak %sis %s: %s more than the %s of the baseline, of which %.4g%% are tolerated",
                  has_name ? worst->memory : "", has_name ? ": " : "", out->is_of_job ? "highest " : "",
                  worst->is_reserved ? "of the reserved bytes " : "", output_size_beside(&after, to, from),
                  output_size(&figure, to - from), output_size_beside(&before, from, to), 100 * tolerance);
}
