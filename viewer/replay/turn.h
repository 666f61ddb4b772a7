/* Threads that take turns: one runs while the others sleep. */
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
 * Wait until this turn is given (true) or the replay has ended (false). Writes of the giver before replay_turn_give are
 * visible afterwards. Spins for some microseconds, then sleeps.
 */
bool replay_turn_wait(struct replay_turn *turn);

/* Give the turn to the thread that waits, or will wait, for it. Wait-free. */
void replay_turn_give(struct replay_turn *turn);

/* Tell the thread that waits, or will wait, that the replay has ended. Wait-free. */
void replay_turn_end(struct replay_turn *turn);

#endif
