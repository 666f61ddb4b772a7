/* Threads that take turns: one runs, the others sleep. */
#ifndef VIEWER_REPLAY_TURN_H
#define VIEWER_REPLAY_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdatomic.h>

/* One for each thread, on a cache line of its own. */
struct replay_turn {
    _Alignas(64) atomic_int state; /* written by the thread that gives the turn, and by the one that waits for it */
};

/* `count` turns, none of them given, to be freed; NULL: no memory, after a message. */
struct replay_turn *replay_turns_create(size_t count);

/*
 * Wait until this turn is given or all is over, which is false. What the giver wrote before is seen after.
 * Spins for some microseconds, then sleeps.
 */
bool replay_turn_wait(struct replay_turn *turn);

/* Give the turn to the thread that waits for it, or will. Wait-free. */
void replay_turn_give(struct replay_turn *turn);

/* Say to the thread that waits, or will, that all is over. Wait-free. */
void replay_turn_end(struct replay_turn *turn);

#endif
