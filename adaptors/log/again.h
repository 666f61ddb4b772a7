/*
 * Numbers of layers that are used again. Each stack that records into a trace has layers of its own there, of which a
 * trace holds 65,535. Where a program makes and ends stacks of the same text without end, those of a stack that has
 * ended serve the next one of the same shape.
 */
#ifndef TIDEI_ADAPTORS_LOG_AGAIN_H
#define TIDEI_ADAPTORS_LOG_AGAIN_H

#include "adaptors/log/record.h"

/*
 * From now on, layers of the trace that the stack's first log records into are used again: when a log that opened the
 * trace is destroyed together with all layers that it has numbered, a log that is opened over layers of the same kinds,
 * arguments and devices gets their numbers. Nothing where the stack has no log.
 */
void tidei_log_use_again(struct tide_resource *top);

/* The layers that this log is about to number, where a trace has such numbers to use again; NULL: it has none. */
struct tidei_ended_layers *tidei_log_again_take(struct tidei_log *log, struct tidei_recorder *recorder);

/* The log is destroyed with all its layers, and nothing is recorded of them any more but frees on their way down. */
void tidei_log_again_put(struct tidei_log *log, struct tidei_recorder *recorder);

#endif
