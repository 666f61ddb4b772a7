/* Reads the arguments of a layer, from the parenthesis that opens to the one that closes. */
#include <string.h>

#include "src/stack/parser.h"

#define STACK_DEPTH_MOST 8

/* The index of the argument with that key; argument_count where there is none. */
static size_t
stack_find_key(const struct tidei_kind *kind, const struct stack_token *token)
{
    size_t index = 0;

    if (token->quoted)
        return kind->argument_count;
    while (index < kind->argument_count && strcmp(kind->arguments[index].key, token->word) != 0)
        index++;
    return index;
}

static size_t
stack_find_type(const struct tidei_kind *kind, enum tidei_argument_type type)
{
    size_t index = 0;

    while (index < kind->argument_count && kind->arguments[index].type != type)
        index++;
    return index;
}

static size_t
stack_find_bin(const struct tidei_kind *kind)
{
    return stack_find_type(kind, TIDEI_ARGUMENT_BIN);
}

static size_t
stack_find_positional(const struct stack_layer *layer)
{
    const struct tidei_kind *kind = layer->kind;
    size_t index = 0;

    while (index < kind->argument_count &&
           (!kind->arguments[index].positional || kind->arguments[index].type == TIDEI_ARGUMENT_BIN ||
            kind->arguments[index].type == TIDEI_ARGUMENT_STACK || layer->values[index].given))
        index++;
    return index;
}

/* For hints: what stands in braces has no name that anybody writes. */
static const char *
stack_key_at(const void *names, size_t index)
{
    const struct tidei_kind *kind = names;

    if (index == kind->argument_count)
        return NULL;
    return kind->arguments[index].type == TIDEI_ARGUMENT_BIN ? "" : kind->arguments[index].key;
}

static enum tide_status
stack_unknown_key(const struct stack_layer *layer, const struct stack_token *token)
{
    const struct tidei_kind *kind = layer->kind;
    char shown[64];
    char keys[256];
    char hint[64];

    return tidei_stack_fail(token->column, kind->ops.name, "argument %s is unknown, expected %s%s",
                            tidei_stack_show(token, shown, sizeof(shown)),
                            tidei_stack_show_keys(kind, keys, sizeof(keys)),
                            tidei_stack_hint(token->word, stack_key_at, kind, hint, sizeof(hint)));
}

static enum tide_status
stack_set(struct stack_layer *layer, size_t index, const struct stack_token *token)
{
    const struct tidei_argument *argument = &layer->kind->arguments[index];
    struct tidei_value *value = &layer->values[index];

    if (value->given)
        return tidei_stack_fail(token->column, layer->kind->ops.name, "argument '%s' is given twice, expected it once",
                                argument->key);
    value->given = true;
    value->column = token->column;
    return tidei_stack_value(layer->kind->ops.name, argument, token->word, value, &layer->shares[index]);
}

static struct stack_bin *
stack_bin_new(struct stack_parser *parser, struct stack_layer *layer, size_t index, unsigned column)
{
    struct stack_bin **last = &layer->bins;
    struct stack_bin *bin = tidei_stack_new(parser->tree, sizeof(*bin));

    if (bin == NULL)
        return NULL;
    bin->column = column;
    while (*last != NULL)
        last = &(*last)->next;
    *last = bin;
    layer->bin_count++;
    layer->values[index].given = true;
    return bin;
}

/* From the brace that opens to the one that closes. */
static enum tide_status
stack_read_braces(struct stack_parser *parser, const char *name, struct stack_bin *bin, bool base_refused)
{
    bool refused_outside = parser->base_refused;
    enum tide_status status;

    if (parser->depth == STACK_DEPTH_MOST)
        return tidei_stack_fail(parser->token.column, name, "braces nest too deep, expected at most %d",
                                STACK_DEPTH_MOST);
    tidei_stack_next(parser);
    parser->depth++;
    parser->base_refused = base_refused;
    status = tidei_stack_read_layers(parser, &bin->top, &bin->bottom);
    parser->base_refused = refused_outside;
    parser->depth--;
    if (status == TIDE_OK)
        status = tidei_stack_expect(parser, STACK_BRACE_CLOSE, bin->bottom->kind->ops.name, "'|' or '}'");
    return status;
}

