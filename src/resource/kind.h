/*
 * What defines a kind of layer: one const struct each, listed in adaptors/kinds.c.
 *
 * A kind has a row for each argument of its stack text. The row says where the value stands in the kind's options
 * struct. So the rows alone suffice to read the text, check the values of a program, fill in defaults and describe a
 * layer. The kind itself checks only what depends on more than one argument.
 */
#ifndef TIDEI_RESOURCE_KIND_H
#define TIDEI_RESOURCE_KIND_H

#include "src/resource/resource.h"

enum tidei_argument_type {
    TIDEI_ARGUMENT_SIZE,     /* 4096, 64KiB, 1.5GiB; a share such as 25% where the table allows one */
    TIDEI_ARGUMENT_COUNT,    /* a plain whole number; one of `choices`, if there are any, or both as in python:32 */
    TIDEI_ARGUMENT_MODE,     /* the permissions of a file in octal, such as 0640 */
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
    bool all;                   /* SIZE: the word "all" is allowed, and means UINT64_MAX */
    bool power_of_two;          /* SIZE: only powers of two are allowed */
    bool reaches_out;           /* where it is given, `init` touches what others see: not where text is only checked */
    uint64_t least;             /* SIZE, COUNT, MODE, FRACTION: lower bound; WORD: 1 where it must not be empty */
    uint64_t most;              /* SIZE, COUNT, MODE: upper bound; 0: none */
    const char *const *choices; /* CHOICE, COUNT: the words; ends in NULL */
    const char *expected;       /* for messages: "a size such as 4GiB" */

    /* The field in the options struct: set by TIDEI_FIELD. BIN and STACK have none, and width 0. */
    uint16_t offset;
    uint8_t width;
    bool is_int; /* the field is signed; negative values are refused */
    /*
     * 0 in a field means that the option is not set: `default_value` applies. Where 0 is a valid value, `zero_value` in
     * the field stands for it: TIDE_NONE, or for a FLAG the value for false. Where `default_value` is 0, too, because
     * another part chooses the default, `zero_value` stays in the field.
     */
    uint64_t default_value;
    uint64_t zero_value;
    /* CHOICE: the field's value for each choice; NULL: the choice's index. COUNT: bits over `most`, one set. */
    const unsigned *choice_values;
};

/* The objection of an argument's bounds to a number, such as "is too small"; NULL where there is none. */
const char *tidei_argument_fault(const struct tidei_argument *argument, uint64_t number);

#define TIDEI_FIELD(options, field)                                                                                    \
    .offset = offsetof(options, field), .width = sizeof(((options *)NULL)->field),                                     \
    .is_int = _Generic(((options *)NULL)->field, int                                                                   \
                       : true, default                                                                                 \
                       : false)

/* A row of the table: key, type, field and words for messages; then any other member as `.member = value`. */
#define TIDEI_ARGUMENT(name, kind, options, field, words, ...)                                                         \
    {                                                                                                                  \
        .key = name, .type = TIDEI_ARGUMENT_##kind, .expected = words, TIDEI_FIELD(options, field), ##__VA_ARGS__      \
    }

#define TIDEI_FLAG(name, options, field) TIDEI_ARGUMENT(name, FLAG, options, field, "true or false")

/*
 * `number` holds a SIZE in bytes, a COUNT, a FRACTION in billionths, a FLAG, or the index of a CHOICE; `word`
 * (borrowed) a WORD.
 */
struct tidei_value {
    bool given;
    unsigned column; /* from 1 */
    uint64_t number;
    const char *word;
    /* SIZE of a base, given as a share: `share` / `share_whole` of the base's own capacity; else share_whole is 0 */
    uint64_t share;
    uint64_t share_whole;
};

/*
 * One BIN argument: a bin whose stack is built (borrowed), or a range of powers of two (resource is NULL); or a STACK
 * argument.
 */
struct tidei_bin {
    uint64_t smallest_bytes; /* of a range; otherwise equal to limit_bytes */
    uint64_t limit_bytes;    /* UINT64_MAX for a STACK */
    struct tide_resource *resource;
    unsigned column;
};

#define TIDEI_MAX_ARGUMENTS 16
#define TIDEI_OPTIONS_MOST  256 /* bytes of the largest options struct that stack text fills */

struct tidei_arguments {
    struct tidei_value values[TIDEI_MAX_ARGUMENTS]; /* in the order of the kind's table */
    const struct tidei_bin *bins;
    size_t bin_count;
    unsigned *error_column; /* a constructor's error stands at the layer, or at an argument's column */
};

