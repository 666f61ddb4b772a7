/*
 * Finds for each free the allocation that it ends. The table has the live allocations by address and layer; each is a
 * number, not 0, of the caller's choice. The recorder, the import of other formats and the replay of CSV share it:
 *
 * - A free ends an allocation of its own address and layer. Without one, the free is unmatched.
 * - Allocations of 0 bytes have no address, and any number of them may live. Within a layer the latest is freed first.
 * - When an address is allocated again while it lives, it has two allocations. If events have times, as in a recording,
 *   tidei_lives_add keeps both, and the caller compares the two at each free. If events have only an order, the free of
 *   the earlier allocation is missing from the input: tidei_lives_replace puts the later allocation in its place.
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
    uint32_t number;
    uint32_t before; /* the id of the one before it of the same layer, or, where it is free, of the next free one */
};

/* Initialize to zeros. If the addresses come from a file, call tidei_map_draw_key(&lives->by_address) first. */
struct tidei_lives {
    struct tidei_map by_address;
    struct tidei_map latest_nulls; /* of each layer that has any: the id of the latest, by the layer */
    struct tidei_null_life *nulls; /* owns; by id - 1. An id stands in the place of an address while it lives */
    size_t null_count;             /* live and free */
    size_t null_capacity;
    uint32_t free_null;    /* id; 0: none */
    uint32_t last_null_id; /* of the allocation of 0 bytes that was added last */
};

void tidei_lives_free(struct tidei_lives *lives);

/* Add an allocation. The id of one of 0 bytes is then in `last_null_id`. False where host memory is short. */
bool tidei_lives_add(struct tidei_lives *lives, uint64_t address, uint16_t layer, uint32_t number);

/*
 * Add an allocation, replacing an earlier one at its address; *earlier is the number of the earlier one, or 0. False
 * without host memory.
 */
bool tidei_lives_replace(struct tidei_lives *lives, uint64_t address, uint16_t layer, uint32_t number,
                         uint32_t *earlier);

/* Whether an allocation lives at the address; false for address 0. */
bool tidei_lives_has(const struct tidei_lives *lives, uint64_t address, uint16_t layer);

/* Compares two allocations at one address: true if a free belongs to `one` rather than to `other`. */
typedef bool (*tidei_lives_better)(const void *context, uint32_t one, uint32_t other);

/*
 * Remove the allocation that a free ends and return its number; 0 if there is none. `is_better` may be NULL if no
 * address can have two allocations.
 */
uint32_t tidei_lives_take(struct tidei_lives *lives, uint64_t address, uint16_t layer, tidei_lives_better is_better,
                          const void *context);

/* Change an allocation's number to `now`. Allocations of 0 bytes are identified by `null_id`, others by address. */
void tidei_lives_renumber(struct tidei_lives *lives, uint64_t address, uint32_t null_id, uint16_t layer,
                          uint32_t number, uint32_t now);

#endif
