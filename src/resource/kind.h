/*
 * How a kind of layer presents itself: one const struct each, in the table of adaptors/kinds.c.
 *
 * A kind has a row for each argument of its stack text. The row says where the value stands in the kind's options
 * struct, so that the rows alone read the text, check what a program gives, put defaults in place and describe a layer.
 * What depends on more than one argument is checked by the kind itself.
 */
#ifndef TIDEI_RESOURCE_KIND_H
#define TIDEI_RESOURCE_KIND_H

#include "src/resource/resource.h"

enum tidei_argument_type {
    TIDEI_ARGUMENT_SIZE,     /* 4096, 64KiB, 1.5GiB; a share such as 25% where the table allows one */
    TIDEI_ARGUMENT_COUNT,    /* a plain whole number */
    TIDEI_ARGUMENT_FRACTION, /* 0.25 or 25%, from 0 to 1; its value is in billionths, its field a double */
    TIDEI_ARGUMENT_FLAG,     /* true or false; the key alone means true */
    TIDEI_ARGUMENT_WORD,     /* anything, quoted where it needs it: a path; its field points to it */
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

    /* The field in the options struct: TIDEI_FIELD. Nothing for BIN and STACK. */
    uint16_t offset;
    uint8_t width;
    bool is_int; /* the field has a sign, and nothing negative is taken */
    /*
     * 0 in a field means that the option is not set, which is `default_value`. Where 0 is a value that can be asked
     * for, the field has `zero_value` for it: TIDE_NONE, or for a FLAG what stands for false. Where `default_value` is
     * 0, too, as what is not set is left to somebody else, `zero_value` stays in the field.
     */
    uint64_t default_value;
    uint64_t zero_value;
    const unsigned *choice_values; /* CHOICE: what the field has for each choice; NULL: its index */
};

#define TIDEI_FIELD(options, field)                                                                                    \
    .offset = offsetof(options, field), .width = sizeof(((options *)NULL)->field),                                     \
    .is_int = _Generic(((options *)NULL)->field, int                                                                   \
                       : true, default                                                                                 \
                       : false)

#define TIDEI_FLAG(name, options, field)                                                                               \
    {                                                                                                                  \
        .key = name, .type = TIDEI_ARGUMENT_FLAG, .expected = "true or false", TIDEI_FIELD(options, field)             \
    }

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
    struct tide_resource_ops ops; /* first: the operations of a layer lead to its kind */
    bool is_base;
    const struct tidei_argument *arguments;
    size_t argument_count;
    size_t options_size; /* of the options struct that is known: all of it, or what stands before `reserved` */
    /* Options that are not set stay so: the defaults come into place elsewhere, where a trace is opened. */
    bool keeps_unset;
    /* The layer's struct: TIDEI_KIND_STRUCT. Nothing where this build has no CUDA, and the kind needs it. */
    size_t size;
    size_t alignment;
    size_t options_offset; /* of its options, as they are meant: with the defaults in place */
    /*
     * The key of an argument that a layer may leave to one of the same kind above it, such as the path of a log; the
     * parser refuses text that gives it in neither. NULL where there is none.
     */
    const char *inherits;
    /*
     * Check what the rows cannot, before the defaults are in place; NULL where there is nothing. *fault is the index of
     * the argument that is to blame, where one is.
     */
    enum tide_status (*check)(void *options, size_t *fault);
    /*
     * Set up the rest of a layer, all zeros but for its head and its options; undo that where it fails. NULL where
     * there is nothing. *fault as for `check`.
     */
    enum tide_status (*init)(struct tide_resource *self, size_t *fault);
    /* Undo what `init` did, before the upstream goes; NULL where that is nothing. For tidei_kind_destroy. */
    void (*fini)(struct tide_resource *self);
    /*
     * Create from stack text where the options struct does not say it all, else NULL. `upstream` (borrowed; NULL for a
     * base). On failure *out is NULL and the error text is set.
     */
    enum tide_status (*create_text)(const struct tidei_arguments *arguments, struct tide_resource *upstream,
                                    struct tide_resource **out);
    /*
     * The whole stack is there: do for good what is undone where a layer above cannot be built. Called once for each
     * layer, the lower ones first; NULL where there is nothing to do.
     */
    void (*complete)(struct tide_resource *resource);
};

/* A layer's struct has its head, `base`, first and its options in `options`. */
#define TIDEI_KIND_STRUCT(type)                                                                                        \
    .size = sizeof(type), .alignment = _Alignof(type), .options_offset = offsetof(type, options)

/* The kind of a layer whose operations are a kind's. */
static inline const struct tidei_kind *
tidei_kind_of(const struct tide_resource *resource)
{
    return (const struct tidei_kind *)resource->ops;
}

#define TIDEI_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* All kinds of layers in alphabetical order, from adaptors/kinds.c; ends in NULL. */
extern const struct tidei_kind *const tidei_kinds[];

/* The kind of that name in a table that ends in NULL; NULL where there is none. */
const struct tidei_kind *tidei_kind_find(const struct tidei_kind *const *kinds, const char *name);

/*
 * Create a layer of `kind`: what all constructors have in common. `options` (NULL: the defaults) may be those of an
 * older or newer program. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, what the rows and the kind refuse), TIDE_EUNSUPPORTED (a newer program's option, no CUDA),
 * TIDE_ENOMEM, and what the kind's `init` returns.
 */
enum tide_status tidei_kind_create(const struct tidei_kind *kind, struct tide_resource *upstream, const void *options,
                                   struct tide_resource **out);

/* Its first half: the options as they are meant into *wanted, an options struct of the kind. *out is NULL. */
enum tide_status tidei_kind_options(const struct tidei_kind *kind, struct tide_resource *upstream, const void *options,
                                    void *wanted, struct tide_resource **out);

/* From stack text; a failure that an argument is to blame for stands at its column. */
enum tide_status tidei_kind_create_text(const struct tidei_kind *kind, const struct tidei_arguments *arguments,
                                        struct tide_resource *upstream, struct tide_resource **out);

/* Its two halves, for a kind's own `create_text`. Words in *options are borrowed from the arguments. */
void tidei_kind_read_text(const struct tidei_kind *kind, const struct tidei_arguments *arguments, void *options);
enum tide_status tidei_kind_create_read(const struct tidei_kind *kind, const struct tidei_arguments *arguments,
                                        const void *options, struct tide_resource *upstream,
                                        struct tide_resource **out);

/* The describe operation of a layer whose options say it all: those that differ from their defaults. */
void tidei_kind_describe(struct tide_resource *self, struct tide_text *text);

/* The same of any options, as they are meant; `separator` stands before the first, ", " where others came before. */
void tidei_kind_describe_options(const struct tidei_kind *kind, const void *options, const char *separator,
                                 struct tide_text *text);

/* The destroy operation: undoes tidei_kind_create. */
void tidei_kind_destroy(struct tide_resource *self);

#endif
