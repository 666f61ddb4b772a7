/*
 * The listener, which is called for every new tag, module and call stack. A process that records has one, which writes
 * them to its traces.
 */
#ifndef TIDEI_CONTEXT_LISTENER_H
#define TIDEI_CONTEXT_LISTENER_H

#include <stdint.h>

#include "src/context/modules.h"

struct tidei_callstack;

/*
 * The functions that are called for each tag, module and call stack. For a new one, the call is made with `context`
 * NULL, under the lock of tags or of call stacks, before the number is first used. A module comes before the call
 * stacks through it, and a tag before the tags within it.
 */
struct tidei_context_listener {
    void (*tag)(uint32_t id, uint32_t parent, const char *name, void *context);
    void (*module)(const struct tidei_module *module, void *context);
    void (*callstack)(const struct tidei_callstack *callstack, void *context);
    void (*ambient)(void); /* the ambient tag has changed: threads are to call tidei_tag_notice */
};

/* Call `listener` for all that is new from now on. A process has one listener, which never changes. */
void tidei_context_listen(const struct tidei_context_listener *listener);

/* The listener; NULL while there is none. */
const struct tidei_context_listener *tidei_context_listener(void);

#endif
