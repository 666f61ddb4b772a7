/* Threads that take turns: one runs while the others sleep. */
#include "config.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "viewer/replay/turn.h"

enum {
    TURN_NONE = 0,
    TURN_GIVEN = 1,
    TURN_ASLEEP = 2, /* none, and its thread must be woken */
    TURN_OVER = 3,
};

/* About as long as it takes to wake a thread. */
#define TURN_SPINS 300

static inline void
turn_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

struct replay_turn *
replay_turns_create(size_t count)
{
    struct replay_turn *turns = aligned_alloc(_Alignof(struct replay_turn), count * sizeof(*turns));

    if (turns == NULL)
        fputs("tidemark replay: no memory for the threads\n", stderr);
    for (size_t i = 0; turns != NULL && i < count; i++)
        atomic_init(&turns[i].state, TURN_NONE);
    return turns;
}

bool
replay_turn_wait(struct replay_turn *turn)
{
    int state = TURN_NONE;

    for (int i = 0; i < TURN_SPINS; i++) {
        /* Relaxed: the exchange below acquires. */
        state = atomic_load_explicit(&turn->state, memory_order_relaxed);
        if (state != TURN_NONE)
            break;
        turn_pause();
    }
    for (;;) {
        /* Acquire: pairs with the release in turn_set, so that what the giver wrote is seen. */
        state = atomic_load_explicit(&turn->state, memory_order_acquire);
        if (state == TURN_OVER)
            return false;
        if (state == TURN_GIVEN) {
            /* Relaxed: only the thread of this turn takes it, and the next giver comes after this one has given. */
            atomic_store_explicit(&turn->state, TURN_NONE, memory_order_relaxed);
            return true;
        }
        /* Relaxed: it tells the giver to wake and carries no data; where it fails the loop reads again. */
        if (state == TURN_ASLEEP || atomic_compare_exchange_strong_explicit(&turn->state, &state, TURN_ASLEEP,
                                                                            memory_order_relaxed, memory_order_relaxed))
            syscall(SYS_futex, &turn->state, FUTEX_WAIT_PRIVATE, TURN_ASLEEP, NULL, NULL, 0);
    }
}

static void
turn_set(struct replay_turn *turn, int state)
{
    /* Release: pairs with the acquire in replay_turn_wait. */
    if (atomic_exchange_explicit(&turn->state, state, memory_order_release) == TURN_ASLEEP)
        syscall(SYS_futex, &turn->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void
replay_turn_give(struct replay_turn *turn)
{
    turn_set(turn, TURN_GIVEN);
}

void
replay_turn_end(struct replay_turn *turn)
{
    turn_set(turn, TURN_OVER);
}
