/* `tidemark import`: makes a trace from another program's recording. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "viewer/base/message.h"
#include "viewer/commands/commands.h"
#include "viewer/import/import.h"

#define IMPORT_ENTRY(name) &import_##name,
#define IMPORT_WORD(name)  "|" #name

static const struct import_format *const import_formats[] = { IMPORT_FORMATS(IMPORT_ENTRY) };

#define IMPORT_FORMAT_COUNT (sizeof(import_formats) / sizeof(import_formats[0]))

struct import_options {
    int format; /* 0: by the content; else the place in IMPORT_FORMATS + 1 */
    const char *output;
    bool overwrite;
};

static const struct option_def import_options[] = {
    { "from", 'f', OPTION_CHOICE, "FORMAT", "the format of INPUT; auto: by its content",
      offsetof(struct import_options, format), "auto" IMPORT_FORMATS(IMPORT_WORD), 0 },
    { "output", 'o', OPTION_TEXT, "TRACE", "the new trace; TRACE may also stand after INPUT",
      offsetof(struct import_options, output), NULL, 0 },
    { "overwrite", 0, OPTION_FLAG, NULL, "replace a trace that is there", offsetof(struct import_options, overwrite),
      NULL, 0 },
    { 0 },
};

/* The format that recognises the input. The first is for standard input, and for files that none recognises. */
static const struct import_format *
import_recognise(const char *path)
{
    for (size_t i = 0; i < IMPORT_FORMAT_COUNT && strcmp(path, "-") != 0; i++) {
        if (import_formats[i]->recognise != NULL && import_formats[i]->recognise(path))
            return import_formats[i];
    }
    return import_formats[0];
}

static int
import_input(const char *path, const struct import_options *options)
{
    const struct import_format *format =
        options->format != 0 ? import_formats[options->format - 1] : import_recognise(path);
    struct import import;
    uint64_t start_unix_ns = 0;
    int status;

    if (strcmp(path, "-") != 0 && import_is_trace(path, true)) {
        message("%s: it is a trace of Tidemark already and needs no import: `tidemark summary %s` reads it", path,
                path);
        return COMMAND_WRONG;
    }
    status = import_begin(&import, options->output, options->overwrite);
    if (status != COMMAND_FINE)
        return status;
    status = format->run(&import, path, &start_unix_ns);
    if (status == COMMAND_FINE)
        return import_finish(&import, format->name, path, start_unix_ns);
    import_abandon(&import);
    return status;
}

static void
import_list_formats(void)
{
    puts("INPUT may be compressed with gzip, and - is standard input. Its format is found by its content:");
    for (size_t i = 0; i < IMPORT_FORMAT_COUNT; i++)
        printf("  %-8s %s\n", import_formats[i]->name, import_formats[i]->purpose);
}

static int
import_run(struct invocation *call)
{
    struct import_options *options = (struct import_options *)call->own;

    if (options->output == NULL && call->count == 2)
        options->output = call->arguments[--call->count];
    if (call->count != 1)
        return command_misused(call->command, "%s",
                               call->count == 0 ? "what is to be imported?" : "one input and one trace");
    if (options->output == NULL)
        return command_misused(call->command, "where is the trace to go? -o TRACE");
    return import_input(call->arguments[0], options);
}

const struct command command_import = {
    .name = "import",
    .arguments = "[OPTIONS] INPUT -o TRACE",
    .purpose = "Make a trace of what another program has recorded",
    .help = "",
    .wanted = &(const struct command_arguments){ .count = -1 },
    .options = import_options,
    COMMAND_OWN(struct import_options, .format = 0),
    .list = import_list_formats,
    .run = import_run,
};
