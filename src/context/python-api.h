/*
 * What the library uses of CPython: its functions, found at run time, and where the fields of its structs lie.
 *
 * Most of the functions run only while the interpreter is prepared. Those that a walk calls read objects that never
 * change, and need no GIL: PyCode_Addr2Line, PyUnicode_GetLength and PyUnicode_ReadChar.
 */
#ifndef TIDEI_CONTEXT_PYTHON_API_H
#define TIDEI_CONTEXT_PYTHON_API_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "src/sync/presence.h"

/* Python's PyMethodDef: a function that is made of C. */
struct tidei_python_method {
    const char *name;
    void *(*function)(void *self, void *arguments);
    int flags; /* 4: METH_NOARGS */
    const char *doc;
};

/* FUNCTION(returns, name, arguments). Objects are `void *`, as are thread states and interpreters. */
#define TIDEI_PYTHON_FUNCTIONS(FUNCTION)                                                                               \
    FUNCTION(int, Py_IsInitialized, (void))                                                                            \
    FUNCTION(const char *, Py_GetVersion, (void))                                                                      \
    FUNCTION(void *, PyGILState_GetThisThreadState, (void))                                                            \
    FUNCTION(int, PyGILState_Ensure, (void))                                                                           \
    FUNCTION(void, PyGILState_Release, (int))                                                                          \
    FUNCTION(void *, PyInterpreterState_Main, (void))                                                                  \
    FUNCTION(void *, PyInterpreterState_Head, (void))                                                                  \
    FUNCTION(void *, PyInterpreterState_Next, (void *))                                                                \
    FUNCTION(int, Py_AddPendingCall, (int (*)(void *), void *))                                                        \
    FUNCTION(int, Py_AtExit, (void (*)(void)))                                                                         \
    FUNCTION(int, PyCode_Addr2Line, (void *, int))                                                                     \
    FUNCTION(ssize_t, PyUnicode_GetLength, (void *))                                                                   \
    FUNCTION(uint32_t, PyUnicode_ReadChar, (void *, ssize_t))                                                          \
    FUNCTION(void, Py_IncRef, (void *))                                                                                \
    FUNCTION(void, Py_DecRef, (void *))                                                                                \
    FUNCTION(void, PyErr_Fetch, (void **, void **, void **))                                                           \
    FUNCTION(void, PyErr_Restore, (void *, void *, void *))                                                            \
    FUNCTION(void, PyErr_Clear, (void))                                                                                \
    FUNCTION(void *, PyEval_GetFrame, (void))                                                                          \
    FUNCTION(void *, PyEval_SaveThread, (void))                                                                        \
    FUNCTION(void, PyEval_RestoreThread, (void *))                                                                     \
    FUNCTION(void *, PyObject_GetAttrString, (void *, const char *))                                                   \
    FUNCTION(long, PyLong_AsLong, (void *))                                                                            \
    FUNCTION(void *, PyLong_FromLong, (long))                                                                          \
    FUNCTION(void *, PyCFunction_NewEx, (struct tidei_python_method *, void *, void *))                                \
    FUNCTION(void *, Py_CompileString, (const char *, const char *, int))                                              \
    FUNCTION(void *, PyEval_EvalCode, (void *, void *, void *))                                                        \
    FUNCTION(void *, PyDict_New, (void))                                                                               \
    FUNCTION(int, PyDict_SetItemString, (void *, const char *, void *))                                                \
    FUNCTION(void *, PyImport_ImportModule, (const char *))                                                            \
    FUNCTION(void *, PyObject_CallMethod, (void *, const char *, const char *, ...))

struct tidei_python_functions {
#define TIDEI_PYTHON_FIELD(returns, name, arguments) returns(*name) arguments;
    TIDEI_PYTHON_FUNCTIONS(TIDEI_PYTHON_FIELD)
#undef TIDEI_PYTHON_FIELD
    void *(*current_thread)(void); /* the thread state that holds the GIL; of the calling thread from 3.12 on */
    uintptr_t code_type;           /* PyCode_Type */
    uintptr_t text_type;           /* PyUnicode_Type */
    uintptr_t none;                /* Py_None */
    void *eval_loop;               /* _PyEval_EvalFrameDefault; NULL: not known */
};

