/* Tests visible: which characters are shown as they are, each row of hidden ones at its edges, and every code point. */
#include "src/resource/visible.h"
#include "tap.h"

/* Hidden code points: the first and the last of a row, before and behind which the characters are plain. */
static const struct {
    const char *what;
    uint32_t first, last;
} rows[] = {
    { "control characters", 0x00, 0x1f },
    { "delete and the controls behind it", 0x7f, 0x9f },
    { "the soft hyphen", 0xad, 0xad },
    { "the grapheme joiner", 0x34f, 0x34f },
    { "the Arabic letter mark", 0x61c, 0x61c },
    { "the Hangul fillers", 0x115f, 0x1160 },
    { "Khmer's inherent vowels", 0x17b4, 0x17b5 },
    { "Mongolian selectors", 0x180b, 0x180f },
    { "zero-width characters and marks of direction", 0x200b, 0x200f },
    { "separators of lines, and embeddings of direction", 0x2028, 0x202e },
    { "the word joiner, and isolates of direction", 0x2060, 0x206f },
    { "the blank braille pattern", 0x2800, 0x2800 },
    { "the Hangul filler", 0x3164, 0x3164 },
    { "what is no character", 0xfdd0, 0xfdef },
    { "variation selectors", 0xfe00, 0xfe0f },
    { "the byte order mark", 0xfeff, 0xfeff },
    { "the halfwidth filler", 0xffa0, 0xffa0 },
    { "controls of shorthand", 0x1bca0, 0x1bca3 },
    { "controls of musical notation", 0x1d173, 0x1d17a },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* Names as they are shown. */
static const struct {
    const char *text, *shown;
} names[] = {
    { "step/forward", "step/forward" },
    { "\xd1\x88\xd0\xb0\xd0\xb3 \xe6\xad\xa5 \xf0\x9f\x9a\x80 e\xcc\x81", /* Cyrillic, Chinese, a rocket, an accent */
      "\xd1\x88\xd0\xb0\xd0\xb3 \xe6\xad\xa5 \xf0\x9f\x9a\x80 e\xcc\x81" },
    { "a\033[1m", "a\\x1b[1m" },
    { "a\nb\tc\x7f", "a\\x0ab\\x09c\\x7f" },
    { "\xc2\x9b"
      "31m",
      "\\u009b31m" },
    { "gpu\xe2\x80\xae"
      "0pool",
      "gpu\\u202e0pool" },
    { "\xe2\x81\xa6x\xe2\x81\xa9", "\\u2066x\\u2069" },
    { "a\xe2\x80\xa8"
      "b\xe2\x80\xa9",
      "a\\u2028b\\u2029" },
    { "pool\xe2\x80\x8b", "pool\\u200b" },
    { "\xef\xbb\xbfpool", "\\ufeffpool" },
    { "\xee\x80\x80\xef\xbf\xbf", "\\ue000\\uffff" },
    { "\xf3\xa0\x81\x81", "\\U000e0041" },
    { "\xf4\x8f\xbf\xbf", "\\U0010ffff" },
    { "\xff\xc3", "\\xff\\xc3" },
    { "\xc0\xaf\xe0\x80\xaf", "\\xc0\\xaf\\xe0\\x80\\xaf" },                   /* longer than needed */
    { "\xed\xa0\x80\xf4\x90\x80\x80", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80" }, /* a surrogate; past the last */
};

#define NAMES (sizeof(names) / sizeof(names[0]))

static size_t
encode(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    out[0] = (char)(code < 0x10000 ? 0xe0 | code >> 12 : 0xf0 | code >> 18);
    out[1] = (char)(code < 0x10000 ? 0x80 | (code >> 6 & 0x3f) : 0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(code < 0x10000 ? 0x80 | (code & 0x3f) : 0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return code < 0x10000 ? 3 : 4;
}

static bool
is_plain(uint32_t code)
{
    char text[4];

    return tidei_visible_at(text, encode(code, text)).is_plain;
}

/* The number of code points in a row that are shown as they are. */
static unsigned
plain_of(uint32_t first, uint32_t last)
{
    unsigned count = 0;

    for (uint32_t code = first; code <= last; code++)
        count += is_plain(code);
    return count;
}

/* The code points that do not come back as themselves. */
static unsigned
misread(void)
{
    unsigned count = 0;

    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        char text[4];
        size_t bytes = encode(code, text);
        struct tidei_visible seen = tidei_visible_at(text, bytes),
                             cut = tidei_visible_at(text, bytes > 1 ? bytes - 1 : 1);
        bool surrogate = code >= 0xd800 && code <= 0xdfff;

        count += surrogate ? seen.is_utf8 : !seen.is_utf8 || seen.code != code || seen.bytes != bytes;
        count += bytes > 1 && (cut.is_utf8 || cut.bytes != 1);
    }
    return count;
}

/* As tidei_visible_copy, character by character. */
static void
copy_slowly(const char *text, char *out, size_t capacity)
{
    size_t length = strlen(text), used = 0;

    for (size_t i = 0; i < length;) {
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

#define COPY_BYTES 18 /* more than two words */

/* How often the copy of a text with one byte of another value differs, for each value, place, length and room. */
static unsigned
miscopied(void)
{
    static const char plain[COPY_BYTES + 1] = "abc DEF~019 xyz !}";
    unsigned count = 0;

    for (unsigned value = 1; value < 256; value++) {
        for (size_t place = 0; place < COPY_BYTES; place++) {
            for (size_t capacity = 1; capacity <= COPY_BYTES + TIDEI_VISIBLE_ESCAPE; capacity++) {
                char text[COPY_BYTES + 1], copy[COPY_BYTES + TIDEI_VISIBLE_ESCAPE], slow[sizeof(copy)];

                memcpy(text, plain, sizeof(text));
                text[place] = (char)value;
                text[place + (COPY_BYTES - place) * capacity / (COPY_BYTES + TIDEI_VISIBLE_ESCAPE)] = '\0';
                tidei_visible_copy(text, copy, capacity);
                copy_slowly(text, slow, capacity);
                count += strcmp(copy, slow) != 0;
            }
        }
    }
    return count;
}

static void
test_copy(void)
{
    char out[8];

    tidei_visible_copy("abc\xe2\x80\xae"
                       "d",
                       out, sizeof(out));
    is_string(out, "abc", "a copy without room for an escape ends before it");
    tidei_visible_copy("abcd\xe6\xad\xa5", out, sizeof(out));
    is_string(out, "abcd\xe6\xad\xa5", "a copy that just fits is whole");
    tidei_visible_copy("abcde\xe6\xad\xa5", out, sizeof(out));
    is_string(out, "abcde", "a copy without room for a character of three bytes ends before it");
    ok(miscopied() == 0, "a text with any byte at any place is copied as character by character, for any room");
}

int
main(void)
{
    plan(ROWS + NAMES + 7);
    for (size_t i = 0; i < ROWS; i++) {
        bool before = rows[i].first == 0 || is_plain(rows[i].first - 1);

        ok(all_of(plain_of(rows[i].first, rows[i].last) == 0, before, is_plain(rows[i].last + 1)),
           "%s are hidden, and what is before and behind them is not", rows[i].what);
    }
    ok(all_of(plain_of(0xe000, 0xf8ff) == 0, plain_of(0xf0000, 0x10ffff) == 0, plain_of(0xe0000, 0xe0fff) == 0,
              plain_of(0xfff0, 0xfffb) == 0),
       "private code points, tags and annotations are hidden");
    ok(all_of(!is_plain(0xfffe), !is_plain(0x1ffff), !is_plain(0x3fffe), is_plain(0xfffd), is_plain(0x1fffd)),
       "the last two code points of each plane are hidden");
    ok(misread() == 0, "every code point is read back from UTF-8, and none from a part of it");
    for (size_t i = 0; i < NAMES; i++) {
        char shown[64];

        tidei_visible_copy(names[i].text, shown, sizeof(shown));
        ok(strcmp(shown, names[i].shown) == 0, "a name is shown as %s", names[i].shown);
    }
    test_copy();
    return done();
}
