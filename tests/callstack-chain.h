/* Functions that know their own call stack; built with frame pointers, without them, and without unwind tables. */
#ifndef TESTS_CALLSTACK_CHAIN_H
#define TESTS_CALLSTACK_CHAIN_H

#include <stdint.h>

#define CHAIN_MOST 64

/* A recursive function and its innermost call; `returns` has the return addresses of its calls. */
struct chain {
    void (*leaf)(struct chain *chain);
    void *context;
    unsigned depth;               /* calls of itself; at most CHAIN_MOST - 2 */
    unsigned count;               /* of `returns` */
    uint64_t returns[CHAIN_MOST]; /* the innermost first */
};

void chain_with_pointers(struct chain *chain);
void chain_without_pointers(struct chain *chain);
void chain_without_tables(struct chain *chain); /* with frame pointers, like code generated at run time */

#endif
