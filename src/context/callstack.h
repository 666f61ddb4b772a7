/*
 * The call stacks of this process. Each distinct stack is stored once and has a number.
 *
 * Capturing a stack costs a walk by frame pointers, a hash, and a lookup without a lock. The first capture of a stack
 * costs more: with TIDE_UNWIND_AUTO the unwinder (DWARF) walks it, too. Whether a frame pointer is valid depends only
 * on the call site, since the compiler has decided it there. So if both walks agree on a stack, its frame pointers are
 * trusted from then on. If they differ, the site at which they diverge is remembered, and every stack through that site
 * is walked by the unwinder. A new stack is recorded into the traces of this process before its number is first used.
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
#include "src/context/sources.h"

/* Bits. A walk that reaches the end has trusted one frame pointer more than a walk cut off after as many frames. */
enum tidei_callstack_check {
    TIDEI_CALLSTACK_UNCHECKED = 0,
    TIDEI_CALLSTACK_CUT = 1,
    TIDEI_CALLSTACK_ENDED = 2,
};

struct tidei_callstack {
    uint64_t hash;
    _Atomic uint32_t checked; /* enum tidei_callstack_check: which walks by frame pointers are trusted */
    uint32_t id;              /* from 1, in its list */
    uint32_t count;           /* of frames */
    uint64_t frames[];        /* return addresses, and lines of source: see sources.h */
};

/*
 * Check the options of a layer that captures call stacks, and prepare for tidei_callstack_here. *unwind says nothing
 * where `depth` is 0, and becomes auto. Errors: TIDE_EINVAL or TIDE_EUNSUPPORTED, with the error text set. Cheap; may
 * be repeated.
 */
enum tide_status tidei_callstack_options(const char *subject, uint32_t depth, enum tide_unwind *unwind);

/* Once the options are good, before the first call stack is taken: for those of Python it may take the GIL. */
void tidei_callstack_begin(uint32_t depth);

/* The words for enum tide_unwind in stack text; NULL-terminated. */
extern const char *const tidei_unwind_words[];

/* The words of which one may stand before the number of frames, as python:32, or in its place; and what they are. */
extern const char *const tidei_callstack_words[];
extern const unsigned tidei_callstack_bits[];

/* The two argument rows for stack text, for an options struct that has both fields. */
#define TIDEI_CALLSTACK_ARGUMENTS(options)                                                                             \
    TIDEI_ARGUMENT("callstack", COUNT, options, callstack_depth,                                                       \
                   "frames of a call stack, at most 128, or python, mixed, or such as python:32",                      \
                   .most = TIDE_CALLSTACK_MOST, .choices = tidei_callstack_words,                                      \
                   .choice_values = tidei_callstack_bits),                                                             \
        TIDEI_ARGUMENT("unwind", CHOICE, options, unwind, "auto, fp or dwarf", .choices = tidei_unwind_words)

/*
 * The number of the calling thread's call stack: its innermost frames outside of the library, as many and of what kind
 * as `depth` says (options.callstack_depth). 0 without a frame, without host memory, or if the table of distinct stacks
 * is full. Not for signal handlers. Lock-free if the stack was seen before.
 */
uint32_t tidei_callstack_here(unsigned depth, enum tide_unwind unwind);

/* The call stack of a number, valid for the life of the process; NULL if there is none. Takes a lock. */
const struct tidei_callstack *tidei_callstack_get(uint32_t id);

/* The innermost frame as text for a message, such as "train_step+0x1f"; "?" for 0. */
const char *tidei_callstack_brief(uint32_t id, char *buffer, size_t size);

/* Copy the module of an address, whose texts are valid for the life of the process. False if there is none. */
bool tidei_callstack_module(uint64_t address, struct tidei_module *out);

/* Resolves frames to names, and keeps the files of their modules open meanwhile. */
struct tidei_frames;

/* NULL without host memory. */
struct tidei_frames *tidei_frames_begin(void);
void tidei_frames_end(struct tidei_frames *frames);

/* Resolve a frame of a call stack; the texts are valid until the next call, or tidei_frames_end. */
void tidei_frames_find(struct tidei_frames *frames, uint64_t frame, struct tide_frame *out);

/*
 * Call `listener` for every module, every line of source and then every call stack so far; between the lock and the
 * unlock below.
 */
void tidei_callstacks_notify_locked(const struct tidei_context_listener *listener, void *context);

/* Have fork() take the lock of sources.h from now on. */
void tidei_callstack_handle_forks(void);

#endif
