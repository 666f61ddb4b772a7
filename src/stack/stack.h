/* Makes stacks from text, prints them as text, and finds their layers by name. */
#ifndef TIDEI_STACK_STACK_H
#define TIDEI_STACK_STACK_H

#include <tidemark/stack.h>

#include "src/resource/kind.h"

/* tide_stack_parse_with, with layers of `kinds` (ends in NULL). */
enum tide_status tidei_stack_build(const struct tidei_kind *const *kinds, const char *text,
                                   const struct tide_stack_options *options, struct tide_resource **out);

struct stack_tree;

/* Changes the tree of a text (src/stack/parse.h) before it is built. Words that it adds live until that is done. */
typedef enum tide_status (*tidei_stack_fill)(struct stack_tree *tree, void *context);

/* The same; `fill` (may be NULL) is called with the tree. Its failure, with the text set, is returned. */
enum tide_status tidei_stack_build_filled(const struct tidei_kind *const *kinds, const char *text,
                                          const struct tide_stack_options *options, tidei_stack_fill fill,
                                          void *context, struct tide_resource **out);

/* The text in TIDEMARK_STACK, borrowed; NULL where that is unset or empty. */
const char *tidei_stack_environment(void);

/* tide_stack_from_environment, with layers of `kinds`, and a default text that is not NULL where it is needed. */
enum tide_status tidei_stack_build_environment(const struct tidei_kind *const *kinds, const char *default_text,
                                               struct tide_resource **out);

/* tide_stack_check, with layers of `kinds`. */
enum tide_status tidei_stack_check(const struct tidei_kind *const *kinds, const char *text, struct tide_text *out);

/*
 * Append the layers from `top` down to `stop` (exclusive; NULL: including the base) to `text`, in the syntax of
 * tide_stack_parse. Appends nothing where `top` is `stop`. Follows the upstream of index 0.
 */
void tidei_describe_until(struct tide_resource *top, struct tide_resource *stop, struct tide_text *text);

/* The layer that tide_stack_find finds (borrowed); NULL, and no error text, where there is none. */
struct tide_resource *tidei_stack_find(struct tide_resource *top, const char *name);

#endif
