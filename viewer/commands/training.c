/* The tables of `tidemark peak` about a training step: what its memory is, and of which module. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "viewer/analysis/fragment.h"
#include "viewer/analysis/training.h"
#include "viewer/base/exit-status.h"
#include "viewer/commands/tables.h"
#include "viewer/commands/training.h"

/* A kind of memory, and what says that it is this kind. */
static const struct training_words {
    const char *kind;
    const char *what;
} training_words[TRAINING_KINDS] = {
    [TRAINING_PARAMETERS] = { "parameters", "tagged parameters" },
    [TRAINING_GRADIENTS] = { "gradients", "left by backward" },
    [TRAINING_STATES] = { "optimizer states", "left by the optimizer" },
    [TRAINING_ACTIVATIONS] = { "activations", "made in forward for backward" },
    [TRAINING_LEFT] = { "left over", "made in forward of an earlier step" },
    [TRAINING_WORKSPACE] = { "workspace", "freed in the pass that made it" },
    [TRAINING_OTHER] = { "other", "made in no pass" },
};

static const char *const training_passes[] = {
    [TRAINING_FORWARD] = "forward",
    [TRAINING_BACKWARD] = "backward",
    [TRAINING_OPTIMIZER] = "optimizer",
};

#define TRAINING_WASTE "waste"

bool
training_is_kind(const char *word)
{
    bool found = strcmp(word, TRAINING_WASTE) == 0;

    for (enum training_kind kind = 0; kind < TRAINING_KINDS && !found; kind++)
        found = strcmp(word, training_words[kind].kind) == 0;
    return found;
}

static const char *
training_what(const struct training *training, enum training_kind kind)
{
    return kind == TRAINING_PARAMETERS && !training->has_parameters ? "made before the first pass"
                                                                    : training_words[kind].what;
}

/* What was reserved beyond what was live, where it is known. It is part of no kind. */
static int
training_report_waste(struct view *view, struct report *report, const struct peak *peak)
{
    const struct fragment_options options = {
        .at = { .kind = MOMENT_TIME, .number = peak->at_ns },
        .page_bytes = SPACE_PAGE,
    };
    const struct fragment_figures *figures;
    struct fragment fragment;
    char what[160];
    int status;

    /* Blocks that are filtered away are no waste. */
    if (filter_has_rows(&view->filter))
        return COMMAND_FINE;
    status = fragment_make(view, &options, &fragment);
    if (status != COMMAND_FINE)
        return status;
    figures = &fragment.figures;
    snprintf(what, sizeof(what), "reserved%s%.64s, but not live%s",
             reserved_is_parted(&fragment.reserved) ? " of " : "",
             reserved_is_parted(&fragment.reserved) ? fragment.group->name : "",
             figures->sample_age_ns >= 0 ? ", by the last sample" : "");
    if (figures->has_reserved && figures->reserved_bytes >= figures->requested_bytes)
        REPORT_ROW(report, cell_text(TRAINING_WASTE), cell_unsigned(figures->reserved_bytes - figures->requested_bytes),
                   cell_none(), cell_none(), cell_text(what));
    reserved_deselect(&fragment.reserved, view);
    fragment_free(&fragment);
    return COMMAND_FINE;
}

static int
training_report_kinds(struct view *view, struct report *report, const struct training *training,
                      const struct peak *peak)
{
    static const struct report_column columns[] = {
        { "kind", "MEMORY", REPORT_TEXT },  { "bytes", "BYTES", REPORT_SIZE }, { "share", "SHARE", REPORT_SHARE },
        { "count", "COUNT", REPORT_COUNT }, { "what", "WHAT", REPORT_NAME },
    };

    REPORT_TABLE(report, "training", "What the memory of the step is", columns);
    report_spare(report, "what count share");
    for (enum training_kind kind = 0; kind < TRAINING_KINDS; kind++) {
        const struct amount *amount = &training->kinds[kind];

        REPORT_ROW(report, cell_text(training_words[kind].kind), cell_unsigned(amount->bytes),
                   cell_share((double)amount->bytes, (double)peak->at_bytes), cell_unsigned(amount->count),
                   cell_text(training_what(training, kind)));
    }
    return training_report_waste(view, report, peak);
}

