/* Random stack text for tests: any adaptors in any order, over bases that need no GPU. */
#ifndef TESTS_RANDOM_STACK_H
#define TESTS_RANDOM_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANDOM_STACK_CAPACITY 2048

struct random_stack {
    char text[RANDOM_STACK_CAPACITY];
    uint64_t state;     /* of contract_random */
    bool host_memory;   /* all of its memory can be read and written */
    bool may_fail;      /* a layer may refuse valid requests */
    bool any_alignment; /* the top serves alignments over 256 bytes */
    bool records;       /* a log with the trace's path sees everything that passes the top */
    bool arena;         /* has an arena */
    unsigned names;     /* the number of layers with a name so far */
    bool drops;         /* the log drops records that do not fit into its rings */
};

/* Make a stack for that seed, which is not 0. If it records, it records into `trace`. */
void random_stack_make(struct random_stack *stack, uint64_t seed, const char *trace);

#endif
