/* Call stacks: how they are taken, and what is known of their frames. */
#ifndef TIDEMARK_CALLSTACK_H
#define TIDEMARK_CALLSTACK_H

#include <tidemark/sized.h>
#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most frames of a call stack that `track` and `log` take. */
#define TIDE_CALLSTACK_MOST 128

/* How a call stack is walked. */
enum tide_unwind {
    TIDE_UNWIND_AUTO = 0,  /* frame pointers, wherever the unwinder has found the same once; else the unwinder */
    TIDE_UNWIND_FP = 1,    /* frame pointers alone: frames of code that keeps none are missing, or wrong */
    TIDE_UNWIND_DWARF = 2, /* the compiler's unwinder, from tables that every ELF file has: microseconds each time */
};

/* One frame of a call stack. The texts are borrowed for the call, and "" where nothing is known. */
struct tide_frame {
    size_t struct_size;   /* set by the library: see TIDE_HAS_FIELD */
    uint64_t address;     /* to which the call returns */
    const char *module;   /* the path of the program or library */
    uint64_t offset;      /* of the address from the begin of that in memory */
    const char *function; /* demangled */
    const char *file;
    uint32_t line;     /* of the call; 0: not known */
    uint32_t reserved; /* 0 */
};

typedef void (*tide_frame_function)(void *context, const struct tide_frame *frame);

/*
 * Call `function` for each frame of a call stack of this process, the innermost first: the one that called Tidemark.
 * Function, file and line come from libdw (elfutils), which is loaded at the first call where it is installed. Without
 * it `function` comes from the symbol table of the module's file; `file` is "" and `line` is 0. Nothing is fetched from
 * a network, whatever DEBUGINFOD_URLS says. No lock is held meanwhile: the callback may call any function.
 *
 * Errors: TIDE_EINVAL (NULL, no such call stack; 0 is none), TIDE_ENOMEM. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_callstack_frames(uint32_t callstack, tide_frame_function function, void *context);

#ifdef __cplusplus
}
#endif
#endif
