/* Rows that several parts of the database write or refer to: streams and their devices, pool samples, losses. */
#ifndef TIDEI_TRACE_DATABASE_COMMON_ROWS_H
#define TIDEI_TRACE_DATABASE_COMMON_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/trace/database/database.h"

/* Set or get the device of a layer's memory; -1: none. Setting returns false without host memory. */
bool tidei_database_set_device(struct tidei_database *database, uint32_t layer_id, int64_t device);
int64_t tidei_database_device(const struct tidei_database *database, uint32_t layer_id);

/* The number of a stream; tidei_database_write_streams writes new ones. 0 without host memory (sets no_memory). */
uint32_t tidei_database_stream(struct tidei_database *database, uint64_t handle, uint32_t layer_id);

enum tide_status tidei_database_write_streams(struct tidei_database *database);

/* Add a stream that the trace already has, with its number. False without host memory. */
bool tidei_database_add_stream(struct tidei_database *database, struct tidei_stream stream);

/* Write a pool's figures if they differ from its previous ones. Errors: TIDE_EIO, TIDE_ENOMEM. */
enum tide_status tidei_database_sample(struct tidei_database *database, uint64_t ns, uint32_t layer_id,
                                       uint64_t used_bytes, uint64_t reserved_bytes);

/* After a transaction: note whether its rows were committed or rolled back. */
void tidei_database_rows_settle(struct tidei_database *database, bool committed);

#endif
