/* Tells traces of call stacks, of the modules that they lead through, and of misuse that names them. */
#ifndef TIDEI_TRACE_SESSION_CALLSTACKS_H
#define TIDEI_TRACE_SESSION_CALLSTACKS_H

#include "src/context/callstack.h"
#include "src/trace/session/recorder.h"

/* Into every trace of this process; the lock of call stacks is held. A module comes before what leads through it. */
void tidei_trace_module(const struct tidei_module *module);
void tidei_trace_callstack(const struct tidei_callstack *callstack);

/* Tell a new trace what there is so far. */
void tidei_callstacks_define(struct tidei_recorder *recorder);
void tidei_callstacks_define_locked(struct tidei_recorder *recorder); /* between tidei_callstack_lock and unlock */

/* A misuse that the calling thread has just made, into every trace of this process. */
void tidei_trace_misuse(const struct tidei_record *call, const struct tidei_misuse *misuse);

#endif
