/* Rows of the records that are no allocations: threads, layers, tags, marks, losses, modules, call stacks, misuse. */
#ifndef TIDEI_TRACE_DATABASE_DEFINITIONS_H
#define TIDEI_TRACE_DATABASE_DEFINITIONS_H

#include "src/trace/database/database.h"

/* Write those of the slice that is paired, and frees that fit nothing, within a transaction. */
enum tide_status tidei_database_write_definitions(struct tidei_database *database);

/* callstacks.c: write a module, a call stack, a misuse. The text is that of the record. */
enum tide_status tidei_callstacks_module(struct tidei_database *database, const struct tidei_record *record,
                                         const char *text, size_t length);
enum tide_status tidei_callstacks_stack(struct tidei_database *database, const struct tidei_record *record,
                                        const char *text, size_t length);
enum tide_status tidei_callstacks_misuse(struct tidei_database *database, const struct tidei_record *record,
                                         const char *text, size_t length);

/* callstacks.c: frames that come now and lie in this module are its own. False where host memory is short. */
bool tidei_callstacks_add_module(struct tidei_database *database, uint32_t id, uint64_t base, uint64_t size);

#endif
