/* Records misuse, which goes into every trace of the process and not only into one layer's. */
#ifndef TIDEI_TRACE_SESSION_NOTES_H
#define TIDEI_TRACE_SESSION_NOTES_H

#include "src/trace/ring/record.h"

/* Record a misuse by the calling thread into every trace of this process. */
void tidei_trace_misuse(const struct tidei_record *call, const struct tidei_misuse *misuse);

#endif
