/*
 * The hooks that run around fork(), and the one list that gives the order of all locks.
 *
 * A child of fork() has a copy of every lock and of the data that it guards, but only the thread that forked. So that
 * thread takes every lock of the library before the fork: then no thread is in a critical section, and the data is
 * consistent. After the fork it releases the locks in the parent. In the child it first repairs the state of the
 * threads that do not exist there, and then releases them.
 *
 * The list is ordered from outer to inner locks: a thread that holds the lock of one place may take the locks of later
 * places, and never those of earlier ones. `prepare` hooks run in this order, `parent` and `child` hooks in reverse.
 * The order does not depend on which part of the library a program uses first.
 */
#ifndef TIDEI_SYNC_FORK_H
#define TIDEI_SYNC_FORK_H

#include <signal.h>
#include <stdint.h>

enum tidei_fork_place {
    TIDEI_FORK_RECOVERY,   /* recoveries of traces, which use SQLite; src/trace/session */
    TIDEI_FORK_TAGS,       /* the names of tags; a new name is written to all traces */
    TIDEI_FORK_CALLSTACKS, /* the call stacks; a new stack is written to all traces */
    TIDEI_FORK_RECORDERS,  /* of all recorders, and of each; see src/trace/session/fork.c, fork_before */
    TIDEI_FORK_PROTECT,    /* the files that no trace may replace; src/trace/session/protect.c */
    TIDEI_FORK_CLAIMS,     /* the locked files, which a child closes; src/trace/ring/claim.c */
    TIDEI_FORK_SLOTS,      /* the per-thread slots of objects; see slots.h */
    TIDEI_FORK_LOCKS,      /* the locks of layers and bases, newest first; see lock.h */
    TIDEI_FORK_SINK,       /* the message sink */
    TIDEI_FORK_THREAD,     /* no lock: the cached thread id */
    TIDEI_FORK_BARRIER,    /* no lock: membarrier */
    TIDEI_FORK_BRIDGE,     /* no lock: stacks that are the parent's; src/bridge/uses.c */
    TIDEI_FORK_BUDGETS,    /* no lock: slots in shared budgets that are the parent's; adaptors/limit/shared.c */
    TIDEI_FORK_PLACES
};

/* Block all signals of this thread but SIGBUS: a fault that is blocked ends the process. *before is the mask before. */
void tidei_signals_block(sigset_t *before);

/* A function may be NULL. */
struct tidei_fork_hook {
    void (*prepare)(void);
    void (*parent)(void);
    void (*child)(void);
};

/*
 * Install the hook of a place; call this before the first use of the hook's lock. Once the hook is installed, a call
 * costs one load. The caller holds no lock of the library, since the first call waits for a fork() of another thread.
 * If pthread_atfork() finds no memory when the library is loaded, the next call for any place tries again.
 */
void tidei_fork_hook_set(enum tidei_fork_place place, const struct tidei_fork_hook *hook);

/* The number of forks from the original process to this one. */
uint32_t tidei_fork_generation(void);

#endif
