/* Finds addresses for blocks of a base `vmm`. */
#include "src/bases/vmm/space.h"

#ifdef HAVE_CUDA_H

#include <string.h>

#include "src/tables/grow.h"

void
tidei_vmm_space_fini(struct vmm_space *space)
{
    for (size_t i = 0; i < space->arena_count; i++)
        free(space->arenas[i].blocks);
    free(space->arenas);
    free(space->ranges);
}

bool
tidei_vmm_space_grow(struct vmm_space *space, uintptr_t address, uint64_t bytes)
{
    size_t more = (size_t)(bytes / space->arena_bytes);

    if (!tidei_grow(&space->ranges, &space->range_capacity, space->range_count, 1) ||
        !tidei_grow(&space->arenas, &space->arena_capacity, space->arena_count, more))
        return false;
    space->ranges[space->range_count++] = (struct vmm_range){ .address = address, .bytes = bytes };
    for (size_t i = 0; i < more; i++)
        space->arenas[space->arena_count++] = (struct vmm_arena){ .address = address + i * space->arena_bytes };
    return true;
}

/* The arenas are few: a handful for each range. */
static struct vmm_arena *
space_arena(const struct vmm_space *space, uintptr_t address)
{
    for (size_t i = 0; i < space->arena_count; i++) {
        if (address >= space->arenas[i].address && address - space->arenas[i].address < space->arena_bytes)
            return &space->arenas[i];
    }
    return NULL;
}

/* The index of the first block that ends above the address. */
static size_t
arena_index(const struct vmm_arena *arena, uintptr_t address)
{
    size_t low = 0;
    size_t high = arena->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (arena->blocks[middle]->address + arena->blocks[middle]->bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct vmm_block *
tidei_vmm_space_find(const struct vmm_space *space, uintptr_t address)
{
    const struct vmm_arena *arena = space_arena(space, address);
    size_t index = arena != NULL ? arena_index(arena, address) : 0;

    return arena != NULL && index < arena->count && arena->blocks[index]->address == address ? arena->blocks[index]
                                                                                             : NULL;
}

struct vmm_block *
tidei_vmm_space_overlap(const struct vmm_space *space, uintptr_t address, uint64_t bytes, bool *inside)
{
    const struct vmm_arena *arena = space_arena(space, address);
    size_t index;

    *inside = arena != NULL && bytes <= space->arena_bytes - (address - arena->address);
    if (!*inside)
        return NULL;
    index = arena_index(arena, address);
    return index < arena->count && arena->blocks[index]->address < address + bytes ? arena->blocks[index] : NULL;
}

/* The lowest gap of the arena that is large enough; 0 where there is none. */
static uintptr_t
arena_gap(const struct vmm_arena *arena, uint64_t arena_bytes, uint64_t bytes)
{
    uintptr_t from = arena->address;

    for (size_t i = 0; i < arena->count; i++) {
        if (arena->blocks[i]->address - from >= bytes)
            return from;
        from = arena->blocks[i]->address + arena->blocks[i]->bytes;
    }
    return arena->address + arena_bytes - from >= bytes ? from : 0;
}

uintptr_t
tidei_vmm_space_place(const struct vmm_space *space, uint64_t bytes)
{
    uintptr_t address = 0;

    for (size_t i = 0; i < space->arena_count && bytes <= space->arena_bytes; i++) {
        if (space->arenas[i].count == 0)
            return space->arenas[i].address;
    }
    for (int wished = 0; wished <= 1; wished++) {
        /* From the last arena down: the first ones went to those that came first, and may grow. */
        for (size_t i = space->arena_count; i-- > 0 && address == 0;) {
            if (space->arenas[i].wished == (wished != 0))
                address = arena_gap(&space->arenas[i], space->arena_bytes, bytes);
        }
    }
    return address;
}

bool
tidei_vmm_space_add(struct vmm_space *space, struct vmm_block *block, bool wished)
{
    struct vmm_arena *arena = space_arena(space, block->address);
    size_t index;

    if (!tidei_grow(&arena->blocks, &arena->capacity, arena->count, 1))
        return false;
    index = arena_index(arena, block->address);
    memmove(&arena->blocks[index + 1], &arena->blocks[index], (arena->count - index) * sizeof(arena->blocks[0]));
    arena->blocks[index] = block;
    arena->count++;
    arena->wished = arena->wished || wished;
    return true;
}

void
tidei_vmm_space_remove(struct vmm_space *space, const struct vmm_block *block)
{
    struct vmm_arena *arena = space_arena(space, block->address);
    size_t index = arena_index(arena, block->address);

    arena->count--;
    memmove(&arena->blocks[index], &arena->blocks[index + 1], (arena->count - index) * sizeof(arena->blocks[0]));
    if (arena->count == 0)
        arena->wished = false;
}

#endif
