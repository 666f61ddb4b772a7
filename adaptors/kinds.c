/* The one table of all kinds of layers, and stacks from text. No other file knows all kinds. */
#include <tidemark/stack.h>

#include "src/stack/stack.h"
#include "src/sync/inside.h"

/* The list comes from `kinds` of each folder's local.mk. */
#define KIND(name) extern const struct tidei_kind tidei_##name##_kind;
#include "adaptors/kinds.inc"
#undef KIND

/* In alphabetical order; ends in NULL. */
const struct tidei_kind *const tidei_kinds[] = {
#define KIND(name) &tidei_##name##_kind,
#include "adaptors/kinds.inc"
#undef KIND
    NULL,
};

enum tide_status
tide_stack_parse(const char *text, struct tide_resource **out)
{
    TIDEI_INSIDE(NULL);

    return tidei_stack_build(tidei_kinds, text, NULL, out);
}

enum tide_status
tide_stack_parse_with(const char *text, const struct tide_stack_options *options, struct tide_resource **out)
{
    TIDEI_INSIDE(NULL);

    return tidei_stack_build(tidei_kinds, text, options, out);
}

enum tide_status
tide_stack_from_environment(const char *default_text, struct tide_resource **out)
{
    TIDEI_INSIDE(NULL);
    char text[64];
    enum tide_status status;

    if (default_text == NULL && out != NULL && tidei_stack_environment() == NULL) {
        *out = NULL;
        status = tide_stack_default(0, text, sizeof(text), NULL);
        if (status != TIDE_OK)
            return status;
        default_text = text;
    }
    return tidei_stack_build_environment(tidei_kinds, default_text, out);
}

enum tide_status
tide_stack_check(const char *text, char *full, size_t capacity, size_t *needed)
{
    TIDEI_INSIDE(NULL);
    struct tide_text out = { .data = full, .capacity = capacity };
    enum tide_status status;

    if (needed != NULL)
        *needed = 0;
    if (full != NULL && capacity != 0)
        full[0] = '\0';
    if (text == NULL || (full == NULL && capacity != 0))
        return tide_error_set(TIDE_EINVAL, "stack text: NULL in place of %s", text == NULL ? "the text" : "the buffer");
    status = tidei_stack_check(tidei_kinds, text, &out);
    if (needed != NULL && status == TIDE_OK)
        *needed = out.length;
    return status;
}
