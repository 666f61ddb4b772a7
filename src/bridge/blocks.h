/*
 * The blocks that the bridge has given out, by address: 32 maps, each with its own lock, chosen by the address.
 *
 * Progress: put, take and get hold one short lock.
 */
#ifndef TIDEI_BRIDGE_BLOCKS_H
#define TIDEI_BRIDGE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/resource.h>

struct tidei_bridge_stack;
struct tidei_bridge_pool;

/* Other streams that use a block. */
struct tidei_bridge_streams {
    size_t count, capacity;
    tide_stream *items; /* owned */
};

enum tidei_bridge_flag {
    TIDEI_BRIDGE_LEFT = 1,    /* its use has ended: the stack counts it in `left` */
    TIDEI_BRIDGE_LIMITED = 2, /* counted by the limit of its device */
    TIDEI_BRIDGE_FREED = 4,   /* the program has freed it: it waits for the end or the release of a capture */
};

struct tidei_bridge_entry {
    size_t bytes;
    tide_stream stream;
    struct tidei_bridge_stack *stack;     /* that it came from; holds no reference, see uses.h */
    struct tidei_bridge_streams *streams; /* owned; NULL: none was recorded */
    struct tidei_bridge_pool *pool;       /* of a capture, borrowed; NULL: none */
    uint32_t tag;                         /* of the allocation; 0: none */
    uint32_t flags;                       /* enum tidei_bridge_flag */
};

/* Add a block. False without host memory. */
bool tidei_bridge_blocks_put(const void *address, const struct tidei_bridge_entry *entry);

/* Remove a block and copy its entry; false if there is none at the address. */
bool tidei_bridge_blocks_take(const void *address, struct tidei_bridge_entry *entry);

/*
 * Call `function` for the block at the address, with its map locked, or for all blocks of all maps: `all_locked` says
 * whether all maps are locked at once, so that what is seen is of one moment, or one after the other. It calls nothing
 * outside this room, and may change the entry. tidei_bridge_blocks_with returns false where there is no block.
 */
typedef void (*tidei_bridge_block_function)(uintptr_t address, struct tidei_bridge_entry *entry, void *context);
bool tidei_bridge_blocks_with(const void *address, tidei_bridge_block_function function, void *context);
void tidei_bridge_blocks_each(bool all_locked, tidei_bridge_block_function function, void *context);

/* Free the list of streams of an entry that was taken. */
void tidei_bridge_streams_free(struct tidei_bridge_streams *streams);

#endif
