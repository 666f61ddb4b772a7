/*
 * Lets one thread run a memory barrier in all threads of the process: membarrier(2).
 *
 * When two threads each store one word and then read the other's, both need a full fence between store and read. If one
 * side runs for every allocation and the other seldom, the seldom side can run a barrier in all threads instead. The
 * frequent side then needs only a compiler barrier.
 */
#ifndef TIDEI_SYNC_BARRIER_H
#define TIDEI_SYNC_BARRIER_H

#include <stdbool.h>

/*
 * Whether tidei_barrier_run works. If not, the frequent side needs its own fence. The answer turns from true to false
 * when the kernel begins to refuse membarrier(2), for example once the program has entered a sandbox.
 */
bool tidei_barrier_possible(void);

/*
 * Run a full barrier in every thread of the process. False if the kernel refuses; the call has then waited for 2 ms
 * instead. No manual promises that this suffices, but no processor delays the visibility of a store for that long.
 */
bool tidei_barrier_run(void);

#endif
