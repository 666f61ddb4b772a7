/* Writes text from elsewhere for people, and measures it. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "src/resource/visible.h"
#include "viewer/base/shown.h"

void
shown_put(FILE *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        struct tidei_visible character = tidei_visible_at(text + i, length - i);
        char escape[TIDEI_VISIBLE_ESCAPE];

        if (character.is_plain)
            fwrite(text + i, 1, character.bytes, out);
        else
            fwrite(escape, 1, tidei_visible_escape(character, escape), out);
        i += character.bytes;
    }
}

char *
shown_copy(const char *text)
{
    size_t length;
    char *clean = NULL;
    FILE *out = open_memstream(&clean, &length);

    if (out == NULL)
        return NULL;
    shown_put(out, text, strlen(text));
    if (fclose(out) == 0)
        return clean;
    free(clean);
    return NULL;
}

size_t
shown_width(const char *text)
{
    size_t left = strlen(text), width = 0;
    mbstate_t state = { 0 };

    while (left > 0) {
        wchar_t character;
        size_t bytes = mbrtowc(&character, text, left, &state);
        int columns = bytes <= left && bytes > 0 ? wcwidth(character) : -1;

        /* A locale of another encoding than the text's: every character has a byte that continues no other. */
        if (columns < 0) {
            bytes = 1;
            columns = ((unsigned char)*text & 0xc0) != 0x80;
            state = (mbstate_t){ 0 };
        }
        width += (size_t)columns;
        text += bytes;
        left -= bytes;
    }
    return width;
}
