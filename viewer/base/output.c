/* Text, sizes, times and tables as people and programs read them. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <libsmartcols.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/output.h"

const char *
output_size(struct output_figure *figure, uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    size_t unit = 0;
    double value;

    while (unit < 6 && bytes >> (10 * (unit + 1)) != 0)
        unit++;
    value = (double)bytes / (double)(UINT64_C(1) << (10 * unit));
    if ((bytes & ((UINT64_C(1) << (10 * unit)) - 1)) == 0)
        snprintf(figure->text, sizeof(figure->text), "%" PRIu64 " %s", bytes >> (10 * unit), units[unit]);
    else
        snprintf(figure->text, sizeof(figure->text), "%.*f %s", value < 100 ? 2 : 1, value, units[unit]);
    return figure->text;
}

const char *
output_time(struct output_figure *figure, int64_t ns)
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    double value = (double)ns;
    size_t unit = 0;

    while (unit < 3 && value >= 1000) {
        value /= 1000;
        unit++;
    }
    if (unit == 0)
        snprintf(figure->text, sizeof(figure->text), "%" PRId64 " ns", ns);
    else
        snprintf(figure->text, sizeof(figure->text), "%.*f %s", value < 100 ? 2 : 1, value, units[unit]);
    return figure->text;
}

const char *
output_count(struct output_figure *figure, uint64_t count)
{
    snprintf(figure->text, sizeof(figure->text), "%" PRIu64, count);
    return figure->text;
}

/* The bytes of the UTF-8 character at `text`, 1 to 4; 0 where there is none, or a control character (C0, C1, DEL). */
static size_t
output_character(const unsigned char *text, size_t length, bool *is_utf8)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t bytes = text[0] < 0x80 ? 1 : text[0] >> 5 == 6 ? 2 : text[0] >> 4 == 14 ? 3 : text[0] >> 3 == 30 ? 4 : 0;
    uint32_t code;

    *is_utf8 = false;
    if (bytes == 0 || bytes > length)
        return 0;
    code = bytes == 1 ? text[0] : text[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if (text[i] >> 6 != 2)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    if (code < least[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *is_utf8 = true;
    return code < 0x20 || (code >= 0x7f && code < 0xa0) ? 0 : bytes;
}

void
output_text(FILE *out, const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;

    for (size_t i = 0; i < length;) {
        bool is_utf8;
        size_t count = output_character(bytes + i, length - i, &is_utf8);

        if (count == 0)
            fprintf(out, "\\x%02x", bytes[i++]);
        for (; count > 0; count--)
            putc(bytes[i++], out);
    }
}

char *
output_clean(const char *text)
{
    size_t length;
    char *clean = NULL;
    FILE *out = open_memstream(&clean, &length);

    if (out == NULL)
        return NULL;
    output_text(out, text, strlen(text));
    if (fclose(out) == 0)
        return clean;
    free(clean);
    return NULL;
}

void
output_json_text(FILE *out, const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;

    putc('"', out);
    for (size_t i = 0; i < length;) {
        bool is_utf8;
        size_t count = output_character(bytes + i, length - i, &is_utf8);

        if (count == 1 && (bytes[i] == '"' || bytes[i] == '\\'))
            putc('\\', out);
        if (count == 0 && !is_utf8)
            fputs("\xef\xbf\xbd", out);
        else if (count == 0 && bytes[i] < 0x80)
            fprintf(out, "\\u%04x", bytes[i]);
        else if (count == 0) /* C1 in UTF-8: two bytes, the second of which is its code */
            fprintf(out, "\\u%04x", bytes[++i]);
        if (count == 0)
            i++;
        for (; count > 0; count--)
            putc(bytes[i++], out);
    }
    putc('"', out);
}

json_t *
output_json_string(const char *text)
{
    size_t length = strlen(text);
    char *copy = malloc(3 * length + 1);
    size_t used = 0;
    json_t *value;

    if (copy == NULL)
        return NULL;
    for (size_t i = 0; i < length;) {
        bool is_utf8;
        size_t count = output_character((const unsigned char *)text + i, length - i, &is_utf8);

        if (is_utf8) {
            if (count == 0) /* a control character: jansson escapes it; those of C1 have two bytes */
                count = (unsigned char)text[i] < 0x80 ? 1 : 2;
            for (; count > 0; count--)
                copy[used++] = text[i++];
        } else {
            memcpy(copy + used, "\xef\xbf\xbd", 3);
            used += 3;
            i++;
        }
    }
    value = json_stringn(copy, used);
    free(copy);
    return value;
}

int
output_json(json_t *document, int status)
{
    if (document == NULL || json_dumpf(document, stdout, JSON_COMPACT) != 0) {
        fputs("tidemark: no memory for the answer, or standard output cannot be written\n", stderr);
        status = COMMAND_WRONG;
    }
    putchar('\n');
    json_decref(document);
    return output_finish(status);
}

struct libscols_table *
output_table_create(const char *columns)
{
    struct libscols_table *table = scols_new_table();
    char *copy = strdup(columns);
    char *rest = NULL;

    for (char *word = copy != NULL ? strtok_r(copy, " ", &rest) : NULL; word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        bool right = word[0] == '>';

        if (table != NULL && scols_table_new_column(table, word + right, 0, right ? SCOLS_FL_RIGHT : 0) == NULL) {
            scols_unref_table(table);
            table = NULL;
        }
    }
    if (copy == NULL && table != NULL) {
        scols_unref_table(table);
        table = NULL;
    }
    free(copy);
    return table;
}

int
output_table_row(struct libscols_table *table, const char *const *cells)
{
    struct libscols_line *line = scols_table_new_line(table, NULL);

    if (line == NULL)
        return -1;
    for (size_t i = 0; i < scols_table_get_ncols(table); i++) {
        if (cells[i] != NULL && scols_line_set_data(line, i, cells[i]) != 0)
            return -1;
    }
    return 0;
}

void
output_table_print(struct libscols_table *table)
{
    fflush(stdout);
    scols_print_table(table);
    scols_unref_table(table);
}

int
output_finish(int status)
{
    static bool said;

    if (said)
        return COMMAND_WRONG;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        said = true;
        fprintf(stderr, "tidemark: standard output cannot be written: %s\n", strerror(errno));
        return COMMAND_WRONG;
    }
    return status;
}
