/* Records tags, modules and call stacks into traces. */
#ifndef TIDEI_TRACE_SESSION_CONTEXT_H
#define TIDEI_TRACE_SESSION_CONTEXT_H

#include "src/trace/ring/session.h"

/* From now on, record each new tag, module and call stack into every trace of this process. Cheap; may be repeated. */
void tidei_context_follow(void);

/* Record all that exist so far into a new trace. */
void tidei_context_define(struct tidei_session *session);
void tidei_context_define_locked(struct tidei_session *session); /* caller holds the locks of tags and call stacks */

#endif
