/* What the auditor and the preloaded object have to agree on: names. */
#ifndef TIDEI_RUN_NAMES_H
#define TIDEI_RUN_NAMES_H

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* The base names of the objects. `tidemark run` looks for them by the same names. */
#define TIDEI_RUN_AUDIT   "libtidemark-audit.so"
#define TIDEI_RUN_PRELOAD "libtidemark-run.so"
#define TIDEI_RUN_DLSYM   "libtidemark-dlsym.so"
#define TIDEI_RUN_NVTX    "libtidemark-nvtx.so"

/* The stub of a driver function has the function's name behind this one. */
#define TIDEI_RUN_STUB "tidemark_run_"

/* The variable of the preloaded object into which the auditor puts the driver's struct link_map. */
#define TIDEI_RUN_DRIVER "tidemark_run_driver"

/* The driver's library is each object whose base name begins so. */
#define TIDEI_RUN_LIBCUDA "libcuda.so"

/* The list of traces: a file of this name that memfd_create() makes, which processes find as /proc/PID/fd/FD. */
#define TIDEI_RUN_TRACES "tidemark-traces"

/* Whether the path is a list's; not where its process has ended, and others have its number now. */
static inline bool
tidei_run_is_list(const char *path)
{
    static const char wanted[] = "/memfd:" TIDEI_RUN_TRACES;
    char name[sizeof(wanted)];

    if (strncmp(path, "/proc/", strlen("/proc/")) != 0)
        return true;
    return readlink(path, name, sizeof(name)) >= (ssize_t)strlen(wanted) && memcmp(name, wanted, strlen(wanted)) == 0;
}

#endif
