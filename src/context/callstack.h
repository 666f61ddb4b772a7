/*
 * The call stacks of this process, each once: what a thread takes where it allocates, as a number.
 *
 * To take one costs a walk by frame pointers, a hash and a look into a table that is read without a lock. The first
 * time that a stack is seen costs more: with TIDE_UNWIND_AUTO the unwinder walks it, too. Whether a frame pointer can
 * be believed depends on the call site alone, since the compiler has decided it there for good; so a stack on which
 * both agree is right ever after, and where they do not, the site at which they part is remembered, and every stack
 * that leads over it is the unwinder's. A stack is told to the traces of this process before its number is used for
 * the first time.
 */
#ifndef TIDEI_CONTEXT_CALLSTACK_H
#define TIDEI_CONTEXT_CALLSTACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/callstack.h>
#include <tidemark/status.h>

#include "src/context/listener.h"
#include "src/context/modules.h"

/* A walk that ends has believed one frame pointer more than one that is cut off after as many frames. A set of bits. */
enum tidei_callstack_check {
    TIDEI_CALLSTACK_UNCHECKED = 0,
    TIDEI_CALLSTACK_CUT = 1,
    TIDEI_CALLSTACK_ENDED = 2,
};

struct tidei_callstack {
    uint64_t hash;
    _Atomic uint32_t checked; /* enum tidei_callstack_check: how frame pointers may lead to it and be believed */
    uint32_t id;              /* from 1 */
    uint32_t count;           /* of frames */
    uint64_t frames[];
};

/*
 * The options of a layer that takes call stacks: TIDE_EINVAL, with the error text set, or it may call
 * tidei_callstack_here where `depth` is not 0. Cheap, and may be called again.
 */
enum tide_status tidei_callstack_options(const char *subject, uint32_t depth, enum tide_unwind unwind);

/* The words for enum tide_unwind in stack text; ends in NULL. */
extern const char *const tidei_unwind_words[];

/* The two arguments in stack text, of an options struct that has both fields. */
/* clang-format off */
#define TIDEI_CALLSTACK_ARGUMENTS(options)                                                                             \
    { .key = "callstack",                                                                                              \
      .type = TIDEI_ARGUMENT_COUNT,                                                                                    \
      .most = TIDE_CALLSTACK_MOST,                                                                                     \
      .expected = "frames of a call stack, at most 128",                                                               \
      TIDEI_FIELD(options, callstack_depth) },                                                                         \
    { .key = "unwind",                                                                                                 \
      .type = TIDEI_ARGUMENT_CHOICE,                                                                                   \
      .choices = tidei_unwind_words,                                                                                   \
      .expected = "auto, fp or dwarf",                                                                                 \
      TIDEI_FIELD(options, unwind) }
/* clang-format on */

/*
 * The number of the calling thread's call stack, its innermost `depth` frames outside of the library; 0 where there is
 * none: no frame, no host memory, or more different ones than are kept. Not from a signal handler. Lock-free where the
 * stack was seen before.
 */
uint32_t tidei_callstack_here(unsigned depth, enum tide_unwind unwind);

/* What a number means, for the life of the process; NULL where it means nothing. Takes a lock. */
const struct tidei_callstack *tidei_callstack_get(uint32_t id);

/* The innermost frame in a few words for a message, "train_step+0x1f"; "?" for 0. */
const char *tidei_callstack_brief(uint32_t id, char *buffer, size_t size);

/* The module of an address: a copy, with its own path and build id to be freed. False where there is none. */
bool tidei_callstack_module(uint64_t address, struct tidei_module *out);

/* Tell `listener` of every module, and then of every call stack so far; between the lock and the unlock below. */
void tidei_callstacks_tell_locked(const struct tidei_context_listener *listener, void *context);

/* Around fork(), and while a forked process begins a trace of its own. Older than the lock of tidei_sessions. */
void tidei_callstack_handle_forks(void); /* from now on fork() waits for the lock */
void tidei_callstack_lock(void);
void tidei_callstack_unlock(void);

#endif
