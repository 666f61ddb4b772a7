/* Looks for the arguments that a layer may leave to one of its kind above it, such as the path of a log. */
#ifndef TIDEI_STACK_INHERIT_H
#define TIDEI_STACK_INHERIT_H

#include "src/stack/parse.h"

/* Whether each layer of a whole stack that leaves an argument to one above has one there. Errors: TIDE_ESYNTAX. */
enum tide_status tidei_stack_check_inherited(const struct stack_layer *top);

#endif
