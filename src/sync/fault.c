/* The table of mapped ranges, and the handler for SIGBUS that puts private memory under their faults. */
#include "config.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/sync/fault.h"
#include "src/sync/testpoint.h"

/* A range. The slot is free while `begin` is 0, and being filled while it is 1. */
struct fault_range {
    _Atomic uintptr_t begin;
    uintptr_t end;
    uint64_t offset;
    struct tidei_fault_owner *owner; /* borrowed */
};

/* Blocks are added to the list and stay: as many as there were ranges at once. */
#define FAULT_BLOCK 256

struct fault_block {
    struct fault_range ranges[FAULT_BLOCK];
    _Atomic(struct fault_block *) next;
};

static struct fault_block fault_first;

/* A call of the program's action: how often this handler can be put before a new handler of the program. */
#define FAULT_LEVELS 8

static const struct sigaction fault_default = { .sa_handler = SIG_DFL };

/*
 * Each installation is a function of its own, which calls the action that was there when it was installed. So a handler
 * of the program that calls the one before it, which may be ours, comes to its end.
 */
static struct sigaction fault_actions[FAULT_LEVELS][2];
static _Atomic(const struct sigaction *) fault_before[FAULT_LEVELS];
static unsigned fault_levels; /* guarded by fault_installing */

/* Locks that are held for a few system calls: the process that holds it and 1; 0: free. See fault_lock. */
static _Atomic uint64_t fault_installing;
static _Atomic uint64_t fault_patching;

/*
 * A child of fork() may find the lock held by a thread that it does not have: it takes it, since the process is
 * another. Only for the handler and for what is tried again later.
 */
static bool
fault_try_lock(_Atomic uint64_t *lock)
{
    uint64_t mine = (uint64_t)getpid() << 1 | 1;
    uint64_t held = 0;

    if (atomic_compare_exchange_strong_explicit(lock, &held, mine, memory_order_acquire, memory_order_relaxed))
        return true;
    return held != mine &&
           atomic_compare_exchange_strong_explicit(lock, &held, mine, memory_order_acquire, memory_order_relaxed);
}

static void
fault_unlock(_Atomic uint64_t *lock)
{
    atomic_store_explicit(lock, 0, memory_order_release);
}

/* Call `function` for each range until it returns true. */
static bool
fault_each(bool (*function)(struct fault_range *range, uintptr_t begin, void *context), void *context)
{
    /* The acquires pair with the releases in tidei_fault_add. */
    for (struct fault_block *block = &fault_first; block != NULL;
         block = atomic_load_explicit(&block->next, memory_order_acquire)) {
        for (size_t i = 0; i < FAULT_BLOCK; i++) {
            uintptr_t begin = atomic_load_explicit(&block->ranges[i].begin, memory_order_acquire);

            if (begin > 1 && function(&block->ranges[i], begin, context))
                return true;
        }
    }
    return false;
}

/* Whether the memory can be written: the kernel adds 0 to a word of it, and returns an error where that faults. */
static bool
fault_is_writable(uintptr_t address)
{
    static uint32_t nobody;

    return syscall(SYS_futex, &nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, address & ~(uintptr_t)3,
                   FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) >= 0;
}

/*
 * Private memory full of zeros, at `address` if that is not 0; MAP_FAILED if there is none. Not by mmap(), which
 * ThreadSanitizer takes for a write into all of it.
 */
static void *
fault_zeros(uintptr_t address, size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (address != 0 ? MAP_FIXED : 0);

    return (void *)syscall(SYS_mmap, address, bytes, PROT_READ | PROT_WRITE, flags, -1, 0L);
}

/* Replace [begin, end) by zeros, in one step. */
static bool
fault_clear(uintptr_t begin, uintptr_t end)
{
    return fault_zeros(begin, end - begin) != MAP_FAILED;
}

/*
 * Replace one page by private memory with what the file has there, in one step. Where the file ends before, all that
 * follows in the range is gone, too, and becomes zeros. Returns the new state of the owner; NONE: no memory.
 */
