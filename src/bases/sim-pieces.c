/* Keeps pieces of addresses by address and by size; see sim-pieces.h. */
#include "src/bases/sim-pieces.h"

#include <stdlib.h>
#include <string.h>

#include "src/bases/sim-search.h"
#include "src/tables/grow.h"

void
tidei_sim_pieces_fini(struct tidei_sim_pieces *pieces)
{
    free(pieces->items);
    free(pieces->sizes);
}

bool
tidei_sim_pieces_reserve(struct tidei_sim_pieces *pieces)
{
    return tidei_grow(&pieces->items, &pieces->capacity, pieces->count, 2) &&
           tidei_grow(&pieces->sizes, &pieces->size_capacity, pieces->count, 2);
}

size_t
tidei_sim_pieces_at(const struct tidei_sim_pieces *pieces, uint64_t address)
{
    return pieces->count != 0 ? TIDEI_SIM_SEARCH(pieces->items, pieces->count, address) : 0;
}

/* The first of `sizes` with so many bytes and at least this number, or with more bytes. */
static size_t
pieces_size_at(const struct tidei_sim_pieces *pieces, uint64_t bytes, uint64_t number)
{
    size_t low = 0, high = pieces->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct tidei_sim_size *size = &pieces->sizes[middle];

        if (size->bytes < bytes || (size->bytes == bytes && size->number < number))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t
tidei_sim_pieces_fit(const struct tidei_sim_pieces *pieces, uint64_t bytes)
{
    return pieces_size_at(pieces, bytes, 0);
}

/* Add a piece as the `i`-th one by address. */
static void
pieces_add(struct tidei_sim_pieces *pieces, size_t i, uint64_t address, uint64_t bytes, uint64_t since)
{
    uint64_t number = pieces->numbers++;
    struct tidei_sim_piece *item = &pieces->items[i];
    struct tidei_sim_size *size = &pieces->sizes[pieces_size_at(pieces, bytes, number)];

    memmove(item + 1, item, (pieces->count - i) * sizeof(*item));
    memmove(size + 1, size, (size_t)(&pieces->sizes[pieces->count] - size) * sizeof(*size));
    *item = (struct tidei_sim_piece){ address, bytes, since, number };
    *size = (struct tidei_sim_size){ bytes, number, address };
    pieces->count++;
}

void
tidei_sim_pieces_remove(struct tidei_sim_pieces *pieces, size_t i)
{
    struct tidei_sim_piece *item = &pieces->items[i];
    struct tidei_sim_size *size = &pieces->sizes[pieces_size_at(pieces, item->bytes, item->number)];

    pieces->count--;
    memmove(item, item + 1, (pieces->count - i) * sizeof(*item));
    memmove(size, size + 1, (size_t)(&pieces->sizes[pieces->count] - size) * sizeof(*size));
}

size_t
tidei_sim_pieces_join(struct tidei_sim_pieces *pieces, uint64_t address, uint64_t bytes, uint64_t since)
{
    size_t i = tidei_sim_pieces_at(pieces, address);

    if (i < pieces->count && pieces->items[i].address == address + bytes) {
        bytes += pieces->items[i].bytes;
        since = since > pieces->items[i].since ? since : pieces->items[i].since;
        tidei_sim_pieces_remove(pieces, i);
    }
    if (i > 0 && pieces->items[i - 1].address + pieces->items[i - 1].bytes == address) {
        address = pieces->items[--i].address;
        bytes += pieces->items[i].bytes;
        since = since > pieces->items[i].since ? since : pieces->items[i].since;
        tidei_sim_pieces_remove(pieces, i);
    }
    pieces_add(pieces, i, address, bytes, since);
    return i;
}

void
tidei_sim_pieces_cut(struct tidei_sim_pieces *pieces, size_t i, uint64_t address, uint64_t end)
{
    struct tidei_sim_piece piece = pieces->items[i];

    tidei_sim_pieces_remove(pieces, i);
    if (address > piece.address)
        pieces_add(pieces, i++, piece.address, address - piece.address, piece.since);
    if (end < piece.address + piece.bytes)
        pieces_add(pieces, i, end, piece.address + piece.bytes - end, piece.since);
}
