/*
 * Addresses for `sim(model=driver)` and `sim(model=cuda)`: physical memory comes in units, and requests are cut out of
 * them.
 *
 * driver: units of 32 MiB, one behind the other, as a pool of the driver reserves them. Free pieces that touch are one,
 * also across units, and serve any request at once. Of those that suffice it is the one that became free last; a block
 * that is freed beside a free piece joins it, and does not make it a later one. What is free stays reserved until it is
 * trimmed, the capacity is reached, or units are missing: then those are reserved elsewhere. But none goes back while
 * work that was submitted before the free may still use it, and no memory is added behind a last piece of which that is
 * true, or that does not begin at a page of 2 MiB. A device knows when its streams are done, and the driver only what
 * the host has waited for. Here work has passed once somebody waits (await.h, or an order behind all streams) or has
 * looked before, else after the next few calls.
 *
 * An H200 (driver 580.159) showed the units, the joins and what goes back when, on a stream kept busy and on one that
 * had passed. Which piece serves a request, and the page, were found by trying rules on 30 replays over the device
 * (bench/README.md, "The model of the driver's pool"). The number of calls was fitted before that, with the first piece
 * that suffices, to six programs under PyTorch below a `pool` that did not wait. In MiB, and in brackets what their
 * runs had reserved: 8,480 (8,064), 20,288 (20,608), 4,960 (4,832), 1,760 (1,760), 5,824 (5,472), 11,424 (11,296):
 * -1.6 to +6.4%. With 1 call -18.8 to 0.0%, with 16 +2.6 to +13.5%. A `pool` that waits has the same at any number.
 *
 * cuda: requests of up to 1 MiB share units of 2 MiB, the first free piece that suffices; a larger one has units of its
 * own, as cuMemAlloc hands them out. A unit goes back as soon as nothing in it is in use.
 *
 * A request takes time in proportion to the free pieces.
 */
#ifndef TIDEI_BASES_SIM_UNITS_H
#define TIDEI_BASES_SIM_UNITS_H

#include "src/bases/sim-tally.h"
#include "src/resource/await.h"
#include "src/sync/lock.h"
#include "src/tables/map.h"

struct tidei_sim_rules {
    uint64_t unit_bytes;
    uint64_t large_bytes; /* requests from here on are rounded up to large_step */
    uint64_t large_step;  /* a power of two */
    bool keeps;           /* what is free, for any later request; else it goes back, and large requests share no unit */
};

/* A free piece. */
struct tidei_sim_piece {
    uint64_t address, bytes;
    uint64_t since; /* the call since which there is a free piece here, whatever has joined it */
};

/* A live block. */
struct tidei_sim_cut {
    uint64_t address, bytes;
    uint64_t word; /* of the base, not 0; 0: no block, and `bytes` is the next such entry */
};

/* Calls after which the work has passed that used what was freed, where nobody has waited for it. */
#define TIDEI_SIM_LATE 8

struct tidei_sim_units {
    struct tidei_lock lock; /* guards the fields below */
    struct tidei_sim_rules rules;
    struct tidei_sim_piece *pieces; /* owns; by address; none touches the next, but for new units */
    size_t piece_count, piece_capacity;
    struct tidei_sim_cut *cuts; /* owns */
    size_t cut_count, cut_capacity;
    uint64_t cut_free;                           /* the entry freed last; UINT64_MAX: none */
    struct tidei_map places;                     /* of the live blocks in `cuts`, by address */
    uint64_t end;                                /* of all addresses so far */
    uint64_t calls, passed;                      /* the work of those before the call `passed` has passed */
    uint64_t looked;                             /* the call at the last look; see tidei_sim_units_await */
    struct tidei_sim_piece late[TIDEI_SIM_LATE]; /* what the latest calls freed */
    _Atomic uint64_t reserved_bytes;             /* of units; written under the lock */
    uint64_t live_bytes;                         /* of blocks, rounded up */
    uint64_t idle_bytes; /* of `driver`: units that are reserved, and that the device has back; see units_idle */
    struct tidei_sim_tally *tally; /* borrowed */
};

void tidei_sim_units_init(struct tidei_sim_units *units, uint64_t begin, struct tidei_sim_rules rules,
                          struct tidei_sim_tally *tally);
void tidei_sim_units_fini(struct tidei_sim_units *units);

/*
 * Place a block whose word is `word`, without having more than `capacity_bytes` reserved. `bytes` and `alignment` are
 * at most 2^50. Errors: TIDE_ECAPACITY (without text; *missing is what would have had to be reserved), TIDE_ENOMEM.
 */
enum tide_status tidei_sim_units_take(struct tidei_sim_units *units, uint64_t bytes, uint64_t alignment, uint64_t word,
                                      uint64_t capacity_bytes, uint64_t *missing, void **out);

/* Free the block at `pointer`. Errors: TIDE_EPOINTER (there is none), TIDE_EMISMATCH (another word), without text. */
enum tide_status tidei_sim_units_give(struct tidei_sim_units *units, const void *pointer, uint64_t word);

/*
 * Do what a wish asks: the work of all streams has passed for one that waits, and for one that looks once what was
 * submitted before the last look.
 */
void tidei_sim_units_await(struct tidei_sim_units *units, struct tidei_await *await);

/* The work that used what was freed so far has passed: whoever uses the memory has waited for it. */
void tidei_sim_units_pass(struct tidei_sim_units *units);

/* Give units that are free back until `keep_bytes` are reserved. */
void tidei_sim_units_trim(struct tidei_sim_units *units, uint64_t keep_bytes);

#endif
