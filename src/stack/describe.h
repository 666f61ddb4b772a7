/* Prints a part of a stack as stack text. */
#ifndef TIDEI_STACK_DESCRIBE_H
#define TIDEI_STACK_DESCRIBE_H

#include <tidemark/resource.h>

/*
 * Add the layers from `top` down to, but without, `stop` (NULL: to the base) to `text`, as tide_stack_parse reads them;
 * nothing where they are the same. Follows the upstream of index 0.
 */
void tidei_describe_until(struct tide_resource *top, struct tide_resource *stop, struct tide_text *text);

#endif
