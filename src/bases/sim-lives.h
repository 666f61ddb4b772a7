/* The live blocks of a model of `sim` that cuts requests out of pieces. No locking. */
#ifndef TIDEI_BASES_SIM_LIVES_H
#define TIDEI_BASES_SIM_LIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "src/tables/map.h"

struct tidei_sim_life {
    uint64_t address, bytes;
    uint64_t word; /* of the base, not 0; 0: no block, and `bytes` is the next such entry */
};

struct tidei_sim_lives {
    struct tidei_sim_life *items; /* owns */
    size_t count, capacity;
    size_t unused;           /* the entry of the block that was freed last; `count`: none */
    struct tidei_map places; /* of the live blocks in `items`, by address */
};

void tidei_sim_lives_fini(struct tidei_sim_lives *lives);

/* Enter a block. False: no memory, or too many blocks. */
bool tidei_sim_lives_add(struct tidei_sim_lives *lives, uint64_t address, uint64_t bytes, uint64_t word);

/* Find a block. Errors: TIDE_EPOINTER (there is none), TIDE_EMISMATCH (another word), without text. */
enum tide_status tidei_sim_lives_find(struct tidei_sim_lives *lives, const void *pointer, uint64_t word,
                                      struct tidei_sim_life *out);

/* Take out a block that is there. */
void tidei_sim_lives_remove(struct tidei_sim_lives *lives, const struct tidei_sim_life *life);

#endif
