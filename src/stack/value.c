/* Reads the values of stack text: sizes, shares, counts, flags, choices. */
#include "src/stack/parse.h"

#include <string.h>
#include <strings.h>

#define VALUE_DECIMALS 9 /* upper bound of decimals: with them, whole parts up to 2^64 fit 128 bits */

static const struct {
    const char *name;
    uint64_t bytes;
} value_units[] = {
    { "", 1 },
    { "B", 1 },
    { "KiB", UINT64_C(1) << 10 },
    { "MiB", UINT64_C(1) << 20 },
    { "GiB", UINT64_C(1) << 30 },
    { "TiB", UINT64_C(1) << 40 },
    { "PiB", UINT64_C(1) << 50 },
    { "EiB", UINT64_C(1) << 60 },
    { "KB", UINT64_C(1000) },
    { "MB", UINT64_C(1000000) },
    { "GB", UINT64_C(1000000000) },
    { "TB", UINT64_C(1000000000000) },
    { "PB", UINT64_C(1000000000000000) },
    { "EB", UINT64_C(1000000000000000000) },
};

/* A number as written: whole + fraction / scale, and the position of its unit. */
struct value_number {
    uint64_t whole;
    uint64_t fraction;
    uint64_t scale; /* 10 to the number of decimals */
    const char *unit;
    size_t unit_length;
    const char *fault; /* its error, for a message; NULL where there is none */
};

