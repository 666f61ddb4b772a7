/*
 * The addresses of a base `vmm`: ranges that the driver has reserved, cut into arenas, in which blocks lie.
 *
 * Each layer above is to find room behind its last block, so that its blocks lie side by side. So a request without a
 * wish gets an arena that nobody uses, as long as there is one: an arena is as large as all blocks together can become,
 * and addresses cost nothing. Later requests without a wish share arenas in which no wish was fulfilled yet.
 *
 * No function here calls the driver. No lock: the caller holds one.
 */
#ifndef TIDEI_BASES_VMM_SPACE_H
#define TIDEI_BASES_VMM_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/bases/vmm/block.h"

struct vmm_arena {
    uintptr_t address;
    struct vmm_block **blocks; /* owns the array; in the order of their addresses */
    size_t count, capacity;
    bool wished; /* a block lies where a layer wished it */
};

struct vmm_range {
    uintptr_t address;
    uint64_t bytes;
};

/* A zeroed struct has no addresses. */
struct vmm_space {
    uint64_t arena_bytes;
    struct vmm_range *ranges; /* owns */
    size_t range_count, range_capacity;
    struct vmm_arena *arenas; /* owns */
    size_t arena_count, arena_capacity;
};

/* Release the arrays. The blocks and the reservations stay as they are. */
void tidei_vmm_space_fini(struct vmm_space *space);

/* Add a range that was reserved; its size is a multiple of arena_bytes. False without host memory. */
bool tidei_vmm_space_grow(struct vmm_space *space, uintptr_t address, uint64_t bytes);

/* The block that begins at the address; NULL where there is none. */
struct vmm_block *tidei_vmm_space_find(const struct vmm_space *space, uintptr_t address);

/*
 * The first block that overlaps the addresses, NULL for none. *inside is false where they are not all within one arena.
 */
struct vmm_block *tidei_vmm_space_overlap(const struct vmm_space *space, uintptr_t address, uint64_t bytes,
                                          bool *inside);

/* An address for a block without a wish; 0 where no gap is large enough. */
uintptr_t tidei_vmm_space_place(const struct vmm_space *space, uint64_t bytes);

/* Enter a block at its address, which is free. False without host memory. */
bool tidei_vmm_space_add(struct vmm_space *space, struct vmm_block *block, bool wished);

void tidei_vmm_space_remove(struct vmm_space *space, const struct vmm_block *block);

#endif
