/*
 * Walks the calling thread's stack, by frame pointers or with the compiler's unwinder. Takes no lock of the library.
 *
 * Both walks leave out the library's own frames at the inner end, and at the outer end those in which the C library
 * starts programs and threads. So in code with frame pointers both find the same frames.
 */
#ifndef TIDEI_CONTEXT_WALK_H
#define TIDEI_CONTEXT_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/callstack.h>

/* The frame layout is known: [fp] is the caller's frame pointer, [fp + 8] the return address. */
#if defined(__x86_64__) || defined(__aarch64__)
#define TIDEI_WALK_HAS_FP 1
#else
#define TIDEI_WALK_HAS_FP 0
#endif

struct tidei_walk {
    unsigned count;     /* frames, innermost first */
    unsigned raw_count; /* the same, with the C library's frames at the end */
    bool stopped;       /* by frame pointers: stopped at a learned site */
    bool off_stack;     /* by frame pointers: not on the thread's own stack, as in a coroutine */
    bool ended;         /* by the unwinder: no more frames, or none that it can unwind */
    uint64_t last_own;  /* the outermost of the library's own frames at the inner end */
    uint64_t frames[TIDE_CALLSTACK_MOST];
};

/* Find out where programs and threads start and where the library is loaded. Call it once, before all other calls. */
void tidei_walk_begin(void);

/* Walk the caller's stack from `frame`, its __builtin_frame_address(0). With `learned`, stop at learned sites. */
void tidei_walk_fp(const void *frame, unsigned depth, bool learned, struct tidei_walk *walk);

/* The same with the unwinder, starting at the frame that returns to `from`. Allocates no memory. */
void tidei_walk_dwarf(uint64_t from, unsigned depth, struct tidei_walk *walk);

/* Learn a site at which walks by frame pointers stop: the unwinder must continue there, or it is the last frame. */
void tidei_walk_learn_stray(uint64_t address);
void tidei_walk_learn_end(uint64_t address);

#endif
