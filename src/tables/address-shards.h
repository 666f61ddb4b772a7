/*
 * A table from live addresses to numbers that many threads use at once. It consists of 32 maps (src/tables/map.h), each
 * with a lock of its own; the address chooses the map. One address may stand in the table several times, as NULL does.
 */
#ifndef TIDEI_TABLES_ADDRESS_SHARDS_H
#define TIDEI_TABLES_ADDRESS_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/status.h>

#define TIDEI_ADDRESS_SHARDS 32

struct tidei_address_shards;

/* Errors: TIDE_ENOMEM, with the error text set. */
enum tide_status tidei_address_shards_create(struct tidei_address_shards **out);

/* NULL is allowed. */
void tidei_address_shards_destroy(struct tidei_address_shards *shards);

/* Note `value`, not 0, for `address`. False where host memory is short. */
bool tidei_address_shards_put(struct tidei_address_shards *shards, const void *address, uint32_t value);

/* Put an address back that was taken a moment ago: tidei_address_shards_noted does not count it again. */
bool tidei_address_shards_put_again(struct tidei_address_shards *shards, const void *address, uint32_t value);

/* How many addresses were ever put. */
uint64_t tidei_address_shards_noted(const struct tidei_address_shards *shards);

/* Take the value of `address` out again; 0 where there is none. Takes no lock while the address's map is empty. */
uint32_t tidei_address_shards_take(struct tidei_address_shards *shards, const void *address);

#endif
