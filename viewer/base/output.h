/* Formats sizes and times for people, and shows long text through a pager. */
#ifndef VIEWER_BASE_OUTPUT_H
#define VIEWER_BASE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A buffer for one formatted figure. */
struct output_figure {
    char text[48];
};

/* "1000 B", "64 MiB", "12.89 GiB": three or four digits. A figure without decimals is exact. */
const char *output_size(struct output_figure *figure, uint64_t bytes);

/* The width of the terminal in characters; 0: standard output is not a terminal. */
size_t output_screen(void);

/* "13844800200 B" */
const char *output_bytes(struct output_figure *figure, uint64_t bytes);

/* As output_size; but as output_bytes if `other`, which is shown beside it, differs and would read the same.
   "6 GiB" and "6.00 GiB" do. */
const char *output_size_beside(struct output_figure *figure, uint64_t bytes, uint64_t other);

/* A share as "8.63%": so many digits, and all before the point, where there are more. */
const char *output_percent(struct output_figure *figure, double share, int digits);

/* "120 ns", "3.21 ms", "14.5 s". */
const char *output_time(struct output_figure *figure, int64_t ns);

/* Whether the locale has no block characters to draw with. */
bool output_is_ascii(void);

/*
 * Write `text` to standard output through TIDEMARK_PAGER, PAGER or less. The text is written directly if standard
 * output is not a terminal, if the text fits the screen, or if there is no pager. Leaving the pager early is no error.
 */
void output_page(const char *text, size_t length);

/* Flush standard output. Returns `status`, or COMMAND_WRONG if standard output could not be written. */
int output_finish(int status);

#endif
