/*
 * Checks stack text without creating what it describes, and prints it with all arguments.
 *
 * The layers are built over `sim`, which stands in for every base: so each layer's own checks run, no device is needed,
 * and no memory is taken. `statistics` stands in for a layer that takes its path from one above it, such as `log`,
 * because that would create files, for a layer that asks what the memory below is, and for one that takes part in what
 * other processes share; their arguments are checked by their rows.
 */
#include "src/stack/stack.h"

#include <string.h>

#include <tidemark/base.h>

#include "src/resource/resource.h"
#include "src/stack/parse.h"

/* The capacity of the base that stands in: shares of it are far above what a text asks for in bytes. */
#define CHECK_CAPACITY (UINT64_C(1) << 56)

static void check_print_stack(const struct stack_layer *top, const char *separator, struct tide_text *out);

/* Print a share as a percentage. */
static void
check_print_share(const struct tidei_value *value, struct tide_text *out)
{
    unsigned __int128 billionths = (unsigned __int128)value->share * 100 * 1000000000 / value->share_whole;
    uint64_t decimals = (uint64_t)(billionths % 1000000000);
    int digits = 9;

    tide_text_format(out, "%llu", (unsigned long long)(billionths / 1000000000));
    for (; digits > 0 && decimals % 10 == 0; digits--)
        decimals /= 10;
    if (digits > 0)
        tide_text_format(out, ".%0*llu", digits, (unsigned long long)decimals);
    tide_text_format(out, "%%");
}

/* Print the layers in braces, and the ranges, of a layer. */
static const char *
check_print_bins(const struct stack_layer *layer, const char *separator, struct tide_text *out)
{
    for (const struct stack_bin *bin = layer->bins; bin != NULL; bin = bin->next) {
        tide_text_format(out, "%s", separator);
        if (bin->limit_bytes != UINT64_MAX) {
            tide_text_size(out, bin->smallest_bytes);
            tide_text_format(out, bin->top != NULL ? "=" : "..");
        }
        if (bin->top == NULL) {
            tide_text_size(out, bin->limit_bytes);
        } else {
            tide_text_format(out, "{");
            check_print_stack(bin->top, " | ", out);
            tide_text_format(out, "}");
        }
        separator = ", ";
    }
    return separator;
}

/*
 * Print all arguments of a layer that have a value. Where a layer takes an argument from one above it, the others that
 * are not given come from there, too: only those given are printed.
 */
static void
check_print_arguments(const struct stack_layer *layer, const void *options, struct tide_text *out)
{
    const struct tidei_kind *kind = layer->kind;
    bool given_alone = false;
    bool skipped = false; /* a positional argument was left out: later ones need their keys */
    const char *separator;

    for (size_t i = 0; kind->inherits != NULL && i < kind->argument_count; i++)
        given_alone = given_alone || (strcmp(kind->arguments[i].key, kind->inherits) == 0 && !layer->values[i].given);
    separator = check_print_bins(layer, "(", out);
    for (size_t i = 0; i < kind->argument_count; i++) {
        const struct tidei_argument *argument = &kind->arguments[i];
        bool share = layer->values[i].share_whole != 0;

        if (argument->width == 0)
            continue;
        if ((given_alone && !layer->values[i].given) || (!share && !tidei_field_has_value(argument, options))) {
            skipped = skipped || argument->positional;
            continue;
        }
        tide_text_format(out, "%s", separator);
        if (!argument->positional || skipped)
            tide_text_format(out, "%s=", argument->key);
        if (share)
            check_print_share(&layer->values[i], out);
        else
            tidei_field_print(argument, options, out);
        separator = ", ";
    }
    if (separator[0] != '(')
        tide_text_format(out, ")");
}

static void
check_print_layer(const struct stack_layer *layer, struct tide_text *out)
{
    _Alignas(max_align_t) unsigned char options[TIDEI_OPTIONS_MOST];
    struct tidei_arguments arguments = { .bins = NULL };

    memcpy(arguments.values, layer->values, sizeof(layer->values));
    tidei_kind_read_text(layer->kind, &arguments, options);
    tidei_fields_complete(layer->kind, options);
    tide_text_format(out, "%s", layer->kind->ops.name);
    check_print_arguments(layer, options, out);
    if (layer->name != NULL)
        tide_text_format(out, " as %s", layer->name);
}

static void
check_print_stack(const struct stack_layer *top, const char *separator, struct tide_text *out)
{
    for (const struct stack_layer *layer = top; layer != NULL; layer = layer->below) {
        if (layer != top)
            tide_text_format(out, "%s", separator);
        check_print_layer(layer, out);
    }
}

enum tide_status
tidei_stack_check(const struct tidei_kind *const *kinds, const char *text, struct tide_text *out)
{
    struct tide_sim_options capacity = { .struct_size = sizeof(capacity), .capacity_bytes = CHECK_CAPACITY };
    const struct stack_stand_in stand_in = {
        .base = tidei_kind_find(kinds, "sim"),
        .base_options = &capacity,
        .kind = tidei_kind_find(kinds, "statistics"),
    };
    struct stack_tree tree;
    enum tide_status status = tidei_stack_read(kinds, text, &tree);

    if (status == TIDE_OK)
        status = tidei_stack_build_over(&tree, &stand_in);
    if (status == TIDE_OK)
        check_print_stack(tree.top, "\n| ", out);
    tidei_stack_tree_free(&tree);
    return status;
}
