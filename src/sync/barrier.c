/* Registers the process with membarrier(2), and calls it. */
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "src/sync/barrier.h"
#include "src/sync/fork.h"

/* Attempts for each barrier: the kernel may be short of memory for a moment. */
#define BARRIER_ATTEMPTS 3
/* The pause that replaces a barrier refused by the kernel. */
#define BARRIER_PAUSE_NS 2000000

/* All accesses are relaxed: the flag orders no other data. */
static _Atomic bool barrier_possible;

static void
barrier_register(void)
{
    bool possible = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;

    atomic_store_explicit(&barrier_possible, possible, memory_order_relaxed);
}

/* A child registers again: no manual promises that it inherits the registration. */
static const struct tidei_fork_hook barrier_fork_hook = { .child = barrier_register };

static void
barrier_begin(void)
{
    tidei_fork_hook_set(TIDEI_FORK_BARRIER, &barrier_fork_hook);
    barrier_register();
}

bool
tidei_barrier_possible(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, barrier_begin);
    return atomic_load_explicit(&barrier_possible, memory_order_relaxed);
}

bool
tidei_barrier_run(void)
{
    const struct timespec pause = { .tv_nsec = BARRIER_PAUSE_NS };

    for (int attempt = 0; attempt < BARRIER_ATTEMPTS; attempt++) {
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
            return true;
    }
    atomic_store_explicit(&barrier_possible, false, memory_order_relaxed);
    nanosleep(&pause, NULL);
    atomic_thread_fence(memory_order_seq_cst);
    return false;
}
