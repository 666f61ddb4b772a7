/*
 * A call of the driver that the program makes, while it passes through a stack.
 *
 * A wrapper describes the call in an object on its own stack, and allocates from the stack of its kind of memory, or
 * frees to it. The base of that stack finds the object through the thread, and makes the call.
 */
#ifndef TIDEI_PROCESS_CALL_H
#define TIDEI_PROCESS_CALL_H

#include "src/cuda/driver-table.h"

#ifdef HAVE_CUDA_H

#include "src/resource/resource.h"
#include "src/sync/thread.h"

struct tidei_process_call {
    /* Make the program's call; *key is what it made: an address, or a handle. */
    CUresult (*make)(struct tidei_process_call *call, uint64_t *key);
    /* The call that frees what `key` names. */
    CUresult (*give)(struct tidei_process_call *call, uint64_t key);
    const char *function; /* for messages: the name of the call */
    size_t bytes;
    tide_stream stream;
    CUdeviceptr *redirected; /* where the address goes that a stack with a base of its own gives; NULL: it gives none */
    bool waits;              /* the free waits for all work of the device */
    bool counted;            /* a stack was asked for it; false: it went to the driver as it was */
    CUresult result;         /* of the last of the two; where neither was called, CUDA_SUCCESS */
};

/* What the account keeps of a thread. */
struct tidei_process_thread {
    struct tidei_process_call *call; /* that is passing through a stack; NULL: none */
    CUcontext context;               /* that was current last; NULL: not known */
    uint32_t generation;             /* of contexts, when that was asked for; see context.c */
    int16_t device;                  /* of `context`: its ordinal */
    bool is_green;                   /* of `context` */
    bool ends;                       /* a stack ends, whose context has no more work: see held.c */
};
TIDEI_THREAD_PART(tidei_process_thread, process, struct tidei_process_thread);

#endif
#endif
