/* Finds the layers of a stack by their names. */
#include "src/stack/stack.h"

#include <string.h>

#include <tidemark/stack.h>

#include "src/stack/parse.h"

#define FIND_NAMES_MOST 32 /* names that a message lists */

/* A layer is found by the name that its text gave it, or by its kind. */
enum find_by { FIND_BY_NAME, FIND_BY_KIND };

static const char *
find_name(const struct tide_resource *resource, enum find_by by)
{
    return by == FIND_BY_NAME ? tidei_resource_given_name(resource) : resource->ops->name;
}

static struct tide_resource *
find_below(struct tide_resource *top, const char *name, enum find_by by)
{
    const char *own = find_name(top, by);
    struct tide_upstream below;

    if (own != NULL && strcmp(own, name) == 0)
        return top;
    for (size_t i = 0; top->ops->upstream_at(top, i, &below) == TIDE_OK; i++) {
        struct tide_resource *found = find_below(below.resource, name, by);

        if (found != NULL)
            return found;
    }
    return NULL;
}

struct tide_resource *
tidei_stack_find(struct tide_resource *top, const char *name)
{
    struct tide_resource *found = find_below(top, name, FIND_BY_NAME);

    return found != NULL ? found : find_below(top, name, FIND_BY_KIND);
}

/* Collect each name once, as far as there is room before the final NULL. */
static void
find_names(struct tide_resource *top, enum find_by by, const char **names)
{
    const char *own = find_name(top, by);
    struct tide_upstream below;
    size_t count = 0;

    while (own != NULL && names[count] != NULL && strcmp(names[count], own) != 0)
        count++;
    if (own != NULL && count < FIND_NAMES_MOST)
        names[count] = own;
    for (size_t i = 0; top->ops->upstream_at(top, i, &below) == TIDE_OK; i++)
        find_names(below.resource, by, names);
}

enum tide_status
tide_stack_find(struct tide_resource *top, const char *name, struct tide_resource **out)
{
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
    find_names(top, FIND_BY_NAME, names);
    find_names(top, FIND_BY_KIND, names);
    return tide_error_set(TIDE_EINVAL, "stack: no layer is called '%s', expected %s%s", name,
                          tidei_stack_list(tidei_stack_choice_at, names, list, sizeof(list)),
                          tidei_stack_hint(name, tidei_stack_choice_at, names, hint, sizeof(hint)));
}
