/* `tidemark import`: a trace of what another program has recorded. */
#include "config.h"

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <zlib.h>

#include "viewer/base/file.h"
#include "viewer/commands/commands.h"
#include "viewer/import/import.h"
#include "viewer/cli/options.h"
#include "viewer/read/trace-open.h"

static const struct import_format {
    const char *name;
    int (*run)(struct import *import, const char *path);
} import_formats[] = {
    { "nsys", import_nsys },
    { "pytorch", import_pytorch },
    { "rmm", import_rmm },
};

#define IMPORT_FORMAT_COUNT (sizeof(import_formats) / sizeof(import_formats[0]))

/* In the order of `import_formats`; 0: by the content. */
#define IMPORT_CHOICES "auto|nsys|pytorch|rmm"

struct import_options {
    int format;
    const char *output;
    bool overwrite;
};

static const struct option_def import_options[] = {
    { "from", 'f', OPTION_CHOICE, "FORMAT", "the format of INPUT; auto: by its content",
      offsetof(struct import_options, format), IMPORT_CHOICES, 0 },
    { "output", 'o', OPTION_TEXT, "TRACE", "the new trace; TRACE may also stand after INPUT",
      offsetof(struct import_options, output), NULL, 0 },
    { "overwrite", 0, OPTION_FLAG, NULL, "replace a trace that is there", offsetof(struct import_options, overwrite),
      NULL, 0 },
    { 0 },
};

static const struct import_format *
import_find_format(const char *name)
{
    for (size_t i = 0; i < IMPORT_FORMAT_COUNT; i++) {
        if (strcmp(import_formats[i].name, name) == 0)
            return &import_formats[i];
    }
    return NULL;
}

/* What the input looks like: SQLite, JSON by its first byte that is no blank, or else CSV. */
static const struct import_format *
import_guess_format(const char *path)
{
    gzFile file;
    int byte;

    if (strcmp(path, "-") == 0)
        return import_find_format("rmm");
    if (file_is_sqlite(path))
        return import_find_format("nsys");
    file = gzopen(path, "r");
    if (file == NULL)
        return import_find_format("rmm");
    do
        byte = gzgetc(file);
    while (byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n');
    gzclose(file);
    return import_find_format(byte == '{' || byte == '[' ? "pytorch" : "rmm");
}

static int
import_input(const char *path, const struct import_options *options)
{
    const struct import_format *format =
        options->format != 0 ? &import_formats[options->format - 1] : import_guess_format(path);
    struct import import;
    int status = import_begin(&import, options->output, options->overwrite);

    return status == COMMAND_FINE ? format->run(&import, path) : status;
}

static int
import_run(const struct command *self, int argc, char **argv)
{
    struct import_options options = { 0 };
    struct view_options common;
    int status;

    status = options_parse(self, argc, argv, &options, &common);
    if (status != OPTIONS_GO)
        return status;
    if (options.output == NULL && argc - optind == 2)
        options.output = argv[--argc];
    if (argc - optind != 1)
        return command_misused(self, "%s", argc == optind ? "what is to be imported?" : "one input and one trace");
    if (options.output == NULL)
        return command_misused(self, "where is the trace to go? -o TRACE");
    return import_input(argv[optind], &options);
}

const struct command command_import = {
    .name = "import",
    .arguments = "[OPTIONS] INPUT -o TRACE",
    .purpose = "Make a trace of what another program has recorded",
    .help = "INPUT may be compressed with gzip, and - is standard input. Its format is found by its content:\n"
            "  rmm      RMM's log (Thread,Time,Action,Pointer,Size,Stream)\n"
            "  nsys     Nsight Systems' SQLite export, recorded with --cuda-memory-usage=true\n"
            "  pytorch  torch.cuda.memory._snapshot() as JSON\n",
    .options = import_options,
    .run = import_run,
};
