/* Runs a command of `tidemark` in this process, and asks its JSON. */
#ifndef TESTS_ANSWERS_H
#define TESTS_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

/* No such member, or null. */
#define ANSWER_NULL INT64_MIN

struct answer {
    int status; /* as a process would exit with */
    char *json; /* owns; what was written on standard output */
    char line[256];
};

/*
 * Run `tidemark` with the words of a line, each of which stands between spaces. Messages on standard error are dropped.
 * Ends the program where that cannot be done.
 */
void answer_ask(struct answer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

void answer_free(struct answer *answer);

/* A member by its path without the leading "$.", as "memory[0].peak_bytes"; flags are 0 and 1. */
int64_t answer_number(const struct answer *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same of a share; -1: null, or no such member. */
double answer_share(const struct answer *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same of a text; "": null, or no such member. It holds until the next call. */
const char *answer_text(const struct answer *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The length of an array; 0: there is none. */
int64_t answer_length(const struct answer *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The number of the element of `array` whose `member` is the text; -1: there is none. */
int64_t answer_find(const struct answer *answer, const char *array, const char *member, const char *text);

/* The most that `member` is in the elements of `array` whose `memory` is the text ("": any); ANSWER_NULL: nothing. */
int64_t answer_most(const struct answer *answer, const char *array, const char *member, const char *memory);

#endif
