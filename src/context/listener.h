/*
 * The listener that is told of every new tag, module and call stack. A process that records has one, which writes them
 * to its traces.
 */
#ifndef TIDEI_CONTEXT_LISTENER_H
#define TIDEI_CONTEXT_LISTENER_H

#include <stdint.h>

#include "src/context/modules.h"

struct tidei_callstack;

/*
 * Functions that are called with each tag, module and call stack: of a new one under the lock of tags or of call
 * stacks, with `context` NULL, before its number is used for the first time. A module comes before the call stacks that
 * lead through it, a tag before those in it.
 */
struct tidei_context_listener {
    void (*tag)(uint32_t id, uint32_t parent, const char *name, void *context);
    void (*module)(const struct tidei_module *module, void *context);
    void (*callstack)(const struct tidei_callstack *callstack, void *context);
};

/* Have `listener` hear of all that is new from now on. It is constant, and one in a process. */
void tidei_context_listen(const struct tidei_context_listener *listener);

/* The listener; NULL while there is none. */
const struct tidei_context_listener *tidei_context_listener(void);

#endif
