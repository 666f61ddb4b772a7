/* The private declarations of the base `vmm`. */
#ifndef TIDEI_BASES_VMM_BASE_H
#define TIDEI_BASES_VMM_BASE_H

#include "src/cuda/device.h"

#ifdef HAVE_CUDA_H

#include <tidemark/vmm.h>

#include "src/bases/vmm/space.h"

#define VMM_BUCKETS 256u
#define VMM_PEERS   64 /* as TIDE_QUERY_PEERS has */

struct vmm {
    struct tide_resource base;
    struct tidei_device device;
    struct tide_vmm_options options; /* `access` is owned */
    CUmemAllocationProp properties;  /* of every handle */
    CUmemAccessDesc accesses[VMM_PEERS + 1];
    size_t access_count;
    uint64_t page_bytes;
    uint64_t capacity_bytes;
    uint32_t generation; /* of the process that made it; see tidei_fork_generation */

    /* Written under the lock, read without it. */
    _Atomic uint64_t used, used_high, reserved, reserved_high;
    _Atomic uint64_t created, released, kept, remapped, orders, waits; /* as in struct tide_vmm_figures */

    /*
     * Guards all below. The driver is called under it, but for the event of a free, which every free records, and for
     * waits. Mapping changes several blocks and handles at once, takes 20 us and more, and is rare: a request that
     * takes a freed block back calls nothing.
     */
    struct tidei_lock lock;
    struct vmm_space space;
    struct vmm_list going, ready, leaving;  /* the blocks in these states */
    struct vmm_waiter *waiters;             /* borrowed; the threads that wait for events */
    struct vmm_block *by_size[VMM_BUCKETS]; /* the blocks that are going or ready */
    struct vmm_piece *cache;                /* owns; handles that no block has; with room for every handle there is */
    size_t cache_count, cache_capacity;
    struct vmm_block **sources; /* owns; the blocks that are planned, within one section of the lock */
    size_t source_count, source_capacity;
    uint64_t mapped_bytes;      /* of live blocks, in pages */
    uint64_t mapped_high_bytes; /* the most of them of late, which is the most that the base wants to hold */
    uint64_t period_ms;         /* when the current period of the decay began */
    uint64_t period_high_bytes; /* the most mapped bytes since then */
    uint64_t handles;           /* that there are now */
};

/* `resource` as a vmm; NULL, with the text set, where it is another kind. */
struct vmm *tidei_vmm_of(struct tide_resource *resource);

/* TIDE_EUNSUPPORTED in a child of fork(), where no call of the driver is safe. */
enum tide_status tidei_vmm_usable(const struct vmm *self);

/* A block becomes live. The caller holds the lock. */
void tidei_vmm_hand_out(struct vmm *self, struct vmm_block *block, size_t bytes, size_t alignment);

/*
 * Let this thread make calls that a capture would refuse, and be spoilt by: they belong to no stream. Returns what
 * tidei_vmm_captures_end takes.
 */
CUstreamCaptureMode tidei_vmm_captures_begin(const struct vmm *self);
void tidei_vmm_captures_end(const struct vmm *self, CUstreamCaptureMode mode);

/* Handles and mappings; see pages.c. The caller holds the lock. */

/* Reserve a range of addresses. Errors: TIDE_ECAPACITY, TIDE_ENOMEM, TIDE_EDRIVER. */
enum tide_status tidei_vmm_range_add(struct vmm *self);

/* Whether the call was done. At exit, where the driver has shut down before us, it has freed everything. */
bool tidei_vmm_gone(CUresult result);

/* Create a handle of `bytes`. CUDA_ERROR_OUT_OF_MEMORY also where host memory is short. */
CUresult tidei_vmm_handle_create(struct vmm *self, uint64_t bytes, struct vmm_piece *out);

/* Release a handle. If the driver refuses, the handle goes to the cache. */
CUresult tidei_vmm_handle_release(struct vmm *self, const struct vmm_piece *piece);

/* Release the handle of an imported block, whose mapping has ended. False where the driver refuses. */
bool tidei_vmm_imported_release(struct vmm *self, struct vmm_block *block);

/* Put a handle that no block has into the cache. */
void tidei_vmm_cache_put(struct vmm *self, const struct vmm_piece *piece);

/* Map the pieces of a block and set access. On failure what is still mapped says so. */
CUresult tidei_vmm_map(struct vmm *self, struct vmm_block *block, const char **function);

/* End the mappings of a block, as many as the driver lets end; returns its first refusal. */
CUresult tidei_vmm_unmap(struct vmm *self, struct vmm_block *block);

/* Freed blocks; see reuse.c. The caller holds the lock. */

struct vmm_request {
    uint64_t bytes; /* whole pages */
    struct vmm_queue queue;
    uintptr_t wish;
};

struct vmm_queue tidei_vmm_queue(const struct vmm *self, tide_stream stream);

/*
 * A block for the request, not yet live: a freed one as it is, or a new one. If *wait_for is set, there is none until
 * tidei_vmm_wait has waited for that block. Errors: those of an allocation.
 */
enum tide_status tidei_vmm_block_take(struct vmm *self, const struct vmm_request *request, struct vmm_block **out,
                                      struct vmm_block **wait_for);

/*
 * Wait, without the lock meanwhile, for the work before the free of a block: that work may wait for what another thread
 * does, which may need the lock. Errors: TIDE_EDRIVER.
 */
enum tide_status tidei_vmm_wait(struct vmm *self, struct vmm_block *block);

/* A block whose free is ordered behind `event` (NULL: the work is done). */
void tidei_vmm_block_put(struct vmm *self, struct vmm_block *block, CUevent event);

/* See which blocks' work is done, of at most `most` that are asked; and end mappings of blocks that are leaving. */
void tidei_vmm_poll(struct vmm *self, size_t most);

/* Release free memory until at most `keep_bytes` are reserved. Returns the driver's first refusal. */
CUresult tidei_vmm_shrink(struct vmm *self, uint64_t keep_bytes, const char **function);

/* A block with room for one piece; NULL without host memory. And its end: nothing is mapped there. */
struct vmm_block *tidei_vmm_block_new(uint64_t bytes);
void tidei_vmm_block_destroy(struct vmm_block *block);

/*
 * End a block that has an address and no handle that the base counts. What the driver refuses to end is tried again
 * with every later poll.
 */
void tidei_vmm_block_leave(struct vmm *self, struct vmm_block *block);

/* Choose an address for a block and enter the block there. Errors: TIDE_ECAPACITY, TIDE_ENOMEM, TIDE_EDRIVER. */
enum tide_status tidei_vmm_block_place(struct vmm *self, struct vmm_block *block, uintptr_t wish);

/* Unmap all and release all, whatever state it is in; see end.c. A warning says what the driver does not take back. */
void tidei_vmm_end(struct vmm *self);

#endif
#endif
