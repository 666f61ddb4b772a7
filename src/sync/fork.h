/*
 * What happens around fork(), and the one place in which the order of all locks can be read.
 *
 * A child of fork() has a copy of every lock and of what it guards, but of all threads only the one that forked. So
 * that thread takes every lock of the library before it forks: then nobody is inside, and what the locks guard is
 * whole. It lets go of them in the parent, and in the child, where what belonged to other threads is put right first.
 *
 * A place that stands earlier in this list has the outer lock: a thread that holds the lock of one place may take the
 * locks of later places, and never those of earlier ones. `prepare` runs in this order, `parent` and `child` in the
 * reverse. The order is that of the list, whichever part of the library a program uses first.
 */
#ifndef TIDEI_SYNC_FORK_H
#define TIDEI_SYNC_FORK_H

#include <stdint.h>

enum tidei_fork_place {
    TIDEI_FORK_RECOVERY,   /* recoveries of traces, which have SQLite at work; src/trace/session */
    TIDEI_FORK_TAGS,       /* the names of tags; a new one is written to all traces */
    TIDEI_FORK_CALLSTACKS, /* the call stacks; a new one is written to all traces */
    TIDEI_FORK_RECORDERS,  /* the list of recorders; then of each the writer's gate, its lock, that of its ring file */
    TIDEI_FORK_SLOTS,      /* what threads have of objects to themselves; see slots.h */
    TIDEI_FORK_LOCKS,      /* the locks of layers and bases, newest first; see lock.h */
    TIDEI_FORK_SINK,       /* which function messages go to */
    TIDEI_FORK_THREAD,     /* no lock: what a thread knows of itself */
    TIDEI_FORK_BARRIER,    /* no lock: membarrier */
    TIDEI_FORK_PLACES
};

/* NULL where there is nothing to do. */
struct tidei_fork_hook {
    void (*prepare)(void);
    void (*parent)(void);
    void (*child)(void);
};

/*
 * From now on fork() goes through this hook, which is to be there before the first use of what it locks. Once it is
 * set, further calls cost one load. The caller holds no lock of the library: the first call waits for a fork() of
 * another thread. Where the host has no memory to note even one handler, the next call for any place tries again.
 */
void tidei_fork_hook_set(enum tidei_fork_place place, const struct tidei_fork_hook *hook);

/* How many forks lie between the process that came first and this one. */
uint32_t tidei_fork_generation(void);

#endif
