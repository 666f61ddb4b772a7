/* Exports what each call stack or tag comes to, with every weight, as speedscope's JSON. */
#include "config.h"

#include "viewer/base/exit-status.h"
#include "viewer/export/export.h"
#include "viewer/analysis/profile.h"

static void
speedscope_frames(struct emit *out, const struct profile *profile)
{
    emit_string(out, "\"shared\":{\"frames\":[");
    for (size_t i = 0; i < profile->frame_count; i++) {
        const struct profile_frame *frame = &profile->frames[i];

        emit_string(out, i > 0 ? ",\n{\"name\":" : "\n{\"name\":");
        emit_json(out, frame->function);
        if (frame->file[0] != '\0') {
            emit_string(out, ",\"file\":");
            emit_json(out, frame->file);
        }
        if (frame->line > 0) {
            emit_string(out, ",\"line\":");
            emit_signed(out, frame->line);
        }
        emit_string(out, "}");
    }
    emit_string(out, "]}");
}

/* One profile: a sample for each group that has bytes of this weight. */
static void
speedscope_profile(struct emit *out, const struct profile *profile, enum profile_weight weight, const char *name)
{
    const char *separator = "";
    uint64_t total = 0;

    for (size_t i = 0; i < profile->group_count; i++)
        total += profile->groups[i].values[weight].bytes;
    emit_string(out, "\n{\"type\":\"sampled\",\"name\":");
    emit_json(out, name);
    emit_string(out, ",\"unit\":\"bytes\",\"startValue\":0,\"endValue\":");
    emit_unsigned(out, total);
    emit_string(out, ",\"samples\":[");
    for (size_t i = 0; i < profile->group_count; i++) {
        const struct profile_group *group = &profile->groups[i];

        if (group->values[weight].bytes == 0)
            continue;
        emit_string(out, separator);
        emit_string(out, "[");
        for (size_t j = 0; j < group->frame_count; j++) {
            emit_string(out, j > 0 ? "," : "");
            emit_unsigned(out, group->frames[j]);
        }
        emit_string(out, "]");
        separator = ",";
    }
    emit_string(out, "],\"weights\":[");
    separator = "";
    for (size_t i = 0; i < profile->group_count; i++) {
        if (profile->groups[i].values[weight].bytes == 0)
            continue;
        emit_string(out, separator);
        emit_unsigned(out, profile->groups[i].values[weight].bytes);
        separator = ",";
    }
    emit_string(out, "]}");
}

static int
speedscope_run(const struct export_job *export)
{
    struct profile profile;
    struct emit *out = export->out;
    int status = profile_make(export->view, &profile);

    if (status != COMMAND_FINE)
        return status;
    emit_string(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"tidemark "
                     "" PACKAGE_VERSION "\",\"activeProfileIndex\":0,\n");
    speedscope_frames(out, &profile);
    emit_string(out, ",\n\"profiles\":[");
    speedscope_profile(out, &profile, PROFILE_PEAK, "live at the peak");
    emit_string(out, ",");
    speedscope_profile(out, &profile, PROFILE_LIVE, "live at the end");
    emit_string(out, ",");
    speedscope_profile(out, &profile, PROFILE_ALLOCATED, "allocated");
    emit_string(out, "]}\n");
    profile_free(&profile);
    return COMMAND_FINE;
}

const struct export_format export_speedscope = {
    .name = "speedscope",
    .purpose = "the same for speedscope.app, with every weight",
    .run = speedscope_run,
};
