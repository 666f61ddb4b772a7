/* Functions that know their own call stack. CHAIN_RUN is the name of the outermost one. */
#include "callstack-chain.h"

#define NOINLINE __attribute__((noinline))

/*
 * The values are needed after the call, so that they occupy registers across it, among them the one that code without
 * frame pointers may use.
 */
static NOINLINE uint64_t
chain_step(struct chain *chain, unsigned left, const volatile uint64_t *seeds)
{
    uint64_t a = seeds[0], b = seeds[1], c = seeds[2], d = seeds[3], e = seeds[4], f = seeds[5], result = 0;

    chain->returns[left] = (uint64_t)(uintptr_t)__builtin_return_address(0);
    if (left == 0)
        chain->leaf(chain);
    else
        result = chain_step(chain, left - 1, seeds);
    return result + a * 3 + b * 5 + c * 7 + d * 11 + e * 13 + f * 17;
}

NOINLINE void
CHAIN_RUN(struct chain *chain)
{
    volatile uint64_t seeds[6] = { 1, 2, 3, 4, 5, 6 };

    chain->count = chain->depth + 2;
    chain->returns[chain->depth + 1] = (uint64_t)(uintptr_t)__builtin_return_address(0);
    seeds[0] = chain_step(chain, chain->depth, seeds);
}
