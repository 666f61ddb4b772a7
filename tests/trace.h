/* What tests of the recorder share: a folder of their own, stacks from text, and queries on traces. */
#ifndef TESTS_TRACE_H
#define TESTS_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/tidemark.h>

#include "sanitized.h"

/* The name of a file in this test program's own folder. The folder is removed at the end, unless a test has failed. */
const char *scratch(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The number of files in the folder whose names begin with `prefix`. */
unsigned scratch_count(const char *prefix);

/* Make a stack from text. Ends the program if that fails. */
struct tide_resource *stack_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Allocate or free, with the default alignment on stream 0. Ends the program if that fails. */
void *take(struct tide_resource *stack, size_t bytes);
void give(struct tide_resource *stack, void *pointer, size_t bytes);

/* The number or text that a query on a trace returns; INT64_MIN or "" if it fails. Any thread. */
int64_t sql_number(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *sql_text(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Check what holds in every trace: integrity, ids in the order of alloc_ns, frees after allocations, and no overlapping
 * allocations of one address at one layer. Prints what does not hold.
 */
bool trace_is_sound(const char *path);

/* The trace is complete, sound, has lost nothing and matched every free. */
bool trace_is_whole(const char *path);

/* ThreadSanitizer does not support a child that goes on using locks and threads: tests that need one are skipped. */
#define CHILDREN_MAY_RECORD (!SANITIZED_THREAD)

/* Run `function` in a forked child that ends by _exit with the result. Returns the status of waitpid. */
int in_child(int (*function)(void *), void *argument);

/* Keeps the messages of the message sink. */
struct heard {
    unsigned errors;
    unsigned others;
    char text[512]; /* of the latest error */
};
void hear(struct heard *heard);                 /* NULL: no more */
unsigned hear_count(const struct heard *heard); /* errors so far */

/* The next of a xorshift sequence (Marsaglia, 2003); *state is never 0. */
uint64_t next_random(uint64_t *state);

/* A seed for a random test: from the environment variable, else from the clock; it is printed. */
uint64_t random_seed(const char *variable);

#endif
