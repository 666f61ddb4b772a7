/* Rows that several parts of the recorder add to, or refer to: streams and their devices, pool samples, losses. */
#ifndef TIDEI_TRACE_DATABASE_COMMON_ROWS_H
#define TIDEI_TRACE_DATABASE_COMMON_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/trace/database/database.h"

/* The device of a layer's memory; -1: none. Setting it is false where host memory is short. */
bool tidei_database_set_device(struct tidei_database *database, uint32_t layer_id, int64_t device);
int64_t tidei_database_device(const struct tidei_database *database, uint32_t layer_id);

/* The number of a stream; tidei_database_write_streams writes the rows of new ones. 0: database->no_memory is set. */
uint32_t tidei_database_stream(struct tidei_database *database, uint64_t handle, uint32_t layer_id);

enum tide_status tidei_database_write_streams(struct tidei_database *database);

/* A stream with the number that it has in the trace. False where host memory is short. */
bool tidei_database_add_stream(struct tidei_database *database, struct tidei_stream stream);

/* A pool's figures at a moment of the trace, where they differ from those before. Errors: TIDE_EIO, TIDE_ENOMEM. */
enum tide_status tidei_database_sample(struct tidei_database *database, uint64_t ns, uint32_t layer_id,
                                       uint64_t used_bytes, uint64_t reserved_bytes);

/* The transaction is in the trace, or was rolled back and what it wrote is not there. */
void tidei_database_rows_settle(struct tidei_database *database, bool committed);

#endif
