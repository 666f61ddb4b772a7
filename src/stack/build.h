/* Makes stacks from text. */
#ifndef TIDEI_STACK_BUILD_H
#define TIDEI_STACK_BUILD_H

#include "src/resource/kind.h"
#include "src/stack/parse.h"

/* tide_stack_parse, with layers of `kinds` (ends in NULL). */
enum tide_status tidei_stack_build(const struct tidei_kind *const *kinds, const char *text, struct tide_resource **out);

/* tide_stack_from_environment, with layers of `kinds`. */
enum tide_status tidei_stack_build_environment(const struct tidei_kind *const *kinds, const char *default_text,
                                               struct tide_resource **out);

/* What takes the place of layers that cannot be created where a text is only checked. */
struct stack_stand_in {
    struct tide_resource *base;    /* borrowed; of each base */
    const struct tidei_kind *kind; /* of layers that take an argument from one above, such as logs, and those that ask
                                      what the memory below is: one that passes requests on */
};

/* Create and release the stack of a tree to run the checks of its layers. */
enum tide_status tidei_stack_build_over(const struct stack_tree *tree, const struct stack_stand_in *stand_in);

#endif
