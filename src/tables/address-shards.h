/*
 * A concurrent table from live addresses to numbers. It consists of 32 maps (src/tables/map.h), each with its own lock;
 * the address selects the map. An address may be in the table several times, as NULL may.
 */
#ifndef TIDEI_TABLES_ADDRESS_SHARDS_H
#define TIDEI_TABLES_ADDRESS_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/status.h>

#define TIDEI_ADDRESS_SHARDS 32

struct tidei_address_shards;

/* Errors: TIDE_ENOMEM, with the error text set, which begins with `subject`. */
enum tide_status tidei_address_shards_create(const char *subject, struct tidei_address_shards **out);

/* NULL is allowed. */
void tidei_address_shards_destroy(struct tidei_address_shards *shards);

/* Add `value`, not 0, for `address`. False without host memory. */
bool tidei_address_shards_put(struct tidei_address_shards *shards, const void *address, uint32_t value);

/* Remove `address` and return its value; 0 if it is not there. Takes no lock while the address's map is empty. */
uint32_t tidei_address_shards_take(struct tidei_address_shards *shards, const void *address);

#endif
