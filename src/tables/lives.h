/*
 * Finds for each free the allocation that it ends: live allocations by address and layer, each a number of the caller's
 * that is not 0. The recorder, the import of other programs' records and the replay of CSV all pair by these rules:
 *
 * - A free ends an allocation of its own address and layer. Where nothing lives there, the free is unmatched.
 * - Allocations of 0 bytes have no address, and any number of them may live: of a layer's, the latest is freed first.
 * - An address that is allocated again while it lives has two allocations. Where events have times, as in a recording,
 *   tidei_lives_add keeps both, and the caller compares the two for each free. Where there is only an order, the free
 *   of the earlier one is missing: tidei_lives_replace puts the later one in its place.
 *
 * Not thread-safe.
 */
#ifndef TIDEI_TABLES_LIVES_H
#define TIDEI_TABLES_LIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/tables/map.h"

/* A live allocation of 0 bytes. */
struct tidei_null_life {
    uint32_t id; /* in the place of an address */
    uint16_t layer;
};

/* All zeros has none. Where the addresses come from a file, tidei_map_draw_key(&lives->by_address) comes first. */
struct tidei_lives {
    struct tidei_map by_address;
    struct tidei_map by_null_id;
    struct tidei_null_life *nulls; /* owns; in the order in which they began */
    size_t null_count;
    size_t null_capacity;
    uint32_t last_null_id;
};

void tidei_lives_free(struct tidei_lives *lives);

/* Add an allocation. One of 0 bytes gets the next `last_null_id`. False where host memory is short. */
bool tidei_lives_add(struct tidei_lives *lives, uint64_t address, uint16_t layer, uint32_t number);

/*
 * Add an allocation in the place of an earlier one of its address; *earlier is the number of that, or 0. False where
 * host memory is short.
 */
bool tidei_lives_replace(struct tidei_lives *lives, uint64_t address, uint16_t layer, uint32_t number,
                         uint32_t *earlier);

/* Whether something lives at the address; false for address 0. */
bool tidei_lives_has(const struct tidei_lives *lives, uint64_t address, uint16_t layer);

/* Compares two allocations of one address: whether a free belongs to `one` rather than to `other`. */
typedef bool (*tidei_lives_better)(const void *context, uint32_t one, uint32_t other);

/*
 * Take out the allocation that a free ends and return its number; 0: there is none. NULL in the place of `is_better`
 * where no address has two.
 */
uint32_t tidei_lives_take(struct tidei_lives *lives, uint64_t address, uint16_t layer, tidei_lives_better is_better,
                          const void *context);

/* Give an allocation, at an address or of 0 bytes and with that id, another number. */
void tidei_lives_renumber(struct tidei_lives *lives, uint64_t address, uint32_t null_id, uint16_t layer,
                          uint32_t number, uint32_t now);

#endif
