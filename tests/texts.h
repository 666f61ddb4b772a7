/* Checks stack texts, for the tests of each adaptor's arguments. */
#ifndef TESTS_TEXTS_H
#define TESTS_TEXTS_H

#include <stdio.h>

#include <tidemark/tidemark.h>

#include "tap.h"

struct stack_text {
    const char *text;
    const char *wanted; /* how the stack describes itself, or why there is none */
};

/* One test for each text. */
static inline void
check_texts(const struct stack_text *texts, int count)
{
    for (int i = 0; i < count; i++) {
        struct tide_resource *stack;
        char described[256];

        if (tide_stack_parse(texts[i].text, &stack) == TIDE_OK)
            tide_describe(stack, described, sizeof(described), NULL);
        else
            snprintf(described, sizeof(described), "%s", tide_error_text());
        tide_resource_release(stack);
        is_string(described, texts[i].wanted, texts[i].text);
    }
}

#endif