static enum tidei_fault_state
fault_replace_page(const struct fault_range *range, uintptr_t begin, uintptr_t page, size_t bytes)
{
    int file = range->owner->file != NULL && tidei_file_id_is(range->owner->id, *range->owner->file)
                   ? *range->owner->file
                   : -1;
    void *fresh;
    long got;

    fresh = fault_zeros(0, bytes);
    if (fresh == MAP_FAILED)
        return TIDEI_FAULT_NONE;
    /* Not pread(), where a thread may be cancelled. */
    got = file >= 0 ? syscall(SYS_pread64, file, fresh, bytes, (long)(range->offset + (page - begin))) : -1;
    if (got >= 0 && got < (long)bytes) {
        syscall(SYS_munmap, fresh, bytes);
        return fault_clear(page, range->end) ? TIDEI_FAULT_LOST : TIDEI_FAULT_NONE;
    }
    if (syscall(SYS_mremap, fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, page) < 0) {
        syscall(SYS_munmap, fresh, bytes);
        return TIDEI_FAULT_NONE;
    }
    return got < 0 ? TIDEI_FAULT_LOST : TIDEI_FAULT_KEPT;
}

void
tidei_fault_tell(struct tidei_fault_owner *owner, enum tidei_fault_state state)
{
    int before = atomic_load_explicit(&owner->state, memory_order_relaxed);

    /* Release: pairs with the acquire in tidei_fault_state. */
    while (before < (int)state && !atomic_compare_exchange_weak_explicit(&owner->state, &before, (int)state,
                                                                         memory_order_release, memory_order_relaxed))
        ;
    if (before < (int)state && owner->found != NULL)
        owner->found(owner);
}

/* A fault, and what became of it. */
struct fault {
    uintptr_t address;
    size_t page_bytes;
    struct tidei_fault_owner *owner;
    uintptr_t begin; /* of one of its ranges */
    bool survived;
};

/* Tell each owner of memory that begins at fault->begin: connections of one process share the mapping of an index. */
static bool
fault_tell_sharer(struct fault_range *range, uintptr_t begin, void *context)
{
    if (begin == ((struct fault *)context)->begin)
        tidei_fault_tell(range->owner, TIDEI_FAULT_LOST);
    return false;
}

static bool
fault_tell_owned(struct fault_range *range, uintptr_t begin, void *context)
{
    struct fault *fault = context;

    if (range->owner == fault->owner) {
        fault->begin = begin;
        fault_each(fault_tell_sharer, fault);
    }
    return false;
}

static bool
fault_clear_owned(struct fault_range *range, uintptr_t begin, void *context)
{
    struct fault *fault = context;

    if (range->owner == fault->owner)
        fault->survived = fault_clear(begin, range->end) && fault->survived;
    return false;
}

static bool
fault_find(struct fault_range *range, uintptr_t begin, void *context)
{
    struct fault *fault = context;
    uintptr_t page = fault->address / fault->page_bytes * fault->page_bytes;
    enum tidei_fault_state state;

    if (fault->address < begin || fault->address >= range->end)
        return false;
    fault->owner = range->owner;
    fault->survived = true;
    /* Another thread may have put memory there since, or the disk has room again. */
    if (TIDEI_TEST_LIMIT(fault, 0) == 0 && fault_is_writable(fault->address))
        return true;
    if (range->owner->whole) {
        /* First told, so that no other thread takes the zeros for what was there. */
        fault_each(fault_tell_owned, fault);
        fault_each(fault_clear_owned, fault);
        return true;
    }
    state = fault_replace_page(range, begin, page < begin ? begin : page, fault->page_bytes);
    fault->survived = state != TIDEI_FAULT_NONE;
    tidei_fault_tell(range->owner, state);
    return true;
}

/* Put memory under a fault in one of the ranges; false if it lies in none, or there is no memory. */
static bool
fault_survive(uintptr_t address)
{
    struct fault fault = { .address = address, .page_bytes = (size_t)sysconf(_SC_PAGESIZE) };

    /* One at a time, since the second of two threads would discard what the first has written since. */
    while (!fault_try_lock(&fault_patching))
        sched_yield();
    fault_each(fault_find, &fault);
    fault_unlock(&fault_patching);
    return fault.survived;
}

