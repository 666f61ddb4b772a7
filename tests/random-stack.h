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
    bool host_memory;   /* all of it can be read and written */
    bool may_fail;      /* a layer refuses requests that are right */
    bool any_alignment; /* the top serves alignments over 256 bytes */
    bool records;       /* a log that has the trace's path sees all that passes through the top */
    bool arena;         /* has one */
    bool earlier;       /* a layer takes memory when it is made, before the trace begins */
    unsigned names;     /* layers that have one so far */
    bool drops;         /* it drops what does not fit into its rings */
};

/* A stack for that seed, which is not 0; where it records, into `trace`. */
void random_stack_make(struct random_stack *stack, uint64_t seed, const char *trace);

#endif
