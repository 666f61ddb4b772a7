/* Decides which characters of a text from elsewhere are shown as they are, and escapes the others. */
#include <stdio.h>
#include <string.h>

#include "src/resource/visible.h"

/* The first and the last of each row of code points that are not shown as they are, in their order. */
static const uint32_t visible_hidden[][2] = {
    { 0x0000, 0x001f },    /* controls */
    { 0x007f, 0x009f },    /* delete, and further controls */
    { 0x00ad, 0x00ad },    /* soft hyphen */
    { 0x034f, 0x034f },    /* combining grapheme joiner */
    { 0x061c, 0x061c },    /* Arabic letter mark */
    { 0x115f, 0x1160 },    /* Hangul fillers */
    { 0x17b4, 0x17b5 },    /* Khmer inherent vowels */
    { 0x180b, 0x180f },    /* Mongolian variation selectors and vowel separator */
    { 0x200b, 0x200f },    /* zero-width characters, marks of direction */
    { 0x2028, 0x202e },    /* separators of lines and paragraphs, embeddings and overrides of direction */
    { 0x2060, 0x206f },    /* word joiner, invisible operators, isolates of direction */
    { 0x2800, 0x2800 },    /* blank braille pattern */
    { 0x3164, 0x3164 },    /* Hangul filler */
    { 0xe000, 0xf8ff },    /* private */
    { 0xfdd0, 0xfdef },    /* no characters */
    { 0xfe00, 0xfe0f },    /* variation selectors */
    { 0xfeff, 0xfeff },    /* byte order mark */
    { 0xffa0, 0xffa0 },    /* halfwidth Hangul filler */
    { 0xfff0, 0xfffb },    /* unassigned and ignorable, interlinear annotations */
    { 0xfffe, 0xffff },    /* no characters, as the last two of each plane */
    { 0x1bca0, 0x1bca3 },  /* controls of shorthand */
    { 0x1d173, 0x1d17a },  /* controls of musical notation */
    { 0xe0000, 0xe0fff },  /* tags, further variation selectors */
    { 0xf0000, 0x10ffff }, /* private */
};

static bool
visible_is_hidden(uint32_t code)
{
    size_t low = 0, high = sizeof(visible_hidden) / sizeof(visible_hidden[0]);

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (visible_hidden[middle][1] < code)
            low = middle + 1;
        else
            high = middle;
    }
    return visible_hidden[low][0] <= code || (code & 0xfffe) == 0xfffe;
}

struct tidei_visible
tidei_visible_at(const char *character, size_t length)
{
    const unsigned char *text = (const unsigned char *)character;
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    uint8_t bytes = text[0] < 0x80 ? 1 : text[0] >> 5 == 6 ? 2 : text[0] >> 4 == 14 ? 3 : text[0] >> 3 == 30 ? 4 : 0;
    struct tidei_visible broken = { .code = text[0], .bytes = 1 };
    uint32_t code;

    if (bytes == 0 || bytes > length)
        return broken;
    code = bytes == 1 ? text[0] : text[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if (text[i] >> 6 != 2)
            return broken;
        code = code << 6 | (text[i] & 0x3f);
    }
    if (code < least[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return broken;
    return (struct tidei_visible){ code, bytes, true, !visible_is_hidden(code) };
}

size_t
tidei_visible_escape(struct tidei_visible character, char out[TIDEI_VISIBLE_ESCAPE])
{
    const char *format = character.code < 0x80 || !character.is_utf8 ? "\\x%02x"
                         : character.code < 0x10000                  ? "\\u%04x"
                                                                     : "\\U%08x";

    return (size_t)snprintf(out, TIDEI_VISIBLE_ESCAPE, format, (unsigned)character.code);
}

/* The bytes at the beginning of the text that are printable ASCII, or fewer: a multiple of 8, but at the end. */
static size_t
visible_printable(const char *text, size_t length)
{
    const uint64_t each = UINT64_MAX / 0xff, high = each * 0x80;
    size_t at = 0;
    uint64_t word;

    for (; at + sizeof(word) <= length; at += sizeof(word)) {
        memcpy(&word, text + at, sizeof(word));
        /* The high bit of a byte: it has one, it is 0x7f, it is below 0x20. */
        if (((word | (word + each) | ~((word | high) - each * 0x20)) & high) != 0)
            return at;
    }
    while (at < length && text[at] >= 0x20 && text[at] < 0x7f)
        at++;
    return at;
}

void
tidei_visible_copy(const char *text, char *out, size_t capacity)
{
    size_t length = strlen(text), used, i;

    /* Nearly all texts are printable as a whole, and a layer that is refused often sets one each time. */
    i = visible_printable(text, length < capacity ? length : capacity - 1);
    used = i;
    memcpy(out, text, used);
    while (i < length) {
        struct tidei_visible character = tidei_visible_at(text + i, length - i);
        char escape[TIDEI_VISIBLE_ESCAPE];
        size_t bytes = character.is_plain ? character.bytes : tidei_visible_escape(character, escape);

        if (used + bytes >= capacity)
            break;
        memcpy(out + used, character.is_plain ? text + i : escape, bytes);
        used += bytes;
        i += character.bytes;
    }
    out[used] = '\0';
}
