/* The path of a trace: expands the process id, host name and rank in it. */
#ifndef TIDEI_TRACE_DATABASE_PATH_H
#define TIDEI_TRACE_DATABASE_PATH_H

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

#endif
