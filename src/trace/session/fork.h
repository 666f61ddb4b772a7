/* Keeps recorders right across fork(). */
#ifndef TIDEI_TRACE_SESSION_FORK_H
#define TIDEI_TRACE_SESSION_FORK_H

#include <stdbool.h>

#include "src/trace/ring/session.h"

struct tidei_recorder;

/* Before the first recorder is made: from now on forks are noticed. */
void tidei_recorder_handle_forks(void);

/*
 * A recorder of the parent's in a forked process: begin a trace of its own where the path has %p. Whether it records
 * now. Takes the locks of tags, call stacks and sessions.
 */
bool tidei_recorder_revive(struct tidei_session *session);

/* Keep what is the parent's out of the way: false where host memory is short. The lock of tidei_sessions is held. */
bool tidei_recorder_leave_behind(struct tidei_recorder *recorder);

#endif
