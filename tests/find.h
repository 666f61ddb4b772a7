/* Finds a layer of a stack for a test. */
#ifndef TESTS_FIND_H
#define TESTS_FIND_H

#include <tidemark/stack.h>

/* NULL: there is no such layer. */
static inline struct tide_resource *
find_layer(struct tide_resource *stack, const char *name)
{
    struct tide_resource *found;

    return tide_stack_find(stack, name, &found) == TIDE_OK ? found : NULL;
}

#endif
