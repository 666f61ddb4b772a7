/* Parses and checks stack text into a tree; builds nothing. */
#ifndef TIDEI_STACK_PARSE_H
#define TIDEI_STACK_PARSE_H

#include "src/resource/kind.h"
#include "src/stack/value.h"

/* A BIN or STACK argument: `top` and `bottom` are the layers in its braces, NULL for a range. */
struct stack_bin {
    struct stack_bin *next; /* in the order of the text */
    uint64_t smallest_bytes;
    uint64_t limit_bytes;
    unsigned column;
    struct stack_layer *top;
    struct stack_layer *bottom;
};

struct stack_layer {
    struct stack_layer *above; /* NULL for the top of a stack, also of one in braces */
    struct stack_layer *below;
    const struct tidei_kind *kind;
    unsigned column;
    const char *name; /* given with `as`; else NULL */
    unsigned name_column;
    struct stack_layer *named_before; /* list of the text's layers that have names */
    struct tidei_value values[TIDEI_MAX_ARGUMENTS];
    struct stack_share shares[TIDEI_MAX_ARGUMENTS]; /* one for each value; whole is 0 where it is not a share */
    struct stack_bin *bins;
    size_t bin_count;
    struct tide_resource *resource; /* borrowed; set when built, valid as long as the layers above exist */
};

struct stack_block;

/* Owns the tree and all words in it. */
struct stack_tree {
    struct stack_layer *top;
    struct stack_layer *bottom; /* a base */
    struct stack_block *blocks;
};

/*
 * Read and check all of `text`, whose layers are of `kinds` (ends in NULL). The caller frees *out also on failure. It
 * keeps no pointer into `text`. Errors: TIDE_ESYNTAX, TIDE_ENOMEM; the text is set.
 */
enum tide_status tidei_stack_read(const struct tidei_kind *const *kinds, const char *text, struct stack_tree *out);

void tidei_stack_tree_free(struct stack_tree *tree);

#endif
