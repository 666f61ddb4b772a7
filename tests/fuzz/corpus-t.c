/*
 * Runs the inputs that fuzzing has found worth keeping through every command: none may crash, hang or break a promise.
 * With names of files, it runs those through the target that FUZZ_TARGET names; with --write-traces FOLDER and names of
 * inputs of `trace`, it writes the traces that they stand for into the folder.
 */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tests/tap.h"

#undef main

#define CORPUS_BYTES_MAX (1 << 20)

static uint8_t corpus_data[CORPUS_BYTES_MAX];

/* Read a file into corpus_data. */
static bool
corpus_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "r");

    if (file == NULL)
        return false;
    *size = fread(corpus_data, 1, sizeof(corpus_data), file);
    fclose(file);
    return true;
}

/* Run a file, without the commands' output. */
static bool
corpus_run(const struct fuzz_target *target, const char *path)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int out = dup(STDOUT_FILENO);
    int err = dup(STDERR_FILENO);
    size_t size;

    if (!corpus_read(path, &size))
        return false;
    fflush(stdout);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    target->run(corpus_data, size, true);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    close(nowhere);
    return true;
}

static size_t
corpus_folder(const struct fuzz_target *target, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    size_t runs = 0;

    for (int i = 0; i < count; i++) {
        char path[4096 + 300];

        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            printf("# %s/%s\n", target->name, entries[i]->d_name);
            fflush(stdout);
            runs += corpus_run(target, path);
        }
        free(entries[i]);
    }
    free(entries);
    return runs;
}

static int
corpus_files(int count, char **paths)
{
    const char *name = getenv("FUZZ_TARGET");
    const struct fuzz_target *target = name != NULL ? fuzz_find(name) : NULL;

    for (int i = 0; target != NULL && i < count; i++) {
        if (!corpus_run(target, paths[i]))
            perror(paths[i]);
    }
    return target != NULL ? 0 : 2;
}

static int
corpus_write_traces(const char *folder, int count, char **paths)
{
    for (int i = 0; i < count; i++) {
        char *trace = NULL;
        size_t size;

        if (!corpus_read(paths[i], &size) || asprintf(&trace, "%s/%s.db", folder, basename(paths[i])) < 0) {
            perror(paths[i]);
            return 1;
        }
        fuzz_write_trace(trace, corpus_data, size);
        free(trace);
    }
    return 0;
}

int
main(int argc, char **argv)
{
    const char *top = getenv("top_srcdir");
    int status;

    if (argc > 3 && strcmp(argv[1], "--write-traces") == 0)
        return corpus_write_traces(argv[2], argc - 3, argv + 3);
    if (!fuzz_begin()) {
        perror("no folder for the inputs");
        return 99;
    }
    if (argc > 1) {
        status = corpus_files(argc - 1, argv + 1);
        fuzz_end();
        return status;
    }
    plan(FUZZ_TARGETS);
    for (size_t i = 0; i < FUZZ_TARGETS; i++) {
        char folder[4096];

        snprintf(folder, sizeof(folder), "%s/tests/fuzz/corpus/%s", top != NULL ? top : ".", fuzz_targets[i].name);
        ok(corpus_folder(&fuzz_targets[i], folder) > 0, "%s: every input is survived", fuzz_targets[i].name);
    }
    fuzz_end();
    return done();
}
