/* Text, sizes, times and tables as people and programs read them. */
#ifndef VIEWER_BASE_OUTPUT_H
#define VIEWER_BASE_OUTPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct libscols_table;
struct json_t;

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

/* Write text from a file: control characters and what is no UTF-8 as \xNN, so that no file drives a terminal. */
void output_text(FILE *out, const char *text, size_t length);

/* The same as a copy, to be freed by the caller; NULL: no memory. */
char *output_clean(const char *text);

/* Write a JSON string; what is no UTF-8 becomes U+FFFD. */
void output_json_text(FILE *out, const char *text, size_t length);

/* The same as a JSON value for jansson, which takes UTF-8 only. */
struct json_t *output_json_string(const char *text);

/* Print one JSON document on standard output, and give up the reference to it. `status`, or COMMAND_WRONG. */
int output_json(struct json_t *document, int status);

/* A table with one column for each word of `columns`; a word that begins with '>' is for numbers. NULL: no memory. */
struct libscols_table *output_table_create(const char *columns);

/* Add a row of as many texts (copied) as there are columns; NULL leaves a cell empty. -1: no memory. */
int output_table_row(struct libscols_table *table, const char *const *cells);

/* Print the table on standard output and free it. */
void output_table_print(struct libscols_table *table);

/* Flush standard output: `status`, or COMMAND_WRONG where it could not be written. */
int output_finish(int status);

#endif
