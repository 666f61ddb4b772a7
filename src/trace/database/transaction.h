/* The statements and virtual tables of the transactions that write a trace. */
#ifndef TIDEI_TRACE_DATABASE_TRANSACTION_H
#define TIDEI_TRACE_DATABASE_TRANSACTION_H

#include "src/trace/database/database.h"

/* Register the virtual tables with the connection. Returns an SQLite result code. */
int tidei_database_register(struct tidei_database *database);

/* Prepare all statements; the schema must exist. Errors: TIDE_EIO. */
enum tide_status tidei_database_prepare(struct tidei_database *database);

#endif
