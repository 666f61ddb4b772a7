/* What the files that read stack text share: its words and signs, messages, values, and the tree of its layers. */
#ifndef TIDEI_STACK_PARSE_H
#define TIDEI_STACK_PARSE_H

#include "src/resource/kind.h"

enum stack_token_type {
    STACK_END,
    STACK_UNCLOSED, /* a quote without its end */
    STACK_WORD,
    STACK_PIPE,
    STACK_OPEN,
    STACK_CLOSE,
    STACK_COMMA,
    STACK_EQUALS,
    STACK_BRACE_OPEN,
    STACK_BRACE_CLOSE,
};

/* The tokens from STACK_PIPE on, in their order. */
#define STACK_SIGNS "|(),={}"

struct stack_token {
    enum stack_token_type type;
    bool quoted;
    unsigned column;  /* in characters of UTF-8, from 1 */
    const char *word; /* without quotes and backslashes (borrowed from the lexer's words); else NULL */
};

struct stack_lexer {
    const char *next; /* borrows the text */
    unsigned column;  /* 1 at the text's begin */
    char *words;      /* where the next word is stored; the buffer has room for the text's length and one byte */
};

/* Return the next token; at the end STACK_END, at every further call, too. */
struct stack_token tidei_stack_lex(struct stack_lexer *lexer);

/*
 * Set the thread's error text to one line, "stack text, column 7: limit: " followed by the formatted text (`layer`
 * NULL: no layer), and return TIDE_ESYNTAX.
 */
#define tidei_stack_fail(column, layer, ...) tidei_stack_fail_status(TIDE_ESYNTAX, column, layer, __VA_ARGS__)

/* The same for another status. */
enum tide_status tidei_stack_fail_status(enum tide_status status, unsigned column, const char *layer,
                                         const char *format, ...) TIDE_PRINTF(4, 5);

/* A token as messages show it: '|', 'word', the end of the text. Writes at most `capacity` bytes to `buffer`. */
const char *tidei_stack_show(const struct stack_token *token, char *buffer, size_t capacity);

/* The same for `length` bytes of a word. */
const char *tidei_stack_show_word(const char *word, size_t length, char *buffer, size_t capacity);

/* Returns the names of a set one by one, then NULL. */
typedef const char *(*stack_name_at)(const void *names, size_t index);

/* Names in an array of texts that ends in NULL. */
const char *tidei_stack_choice_at(const void *choices, size_t index);

/* List the names in `buffer`: "a", "a or b", "a, b or c". */
const char *tidei_stack_list(stack_name_at name_at, const void *names, char *buffer, size_t capacity);

/*
 * Write "; did you mean limit?" to `buffer` if `word` is close to a name: a typing slip, other capitals, or letters
 * left out. Else write "".
 */
const char *tidei_stack_hint(const char *word, stack_name_at name_at, const void *names, char *buffer, size_t capacity);

/* The text of an argument's value. */
struct stack_value {
    const char *layer; /* the kind's name, for messages */
    const struct tidei_argument *argument;
    const char *text; /* borrowed; ends after `length` bytes */
    size_t length;
    unsigned column;
};

/* Read a value into *out, which borrows the text for a WORD. Errors: TIDE_ESYNTAX, with the error text set. */
enum tide_status tidei_stack_value(const struct stack_value *value, struct tidei_value *out);

/* Read a size such as "64KiB". */
enum tide_status tidei_stack_size(const struct stack_value *value, uint64_t *out);

/* Whether `word` is only a unit, such as "GiB". */
bool tidei_stack_is_unit(const char *word);

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
    struct stack_layer *named_before;               /* list of the text's layers that have names */
    struct tidei_value values[TIDEI_MAX_ARGUMENTS]; /* with shares as the text has them, also above a base */
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

/* Zeroed memory that the tree owns. NULL: none, and the error text is set. */
void *tidei_stack_tree_new(struct stack_tree *tree, size_t bytes);

/* What takes the place of layers that cannot be created where a text is only checked. */
struct stack_stand_in {
    const struct tidei_kind *base; /* of each base */
    const void *base_options;      /* borrowed */
    const struct tidei_kind *kind; /* of layers that take an argument from one above, such as logs, and those that ask
                                      what the memory below is: one that passes requests on */
};

/* Create and release the stack of a tree to run the checks of its layers. */
enum tide_status tidei_stack_build_over(const struct stack_tree *tree, const struct stack_stand_in *stand_in);

#endif
