/* Checks stack text without creating what it describes. */
#ifndef TIDEI_STACK_CHECK_H
#define TIDEI_STACK_CHECK_H

#include "src/resource/kind.h"

/* tide_stack_check, with layers of `kinds` (ends in NULL). */
enum tide_status tidei_stack_check(const struct tidei_kind *const *kinds, const char *text, struct tide_text *out);

#endif
