/* Checks the arguments that a layer may take from one of its kind above it, such as the path of a log. */
#include "src/stack/parse.h"

#include <string.h>

/* The index of the argument that the layer may take from one above; argument_count where there is none. */
static size_t
stack_inherited(const struct tidei_kind *kind)
{
    size_t index = 0;

    if (kind->inherits == NULL)
        return kind->argument_count;
    while (index < kind->argument_count && strcmp(kind->arguments[index].key, kind->inherits) != 0)
        index++;
    return index;
}

/*
 * Find a layer of the same kind above `layer` that gives the argument: in its own stack, or, for a layer in braces, in
 * `outside`, the layers above the braces. Layers in the braces of a bin above count, too.
 */
static bool
stack_gives(const struct stack_layer *top, const struct stack_layer *end, const struct tidei_kind *kind, size_t index)
{
    for (const struct stack_layer *layer = top; layer != end; layer = layer->below) {
        if (layer->kind == kind && layer->values[index].given)
            return true;
        for (const struct stack_bin *bin = layer->bins; bin != NULL; bin = bin->next) {
            if (stack_gives(bin->top, NULL, kind, index))
                return true;
        }
    }
    return false;
}

/* A stack and the stacks around its braces, innermost first. */
struct stack_scope {
    const struct stack_layer *top;
    const struct stack_layer *end; /* the layer being checked; the layers above it end there */
    const struct stack_scope *outside;
};

static enum tide_status
stack_check_scope(const struct stack_layer *top, const struct stack_scope *outside)
{
    enum tide_status status = TIDE_OK;

    for (const struct stack_layer *layer = top; status == TIDE_OK && layer != NULL; layer = layer->below) {
        const struct stack_scope here = { .top = top, .end = layer, .outside = outside };
        size_t index = stack_inherited(layer->kind);
        bool given = index == layer->kind->argument_count || layer->values[index].given;

        for (const struct stack_scope *scope = &here; !given && scope != NULL; scope = scope->outside)
            given = stack_gives(scope->top, scope->end, layer->kind, index);
        if (!given)
            status = tidei_stack_fail(layer->column, layer->kind->ops.name,
                                      "argument '%s' is missing, expected it here or in a %s above",
                                      layer->kind->inherits, layer->kind->ops.name);
        for (const struct stack_bin *bin = layer->bins; status == TIDE_OK && bin != NULL; bin = bin->next)
            status = stack_check_scope(bin->top, &here);
    }
    return status;
}

enum tide_status
tidei_stack_check_inherited(const struct stack_layer *top)
{
    return stack_check_scope(top, NULL);
}
