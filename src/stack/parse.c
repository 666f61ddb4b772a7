/*
 * Reads stack text into a tree and checks it against the tables of the kinds, before anything is built.
 *
 * doc/stack-text.md has the grammar. The parser descends recursively: stack_read_layers reads a stack, stack_read_layer
 * a layer, stack_read_argument an argument, which may have a stack in braces.
 */
#include "src/stack/parse.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define STACK_LAYER_MOST 256
#define STACK_DEPTH_MOST 8

/* The state of the parser. */
struct stack_parser {
    const struct tidei_kind *const *kinds;
    struct stack_tree *tree;
    struct stack_lexer lexer;
    struct stack_token token; /* the current token */
    unsigned depth;           /* depth of braces */
    bool base_refused;        /* inside the braces of a bin */
    unsigned layer_count;
    struct stack_layer *named; /* the last layer with a name */
};

struct stack_block {
    struct stack_block *next;
    _Alignas(max_align_t) unsigned char data[];
};

void *
tidei_stack_tree_new(struct stack_tree *tree, size_t bytes)
{
    struct stack_block *block = calloc(1, sizeof(*block) + bytes);

    if (block == NULL) {
        tide_error_set(TIDE_ENOMEM, "stack text: no memory for %zu bytes", bytes);
        return NULL;
    }
    block->next = tree->blocks;
    tree->blocks = block;
    return block->data;
}

void
tidei_stack_tree_free(struct stack_tree *tree)
{
    while (tree->blocks != NULL) {
        struct stack_block *next = tree->blocks->next;

        free(tree->blocks);
        tree->blocks = next;
    }
}

static void
stack_next(struct stack_parser *parser)
{
    parser->token = tidei_stack_lex(&parser->lexer);
}

static enum tide_status
stack_unexpected(const struct stack_parser *parser, const char *layer, const char *expected)
{
    char shown[64];

    return tidei_stack_fail(parser->token.column, layer, "found %s, expected %s",
                            tidei_stack_show(&parser->token, shown, sizeof(shown)), expected);
}

static enum tide_status
stack_expect(struct stack_parser *parser, enum stack_token_type type, const char *layer, const char *expected)
{
    if (parser->token.type != type)
        return stack_unexpected(parser, layer, expected);
    stack_next(parser);
    return TIDE_OK;
}

static enum tide_status stack_read_layers(struct stack_parser *parser, struct stack_layer **top,
                                          struct stack_layer **bottom);

/* The index of the argument with this key; argument_count where there is none. */
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

static const char *
stack_kind_at(const void *names, size_t index)
{
    const struct tidei_kind *const *kinds = names;

    return kinds[index] != NULL ? kinds[index]->ops.name : NULL;
}

/* The keys for lists: for arguments in braces, what is expected says more than the key. */
static const char *
stack_key_listed(const void *names, size_t index)
{
    const struct tidei_kind *kind = names;
    const struct tidei_argument *argument = &kind->arguments[index];

    if (index == kind->argument_count)
        return NULL;
    return argument->type == TIDEI_ARGUMENT_BIN || argument->type == TIDEI_ARGUMENT_STACK ? argument->expected
                                                                                          : argument->key;
}

/* The keys for hints, except those that only stand for braces. */
static const char *
stack_key_hinted(const void *names, size_t index)
{
    const struct tidei_kind *kind = names;

    if (index == kind->argument_count)
        return NULL;
    return kind->arguments[index].type == TIDEI_ARGUMENT_BIN ? "" : kind->arguments[index].key;
}

static const char *
stack_list_keys(const struct tidei_kind *kind, char *buffer, size_t capacity)
{
    return kind->argument_count == 0 ? "no arguments" : tidei_stack_list(stack_key_listed, kind, buffer, capacity);
}

static enum tide_status
stack_unknown_key(const struct stack_layer *layer, const struct stack_token *token)
{
    const struct tidei_kind *kind = layer->kind;
    char shown[64];
    char keys[256];
    char hint[64];

    return tidei_stack_fail(token->column, kind->ops.name, "argument %s is unknown, expected %s%s",
                            tidei_stack_show(token, shown, sizeof(shown)), stack_list_keys(kind, keys, sizeof(keys)),
                            tidei_stack_hint(token->word, stack_key_hinted, kind, hint, sizeof(hint)));
}