static bool
value_is_digit(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

/* Read digits and up to nine decimals; at least one digit. */
static void
value_read(const char *word, size_t length, struct value_number *out)
{
    const char *end = word + length;
    const char *at = word;
    unsigned decimals = 0;

    *out = (struct value_number){ .scale = 1 };
    for (; value_is_digit(at, end); at++) {
        if (__builtin_mul_overflow(out->whole, 10, &out->whole) ||
            __builtin_add_overflow(out->whole, (uint64_t)(*at - '0'), &out->whole)) {
            out->fault = "is over 2^64 - 1";
            return;
        }
    }
    if (at == word)
        out->fault = at < end && *at == '-' ? "is negative" : "begins with no digit";
    if (at != word && at < end && *at == '.') {
        for (at++; value_is_digit(at, end); at++) {
            if (decimals++ == VALUE_DECIMALS) {
                out->fault = "has more than 9 decimals";
                return;
            }
            out->fraction = out->fraction * 10 + (uint64_t)(*at - '0');
            out->scale *= 10;
        }
        if (decimals == 0)
            out->fault = "has no digit after its point";
    }
    out->unit = at;
    out->unit_length = (size_t)(end - at);
}

static enum tide_status
value_fail(const struct stack_value *value, const char *fault)
{
    char shown[64];

    return tidei_stack_fail(value->column, value->layer, "argument '%s': %s %s, expected %s", value->argument->key,
                            tidei_stack_show_word(value->text, value->length, shown, sizeof(shown)), fault,
                            value->argument->expected);
}

/* Convert a number with a unit to bytes, rounded down; returns NULL, or the error. */
static const char *
value_bytes(const struct value_number *number, uint64_t unit_bytes, uint64_t *out)
{
    unsigned __int128 bytes = (unsigned __int128)number->whole * unit_bytes;

    if (unit_bytes == 1 && number->scale != 1)
        return "is no whole number of bytes";
    bytes += (unsigned __int128)number->fraction * unit_bytes / number->scale;
    *out = bytes > UINT64_MAX ? 0 : (uint64_t)bytes;
    return bytes > UINT64_MAX ? "is over 2^64 - 1 bytes" : NULL;
}

/* The first unit that begins with the word: "KiB" for k, ki and kib, "KB" for kb; NULL where none does. */
static const char *
value_unit_meant(const char *unit, size_t length)
{
    for (size_t i = 1; i < TIDEI_COUNT_OF(value_units); i++) {
        if (length > 0 && strncasecmp(value_units[i].name, unit, length) == 0)
            return value_units[i].name;
    }
    return NULL;
}

bool
tidei_stack_is_unit(const char *word)
{
    for (size_t i = 1; i < TIDEI_COUNT_OF(value_units); i++) {
        if (strcmp(value_units[i].name, word) == 0)
            return true;
    }
    return false;
}

/* Report an unknown unit. A word with more digits in it, such as 1e9, is reported as not a number. */
static enum tide_status
value_unknown_unit(const struct stack_value *value, const struct value_number *number)
{
    const char *meant = value_unit_meant(number->unit, number->unit_length);
    char shown[64];

    if (number->unit_length == 1 && *number->unit == '%')
        return value_fail(value, "is a share, which is not taken here");
    for (size_t i = 0; i < number->unit_length; i++) {
        if (value_is_digit(number->unit + i, number->unit + number->unit_length))
            return value_fail(value, "is no plain number");
    }
    return tidei_stack_fail(
        value->column, value->layer,
        "argument '%s': unit %s is unknown, expected B, KiB, MiB, GiB, TiB, PiB or EiB, or KB, MB, "
        "GB, TB, PB or EB of 1000%s%s%s",
        value->argument->key, tidei_stack_show_word(number->unit, number->unit_length, shown, sizeof(shown)),
        meant != NULL ? "; did you mean " : "", meant != NULL ? meant : "", meant != NULL ? "?" : "");
}

enum tide_status
tidei_stack_size(const struct stack_value *value, uint64_t *out)
{
    struct value_number number;
    const char *fault;

    *out = 0;
    value_read(value->text, value->length, &number);
    if (number.fault != NULL)
        return value_fail(value, number.fault);
    for (size_t i = 0; i < TIDEI_COUNT_OF(value_units); i++) {
        if (strlen(value_units[i].name) != number.unit_length ||
            memcmp(value_units[i].name, number.unit, number.unit_length) != 0)
            continue;
        fault = value_bytes(&number, value_units[i].bytes, out);
        return fault == NULL ? TIDE_OK : value_fail(value, fault);
    }
    return value_unknown_unit(value, &number);
}

/* Read a share such as "12.5%" of the capacity below, which is known once that is built. */
static enum tide_status
value_share(const struct stack_value *value, struct tidei_value *out)
{
    struct value_number number;

    value_read(value->text, value->length - 1, &number);
    if (number.fault == NULL && number.unit_length != 0)
        number.fault = "is no number of percent";
    if (number.fault == NULL && (number.whole > 100 || (number.whole == 100 && number.fraction != 0)))
        number.fault = "is over 100%";
    if (number.fault == NULL && value->argument->least > 0 && number.whole == 0 && number.fraction == 0)
        number.fault = "is too small";
    if (number.fault != NULL)
        return value_fail(value, number.fault);
    out->share = number.whole * number.scale + number.fraction;
    out->share_whole = 100 * number.scale;
    return TIDE_OK;
}

/* The bits of the word at the begin of a COUNT, and how long it is with the colon behind it; 0: there is none. */
static unsigned
value_count_word(const struct stack_value *value, size_t *length)
{
    const struct tidei_argument *argument = value->argument;

    for (size_t i = 0; argument->choices != NULL && argument->choices[i] != NULL; i++) {
        size_t word = strlen(argument->choices[i]);

        *length = word < value->length ? word + 1 : word;
        if (strncmp(value->text, argument->choices[i], word) == 0 && (*length == word || value->text[word] == ':'))
            return argument->choice_values[i];
    }
    *length = 0;
    return 0;
}

static enum tide_status
value_count(const struct stack_value *value, uint64_t *out)
{
    struct value_number number;
    size_t word;
    unsigned bits = value_count_word(value, &word);

    *out = bits;
    if (bits != 0 && word == value->length && value->text[word - 1] != ':')
        return TIDE_OK;
    value_read(value->text + word, value->length - word, &number);
    if (number.fault == NULL && (number.scale != 1 || number.unit_length != 0))
        number.fault = "is no whole number";
    if (number.fault == NULL && bits != 0 && number.whole == 0)
        number.fault = "is too small";
    if (number.fault == NULL && value->argument->choices != NULL && number.whole > value->argument->most)
        number.fault = "is too large";
    if (number.fault != NULL)
        return value_fail(value, number.fault);
    *out = bits | number.whole;
    return TIDE_OK;
}

/* Read "0640" or "640". */
static enum tide_status
value_mode(const struct stack_value *value, uint64_t *out)
{
    *out = 0;
    if (value->length == 0 || value->length > 6 || strspn(value->text, "01234567") != value->length)
        return value_fail(value, "is no mode in octal");
    for (size_t i = 0; i < value->length; i++)
        *out = *out * 8 + (uint64_t)(value->text[i] - '0');
    return TIDE_OK;
}

/* Read "0.25" or "25%" as billionths; smaller digits are cut off. */
static enum tide_status
value_fraction(const struct stack_value *value, uint64_t *out)
{
    struct value_number number;
    uint64_t unit = UINT64_C(1000000000);
    unsigned __int128 billionths;

    value_read(value->text, value->length, &number);
    if (number.fault == NULL && number.unit_length == 1 && *number.unit == '%')
        unit /= 100;
    else if (number.fault == NULL && number.unit_length != 0)
        number.fault = "is no number from 0 to 1";
    billionths = (unsigned __int128)number.whole * unit + number.fraction * unit / number.scale;
    if (number.fault == NULL && billionths > UINT64_C(1000000000))
        number.fault = "is over 1";
    *out = number.fault == NULL ? (uint64_t)billionths : 0;
    return number.fault == NULL ? TIDE_OK : value_fail(value, number.fault);
}

static enum tide_status
value_choice(const struct stack_value *value, uint64_t *out)
{
    static const char *const flags[] = { "false", "true", NULL };
    const char *const *choices = value->argument->type == TIDEI_ARGUMENT_FLAG ? flags : value->argument->choices;
    char list[256];
    char shown[64];
    char hint[64];

    for (*out = 0; choices[*out] != NULL; ++*out) {
        if (strcmp(choices[*out], value->text) == 0)
            return TIDE_OK;
    }
    *out = 0;
    return tidei_stack_fail(value->column, value->layer, "argument '%s': %s is unknown, expected %s%s",
                            value->argument->key,
                            tidei_stack_show_word(value->text, value->length, shown, sizeof(shown)),
                            tidei_stack_list(tidei_stack_choice_at, choices, list, sizeof(list)),
                            tidei_stack_hint(value->text, tidei_stack_choice_at, choices, hint, sizeof(hint)));
}

enum tide_status
tidei_stack_value(const struct stack_value *value, struct tidei_value *out)
{
    const struct tidei_argument *argument = value->argument;
    enum tide_status status = TIDE_OK;
    const char *fault;

    switch (argument->type) {
    case TIDEI_ARGUMENT_SIZE:
        if (argument->all && strcmp(value->text, "all") == 0) {
            out->number = UINT64_MAX;
            return TIDE_OK;
        }
        if (argument->share && value->length != 0 && value->text[value->length - 1] == '%')
            return value_share(value, out);
        status = tidei_stack_size(value, &out->number);
        break;
    case TIDEI_ARGUMENT_COUNT:
        status = value_count(value, &out->number);
        break;
    case TIDEI_ARGUMENT_MODE:
        status = value_mode(value, &out->number);
        break;
    case TIDEI_ARGUMENT_FRACTION:
        status = value_fraction(value, &out->number);
        break;
    case TIDEI_ARGUMENT_FLAG:
    case TIDEI_ARGUMENT_CHOICE:
        return value_choice(value, &out->number);
    case TIDEI_ARGUMENT_WORD:
        if (value->length < argument->least)
            return value_fail(value, "is empty");
        out->word = value->text;
        return TIDE_OK;
    case TIDEI_ARGUMENT_BIN:
    case TIDEI_ARGUMENT_STACK:
        return value_fail(value, "stands where no value can"); /* the parser itself reads these */
    }
    fault = status == TIDE_OK ? tidei_argument_fault(argument, out->number) : NULL;
    return fault == NULL ? status : value_fail(value, fault);
}
