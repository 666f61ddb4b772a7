/*
 * A set of pieces of addresses, for the models of `sim`, by address and by size. Of pieces of one size the one that was
 * added first is the first. A piece that changes is a new one.
 *
 * No locking. Adding or taking out a piece moves the entries behind it, and finds its place in two binary searches.
 */
#ifndef TIDEI_BASES_SIM_PIECES_H
#define TIDEI_BASES_SIM_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tidei_sim_piece {
    uint64_t address, bytes;
    uint64_t since;  /* of the caller; of pieces that have joined, the latest */
    uint64_t number; /* pieces are numbered as they are added */
};

/* A piece, in the order of sizes. */
struct tidei_sim_size {
    uint64_t bytes, number;
    uint64_t address;
};

/* A zeroed struct is an empty set. */
struct tidei_sim_pieces {
    struct tidei_sim_piece *items; /* owns; by address */
    struct tidei_sim_size *sizes;  /* owns; by size, and by number */
    size_t count;
    size_t capacity, size_capacity;
    uint64_t numbers; /* given so far */
};

void tidei_sim_pieces_fini(struct tidei_sim_pieces *pieces);

/* Make room for two more pieces than there are, as much as a call below needs. False: no memory. */
bool tidei_sim_pieces_reserve(struct tidei_sim_pieces *pieces);

/* The first piece at or behind the address; or the number of pieces. */
size_t tidei_sim_pieces_at(const struct tidei_sim_pieces *pieces, uint64_t address);

/* The first of `sizes` that has so many bytes; or the number of pieces. */
size_t tidei_sim_pieces_fit(const struct tidei_sim_pieces *pieces, uint64_t bytes);

/* Add a piece that overlaps none, and make it one with those that it touches. There is room. Returns its place. */
size_t tidei_sim_pieces_join(struct tidei_sim_pieces *pieces, uint64_t address, uint64_t bytes, uint64_t since);

/* Take [address, end) out of the piece at `i`, which has it. There is room. */
void tidei_sim_pieces_cut(struct tidei_sim_pieces *pieces, size_t i, uint64_t address, uint64_t end);

/* Take out the piece at `i`. */
void tidei_sim_pieces_remove(struct tidei_sim_pieces *pieces, size_t i);

#endif