/* Read the size of a bin. */
static enum tide_status
stack_bin_size(const struct stack_layer *layer, const char *text, size_t length, unsigned column, uint64_t *out)
{
    const struct tidei_kind *kind = layer->kind;
    const struct stack_value value = { kind->ops.name, &kind->arguments[stack_find_bin(kind)], text, length, column };

    return tidei_stack_size(&value, out);
}

static enum tide_status
stack_set(struct stack_layer *layer, size_t index, const struct stack_token *token)
{
    const struct tidei_argument *argument = &layer->kind->arguments[index];
    const struct stack_value text = { layer->kind->ops.name, argument, token->word, strlen(token->word),
                                      token->column };
    struct tidei_value *value = &layer->values[index];

    if (value->given)
        return tidei_stack_fail(token->column, layer->kind->ops.name, "argument '%s' is given twice, expected it once",
                                argument->key);
    value->given = true;
    value->column = token->column;
    return tidei_stack_value(&text, value);
}

static struct stack_bin *
stack_bin_new(struct stack_parser *parser, struct stack_layer *layer, size_t index, unsigned column)
{
    struct stack_bin **last = &layer->bins;
    struct stack_bin *bin = tidei_stack_tree_new(parser->tree, sizeof(*bin));

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

/* Parse from the opening brace to the closing one. */
static enum tide_status
stack_read_braces(struct stack_parser *parser, const char *name, struct stack_bin *bin, bool base_refused)
{
    bool refused_outside = parser->base_refused;
    enum tide_status status;

    if (parser->depth == STACK_DEPTH_MOST)
        return tidei_stack_fail(parser->token.column, name, "braces nest too deep, expected at most %d",
                                STACK_DEPTH_MOST);
    stack_next(parser);
    parser->depth++;
    parser->base_refused = base_refused;
    status = stack_read_layers(parser, &bin->top, &bin->bottom);
    parser->base_refused = refused_outside;
    parser->depth--;
    if (status == TIDE_OK)
        status = stack_expect(parser, STACK_BRACE_CLOSE, bin->bottom->kind->ops.name, "'|' or '}'");
    return status;
}

/* Parse "256KiB={...}", from the brace. */
static enum tide_status
stack_read_bin(struct stack_parser *parser, struct stack_layer *layer, const struct stack_token *size)
{
    const char *name = layer->kind->ops.name;
    size_t index = stack_find_bin(layer->kind);
    struct stack_bin *bin = stack_bin_new(parser, layer, index, size->column);
    enum tide_status status;

    if (bin == NULL)
        return TIDE_ENOMEM;
    status = stack_bin_size(layer, size->word, strlen(size->word), size->column, &bin->limit_bytes);
    if (status != TIDE_OK)
        return status;
    if (bin->limit_bytes == 0)
        return tidei_stack_fail(size->column, name, "a bin of up to 0 bytes, expected %s",
                                layer->kind->arguments[index].expected);
    bin->smallest_bytes = bin->limit_bytes;
    if (parser->token.type != STACK_BRACE_OPEN)
        return stack_unexpected(parser, name, "'{' and the bin's layers");
    return stack_read_braces(parser, name, bin, true);
}

/* Parse "{...}", from the brace, for the argument at `index`. `column` is that of its key, if there is one. */
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

/* Parse "256..64KiB". */
static enum tide_status
stack_read_range(struct stack_parser *parser, struct stack_layer *layer, const struct stack_token *token)
{
    const char *dots = strstr(token->word, "..");
    struct stack_bin *bin = stack_bin_new(parser, layer, stack_find_bin(layer->kind), token->column);
    size_t length = (size_t)(dots - token->word);
    enum tide_status status;

    if (bin == NULL)
        return TIDE_ENOMEM;
    status = stack_bin_size(layer, token->word, length, token->column, &bin->smallest_bytes);
    if (status == TIDE_OK)
        status =
            stack_bin_size(layer, dots + 2, strlen(dots + 2), token->column + (unsigned)length + 2, &bin->limit_bytes);
    if (status == TIDE_OK && (!tidei_is_power_of_two(bin->smallest_bytes) || !tidei_is_power_of_two(bin->limit_bytes) ||
                              bin->smallest_bytes > bin->limit_bytes))
        status = tidei_stack_fail(token->column, layer->kind->ops.name,
                                  "a range of %s to %s, expected powers of two that rise",
                                  tidei_size_text(bin->smallest_bytes), tidei_size_text(bin->limit_bytes));
    return status;
}

/* Parse the text behind "word =". */
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
    stack_next(parser);
    if (layer->values[index].given)
        value.column = key->column; /* errors are reported at the key, not at the value */
    return stack_set(layer, index, &value);
}

