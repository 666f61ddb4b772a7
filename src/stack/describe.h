/* Prints a part of a stack as stack text. */
#ifndef TIDEI_STACK_DESCRIBE_H
#define TIDEI_STACK_DESCRIBE_H

#include <tidemark/resource.h>

/*
 * Append the layers from `top` down to `stop` (exclusive; NULL: including the base) to `text`, in the syntax of
 * tide_stack_parse. Appends nothing where `top` is `stop`. Follows the upstream of index 0.
 */
void tidei_describe_until(struct tide_resource *top, struct tide_resource *stop, struct tide_text *text);

#endif
