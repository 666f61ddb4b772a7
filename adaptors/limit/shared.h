/*
 * An exact account of bytes that several processes of a machine share, in a file that they map (/dev/shm).
 *
 * Each process has a slot in the file, and in it some lanes; a thread uses the lane of its number. A lane has what was
 * granted to it, and a lease: what of that may still be allocated. The sum of all grants stays at or below the bound.
 * While a thread allocates no more than its lane's lease, that cannot change, and one atomic step on the lease is all.
 * What a thread frees goes to its lane's lease. Else it takes the lock of the file:
 *  - It gets what it needs from what is not granted yet, and some more for later requests.
 *  - If that is too little, the slots of processes that have died are emptied.
 *  - If that is too little, all lanes of all processes are closed, so that nothing changes anywhere, and all leases are
 *    taken back. Now the grants are what is outstanding. Only then a request is refused. No other process has to run
 *    for this: the lanes lie in the file.
 *
 * A process may be killed at any instruction. The sum is never stored, only the grants are, and each of them is one
 * word. The locks are the kernel's, on open file descriptions: one byte for the file, one for each slot. They end with
 * their process, so that no dead process keeps the lock of the file, and a slot whose byte nobody has locked is that of
 * a dead process, also where process ids mean nothing to each other, as in containers that share the file. Two things
 * take several steps in the slots of others, and the next holder of the lock completes them: `closing` says that lanes
 * may be closed, and `taking` of which lane a lease is just taken back, and what its grant is then.
 *
 * Progress: lock-free within the lease, else blocking. A process that is stopped while it has the lock of the file
 * holds up those that need it.
 */
#ifndef LIMIT_SHARED_H
#define LIMIT_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "src/sync/lock.h"
#include "src/sync/thread.h"
#include "src/trace/ring/claim.h"

#define TIDEI_LIMIT_LANES  8
#define TIDEI_LIMIT_CLOSED ((uint64_t)1 << 63) /* in a lease: it may not be changed without the lock */

struct tidei_limit_lane {
    _Alignas(64) _Atomic uint64_t lease; /* changed by the threads of its process; CLOSED by the holder of the lock */
    _Atomic uint64_t granted;            /* changed by the holder of the lock; only the sum over lanes has a meaning */
};

struct tidei_limit_file;

struct tidei_limit_shared {
    struct tidei_limit_lane *_Atomic lanes; /* of this process; in a child of fork() closed ones, until it has a slot */
    uint64_t limit_bytes;
    char *name, *path;      /* owned */
    struct tidei_lock lock; /* taken before that of the file, whose holder is a process; guards what follows */
    struct tidei_limit_file *file;
    struct tidei_claim *claim; /* owned; the locks on the file */
    uint32_t slot;             /* of this process */
    bool is_orphan;            /* in a child of fork(): it has no slot yet, and `file` and `claim` are the parent's */
    uint64_t inherited_bytes;  /* in a child of fork(): blocks of the parent, which it may free */
    uint64_t forked_bytes;     /* that a child would inherit */
    struct tidei_limit_shared *next; /* in the list of this process */
};

/* What the processes have, when a request was refused or somebody asks. */
struct tidei_limit_shared_figures {
    uint64_t used_bytes; /* of all processes */
    uint64_t own_bytes;  /* of this one */
    uint32_t processes;  /* this one included; 0: they are not known, because of `failure` */
    enum tide_status failure;
};

/*
 * Attach to the budget called `name`: a word for a file in /dev/shm, or the path of a file from '/' on. On failure *out
 * is NULL and the error text is set: TIDE_EINVAL (the name; another bound; another user's), TIDE_EIO, TIDE_EFORMAT,
 * TIDE_ENOMEM, TIDE_EBUSY (no slot is left), TIDE_EUNSUPPORTED (a file system without such locks).
 */
enum tide_status tidei_limit_shared_attach(const char *name, uint64_t limit_bytes, struct tidei_limit_shared **out);
/* Give back all that is outstanding. The last process removes the file. */
void tidei_limit_shared_detach(struct tidei_limit_shared *shared);

void tidei_limit_shared_read(struct tidei_limit_shared *shared, struct tidei_limit_shared_figures *out);

/* The slow paths of the functions below. A refusal of 0 processes has the error text set. */
bool tidei_limit_shared_ask_add(struct tidei_limit_shared *shared, uint64_t bytes,
                                struct tidei_limit_shared_figures *refusal);
void tidei_limit_shared_ask_take_off(struct tidei_limit_shared *shared, uint64_t bytes);

static inline struct tidei_limit_lane *
tidei_limit_shared_lane(struct tidei_limit_shared *shared)
{
    /* Relaxed: only a child of fork() changes it, while it has one thread. */
    return &atomic_load_explicit(&shared->lanes, memory_order_relaxed)[tidei_thread->number % TIDEI_LIMIT_LANES];
}

/*
 * Take `bytes`, at most the bound, out of the lease; false if they are not there. Relaxed: the lease is all that the
 * threads share; memory is handed over by those who allocate and free.
 */
static inline bool
tidei_limit_shared_use(struct tidei_limit_lane *lane, uint64_t bytes)
{
    uint64_t lease = atomic_load_explicit(&lane->lease, memory_order_relaxed);

    while ((int64_t)lease >= (int64_t)bytes) { /* a closed one is negative */
        if (atomic_compare_exchange_weak_explicit(&lane->lease, &lease, lease - bytes, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

/* Add an allocation of `bytes`. False: it is refused, and *refusal has the reason. */
static inline bool
tidei_limit_shared_add(struct tidei_limit_shared *shared, uint64_t bytes, struct tidei_limit_shared_figures *refusal)
{
    return __builtin_expect(tidei_limit_shared_use(tidei_limit_shared_lane(shared), bytes), 1) ||
           tidei_limit_shared_ask_add(shared, bytes, refusal);
}

/* Take an allocation of `bytes` off. */
static inline void
tidei_limit_shared_take_off(struct tidei_limit_shared *shared, uint64_t bytes)
{
    struct tidei_limit_lane *lane = tidei_limit_shared_lane(shared);
    uint64_t lease = atomic_load_explicit(&lane->lease, memory_order_relaxed);

    while ((int64_t)lease >= 0) {
        if (atomic_compare_exchange_weak_explicit(&lane->lease, &lease, lease + bytes, memory_order_relaxed,
                                                  memory_order_relaxed))
            return;
    }
    tidei_limit_shared_ask_take_off(shared, bytes);
}

#endif