/* Whether the signal is the fault of an instruction, which faults again if it is run again. */
static bool
fault_is_synchronous(const siginfo_t *info)
{
    return info->si_code == BUS_ADRALN || info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR ||
           info->si_code == BUS_MCEERR_AR;
}

/* Give the program's handler what the kernel would: with its signals blocked beside those that were. */
static void
fault_call(const struct sigaction *before, int number, siginfo_t *info, void *context)
{
    const ucontext_t *user = context;
    sigset_t mask = user->uc_sigmask;

    sigorset(&mask, &mask, &before->sa_mask);
    if ((before->sa_flags & SA_NODEFER) == 0)
        sigaddset(&mask, number);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if ((before->sa_flags & SA_SIGINFO) != 0)
        before->sa_sigaction(number, info, context);
    else
        before->sa_handler(number);
}

/* Do with the signal what would happen without this handler. */
static void
fault_pass(unsigned level, int number, siginfo_t *info, void *context)
{
    const struct sigaction *before = atomic_load_explicit(&fault_before[level], memory_order_acquire);
    bool synchronous = fault_is_synchronous(info);

    if ((before->sa_flags & SA_SIGINFO) != 0 || (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)) {
        if (((unsigned)before->sa_flags & SA_RESETHAND) != 0)
            atomic_store_explicit(&fault_before[level], &fault_default, memory_order_release);
        fault_call(before, number, info, context);
        return;
    }
    /* The kernel ends a process that ignores its own faults. */
    if (before->sa_handler == SIG_IGN && !synchronous)
        return;
    sigaction(number, &fault_default, NULL);
    if (!synchronous)
        syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), number, info);
}

static void
fault_handle(unsigned level, int number, siginfo_t *info, void *context)
{
    int saved = errno;

    if ((info->si_code != BUS_ADRERR && info->si_code != BUS_MCEERR_AR) || !fault_survive((uintptr_t)info->si_addr))
        fault_pass(level, number, info, context);
    errno = saved;
}

#define FAULT_HANDLER(level)                                                                                           \
    static void fault_handle_##level(int number, siginfo_t *info, void *context)                                       \
    {                                                                                                                  \
        fault_handle(level, number, info, context);                                                                    \
    }
FAULT_HANDLER(0)
FAULT_HANDLER(1)
FAULT_HANDLER(2)
FAULT_HANDLER(3)
FAULT_HANDLER(4)
FAULT_HANDLER(5)
FAULT_HANDLER(6)
FAULT_HANDLER(7)

static void (*const fault_handlers[FAULT_LEVELS])(int, siginfo_t *, void *) = {
    fault_handle_0, fault_handle_1, fault_handle_2, fault_handle_3,
    fault_handle_4, fault_handle_5, fault_handle_6, fault_handle_7,
};

