/* Creates and describes layers by the rows of their kind: the common part of all constructors. */
#include "src/resource/kind.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/sync/inside.h"

#define FIELD_BILLION UINT64_C(1000000000)

const struct tidei_kind *
tidei_kind_find(const struct tidei_kind *const *kinds, const char *name)
{
    while (*kinds != NULL && strcmp((*kinds)->ops.name, name) != 0)
        kinds++;
    return *kinds;
}

bool
tidei_layer_figures(struct tide_resource *layer, struct tidei_layer_figures *out)
{
    const struct tidei_kind *kind = tidei_kind_of_any(layer);
    struct tidei_error error;
    bool known;

    *out = (struct tidei_layer_figures){ 0 };
    if (kind != NULL && kind->figures != NULL) {
        kind->figures(layer, out);
        return true;
    }
    tidei_error_save(&error);
    known = tide_query(layer, TIDE_QUERY_BYTES_USED, &out->used_bytes) == TIDE_OK &&
            tide_query(layer, TIDE_QUERY_BYTES_RESERVED, &out->reserved_bytes) == TIDE_OK;
    /* What both were asked for may have grown in between. */
    if (known && tide_query(layer, TIDE_QUERY_BYTES_RESERVED_HIGH, &out->reserved_high_bytes) != TIDE_OK)
        out->reserved_high_bytes = 0;
    tidei_error_restore(&error);
    return known;
}

/* A FRACTION is in billionths; the kind itself refuses a double that is not a number. */
static uint64_t
field_get(const struct tidei_argument *argument, const void *options)
{
    const unsigned char *at = (const unsigned char *)options + argument->offset;
    uint32_t narrow;
    uint64_t wide;
    double fraction;

    if (argument->type == TIDEI_ARGUMENT_FRACTION) {
        memcpy(&fraction, at, sizeof(fraction));
        if (!(fraction > 0))
            return 0;
        return fraction <= 1 ? (uint64_t)(fraction * (double)FIELD_BILLION + 0.5) : UINT64_MAX;
    }
    switch (argument->width) {
    case sizeof(uint8_t):
        return *at;
    case sizeof(narrow):
        memcpy(&narrow, at, sizeof(narrow));
        return narrow;
    default:
        memcpy(&wide, at, sizeof(wide));
        return wide;
    }
}

static void
field_set(const struct tidei_argument *argument, void *options, uint64_t number)
{
    unsigned char *at = (unsigned char *)options + argument->offset;
    uint32_t narrow = (uint32_t)number;
    double fraction = (double)number / (double)FIELD_BILLION;

    if (argument->type == TIDEI_ARGUMENT_FRACTION)
        memcpy(at, &fraction, sizeof(fraction));
    else if (argument->width == sizeof(uint8_t))
        *at = number != 0;
    else if (argument->width == sizeof(narrow))
        memcpy(at, &narrow, sizeof(narrow));
    else
        memcpy(at, &number, sizeof(number));
}

static const char *
field_word(const struct tidei_argument *argument, const void *options)
{
    const char *word;

    memcpy(&word, (const unsigned char *)options + argument->offset, sizeof(word));
    return word;
}

/* The index of the field's choice; the number of choices where it has none of them. */
static size_t
field_choice(const struct tidei_argument *argument, uint64_t number)
{
    size_t index = 0;

    while (argument->choices[index] != NULL &&
           (argument->choice_values != NULL ? argument->choice_values[index] : index) != number)
        index++;
    return index;
}

static void
field_read(const struct tidei_argument *argument, const struct tidei_value *value, void *options)
{
    uint64_t number = value->number;

    if (!value->given)
        return;
    if (argument->type == TIDEI_ARGUMENT_WORD) {
        memcpy((unsigned char *)options + argument->offset, &value->word, sizeof(value->word));
        return;
    }
    if (number == 0 && argument->zero_value != 0)
        number = argument->zero_value;
    else if (number == TIDE_NONE)
        number--; /* as a number of the text, not as the word for 0: a byte less makes no difference to so many */
    else if (argument->type == TIDEI_ARGUMENT_CHOICE && argument->choice_values != NULL)
        number = argument->choice_values[number];
    field_set(argument, options, number);
}

void
tidei_kind_read_text(const struct tidei_kind *kind, const struct tidei_arguments *arguments, void *options)
{
    memset(options, 0, kind->options_size);
    memcpy(options, &kind->options_size, sizeof(kind->options_size));
    for (size_t i = 0; i < kind->argument_count; i++) {
        if (kind->arguments[i].width != 0)
            field_read(&kind->arguments[i], &arguments->values[i], options);
    }
}

