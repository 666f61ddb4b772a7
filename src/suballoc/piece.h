/*
 * What is known of every piece that chunks of memory are cut into. All of it lies on the host: the memory itself may
 * lie on a device.
 *
 * A piece is out (with somebody, or idle in a thread's cache) or free; free pieces that touch are one. The pieces of a
 * span follow each other without gaps. A piece that is out is found by its address, also without a lock.
 */
#ifndef TIDEI_PIECE_H
#define TIDEI_PIECE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/resource.h>

/*
 * The state of a piece in one word, so that who frees it checks and takes it in one step:
 *     bits  0 to  1   TIDEI_PIECE_*
 *     bits  2 to  7   the exponent of the alignment that was asked for, while LIVE
 *     bits  8 to 15   a number that changes when the struct becomes another piece
 *     bits 16 to 63   the bytes that were asked for, while LIVE
 */
#define TIDEI_PIECE_FREE   UINT64_C(0) /* or no piece at all */
#define TIDEI_PIECE_LIVE   UINT64_C(1) /* with the application */
#define TIDEI_PIECE_CACHED UINT64_C(2) /* in a thread's cache, or on its way there */
#define TIDEI_PIECE_MOVING UINT64_C(3) /* on its way between the others */
#define TIDEI_PIECE_STATE  UINT64_C(3)

#define TIDEI_PIECE_NUMBER     UINT64_C(0xff00)
#define TIDEI_PIECE_NUMBER_ONE UINT64_C(0x0100)

/* The most bytes of a piece, or of a request. */
#define TIDEI_PIECE_BYTES_MAX ((UINT64_C(1) << 48) - 1)

/* The size class of a piece that no cache takes. */
#define TIDEI_PIECE_NO_CLASS UINT16_MAX
/* That of one which is cut into others; see heap.h. */
#define TIDEI_PIECE_REGION (UINT16_MAX - 1)

/*
 * A freed run of free memory that was freed on one stream: another stream has to wait for that one first. A free piece
 * is a list of them, in the order of their addresses; each piece that is out has one, for when it is freed.
 */
struct tidei_freed_run {
    uint64_t bytes;
    uint64_t epoch;  /* of the heap when it was freed */
    uint32_t stream; /* its number in the heap */
    struct tidei_freed_run *next, *before;
};

struct tidei_freed_runs {
    struct tidei_freed_run *first, *last;
};

/*
 * The links of a free piece in the tree of all sizes, or in a list of one class: what is `next` is of the same size or
 * class. `next` stands in the piece, as caches have it, too.
 */
struct tidei_fit {
    struct tidei_piece *before;
    struct tidei_piece *parent, *child[2]; /* the tree only */
};

/* Those in the index of its stream. */
struct tidei_own {
    struct tidei_piece *next, *before;
};

struct tidei_span;

/*
 * Two lines, so that no two threads' pieces share one, nor a pair of lines that is fetched together. The first has all
 * that caches use.
 */
struct tidei_piece {
    _Atomic uint64_t word;
    _Atomic uintptr_t address; /* relaxed: what is out has been, and stays, at one */
    uint64_t bytes;
    struct tidei_piece *next;           /* while free: as in `fit`; while CACHED: of the same bin */
    uint32_t number;                    /* of the struct, in its slab; written once */
    uint16_t size_class;                /* while out: that caches know it by */
    uint16_t own_stream;                /* while free: whose index it is in */
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

/* All of the word but the number. */
static inline void
tidei_piece_set_word(struct tidei_piece *piece, uint64_t word)
{
    /* Relaxed: only who has the piece writes the word. */
    uint64_t number = atomic_load_explicit(&piece->word, memory_order_relaxed) & TIDEI_PIECE_NUMBER;

    /* Release: who finds the piece without the lock sees the rest. Pairs with the acquire in tidei_piece_claim. */
    atomic_store_explicit(&piece->word, number | word, memory_order_release);
}

static inline void
tidei_piece_set_state(struct tidei_piece *piece, uint64_t state)
{
    tidei_piece_set_word(piece, state);
}

/* The word of a piece that is out for that request, without its number. */
static inline uint64_t
tidei_piece_live(size_t bytes, size_t alignment)
{
    return (uint64_t)bytes << 16 | (uint64_t)__builtin_ctzll(alignment) << 2 | TIDEI_PIECE_LIVE;
}

/*
 * Take the piece at `pointer` that is in the state that `word` says for one's own, in `state`; false where it is not
 * there, or not in that state, or somebody else is faster. The number in the word tells whether it is still the piece
 * whose address was read.
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
