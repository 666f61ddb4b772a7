/*
 * A table from live addresses to numbers that many threads use: hash tables (src/tables/map.h) with a short lock
 * each, chosen by the address. One address may stand in it several times, as NULL does.
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

/* The same for one that was taken a moment ago, which tidei_address_shards_noted does not count once more. */
bool tidei_address_shards_put_again(struct tidei_address_shards *shards, const void *address, uint32_t value);

/* How many were ever put. */
uint64_t tidei_address_shards_noted(const struct tidei_address_shards *shards);

/* Take the value of `address` out again; 0 where there is none. Takes no lock where none is noted near it. */
uint32_t tidei_address_shards_take(struct tidei_address_shards *shards, const void *address);

#endif
