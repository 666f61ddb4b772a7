/*
 * A table of memory blocks. It has the blocks that are out (allocated to a caller), with requested size and alignment,
 * and the idle blocks, by the stream on which they were freed. The table is in host memory; the blocks need not be.
 *
 * Every operation but the last takes expected constant time. A block is named by its number, which is valid until the
 * block is removed. The table has no lock: the caller holds one.
 *
 * The chains through the blocks need 16 bytes for each block. A map (src/tables/map.h) by address and another by stream
 * would need 64 bytes or more, since room for every block must be reserved before the block is added.
 */
#ifndef TIDEI_TABLES_BLOCKS_H
#define TIDEI_TABLES_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/resource.h>

/* "None", as the number of a block or of a group. */
#define TIDEI_BLOCK_NONE UINT32_MAX
/* The most blocks that a table holds. */
#define TIDEI_BLOCKS_MAX (UINT32_C(1) << 30)

struct tidei_block {
    uintptr_t address;
    size_t bytes;       /* while out: as requested */
    size_t alignment;   /* while out: as requested */
    tide_stream stream; /* while out: of the allocation; while idle: of the free */
    bool out;
    bool used;            /* false: the entry is unused */
    bool told;            /* for the caller's use; false at first */
    uint32_t pins;        /* threads that use it without the caller's lock; 0 unless the caller counts them */
    uint32_t epoch;       /* while idle: the table's when the block was freed; while out: for the caller's use */
    uint32_t next;        /* idle: next block of the stream; unused: next unused entry */
    uint32_t bucket_next; /* the next block in the bucket of its address */
};

/* The idle blocks of one stream, last freed first. Exists only while the stream has some. */
struct tidei_block_group {
    tide_stream stream;
    uint32_t first;        /* block */
    uint32_t bucket_next;  /* group; unused: the next unused one */
    uint32_t older, newer; /* groups, in the order in which they began */
};

struct tidei_blocks {
    struct tidei_block *blocks;       /* owns; both arrays have `capacity` entries */
    struct tidei_block_group *groups; /* owns; never more groups than blocks */
    uint32_t *block_buckets;          /* owns; by address */
    uint32_t *group_buckets;          /* owns; by stream */
    uint32_t capacity;                /* 0 or a power of two */
    uint32_t count;                   /* blocks, out or idle */
    uint32_t epoch;                   /* number of calls of tidei_blocks_epoch_end */
    uint32_t unused_block, unused_group;
    uint32_t oldest, newest; /* groups */
};

void tidei_blocks_init(struct tidei_blocks *table);
void tidei_blocks_fini(struct tidei_blocks *table);

/* Make room for `count` blocks in total. False without host memory, or above TIDEI_BLOCKS_MAX. */
bool tidei_blocks_reserve(struct tidei_blocks *table, uint64_t count);

/* Add a block that is out on `stream`. The caller has reserved room. */
uint32_t tidei_blocks_add(struct tidei_blocks *table, void *pointer, tide_stream stream);

/* Remove a block that is out. */
void tidei_blocks_remove(struct tidei_blocks *table, uint32_t block);

/* The block at `pointer`, out or idle; TIDEI_BLOCK_NONE if there is none. */
uint32_t tidei_blocks_find(const struct tidei_blocks *table, const void *pointer);

/* A block that was out becomes idle on `stream`. */
void tidei_blocks_put(struct tidei_blocks *table, uint32_t block, tide_stream stream);

/* Take the block that was freed last on `stream`; TIDEI_BLOCK_NONE if none is idle there. */
uint32_t tidei_blocks_take(struct tidei_blocks *table, tide_stream stream);

/*
 * Take an idle block of the stream that has had idle blocks for the longest time; TIDEI_BLOCK_NONE if no block is idle.
 * The block's `stream` is still the one it was freed on.
 */
uint32_t tidei_blocks_take_any(struct tidei_blocks *table);

/* End an epoch and return its number: the blocks that are idle now were freed in that epoch or before. */
uint32_t tidei_blocks_epoch_end(struct tidei_blocks *table);

/* Move all idle blocks that were freed in `epoch` or before to `stream`. Visits every idle block. */
void tidei_blocks_move_idle(struct tidei_blocks *table, uint32_t epoch, tide_stream stream);

#endif
