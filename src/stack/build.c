/* Builds stacks, bottom up, from parsed text, after a check of what layers take from those above them. */
#include "config.h"

#include "src/stack/stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/stack.h>

#include "src/resource/resource.h"
#include "src/stack/parse.h"

/* The index of the argument that the layer may take from one above; argument_count where there is none. */
static size_t
build_inherited(const struct tidei_kind *kind)
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
build_gives(const struct stack_layer *top, const struct stack_layer *end, const struct tidei_kind *kind, size_t index)
{
    for (const struct stack_layer *layer = top; layer != end; layer = layer->below) {
        if (layer->kind == kind && layer->values[index].given)
            return true;
        for (const struct stack_bin *bin = layer->bins; bin != NULL; bin = bin->next) {
            if (build_gives(bin->top, NULL, kind, index))
                return true;
        }
    }
    return false;
}

/* A stack and the stacks around its braces, innermost first. */
struct build_scope {
    const struct stack_layer *top;
    const struct stack_layer *end; /* the layer being checked; the layers above it end there */
    const struct build_scope *outside;
};

/* Check that each layer that takes an argument from one above it finds it there. Errors: TIDE_ESYNTAX. */
static enum tide_status
build_check_inherited(const struct stack_layer *top, const struct build_scope *outside)
{
    enum tide_status status = TIDE_OK;

    for (const struct stack_layer *layer = top; status == TIDE_OK && layer != NULL; layer = layer->below) {
        const struct build_scope here = { .top = top, .end = layer, .outside = outside };
        size_t index = build_inherited(layer->kind);
        bool given = index == layer->kind->argument_count || layer->values[index].given;

        for (const struct build_scope *scope = &here; !given && scope != NULL; scope = scope->outside)
            given = build_gives(scope->top, scope->end, layer->kind, index);
        if (!given)
            status = tidei_stack_fail(layer->column, layer->kind->ops.name,
                                      "argument '%s' is missing, expected it here or in a %s above",
                                      layer->kind->inherits, layer->kind->ops.name);
        for (const struct stack_bin *bin = layer->bins; status == TIDE_OK && bin != NULL; bin = bin->next)
            status = build_check_inherited(bin->top, &here);
    }
    return status;
}

static enum tide_status build_stack(struct stack_layer *bottom, struct tide_resource *upstream,
                                    const struct stack_stand_in *stand_in, struct tide_resource **out);

/* Build the bins over the layer's upstream, unless they have a base. *bins holds references, even on failure. */
static enum tide_status
build_bins(struct stack_layer *layer, struct tide_resource *upstream, const struct stack_stand_in *stand_in,
           struct tidei_bin *bins)
{
    enum tide_status status = TIDE_OK;
    size_t index = 0;

    for (const struct stack_bin *bin = layer->bins; status == TIDE_OK && bin != NULL; bin = bin->next) {
        bins[index].smallest_bytes = bin->smallest_bytes;
        bins[index].limit_bytes = bin->limit_bytes;
        bins[index].column = bin->column;
        if (bin->bottom != NULL)
            status =
                build_stack(bin->bottom, bin->bottom->kind->is_base ? NULL : upstream, stand_in, &bins[index].resource);
        index++;
    }
    return status;
}

/* Resolve shares from the capacity of the layers below; a base resolves its own. */
static enum tide_status
build_shares(const struct stack_layer *layer, struct tide_resource *upstream, struct tidei_value *values)
{
    for (size_t i = 0; i < layer->kind->argument_count; i++) {
        uint64_t capacity = 0;

        values[i] = layer->values[i];
        if (values[i].share_whole == 0 || layer->kind->is_base)
            continue;
        if (upstream == NULL || tide_query(upstream, TIDE_QUERY_CAPACITY, &capacity) != TIDE_OK)
            return tidei_stack_fail(values[i].column, layer->kind->ops.name,
                                    "argument '%s': no layer below knows its capacity, expected a size such as 4GiB",
                                    layer->kind->arguments[i].key);
        values[i].number = (uint64_t)((unsigned __int128)capacity * values[i].share / values[i].share_whole);
        values[i].share = values[i].share_whole = 0;
    }
    return TIDE_OK;
}

/* Whether an argument is given by which the layer touches what others see. */
static bool
build_reaches_out(const struct tidei_kind *kind, const struct tidei_arguments *arguments)
{
    for (size_t i = 0; i < kind->argument_count; i++) {
        if (kind->arguments[i].reaches_out && arguments->values[i].given)
            return true;
    }
    return false;
}

