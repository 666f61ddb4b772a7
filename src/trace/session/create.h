/* Creates the files of a new trace. */
#ifndef TIDEI_TRACE_SESSION_CREATE_H
#define TIDEI_TRACE_SESSION_CREATE_H

#include "src/trace/session/recorder.h"

/*
 * Create trace and ring file at recorder->path, describe the process in meta, and start the writer. A trace that this
 * one replaces is kept at recorder->replaced (owned) until tidei_recorder_keep.
 * Errors: as tide_log_create. On failure the files are as they were before.
 */
enum tide_status tidei_recorder_create_files(struct tidei_recorder *recorder);

/* Stop the writer, remove the files, and restore a replaced trace. The caller still frees the writer. */
void tidei_recorder_discard_files(struct tidei_recorder *recorder);

#endif
