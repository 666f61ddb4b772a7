/* Writes text from a trace as the value of a label. */
#include "config.h"

#include <string.h>

#include "src/resource/visible.h"
#include "viewer/metrics/metrics.h"

/* How many bytes from `text` on stand as they are: most names have only such. */
static size_t
labels_plain(const char *text, size_t length)
{
    size_t count = 0;

    while (count < length && text[count] >= 0x20 && text[count] <= 0x7e && text[count] != '"' && text[count] != '\\')
        count++;
    return count;
}

/*
 * Backslashes, quotes and line ends are escaped as both formats want it. What is no UTF-8 cannot stand in them, and
 * what is not visible would be one label that reads as another: these stand as `tidemark` shows them, "\x1b".
 */
void
metrics_put_label_text(struct emit *out, const char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        size_t plain = labels_plain(text, left);
        struct tidei_visible character;
        char escape[TIDEI_VISIBLE_ESCAPE];

        emit_bytes(out, text, plain);
        text += plain;
        left -= plain;
        if (left == 0)
            return;
        character = tidei_visible_at(text, left);
        if (*text == '\n') {
            emit_bytes(out, "\\n", 2);
        } else if (*text == '"' || *text == '\\') {
            emit_bytes(out, "\\", 1);
            emit_bytes(out, text, 1);
        } else if (character.is_plain) {
            emit_bytes(out, text, character.bytes);
        } else {
            emit_bytes(out, "\\", 1);
            emit_bytes(out, escape, tidei_visible_escape(character, escape));
        }
        text += character.bytes;
        left -= character.bytes;
    }
}