/* The word of a COUNT that has one, and the bits that stand for it; NULL and 0 where it has none. */
static const char *
field_count_word(const struct tidei_argument *argument, uint64_t number, uint64_t *bits)
{
    size_t index = 0;

    *bits = 0;
    if (argument->type != TIDEI_ARGUMENT_COUNT || argument->choices == NULL)
        return NULL;
    index = field_choice(argument, number & ~(uint64_t)UINT16_MAX);
    if (argument->choices[index] != NULL)
        *bits = argument->choice_values[index];
    return argument->choices[index];
}

static void
field_print_count(const struct tidei_argument *argument, uint64_t number, struct tide_text *text)
{
    uint64_t bits;
    const char *word = field_count_word(argument, number, &bits);

    if (word != NULL)
        tide_text_format(text, "%s%s", word, number != bits ? ":" : "");
    if (word == NULL || number != bits)
        tide_text_format(text, "%" PRIu64, number ^ bits);
}

/* Print a number in the syntax of stack text. */
static void
field_print_number(const struct tidei_argument *argument, uint64_t number, struct tide_text *text)
{
    int digits = 9;
    uint64_t decimals;
    const char *choice;

    switch (argument->type) {
    case TIDEI_ARGUMENT_SIZE:
        if (argument->all && number == UINT64_MAX)
            tide_text_format(text, "all");
        else
            tide_text_size(text, tidei_none_to_zero(number));
        break;
    case TIDEI_ARGUMENT_MODE:
        tide_text_format(text, "0%" PRIo64, number);
        break;
    case TIDEI_ARGUMENT_FRACTION:
        for (decimals = number % FIELD_BILLION; digits > 1 && decimals % 10 == 0; digits--)
            decimals /= 10;
        tide_text_format(text, "%" PRIu64 ".%0*" PRIu64, number / FIELD_BILLION, digits, decimals);
        break;
    case TIDEI_ARGUMENT_FLAG:
        tide_text_format(text, number != 0 && number != argument->zero_value ? "true" : "false");
        break;
    case TIDEI_ARGUMENT_CHOICE:
        choice = argument->choices[field_choice(argument, number)];
        if (choice != NULL)
            tide_text_format(text, "%s", choice);
        else
            tide_text_format(text, "%" PRIu64, number);
        break;
    default:
        field_print_count(argument, number, text);
        break;
    }
}

const char *
tidei_argument_fault(const struct tidei_argument *argument, uint64_t number)
{
    uint64_t bits;

    (void)field_count_word(argument, number, &bits);
    number ^= bits;
    if (argument->power_of_two && !tidei_is_power_of_two(number))
        return "is no power of two";
    if (number < argument->least)
        return "is too small";
    if (argument->type == TIDEI_ARGUMENT_MODE && (number & 0111) != 0)
        return "has a right to execute";
    return argument->most != 0 && number > argument->most ? "is too large" : NULL;
}

/* The row's objection to the number in a field; NULL where there is none. */
static const char *
field_fault(const struct tidei_argument *argument, uint64_t number)
{
    if (argument->type == TIDEI_ARGUMENT_FLAG)
        return argument->width > 1 && number > argument->zero_value ? "is unknown" : NULL;
    if (argument->type == TIDEI_ARGUMENT_CHOICE)
        return argument->choices[field_choice(argument, number)] == NULL ? "is unknown" : NULL;
    /* An option that has no word for 0 does not accept TIDE_NONE either. */
    if (argument->type == TIDEI_ARGUMENT_SIZE && !argument->power_of_two && number == TIDE_NONE)
        return "is too small";
    return tidei_argument_fault(argument, number);
}

static enum tide_status
field_check(const struct tidei_kind *kind, const struct tidei_argument *argument, const void *options)
{
    uint64_t number = field_get(argument, options);
    char shown[64] = "";
    struct tide_text text = { .data = shown, .capacity = sizeof(shown) };
    const char *fault;

    if (number == 0 && argument->required)
        return tide_error_set(TIDE_EINVAL, "%s: %s is missing, expected %s", kind->ops.name, argument->key,
                              argument->expected);
    if (argument->is_int && (int32_t)number < 0)
        return tide_error_set(TIDE_EINVAL, "%s: %s=%d is negative, expected %s", kind->ops.name, argument->key,
                              (int)(int32_t)number, argument->expected);
    if (number == 0 || (argument->zero_value != 0 && number == argument->zero_value))
        return TIDE_OK;
    fault = field_fault(argument, number);
    if (fault == NULL)
        return TIDE_OK;
    field_print_number(argument, number, &text);
    return tide_error_set(TIDE_EINVAL, "%s: %s=%s %s, expected %s", kind->ops.name, argument->key, shown, fault,
                          argument->expected);
}