/* "256KiB={...}", at the brace. */
static enum tide_status
stack_read_bin(struct stack_parser *parser, struct stack_layer *layer, const struct stack_token *size)
{
    const char *name = layer->kind->ops.name;
    const struct tidei_argument *argument = &layer->kind->arguments[stack_find_bin(layer->kind)];
    struct stack_bin *bin = stack_bin_new(parser, layer, stack_find_bin(layer->kind), size->column);
    enum tide_status status;

    if (bin == NULL)
        return TIDE_ENOMEM;
    status = tidei_stack_size(name, argument, size->word, strlen(size->word), size->column, &bin->limit_bytes);
    if (status != TIDE_OK)
        return status;
    if (bin->limit_bytes == 0)
        return tidei_stack_fail(size->column, name, "a bin of up to 0 bytes, expected %s", argument->expected);
    bin->smallest_bytes = bin->limit_bytes;
    if (parser->token.type != STACK_BRACE_OPEN)
        return tidei_stack_unexpected(parser, name, "'{' and the bin's layers");
    return stack_read_braces(parser, name, bin, true);
}

/* "{...}", at the brace, for the argument at `index`; `column` is that of its key where it has one. */
static enum tide_status
stack_read_stack(struct stack_parser *parser, struct stack_layer *layer, size_t index, unsigned column)
{
    const char *name = layer->kind->ops.name;
    struct stack_bin *bin;

    if (layer->values[index].given)
        return tidei_stack_fail(column, name, "argument '%s' is given twice, expected it once",
                                layer->kind->arguments[index].key);
    bin = stack_bin_new(parser, layer, index, column);
    if (bin == NULL)
        return TIDE_ENOMEM;
    bin->smallest_bytes = bin->limit_bytes = UINT64_MAX;
    return stack_read_braces(parser, name, bin, false);
}

/* "256..64KiB". */
static enum tide_status
stack_read_range(struct stack_parser *parser, struct stack_layer *layer, const struct stack_token *token)
{
    const char *name = layer->kind->ops.name;
    const struct tidei_argument *argument = &layer->kind->arguments[stack_find_bin(layer->kind)];
    const char *dots = strstr(token->word, "..");
    struct stack_bin *bin = stack_bin_new(parser, layer, stack_find_bin(layer->kind), token->column);
    size_t length = (size_t)(dots - token->word);
    enum tide_status status;

    if (bin == NULL)
        return TIDE_ENOMEM;
    status = tidei_stack_size(name, argument, token->word, length, token->column, &bin->smallest_bytes);
    if (status == TIDE_OK)
        status = tidei_stack_size(name, argument, dots + 2, strlen(dots + 2), token->column + (unsigned)length + 2,
                                  &bin->limit_bytes);
    if (status == TIDE_OK && (!tidei_is_power_of_two(bin->smallest_bytes) || !tidei_is_power_of_two(bin->limit_bytes) ||
                              bin->smallest_bytes > bin->limit_bytes))
        status = tidei_stack_fail(token->column, name, "a range of %s to %s, expected powers of two that rise",
                                  tidei_size_text(bin->smallest_bytes), tidei_size_text(bin->limit_bytes));
    return status;
}

/* What follows "word =". */
static enum tide_status
stack_read_keyed(struct stack_parser *parser, struct stack_layer *layer, const struct stack_token *key)
{
    const struct tidei_kind *kind = layer->kind;
    size_t index = stack_find_key(kind, key);
    struct stack_token value = parser->token;

    if (stack_find_bin(kind) < kind->argument_count &&
        (index == kind->argument_count || kind->arguments[index].type == TIDEI_ARGUMENT_BIN) &&
        (parser->token.type == STACK_BRACE_OPEN || (key->word[0] >= '0' && key->word[0] <= '9')))
        return stack_read_bin(parser, layer, key);
    if (index == kind->argument_count || kind->arguments[index].type == TIDEI_ARGUMENT_BIN)
        return stack_unknown_key(layer, key);
    if (kind->arguments[index].type == TIDEI_ARGUMENT_STACK && parser->token.type == STACK_BRACE_OPEN)
        return stack_read_stack(parser, layer, index, key->column);
    if (value.type != STACK_WORD) {
        char shown[64];

        return tidei_stack_fail(value.column, kind->ops.name, "argument '%s': found %s, expected %s",
                                kind->arguments[index].key, tidei_stack_show(&value, shown, sizeof(shown)),
                                kind->arguments[index].expected);
    }
    tidei_stack_next(parser);
    if (layer->values[index].given)
        value.column = key->column; /* what is wrong stands at the key, not at the value */
    return stack_set(layer, index, &value);
}

