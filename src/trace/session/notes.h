/* Records what is no event of one layer but something that every trace of the process is told: misuse. */
#ifndef TIDEI_TRACE_SESSION_NOTES_H
#define TIDEI_TRACE_SESSION_NOTES_H

#include "src/trace/ring/record.h"

/* A misuse that the calling thread has just made, into every trace of this process. */
void tidei_trace_misuse(const struct tidei_record *call, const struct tidei_misuse *misuse);

#endif