struct tidei_kind {
    struct tide_resource_ops ops; /* first: a layer's `ops` pointer leads to its kind */
    bool is_base;
    const struct tidei_argument *arguments;
    size_t argument_count;
    size_t options_size; /* known part of the options struct: all of it, or up to `reserved` */
    /* Options that are not set stay so: their defaults are applied later, when a trace is opened. */
    bool keeps_unset;
    bool asks_memory; /* `init` asks what the memory below is: it cannot run where stack text is only checked */
    /* The layer's struct: set by TIDEI_KIND_STRUCT. 0 where this build has no CUDA and the kind needs it. */
    size_t size;
    size_t alignment;
    size_t options_offset; /* of its options, with the defaults applied */
    /*
     * The key of an argument that a layer may take from one of the same kind above it, such as the path of a log. The
     * parser refuses text in which neither gives it. NULL where there is none.
     */
    const char *inherits;
    /* Check what the rows cannot, before the defaults are applied; may be NULL. *fault is the argument at fault. */
    enum tide_status (*check)(void *options, size_t *fault);
    /*
     * Initialize a layer whose head and options are set; on failure undo all of it. May be NULL. *fault as in `check`.
     */
    enum tide_status (*init)(struct tide_resource *self, size_t *fault);
    /* Undo `init`, before the reference to upstream is dropped; may be NULL. Called by tidei_kind_destroy. */
    void (*fini)(struct tide_resource *self);
    /*
     * Create a layer from stack text whose arguments do not all fit the options struct; else NULL. `upstream` is
     * borrowed, and NULL for a base. On failure *out is NULL and the error text is set.
     */
    enum tide_status (*create_text)(const struct tidei_arguments *arguments, struct tide_resource *upstream,
                                    struct tide_resource **out);
    /*
     * Called once for each layer, the lower ones first, when the whole stack exists: make final what would have been
     * undone if a layer above had failed. May be NULL.
     */
    void (*complete)(struct tide_resource *resource);
    /* The chunks of a layer that hands out parts of chunks from upstream; NULL in other layers. */
    struct tidei_chunks *(*chunks)(struct tide_resource *self);
    /*
     * The figures for samples; NULL: those of the queries. Samples ask often, so no lock is taken that an allocation
     * takes, and used_bytes is of one moment only while no thread allocates.
     */
    void (*figures)(struct tide_resource *self, struct tidei_layer_figures *out);
    /*
     * Replace *place, a live block of the layer, by the block of upstream in which it lies, and return which upstream
     * that is; NULL where that is not known. NULL: upstream has the same block, or `chunks` is set, or it is a base.
     */
    struct tide_resource *(*beneath)(struct tide_resource *self, struct tidei_place *place);
    const struct tidei_kept_ops *kept; /* NULL: the layer keeps no blocks that were freed to it */
    const struct tidei_count *counts;  /* what it counts */
    size_t count_count;
};

/* Something that a layer counts, for the table layer_count: a number in its struct that any thread may read. */
struct tidei_count {
    const char *name;
    size_t offset; /* of an _Atomic uint64_t */
};

/* A row: what is counted, and where; a field that is not atomic does not compile. */
#define TIDEI_COUNT(what, type, field)                                                                                 \
    {                                                                                                                  \
        .name = what, .offset = _Generic(&((type *)NULL)->field, _Atomic uint64_t * : offsetof(type, field))           \
    }

/* The value of a layer's count. */
static inline uint64_t
tidei_count_get(const struct tide_resource *layer, const struct tidei_count *count)
{
    return tidei_figure_get((const _Atomic uint64_t *)((const char *)layer + count->offset));
}

/* Blocks of upstream that a layer keeps though they were freed to it, and that no layer above knows any more. */
struct tidei_kept_ops {
    /* They stay as they are until `resume`. `wait`: none is on its way to upstream any more. */
    void (*pause)(struct tide_resource *self, bool wait);
    void (*each)(struct tide_resource *self, void (*tell)(void *context, const struct tidei_place *place),
                 void *context);
    void (*resume)(struct tide_resource *self);
};

/* A layer's struct has its head, `base`, first, and its options in `options`. */
#define TIDEI_KIND_STRUCT(type)                                                                                        \
    .size = sizeof(type), .alignment = _Alignof(type), .options_offset = offsetof(type, options)

#define TIDEI_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define TIDEI_KIND_ARGUMENTS(table) .arguments = (table), .argument_count = TIDEI_COUNT_OF(table)
#define TIDEI_KIND_COUNTS(table)    .counts = (table), .count_count = TIDEI_COUNT_OF(table)

/* The operations that are alike in all kinds. */
#define TIDEI_KIND_OPS(word) .version = TIDE_RESOURCE_OPS_VERSION, .name = word, .destroy = tidei_kind_destroy

