/* `tidemark export`: writes a trace in the formats of other tools. */
#include "config.h"

#include <stddef.h>
#include <stdio.h>

#include "viewer/commands/commands.h"
#include "viewer/export/export.h"

#define EXPORT_ENTRY(name) &export_##name,
#define EXPORT_WORD(name)  "|" #name

static const struct export_format *const export_formats[] = { EXPORT_FORMATS(EXPORT_ENTRY) };

#define EXPORT_COUNT (sizeof(export_formats) / sizeof(export_formats[0]))

static const struct option_def export_defs[] = {
    { "format", 'f', OPTION_CHOICE, "FORMAT", "one of the formats below; csv", offsetof(struct export_options, format),
      &EXPORT_FORMATS(EXPORT_WORD)[1], 0 },
    { "output", 'o', OPTION_TEXT, "FILE", "write to FILE; else to standard output",
      offsetof(struct export_options, output), NULL, 0 },
    { "by", 'b', OPTION_CHOICE, "WHAT",
      "of collapsed, speedscope and pprof: callstack, function (without lines),\n"
      "file, or tag (tags alone, as a tree); callstack, or tag with --depth",
      offsetof(struct export_options, by), EXPORT_GROUPS, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

/* The options of the formats, a table for each format that has any. */
static const struct option_def *
export_more_options(size_t place)
{
    for (size_t i = 0; i < EXPORT_COUNT; i++) {
        if (export_formats[i]->options != NULL && place-- == 0)
            return export_formats[i]->options;
    }
    return NULL;
}

static void
export_list_formats(void)
{
    putchar('\n');
    for (size_t i = 0; i < EXPORT_COUNT; i++)
        printf("  %-11s %s\n", export_formats[i]->name, export_formats[i]->purpose);
}

/* The first option that is of no use to a format; NULL: none. */
static const char *
export_useless(const struct export_format *format, const struct export_options *options,
               const struct filter_options *filter)
{
    if (!format->groups && (options->by >= 0 || filter->stacks.frames > 0 || filter->stacks.skip.count > 0))
        return "--by, --frames and --skip are for formats that group by call stacks";
    if (!format->groups && filter->depth > 0)
        return "--depth is for formats that group by tags";
    if (export_groups(options, filter) != GROUPS_TAG)
        return filter->depth > 0 ? "--depth is for --by=tag" : NULL;
    if (filter->stacks.frames > 0 || filter->stacks.skip.count > 0)
        return "--frames and --skip are for --by=callstack, function or file";
    return NULL;
}

static int
export_run(struct invocation *call)
{
    const struct export_options *options = (const struct export_options *)call->own;
    const struct export_format *format = export_formats[options->format];
    const char *useless = export_useless(format, options, &call->common.filter);
    struct view view;
    struct emit out;
    const struct export_job export = { .view = &view, .out = &out, .options = options };
    int status;

    if (useless != NULL)
        return command_misused(call->command, "%s", useless);
    status = view_open(&view, &call->common.filter, call->arguments[0]);
    if (status != COMMAND_FINE)
        return status;
    status = names_check_callstacks(&view.names, NULL);
    if (status == COMMAND_FINE)
        status = emit_open(&out, options->output, format->compress);
    if (status == COMMAND_FINE)
        status = emit_close(&out, format->run(&export));
    if (status == COMMAND_FINE)
        status = trace_verdict(&view.trace);
    view_close(&view);
    return status;
}

const struct command command_export = {
    .name = "export",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "Write a trace in the format of another tool",
    .help = "",
    .options = export_defs,
    COMMAND_OWN(struct export_options, .by = -1),
    .more_options = export_more_options,
    .list = export_list_formats,
    .common = OPTIONS_FILTER | OPTIONS_STACKS,
    .run = export_run,
};
