/*
 * The records that `track` keeps by address: the outstanding blocks, and the latest free of other addresses.
 *
 * A hash table has buckets of two cache lines, which hold the whole records of a few addresses. A thread that reuses an
 * address that it had before touches no memory that another thread writes. The record of a freed block stays until its
 * place is needed for another block. So one lookup finds both outstanding and freed blocks.
 *
 * Progress: wait-free while only one thread has come. After that each bucket has a short lock, and all threads wait
 * while the table grows or is listed. Without host memory the table does not grow, and buckets get longer.
 */
#ifndef TIDEI_ADAPTORS_TRACK_TABLE_H
#define TIDEI_ADAPTORS_TRACK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/resource.h>

/* The thread and call stack of a call. */
struct tidei_track_caller {
    uint32_t thread;    /* the system's id */
    uint32_t callstack; /* 0: none */
};

/* A block that was handed out; `address` is 0 where a place is empty. */
struct tidei_track_block {
    uint64_t address;
    uint64_t bytes;
    tide_stream stream;
    uint32_t alignment_log2;
    uint32_t tag;
    struct tidei_track_caller caller;
    struct tidei_track_caller freed_by; /* zeros while it is outstanding */
};

enum tidei_track_answer {
    TIDEI_TRACK_FINE = 0,
    TIDEI_TRACK_UNKNOWN,
    TIDEI_TRACK_FREED_BEFORE,
    TIDEI_TRACK_OTHER_SIZE,
    TIDEI_TRACK_OTHER_ALIGNMENT,
    TIDEI_TRACK_LIVE,      /* the address is outstanding already */
    TIDEI_TRACK_NO_MEMORY, /* the host's memory is short */
};

struct tidei_track_table;

/* Errors: TIDE_ENOMEM, with the error text set. */
enum tide_status tidei_track_table_create(struct tidei_track_table **out);
void tidei_track_table_destroy(struct tidei_track_table *table); /* NULL is allowed */

/* Record a block that is handed out: FINE, LIVE (*known is the block that has the address) or NO_MEMORY. */
enum tidei_track_answer tidei_track_put(struct tidei_track_table *table, const struct tidei_track_block *block,
                                        struct tidei_track_block *known);

/*
 * Record a free. FINE: the block is no longer outstanding, and *known is its record. Other answers change nothing;
 * *known is the block that was handed out at that address, or zeros for UNKNOWN. Only the address, size, alignment and
 * `freed_by` of `back` are used.
 */
enum tidei_track_answer tidei_track_take(struct tidei_track_table *table, const struct tidei_track_block *back,
                                         struct tidei_track_block *known);

/* Whether the block at `address` is outstanding; *known is the last block handed out there, or zeros. */
bool tidei_track_find(struct tidei_track_table *table, uint64_t address, struct tidei_track_block *known);

/* List all blocks outstanding at one moment, in an array that the caller frees. False without host memory. */
bool tidei_track_list(struct tidei_track_table *table, struct tidei_track_block **out, size_t *count);

#endif
