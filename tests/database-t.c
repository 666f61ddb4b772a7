/* Tests that a rolled-back transaction leaves nothing behind, neither in the trace nor in the recorder's memory. */
#include <stdlib.h>

#include "tap.h"
#include "trace.h"
#include "src/trace/database/database.h"

int
main(void)
{
    const char *path = scratch("rolled-back.db");
    struct tidei_pool_sample sample = { .ns = 1000, .layer_id = 2, .used_bytes = 64, .reserved_bytes = 128 };
    struct tidei_pair pair = { .next_id = 1 };
    struct tidei_database *database;

    plan(7);
    is_i64(tidei_database_create(path, 0600, &database), TIDE_OK, "a trace is created");
    database->pair = &pair;
    database->no_memory = true;
    is_i64(tidei_database_write(database, 1, 0, &sample, 1), TIDE_ENOMEM, "a transaction fails for want of memory");
    is_i64(sql_number(path, "SELECT count(*) FROM pool_sample"), 0,
           "a transaction that failed leaves no sample in the trace");
    database->no_memory = false;
    is_i64(tidei_database_write(database, 1, 0, &sample, 1), TIDE_OK, "the failed transaction can be written again");
    is_i64(sql_number(path, "SELECT count(*) FROM pool_sample"), 1, "the repeated transaction writes the sample");
    sample.ns = 2000;
    is_i64(tidei_database_write(database, 2, 0, &sample, 1), TIDE_OK,
           "a transaction with the same figures as the one before is written");
    is_i64(sql_number(path, "SELECT count(*) FROM pool_sample"), 1,
           "a sample with the same figures as the one before adds no row");
    tidei_database_close(database);
    return done();
}
