/* Makes the files of a new trace. */
#ifndef TIDEI_TRACE_CREATE_H
#define TIDEI_TRACE_CREATE_H

#include "trace/recorder.h"

/* The suffix of the ring file beside a trace. */
#define TIDEI_RINGS_SUFFIX "-rings"

/*
 * Create trace and ring file at recorder->path, describe the process in meta, and start the writer.
 * Errors: as tide_log_create. On failure nothing is left behind.
 */
enum tide_status tidei_recorder_create_files(struct tidei_recorder *recorder);

#endif
