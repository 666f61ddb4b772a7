/*
 * What `track` knows of addresses: the blocks that are outstanding, and of those that were freed the latest. Hash tables
 * with a short lock each, chosen by the address. No function calls out of the library with a lock held.
 */
#ifndef TIDEI_TRACK_TABLE_H
#define TIDEI_TRACK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/resource.h>

#define TIDEI_TRACK_SHARDS 32

/* How many frees each shard remembers, to tell a double free from a pointer that is none. */
#define TIDEI_TRACK_FREED 256

/* Who called, and from where. */
struct tidei_track_caller {
    uint32_t thread;    /* the system's id */
    uint32_t callstack; /* 0: none */
};

/* One block that was given out; `address` is 0 where a place is empty. */
struct tidei_track_block {
    uint64_t address;
    uint64_t bytes;
    tide_stream stream;
    uint32_t alignment_log2;
    uint32_t tag;
    struct tidei_track_caller caller;
    struct tidei_track_caller freed_by; /* of one that was freed */
};

enum tidei_track_answer {
    TIDEI_TRACK_FINE = 0,
    TIDEI_TRACK_UNKNOWN,
    TIDEI_TRACK_FREED_BEFORE,
    TIDEI_TRACK_OTHER_SIZE,
    TIDEI_TRACK_OTHER_ALIGNMENT,
    TIDEI_TRACK_LIVE,      /* it is outstanding already */
    TIDEI_TRACK_NO_MEMORY, /* of the host */
};

struct tidei_track_table;

/* Errors: TIDE_ENOMEM, with the error text set. */
enum tide_status tidei_track_table_create(struct tidei_track_table **out);
void tidei_track_table_destroy(struct tidei_track_table *table); /* NULL is allowed */

/* A block is given out: FINE, LIVE (*known is the one that has the address) or NO_MEMORY. */
enum tidei_track_answer tidei_track_put(struct tidei_track_table *table, const struct tidei_track_block *block,
                                        struct tidei_track_block *known);

/*
 * A block comes back: FINE, and *known is what is outstanding no more; or nothing has changed, and *known is what was
 * given out there, zeros for UNKNOWN. Of `back` address, size, alignment and `freed_by` count.
 */
enum tidei_track_answer tidei_track_take(struct tidei_track_table *table, const struct tidei_track_block *back,
                                         struct tidei_track_block *known);

/* It was outstanding all the while: upstream has refused to take it. */
void tidei_track_put_back(struct tidei_track_table *table, const struct tidei_track_block *block);

/* All blocks that are outstanding, each shard at one moment; to be freed. False where host memory is short. */
bool tidei_track_list(struct tidei_track_table *table, struct tidei_track_block **out, size_t *count);

#endif
