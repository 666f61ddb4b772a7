/*
 * Takes the call stack of a Python program: the frames of CPython's interpreter on the calling thread.
 *
 * Nothing is built against Python, and no Python function is run to take a stack. The interpreter's frames are read
 * where they lie in memory, by offsets that each minor version has and keeps (3.9 to 3.13). This works where the thread
 * has released the GIL, too, as PyTorch does around most of its operations: a thread's frames stand still while it is
 * in a call of C, and they hold their code objects. Before that is trusted, a small Python program is run, once in a
 * process, and its frames as they are read are compared with those that Python itself reports.
 *
 * What a frame stands for is looked up once for each code object and instruction, and found again by both. A code
 * object may die, and another may be made at its address. From 3.12 on their numbers tell code objects apart. Before,
 * the library owns a reference to each of the first 16,384 that it sees, so that they live until the interpreter
 * ends, when the references are given back. A thread must hold the GIL to take one. A thread that does not has names
 * looked up at each event, until the main thread takes references to the functions that it is in.
 *
 * Nothing of Python's runs within an allocation. Where the interpreter comes after the stack, the frames of the thread
 * that allocates are checked as they lie in memory, without that program.
 *
 * Progress: lock-free where all frames are known, else it takes the lock of call stacks. No thread waits for the GIL
 * but in tidei_python_begin.
 */
#ifndef TIDEI_CONTEXT_PYTHON_H
#define TIDEI_CONTEXT_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/callstack.h>

struct tidei_python_walk {
    unsigned count;                       /* frames, innermost first */
    uint64_t frames[TIDE_CALLSTACK_MOST]; /* see tidei_source_frame */
    bool is_entry[TIDE_CALLSTACK_MOST];   /* the outermost of those that one call of the evaluation loop runs */
};

/*
 * Find the interpreter and prepare it, if there is one by now. May take the GIL and run a small program. The caller
 * holds no lock.
 */
void tidei_python_begin(void);

/* Whether the thread is within an allocation: there tidei_python_begin does neither. Returns what it was before. */
bool tidei_python_within(bool within);

/*
 * The innermost `depth` frames of the calling thread. None where it runs no Python code, in an interpreter other than
 * the main one, or where there is no Python that is known. The latter is said to the message sink once.
 */
void tidei_python_walk(unsigned depth, struct tidei_python_walk *walk);

/* Whether tidei_python_walk finds frames by now. */
bool tidei_python_is_ready(void);

/* Whether an address lies in the evaluation loop, or elsewhere in a file of the interpreter's own. */
enum tidei_python_code { TIDEI_PYTHON_ELSEWHERE, TIDEI_PYTHON_INSIDE, TIDEI_PYTHON_LOOP };
enum tidei_python_code tidei_python_code_of(uint64_t address);

/* In a child of fork(): the other threads are gone. */
void tidei_python_forked(void);

#endif
