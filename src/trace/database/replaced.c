/* Keeps the trace that overwrite=true replaces, until the new trace is kept. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/resource/resource.h"
#include "src/trace/database/replaced.h"
#include "src/trace/database/path.h"
#include "src/trace/ring/ringfile.h"

/* The trace itself stands last: as long as it has its name, it is what a kill in between leaves of it. */
static const char *const replaced_suffixes[] = { "-wal", "-shm", "-journal", "" };

#define ASIDE_SUFFIXES (sizeof(replaced_suffixes) / sizeof(replaced_suffixes[0]))

/* Have the file at `target` be that at `source`; neither where there is none, or `source` is NULL. */
static int
replaced_rename(const char *source, const char *target)
{
    if (source != NULL && rename(source, target) == 0)
        return 0;
    if (source != NULL && errno != ENOENT)
        return errno;
    return unlink(target) == 0 || errno == ENOENT ? 0 : errno;
}

/* The same for one file of the traces at `from` (NULL: none) and `to`. */
static enum tide_status
replaced_move(const char *from, const char *to, const char *suffix)
{
    char *source = from != NULL ? tidei_trace_path_beside(from, suffix) : NULL;
    char *target = tidei_trace_path_beside(to, suffix);
    enum tide_status status = TIDE_OK;
    int error = 0;

    if (target == NULL || (from != NULL && source == NULL))
        status = tide_error_set(TIDE_ENOMEM, "log: no host memory");
    else
        error = replaced_rename(source, target);
    if (error != 0)
        status = tide_error_set(TIDE_EIO, "log: %s: %s", target, strerror(error));
    free(source);
    free(target);
    return status;
}

enum tide_status
tidei_replaced_take(const char *path, const char *replaced)
{
    enum tide_status status = TIDE_OK;
    size_t taken = 0;

    while (status == TIDE_OK && taken < ASIDE_SUFFIXES) {
        status = replaced_move(path, replaced, replaced_suffixes[taken]);
        taken += status == TIDE_OK;
    }
    while (status != TIDE_OK && taken > 0)
        replaced_move(replaced, path, replaced_suffixes[--taken]);
    return status;
}

void
tidei_replaced_restore(const char *path, const char *replaced)
{
    for (size_t i = 0; i < ASIDE_SUFFIXES; i++)
        replaced_move(replaced, path, replaced_suffixes[i]);
}

void
tidei_replaced_restore_rings(const char *path, const char *replaced)
{
    replaced_move(replaced, path, TIDEI_RINGS_SUFFIX);
}

void
tidei_replaced_drop(const char *path, bool rings)
{
    if (rings)
        replaced_move(NULL, path, TIDEI_RINGS_SUFFIX);
    for (size_t i = 0; i < ASIDE_SUFFIXES; i++)
        replaced_move(NULL, path, replaced_suffixes[i]);
}