/* Create the layer or, where the text is only checked and the layer cannot be created, what stands in for it. */
static enum tide_status
build_create(const struct stack_layer *layer, const struct tidei_arguments *arguments, struct tide_resource *upstream,
             const struct stack_stand_in *stand_in, struct tide_resource **out)
{
    const struct tidei_kind *kind = layer->kind;
    enum tide_status status;

    if (stand_in == NULL ||
        (!kind->is_base && kind->inherits == NULL && !kind->asks_memory && !build_reaches_out(kind, arguments)))
        return tidei_kind_create_text(kind, arguments, upstream, out);
    status = tidei_kind_check_text(kind, arguments);
    if (status == TIDE_OK && !kind->is_base)
        status = tidei_kind_create(stand_in->kind, upstream, NULL, out);
    else if (status == TIDE_OK)
        status = tidei_kind_create(stand_in->base, NULL, stand_in->base_options, out);
    return status;
}

static enum tide_status
build_layer(struct stack_layer *layer, struct tide_resource *upstream, const struct stack_stand_in *stand_in,
            struct tide_resource **out)
{
    struct tidei_bin *bins = calloc(layer->bin_count + 1, sizeof(*bins));
    unsigned column = layer->column;
    struct tidei_arguments arguments = { .bins = bins, .bin_count = layer->bin_count, .error_column = &column };
    enum tide_status status;

    *out = NULL;
    if (bins == NULL)
        return tide_error_set(TIDE_ENOMEM, "stack text: no memory for %zu bins", layer->bin_count);
    status = build_shares(layer, upstream, arguments.values);
    if (status == TIDE_OK)
        status = build_bins(layer, upstream, stand_in, bins);
    if (status == TIDE_OK) {
        status = build_create(layer, &arguments, upstream, stand_in, out);
        if (status != TIDE_OK)
            tidei_stack_fail_status(status, column, NULL, "%s", tide_error_text());
    }
    if (status == TIDE_OK && layer->name != NULL && stand_in == NULL) {
        status = tidei_resource_set_given_name(*out, layer->name);
        if (status != TIDE_OK) {
            tide_resource_release(*out);
            *out = NULL;
        }
    }
    for (size_t i = 0; i < layer->bin_count; i++)
        tide_resource_release(bins[i].resource);
    free(bins);
    layer->resource = *out;
    return status;
}

/* Build the layers from `bottom` up over `upstream` (borrowed; NULL where the bottom is a base). */
static enum tide_status
build_stack(struct stack_layer *bottom, struct tide_resource *upstream, const struct stack_stand_in *stand_in,
            struct tide_resource **out)
{
    struct tide_resource *below = tide_resource_retain(upstream);
    enum tide_status status = TIDE_OK;

    for (struct stack_layer *layer = bottom; status == TIDE_OK && layer != NULL; layer = layer->above) {
        struct tide_resource *built;

        status = build_layer(layer, below, stand_in, &built);
        tide_resource_release(below);
        below = status == TIDE_OK ? built : NULL;
    }
    *out = below;
    return status;
}

/* Call the kinds' `complete` once the whole stack exists. */
static void
build_complete(const struct stack_layer *bottom)
{
    for (const struct stack_layer *layer = bottom; layer != NULL; layer = layer->above) {
        for (const struct stack_bin *bin = layer->bins; bin != NULL; bin = bin->next)
            build_complete(bin->bottom);
        if (layer->kind->complete != NULL)
            layer->kind->complete(layer->resource);
    }
}

enum tide_status
tidei_stack_build_over(const struct stack_tree *tree, const struct stack_stand_in *stand_in)
{
    struct tide_resource *built = NULL;
    enum tide_status status = build_check_inherited(tree->top, NULL);

    if (status == TIDE_OK)
        status = build_stack(tree->bottom, NULL, stand_in, &built);
    tide_resource_release(built);
    return status;
}

/* The index of an argument; argument_count where the kind has none of that name. */
static size_t
build_argument(const struct tidei_kind *kind, const char *key)
{
    size_t index = 0;

    while (index < kind->argument_count && strcmp(kind->arguments[index].key, key) != 0)
        index++;
    return index;
}

/* Have each base below `top` lie on the device, unless the text says which. */
static void
build_set_device(struct stack_layer *top, uint64_t device)
{
    for (struct stack_layer *layer = top; layer != NULL; layer = layer->below) {
        size_t index = build_argument(layer->kind, "device");

        if (layer->kind->is_base && index < layer->kind->argument_count && !layer->values[index].given) {
            layer->values[index].given = true;
            layer->values[index].number = device;
        }
        for (struct stack_bin *bin = layer->bins; bin != NULL; bin = bin->next)
            build_set_device(bin->top, device);
    }
}

/*
 * Have layers that name a trace do without CUPTI; where `set` is false, only say whether a layer has the argument. A
 * layer that joins a trace has its options from there.
 */
