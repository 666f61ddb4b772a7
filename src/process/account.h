/* Passes the program's calls through the stacks of the account, and keeps what the program holds. */
#ifndef TIDEI_PROCESS_ACCOUNT_H
#define TIDEI_PROCESS_ACCOUNT_H

#include "src/process/call.h"
#include "src/process/functions.h"
#include "src/process/stacks.h"
#include "src/tables/entries.h"

#ifdef HAVE_CUDA_H

/* Something that the program has allocated. */
struct tidei_process_block {
    struct tidei_process_stack *stack;
    size_t bytes;
    tide_stream stream;
    CUcontext context; /* with which it goes; NULL: it does not */
    uint32_t holds;    /* how often it is to be freed: the driver counts opens of other processes' memory */
    bool redirected;   /* it comes from the base of a stack of its own */
};

/* What the keys name. */
enum tidei_process_names {
    TIDEI_PROCESS_ADDRESSES,
    TIDEI_PROCESS_REGISTERED, /* host memory of the program's own, page-locked; the program may allocate there, too */
    TIDEI_PROCESS_ARRAYS,
    TIDEI_PROCESS_MIPMAPPED,
    TIDEI_PROCESS_PHYSICAL, /* numbers that virtual.c gives */
    TIDEI_PROCESS_NAMES
};

void tidei_process_account_start(void);

/*
 * Whether calls go to the driver as they are: the thread is within a call of ours, or of the library, the process is a
 * child of fork(), or the account has not started.
 */
bool tidei_process_passes(void);

/* What a block is to be, besides what its call says. */
struct tidei_process_what {
    enum tidei_process_kind kind;
    enum tidei_process_names names;
    int device; /* -1: the current context's */
    bool stays; /* when its context ends */
};

/*
 * Pass an allocation through the stack of its kind, and keep the block. A refusal by a layer is
 * CUDA_ERROR_OUT_OF_MEMORY, a failure of the driver's is its own. Where there is no context, and none is needed, and
 * for requests of 0 bytes, the call goes to the driver as it is.
 */
CUresult tidei_process_allocate(struct tidei_process_call *call, const struct tidei_process_what *what);

/* Pass a free through the stack that the block is from. The driver gets what is not known as it is. */
CUresult tidei_process_free(struct tidei_process_call *call, enum tidei_process_names names, uint64_t key);

/* The same for a block whose life a call of the driver has ended already: nothing is called. */
void tidei_process_forget(const struct tidei_process_block *block, uint64_t key);

/* Take the block out, and forget it; nothing where it is not there. */
void tidei_process_forget_key(enum tidei_process_names names, uint64_t key);

/*
 * Blocks that end with a context: those in its own stack (NULL: it has none), and those of the other stacks. They are
 * kept for `tidei_process_gone_put` or `_forget`. Begin with { 0 }.
 */
struct tidei_process_gone {
    struct tidei_process_gone_block {
        struct tidei_process_block block;
        uint64_t key;
        enum tidei_process_names names;
    } * blocks; /* owned */
    size_t count, capacity;
};
void tidei_process_gone_take(struct tidei_process_gone *gone, CUcontext context,
                             const struct tidei_process_stack *stack);

/*
 * Take those of such a stack that is out of use: afterwards no call has one, and none is within the stack. This thread
 * is within no call, and holds no lock.
 */
void tidei_process_gone_empty(struct tidei_process_gone *gone, const struct tidei_process_stack *stack);

/* Free those that come from a stack of their own to it, while their context is there. */
void tidei_process_gone_return(struct tidei_process_gone *gone);
void tidei_process_gone_put(struct tidei_process_gone *gone);
void tidei_process_gone_forget(struct tidei_process_gone *gone);

/* Have a block freed once more often; false where there is none. Between the two a thread has a turn for itself. */
bool tidei_process_hold(enum tidei_process_names names, uint64_t key);

/* Undo that; false where the block is not held any more often, and is to be freed. */
bool tidei_process_drop(enum tidei_process_names names, uint64_t key);

/* A block that is there; false where the address is none of a block's begin. */
bool tidei_process_find(enum tidei_process_names names, uint64_t key, struct tidei_process_block *out);

/* The block that has the address in it, and where it begins (may be NULL). Looks at all blocks. */
bool tidei_process_covering(uint64_t address, uint64_t *start, struct tidei_process_block *out);

#endif
#endif
