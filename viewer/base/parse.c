/* Parses counts, sizes, shares and moments of the command line, and corrects mistyped words. */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "viewer/base/parse.h"

struct parse_unit {
    const char *name;
    double factor;
};

static const struct parse_unit size_units[] = {
    { "", 1 },       { "B", 1 },        { "K", 0x1p10 }, { "KiB", 0x1p10 }, { "M", 0x1p20 },   { "MiB", 0x1p20 },
    { "G", 0x1p30 }, { "GiB", 0x1p30 }, { "T", 0x1p40 }, { "TiB", 0x1p40 }, { "PiB", 0x1p50 },
};

static const struct parse_unit time_units[] = {
    { "", 1 }, { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "min", 60e9 }, { "h", 3600e9 },
};

/* Parse digits with at most one point. Unlike strtod, take no sign, exponent, infinity or hexadecimal. */
static bool
parse_decimal(const char *text, double *out, const char **end)
{
    size_t digits = strspn(text, "0123456789");
    size_t length = digits;

    if (text[digits] == '.')
        length += 1 + strspn(text + digits + 1, "0123456789");
    if (length == 0 || (length == 1 && digits == 0))
        return false;
    *out = strtod(text, NULL);
    *end = text + length;
    return true;
}

bool
parse_count(const char *text, uint64_t *out)
{
    uint64_t value = 0;

    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (!isdigit((unsigned char)*text) || value > (UINT64_MAX - 9) / 10)
            return false;
        value = 10 * value + (uint64_t)(*text - '0');
    }
    *out = value;
    return true;
}

bool
parse_number(const char *text, double *out)
{
    double value;
    const char *end;

    if (!parse_decimal(text, &value, &end) || *end != '\0')
        return false;
    *out = value;
    return true;
}

/* An integer without a unit is parsed exactly, since a double has only 53 bits. Other numbers go through a double. */
static bool
parse_with_unit(const char *text, const struct parse_unit *units, size_t unit_count, int64_t *out)
{
    uint64_t whole;
    double value;
    const char *end;

    if (parse_count(text, &whole)) {
        if (whole > INT64_MAX)
            return false;
        *out = (int64_t)whole;
        return true;
    }
    if (!parse_decimal(text, &value, &end))
        return false;
    end += strspn(end, " ");
    for (size_t i = 0; i < unit_count; i++) {
        if (strcasecmp(end, units[i].name) == 0 && value * units[i].factor < 0x1p63) {
            *out = (int64_t)(value * units[i].factor + 0.5);
            return true;
        }
    }
    return false;
}

bool
parse_size(const char *text, uint64_t *out)
{
    int64_t value;

    if (!parse_with_unit(text, size_units, sizeof(size_units) / sizeof(size_units[0]), &value))
        return false;
    *out = (uint64_t)value;
    return true;
}

/* The share that `text` names, 1.5 for "150%" and "1.5". */
static bool
parse_any_share(const char *text, double *out)
{
    double value;
    const char *end;

    if (!parse_decimal(text, &value, &end))
        return false;
    if (strcmp(end, "%") == 0)
        value /= 100;
    else if (*end != '\0')
        return false;
    *out = value;
    return true;
}

bool
parse_share(const char *text, double *out)
{
    double value;

    if (!parse_any_share(text, &value) || value > 1)
        return false;
    *out = value;
    return true;
}

const char *
parse_share_refusal(const char *text, char *buffer, size_t size)
{
    double value;

    if (!parse_any_share(text, &value))
        snprintf(buffer, size, "\"%.40s\" is not a share, such as 2%% or 0.02", text);
    else if (strchr(text, '%') != NULL)
        snprintf(buffer, size, "%.40s is more than the whole: a share is 100%% at most", text);
    else if (value <= 100)
        snprintf(buffer, size, "%.40s is %.6g%%, more than the whole: write %.40s%%", text, 100 * value, text);
    else
        snprintf(buffer, size, "%.40s is %.6g%%, more than the whole: a share is 100%% at most", text, 100 * value);
    return buffer;
}

bool
parse_moment(const char *text, struct moment *out)
{
    struct moment moment = { 0 };
    uint64_t number;

    if (strcmp(text, "peak") == 0) {
        moment.kind = MOMENT_PEAK;
    } else if (text[0] == '#' && parse_count(text + 1, &number) && number <= INT64_MAX) {
        moment.kind = MOMENT_EVENT;
        moment.number = (int64_t)number;
    } else if (strncmp(text, "mark:", 5) == 0) {
        moment.kind = MOMENT_MARK;
        moment.text = text + 5;
    } else if (strchr(text, '%') != NULL && parse_any_share(text, &moment.share) && moment.share <= 1) {
        moment.kind = MOMENT_SHARE;
    } else if (parse_with_unit(text, time_units, sizeof(time_units) / sizeof(time_units[0]), &moment.number)) {
        moment.kind = MOMENT_TIME;
    } else {
        return false;
    }
    *out = moment;
    return true;
}

/* The fewest letters to add, drop, change or swap with a neighbour that turn `a` into `b`; at most 31 letters count. */
static unsigned
parse_distance(const char *a, const char *b)
{
    unsigned table[32][32];
    size_t a_length = strnlen(a, 31);
    size_t b_length = strnlen(b, 31);

    for (size_t i = 0; i <= a_length; i++) {
        for (size_t j = 0; j <= b_length; j++) {
            unsigned best = i == 0 ? (unsigned)j : (unsigned)i;

            if (i > 0 && j > 0) {
                best = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
                if (table[i - 1][j] + 1 < best)
                    best = table[i - 1][j] + 1;
                if (table[i][j - 1] + 1 < best)
                    best = table[i][j - 1] + 1;
                if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && table[i - 2][j - 2] + 1 < best)
                    best = table[i - 2][j - 2] + 1;
            }
            table[i][j] = best;
        }
    }
    return table[a_length][b_length];
}

/* At this distance and above a word is not near. */
#define PARSE_FAR 3

static unsigned
parse_typed_distance(const char *typed, const char *word)
{
    size_t length = strlen(typed);

    /* A beginning of the word may be an abbreviation. */
    return length >= 2 && strncmp(typed, word, length) == 0 ? 0 : parse_distance(typed, word);
}

const char *
parse_nearest(const char *typed, const char *nearest, const char *word)
{
    unsigned least = nearest != NULL ? parse_typed_distance(typed, nearest) : PARSE_FAR;

    return parse_typed_distance(typed, word) < least ? word : nearest;
}
