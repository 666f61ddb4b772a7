/* The name of a trace: what stands for the process, the host and the rank is replaced. */
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

/* A process forked off has another path. */
bool tidei_trace_path_is_own(const char *pattern);

/* `path` with something behind it, owned by the caller; NULL where host memory is short. */
char *tidei_trace_path_beside(const char *path, const char *suffix);

#endif
