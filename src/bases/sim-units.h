/*
 * Addresses for `sim(model=cuda)`: units of 2 MiB of physical memory, as cuMemAlloc takes them of the device. Requests
 * of up to 1 MiB share a unit, in the first free piece that suffices; a larger one has units of its own. A unit goes
 * back as soon as nothing in it is in use.
 *
 * A small request takes time in proportion to the free pieces.
 */
#ifndef TIDEI_BASES_SIM_UNITS_H
#define TIDEI_BASES_SIM_UNITS_H

#include "src/bases/sim-lives.h"
#include "src/bases/sim-pieces.h"
#include "src/bases/sim-tally.h"
#include "src/sync/lock.h"

struct tidei_sim_units {
    struct tidei_lock lock;          /* guards the fields below */
    struct tidei_sim_pieces pieces;  /* what is free of units that are in use */
    struct tidei_sim_lives lives;    /* bytes are rounded up */
    uint64_t end;                    /* of all addresses so far */
    _Atomic uint64_t reserved_bytes; /* of units; written under the lock */
    struct tidei_sim_tally *tally;   /* borrowed */
};

void tidei_sim_units_init(struct tidei_sim_units *units, uint64_t begin, struct tidei_sim_tally *tally);
void tidei_sim_units_fini(struct tidei_sim_units *units);

/*
 * Place a block whose word is `word`, of at most 2^50 bytes, without having more than `capacity_bytes` reserved. It
 * begins at a multiple of 512. Errors: TIDE_ECAPACITY (without text; *missing is what would have had to be reserved),
 * TIDE_ENOMEM.
 */
enum tide_status tidei_sim_units_take(struct tidei_sim_units *units, uint64_t bytes, uint64_t word,
                                      uint64_t capacity_bytes, uint64_t *missing, void **out);

/* Free the block at `pointer`. Errors: TIDE_EPOINTER (there is none), TIDE_EMISMATCH (another word), without text. */
enum tide_status tidei_sim_units_give(struct tidei_sim_units *units, const void *pointer, uint64_t word);

#endif
