/* Checks the arguments that a layer may take from one of its kind above it, such as the path of a log. */
#ifndef TIDEI_STACK_INHERIT_H
#define TIDEI_STACK_INHERIT_H

#include "src/stack/parse.h"

/* Check that each layer that takes an argument from one above it finds it there. Errors: TIDE_ESYNTAX. */
enum tide_status tidei_stack_check_inherited(const struct stack_layer *top);

#endif
