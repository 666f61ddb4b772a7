/* Text, sizes and times as people read them. */
#ifndef VIEWER_BASE_OUTPUT_H
#define VIEWER_BASE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A buffer for one figure in words. */
struct output_figure {
    char text[48];
};

/* "1000 B", "64 MiB", "12.89 GiB": three or four digits, exact where there are no decimals. */
const char *output_size(struct output_figure *figure, uint64_t bytes);

/* "120 ns", "3.21 ms", "14.5 s". */
const char *output_time(struct output_figure *figure, int64_t ns);

/* "1234", plain. */
const char *output_count(struct output_figure *figure, uint64_t count);

/*
 * The bytes of the UTF-8 character that begins `text`, 1 to 4; 0 where there is none, or a control character (C0, C1,
 * DEL), which *is_utf8 tells apart.
 */
size_t output_character(const char *text, size_t length, bool *is_utf8);

/* Write text from a file: control characters and what is no UTF-8 as \xNN, so that no file drives a terminal. */
void output_text(FILE *out, const char *text, size_t length);

/* The same as a copy, to be freed by the caller; NULL: no memory. */
char *output_clean(const char *text);

/* Flush standard output: `status`, or COMMAND_WRONG where it could not be written. */
int output_finish(int status);

#endif