/* Parse a word without a key: a flag, a range of bins, or a positional value. */
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
    return tidei_stack_fail(token->column, kind->ops.name,
                            stack_find_bin(kind) < kind->argument_count ? "found %s, expected %s"
                                                                        : "%s without a key, expected %s",
                            tidei_stack_show(token, shown, sizeof(shown)), stack_list_keys(kind, keys, sizeof(keys)));
}

/* Report a token that begins no argument. */
static enum tide_status
stack_no_argument(const struct stack_parser *parser, const struct tidei_kind *kind)
{
    bool named = kind->argument_count > 0 && stack_find_bin(kind) == kind->argument_count;
    char shown[64];
    char keys[256];

    return tidei_stack_fail(parser->token.column, kind->ops.name, "found %s, expected %s%s",
                            tidei_stack_show(&parser->token, shown, sizeof(shown)), named ? "an argument: " : "",
                            kind->argument_count > 0 ? stack_list_keys(kind, keys, sizeof(keys))
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
    stack_next(parser);
    if (parser->token.type != STACK_EQUALS)
        return stack_read_bare(parser, layer, &word);
    stack_next(parser);
    return stack_read_keyed(parser, layer, &word);
}

/* Whether the layer has a value that could contain spaces. */
static bool
stack_has_word(const struct stack_layer *layer)
{
    for (size_t i = 0; i < layer->kind->argument_count; i++) {
        if (layer->kind->arguments[i].type == TIDEI_ARGUMENT_WORD && layer->values[i].given)
            return true;
    }
    return false;
}

/* Expect the closing parenthesis. Another word may be one more argument, or belong to the value before it. */
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
    return stack_expect(parser, STACK_CLOSE, layer->kind->ops.name, expected);
}

