/* What the files of the recorder share of all recorders of this process: recorder.c, registry.c and fork.c. */
#ifndef TIDEI_TRACE_SESSION_REGISTRY_H
#define TIDEI_TRACE_SESSION_REGISTRY_H

#include "src/trace/database/gate.h"
#include "src/trace/session/recorder.h"

struct tidei_registry {
    /* All recorders of this process that are open, or that a parent had open. Under `lock`. */
    pthread_mutex_t lock;
    struct tidei_recorder *first;
    /*
     * One thread at a time makes the files of a trace or recovers those of another process: locks on files are the
     * process's and keep no two of its threads apart. Taken before `lock`.
     */
    pthread_mutex_t files_lock;
    /* Held where a recovery has SQLite at work; that is no recorder's. */
    struct tidei_gate recovery_gate;
};

extern struct tidei_registry tidei_registry;

uint64_t tidei_recorder_new_serial(void);

/* Have every producer look again. */
void tidei_recorder_set_mode(struct tidei_recorder *recorder, enum tidei_recorder_mode mode);

/* Before the first recorder is made: from now on forks are noticed. */
void tidei_recorder_handle_forks(void);

/* Keep what is the parent's out of the way: false where host memory is short. The registry's lock is held. */
bool tidei_recorder_leave_behind(struct tidei_recorder *recorder);

void tidei_recorder_write_definition(struct tidei_recorder *recorder, const struct tidei_definition *definition);

#endif
