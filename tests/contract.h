/* The one contract test that every resource passes. */
#ifndef TESTS_CONTRACT_H
#define TESTS_CONTRACT_H

#include <stdbool.h>

#include <tidemark/tidemark.h>

struct contract {
    const char *name; /* the resource's name, as in stack text */
    /* Make a new resource whose only reference the test gets; called several times. */
    struct tide_resource *(*create)(void *context);
    void *context;
    size_t largest_bytes; /* the largest request that the test expects to succeed; at least 1 */
    bool counts_kept;     /* the bytes used are those of a layer below, in which freed blocks count until a trim */
    bool knows_pointers;  /* the resource, or a layer below it, returns an error for a wrong pointer or size */
};

/* The number of tests in a call of contract_check, for the plan. */
#define CONTRACT_TESTS 23

/* Random choices come from TEST_SEED in the environment, or a fixed seed; the seed is printed. */
void contract_check(const struct contract *contract);

/* A small random generator for tests; *state is the seed and must not be 0. */
uint64_t contract_random(uint64_t *state);

/* The seed for a test's random choices: TEST_SEED in the environment, else `otherwise`; prints it. */
uint64_t contract_seed(uint64_t otherwise);

#endif
