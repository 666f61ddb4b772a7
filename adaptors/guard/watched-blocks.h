/*
 * Blocks with margins around them: those handed out, and freed ones that are held for a while, oldest first. A pinned
 * block stays in the table, so that a thread can check it. The table lies on the host, like that of
 * src/tables/blocks.h.
 */
#ifndef TIDEI_ADAPTORS_GUARD_WATCHED_BLOCKS_H
#define TIDEI_ADAPTORS_GUARD_WATCHED_BLOCKS_H

#include "src/tables/blocks.h"
#include "src/sync/lock.h"

struct tidei_watched {
    size_t margin_bytes;        /* the margin before and behind each block; constant */
    struct tidei_lock lock;     /* guards the fields below */
    struct tidei_blocks blocks; /* out: handed out; not out: held, in a list by `next` */
    uint32_t oldest, newest;    /* of the list of held blocks */
    uint64_t used_bytes;        /* of blocks handed out, without the margins */
    uint64_t held_bytes;        /* of held blocks, without the margins */
    uint64_t reserved_bytes;    /* of all blocks, with the margins */
    uint32_t phase;             /* the current phase; see tidei_watched_wait */
    uint32_t leaving[2];        /* leaving blocks, by the phase in which they were taken out: the last two */
    uint64_t left;              /* blocks that have ever gone to upstream */
    uint32_t refusing;          /* threads that need the memory of all held blocks */
};

/* A copy of a block, even of one that is in no table. */
struct tidei_watched_block {
    unsigned char *pointer;
    size_t bytes;
    size_t alignment;
    uint32_t phase; /* set while it leaves */
};

/* Errors: TIDE_ENOMEM, with the error text set. */
void tidei_watched_init(struct tidei_watched *watched, size_t margin_bytes);
void tidei_watched_fini(struct tidei_watched *watched);

/* The margin before a block of this alignment: at least margin_bytes. */
static inline size_t
tidei_watched_front(const struct tidei_watched *watched, size_t alignment)
{
    return alignment > watched->margin_bytes ? alignment : watched->margin_bytes;
}

/* Add the margins to `bytes`; false where that overflows. */
static inline bool
tidei_watched_total(const struct tidei_watched *watched, size_t bytes, size_t alignment, size_t *out)
{
    return !__builtin_add_overflow(bytes, watched->margin_bytes, out) &&
           !__builtin_add_overflow(*out, tidei_watched_front(watched, alignment), out);
}

enum tidei_watched_state {
    TIDEI_WATCHED_OUT,       /* handed out */
    TIDEI_WATCHED_HELD,      /* freed and held; refused while a thread needs the memory of the held blocks */
    TIDEI_WATCHED_HELD_AGAIN /* held again, because upstream did not take it; never refused */
};

/* Enter a block. False where it is refused, or host memory is short. */
bool tidei_watched_add(struct tidei_watched *watched, const struct tidei_watched_block *block,
                       enum tidei_watched_state state);

/* Begin or end to refuse TIDEI_WATCHED_HELD. Several threads may do so at once. */
void tidei_watched_refuse_held(struct tidei_watched *watched, bool begin);

/*
 * Take out a block that is handed out with this size and alignment; waits while it is pinned. Errors: TIDE_EPOINTER,
 * TIDE_EMISMATCH, with the error text set.
 */
enum tide_status tidei_watched_take(struct tidei_watched *watched, void *pointer, size_t bytes, size_t alignment,
                                    struct tidei_watched_block *out);

/*
 * Take out the block that has been held for longest; waits while it is pinned. A thread that has pinned blocks itself
 * calls without `wait`, and gets the oldest one that is not pinned. The block counts as leaving from now on. False
 * where no more than `keep_bytes` are held.
 */
bool tidei_watched_take_held(struct tidei_watched *watched, uint64_t keep_bytes, bool wait,
                             struct tidei_watched_block *out);

/* A leaving block has gone to upstream, or was entered again: it no longer counts as leaving. */
void tidei_watched_leave_end(struct tidei_watched *watched, const struct tidei_watched_block *block, bool gone);

/* How many blocks have gone so far. */
uint64_t tidei_watched_left(struct tidei_watched *watched);

/* Wait until none of the blocks that are leaving now leaves any more. The caller must have none of them. */
void tidei_watched_wait(struct tidei_watched *watched);

/*
 * Let the table stay as it is, by its lock, until tidei_watched_resume; `wait`: once no block is leaving. The caller
 * must have none that leaves then, and calls nothing of the table but tidei_watched_next_held.
 */
void tidei_watched_pause(struct tidei_watched *watched, bool wait);
void tidei_watched_resume(struct tidei_watched *watched);

/* The next block that is held, from *number (at first 0) on. False: there is none. */
bool tidei_watched_next_held(const struct tidei_watched *watched, uint32_t *number, struct tidei_watched_block *out);

/* The bytes of the blocks handed out; or of all blocks, with the room. */
uint64_t tidei_watched_bytes(struct tidei_watched *watched, bool reserved);

/*
 * End an epoch and return its number: the present blocks were entered in that epoch or before. *numbers is an upper
 * bound of their numbers.
 */
uint32_t tidei_watched_epoch_end(struct tidei_watched *watched, uint32_t *numbers);

/* Pin the block of this number; *held: it is held. False for none, or one entered after `epoch`. */
bool tidei_watched_pin(struct tidei_watched *watched, uint32_t number, uint32_t epoch, struct tidei_watched_block *out,
                       bool *held);
void tidei_watched_unpin(struct tidei_watched *watched, uint32_t number);

#endif
