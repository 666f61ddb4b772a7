/* Prints a stack as stack text. */
#include "src/stack/stack.h"
#include "src/resource/resource.h"

#include <tidemark/stack.h>

static void
describe_layer(struct tide_resource *resource, struct tide_text *text)
{
    size_t name_end;
    size_t open_end;

    tide_text_format(text, "%s", tide_resource_name(resource));
    name_end = text->length;
    tide_text_format(text, "(");
    open_end = text->length;
    resource->ops->describe(resource, text);
    if (text->length > open_end) {
        tide_text_format(text, ")");
    } else {
        text->length = name_end;
        if (text->data != NULL && name_end < text->capacity)
            text->data[name_end] = '\0';
    }
    if (tidei_resource_given_name(resource) != NULL)
        tide_text_format(text, " as %s", tidei_resource_given_name(resource));
}

void
tidei_describe_until(struct tide_resource *top, struct tide_resource *stop, struct tide_text *text)
{
    const char *separator = "";
    struct tide_upstream edge = { .resource = top };

    while (edge.resource != NULL && edge.resource != stop) {
        struct tide_resource *resource = edge.resource;

        tide_text_format(text, "%s", separator);
        describe_layer(resource, text);
        separator = " | ";
        if (resource->ops->upstream_at(resource, 0, &edge) != TIDE_OK)
            break;
    }
}

enum tide_status
tide_describe(struct tide_resource *top, char *text, size_t capacity, size_t *needed)
{
    struct tide_text out = { .data = text, .capacity = capacity };

    if (needed != NULL)
        *needed = 0;
    if (text != NULL && capacity != 0)
        text[0] = '\0';
    if (top == NULL || (text == NULL && capacity != 0))
        return tide_error_set(TIDE_EINVAL, "describe: NULL in place of %s", top == NULL ? "a resource" : "the text");
    tidei_describe_until(top, NULL, &out);
    if (needed != NULL)
        *needed = out.length;
    return TIDE_OK;
}
