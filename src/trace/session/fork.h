/* Keeps recorders consistent across fork(). */
#ifndef TIDEI_TRACE_SESSION_FORK_H
#define TIDEI_TRACE_SESSION_FORK_H

#include <stdbool.h>

#include "src/trace/ring/session.h"

struct tidei_recorder;

/* Install the fork hooks. Call it before the first recorder is created. */
void tidei_recorder_handle_forks(void);

/*
 * In a forked process: if the recorder is the parent's and its path has %p, begin this process's own trace. Returns
 * whether the recorder records now. Takes the locks of tags, call stacks and sessions.
 */
bool tidei_recorder_revive(struct tidei_session *session);

/* Set the parent's objects aside without freeing them. False without host memory. Caller holds tidei_sessions.lock. */
bool tidei_recorder_leave_behind(struct tidei_recorder *recorder);

#endif
