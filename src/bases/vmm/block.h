/* A block of a base `vmm`: addresses, and the handles of physical memory that are mapped there. */
#ifndef TIDEI_BASES_VMM_BLOCK_H
#define TIDEI_BASES_VMM_BLOCK_H

#include "src/cuda/driver-table.h"

#ifdef HAVE_CUDA_H

#include <tidemark/resource.h>

enum vmm_state {
    VMM_LIVE,    /* handed out */
    VMM_FREEING, /* being freed: its event is not recorded yet */
    VMM_GOING,   /* freed; the work of its stream may not be done */
    VMM_READY,   /* freed, and the work is done */
    VMM_LEAVING, /* its handles have gone to another block; its mappings end once the work is done */
};

/*
 * Which queue of work a stream's handle means. The handles 0 to 2 stand for a stream of the current context, the last
 * for one of the thread. Any other handle may be that of a destroyed stream, whose work goes on, and later that of a
 * new one.
 */
struct vmm_queue {
    tide_stream stream;
    unsigned long long id; /* which no other stream ever has; 0: the driver has none, or the handle is 0 to 2 */
    CUcontext context;     /* NULL for other handles */
    uint64_t thread;       /* 0 for other handles */
};

/* A handle at the place of a block. */
struct vmm_piece {
    CUmemGenericAllocationHandle handle;
    uint64_t bytes;
    bool mapped;  /* here */
    bool gone;    /* it has gone to another block, or to the cache, and may still be mapped here */
    bool planned; /* it is about to go to a new block; within one section of the lock */
    bool own;     /* of a new block, within one section of the lock: no other block has it */
};

struct vmm_block {
    uintptr_t address;
    uint64_t bytes;         /* of the addresses: whole pages */
    size_t requested_bytes; /* this and next: while live */
    size_t alignment;
    struct vmm_queue queue;   /* of the free */
    CUevent event;            /* behind the work before the free; NULL: none */
    struct vmm_piece *pieces; /* owns the array; side by side */
    size_t piece_count;
    enum vmm_state state;
    bool imported;                    /* the memory of another process */
    bool whole;                       /* while freed: it has all of its handles, and is in the bucket of its size */
    bool planned;                     /* some of its handles are planned */
    bool stuck;                       /* its event never passes: it was recorded in a capture */
    struct vmm_block *before, *after; /* in the list of its state, in the order of the frees */
    struct vmm_block *size_before, *size_after; /* while whole: in the bucket of its size */
};

/* A thread that waits for an event without the lock; on its stack. The event lives until nobody waits for it. */
struct vmm_waiter {
    struct vmm_waiter *next;
    CUevent event;
    bool ended; /* no block has the event any more: the work is done */
};

struct vmm_list {
    struct vmm_block *first, *last;
};

#endif
#endif
