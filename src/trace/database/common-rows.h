/* Writes the rows of all tables but those of bulk.h. Except for the load, everything here is part of a transaction. */
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

void tidei_database_write_streams(struct tidei_database *database);

/* Add a stream that the trace already has, with its number. False without host memory. */
bool tidei_database_add_stream(struct tidei_database *database, struct tidei_stream stream);

/* Write a layer's figures, whose `ns` is of the trace, if they differ from its previous ones. */
void tidei_database_sample(struct tidei_database *database, const struct tidei_pool_sample *sample);

/* Write the samples of devices, for which there are few, as they are. */
void tidei_database_write_device_samples(struct tidei_database *database);

/* Write what layers count; a new value replaces the one before. */
void tidei_database_write_layer_counts(struct tidei_database *database);

/* After a transaction: note whether its rows were committed or rolled back. */
void tidei_database_rows_ended(struct tidei_database *database, bool committed);

/* definitions.c: write the rows of the paired slice that are not events, and of its unmatched frees. */
void tidei_database_write_definitions(struct tidei_database *database);

/* callstacks.c: write a module, a line of source, a call stack, or a misuse. `text` is the record's text. */
void tidei_callstacks_module(struct tidei_database *database, const struct tidei_record *record, const char *text,
                             size_t length);
void tidei_callstacks_source(struct tidei_database *database, const struct tidei_record *record, const char *text,
                             size_t length);
void tidei_callstacks_stack(struct tidei_database *database, const struct tidei_record *record, const char *text,
                            size_t length);
void tidei_callstacks_misuse(struct tidei_database *database, const struct tidei_record *record, const char *text,
                             size_t length);

/* callstacks.c: add a module, to which later frames within it belong. False without host memory. */
bool tidei_callstacks_add_module(struct tidei_database *database, uint32_t id, uint64_t base, uint64_t size);

#endif
