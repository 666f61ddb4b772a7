/* Holds the locks of the process around files of traces and around recoveries. */
#include "config.h"

#include "src/trace/session/locks.h"

pthread_mutex_t tidei_files_lock = PTHREAD_MUTEX_INITIALIZER;

struct tidei_gate tidei_recovery_gate = TIDEI_GATE_INITIALIZER;
