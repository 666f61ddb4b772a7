/* Makes stacks from text. */
#ifndef TIDEI_STACK_BUILD_H
#define TIDEI_STACK_BUILD_H

#include "src/resource/kind.h"

/* tide_stack_parse, with layers of `kinds` (ends in NULL). */
enum tide_status tidei_stack_build(const struct tidei_kind *const *kinds, const char *text, struct tide_resource **out);

/* tide_stack_from_environment, with layers of `kinds`. */
enum tide_status tidei_stack_build_environment(const struct tidei_kind *const *kinds, const char *default_text,
                                               struct tide_resource **out);

#endif
