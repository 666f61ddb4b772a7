/* Cleans the names of NVTX ranges; see names.h. */
#include "src/nvtx/names.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const char *const appended[] = { ", seq = ", ", op_id = ", ", input_op_ids = ", ", sizes = " };
static const char *const naming_keys[] = { "name=", "hlo_module=", "module=" };

/* Append `bytes` bytes of `text`, as far as whole characters fit. */
static void
append(char *out, const char *text, size_t bytes)
{
    size_t length = strlen(out), room = TIDEI_NVTX_NAME_BYTES - 1 - length;

    if (bytes > room) {
        bytes = room;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
            bytes--;
    }
    memcpy(out + length, text, bytes);
    out[length + bytes] = '\0';
}

/* The length of a value of XLA's list, whose text ends at `end`: up to a comma that a further key follows. */
static size_t
value_length(const char *value, const char *end)
{
    for (const char *comma = value; comma < end; comma++) {
        const char *key = comma + 1;

        if (*comma != ',')
            continue;
        while (key < end && ((*key >= 'a' && *key <= 'z') || *key == '_'))
            key++;
        if (key < end && *key == '=' && key > comma + 1)
            return (size_t)(comma - value);
    }
    return (size_t)(end - value);
}

/* The value of `key` ("name=") in the list; NULL where it has none. */
static const char *
value_of(const char *list, const char *end, const char *key)
{
    size_t length = strlen(key);

    while (list != NULL && (size_t)(end - list) > length) {
        if (strncmp(list, key, length) == 0)
            return list + length;
        list = memchr(list, ',', (size_t)(end - list));
        list = list != NULL ? list + 1 : NULL;
    }
    return NULL;
}

/* `name` is HEAD#LIST#, with the first # at `hash`. */
static void
clean_xla(const char *name, const char *hash, const char *end, char *out)
{
    const char *value = NULL;
    size_t head = (size_t)(hash - name);

    while (head > 0 && name[head - 1] == ':')
        head--;
    for (size_t i = 0; value == NULL && i < sizeof(naming_keys) / sizeof(naming_keys[0]); i++)
        value = value_of(hash + 1, end, naming_keys[i]);
    append(out, name, head);
    if (value == NULL || value_length(value, end) == 0)
        return;
    if (head > 0)
        append(out, ":", 1);
    append(out, value, value_length(value, end));
}

void
tidei_nvtx_name_clean(const char *name, char *out)
{
    size_t length = strlen(name);
    const char *hash = memchr(name, '#', length);

    out[0] = '\0';
    if (hash != NULL && hash < name + length - 1 && name[length - 1] == '#') {
        clean_xla(name, hash, name + length - 1, out);
    } else {
        for (size_t i = 0; i < sizeof(appended) / sizeof(appended[0]); i++) {
            const char *at = strstr(name, appended[i]);

            if (at != NULL && (size_t)(at - name) < length)
                length = (size_t)(at - name);
        }
        append(out, name, length);
    }
    if (out[0] == '\0')
        append(out, "(unnamed)", strlen("(unnamed)"));
}

/* Write one character as UTF-8 to `out`, of at least 4 bytes, and return their number. */
static size_t
encode(uint32_t character, char *out)
{
    static const unsigned char marks[] = { 0x00, 0xc0, 0xe0, 0xf0 };
    size_t bytes;

    if (character > 0x10ffff || (character >= 0xd800 && character <= 0xdfff))
        character = 0xfffd;
    bytes = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = bytes - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (character & 0x3f));
        character >>= 6;
    }
    out[0] = (char)(marks[bytes - 1] | character);
    return bytes;
}

void
tidei_nvtx_name_utf8(const wchar_t *wide, char *out, size_t bytes)
{
    size_t length = 0;

    for (; *wide != L'\0'; wide++) {
        char character[4];
        size_t more = encode((uint32_t)*wide, character);

        if (length + more > bytes - 1)
            break;
        memcpy(out + length, character, more);
        length += more;
    }
    out[length] = '\0';
}