/* Offsets in bytes; 0: this version has no such field. */
struct tidei_python_layout {
    unsigned minor;              /* of 3.minor */
    uint16_t thread_frame;       /* in a thread state: its innermost frame, or what leads there */
    bool has_cframe;             /* the latter */
    uint16_t cframe_frame;       /* there */
    uint16_t previous, code, at; /* in a frame; at: the instruction */
    uint16_t at_scale;           /* `at` is an int, in so many bytes; 0: it is a pointer */
    uint16_t owner, entry;       /* in a frame */
    uint16_t first_traceable;    /* in a code object: a frame at an earlier instruction has not begun */
    uint16_t instructions;       /* in a code object: the first one */
    uint16_t file, function;     /* in a code object: texts */
    uint16_t identity;           /* in a code object: its number */
};

#define TIDEI_PYTHON_THREAD_INTERPRETER 16 /* in a thread state, in all versions */
#define TIDEI_PYTHON_OWNED_BY_GENERATOR 1  /* values of `owner` */
#define TIDEI_PYTHON_OWNED_BY_C         3

enum tidei_python_state {
    TIDEI_PYTHON_NONE,     /* not found, or not prepared */
    TIDEI_PYTHON_READY,    /* any thread may read its frames */
    TIDEI_PYTHON_ENDING,   /* the interpreter is being finalized: only a thread that holds the GIL may */
    TIDEI_PYTHON_UNUSABLE, /* for good; the reason was told */
};

extern struct tidei_python_functions tidei_python;
extern const struct tidei_python_layout *tidei_python_layout; /* set before the state is READY */

/* Called when the interpreter's end begins, with the GIL, after all readers have left. Set by a thread with the GIL. */
extern void (*tidei_python_at_end)(void);

enum tidei_python_state tidei_python_state(void);

struct tidei_python_reader {
    bool holds;                       /* the GIL, so that nothing has to be undone */
    struct tidei_presence_slot *slot; /* else: among the readers */
};

/* Between these two a thread reads frames. False: it may not. Finalization waits for threads without the GIL. */
bool tidei_python_enter(void *thread, struct tidei_python_reader *reader);
void tidei_python_leave(const struct tidei_python_reader *reader);

/*
 * Prepare the interpreter within an allocation, if the thread runs Python code: without the GIL, and without running
 * any of it. Only its own frames are looked at, through the kernel, which says where there is no memory.
 */
void tidei_python_begin_within(void);

/* Say once why there are no frames. */
void tidei_python_warn(const char *reason);

/* How often the interpreter was prepared, or its end has begun: it may be there again, in this process. */
uint32_t tidei_python_epoch(void);

static inline uintptr_t
tidei_python_pointer(uintptr_t at, unsigned offset)
{
    return *(const volatile uintptr_t *)(at + offset);
}

static inline uint8_t
tidei_python_byte(uintptr_t at, unsigned offset)
{
    return *(const volatile uint8_t *)(at + offset);
}

static inline int32_t
tidei_python_int(uintptr_t at, unsigned offset)
{
    return *(const volatile int32_t *)(at + offset);
}

/* The innermost frame of a thread; 0: it runs no Python code. */
static inline uintptr_t
tidei_python_first(const struct tidei_python_layout *layout, void *thread)
{
    uintptr_t frame = tidei_python_pointer((uintptr_t)thread, layout->thread_frame);

    return layout->has_cframe && frame != 0 ? tidei_python_pointer(frame, layout->cframe_frame) : frame;
}

/* Where a frame stands: a pointer to an instruction, or a number of the instruction; never 0. */
static inline uintptr_t
tidei_python_at(const struct tidei_python_layout *layout, uintptr_t frame)
{
    if (layout->at_scale == 0)
        return tidei_python_pointer(frame, layout->at);
    return (uint32_t)tidei_python_int(frame, layout->at) + UINT64_C(2); /* -1: before the first instruction */
}

/* The same in bytes from the first instruction. */
static inline int
tidei_python_offset(const struct tidei_python_layout *layout, uintptr_t code, uintptr_t at)
{
    if (layout->at_scale == 0)
        return (int)(at - (code + layout->instructions));
    return (int32_t)(uint32_t)(at - 2) * layout->at_scale;
}

/* Whether a frame is none that Python itself reports: one of C, or one whose function has not begun. */
static inline bool
tidei_python_is_outside(const struct tidei_python_layout *layout, uintptr_t frame)
{
    return layout->owner != 0 && tidei_python_byte(frame, layout->owner) == TIDEI_PYTHON_OWNED_BY_C;
}

static inline bool
tidei_python_has_begun(const struct tidei_python_layout *layout, uintptr_t frame, uintptr_t code, uintptr_t at)
{
    return layout->owner == 0 || tidei_python_byte(frame, layout->owner) == TIDEI_PYTHON_OWNED_BY_GENERATOR ||
           tidei_python_offset(layout, code, at) >= 2 * tidei_python_int(code, layout->first_traceable);
}

#endif
