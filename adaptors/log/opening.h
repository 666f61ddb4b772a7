/*
 * The opening of a trace by a `log`, and its end: the layers of the stack get their numbers, logs and chunks below are
 * recorded from then on, and the bases are watched.
 */
#ifndef TIDEI_ADAPTORS_LOG_OPENING_H
#define TIDEI_ADAPTORS_LOG_OPENING_H

#include <tidemark/status.h>

#include "adaptors/log/record.h"

/* Open the trace that the options name, number the layers, and attach the logs below. Errors: as tide_log_create. */
enum tide_status tidei_log_open(struct tidei_log *log);

/* The log is destroyed: what it has set up below it ends, and it lets go of its recorder. */
void tidei_log_close(struct tidei_log *log);

/* The log lives on and records no more; its trace is completed where that holds for all who record there. */
void tidei_log_end(struct tidei_log *log);

/* Wait until what was recorded is in the trace. Errors: as tide_log_flush. */
enum tide_status tidei_log_flush(struct tidei_recorder *recorder);

#endif
