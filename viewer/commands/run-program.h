/* Finds a program as a shell does, and says of what cannot be recorded why, before it runs. */
#ifndef VIEWER_COMMANDS_RUN_PROGRAM_H
#define VIEWER_COMMANDS_RUN_PROGRAM_H

#include <stddef.h>

/* The exit statuses of shells. */
enum {
    RUN_PROGRAM_CANNOT = 126, /* it is there, and cannot be run */
    RUN_PROGRAM_NONE = 127,
};

struct run_program {
    char *path;    /* owned; to be given to execve() */
    char why[512]; /* where it cannot be run: a fact, which begins with its subject */
};

/*
 * Find the program `name`, by its path or in PATH, and look at its header, and at that of a script's interpreter: the
 * dynamic linker must load Tidemark into it. Returns 0, RUN_PROGRAM_CANNOT or RUN_PROGRAM_NONE. The caller frees
 * out->path.
 */
int run_program_find(const char *name, struct run_program *out);

#endif
