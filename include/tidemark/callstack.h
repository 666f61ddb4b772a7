/* Call stacks: how `track` and `log` take them, and how a program reads them. */
#ifndef TIDEMARK_CALLSTACK_H
#define TIDEMARK_CALLSTACK_H

#include <tidemark/sized.h>
#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most frames of a call stack that `track` and `log` take. */
#define TIDE_CALLSTACK_MOST 128

/*
 * Kinds of frames, for the option callstack_depth of `track` and `log`. A number of frames alone takes frames of native
 * code. TIDE_CALLSTACK_PYTHON + 32 takes up to 32 frames of a Python program. TIDE_CALLSTACK_MIXED + 32 takes native
 * frames, in which the Python frames replace those of the interpreter. Without a number, each takes all frames up to
 * TIDE_CALLSTACK_MOST.
 *
 * Both need CPython 3.9 to 3.13 in the process. A thread that runs no Python code has no frames of Python.
 */
#define TIDE_CALLSTACK_PYTHON 0x10000u
#define TIDE_CALLSTACK_MIXED  0x20000u

/* How the native frames of a call stack are found. */
enum tide_unwind {
    TIDE_UNWIND_AUTO = 0,  /* by frame pointers where the unwinder has once found the same frames, else the unwinder */
    TIDE_UNWIND_FP = 1,    /* only by frame pointers; frames of code compiled without them are missing or wrong */
    TIDE_UNWIND_DWARF = 2, /* only by the compiler's unwinder and its tables; takes microseconds for each stack */
};

/* One frame of a call stack. The texts are borrowed for the call, and "" where they are not known. */
struct tide_frame {
    size_t struct_size;   /* set by the library: see TIDE_HAS_FIELD */
    uint64_t address;     /* the return address; 0: a frame of Python */
    const char *module;   /* path of the program or library that the address lies in; "" with a frame of Python */
    uint64_t offset;      /* bytes from the begin of that module in memory to the address */
    const char *function; /* demangled */
    const char *file;     /* source file */
    uint32_t line;        /* line of the call in `file`; 0: not known */
    uint32_t reserved;    /* 0 */
};

/* Called for each frame; `frame` is borrowed for the call. No lock is held: it may call any function of the library. */
typedef void (*tide_frame_function)(void *context, const struct tide_frame *frame);

/*
 * Call `function` for each frame of the call stack number `callstack` of this process. The innermost frame, which
 * called Tidemark, comes first.
 *
 * Function, file and line come from libdw (elfutils), which is loaded by the first call if it is installed. Without it
 * the function comes from the symbol table of the module's file; `file` is "" and `line` is 0. Nothing is fetched from
 * a network, whatever DEBUGINFOD_URLS says.
 *
 * Errors: TIDE_EINVAL (NULL; no call stack has that number; 0 is never one), TIDE_ENOMEM.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_callstack_frames(uint32_t callstack, tide_frame_function function, void *context);

/*
 * The number of the calling thread's Python call stack, without its `skip` innermost frames. 0: the thread runs no
 * Python code, or no layer records Python call stacks.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT uint32_t tide_callstack_python(uint32_t skip);

/*
 * Lend the calling thread a Python call stack: what the thread allocates while it runs no Python code of its own is
 * noted under `callstack`, a number that tide_callstack_python returned on any thread. 0 ends this. It is for threads
 * that do work which a program requested earlier, such as those on which PyTorch runs a backward. Layers that take
 * mixed call stacks ignore it.
 *
 * Errors: TIDE_EINVAL (no call stack has that number), TIDE_ENOMEM. On failure nothing has changed.
 * Thread safety: any thread; each has its own. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_callstack_lend(uint32_t callstack);

#ifdef __cplusplus
}
#endif
#endif