static bool
fault_is_ours(const struct sigaction *action)
{
    for (unsigned i = 0; i < fault_levels; i++) {
        if ((action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == fault_handlers[i])
            return true;
    }
    return false;
}

/*
 * The program has installed a handler that it had installed before: what it has kept as the action before that may be
 * one of ours, which must not call it again.
 */
static void
fault_forget(const struct sigaction *action)
{
    for (unsigned i = 0; i < fault_levels; i++) {
        const struct sigaction *before = atomic_load_explicit(&fault_before[i], memory_order_relaxed);

        if (before->sa_handler == action->sa_handler)
            atomic_store_explicit(&fault_before[i],
                                  i == 0 ? &fault_default
                                         : atomic_load_explicit(&fault_before[i - 1], memory_order_relaxed),
                                  memory_order_release);
    }
}

/* Let the handler of a level call `action`, which it takes the place of. */
static void
fault_put_before(unsigned level, const struct sigaction *action)
{
    /* Two, since a handler on another thread may be reading the one that was put there first. */
    const struct sigaction *used = atomic_load_explicit(&fault_before[level], memory_order_relaxed);
    struct sigaction *room = &fault_actions[level][used == &fault_actions[level][0]];

    fault_forget(action);
    *room = *action;
    atomic_store_explicit(&fault_before[level], room, memory_order_release);
}

static bool
fault_is_same(const struct sigaction *one, const struct sigaction *other)
{
    return one->sa_handler == other->sa_handler && one->sa_flags == other->sa_flags;
}

/* Install the handler before the action that is there. A program that keeps installing others has the last word. */
static void
fault_install(void)
{
    struct sigaction mine = { .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART }, present, replaced;
    unsigned level = fault_levels;

    if (sigaction(SIGBUS, NULL, &present) != 0 || fault_is_ours(&present) || level == FAULT_LEVELS)
        return;
    fault_put_before(level, &present);
    fault_levels = level + 1;
    TIDEI_TEST_POINT("fault.before-install");
    /* No other handler of this thread runs while memory is put under a fault. */
    sigfillset(&mine.sa_mask);
    mine.sa_sigaction = fault_handlers[level];
    if (sigaction(SIGBUS, &mine, &replaced) == 0 && !fault_is_same(&replaced, &present))
        fault_put_before(level, &replaced); /* the program has installed it just now */
}

/* Wait for another thread that installs the handler, if there is to be one when this returns. */
static void
fault_install_locked(bool wait)
{
    while (!fault_try_lock(&fault_installing)) {
        if (!wait)
            return;
        sched_yield();
    }
    if (wait || fault_levels != 0)
        fault_install();
    fault_unlock(&fault_installing);
}

void
tidei_fault_look(void)
{
    fault_install_locked(false);
}

/* Take a free slot of the block; NULL if it has none. */
static struct fault_range *
fault_take(struct fault_block *block)
{
    for (size_t i = 0; i < FAULT_BLOCK; i++) {
        uintptr_t none = 0;

        if (atomic_load_explicit(&block->ranges[i].begin, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&block->ranges[i].begin, &none, 1, memory_order_acquire,
                                                    memory_order_relaxed))
            return &block->ranges[i];
    }
    return NULL;
}

/* The block behind this one; NULL without host memory. */
static struct fault_block *
fault_next(struct fault_block *block)
{
    struct fault_block *next = atomic_load_explicit(&block->next, memory_order_acquire);
    struct fault_block *fresh;

    if (next != NULL)
        return next;
    fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(&block->next, &next, fresh, memory_order_release, memory_order_acquire))
        return fresh;
    free(fresh); /* another thread was first */
    return next;
}

bool
tidei_fault_add(struct tidei_fault_owner *owner, const void *begin, size_t bytes, uint64_t offset)
{
    struct fault_block *block = &fault_first;
    struct fault_range *range;

    fault_install_locked(true);
    while ((range = fault_take(block)) == NULL) {
        block = fault_next(block);
        if (block == NULL)
            return false;
    }
    range->end = (uintptr_t)begin + bytes;
    range->offset = offset;
    range->owner = owner;
    /* Pairs with the acquire in fault_each. */
    atomic_store_explicit(&range->begin, (uintptr_t)begin, memory_order_release);
    return true;
}

/* A range that is sought. */
struct fault_sought {
    const struct tidei_fault_owner *owner;
    uintptr_t begin; /* 0: each one */
    bool remove;
};

static bool
fault_is_sought(struct fault_range *range, uintptr_t begin, void *context)
{
    const struct fault_sought *sought = context;

    if (range->owner != sought->owner || (sought->begin != 0 && sought->begin != begin))
        return false;
    if (sought->remove)
        atomic_store_explicit(&range->begin, 0, memory_order_release);
    return sought->begin != 0;
}

void
tidei_fault_remove(struct tidei_fault_owner *owner, const void *begin)
{
    fault_each(fault_is_sought, &(struct fault_sought){ owner, (uintptr_t)begin, true });
}

bool
tidei_fault_has(const struct tidei_fault_owner *owner, const void *begin)
{
    return fault_each(fault_is_sought, &(struct fault_sought){ owner, (uintptr_t)begin, false });
}
