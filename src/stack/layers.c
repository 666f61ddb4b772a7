/* Prints the layers of a stack as stack text, and finds them by their names. */
#include "src/stack/stack.h"

#include <string.h>

#include <tidemark/stack.h>

#include "src/stack/parse.h"
#include "src/sync/inside.h"

#define FIND_NAMES_MOST 32 /* names that a message lists */

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
    TIDEI_INSIDE(top);
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

/* A layer is found by the name that its text gave it (tidei_resource_given_name), or by its kind's. */
typedef const char *(*find_name)(const struct tide_resource *resource);

static struct tide_resource *
find_below(struct tide_resource *top, const char *name, find_name name_of)
{
    const char *own = name_of(top);
    struct tide_upstream below;

    if (own != NULL && strcmp(own, name) == 0)
        return top;
    for (size_t i = 0; top->ops->upstream_at(top, i, &below) == TIDE_OK; i++) {
        struct tide_resource *found = find_below(below.resource, name, name_of);

        if (found != NULL)
            return found;
    }
    return NULL;
}

struct tide_resource *
tidei_stack_find(struct tide_resource *top, const char *name)
{
    struct tide_resource *found = find_below(top, name, tidei_resource_given_name);

    return found != NULL ? found : find_below(top, name, tide_resource_name);
}

/* Collect each name once, as far as there is room before the final NULL. */
static void
find_names(struct tide_resource *top, find_name name_of, const char **names)
{
    const char *own = name_of(top);
    struct tide_upstream below;
    size_t count = 0;

    while (own != NULL && names[count] != NULL && strcmp(names[count], own) != 0)
        count++;
    if (own != NULL && count < FIND_NAMES_MOST)
        names[count] = own;
    for (size_t i = 0; top->ops->upstream_at(top, i, &below) == TIDE_OK; i++)
        find_names(below.resource, name_of, names);
}

enum tide_status
tide_stack_find(struct tide_resource *top, const char *name, struct tide_resource **out)
{
    TIDEI_INSIDE(top);
    const char *names[FIND_NAMES_MOST + 1] = { NULL };
    char list[512];
    char hint[64];

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "stack: NULL in place of an address for the resource");
    *out = NULL;
    if (top == NULL || name == NULL)
        return tide_error_set(TIDE_EINVAL, "stack: NULL in place of a %s", top == NULL ? "stack" : "name");
    *out = tidei_stack_find(top, name);
    if (*out != NULL)
        return TIDE_OK;
    find_names(top, tidei_resource_given_name, names);
    find_names(top, tide_resource_name, names);
    return tide_error_set(TIDE_EINVAL, "stack: no layer is called '%s', expected %s%s", name,
                          tidei_stack_list(tidei_stack_choice_at, names, list, sizeof(list)),
                          tidei_stack_hint(name, tidei_stack_choice_at, names, hint, sizeof(hint)));
}
