/* Tells traces of tags, call stacks, and the modules that these lead through. */
#ifndef TIDEI_TRACE_SESSION_CONTEXT_H
#define TIDEI_TRACE_SESSION_CONTEXT_H

#include "src/trace/ring/session.h"

/* Have every trace of this process hear of what is new from now on. Cheap, and may be called again. */
void tidei_context_follow(void);

/* Tell a new trace what there is so far. */
void tidei_context_define(struct tidei_session *session);
void tidei_context_define_locked(struct tidei_session *session); /* the locks of tags and call stacks are held */

#endif
