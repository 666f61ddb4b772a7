/*
 * The files of a trace: expands the process id, host name and rank in its path, and keeps the trace that overwrite=true
 * replaces until the new one is kept.
 */
#ifndef TIDEI_TRACE_DATABASE_FILES_H
#define TIDEI_TRACE_DATABASE_FILES_H

#include <stdbool.h>

#include <tidemark/status.h>

/*
 * Replace %p (process id), %h (host name), %r (rank, as in identity.h, else 0) and %% in `pattern`, and make the path
 * absolute, so that two names of one file are the same text. The caller owns *out.
 * Errors: TIDE_EINVAL (another letter after %, empty), TIDE_EIO (no such directory), TIDE_ENOMEM.
 */
enum tide_status tidei_trace_path(const char *pattern, char **out);

/* Whether a forked process has its own path: the pattern has %p. */
bool tidei_trace_path_is_own(const char *pattern);

/* `path` with `suffix` appended, owned by the caller; NULL without host memory. */
char *tidei_trace_path_beside(const char *path, const char *suffix);

/*
 * Whether the file at `path` is a trace, by the application id in SQLite's header (file format, 1.3). An empty file
 * counts, too: a process that was killed before the id was written leaves one. Opens and closes the file.
 */
bool tidei_trace_is_at(const char *path);

/*
 * Check that the files beside the trace at `path` belong to its owner, to this user or to root. SQLite follows no
 * symbolic link there. Errors: TIDE_EFORMAT (another user's), TIDE_EIO (a symbolic link), TIDE_ENOMEM.
 */
enum tide_status tidei_trace_check_beside(const char *path);

/* The suffix of a trace that is being replaced; the suffixes of its other files follow it. */
#define TIDEI_REPLACED_SUFFIX "-replaced"

/* The suffix of a trace that is being made, and has not got its name yet. */
#define TIDEI_BEGUN_SUFFIX "-begun"

/*
 * Give the trace at `path` the second name `replaced`, and rename the files beside it; all of them or none. Where the
 * file system has no second names, the trace is renamed, too. Errors: TIDE_EIO, TIDE_ENOMEM.
 */
enum tide_status tidei_replaced_take(const char *path, const char *replaced);

/* Remove the files that SQLite has left beside a trace that somebody has removed: it would read them into a new one. */
void tidei_trace_drop_beside(const char *path);

/*
 * Rename the file at `begun` to `path` in one step. With `replace`, what is at `path` gives way; without it, a file
 * there stays. Errors: TIDE_EEXIST, TIDE_EIO.
 */
enum tide_status tidei_trace_put(const char *begun, const char *path, bool replace);

/*
 * Remove the trace at `path`, whose SQLite file is closed, and restore the one at `replaced` (NULL: none). The ring
 * files are handled by tidei_replaced_restore_rings.
 */
void tidei_replaced_restore(const char *path, const char *replaced);
void tidei_replaced_restore_rings(const char *path, const char *replaced);

/* Remove the files of the trace at `path`; with `rings`, the ring file, too. */
void tidei_replaced_drop(const char *path, bool rings);

#endif
