/* What the files that read stack text share: where they are in it, and how they go on. */
#ifndef TIDEI_STACK_PARSER_H
#define TIDEI_STACK_PARSER_H

#include "src/stack/error.h"
#include "src/stack/lex.h"
#include "src/stack/parse.h"

struct stack_parser {
    struct stack_tree *tree;
    struct stack_lexer lexer;
    struct stack_token token; /* the one that is looked at */
    unsigned depth;           /* of braces */
    bool base_refused;        /* in those of a bin */
    unsigned layer_count;
};

/* Zeroed memory that goes with the tree; NULL, and the text set, where there is none. */
void *tidei_stack_new(struct stack_tree *tree, size_t bytes);

/* Look at the next token. */
void tidei_stack_next(struct stack_parser *parser);

/* What stands here is not what should; `layer` may be NULL. */
enum tide_status tidei_stack_unexpected(const struct stack_parser *parser, const char *layer, const char *expected);

/* Past a token of that type; else as tidei_stack_unexpected. */
enum tide_status tidei_stack_expect(struct stack_parser *parser, enum stack_token_type type, const char *layer,
                                    const char *expected);

/* Layers as far as '|' joins them; a base ends them. */
enum tide_status tidei_stack_read_layers(struct stack_parser *parser, struct stack_layer **top,
                                         struct stack_layer **bottom);

/* The layer's arguments, where '(' stands, and whether those are there that it must have. */
enum tide_status tidei_stack_read_arguments(struct stack_parser *parser, struct stack_layer *layer);

/* Whether each layer of a whole stack that leaves an argument to one above has one there. */
enum tide_status tidei_stack_check_inherited(const struct stack_layer *top);

#endif
