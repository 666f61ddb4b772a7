/* Shortens and wraps the text of call stacks. */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/callstack-text.h"

size_t
stack_text_frame(const char *text, const char **next)
{
    const char *end = strchr(text, ' ');

    /* No strstr(): AddressSanitizer's measures all that follows, which took 80 s for 500 stacks of 2,000 frames. */
    while (end != NULL && strncmp(end, " < ", 3) != 0)
        end = strchr(end + 1, ' ');
    *next = end != NULL ? end + 3 : NULL;
    return end != NULL ? (size_t)(end - text) : strlen(text);
}

/* Write "function (/folder/file:9)" as "function (file:9)". */
static void
stack_put_frame(FILE *out, const char *frame, size_t length)
{
    size_t place = length;
    size_t name = length;

    if (length > 0 && frame[length - 1] == ')') {
        while (place > 0 && (frame[place - 1] != '(' || frame[place] != '/'))
            place--;
        for (name = length; place > 0 && name > place && frame[name - 1] != '/'; name--)
            ;
    }
    if (place == 0 || place == length) {
        fwrite(frame, 1, length, out);
        return;
    }
    fwrite(frame, 1, place, out);
    fwrite(frame + name, 1, length - name, out);
}

char *
stack_text_short(const char *text, size_t frames)
{
    char *brief = NULL;
    size_t size;
    FILE *out = open_memstream(&brief, &size);

    for (size_t shown = 0; out != NULL && text != NULL; shown++) {
        const char *after;
        size_t length = stack_text_frame(text, &after);
        size_t times = 1;

        if (shown == frames) {
            fputs(" < ...", out);
            break;
        }
        for (const char *next;
             after != NULL && strncmp(text, after, length) == 0 && stack_text_frame(after, &next) == length;
             after = next)
            times++;
        fputs(shown > 0 ? " < " : "", out);
        stack_put_frame(out, text, length);
        if (times > 1)
            fprintf(out, " (%zu times)", times);
        text = after;
    }
    if (out != NULL && fclose(out) == 0)
        return brief;
    free(brief);
    return NULL;
}

const char *
stack_text_brief(const char *text, char *buffer, size_t size)
{
    char *brief = stack_text_short(text, 2);

    if (brief == NULL)
        return text;
    snprintf(buffer, size, "%s", brief);
    free(brief);
    return buffer;
}

/* How many bytes of `text`, which is longer than `width`, go into a line. The caller drops a blank after them. */
static size_t
stack_line(const char *text, size_t width)
{
    size_t blank = 0;
    size_t slash = 0;
    size_t cut = width;

    for (size_t i = 1; i <= width; i++) {
        if (strncmp(text + i, " < ", 3) == 0)
            cut = i;
        else if (text[i] == ' ')
            blank = i;
        else if (text[i] == '/')
            slash = i;
    }
    if (cut < width || strncmp(text + cut, " < ", 3) == 0)
        return cut;
    if (blank > width / 2)
        return blank;
    if (slash > width / 2)
        return slash;
    /* Do not split a UTF-8 character. */
    while (cut > 1 && ((unsigned char)text[cut] & 0xc0) == 0x80)
        cut--;
    return cut;
}

char *
stack_text_wrap(const char *text, size_t width, size_t lines)
{
    char *wrapped = NULL;
    size_t size;
    FILE *out = open_memstream(&wrapped, &size);

    for (size_t line = 1; out != NULL && strlen(text) > width; line++) {
        size_t length = stack_line(text, line < lines ? width : width - 4);

        fwrite(text, 1, length, out);
        if (line == lines) {
            fputs(" ...", out);
            text = "";
            break;
        }
        putc('\n', out);
        text += length + (text[length] == ' ');
    }
    if (out != NULL)
        fputs(text, out);
    if (out != NULL && fclose(out) == 0)
        return wrapped;
    free(wrapped);
    return NULL;
}
