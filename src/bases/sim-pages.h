/*
 * Addresses for `sim(model=vmm)`: blocks of whole pages that lie side by side in one range.
 *
 * A block lies where its thread wishes it (src/resource/place.h), if those addresses are free; else behind the highest
 * block that ever was. Finding a block takes a binary search among the blocks, in the order of their addresses.
 */
#ifndef TIDEI_BASES_SIM_PAGES_H
#define TIDEI_BASES_SIM_PAGES_H

#include "src/bases/sim-handles.h"
#include "src/sync/lock.h"

struct tidei_sim_block {
    uint64_t address, bytes;
    uint64_t word;   /* of the base, not 0; 0: the block was freed */
    uint32_t handle; /* the first of the handles that would be mapped there */
};

struct tidei_sim_pages {
    struct tidei_lock lock;         /* guards the fields below */
    struct tidei_sim_block *blocks; /* owns; by address */
    size_t count;                   /* live and freed blocks */
    size_t freed;
    size_t capacity;
    uint64_t page_bytes;
    uint64_t begin; /* of the range */
    uint64_t top;   /* the end of the highest block that ever was */
    struct tidei_sim_handles handles;
};

void tidei_sim_pages_init(struct tidei_sim_pages *pages, uint64_t begin, uint64_t page_bytes,
                          struct tidei_sim_tally *tally);
void tidei_sim_pages_fini(struct tidei_sim_pages *pages);

/* Place a block of `bytes`, whole pages, whose word is `word`. Errors: TIDE_ECAPACITY, TIDE_ENOMEM. */
enum tide_status tidei_sim_pages_take(struct tidei_sim_pages *pages, uint64_t bytes, uint64_t alignment, uint64_t word,
                                      tide_stream stream, void **out);

/* Free the block at `pointer`. Errors: TIDE_EPOINTER (there is none), TIDE_EMISMATCH (another word), without text. */
enum tide_status tidei_sim_pages_give(struct tidei_sim_pages *pages, const void *pointer, uint64_t word,
                                      tide_stream stream);

/* Count what the base would release of its free memory, so that it holds `keep_bytes`. */
void tidei_sim_pages_trim(struct tidei_sim_pages *pages, uint64_t keep_bytes);

#endif
