/* The locks of the process around files of traces and around recoveries, which are no recorder's. */
#ifndef TIDEI_TRACE_SESSION_LOCKS_H
#define TIDEI_TRACE_SESSION_LOCKS_H

#include <pthread.h>

#include "src/trace/database/gate.h"

/*
 * One thread at a time makes the files of a trace or recovers those of another process: locks on files are the
 * process's and keep no two of its threads apart. Taken before the lock of tidei_sessions.
 */
extern pthread_mutex_t tidei_files_lock;

/* Held where a recovery has SQLite at work, so that another thread may fork. */
extern struct tidei_gate tidei_recovery_gate;

#endif
