/* Keeps the trace that overwrite=true replaces, until the new trace is kept. */
#ifndef TIDEI_TRACE_DATABASE_REPLACED_H
#define TIDEI_TRACE_DATABASE_REPLACED_H

#include <stdbool.h>

#include <tidemark/status.h>

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
