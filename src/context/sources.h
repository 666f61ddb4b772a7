/*
 * The lines of source that frames of an interpreter stand at, each kept once for the life of the process: a function,
 * a file and a line. They have numbers, which stand for them among the addresses of a call stack. And the lock of all
 * that call stacks are made of. A new line is recorded into the traces of this process before its number is first
 * used.
 */
#ifndef TIDEI_CONTEXT_SOURCES_H
#define TIDEI_CONTEXT_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/context/listener.h"

/* The most bytes of a function's or a file's name; longer ones are cut. */
#define TIDEI_SOURCE_NAME 1023

struct tidei_source {
    uint32_t number; /* from 1 */
    uint32_t line;   /* 0: not known */
    char *function;  /* owned; UTF-8 */
    char *file;      /* owned; UTF-8 */
};

/*
 * The lock of lines, modules and call stacks. It is held around fork(), and while a forked process begins its own
 * trace. Taken before the lock of tidei_sessions.
 */
void tidei_callstack_lock(void);
void tidei_callstack_unlock(void);

/* The number of a line, which is added if it is new; 0 without host memory. The lock is held. */
uint32_t tidei_source_find_locked(const char *function, const char *file, uint32_t line);

/* Copy the line that a frame stands for, whose texts are valid for the life of the process. False: it is an address. */
bool tidei_source_get(uint64_t frame, struct tidei_source *out);

/* Call `listener` for every line so far. The lock is held. */
void tidei_sources_notify_locked(const struct tidei_context_listener *listener, void *context);

/*
 * A line as a frame of a call stack: its number, negated. No code lies at such an address. The page of system calls
 * that old kernels have there calls nothing.
 */
static inline uint64_t
tidei_source_frame(uint32_t number)
{
    return -(uint64_t)number;
}

#endif