enum tide_status
tidei_fields_check(const struct tidei_kind *kind, const void *options, size_t *fault)
{
    for (size_t i = 0; i < kind->argument_count; i++) {
        const struct tidei_argument *argument = &kind->arguments[i];
        const char *word;

        *fault = i;
        if (argument->width == 0)
            continue;
        if (argument->type == TIDEI_ARGUMENT_WORD) {
            word = field_word(argument, options);
            if (word != NULL && strlen(word) < argument->least)
                return tide_error_set(TIDE_EINVAL, "%s: %s is empty, expected %s", kind->ops.name, argument->key,
                                      argument->expected);
        } else if (field_check(kind, argument, options) != TIDE_OK) {
            return TIDE_EINVAL;
        }
    }
    *fault = kind->argument_count;
    return TIDE_OK;
}

void
tidei_fields_complete(const struct tidei_kind *kind, void *options)
{
    for (size_t i = 0; i < kind->argument_count; i++) {
        const struct tidei_argument *argument = &kind->arguments[i];
        uint64_t number;

        if (argument->width == 0 || argument->type == TIDEI_ARGUMENT_WORD || argument->type == TIDEI_ARGUMENT_FLAG)
            continue;
        number = field_get(argument, options);
        if (number == 0 && argument->default_value != 0)
            field_set(argument, options, argument->default_value);
        else if (argument->default_value != 0 && number == argument->zero_value)
            field_set(argument, options, 0);
    }
}

static bool
field_is_default(const struct tidei_kind *kind, const struct tidei_argument *argument, const void *options)
{
    if (argument->type == TIDEI_ARGUMENT_WORD)
        return field_word(argument, options) == NULL;
    return field_get(argument, options) == (kind->keeps_unset ? 0 : argument->default_value);
}

bool
tidei_field_has_value(const struct tidei_argument *argument, const void *options)
{
    uint64_t number;

    if (argument->type == TIDEI_ARGUMENT_WORD)
        return field_word(argument, options) != NULL;
    number = field_get(argument, options);
    switch (argument->type) {
    case TIDEI_ARGUMENT_SIZE:
        return number == UINT64_MAX ? argument->all : number != 0 || argument->default_value != 0;
    case TIDEI_ARGUMENT_COUNT:
    case TIDEI_ARGUMENT_MODE:
    case TIDEI_ARGUMENT_FRACTION:
        return number != UINT64_MAX && (number != 0 || argument->least == 0);
    case TIDEI_ARGUMENT_FLAG:
        return number != 0 || argument->zero_value == 0;
    case TIDEI_ARGUMENT_CHOICE:
        return argument->choices[field_choice(argument, number)] != NULL;
    default:
        return true;
    }
}

void
tidei_field_print(const struct tidei_argument *argument, const void *options, struct tide_text *text)
{
    if (argument->type == TIDEI_ARGUMENT_WORD)
        tide_text_word(text, field_word(argument, options));
    else
        field_print_number(argument, field_get(argument, options), text);
}

void
tidei_kind_describe_options(const struct tidei_kind *kind, const void *options, const char *separator,
                            struct tide_text *text)
{
    bool skipped = false; /* a positional argument was left out: later ones need their keys */

    for (size_t i = 0; i < kind->argument_count; i++) {
        const struct tidei_argument *argument = &kind->arguments[i];

        if (argument->width == 0)
            continue;
        if (field_is_default(kind, argument, options)) {
            skipped = skipped || argument->positional;
            continue;
        }
        tide_text_format(text, "%s", separator);
        if (!argument->positional || skipped)
            tide_text_format(text, "%s=", argument->key);
        tidei_field_print(argument, options, text);
        separator = ", ";
    }
}

static enum tide_status
kind_options(const struct tidei_kind *kind, struct tide_resource *upstream, const void *options, void *wanted,
             struct tide_resource **out, size_t *fault)
{
    enum tide_status status;

    *fault = kind->argument_count;
    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "%s: no place for the resource", kind->ops.name);
    *out = NULL;
    if (upstream == NULL && !kind->is_base)
        return tide_error_set(TIDE_EINVAL, "%s: no upstream", kind->ops.name);
    status = tidei_options_copy(kind->ops.name, options, wanted, kind->options_size);
    if (status == TIDE_OK)
        status = tidei_fields_check(kind, wanted, fault);
    if (status == TIDE_OK && kind->check != NULL)
        status = kind->check(wanted, fault);
    if (status == TIDE_OK && !kind->keeps_unset)
        tidei_fields_complete(kind, wanted);
    return status;
}

/* Allocate a zeroed struct. */
static void *
kind_struct_new(const struct tidei_kind *kind)
{
    void *self = aligned_alloc(kind->alignment, kind->size);

    return self != NULL ? memset(self, 0, kind->size) : NULL;
}