static uint64_t
training_figure(const void *context, uint32_t number)
{
    return training_module_bytes(&((const struct training *)context)->modules[number]);
}

static void
training_row(struct report *report, void *context, uint32_t number)
{
    const struct training_module *module = &((const struct training *)context)->modules[number];
    const struct amount *kinds = module->kinds;

    REPORT_ROW(report, cell_text(module->name[0] != '\0' ? module->name : "(none)"),
               cell_text(module->name[0] != '\0' ? module->name : NULL), cell_unsigned(training_module_bytes(module)),
               cell_unsigned(kinds[TRAINING_ACTIVATIONS].bytes), cell_unsigned(kinds[TRAINING_LEFT].bytes),
               cell_unsigned(kinds[TRAINING_GRADIENTS].bytes), cell_unsigned(kinds[TRAINING_PARAMETERS].bytes),
               cell_unsigned(kinds[TRAINING_WORKSPACE].bytes));
}

static int
training_report_modules(struct view *view, struct report *report, struct training *training)
{
    static const struct report_column columns[] = {
        { NULL, "MODULE", REPORT_NAME },
        { "module", NULL, REPORT_TEXT },
        { "bytes", "BYTES", REPORT_SIZE },
        { "activations_bytes", "ACTIVATIONS", REPORT_SIZE },
        { "left_bytes", "LEFT OVER", REPORT_SIZE },
        { "gradients_bytes", "GRADIENTS", REPORT_SIZE },
        { "parameters_bytes", "PARAMETERS", REPORT_SIZE },
        { "workspace_bytes", "WORKSPACE", REPORT_SIZE },
    };
    const struct ranking ranking = { training->module_count, 0, report->options.limit, training_figure, training_row };
    struct ranking_rows rows;

    REPORT_TABLE(report, "modules", "Of which module", columns);
    report_spare(report, "left_bytes parameters_bytes workspace_bytes gradients_bytes bytes");
    if (ranking_report(view, report, &ranking, training, &rows) != COMMAND_FINE)
        return COMMAND_WRONG;
    report_rest(report, rows.left, cell_unsigned(rows.left_figures));
    return COMMAND_FINE;
}

/* The tables, where the trace has a training and something is live at the moment. */
static int
training_report_tables(struct view *view, struct report *report, struct training *training, const struct peak *peak)
{
    const struct training_pass *pass = training_pass_at(training, peak->at_ns);
    int status;

    report_field(report, "step", NULL, REPORT_COUNT, pass != NULL ? cell_unsigned(pass->step) : cell_none());
    report_field(report, "pass", NULL, REPORT_TEXT,
                 pass != NULL ? cell_text(training_passes[pass->phase]) : cell_none());
    if (pass != NULL)
        report_label(report, "in", "%s of step %" PRIu64, training_passes[pass->phase], pass->step);
    status = training_report_kinds(view, report, training, peak);
    return status == COMMAND_FINE ? training_report_modules(view, report, training) : status;
}

int
training_report(struct view *view, struct report *report, const struct peak *peak)
{
    struct training training;
    int status = training_make(view, peak->at_ns, peak->at_peak ? peak->allocation_id : 0, &training);

    if (status != COMMAND_FINE)
        return status;
    if (training.is_there && peak->allocation_id != 0) {
        status = training_report_tables(view, report, &training, peak);
    } else {
        report_field(report, "step", NULL, REPORT_COUNT, cell_none());
        report_field(report, "pass", NULL, REPORT_TEXT, cell_none());
        report_no_table(report, "training");
        report_no_table(report, "modules");
    }
    training_free(&training);
    return status;
}
