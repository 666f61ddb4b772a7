/*
 * Reads stack text into a tree and checks it against the tables of the kinds, before anything is built.
 *
 *     stack    := layer ( '|' layer )*                  top first; the last layer is a base, and no other is
 *     layer    := name [ '(' argument ( ',' argument )* ')' ]
 *     argument := key '=' value
 *               | value                                  the next argument not yet given that may lack its key
 *               | flag                                   the key of a flag alone: flag=true
 *               | [ key '=' ] '{' stack '}'              a stack, with a base of its own, or one that ends in the layer
 *                                                        below this one
 *               | size '=' '{' stack '}'                 a bin, where the layer takes bins: no base in the braces,
 *                                                        their stack ends in the layer below this one
 *               | size '..' size                         bins for the powers of two between
 *     value    := size | share | fraction | count | 'true' | 'false' | choice | path: whatever the argument wants
 *     size     := digits [ '.' digits ] [ unit ]         at most 9 decimals; rounded down to the byte
 *     unit     := B | KiB | MiB | GiB | TiB | PiB | EiB  powers of 1024
 *               | KB | MB | GB | TB | PB | EB            powers of 1000
 *     share    := digits [ '.' digits ] '%'              up to 100%, of the capacity that the layers below know
 *     fraction := digits [ '.' digits ] [ '%' ]        from 0 to 1, or up to 100%
 *     count    := digits
 *
 * A word ends at white space and at | ( ) , = { } ". In double quotes it may hold anything, \" being a quote and \\ a
 * backslash; a quoted word is never a key and never a flag. White space between words and signs is free, also line
 * breaks. An argument is given once, bins excepted. Braces nest up to 8 deep, and a text has up to 256 layers.
 */
#include "src/stack/parser.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define STACK_LAYER_MOST 256

struct stack_block {
    struct stack_block *next;
    _Alignas(max_align_t) unsigned char data[];
};

void *
tidei_stack_new(struct stack_tree *tree, size_t bytes)
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

void
tidei_stack_next(struct stack_parser *parser)
{
    parser->token = tidei_stack_lex(&parser->lexer);
}

enum tide_status
tidei_stack_unexpected(const struct stack_parser *parser, const char *layer, const char *expected)
{
    char shown[64];

    return tidei_stack_fail(parser->token.column, layer, "found %s, expected %s",
                            tidei_stack_show(&parser->token, shown, sizeof(shown)), expected);
}

enum tide_status
tidei_stack_expect(struct stack_parser *parser, enum stack_token_type type, const char *layer, const char *expected)
{
    if (parser->token.type != type)
        return tidei_stack_unexpected(parser, layer, expected);
    tidei_stack_next(parser);
    return TIDE_OK;
}

static const char *
stack_kind_at(const void *names, size_t index)
{
    const struct tidei_kind *kind = tidei_kind_at(index);

    (void)names;
    return kind != NULL ? kind->ops.name : NULL;
}

static enum tide_status
stack_unknown_layer(const struct stack_token *token)
{
    char shown[64];
    char kinds[384];
    char hint[64];

    return tidei_stack_fail(token->column, NULL, "layer %s is unknown, expected %s%s",
                            tidei_stack_show(token, shown, sizeof(shown)), tidei_stack_show_kinds(kinds, sizeof(kinds)),
                            tidei_stack_hint(token->word, stack_kind_at, NULL, hint, sizeof(hint)));
}

/* Whether what follows the name of a layer looks like an argument. */
static bool
stack_lacks_parenthesis(const struct stack_token *token)
{
    return token->type == STACK_BRACE_OPEN || (token->type == STACK_WORD && tidei_kind_find(token->word) == NULL);
}

static enum tide_status
stack_read_layer(struct stack_parser *parser, struct stack_layer **out)
{
    const struct tidei_kind *kind;
    struct stack_layer *layer;

    *out = NULL;
    if (parser->token.type != STACK_WORD)
        return tidei_stack_unexpected(parser, NULL, "the name of a layer");
    kind = tidei_kind_find(parser->token.word);
    if (kind == NULL)
        return stack_unknown_layer(&parser->token);
    if (parser->layer_count++ == STACK_LAYER_MOST)
        return tidei_stack_fail(parser->token.column, kind->ops.name, "too many layers, expected at most %d",
                                STACK_LAYER_MOST);
    assert(kind->argument_count <= TIDEI_MAX_ARGUMENTS);
    if (kind->is_base && parser->base_refused)
        return tidei_stack_fail(parser->token.column, kind->ops.name,
                                "a base in braces, expected layers over what is below the bins");
    layer = tidei_stack_new(parser->tree, sizeof(*layer));
    if (layer == NULL)
        return TIDE_ENOMEM;
    layer->kind = kind;
    layer->column = parser->token.column;
    tidei_stack_next(parser);
    if (kind->argument_count > 0 && stack_lacks_parenthesis(&parser->token))
        return tidei_stack_unexpected(parser, kind->ops.name,
                                      kind->is_base ? "'(' and its arguments, or the end of the text"
                                                    : "'(' and its arguments, or '|' and a layer below it");
    *out = layer;
    return tidei_stack_read_arguments(parser, layer);
}

enum tide_status
tidei_stack_read_layers(struct stack_parser *parser, struct stack_layer **top, struct stack_layer **bottom)
{
    enum tide_status status = stack_read_layer(parser, top);

    *bottom = *top;
    while (status == TIDE_OK && parser->token.type == STACK_PIPE) {
        const struct stack_token pipe = parser->token;
        struct stack_layer *layer;

        tidei_stack_next(parser);
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
        return tidei_stack_unexpected(parser, bottom->kind->ops.name, "'|' and a base below it, such as host");
    if (parser->token.type == STACK_END)
        return TIDE_OK;
    return tidei_stack_unexpected(parser, bottom->kind->ops.name,
                                  bottom->kind->is_base ? "the end of the text after a base"
                                                        : "'|' and a layer below it");
}

enum tide_status
tidei_stack_read(const char *text, struct stack_tree *out)
{
    struct stack_parser parser = { .tree = out };
    enum tide_status status;
    char *words;

    *out = (struct stack_tree){ 0 };
    words = tidei_stack_new(out, strlen(text) + 1);
    if (words == NULL)
        return TIDE_ENOMEM;
    tidei_stack_lex_init(&parser.lexer, text, words);
    tidei_stack_next(&parser);
    status = tidei_stack_read_layers(&parser, &out->top, &out->bottom);
    if (status == TIDE_OK)
        status = stack_check_base(&parser, out->bottom);
    if (status == TIDE_OK)
        status = tidei_stack_check_inherited(out->top);
    return status;
}
