/* Finds the layers of a stack by their names. */
#ifndef TIDEI_STACK_FIND_H
#define TIDEI_STACK_FIND_H

#include <tidemark/resource.h>

/* The layer that tide_stack_find finds (borrowed); NULL, and no error text, where there is none. */
struct tide_resource *tidei_stack_find(struct tide_resource *top, const char *name);

#endif
