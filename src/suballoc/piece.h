/*
 * The records of the pieces that chunks of memory are cut into. They lie on the host, because the memory itself may lie
 * on a device.
 *
 * A piece is either out (with the application, or idle in a thread's cache) or free. Free neighbours are always merged.
 * The pieces of a span follow each other without gaps. A piece that is out is found by its address, even without a
 * lock.
 */
#ifndef TIDEI_PIECE_H
#define TIDEI_PIECE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/resource.h>

/*
 * The state of a piece in one word, so that a free checks and claims the piece in one atomic step:
 *     bits  0 to  1   TIDEI_PIECE_*
 *     bits  2 to  7   while LIVE: the exponent of the alignment requested
 *     bits  8 to 15   a number that changes when the struct is reused for another piece
 *     bits 16 to 63   while LIVE: the bytes requested
 */
#define TIDEI_PIECE_FREE   UINT64_C(0) /* or an unused struct */
#define TIDEI_PIECE_LIVE   UINT64_C(1) /* held by the application */
#define TIDEI_PIECE_CACHED UINT64_C(2) /* in a thread's cache, or about to be */
#define TIDEI_PIECE_MOVING UINT64_C(3) /* between two of the other states */
#define TIDEI_PIECE_STATE  UINT64_C(3)

#define TIDEI_PIECE_NUMBER     UINT64_C(0xff00)
#define TIDEI_PIECE_NUMBER_ONE UINT64_C(0x0100)

/* The most bytes of a piece, and of a request. */
#define TIDEI_PIECE_BYTES_MAX ((UINT64_C(1) << 48) - 1)

/* The size class of a piece that is never cached. */
#define TIDEI_PIECE_NO_CLASS UINT16_MAX
/* The size class of a piece that is a region; see heap.h. */
#define TIDEI_PIECE_REGION (UINT16_MAX - 1)
/* The size class of a piece that is a gap between chunks; see range.h. */
#define TIDEI_PIECE_GAP (UINT16_MAX - 2)
/* The size class of a free piece that is in no index, because it is held for a request; see range.h. */
#define TIDEI_PIECE_HELD (UINT16_MAX - 3)

/*
 * A freed run is free memory that was freed on one stream: another stream has to wait for that one first. A free piece
 * has a list of them in address order. Each piece that is out keeps one for its free.
 */
struct tidei_freed_run {
    uint64_t bytes;
    uint64_t epoch;  /* the heap's epoch when it was freed */
    uint32_t stream; /* the stream's number in the heap */
    struct tidei_freed_run *next, *before;
};

struct tidei_freed_runs {
    struct tidei_freed_run *first, *last;
};

/*
 * The links of a free piece in the tree of all sizes, or in the list of one class. `next`, a piece of the same size or
 * class, stands in struct tidei_piece, because caches use it, too.
 */
struct tidei_fit {
    struct tidei_piece *before;
    struct tidei_piece *parent, *child[2]; /* used only in the tree */
};

/* The links of a free piece in the index of its stream. */
struct tidei_own {
    struct tidei_piece *next, *before;
};

struct tidei_span;

/*
 * 128 bytes, so that two pieces share neither a cache line nor a pair of lines that is fetched together. The first line
 * has all fields that caches use.
 */
struct tidei_piece {
    _Atomic uint64_t word;
    _Atomic uintptr_t address; /* relaxed: constant while the piece is out */
    uint64_t bytes;
    struct tidei_piece *next;           /* while free: belongs to `fit`; while CACHED: next of the bin */
    uint32_t number;                    /* of this struct in its slab; written once */
    uint16_t size_class;                /* while out: the class for caches */
    uint16_t own_stream;                /* while free: the stream whose index it is in */
    struct tidei_piece *before, *after; /* neighbours in the span */
    struct tidei_span *span;            /* borrowed */
    struct tidei_fit fit;               /* while free */
    struct tidei_own own;               /* while free */
    struct tidei_freed_runs freed_runs; /* owns */
};

_Static_assert(sizeof(struct tidei_piece) == 128, "a pair of lines");

static inline uintptr_t
tidei_piece_address(const struct tidei_piece *piece)
{
    return atomic_load_explicit(&piece->address, memory_order_relaxed);
}

/* Set the word, and keep its number. */
static inline void
tidei_piece_set_word(struct tidei_piece *piece, uint64_t word)
{
    /* Relaxed: only the holder of the piece writes the word. */
    uint64_t number = atomic_load_explicit(&piece->word, memory_order_relaxed) & TIDEI_PIECE_NUMBER;

    /* Release: a thread that finds the piece without the lock sees the rest. Pairs with tidei_piece_claim's acquire. */
    atomic_store_explicit(&piece->word, number | word, memory_order_release);
}

/* The word of a piece that is LIVE for this request, without its number. */
static inline uint64_t
tidei_piece_live(size_t bytes, size_t alignment)
{
    return (uint64_t)bytes << 16 | (uint64_t)__builtin_ctzll(alignment) << 2 | TIDEI_PIECE_LIVE;
}

/*
 * Claim the piece at `pointer`: change its word from `word` to `state`. False where the piece is not at that address,
 * has another word, or another thread claims it first. The number in the word ensures that it is still the piece whose
 * address was read.
 */
static inline bool
tidei_piece_claim(struct tidei_piece *piece, const void *pointer, uint64_t word, uint64_t state)
{
    uint64_t found = atomic_load_explicit(&piece->word, memory_order_acquire); /* pairs as in tidei_piece_set_word */

    if ((found & ~TIDEI_PIECE_NUMBER) != word || tidei_piece_address(piece) != (uintptr_t)pointer)
        return false;
    return atomic_compare_exchange_strong_explicit(&piece->word, &found, (found & TIDEI_PIECE_NUMBER) | state,
                                                   memory_order_acquire, memory_order_relaxed);
}

#endif
