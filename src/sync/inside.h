/*
 * Which call of the library a thread is in, so that a call from a signal handler can tell that it has interrupted one.
 *
 * A call that takes locks, changes what a thread or a layer has, or calls what does (the heap, the driver) marks the
 * thread for as long as it lasts: tide_allocate and tide_deallocate by hand, unless the program brings the resource,
 * all others by TIDEI_INSIDE. A handler that runs on a marked thread must touch nothing of that: what it asks for is
 * refused or put off, see src/resource/interrupted.h. Between two calls a thread is not marked, and a handler may call
 * as everybody may.
 *
 * The words belong to their thread, its handlers included: a handler leaves `call` as it found it. So plain accesses
 * and compiler fences are enough; atomic ones would cost two more instructions in each call.
 */
#ifndef TIDEI_SYNC_INSIDE_H
#define TIDEI_SYNC_INSIDE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct tidei_inside {
    /* What the outermost call was given, a resource, or tidei_inside_library; NULL: the thread is in no call. */
    const void *call;
    struct tidei_deferred *deferred; /* frees that handlers have left for the end of the call; NULL: none */
};

/* Initial-exec: no call of __tls_get_addr. Not in the thread's object, which not every thread has. */
extern _Thread_local __attribute__((tls_model("initial-exec"))) struct tidei_inside tidei_inside;

/*
 * The same words by another name, for the end of a call. By one name the compiler would keep their offset in a register
 * over the call, and save that register: more than to load the offset again.
 */
extern _Thread_local __attribute__((tls_model("initial-exec"))) struct tidei_inside tidei_inside_again;

/* Marks a call that may not be interrupted by another one, whatever it was given. */
extern const char tidei_inside_library;

/* Works off `deferred`. NULL until a handler has left something. */
extern _Atomic(void (*)(void)) tidei_inside_ended;

static inline const void *
tidei_inside_call(void)
{
    return tidei_inside.call;
}

static inline void
tidei_inside_set(const void *call)
{
    /* A handler that sees no mark finds nothing half done, and one that the call could hurt finds the mark. */
    atomic_signal_fence(memory_order_seq_cst);
    tidei_inside.call = call;
    atomic_signal_fence(memory_order_seq_cst);
}

/* Whether handlers have left something. After the mark is gone: then none is added any more. */
static inline const struct tidei_deferred *
tidei_inside_deferred(void)
{
    return tidei_inside.deferred;
}

/* End an outermost call. Whether handlers have left something, as of when the mark is gone. */
static inline const struct tidei_deferred *
tidei_inside_leave(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    tidei_inside_again.call = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    return tidei_inside_again.deferred;
}

static inline const void *
tidei_inside_begin(const void *call)
{
    const void *before = tidei_inside_call();

    tidei_inside_set(call != NULL ? call : &tidei_inside_library);
    return before;
}

static inline void
tidei_inside_end(const void **before)
{
    tidei_inside_set(*before);
    /* Within another call, that one's end does it: it may hold a lock now. */
    if (__builtin_expect(*before == NULL && tidei_inside_deferred() != NULL, 0))
        atomic_load_explicit(&tidei_inside_ended, memory_order_relaxed)();
}

/* Mark the thread from here to the end of the block. `call` is a resource that outlives it, or NULL. */
#define TIDEI_INSIDE(call)                                                                                             \
    const void *inside_before_ __attribute__((cleanup(tidei_inside_end), unused)) = tidei_inside_begin(call)

/* Make a call of a function of the program: no lock is held, and it may call the library as from outside. */
#define TIDEI_OUTSIDE(statement)                                                                                       \
    do {                                                                                                               \
        const void *inside_ = tidei_inside_call();                                                                     \
        tidei_inside_set(NULL);                                                                                        \
        statement;                                                                                                     \
        tidei_inside_set(inside_);                                                                                     \
    } while (0)

#endif
