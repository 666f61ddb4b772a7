/* Exports the profile of each call stack or tag, with every weight, as speedscope's JSON. */
#include "config.h"

#include "viewer/base/exit-status.h"
#include "viewer/export/export.h"
#include "viewer/analysis/profile.h"
#include "viewer/output/json.h"

static void
speedscope_frames(struct json *json, const struct profile *profile)
{
    json_key(json, "shared");
    json_begin(json, '{');
    json_key(json, "frames");
    json_begin(json, '[');
    for (size_t i = 0; i < profile->frame_count; i++) {
        const struct profile_frame *frame = &profile->frames[i];

        json_line(json);
        json_begin(json, '{');
        json_put_text(json, "name", frame->function);
        if (frame->file[0] != '\0') {
            json_put_text(json, "file", frame->file);
        }
        if (frame->line > 0) {
            json_put_signed(json, "line", frame->line);
        }
        json_end(json, '}');
    }
    json_end(json, ']');
    json_end(json, '}');
}

/* A list of the groups that have bytes of this weight: the frames of each, or its bytes. */
static void
speedscope_groups(struct json *json, const struct profile *profile, enum profile_weight weight, bool frames)
{
    json_begin(json, '[');
    for (size_t i = 0; i < profile->group_count; i++) {
        const struct profile_group *group = &profile->groups[i];

        if (group->values[weight].bytes == 0)
            continue;
        if (!frames) {
            json_unsigned(json, group->values[weight].bytes);
            continue;
        }
        json_begin(json, '[');
        for (size_t j = 0; j < group->frame_count; j++)
            json_unsigned(json, group->frames[j]);
        json_end(json, ']');
    }
    json_end(json, ']');
}

/* One profile: a sample for each group that has bytes of this weight. */
static void
speedscope_profile(struct json *json, const struct profile *profile, enum profile_weight weight, const char *name)
{
    uint64_t total = 0;

    for (size_t i = 0; i < profile->group_count; i++)
        total += profile->groups[i].values[weight].bytes;
    json_line(json);
    json_begin(json, '{');
    json_put_text(json, "type", "sampled");
    json_put_text(json, "name", name);
    json_put_text(json, "unit", "bytes");
    json_put_unsigned(json, "startValue", 0);
    json_put_unsigned(json, "endValue", total);
    json_key(json, "samples");
    speedscope_groups(json, profile, weight, true);
    json_key(json, "weights");
    speedscope_groups(json, profile, weight, false);
    json_end(json, '}');
}

static int
speedscope_run(const struct export_job *export)
{
    struct json json = { .out = export->out };
    struct profile profile;
    int status = profile_make(export->view, export_groups(export->options, export->view->options), &profile);

    if (status != COMMAND_FINE)
        return status;
    json_begin(&json, '{');
    json_put_text(&json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    json_put_text(&json, "exporter", "tidemark " PACKAGE_VERSION);
    json_put_unsigned(&json, "activeProfileIndex", 0);
    json_line(&json);
    speedscope_frames(&json, &profile);
    json_line(&json);
    json_key(&json, "profiles");
    json_begin(&json, '[');
    speedscope_profile(&json, &profile, PROFILE_PEAK, "live at the peak");
    speedscope_profile(&json, &profile, PROFILE_LIVE, trace_live_words(&export->view->trace));
    speedscope_profile(&json, &profile, PROFILE_ALLOCATED, "allocated");
    emit_string(export->out, "]}\n");
    profile_free(&profile);
    return COMMAND_FINE;
}

const struct export_format export_speedscope = {
    .name = "speedscope",
    .purpose = "the same for speedscope.app, with every weight",
    .groups = true,
    .run = speedscope_run,
};