static enum tide_status
kind_create(const struct tidei_kind *kind, struct tide_resource *upstream, const void *options,
            struct tide_resource **out, size_t *fault)
{
    _Alignas(max_align_t) unsigned char wanted[TIDEI_OPTIONS_MOST];
    struct tide_resource *self;
    enum tide_status status;

    assert(kind->options_size <= sizeof(wanted));
    status = kind_options(kind, upstream, options, wanted, out, fault);
    if (status != TIDE_OK)
        return status;
    if (kind->size == 0)
        return tide_error_set(TIDE_EUNSUPPORTED, "%s: this build has no CUDA (configure found no cuda.h)",
                              kind->ops.name);
    self = kind_struct_new(kind);
    if (self == NULL)
        return tide_error_set(TIDE_ENOMEM, "%s: no host memory for %zu B", kind->ops.name, kind->size);
    memcpy((unsigned char *)self + kind->options_offset, wanted, kind->options_size);
    *fault = kind->argument_count;
    status = tide_resource_init(self, &kind->ops, upstream);
    if (status == TIDE_OK)
        tidei_kind_mark(self);
    if (status == TIDE_OK && kind->init != NULL) {
        status = kind->init(self, fault);
        if (status != TIDE_OK)
            tide_resource_fini(self);
    }
    if (status == TIDE_OK)
        *out = self;
    else
        free(self);
    return status;
}

enum tide_status
tidei_kind_create(const struct tidei_kind *kind, struct tide_resource *upstream, const void *options,
                  struct tide_resource **out)
{
    TIDEI_INSIDE(upstream);
    size_t fault;

    return kind_create(kind, upstream, options, out, &fault);
}

enum tide_status
tidei_kind_options(const struct tidei_kind *kind, struct tide_resource *upstream, const void *options, void *wanted,
                   struct tide_resource **out)
{
    size_t fault;

    return kind_options(kind, upstream, options, wanted, out, &fault);
}

enum tide_status
tidei_kind_create_read(const struct tidei_kind *kind, const struct tidei_arguments *arguments, const void *options,
                       struct tide_resource *upstream, struct tide_resource **out)
{
    size_t fault;
    enum tide_status status = kind_create(kind, upstream, options, out, &fault);

    if (status != TIDE_OK && fault < kind->argument_count && arguments->values[fault].given)
        *arguments->error_column = arguments->values[fault].column;
    return status;
}

enum tide_status
tidei_kind_create_text(const struct tidei_kind *kind, const struct tidei_arguments *arguments,
                       struct tide_resource *upstream, struct tide_resource **out)
{
    _Alignas(max_align_t) unsigned char options[TIDEI_OPTIONS_MOST];

    if (kind->create_text != NULL)
        return kind->create_text(arguments, upstream, out);
    assert(kind->options_size <= sizeof(options));
    tidei_kind_read_text(kind, arguments, options);
    return tidei_kind_create_read(kind, arguments, options, upstream, out);
}

enum tide_status
tidei_kind_check_text(const struct tidei_kind *kind, const struct tidei_arguments *arguments)
{
    _Alignas(max_align_t) unsigned char options[TIDEI_OPTIONS_MOST];
    enum tide_status status;
    size_t fault;

    tidei_kind_read_text(kind, arguments, options);
    status = tidei_fields_check(kind, options, &fault);
    if (status == TIDE_OK && kind->check != NULL)
        status = kind->check(options, &fault);
    if (status != TIDE_OK && fault < kind->argument_count && arguments->values[fault].given)
        *arguments->error_column = arguments->values[fault].column;
    return status;
}

void
tidei_kind_describe(struct tide_resource *self, struct tide_text *text)
{
    const struct tidei_kind *kind = tidei_kind_of(self);

    tidei_kind_describe_options(kind, (const unsigned char *)self + kind->options_offset, "", text);
}

enum tide_status
tidei_kind_check(const struct tidei_kind *kind, const struct tide_resource *resource)
{
    if (resource != NULL && resource->ops == &kind->ops)
        return TIDE_OK;
    return tide_error_set(TIDE_EINVAL, "%s: not a %s resource", kind->ops.name, kind->ops.name);
}

enum tide_status
tidei_kind_check_figures(const struct tidei_kind *kind, const struct tide_resource *resource, void *out)
{
    enum tide_status status = tidei_figures_clear(kind->ops.name, out);

    return status == TIDE_OK ? tidei_kind_check(kind, resource) : status;
}

void
tidei_kind_destroy(struct tide_resource *self)
{
    const struct tidei_kind *kind = tidei_kind_of(self);

    if (kind->fini != NULL)
        kind->fini(self);
    tide_resource_fini(self);
    free(self);
}