static enum tide_status
stack_read_arguments(struct stack_parser *parser, struct stack_layer *layer)
{
    enum tide_status status = TIDE_OK;

    if (parser->token.type == STACK_OPEN) {
        do {
            stack_next(parser);
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

static enum tide_status
stack_unknown_layer(const struct stack_parser *parser)
{
    const struct stack_token *token = &parser->token;
    char shown[64];
    char kinds[384];
    char hint[64];

    return tidei_stack_fail(token->column, NULL, "layer %s is unknown, expected %s%s",
                            tidei_stack_show(token, shown, sizeof(shown)),
                            tidei_stack_list(stack_kind_at, parser->kinds, kinds, sizeof(kinds)),
                            tidei_stack_hint(token->word, stack_kind_at, parser->kinds, hint, sizeof(hint)));
}

/* Check the token at which a layer's name is expected. */
static bool
stack_is_as(const struct stack_token *token)
{
    return token->type == STACK_WORD && !token->quoted && strcmp(token->word, "as") == 0;
}

/* Whether the text behind a layer's name looks like an argument. */
static bool
stack_lacks_parenthesis(const struct stack_parser *parser)
{
    const struct stack_token *token = &parser->token;

    return token->type == STACK_BRACE_OPEN ||
           (token->type == STACK_WORD && !stack_is_as(token) && tidei_kind_find(parser->kinds, token->word) == NULL);
}

static bool
stack_is_name(const struct stack_token *token)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char others[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789-";

    return token->type == STACK_WORD && !token->quoted && strchr(letters, token->word[0]) != NULL &&
           strspn(token->word, others) == strlen(token->word);
}

/* Parse "as gpu", from the word `as`. */
static enum tide_status
stack_read_name(struct stack_parser *parser, struct stack_layer *layer)
{
    const char *kind = layer->kind->ops.name;

    stack_next(parser);
    if (!stack_is_name(&parser->token))
        return stack_unexpected(parser, kind, "a name of letters, digits, '_' and '-' such as gpu after 'as'");
    layer->name = parser->token.word;
    layer->name_column = parser->token.column;
    for (const struct stack_layer *other = parser->named; other != NULL; other = other->named_before) {
        if (strcmp(other->name, layer->name) == 0)
            return tidei_stack_fail(layer->name_column, kind,
                                    "the name '%s' is the %s's at column %u, expected another one", layer->name,
                                    other->kind->ops.name, other->name_column);
    }
    layer->named_before = parser->named;
    parser->named = layer;
    stack_next(parser);
    return TIDE_OK;
}

static enum tide_status
stack_read_layer(struct stack_parser *parser, struct stack_layer **out)
{
    const struct tidei_kind *kind;
    struct stack_layer *layer;
    enum tide_status status;

    *out = NULL;
    if (parser->token.type != STACK_WORD)
        return stack_unexpected(parser, NULL, "the name of a layer");
    kind = tidei_kind_find(parser->kinds, parser->token.word);
    if (kind == NULL)
        return stack_unknown_layer(parser);
    if (parser->layer_count++ == STACK_LAYER_MOST)
        return tidei_stack_fail(parser->token.column, kind->ops.name, "too many layers, expected at most %d",
                                STACK_LAYER_MOST);
    assert(kind->argument_count <= TIDEI_MAX_ARGUMENTS);
    if (kind->is_base && parser->base_refused)
        return tidei_stack_fail(parser->token.column, kind->ops.name,
                                "a base in braces, expected layers over what is below the bins");
    layer = tidei_stack_tree_new(parser->tree, sizeof(*layer));
    if (layer == NULL)
        return TIDE_ENOMEM;
    layer->kind = kind;
    layer->column = parser->token.column;
    stack_next(parser);
    if (kind->argument_count > 0 && stack_lacks_parenthesis(parser))
        return stack_unexpected(parser, kind->ops.name,
                                kind->is_base ? "'(' and its arguments, or the end of the text"
                                              : "'(' and its arguments, or '|' and a layer below it");
    *out = layer;
    status = stack_read_arguments(parser, layer);
    return status == TIDE_OK && stack_is_as(&parser->token) ? stack_read_name(parser, layer) : status;
}

static enum tide_status
stack_read_layers(struct stack_parser *parser, struct stack_layer **top, struct stack_layer **bottom)
{
    enum tide_status status = stack_read_layer(parser, top);

    *bottom = *top;
    while (status == TIDE_OK && parser->token.type == STACK_PIPE) {
        const struct stack_token pipe = parser->token;
        struct stack_layer *layer;

        stack_next(parser);
        if ((*bottom)->kind->is_base && parser->token.type == STACK_END)
            return tidei_stack_fail(pipe.column, (*bottom)->kind->ops.name,
                                    "found '|', expected the end of the text after a base");
        if ((*bottom)->kind->is_base)
            return tidei_stack_fail((*bottom)->column, (*bottom)->kind->ops.name,
                                    "a base in the middle, expected it as the last layer");
        status = stack_read_layer(parser, &layer);
        if (status != TIDE_OK)
            break;
        layer->above = *bottom;
        (*bottom)->below = layer;
        *bottom = layer;
    }
    return status;
}

static enum tide_status
stack_check_base(const struct stack_parser *parser, const struct stack_layer *bottom)
{
    if (parser->token.type == STACK_END && !bottom->kind->is_base)
        return stack_unexpected(parser, bottom->kind->ops.name, "'|' and a base below it, such as host");
    if (parser->token.type == STACK_END)
        return TIDE_OK;
    return stack_unexpected(parser, bottom->kind->ops.name,
                            bottom->kind->is_base ? "the end of the text after a base" : "'|' and a layer below it");
}

enum tide_status
tidei_stack_read(const struct tidei_kind *const *kinds, const char *text, struct stack_tree *out)
{
    struct stack_parser parser = { .kinds = kinds, .tree = out };
    enum tide_status status;
    char *words;

    *out = (struct stack_tree){ 0 };
    words = tidei_stack_tree_new(out, strlen(text) + 1);
    if (words == NULL)
        return TIDE_ENOMEM;
    parser.lexer = (struct stack_lexer){ .next = text, .column = 1, .words = words };
    stack_next(&parser);
    status = stack_read_layers(&parser, &out->top, &out->bottom);
    if (status == TIDE_OK)
        status = stack_check_base(&parser, out->bottom);
    return status;
}
