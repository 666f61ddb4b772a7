/*
 * How a kind of layer presents itself to stack text: one const struct each, listed in adaptors/kinds.c and nowhere
 * else.
 *
 * The parser knows arguments by their tables alone; a constructor gets values that have the right type and lie within
 * what the table says, and checks what depends on anything else.
 */
#ifndef TIDEI_RESOURCE_KIND_H
#define TIDEI_RESOURCE_KIND_H

#include "src/resource/resource.h"

enum tidei_argument_type {
    TIDEI_ARGUMENT_SIZE,     /* 4096, 64KiB, 1.5GiB; a share such as 25% where the table allows one */
    TIDEI_ARGUMENT_COUNT,    /* a plain whole number */
    TIDEI_ARGUMENT_FRACTION, /* 0.25 or 25%, from 0 to 1; its value is in billionths */
    TIDEI_ARGUMENT_FLAG,     /* true or false; the key alone means true */
    TIDEI_ARGUMENT_WORD,     /* anything, quoted where it needs it: a path */
    TIDEI_ARGUMENT_CHOICE,   /* one of `choices`; its value is the index */
    TIDEI_ARGUMENT_BIN,      /* SIZE={stack}, or SIZE..SIZE for powers of two; repeated; collected in `bins` */
    TIDEI_ARGUMENT_STACK,    /* {stack}, with a base of its own or without; collected in `bins` */
};

struct tidei_argument {
    const char *key;
    enum tidei_argument_type type;
    bool positional; /* may stand without its key, in table order */
    bool required;
    bool share;                 /* SIZE: a share of the device's memory is allowed; resolved by the parser */
    bool all;                   /* SIZE: the word all is allowed, which is UINT64_MAX */
    bool power_of_two;          /* SIZE: nothing else is taken */
    uint64_t least;             /* SIZE, COUNT, FRACTION: nothing smaller is taken; WORD: 1 where it may not be empty */
    uint64_t most;              /* SIZE, COUNT: nothing larger is taken; 0: no bound */
    const char *const *choices; /* CHOICE: ends in NULL */
    const char *expected;       /* for messages: "a size such as 4GiB" */
};

/*
 * `number` holds a SIZE in bytes, a COUNT, a FRACTION in billionths, a FLAG, or the index of a CHOICE; `word`
 * (borrowed) a WORD.
 */
struct tidei_value {
    bool given;
    unsigned column; /* from 1 */
    uint64_t number;
    const char *word;
    /* SIZE of a base, given as a share: `share` / `share_whole` of what the base alone knows; else share_whole is 0 */
    uint64_t share;
    uint64_t share_whole;
};

/*
 * One BIN argument: a bin whose stack is built (borrowed), or a range of powers of two (resource is NULL); or a STACK
 * argument.
 */
struct tidei_bin {
    uint64_t smallest_bytes; /* of a range; else equal to limit_bytes */
    uint64_t limit_bytes;    /* UINT64_MAX for a STACK */
    struct tide_resource *resource;
    unsigned column;
};

#define TIDEI_MAX_ARGUMENTS 16

struct tidei_arguments {
    struct tidei_value values[TIDEI_MAX_ARGUMENTS]; /* in the order of the kind's table */
    const struct tidei_bin *bins;
    size_t bin_count;
    unsigned
        *error_column; /* where a constructor's error stands in the text: the layer, unless it sets an argument's */
};

struct tidei_kind {
    const char *name; /* the same as its operations' name */
    bool is_base;
    const struct tidei_argument *arguments;
    size_t argument_count;
    /*
     * The key of an argument that a layer may leave to one of the same kind above it, such as the path of a log; the
     * parser refuses text that gives it in neither. NULL where there is none.
     */
    const char *inherits;
    /* `upstream` (borrowed; NULL for a base). On failure *out is NULL and the error text is set. */
    enum tide_status (*create)(const struct tidei_arguments *arguments, struct tide_resource *upstream,
                               struct tide_resource **out);
    /*
     * The whole stack is there: do for good what is undone where a layer above cannot be built. Called once for each
     * layer, the lower ones first; NULL where there is nothing to do.
     */
    void (*complete)(struct tide_resource *resource);
};

#define TIDEI_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* NULL where no kind has that name. */
const struct tidei_kind *tidei_kind_find(const char *name);

/* The kind at `index` in the registration table; NULL past the last. */
const struct tidei_kind *tidei_kind_at(size_t index);

#endif
