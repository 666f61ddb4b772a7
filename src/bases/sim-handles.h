/*
 * Handles of physical memory for `sim(model=vmm)`: which of them the base `vmm` would create, map and release.
 *
 * The rules are those of src/bases/vmm/reuse.c, with the work on freed blocks done and no time passing: a block of the
 * same size is taken back as it is; else handles of free blocks get other addresses; else a handle is created, after
 * free ones have gone back where more would be held than was ever in use. A replay over the base has the same figures
 * where it waits for no work.
 */
#ifndef TIDEI_BASES_SIM_HANDLES_H
#define TIDEI_BASES_SIM_HANDLES_H

#include "src/bases/sim-tally.h"

#define TIDEI_SIM_NO_HANDLE UINT32_MAX

struct tidei_sim_handle {
    uint64_t bytes;
    uint32_t next; /* of the same block, or the next unused entry; TIDEI_SIM_NO_HANDLE: none */
};

/* A freed block. */
struct tidei_sim_freed {
    uint64_t address, bytes;
    tide_stream stream;
    uint32_t first; /* of its handles */
    uint32_t count;
    uint32_t planned; /* for the request that is being served: the how manieth; 0: it is not */
};

/* No lock: the caller holds one. A zeroed struct with `unused` set to TIDEI_SIM_NO_HANDLE has no handles. */
struct tidei_sim_handles {
    struct tidei_sim_handle *handles; /* owns */
    size_t handle_count, handle_capacity;
    uint32_t unused;
    struct tidei_sim_freed *freed; /* owns; in the order of their frees, with room for all blocks */
    size_t freed_count, freed_capacity;
    uint32_t *cache; /* owns; handles that no block has, with room for all */
    size_t cache_count, cache_capacity;
    size_t live_count;             /* live blocks */
    uint64_t mapped_bytes;         /* of live blocks */
    uint64_t most_mapped;          /* the most of them */
    uint64_t reserved_bytes;       /* of all handles */
    struct tidei_sim_tally *tally; /* borrowed */
};

struct tidei_sim_handles_request {
    uint64_t bytes;   /* whole pages */
    uint64_t address; /* where the block will lie */
    bool wished;      /* it must lie there */
    tide_stream stream;
};

void tidei_sim_handles_fini(struct tidei_sim_handles *handles);

/* Handles for a block; *first is what tidei_sim_handles_give takes. False without host memory. */
bool tidei_sim_handles_take(struct tidei_sim_handles *handles, const struct tidei_sim_handles_request *request,
                            uint32_t *first);

/* The block at the address is free. */
void tidei_sim_handles_give(struct tidei_sim_handles *handles, uint64_t address, uint64_t bytes, tide_stream stream,
                            uint32_t first);

/* Release what is free until `keep_bytes` are reserved. */
void tidei_sim_handles_trim(struct tidei_sim_handles *handles, uint64_t keep_bytes);

#endif
