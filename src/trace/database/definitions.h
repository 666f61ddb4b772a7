/* Writes rows for all records but events: threads, layers, tags, marks, losses, modules, call stacks, misuse. */
#ifndef TIDEI_TRACE_DATABASE_DEFINITIONS_H
#define TIDEI_TRACE_DATABASE_DEFINITIONS_H

#include "src/trace/database/database.h"

/* Write the rows of the paired slice, and of its unmatched frees, within a transaction. */
enum tide_status tidei_database_write_definitions(struct tidei_database *database);

/* callstacks.c: write a module, a call stack, or a misuse. `text` is the record's text. */
enum tide_status tidei_callstacks_module(struct tidei_database *database, const struct tidei_record *record,
                                         const char *text, size_t length);
enum tide_status tidei_callstacks_stack(struct tidei_database *database, const struct tidei_record *record,
                                        const char *text, size_t length);
enum tide_status tidei_callstacks_misuse(struct tidei_database *database, const struct tidei_record *record,
                                         const char *text, size_t length);

/* callstacks.c: add a module, to which later frames within it belong. False without host memory. */
bool tidei_callstacks_add_module(struct tidei_database *database, uint32_t id, uint64_t base, uint64_t size);

#endif
