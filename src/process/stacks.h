/*
 * The stacks of the account: one for each device and each kind of memory, made from the same text when the first block
 * of its kind is allocated. They stay for ever, but for those with a base of their own: each context has one of them,
 * which ends with it.
 */
#ifndef TIDEI_PROCESS_STACKS_H
#define TIDEI_PROCESS_STACKS_H

#include <stdbool.h>

#include <tidemark/process.h>

#include "src/process/base.h"
#include "src/cuda/driver-table.h"
#include "src/sync/presence.h"

struct tidei_process_stack {
    struct tide_resource *top;  /* holds a reference */
    struct tide_resource *base; /* borrowed: its base `process`; NULL: memory comes from the text's own base */
    enum tidei_process_kind kind;
    int device;
    CUcontext context;                          /* NULL where `base` is not: that of all its blocks */
    _Atomic(struct tidei_process_stack *) next; /* of another context; guarded by the lock of contexts */
    struct tidei_process_stack *before, *after; /* the same: other contexts' of the device; NULL: none */
};

/* The calls that may be within a stack which ends with its context. Begun by tidei_process_account_start. */
extern struct tidei_presence tidei_process_calls;

/* Keep what the program's user wants, checked. Errors: those of tide_process_start. */
enum tide_status tidei_process_stacks_start(const struct tide_process_options *options);

/* Undo tidei_process_stacks_start, of which nothing was used. */
void tidei_process_stacks_forget(void);

/* The slow path of tidei_process_stack: make it. NULL: it cannot be made, which the message sink was told once. */
struct tidei_process_stack *tidei_process_stack_make(int device, enum tidei_process_kind kind);

/*
 * The stack with a base of its own of a context, for plain memory; NULL as above. After tidei_process_enter, and until
 * tidei_process_leave.
 */
struct tidei_process_stack *tidei_process_stack_own(int device, CUcontext context, struct tidei_presence_slot *slot);

/* Of plain memory with a base of its own: some context's stack. */
extern _Atomic(struct tidei_process_stack *) tidei_process_stacks[][TIDEI_PROCESS_KINDS];

/* The stack of a device, below the number of devices, and a kind. */
static inline struct tidei_process_stack *
tidei_process_stack(int device, enum tidei_process_kind kind)
{
    /* Acquire: pairs with the release in tidei_process_stack_make. */
    struct tidei_process_stack *stack = atomic_load_explicit(&tidei_process_stacks[device][kind], memory_order_acquire);

    return __builtin_expect(stack != NULL, 1) ? stack : tidei_process_stack_make(device, kind);
}

/*
 * A context is about to end, in this thread: from here to `over`, which gets the same object of the caller's, no stack
 * is made for it, and none is being made. Threads that want one wait. This thread is within no call, and holds no lock.
 */
struct tidei_process_ending {
    struct tidei_process_ending *next;
    CUcontext context;
};
void tidei_process_stacks_ending(struct tidei_process_ending *ending, CUcontext context);
void tidei_process_stacks_over(struct tidei_process_ending *ending);

/*
 * A context ends. Take its own stack out of use; NULL: it has none. The caller has it then, and puts it back or, after
 * tidei_process_stack_wait, frees its blocks to it and ends it. The lock of contexts is held, here and for `put`.
 */
struct tidei_process_stack *tidei_process_stack_take(CUcontext context);
void tidei_process_stack_put(struct tidei_process_stack *stack);

/*
 * Wait until no call is within such a stack (NULL: none), nor looks for one; calls that have found another one are not
 * waited for. This thread is within no call, and holds no lock.
 */
void tidei_process_stack_wait(const struct tidei_process_stack *stack);

/*
 * Give all back that the stack has, and release it. While its context is there, that is current, and its work is done:
 * the work of others is waited for only by bases whose memory is not the context's own, `driver` and `vmm`.
 */
void tidei_process_stack_end(struct tidei_process_stack *stack);

/* The program got memory for which there is no stack: count it as lost in the trace of the account, if there is one. */
void tidei_process_passed_by(void);

/*
 * Whether memory of a kind is refused where its stack cannot be made: what a limit holds for is not had without one.
 */
bool tidei_process_refuses(enum tidei_process_kind kind);

/* Whether plain memory comes from the text's own base. */
bool tidei_process_redirects(void);

/* Embrace what uses a stack; a process without such stacks pays for none of it. */
static inline struct tidei_presence_slot *
tidei_process_enter(void)
{
    return tidei_process_redirects() ? tidei_presence_enter(&tidei_process_calls) : NULL;
}

static inline void
tidei_process_leave(struct tidei_presence_slot *slot)
{
    if (tidei_process_redirects())
        tidei_presence_leave(&tidei_process_calls, slot);
}

/* The call of this slot uses this stack from here on; NULL: it looks for one. */
static inline void
tidei_process_within(struct tidei_presence_slot *slot, const struct tidei_process_stack *stack)
{
    tidei_presence_within(slot, stack);
}

/* The call of this slot uses no stack from here on, and looks for none: no end of a context waits for it. */
static inline void
tidei_process_within_none(struct tidei_presence_slot *slot)
{
    tidei_presence_within(slot, &tidei_process_calls);
}

/* Whether a limit holds for the device, what it is, and how much of it is used now. */
bool tidei_process_limit(int device, uint64_t *limit_bytes, uint64_t *used_bytes);

#endif
