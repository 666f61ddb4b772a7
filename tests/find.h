/* A layer of a stack in a test that knows that it is there. */
#ifndef TESTS_FIND_H
#define TESTS_FIND_H

#include <tidemark/stack.h>

/* NULL where there is none. */
static inline struct tide_resource *
find_layer(struct tide_resource *stack, const char *name)
{
    struct tide_resource *found;

    return tide_stack_find(stack, name, &found) == TIDE_OK ? found : NULL;
}

#endif
