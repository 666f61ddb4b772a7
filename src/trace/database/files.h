/*
 * The files of a trace: expands the process id, host name and rank in its path, and keeps the trace that overwrite=true
 * replaces until the new one is kept.
 */
#ifndef TIDEI_TRACE_DATABASE_FILES_H
#define TIDEI_TRACE_DATABASE_FILES_H

#include <stdbool.h>

#include <tidemark/status.h>

/*
 * Replace %p (process id), %h (host name), %r (rank: OMPI_COMM_WORLD_RANK, PMI_RANK or SLURM_PROCID, else 0) and %%
 * in `pattern`, and make the path absolute, so that two names of one file are the same text. The caller owns *out.
 * Errors: TIDE_EINVAL (another letter after %, empty), TIDE_EIO (no such directory), TIDE_ENOMEM.
 */
enum tide_status tidei_trace_path(const char *pattern, char **out);

/* Whether a forked process has its own path: the pattern has %p. */
bool tidei_trace_path_is_own(const char *pattern);

/* `path` with `suffix` appended, owned by the caller; NULL without host memory. */
char *tidei_trace_path_beside(const char *path, const char *suffix);

/* The suffix of a trace that is being replaced; the suffixes of its other files follow it. */
#define TIDEI_REPLACED_SUFFIX "-replaced"

/* Rename the files of the trace at `path` to `replaced`; all of them or none. Errors: TIDE_EIO, TIDE_ENOMEM. */
enum tide_status tidei_replaced_take(const char *path, const char *replaced);

/*
 * Remove the trace at `path`, whose SQLite file is closed, and restore the one at `replaced` (NULL: none). The ring
 * files are handled by tidei_replaced_restore_rings.
 */
void tidei_replaced_restore(const char *path, const char *replaced);
void tidei_replaced_restore_rings(const char *path, const char *replaced);

/* Remove the files of the trace at `path`; with `rings`, the ring file, too. */
void tidei_replaced_drop(const char *path, bool rings);

#endif
