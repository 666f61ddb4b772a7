/* Writes to bounded text buffers: words and sizes in the syntax of stack text, and readable sizes. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "src/resource/resource.h"
#include "src/resource/visible.h"
#include "src/sync/thread.h"

static const char *const text_units[] = { "", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };

#define TEXT_UNIT_COUNT   (sizeof(text_units) / sizeof(text_units[0]))
#define TEXT_SIZE_BUFFERS 8
#define TEXT_SIZE_LENGTH  32

/* The latest sizes that a thread has printed. */
struct text_sizes {
    char buffers[TEXT_SIZE_BUFFERS][TEXT_SIZE_LENGTH];
    unsigned next;
};

TIDEI_THREAD_PART(text_sizes_of, sizes, struct text_sizes);

void
tide_text_format(struct tide_text *text, const char *format, ...)
{
    bool fits = text->data != NULL && text->length < text->capacity;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length =
        vsnprintf(fits ? text->data + text->length : NULL, fits ? text->capacity - text->length : 0, format, arguments);
    va_end(arguments);
    if (length > 0)
        text->length += (size_t)length;
}

void
tide_text_size(struct tide_text *text, uint64_t bytes)
{
    size_t unit = 0;

    while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < TEXT_UNIT_COUNT) {
        bytes /= 1024;
        unit++;
    }
    tide_text_format(text, "%" PRIu64 "%s", bytes, text_units[unit]);
}

/* A word that could be read as a key, such as a path "overwrite", needs quotes, as one with a comma does. */
static bool
text_needs_quotes(const char *word)
{
    bool like_key = true;

    for (const char *c = word; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr("|(),={}\"", *c) != NULL)
            return true;
        if (!(*c >= 'a' && *c <= 'z') && *c != '_')
            like_key = false;
    }
    return like_key;
}

void
tide_text_word(struct tide_text *text, const char *word)
{
    if (!text_needs_quotes(word)) {
        tide_text_format(text, "%s", word);
        return;
    }
    tide_text_format(text, "\"");
    while (*word != '\0') {
        size_t plain = strcspn(word, "\"\\");

        tide_text_format(text, "%.*s", (int)plain, word);
        word += plain;
        if (*word != '\0')
            tide_text_format(text, "\\%c", *word++);
    }
    tide_text_format(text, "\"");
}

/* Append the number's digits, `least` of them at least; returns their end. */
static char *
text_digits(char *at, uint64_t number, unsigned least)
{
    char digits[20];
    unsigned count = 0;

    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0 || count < least);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

/* The bytes in a unit of 1 << shift, with two decimals unless both are 0 exactly. Ties go to an even digit. */
static char *
text_in_unit(char *at, uint64_t bytes, unsigned shift)
{
    uint64_t whole = bytes >> shift, rest = bytes & ((UINT64_C(1) << shift) - 1), hundredths, tie;

    if (rest == 0)
        return text_digits(at, whole, 1);
    if (shift > 50) {
        rest >>= 10; /* so that the product has room */
        shift -= 10;
    }
    hundredths = rest * 100 >> shift;
    tie = (rest * 100 & ((UINT64_C(1) << shift) - 1)) + (hundredths & 1);
    hundredths += tie > UINT64_C(1) << (shift - 1);
    at = text_digits(at, whole + hundredths / 100, 1);
    *at++ = '.';
    return text_digits(at, hundredths % 100, 2);
}

/* Without snprintf: a limit that refuses often prints two or three each time. */
const char *
tidei_size_text(uint64_t bytes)
{
    struct tidei_thread *thread = tidei_thread_get();
    struct text_sizes *sizes;
    char *buffer, *end;
    unsigned unit = 0;

    if (thread == NULL)
        return "some bytes"; /* no host memory */
    sizes = text_sizes_of(thread);
    buffer = sizes->buffers[sizes->next++ % TEXT_SIZE_BUFFERS];
    while (unit + 1 < TEXT_UNIT_COUNT && bytes >> (10 * (unit + 1)) != 0)
        unit++;
    end = text_in_unit(buffer, bytes, 10 * unit);
    *end++ = ' ';
    strcpy(end, unit == 0 ? "B" : text_units[unit]);
    return buffer;
}

size_t
tidei_utf8_cut(const char *text, size_t most)
{
    size_t length = most;

    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    return most - length <= 3 ? length : most; /* otherwise the text is not UTF-8 */
}

size_t
tidei_utf8_length(const char *text, size_t most)
{
    size_t length = strnlen(text, most + 1);

    return length <= most ? length : tidei_utf8_cut(text, most);
}

void
tidei_text_shown(struct tide_text *text, const char *name)
{
    for (size_t length = strlen(name); length > 0;) {
        struct tidei_visible character = tidei_visible_at(name, length);
        char escape[TIDEI_VISIBLE_ESCAPE];

        if (character.is_plain)
            tide_text_format(text, "%.*s", (int)character.bytes, name);
        else if (tidei_visible_escape(character, escape) > 0)
            tide_text_format(text, "%s", escape);
        name += character.bytes;
        length -= character.bytes;
    }
}
