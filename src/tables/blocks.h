/*
 * A table of memory blocks. It knows which blocks are out, with the size and alignment that was asked for, and which
 * blocks are idle, by the stream on which they were freed. The table lies on the host; the blocks may lie on a device.
 *
 * Every operation but the last takes constant time, expected over the hashing. A block is named by its number, which is
 * valid until the block is removed. The table has no lock: the caller holds one.
 *
 * The chains through the blocks need 16 bytes for each block. A map (src/tables/map.h) by address and one by stream
 * would need 64 and more, since room for every block has to be there before the block comes.
 */
#ifndef TIDEI_TABLES_BLOCKS_H
#define TIDEI_TABLES_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/resource.h>

/* The number of no block, and of no stream. */
#define TIDEI_BLOCK_NONE UINT32_MAX
/* The most blocks that a table holds. */
#define TIDEI_BLOCKS_MAX (UINT32_C(1) << 30)

struct tidei_block {
    uintptr_t address;
    size_t bytes;       /* as asked for, while out */
    size_t alignment;   /* as asked for, while out */
    tide_stream stream; /* while out: allocated on; while idle: freed on */
    bool out;
    bool used;            /* the number names a block */
    uint32_t pins;        /* threads that look at it without the caller's lock; 0 unless the caller counts them */
    uint32_t epoch;       /* while idle: of the table when the block was freed; while out: the caller's */
    uint32_t next;        /* idle: on the same stream; unused: among the unused */
    uint32_t bucket_next; /* the next block in the bucket of its address */
};

/* The idle blocks of one stream, last freed first; exists only while there are any. */
struct tidei_block_group {
    tide_stream stream;
    uint32_t first;        /* block */
    uint32_t bucket_next;  /* group; unused: the next unused one */
    uint32_t older, newer; /* groups, in the order in which they began */
};

struct tidei_blocks {
    struct tidei_block *blocks;       /* owns, `capacity` of each */
    struct tidei_block_group *groups; /* owns; never more groups than blocks */
    uint32_t *block_buckets;          /* owns; by address */
    uint32_t *group_buckets;          /* owns; by stream */
    uint32_t capacity;                /* 0 or a power of two */
    uint32_t count;                   /* blocks, out or idle */
    uint32_t epoch;                   /* counts tidei_blocks_epoch_end */
    uint32_t unused_block, unused_group;
    uint32_t oldest, newest; /* groups */
};

void tidei_blocks_init(struct tidei_blocks *table);
void tidei_blocks_fini(struct tidei_blocks *table);

/* Make room for `count` blocks in all. False where the host has no memory for it, or the table no numbers. */
bool tidei_blocks_reserve(struct tidei_blocks *table, uint64_t count);

/* Add a block that is out on `stream`; there is room. */
uint32_t tidei_blocks_add(struct tidei_blocks *table, void *pointer, tide_stream stream);

/* Remove a block that is out. */
void tidei_blocks_remove(struct tidei_blocks *table, uint32_t block);

/* The block at `pointer`, out or idle; TIDEI_BLOCK_NONE where there is none. */
uint32_t tidei_blocks_find(const struct tidei_blocks *table, const void *pointer);

/* Make a block that is out idle on `stream`. */
void tidei_blocks_put(struct tidei_blocks *table, uint32_t block, tide_stream stream);

/* Take out the block that was freed last on `stream`; TIDEI_BLOCK_NONE where none is idle there. */
uint32_t tidei_blocks_take(struct tidei_blocks *table, tide_stream stream);

/*
 * Take out an idle block of the stream that has had idle blocks for longest; TIDEI_BLOCK_NONE where none is idle. The
 * block still names the stream that it was freed on.
 */
uint32_t tidei_blocks_take_any(struct tidei_blocks *table);

/* End an epoch and return its number: the blocks that are idle now were freed in that epoch or before. */
uint32_t tidei_blocks_epoch_end(struct tidei_blocks *table);

/*
 * Make the blocks idle on `stream` that were freed in `epoch` or before, and are still idle. Looks at each idle block.
 */
void tidei_blocks_settle(struct tidei_blocks *table, uint32_t epoch, tide_stream stream);

#endif
