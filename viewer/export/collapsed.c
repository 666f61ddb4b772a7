/* Exports the profile of each call stack or tag as collapsed stacks, one a line. */
#include "config.h"

#include <stddef.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/export/export.h"
#include "viewer/analysis/profile.h"

/* A name in a line. ";" separates frames, so a name has "," instead. */
static void
collapsed_name(struct emit *out, const char *text)
{
    size_t length = strcspn(text, ";");

    emit_text(out, text, length);
    for (text += length; *text == ';'; text += length) {
        length = strcspn(++text, ";");
        emit_bytes(out, ",", 1);
        emit_text(out, text, length);
    }
}

/* A frame in a line: its function, and its place if that is known. */
static void
collapsed_frame(struct emit *out, const struct profile_frame *frame)
{
    collapsed_name(out, frame->function);
    if (frame->file[0] == '\0')
        return;
    emit_string(out, " (");
    collapsed_name(out, frame->file);
    if (frame->line > 0) {
        emit_string(out, ":");
        emit_signed(out, frame->line);
    }
    emit_string(out, ")");
}

static int
collapsed_run(const struct export_job *export)
{
    struct profile profile;
    struct emit *out = export->out;
    int status = profile_make(export->view, export_groups(export->options, export->view->options), &profile);

    if (status != COMMAND_FINE)
        return status;
    for (size_t i = 0; i < profile.group_count && !out->failed; i++) {
        const struct profile_group *group = &profile.groups[i];
        uint64_t bytes = group->values[export->options->weight].bytes;

        if (bytes == 0)
            continue;
        for (size_t j = 0; j < group->frame_count; j++) {
            if (j > 0)
                emit_bytes(out, ";", 1);
            collapsed_frame(out, &profile.frames[group->frames[j]]);
        }
        emit_bytes(out, " ", 1);
        emit_unsigned(out, bytes);
        emit_bytes(out, "\n", 1);
    }
    profile_free(&profile);
    return COMMAND_FINE;
}

/* The words stand in the order of enum profile_weight. */
static const struct option_def collapsed_options[] = {
    { "weight", 'w', OPTION_CHOICE, "WEIGHT", "of collapsed: bytes live at the peak, live at the end, or allocated",
      offsetof(struct export_options, weight), "peak|live|allocated", 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

const struct export_format export_collapsed = {
    .name = "collapsed",
    .purpose = "a line for each call stack, or tag, with its weight: for flame graphs",
    .options = collapsed_options,
    .groups = true,
    .run = collapsed_run,
};