/* A word without a key: a flag, a range of bins, or a value by its position. */
static enum tide_status
stack_read_bare(struct stack_parser *parser, struct stack_layer *layer, const struct stack_token *token)
{
    const struct tidei_kind *kind = layer->kind;
    size_t index = stack_find_key(kind, token);
    char shown[64];
    char keys[256];

    if (index < kind->argument_count && kind->arguments[index].type == TIDEI_ARGUMENT_FLAG) {
        const struct stack_token yes = { .type = STACK_WORD, .column = token->column, .word = "true" };

        return stack_set(layer, index, &yes);
    }
    if (index < kind->argument_count && kind->arguments[index].type != TIDEI_ARGUMENT_BIN)
        return tidei_stack_fail(token->column, kind->ops.name, "argument '%s' has no value, expected '=' and %s",
                                kind->arguments[index].key, kind->arguments[index].expected);
    if (stack_find_bin(kind) < kind->argument_count && !token->quoted && strstr(token->word, "..") != NULL)
        return stack_read_range(parser, layer, token);
    index = stack_find_positional(layer);
    if (index < kind->argument_count)
        return stack_set(layer, index, token);
    if (!token->quoted && token->word[0] >= 'A' && token->word[0] <= 'z')
        return stack_unknown_key(layer, token);
    return tidei_stack_fail(
        token->column, kind->ops.name,
        stack_find_bin(kind) < kind->argument_count ? "found %s, expected %s" : "%s without a key, expected %s",
        tidei_stack_show(token, shown, sizeof(shown)), tidei_stack_show_keys(kind, keys, sizeof(keys)));
}

/* What stands here begins no argument. */
static enum tide_status
stack_no_argument(const struct stack_parser *parser, const struct tidei_kind *kind)
{
    bool named = kind->argument_count > 0 && stack_find_bin(kind) == kind->argument_count;
    char shown[64];
    char keys[256];

    return tidei_stack_fail(parser->token.column, kind->ops.name, "found %s, expected %s%s",
                            tidei_stack_show(&parser->token, shown, sizeof(shown)), named ? "an argument: " : "",
                            kind->argument_count > 0 ? tidei_stack_show_keys(kind, keys, sizeof(keys))
                                                     : "no parentheses where there are no arguments");
}

static enum tide_status
stack_read_argument(struct stack_parser *parser, struct stack_layer *layer)
{
    struct stack_token word = parser->token;
    size_t stack = stack_find_type(layer->kind, TIDEI_ARGUMENT_STACK);

    if (word.type == STACK_BRACE_OPEN && stack < layer->kind->argument_count)
        return stack_read_stack(parser, layer, stack, word.column);
    if (word.type != STACK_WORD)
        return stack_no_argument(parser, layer->kind);
    tidei_stack_next(parser);
    if (parser->token.type != STACK_EQUALS)
        return stack_read_bare(parser, layer, &word);
    tidei_stack_next(parser);
    return stack_read_keyed(parser, layer, &word);
}

/* Whether the layer has a value that might have spaces in it. */
static bool
stack_has_word(const struct stack_layer *layer)
{
    for (size_t i = 0; i < layer->kind->argument_count; i++) {
        if (layer->kind->arguments[i].type == TIDEI_ARGUMENT_WORD && layer->values[i].given)
            return true;
    }
    return false;
}

/* The parenthesis that closes. Another word is one more argument, or belongs to the value before it. */
static enum tide_status
stack_read_close(struct stack_parser *parser, const struct stack_layer *layer)
{
    bool word = parser->token.type == STACK_WORD;
    const char *expected = "',' or ')'";

    if (word && tidei_stack_is_unit(parser->token.word))
        expected = "',' or ')', and no space before a unit";
    else if (word && stack_has_word(layer) &&
             stack_find_key(layer->kind, &parser->token) == layer->kind->argument_count)
        expected = "',' or ')', and double quotes around what has spaces";
    return tidei_stack_expect(parser, STACK_CLOSE, layer->kind->ops.name, expected);
}

enum tide_status
tidei_stack_read_arguments(struct stack_parser *parser, struct stack_layer *layer)
{
    enum tide_status status = TIDE_OK;

    if (parser->token.type == STACK_OPEN) {
        do {
            tidei_stack_next(parser);
            status = stack_read_argument(parser, layer);
        } while (status == TIDE_OK && parser->token.type == STACK_COMMA);
        if (status == TIDE_OK)
            status = stack_read_close(parser, layer);
    }
    for (size_t i = 0; status == TIDE_OK && i < layer->kind->argument_count; i++) {
        const struct tidei_argument *argument = &layer->kind->arguments[i];

        if (argument->required && !layer->values[i].given)
            status = tidei_stack_fail(layer->column, layer->kind->ops.name, "argument '%s' is missing, expected %s",
                                      argument->key, argument->expected);
    }
    return status;
}