static bool
build_set_cupti(struct stack_layer *top, bool set)
{
    bool given = false;

    for (struct stack_layer *layer = top; layer != NULL; layer = layer->below) {
        const struct tidei_kind *kind = layer->kind;
        size_t index = build_argument(kind, "cupti"), inherited = build_inherited(kind);

        if (index < kind->argument_count && layer->values[index].given)
            given = true;
        else if (index < kind->argument_count && set && inherited < kind->argument_count &&
                 layer->values[inherited].given) {
            layer->values[index].given = true;
            for (uint64_t i = 0; kind->arguments[index].choices[i] != NULL; i++)
                if (strcmp(kind->arguments[index].choices[i], "off") == 0)
                    layer->values[index].number = i;
        }
        for (struct stack_bin *bin = layer->bins; bin != NULL; bin = bin->next)
            given |= build_set_cupti(bin->top, set);
    }
    return given;
}

/* A path that has the process's id in it. False without host memory. */
static bool
build_process_path(struct stack_tree *tree, struct tidei_value *path)
{
    const char *name = strrchr(path->word, '/'), *extension;
    char *own;

    for (const char *at = strchr(path->word, '%'); at != NULL && at[1] != '\0'; at = strchr(at + 2, '%')) {
        if (at[1] == 'p')
            return true;
    }
    name = name != NULL ? name + 1 : path->word;
    extension = strrchr(name, '.');
    if (extension == NULL || extension == name)
        extension = name + strlen(name);
    own = tidei_stack_tree_new(tree, strlen(path->word) + sizeof("-%p"));
    if (own == NULL)
        return false;
    sprintf(own, "%.*s-%%p%s", (int)(extension - path->word), path->word, extension);
    path->word = own;
    return true;
}

/* Have the traces of a text be of this process. False without host memory. */
static bool
build_set_process(struct stack_tree *tree, struct stack_layer *top)
{
    bool done = true;

    for (struct stack_layer *layer = top; done && layer != NULL; layer = layer->below) {
        size_t index = build_inherited(layer->kind);

        if (index < layer->kind->argument_count && layer->values[index].given && layer->values[index].word != NULL)
            done = build_process_path(tree, &layer->values[index]);
        for (struct stack_bin *bin = layer->bins; done && bin != NULL; bin = bin->next)
            done = build_set_process(tree, bin->top);
    }
    return done;
}

/* Fill in what the text leaves open. */
static enum tide_status
build_fill_in(struct stack_tree *tree, const struct tide_stack_options *options)
{
    if (options->device != 0)
        build_set_device(tree->top, (uint64_t)options->device);
    if (options->without_cupti && !build_set_cupti(tree->top, false))
        build_set_cupti(tree->top, true);
    return !options->process_paths || build_set_process(tree, tree->top) ? TIDE_OK : TIDE_ENOMEM;
}

enum tide_status
tidei_stack_build_filled(const struct tidei_kind *const *kinds, const char *text,
                         const struct tide_stack_options *options, tidei_stack_fill fill, void *context,
                         struct tide_resource **out)
{
    struct tide_stack_options known;
    struct stack_tree tree;
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "stack text: NULL in place of an address for the resource");
    *out = NULL;
    if (text == NULL)
        return tide_error_set(TIDE_EINVAL, "stack text: NULL in place of the text");
    status = tidei_options_copy("stack text", options, &known, sizeof(known));
    if (status == TIDE_OK && known.device < 0)
        status = tide_error_set(TIDE_EINVAL, "stack text: device %d, expected a CUDA ordinal such as 0", known.device);
    if (status != TIDE_OK)
        return status;
    status = tidei_stack_read(kinds, text, &tree);
    /* First: a log without a path counts as one that joins a trace, and has its options from there. */
    if (status == TIDE_OK && fill != NULL)
        status = fill(&tree, context);
    if (status == TIDE_OK)
        status = build_fill_in(&tree, &known);
    if (status == TIDE_OK)
        status = build_check_inherited(tree.top, NULL);
    if (status == TIDE_OK)
        status = build_stack(tree.bottom, NULL, NULL, out);
    if (status == TIDE_OK)
        build_complete(tree.bottom);
    tidei_stack_tree_free(&tree);
    return status;
}

enum tide_status
tidei_stack_build(const struct tidei_kind *const *kinds, const char *text, const struct tide_stack_options *options,
                  struct tide_resource **out)
{
    return tidei_stack_build_filled(kinds, text, options, NULL, NULL, out);
}

const char *
tidei_stack_environment(void)
{
    const char *text = secure_getenv("TIDEMARK_STACK");

    return text != NULL && text[0] != '\0' ? text : NULL;
}

enum tide_status
tidei_stack_build_environment(const struct tidei_kind *const *kinds, const char *default_text,
                              struct tide_resource **out)
{
    const char *text = tidei_stack_environment();
    enum tide_status status;

    if (text == NULL)
        return tidei_stack_build(kinds, default_text, NULL, out);
    status = tidei_stack_build(kinds, text, NULL, out);
    if (status != TIDE_OK)
        tide_error_set(status, "TIDEMARK_STACK: %s", tide_error_text());
    return status;
}
