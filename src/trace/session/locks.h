/* The process-wide locks that guard creating trace files and recovering traces. */
#ifndef TIDEI_TRACE_SESSION_LOCKS_H
#define TIDEI_TRACE_SESSION_LOCKS_H

#include <pthread.h>

#include "src/trace/database/gate.h"

/*
 * Held while a thread creates the files of a trace or recovers those of another process. File locks belong to the
 * process and do not exclude its other threads. Taken before the lock of tidei_sessions.
 */
extern pthread_mutex_t tidei_files_lock;

/* Held while a recovery uses SQLite, so that another thread can fork safely. */
extern struct tidei_gate tidei_recovery_gate;

#endif
