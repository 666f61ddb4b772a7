/* Compares the peaks of reserved and requested bytes. */
#include "config.h"

#include "viewer/base/exit-status.h"
#include "viewer/analysis/verdict.h"

int
verdict_make(const struct view *view, const struct summary *summary, struct verdict *out)
{
    const struct summary_total *total = &summary->total;
    struct samples samples = { 0 };
    int status = filter_has_rows(&view->filter) ? COMMAND_FINE : samples_read(view, &samples);
    uint64_t below = summary->has_lowest ? total->peak_held_bytes : total->peak_rounded_bytes;

    if (status != COMMAND_FINE)
        return status;
    *out = (struct verdict){ .summary = summary, .limit_bytes = view_limit(view) };
    if (samples.count > 0) {
        out->source = VERDICT_SAMPLES;
        out->reserved_peak_bytes = samples.reserved_high_bytes;
    }
    /* Samples can miss a peak; the lowest log sees every allocation. */
    if (summary->has_lowest && total->held_peak_bytes >= out->reserved_peak_bytes) {
        out->source = VERDICT_LAYERS;
        out->reserved_peak_bytes = total->held_peak_bytes;
    }
    samples_free(&samples);
    out->rounding_bytes = (int64_t)(total->peak_rounded_bytes - total->peak_bytes);
    if (summary->has_lowest)
        out->pools_bytes = (int64_t)(total->peak_held_bytes - total->peak_rounded_bytes);
    if (out->source != VERDICT_NONE)
        out->base_bytes = (int64_t)(out->reserved_peak_bytes - below);
    return COMMAND_FINE;
}
