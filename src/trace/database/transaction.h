/* The statements and virtual tables of the transactions that write a trace. */
#ifndef TIDEI_TRACE_DATABASE_TRANSACTION_H
#define TIDEI_TRACE_DATABASE_TRANSACTION_H

#include "src/trace/database/database.h"

/* Make the virtual tables known to the connection. An SQLite result code. */
int tidei_database_register(struct tidei_database *database);

/* Prepare every statement, once the schema is there. Errors: TIDE_EIO. */
enum tide_status tidei_database_prepare(struct tidei_database *database);

#endif
