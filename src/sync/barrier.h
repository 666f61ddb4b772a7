/*
 * One thread's barrier in all threads: membarrier(2).
 *
 * Two threads that each store one word and then read the other's need a full fence between the two on both sides. Where
 * one side runs for every allocation and the other seldom, the seldom side can have all threads of the process pass a
 * barrier, and the frequent side needs nothing but the compiler's order.
 */
#ifndef TIDEI_SYNC_BARRIER_H
#define TIDEI_SYNC_BARRIER_H

#include <stdbool.h>

/*
 * Whether tidei_barrier_run works, from the first call on. Where it is false, the frequent side needs a fence of its
 * own. True turns to false when the kernel begins to refuse the call, as in a sandbox that the program enters.
 */
bool tidei_barrier_possible(void);

/*
 * Have every thread of the process pass a full barrier. False where the kernel refuses: instead of the barrier 2 ms
 * have gone by. No manual promises that this is enough, but no processor keeps a store to itself for as long.
 */
bool tidei_barrier_run(void);

#endif