/* Mark a layer as one whose operations belong to a kind. */
static inline void
tidei_kind_mark(struct tide_resource *resource)
{
    resource->reserved[0] |= TIDEI_RESOURCE_KIND;
    tidei_resource_set_own(resource);
}

/* The kind of any layer; NULL for one that an application brings. */
static inline const struct tidei_kind *
tidei_kind_of_any(const struct tide_resource *resource)
{
    bool is_kind = (__atomic_load_n(&resource->reserved[0], __ATOMIC_RELAXED) & TIDEI_RESOURCE_KIND) != 0;

    return is_kind ? (const struct tidei_kind *)resource->ops : NULL;
}

/* The kind of a layer whose operations belong to a kind. */
static inline const struct tidei_kind *
tidei_kind_of(const struct tide_resource *resource)
{
    return (const struct tidei_kind *)resource->ops;
}

/* All kinds of layers in alphabetical order, from adaptors/kinds.c; ends in NULL. */
extern const struct tidei_kind *const tidei_kinds[];

/* The kind with this name in a table that ends in NULL; NULL where there is none. */
const struct tidei_kind *tidei_kind_find(const struct tidei_kind *const *kinds, const char *name);

/*
 * Create a layer of `kind`; the common part of all constructors. `options` (NULL: the defaults) may be the struct of an
 * older or newer program. On failure *out is NULL. Errors: TIDE_EINVAL (NULL, or the rows or the kind refuse a value),
 * TIDE_EUNSUPPORTED (a newer program's option, no CUDA), TIDE_ENOMEM, and those of the kind's `init`.
 */
enum tide_status tidei_kind_create(const struct tidei_kind *kind, struct tide_resource *upstream, const void *options,
                                   struct tide_resource **out);

/*
 * The first step of tidei_kind_create: check the options, and write them with the defaults applied to *wanted, an
 * options struct of the kind. *out is set to NULL.
 */
enum tide_status tidei_kind_options(const struct tidei_kind *kind, struct tide_resource *upstream, const void *options,
                                    void *wanted, struct tide_resource **out);

/* Create a layer from stack text. An error of an argument names its column. */
enum tide_status tidei_kind_create_text(const struct tidei_kind *kind, const struct tidei_arguments *arguments,
                                        struct tide_resource *upstream, struct tide_resource **out);

/*
 * The two steps of tidei_kind_create_text, for a kind's own `create_text`. The first fills `options`, which borrows the
 * words; a field whose argument is not given is marked as not set.
 */
void tidei_kind_read_text(const struct tidei_kind *kind, const struct tidei_arguments *arguments, void *options);
enum tide_status tidei_kind_create_read(const struct tidei_kind *kind, const struct tidei_arguments *arguments,
                                        const void *options, struct tide_resource *upstream,
                                        struct tide_resource **out);

/* Check the arguments of a layer as far as its rows and its `check` can; creates nothing. */
enum tide_status tidei_kind_check_text(const struct tidei_kind *kind, const struct tidei_arguments *arguments);
/* Check that each field that is set has a value that its row allows. Errors: TIDE_EINVAL; *fault is the row. */
enum tide_status tidei_fields_check(const struct tidei_kind *kind, const void *options, size_t *fault);

/* Replace each field that is not set by its default, and each `zero_value` by 0. */
void tidei_fields_complete(const struct tidei_kind *kind, void *options);

/*
 * Whether stack text can say the value of the field in completed options: not where it is not set and has no default.
 */
bool tidei_field_has_value(const struct tidei_argument *argument, const void *options);

/* Print the value of the field in the syntax of stack text. */
void tidei_field_print(const struct tidei_argument *argument, const void *options, struct tide_text *text);

/* The describe operation of a layer that its options describe fully: prints those that differ from their defaults. */
void tidei_kind_describe(struct tide_resource *self, struct tide_text *text);

/* The same for any options with the defaults applied. `separator` precedes the first; ", " where others came before. */
void tidei_kind_describe_options(const struct tidei_kind *kind, const void *options, const char *separator,
                                 struct tide_text *text);

/* TIDE_EINVAL, with the error text set, where `resource` (may be NULL) is no layer of the kind. */
enum tide_status tidei_kind_check(const struct tidei_kind *kind, const struct tide_resource *resource);

/* The same, for a function that fills the figures `out`: clears them first. */
enum tide_status tidei_kind_check_figures(const struct tidei_kind *kind, const struct tide_resource *resource,
                                          void *out);

/* The destroy operation: undoes tidei_kind_create. */
void tidei_kind_destroy(struct tide_resource *self);

#endif
