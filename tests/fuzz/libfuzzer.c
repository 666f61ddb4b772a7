/* Runs a fuzz target with libFuzzer; FUZZ_TARGET names the target. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct fuzz_target *fuzz_target;

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = getenv("FUZZ_TARGET");

    (void)argc;
    (void)argv;
    fuzz_target = name != NULL ? fuzz_find(name) : NULL;
    if (fuzz_target == NULL || !fuzz_begin()) {
        fputs("fuzz: FUZZ_TARGET names no target, or there is no folder for its files\n", stderr);
        exit(2);
    }
    atexit(fuzz_end);
    return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_target->run(data, size, getenv("FUZZ_EVERY") != NULL);
    return 0;
}
