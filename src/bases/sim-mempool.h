/*
 * Addresses for `sim(model=driver)`: a stream-ordered pool of the driver, with a release threshold of 0.
 *
 * The pool has one range of addresses, and memory in units of 32 MiB, which are mapped where they are needed. Requests
 * are rounded up to 512 B. What is free is kept in sets of pieces, in each of which pieces that touch are one. A freed
 * block goes to the set of its stream, and waits there for the work before its free. The pool itself has all else, of
 * which the end of the addresses is the last piece, without end. A request gets the front of the smallest piece that
 * suffices, of equal ones the first that came into the set. It is looked for
 *
 *  1. in the set of its stream;
 *  2. in the pool, among pieces that have all their memory, as the last one never has;
 *  3. in the sets of other streams: where an event has ordered the work of its stream behind the free, and then where
 *     the work is done;
 *  4. in the pool, to which all pieces of all streams go then whose work is done, those freed last first. Units that
 *     the place lacks are taken out of other free pieces, from the highest addresses on: they are mapped here in place
 *     of there. What is still missing is taken of the device.
 *
 * Where the host waits for a stream, or for all, the pieces of its set go to the pool. If there were any, the device
 * gets all units that are free whole. A trim gives units back of what is in the pool, and looks at no set.
 *
 * An H200 (driver 580.159) has placed each request of 957 of 960 random sequences so, 65,000 in all, and reserved as
 * much behind each call; and so it did in replays of programs. See bench/README.md ("The model of the driver's pool").
 *
 * When work is done only the device knows. Here it is done at once, as in a replay, whose streams have none. Where
 * streams are behind, pieces stay in the sets of streams, and the device has to give what is missing.
 */
#ifndef TIDEI_BASES_SIM_MEMPOOL_H
#define TIDEI_BASES_SIM_MEMPOOL_H

#include "src/bases/sim-lives.h"
#include "src/bases/sim-pieces.h"
#include "src/bases/sim-tally.h"
#include "src/resource/await.h"
#include "src/sync/lock.h"

/* What the pool takes of the device at a time. */
#define TIDEI_SIM_MEMPOOL_UNIT (UINT64_C(32) << 20)

/* Orders are known between so many streams, those that came first. */
#define TIDEI_SIM_ORDERED 64

struct tidei_sim_stream {
    tide_stream stream;
    size_t number;                      /* of those that came before it */
    struct tidei_sim_pieces pending;    /* `since` is the call that freed the latest block */
    uint64_t behind[TIDEI_SIM_ORDERED]; /* by number: what that stream freed up to that call comes before its work */
};

struct tidei_sim_mempool {
    struct tidei_lock lock;            /* guards the fields below */
    struct tidei_sim_stream **streams; /* owns; in the order of their handles */
    size_t stream_count, stream_capacity;
    uint64_t begin;                /* of the addresses; 0: they are in the pool */
    struct tidei_sim_pieces pool;  /* what is free, and no stream's; the last one ends with the addresses */
    struct tidei_sim_pieces holes; /* of free addresses: whole units that have no memory */
    struct tidei_sim_lives lives;  /* bytes are rounded up */
    struct tidei_sim_piece *done;  /* owns; while pieces go to the pool */
    size_t done_capacity;
    uint64_t calls;                  /* so far */
    _Atomic uint64_t reserved_bytes; /* of units; written under the lock */
    struct tidei_sim_tally *tally;   /* borrowed */
};

/* `begin`: of the addresses, a multiple of 32 MiB, not 0. */
void tidei_sim_mempool_init(struct tidei_sim_mempool *pool, uint64_t begin, struct tidei_sim_tally *tally);
void tidei_sim_mempool_fini(struct tidei_sim_mempool *pool);

/*
 * Place a block whose word is `word`, of at most 2^50 bytes, without having more than `capacity_bytes` reserved. It
 * begins at a multiple of 512. Errors: TIDE_ECAPACITY (without text; *missing is what would have had to be reserved),
 * TIDE_ENOMEM.
 */
enum tide_status tidei_sim_mempool_take(struct tidei_sim_mempool *pool, uint64_t bytes, uint64_t word,
                                        tide_stream stream, uint64_t capacity_bytes, uint64_t *missing, void **out);

/* Free the block at `pointer`. Errors: TIDE_EPOINTER (there is none), TIDE_EMISMATCH (another word), TIDE_ENOMEM. */
enum tide_status tidei_sim_mempool_give(struct tidei_sim_mempool *pool, const void *pointer, uint64_t word,
                                        tide_stream stream);

/* `later` waits for what has been submitted to `earlier`. */
void tidei_sim_mempool_order(struct tidei_sim_mempool *pool, tide_stream earlier, tide_stream later);

/* The host waits for the streams of a wish, or for all streams. */
void tidei_sim_mempool_await(struct tidei_sim_mempool *pool, struct tidei_await *await);
void tidei_sim_mempool_wait(struct tidei_sim_mempool *pool);

/* Give units that are free whole back until `keep_bytes` are reserved. */
void tidei_sim_mempool_trim(struct tidei_sim_mempool *pool, uint64_t keep_bytes);

#endif
