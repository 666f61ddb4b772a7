/*
 * Walks the calling thread's stack, by frame pointers or with the compiler's unwinder. Takes no lock of ours.
 *
 * Both ways leave out the library's own frames at the inner end, and those in which the C library starts programs and
 * threads at the outer one, so that where the code keeps frame pointers both find the same.
 */
#ifndef TIDEI_CONTEXT_WALK_H
#define TIDEI_CONTEXT_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/callstack.h>

/* Where code has frame pointers, they can be walked: [fp] is the caller's, [fp + 8] the address it returns to. */
#if defined(__x86_64__) || defined(__aarch64__)
#define TIDEI_WALK_HAS_FP 1
#else
#define TIDEI_WALK_HAS_FP 0
#endif

struct tidei_walk {
    unsigned count;     /* frames, the innermost first */
    unsigned raw_count; /* the same with the C library's at the end */
    bool stopped;       /* by frame pointers: at a site where they are known to lead astray */
    bool off_stack;     /* by frame pointers: not on the thread's own stack, as in a coroutine */
    bool ended;         /* by the unwinder: there are no more, or none that it knows */
    uint64_t last_own;  /* the outermost address of the library's own frames at the inner end */
    uint64_t frames[TIDE_CALLSTACK_MOST];
};

/*
 * Addresses of calls after which the frame pointer is not the caller's, as the unwinder has shown. Set once each, and
 * never taken back; a Bloom filter, as what is falsely taken for one costs time only.
 */
#define TIDEI_WALK_SITE_BITS 13

/* Learn where programs and threads start and where the library itself lies; once, before anything else. */
void tidei_walk_begin(void);

/* The caller's stack, from `frame` (__builtin_frame_address(0) there) on; `learned`: stop at such sites. */
void tidei_walk_fp(const void *frame, unsigned depth, bool learned, struct tidei_walk *walk);

/* The same with the unwinder, from the frame that returns to `from` on. Allocates nothing. */
void tidei_walk_dwarf(uint64_t from, unsigned depth, struct tidei_walk *walk);

/* From now on the walk by frame pointers stops at this site: for the unwinder to go on, or as it is the last one. */
void tidei_walk_learn_stray(uint64_t address);
void tidei_walk_learn_end(uint64_t address);

#endif
